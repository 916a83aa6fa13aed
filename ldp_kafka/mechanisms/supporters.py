"""The law of how many reports support a category, and what their number says of its frequency."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.mechanisms import binomial
from ldp_kafka.mechanisms.base import Z
from ldp_kafka.mechanisms.elementary import natural_exp, normal_tail

__all__ = ["OfPopulation", "OfReports", "between"]

ALPHA = 0.025  # at each end
# variance of a number of supporters from which on it is as good as normal: tests have the coverage
NORMAL_FROM = 30.0
FARTHEST = 64.0  # square of a normal number beyond which its density is none: `natural_exp`
ROOT_OF_TWO_PI = 2.5066282746310002
MOST = 128  # values of m that a probability is summed over
SIGMAS, MORE = 6.0, 6.0  # of a law, about its mean: what lies beyond is below 1e-6
MARGIN = 2.0**-20  # of a report: limits that are truths are written with 15 digits
UNLIKELY = 1e-9  # chance of such a number, whatever the truth: it is then at the end that is nearer
SMALLEST = 2.0**-53  # by so much a probability is below 1
TINY = 2.0**-424  # variances that are 0 since p is 1 as a float
Floats = NDArray[np.float64]
Masses = Callable[[Floats, Floats], Floats]


class OfPopulation(NamedTuple):
    """Each of n reports supports the category with probability s = q + (p - q) f, f its frequency
    in the population that those who report are drawn from: the supporters are Bin(n, s).

    Notes
    -----
    Limits are those of Clopper and Pearson (Biometrika 1934). Wilson's go down to a coverage of
    .90, and seen (1 - seen), with the noise as its floor, to .36. Where the variance of the number
    is large, the same tails are those of the normal law with half a report of continuity and the
    third moment (Cornish and Fisher, Revue de l'Institut International de Statistique 1938),
    solved for s.
    """

    n: int
    p: float
    q: float

    def limits(self, supporters: Floats) -> tuple[Floats, Floats]:
        """95 % limits of f, each end (m,) wherever it lies, of these numbers (m,) of supporters."""
        k, n = supporters, self.n
        low, high = _scores(k, 0.0, float(n), (0.0, float(n), -float(n)), _population_skew)
        few = k * (n - k) / n < NORMAL_FROM
        if few.any():
            number = k[few].astype(np.intp)
            at = np.where(2 * number <= n, number, number - n - 1)
            low[few], high[few] = (limits[at] for limits in _exact_limits(n))
        return self._frequency(low), self._frequency(high)

    def standard_error(self, supporters: Floats, limits: tuple[Floats, Floats]) -> Floats:
        """(m,) the normal one of an interval as wide as the limits, before they are cut."""
        del supporters
        return np.asarray((limits[1] - limits[0]) / (2 * Z))

    def chance_above(self, supporters: Floats, threshold: float) -> Floats:
        """(m,) the probability that f is above a threshold in 0..1, where all f in 0..1 were
        equally likely before. Given k supporters s is then beta distributed, between q and p: above
        some s with the probability that Bin(n + 1, s) is at most k.
        """
        s = self.q + (self.p - self.q) * np.array([0.0, threshold, 1.0])
        k, n = supporters[:, None], self.n
        variance = (n + 1) * s * (1 - s)
        chances = _normal_below(k + 0.5, (n + 1) * s, np.maximum(variance, TINY), 1 - 2 * s)
        few = (k * (n - k) / n < NORMAL_FROM) | (variance < NORMAL_FROM)
        exact = np.broadcast_to(few, chances[0].shape)
        if exact.any():
            number, chance = (np.broadcast_to(each, exact.shape)[exact] for each in (k + 1, s))
            chance = np.minimum(chance, 1 - SMALLEST)
            chances[0][exact], chances[1][exact] = binomial.tails(number, n + 1, chance)
        return between(*chances)

    def _frequency(self, s: Floats) -> Floats:
        return np.asarray((s - self.q) / (self.p - self.q))


class OfReports(NamedTuple):
    """Of n reports m = n f are of the category, and given the values the supporters are Bin(m, p) +
    Bin(n - m, q): f is the frequency among those who report.

    Notes
    -----
    Limits are the least and the greatest m that the number of supporters does not refute, each with
    probability at most .025, by the exact law; where its variance is large by the normal one, as in
    `OfPopulation`. A binomial law would be 15 to 19 times as wide at a large epsilon.
    """

    n: int
    p: float
    q: float

    def limits(self, supporters: Floats) -> tuple[Floats, Floats]:
        """95 % limits of f, each end (m,) in 0..1, of these numbers (m,) of supporters."""
        k, n = supporters, float(self.n)
        p, q = self.p * (1 - self.p), self.q * (1 - self.q)
        squares = (n * q, n * (p - q), 0.0)
        found = _scores(k, n * self.q, n * (self.p - self.q), squares, self._skew) * n
        few = self._variance(k) < NORMAL_FROM
        if few.any():
            found[0][few] = self._least(k[few], found[0][few])
            # the misses of what is counted are a number of the same kind
            turned = OfReports(self.n, 1 - self.q, 1 - self.p)
            found[1][few] = n - turned._least(n - k[few], n - found[1][few])
        low, high = (np.clip(found[at] + (2 * at - 1) * MARGIN, 0, n) / n for at in (0, 1))
        return low, high

    def standard_error(self, supporters: Floats, limits: tuple[Floats, Floats]) -> Floats:
        """(m,) that of the estimate at the frequency that is estimated, or as in `OfPopulation`."""
        noise = np.sqrt(self._variance(supporters)) / (self.n * (self.p - self.q))
        return np.maximum(noise, (limits[1] - limits[0]) / (2 * Z))

    def chance_above(self, supporters: Floats, threshold: float) -> Floats:
        """(m,) the probability that f is above a threshold, where all n + 1 numbers m were equally
        likely before.
        """
        last = int(np.floor(threshold * self.n * (1 + 2.0**-50)))  # .29 * 100 is below 29
        found, few = np.zeros_like(supporters), self._variance(supporters) < NORMAL_FROM
        for these, masses in ((few, self._exact), (~few, self._normal)):
            if these.any():
                found[these] = self._above(supporters[these], last, masses)
        return found

    def _above(self, k: Floats, last: int, masses: Masses) -> Floats:
        """The same by the chances of k supporters with m: of `MOST` values of m or fewer, so that
        none stands for both some that are above and some that are not.
        """
        centre = np.clip((k - self.n * self.q) / (self.p - self.q), 0, self.n)
        half = 8 * np.sqrt(self._variance(k)) / (self.p - self.q) + 20
        stride = np.ceil(np.minimum(2 * half + 2, self.n + 1) / MOST)
        stride += stride % 2 == 0  # has a middle
        first = np.floor((np.maximum(centre - half, 0) - last - 1) / stride)
        total, beyond = np.zeros_like(k), np.zeros_like(k)
        for step in range(min(MOST, self.n + 1) + 2):
            start = last + 1 + stride * (first + step)
            low, high = np.maximum(start, 0), np.minimum(start + stride - 1, self.n)
            middle = np.clip(np.floor((low + high) / 2), 0, self.n)
            mass = np.maximum(high - low + 1, 0) * masses(k, middle)
            total += mass
            beyond += np.where(start > last, mass, 0.0)
        known = total > UNLIKELY
        return np.where(known, beyond / np.where(known, total, 1.0), centre > last)

    def _exact(self, k: Floats, m: Floats) -> Floats:
        return self._masses(k, m)[0]

    def _normal(self, k: Floats, m: Floats) -> Floats:
        """P[k supporters | m] by the normal law and its first correction, or by the exact one where
        the variance at this m is small.
        """
        f = m / self.n
        variance = self._moment(f)
        deviation = np.sqrt(np.maximum(variance, NORMAL_FROM))
        z = (k - self.n * (self.q + (self.p - self.q) * f)) / deviation
        skewed = 1 + self._skew(f) / deviation / 6 * (z * z - 3) * z
        mass = np.where(z * z < FARTHEST, natural_exp(-z * z / 2), 0.0) * np.maximum(skewed, 0.0)
        found = np.asarray(mass / (ROOT_OF_TWO_PI * deviation))
        few = variance < NORMAL_FROM
        if few.any():
            found[few] = self._exact(k[few], m[few])
        return found

    def _least(self, k: Floats, near: Floats) -> Floats:
        """The least m (m,) with which at least k supporters have probability above ALPHA, n where
        there is none: bisection, begun about what is near.
        """
        n = float(self.n)
        spread = np.sqrt(self._variance(k)) / (self.p - self.q) + 4
        low = np.clip(np.floor(near - spread), -1, n)  # is refuted
        high = np.clip(np.ceil(near + spread), 0, n)  # is not, or is n
        low = np.where(self._masses(k, np.maximum(low, 0))[1] > ALPHA, -1, low)
        high = np.where(self._masses(k, high)[1] > ALPHA, high, n)
        while (high - low > 1).any():
            middle = np.floor((low + high) / 2)
            enough = self._masses(k, np.maximum(middle, 0))[1] > ALPHA
            high = np.where(enough & (middle > low), middle, high)
            low = np.where(enough, low, np.minimum(middle, high))
        return high

    def _masses(self, k: Floats, m: Floats) -> tuple[Floats, Floats]:
        """P[k supporters | m] and P[at least k | m]: the sum over the numbers of those that have
        the category and support it.
        """
        mine, first = _window(m, self.p)
        others, start = _window(self.n - m, self.q)
        least = np.cumsum(others[:, ::-1], 1)[:, ::-1]
        at = (k - first - start)[:, None] - np.arange(mine.shape[1])
        inside = np.clip(at, 0, others.shape[1] - 1).astype(np.intp)
        there = (at >= 0) & (at < others.shape[1])
        mass = np.where(there, np.take_along_axis(others, inside, 1), 0.0)
        tail = np.where(at < others.shape[1], np.take_along_axis(least, inside, 1), 0.0)
        return (mine * mass).sum(1), (mine * tail).sum(1)

    def _variance(self, k: Floats) -> Floats:
        """Of the number of supporters, where the frequency is the one that is estimated."""
        return self._moment(np.clip((k / self.n - self.q) / (self.p - self.q), 0, 1))

    def _moment(self, f: Floats) -> Floats:
        """The variance of the number of supporters at f."""
        p, q = self.p * (1 - self.p), self.q * (1 - self.q)
        return self.n * (f * p + (1 - f) * q)

    def _skew(self, f: Floats) -> Floats:
        """Third central moment over variance."""
        p, q = f * self.p * (1 - self.p), (1 - f) * self.q * (1 - self.q)
        return np.asarray((p * (1 - 2 * self.p) + q * (1 - 2 * self.q)) / np.maximum(p + q, TINY))


@lru_cache(maxsize=1024)
def _exact_limits(n: int) -> tuple[Floats, Floats]:
    """Limits of s for n reports, of the numbers of supporters that are near 0, and near n."""
    near = np.arange(min(n, int(2 * NORMAL_FROM)) + 1.0)
    k = np.unique(np.concatenate([near, n - near]))
    return binomial.lower(k, n, ALPHA), binomial.upper(k, n, ALPHA)


def _population_skew(s: Floats) -> Floats:
    return 1 - 2 * s


def _scores(
    supporters: Floats, mean: float, slope: float, squares: tuple[float, ...], skew: Any
) -> Floats:
    """(2, m) the f at which the number, half a report less, is Z standard deviations above its mean
    (a lower limit), and half a report more, below it: mean + slope f, variance a + b f + c f^2. Of
    Cornish and Fisher's expansion the term with the third moment, as it is at the f found without
    it.
    """
    side = np.array([[-1.0], [1.0]])
    count = supporters + side / 2
    a, b, c = squares
    shift: Floats = np.zeros_like(count)
    for _ in range(3):
        w = count - mean - shift
        half = (2 * w * slope + Z * Z * b) / 2
        square = slope * slope - Z * Z * c
        root = np.sqrt(np.maximum(half * half - square * (w * w - Z * Z * a), 0.0))
        found = np.clip((half + side * root) / square, 0.0, 1.0)
        shift = (Z * Z - 1) / 6 * skew(found)
    return np.asarray(found)


def _normal_below(
    count: Floats, mean: Floats, variance: Floats, skew: Floats
) -> tuple[Floats, Floats]:
    """Probabilities of a number below these counts, and above them, with the same expansion."""
    z = (count - mean) / np.sqrt(variance)
    z = z - (np.minimum(z * z, 36.0) - 1) / 6 * (skew / np.sqrt(variance))
    return normal_tail(-z), normal_tail(z)


def between(higher: Floats, lower: Floats) -> Floats:
    """The probability (m,) of a truth above the middle one of three places, given that it is
    between the first and the last: from the probabilities (m, 3) that it is above each place, and
    that it is below each.
    """
    parts = np.where((higher[:, 0] < 0.5)[:, None], higher, 1 - lower)
    less = np.where((lower[:, 2] < 0.5)[:, None], lower, 1 - higher)
    use_less = lower[:, 2] < higher[:, 0]
    whole = np.where(use_less, less[:, 2] - less[:, 0], parts[:, 0] - parts[:, 2])
    part = np.where(use_less, less[:, 2] - less[:, 1], parts[:, 1] - parts[:, 2])
    sure = np.where(use_less, 1.0, 0.0)
    known = whole > UNLIKELY
    return np.where(known, np.clip(part / np.where(known, whole, 1.0), 0, 1), sure)


def _window(trials: Floats, chance: float) -> tuple[Floats, Floats]:
    """Probabilities (m, width) of consecutive numbers of hits about the mean, and the first one
    (m,): what lies outside has a probability below 1e-6.
    """
    mean = trials * chance
    reach = SIGMAS * np.sqrt(mean * (1 - chance)) + MORE
    first = np.floor(np.maximum(mean - reach, 0))
    width = int(min((2 * reach + 2).max(), trials.max() + 1))
    odds = chance / max(1 - chance, SMALLEST)
    hits = first[:, None] + np.arange(width)
    steps = np.maximum(trials[:, None] - hits, 0.0) / (hits + 1) * odds
    masses = np.ones((len(trials), width))
    np.multiply.accumulate(steps[:, :-1], axis=1, out=masses[:, 1:])
    return masses / masses.sum(1)[:, None], first
