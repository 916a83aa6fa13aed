"""Square Wave: report a point near the true one, more often than a point far from it."""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property
from math import exp, expm1, floor, inf, log, nan

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.base import CHUNK, Certificate, Estimate, Law, check_domain, check_epsilon, exp_below
from ldp_kafka.randomness import Randomness

__all__ = ["SquareWave"]

WORD = 2**32  # values of one secure word
CELLS = 1024  # points of the input grid
ROUND = 2**16  # steps of the stochastic rounding to the grid


class SquareWave:
    """Report one of CELLS + 2b grid points: those within b of the input's point weigh e^epsilon times the others.

    Parameters
    ----------
    epsilon : float in [1e-6, inf), nats
    domain : (lo, hi), public; values outside are clamped to it

    Notes
    -----
    Li et al., SIGMOD 2020, section 4.1; CAPP, section III-B. The continuous half-width b = (e e^e - e^e + 1) / (2 e^e (e^e - 1 - e)) maximises the mutual information; here it is
    rounded down to the grid. One word rounds the input to the grid without bias, the second is cut by integer thresholds: ``near`` words for each of the 2b + 1 near points, ``far``
    words for each of the CELLS - 1 others, and what is left over always for the highest point.

    Guarantee: for any output o and any two inputs, P[o | x] / P[o | x'] <= near / far (mixtures over the rounding lie between the grid points' laws; the left-over words add the same
    to both sides of the ratio at one output). ``far`` is rounded up and ``near`` down, so near / far <= e^epsilon. The set of possible outputs is the same for every input.

    Examples
    --------
    >>> import numpy as np, ldp_kafka as lk
    >>> m = lk.mechanism("square_wave", epsilon=1.0, domain=(0.0, 1.0))
    >>> m.perturb(np.array([0.0, 0.5, 1.0]), lk.randomness.seeded(7)).tolist()
    [1.0302734375, 0.701171875, 0.0048828125]
    >>> round(m.certificate().epsilon_effective, 6)
    1.0
    """

    scale = 1 / CELLS  # one step of the reports

    def __init__(self, epsilon: float, domain: tuple[float, float] = (0.0, 1.0)) -> None:
        self.epsilon, self.domain = check_epsilon(epsilon), check_domain(domain)
        e = self.epsilon
        width = 0.5 if e < 1e-3 else (e - 1 + exp(-e)) / (2 * (expm1(e) - e)) if e < 500 else 0.0
        self._half = floor(width * CELLS)
        self._reach, self._others = 2 * self._half + 1, CELLS - 1
        far = 1 / (exp_below(e) * self._reach + self._others) if e < 500 else Fraction(1, WORD)
        self._far = -(-WORD * far.numerator // far.denominator)  # up ...
        self._near = min((WORD - self._far * self._others) // self._reach, int(exp_below(min(e, 50)) * self._far))  # ... and down
        self._inside = self._near * self._reach
        self._points = CELLS + 2 * self._half
        if not self._near > self._far:
            raise ConfigurationError("epsilon is too small for the grid of 2**-32: at least 1e-6")

    def perturb(self, values: NDArray[np.floating], randomness: Randomness) -> NDArray[np.float64]:
        """Reports (n,) on the unit scale, whole multiples of 2**-10, for values (n,) of the domain. ValueError for NaN and infinities (the value is not shown)."""
        exact: NDArray[np.float64] = np.asarray(values, dtype=np.float64)
        if len(exact) <= CHUNK:
            return self._perturb(exact, randomness, 0)
        out = np.empty(len(exact))
        for first in range(0, len(exact), CHUNK):
            out[first : first + CHUNK] = self._perturb(exact[first : first + CHUNK], randomness, first)
        return out

    def _perturb(self, values: NDArray[np.float64], randomness: Randomness, first: int) -> NDArray[np.float64]:
        words = randomness.words(len(values), 2, first=first)
        point = self._snap(values)
        point += words[:, 0] & np.uint32(ROUND - 1)  # up with the probability of what lies above the point
        point >>= np.uint32(ROUND.bit_length() - 1)
        word = words[:, 1].copy()
        near = word // np.uint32(self._near)
        near += point
        inside = word < np.uint32(self._inside)
        word -= np.uint32(self._inside)
        word //= np.uint32(self._far)  # the rank among the others
        word += (word >= point) * np.uint32(self._reach)
        np.minimum(word, np.uint32(self._points - 1), out=word)  # left over
        np.copyto(word, near, where=inside)
        word -= np.uint32(self._half)
        return np.multiply(word.view(np.int32), self.scale)

    def law(self, value: float) -> Law:
        """The exact law: a mixture of the two grid points' laws around the value."""
        point, part = divmod(int(self._snap(np.array([value], np.float64))[0]), ROUND)
        here, there = self._weights(point), self._weights(min(point + 1, CELLS - 1))
        support = (np.arange(self._points) - self._half) * self.scale
        return Law(support, [(ROUND - part) * a + part * b for a, b in zip(here, there, strict=True)], WORD * ROUND)

    def certificate(self) -> Certificate:
        """The exact loss: the ratio near / far is reached at every output but the highest, where the left-over words make it smaller."""
        ratio = Fraction(self._near, self._far)
        return Certificate(ratio, min(log(ratio), self.epsilon))

    def support(self, reports: NDArray[np.floating]) -> NDArray[np.int64]:
        """(n, sum of indices, sum of their squares), exact below 2**41 reports."""
        index = np.rint(np.asarray(reports) * CELLS).astype(np.int64)
        return np.array([len(index), index.sum(), (index * index).sum()])

    def estimate(self, reports: NDArray[np.floating], *, population: bool = False) -> Estimate:
        """Mean of the values behind the reports, on the domain."""
        return self.estimate_support(self.support(reports), population=population)

    def estimate_support(self, support: NDArray[np.int64], *, population: bool = False) -> Estimate:
        """Mean by inverting the affine mean of the discrete law; its error by inverting the quadratic second moment."""
        n, total, squares = (int(s) for s in support)
        if n == 0:
            return Estimate(nan, inf, 0)
        slope, low, curve, tilt, level = self._moments
        mean, second = total / n * self.scale, squares / n * self.scale**2
        x = (mean - low) / slope
        lo, hi = self.domain
        if population:
            variance = max(second - mean**2, 0.0)
        else:  # E[Var(report | value)] = E[y^2] - E[(slope x + low)^2], the mean of x^2 from the second moment
            xx = min(max((second - level - tilt * x) / curve, 0.0), 1.0)
            variance = (curve - slope**2) * xx + (tilt - 2 * slope * low) * min(max(x, 0.0), 1.0) + level - low**2
        return Estimate(lo + x * (hi - lo), (variance / n) ** 0.5 / slope * (hi - lo), n)

    @property
    def index_range(self) -> tuple[int, int]:
        """Least and greatest report in units of ``scale``."""
        return -self._half, self._points - self._half - 1

    def tables(self) -> tuple[int, ...]:
        """(grid points, half-width, near, far)."""
        return CELLS, self._half, self._near, self._far

    def _snap(self, values: NDArray[np.float64]) -> NDArray[np.uint32]:
        """Values on the input grid, in steps of 1 / ROUND of a cell, rounded down."""
        if not np.isfinite(values).all():
            raise ValueError("values must be finite")
        lo, hi = self.domain
        scaled = np.clip(values, lo, hi)
        scaled -= lo
        scaled *= (CELLS - 1) * ROUND / (hi - lo)
        return scaled.astype(np.uint32)  # a last unit too much is cut off here: hi is exactly the last point

    def _weights(self, point: int) -> list[int]:
        weights = [self._far] * self._points
        weights[point : point + self._reach] = [self._near] * self._reach
        weights[-1] += WORD - self._inside - self._far * self._others
        return weights

    @cached_property
    def _moments(self) -> tuple[float, float, float, float, float]:
        """slope, low of E[report | x] = low + slope x, and curve, tilt, level of E[report^2 | x] = level + tilt x + curve x^2: exact, both hold at every grid point."""
        first, second = [], []
        for point in (0, 1, CELLS - 1):
            weights = self._weights(point)
            first.append(Fraction(sum(w * (i - self._half) for i, w in enumerate(weights)), WORD * CELLS))
            second.append(Fraction(sum(w * (i - self._half) ** 2 for i, w in enumerate(weights)), WORD * CELLS**2))
        step = Fraction(1, CELLS - 1)
        slope = first[2] - first[0]
        rise, start = second[2] - second[0], second[1] - second[0]
        curve = (rise - start / step) / (1 - step)
        return float(slope), float(first[0]), float(curve), float(rise - curve), float(second[0])
