"""Clopper-Pearson bounds, beside scipy's and by their definition."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta, binom

from ldp_kafka.mechanisms.binomial import lower, upper


@pytest.mark.parametrize("alpha", [0.5, 0.1, 0.025, 1e-6, 1e-12])
@pytest.mark.parametrize("n", [1, 2, 10, 1000, 500_000])
def test_bounds_are_scipys(n, alpha):
    """Quantiles of the beta distribution."""
    k = np.unique(np.clip([0, 1, 2, 17, n // 1000, n // 3, n // 2, n - 2, n - 1, n], 0, n))
    low = np.where(k == 0, 0.0, beta.ppf(alpha, np.maximum(k, 1), n - k + 1))
    high = np.where(k == n, 1.0, beta.isf(alpha, k + 1, np.maximum(n - k, 1)))
    np.testing.assert_allclose(lower(k, n, alpha), low, rtol=2e-9)
    np.testing.assert_allclose(upper(k, n, alpha), high, rtol=2e-9)
    one_by_one = [lower(each, n, alpha) for each in k.tolist()]
    np.testing.assert_allclose(one_by_one, low, rtol=2e-9)


@pytest.mark.parametrize("n", [2, 40, 300, 10**6, 10**9])
def test_a_bound_is_the_same_beside_others(n):
    """To the bit; a continued fraction that goes on for another number's sake drifts away, and of
    10^9 trials it never came to an end.
    """
    k = np.unique(np.clip([*range(60), *range(n - 60, n + 1)], 0, n))
    for bound in (lower, upper):
        alone = [float(bound(each, n, 0.025)) for each in k.tolist()]
        assert bound(k, n, 0.025).tolist() == alone


def test_coverage_by_the_definition():
    """For every p, the bounds miss it with probability at most alpha: the sum over all outcomes, no
    sampling.
    """
    n, alpha = 30, 0.05
    k = np.arange(n + 1)
    low, high = lower(k, n, alpha), upper(k, n, alpha)
    for p in np.linspace(0.001, 0.999, 200):
        chances = binom.pmf(k, n, p)
        assert chances[low > p].sum() <= alpha + 1e-12
        assert chances[high < p].sum() <= alpha + 1e-12


def test_bounds_are_ordered():
    """More hits, higher bounds."""
    k = np.arange(2001)
    for bound in (lower, upper):
        assert (np.diff(bound(k, 2000, 1e-6)) > 0).all()


@pytest.mark.parametrize(
    ("hits", "trials", "alpha"),
    [(1, 0, 0.1), (-1, 3, 0.1), (4, 3, 0.1), (1, 3, 0.0), (1, 3, 1.0), (float("nan"), 3, 0.1)],
)
def test_nonsense_is_refused(hits, trials, alpha):
    """Before it becomes a bound."""
    with pytest.raises(ValueError, match="must lie"):
        lower(hits, trials, alpha)
