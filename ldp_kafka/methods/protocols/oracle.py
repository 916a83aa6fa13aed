"""What a protocol's users report with, at whatever budget a report has, and what sums of their
reports say.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import MICRO
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.base import Estimate, Law, frequency_variance
from ldp_kafka.mechanisms.intervals import NoiseMoments, estimate_of
from ldp_kafka.methods.values import FIXED, Categories, Numbers

__all__ = ["INPUTS", "ORACLES", "Oracle", "Told", "scalar"]

# where a law is looked at: a mechanism is noisiest at an end or in the middle
INPUTS = tuple(np.linspace(0, 1, 9).tolist())
KEPT = 1024  # mechanisms that are kept, one a budget; what is dropped is built again

ORACLES = {"numeric": "hybrid", "categorical": "adaptive"}
"""By kind of values, the mechanism that users report with where none is named."""


def scalar(found: Estimate) -> Estimate:
    """An estimate (1,) of a mean as one of numbers."""
    limits = None if found.limits is None else (found.limits[0][0], found.limits[1][0])
    error = None if found.standard_error is None else float(found.standard_error[0])
    return found._replace(
        value=float(found.value[0]), standard_error=error, limits=limits, variance=None
    )


class Told(NamedTuple):
    """What the reports of a phase tell."""

    found: Estimate
    """What is decided by."""
    stated: Estimate
    """What is released, with the error that holds."""


class Oracle:
    """A family of mechanisms, one for each whole number of micro-epsilon.

    Parameters
    ----------
    values : what is reported of: numbers of a domain, or categories
    factory : ``(epsilon, unit domain or categories) -> Mechanism``
    """

    numeric: bool
    """Whether values are numbers."""
    empirical: bool
    """Whether the variance of an estimate is the one found; else it follows from the mechanism."""

    def __init__(self, values: Numbers | Categories, factory: Callable[..., Any]) -> None:
        self.values = values
        self.numeric = self.empirical = isinstance(values, Numbers)
        self._factory = factory
        self._built: dict[int, Any] = {}
        self._variances: dict[int, float] = {}

    def at(self, cost: int) -> Any:
        """The mechanism of ``cost`` micro-epsilon. ConfigurationError where there is none of so
        little.
        """
        found = self._built.get(cost)
        if found is None:
            found = self._factory(cost / MICRO, self.values.unit)
            if len(self._built) >= KEPT:
                del self._built[next(iter(self._built))]
            self._built[cost] = found
        return found

    def has(self, cost: int) -> bool:
        """Whether there is a mechanism of so many micro-epsilon."""
        if not cost > 0:
            return False
        try:
            self.at(cost)
        except ConfigurationError:
            return False
        return True

    def inputs(self, codes: NDArray[np.int64]) -> NDArray[Any]:
        """What the mechanism is given for `Values.bound` values."""
        return codes / FIXED if self.numeric else codes

    def support(self, cost: int, answers: NDArray[Any]) -> NDArray[np.int64]:
        """Additive integer sums of reports of ``cost``, their number first."""
        sums: NDArray[np.int64] = self.at(cost).support(answers)
        return sums

    def estimate(self, cost: int, sums: NDArray[np.int64], *, population: bool) -> Estimate:
        """Means or frequencies (d,) with their errors (d,) from the merged sums of at least one
        report of ``cost``; d = 1 for numbers.
        """
        mechanism = self.at(cost)
        made = mechanism.estimate_support(sums, population=population)
        if population and made.limits is None:  # a mechanism of somebody else's
            n, (lo, hi) = made.reports, self.bounds
            noise = NoiseMoments(
                self.variance(cost) / (hi - lo) ** 2
                if self.numeric
                else mechanism.estimate_support(sums).square * n
            )
            made = estimate_of(made.value, made.square * n, n, noise, population=True)
        found = self.values.estimate(made)
        return found._replace(
            value=np.atleast_1d(np.asarray(found.value, np.float64)),
            standard_error=np.atleast_1d(np.asarray(found.standard_error, np.float64)),
            limits=found.limits
            and (np.atleast_1d(found.limits[0]), np.atleast_1d(found.limits[1])),
            variance=np.atleast_1d(np.asarray(found.square, np.float64)),
        )

    def told(self, cost: int, sums: NDArray[np.int64], *, population: bool) -> Told:
        """What is decided by, and what is released: here they are one."""
        found = self.estimate(cost, sums, population=population)
        return Told(found, found)

    def variance(self, cost: int) -> float:
        """Variance of one report's estimate, given the values, on their scale: for categories the
        mean over all of them, which does not depend on their frequencies; for numbers that of the
        value where it is largest. Infinite where there is no mechanism of so little.
        """
        found = self._variances.get(cost)
        if found is None:
            found = self._variance(cost) if self.has(cost) else inf
            if len(self._variances) >= KEPT:
                self._variances.clear()
            self._variances[cost] = found
        return found

    def _variance(self, cost: int) -> float:
        mechanism = self.at(cost)
        if isinstance(self.values, Numbers):
            laws = [Law.of(mechanism.law(x)) for x in INPUTS]
            slope = laws[-1].mean() - laws[0].mean()
            lo, hi = self.values.domain
            return max(law.variance() for law in laws) * ((hi - lo) / slope) ** 2
        found = frequency_variance(mechanism, 1 / self.values.categories)
        if found is None:
            raise ConfigurationError(
                "oracle must state its variance(frequency): a protocol that adapts weighs it"
            )
        return found

    @property
    def prior(self) -> NDArray[np.float64]:
        """What stands before the first publication, (d,): the domain's midpoint, or equal
        frequencies.
        """
        if isinstance(self.values, Numbers):
            lo, hi = self.values.domain
            return np.array([lo + (hi - lo) / 2])
        return np.full(self.values.categories, 1 / self.values.categories)

    @property
    def bounds(self) -> tuple[float, float]:
        """Where the truth must lie."""
        return self.values.domain if isinstance(self.values, Numbers) else (0.0, 1.0)
