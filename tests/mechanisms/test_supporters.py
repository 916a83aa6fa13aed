"""Limits of shares and chances of events, beside scipy's laws: sums over all outcomes, no
sampling.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy.stats import beta, binom

import ldp_kafka as lk
from ldp_kafka.mechanisms.base import Z
from ldp_kafka.mechanisms.supporters import OfPopulation, OfReports
from ldp_kafka.randomness import seeded
from tests.cases import cases

ORACLES = ("grr", "sue", "oue", "olh", "subset_selection", "hadamard")
LAWS = {True: OfPopulation, False: OfReports}
# of 95 % limits; the normal law of a variance of 30 and more is off by so much
LEAST = 0.9495


@cache
def chances(name, epsilon, categories=3):
    """(p, q), by the mechanism's own law of one category's reports: how often they support it, and
    another one.
    """
    mechanism = lk.mechanism(name, epsilon=epsilon, categories=categories)
    law = mechanism.law(0)
    each = np.array([mechanism.support(row[None]) for row in np.asarray(law.support)])
    mean = law.probabilities() @ each[:, 1:]
    if name == "hadamard":  # sums of signs of rows: a sign of the category's own supports it
        values = [mechanism.estimate_support(row).value for row in each]
        p = (1 + 1 / np.max(values)) / 2
        return p, 0.5
    return float(mean[0]), float(mean[1])


def outcomes(n, f, p, q, population):
    """The chances of 0..n supporters."""
    if population:
        return binom.pmf(np.arange(n + 1), n, q + (p - q) * f)
    m = round(n * f)
    mine, others = (binom.pmf(np.arange(i + 1), i, c) for i, c in ((m, p), (n - m, q)))
    return np.convolve(mine, others)


def clopper_pearson(n, p, q, population):
    return LAWS[population](n, p, q).limits(np.arange(n + 1.0))


def wald(n, p, q, population):
    """What was stated: the variance that the reports have, or that of the estimated frequency."""
    seen = np.arange(n + 1) / n
    f = np.clip((seen - q) / (p - q), 0, 1)
    noise = f * p * (1 - p) + (1 - f) * q * (1 - q)
    half = Z * np.sqrt((seen * (1 - seen) if population else noise) / n)
    return (seen - half - q) / (p - q), (seen + half - q) / (p - q)


def wilson(n, p, q, population):
    """Without the continuity correction."""
    seen = np.arange(n + 1) / n
    assert population
    middle = (seen + Z * Z / 2 / n) / (1 + Z * Z / n)
    half = Z / (1 + Z * Z / n) * np.sqrt(seen * (1 - seen) / n + Z * Z / 4 / n / n)
    return (middle - half - q) / (p - q), (middle + half - q) / (p - q)


def at_a_tenth(n, p, q, population):
    """Limits of 90 %, not of 95."""
    low, high = clopper_pearson(n, p, q, population)
    middle = (np.arange(n + 1) / n - q) / (p - q)
    return middle + (low - middle) * 0.84, middle + (high - middle) * 0.84


def covered(limits, name, population, reports=(1, 2, 5, 10, 39, 150, 400)):
    """The least chance, of any frequency, that the limits hold it."""
    least = 1.0
    for epsilon in (0.5, 2.0, 8.0):
        p, q = chances(name, epsilon)
        for n in reports:
            low, high = limits(n, p, q, population)
            for f in {round(n * share) / n for share in (0.0, 0.01, 0.3, 0.95, 1.0)}:
                inside = (low <= f + 1e-12) & (f - 1e-12 <= high)
                least = min(least, outcomes(n, f, p, q, population)[inside].sum())
    return least


@cases("population", [True, False])
@cases("name", ORACLES)
def test_limits_hold_the_truth(name, population):
    """Of any oracle, at any number of reports."""
    assert covered(clopper_pearson, name, population) > LEAST


@cases(
    ("limits", "population"),
    [(wald, True), (wald, False), (wilson, True), (at_a_tenth, True), (at_a_tenth, False)],
)
def test_other_limits_would_be_found(limits, population):
    assert covered(limits, "grr", population) < 0.94


@cases("n", [1, 2, 10, 39, 115])
def test_of_a_population_they_are_clopper_and_pearsons(n):
    """Quantiles of beta laws, taken through the affine map."""
    p, q = chances("oue", 4.0)
    k = np.arange(n + 1)
    low, high = OfPopulation(n, p, q).limits(k.astype(float))
    least = np.where(k == 0, 0.0, beta.ppf(0.025, np.maximum(k, 1), n - k + 1))
    most = np.where(k == n, 1.0, beta.isf(0.025, k + 1, np.maximum(n - k, 1)))
    np.testing.assert_allclose(low * (p - q) + q, least, atol=1e-11)
    np.testing.assert_allclose(high * (p - q) + q, most, atol=1e-11)


@cases("n", [150, 400, 5000])
def test_of_many_reports_they_are_within_a_hundredth(n):
    """Of half an interval."""
    p, q = chances("oue", 1.0)
    k = np.arange(n + 1)
    low, _ = OfPopulation(n, p, q).limits(k.astype(float))
    least = beta.ppf(0.025, np.maximum(k, 1), n - k + 1)
    half = np.where(k == 0, 1.0, k / n - least)
    away = np.abs(low * (p - q) + q - least) / half
    assert away[k > 0].max() < 0.01


@cases(("epsilon", "least", "most"), [(2.0, 1.0, 2.0), (4.0, 2.0, 5.0), (8.0, 9.0, 25.0)])
def test_of_those_who_report_limits_are_no_binomials(epsilon, least, most):
    """Where little noise is drawn a binomial law would be many times too wide."""
    p, q = chances("grr", epsilon)
    k = np.array([round(400 * (q + (p - q) * 0.3))], float)
    (low, high), (left, right) = (LAWS[each](400, p, q).limits(k) for each in (False, True))
    assert least < (right - left)[0] / (high - low)[0] < most


@cases("population", [True, False])
@cases("name", ORACLES)
def test_no_category_is_known_for_sure(name, population):
    """What no report supports, or every one, has an error, and limits in 0..1."""
    for epsilon in (0.5, 4.0, 8.0, 24.0):
        mechanism = lk.mechanism(name, epsilon=epsilon, categories=3)
        for reports in (1, 5, 40, 20_000, 2**40):
            for share in ([1.0, 0.0, 0.0], [0.3, 0.3, 0.4]):
                support = mechanism.expected(np.array(share), reports)
                found = mechanism.estimate_support(support, population=population)
                low, high = found.interval()
                assert (found.standard_error > 0).all()
                assert (low >= 0).all()
                assert (high <= 1).all()
                assert (low <= high).all()


def test_every_category_beside_each_other_is_as_alone():
    """As many supporters have the same limits, whoever else there is."""
    mechanism = lk.mechanism("oue", epsilon=2.0, categories=4)
    both = mechanism.estimate_support(np.array([50, 9, 40, 9, 0]), population=True)
    for at, count in enumerate((9, 40, 9, 0)):
        one = mechanism.estimate_support(np.array([50, 0, 0, 0, count]), population=True)
        assert one.standard_error[3] == pytest.approx(both.standard_error[at], rel=1e-12)
        assert one.interval()[1][3] == pytest.approx(both.interval()[1][at], rel=1e-12)
        assert one.chance_above(0.2)[3] == pytest.approx(both.chance_above(0.2)[at], rel=1e-12)


def likelihoods(n, p, q, population):
    """Many frequencies, and of each the chances of 0..n supporters."""
    f = (np.arange(500) + 0.5) / 500 if population else np.arange(n + 1) / n
    return f, np.array([outcomes(n, each, p, q, population) for each in f])


@cases("population", [True, False])
@cases("n", [1, 5, 40, 125, 300])
@cases("name", ["grr", "oue", "hadamard"])
def test_chances_are_those_of_bayes_rule(name, n, population):
    """Where all frequencies are equally likely; of numbers of supporters that are likelier than one
    in 100,000. The normal law of many is off by some thousandths.
    """
    for epsilon in (1.0, 8.0, 14.0):
        p, q = chances(name, epsilon)
        f, table = likelihoods(n, p, q, population)
        likely = table.mean(0) > 1e-5
        for threshold in (0.05, 0.5, 0.9):
            right = table[f > threshold].sum(0) / table.sum(0)
            found = LAWS[population](n, p, q).chance_above(np.arange(n + 1.0), threshold)
            np.testing.assert_allclose(found[likely], right[likely], atol=8e-3)


def test_what_cannot_be_has_the_chance_of_the_nearest_end():
    """No supporter of 2^30 reports where each has the chance 1/2, and every one of them."""
    found = OfPopulation(2**30, 0.75, 0.5).chance_above(np.array([0.0, 2.0**30]), 0.3)
    assert found.tolist() == [0.0, 1.0]
    found = OfReports(2**30, 0.75, 0.5).chance_above(np.array([0.0, 2.0**30]), 0.3)
    assert found.tolist() == [0.0, 1.0]


def test_supporters_by_signs_are_those_of_the_category():
    """Hadamard's sums of signs tell as much as counts of supporters."""
    mechanism = lk.mechanism("hadamard", epsilon=2.0, categories=5)
    p, _ = chances("hadamard", 2.0, 5)
    reports = mechanism.perturb(np.zeros(40, np.int64), lk.randomness.seeded(1))
    found = mechanism.estimate(reports, population=True)
    counts = np.round(40 * (0.5 + (p - 0.5) * found.value))
    low, _ = OfPopulation(40, p, 0.5).limits(counts)
    assert found.interval()[0] == pytest.approx(np.clip(low, 0, 1), abs=1e-12)


@pytest.mark.parametrize("name", ORACLES)
@pytest.mark.parametrize("population", [True, False])
def test_where_p_is_one_as_a_float_shares_are_as_certain_as_they_are(name, population):
    """From some 38 nats on a category's own reports support it but for a chance below 2**-53."""
    mechanism = lk.mechanism(name, epsilon=50.0, categories=3)
    for n in (1, 40, 4000):
        found = mechanism.estimate(
            mechanism.perturb(np.zeros(n, int), seeded(1)), population=population
        )
        low, high = found.interval()
        assert (low <= [1, 0, 0]).all() and (high >= [1, 0, 0]).all()
        assert np.isfinite(found.standard_error).all()
        chance = found.chance_above(0.5)
        assert ((chance >= 0) & (chance <= 1)).all()
        if n == 4000:
            assert chance == pytest.approx([1, 0, 0], abs=1e-9)


def test_a_threshold_that_is_a_share_is_not_below_itself():
    """.29 * 100 is 28.999999999999996: 29 of 100 reports are not above .29."""
    for hundredth in range(1, 100):
        chance = OfReports(100, 1 - 1e-9, 1e-9).chance_above(
            np.array([1.0 * hundredth]), hundredth / 100
        )
        assert chance < 1e-6
