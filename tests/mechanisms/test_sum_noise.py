"""Noise of sums: the exact law, its guarantee, and the sampler."""

from __future__ import annotations

import numpy as np
import pytest

from ldp_kafka.checks.chisquare import by_place, limit, statistic
from ldp_kafka.checks.sources import Constant
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.base import exp_below
from ldp_kafka.mechanisms.sum_noise import SumNoise
from ldp_kafka.randomness import seeded
from tests.cases import cases
from tests.depth import depth

UNIT = 2**32
SHAPES = [
    (epsilon, reach, most)
    for epsilon in (1e-4, 0.01, 0.1, 0.8, 1.0, 5.0, 20.0, 50.0, 2000.0)
    for reach, most in (
        (UNIT, UNIT),
        (UNIT, 101 * UNIT),
        (UNIT // 7 + 1, 10 * UNIT),
        (2**12, UNIT),
        (1, 5),
    )
]


@cases(("epsilon", "reach", "most"), SHAPES)
def test_the_loss_of_a_move_is_at_most_epsilon(epsilon, reach, most):
    """By integers; and all of it is spent, up to where words of 64 bits end."""
    noise = SumNoise(epsilon, reach, most)
    spent = min(epsilon, 50.0)
    assert noise.ratio(reach) <= exp_below(spent)
    if epsilon <= 20 and most >= reach:
        assert noise.certificate().epsilon_effective == pytest.approx(epsilon, rel=1e-6)
    assert noise.certificate().epsilon_effective <= epsilon


@cases(
    ("epsilon", "reach", "most"),
    [(1.0, 16, 100), (0.3, 7, 20), (4.0, 40, 4000), (8.0, 1000, 1000)],
)
def test_every_output_keeps_it_for_every_pair_of_sums(epsilon, reach, most):
    """The exact laws of sums on and between steps, over every output."""
    noise = SumNoise(epsilon, reach, most)
    low, high = noise.range
    outputs = np.arange(low, high + 1)
    sums = np.unique(np.linspace(0, most, 9).astype(int))
    sums = np.unique(np.r_[sums, np.minimum(sums + reach, most), sums // noise.unit * noise.unit])
    laws = {int(total): noise.words_of(int(total), outputs) for total in sums}
    top, bottom = exp_below(epsilon).as_integer_ratio()
    for total, law in laws.items():
        assert sum(law) == 2**96 and min(law) > 0
        for other, theirs in laws.items():
            if abs(total - other) <= reach:
                assert all(a * bottom <= b * top for a, b in zip(law, theirs, strict=True))


def far_off(noise, total, samples):
    """How many times its limit chi-square of so many noisy sums is."""
    low, _ = noise.range
    draws = noise.perturb(np.full(samples, total), seeded(5))
    index = np.clip(draws // noise.unit - low, 0, 2 * noise._reach + 10 * noise.cells)
    seen = np.bincount(index, minlength=2 * noise._reach + 10 * noise.cells + 1)
    outputs = low + np.arange(len(seen))
    due = np.array([words / 2**96 for words in noise.words_of(total, outputs)]) * samples
    bins = by_place(due)
    found, freedom = statistic(seen, due, bins)
    return found / limit(freedom)


@cases(("epsilon", "reach"), [(0.8, UNIT), (3.0, UNIT // 3), (12.0, 1000)])
@cases("share", [0.0, 0.123456789, 1.0])
def test_the_sampler_follows_the_law(epsilon, reach, share):
    """False alarms: one in a million a case. Three per cent more or less noise is found."""
    samples = depth(300_000, 3_000_000)
    noise = SumNoise(epsilon, reach, 3 * reach)
    total = int(share * 3 * reach)
    assert far_off(noise, total, samples) < 1
    for wrong in (0.97, 1.03):
        other = SumNoise(epsilon * wrong, reach, 3 * reach)
        other.words_of, other._reach = noise.words_of, noise._reach
        assert far_off(other, total, samples) > 1


def test_what_lies_beyond_the_table_is_the_same_for_all():
    """A word that chooses the even draw gives one output whatever the sum is, all over the public
    range.
    """
    noise = SumNoise(1.0, UNIT, 10 * UNIT)
    outcome = len(noise._weight) * 2 - 1  # the last of the table
    for other in (0, 12345, 2**40 - 1):
        words = [outcome, 0, other & 0xFFFFFFFF, other >> 32]
        drawn = noise.perturb(np.array([0, 3 * UNIT, 10 * UNIT]), Constant(words))
        low, high = noise.range
        assert len(set(drawn.tolist())) == 1
        assert low * noise.unit <= drawn[0] <= high * noise.unit
    assert noise._lift * 2 ** noise.range[1].bit_length() < 2**64 * 1e-7


def test_its_mean_and_variance():
    """2 (reach / epsilon)^2; unbiased between steps too."""
    for epsilon, reach in ((0.5, UNIT), (2.0, UNIT // 3)):
        noise = SumNoise(epsilon, reach, 20 * reach)
        assert noise.variance == pytest.approx(2 * (reach / epsilon) ** 2, rel=1e-4)
        draws = noise.perturb(np.full(200_000, 777_777_777), seeded(3)).astype(float)
        assert abs(draws.mean() - 777_777_777) < 5 * (noise.variance / len(draws)) ** 0.5
        assert draws.var() == pytest.approx(noise.variance, rel=0.05)


def test_sums_are_held_in_their_range():
    noise = SumNoise(1.0, 100, 1000)
    given = noise.perturb(np.array([-5000, 5000]), seeded(3))
    assert np.array_equal(given, noise.perturb(np.array([0, 1000]), seeded(3)))


@cases(
    ("epsilon", "reach", "most"),
    [(0.0, 1, 1), (float("nan"), 1, 1), (1e-5, 1, 1), (1.0, 0, 1), (1.0, 1, -1), (1.0, 1, 2**50)],
)
def test_what_it_cannot_be(epsilon, reach, most):
    with pytest.raises(ConfigurationError):
        SumNoise(epsilon, reach, most)


def test_what_it_does_not_take():
    noise = SumNoise(1.0, 10, 10)
    with pytest.raises(TypeError):
        noise.perturb(np.array([0.5]), seeded(1))
    with pytest.raises(ValueError, match="column"):
        noise.perturb(np.array([[1]]), seeded(1))
