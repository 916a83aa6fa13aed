"""The grid on which raw values are added: no event moves a sum by more than it is worth."""

from __future__ import annotations

from fractions import Fraction
from math import inf, ldexp, nextafter

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.methods.grid import MOST, added, grid_of
from ldp_kafka.methods.values import FIXED
from tests.depth import depth
from tests.exact import in_steps, total_of

DOMAINS = {  # and a contribution
    "sales": ((0.0, 1600.0), 40.0),
    "signed": ((-100.0, 50.0), 0.3),
    "narrow": ((-(2.0**-890), 2.0**-890), 2.0**-895),
    "wide": ((0.0, 2.0**480), 2.0**470),
    "far": ((1e9, 1e9 + 1), 0.1),
    "loose": ((0.0, 10.0), None),
    "loose below": ((-3.0, 10.0), None),
}
HOSTILE = (1e308, -1e308, 2.0**62, -(2.0**62), 2.0**53, 1.0, 0.1, -0.1, 0.0, -0.0, 5e-324, 1e-310)


def wild(rng, count, contribution):
    """Events of all sizes, huge, tiny and subnormal ones among them."""
    sizes = rng.normal(0, 1, count) * 10.0 ** rng.integers(-30, 30, count)
    of = contribution or 10.0
    pick = rng.integers(0, 4, count)
    return np.select(
        [pick == 0, pick == 1, pick == 2],
        [rng.choice(HOSTILE, count), rng.uniform(-1.5, 1.5, count) * of, sizes],
        rng.choice([of, -of, nextafter(of, 0), nextafter(of, inf)], count),
    )


def in_parts(grid, events, rng):
    """The sum of events in steps, of any parts of them added first."""
    parts = grid.parts(events)
    while len(parts) > 1:
        starts = np.unique(np.concatenate([[0], rng.integers(0, len(parts), 1 + len(parts) // 3)]))
        parts = added(parts, starts)
    return grid.totals(parts).item()


@pytest.mark.parametrize("name", DOMAINS)
def test_a_replaced_event_moves_a_sum_by_what_it_is_worth(name):
    """Exactly as in whole numbers, in any order and any parts; and so are the integers that reach
    a method within its reach.
    """
    domain, most = DOMAINS[name]
    grid = grid_of(domain, contribution=most)
    step, signed = Fraction(2) ** grid.exponent, domain[0] < 0
    method = None
    if most is not None:
        moves = min(2 * most, domain[1] - domain[0]) if signed else most
        method = lk.method("naive", epsilon=1.0, delay=1, domain=domain, contribution=moves)
        assert grid.high * step <= Fraction(most) < (grid.high + 1) * step
        assert grid.low == (-grid.high if signed else 0)
    farthest = 0
    for seed in range(depth(150, 3000)):
        rng = np.random.default_rng(seed)
        events = wild(rng, int(rng.integers(1, 40)), most)
        other = events.copy()
        at = int(rng.integers(len(events)))
        other[at] = wild(rng, 1, most)[0]
        found = in_parts(grid, events, rng)
        assert found == in_parts(grid, rng.permutation(events), rng) == total_of(events, grid)
        moved = in_parts(grid, other, rng)
        less = in_parts(grid, np.delete(events, at), rng) if len(events) > 1 else 0
        assert abs(moved - found) <= abs(in_steps(other[at], grid) - in_steps(events[at], grid))
        assert abs(less - found) <= abs(in_steps(events[at], grid))
        if method is not None:
            bound = method.bound(grid.values(np.array([found, moved, less])))
            assert abs(bound[1] - bound[0]) <= method.reach
            assert abs(bound[2] - bound[0]) <= method.reach
            farthest = max(farthest, int(abs(bound[1] - bound[0])))
    if method is not None and grid.low <= 0 and domain[0] <= 0:
        assert farthest > 0.9 * method.reach * (method.reach < FIXED)  # else it shows nothing


@pytest.mark.parametrize("name", DOMAINS)
def test_sums_inside_the_domain_are_exact_floats(name):
    """So nothing is rounded behind the sum; what is beyond the domain stays beyond it."""
    domain, most = DOMAINS[name]
    grid = grid_of(domain, contribution=most)
    step = Fraction(2) ** grid.exponent
    first, last = (int(Fraction(end) / step) for end in domain)
    for total in (first, first + 1, (first + last) // 2, last - 1, last):
        [value] = grid.values(np.array([total])).tolist()
        assert Fraction(value) == total * step
    for total, end in ((-MOST, domain[0]), (MOST, domain[1])):
        [value] = grid.values(np.array([total])).tolist()
        assert (value < end) if total < 0 else (value > end)
    assert Fraction(domain[1] - domain[0]) / step >= 2**44 or name == "far"


def test_sums_are_held_and_never_wrap():
    """4,000 events of 2**61 steps are 2**62 steps, and not what is left of them modulo 2**64."""
    grid = grid_of((0.0, 10.0))
    huge = ldexp(1.0, 61 + grid.exponent)
    for count, wanted in ((1, 2**61), (2, MOST), (3, MOST), (8, MOST), (4000, MOST)):
        for sign in (1, -1):
            parts = grid.parts(np.full(count, sign * huge))
            assert grid.totals(added(parts, np.array([0]))).tolist() == [sign * wanted]
    parts = grid.parts(np.concatenate([np.full(9, huge), np.full(9, -huge)]))
    assert grid.totals(added(parts, np.array([0]))).tolist() == [0]
    just = np.array([[MOST - 1, 0], [1, 0], [MOST - 1, 5], [0, 7]])
    assert added(just, np.array([0, 2])).tolist() == [[MOST, 0], [MOST - 1, 12]]


def test_lists_are_added_by_coordinate():
    grid = grid_of((0.0, 10.0), dimension=3)
    parts = grid.parts(np.array([[1.0, -2.0, 0.5], [3.0, 1e308, -0.25]]))
    assert parts.shape == (2, 6)
    total = grid.totals(added(parts, np.array([0])))
    assert grid.values(total)[0, [0, 2]].tolist() == [4.0, 0.25]
    assert total[0, 1] == MOST - 2 * 2**-grid.exponent
    assert grid.clamped(np.array([[1.0, -2.0, 0.5], [3.0, 1e308, -0.25]])) == 1


def test_what_is_clamped_is_counted():
    grid = grid_of((0.0, 1600.0), contribution=40.0)
    assert grid.clamped(np.array([0.0, 40.0, 40.5, -1e-9, 1e308])) == 3


@pytest.mark.parametrize("most", [1e-8, 5e-324])
def test_a_contribution_below_a_step_is_refused(most):
    """All events would be worth nothing."""
    with pytest.raises(ConfigurationError, match=r"contribution must be at least 2\.38419e-07: su"):
        grid_of((1e9, 1e9 + 1), contribution=most)
