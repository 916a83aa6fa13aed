"""Distributions of numbers over public bins: decisions look at the reports themselves, releases at
what most likely lies behind them.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.base import Estimate
from ldp_kafka.mechanisms.reconstruction import Band, reconstruct
from ldp_kafka.methods.protocols.oracle import Oracle
from ldp_kafka.methods.values import Numbers

__all__ = ["Binned", "Shares", "check_bins"]

BINS = 256  # at most
PARTS = 2  # that EM looks for in each bin
REPEATS = 16  # of a reconstruction, for its error


class Binned(Oracle):
    """Numbers whose reports keep their order. What it estimates is in report space, (d,): the
    shares of reports in ``bins`` equal groups of the mechanism's outputs, so both phases must have
    one budget a report, as where users are divided.
    """

    def __init__(self, values: Numbers, factory: Callable[..., Any], bins: int) -> None:
        super().__init__(values, factory)
        self.bins = bins

    def at(self, cost: int) -> Any:
        found = super().at(cost)
        if not (isinstance(found, Band) and hasattr(found, "histogram")):
            raise ConfigurationError(
                "bins needs an oracle whose reports keep the order of values: square_wave,"
                " piecewise, or hybrid above 0.61 nats a report"
            )
        return found

    def support(self, cost: int, answers: NDArray[Any]) -> NDArray[np.int64]:
        """The number of reports, and of each output."""
        sums: NDArray[np.int64] = self.at(cost).histogram(answers)
        return sums

    def estimate(self, cost: int, sums: NDArray[np.int64], *, population: bool) -> Estimate:
        """Shares of the reports, with the standard errors of a sample."""
        del cost, population
        n, outputs = int(sums[0]), len(sums) - 1
        group = np.arange(outputs) * self.bins // outputs
        seen = np.bincount(group, sums[1:], self.bins) / n
        return Estimate(seen, np.sqrt(seen * (1 - seen) / n), n)

    def variance(self, cost: int) -> float:
        """Of a report's group, where all are alike; infinite without a mechanism."""
        return (1 - 1 / self.bins) / self.bins if self.has(cost) else inf

    def shares(
        self, cost: int, sums: NDArray[np.int64], seed: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Shares (bins,) of the values in bins of the domain, most likely behind at least one
        report (EM), and their errors (bins,).

        EM takes values to be spread evenly over its bins; with half of each of ours as one, values
        that are not are found too: at 3 nats and 8 bins the error is half as large. The error is
        that of a parametric bootstrap: the root mean square distance from these shares of what EM
        finds behind as many reports of them. It has what EM is off by on average in it, where
        shares are 0 too. It has not what EM is off by where values are not spread evenly over these
        halves: many that lie close together beside the edge of two bins are split between both,
        however many report. Drawn from a public ``seed``: it is no noise of privacy.
        """
        mechanism, n = self.at(cost), int(sums[0])
        fine = self._behind(mechanism, sums)
        found, law = fine.reshape(self.bins, PARTS).sum(1), report_law(mechanism, fine)
        generator = np.random.default_rng([seed % 2**64, n])
        away = np.zeros(self.bins)
        for _ in range(REPEATS):
            again = np.concatenate([[n], generator.multinomial(n, law)])
            other = self._behind(mechanism, again).reshape(self.bins, PARTS).sum(1)
            away += (other - found) ** 2
        return found, np.sqrt(away / REPEATS)

    def even(self, cost: int, reports: int) -> NDArray[np.int64]:
        """The sums of so many reports of values that are spread evenly over the domain, each
        output as often as is expected.
        """
        parts = np.full(self.bins * PARTS, 1 / (self.bins * PARTS))
        steps = np.round(np.cumsum(report_law(self.at(cost), parts)) * reports).astype(np.int64)
        steps[-1] = reports
        return np.concatenate([[reports], np.diff(steps, prepend=0)])

    def _behind(self, mechanism: Band, sums: NDArray[np.int64]) -> NDArray[np.float64]:
        """The likeliest shares of the parts of the bins."""
        return reconstruct(mechanism, sums, bins=self.bins * PARTS, smooth=False).shares

    @property
    def prior(self) -> NDArray[np.float64]:
        return np.full(self.bins, 1 / self.bins)

    @property
    def length(self) -> float:
        return 1.0

    def farthest(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(np.maximum(values, 1 - values))


class Shares:
    """What is released of a distribution, slot by slot.

    Notes
    -----
    While a publication is held, what is known of moves is in report space: by how much more the
    squared error of the reports' shares is than it was. The error of the shares grows in the same
    proportion. That is by more than a move of the values asks for: EM turns the reports' noise,
    which is rough, into larger errors than a move, which is as smooth as the mechanism makes it.
    """

    def __init__(self, oracle: Binned) -> None:
        self._oracle = oracle
        self.value = oracle.prior
        self.error = oracle.farthest(self.value)
        self._noise = 1.0

    def publish(
        self, reports: tuple[int, NDArray[np.int64]], seed: int, error: NDArray[np.float64]
    ) -> None:
        """Take in the reports of a publication, (cost, sums), and the standard errors (d,) of their
        shares.
        """
        self.value, self.error = self._oracle.shares(*reports, seed)
        self._noise = float(np.mean(np.square(error)))

    def held(self, error: NDArray[np.float64]) -> NDArray[np.float64]:
        """(bins,) error of what is held, given that of the reports' shares now (d,)."""
        more = float(np.mean(error**2)) / self._noise if self._noise > 0 else 1.0
        found = self.error * max(more, 1.0) ** 0.5
        return np.asarray(np.minimum(found, self._oracle.farthest(self.value)))

    def saved(self) -> dict[str, Any]:
        """Its state in plain lists and numbers."""
        return {
            "value": self.value.tolist(),
            "error": self.error.tolist(),
            "noise": self._noise,
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Take the state of another one."""
        self.value, self.error = np.array(saved["value"]), np.array(saved["error"])
        self._noise = saved["noise"]


def report_law(mechanism: Band, shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probabilities (outputs,) of reports of values that are spread evenly over their bins."""
    each = -(-4 * mechanism.steps // len(shares))  # values a bin: four a cell of the grid or more
    weights = np.repeat(shares / each, each)
    place = (np.arange(len(weights)) + 0.5) * (mechanism.steps / len(weights))
    point = place.astype(np.intp)
    up = place - point
    size = mechanism.steps + 1
    points = np.zeros(size)
    points += np.bincount(point, weights * (1 - up), size)
    points += np.bincount(point + 1, weights * up, size)
    law = np.maximum(mechanism.push(points), 0.0)
    return np.asarray(law / law.sum())


def check_bins(bins: Any) -> int:
    """``bins`` as an int in 2..256; TypeError or ConfigurationError otherwise."""
    if isinstance(bins, bool | np.bool) or not isinstance(bins, int | np.integer):
        raise TypeError("bins must be a whole number")
    if not 2 <= bins <= BINS:
        raise ConfigurationError(f"bins must lie between 2 and {BINS}")
    return int(bins)
