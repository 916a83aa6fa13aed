"""What is taken of a crowd's values from sums of its reports, and what it makes of single releases:
of many crowds at once, or of one crowd as it grows. See `ldp_kafka.methods.shrinkage.Shrinkage`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.methods.response_curve import ResponseCurve

__all__ = ["Prior", "Scale", "Shrunk", "matched", "posterior", "prior_of"]

# of the domain: how far from the midpoint a crowd's mean is taken to be before its reports say
# otherwise
SPREAD = 0.08
# squared lengths of the domain: variance of values spread evenly over it, beyond which three
# standard errors are asked for
EVEN = 1 / 12
HEAVY = 6.0  # kurtosis of Laplace noise; of normal noise it is 3
SURE = 16.0  # squared standard errors beyond which they do: in error once in 16,000 crowds


class Scale(NamedTuple):
    """How whole numbers that are released read, in lengths of the domain from its lower end."""

    low: float
    """That of 0."""
    step: float
    """What it grows by with each unit."""


class Prior(NamedTuple):
    """What is taken of the true values of a crowd, in lengths of the domain from its lower end.
    Numbers, or (n,) of n crowds.
    """

    mean: Any
    mean_error: Any
    """Root mean square error of the mean."""
    variance: Any
    """Over users; what is significant of it."""
    most: Any
    """Two standard errors above its estimate, and at most what values in the domain with this mean
    can have.
    """


class Shrunk(NamedTuple):
    """Releases per user after shrinkage."""

    values: NDArray[np.float64]
    """(n,) on the domain's scale, within the domain."""
    reliability: Any
    """Share of a release's variance over users that is signal, 0..1: the prior's variance over the
    total. 0: every value is the crowd's mean. (n,) where each value has a prior of its own.
    """
    standard_error: Any
    """Root mean square error of a value over users, on the domain's scale; too large rather than
    too small where the prior is uncertain. As many as reliabilities.
    """


def prior_of(read: ResponseCurve, scale: Scale, sums: Sequence[tuple[int, int, int]]) -> Prior:
    """The priors (n,) of crowds, from the number, the sum and the sum of squares of their reports.

    One rounding an operation, and integers up to the quotients: a crowd has the same prior, to the
    bit, whichever others are asked for with it.
    """
    n = np.array([count for count, _, _ in sums], np.float64)
    known = (n >= 2) & (read.slope(0.5) > 0)
    y = scale.low + np.array([total / max(count, 1) for count, total, _ in sums]) * scale.step
    spread_of = [
        (squares * count - total * total) / (count * (count - 1)) if count > 1 else 0.0
        for count, total, squares in sums
    ]
    total = np.array(spread_of) * (scale.step * scale.step)
    # of a crowd that says nothing: it is given the midpoint below
    with np.errstate(divide="ignore", invalid="ignore"):
        raw = read.inverse(y)
        away = raw - 0.5
        # of the chord: a curve may be flat where it ends
        slope = np.where(np.abs(away) > 0.25, (y - read.at(0.5)) / away, read.slope(0.5))
        doubt = read.doubt_at(raw)
        square = (total / n + doubt * doubt) / (slope * slope)
        spread = np.maximum(SPREAD * SPREAD, away * away - SURE * square)
        share = spread / (spread + square)
        mean = 0.5 + share * away
        wrong = share * share * square + (1 - share) * (1 - share) * np.minimum(
            0.25, away * away + square
        )
        slope, bound = read.slope(mean), mean * (1 - mean)
        told = slope > 0  # a curve that is flat there says nothing of how far values lie apart
        square_scale = slope * slope + read.curve
        variance = (total - read.noise(mean)) / square_scale
        unsure = (
            np.sqrt(
                (read.kurtosis - 1) / n * (total * total) + read.middle_doubt * read.middle_doubt
            )
            / square_scale
        )
        likely = np.minimum(
            np.minimum(np.maximum(variance - unsure, 0.0), np.maximum(EVEN, variance - 3 * unsure)),
            bound,
        )
        most = np.minimum(np.maximum(variance, 0.0) + 2 * unsure, bound)
        return Prior(
            np.where(known, mean, 0.5),
            np.where(known, np.sqrt(wrong), 0.5),
            np.where(known & told, likely, 0.0),
            np.where(known, np.where(told, most, bound), 0.25),
        )


def posterior(
    read: ResponseCurve,
    scale: Scale,
    domain: tuple[float, float],
    prior: Prior,
    whole: NDArray[np.int64],
) -> Shrunk:
    """Releases (n,), whole numbers of ``scale``, shrunk by one prior or by one each."""
    lo, hi = domain
    slope = read.slope(prior.mean)
    noise = read.noise(prior.mean) + read.curve * prior.variance
    signal = slope * slope * prior.variance
    with np.errstate(divide="ignore", invalid="ignore"):
        reliability = np.where(signal > 0, signal / (signal + noise), 0.0)
        gain = np.where(reliability > 0, reliability / slope, 0.0)
    values = prior.mean + gain * ((scale.low + whole * scale.step) - read.at(prior.mean))
    left = 1 - gain * slope
    error = left * left * (prior.most + prior.mean_error * prior.mean_error) + gain * gain * (
        read.noise(prior.mean) + 2 * read.middle_doubt + read.curve * prior.most
    )
    most = np.maximum(prior.mean, 1 - prior.mean)
    return Shrunk(
        np.clip(lo + values * (hi - lo), lo, hi),
        reliability,
        np.minimum(np.sqrt(error), most) * (hi - lo),
    )


def matched(prior: Prior, mean: float, variance: float, kurtosis: float) -> tuple[float, float]:
    """How releases of one crowd, of this mean and variance over users, are spread as the users'
    values are: where their mean is to lie, and by what their distances from it are multiplied.

    Parameters
    ----------
    kurtosis : of the noise in a release

    Notes
    -----
    The mean and the standard deviation are brought as near to the prior's as can be without being
    farther from the truth than they are, wherever it lies within two standard errors. Let Z be
    symmetric about 0. The Wasserstein distance of m + sZ and m' + s'Z is E|m - m' + (s - s') Z|. It
    is convex and even in both differences, so it grows with the size of each. Where values and
    releases are spread in one such shape, what is made here is no farther from the values than the
    releases as they are, which are CAPP's rule (section IV-C). Noise whose tails are heavier than
    Laplace noise's has no such shape: most releases are near their values then, and stay.
    """
    around, given = 2 * prior.mean_error, sqrt(variance)
    if not (given > 0 and kurtosis < HEAVY):
        return mean, 1.0
    centre = _nearer(prior.mean, prior.mean - around, prior.mean + around, mean)
    return centre, _nearer(sqrt(prior.variance), 0.0, sqrt(prior.most), given) / given


def _nearer(wanted: float, low: float, high: float, given: float) -> float:
    """The number nearest to ``wanted`` that is as near as ``given`` to each of low..high."""
    if given > high:
        return max(wanted, 2 * high - given)
    if given < low:
        return min(wanted, 2 * low - given)
    return given
