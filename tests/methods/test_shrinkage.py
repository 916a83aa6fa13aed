"""Shrinkage comes near the best linear estimate, says how good it is, and never strays far from the
midpoint where reports say nothing.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.methods import priors
from ldp_kafka.methods.response_curve import ResponseCurve
from ldp_kafka.methods.shrinkage import Shrinkage, debias, shrink
from tests.cases import cases

UNIT = (0.0, 1.0)
METHODS = ["sw_direct", "pm_direct", "ipp", "app", "capp"]


def crowd(seed, users, slots=1, low=0.05, high=0.45, move=0.1):
    """Streams around levels of their own."""
    rng = np.random.default_rng(seed)
    level = rng.uniform(low, high, (users, 1))
    return np.clip(level + rng.uniform(-move, move, (users, slots)), 0, 1)


def square(estimate, truth):
    return float(((estimate - truth) ** 2).mean())


def oracle(released, truth):
    """What the best linear function of a release leaves, known only to those who know the truth."""
    return truth.var() * (1 - np.corrcoef(released, truth)[0, 1] ** 2)


@pytest.mark.parametrize("name", METHODS)
@cases("slots", [1, 8])
def test_it_comes_near_the_oracle(name, slots):
    """Within 10 % of the best linear estimate, below both the raw releases and the
    best constant.
    """
    m = lk.method(name, epsilon=8.0 * slots, window=slots, domain=UNIT)
    values = crowd(1, 20_000, slots)
    released = m.release(values, lk.randomness.seeded(1)).mean(axis=1)
    truth = values.mean(axis=1)
    found = shrink(m, m.release(values, lk.randomness.seeded(1)), slots=slots)
    best = oracle(released, truth)
    assert best < 0.85 * truth.var(), "the case is too easy: a constant would do"
    assert square(found.values, truth) < 1.1 * best
    assert square(found.values, truth) < square(released, truth)


@pytest.mark.parametrize("name", ["sw_direct", "capp"])
@cases("mechanism", ["laplace", "piecewise", "hybrid", "square_wave"])
def test_any_mechanism(name, mechanism):
    """Biased or not."""
    m = lk.method(name, epsilon=24.0, window=6, domain=UNIT, mechanism=mechanism)
    values = crowd(2, 10_000, 6)
    released, truth = m.release(values, lk.randomness.seeded(2)), values.mean(axis=1)
    assert square(shrink(m, released).values, truth) < 1.15 * oracle(released.mean(axis=1), truth)


@pytest.mark.parametrize("name", METHODS)
def test_where_reports_say_nothing_the_midpoint_is_given(name):
    """To a twentieth of the domain, whatever the noise says, with next to no reliability; the raw
    releases are wide of it.
    """
    m = lk.method(name, epsilon=0.1, window=10, domain=UNIT)
    for seed in range(10):
        released = m.release(np.full((100, 10), 0.5), lk.randomness.seeded(seed))
        found = shrink(m, released)
        assert abs(found.values - 0.5).max() < 0.05
        assert found.reliability < 0.01
        assert abs(released.mean(axis=1) - 0.5).max() > 0.2


@pytest.mark.parametrize("name", ["sw_direct", "capp"])
@cases("epsilon", [1.0, 5.0, 20.0, 80.0])
def test_the_stated_error_is_kept(name, epsilon):
    """It is never too small, and at a large epsilon of the right size."""
    m = lk.method(name, epsilon=epsilon, window=8, domain=(-20.0, 20.0))
    values = -20 + 40 * crowd(3, 4000, 8)
    for seed in range(4):
        found = shrink(m, m.release(values, lk.randomness.seeded(seed)))
        actual = square(found.values, values.mean(axis=1)) ** 0.5
        assert actual < 1.02 * found.standard_error
        if epsilon == 80:
            assert found.standard_error < 1.3 * actual


def test_reliability_grows_with_epsilon():
    """From nearly nothing to nearly all."""
    values = crowd(4, 5000, 5, 0.0, 1.0)
    found = [
        shrink(
            m := lk.method("capp", epsilon=e, window=5, domain=UNIT),
            m.release(values, lk.randomness.seeded(4)),
        ).reliability
        for e in (0.2, 5, 20, 100)
    ]
    assert found == sorted(found)
    assert 0 <= found[0] < 0.01
    assert 0.9 < found[-1] <= 1


def test_the_prior_is_the_crowds():
    """Mean and variance, within their errors; a mean far from the midpoint is believed where it is
    significant.
    """
    m = lk.method("sw_direct", epsilon=4.0, window=1, domain=UNIT)
    values = crowd(5, 50_000)[:, 0]
    found = Shrinkage(m)
    found.update(found.index(m.release(values[:, None], lk.randomness.seeded(5))[:, 0]))
    assert abs(found.prior.mean - values.mean()) < 4 * found.prior.mean_error < 0.02
    assert 0.9 * values.var() < found.prior.variance < values.var() * 1.05 < found.prior.most * 1.1


def test_parts_of_a_crowd_add_up():
    """Counted in parts, or from sums that were written down, the same bytes come out."""
    m = lk.method("capp", epsilon=10.0, window=5, domain=UNIT)
    whole, parts = Shrinkage(m), Shrinkage(m)
    index = whole.index(m.release(crowd(6, 3000, 4), lk.randomness.seeded(6)).ravel())
    whole.update(index)
    for part in np.array_split(index, 7):
        parts.update(part)
    again = Shrinkage(m)
    again.add(json.loads(json.dumps(parts.sums)))
    expected = whole.apply(index)
    for other in (parts, again):
        assert other.sums == whole.sums
        found = other.apply(index)
        assert found.values.tobytes() == expected.values.tobytes()
        assert found[1:] == expected[1:]


def test_the_prior_follows_its_sums():
    """A new count is seen by the next release."""
    m = lk.method("sw_direct", epsilon=8.0, window=1, domain=UNIT)
    found = Shrinkage(m)
    index = found.index(m.release(np.full((2000, 1), 0.1), lk.randomness.seeded(7))[:, 0])
    assert found.apply(index[:3]).values.tolist() == [0.5] * 3
    found.update(index)
    assert found.apply(index[:3]).values.max() < 0.3


@pytest.mark.parametrize("name", ["sw_direct", "capp"])
def test_the_domain_is_only_a_scale(name):
    """Twice the domain, twice the value and its error."""
    values = crowd(8, 2000, 4)
    one, other = (
        lk.method(name, epsilon=12.0, window=4, domain=domain) for domain in (UNIT, (-64.0, 64.0))
    )
    a, b = (
        shrink(one, one.release(values, lk.randomness.seeded(8))),
        shrink(other, other.release(values * 128 - 64, lk.randomness.seeded(8))),
    )
    assert np.allclose(a.values * 128 - 64, b.values, atol=1e-6)
    assert b.standard_error == pytest.approx(128 * a.standard_error)
    assert b.reliability == pytest.approx(a.reliability)


@pytest.mark.parametrize("mechanism", ["square_wave", "laplace", "piecewise", "duchi"])
def test_a_reading_without_feedback_is_the_law(mechanism):
    """Mean and variance at every level, to the digits: the inputs are known, so nothing is left to
    chance.
    """
    m = lk.method("sw_direct", epsilon=2.0, window=1, domain=UNIT, mechanism=mechanism)
    read = ResponseCurve.of(m)
    for level, mean, doubt in zip(read.levels, read.mean, read.doubt, strict=True):
        law = m.mechanism.law(float(level))
        share = np.array([weight / law.denominator for weight in law.weights])
        points = np.asarray(law.support, float)
        # off the grid an input is rounded to it
        assert mean == pytest.approx(share @ points, abs=1e-4)
        assert doubt < 1e-4
        # its variance falls towards the ends: taken to be flat, and only the middle counts
        if mechanism != "duchi":
            assert read.noise(float(level)) == pytest.approx(
                share @ (points - mean) ** 2, rel=2e-3, abs=1e-3
            )


@pytest.mark.parametrize("name", ["ipp", "app", "capp"])
def test_a_reading_with_feedback_is_what_streams_show(name):
    """Other words, other levels, streams of another shape: within its doubt and what chance allows;
    without feedback the curve is another.
    """
    block = {} if name == "ipp" else {"block": 5}
    m = lk.method(name, epsilon=15.0, window=5, domain=UNIT, **block)
    values = np.clip(0.3 + np.random.default_rng(9).uniform(-0.2, 0.2, (40_000, 5)), 0, 1)
    values += 0.3 - values.mean()
    seen = m.release(values, lk.randomness.seeded(9)).mean(axis=1)
    read, plain = (
        ResponseCurve.of(each, 5)
        for each in (m, lk.method("sw_direct", epsilon=m.spend * 5 / 1e6, window=5, domain=UNIT))
    )
    level = float(np.interp(0.3, read.levels, read.mean))
    allowed = float(read.doubt.max()) + 4 * seen.std() / 200
    assert abs(seen.mean() - level) < allowed
    assert abs(seen.mean() - float(np.interp(0.3, plain.levels, plain.mean))) > 1.5 * allowed
    noise = seen.var() - ((read.mean[3] - read.mean[2]) * 8) ** 2 * values.mean(axis=1).var()
    assert read.noise(0.3) == pytest.approx(noise, abs=3 * read.middle_doubt + 0.05 * noise)


def test_a_reading_depends_on_nothing_but_the_method():
    """No state of any generator is in it, and none is left by it."""
    m = lk.method("capp", epsilon=3.0, window=5, domain=UNIT)
    first = ResponseCurve.of(m)
    np.random.seed(3)
    kept = m.release(np.full((3, 5), 0.2), lk.randomness.seeded(1))
    second = ResponseCurve.of(m)
    np.testing.assert_equal(first, second)
    assert (m.release(np.full((3, 5), 0.2), lk.randomness.seeded(1)) == kept).all()
    assert type(m.mechanism).__name__ == "SquareWave"


def test_one_threshold_is_enough_to_be_fooled(monkeypatch):
    """A twin that believes its reports from one standard error on strays from the midpoint: the
    caution is needed.
    """
    m = lk.method("sw_direct", epsilon=0.5, window=30, domain=UNIT)
    curve = ResponseCurve.of(m, 30)

    def away():
        found = []
        for seed in range(20):
            one = Shrinkage(m, 30, curve=curve)
            one.update(one.index(m.release(np.full((300, 30), 0.5), lk.randomness.seeded(seed))))
            found.append((one.prior.mean - 0.5) ** 2)
        return np.mean(found) ** 0.5

    careful = away()
    monkeypatch.setattr(priors, "SURE", 1.0)
    assert careful < 0.05 < away()


@cases("mechanism", ["square_wave", "laplace", "piecewise", "duchi", "hybrid"])
def test_debiased_means_are_unbiased(mechanism):
    """Within 4.9 standard errors (false alarms: 10**-6 each); releases of square wave themselves
    are not.
    """
    m = lk.method("sw_direct", epsilon=1.0, window=1, domain=(-10.0, 30.0), mechanism=mechanism)
    released = m.release(np.full((40_000, 1), 26.0), lk.randomness.seeded(10))
    found = debias(m, released)
    assert abs(found.mean() - 26) < 4.9 * found.std() / 200
    if mechanism == "square_wave":
        assert abs(released.mean() - 26) > 4.9 * released.std() / 200
    assert np.isnan(debias(m, [np.nan])).all()


def test_what_is_refused():
    """Categories, missing releases, sums that no reports have, streams that hold no whole number of
    means.
    """
    m = lk.method("capp", epsilon=3.0, window=5, domain=UNIT)
    with pytest.raises(ConfigurationError):
        Shrinkage(lk.method("lpu", epsilon=1.0, window=4, categories=3))
    with pytest.raises(ValueError, match="finite"):
        shrink(m, [[0.1, np.nan]])
    with pytest.raises(ValueError, match="users"):
        shrink(m, np.zeros((2, 2, 2)))
    for wrong in ([1, 5, 3], [-1, 0, 0], [2, 10, 40]):
        with pytest.raises(ValueError, match="sums"):
            Shrinkage(m).add(wrong)
    with pytest.raises(ConfigurationError):
        ResponseCurve.of(m, 3, slots=10)
    with pytest.raises(TypeError):
        Shrinkage(m, True)
