"""Laplace noise of a sum: as far as one value can move the sum, however far the sum can reach."""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property, lru_cache
from math import fsum, log2

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.additive import CAP, WORDS
from ldp_kafka.mechanisms.alias import WORD, AliasTable
from ldp_kafka.mechanisms.base import (
    Certificate,
    check_epsilon,
    column_of_sums,
    exp_below,
    in_chunks,
    own,
)
from ldp_kafka.mechanisms.geometric import factor, falling, keeps, lift, steps_of
from ldp_kafka.randomness import Randomness

__all__ = ["SumNoise"]

# The range of outputs is at most so many steps: the bits of a word that choose one of them evenly.
MOST_BITS = 40


class SumNoise:
    """Add noise of scale ``reach / epsilon`` to whole numbers of which one changed value moves one
    by at most ``reach``.

    Parameters
    ----------
    epsilon : float in [1e-4, inf), nats: what such a move loses; above 50 counts as 50
    reach : int of at least 1, how far one value moves a sum
    most : int of at least 0, the largest sum; sums are held within 0..most

    Raises
    ------
    ConfigurationError : epsilon is too small, or ``most`` so many times ``reach`` that no word
        holds the range

    Notes
    -----
    Sums are rounded without bias to steps of about reach / ``cells``, and a symmetric integer noise
    z of P[z] ~ q^-|z|, q = e^(epsilon / cells), is added: the discrete Laplace law of Ghosh,
    Roughgarden and Sundararajan, whose variance is 2 (reach / epsilon)^2.

    `Laplace` makes every output possible for every input by tails that reach over the whole domain.
    Here the domain can be any number of times as wide as the sensitivity, so the table ends where
    a weight would be below one word of 2**64, and with a chance of ``far`` words (below 1e-7, most
    often below 1e-12) the output is drawn evenly from the whole public range of outputs, whatever
    the sum. So output o has w(|o - x|) + lift of 2**64 words: x + z, or drawn evenly.

    Guarantee: w(0) >= w(1) >= ..., so for two sums at most ``cells`` steps apart no output's ratio
    is above max_k (w(k) + lift) / (w(k + cells) + lift), compared with e^epsilon as integers;
    `geometric.lift` says why it holds. A sum between two steps is an unbiased mixture of both; two
    sums at most ``reach`` apart are mixtures of pairs of steps at most ``cells`` apart, and no
    ratio of mixtures exceeds the largest among its pairs.

    Examples
    --------
    >>> from ldp_kafka.randomness import seeded
    >>> noise = SumNoise(1.0, reach=2**32, most=10 * 2**32)
    >>> noisy = noise.perturb(np.full(3, 5 * 2**32), seeded(7))
    >>> (noisy / 2**32).round(2).tolist()
    [5.77, 5.32, 5.17]
    >>> round(noise.certificate().epsilon_effective, 6), round(noise.variance**0.5 / 2**32, 3)
    (1.0, 1.414)
    """

    def __init__(self, epsilon: float, reach: int, most: int) -> None:
        self.epsilon = check_epsilon(epsilon)
        if not (reach >= 1 and most >= 0):
            raise ConfigurationError("reach must be at least 1, and most at least 0")
        self.reach, self.most = reach, most
        spent = min(self.epsilon, CAP)
        if not spent >= 1e-4:
            raise ConfigurationError(
                "epsilon is too small for its table: at least 1e-4 for each sum"
            )
        wanted = min(2 ** min(max(round(log2(256 * spent)), 0), 12), reach)
        self.unit = -(-reach // wanted)
        self.cells = -(-reach // self.unit)
        self._points = -(-most // self.unit)  # the largest sum, in steps
        half, self._lift = _weights(spent, self.cells)
        self._reach = len(half)
        bits = (self._points + 2 * self._reach).bit_length()
        if not bits <= MOST_BITS:
            raise ConfigurationError(
                "the domain must not be so many times as wide as what one contribution moves"
            )
        self._mask = np.uint64((1 << bits) - 1)
        self._weight, self._table = _law(spent, self.cells, bits)
        if not self._weight[0] == max(self._weight):
            raise ConfigurationError("epsilon is too small for a range so wide")

    def perturb(self, sums: NDArray[np.integer], randomness: Randomness) -> NDArray[np.int64]:
        """Noisy sums (n,), whole multiples of ``unit``, for sums (n,). TypeError unless whole
        numbers, ValueError unless (n,).
        """
        return in_chunks(self.perturb_part, column_of_sums(sums), own(self, randomness))

    def perturb_part(
        self, sums: NDArray[np.int64], randomness: Randomness, first: int
    ) -> NDArray[np.int64]:
        words = np.ascontiguousarray(randomness.words(len(sums), WORDS, first=first))
        word, other = words.view(np.uint64).T
        # not np.clip, which takes three times as long for a thousand
        index = steps_of(np.minimum(np.maximum(sums, 0), self.most), self.unit, other)
        noise = self._table.draw(np.ascontiguousarray(word))
        index += noise
        even = noise > self._reach
        if even.any():
            index[even] = (other[even] & self._mask).astype(np.int64) - self._reach
        index *= self.unit
        return index

    def certificate(self) -> Certificate:
        """The exact loss of a move by ``reach``."""
        return Certificate.of(self.ratio(self.reach), self.epsilon)

    @lru_cache(maxsize=1024)  # noqa: B019 - as long as the noise itself
    def ratio(self, distance: int) -> Fraction:
        """The largest likelihood ratio of one output between two sums so far apart."""
        steps = -(-min(abs(distance), self.most) // self.unit)
        weights = (*self._weight, *(0 for _ in range(steps)))
        words = np.array(weights, np.float64) + self._lift
        ratios = words[: len(words) - steps] / words[steps:]
        # floats find the candidates, integers decide
        near = np.flatnonzero(ratios >= ratios.max() * (1 - 1e-9)).tolist()
        top, bottom = 0, 1
        for at in near:  # no fraction is reduced but the last
            more, less = weights[at] + self._lift, weights[at + steps] + self._lift
            if more * bottom > top * less:
                top, bottom = more, less
        return Fraction(top, bottom)

    def words_of(self, total: int, outputs: NDArray[np.int64]) -> list[int]:
        """How many of 2**96 words give each of these outputs (m,), which are in steps of ``unit``
        within -reach.. of the range: the exact law of a sum.
        """
        point, part = divmod(min(max(total, 0), self.most), self.unit)
        up = -(-(part << 32) // self.unit)
        return [
            (2**32 - up) * self._words(abs(int(output) - point))
            + up * self._words(abs(int(output) - point - 1))
            for output in outputs
        ]

    def _words(self, away: int) -> int:
        return (self._weight[away] if away < len(self._weight) else 0) + self._lift

    @property
    def range(self) -> tuple[int, int]:
        """Least and greatest output, in steps of ``unit``."""
        return -self._reach, int(self._mask) - self._reach

    @cached_property
    def variance(self) -> float:
        """Of a noisy sum, in the sums' own squared units; of the rounding its mean, 1/6 of a
        step squared.
        """
        weights = np.array(self._weight, np.float64) / WORD
        squares = fsum((weights * np.arange(len(weights)) ** 2.0).tolist())
        return float((2 * squares + 1 / 6) * self.unit**2)

    @cached_property
    def half_width(self) -> int:
        """How far a noisy sum is from the sum at most, in 95 of 100 draws, in the sums' own units:
        of the exact law, and one step for its rounding.

        Examples
        --------
        >>> noise = SumNoise(1.0, reach=1000, most=10_000)
        >>> round(noise.half_width / 1000, 2)  # of Laplace noise log(20)
        3.0
        """
        inside, away = self._weight[0], 0
        while inside * 20 < 19 * WORD and away + 1 < len(self._weight):
            away += 1
            inside += 2 * self._weight[away]
        return int((away + 1) * self.unit)

    def tables(self) -> tuple[int, ...]:
        """(unit, cells, largest sum, lift, four integers of the noise table's SHA-256)."""
        return self.unit, self.cells, self.most, self._lift, *self._table.digest()


@lru_cache(maxsize=64)
def _weights(epsilon: float, cells: int) -> tuple[tuple[int, ...], int]:
    """Words of the noises 1, 2, ..., and what every output has beside them."""
    q, limit = factor(epsilon, cells), exp_below(epsilon)
    weights, more = falling(WORD * (q - 1) / (q + 1), q, 2**20), lift(limit)
    padded = [*weights, *(0 for _ in range(cells))]
    while not keeps(padded, cells, more, limit):  # should a rounding have lifted a ratio above it
        more += 1
    return tuple(weights[1:]), more


@lru_cache(maxsize=64)
def _law(epsilon: float, cells: int, bits: int) -> tuple[tuple[int, ...], AliasTable]:
    """Words of the noises 0, 1, 2, ..., and the table of all, whose last outcome stands for what is
    drawn evenly from so many bits.
    """
    half, more = _weights(epsilon, cells)
    far = more << bits
    weights = (max(WORD - 2 * sum(half) - far, 0), *half)
    return weights, AliasTable([*weights[:0:-1], *weights, far], start=-len(half))
