"""Vectors of a public L2 ball: chains of them, and what reports of all have in common."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import Field, State
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.base import Estimate, Z, check_number, check_vectors, check_whole
from ldp_kafka.methods.base import FIXED
from ldp_kafka.methods.chain import Aimed, Chain
from ldp_kafka.methods.gaussian_stream import GaussianStream
from ldp_kafka.methods.spread import error_of_mean

__all__ = ["BALL", "Ball", "VectorChain", "lengths"]

# coordinates: a context binds 255 integers, of which one tells the turn and each coordinate needs
# two
MOST = 127
BALL = {
    "dimension": "coordinates of a vector, 1..127",
    "diameter": "of the public ball around 0 that vectors are held in",
}
"""Parameters."""


class VectorChain(Chain):
    """A `Chain` of vectors (n, dimension) in the ball of diameter 1 around 0: clipped along the
    straight line to the new value, in L2.
    """

    def __init__(
        self, dimension: int, ratios: Sequence[int], bound: int | None, clip: str, lag: int
    ) -> None:
        super().__init__(ratios, bound, clip, lag)
        self._dimension, self._radius = dimension, bound
        self._shifts = np.zeros_like(self._shifts)  # a ball is symmetric
        self.fields = {
            name: Field(field.dtype, lag if name == "count" else lag * dimension)
            for name, field in self.fields.items()
        }

    def _clipped(
        self, values: NDArray[np.int64], turn: NDArray[np.int64], around: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        if self._radius is None:
            return values
        away = (values - around).astype(np.float64)
        length = lengths(away)
        shrink = np.where(
            (turn == 0) | (length <= self._radius), 1.0, self._radius / np.maximum(length, 1.0)
        )
        shrink[shrink < 1] *= 1 - 2.0**-40
        away *= shrink[:, None]
        return around + np.trunc(away).astype(np.int64)

    def _lane(self, slot: int) -> slice:
        first = slot % self.lag * self._dimension
        return slice(first, first + self._dimension)

    def _get(self, state: State, name: str, rows: NDArray[np.intp], slot: int) -> NDArray[np.int64]:
        found: NDArray[np.int64] = state.columns[name][self._lane(slot)].take(rows, axis=1).T
        return found

    def _set(
        self, state: State, name: str, rows: NDArray[np.intp], slot: int, values: NDArray[np.int64]
    ) -> None:
        state.columns[name][self._lane(slot)][:, rows] = values.T

    def _spread(self, of_rows: NDArray[Any]) -> NDArray[Any]:
        return of_rows[:, None]


class Ball(GaussianStream):
    """What reports of vectors of a public L2 ball around 0 have in common; with a class of numbers
    behind it, it reports as that one does, in each coordinate.
    """

    default_mechanism = "gaussian_vector"
    statistics = ("per_user", "mean")
    ball = True

    def __init__(self, *, dimension: int, diameter: float = 1.0, **parameters: Any) -> None:
        self._dimension = check_whole(dimension, "dimension", 1, MOST)
        length = check_number(diameter, "diameter")
        if not 2.0**-500 < length < 2.0**500:
            raise ConfigurationError("diameter must be positive and finite")
        if "domain" in parameters or "change" in parameters:
            raise ConfigurationError(
                "vectors have a diameter, and no domain; their changes are additive"
            )
        super().__init__(domain=(-length / 2, length / 2), **parameters)

    @property
    def dimension(self) -> int:
        """Coordinates of a vector."""
        return int(self._dimension or 0)

    @property
    def diameter(self) -> float:
        """Of the ball."""
        return self.domain[1] - self.domain[0]

    def bound(self, values: NDArray[Any]) -> NDArray[np.int64]:
        """Vectors (n, dimension) within the ball, in units of 2**-32 of its diameter. ValueError
        where not finite, or of another shape.
        """
        exact = self.values.checked(check_vectors(values, self.dimension))
        radius = self.domain[1]
        # divided out first, so that no square overflows
        peak = np.maximum(np.abs(exact).max(axis=1), radius)
        shape = exact / peak[:, None]
        length = lengths(shape)
        reach = radius / peak  # the radius, in peaks
        shape *= (
            np.where(length > reach, reach / np.maximum(length, reach), 1.0) / reach * (FIXED // 2)
        )[:, None]
        bound: NDArray[np.int64] = np.trunc(shape).astype(np.int64)
        return bound

    def outside(self, values: NDArray[np.float64]) -> NDArray[np.bool_]:
        with np.errstate(over="ignore"):
            return lengths(values) > self.domain[1]

    def released(self, answers: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(answers * self.diameter)

    def constant(self, levels: NDArray[np.float64], slots: int) -> NDArray[np.float64]:
        """Within the ball: level 0 and 1 are opposite ends of it."""
        return np.asarray(super().constant(levels, slots) / self.dimension**0.5)

    def crowd(self, support: NDArray[np.int64]) -> Estimate:
        """The mean of the clipped vectors behind the reports; errors as of `CorrelatedGaussian`,
        coordinate by coordinate.
        """
        mean, error, n, *_ = self._mean(support)
        if not n:
            return Estimate.unknown(self.dimension)
        value, errors = mean * self.diameter, error * self.diameter
        low, high = (np.clip(value + away, *self.domain) for away in (-Z * errors, Z * errors))
        return Estimate(value, errors, n, (low, high))

    def _mean(self, support: NDArray[np.int64]) -> Estimate:
        """With the ``variance`` of a coordinate, one for all of them."""
        found = self.mechanism.estimate_support(support, population=True)
        n = found.reports
        if not n:
            return Estimate.unknown(self.dimension)
        squares = np.broadcast_to(np.asarray(found.square) * n, self.dimension).tolist()
        errors = np.array([error_of_mean(n, sqrt(each), *self._noise) for each in squares])
        least, most = self._noise
        one = min(max(sum(squares) / len(squares), least * least), most * most) / n
        return Estimate(np.asarray(found.value), errors, n, variance=one)

    def _apart(self, now: Estimate, then: Estimate, most: float) -> tuple[float, float]:
        """By L2, without what noise adds to a length. What is left of it is that far off as often
        as `TELLING` has it of numbers, at rest (the quantile of chi-square, within 3 % up to 127
        dimensions) and in movement.
        """
        rest, square = self.dimension - 1, min(now.variance + then.variance, most * most)
        moved = sum(((now.value - then.value) ** 2).tolist()) - rest * square
        wider = sqrt(0.65 + 0.35 * sqrt(self.dimension))
        squares = (now.standard_error**2 + then.standard_error**2).tolist()
        noise = min(sqrt(sum(squares) / len(squares)), most)
        return sqrt(max(moved, 0.0)), noise * wider

    def course(self, reports: int) -> tuple[tuple[int, float], ...]:
        """Also where all slots have one error: it is no mechanism's of one coordinate."""
        return super().course(reports) or ((1, self._error(1) / sqrt(reports)),)

    def blank(self, n: int) -> NDArray[Any]:
        return np.zeros((n, self.dimension), np.int64)

    def _nothing(self, n: int) -> NDArray[np.float64]:
        return np.zeros((n, self.dimension))

    def _bind(self, aimed: Aimed) -> Sequence[NDArray[np.int64]]:
        return [aimed.turn, *aimed.kept.T, *aimed.before.T]


def lengths(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """L2 lengths (n,) of vectors (n, d): coordinates are added in their order, so that every CPU
    finds the same bits.

    Examples
    --------
    >>> lengths(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [5.0, 0.0]
    """
    total = np.zeros(len(vectors))
    for column in vectors.T:
        total += column * column
    return np.asarray(np.sqrt(total))
