"""Chains of reports over Laplace noise: an epsilon for a user's life, without a delta."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Any

import numpy as np

from ldp_kafka.accounting import MICRO, LifetimeLedger, micro
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.base import Law, check_epsilon
from ldp_kafka.methods.base import part_of, whole_budget
from ldp_kafka.methods.chain_stream import ChainStream
from ldp_kafka.methods.made import checked_factory
from ldp_kafka.methods.user_level import LifeBudget

__all__ = ["LaplaceBudget", "LaplaceStream"]

# of a mechanism's bias, in lengths of the domain, and of how its variance hangs on the value: more
# than the grid of `laplace` adds
BIASED, UNEVEN = 2.0**-10, 0.01
HEAVIEST = 4.0  # kurtosis, in excess of the normal law's, for which intervals are tested


class LaplaceBudget(LifeBudget):
    """How much Laplace noise, and how many reports, an epsilon gives.

    Parameters
    ----------
    epsilon : what ``refresh`` reports may lose together
    horizon, refresh, sigma, widest : see `GaussianBudget`
    mechanism : factory ``(epsilon, domain) -> Mechanism`` without bias, whose noise is the same
        whatever the value: ``laplace``

    Notes
    -----
    One report is one call of the mechanism, which holds its input within the unit domain. So it
    loses the mechanism's epsilon at most, whatever its input is and the outputs before it were, and
    l reports lose l times that (adaptive composition), with delta 0. Each has epsilon / ``refresh``
    in whole micro-epsilon rounded down. Where the input may move by ``widest`` lengths, it has that
    many times as much: then noise is that of one length, and ``total`` is what is lost.
    """

    def __init__(
        self,
        epsilon: float,
        *,
        horizon: int | None,
        refresh: int | None,
        sigma: float | None,
        widest: float,
        mechanism: Callable[..., Any],
    ) -> None:
        self.epsilon = check_epsilon(epsilon)
        budget = whole_budget(self.epsilon)
        self._last(horizon, refresh, sigma, lambda wanted: budget / _part_of(wanted))
        one = part_of(budget, self.refresh) if sigma is None else _part_of(sigma)
        self.part = int(one * widest)
        """Micro-epsilon of a report."""
        self.mechanism = checked_factory(mechanism, "mechanism")(self.part / MICRO, (0.0, 1.0))
        self.law, self._sigma, self.kurtosis = _noise_of(self.mechanism)
        lost = self.horizon * self.part
        self.total = self.epsilon if lost <= budget else lost / MICRO

    @property
    def sigma(self) -> float:
        return self._sigma

    def ledger(self) -> LifetimeLedger:
        return LifetimeLedger(self.horizon, micro(self.total), lambda n: n * self.part)


class LaplaceStream(ChainStream):
    """A `ChainStream` of Laplace noise; its guarantee: `LaplaceBudget`.

    The noise of a report is a sum of Laplace noises, one for each report before it. Of all reports
    the first has the largest variance and kurtosis, and so the largest error that is exceeded in
    5 % (tested by exact convolution): what is stated of one report, or of two, is made for its law.
    """

    default_mechanism = "laplace"
    budget: LaplaceBudget

    def __init__(
        self,
        *,
        epsilon: float,
        mechanism: Callable[..., Any],
        domain: tuple[float, float] | None = None,
        horizon: int | None = None,
        refresh: int | None = None,
        sigma: float | None = None,
        calibration: str = "sound",
        categories: int | None = None,
    ) -> None:
        self._shape(domain, categories, calibration)
        self.chain = self._chain()
        self._live(
            LaplaceBudget(
                epsilon,
                horizon=horizon,
                refresh=refresh,
                sigma=sigma,
                widest=self.chain.widest,
                mechanism=mechanism,
            )
        )
        self.kurtosis = self.budget.kurtosis

    def _power_error(self, length: float) -> float:
        """By the exact law of the first report, whose even moments are the largest: without its
        public ends it would be infinite from noise of half a power on.
        """
        unit = self.chain.widest * length
        away = self.budget.law.mean_square(
            1.0, lambda y: np.exp(np.clip((y - 0.5) * unit, -340.0, 340.0))
        )
        return sqrt(away)


def _part_of(sigma: float) -> int:
    """Micro-epsilon of a report whose noise has at least this standard deviation."""
    return max(int(sqrt(2) / sigma * MICRO), 1)


def _noise_of(mechanism: Any) -> tuple[Law, float, float]:
    """The law of a report of 0.5, the standard deviation of its noise, and its kurtosis in excess
    of the normal law's: 3, but for the grid. ConfigurationError where it is no such noise.
    """
    if getattr(mechanism, "law", None) is not None:
        end, middle = (Law.of(mechanism.law(x)) for x in (0.0, 0.5))
        variance = middle.mean_square(0.5)
        kurtosis = middle.mean_square(of=lambda y: (y - 0.5) ** 2) / variance**2 - 3
        even = abs(end.mean()) < BIASED and abs(end.mean_square() / variance - 1) < UNEVEN
        if even and 0 <= kurtosis < HEAVIEST:
            return middle, sqrt(variance), kurtosis
    raise ConfigurationError(
        "the mechanism must be one of Laplace noise, the same for all values: laplace"
    )
