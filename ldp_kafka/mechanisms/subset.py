"""Subset selection: report a set of categories that holds the true one more often than a random set would."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations
from math import inf, log, nan

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.base import Certificate, Estimate, Law, check_categories, check_codes, check_epsilon, exp_below
from ldp_kafka.mechanisms.bits import check_packed, count, pack, width_of
from ldp_kafka.randomness import Randomness

__all__ = ["SubsetSelection"]

WORD = 2**64  # values of two secure words
CELLS = 2**18  # rows times categories that are perturbed at a time
MOST_LISTED = 12  # categories up to which a law lists its outputs


class SubsetSelection:
    """Report omega of the categories: with probability p the true one and omega - 1 others, else omega others, the others chosen evenly.

    Parameters
    ----------
    epsilon : float, nats
    categories : int in 2..2**14

    Notes
    -----
    Ye and Barg, IEEE Transactions on Information Theory 2018; Wang et al. 2016. omega = categories / (e^epsilon + 1), rounded, at least 1; p = omega e^epsilon / (omega e^epsilon +
    categories - omega). A report is packed, see `ldp_kafka.mechanisms.bits`. The others are chosen by selection sampling (Knuth, The Art of Computer Programming 2, algorithm 3.4.2 S): of
    ``left`` categories that remain the next is taken with probability ``need`` / ``left``, by an integer threshold on 64 bits.

    Guarantee: a set that holds the true category has probability p / C(k - 1, omega - 1), one that does not (1 - p) / C(k - 1, omega), so the ratio is at most p (k - omega) /
    ((1 - p) omega), which p is rounded down to keep below e^epsilon. The thresholds are off by less than 2**-64 each, of probabilities of at least 1 / k, in k choices on both sides:
    a factor below 1 + k^2 2**-61, which the certificate and p have in them. Every set of omega categories is possible for every input.

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> m = lk.mechanism("subset_selection", epsilon=1.0, categories=8)
    >>> m.perturb(np.array([0, 5]), lk.randomness.seeded(7)).shape
    (2, 1)
    """

    scale = 1

    def __init__(self, epsilon: float, categories: int) -> None:
        self.epsilon, self.categories = check_epsilon(epsilon), check_categories(categories)
        k = self.categories
        if k > 2**14:
            raise ConfigurationError("subset_selection takes at most 2**14 categories: a report costs a draw for each")
        self.width = width_of(k)
        most = exp_below(min(self.epsilon, 40.0))
        self.omega = min(max(1, round(k / (float(most) + 1))), k - 1)
        self._slack = 1 + Fraction(k * k, 2**61)
        odds = most / self._slack * Fraction(self.omega, k - self.omega)  # p / (1 - p)
        self._hold = int(WORD * odds / (1 + odds))
        if not self._hold * (k - self.omega) > (WORD - self._hold) * self.omega:
            raise ConfigurationError("epsilon is too small for thresholds of 64 bits")

    def perturb(self, values: NDArray[np.integer], randomness: Randomness) -> NDArray[np.uint8]:
        """Packed reports (n, width) for true categories (n,). TypeError unless integers, ValueError outside 0..categories - 1 (the value is not shown)."""
        codes = check_codes(values, self.categories)
        out = np.empty((len(codes), self.width), np.uint8)
        rows = max(1, CELLS // self.categories)
        for first in range(0, len(codes), rows):
            part = slice(first, min(first + rows, len(codes)))
            out[part] = self._perturb(codes[part], randomness, first)
        return out

    def _perturb(self, values: NDArray[np.int64], randomness: Randomness, first: int) -> NDArray[np.uint8]:
        n, k = len(values), self.categories
        random = np.ascontiguousarray(randomness.words(n, 2 * k, first=first)).view(np.uint64).T
        hold = random[k - 1] < np.uint64(self._hold)
        need = self.omega - hold.astype(np.intp)
        chosen = np.empty((k, n), np.bool_)  # of the others, in their order; one row of room
        for at in range(k - 1):
            left = k - 1 - at
            thresholds = np.array([min(need * WORD // left, WORD - 1) for need in range(self.omega + 1)], np.uint64)
            take = chosen[at]
            np.less(random[at], thresholds.take(need), out=take)
            take |= need >= left
            need -= take
        bits = np.empty((n, k), np.bool_)
        for category in range(k):  # the true one goes in where it belongs, and pushes the later ones on
            np.copyto(bits[:, category], np.where(category < values, chosen[min(category, k - 2)], chosen[max(category - 1, 0)]))
        bits[np.arange(n), values] = hold
        return pack(bits)

    def law(self, value: int) -> Law:
        """The exact law, for at most 12 categories; ConfigurationError above."""
        k, value = self.categories, int(value)
        if k > MOST_LISTED:
            raise ConfigurationError(f"a law lists every set of omega categories: at most {MOST_LISTED} categories")
        if not 0 <= value < k:
            raise ValueError(f"categories must run from 0 to {k - 1}")
        others = [category for category in range(k) if category != value]
        sets, weights = list(combinations(range(k), self.omega)), []
        for chosen in sets:
            holds = value in chosen
            weight, need = (self._hold if holds else WORD - self._hold), self.omega - holds
            for at, category in enumerate(others):
                left = k - 1 - at
                threshold = WORD if need >= left else need * WORD // left
                taken = category in chosen
                weight *= threshold if taken else WORD - threshold
                need -= taken
            weights.append(weight)
        table = np.zeros((len(sets), k), np.uint8)
        for row, chosen in zip(table, sets, strict=True):
            row[list(chosen)] = 1
        return Law(pack(table), weights, WORD**k)

    def certificate(self) -> Certificate:
        """The loss: exact for evenly chosen others, with the bound on their thresholds' rounding (a factor of less than 1 + 2**-33) on top."""
        ratio = Fraction(self._hold * (self.categories - self.omega), (WORD - self._hold) * self.omega) * self._slack
        return Certificate(ratio, min(log(ratio), self.epsilon))

    def support(self, reports: NDArray[np.uint8]) -> NDArray[np.int64]:
        """(n, how many reports hold each category). TypeError or ValueError where they are no reports of this mechanism."""
        packed = check_packed(reports, self.categories)
        counts = count(packed, self.categories)
        if int(counts.sum()) != self.omega * len(packed):
            raise ValueError(f"a report must hold {self.omega} categories")
        return np.concatenate([[len(packed)], counts]).astype(np.int64)

    def estimate(self, reports: NDArray[np.uint8], *, population: bool = False) -> Estimate:
        """Frequencies (categories,) of the values behind the reports; unbiased, so single ones can be below zero."""
        return self.estimate_support(self.support(reports), population=population)

    def estimate_support(self, support: NDArray[np.int64], *, population: bool = False) -> Estimate:
        """Frequencies by inverting the affine law."""
        n = int(support[0])
        if n == 0:
            return Estimate(np.full(self.categories, nan), np.full(self.categories, inf), 0)
        p, q = self._probabilities
        seen = support[1:] / n
        truth = (seen - q) / (p - q)
        share = np.clip(truth, 0, 1)
        variance = seen * (1 - seen) if population else share * p * (1 - p) + (1 - share) * q * (1 - q)
        return Estimate(truth, np.sqrt(variance / n) / (p - q), n)

    def variance(self, frequency: float | NDArray[np.float64]) -> NDArray[np.float64]:
        """Variance of one report's estimate of a category of that frequency, given the values; of n reports, a mean of n of them, it is this / n."""
        f, (p, q) = np.asarray(frequency, np.float64), self._probabilities
        return np.asarray((f * p * (1 - p) + (1 - f) * q * (1 - q)) / (p - q) ** 2)

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
