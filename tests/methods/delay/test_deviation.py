"""The deviation of a group, computed in few passes, is the one that is defined, and the groups that
are published are those of the paper's listing.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from math import floor

import numpy as np

import ldp_kafka as lk
from ldp_kafka.methods.batch import Batch
from ldp_kafka.methods.delay.rows import ALL, Rows
from ldp_kafka.methods.values import FIXED
from ldp_kafka.randomness import seeded
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
            Rows(state, rows, seeded(1), 0, span),
            rng.integers(0, 4, STREAMS),
        )
        given = drawn(kind, STREAMS, rng)
        found = m._deviation(window, ALL, asked, given)
        for at, row in enumerate(rows):
            group = [int(x) for x in kept[founders[:, row] == asked[at], row]]
            assert found[at] == defined([*group, int(given[at])])


def algorithm_6(deviation_of, slots, theta, scale, rng):
    """Whether each of the slots (slots - 1,) after the first continues the group of the slot before
    it, by the paper's listing; ``scale`` is Delta / epsilon_g.
    """
    group, level, joined = [], theta + rng.laplace(scale=2 * scale), []
    for slot in range(slots):
        before = len(group)
        if deviation_of([*group, slot]) + rng.laplace(scale=4 * scale) < level:
            group.append(slot)
            joined.append(before > 0)
        else:
            group, level = [], theta + rng.laplace(scale=2 * scale)
            joined.append(False)
    return tuple(joined[1:])


@cases("name", ["contin_group", "pegasus_delay", "pegasus"])
def test_published_groups_are_those_of_the_printed_listing(name):
    """A group's first value is tested as well: the chance of each grouping of four slots, against
    the listing in floats, 20,000 of each. Without that test some are more than ten standard errors
    off.
    """
    n, slots, rng = 20_000, 4, np.random.default_rng(11)
    stream = np.array([0.0, 0.2, 0.1, 0.4])
    m = lk.method(
        name, epsilon=5.0, delay=slots, theta=0.7, domain=(0.0, 1.0), calibration="published"
    )
    state = m.state(seeded(1).digests([str(i) for i in range(n)]))
    bound = np.ascontiguousarray(m.bound(np.tile(stream, (n, 1))).T)
    m.step(state, Batch(np.arange(n), 0, bound, seeded(2)))
    founder = state.columns["founder"][:slots, :n]
    ours = Counter(map(tuple, (founder[1:] != np.arange(1, slots)[:, None]).T.tolist()))

    def deviation(group):
        return np.abs(stream[group] - stream[group].mean()).sum()

    theirs = Counter(algorithm_6(deviation, slots, 0.7, 1.0, rng) for _ in range(n))
    assert len(theirs) == 7, "a slot cannot be in the group of a slot that a no closed"
    for joined in ours.keys() | theirs.keys():
        both = ours[joined] + theirs[joined]
        assert abs(ours[joined] - theirs[joined]) < 5 * both**0.5, joined
