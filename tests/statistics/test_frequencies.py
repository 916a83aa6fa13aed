"""Shares of a crowd that is a sample of all users: what is stated of them, and what plan says."""

from __future__ import annotations

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.statistics import STATISTICS
from tests.cases import cases

SLOTS = 150
# of 97.5 % at an end: four standard deviations below
LEAST = 0.92
ORACLES = ("grr", "oue", "olh", "subset_selection", "hadamard")


def shares(mechanism, epsilon=8.0, categories=3):
    method = lk.method("lpu", epsilon=epsilon, window=1, categories=categories, mechanism=mechanism)
    return STATISTICS["frequencies"](method)


def supports(mechanism, reports):
    """Of slots of so many reports, all of the first of three categories: (slots, sums)."""
    law = mechanism.law(0)
    each = np.array([mechanism.support(row[None]) for row in np.asarray(law.support)])
    rng = np.random.default_rng(5)
    return rng.multinomial(reports, law.probabilities(), SLOTS) @ each


@cases("users", [400, 5000, 20_000])
@cases("name", ["grr", "oue"])
def test_the_share_of_a_category_that_nobody_or_everybody_has(name, users):
    """At an epsilon at which most slots have no report, or all, that supports it."""
    statistic = shares(name)
    held = np.zeros(3)
    for sums in supports(statistic.method.mechanism, users):
        found = statistic.estimate(sums)
        low, high = found.interval()
        held += (low <= [1, 0, 0]) & (high >= [1, 0, 0])
        assert (low >= 0).all()
        assert (high <= 1).all()
    assert held.min() / SLOTS > LEAST


@cases("reports", [5, 400, 20_000])
@cases("name", ORACLES)
def test_plan_says_the_error_that_releases_carry(name, reports):
    """Where half of the users have one of two categories: the largest."""
    statistic = shares(name, 2.0)
    mechanism = statistic.method.mechanism
    even = mechanism.expected(np.array([0.5, 0.5, 0.0]), reports)
    error = statistic.error(reports)
    assert error >= statistic.estimate(even).standard_error.max() * (1 - 1e-9)
    found = [statistic.estimate(each).standard_error for each in supports(mechanism, reports)[:20]]
    assert np.mean([each[0] for each in found]) < 1.05 * error


@cases("name", ORACLES)
def test_expected_supports_are_those_of_the_law(name):
    """Of many reports."""
    mechanism = lk.mechanism(name, epsilon=1.0, categories=5)
    truth = np.array([0.5, 0.25, 0.25, 0.0, 0.0])
    found = mechanism.estimate_support(mechanism.expected(truth, 2**30)).value
    assert found == pytest.approx(truth, abs=1e-6)


@pytest.mark.parametrize("name", ORACLES)
@pytest.mark.parametrize("users", [1000, 10_000])
def test_plan_has_an_error_of_many_categories(name, users):
    """The expected sums of rows are rounded one by one, and may say more than all reports."""
    method = lk.method("lpu", epsilon=8.0, window=10, categories=100, mechanism=name)
    assert 0 < STATISTICS["frequencies"](method).predict(users).error < 1
