"""A window of likelier points on a public grid: what Square Wave, Piecewise and Hybrid share."""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property
from math import fsum, inf, nan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.base import (
    Certificate,
    Estimate,
    Law,
    check_domain,
    check_epsilon,
    check_values,
    exp_below,
    in_chunks,
    own,
    whole,
)
from ldp_kafka.mechanisms.intervals import FEW, NoiseMoments, estimate_of, half_length
from ldp_kafka.mechanisms.reconstruction import Distribution, reconstruct
from ldp_kafka.randomness import Randomness

__all__ = ["CAP", "CELLS", "ROUND", "WORD", "Moments", "Window", "check_grid", "choose"]

WORD = 2**32  # values of one secure word
CELLS = 1024  # cells of the input grid, unless told otherwise
ROUND = 2**16  # steps of the stochastic rounding to the grid
CAP = 50.0  # nats: no ratio of two parts of a word is larger than e^22
KEPT = 1024  # of the half-lengths below
_halves: dict[tuple[Any, ...], float] = {}
"""What `Window._half` has found of equal mechanisms."""


class Moments(NamedTuple):
    """Of a report on the unit scale, for a value a share ``x`` up the domain: exact at the points
    of the grid, for the integers that are sampled with.
    """

    slope: float
    """E[report | x] = low + slope x."""
    low: float
    curve: float
    """E[report^2 | x] = level + tilt x + curve x^2."""
    tilt: float
    level: float


class Window:
    """Report one of ``steps + reach`` points: the ``reach`` of them that start at the input's own
    weigh ``near`` words each, the others ``far``.

    Parameters
    ----------
    epsilon : float, nats
    domain : (lo, hi), public; values outside are clamped to it

    Notes
    -----
    Inputs are the points 0..steps of a public grid over the domain; input i has the window i..i +
    reach - 1 of the outputs 0..steps + reach - 1, so each has ``reach`` near outputs and ``steps``
    far ones. One word rounds a value to one of the two grid points around it without bias (16 of
    its bits: steps of 2**-16 of a cell). The second is cut by integer thresholds: ``near`` words
    for each near point, ``far`` for each other, and what is left over always for the highest
    output.

    Guarantee: for any output o and any two inputs, P[o | x] / P[o | x'] <= near / far: mixtures
    over the rounding lie between the grid points' laws, and the words left over add the same to
    both sides of the ratio at one output. ``far`` is at least 2**32 / (reach e^epsilon + steps), so
    what is left for a near point, (2**32 - steps far) / reach, rounded down, is at most far
    e^epsilon. Every output has words for every input: the set of possible outputs is the same.

    Estimates invert the moments of this discrete law, not of the continuous one. ``standard_error``
    counts the rounding at its most, a quarter of a squared step: it is never too small.
    """

    epsilon: float
    domain: tuple[float, float]
    scale: float
    """Of the reports: on the unit scale, 0 for the lower end of the domain and 1 for the upper."""
    cells: int
    width = 0  # a report is a number
    _total = WORD  # that the weights of a grid point sum to

    def __init__(self, epsilon: float, domain: tuple[float, float]) -> None:
        self.epsilon, self.domain = check_epsilon(epsilon), check_domain(domain)

    def _build(self, steps: int, reach: int, shift: int, bits: int) -> None:
        """The weights: ``shift`` is the output that is reported as 0, in units of 2**-bits."""
        self._others, self._reach, self._shift, self.scale = steps, reach, shift, 2.0**-bits
        self._points = steps + reach
        most = exp_below(min(self.epsilon, CAP))
        far = 1 / (most * reach + steps)
        self._far = -(-WORD * far.numerator // far.denominator)  # up ...
        self._near = (WORD - self._far * steps) // reach  # ... and down
        self._inside = self._near * reach
        if not self._near > self._far:
            raise ConfigurationError("epsilon is too small for the grid of 2**-32: at least 1e-6")

    def perturb(self, values: NDArray[np.floating], randomness: Randomness) -> NDArray[np.float64]:
        """Reports (n,) on the unit scale, whole multiples of ``scale``, for values (n,) of the
        domain. TypeError unless numbers, ValueError for NaN and infinities (the value is not
        shown).
        """
        return in_chunks(self.perturb_part, check_values(values), own(self, randomness))

    def perturb_part(
        self, values: NDArray[np.float64], randomness: Randomness, first: int
    ) -> NDArray[np.float64]:
        words = randomness.words(len(values), 2, first=first)
        point = self._snap(values)
        # up with the probability of what lies above the point
        point += words[:, 0] & np.uint32(ROUND - 1)
        point >>= np.uint32(ROUND.bit_length() - 1)
        return np.multiply(self._index(point, words).view(np.int32), self.scale)

    def _index(self, point: NDArray[np.uint32], words: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Reports in units of ``scale``, modulo 2**32, for grid points."""
        word = words[:, 1].copy()
        near = word // np.uint32(self._near)
        near += point
        inside = word < np.uint32(self._inside)
        word -= np.uint32(self._inside)
        word //= np.uint32(self._far)  # the rank among the others
        word += (word >= point) * np.uint32(self._reach)
        np.minimum(word, np.uint32(self._points - 1), out=word)  # left over
        choose(word, near, inside)
        word -= np.uint32(self._shift)
        return word

    def _snap(self, values: NDArray[np.float64]) -> NDArray[np.uint32]:
        """Values on the input grid, in steps of 1 / ROUND of a cell, rounded down."""
        if not np.isfinite(values).all():
            raise ValueError("values must be finite")
        lo, hi = self.domain
        scaled = np.clip(values, lo, hi)
        scaled -= lo
        scaled *= self._others * ROUND / (hi - lo)
        return scaled.astype(
            np.uint32
            # hi is the last point: a last unit too much is cut off here, one too little is 2**-16
            # of a cell
        )

    def law(self, value: float) -> Law:
        """The exact law: a mixture of the two grid points' laws around the value."""
        point, part = divmod(int(self._snap(check_values([value]))[0]), ROUND)
        here, there = self._weights(point), self._weights(min(point + 1, self._others))
        support = (np.arange(self._points) - self._shift) * self.scale
        return Law(
            support,
            [(ROUND - part) * a + part * b for a, b in zip(here, there, strict=True)],
            self._total * ROUND,
        )

    def _weights(self, point: int) -> list[int]:
        """Words of each output at a grid point."""
        weights = [self._far] * self._points
        weights[point : point + self._reach] = [self._near] * self._reach
        weights[-1] += self._left
        return weights

    @property
    def _left(self) -> int:
        """Words left over."""
        return WORD - self._inside - self._far * self._others

    def certificate(self) -> Certificate:
        """The exact loss: the ratio near / far is reached at every output but the highest, where
        the left-over words make it smaller.
        """
        ratio = Fraction(self._near, self._far)
        return Certificate.of(ratio, self.epsilon)

    def support(self, reports: NDArray[np.floating]) -> NDArray[np.int64]:
        """(n, sum of indices, sum of their squares), exact while the squares' sum stays below
        2**63: 2**40 reports of the default grid.
        """
        index = self._indices(reports)
        return np.array([len(index), index.sum(), (index * index).sum()])

    def estimate(self, reports: NDArray[np.floating], *, population: bool = False) -> Estimate:
        """Mean of the values behind the reports, on the domain."""
        return self.estimate_support(self.support(reports), population=population)

    def estimate_support(self, support: NDArray[np.int64], *, population: bool = False) -> Estimate:
        """Mean by inverting the affine mean of the discrete law; its limits from the quadratic
        second moment.
        """
        n, total, squares = (int(s) for s in support)
        if n == 0:
            return Estimate(nan, inf, 0)
        slope, low, curve, tilt, level = self.moments
        x = (total / n * self.scale - low) / slope
        variance = (squares * n - total**2) / (n * max(n - 1, 1)) * (self.scale / slope) ** 2
        # Var(report | value) = E[y^2] - E[y]^2, a square in the value
        at = min(max(x, 0.0), 1.0)
        noise = (curve - slope**2) * at**2 + (tilt - 2 * slope * low) * at + level - low**2
        more = curve / slope**2
        known = NoiseMoments(
            max(noise, 0.0) / slope**2,
            more - 1,
            1 / (4 * self._others**2),
            self._kurtosis,
            self._half(n) if n < FEW else None,
        )
        return estimate_of(x, variance, n, known, population=population).on(self.domain)

    def _errors(self, share: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """By how much a report of the value so far up the domain is off, and how likely."""
        lo, hi = self.domain
        law, known = self.law(lo + (hi - lo) * share), self.moments
        return (law.support - known.low) / known.slope - share, law.probabilities()

    @cached_property
    def _kurtosis(self) -> float:
        """Of what a report is off by, in excess of the normal law's, at the end of the domain."""
        errors, chances = self._errors(0.0)
        squares = errors * errors
        variance, fourth = (fsum((chances * each).tolist()) for each in (squares, squares**2))
        return fourth / variance**2 - 3

    def _half(self, reports: int) -> float:
        """How far the mean of so few reports is off at most, in 95 %: of values that are all at one
        end of the domain, or half of them at each, or all in the middle, where that is most.
        """
        key = type(self), self.epsilon, self.domain, self._others, self._near, reports
        if key not in _halves:
            low, middle, high = (self._errors(share) for share in (0.0, 0.5, 1.0))
            some = reports // 2
            if len(_halves) >= KEPT:
                del _halves[next(iter(_halves))]
            _halves[key] = max(
                half_length(errors)
                for errors in (
                    [(*low, reports)],
                    [(*middle, reports)],
                    [(*low, some), (*high, reports - some)],
                )
            )
        return _halves[key]

    def histogram(self, reports: NDArray[np.floating]) -> NDArray[np.int64]:
        """(n, count of each output), (1 + outputs,): additive like any support. ValueError for what
        is no report of this mechanism.
        """
        index = self._indices(reports) + self._shift
        if len(index) and not (index.min() >= 0 and index.max() < self._points):
            raise ValueError("reports must lie within the range of the mechanism's outputs")
        return np.concatenate([[len(index)], np.bincount(index, minlength=self._points)]).astype(
            np.int64
        )

    def distribution(
        self,
        reports: NDArray[np.floating],
        *,
        bins: int = 256,
        smooth: bool = True,
        start: NDArray[np.floating] | None = None,
        tolerance: float | None = None,
        iterations: int = 10_000,
    ) -> Distribution:
        """The distribution of the values behind the reports: `ldp_kafka.mechanisms.reconstruct` of
        their `histogram`.
        """
        return reconstruct(
            self,
            self.histogram(reports),
            bins=bins,
            smooth=smooth,
            start=start,
            tolerance=tolerance,
            iterations=iterations,
        )

    def push(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probabilities (outputs,) of reports, for probabilities (steps + 1,) of grid points: sums
        over windows are differences of cumulative sums.
        """
        running = np.cumsum(points)
        out = np.empty(self._points)
        out[: len(running)] = running
        out[len(running) :] = running[-1]
        out[self._reach :] -= running[:-1]
        out *= (self._near - self._far) / WORD
        out += running[-1] * (self._far / WORD)
        out[-1] += running[-1] * (self._left / WORD)
        return out

    def pull(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Means (steps + 1,) of ``scores`` (outputs,) under each grid point's law: the transpose of
        `push`.
        """
        running = np.concatenate([[0.0], np.cumsum(scores)])
        out = running[self._reach :] - running[: -self._reach]
        out *= (self._near - self._far) / WORD
        out += (running[-1] * self._far + scores[-1] * self._left) / WORD
        return np.asarray(out)

    @property
    def steps(self) -> int:
        """Cells of the input grid as it was built: points are one more."""
        return self._others

    @property
    def index_range(self) -> tuple[int, int]:
        """Least and greatest report in units of ``scale``."""
        return -self._shift, self._points - self._shift - 1

    def _indices(self, reports: NDArray[np.floating]) -> NDArray[np.int64]:
        return np.rint(np.asarray(reports) / self.scale).astype(np.int64)

    @cached_property
    def moments(self) -> Moments:
        """The exact moments, so that methods can invert the mean too."""
        (low, lift), (level, tilt, curve) = self._polynomials()
        step, square, n = Fraction(self.scale), Fraction(self.scale) ** 2, self._others
        return Moments(
            float(lift * n * step),
            float(low * step),
            float(curve * n**2 * square),
            float(tilt * n * square),
            float(level * square),
        )

    def _polynomials(self) -> tuple[tuple[Fraction, Fraction], tuple[Fraction, Fraction, Fraction]]:
        """Coefficients of E[index | i] and E[index^2 | i] in the grid point i, lowest
        power first.
        """
        first, last, reach = -self._shift, self._points - 1 - self._shift, self._reach
        more = self._near - self._far
        # sums of j and of j^2 within a window
        ones, pairs = (reach * (reach - 1) // 2, (reach - 1) * reach * (2 * reach - 1) // 6)
        low = (
            self._far * sum(range(first, last + 1))
            + self._left * last
            + more * (reach * first + ones)
        )
        level = (
            self._far * sum(i * i for i in range(first, last + 1))
            + self._left * last**2
            + more * (reach * first**2 + 2 * ones * first + pairs)
        )
        tilt = more * (2 * reach * first + 2 * ones)
        return (Fraction(low, WORD), Fraction(more * reach, WORD)), (
            Fraction(level, WORD),
            Fraction(tilt, WORD),
            Fraction(more * reach, WORD),
        )


def choose(target: NDArray[np.uint32], other: NDArray[np.uint32], where: NDArray[np.bool]) -> None:
    """Put ``other`` into ``target`` where told, by arithmetic: a branch on random bits would be
    mispredicted half the time. Uses ``other`` up.
    """
    other ^= target
    other *= where
    target ^= other


def check_grid(cells: int) -> int:
    """``cells`` as a power of two in 64..2**14; TypeError or ConfigurationError otherwise."""
    if not (64 <= whole(cells, "cells") <= 2**14 and int(cells).bit_count() == 1):
        raise ConfigurationError("cells must be a power of two between 64 and 2**14")
    return int(cells)
