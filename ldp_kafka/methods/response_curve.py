"""Response curves: the mean and the variance of a method's release, as functions of the true value
behind it. They are simulated once, with fixed public words.
"""

from __future__ import annotations

from copy import copy
from math import fsum, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.base import Law
from ldp_kafka.methods.contract import Method, check_slots
from ldp_kafka.methods.inversion import Inversion, shortest
from ldp_kafka.randomness import Randomness, seeded

__all__ = ["Affine", "ResponseCurve", "affine", "law_of"]

LEVELS = 9  # of the simulated streams: 0, 1/8, ..., 1 of the domain
STREAMS = 1024  # of each level and shape
SLOTS = 64  # of a simulated stream, at most, where its start is left behind
WORDS = 0x5EED  # public words of the simulation: its result is a function of the topology


Levels = float | NDArray[np.float64]


class ResponseCurve(NamedTuple):
    """The response curve of a method: the mean release, its noise and its uncertainty at each level
    of the true value (or of the mean of several), in lengths of the domain.
    """

    levels: NDArray[np.float64]
    """(LEVELS,) of the value."""
    mean: NDArray[np.float64]
    """(LEVELS,) of the release, never falling."""
    doubt: NDArray[np.float64]
    """(LEVELS,) standard error of it: of the simulation, and for what streams of different shapes
    differ by.
    """
    middle: float
    """Variance of the release at the middle of the domain ..."""
    curve: float
    """... and how it grows with the squared distance from there; at least 0."""
    middle_doubt: float
    """Standard error of that variance."""
    kurtosis: float
    """Fourth moment over the squared variance."""
    inversion: Inversion
    """What one release says of the value behind it."""

    def noise(self, level: Levels) -> Any:
        """Variance of a release of a value at this level. Here and below: of one level, or (n,)."""
        return self.middle + self.curve * ((level - 0.5) * (level - 0.5))

    def at(self, level: Levels) -> Any:
        """Mean release of a value at this level: linear between the levels, constant beyond the
        ends.
        """
        return _between(self.mean, level)

    def doubt_at(self, level: Levels) -> Any:
        """Standard error of `at`."""
        return _between(self.doubt, level)

    def slope(self, level: Levels) -> Any:
        """Of the mean, over a quarter of the domain on each side: what a crowd's values are spread
        over.
        """
        low, high = np.maximum(level - 0.25, 0.0), np.minimum(level + 0.25, 1.0)
        inside = high > low
        low, high = np.where(inside, low, 0.0), np.where(inside, high, 1.0)
        return (self.at(high) - self.at(low)) / (high - low)

    def inverse(self, mean: Levels) -> Any:
        """The level whose release has this mean, 0..1."""
        right = np.clip(np.searchsorted(self.mean, mean, side="right"), 1, LEVELS - 1)
        low, high = self.mean[right - 1], self.mean[right]
        with np.errstate(divide="ignore", invalid="ignore"):  # of a flat end, which is not taken
            between = self.levels[right - 1] + (mean - low) / (high - low) / (LEVELS - 1)
        beyond = np.where(mean < self.mean[-1], between, 1.0)
        return np.where(mean > self.mean[0], beyond, 0.0)

    @classmethod
    def of(cls, method: Method, length: int = 1, slots: int | None = None) -> ResponseCurve:
        """The response curve of ``method``, simulated on constant streams and on streams with large
        steps.

        Parameters
        ----------
        length : consecutive releases in one mean
        slots : of a stream, from its first report on; default: ``length`` where that is more than
            one release, else so many that the start does not count

        Notes
        -----
        Real streams are assumed to lie anywhere between the two shapes. The curve is the middle of
        the two results; `doubt` is the standard deviation of a number spread evenly between them.
        The mean of a draw given the mechanism's input is known exactly, so only the inputs' means
        are simulated (Rao-Blackwell). Words are public and fixed, and sums are exact, so every
        machine finds the same curve.
        """
        check_slots(length, "length")
        slots = _slots(method, length) if slots is None else check_slots(slots, "slots")
        if slots % length:
            raise ConfigurationError("slots must be a multiple of length")
        source = seeded(WORDS)
        found: list[_Shape] = []
        for shape in (_constant, _stepping):
            level, streams = shape(source, length, slots)
            released, expected, spread = _simulate(method, streams)
            found.append(
                _moments(
                    level,
                    _means(released, length),
                    _means(expected, length),
                    spread if length == 1 else None,
                )
            )
        lo, hi = method.domain
        constant, stepping = found
        return _together(constant, stepping, affine(method)[1] * method.scale / (hi - lo))


class Affine(NamedTuple):
    """Moments of an answer as polynomials in the mechanism's input."""

    low: float
    slope: float
    level: float
    tilt: float
    curve: float


def law_of(method: Method) -> Affine:
    """The moments of the mechanism's answer, from its exact laws at both ends of the domain and in
    the middle.
    """
    first, second = [], []
    for x in (0.0, 0.5, 1.0):
        law = Law.of(method.mechanism.law(x))
        first.append(law.mean())
        second.append(law.mean_square())
    curve = 2 * (second[0] - 2 * second[1] + second[2])
    return Affine(first[0], first[2] - first[0], second[0], second[2] - second[0] - curve, curve)


def affine(method: Method) -> tuple[float, float]:
    """What an answer of 0 is released as, and what it grows by with the answer."""
    zero, one = (float(method.released(np.array([at]))[0]) for at in (0.0, 1.0))
    return zero, one - zero


class _Recorder:
    """A mechanism that notes what it is given."""

    def __init__(self, mechanism: Any) -> None:
        self._mechanism = mechanism
        self.inputs: list[NDArray[np.float64]] = []

    def perturb(self, values: NDArray[Any], randomness: Randomness) -> NDArray[Any]:
        self.inputs.append(np.clip(np.asarray(values, np.float64), 0.0, 1.0))
        answers: NDArray[Any] = self._mechanism.perturb(values, randomness)
        return answers

    def __getattr__(self, name: str) -> Any:
        return getattr(self._mechanism, name)


def _slots(method: Method, length: int) -> int:
    """Of a simulated stream: fresh users for means; for single releases so many that the first ones
    hardly count.
    """
    return length if length > 1 or method.memory == 0 else SLOTS


def _constant(
    source: Randomness, length: int, slots: int
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Levels (streams, means) and streams (streams, slots) of one value each."""
    del source  # of one signature with those that draw
    level = np.tile(np.arange(LEVELS), _streams(slots, length))
    return np.repeat(level[:, None], slots // length, axis=1), np.repeat(
        level[:, None] / (LEVELS - 1), slots, axis=1
    )


def _stepping(
    source: Randomness, length: int, slots: int
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Streams of independent levels where single releases are read; else windows with one step, up
    or down: each value half way from the level to an end of the domain.
    """
    streams = LEVELS * _streams(slots, length)
    words = source.words(streams * slots // length, 1).reshape(streams, slots // length)
    if length == 1:
        level = (words % LEVELS).astype(np.intp)
        return level, level / (LEVELS - 1)
    level = np.repeat(
        np.tile(np.arange(LEVELS), streams // LEVELS)[:, None], slots // length, axis=1
    )
    share, order = level[:, :, None] / (LEVELS - 1), np.arange(length)
    order = np.where(words[:, :, None] % 2 == 0, order, order[::-1])
    return level, ((np.clip(share * length - order, 0.0, 1.0) + share) / 2).reshape(streams, slots)


def _streams(slots: int, length: int) -> int:
    """Streams of each level: so many that each level has STREAMS means, and eight times as many
    single releases.
    """
    return max(16, STREAMS * (8 if length == 1 else 1) * length // slots)


def _simulate(
    method: Method, streams: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Releases, and their means and variances given the mechanism's inputs, each (streams, slots),
    in lengths of the domain.
    """
    lo, hi = method.domain
    twin = copy(method)
    twin.mechanism = recorder = _Recorder(method.mechanism)
    released = (np.asarray(twin.release(lo + streams * (hi - lo), seeded(WORDS))) - lo) / (hi - lo)
    origin, unit = affine(method)
    # silent slots: what was given when is not known
    if [len(given) for given in recorder.inputs] != [len(streams)] * streams.shape[1]:
        return released, released, np.zeros(released.shape)
    law, given = law_of(method), np.stack(recorder.inputs, axis=1)
    mean = law.low + law.slope * given
    spread = law.level + law.tilt * given + law.curve * given * given - mean * mean
    return released, (origin - lo + mean * unit) / (hi - lo), spread * (unit / (hi - lo)) ** 2


def _means(values: NDArray[np.float64], length: int) -> NDArray[np.float64]:
    """Of each ``length`` slots, added one by one: the same on every machine."""
    windows = values.reshape(len(values), -1, length)
    total = windows[:, :, 0].copy()
    for at in range(1, length):
        total += windows[:, :, at]
    return np.asarray(total / length)


class _Shape(NamedTuple):
    """What the streams of one shape say, a row for each level."""

    mean: list[float]
    error: list[float]
    variance: list[float]
    releases: list[NDArray[np.float64]]
    kurtosis: float
    size: int


def _moments(
    level: NDArray[np.intp],
    released: NDArray[np.float64],
    expected: NDArray[np.float64],
    spread: NDArray[np.float64] | None,
) -> _Shape:
    """By level; where the spread given the inputs is known, single releases need no
    sample of it.
    """
    mean, error, variance, singles, fourth, second = [], [], [], [], 0.0, 0.0
    for at in range(LEVELS):
        here = level == at
        known = expected[here]
        n = len(known)
        mean.append(fsum(known.tolist()) / n)
        error.append(sqrt(fsum(((known - mean[-1]) ** 2).tolist())) / n)
        singles.append(released[here])
        away = (released[here] - mean[-1]) ** 2
        seen = fsum(away.tolist()) / n
        variance.append(
            fsum(spread[here].tolist()) / n + fsum(((known - mean[-1]) ** 2).tolist()) / n
            if spread is not None and spread.any()
            else seen
        )
        second += seen / LEVELS
        fourth += fsum((away * away).tolist()) / n / LEVELS
    return _Shape(mean, error, variance, singles, fourth / (second * second), n)


def _together(one: _Shape, other: _Shape, step: float) -> ResponseCurve:
    """Both shapes as one response curve: their middle, and their difference as doubt; of releases
    in such steps.
    """
    levels = np.arange(LEVELS) / (LEVELS - 1)
    mean = [(a + b) / 2 for a, b in zip(one.mean, other.mean, strict=True)]
    doubt = [
        sqrt((a - b) * (a - b) / 12 + (p * p + q * q) / 4)
        for a, b, p, q in zip(one.mean, other.mean, one.error, other.error, strict=True)
    ]
    away = ((levels - 0.5) ** 2).tolist()
    center = fsum(away) / LEVELS
    fits = []
    for shape in (one, other):
        middle = fsum(shape.variance) / LEVELS
        curve = fsum((a - center) * v for a, v in zip(away, shape.variance, strict=True)) / fsum(
            (a - center) ** 2 for a in away
        )
        fits.append((middle, curve))
    curve = max((fits[0][1] + fits[1][1]) / 2, 0.0)
    middle = (fits[0][0] + fits[1][0]) / 2 - curve * center
    kurtosis = (one.kurtosis + other.kurtosis) / 2
    sampled = (kurtosis - 1) / (2 * LEVELS * one.size) * (middle * middle)
    apart = fits[0][0] - fits[1][0]
    doubted = sqrt(apart * apart / 12 + sampled)
    # in the range of a level are 95 % of the releases of each shape
    held = [
        [shortest(np.sort(each), np.full(len(each), 1 / len(each))) for each in shape.releases]
        for shape in (one, other)
    ]
    low, high = np.min(held, axis=0)[:, 0], np.max(held, axis=0)[:, 1]
    inversion = Inversion.of(low, high, (mean[0], mean[-1]), step)
    return ResponseCurve(
        levels,
        np.maximum.accumulate(mean),
        np.array(doubt),
        middle,
        curve,
        doubted,
        kurtosis,
        inversion,
    )


def _between(values: NDArray[np.float64], level: Levels) -> Any:
    """Linear interpolation of what is known at the levels, constant beyond the ends."""
    place = np.clip(level, 0.0, 1.0) * (LEVELS - 1)
    left = np.minimum(np.asarray(place).astype(np.intp), LEVELS - 2)
    return values[left] + (place - left) * (values[left + 1] - values[left])
