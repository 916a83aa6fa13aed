"""The exponential mechanism: its exact law, its guarantee for moves of both kinds, and the
sampler.
"""

from __future__ import annotations

from itertools import product
from math import log

import numpy as np
import pytest

from ldp_kafka.checks.chisquare import limit, statistic
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.base import exp_below
from ldp_kafka.mechanisms.exponential import LIFT, ExponentialMechanism, _upper
from ldp_kafka.randomness import seeded
from tests.cases import cases
from tests.depth import depth

UNIT = 2**32
EPSILONS = [1e-3, 0.02, 0.2, 1.0, 5.0, 50.0, 500.0]


@cases("epsilon", EPSILONS)
@cases("monotone", [False, True])
def test_a_choice_loses_at_most_epsilon(epsilon, monotone):
    choice = ExponentialMechanism(epsilon, UNIT, 10, monotone=monotone)
    found = choice.certificate()
    assert found.ratio <= exp_below(min(epsilon, 50.0))
    assert found.epsilon_effective == pytest.approx(min(epsilon, 50.0), rel=1e-4)
    # what the proof begins with
    assert choice._weight[0] * 2**10 < 2**63
    assert choice._weight[-1] == LIFT


def worst(choice, scores, moves):
    """The largest log ratio of one candidate's words between scores and those moved."""
    words = choice.words_of(np.array(scores))
    return max(
        abs(log(a / b))
        for move in moves
        for a, b in zip(words, choice.words_of(np.array(scores) + np.array(move)), strict=True)
    )


SCORES = [(0, 0, 0), (0, 250, 500), (-90, 10, 17), (0, 0, 10**6), (-(10**6), 1, -1), (99, 100, 199)]


@cases("epsilon", [0.02, 0.7, 4.0])
@cases("reach", [1, 7, 100])
def test_no_move_loses_more(epsilon, reach):
    """Every move of three scores: by the whole reach, by a part of it, or not at all; of those
    that are monotone all one way. The worst move loses nearly all of epsilon.
    """
    parts = sorted({-reach, -reach // 2, 0, reach // 2, reach})
    moves = list(product(parts, repeat=3))
    one_way = [move for move in moves if min(move) >= 0 or max(move) <= 0]
    most = {}
    for monotone, allowed in ((False, moves), (True, one_way)):
        choice = ExponentialMechanism(epsilon, reach, 3, monotone=monotone)
        most[monotone] = max(worst(choice, scores, allowed) for scores in SCORES)
        assert most[monotone] <= epsilon
        assert most[monotone] > 0.6 * epsilon
    # with moves of both kinds the noise of a monotone choice is too little
    choice = ExponentialMechanism(epsilon, reach, 3, monotone=True)
    assert max(worst(choice, scores, moves) for scores in SCORES) > 1.05 * epsilon


@cases("scores", SCORES)
def test_its_law_is_the_exponential_one(scores):
    """In steps of a 64th of the reach at epsilon 1; all words of 2**64 are given to someone."""
    choice = ExponentialMechanism(1.0, 6400, 3)
    scaled = np.array(scores) * 64
    want = np.exp((scaled - scaled.max()) / 6400 / 2)
    words = choice.words_of(scaled)
    assert sum(words) == 2**64
    assert min(words) > 0
    assert np.allclose(np.array(words) / 2**64, want / want.sum(), rtol=0.02, atol=1e-6)
    assert np.allclose(choice.chances(scaled[None])[0], np.array(words) / 2**64, atol=1e-9)


def test_the_sampler_follows_its_law():
    """One false alarm in a million; a choice with 3 % more or less epsilon is found."""
    rows = depth(1_000_000, 10_000_000)
    scores = np.array([0, 3 * UNIT // 2, 3 * UNIT, UNIT])
    table = np.broadcast_to(scores, (rows, 4))
    choice = ExponentialMechanism(1.5, UNIT, 4)
    counts = np.bincount(choice.choose(table, seeded(4)), minlength=4)
    most, each = limit(3), np.arange(4)
    assert statistic(counts, choice.chances(scores[None])[0] * rows, each)[0] < most
    for wrong in (0.97, 1.03):
        other = ExponentialMechanism(1.5 * wrong, UNIT, 4)
        assert statistic(counts, other.chances(scores[None])[0] * rows, each)[0] > most


def test_words_are_scaled_without_losing_a_bit():
    rng = np.random.default_rng(1)
    word = rng.integers(0, 2**64, 2000, np.uint64, endpoint=False)
    total = rng.integers(1, 2**63, 2000, np.uint64)
    word[:3], total[:3] = [0, 2**64 - 1, 2**64 - 1], [2**63 - 1, 2**63 - 1, 1]
    want = [int(a) * int(b) >> 64 for a, b in zip(word, total, strict=True)]
    assert _upper(word, total).tolist() == want


def test_ends_of_the_words_choose_the_ends():
    """The first word chooses the first candidate, the last word the last one, however unlikely."""

    class Fixed:
        def __init__(self, word):
            self.word = word

        def within(self, context):
            del context
            return self

        def words(self, n, k=1, *, first=0):
            del first
            return np.full((n, k), self.word, np.uint32)

    choice = ExponentialMechanism(50.0, 1, 3)
    for word, scores, want in ((0, [-(10**6), 5, 5], 0), (2**32 - 1, [5, 5, -(10**6)], 2)):
        assert choice.choose(np.array([scores]), Fixed(word)).tolist() == [want]


def test_rows_are_chosen_for_by_themselves():
    """However many there are: chunks are drawn one after the other."""
    choice = ExponentialMechanism(1.0, 10, 1024)
    scores = np.random.default_rng(2).integers(-100, 100, (700, 1024))
    whole = choice.choose(scores, seeded(5))
    assert len(np.unique(whole)) > 100
    assert np.array_equal(whole, choice.choose(scores, seeded(5)))
    assert choice.choose(scores[:0], seeded(5)).shape == (0,)


def test_what_a_choice_cannot_be():
    wrong = [(0.0, 1, 2), (1e-4, 1, 2), (1.0, 0, 2), (1.0, 1, 1), (1.0, 1, 1025)]
    for each in wrong:
        with pytest.raises(ConfigurationError):
            ExponentialMechanism(*each)
    choice = ExponentialMechanism(1.0, 10, 3)
    with pytest.raises(TypeError):
        choice.choose(np.array([[0.5, 1.0, 2.0]]), seeded(1))
    for shape in ((3,), (1, 2), (1, 3, 1)):
        with pytest.raises(ValueError, match="candidates"):
            choice.choose(np.zeros(shape, np.int64), seeded(1))


def test_what_is_drawn_with_is_told_apart():
    one = ExponentialMechanism(1.0, 10, 3).tables()
    for other in (
        ExponentialMechanism(1.01, 10, 3),
        ExponentialMechanism(1.0, 11, 3),
        ExponentialMechanism(1.0, 10, 4),
        ExponentialMechanism(1.0, 10, 3, monotone=True),
    ):
        assert other.tables() != one
