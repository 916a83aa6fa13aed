"""Normal noise of sums that change together: its exact loss, its rounding, its spread."""

from __future__ import annotations

from itertools import product
from math import erfc, sqrt
from unittest import mock

import numpy as np
import pytest

from ldp_kafka.checks.sources import Constant
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.gaussian_sums import GaussianSums
from ldp_kafka.randomness import seeded
from tests.cases import cases
from tests.methods.matrices import hockey_stick

EPSILON = 1.0


def coarse(delta, reach, dimension):
    """On a grid of at most twelve steps, so that all can be summed."""
    with mock.patch.object(GaussianSums, "_default_cells", return_value=12):
        return GaussianSums(EPSILON, delta, reach, dimension)


@cases(("delta", "dimension"), [(0.05, 1), (0.05, 2), (0.01, 2)])
def test_the_joint_law_loses_no_more_than_delta(delta, dimension):
    """Moves within the reach, in every direction and from every place between two steps, exactly
    summed; a move half as far again loses more.
    """
    noise = coarse(delta, 100, dimension)
    base, worst, beyond = 1000, 0.0, 0.0
    for place, *angles in product(range(0, noise.unit, 3), *[np.linspace(0, 1, 5)] * dimension):
        length = sqrt(sum(each * each for each in angles))
        if not length:
            continue
        for far in (100, 150):
            move = [int(far * each / length) for each in angles]
            one = [base + place] * dimension
            pair = one, [a + b for a, b in zip(one, move, strict=True)]
            lost = max(hockey_stick(noise, *each, EPSILON) for each in (pair, pair[::-1]))
            worst, beyond = (max(worst, lost), beyond) if far == 100 else (worst, max(beyond, lost))
    assert 0 < worst <= noise.certificate().delta <= delta < beyond


def test_no_tail_is_out_of_reach_but_for_a_part_of_delta():
    """What a normal has beyond the table is less than the certificate counts."""
    noise = GaussianSums(1.0, 1e-5, 2**40, 3)
    beyond = erfc(noise._noise.reach / (noise._parts / 64) / sqrt(2))
    assert beyond <= 2.0**-49


def test_rounding_is_unbiased_to_the_last_word():
    """Of every number between two steps, as many words round up as lie above the step."""
    noise = coarse(0.05, 100, 2)
    zero = noise._noise.reach
    for number in range(2 * noise.unit):
        rounded = [
            int(noise.perturb(np.array([number]), Constant((zero, 0, word, 0)))[0])
            for word in range(noise.unit)
        ]
        rest = int(noise.perturb(np.array([0]), Constant((zero, 0, 0, 0)))[0])
        assert sum(rounded) - rest * noise.unit == number


@cases(("epsilon", "reach"), [(0.5, 2.0**50), (8.0, 12_345.6)])
def test_its_spread_is_what_it_states(epsilon, reach):
    """The standard deviation of 2^17 draws within 1.1 %: six of its own (false alarms: 2e-9)."""
    noise = GaussianSums(epsilon, 1e-5, reach, 5)
    drawn = noise.perturb(np.full(2**17, 3 * 2**50 // 7), seeded(1)) * noise.unit
    assert np.std(drawn) == pytest.approx(noise.variance**0.5, rel=0.011)
    assert abs(np.mean(drawn) - 3 * 2**50 // 7) < 6 * (noise.variance / 2**17) ** 0.5


@cases("wrong", [{"reach": 0}, {"reach": 2.0**80}, {"delta": 0.0}, {"epsilon": 0.0}])
def test_what_does_not_fit_is_refused(wrong):
    with pytest.raises(ConfigurationError):
        GaussianSums(**{"epsilon": 1.0, "delta": 1e-5, "reach": 8.0, "dimension": 1} | wrong)


def test_numbers_must_be_a_column_of_whole_ones():
    noise = GaussianSums(1.0, 1e-5, 2**40, 3)
    with pytest.raises(TypeError):
        noise.perturb(np.array([0.5]), seeded(1))
    with pytest.raises(ValueError, match="column"):
        noise.perturb(np.zeros((2, 2), np.int64), seeded(1))
