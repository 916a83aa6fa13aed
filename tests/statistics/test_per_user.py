"""Intervals of single users, for each kind of user."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.methods.shrinkage import Shrinkage
from ldp_kafka.methods.unstated import UNSTATED
from ldp_kafka.records import Reports
from ldp_kafka.statistics.per_user import PerUser
from tests.cases import cases

USERS = 4000
HIGH = 0.05  # of all users
KINDS = {"low": 0.1, "middle": 0.3, "high": 0.95}


def kinds():
    """Values (users,) and the kind of each."""
    share = np.arange(USERS) / USERS
    kind = np.where(share < HIGH, "high", np.where(share < 0.3, "middle", "low"))
    return np.array([KINDS[each] for each in kind]), kind


@cache
def table_of(method, slots):
    """What each user reports in each slot."""
    return method.release(np.tile(kinds()[0][:, None], (1, slots)), lk.randomness.seeded(8))


def released(method, slots=6, *, shrinkage=True):
    """What `PerUser` says of the last slot's reports, and the truth."""
    values, kind = kinds()
    table = table_of(method, slots)
    statistic, crowd = PerUser(method, shrinkage=shrinkage), Shrinkage(method)
    totals = statistic.start
    for slot in range(slots):
        index = crowd.index(table[:, slot])
        totals = tuple(a + b for a, b in zip(totals, statistic.totals(index), strict=True))
    empty = np.zeros((USERS, 2), np.uint64)
    slots_ = np.full(USERS, slots - 1)
    batch = Reports(empty, slots_, index, method.scale, "", 0, None, series=empty)
    return statistic.read(batch, totals), values, kind


@cache
def made(name, epsilon):
    return lk.method(name, epsilon=epsilon, window=2, domain=(0.0, 1.0))


@cases("name", ["sw_direct", "pm_direct", "app", "capp", "ipp"])
@cases("epsilon", [1.0, 8.0, 30.0])
@cases("shrinkage", [True, False])
def test_an_interval_holds_for_each_kind_of_user(name, epsilon, shrinkage):
    method = made(name, epsilon)
    found, values, kind = released(method, shrinkage=shrinkage)
    low, high = found.interval()
    assert (low >= 0).all() and (high <= 1).all()
    if shrinkage:
        assert ((low <= found.values) & (found.values <= high)).all()
    for each in KINDS:
        inside = ((low <= values) & (values <= high))[kind == each]
        assert inside.mean() > 0.91, each


def test_the_error_of_users_as_a_whole_holds_not_for_those_who_are_high():
    """Which is why the interval is not made of it."""
    method = lk.method("sw_direct", epsilon=8.0, window=2, domain=(0.0, 1.0))
    found, values, kind = released(method)
    away = np.abs(found.values - values) / found.standard_errors
    assert (away[kind == "high"] < 1.96).mean() < 0.5
    assert (away < 1.96).mean() > 0.9


@cases(
    "name, how, reason",
    [
        ("etm", {}, "hidden_time"),
        ("swp", {}, "hidden_time"),
        ("sppa", {}, "hidden_time"),
        ("fast", {"window": None, "horizon": 8}, "mixed_slots"),
        ("pegasus_local", {}, "mixed_slots"),
        ("topl", {}, "unknown_threshold"),
        ("sw_direct", {}, None),
        ("ba_sw", {}, None),
    ],
)
def test_who_states_no_error_says_why(name, how, reason):
    given = {"window": 4, "epsilon": 4.0, "domain": (0.0, 1.0), **how}
    method = lk.method(name, **{key: value for key, value in given.items() if value is not None})
    statistic = PerUser(method)
    assert method.single_reason == reason
    predicted = statistic.predict(100)
    assert predicted.error_reason == reason
    said = predicted.unstated()
    assert said is None if reason is None else UNSTATED[reason] in said
    empty = np.zeros((2, 2), np.uint64)
    batch = Reports(empty, np.zeros(2, np.int64), np.array([3, 5]), method.scale, "", 0, None)
    found = statistic.read(batch, tuple(2 * each for each in statistic.totals(batch.values)))
    assert found.reason == reason
    assert np.isnan(found.standard_errors).all() == (reason is not None)


@pytest.mark.parametrize("smooth", [False, True])
def test_windows_at_an_edge(smooth):
    """Of what was smoothed the collector does not know what it was before."""
    method = lk.method("naive", epsilon=8.0, delay=4, domain=(0.0, 1.0), smooth=smooth)
    index = method.index(np.array([0.0, 0.5, 1.0]))
    empty = np.zeros((3, 2), np.uint64)
    batch = Reports(empty, np.zeros(3, np.int64), index, method.scale, "", 0, None)
    found = PerUser(method).read(batch, ())
    assert found.reason == ("mixed_slots" if smooth else None)
    if not smooth:
        low, high = found.interval()
        half = np.log(20) / 8
        assert low == pytest.approx([0.0, 0.5 - half, 1 - half], abs=0.01)
        assert high == pytest.approx([half, 0.5 + half, 1.0], abs=0.01)
