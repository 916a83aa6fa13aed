"""Limits of the shares of bins that hold wherever in their bins the values lie."""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.mechanisms.base import Z
from ldp_kafka.mechanisms.reconstruction import Band

__all__ = ["BinLimits"]

Floats = NDArray[np.float64]
WIDTHS = (1.0, 0.5, 0.25, 0.125)  # of a ramp, in bins: one is chosen for all
ROUNDS = 30  # of conjugate gradients, for the scores of a limit
RIDGE = 0.1  # what a score's square weighs, over the number of reports


class BinLimits:
    """Linear scores of reports whose means are limits of shares.

    Parameters
    ----------
    mechanism : whose reports they are of
    bins : equal bins of its domain
    reports : about how many there will be: limits hold for any number

    Notes
    -----
    No function of reports has the mean 1 for a value in a bin and 0 beside it, since the law of a
    report hardly changes across an edge. Of a score g whose mean is at least 1 for each value in
    the bin and at least 0 elsewhere, E[g] is never below the bin's share, and of one with at most 1
    and 0 it is never above. Both are sought near a ramp beside the edges by ridge regression (the
    narrower the ramp, the larger the noise), and then moved by as much as it takes to keep to that
    side for every point of the mechanism's grid. So the limits hold for values that lie close
    together beside an edge, where what is most likely (EM) splits them between two bins.

    The mean score of n reports is off by its sample variance, with Wilson's terms (JASA 1927) for
    what so few reports may not have shown, not divided by 1 + z^2 / n: wider than his.
    """

    def __init__(self, mechanism: Band, bins: int, reports: int) -> None:
        self._mechanism, self._bins, self._reports = mechanism, bins, max(reports, 1)
        points = mechanism.steps + 1
        self._places = np.arange(points) / mechanism.steps
        self._law = mechanism.push(np.full(points, 1 / points))
        width = min(WIDTHS, key=lambda width: self._expected(bins // 2, width))
        found = [self._scores(at, width) for at in range(bins)]
        self._low, self._high = (np.array(each) for each in zip(*found, strict=True))

    def of(self, counts: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """Limits (bins,) of 95 % from the counts (outputs,) of at least one report; not cut to what
        shares can be.
        """
        low, over = _mean(self._low, counts)
        high, above = _mean(self._high, counts)
        return low - over, high + above

    def _expected(self, at: int, width: float) -> float:
        """How far apart the limits of a bin will be where values are spread evenly."""
        low, high = self._scores(at, width)
        square = [
            max(float((self._law * each**2).sum() - (self._law * each).sum() ** 2), 0.0)
            for each in (low, high)
        ]
        noise = sum(sqrt(each / self._reports) for each in square)
        return float((self._law * (high - low)).sum()) + Z * noise

    def _scores(self, at: int, width: float) -> tuple[Floats, Floats]:
        """Scores (outputs,) of a bin's lower and of its upper limit."""
        place, bins, step = self._places, self._bins, 1 / self._mechanism.steps
        # a value is rounded to either neighbour on the grid: at an end of the domain there is none
        first = -1.0 if at == 0 else at / bins
        last = 2.0 if at == bins - 1 else (at + 1) / bins
        ramp = width / bins
        inner = np.clip(np.minimum(place - first, last - place) / ramp, 0, 1)
        outer = np.clip(np.minimum(place - first, last - place) / ramp + 1, 0, 1)
        low, high = self._nearest(inner), self._nearest(outer)
        within = (place >= first + step) & (place <= last - step)
        touched = (place > first - step) & (place < last + step)
        low -= (self._mechanism.pull(low) - within).max()
        high += (touched - self._mechanism.pull(high)).max()
        return low, high

    def _nearest(self, wanted: Floats) -> Floats:
        """Scores (outputs,) whose means are near ``wanted`` (points,), by conjugate gradients."""
        push, pull, law = self._mechanism.push, self._mechanism.pull, self._law
        ridge, points = RIDGE / self._reports, len(wanted)
        left = push(wanted / points)
        scores, step = np.zeros(len(law)), left / law
        square = float((left * step).sum())
        for _ in range(ROUNDS):
            if not square > 0:
                break
            image = push(pull(step) / points) + ridge * law * step
            length = square / float((step * image).sum())
            scores += length * step
            left = left - length * image
            before, square = square, float((left * left / law).sum())
            step = left / law + square / before * step
        return scores


def _mean(scores: Floats, counts: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Means (bins,) of scores (bins, outputs), and how far the truth may be on the one side."""
    n = int(counts.sum())
    mean = (scores * counts).sum(1) / n
    square = np.maximum((scores * scores * counts).sum(1) / n - mean * mean, 0.0)
    unseen = Z / (2 * n) * (scores.max(1) - scores.min(1))
    return mean, Z * (np.sqrt(square / n + unseen * unseen) + unseen)
