"""What a collector keeps for several statistics together."""

from __future__ import annotations

import numpy as np

import ldp_kafka as lk
from ldp_kafka.mechanisms.base import Estimate
from ldp_kafka.methods import METHODS
from ldp_kafka.statistics import STATISTICS, CrowdStatistic, Selection
from tests.cases import cases

REPORTING = sorted(name for name, kind in METHODS.items() if not kind.own_noise)
"""Those whose users report; the others release windows, and have no crowd."""


def made(name):
    """One method of each kind."""
    kind = METHODS[name]
    level = {"window": 4} if kind.level == "w-event" else {"horizon": 50}
    if "delta" in kind.parameters:
        level["delta"] = 1e-5
    shape = {} if kind.ball else {"domain": (10.0, 30.0)}
    if kind.kind == "categorical":
        shape = {"categories": 3}
    if kind.ball or name in ("budget_split", "sample_split"):
        shape["dimension"] = 2
    return lk.method(name, epsilon=4.0, **level, **shape)


class Second(CrowdStatistic):
    """The mean of the second coordinate: of one phase of a slot's reports."""

    name = "second"

    def takes(self, phase):
        return phase == 1

    def sums(self, reports, phase):
        return self.method.coordinate.support(reports)

    def estimate(self, sums):
        return self.method.coordinate.crowd(sums)

    def error(self, reports):
        return 1.0


@cases("name", REPORTING)
def test_each_statistic_fits_the_methods_that_tell_it(name):
    """And no others: why not is said in words."""
    method = made(name)
    fitting = [key for key, kind in STATISTICS.items() if kind.unfit(method) is None]
    assert fitting == sorted(method.statistics)
    for key in STATISTICS.keys() - set(fitting):
        other = STATISTICS[key].kind != method.kind
        said = STATISTICS[key].unfit(method)
        if other:
            assert said.startswith(f"{key} must come from a method for ")
        else:
            why = f": {method.untold[key]}" if key in method.untold else ""
            has = ", ".join(method.statistics)
            assert said.startswith(
                f"{key} cannot be made of what {name} reports{why}; it has {has}"
            )


@cases("name", REPORTING)
def test_sums_add_up(name):
    """Those of two batches are those of both, as wide as said; so are totals."""
    method = made(name)
    several = Selection(tuple(STATISTICS[key](method) for key in method.statistics))
    rng = np.random.default_rng(4)
    blank = method.blank(20)
    low, high = method.index_range
    index = rng.integers(low, high, blank.shape, endpoint=True).astype(blank.dtype)
    reports = index if method.scale == 1 else index * method.scale
    for phase in (0, 1) if name == "sample_split" else (0,):
        whole = several.sums(reports, phase)
        parts = several.sums(reports[:7], phase), several.sums(reports[7:], phase)
        assert whole == [a + b for a, b in zip(*parts, strict=True)]
        assert len(whole) == several.width
        assert whole[0] == 20
    assert all(type(each) is int for each in whole)
    once = several.count(several.start, index)
    twice = several.count(several.count(several.start, index[:7]), index[7:])
    assert once == twice
    assert several.count(once, index[:0]) == once


def test_a_slot_in_which_nobody_reported():
    """Has a release of each statistic of a crowd, without a value, and none of single users."""
    method = made("capp")
    several = Selection(tuple(STATISTICS[key](method) for key in ("per_user", "mean")))
    for nothing in (None, [0] * several.width):
        assert list(several.of_slot(nothing)) == [("mean", Estimate(None, None, 0))]
    alone = Selection((STATISTICS["per_user"](method),))
    assert list(alone.of_slot(None)) == []
    assert (alone.width, alone.sums(np.zeros(3), 0)) == (1, [3])  # a slot with reports has sums


def test_a_statistic_takes_the_phases_that_it_says():
    """Reports of others leave its sums as they are; all statistics have their place in every
    phase, so that sums of phases add up.
    """
    method = made("sample_split")
    both = Selection((Second(method), STATISTICS["mean"](method)))
    first = np.array([0.25, 0.5])
    second = np.array([0.75, 0.5, 1.0])
    sums = [a + b for a, b in zip(both.sums(first, 0), both.sums(second, 1), strict=True)]
    (_, only), (_, mean) = both.of_slot(sums)
    assert (only.reports, mean.reports) == (3, 5)
    assert (
        only.value
        == mean.value[1]
        == method.coordinate.crowd(method.coordinate.support(second)).value
    )
    [(_, nobody), _] = both.of_slot(both.sums(first, 0))
    assert nobody.value is None
