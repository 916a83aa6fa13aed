"""Confidence bounds for means of numbers in [0, 1]."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from ldp_kafka.evaluation.coverage.bound import lower, upper
from ldp_kafka.mechanisms import binomial
from tests.cases import cases


def wrong(bound, runs, mean):
    """The exact probability that a bound from below is above the mean of runs that are 0 or 1."""
    chance = 0.0
    for hits in range(runs + 1):
        shares = np.repeat([1.0, 0.0], [hits, runs - hits])
        if bound(shares) > mean:
            chance += binom.pmf(hits, runs, mean)
    return chance


@cases("mean", [0.5, 0.9, 0.95, 0.99])
@cases("alpha", [0.1, 0.01])
def test_it_is_wrong_no_more_often_than_it_says(mean, alpha):
    """Computed, not sampled."""
    assert wrong(lambda shares: lower(shares, alpha), 60, mean) <= alpha


def test_a_broken_twin_is_wrong_too_often():
    """Which counts the ten slots of a run, all alike, as if they were runs: Clopper and Pearson's
    bound, right where slots are independent.
    """
    alpha = 0.01

    def of_slots(shares):
        return float(binomial.lower(10 * int(shares.sum()), 10 * len(shares), alpha))

    assert wrong(of_slots, 60, 0.9) > 5 * alpha


def test_it_gains_where_the_slots_of_a_run_differ():
    """Twelve independent slots a run: nearer to .95 than Clopper and Pearson's bound of runs that
    are 0 or 1 can be, with the same number of runs.
    """
    rng, runs, alpha = np.random.default_rng(1), 500, 1e-5
    found = lower(rng.binomial(12, 0.95, runs) / 12, alpha)
    assert found < 0.95
    assert found > float(binomial.lower(round(0.95 * runs), runs, alpha)) + 0.005


def test_from_above_it_is_the_mirror():
    shares = np.array([0.1, 0.5, 1.0, 0.9])
    assert upper(shares, 0.05) == pytest.approx(1 - lower(1 - shares, 0.05))
    assert lower(shares, 0.05) < shares.mean() < upper(shares, 0.05)


def test_extremes():
    """None that holds: 0. All: what Markov's inequality gives."""
    assert lower(np.zeros(100), 0.01) == 0
    assert 0.9 < lower(np.ones(100), 0.01) < 1


@cases("shares, alpha", [([0.5], 0.0), ([0.5], 1.0), ([1.5], 0.1), ([-0.1], 0.1), ([np.nan], 0.1)])
def test_what_is_no_share_is_refused(shares, alpha):
    with pytest.raises(ValueError, match="must lie between 0 and 1"):
        lower(np.array(shares), alpha)
