"""Frequencies from how many reports support each category, where that is affine in the truth."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.mechanisms.base import Estimate
from ldp_kafka.mechanisms.supporters import OfPopulation, OfReports

__all__ = ["AffineSupport"]


class AffineSupport(NamedTuple):
    """A report supports the category behind it with probability p, each other one with
    probability q.

    Notes
    -----
    The share of reports that support a category of frequency f is q + (p - q) f on average: Wang,
    Blocki, Li and Jha, USENIX Security 2017, eq. 2; LDP-IDS, eq. 2 and 3.

    Examples
    --------
    >>> AffineSupport(0.5, 0.25).estimate(np.array([100, 50, 25])).value.tolist()
    [1.0, 0.0]
    """

    p: float
    q: float

    def estimate(self, support: NDArray[np.int64], *, population: bool = False) -> Estimate:
        """Frequencies (categories,) from (n, supporters of each category); unbiased, so single ones
        can be below zero. See `Mechanism.estimate_support` for ``population``.
        """
        n = int(support[0])
        if n == 0:
            return Estimate.unknown(len(support) - 1)
        truth = (support[1:] / n - self.q) / (self.p - self.q)
        return self.stated(truth, support, population=population)

    def stated(
        self, truth: NDArray[np.float64], support: NDArray[np.int64], *, population: bool
    ) -> Estimate:
        """These estimates (categories,) with what (n, supporters of each category), n at least 1,
        say of how far off they are: exact limits, and a standard error that is never 0.
        """
        n = int(support[0])
        law = (OfPopulation if population else OfReports)(n, self.p, self.q)
        # of thousands of categories most have as many supporters as some other one
        each, back = np.unique(support[1:], return_inverse=True)
        supporters = each.astype(np.float64)
        low, high, error = (part[back] for part in _told(law, tuple(supporters.tolist())))

        seen = support[1:] / n
        spread = seen * (1 - seen) if population else self.spread(np.clip(truth, 0, 1))
        variance = spread / n / (self.p - self.q) ** 2

        def chance_above(threshold: float) -> NDArray[np.float64]:
            return law.chance_above(supporters, threshold)[back]

        return Estimate(truth, error, n, (low, high), chance_above=chance_above, variance=variance)

    def expected(self, frequencies: NDArray[np.float64], n: int) -> NDArray[np.int64]:
        """The support of n reports of such frequencies (categories,), as it is on average."""
        supporters = np.round(n * (self.q + (self.p - self.q) * frequencies))
        return np.concatenate([[n], supporters]).astype(np.int64)

    def variance(self, frequency: float | NDArray[np.float64]) -> NDArray[np.float64]:
        """Variance of one report's estimate of a category of that frequency, given the values; of n
        reports, a mean of n of them, it is this / n.
        """
        found = self.spread(np.asarray(frequency, np.float64))
        return np.asarray(found / (self.p - self.q) ** 2)

    def spread(self, frequency: NDArray[np.float64]) -> NDArray[np.float64]:
        """Variance of whether one report supports a category of that frequency, given the
        values.
        """
        f, (p, q) = frequency, self
        return np.asarray(f * p * (1 - p) + (1 - f) * q * (1 - q))


@lru_cache(maxsize=8, typed=True)  # two laws of the same numbers are equal tuples
def _told(
    law: OfPopulation | OfReports, supporters: tuple[float, ...]
) -> tuple[NDArray[np.float64], ...]:
    """Limits and standard errors of these numbers of supporters, of which few reports have few."""
    given = np.array(supporters)
    limits = law.limits(given)
    low, high = (np.clip(end, 0.0, 1.0) for end in limits)
    return low, high, law.standard_error(given, limits)
