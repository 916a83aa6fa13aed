"""Mechanisms that report packed bits: their formulas, what they refuse, and their broken twins."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from math import comb, exp, log

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.checks import CheckFailure, check_mechanism
from ldp_kafka.checks.mechanism import MECHANISM_CHECKS
from ldp_kafka.checks.trial import SAMPLES
from ldp_kafka.mechanisms.base import exp_below
from ldp_kafka.mechanisms.bits import check_packed, count, pack, unpack
from tests.contract.bit_mutants import BIT_MUTANTS, Oue, Subset, Sue

NAMES = ("oue", "sue", "subset_selection")
EPSILONS = (0.01, 0.05, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0)


def build(name, epsilon=1.0, categories=9):
    return lk.mechanism(name, epsilon=epsilon, categories=categories)


@pytest.mark.parametrize("kind", BIT_MUTANTS, ids=lambda kind: kind.__name__)
def test_broken_twin_is_found(kind):
    """By the check meant for it."""
    with pytest.raises(CheckFailure) as caught:
        check_mechanism(kind, samples=SAMPLES if BIT_MUTANTS[kind] == "sampler_follows_law" else 2**14)
    assert BIT_MUTANTS[kind] in caught.value.checks


@pytest.mark.parametrize("kind", [Oue, Sue, Subset])
def test_what_they_are_twins_of_passes(kind):
    check_mechanism(kind)


def test_twins_are_enough():
    assert all(count >= 6 for count in Counter(base for kind in BIT_MUTANTS for base in (Oue, Sue, Subset) if issubclass(kind, base)).values())
    assert set(BIT_MUTANTS.values()) <= set(MECHANISM_CHECKS)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("categories", [2, 4, 10, 100, 1000])
def test_certificates_spend_epsilon_and_no_more(name, categories):
    for epsilon in EPSILONS:
        certificate = build(name, epsilon, categories).certificate()
        assert type(certificate.ratio) is Fraction
        assert certificate.ratio <= exp_below(epsilon)
        assert certificate.epsilon_effective >= 0.995 * epsilon


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_laws_are_those_of_the_papers(epsilon):
    """Wang et al., USENIX Security 2017; Ye and Barg 2018."""
    e = exp(epsilon)
    for frequency in (0.0, 0.3, 1.0):
        oue, sue = build("oue", epsilon), build("sue", epsilon)
        assert oue.variance(frequency) == pytest.approx(4 * e / (e - 1) ** 2 + frequency, rel=0.02)
        assert sue.variance(frequency) == pytest.approx(exp(epsilon / 2) / (exp(epsilon / 2) - 1) ** 2, rel=0.02)
        subset = build("subset_selection", epsilon)
        k, omega = 9, subset.omega
        p = omega * e / (omega * e + k - omega)
        q = p * (omega - 1) / (k - 1) + (1 - p) * omega / (k - 1)
        assert subset.variance(frequency) == pytest.approx((frequency * p * (1 - p) + (1 - frequency) * q * (1 - q)) / (p - q) ** 2, rel=1e-9)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_subset_certificate_holds_what_its_law_shows(epsilon):
    """The stated bound covers every pair of inputs and every set, and is no more than 2**-33 above the worst of them."""
    m = build("subset_selection", epsilon, 6)
    laws = [m.law(value) for value in range(6)]
    assert len(laws[0].weights) == comb(6, m.omega)
    worst = max(Fraction(a, b) for one in laws for other in laws for a, b in zip(one.weights, other.weights, strict=True))
    assert worst <= m.certificate().ratio <= worst * (1 + Fraction(1, 2**33))


@pytest.mark.parametrize("categories", [1, 2, 7, 8, 9, 100])
def test_packing_and_counting(categories):
    bits = np.random.default_rng(1).integers(0, 2, (300, categories))
    packed = pack(bits)
    assert np.array_equal(unpack(packed, categories), bits)
    assert np.array_equal(count(packed, categories), bits.sum(axis=0))
    assert check_packed(packed, categories) is packed


@pytest.mark.parametrize("name", NAMES)
def test_reports_that_are_none_are_refused(name):
    """Other widths, other types, bits beyond the last category: a collector reads what strangers write."""
    m = build(name)
    good = m.perturb(np.zeros(5, np.int64), lk.randomness.system())
    assert good.shape == (5, 2)
    for wrong in (good[:, :1], np.hstack([good, good]), good | np.uint8(1), good[0]):
        with pytest.raises(ValueError):
            m.support(wrong)
    with pytest.raises(TypeError):
        m.support(good.astype(np.int64))
    if name == "subset_selection":
        with pytest.raises(ValueError, match="must hold"):
            m.support(np.zeros_like(good))


@pytest.mark.parametrize("name", NAMES)
def test_laws_of_many_outputs_are_not_listed(name):
    with pytest.raises(lk.ConfigurationError, match="12"):
        build(name, 1.0, 13).law(0)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("categories", [13, 64, 65, 200])
def test_more_categories_than_a_law_lists(name, categories):
    """Each category's count follows p and q: three standard deviations times two, of a million bits."""
    m, n = build(name, 1.0, categories), 20_000
    value = categories - 1
    seen = m.support(m.perturb(np.full(n, value), lk.randomness.system()))[1:]
    p, q = m._probabilities
    expected = np.where(np.arange(categories) == value, p, q) * n
    z = (seen - expected) / np.sqrt(expected * (1 - expected / n))
    assert np.abs(z).max() < 6.5
    assert log(p / (1 - p) * (1 - q) / q) < 1.0 or name == "subset_selection"
