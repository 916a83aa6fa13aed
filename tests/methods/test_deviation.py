"""What a crowd's mean states where deviations are fed back: it holds in its slot, after a jump too,
and is no wider than that needs.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.optimize import brentq, linprog
from scipy.stats import norm

import ldp_kafka as lk
from ldp_kafka.mechanisms.base import Estimate, Z
from ldp_kafka.methods import deviation, split
from ldp_kafka.methods.base import FIXED
from ldp_kafka.methods.batch import Batch
from ldp_kafka.methods.estimates import Slot
from ldp_kafka.randomness import seeded

UNIT = (0.0, 1.0)


def feedback(name, epsilon, **own):
    return lk.method(name, epsilon=epsilon, window=10, domain=UNIT, **own)


def supports(method, values, repeats):
    """(T, repeats, 3) of crowds whose users all have these values (T,), or (T, users)."""
    table = np.asarray(values, float)
    users = table.shape[1] if table.ndim == 2 else 1
    rows = np.arange(users * repeats)
    state = method.state(np.column_stack([rows, rows]).astype(np.uint64))
    found, source = [], seeded(7)
    for slot, now in enumerate(table.reshape(len(table), users)):
        answers = method.answer(
            state, Batch(rows, slot, (np.tile(now, repeats) * FIXED).astype(np.int64), source), slot
        )
        found.append([method.support(each) for each in answers.reshape(repeats, users)])
    return np.array(found)


def of_slot(method, sums, slot, repeat):
    """The estimate of a slot with those before it, as a merger makes it."""
    before = {at: sums[at, repeat] for at in range(max(0, slot - method.looks_back), slot)}
    return method.crowd_of_slot(sums[slot, repeat], Slot(slot, before))


def covers(found, truth):
    low, high = found.interval()
    return low <= truth <= high


ERROR = 5 * 0.5 / deviation.MOVED**0.5  # of a simulated mean of numbers in [0, 1], at most


def aim(method, was, now, reported):
    """E[clip(now + was - y)], where y is the report of ``reported``."""
    law = method.mechanism.law(float(reported))
    return law.mean(lambda y: np.clip(now + was - y, 0, 1))


@pytest.mark.parametrize(("name", "own"), [("ipp", {}), ("app", {"block": 2})])
def test_the_second_report_aims_as_the_exact_law_says(name, own):
    """Of users who were at one level and are at another one, or where they were."""
    method = feedback(name, 8.0, **own)
    found = method.deviations
    levels = np.arange(deviation.LEVELS) / (deviation.LEVELS - 1)
    aims = np.array([[aim(method, was, now, was) for now in levels] for was in levels])
    assert np.abs(np.array(found.moved[1]) - aims).max() < ERROR
    # users who had always been where they are
    still = np.array([[aim(method, now, now, now) for now in levels]] * len(levels))
    assert np.abs(np.array(found.moved[1]) - still).max() > 5 * ERROR
    away = np.diag(aims) - levels
    least, most = np.minimum(0, away), np.maximum(0, away)  # some have joined: no deviation
    for at, level in enumerate(levels):
        low, high = found.low[1][at], found.high[1][at]
        # 5 standard errors of 2**15 users, and what is between levels
        assert 0 <= of_any_crowd(least, levels, level) - low < 0.015 + BEND
        assert 0 <= high + of_any_crowd(-most, levels, level) < 0.015 + BEND


BEND = 0.01  # an eighth of the second difference at neighbouring levels, at most


def of_any_crowd(away, levels, mean):
    """The least mean of these (levels,) in a crowd with this mean level: a linear program."""
    one_mean = np.stack([np.ones(len(levels)), levels])
    return linprog(away, A_eq=one_mean, b_eq=[1, mean]).fun


@pytest.mark.parametrize(("name", "own"), [("ipp", {}), ("app", {"block": 2})])
def test_aims_of_the_second_report_vary_as_the_exact_law_says(name, own):
    """At most, of users who were at one level and are at another one; of the first report not at
    all.
    """
    method = feedback(name, 8.0, **own)
    variances = []
    for was, now in product(np.linspace(0, 1, deviation.LEVELS), repeat=2):
        law = method.mechanism.law(was)
        mean = law.mean(lambda y, at=now + was: np.clip(at - y, 0, 1))
        variances.append(law.mean(lambda y, at=now + was, m=mean: (np.clip(at - y, 0, 1) - m) ** 2))
    first, second = method.deviations.spread[:2]
    # 5 standard errors of 2**12 users' variances
    assert (first, second) == (0, pytest.approx(max(variances), rel=0.08))


CROWDS = {"a quarter and one": (0.25, 1.0, 0.45), "three quarters and none": (0.75, 0.0, 0.45)}


def alike_or_at_the_ends(away):
    """A broken twin of `deviation._convex`: these crowds alone."""
    ends = np.linspace(away[0], away[-1], len(away)).tolist()
    return [min(pair) for pair in zip(away, ends, strict=True)]


@pytest.mark.parametrize(("name", "own"), [("app", {"block": 4}), ("capp", {"block": 4})])
@pytest.mark.parametrize("crowd", CROWDS)
def test_an_interval_holds_whatever_users_there_are(name, own, crowd, monkeypatch):
    """Also of two kinds of users who stay where they are, which feedback draws furthest. The twin's
    does not hold in `app`, whose clip range is narrower.
    """
    made = {"epsilon": 8.0, "window": 4, "domain": UNIT, **own}
    one, other, share = CROWDS[crowd]
    repeats, users = 60, 5000
    values = np.where(np.arange(users) < share * users, other, one)
    sums = supports(lk.method(name, **made), np.tile(values, (4, 1)), repeats)

    def held():
        method = lk.method(name, **made)
        return [covers(of_slot(method, sums, 3, at), values.mean()) for at in range(repeats)]

    assert np.mean(held()) > 0.86  # .95 less 3.2 standard errors
    monkeypatch.setattr(deviation, "_convex", alike_or_at_the_ends)
    assert name == "capp" or np.mean(held()) < 0.6


def test_an_interval_holds_where_users_of_two_kinds_moved_as_one(monkeypatch):
    """The twin takes all of them to be alike."""
    made = {"epsilon": 8.0, "window": 4, "domain": UNIT, "block": 4}
    repeats, users = 60, 5000
    before = np.where(np.arange(users) < 0.4 * users, 0.8, 0.2)
    after = np.maximum(before - 0.3, 0)
    sums = supports(lk.method("app", **made), np.stack([before, before, after, after]), repeats)

    def held():
        method = lk.method("app", **made)
        return [covers(of_slot(method, sums, 2, at), after.mean()) for at in range(repeats)]

    assert np.mean(held()) > 0.86
    monkeypatch.setattr(deviation, "_convex", list)
    assert np.mean(held()) < 0.5


@pytest.mark.parametrize("gap", [0.0, 0.3, 1.0, 3.0, 10.0])
def test_an_interval_with_room_on_one_side_holds_as_often_as_it_says(gap, monkeypatch):
    """Exactly: the truth at either end of what a crowd can aim, or between, so many standard errors
    apart, and estimates on a grid of the normal law. The twin has the length of one side always.
    """
    noise, draws = 0.01, norm.ppf((np.arange(20_000) + 0.5) / 20_000)
    away = gap * noise / 2
    found = deviation.Deviations(
        *([[side * away] * deviation.LEVELS] for side in (-1, 1)), [], [], [], [0], [0], 0
    )

    def held(place):
        limits = [
            found.limits(0, 0.5 + place * away + noise * z, (Z * noise, Z * noise), normal=True)
            for z in draws.tolist()
        ]
        return np.mean([low <= 0.5 <= high for low, high in limits])

    shares = [held(place) for place in (-1, 0, 1)]
    assert 0.9499 < min(shares) < 0.953
    monkeypatch.setattr(deviation, "LENGTHS", (1.644871,) * len(deviation.LENGTHS))
    assert gap > 2 or held(1) < 0.947


def test_lengths_of_one_side_are_those_of_the_normal_law():
    """Never less, and to a thousandth no more."""
    for apart in np.arange(0, 6, 0.05):
        exact = brentq(lambda c, d=apart: norm.cdf(c + d) - norm.cdf(-c) - 0.95, 1.6, 2)
        assert 0 <= deviation._normal_length(apart) - exact + 1e-6 < 0.004


def test_the_first_report_of_a_block_has_no_deviation():
    """Its interval is that of `sw_direct` at the same budget, and of no other turn."""
    method = feedback("app", 2.0)
    assert method.block == 2
    assert method.deviations.low[0] == method.deviations.high[0] == [0.0] * deviation.LEVELS
    support = method.support(method.mechanism.perturb(np.full(5000, 0.5), seeded(1)))
    plain = method.mechanism.estimate_support(support)
    first, second = (method.crowd_of_slot(support, Slot(at, {})) for at in (4, 5))
    assert first.standard_error == pytest.approx(plain.standard_error, rel=0.02)
    assert second.standard_error > 1.1 * plain.standard_error
    assert method.crowd(support) == second
    assert first.value == second.value == plain.value


@pytest.mark.parametrize(("epsilon", "users"), [(8.0, 5000), (2.0, 5000), (8.0, 300)])
def test_an_interval_holds_in_the_slot_after_a_jump(epsilon, users):
    """The deviations are of values before the jump. One that does not look at the slot before it
    does not hold.
    """
    method, repeats, truth = feedback("ipp", epsilon), 300_000 // users, 0.8
    values = np.repeat([0.2, 0.2, 0.2, truth], users).reshape(4, users)
    sums = supports(method, values, repeats)
    held = [covers(of_slot(method, sums, 3, at), truth) for at in range(repeats)]
    assert np.mean(held) > 0.92
    blind = [covers(method.crowd(sums[3, at]), truth) for at in range(repeats)]
    assert np.mean(blind) < 0.6


@pytest.mark.parametrize(
    ("name", "epsilon", "values"),
    [
        ("app", 4.0, (0.0, 1.0, 0.0, 1.0)),
        ("app", 4.0, (0.2, 0.2, 0.8, 0.5)),
        ("capp", 8.0, (0.2, 0.8, 0.2, 0.8)),
    ],
)
def test_an_interval_holds_where_a_crowd_moved_more_than_once(name, epsilon, values):
    """In each slot of a block. The mean of the slots before it is where the crowd never was."""
    method = lk.method(name, epsilon=epsilon, window=4, block=4, domain=UNIT)
    repeats, users = 80, 5000
    sums = supports(method, np.repeat(values, users).reshape(4, users), repeats)
    for slot, truth in enumerate(values):
        held = [covers(of_slot(method, sums, slot, at), truth) for at in range(repeats)]
        assert np.mean(held) > 0.86  # .95 less 3.7 standard errors


def test_a_split_of_too_many_sums_holds_wherever_the_crowd_was(monkeypatch):
    """A merger then gives it those of no slot before."""
    made = {"epsilon": 4.0, "window": 4, "domain": UNIT, "inner": "app", "block": 4}
    method = lk.method("budget_split", dimension=2, **made)
    repeats, users = 60, 5000
    one = supports(method.coordinate, np.repeat([0.1, 0.9], users).reshape(2, users), repeats)
    sums = np.concatenate([one[..., :1], one, one], axis=2)
    assert method.looks_back == 3
    kept = [of_slot(method, sums, 1, at) for at in range(repeats)]
    monkeypatch.setattr(split, "KEPT", 1)
    assert method.looks_back == 0
    for found in (kept, [of_slot(method, sums, 1, at) for at in range(repeats)]):
        low, high = np.array([each.limits for each in found]).transpose(1, 0, 2)
        assert ((low <= 0.9) & (high >= 0.9)).mean() > 0.88
    blind = [method.crowd(sums[1, at]) for at in range(repeats)]
    assert np.mean([each.limits[1][0] >= 0.9 for each in blind]) < 0.6


@pytest.mark.parametrize("name", ["ipp", "app"])
def test_an_error_is_no_smaller_because_its_interval_is_cut(name):
    """Of few reports at a low budget. Feedback takes budget, and adds nothing."""
    method, plain = feedback(name, 1.0), feedback("sw_direct", 1.0)
    support, other = (
        each.support(each.mechanism.perturb(np.full(100, 0.5), seeded(5)))
        for each in (method, plain)
    )
    assert method.crowd(support).standard_error > plain.crowd(other).standard_error


@pytest.mark.parametrize(("name", "epsilon"), [("ipp", 8.0), ("app", 2.0)])
@pytest.mark.parametrize("level", [0.0, 0.5, 1.0])
def test_where_nothing_moves_an_interval_is_no_wider_than_it_needs_to_be(name, epsilon, level):
    """Against the narrowest about the value that would hold the truth in 95 % of slots; the error
    of the worst level for ever, which was added before, is up to 3.5 times that.
    """
    method, repeats, users = feedback(name, epsilon), 150, 500
    sums = supports(method, np.full((6, users), level), repeats)
    found = [of_slot(method, sums, slot, at) for slot in range(2, 6) for at in range(repeats)]
    off = np.array([each.value for each in found]) - level
    narrowest = np.quantile(np.abs(off), 0.95)
    half = np.median([each.standard_error for each in found]) * Z
    assert half < 1.3 * narrowest
    assert np.mean([covers(each, level) for each in found]) > 0.93


def test_users_at_the_ends_are_held_as_users_who_are_alike():
    """One in twenty at the upper end, the others at the lower one."""
    method, repeats, users = feedback("ipp", 8.0), 60, 5000
    values = np.tile((np.arange(users) < users // 20) * 1.0, (4, 1))
    sums = supports(method, values, repeats)
    found = [of_slot(method, sums, slot, at) for slot in (2, 3) for at in range(repeats)]
    assert np.mean([covers(each, 0.05) for each in found]) > 0.95


@pytest.mark.parametrize(("name", "own"), [("ipp", {}), ("app", {"block": 3}), ("capp_s", {})])
@pytest.mark.parametrize("epsilon", [2.0, 30.0])
def test_the_error_of_one_release_is_the_simulated_one(name, own, epsilon):
    """At the worst value and report, where nothing moves. An aim can be at either end whatever the
    value is, but it hardly ever is where there is little noise.
    """
    method, users = feedback(name, epsilon, **own), 30_000
    rows, worst = np.arange(users), 0.0
    for level in (0.0, 0.125, 0.5, 0.875, 1.0):
        state, source = method.state(np.column_stack([rows, rows]).astype(np.uint64)), seeded(3)
        values = np.full(users, int(level * FIXED))
        for turn in range(method.turns):
            answers = method.answer(state, Batch(rows, turn, values, source), turn)
            worst = max(worst, np.mean((method.released(answers) - level) ** 2) ** 0.5)
    assert method.single_error == pytest.approx(worst, rel=0.04)


def test_deviations_are_the_same_on_every_machine():
    """Sums of integers and single operations of floats: not one digit may differ, since releases
    follow from them.
    """
    found = feedback("app", 2.0).deviations
    assert (found.high[1][0], found.moved[1][0][8], found.error) == SAME


SAME = (0.0618857151582945, 0.5379502773284912, 0.7118423873206412)


def test_a_split_carries_the_limits_of_its_coordinates():
    """And leaves those that nobody reported as they are, whatever slots of others lie between."""
    method = lk.method(
        "sample_split", epsilon=8.0, window=4, dimension=2, domain=(0.0, 10.0), inner="ipp"
    )
    support = method.support(np.full(100, 0.5), 1)
    found = method.crowd_of_slot(support, Slot(5, {}))
    alone = method.coordinate.crowd_of_slot(support[4:], Slot(2, {}))
    assert np.isnan(found.value[0])
    assert np.isinf(found.standard_error[0])
    assert np.isnan(found.limits).tolist() == [[True, False]] * 2
    assert (found.limits[0][1], found.limits[1][1]) == alone.limits
    assert found.reports == 100
    assert found.reason is None
    before = method.support(np.full(100, 0.9), 1)
    looked = method.crowd_of_slot(support, Slot(5, {3: before, 4: method.support(np.ones(9), 0)}))
    alone = method.coordinate.crowd_of_slot(support[4:], Slot(2, {1: before[4:]}))
    assert (looked.limits[0][1], looked.limits[1][1]) == alone.limits
    assert alone.limits != method.coordinate.crowd_of_slot(support[4:], Slot(2, {})).limits
    first, next_to_it = (method.support(np.full(100, 0.5), at) for at in (0, 1))
    was = Slot(6, {4: method.support(np.full(100, 0.9), 0), 5: next_to_it})
    alone = method.coordinate.crowd_of_slot(first[1:4], Slot(3, {2: was.earlier[4][1:4]}))
    looked = method.crowd_of_slot(first, was)
    assert (looked.limits[0][0], looked.limits[1][0]) == alone.limits
    plain = lk.method("budget_split", epsilon=8.0, window=4, dimension=2, domain=UNIT)
    low, high = plain.crowd(plain.support(np.full((5, 2), 0.5))).limits
    alone = plain.coordinate.crowd(plain.coordinate.support(np.full(5, 0.5)))
    assert [*zip(low, high, strict=True)] == [alone.limits] * 2


def test_a_split_carries_why_there_is_no_error(monkeypatch):
    method = lk.method("budget_split", epsilon=8.0, window=4, dimension=2, domain=UNIT)
    monkeypatch.setattr(method.each, "crowd", lambda part: Estimate(0.5, None, 3, None, "why"))
    found = method.crowd(method.support(np.full((3, 2), 0.5)))
    assert found.value.tolist() == [0.5, 0.5]
    assert np.isnan(found.standard_error).all()
    assert (found.limits, found.reason) == (None, "why")
