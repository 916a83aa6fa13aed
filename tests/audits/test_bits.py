"""Bit by bit."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.audits import audit_bits, audit_reports
from tests.audits import textbook

N = 50_000


def reports(x, change=lambda bits, _: bits, categories=8):
    rng = np.random.default_rng()
    bits = np.unpackbits(textbook.unary(np.full(N, x), rng, 1.0, categories), axis=1)
    return np.packbits(change(bits, x), axis=1)


def never_cleared(bits, x):
    """The true category's bit is always set."""
    bits[:, x] = 1
    return bits


def last_untouched(bits, x):
    """The last bit is sent as it is."""
    bits[:, -1] = x == bits.shape[1] - 1
    return bits


def test_a_right_one():
    """The two bits that differ lose half of epsilon each, the others nothing; together they keep
    epsilon, and come close to it.
    """
    found = audit_bits(reports(1), reports(7), claimed=1.0, alpha=1e-6)
    assert not found.violated
    assert 0.4 < found.worst.epsilon_lower <= 0.5
    assert 0.8 < found.composed.epsilon_lower <= 1.0
    assert found.worst_bit in (1, 7)
    assert [bit.epsilon_lower > 0.1 for bit in found.bits] == [i in (1, 7) for i in range(8)]
    assert found.constant == ()


@pytest.mark.parametrize(("change", "bit"), [(never_cleared, (1, 7)), (last_untouched, (7,))])
def test_a_broken_one(change, bit):
    """The bit is named, and the black box finds it too."""
    first, second = (reports(x, change) for x in (1, 7))
    found = audit_bits(first, second, claimed=1.0)
    assert found.violated
    assert found.worst_bit in bit
    assert found.lines()[0].startswith(f"bit {found.worst_bit}: epsilon is at least ")
    assert found.lines()[0].endswith("VIOLATED")
    assert audit_reports(first, second, claimed=1.0).violated


def test_too_likely_in_all_bits_a_little():
    """Each bit keeps the claim, all together do not."""
    rng = np.random.default_rng()
    found = audit_bits(
        rng.random((N, 16)) < 0.55, rng.random((N, 16)) < 0.45, claimed=1.0, alpha=1e-6
    )
    assert not found.worst.violated
    assert found.composed.violated
    assert found.violated
    assert found.to_dict()["violated"] is True


def test_unused_bits_are_named():
    """Ten categories need two bytes; six bits of them are always 0."""
    found = audit_bits(
        reports(0, categories=10), reports(9, categories=10), claimed=1.0, alpha=1e-6
    )
    assert found.constant == tuple(range(10, 16))
    assert not found.violated


def test_plain_columns_and_nonsense():
    """0 and 1 in any dtype; nothing else."""
    rng = np.random.default_rng()
    both = (rng.random((2, 1000, 3)) < 0.5).astype(float)
    assert not audit_bits(*both, claimed=1.0, alpha=1e-6).violated
    with pytest.raises(ValueError, match="packed bits"):
        audit_bits(both[0] * 2, both[1])
    with pytest.raises(ValueError, match="one kind"):
        audit_bits(both[0][:, :2], both[1])
    with pytest.raises(ValueError, match="at least 16"):
        audit_bits(both[0][:3], both[1])


WIDE = [name for name in ("sue", "oue") if name in lk.MECHANISMS]


@pytest.mark.parametrize("name", WIDE)
def test_ours(name):
    """Unary encodings of ours, first and last category."""
    m = lk.mechanism(name, epsilon=1.0, categories=20)
    first, second = (
        partial(m.perturb, randomness=lk.randomness.system())(np.full(N, x)) for x in (0, 19)
    )
    found = audit_bits(first, second, claimed=1.0, alpha=1e-6)
    assert not found.violated
    assert found.composed.epsilon_lower > 0.6
