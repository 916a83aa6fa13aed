"""A law's mean and variance against fractions; chunks against one draw."""

from __future__ import annotations

from fractions import Fraction
from functools import reduce
from operator import add
from types import SimpleNamespace

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.mechanisms.base import Estimate, Law, in_chunks
from ldp_kafka.mechanisms.frequencies import AffineSupport
from tests.cases import cases

NAMES = ("duchi", "gaussian", "hybrid", "laplace", "piecewise", "square_wave")


def exact(law, of=Fraction):
    """Mean and variance of a law, in fractions."""
    points = [of(Fraction(point)) for point in np.asarray(law.support, float).tolist()]
    shares = [Fraction(weight, law.denominator) for weight in law.weights]
    mean = sum(p * y for p, y in zip(shares, points, strict=True))
    return mean, sum(p * (y - mean) ** 2 for p, y in zip(shares, points, strict=True))


@pytest.mark.parametrize("name", NAMES)
@cases("value", [0.0, 0.3, 1.0])
def test_moments_are_those_of_the_fractions(name, value):
    """Of a report, of a mapped one, about another point, and by dot products, to rounding."""
    extra = {"delta": 1e-5} if name == "gaussian" else {}
    law = lk.mechanism(name, epsilon=1.0, domain=(0.0, 1.0), **extra).law(value)
    mean, variance = (float(number) for number in exact(law))
    near = {"rel": 1e-12, "abs": 1e-12}
    assert law.mean() == pytest.approx(mean, **near)
    assert law.variance() == pytest.approx(variance, **near)
    assert law.mean_square() == pytest.approx(variance + mean**2, **near)
    assert law.mean_square(about=value) == pytest.approx(variance + (mean - value) ** 2, **near)
    assert law.dot_moments() == pytest.approx((mean, variance), **near)
    shifted, wider = (float(number) for number in exact(law, lambda y: 3 * y - 2))
    assert law.mean(lambda y: 3 * y - 2) == pytest.approx(shifted, **near)
    assert law.variance(lambda y: 3 * y - 2) == pytest.approx(wider, **near)
    assert law.dot_moments(lambda y: 3 * y - 2) == pytest.approx((shifted, wider), **near)
    assert law.probabilities().sum() == pytest.approx(1)


def test_sums_are_exact():
    """What cancels is not lost, as in a sum from left to right; the order does not matter."""
    law = Law(np.array([2.0**60, 1.0, -(2.0**60)]), [1, 2, 1], 4)
    assert law.mean() == 0.5
    # `sum` itself loses less from Python 3.12 on
    assert reduce(add, (law.probabilities() * law.support).tolist()) == 0
    back = Law(law.support[::-1], law.weights[::-1], 4)
    assert (law.mean(), law.variance()) == (back.mean(), back.variance())


def test_a_law_of_another_type_is_taken():
    """A mechanism may bring its own: three members are all that is asked for."""
    found = Law.of(SimpleNamespace(support=[0, 1], weights=[1, 1], denominator=2))
    assert (found.mean(), found.variance()) == (0.5, 0.25)


@cases("rows", [1, 3, 4, 7, 8])
@cases("width", [None, 2])
@cases("n", [0, 1, 7])
def test_chunks_are_one_draw(rows, width, n):
    """Each row has its own words, wherever chunks are cut; never more rows at a time."""
    sizes = []

    def draw(values, randomness, first):
        sizes.append(len(values))
        words = randomness.words(len(values), width or 1, first=first).astype(np.int64)
        return values + words[:, 0] if width is None else values[:, None] + words

    values = np.arange(n)
    found = in_chunks(draw, values, lk.randomness.seeded(3), rows)
    assert max(sizes) <= rows
    whole = draw(values, lk.randomness.seeded(3), 0)
    assert found.dtype == whole.dtype
    assert np.array_equal(found, whole)


def test_frequencies_invert_the_affine_law():
    """By hand: of 8 reports 5 and 1 support; p = 3/4, q = 1/4."""
    found = AffineSupport(0.75, 0.25).estimate(np.array([8, 5, 1]))
    assert found.value.tolist() == [0.75, -0.25]
    # a frequency of 3/4 and one that is cut to 0: 3/16 either way, over 8 reports and 1/2 squared
    assert found.variance == pytest.approx([3 / 16 / 8 * 4] * 2)
    wide = AffineSupport(0.75, 0.25).estimate(np.array([8, 5, 1]), population=True)
    assert wide.variance == pytest.approx([15 / 64 / 8 * 4, 7 / 64 / 8 * 4])
    assert AffineSupport(0.5, 0.25).variance(np.array([0.0, 1.0])).tolist() == [3.0, 4.0]


def test_without_reports_nothing_is_known():
    found = AffineSupport(0.5, 0.25).estimate(np.array([0, 0, 0]))
    assert np.isnan(found.value).all()
    assert np.isinf(found.standard_error).all()
    assert (len(found.value), found.reports) == (2, 0)
    assert len(Estimate.unknown(3).value) == 3
