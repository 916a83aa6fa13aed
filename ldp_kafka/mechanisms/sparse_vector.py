"""The sparse vector technique, finite and exact: a noisy threshold, and noisy comparisons with it
up to the first that says no.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property, lru_cache
from math import ceil, exp, log2

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.additive import CAP, WORDS
from ldp_kafka.mechanisms.alias import WORD, AliasTable
from ldp_kafka.mechanisms.base import (
    Certificate,
    as_array,
    check_epsilon,
    exp_below,
    in_chunks,
    own,
)
from ldp_kafka.mechanisms.comparison import table_of
from ldp_kafka.mechanisms.geometric import factor, falling, lift, steps_of
from ldp_kafka.randomness import Randomness

__all__ = ["SparseVector"]

ROOM = 30.0  # noise scales of a comparison that the threshold's range goes beyond every value
BELOW = 46.0  # noise scales of the threshold that its range goes below the middle


class SparseVector:
    """A threshold with noise of scale 2 reach / epsilon, and comparisons of values with it that
    have noise of scale 4 reach / epsilon each: together they lose epsilon, however many say yes
    before the first no.

    Parameters
    ----------
    epsilon : float in (0, inf), nats; above 50 counts as 50
    reach : int of at least 1: how far one changed value of a stream moves each compared value
    most : int of at least 0: compared values are held within 0..most
    middle : int of at least 0: the threshold without noise
    queries : comparisons with one threshold, at most

    Notes
    -----
    Dwork and Roth, The Algorithmic Foundations of Differential Privacy, algorithm 1; Lyu, Su, Li,
    VLDB 2017, algorithm 1 with one positive answer. Noise of unbounded range is what the known
    proof needs; here ranges are finite and weights are integers, so here is the proof for them.

    The threshold T has integer words w(T) on low..high: of the discrete Laplace law, rounded down
    and lifted (`geometric.lift`), where ``high`` holds all that lies above it. A value is said to
    stay below with yes(T - value) words, `NoisyComparison`'s table. One step of T is reach / cells.

    Take two streams, any answers "yes, ..., yes, no" (or without the no), and at most n =
    ``queries`` of them. Each value of one stream lies within ``cells`` steps of the other's. Pair
    the first stream's T with T' = min(T + cells, high) of the second. (1) The words of all T with
    one T' are at most e^(epsilon / 2) of w(T'): for T' < high that is the falling of w, at high its
    sum. (2) For T + cells <= high each yes is at least as likely at T' (the argument is no
    smaller), and the no at least e^-(epsilon / 2) times as likely (the argument is at most 2 cells
    larger). (3) For larger T the argument of a yes at T' = high is at least high - most, whose no
    has at most e^-30 / 2: each yes is at least 1 - e^-30 / 2 times as likely as at T, and the no as
    in (2). So no answers' ratio is above e^epsilon (1 - e^-30 / 2)^-n, and epsilon is made less by
    that much first. `certificate` puts the same three together from the integers.

    Examples
    --------
    >>> from ldp_kafka.randomness import seeded
    >>> vector = SparseVector(1.0, reach=2**32, most=5 * 2**32, middle=2**32, queries=10)
    >>> levels = vector.thresholds(4, seeded(3))
    >>> vector.below(np.arange(4) * 2**32, levels, seeded(5)).tolist()
    [False, True, True, False]
    >>> round(vector.certificate().epsilon_effective, 6)
    1.0
    """

    def __init__(self, epsilon: float, reach: int, most: int, middle: int, queries: int) -> None:
        self.epsilon = check_epsilon(epsilon)
        if not (reach >= 1 and most >= 0 and middle >= 0 and queries >= 1):
            raise ConfigurationError(
                "reach and queries must be at least 1, most and middle at least 0"
            )
        half = (min(self.epsilon, CAP) - 2 * queries * exp(-ROOM)) / 2
        if not half > 0:
            raise ConfigurationError("epsilon must be larger for so many comparisons")
        # cells in one reach, so that the threshold's scale is 48 to 96 of them
        wanted = min(2 ** min(max(round(log2(64 * half)), 0), 12), reach)
        self.reach, self.most, self.queries = reach, most, queries
        self.unit = -(-reach // wanted)
        self.cells = -(-reach // self.unit)
        scale = self.cells / half  # of the threshold, in steps; twice as much of a comparison
        points = -(-most // self.unit)
        self._middle = middle // self.unit
        self._low = self._middle - ceil(BELOW * scale)
        high = max(points, self._middle) + ceil(2 * ROOM * scale)
        # a comparison's argument runs from low - points to high
        self._far = max(high, points - self._low)
        if not high + self._far < 2**20:
            raise ConfigurationError(
                "epsilon is too small for the table of the tests: a larger epsilon or contribution,"
                " or a smaller theta"
            )
        self._weights, self._table = _threshold(half, self.cells, self._middle, self._low, high)
        self._yes = table_of(half, 2 * self.cells, -self._far, self._far)
        self._cut = np.array(self._yes, np.uint64)

    def thresholds(self, count: int, randomness: Randomness) -> NDArray[np.int64]:
        """Noisy thresholds (count,), in steps: to be kept secret, they are no output."""
        source = own(self, randomness)
        words = np.ascontiguousarray(source.words(count, WORDS)).view(np.uint64)
        return self._table.draw(np.ascontiguousarray(words[:, 0])).astype(np.int64)

    def below(
        self, values: NDArray[np.integer], levels: NDArray[np.int64], randomness: Randomness
    ) -> NDArray[np.bool_]:
        """Whether values (n,) are said to lie below these noisy thresholds (n,). TypeError unless
        whole numbers, ValueError unless (n,).
        """
        given = as_array(values, "iu", "values must be whole numbers")
        if given.ndim != 1 or given.shape != levels.shape:
            raise ValueError("values and levels must be columns (n,)")
        both = np.column_stack([given.astype(np.int64, copy=False), levels])
        return in_chunks(self._below, both, own(self, randomness))

    def _below(
        self, both: NDArray[np.int64], randomness: Randomness, first: int
    ) -> NDArray[np.bool_]:
        words = np.ascontiguousarray(randomness.words(len(both), WORDS, first=first))
        word, other = words.view(np.uint64).T
        values, levels = both.T
        # not np.clip, which takes three times as long for a thousand
        index = steps_of(np.minimum(np.maximum(values, 0), self.most), self.unit, other)
        np.subtract(levels, index, out=index)
        index += self._far
        answers: NDArray[np.bool_] = word < self._cut[index]
        return answers

    @cached_property
    def law(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """All thresholds, in steps, and the chance of each."""
        levels = self._low + np.arange(len(self._weights))
        return levels, np.array([weight / WORD for weight in self._weights])

    def chances(self, value: int) -> NDArray[np.float64]:
        """The chance that a value is said to lie below each threshold of `law`."""
        index, part = divmod(min(max(value, 0), self.most), self.unit)
        up = -(-(part << 32) // self.unit) / 2**32
        place = self.law[0] - index + self._far
        words = self._cut.astype(np.float64) / WORD
        # one step above the highest value no value is rounded up: up is 0 there
        return np.asarray((1 - up) * words[place] + up * words[place - 1])

    def certificate(self) -> Certificate:
        """A bound of the loss of one threshold and its comparisons, from the integers that they
        are drawn with: the three factors of the proof.
        """
        w, cells = self._weights, self.cells
        shifted = max(Fraction(a, b) for a, b in zip(w, w[cells:], strict=False))
        top = Fraction(sum(w[len(w) - 1 - cells :]), w[-1])
        no = [WORD - words for words in self._yes]
        answer = max(Fraction(a, b) for a, b in zip(no, no[2 * cells :], strict=False))
        high = self._low + len(w) - 1
        sure = Fraction(self._yes[high - -(-self.most // self.unit) + self._far], WORD)
        return Certificate.of(max(shifted, top) * answer / sure**self.queries, self.epsilon)

    def tables(self) -> tuple[int, ...]:
        """(unit, cells, most, low, words of yes one step above 0, four integers of the threshold
        table's SHA-256).
        """
        above = self._yes[len(self._yes) // 2 + 1]
        return self.unit, self.cells, self.most, self._low, above, *self._table.digest()


@lru_cache(maxsize=64)
def _threshold(
    epsilon: float, cells: int, middle: int, low: int, high: int
) -> tuple[tuple[int, ...], AliasTable]:
    """Words of 2**64 of the threshold at each step from low to high, around the middle; the upper
    end holds all that lies beyond.
    """
    below, above = middle - low, high - middle
    q, limit = factor(epsilon, cells), exp_below(epsilon)
    weights, more = falling(WORD * (q - 1) / (q + 1), q, below + above), lift(limit)
    weights += [0] * (max(below, above) + 1 - len(weights))
    # all above the end, and what keeps its sum with the cells below it within the limit
    lifted = (more * (cells + 1) + 1) * limit.numerator
    tail = sum(weights[above:]) + -(-lifted // (limit.numerator - limit.denominator))
    up = [*(words + more for words in weights[1:above]), tail]
    down = [words + more for words in weights[below:0:-1]]
    words = (*down, WORD - sum(up) - sum(down), *up)
    return words, AliasTable(words, start=low)
