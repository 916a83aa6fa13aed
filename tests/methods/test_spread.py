"""The error of a mean of normal reports is that of its slot: of how many reports their users have
made, though no report says so.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
from scipy import stats

import ldp_kafka as lk
from ldp_kafka.evaluation.cgm import law
from ldp_kafka.mechanisms.base import Z
from ldp_kafka.methods.spread import error_of_mean, student
from tests.cases import cases

DRAWS = 3000
LEAST = 0.95 - 4 * (0.95 * 0.05 / DRAWS) ** 0.5  # of intervals that hold with 0.95: four sigma
BOUND = 0.05
NAMES = ("cgm", "gaussian_differential")


def made(name, **parameters):
    shape = {"domain": (0.0, 100.0), "differential_bound": BOUND, **parameters}
    return lk.method(name, epsilon=1.0, delta=1e-5, **shape)


def crowds(method, released):
    """The estimate of each slot of releases (users, slots)."""
    lo, hi = method.domain
    return [method.crowd(method.support((column - lo) / (hi - lo))) for column in released.T]


def normal_reports(rng, reports, young):
    """(DRAWS, reports): of so many users the first report, of the others one long after."""
    deviations = np.where(np.arange(reports) < young, 1.0, sqrt(law("cgm", BOUND, 100)))
    return rng.normal(size=(DRAWS, reports)) * deviations, float(sqrt((deviations**2).sum()))


@pytest.mark.parametrize("reports", [1, 2, 3, 5, 10, 30, 300])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_intervals_hold_the_truth_whoever_is_new(reports, share):
    """Widths are of the narrowest that holds there; 3 below 30 reports, 1.3 from there on."""
    young = round(share * reports)
    drawn, total = normal_reports(np.random.default_rng(reports), reports, young)
    least = sqrt(law("cgm", BOUND, 100))
    errors = np.array(
        [
            error_of_mean(reports, spread, least, 1.0)
            for spread in drawn.std(axis=1, ddof=min(reports - 1, 1)).tolist()
        ]
    )
    assert (np.abs(drawn.mean(axis=1)) <= Z * errors).mean() > LEAST
    assert np.median(errors) / (total / reports) < (3.0 if reports < 30 else 1.15)


@cases(
    "broken",
    [
        lambda n, spread, least, most: most / sqrt(n),  # the first report's for ever
        lambda n, spread, least, most: spread / sqrt(n - 1),  # normal, whatever few reports tell
        lambda n, spread, least, most: least / sqrt(n),  # as if nobody were new
    ],
)
def test_others_would_fail(broken):
    """What `test_intervals_hold_the_truth_whoever_is_new` finds of them."""
    least, failed = sqrt(law("cgm", BOUND, 100)), []
    for reports, young in ((3, 0), (30, 30), (300, 0)):
        drawn, total = normal_reports(np.random.default_rng(1), reports, young)
        errors = np.array([broken(reports, each, least, 1.0) for each in drawn.std(axis=1)])
        held = (np.abs(drawn.mean(axis=1)) <= Z * errors).mean() > LEAST
        narrow = np.median(errors) / (total / reports) < (3.0 if reports < 30 else 1.15)
        failed.append(not (held and narrow))
    assert any(failed)


@pytest.mark.parametrize("freedom", [2, 3, 4, 9, 29, 1000])
def test_student(freedom):
    assert student(freedom) * Z == pytest.approx(stats.t.ppf(0.975, freedom), rel=0.01)
    if freedom > 3:
        assert student(freedom) * Z == pytest.approx(stats.t.ppf(0.975, freedom), rel=4e-4)


def test_it_lies_between_what_reports_can_have():
    """Whoever sends what, and in whatever numbers."""
    assert error_of_mean(0, 0.0, 1.0, 3.0) == float("inf")
    assert error_of_mean(100, 0.0, 1.0, 3.0) == 0.1
    assert error_of_mean(100, 1e9, 1.0, 3.0) == pytest.approx(0.3225)
    assert error_of_mean(100, 1e9, 3.0, 3.0) == 0.3


@pytest.mark.parametrize("name", NAMES)
def test_a_slot_has_the_error_of_its_reports(name):
    """Eq. 15 for CGM, the law before eq. 8 for its baseline: what 4,000 reports tell is off by 1 %
    (a standard deviation).
    """
    users, slots = 4000, 40
    method = made(name, horizon=slots)
    stated = [
        found.standard_error
        for found in crowds(method, method.release(np.full((users, slots), 30.0), seeded(3)))
    ]
    lawful = [
        100 * method.sigma * sqrt(law(name, BOUND, report + 1) / users) for report in range(slots)
    ]
    assert stated == pytest.approx(lawful, rel=5 / sqrt(2 * users))
    assert max(stated) / min(stated) > (2.0 if name == "cgm" else 1.1)


def seeded(number):
    return lk.randomness.seeded(number)


def test_users_who_join_in_the_middle():
    """A slot of users whose 40th report it is, and of as many whose 10th: the mean of both laws."""
    method = made("cgm", horizon=40)
    old, new = (
        method.release(np.full((4000, slots), 30.0), seeded(slots))[:, -1] for slots in (40, 10)
    )
    [found] = crowds(method, np.concatenate([old, new])[:, None])
    both = [law("cgm", BOUND, report) for report in (40, 10)]
    assert found.standard_error == pytest.approx(
        100 * method.sigma * sqrt(sum(both) / 2 / 8000), rel=0.05
    )
    [young] = crowds(method, method.release(np.full((8000, 1), 30.0), seeded(1)))
    assert young.standard_error > 1.8 * found.standard_error


@pytest.mark.parametrize("name", NAMES)
def test_releases_of_crowds_hold_the_truth(name):
    """300 crowds of 30, in the first slot, in the middle and in the last."""
    crowd, slots = 30, 40
    method = made(name, horizon=slots)
    values = np.random.default_rng(4).uniform(0, 100, 300 * crowd)
    released = method.release(np.repeat(values[:, None], slots, axis=1), seeded(4))
    for at in (0, 19, 39):
        rows = released[:, at].reshape(300, crowd)
        found = [crowds(method, row[:, None])[0] for row in rows]
        ends = np.array([each.interval() for each in found])
        truth = values.reshape(300, crowd).mean(axis=1)
        held = (ends[:, 0] <= truth) & (truth <= ends[:, 1])
        assert held.mean() > 0.95 - 4 * (0.95 * 0.05 / 300) ** 0.5
        narrowest = 100 * sqrt(method.variance(at + 1) / crowd)
        assert np.median([each.standard_error for each in found]) < 1.15 * narrowest


def test_a_vector_has_it_coordinate_by_coordinate():
    method = lk.method(
        "cgm_vector", epsilon=1.0, delta=1e-5, horizon=20, dimension=3, diameter=10.0
    )
    released = method.release(np.full((3000, 20, 3), 1.0), seeded(5))
    for at in (0, 19):
        found = method.crowd(method.support(released[:, at] / 10.0))
        lawful = 10 * sqrt(method.variance(at + 1) / 3000)
        assert found.standard_error == pytest.approx(np.full(3, lawful), rel=5 / sqrt(6000))
    assert not np.isfinite(method.crowd(method.support(method.blank(0))).standard_error).any()


def test_a_geometric_mean_has_the_interval_of_its_logarithm():
    """A normal one would begin below 0."""
    method = made("cgm", horizon=10, change="multiplicative", domain=(1.0, 100.0))
    released = method.release(np.full((2000, 10), 10.0), seeded(6))
    shares = np.log(released[:, 9]) / np.log(100.0)
    found = method.crowd(method.support(shares))
    low, high = found.interval()
    away = Z * np.log(100.0) * sqrt(method.variance(10) / 2000)
    assert np.log(found.value / low) == pytest.approx(away, rel=0.1)
    assert low * high == pytest.approx(found.value**2)
    assert found.standard_error == pytest.approx((high - low) / (2 * Z))


@cases("shares", [(-30.0, 30.0), (40.0, 45.0), (-40.0, -45.0)])
def test_intervals_of_means_are_cut_to_the_domain(shares):
    """Where the truth lies. Their errors are not."""
    for change, domain in (("additive", (-50.0, 50.0)), ("multiplicative", (2.0, 100.0))):
        method = made("cgm", horizon=10, change=change, domain=domain)
        found = method.crowd(method.support(np.array(shares)))
        low, high = found.interval()
        assert domain[0] <= low <= high <= domain[1]
        assert found.standard_error > 100 or change == "multiplicative"
    vector = lk.method("cgm_vector", epsilon=1.0, delta=1e-5, horizon=9, dimension=2, diameter=4.0)
    found = vector.crowd(vector.support(np.column_stack([shares, shares])))
    low, high = found.interval()
    assert ((low >= -2) & (low <= high) & (high <= 2)).all()


@cases("value", [1.0, 31.6, 1000.0])
def test_one_user_s_interval_is_of_the_logarithm_where_changes_are_multiplicative(value):
    """It has the value unless the normal noise is beyond its quantiles, so in 95 of 100 reports."""
    method = lk.method(
        "cgm", epsilon=20.0, delta=1e-3, horizon=1, change="multiplicative", domain=(1.0, 1000.0)
    )
    noise = np.log(1000.0) * sqrt(method.variance(1))
    quantiles = np.array([-Z - 0.01, -Z + 0.01, 0.0, Z - 0.01, Z + 0.01])
    low, high = method.single_limits(value * np.exp(noise * quantiles))
    holds = (low <= value * (1 + 1e-9)) & (value * (1 - 1e-9) <= high)
    assert holds.tolist() == [value == 1.0, True, True, True, value == 1000.0]


@cases("epsilon", [2.0, 6.0, 12.0])
def test_one_user_s_error_is_that_of_the_log_normal_law(epsilon):
    method = lk.method(
        "cgm", epsilon=epsilon, delta=1e-3, horizon=1, change="multiplicative", domain=(10.0, 30.0)
    )
    noise = np.log(3.0) * sqrt(method.variance(1))
    normal = np.linspace(-12, 12, 24001) + 2 * noise
    chances = stats.norm.pdf(normal) * 1e-3
    square = chances @ (30.0 * np.exp(noise * normal) - 30.0) ** 2
    assert method.single_error == pytest.approx(sqrt(square), rel=1e-4)
