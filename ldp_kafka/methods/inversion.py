"""Where one user's value can be, by one release: the values that a test at 5 % keeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.mechanisms.base import Law

__all__ = ["Inversion", "law_ranges", "shortest"]

INSIDE = 0.95  # chance of a release between the quantiles
NEAR = 1.02  # ranges of releases up to so many times as long as the shortest count as short
LEVELS = 65  # of the values that an exact law is inverted at: 0, 1/64, ..., 1 of the domain


class Inversion(NamedTuple):
    """Confidence intervals from a range that holds 95 % of releases at each of some values (Neyman
    1937): a value is in the interval unless the release lies outside the range that it has there.
    They hold for each value by itself, whatever those of other users are.

    All numbers are in lengths of the domain, from its lower end.
    """

    low: NDArray[np.float64]
    """(levels,) where the range begins, of values evenly spaced from 0 to 1; never falling."""
    high: NDArray[np.float64]
    """(levels,) where it ends, never falling."""
    ends: tuple[float, float]
    """Mean release of a value at either end of the domain, held within that end's range: a release
    beyond says no more than that.
    """

    def __repr__(self) -> str:
        return f"Inversion({len(self.low)} values)"

    @classmethod
    def of(cls, low: Any, high: Any, ends: tuple[float, float], step: float) -> Inversion:
        """From ranges whose ends may fall by chance: each is drawn apart to the next one that
        holds, and by one ``step`` of releases, to which values between the levels are rounded.
        """
        low = np.minimum.accumulate(np.asarray(low)[::-1])[::-1] - step
        high = np.maximum.accumulate(np.asarray(high)) + step
        # y < c = min(ends[0], high[0]) counts as c: y >= low(x) gives low(x) <= c <= high(x)
        return cls(low, high, (min(ends[0], float(high[0])), max(ends[1], float(low[-1]))))

    def limits(self, released: NDArray[np.float64]) -> tuple[Any, Any]:
        """The intervals (low, high), of the shape of what was released, inside 0..1; NaN where
        nothing was. Linear between the levels.

        Examples
        --------
        >>> line = np.arange(5) / 4
        >>> even = Inversion.of(line - 0.25, line + 0.25, (0.0, 1.0), 0.125)
        >>> [part.tolist() for part in even.limits(np.array([0.5, 5.0]))]
        [[0.125, 0.625], [0.875, 1.0]]
        """
        last = len(self.low) - 1
        known = ~np.isnan(released)
        y = np.where(known, np.minimum(np.maximum(released, self.ends[0]), self.ends[1]), 0.0)
        right = np.clip(np.searchsorted(self.high, y, side="left"), 0, last)
        lower = np.where(right > 0, _between(self.high, y, np.maximum(right, 1)), 0.0)
        right = np.searchsorted(self.low, y, side="right")
        upper = np.where(right <= last, _between(self.low, y, np.clip(right, 1, last)), 1.0)
        return np.where(known, lower, np.nan), np.where(known, upper, np.nan)


def _between(
    quantiles: NDArray[np.float64], y: NDArray[np.float64], right: NDArray[np.intp]
) -> NDArray[np.float64]:
    """The value whose quantile this is, between a level and the one before it."""
    before, rise = quantiles[right - 1], quantiles[right] - quantiles[right - 1]
    share = np.divide(y - before, rise, out=np.zeros(y.shape), where=rise > 0)
    found = (right - 1 + np.minimum(np.maximum(share, 0.0), 1.0)) / (len(quantiles) - 1)
    return np.asarray(found, np.float64)


def shortest(points: NDArray[np.float64], chances: NDArray[np.float64]) -> tuple[float, float]:
    """The shortest range that holds 95 % of a law; of about equal ones that with tails most alike.

    Parameters
    ----------
    points : (m,) ascending
    chances : (m,) theirs

    Examples
    --------
    >>> shortest(np.arange(5.0), np.array([0.03, 0.01, 0.92, 0.03, 0.01]))
    (2.0, 3.0)
    """
    total = np.cumsum(chances)
    before = total - chances
    end = np.searchsorted(total, before + INSIDE * (1 - 2.0**-40), side="left")
    held = end < len(points)
    length = points[np.minimum(end, len(points) - 1)] - points
    short = held & (length <= NEAR * length[held].min())
    uneven = np.abs(before - (1 - total[np.minimum(end, len(points) - 1)]))
    at = int(np.argmin(np.where(short, uneven, np.inf)))
    return float(points[at]), float(points[end[at]])


def law_ranges(
    mechanism: Any,
    released: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    given: Callable[[float], float] = float,
) -> Inversion:
    """That of a mechanism's exact laws.

    Parameters
    ----------
    given : maps a value, in lengths of the domain, to what the mechanism perturbs
    released : maps answers (m,) to releases in lengths of the domain, never falling
    """
    low, high, ends = [], [], []
    at = released(np.array([0.0, float(mechanism.scale)]))
    for level in range(LEVELS):
        law = Law.of(mechanism.law(given(level / (LEVELS - 1))))
        points = released(np.asarray(law.support, np.float64))
        order = np.argsort(points, kind="stable")
        points, chances = points[order], law.probabilities()[order]
        first, final = shortest(points, chances)
        low.append(first)
        high.append(final)
        if level in (0, LEVELS - 1):
            ends.append(float(np.cumsum(chances * points)[-1]))
    return Inversion.of(low, high, (ends[0], ends[1]), float(at[1] - at[0]))
