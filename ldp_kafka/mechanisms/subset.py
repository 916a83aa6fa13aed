"""Subset selection: report a set of categories that holds the true one more often than a random set
would.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.base import (
    CHUNK,
    Certificate,
    Law,
    check_categories,
    check_codes,
    check_epsilon,
    exp_below,
)
from ldp_kafka.mechanisms.bits import check_packed, count, pack, width_of
from ldp_kafka.mechanisms.frequencies import AffineSupport, FrequencyOracle
from ldp_kafka.randomness import Randomness

__all__ = ["SubsetSelection"]

WORD = 2**64  # values of two secure words
PIECE = 2**19  # bytes of marks that are set at a time: they stay in the cache
MOST_LISTED = 12  # categories up to which a law lists its outputs


class SubsetSelection(FrequencyOracle):
    """Report omega of the categories: with probability p the true one and omega - 1 others, else
    omega others, the others chosen evenly.

    Parameters
    ----------
    epsilon : float in (0, inf), nats
    categories : int in 2..2**14

    Notes
    -----
    Ye and Barg, IEEE Transactions on Information Theory 2018; Wang et al. 2016. omega = categories
    / (e^epsilon + 1), rounded, at least 1; p = omega e^epsilon / (omega e^epsilon + categories -
    omega). A report is packed, see `ldp_kafka.mechanisms.bits`.

    The others are chosen by Floyd's algorithm (Bentley and Floyd, Communications of the ACM 30,
    1987) among N = categories - 1 places: for j = N - omega .. N - 1 a place from 0..j, or place j
    where that one is taken. With the true category in the set the first step is left out. One word
    of 64 bits decides a step: a number W below S = 2**(64 - b), times j + 1, divided by S, rounded
    down, where b bits hold ``categories``; so a place is said by floor(S / (j + 1)) of the S
    numbers, or by one more: 1 / (j + 1) up to a factor of 1 -+ (j + 1) / S.

    A place stands for its own category, that of the true one for the last category.

    Guarantee: the choice of places knows neither the true category nor, but for the step left out,
    whether it is in. A set's probability is a sum of products of one factor a step, each off by at
    most that factor, so it is the even one up to 1 - s below and 1 / (1 - s) above, s the sum of
    all (j + 1) / S. Chosen evenly, a set that holds the true category has probability p / C(k - 1,
    omega - 1), one that does not (1 - p) / C(k - 1, omega): a ratio of p (k - omega) / ((1 - p)
    omega). The certificate is that times 1 / (1 - s)^2, which covers two sets of the same kind too;
    p is rounded down to keep it below e^epsilon. Every set of omega categories is possible for
    every input. `law` has the exact weights; estimates take the others as even, so they are
    unbiased up to such a factor.

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> m = lk.mechanism("subset_selection", epsilon=1.0, categories=8)
    >>> m.perturb(np.array([0, 5]), lk.randomness.seeded(7)).shape
    (2, 1)
    """

    def __init__(self, epsilon: float, categories: int) -> None:
        self.epsilon, self.categories = check_epsilon(epsilon), check_categories(categories)
        k = self.categories
        if k > 2**14:
            raise ConfigurationError(
                "subset_selection takes at most 2**14 categories: a report costs a draw for each of"
                " its own"
            )
        self.width = width_of(k)
        most = exp_below(min(self.epsilon, 40.0))
        self.omega = min(max(1, round(k / (float(most) + 1))), k - 1)
        self._bits = k.bit_length()
        self._first = k - 1 - self.omega  # j of the first step
        off = Fraction(sum(range(self._first + 1, k)), WORD >> self._bits)
        self._slack = 1 / (1 - off) ** 2
        odds = most / self._slack * Fraction(self.omega, k - self.omega)  # p / (1 - p)
        self._hold = int(WORD * odds / (1 + odds))
        if not self._hold * (k - self.omega) > (WORD - self._hold) * self.omega:
            raise ConfigurationError("epsilon is too small for thresholds of 64 bits")

    @property
    def _rows(self) -> int:
        return min(max(64, PIECE // self.categories), CHUNK)

    def perturb_part(
        self, values: NDArray[np.int64], randomness: Randomness, first: int
    ) -> NDArray[np.uint8]:
        n, k = len(values), self.categories
        random = np.ascontiguousarray(randomness.words(n, 2 + 2 * self.omega, first=first)).view(
            np.uint64
        )
        hold = random[:, 0] < np.uint64(self._hold)
        marks = np.zeros((n, k), np.bool_)  # of the places; the last column is free yet
        flat, row = marks.reshape(-1), np.arange(0, n * k, k)
        for step in range(self.omega):
            j = self._first + step
            place = (random[:, 1 + step] >> np.uint64(self._bits)) * np.uint64(j + 1) >> np.uint64(
                64 - self._bits
            )
            at = place.view(np.int64)
            at += row
            marks[:, j] = flat.take(at)  # taken: j instead
            flat[at] = True if step else ~hold
        rows = np.arange(n)
        marks[:, -1] = marks[rows, values]  # the last category has the place of the true one
        marks[rows, values] = hold
        return pack(marks)

    @cached_property
    def _chosen(self) -> tuple[dict[int, int], dict[int, int]]:
        """Of 2**(64 omega) words how many choose each set of places (a number with their bits),
        where the true category is out, and where it is in.
        """
        size, without, within = WORD >> self._bits, {0: 1}, {0: WORD}
        for step in range(self.omega):
            j = self._first + step
            starts = [-(-place * size // (j + 1)) << self._bits for place in range(j + 2)]
            shares = [end - start for start, end in pairwise(starts)]
            without, within = _step(without, shares), _step(within, shares) if step else within
        return without, within

    def law(self, value: int) -> Law:
        """The exact law, for at most 12 categories; ConfigurationError above."""
        k, value = self.categories, int(check_codes([value], self.categories)[0])
        if k > MOST_LISTED:
            raise ConfigurationError(
                f"a law lists every set of omega categories: at most {MOST_LISTED} categories"
            )
        without, within = self._chosen
        sets, weights = list(combinations(range(k), self.omega)), []
        for chosen in sets:
            places = sum(
                1 << (value if category == k - 1 else category)
                for category in chosen
                if category != value
            )
            weights.append(
                self._hold * within[places]
                if value in chosen
                else (WORD - self._hold) * without[places]
            )
        table = np.zeros((len(sets), k), np.uint8)
        np.put_along_axis(table, np.array(sets), 1, axis=1)
        return Law(pack(table), weights, WORD ** (self.omega + 1))

    def certificate(self) -> Certificate:
        """The loss: exact for evenly chosen others, with the bound on their rounding (a factor of
        less than 1 + 2**-21, at 100 categories 2**-44) on top.
        """
        ratio = (
            Fraction(self._hold * (self.categories - self.omega), (WORD - self._hold) * self.omega)
            * self._slack
        )
        return Certificate.of(ratio, self.epsilon)

    def support(self, reports: NDArray[np.uint8]) -> NDArray[np.int64]:
        """(n, how many reports hold each category). TypeError or ValueError where they are no
        reports of this mechanism.
        """
        packed = check_packed(reports, self.categories)
        if (np.bitwise_count(packed).sum(axis=1, dtype=np.int64) != self.omega).any():
            raise ValueError(f"a report must hold {self.omega} categories")
        return np.concatenate([[len(packed)], count(packed, self.categories)]).astype(np.int64)

    @property
    def affine(self) -> AffineSupport:
        return AffineSupport(*self._probabilities)

    @property
    def _probabilities(self) -> tuple[float, float]:
        """(p, q): of a set that holds the true category, and any other one."""
        p = self._hold / WORD
        return p, (self.omega - p) / (self.categories - 1)

    @property
    def index_range(self) -> tuple[int, int]:
        """Least and greatest byte of a report."""
        return 0, 255

    def tables(self) -> Sequence[int]:
        """(categories, omega, words that hold the true category)."""
        return self.categories, self.omega, self._hold


def _step(weights: dict[int, int], shares: list[int]) -> dict[int, int]:
    """Weights of sets of places after one step of Floyd's algorithm, which draws place i with
    weight shares[i]; the last place stands in for those that are taken.
    """
    after: dict[int, int] = {}
    for held, weight in weights.items():
        for place, share in enumerate(shares):
            more = held | 1 << (len(shares) - 1 if held >> place & 1 else place)
            after[more] = after.get(more, 0) + weight * share
    return after
