"""Frequencies from how many reports support each category, where that is affine in the truth."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.mechanisms.base import Estimate

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
        n, (p, q) = int(support[0]), self
        if n == 0:
            return Estimate.unknown(len(support) - 1)
        seen = support[1:] / n
        truth = (seen - q) / (p - q)
        variance = seen * (1 - seen) if population else self.spread(np.clip(truth, 0, 1))
        return Estimate(truth, np.sqrt(variance / n) / (p - q), n)

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
