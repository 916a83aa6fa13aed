"""Priors of many crowds at once, and of one crowd as it grows: each is that of its crowd alone."""

from __future__ import annotations

import random
import secrets
from functools import cache
from math import sqrt

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.methods.priors import EVEN, SPREAD, SURE, Prior, posterior, prior_of
from ldp_kafka.methods.response_curve import LEVELS
from ldp_kafka.methods.shrinkage import Shrinkage
from tests.depth import depth

METHODS = {
    "sw_direct": {"epsilon": 1.0, "window": 1},
    "capp": {"epsilon": 20.0, "window": 5},
    "sampling": {"epsilon": 2.0, "window": 3},
    "ipp": {"epsilon": 0.05, "window": 10},
}

FLAT = {"flat at an end": 4, "flat": LEVELS}
"""Curves that are flat over so many levels, of which a report says nothing."""


@cache
def crowd(name):
    of = "sw_direct" if name in FLAT else name
    found = Shrinkage(lk.method(of, domain=(-3.0, 10.0), **METHODS[of]))
    read = found.curve
    if name in FLAT:
        mean = read.mean.copy()
        mean[: FLAT[name]] = mean[FLAT[name] - 1]
        found = Shrinkage(found.method, curve=read._replace(mean=mean))
    return found


class Model:
    """Of one crowd, written out in Python's numbers."""

    def __init__(self, read, scale):
        self.read, self.low, self.step = read, scale.low, scale.step

    def noise(self, level):
        return self.read.middle + self.read.curve * ((level - 0.5) * (level - 0.5))

    def between(self, values, level):
        place = min(max(level, 0.0), 1.0) * (LEVELS - 1)
        left = min(int(place), LEVELS - 2)
        return float(values[left] + (place - left) * (values[left + 1] - values[left]))

    def slope(self, level):
        low, high = max(level - 0.25, 0.0), min(level + 0.25, 1.0)
        mean = self.read.mean
        return (self.between(mean, high) - self.between(mean, low)) / (high - low)

    def inverse(self, mean):
        known = self.read.mean.tolist()
        if not mean > known[0]:
            return 0.0
        if not mean < known[-1]:
            return 1.0
        right = next(at for at in range(LEVELS) if known[at] > mean)
        low, high = known[right - 1], known[right]
        return float(self.read.levels[right - 1]) + (mean - low) / (high - low) / (LEVELS - 1)

    def prior(self, n, summed, squares):
        read, step = self.read, self.step
        if n < 2 or not self.slope(0.5) > 0:
            return Prior(0.5, 0.5, 0.0, 0.25)
        y = self.low + summed / n * step
        total = (squares * n - summed * summed) / (n * (n - 1)) * (step * step)
        raw = self.inverse(y)
        away = raw - 0.5
        slope = self.slope(0.5)
        if abs(away) > 0.25:
            slope = (y - self.between(read.mean, 0.5)) / away
        doubt = self.between(read.doubt, raw)
        square = (total / n + doubt * doubt) / (slope * slope)
        spread = max(SPREAD * SPREAD, away * away - SURE * square)
        share = spread / (spread + square)
        mean = 0.5 + share * away
        wrong = share * share * square + (1 - share) * (1 - share) * min(0.25, away * away + square)
        slope, bound = self.slope(mean), mean * (1 - mean)
        if not slope > 0:
            return Prior(mean, sqrt(wrong), 0.0, bound)
        scale = slope * slope + read.curve
        variance = (total - self.noise(mean)) / scale
        unsure = (
            sqrt((read.kurtosis - 1) / n * (total * total) + read.middle_doubt * read.middle_doubt)
            / scale
        )
        likely = min(max(variance - unsure, 0.0), max(EVEN, variance - 3 * unsure), bound)
        return Prior(mean, sqrt(wrong), likely, min(max(variance, 0.0) + 2 * unsure, bound))

    def posterior(self, prior, value, lo, hi):
        read, slope = self.read, self.slope(prior.mean)
        noise = self.noise(prior.mean) + read.curve * prior.variance
        signal = slope * slope * prior.variance
        reliability = signal / (signal + noise) if signal > 0 else 0.0
        gain = reliability / slope if reliability > 0 else 0.0
        found = prior.mean + gain * (
            (self.low + value * self.step) - self.between(read.mean, prior.mean)
        )
        left = 1 - gain * slope
        error = left * left * (prior.most + prior.mean_error * prior.mean_error) + gain * gain * (
            self.noise(prior.mean) + 2 * read.middle_doubt + read.curve * prior.most
        )
        found = min(max(lo + found * (hi - lo), lo), hi)
        return found, reliability, min(sqrt(error), max(prior.mean, 1 - prior.mean)) * (hi - lo)


def reports(dice, method, n):
    """Of a crowd that is narrow, wide, at an end or two-fold; now and then beyond the range."""
    low, high = method.index_range
    ends = [dice.uniform(low, high) for _ in range(2)]
    width = dice.choice((0.0, 0.01, 0.3, 3.0)) * (high - low)
    return [round(dice.choice(ends) + dice.uniform(-width, width)) for _ in range(n)]


@pytest.mark.parametrize("name", [*METHODS, *FLAT])
def test_each_has_the_prior_of_its_crowd_alone(name):
    """To the bit, as Python's numbers say."""
    seed = secrets.randbits(32)
    dice, one = random.Random(seed), crowd(name)
    method, model = one.method, Model(one.curve, one._scale)
    sums = [(0, 0, 0), (1, 5, 25), (2, 10, 50), (10**15, 10**17, 10**21)]
    for _ in range(depth(400, 5000)):
        values = reports(dice, method, dice.choice((1, 2, 3, 10, 100)))
        times = dice.choice((1, 1, 1000, 10**12))
        n, total, squares = (
            times * each for each in (len(values), sum(values), sum(value**2 for value in values))
        )
        sums.append((n, total, squares))
    found = prior_of(one.curve, one._scale, sums)
    numbers = [reports(dice, method, 1)[0] for _ in sums]
    shrunk = posterior(one.curve, one._scale, method.domain, found, np.array(numbers))
    for at, each in enumerate(sums):
        expected = model.prior(*each)
        assert tuple(float(column[at]) for column in found) == tuple(expected), (seed, each)
        expected = model.posterior(expected, numbers[at], *method.domain)
        assert tuple(float(column[at]) for column in shrunk) == expected, (seed, each)
    if name == "flat":
        assert {each.tolist().count(each[0]) for each in found} == {len(sums)}
        return
    # crowds of all kinds: known to be wide, at either end, and such as say nothing
    assert (found.variance > 0).sum() > 20
    assert (found.variance == 0).sum() > 20
    assert (found.mean < 0.2).sum() > 5
    assert (found.mean > 0.8).sum() > 5


@pytest.mark.parametrize("name", METHODS)
def test_one_after_the_other_or_each_by_itself(name):
    """The releases of a crowd that grows are those of the crowds that it was."""
    seed = secrets.randbits(32)
    dice, one = random.Random(seed), crowd(name)
    values = reports(dice, one.method, 60)
    for known in (0, 1, 40):
        growing = Shrinkage(one.method, curve=one.curve)
        if known:
            growing.update(np.array(values[:known]))
        found = growing.apply_each(np.array(values[known:]))
        assert growing.sums[0] == known
        for at, value in enumerate(values[known:]):
            growing.update(np.array([value]))
            alone = growing.apply(np.array([value]))
            said = float(found.values[at]), float(found.reliability[at])
            assert said == (alone.values[0], alone.reliability), seed
            assert found.standard_error[at] == alone.standard_error, seed
