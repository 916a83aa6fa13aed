"""Hadamard response: one sign of a Hadamard matrix, in a row that is drawn at random."""

from __future__ import annotations

from fractions import Fraction
from math import log

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.base import (
    Certificate,
    Estimate,
    Law,
    check_categories,
    check_epsilon,
    check_reports,
    exp_below,
)
from ldp_kafka.mechanisms.frequencies import AffineSupport, FrequencyOracle
from ldp_kafka.randomness import Randomness

__all__ = ["Hadamard"]


class Hadamard(FrequencyOracle):
    """Report a random row j of a Hadamard matrix and the sign that it has in the column of the
    category, the true sign with probability p = e^epsilon / (e^epsilon + 1).

    Parameters
    ----------
    epsilon : float in (0, inf), nats
    categories : int in 2..2**20

    Notes
    -----
    The one-bit form of Nguyen et al., 2016, and Bassily et al., NIPS 2017; for epsilon up to about
    1 it is the response of Acharya, Sun and Zhang, AISTATS 2019. H[j, c] = (-1)^(number of ones in
    j & c), of order K, the least power of two above ``categories``. Category v has column v + 1:
    column 0 has only one sign and would tell nothing. The report is 2 j + bit, where bit 1 stands
    for the sign -1.

    One secure word decides: its low bits are the row, exactly uniform; the rest is compared to
    ``truth``. Words have 32 bits, or 64 where 32 would cost more than a thousandth of epsilon.

    Guarantee: the row is independent of the category, and given the row a report has weight
    ``truth`` or ``lie``; ``lie`` is rounded up, so truth / lie <= e^epsilon. Every report is
    possible for every category.

    Two columns of H are orthogonal, so a reported sign s of row j, times H[j, v + 1] / (2 p - 1),
    is an unbiased estimate of whether the category is v, of variance 1 / (2 p - 1)^2 - f given the
    values, f the frequency of v. The sums over reports are one fast Walsh-Hadamard transform, in
    integers.

    Examples
    --------
    >>> import numpy as np, ldp_kafka as lk
    >>> m = lk.mechanism("hadamard", epsilon=1.0, categories=4)
    >>> m.perturb(np.array([0, 0, 3, 2]), lk.randomness.seeded(7)).tolist()
    [4, 5, 15, 13]
    """

    def __init__(self, epsilon: float, categories: int) -> None:
        self.epsilon, self.categories = check_epsilon(epsilon), check_categories(categories)
        self._order = 1 << self.categories.bit_length()  # the least power of two above
        odds = exp_below(min(self.epsilon, 50.0))
        for bits in (32, 64):
            self._bits, self._dtype = bits, np.dtype(f"u{bits // 8}").type
            coin = 2**bits // self._order
            # up: directed rounding
            self._lie = -(-coin * odds.denominator // (odds.numerator + odds.denominator))
            self._truth = coin - self._lie
            if (
                self._truth > self._lie
                and log(Fraction(self._truth, self._lie)) >= 0.999 * self.epsilon
            ):
                break
        if not self._truth > self._lie:
            raise ConfigurationError(
                "epsilon is too small: the truth would be no likelier than a lie"
            )

    def perturb_part(
        self, values: NDArray[np.int64], randomness: Randomness, first: int
    ) -> NDArray[np.int64]:
        words = randomness.words(len(values), self._bits // 32, first=first)
        word = np.ascontiguousarray(words).view(self._dtype)[:, 0]
        row, coin = (
            word & self._dtype(self._order - 1),
            word >> self._dtype(self._order.bit_length() - 1),
        )
        bit = np.bitwise_count(row & (values + 1).astype(self._dtype)) & np.uint8(1)
        bit ^= coin >= self._dtype(self._truth)
        return np.asarray(row << self._dtype(1) | bit, np.int64)

    def law(self, value: int) -> Law:
        """The exact law, on 2 K reports."""
        column = int(self.checked([value])[0]) + 1
        negative = np.bitwise_count(np.arange(self._order) & column) & 1
        pairs = ((self._truth, self._lie), (self._lie, self._truth))
        return Law(
            np.arange(2 * self._order),
            [weight for sign in negative.tolist() for weight in pairs[sign]],
            2**self._bits,
        )

    def certificate(self) -> Certificate:
        """The exact loss."""
        ratio = Fraction(self._truth, self._lie)
        return Certificate.of(ratio, self.epsilon)

    def support(self, reports: NDArray[np.integer]) -> NDArray[np.int64]:
        """(n, sum of the reported signs of each of the K rows). TypeError or ValueError where they
        are no reports of this mechanism.
        """
        counts = np.bincount(check_reports(reports, 2 * self._order), minlength=2 * self._order)
        return np.concatenate([[counts.sum()], counts[::2] - counts[1::2]]).astype(np.int64)

    def estimate_support(self, support: NDArray[np.int64], *, population: bool = False) -> Estimate:
        """Frequencies by the fast Walsh-Hadamard transform of the rows' sums."""
        n = int(support[0])
        if n == 0:
            return Estimate.unknown(self.categories)
        sums = _transform(np.asarray(support[1:], np.int64))[1 : self.categories + 1]
        # a sign that is the category's own supports it: of another category's half of them do; sums
        # that are rounded one by one (`expected`) may say more than all
        supporters = np.concatenate([[n], np.clip((n + sums) // 2, 0, n)])
        truth = sums / n / self._slope
        return self.affine.stated(truth, supporters, population=population)

    def expected(self, frequencies: NDArray[np.float64], n: int) -> NDArray[np.int64]:
        """The support of n reports of such frequencies (categories,), as it is on average."""
        columns = np.zeros(self._order)
        columns[1 : self.categories + 1] = frequencies
        rows = _transform(np.round(columns * 2.0**32).astype(np.int64))
        signs = np.round(n * self._slope / self._order * (rows / 2.0**32))
        return np.concatenate([[n], signs]).astype(np.int64)

    def variance(self, frequency: float | NDArray[np.float64]) -> NDArray[np.float64]:
        """Variance of one report's estimate of a category of that frequency, given the values; of n
        reports, a mean of n of them, it is this / n.
        """
        return np.asarray(self._slope**-2 - np.asarray(frequency, np.float64))

    @property
    def _slope(self) -> float:
        """2 p - 1."""
        return float(Fraction(self._truth - self._lie, self._truth + self._lie))

    @property
    def affine(self) -> AffineSupport:
        return AffineSupport((1 + self._slope) / 2, 0.5)

    @property
    def index_range(self) -> tuple[int, int]:
        """Least and greatest report."""
        return 0, 2 * self._order - 1

    def tables(self) -> tuple[int, ...]:
        """(categories, order of the matrix, truth, lie)."""
        return self.categories, self._order, self._truth, self._lie


def _transform(sums: NDArray[np.int64]) -> NDArray[np.int64]:
    """H @ sums by the fast Walsh-Hadamard transform: K log K additions of integers, exact while n <
    2**63.
    """
    size, half = len(sums), 1
    while half < size:
        pairs = sums.reshape(-1, 2, half)
        sums = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).reshape(-1)
        half *= 2
    return sums
