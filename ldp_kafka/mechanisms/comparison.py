"""An exact noisy comparison: whether a number is above zero, said with Laplace noise."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
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
from ldp_kafka.mechanisms.geometric import factor, falling, lift, steps_of
from ldp_kafka.randomness import Randomness

__all__ = ["NoisyComparison", "table_of"]

SCALES = 46.0  # noise scales from 0 beyond which differences count as that far: e^46 is above 2**64
WIDEST = 2**19  # steps of a table, at least one for each reach


class NoisyComparison:
    """Say whether a difference plus noise of scale ``reach / epsilon`` is above 0.

    Parameters
    ----------
    epsilon : float in (0, inf), nats: what one answer loses where one value moves the difference by
        at most ``reach``; above 50 counts as 50
    reach : int of at least 1
    low, high : int, low below high: differences are held within them

    Notes
    -----
    yes(t) = 1 - e^(-t / scale) / 2 for t >= 0, and yes(-t) = 1 - yes(t): the chance that t plus
    Laplace noise is above 0. It is kept as integer words of 2**64 at every step of about reach /
    ``cells``; a difference between two steps is an unbiased mixture of both. One word decides, so
    nothing of the noise but the answer is ever drawn.

    Guarantee: words of no are rounded down and lifted (`geometric.lift`), and those of yes are the
    same turned round, so both answers' ratio between any two steps ``cells`` apart is at most
    e^epsilon, compared as integers. Differences at most ``reach`` apart are mixtures of pairs of
    steps at most ``cells`` apart.

    Examples
    --------
    >>> from ldp_kafka.randomness import seeded
    >>> test = NoisyComparison(1.0, reach=2**32, low=-(2**32), high=2**32)
    >>> test.above(np.array([-(2**32), 0, 2**32]), seeded(2)).tolist()
    [False, True, True]
    >>> round(float(test.chance(2**32)), 6), round(test.certificate().epsilon_effective, 6)
    (0.81606, 1.0)
    """

    def __init__(self, epsilon: float, reach: int, low: int, high: int) -> None:
        self.epsilon = check_epsilon(epsilon)
        if not (reach >= 1 and low < high):
            raise ConfigurationError("reach must be at least 1, and low below high")
        spent = min(self.epsilon, CAP)
        far = int(SCALES / spent * reach) + 1
        low, high = max(min(low, far - 1), -far), min(max(high, 1 - far), far)
        width = (high - low) / reach  # in lengths of reach
        if not width <= WIDEST:
            raise ConfigurationError(
                "epsilon is too small for the table of one test: a larger epsilon, contribution or"
                " a shorter delay"
            )
        wanted = 2 ** max(min(max(round(log2(96 * spent)), 4), 12, int(log2(WIDEST / width))), 0)
        self.reach, self.unit = reach, -(-reach // min(wanted, reach))
        self.cells = -(-reach // self.unit)
        self._low, self._high = low // self.unit, -(-high // self.unit)
        self._yes = table_of(spent, self.cells, self._low, self._high)
        self._cut = np.array(self._yes, np.uint64)

    def above(self, differences: NDArray[np.integer], randomness: Randomness) -> NDArray[np.bool_]:
        """Answers (n,) for differences (n,). TypeError unless whole numbers, ValueError unless
        (n,).
        """
        given = as_array(differences, "iu", "differences must be whole numbers")
        if given.ndim != 1:  # the rows of a table would share their words
            raise ValueError("differences must be a column (n,)")
        return in_chunks(self._above, given.astype(np.int64, copy=False), own(self, randomness))

    def _above(
        self, differences: NDArray[np.int64], randomness: Randomness, first: int
    ) -> NDArray[np.bool_]:
        words = np.ascontiguousarray(randomness.words(len(differences), WORDS, first=first))
        word, other = words.view(np.uint64).T
        # not np.clip, which takes three times as long for a thousand
        place = np.maximum(differences, self._low * self.unit)
        np.minimum(place, self._high * self.unit, out=place)
        place -= self._low * self.unit
        answers: NDArray[np.bool_] = word < self._cut[steps_of(place, self.unit, other)]
        return answers

    def chance(self, difference: int) -> Fraction:
        """The exact chance that the answer is yes."""
        held = min(max(difference, self._low * self.unit), self._high * self.unit)
        index, part = divmod(held - self._low * self.unit, self.unit)
        up = -(-(part << 32) // self.unit)
        upper = self._yes[min(index + 1, len(self._yes) - 1)]
        return Fraction((2**32 - up) * self._yes[index] + up * upper, 2**32 * WORD)

    def chances(self, differences: NDArray[np.int64]) -> NDArray[np.float64]:
        """`chance` of each of these differences (n,), as floats."""
        held = np.clip(differences, self._low * self.unit, self._high * self.unit)
        index, part = np.divmod(held - self._low * self.unit, self.unit)
        up = -(-(part << 32) // self.unit) / 2**32
        yes = self._cut / WORD
        return np.asarray((1 - up) * yes[index] + up * yes[np.minimum(index + 1, len(yes) - 1)])

    def certificate(self) -> Certificate:
        """The exact loss of one answer where the difference moves by ``reach``."""
        steps = min(self.cells, len(self._yes) - 1)
        pairs = zip(self._yes[: len(self._yes) - steps], self._yes[steps:], strict=True)
        worst = max(
            max(Fraction(above, below), Fraction(WORD - below, WORD - above))
            for below, above in pairs
        )
        return Certificate.of(worst, self.epsilon)

    def tables(self) -> tuple[int, ...]:
        """(unit, cells, least and greatest step, words of yes there)."""
        return self.unit, self.cells, self._low, self._high, self._yes[0], self._yes[-1]


@lru_cache(maxsize=64)
def table_of(epsilon: float, cells: int, low: int, high: int) -> tuple[int, ...]:
    """Words of 2**64 that say yes at low, ..., high steps from 0, where ``cells`` steps lose
    epsilon.

    Examples
    --------
    >>> [round(words / WORD, 3) for words in table_of(1.0, 1, -2, 2)]
    [0.068, 0.184, 0.5, 0.816, 0.932]
    """
    q, limit = factor(epsilon, cells), exp_below(epsilon)
    nearest = 0 if low <= 0 <= high else min(abs(low), abs(high))
    count = max(abs(low), abs(high)) - nearest
    no = falling(WORD // 2, q, count, skip=nearest)
    no += [0] * (count + 1 - len(no))
    more = lift(limit)
    while True:
        lifted = [words + more for words in no]
        if not nearest:
            lifted[0] = WORD // 2
        yes = [
            lifted[-step - nearest] if step < 0 else WORD - lifted[step - nearest]
            for step in range(low, high + 1)
        ]
        if _holds(yes, cells, limit):
            return tuple(yes)
        more += 1  # a rounding has lifted a ratio above the limit


def _holds(yes: list[int], cells: int, limit: Fraction) -> bool:
    """Whether neither answer is more than ``limit`` times likelier so many steps away."""
    top, bottom = limit.numerator, limit.denominator
    return all(
        above * bottom <= below * top and (WORD - below) * bottom <= (WORD - above) * top
        for below, above in zip(yes, yes[cells:], strict=False)
    )
