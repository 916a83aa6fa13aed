"""The distribution behind reports of the Square Wave family, by expectation maximisation."""

from __future__ import annotations

from math import exp, floor
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.base import check_number, check_whole

__all__ = ["Band", "Distribution", "reconstruct"]

BINS = 2**14  # at most
SMOOTH = 1e-3  # tolerance of EMS, and of EM at epsilon 0
SHARE = 1e-3  # of the uniform law in what a run starts with: a share of exactly 0 would stay 0


@runtime_checkable
class Band(Protocol):
    """A mechanism whose likelier reports move along with the value: `Window` is one.

    Values are rounded at random to the points 0..steps of a grid over ``domain``.
    """

    epsilon: float
    domain: tuple[float, float]

    @property
    def steps(self) -> int:
        """Cells of the input grid: points are one more."""

    @property
    def index_range(self) -> tuple[int, int]:
        """Least and greatest report in units of the mechanism's ``scale``."""

    def push(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probabilities (outputs,) of reports, for probabilities (steps + 1,) of grid points."""

    def pull(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Means (steps + 1,) of ``scores`` (outputs,) under each grid point's law."""


class Distribution(NamedTuple):
    """Shares of the values in bins of the domain, and how they were found."""

    shares: NDArray[np.float64]
    """(bins,), sum 1; NaN without reports."""
    edges: NDArray[np.float64]
    """(bins + 1,), equally spaced over the domain."""
    log_likelihood: NDArray[np.float64]
    """(iterations,) of the reports, under the shares that each iteration began with: never falls
    without smoothing.
    """
    converged: bool
    """Whether the last iterations differed by less than the tolerance."""
    reports: int

    @property
    def iterations(self) -> int:
        """How many were used."""
        return len(self.log_likelihood)

    @property
    def density(self) -> NDArray[np.float64]:
        """(bins,), per unit of the domain: what ``numpy.histogram(values, density=True)``
        estimates.
        """
        return self.shares / np.diff(self.edges)

    @property
    def mean(self) -> float:
        """Of values spread evenly over their bins."""
        return float(self.shares @ (self.edges[:-1] + self.edges[1:]) / 2)


def reconstruct(
    mechanism: Band,
    histogram: NDArray[np.integer],
    *,
    bins: int = 256,
    smooth: bool = True,
    start: NDArray[np.floating] | None = None,
    tolerance: float | None = None,
    iterations: int = 10_000,
) -> Distribution:
    """The most likely distribution behind reports (EM), or one that is smoothed at every step
    (EMS).

    Parameters
    ----------
    mechanism : `SquareWave`, `Piecewise` or `Hybrid`
    histogram : (1 + outputs,) as `Window.histogram` counts them: the sum over any parts of a
        population
    bins : equal bins of the domain, 2..2**14; values are taken to be spread evenly over their bin
    smooth : EMS, for distributions whose neighbouring bins are alike, with 64 bins or more; False:
        EM
    start : (bins,) shares to begin with, such as the last slot's; default: uniform
    tolerance : gain of the log-likelihood in one iteration, below which they stop; default: 1e-3
        for EMS, 1e-3 e^epsilon for EM, as in the paper
    iterations : at most so many

    Raises
    ------
    TypeError, ConfigurationError : a parameter is of the wrong kind, or out of range
    ValueError : the histogram is not one of this mechanism, or ``start`` has not one finite share
        of at least 0 a bin

    Notes
    -----
    Li et al., SIGMOD 2020, section 5: f <- f * M^T(n / M f) / sum n, M[o, b] = P[report o | a value
    of bin b], exact for the discrete law and its rounding to the grid; EMS convolves f with (1, 2,
    1) / 4 after each step (the ends keep what would fall outside). M is a band plus a constant,
    applied by cumulative sums: an iteration costs O(bins + outputs). Post-processing: it costs no
    privacy.

    The smaller epsilon, the flatter the likelihood: at 0.01 nats and a million reports the first
    iterations gain less than the tolerance, and what is returned is nearly the start.

    Of a ``start`` a thousandth is exchanged for the uniform law, so that no bin is ruled out. EM
    likelihoods are concave in f, so the start changes how many iterations are needed and, by less
    than the tolerance lets through, the result.

    Examples
    --------
    >>> import numpy as np, ldp_kafka as lk
    >>> m = lk.mechanism("square_wave", epsilon=2.0)
    >>> reports = m.perturb(np.repeat([0.1, 0.5], [30_000, 10_000]), lk.randomness.seeded(7))
    >>> found = m.distribution(reports, bins=5, smooth=False)
    >>> found.shares.round(2).tolist(), found.converged
    ([0.75, 0.0, 0.25, 0.0, 0.0], True)
    """
    if not isinstance(mechanism, Band):
        raise TypeError(
            "a distribution needs a mechanism whose reports keep the order of values: square_wave,"
            " piecewise, or hybrid above 0.61 nats"
        )
    _check(bins, smooth, tolerance, iterations)
    counts = _counts(mechanism, histogram)
    lo, hi = mechanism.domain
    edges = np.linspace(lo, hi, bins + 1)
    shares = (
        np.full(bins, 1 / bins)
        if start is None
        else (1 - SHARE) * _shares(start, bins) + SHARE / bins
    )
    n = int(counts.sum())
    if n == 0:
        return Distribution(np.full(bins, np.nan), edges, np.empty(0), False, 0)
    enough = (
        tolerance
        if tolerance is not None
        else SMOOTH
        if smooth
        else SMOOTH * exp(min(mechanism.epsilon, 50.0))
    )
    column, weight = _grid(mechanism.steps, bins)
    flat = column.ravel()
    seen = np.flatnonzero(counts)
    share, scores = counts[seen] / n, np.zeros(len(counts))
    trail: list[float] = []
    converged = False
    while len(trail) < iterations and not converged:
        points: NDArray[np.float64] = np.bincount(
            flat, (weight * shares[:, None]).ravel(), mechanism.steps + 1
        ).astype(np.float64, copy=False)
        chance = mechanism.push(points)[seen]
        trail.append(n * float(share @ np.log(chance)))
        converged = len(trail) > 1 and abs(trail[-1] - trail[-2]) < enough
        scores[seen] = share / chance
        shares *= (mechanism.pull(scores)[column] * weight).sum(1)
        if smooth:
            shares = _smoothed(shares)
        shares /= shares.sum()  # 1 already, but for rounding
    return Distribution(shares, edges, np.array(trail), converged, n)


def _grid(steps: int, bins: int) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Grid points (bins, k) that the values of each bin are rounded to, and how often: the integral
    of the rounding's triangles over the bin.
    """
    ends = np.arange(bins + 1) * (steps / bins)
    column = np.floor(ends[:-1])[:, None] + np.arange(floor(steps / bins) + 3)
    below = [np.clip(end[:, None] - column, -1, 1) for end in (ends[:-1], ends[1:])]
    left, right = (np.where(y < 0, (1 + y) ** 2 / 2, 1 - (1 - y) ** 2 / 2) for y in below)
    return np.minimum(column, steps).astype(np.intp), (right - left) * (bins / steps)


def _smoothed(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    out = shares / 2
    quarter = shares / 4
    out[1:] += quarter[:-1]
    out[:-1] += quarter[1:]
    out[0] += quarter[0]
    out[-1] += quarter[-1]
    return out


def _check(bins: int, smooth: bool, tolerance: float | None, iterations: int) -> None:
    for name, value, most in (("bins", bins, BINS), ("iterations", iterations, 10**9)):
        check_whole(value, name, 2, most)
    if not isinstance(smooth, bool | np.bool):
        raise TypeError("smooth must be True or False")
    if tolerance is not None and not 0 <= check_number(tolerance, "tolerance") < float("inf"):
        raise ConfigurationError("tolerance must be at least 0 and finite")


def _counts(mechanism: Band, histogram: NDArray[np.integer]) -> NDArray[np.int64]:
    given = np.asarray(histogram)
    low, high = mechanism.index_range
    if given.dtype.kind not in "iu":
        raise TypeError("a histogram must hold whole numbers")
    if given.shape != (high - low + 2,) or (given < 0).any() or given[0] != given[1:].sum():
        raise ValueError(
            "a histogram must be the number of reports, then the count of each output of this"
            " mechanism"
        )
    return given[1:].astype(np.int64)


def _shares(start: NDArray[np.floating], bins: int) -> NDArray[np.float64]:
    given: NDArray[np.float64] = np.asarray(start, np.float64)
    if given.shape != (bins,) or not (
        np.isfinite(given).all() and (given >= 0).all() and given.max() > 0
    ):
        raise ValueError(
            "start must hold one finite share of at least 0 for each bin, and not only zeros"
        )
    given = given / given.max()  # sums of huge ones would overflow
    return np.asarray(given / given.sum())
