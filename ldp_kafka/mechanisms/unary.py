"""Unary encoding: a bit a category, each turned by itself; symmetric (RAPPOR's) and optimised."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import isqrt, log
from typing import Any

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
from ldp_kafka.mechanisms.bits import check_packed, count, own_bits, pack, width_of
from ldp_kafka.mechanisms.frequencies import AffineSupport, FrequencyOracle
from ldp_kafka.randomness import Randomness

__all__ = ["OptimizedUnaryEncoding", "SymmetricUnaryEncoding", "UnaryEncoding"]

PIECE = 2**20  # bytes of random words at a time: they stay in the cache
MANY = 4  # lanes of a report from which on they are worked on all at once
MOST_LISTED = 12  # categories up to which a law lists its 2**categories outputs
SPENT = 0.995  # of epsilon, at least, where words are long enough


class UnaryEncoding(FrequencyOracle):
    """Report a bit for each category: 1 with probability p for the true one, with probability q for
    each other.

    Parameters
    ----------
    epsilon : float in (0, inf), nats
    categories : int in 2..2**20

    Notes
    -----
    A report is packed, see `ldp_kafka.mechanisms.bits`. q = T / 2**levels < 1/2, T odd, with as few
    levels as spend 99.5 % of epsilon, 32 at most. All bits of a lane (up to 64) are drawn at once,
    each level a lane of fair bits, from the lowest bit of T up: a 1 is an OR with it, a 0 an AND. A
    bit that is 1 with probability a is then 1 with (1 + a) / 2 or with a / 2: after all levels with
    T / 2**levels, exactly. The true category's bit is the same draw turned around, see the two
    encodings: it takes no word of its own.

    Guarantee: two inputs differ in the law of two bits, so the ratio of any output's probabilities
    is at most p (1 - q) / (q (1 - p)), computed with integers; q is rounded up, so it is at most
    e^epsilon. Every bit can be 0 or 1 for every input.
    """

    optimized = False

    def __init__(self, epsilon: float, categories: int) -> None:
        self.epsilon, self.categories = check_epsilon(epsilon), check_categories(categories)
        self.width = width_of(self.categories)
        most = exp_below(min(self.epsilon, 50.0))
        # that (1 - q) / q must not exceed: e^epsilon, or just below its root
        odds = most if self.optimized else Fraction(isqrt(int(most * 2**128)), 2**64)
        for levels in range(1, 33):
            # up: directed rounding
            self._levels, self._threshold = (levels, -(-(2**levels) // (1 + odds)))
            if 2 * self._threshold < 2**levels and log(self._ratio()) >= SPENT * self.epsilon:
                break
        if not 2 * self._threshold < 2**self._levels:
            raise ConfigurationError("epsilon is too small for words of 32 bits: at least 1e-8")
        while self._threshold % 2 == 0:  # levels that decide nothing
            self._threshold, self._levels = self._threshold // 2, self._levels - 1
        size = next((size for size in (1, 2, 4) if self.width <= size), 8)
        self._lane, self._lanes = np.dtype(f"u{size}"), -(-self.width // size)
        self._words = -(-self._levels * self._lanes * size // 4)

    @property
    def _rows(self) -> int:
        return min(max(1, PIECE // (4 * self._words)), CHUNK)

    def _ratio(self) -> Fraction:
        odds = Fraction(2**self._levels - self._threshold, self._threshold)
        return odds if self.optimized else odds**2

    @property
    def _true(self) -> tuple[int, int]:
        """(p, its denominator)."""
        return (1, 2) if self.optimized else (2**self._levels - self._threshold, 2**self._levels)

    def perturb_part(
        self, values: NDArray[np.int64], randomness: Randomness, first: int
    ) -> NDArray[np.uint8]:
        words = np.ascontiguousarray(randomness.words(len(values), self._words, first=first))
        lanes = self._turned(values, words.view(self._lane))
        packed = np.ascontiguousarray(lanes.view(np.uint8)[:, : self.width])
        if self.categories % 8:
            packed[:, -1] &= np.uint8(0xFF << 8 - self.categories % 8 & 0xFF)
        return packed

    def _turned(self, values: NDArray[np.int64], random: NDArray[Any]) -> NDArray[Any]:
        """Reports in lanes (n, lanes), with bits beyond the last category, from fair bits (n,
        levels * lanes or more).
        """
        raise NotImplementedError

    def _background(self, random: NDArray[Any], levels: int) -> NDArray[Any]:
        """Lanes (n, lanes) of bits that are 1 with probability (T mod 2**levels) / 2**levels."""
        out = np.empty((len(random), self._lanes), self._lane)
        for part in self._parts():
            bits = self._level(random, 0, part).copy()  # the lowest bit of T is 1
            for level in range(1, levels):
                turn = np.bitwise_or if self._threshold >> level & 1 else np.bitwise_and
                turn(bits, self._level(random, level, part), out=bits)
            out[:, part] = bits
        return out

    def _parts(self) -> list[slice]:
        """The lanes that are worked on together: one, as loops over rows are fast, or all where
        there are many.
        """
        return (
            [slice(lane, lane + 1) for lane in range(self._lanes)]
            if self._lanes < MANY
            else [slice(0, self._lanes)]
        )

    def _level(self, random: NDArray[Any], level: int, part: slice) -> NDArray[Any]:
        """The fair bits of a level in some lanes."""
        return random[:, level * self._lanes + part.start : level * self._lanes + part.stop]

    def law(self, value: int) -> Law:
        """The exact law, for at most 12 categories; ConfigurationError above."""
        k, value = self.categories, int(check_codes([value], self.categories)[0])
        if k > MOST_LISTED:
            raise ConfigurationError(
                f"a law lists 2**categories outputs: at most {MOST_LISTED} categories"
            )
        bits = np.arange(2**k)[:, None] >> np.arange(k) & 1
        (p, whole), t, size = self._true, self._threshold, 2**self._levels
        weights = []
        for row in bits.tolist():
            truth = row.pop(value)
            ones = sum(row)
            weights.append((p if truth else whole - p) * t**ones * (size - t) ** (k - 1 - ones))
        return Law(pack(bits), weights, whole * size ** (k - 1))

    def certificate(self) -> Certificate:
        """The exact loss, reached where the two inputs' own bits differ."""
        ratio = self._ratio()
        return Certificate.of(ratio, self.epsilon)

    def support(self, reports: NDArray[np.uint8]) -> NDArray[np.int64]:
        """(n, how many reports have each bit). TypeError or ValueError where they are no reports of
        this mechanism.
        """
        packed = check_packed(reports, self.categories)
        return np.concatenate([[len(packed)], count(packed, self.categories)]).astype(np.int64)

    @property
    def affine(self) -> AffineSupport:
        return AffineSupport(*self._probabilities)

    @property
    def _probabilities(self) -> tuple[float, float]:
        p, whole = self._true
        return p / whole, self._threshold / 2**self._levels

    @property
    def index_range(self) -> tuple[int, int]:
        """Least and greatest byte of a report."""
        return 0, 255

    def tables(self) -> Sequence[int]:
        """(categories, T, levels, p, its denominator)."""
        return self.categories, self._threshold, self._levels, *self._true


class SymmetricUnaryEncoding(UnaryEncoding):
    """Unary encoding with p = 1 - q = e^(epsilon/2) / (e^(epsilon/2) + 1).

    Parameters
    ----------
    epsilon : float in (0, inf), nats
    categories : int in 2..2**20

    Notes
    -----
    The basic RAPPOR of Erlingsson, Pihur and Korolova, CCS 2014; SUE in Wang et al., USENIX
    Security 2017, section 4.3. Sampler and guarantee are those of `UnaryEncoding`: the true
    category's bit is drawn like all others and flipped, so it is 1 with probability 1 - q.

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> m = lk.mechanism("sue", epsilon=1.0, categories=10)
    >>> m.perturb(np.array([0, 9]), lk.randomness.seeded(7)).shape
    (2, 2)
    """

    def _turned(self, values: NDArray[np.int64], random: NDArray[Any]) -> NDArray[Any]:
        lanes = self._background(random, self._levels)
        place, mask = own_bits(values, lanes.strides[0])
        lanes.view(np.uint8).reshape(-1)[place] ^= mask
        return lanes


class OptimizedUnaryEncoding(UnaryEncoding):
    """Unary encoding with p = 1/2 and q = 1 / (e^epsilon + 1): the least variance of all unary
    encodings for rare categories.

    Parameters
    ----------
    epsilon : float in (0, inf), nats
    categories : int in 2..2**20

    Notes
    -----
    OUE of Wang et al., USENIX Security 2017, section 4.3. Sampler and guarantee are those of
    `UnaryEncoding`: as q is below 1/2, the highest level is an AND; before it the true category's
    bit is set, so that it is that level's own fair bit.

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> m = lk.mechanism("oue", epsilon=1.0, categories=100)
    >>> estimate = m.estimate(m.perturb(np.full(10_000, 3), lk.randomness.seeded(7)))
    >>> int(estimate.value.argmax()), estimate.reports
    (3, 10000)
    """

    optimized = True

    def _turned(self, values: NDArray[np.int64], random: NDArray[Any]) -> NDArray[Any]:
        highest = self._levels - 1
        lanes = self._background(random, highest)
        place, mask = own_bits(values, lanes.strides[0])
        lanes.view(np.uint8).reshape(-1)[place] |= mask
        for part in self._parts():
            lanes[:, part] &= self._level(random, highest, part)
        return lanes
