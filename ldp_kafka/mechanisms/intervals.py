"""How far a mean of numbers may be from what reports say: 95 % limits by + - * / and square roots
alone, so that every CPU finds the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ldp_kafka.mechanisms.base import Estimate, Z

__all__ = ["FEW", "NoiseMoments", "estimate_of", "half_length", "quantile", "share_above"]

FEW = 30
"""Reports from which the law of their mean is taken for the normal one."""
CHEBYSHEV = 20**0.5  # standard deviations that no more than 5 % of any law are further away
CELLS = 4096  # that the range of an error is cut into, over the number of errors summed,
LEAST = 256  # but at least so many
Floats = Any
"""Floats (d,), or one."""


class NoiseMoments(NamedTuple):
    """What reports that say one number each are off by, on the unit scale of the domain."""

    level: Floats
    """Its variance (d,) where all values are the mean of the reports, held within the domain."""
    more: float = 0.0
    """By how much it grows with the variance of the values."""
    rounding: float = 0.0
    """What rounding the values to the mechanism's grid adds to their variance."""
    kurtosis: float = 0.0
    """Of one report's error, in excess of the normal law's, where it is largest or nearly."""
    half: float | None = None
    """Of so few reports that their law is asked: how far their mean is off at most, in 95 %, in
    lengths of the domain; None: the normal law with the kurtosis.
    """


def estimate_of(
    mean: Floats, variance: Floats, reports: int, noise: NoiseMoments, *, population: bool
) -> Estimate:
    """The estimate of means (d,) of values in [0, 1], with its 95 % limits.

    Parameters
    ----------
    mean : (d,) of at least one report each, each an unbiased estimate of the value behind it
    variance : (d,) of the reports, with reports - 1 as divisor; of one report anything
    population : whether the truth is the mean of all of whom those with reports are a sample; else
        it is the mean of the values behind these reports

    Notes
    -----
    Reports vary by their noise and by what the values differ by. What the noise does not explain of
    their variance is the values', with a standard error that the noise makes, which is added: of
    few reports, or of noisy ones, the values may then vary by as much as their mean allows. The
    noise has the limits of its own law (``half``), or those of its kurtosis (`quantile`).

    A sample may lack what is rare and far from the others: then neither its variance nor a normal
    law says how far the population's mean may be. Of all laws on [0, 1] with this mean and variance
    the one of the largest third moment is at the end of the domain with some share, and elsewhere
    at one point. The upper limit is that law's: the point, and the Clopper-Pearson limit of the
    share. Of values at the two ends alone it is exact, and of many values it is the normal one. The
    lower limit is found by the same from the other end. Noise and sample are independent, so
    that the squares of both distances from the estimate add up (Zou and Donner, Statistics in
    Medicine, 2008).

    ``limits`` are cut to the domain. ``standard_error`` is their distance before that, in normal
    lengths. ``variance`` is what the reports vary by, or their noise alone.

    Examples
    --------
    >>> few = estimate_of(np.zeros(1), np.zeros(1), 20, NoiseMoments(1e-9), population=True)
    >>> few.limits[1].round(2).tolist()  # Clopper and Pearson, of 0 of 20
    [0.17]
    >>> noisy = estimate_of(np.ones(1), np.ones(1), 400, NoiseMoments(1.0), population=False)
    >>> noisy.standard_error.round(3).tolist(), noisy.limits[1].tolist()
    ([0.05], [1.0])
    """
    inside = np.minimum(np.maximum(mean, 0.0), 1.0)
    most = inside * (1 - inside)
    if reports > 1:
        values = np.maximum((variance - noise.level) / (1 + noise.more), 0.0)
        errors = noise.level * ((2 + noise.kurtosis) * noise.level + 4 * values) / (reports - 1)
        errors = np.sqrt(errors) / (1 + noise.more)
        values = np.minimum(values, most)
        spread, least = np.minimum(values + errors, most), np.maximum(values - errors, 0.0)
        whole = variance if population else noise.level + noise.more * values + noise.rounding
    else:
        spread, least, whole = most, 0 * most, noise.level + noise.rounding
    rounding = 0.0 if population else noise.rounding  # in a sample it is seen as the values' own
    level = noise.level + noise.more * (spread if noise.more > 0 else least) + rounding
    if noise.half is None:
        z = quantile(noise.kurtosis, reports)
        up = down = z * z * level / reports
    else:
        up = down = 0 * level + noise.half * noise.half
    if population:
        above, below = _above(inside, spread, reports), _above(1 - inside, spread, reports)
        up, down = up + above * above, down + below * below
    low, high = mean - np.sqrt(down), mean + np.sqrt(up)
    cut = tuple(np.minimum(np.maximum(end, 0.0), 1.0) for end in (low, high))
    found = (high - low) / (2 * Z), whole / reports, *cut
    error, square, *limits = found if np.ndim(mean) else map(float, found)
    return Estimate(mean, error, reports, (limits[0], limits[1]), variance=square)


def quantile(kurtosis: float, reports: int) -> float:
    """Standard deviations from the middle of the law of a mean to an end of its 95 % interval: the
    normal ones with the Cornish-Fisher term of one report's kurtosis (Hall, The Bootstrap and
    Edgeworth Expansion, 1992, section 2.5), never more than Chebyshev's.

    Examples
    --------
    >>> exact = float(np.log(20)) / 2**0.5  # of one report with Laplace noise
    >>> [round(each, 2) for each in (exact, quantile(3.0, 1), quantile(3.0, 1000))]
    [2.12, 2.17, 1.96]
    """
    return min(Z + (Z * Z - 3) * Z * kurtosis / (24 * reports), CHEBYSHEV)


def _above(mean: Floats, variance: Floats, reports: int) -> Floats:
    """How far above this mean of a sample the population's may be, by the law of this variance that
    is at 1 with some share, and elsewhere at one point.
    """
    away = np.maximum(1 - mean, 2.0**-53)
    square = variance + away * away
    upper = share_above(variance / square * reports, reports)
    return np.asarray(away - (1 - upper) * square / away)


def half_length(errors: Sequence[tuple[Floats, Floats, int]]) -> float:
    """How far from 0 the mean of independent errors of mean 0 is at most, in 95 % of cases: rounded
    up by less than a `LEAST`-th of their range, and no more than Chebyshev's inequality says.

    Parameters
    ----------
    errors : for each law (errors (m,), their probabilities (m,), how many are drawn of it)
    """
    low = min(float(points.min()) for points, _, _ in errors)
    high = max(float(points.max()) for points, _, _ in errors)
    count = sum(drawn for _, _, drawn in errors)
    cells = max(CELLS // count, LEAST)
    step, total, variance = (high - low) / cells, np.ones(1), 0.0
    for points, chances, drawn in errors:
        law = np.bincount(np.rint((points - low) / step).astype(np.int64), chances, cells + 1)
        for _ in range(drawn):
            total = _with(law, total)
        variance += drawn * float(np.cumsum(chances * points * points)[-1])
    away = np.abs(low + np.arange(len(total)) * (step / count))
    order = np.argsort(away, kind="stable")
    held = np.cumsum(total[order])
    found = float(away[order[np.searchsorted(held, 0.95 * held[-1])]] + step / 2)
    return min(found, CHEBYSHEV * float(np.sqrt(variance)) / count)


def _with(law: Floats, total: Floats) -> Floats:
    """The law of a sum with one more term, added up by numpy, not by a library of the CPU's."""
    sums = np.zeros(len(total) + len(law) - 1)
    for at, chance in enumerate(law.tolist()):
        if chance > 0:
            sums[at : at + len(total)] += chance * total
    return sums


def share_above(count: Floats, reports: int) -> Floats:
    """The upper end (d,) of the 95 % interval of a share of which ``count`` (d,) of so many reports
    were seen, not always whole numbers.

    Notes
    -----
    The quantile of Clopper and Pearson, Beta(count + 1, reports - count), by the approximation of
    Paulson, Camp and Pratt (Blyth, JASA 1986): within 0.6 % of it from five reports on, and within
    2 % of one and two.

    Examples
    --------
    >>> share_above(np.array([0.0, 3.0, 10.0]), 10).round(2).tolist()
    [0.31, 0.65, 1.0]
    """
    seen, n = np.minimum(count, max(reports - 1.0, 0.0)) + 1, reports
    unseen = n - seen + 1
    odds = seen / unseen
    top = 81 * seen * unseen - 9 * n - 8
    top = top - 3 * Z * np.sqrt(9 * seen * unseen * (9 * n + 5 - Z * Z) + n + 1)
    ratio = top / (81 * seen * seen - 9 * seen * (2 + Z * Z) + 1)
    upper = 1 / (1 + odds * odds * ratio * ratio * ratio)
    upper = np.minimum(np.maximum(upper, 0.0), 1.0)
    return np.asarray(np.where(count > n - 1, 1.0, upper))
