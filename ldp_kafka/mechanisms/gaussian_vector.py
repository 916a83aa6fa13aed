"""Gaussian noise for vectors of a ball."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, inf, log, log2, sqrt

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.additive import CAP, WORDS, AdditiveNoise, Noise, check_cells
from ldp_kafka.mechanisms.alias import WORD
from ldp_kafka.mechanisms.base import (
    CHUNK,
    Certificate,
    Estimate,
    check_epsilon,
    check_number,
    check_vectors,
    check_whole,
    exp_below,
    in_chunks,
    own,
)
from ldp_kafka.mechanisms.gaussian import (
    PARTS,
    analytic_delta,
    analytic_sigma,
    check_delta,
    normal_noise,
)
from ldp_kafka.mechanisms.intervals import estimate_of
from ldp_kafka.randomness import Randomness

__all__ = ["Coupled", "GaussianVector"]

# of the diameter: more than the rounding errors of the projection to the ball and of the grid of
# 2**-31, for up to 2**20 coordinates
SLACK = 2.0**-20
# default cells keep sigma below so many of them, or four times as many where the grid would cost an
# eighth of it: the table then fits the second cache
ROUGH = 2**12


class Coupled:
    """Normal noise for numbers that are rounded to a grid, of which several change together: what
    it is calibrated to, and its certificate. The proof is `GaussianVector`'s.
    """

    epsilon: float
    delta: float
    dimension: int
    """How many change together, at most."""
    cells: int
    """Of the grid, in the L2 distance that they move by at most."""
    _parts: int
    _noise: Noise

    def _given(self, epsilon: float, delta: float, dimension: int) -> None:
        """Take in what it is calibrated to."""
        self.epsilon, self.delta = check_epsilon(epsilon), check_delta(delta)
        self.dimension = dimension
        self._spent, self._rare = min(self.epsilon, CAP), self.delta * 2.0**-10

    def _calibrated(self, cells: int) -> tuple[int, Noise]:
        """The noise that leaves what its own rounding costs."""
        parts, cost = 0, Fraction(0)
        while cost < Fraction(self.delta):
            left = float(Fraction(self.delta) - cost) * (1 - 2.0**-50)
            parts = max(
                ceil(analytic_sigma(self._spent, left) * self._sensitivity(cells) * PARTS), parts
            )
            noise = normal_noise(parts, cells)
            before, cost = cost, self._rounding(noise)
            if cost <= before:
                return parts, noise
        raise ConfigurationError(
            "delta is too small for words of 64 bits at this epsilon and dimension: at least about"
            " dimension e^epsilon / 2**50"
        )

    def _sensitivity(self, cells: int) -> float:
        """The distance of two grid vectors, in cells: more than it with probability ``_rare`` at
        most.
        """
        root = sqrt(self.dimension)
        often = sqrt(
            cells**2 + self.dimension / 4 + (2 * cells + root) * sqrt(-log(self._rare) / 2)
        )
        return min(cells + root, often) * (1 + SLACK)

    def _default_cells(self) -> int:
        unit = analytic_sigma(self._spent, self.delta)
        cells = 1 << min(max(round(log2(256 / unit)), 1), 12)
        while self._sensitivity(cells) > cells * (1 + 2**-6):
            most = ROUGH if self._sensitivity(cells) <= cells * (1 + 2**-3) else 4 * ROUGH
            if unit * self._sensitivity(2 * cells) > most:
                break
            cells *= 2
        return cells

    def _rounding(self, noise: Noise) -> Fraction:
        """What the rounding to the grid and that of the weights may cost of delta."""
        return (
            Fraction(self._rare)
            + (2 + exp_below(self._spent)) * self.dimension * 2 * noise.reach / WORD
        )

    def certificate(self) -> Certificate:
        """A bound on delta: the continuous mechanism's at the sensitivity of the grid, and what
        rounding the weights may add.
        """
        limit = exp_below(self._spent)
        smooth = analytic_delta(self._spent, self._parts / PARTS / self._sensitivity(self.cells))
        return Certificate.of(limit, self._spent, Fraction(smooth) + self._rounding(self._noise))


class GaussianVector(Coupled, AdditiveNoise):
    """Add normal noise to each coordinate of a vector, calibrated to (epsilon, delta) in the ball's
    diameter.

    Parameters
    ----------
    epsilon : float in (0, inf), nats; above 50 counts as 50
    delta : float in (0, 1), at least about dimension e^epsilon / 2**50: words of 64 bits tell no
        less
    dimension : coordinates, 1..2**20
    diameter : of the public L2 ball around 0; longer vectors are shortened to its surface
    cells : grid cells of the diameter, a power of two in 2..2**16; default: so many that the grid
        costs at most 1.6 % of sigma, unless sigma would have more than 4096 of them (at delta 1e-5
        and 1,000 dimensions it then costs 3.4 % at epsilon 0.1 and 24 % at 0.01: the price of a
        table that is quick)

    Notes
    -----
    `Gaussian` says how sigma is calibrated, how the weights are made, and why rounding and the
    range cost nothing. Reports are in units of the diameter around 0.

    Guarantee: all coordinates are rounded without bias to the grid by words of their own. Rounding
    two vectors with the same words is a coupling and delta is jointly convex, so it is at most the
    mean over the words of delta at the distance of the two grid vectors. A difference of k + f
    cells (f < 1) becomes k + 1 with probability f, else k: the distance is below N + sqrt(d) cells
    always; its square has mean at most N^2 + d / 4, and, each term having a range of 2k + 1,
    exceeds that by (2N + sqrt(d)) sqrt(log(1 / b) / 2) with probability at most b (Hoeffding 1963,
    theorem 2). Sigma is calibrated at the smaller of the two distances, b = delta / 1024 (and at a
    millionth more, for the arithmetic).

    The integer law of a coordinate is within TV = 2R / 2**64 of the true one, so delta is at most
    the continuous one's + (1 + e^epsilon) d TV + b: sigma is calibrated to leave that. The
    certificate states this bound; its first part is computed in floats, rounded up.

    `law` and ``domain`` are those of one coordinate.

    Examples
    --------
    >>> import numpy as np, ldp_kafka as lk
    >>> m = lk.mechanism("gaussian_vector", epsilon=1.0, delta=1e-5, dimension=2, diameter=10.0)
    >>> m.perturb(np.array([[3.0, 4.0], [0.0, -5.0]]), lk.randomness.seeded(7)).tolist()
    [[-1.59375, -6.9765625], [1.6328125, -3.6171875]]
    """

    def __init__(
        self,
        epsilon: float,
        delta: float,
        dimension: int,
        diameter: float = 1.0,
        *,
        cells: int | None = None,
    ) -> None:
        self._given(epsilon, delta, _check_dimension(dimension))
        radius = _check_diameter(diameter) / 2
        self.diameter, self.domain = 2 * radius, (-radius, radius)
        cells = check_cells(cells, self._default_cells())
        if not cells >= 2:
            raise ConfigurationError("cells must be at least 2")
        self._parts, noise = self._calibrated(cells)
        self._build(cells, noise, middle=cells // 2)

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise on the scale of the reports, before rounding."""
        return self._parts / PARTS * self.scale

    def perturb(self, values: NDArray[np.floating], randomness: Randomness) -> NDArray[np.float64]:
        """Reports (n, dimension) in units of the diameter, whole multiples of ``scale``, for
        vectors (n, dimension). ValueError for NaN and infinities, or another shape (no value is
        shown).
        """
        exact = check_vectors(values, self.dimension)
        if not np.isfinite(exact).all():
            raise ValueError("values must be finite")
        return in_chunks(
            self.perturb_part, exact, own(self, randomness), max(CHUNK // self.dimension, 1)
        )

    def perturb_part(
        self, values: NDArray[np.float64], randomness: Randomness, first: int
    ) -> NDArray[np.float64]:
        words = randomness.words(len(values), WORDS * self.dimension, first=first)
        steps = self._snap(self._inside(values)).reshape(-1)
        index = self._draw(steps, words.reshape(-1, WORDS))
        return np.multiply(index.reshape(values.shape), self.scale)

    def _inside(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Vectors shortened to the ball's radius where they are longer."""
        # divided out first, so that no square overflows or vanishes
        peak = np.abs(values).max(axis=1, keepdims=True)
        np.maximum(peak, np.finfo(np.float64).tiny, out=peak)
        shape = values / peak
        length = np.sqrt(np.einsum("nd,nd->n", shape, shape))[:, None]
        shorter = shape * (self.domain[1] / length.clip(min=1.0))
        return np.where(peak > self.domain[1] / length.clip(min=1.0), shorter, values)

    def support(self, reports: NDArray[np.floating]) -> NDArray[np.int64]:
        """(n, sums of indices (dimension), sums of their squares (dimension))."""
        index = np.rint(np.asarray(reports).reshape(-1, self.dimension) * self.cells).astype(
            np.int64
        )
        return np.concatenate([[len(index)], index.sum(axis=0), (index * index).sum(axis=0)])

    def estimate_support(self, support: NDArray[np.int64], *, population: bool = False) -> Estimate:
        """The mean vector (dimension,), its standard errors and limits (dimension,)."""
        n = int(support[0])
        if n == 0:
            return Estimate.unknown(self.dimension)
        total, squares = support[1 : 1 + self.dimension], support[1 + self.dimension :]
        mean = total / n
        variance = np.maximum(squares / n - mean**2, 0) * (n / max(n - 1, 1)) * self.scale**2
        # a coordinate lies within half a diameter of 0: half a domain further up it is a share
        found = estimate_of(
            mean * self.scale + 0.5, variance, n, self._moments, population=population
        ).on(self.domain)
        return found._replace(value=mean * (self.scale * self.diameter))

    def tables(self) -> tuple[int, ...]:
        """(dimension, cells, spare, beyond, four integers of the noise table's SHA-256)."""
        return self.dimension, *super().tables()


def _check_diameter(diameter: float) -> float:
    length = check_number(diameter, "diameter")
    if not 2.0**-900 < length < inf:  # as a domain's length
        raise ConfigurationError(
            "diameter must be positive and finite, and not so small that one over it overflows"
        )
    return length


def _check_dimension(dimension: int) -> int:
    return check_whole(dimension, "dimension", 1, 2**20)
