"""The deviation of a group, computed in few passes, is the one that is defined."""

from __future__ import annotations

from fractions import Fraction
from math import floor

import numpy as np

import ldp_kafka as lk
from ldp_kafka.methods.delay.rows import ALL, Rows
from ldp_kafka.methods.values import FIXED
from tests.cases import cases

STREAMS = 40


def defined(values):
    """Sum |x - mean|, rounded down."""
    mean = Fraction(sum(values), len(values))
    return floor(sum(abs(each - mean) for each in values))


def drawn(kind, shape, rng):
    if kind == "any":
        return rng.integers(0, FIXED + 1, shape)
    if kind == "ends":
        return rng.choice([0, FIXED], shape)
    if kind == "equal":
        return np.full(shape, FIXED // 3)
    return FIXED // 2 + rng.integers(-2, 3, shape)  # means between whole numbers


@cases("kind", ["any", "ends", "equal", "near"])
@cases("delay", [1, 2, 11, 100])
def test_deviation_is_that_of_the_definition(kind, delay):
    """To the last bit, as answers are drawn by it: where a group has all slots of a window, some,
    or none, and in which rows its streams lie.
    """
    rng = np.random.default_rng(delay)
    m = lk.method("contin_group", epsilon=1.0, delay=delay, domain=(0.0, 1.0), setting="sliding")
    span = m.windows.span
    state = m.state(rng.integers(0, 2**63, (2 * STREAMS, 2)).astype(np.uint64))
    kept, founders = drawn(kind, (span, 2 * STREAMS), rng), rng.integers(0, 3, (span, 2 * STREAMS))
    state.columns["value"][:], state.columns["founder"][:] = kept, founders
    for rows in (np.arange(STREAMS), np.arange(2 * STREAMS)[::-2].copy()):
        window, asked = (
            Rows(state, rows, lk.randomness.seeded(1), 0, span),
            rng.integers(0, 4, STREAMS),
        )
        given = drawn(kind, STREAMS, rng)
        found = m._deviation(window, ALL, asked, given)
        for at, row in enumerate(rows):
            group = [int(x) for x in kept[founders[:, row] == asked[at], row]]
            assert found[at] == defined([*group, int(given[at])])
