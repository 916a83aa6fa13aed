"""A goodness-of-fit test with a fixed false-alarm rate, in numpy and the standard library."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

__all__ = ["FALSE_ALARM", "by_place", "by_weight", "limit", "statistic"]

FALSE_ALARM = 1e-6
BINS = 64  # at most, of about equal expectation: many narrow bins would dilute a broad shift


def limit(freedom: int, false_alarm: float = FALSE_ALARM) -> float:
    """A value that chi-square with that many degrees of freedom exceeds with probability about
    ``false_alarm``.

    Wilson and Hilferty (1931): the cube root of chi-square / freedom is nearly normal. At 1e-6 the
    true rate is below the stated one: 0.16 of it for one degree of freedom, 0.63 for ten, 0.96 for
    two hundred.

    Examples
    --------
    >>> round(limit(10), 1), round(limit(100), 1)  # exact: 46.9, 182.1
    (48.0, 182.4)
    """
    spread = 2 / (9 * freedom)
    z = NormalDist().inv_cdf(1 - false_alarm)
    return float(freedom * (1 - spread + z * spread**0.5) ** 3)


def statistic(
    observed: NDArray[np.float64] | NDArray[np.int64],
    expected: NDArray[np.float64],
    bins: NDArray[np.intp],
) -> tuple[float, int]:
    """Chi-square of counts pooled into bins, and its degrees of freedom."""
    seen, due = np.bincount(bins, observed), np.bincount(bins, expected)
    used = due > 0
    return float(((seen[used] - due[used]) ** 2 / due[used]).sum()), max(int(used.sum()) - 1, 1)


def by_place(expected: NDArray[np.float64]) -> NDArray[np.intp]:
    """A bin for each output: neighbours pooled until they are worth it."""
    return _pooled(expected)


def by_weight(expected: NDArray[np.float64], weights: Sequence[int]) -> NDArray[np.intp]:
    """A bin for each output: outputs of one weight together, rare weights pooled. What finds a
    weight that is off everywhere.
    """
    order = {weight: rank for rank, weight in enumerate(sorted(set(weights)))}
    level = np.array([order[weight] for weight in weights], np.intp)
    of_level: NDArray[np.float64] = np.bincount(level, expected).astype(np.float64)
    return _pooled(of_level, 50.0 if len(of_level) <= BINS else 0.0)[level]


def _pooled(expected: NDArray[np.float64], least: float = 0.0) -> NDArray[np.intp]:
    enough = least or float(expected.sum()) / BINS
    bins, current, held = np.empty(len(expected), np.intp), 0, 0.0
    for place, due in enumerate(expected.tolist()):
        if held >= enough:
            current, held = current + 1, 0.0
        bins[place] = current
        held += due
    if current and held < enough:  # the remainder joins the last full bin
        bins[bins == current] = current - 1
    return bins
