"""The exponential mechanism, finite and exact: choose one of a few public candidates by scores."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from hashlib import sha256
from math import log2

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.additive import CAP, WORDS
from ldp_kafka.mechanisms.alias import WORD
from ldp_kafka.mechanisms.base import (
    Certificate,
    as_array,
    check_epsilon,
    exp_below,
    in_chunks,
    own,
)
from ldp_kafka.mechanisms.geometric import factor, falling, keeps
from ldp_kafka.randomness import Randomness

__all__ = ["MOST_CANDIDATES", "ExponentialMechanism"]

MOST_CANDIDATES = 2**10
FIRST = 2**52  # weight of the best candidate: 2**10 of them and their lifts sum to less than 2**63
MOST_WEIGHTS = 2**18  # of a table, one a step
LIFT = 2**28  # weight that every candidate has beside its own: 2**-24 of the best
# by how much a word count that is rounded to whole words can be off, of the least there is
ROUNDING = Fraction(2 * LIFT + 1, 2 * LIFT - 1)
SPARE = 2.0**-27  # of epsilon: more than the logarithm of that
_HALF, _UP = np.uint64(2**32 - 1), np.uint64(32)


class ExponentialMechanism:
    """Choose candidate i with a chance that grows as e^(epsilon score_i / (2 reach)), or, where one
    changed value moves all scores the same way, as e^(epsilon score_i / reach).

    Parameters
    ----------
    epsilon : float in [1e-3, inf), nats; above 50 counts as 50
    reach : int of at least 1: how far one changed value moves any score
    candidates : 2..1024
    monotone : whether one changed value moves no score up and another one down

    Notes
    -----
    McSherry and Talwar, FOCS 2007; Dwork and Roth, The Algorithmic Foundations of Differential
    Privacy, theorem 3.10, for whole numbers as they are drawn. Report noisy max with Gumbel noise
    draws from the same law.

    Scores are rounded down to steps of about reach / ``cells``, so that a move by ``reach`` is one
    by at most ``cells`` steps. A candidate that is d steps below the best one has the weight W(d) =
    2**52 / q^d, rounded down, + 2**28; one word of 64 bits chooses among the weights.

    Guarantee. W(d) <= q W(d + 1) for all d, compared as integers, so W(d) <= q^k W(d + k). Let one
    changed value move each score by at most c = ``cells`` steps, and the best score by A. Then a
    candidate's d moves by A - a, a its own move. If all a lie in 0..c, so does A: a weight grows by
    a factor of at most q^(c - A) and falls by at most q^A, and so does the sum of all: no chance is
    more than q^(c - A) q^A = q^c times what it was, nor less than its inverse. If they lie in
    -c..c, the same with c - A and c + A: q^2c. Both powers are below e^epsilon. Rounding a chance
    to whole words of 2**64 is worth less than 2**-27, which epsilon is made less by first.

    Examples
    --------
    >>> from ldp_kafka.randomness import seeded
    >>> choice = ExponentialMechanism(4.0, reach=100, candidates=3)
    >>> scores = np.array([[0, 100, 200], [500, 500, 0]])
    >>> choice.chances(scores).round(3).tolist()
    [[0.016, 0.117, 0.867], [0.5, 0.5, 0.0]]
    >>> choice.choose(scores, seeded(3)).tolist()
    [2, 0]
    >>> round(choice.certificate().epsilon_effective, 6)
    4.0
    """

    def __init__(
        self, epsilon: float, reach: int, candidates: int, *, monotone: bool = False
    ) -> None:
        self.epsilon = check_epsilon(epsilon)
        if not reach >= 1:
            raise ConfigurationError("reach must be at least 1")
        if not 2 <= candidates <= MOST_CANDIDATES:
            raise ConfigurationError(f"candidates must lie between 2 and {MOST_CANDIDATES}")
        if not self.epsilon >= 1e-3:
            raise ConfigurationError("epsilon must be at least 1e-3 for each choice")
        self.reach, self.candidates, self.monotone = reach, candidates, monotone
        spent = min(self.epsilon, CAP) * (1 - SPARE) - SPARE
        # as many steps as the table has room for, where epsilon is small
        room = int(log2(MOST_WEIGHTS * spent / 80))
        wanted = min(2 ** min(max(round(log2(64 * spent)), 4), room, 12), reach)
        self.unit = -(-reach // wanted)
        self.cells = -(-reach // self.unit)
        self._moves = self.cells * (1 if monotone else 2)
        self._factor = factor(spent, self._moves)
        self._weight = np.array(_weights(spent, self._moves), np.uint64)

    def choose(self, scores: NDArray[np.integer], randomness: Randomness) -> NDArray[np.int64]:
        """Numbers (n,) of candidates for scores (n, candidates). TypeError unless whole numbers,
        ValueError where the shape is another.
        """
        given = as_array(scores, "iu", "scores must be whole numbers")
        if given.ndim != 2 or given.shape[1] != self.candidates:
            raise ValueError("scores must be (n, candidates)")
        rows = max(1, 2**18 // self.candidates)
        source = own(self, randomness)
        return in_chunks(self._choose, given.astype(np.int64, copy=False), source, rows)

    def _choose(
        self, scores: NDArray[np.int64], randomness: Randomness, first: int
    ) -> NDArray[np.int64]:
        words = np.ascontiguousarray(randomness.words(len(scores), WORDS, first=first))
        word = np.ascontiguousarray(words.view(np.uint64)[:, 0])
        ends = np.cumsum(self._weights_of(scores), axis=1)
        target = _upper(word, ends[:, -1])
        return np.asarray((ends <= target[:, None]).sum(axis=1), np.int64)

    def _weights_of(self, scores: NDArray[np.int64]) -> NDArray[np.uint64]:
        steps = scores // self.unit
        below = steps.max(axis=1, keepdims=True) - steps
        weights: NDArray[np.uint64] = self._weight[np.minimum(below, len(self._weight) - 1)]
        return weights

    def chances(self, scores: NDArray[np.int64]) -> NDArray[np.float64]:
        """The chance of each candidate (n, candidates), as floats."""
        weights = self._weights_of(scores)
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))

    def words_of(self, scores: NDArray[np.int64]) -> list[int]:
        """How many of 2**64 words choose each candidate, for scores (candidates,): the exact
        law.
        """
        weights = [int(weight) for weight in self._weights_of(scores[None])[0]]
        total, end, words = sum(weights), 0, []
        for weight in weights:
            begin, end = end, end + weight
            words.append(-(-end * WORD // total) + (-begin * WORD // total))
        return words

    def certificate(self) -> Certificate:
        """A bound of the loss, from the integers that it draws with: the factors of the proof."""
        return Certificate.of(self._factor**self._moves * ROUNDING, self.epsilon)

    def tables(self) -> tuple[int, ...]:
        """(candidates, whether monotone, unit, cells, weights, four integers of the SHA-256 of
        all weights).
        """
        digest = sha256(self._weight.astype(">u8").tobytes()).digest()
        parts = (int.from_bytes(digest[at : at + 8], "big") for at in range(0, 32, 8))
        return (
            self.candidates,
            int(self.monotone),
            self.unit,
            self.cells,
            len(self._weight),
            *parts,
        )


def _upper(word: NDArray[np.uint64], total: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The product over 2**64, rounded down, without losing a bit."""
    high, low = word >> _UP, word & _HALF
    above, below = total >> _UP, total & _HALF
    middle = high * below + (low * below >> _UP)
    other = low * above + (middle & _HALF)
    return np.asarray(high * above + (middle >> _UP) + (other >> _UP))


@lru_cache(maxsize=64)
def _weights(epsilon: float, moves: int) -> tuple[int, ...]:
    """Weights of the candidates 0, 1, ... steps below the best; the last one of all further."""
    q, more = factor(epsilon, moves), LIFT
    weights = [*falling(FIRST, q, MOST_WEIGHTS), 0]
    if not (keeps(weights, 1, more, q) and q**moves <= exp_below(epsilon)):
        raise ConfigurationError("epsilon is too small for the table of a choice")
    return tuple(weight + more for weight in weights)
