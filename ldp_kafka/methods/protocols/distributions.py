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
from ldp_kafka.mechanisms.base import Estimate, Z
from ldp_kafka.mechanisms.reconstruction import Band, reconstruct
from ldp_kafka.methods.protocols.bin_limits import BinLimits
from ldp_kafka.methods.protocols.oracle import Oracle, Told
from ldp_kafka.methods.values import Numbers

__all__ = ["Binned", "check_bins"]

BINS = 256  # at most
PARTS = 2  # that EM looks for in each bin
KEPT = 16  # scores of limits that are kept


class Binned(Oracle):
    """Numbers whose reports keep their order. What it estimates is in report space, (d,): the
    shares of reports in ``bins`` equal groups of the mechanism's outputs, so both phases must have
    one budget a report, as where users are divided.
    """

    def __init__(self, values: Numbers, factory: Callable[..., Any], bins: int) -> None:
        super().__init__(values, factory)
        self.bins = bins
        self._kept: dict[tuple[int, int], BinLimits] = {}

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
        """Shares of the reports, with the standard errors of a sample: what is decided by."""
        del cost, population
        n, outputs = int(sums[0]), len(sums) - 1
        group = np.arange(outputs) * self.bins // outputs
        seen = np.bincount(group, sums[1:], self.bins) / n
        return Estimate(seen, np.sqrt(seen * (1 - seen) / n), n)

    def variance(self, cost: int) -> float:
        """Of a report's group, where all are alike; infinite without a mechanism."""
        return (1 - 1 / self.bins) / self.bins if self.has(cost) else inf

    def told(self, cost: int, sums: NDArray[np.int64], *, population: bool) -> Told:
        """Stated are the shares (bins,) of the values in bins of the domain, most likely behind at
        least one report (EM), with limits that hold for those who report as for a population
        (`BinLimits`).

        EM takes values to be spread evenly over its bins; with half of each of ours as one, values
        that are not are found too: at 3 nats and 8 bins the error is half as large. Many that lie
        close together beside the edge of two bins are split between both, however many report.
        """
        mechanism, n = self.at(cost), int(sums[0])
        fine = reconstruct(mechanism, sums, bins=self.bins * PARTS, smooth=False).shares
        value = fine.reshape(self.bins, PARTS).sum(1)
        # sorted: of reports that no values make the lower one can be the higher
        low, high = np.sort(self._limits(cost, n).of(sums[1:]), axis=0)
        error = (high - low) / (2 * Z)
        limits = np.clip(np.minimum(low, value), 0, 1), np.clip(np.maximum(high, value), 0, 1)
        found = self.estimate(cost, sums, population=population)
        return Told(found, Estimate(value, error, n, limits))

    def _limits(self, cost: int, reports: int) -> BinLimits:
        """Those for about so many reports: one for each power of four."""
        about = 4 ** (reports.bit_length() // 2)
        found = self._kept.get((cost, about))
        if found is None:
            if len(self._kept) >= KEPT:
                self._kept.clear()
            found = self._kept[cost, about] = BinLimits(self.at(cost), self.bins, about)
        return found

    def even(self, cost: int, reports: int) -> NDArray[np.int64]:
        """The sums of so many reports of values that are spread evenly over the domain, each
        output as often as is expected.
        """
        parts = np.full(self.bins * PARTS, 1 / (self.bins * PARTS))
        steps = np.round(np.cumsum(report_law(self.at(cost), parts)) * reports).astype(np.int64)
        steps[-1] = reports
        return np.concatenate([[reports], np.diff(steps, prepend=0)])

    @property
    def prior(self) -> NDArray[np.float64]:
        return np.full(self.bins, 1 / self.bins)

    @property
    def bounds(self) -> tuple[float, float]:
        return 0.0, 1.0


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
