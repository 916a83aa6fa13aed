"""Noisy comparisons, by themselves and with a shared threshold: exact chances, their guarantees,
and the samplers.
"""

from __future__ import annotations

from math import exp, log

import numpy as np
import pytest

from ldp_kafka.checks.chisquare import by_place, limit, statistic
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.base import exp_below
from ldp_kafka.mechanisms.comparison import NoisyComparison
from ldp_kafka.mechanisms.sparse_vector import SparseVector
from ldp_kafka.randomness import seeded
from tests.cases import cases
from tests.depth import depth

UNIT = 2**32
RANGES = [(-UNIT, UNIT), (-50 * UNIT, UNIT), (900 * UNIT, 951 * UNIT), (-7, 5)]


@cases("epsilon", [1e-5, 0.01, 0.4, 1.0, 5.0, 30.0, 500.0])
@cases(("low", "high"), RANGES)
def test_an_answer_loses_at_most_epsilon(epsilon, low, high):
    reach = 2 * UNIT if high > 5 else 2
    test = NoisyComparison(epsilon, reach, low, high)
    assert test.certificate().ratio <= exp_below(min(epsilon, 50.0))
    places = np.unique(np.linspace(low, high, 40).astype(int)).tolist()
    bound = exp_below(min(epsilon, 50.0))
    for one in places:
        for other in (each for each in places if abs(one - each) <= reach):
            a, b = test.chance(one), test.chance(other)
            assert 0 < a < 1
            assert a <= bound * b
            assert 1 - a <= bound * (1 - b)


@cases("epsilon", [0.01, 1.0, 5.0])
def test_its_chance_is_that_of_laplace_noise(epsilon):
    test = NoisyComparison(epsilon, UNIT, -3 * UNIT, 3 * UNIT)
    differences = np.linspace(-3 * UNIT, 3 * UNIT, 101).astype(np.int64)
    t = differences / UNIT * epsilon
    laplace = np.where(t < 0, np.exp(t) / 2, 1 - np.exp(-t) / 2)
    # linear between steps, a hundredth of a noise scale apart
    assert np.abs(test.chances(differences) - laplace).max() < 1e-4
    assert [float(test.chance(int(each))) for each in differences] == pytest.approx(
        test.chances(differences).tolist(), abs=1e-12
    )


def answers_off(test, truth, difference, samples):
    """How many standard deviations the answers are from their chance."""
    yes = int(test.above(np.full(samples, difference), seeded(7)).sum())
    chance = float(truth.chance(difference))
    return abs(yes - chance * samples) / (samples * chance * (1 - chance)) ** 0.5


@cases("share", [-1.0, -0.31, 0.0, 0.77])
def test_the_sampler_follows_the_chance(share):
    """5 standard deviations: less than one false alarm in a million. Three per cent more or less
    noise is found, but at 0, where noise does not matter.
    """
    samples, difference = depth(2_000_000, 20_000_000), int(share * UNIT)
    test = NoisyComparison(1.5, UNIT, -UNIT, UNIT)
    assert answers_off(test, test, difference, samples) < 5
    for wrong in (0.97, 1.03):
        other = NoisyComparison(1.5 * wrong, UNIT, -UNIT, UNIT)
        assert (answers_off(other, test, difference, samples) > 5) == (abs(share) > 0.3)


def test_what_a_comparison_cannot_be():
    for wrong in ((0.0, 1, 0, 1), (1.0, 0, 0, 1), (1.0, 1, 1, 1), (1e-6, 1, -(2**30), 2**30)):
        with pytest.raises(ConfigurationError):
            NoisyComparison(*wrong)
    test = NoisyComparison(1.0, 10, -10, 10)
    with pytest.raises(TypeError):
        test.above(np.array([0.5]), seeded(1))
    with pytest.raises(ValueError, match="column"):
        test.above(np.array([[1]]), seeded(1))


# --- with a shared threshold


VECTORS = [
    (epsilon, reach, most, middle, queries)
    for epsilon in (0.02, 0.2, 1.0, 5.0, 50.0, 500.0)
    for reach, most, middle, queries in (
        (2 * UNIT, 5 * UNIT, 20 * UNIT, 10),
        (2 * UNIT, 51 * UNIT, UNIT, 101),
        (UNIT // 5, 5 * UNIT, 0, 10),
    )
]


@cases(("epsilon", "reach", "most", "middle", "queries"), VECTORS)
def test_all_its_answers_lose_at_most_epsilon(epsilon, reach, most, middle, queries):
    """By the integers that it draws with, put together as the proof does."""
    vector = SparseVector(epsilon, reach, most, middle, queries)
    assert vector.certificate().ratio <= exp_below(min(epsilon, 50.0))
    if epsilon <= 20:
        assert vector.certificate().epsilon_effective == pytest.approx(epsilon, rel=1e-6)
    assert sum(vector._weights) == 2**64
    assert min(vector._weights) > 0


def chance_of(vector, values, answers):
    """The exact chance of answers to values with one threshold."""
    law = vector.law[1].copy()
    for value, answer in zip(values, answers, strict=True):
        chance = vector.chances(value)
        law *= chance if answer else 1 - chance
    return float(law.sum())


@cases("epsilon", [0.5, 4.0])
def test_no_answers_of_any_moved_values_lose_more(epsilon):
    """Random values and moves, and the worst known ones: all values move together, the last one
    against them; yes up to the last answer.
    """
    rng = np.random.default_rng(2)
    vector = SparseVector(epsilon, UNIT, 4 * UNIT, UNIT, 12)
    worst = 0.0
    for turn in range(depth(100, 2000)):
        count = int(rng.integers(1, 12))
        values = rng.integers(0, 3 * UNIT, count)
        moves = np.where(turn % 2, UNIT, rng.integers(-UNIT, UNIT, count))
        moves[-1] = -moves[-1] if turn % 2 else moves[-1]
        other = np.clip(values + moves, 0, 4 * UNIT)
        answers = [1] * (count - 1) + [int(rng.integers(0, 2))]
        a, b = (chance_of(vector, each.tolist(), answers) for each in (values, other))
        worst = max(worst, abs(log(a / b)))
    assert 0.1 * epsilon < worst <= epsilon


def test_a_threshold_that_is_used_on_loses_more():
    """Ten noes, which it is not made for, with a threshold that many answers have told: the mutant
    that the bound is there for.
    """
    vector = SparseVector(1.0, UNIT, 4 * UNIT, 0, 12)
    told = [0] * 40
    values, other = told + [0] * 12, told + [UNIT] * 12
    answers = [0] * 40 + [1] * 12
    fresh = abs(
        log(
            chance_of(vector, [0] * 12, answers[40:]) / chance_of(vector, [UNIT] * 12, answers[40:])
        )
    )
    used = abs(log(chance_of(vector, values, answers) / chance_of(vector, other, answers)))
    assert fresh <= 1.0 < 2.0 < used


def test_its_scales_are_those_of_the_technique():
    """Threshold 2 reach / epsilon, comparisons 4 reach / epsilon."""
    vector = SparseVector(1.0, UNIT, 4 * UNIT, 3 * UNIT, 10)
    levels, chances = vector.law
    mean = float(levels @ chances)
    spread = float((levels - mean) ** 2 @ chances) ** 0.5 * vector.unit / UNIT
    assert mean * vector.unit / UNIT == pytest.approx(3.0, abs=0.01)
    assert spread == pytest.approx(2 * 2**0.5, rel=1e-3)
    place = int(np.flatnonzero(levels == 3 * UNIT // vector.unit)[0])
    for value in (0, UNIT, 3 * UNIT, 4 * UNIT):
        t = (3 - value / UNIT) / 4
        laplace = exp(t) / 2 if t < 0 else 1 - exp(-t) / 2
        assert vector.chances(value)[place] == pytest.approx(laplace, abs=1e-6)


def test_the_samplers_follow_their_laws():
    """Thresholds by chi-square, one false alarm in a million; comparisons by binomial ones. Three
    per cent more or less noise is found.
    """
    samples = depth(300_000, 3_000_000)
    vector = SparseVector(1.0, UNIT, 4 * UNIT, UNIT, 10)
    levels, chances = vector.law

    def off(drawn):
        seen = np.bincount(np.clip(drawn - levels[0], 0, len(levels) - 1), minlength=len(levels))
        due = chances * samples
        found, freedom = statistic(seen, due, by_place(due))
        return found / limit(freedom)

    assert off(vector.thresholds(samples, seeded(4))) < 1
    for wrong in (0.97, 1.03):
        other = SparseVector(wrong, UNIT, 4 * UNIT, UNIT, 10)
        assert off(other.thresholds(samples, seeded(4))) > 1
    at = int(np.flatnonzero(levels == UNIT // vector.unit)[0])
    for value in (0, 2 * UNIT + 12345, 4 * UNIT):
        yes = int(
            vector.below(
                np.full(samples, value), np.full(samples, levels[at]), seeded(value + 1)
            ).sum()
        )
        chance = float(vector.chances(value)[at])
        assert abs(yes - chance * samples) < 5 * (samples * chance * (1 - chance)) ** 0.5


def test_what_a_vector_cannot_be():
    for wrong in (
        (0.0, 1, 1, 1, 1),
        (1.0, 0, 1, 1, 1),
        (1.0, 1, -1, 1, 1),
        (1.0, 1, 1, -1, 1),
        (1.0, 1, 1, 1, 0),
        (1e-9, 1, 1, 1, 10),
        (1e-4, UNIT, UNIT, UNIT, 10),
    ):
        with pytest.raises(ConfigurationError):
            SparseVector(*wrong)
    vector = SparseVector(1.0, 10, 10, 10, 3)
    with pytest.raises(TypeError):
        vector.below(np.array([0.5]), np.zeros(1, np.int64), seeded(1))
    with pytest.raises(ValueError, match="columns"):
        vector.below(np.array([1]), np.zeros(2, np.int64), seeded(1))
