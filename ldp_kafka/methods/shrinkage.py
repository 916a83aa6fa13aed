"""Empirical-Bayes shrinkage of releases per user: what noise cannot tell is taken from the crowd, or from the domain's midpoint. Post-processing: it costs no privacy."""

from __future__ import annotations

from copy import copy
from functools import cached_property
from math import fsum, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.methods.base import Method, check_slots
from ldp_kafka.randomness import Randomness, seeded

__all__ = ["Prior", "Reading", "Shrinkage", "Shrunk", "debias", "shrink"]

LEVELS = 9  # of the simulated streams: 0, 1/8, ..., 1 of the domain
STREAMS = 1024  # of each level and shape
SLOTS = 64  # of a simulated stream, at most, where its start is left behind
WORDS = 0x5EED  # public words of the simulation: its result is a function of the topology
SPREAD = 0.08  # of the domain: how far from the midpoint a crowd's mean is taken to be before its reports say otherwise
EVEN = 1 / 12  # squared lengths of the domain: variance of values spread evenly over it, beyond which three standard errors are asked for
SURE = 16.0  # squared standard errors beyond which they do: in error once in 16,000 crowds


class Shrunk(NamedTuple):
    """Releases per user after shrinkage."""

    values: NDArray[np.float64]
    """(n,) on the domain's scale, within the domain."""
    reliability: float
    """Share of a release's variance over users that is signal, 0..1: the prior's variance over the total. 0: every value is the crowd's mean."""
    standard_error: float
    """Root mean square error of a value over users, on the domain's scale; too large rather than too small where the prior is uncertain."""


class Prior(NamedTuple):
    """What is taken of the true values of a crowd, in lengths of the domain from its lower end."""

    mean: float
    mean_error: float
    """Root mean square error of the mean."""
    variance: float
    """Over users; what is significant of it."""
    most: float
    """Two standard errors above its estimate, and at most what values in the domain with this mean can have."""


class Reading(NamedTuple):
    """How a method's release, or the mean of some, reads its user's value or mean: by simulation, in lengths of the domain."""

    levels: NDArray[np.float64]
    """(LEVELS,) of the value."""
    mean: NDArray[np.float64]
    """(LEVELS,) of the release, never falling."""
    doubt: NDArray[np.float64]
    """(LEVELS,) standard error of it: of the simulation, and for what streams of different shapes differ by."""
    middle: float
    """Variance of the release at the middle of the domain ..."""
    curve: float
    """... and how it grows with the squared distance from there; at least 0."""
    middle_doubt: float
    """Standard error of that variance."""
    kurtosis: float
    """Fourth moment over the squared variance."""

    def noise(self, level: float) -> float:
        """Variance of a release of a value at this level."""
        return self.middle + self.curve * ((level - 0.5) * (level - 0.5))

    @classmethod
    def of(cls, method: Method, length: int = 1, slots: int | None = None) -> Reading:
        """Simulate ``method`` on constant streams and on streams with large steps.

        Parameters
        ----------
        length : consecutive releases in one mean
        slots : of a stream, from its first report on; default: ``length`` where that is more than one release, else so many that the start does not count

        Notes
        -----
        Real streams are taken to lie anywhere between the two shapes; the deviation of a number spread evenly between what these say is counted as doubt. The mean of a draw given the mechanism's input is known exactly, so
        only the inputs' means are left to chance (Rao-Blackwell). Words are public and fixed, sums are exact: every machine finds the same reading.
        """
        check_slots(length, "length")
        slots = _slots(method, length) if slots is None else check_slots(slots, "slots")
        if slots % length:
            raise ConfigurationError("slots must be a multiple of length")
        source = seeded(WORDS)
        found = []
        for shape in (_constant, _stepping):
            level, streams = shape(source, length, slots)
            released, expected, spread = _simulate(method, streams)
            found.append(_moments(level, _means(released, length), _means(expected, length), spread if length == 1 else None))
        return _together(*found)


class Shrinkage:
    """The prior of a crowd, from integer sums of its reports, and what it makes of single releases.

    Parameters
    ----------
    method : numeric
    length : consecutive reports of a user in one release (their mean)
    slots : see `Reading.of`
    reading : one that is known, of this method and these lengths: saves simulating it again

    Notes
    -----
    Linear empirical Bayes (Robbins 1956; Efron and Morris, JASA 1973): of all linear functions of a release y, m + rho (y - E[y | m]) / slope has the least mean square error over users whose
    values have mean m and variance V, with rho = slope^2 V / (slope^2 V + noise). The law of y is the method's `Reading`. m and V are estimated from all reports counted so far:

    - m: the reading's inverse of the mean report, with standard error s; it is drawn to the midpoint by t^2 / (t^2 + s^2), where t^2 is SPREAD^2 or, if that is more, the squared distance of the
      estimate from the midpoint less SURE s^2. A crowd that says nothing is given the midpoint.
    - V: the reports' variance less the noise, over slope^2; less its own standard error (three of them beyond EVEN), at least 0, at most m (1 - m) (Bhatia and Davis 2000).

    Caution has its price: a crowd whose values lie within a few hundredths of the midpoint, all of them, is better served by the midpoint itself; what that can cost is about SPREAD^2 / 4,
    0.0016 squared lengths of the domain, and nothing once the reports tell.

    Only reports and public configuration go in, so no budget is spent. Sums are integers and additive; what follows from them is computed with one rounding an operation, so a replay gives the
    same bytes.

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> m = lk.method("sw_direct", epsilon=30.0, window=10, domain=(0.0, 10.0))
    >>> crowd = Shrinkage(m)
    >>> float(crowd.apply(np.array([1000])).values[0])
    5.0
    >>> values = np.repeat([2.0, 4.0], 2000)
    >>> answers = m.release(values[:, None], lk.randomness.seeded(7))[:, 0]
    >>> crowd.update(crowd.index(answers))
    >>> 0.01 < crowd.apply(crowd.index(answers[:1])).reliability < 0.9
    True
    """

    def __init__(self, method: Method, length: int = 1, slots: int | None = None, *, reading: Reading | None = None) -> None:
        if method.kind != "numeric":
            raise ConfigurationError(f"{method.name} has no numbers to shrink")
        self.method, self.length = method, check_slots(length, "length")
        self._asked, self._given = slots, reading
        self._n = self._sum = self._squares = 0

    def index(self, released: ArrayLike) -> NDArray[np.int64]:
        """Releases (n,) or (n, length) on the domain's scale as whole units of the method's scale, (n,): the sum of each row."""
        values = np.asarray(released, np.float64)
        if not np.isfinite(values).all():
            raise ValueError("releases must be finite")
        whole = np.rint((values - self._origin) / self._unit).astype(np.int64)
        return whole.sum(axis=1) if whole.ndim == 2 else whole

    def update(self, index: NDArray[np.integer]) -> None:
        """Count reports (n,) in units of the method's scale, or sums of ``length`` of them."""
        whole = np.asarray(index, np.int64)
        self.add([len(whole), int(whole.sum()), int((whole * whole).sum())])

    def add(self, sums: list[int]) -> None:
        """Count sums of reports: their number, their sum, the sum of their squares; those of two parts of a crowd add up."""
        n, total, squares = (int(part) for part in sums)
        if not (n >= 0 and squares >= 0 and total * total <= n * squares):
            raise ValueError("sums must be the number of reports, their sum, and the sum of their squares")
        self._n, self._sum, self._squares = self._n + n, self._sum + total, self._squares + squares
        self.__dict__.pop("prior", None)

    @property
    def sums(self) -> list[int]:
        """What it knows: JSON-able, and taken back by `add`."""
        return [self._n, self._sum, self._squares]

    @cached_property
    def reading(self) -> Reading:
        """How a release reads."""
        return self._given or Reading.of(self.method, self.length, self._asked)

    @cached_property
    def prior(self) -> Prior:
        """Of the crowd, from the reports counted so far."""
        n = self._n
        if n < 2:
            return Prior(0.5, 0.5, 0.0, 0.25)
        read, step = self.reading, self._step
        if not _slope(read, 0.5) > 0:
            return Prior(0.5, 0.5, 0.0, 0.25)
        y = self._low + self._sum / n * step
        total = (self._squares * n - self._sum * self._sum) / (n * (n - 1)) * (step * step)  # integers up to the quotient
        raw = _inverse(read, y)
        away = raw - 0.5
        slope = (y - _at(read.mean, 0.5)) / away if abs(away) > 0.25 else _slope(read, 0.5)  # of the chord: a reading may be flat where it ends
        doubt = _at(read.doubt, raw)
        square = (total / n + doubt * doubt) / (slope * slope)
        spread = max(SPREAD * SPREAD, away * away - SURE * square)
        share = spread / (spread + square)
        mean = 0.5 + share * away
        wrong = share * share * square + (1 - share) * (1 - share) * min(0.25, away * away + square)
        slope, bound = _slope(read, mean), mean * (1 - mean)
        if not slope > 0:  # a reading that is flat there says nothing of how far values lie apart
            return Prior(mean, sqrt(wrong), 0.0, bound)
        scale = slope * slope + read.curve
        variance = (total - read.noise(mean)) / scale
        unsure = sqrt((read.kurtosis - 1) / n * (total * total) + read.middle_doubt * read.middle_doubt) / scale
        likely = min(max(variance - unsure, 0.0), max(EVEN, variance - 3 * unsure), bound)
        return Prior(mean, sqrt(wrong), likely, min(max(variance, 0.0) + 2 * unsure, bound))

    def apply(self, index: NDArray[np.integer], *, keep_spread: bool = False) -> Shrunk:
        """Shrink releases (n,), given in units of the method's scale (sums of ``length`` of them), by the prior of the reports counted so far.

        ``keep_spread``: by the root of the reliability, so that the values are spread over users as the prior is; of each user they say less.
        """
        whole, lo, hi = np.asarray(index, np.int64), self.method.domain[0], self.method.domain[1]
        prior, read = self.prior, self.reading
        slope = _slope(read, prior.mean)
        noise = read.noise(prior.mean) + read.curve * prior.variance
        signal = slope * slope * prior.variance
        reliability = signal / (signal + noise) if signal > 0 else 0.0
        gain = (sqrt(reliability) if keep_spread else reliability) / slope if reliability > 0 else 0.0
        values = np.asarray(prior.mean + gain * ((self._low + whole * self._step) - _at(read.mean, prior.mean)))
        left = 1 - gain * slope
        error = left * left * (prior.most + prior.mean_error * prior.mean_error) + gain * gain * (
            read.noise(prior.mean) + 2 * read.middle_doubt + read.curve * prior.most
        )
        return Shrunk(np.clip(lo + values * (hi - lo), lo, hi), reliability, min(sqrt(error), max(prior.mean, 1 - prior.mean)) * (hi - lo))

    @cached_property
    def _origin(self) -> float:
        """What a report of 0 is released as."""
        return _affine(self.method)[0]

    @cached_property
    def _unit(self) -> float:
        """What a release grows by for one unit of the method's scale."""
        return _affine(self.method)[1] * self.method.scale

    @property
    def _step(self) -> float:
        """The same of a mean, in lengths of the domain."""
        lo, hi = self.method.domain
        return self._unit / (hi - lo) / self.length

    @property
    def _low(self) -> float:
        lo, hi = self.method.domain
        return (self._origin - lo) / (hi - lo)


def shrink(method: Method, releases: ArrayLike, *, slots: int | None = None) -> Shrunk:
    """Each user's mean over consecutive releases, drawn to the crowd's as far as noise hides it.

    Parameters
    ----------
    releases : (users,) single releases, or (users, slots) the same slots of all users, on the domain's scale
    slots : see `Reading.of`

    Raises
    ------
    ValueError : a release is missing or not finite

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> m = lk.method("capp", epsilon=20.0, window=5, domain=(0.0, 1.0))
    >>> values = np.random.default_rng(1).uniform(0.1, 0.3, (2000, 1)) * np.ones(5)
    >>> released = m.release(values, lk.randomness.seeded(7))
    >>> found = shrink(m, released)
    >>> error = lambda estimate: float(((estimate - values[:, 0]) ** 2).mean())
    >>> error(found.values) < error(released.mean(axis=1)) / 2
    True
    """
    table = np.asarray(releases, np.float64)
    if table.ndim not in (1, 2):
        raise ValueError("releases must be (users,) or (users, slots)")
    crowd = Shrinkage(method, table.shape[1] if table.ndim == 2 else 1, slots)
    index = crowd.index(table)
    crowd.update(index)
    return crowd.apply(index)


def debias(method: Method, released: ArrayLike) -> NDArray[np.float64]:
    """Releases without the mechanism's own shrinkage: the inverse of its exact affine mean, E[answer | x] = low + slope x.

    Parameters
    ----------
    released : any shape, on the domain's scale; NaN stays

    Returns
    -------
    The same shape, on the domain's scale, unbiased for the values that the mechanism was given and far outside the domain where epsilon is small: right for sums over users, not for
    showing. In a method with feedback the mechanism is given aims, not values.

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> m = lk.method("sw_direct", epsilon=1.0, window=1, domain=(0.0, 1.0))
    >>> released = m.release(np.full((40_000, 1), 0.9), lk.randomness.seeded(7))
    >>> round(float(released.mean()), 2), round(float(debias(m, released).mean()), 2)
    (0.65, 0.9)
    """
    law = _law(method)
    if not law.slope > 0:
        raise ConfigurationError(f"{method.name} has a mechanism with no slope to invert")
    origin, unit = _affine(method)
    return np.asarray(origin + unit * (((np.asarray(released, np.float64) - origin) / unit - law.low) / law.slope))


class _Law(NamedTuple):
    """Moments of an answer as polynomials in the mechanism's input."""

    low: float
    slope: float
    level: float
    tilt: float
    curve: float


def _law(method: Method) -> _Law:
    """From the exact laws at the ends and in the middle."""
    first, second = [], []
    for x in (0.0, 0.5, 1.0):
        law = method.mechanism.law(x)
        points = np.asarray(law.support, np.float64).tolist()
        shares = [weight / law.denominator for weight in law.weights]
        first.append(fsum(share * point for share, point in zip(shares, points, strict=True)))
        second.append(fsum(share * point * point for share, point in zip(shares, points, strict=True)))
    curve = 2 * (second[0] - 2 * second[1] + second[2])
    return _Law(first[0], first[2] - first[0], second[0], second[2] - second[0] - curve, curve)


def _affine(method: Method) -> tuple[float, float]:
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
    """Of a simulated stream: fresh users for means; for single releases so many that the first ones hardly count."""
    return length if length > 1 or method.memory == 0 else SLOTS


def _constant(source: Randomness, length: int, slots: int) -> tuple[NDArray[np.intp], NDArray[np.float64]]:  # noqa: ARG001 - of one signature
    """Levels (streams, means) and streams (streams, slots) of one value each."""
    level = np.tile(np.arange(LEVELS), _streams(slots, length))
    return np.repeat(level[:, None], slots // length, axis=1), np.repeat(level[:, None] / (LEVELS - 1), slots, axis=1)


def _stepping(source: Randomness, length: int, slots: int) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Streams of independent levels where single releases are read; else windows with one step, up or down: each value half way from the level to an end of the domain."""
    streams = LEVELS * _streams(slots, length)
    words = source.words(streams * slots // length, 1).reshape(streams, slots // length)
    if length == 1:
        level = (words % LEVELS).astype(np.intp)
        return level, level / (LEVELS - 1)
    level = np.repeat(np.tile(np.arange(LEVELS), streams // LEVELS)[:, None], slots // length, axis=1)
    share, order = level[:, :, None] / (LEVELS - 1), np.arange(length)
    order = np.where(words[:, :, None] % 2 == 0, order, order[::-1])
    return level, ((np.clip(share * length - order, 0.0, 1.0) + share) / 2).reshape(streams, slots)


def _streams(slots: int, length: int) -> int:
    """Streams of each level: so many that each level has STREAMS means, and eight times as many single releases."""
    return max(16, STREAMS * (8 if length == 1 else 1) * length // slots)


def _simulate(method: Method, streams: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Releases, and their means and variances given the mechanism's inputs, each (streams, slots), in lengths of the domain."""
    lo, hi = method.domain
    twin = copy(method)
    twin.mechanism = recorder = _Recorder(method.mechanism)
    released = (np.asarray(twin.release(lo + streams * (hi - lo), seeded(WORDS))) - lo) / (hi - lo)
    origin, unit = _affine(method)
    if [len(given) for given in recorder.inputs] != [len(streams)] * streams.shape[1]:  # silent slots: what was given when is not known
        return released, released, np.zeros(released.shape)
    law, given = _law(method), np.stack(recorder.inputs, axis=1)
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
    kurtosis: float
    size: int


def _moments(level: NDArray[np.intp], released: NDArray[np.float64], expected: NDArray[np.float64], spread: NDArray[np.float64] | None) -> _Shape:
    """By level; where the spread given the inputs is known, single releases need no sample of it."""
    mean, error, variance, fourth, second = [], [], [], 0.0, 0.0
    for at in range(LEVELS):
        here = level == at
        known = expected[here]
        n = len(known)
        mean.append(fsum(known) / n)
        error.append(sqrt(fsum((known - mean[-1]) ** 2)) / n)
        away = (released[here] - mean[-1]) ** 2
        seen = fsum(away) / n
        variance.append(fsum(spread[here]) / n + fsum((known - mean[-1]) ** 2) / n if spread is not None and spread.any() else seen)
        second += seen / LEVELS
        fourth += fsum(away * away) / n / LEVELS
    return _Shape(mean, error, variance, fourth / (second * second), n)


def _together(one: _Shape, other: _Shape) -> Reading:
    """Both shapes as one reading: their middle, and their difference as doubt."""
    levels = np.arange(LEVELS) / (LEVELS - 1)
    mean = [(a + b) / 2 for a, b in zip(one.mean, other.mean, strict=True)]
    doubt = [sqrt((a - b) * (a - b) / 12 + (p * p + q * q) / 4) for a, b, p, q in zip(one.mean, other.mean, one.error, other.error, strict=True)]
    away = ((levels - 0.5) ** 2).tolist()
    center = fsum(away) / LEVELS
    fits = []
    for shape in (one, other):
        middle = fsum(shape.variance) / LEVELS
        curve = fsum((a - center) * v for a, v in zip(away, shape.variance, strict=True)) / fsum((a - center) ** 2 for a in away)
        fits.append((middle, curve))
    curve = max((fits[0][1] + fits[1][1]) / 2, 0.0)
    middle = (fits[0][0] + fits[1][0]) / 2 - curve * center
    kurtosis = (one.kurtosis + other.kurtosis) / 2
    sampled = (kurtosis - 1) / (2 * LEVELS * one.size) * (middle * middle)
    apart = fits[0][0] - fits[1][0]
    doubted = sqrt(apart * apart / 12 + sampled)
    return Reading(levels, np.maximum.accumulate(mean), np.array(doubt), middle, curve, doubted, kurtosis)


def _at(values: NDArray[np.float64], level: float) -> float:
    """Linear interpolation of what is known at the levels, constant beyond the ends."""
    place = min(max(level, 0.0), 1.0) * (LEVELS - 1)
    left = min(int(place), LEVELS - 2)
    return float(values[left] + (place - left) * (values[left + 1] - values[left]))


def _slope(read: Reading, level: float) -> float:
    """Of the mean, over a quarter of the domain on each side: what a crowd's values are spread over."""
    low, high = max(level - 0.25, 0.0), min(level + 0.25, 1.0)
    if not high > low:
        low, high = 0.0, 1.0
    return (_at(read.mean, high) - _at(read.mean, low)) / (high - low)


def _inverse(read: Reading, mean: float) -> float:
    """The level whose release has this mean, 0..1."""
    if not mean > read.mean[0]:
        return 0.0
    if not mean < read.mean[-1]:
        return 1.0
    right = int(np.searchsorted(read.mean, mean, side="right"))
    low, high = float(read.mean[right - 1]), float(read.mean[right])
    return float(read.levels[right - 1] + (mean - low) / (high - low) / (LEVELS - 1))
