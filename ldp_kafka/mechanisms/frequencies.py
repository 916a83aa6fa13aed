"""Frequencies from how many reports support each category, where that is affine in the truth."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.mechanisms.base import (
    CHUNK,
    Certificate,
    Estimate,
    Law,
    check_codes,
    coded,
    in_chunks,
    own,
)
from ldp_kafka.mechanisms.supporters import OfPopulation, OfReports
from ldp_kafka.randomness import Randomness

__all__ = ["AffineSupport", "FrequencyOracle"]


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


class FrequencyOracle(ABC):
    """A mechanism for categories: each report supports some of them, and how many reports support
    each tells the frequencies of the values behind them.

    Notes
    -----
    A `Mechanism`, where a subclass gives the parameters, how a report is drawn, the exact law and
    its certificate, and how reports support categories. Values come to it as category numbers.
    """

    epsilon: float
    categories: int
    scale: int = 1  # one step of the reports
    names: tuple[str, ...] | None = None
    """Of the categories, where values are given by name."""
    width: int = 0
    """Bytes of a report of packed bits; 0: it is a number."""

    @property
    @abstractmethod
    def affine(self) -> AffineSupport:
        """How likely a report supports a category."""

    @abstractmethod
    def perturb_part(
        self, values: NDArray[np.int64], randomness: Randomness, first: int
    ) -> NDArray[Any]:
        """Reports of a part of the categories (n,), whose first row of words is ``first``."""

    @abstractmethod
    def law(self, value: int) -> Law:
        """The exact law."""

    @abstractmethod
    def certificate(self) -> Certificate:
        """The exact loss."""

    @abstractmethod
    def support(self, reports: NDArray[Any]) -> NDArray[np.int64]:
        """(n, additive integer sums). TypeError or ValueError where they are no reports of this
        mechanism.
        """

    @property
    @abstractmethod
    def index_range(self) -> tuple[int, int]:
        """Least and greatest report, or byte of a report."""

    @abstractmethod
    def tables(self) -> Sequence[int]:
        """The integers that it samples with."""

    @property
    def _rows(self) -> int:
        """Reports that are drawn at a time."""
        return CHUNK

    def perturb(self, values: NDArray[np.integer], randomness: Randomness) -> NDArray[Any]:
        """Reports (n,), or (n, width) of packed bits, for true categories (n,), numbers or
        ``names``. TypeError unless integers, ValueError outside 0..categories - 1 (the value is not
        shown).
        """
        return in_chunks(self.perturb_part, self.checked(values), own(self, randomness), self._rows)

    def estimate(self, reports: NDArray[Any], *, population: bool = False) -> Estimate:
        """Frequencies (categories,) of the values behind the reports; unbiased, so single ones can
        be below zero.
        """
        return self.estimate_support(self.support(reports), population=population)

    def estimate_support(self, support: NDArray[np.int64], *, population: bool = False) -> Estimate:
        """Frequencies by inverting the affine law: see `AffineSupport`."""
        return self.affine.estimate(support, population=population)

    def expected(self, frequencies: NDArray[np.float64], n: int) -> NDArray[np.int64]:
        """The support of n reports of such frequencies (categories,), as it is on average."""
        return self.affine.expected(frequencies, n)

    def variance(self, frequency: float | NDArray[np.float64]) -> NDArray[np.float64]:
        """Variance of one report's estimate of a category of that frequency, given the values; of n
        reports, a mean of n of them, it is this / n.
        """
        return self.affine.variance(frequency)

    def checked(self, values: Any) -> NDArray[np.int64]:
        return check_codes(coded(values, self.names), self.categories)


@lru_cache(maxsize=8, typed=True)  # two laws of the same numbers are equal tuples
def _told(
    law: OfPopulation | OfReports, supporters: tuple[float, ...]
) -> tuple[NDArray[np.float64], ...]:
    """Limits and standard errors of these numbers of supporters, of which few reports have few."""
    given = np.array(supporters)
    limits = law.limits(given)
    low, high = (np.clip(end, 0.0, 1.0) for end in limits)
    return low, high, law.standard_error(given, limits)
