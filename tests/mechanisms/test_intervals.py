"""Intervals of means: they hold whatever the values are, for any number of reports, and are not
much wider than they must be.
"""

from __future__ import annotations

from functools import cache
from math import comb

import numpy as np
import pytest
from scipy.stats import beta, binom

import ldp_kafka as lk
from ldp_kafka.mechanisms import intervals
from ldp_kafka.mechanisms.base import Law
from ldp_kafka.mechanisms.intervals import NoiseMoments, estimate_of, half_length, share_above
from ldp_kafka.methods.protocols.oracle import Oracle
from ldp_kafka.methods.values import Categories, Numbers
from tests.cases import cases

REPEATS = 1000
# of intervals that hold with probability 0.94: four and a half sigma below
LEAST = 0.906
CONFIGURATIONS = {
    "at an end": [(0.0, 1.0)],
    "in the middle": [(0.5, 1.0)],
    "half at each end": [(0.0, 0.5), (1.0, 0.5)],
    "one in 200 high": [(0.1, 0.995), (1.0, 0.005)],
    "one in 20 high": [(0.1, 0.95), (1.0, 0.05)],
    "spread evenly": [(x, 1 / 9) for x in np.linspace(0, 1, 9).tolist()],
}
"""Values and the share of users who have each."""


@cache
def mechanism(name, epsilon):
    delta = {"delta": 1e-5} if name == "gaussian" else {}
    return lk.MECHANISMS[name](epsilon=epsilon, domain=(0.0, 1.0), **delta)


def drawn(made, value, size, rng):
    """Reports of a value, drawn from the law at once."""
    law = Law.of(made.law(value))
    steps = np.cumsum(law.probabilities())
    place = np.searchsorted(steps, rng.random(size) * steps[-1])
    return law.support[np.minimum(place, len(steps) - 1)]


def trial(made, shares, reports, *, population, repeats=REPEATS, seed=7):
    """Estimates (repeats,) of users with such values, and the truth (repeats,)."""
    rng = np.random.default_rng(seed)
    values, chances = (np.array(each) for each in zip(*shares, strict=True))
    if population:
        kinds = rng.choice(len(values), (repeats, reports), p=chances / chances.sum())
        truth = np.full(repeats, values @ chances)
    else:
        share = (np.arange(reports) + 0.5) / reports
        kind = np.minimum(np.searchsorted(np.cumsum(chances), share), len(values) - 1)
        kinds = np.tile(kind, (repeats, 1))
        truth = np.full(repeats, values[kind].mean())
    answers = np.empty((repeats, reports))
    for at, value in enumerate(values):
        mine = kinds == at
        answers[mine] = drawn(made, float(value), int(mine.sum()), rng)
    found = [made.estimate(each, population=population) for each in answers]
    return found, truth


def held(found, truth):
    """The share of intervals that hold the truth."""
    low, high = np.array([each.interval() for each in found]).T
    return float(np.mean((low - 1e-9 <= truth) & (truth <= high + 1e-9)))


def excess(found, truth):
    """The median width over that of the narrowest interval around the values that holds, both cut
    to the domain.
    """
    values = np.array([each.value for each in found])
    low, high = np.array([each.interval() for each in found]).T
    half = np.quantile(np.abs(values - truth), 0.95)
    narrowest = np.clip(values + half, 0, 1) - np.clip(values - half, 0, 1)
    return float(np.median(high - low) / np.median(narrowest))


# --- coverage


@pytest.mark.parametrize("shares", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
@pytest.mark.parametrize("name", ["square_wave", "piecewise", "hybrid"])
@cases("reports", [1, 3, 10])
def test_few_reports_hold_the_mean_of_their_values(name, shares, reports):
    """Given the values: at an end, where noise is largest, and half at each, where reports vary."""
    found, truth = trial(mechanism(name, 8.0), shares, reports, population=False)
    assert held(found, truth) > LEAST


@cases("epsilon", [0.1, 1.0, 8.0, 24.0])
def test_two_reports_of_duchi_are_a_binomial(epsilon):
    """Exactly: of n reports of values that are alike the upper ones are binomial."""
    made = mechanism("duchi", epsilon)
    low, high = (made.law(end).probabilities()[1] for end in (0.0, 1.0))
    for n in (1, 2, 3, 5, 10, 30):
        ends = np.array([made.estimate_support(np.array([n, k])).interval() for k in range(n + 1)])
        for x in np.linspace(0, 1, 11):
            chances = binom.pmf(np.arange(n + 1), n, low + (high - low) * x)
            inside = (ends[:, 0] - 1e-9 <= x) & (x <= ends[:, 1] + 1e-9)
            # the approximation of the limits costs half a percent of them
            assert chances[inside].sum() > 0.945


@pytest.mark.parametrize("shares", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
@pytest.mark.parametrize("name", ["piecewise", "square_wave", "laplace"])
@cases("reports", [1, 2, 40])
def test_samples_hold_the_mean_of_the_population(name, shares, reports):
    """Also of one report, and where the sample most often lacks those who are high."""
    found, truth = trial(mechanism(name, 8.0), shares, reports, population=True)
    assert held(found, truth) > LEAST


def test_few_who_are_high_are_not_forgotten():
    """One in 200, of 100 users who report: most samples have none."""
    made = mechanism("piecewise", 20.0)
    shares = [(0.0, 0.995), (1.0, 0.005)]
    found, truth = trial(made, shares, 100, population=True)
    assert held(found, truth) > LEAST
    normal = [lk.Estimate(each.value, each.variance**0.5, 100) for each in found]
    assert held(normal, truth) < 0.5  # what a twin without them states


# --- width


@pytest.mark.parametrize("name", ["piecewise", "square_wave", "laplace", "gaussian"])
@cases("population", [False, True])
def test_intervals_of_thirty_reports_are_narrow(name, population):
    """At most 1.3 times as wide as they must be, for values that are spread evenly."""
    shares = CONFIGURATIONS["spread evenly"]
    found, truth = trial(mechanism(name, 4.0), shares, 30, population=population)
    assert 0.85 < excess(found, truth) < 1.3


@pytest.mark.parametrize("shares", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_intervals_of_few_reports_are_not_three_times_too_wide(shares):
    """Given the values."""
    for reports in (1, 2, 10):
        found, truth = trial(mechanism("piecewise", 4.0), shares, reports, population=False)
        assert excess(found, truth) < 3


def test_many_reports_have_the_normal_interval():
    """Limits pass into it."""
    for name in ("duchi", "piecewise", "square_wave", "hybrid", "laplace", "gaussian"):
        made = mechanism(name, 1.0)
        values = np.linspace(0, 1, 1000)
        support = made.support(made.perturb(values, lk.randomness.seeded(1))) * 1000
        for population in (False, True):
            found = made.estimate_support(support, population=population)
            # a thousand reports, a thousand times each, vary as a thousand do
            near = 0.03 if population else 2e-3
            assert found.standard_error == pytest.approx(found.variance**0.5, rel=near)
            low, high = found.interval()
            middle, width = (low + high) / 2, high - low
            assert middle == pytest.approx(found.value, abs=width / 100)


# --- the parts


@cases("reports", [5, 10, 30, 100, 20_000])
def test_shares_have_the_limits_of_clopper_and_pearson(reports):
    """Also where what was seen is no whole number."""
    seen = np.concatenate([np.linspace(0, 3, 7), np.linspace(0, 1, 11) * (reports - 1)])
    exact = beta.ppf(0.975, seen + 1, reports - seen)
    np.testing.assert_allclose(share_above(seen, reports), exact, rtol=7e-3)
    assert share_above(np.array([reports]), reports).tolist() == [1.0]


@cases("reports", [1, 2, 7, 29])
def test_the_law_of_few_errors_is_the_binomial(reports):
    """Errors of 0.3 and -0.7, as likely as makes their mean 0."""
    law = (np.array([0.3, -0.7]), np.array([0.7, 0.3]), reports)
    away = np.abs(np.arange(reports + 1) - 0.3 * reports) / reports
    chances = np.array(
        [comb(reports, k) * 0.3**k * 0.7 ** (reports - k) for k in range(reports + 1)]
    )
    order = np.argsort(away)
    exact = away[order][np.searchsorted(np.cumsum(chances[order]), 0.95)]
    found = half_length([law])
    assert exact - 1e-9 <= found <= exact + 1 / intervals.LEAST


def test_values_at_the_ends_have_exact_limits():
    """Without noise: those of a share, of which the variance says nothing more."""
    for seen, reports in ((1, 12), (3, 40), (39, 40)):
        share = seen / reports
        square = share * (1 - share) * reports / (reports - 1)
        low, high = estimate_of(
            share, square, reports, NoiseMoments(0.0), population=True
        ).interval()
        assert high == pytest.approx(beta.ppf(0.975, seen + 1, reports - seen), rel=7e-3)
        assert 1 - low == pytest.approx(beta.ppf(0.975, reports - seen + 1, seen), rel=7e-3)


def test_noise_of_heavy_tails_has_no_wider_interval_than_chebyshevs():
    """However large its kurtosis."""
    found = estimate_of(0.5, 0.01, 50, NoiseMoments(0.01, kurtosis=1e7), population=False)
    assert found.interval()[1] - 0.5 == pytest.approx((20 * 0.01 / 50) ** 0.5)


# --- protocols


class Theirs:
    """A mechanism of somebody else's, which states no limits."""

    def __init__(self, epsilon, domain):
        self._own = lk.MECHANISMS["piecewise"](epsilon=epsilon, domain=domain)

    def __getattr__(self, name):
        return getattr(self._own, name)

    def estimate_support(self, support, *, population=False):
        found = self._own.estimate_support(support, population=population)
        return lk.Estimate(found.value, found.variance**0.5, found.reports)


@pytest.mark.parametrize("factory", [Theirs, lk.MECHANISMS["piecewise"]])
def test_protocols_state_what_a_sample_may_lack(factory):
    """Of a mechanism that states limits, and of one that does not."""
    oracle = Oracle(Numbers("lpu", (0.0, 100.0), None), factory)
    cost = 8_000_000
    made = oracle.at(cost)
    reports = made.perturb(np.zeros(50), lk.randomness.seeded(3))
    sums = made.support(reports)
    found = oracle.told(cost, sums, population=True).stated
    assert found.value.shape == found.standard_error.shape == found.limits[0].shape == (1,)
    low, high = found.interval()
    assert low[0] == 0.0
    assert 7.1 < high[0] < 10.5  # of 50 who are low 7.1 % may be high, beside the noise
    assert found.value[0] == oracle.estimate(cost, sums, population=True).value[0]


class TheirCategories(Theirs):
    def __init__(self, epsilon, categories):
        self._own = lk.MECHANISMS["grr"](epsilon=epsilon, categories=categories)


def test_shares_that_no_report_supports_have_limits():
    """Of a mechanism that states none: of 40 of whom none supports a category 8.8 % may be of it,
    as Clopper and Pearson have it, which is approximated.
    """
    oracle = Oracle(Categories("lpu", None, 3), TheirCategories)
    found = oracle.told(8_000_000, np.array([40, 40, 0, 0]), population=True).stated
    low, high = found.interval()
    assert low[0] < 0.92 and high[0] == 1.0
    assert low[1] == 0.0 and 0.087 < high[1] < 0.1
    assert (found.standard_error > 0.02).all()


def test_no_error_is_further_away_than_chebyshev_has_it():
    """Of a law with one far output the cells are wider than all else."""
    points, chances = np.array([-1e-4, 1e-4, 1.0, -1.0]), np.array([0.5, 0.5, 1e-9, 1e-9])
    assert half_length([(points, chances / chances.sum(), 29)]) < 20**0.5 * 1.1e-4 / 29**0.5
