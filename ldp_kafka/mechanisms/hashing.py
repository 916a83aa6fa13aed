"""Hash functions in which every two categories collide equally often, exactly: how they are drawn,
and which categories a report supports.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.base import whole

__all__ = ["SEED_WORDS", "LinearHash", "check_prime"]

MOST_PRIME = 2**21
SEED_WORDS = 3  # 32-bit words of the draw of one function
BLOCK = 2**16  # numbers that supporters are counted in at a time: they stay in the cache


class LinearHash:
    """The functions h(v) = ((a v + b) mod P) mod cells, for a in 1..P - 1 and b in 0..P - 1,
    numbered by seed = (a - 1) P + b.

    Parameters
    ----------
    categories : v runs from 0 to categories - 1
    prime : P, at least ``categories`` and below 2**21. Default: the least such prime above 2
    cells : 2..P - 1

    Notes
    -----
    Carter and Wegman, JCSS 1979. For v != v' and any residues r != r' the equations a v + b = r, a
    v' + b = r' (mod P) have one solution with a != 0, so the pair of residues is uniform over all P
    (P - 1) pairs of distinct ones. Whichever v and v' are, they collide with probability sum over
    cells of m (m - 1) / (P (P - 1)), where m counts the residues of a cell: at most 1 / cells, and
    the smaller P the less.

    Examples
    --------
    >>> family = LinearHash(4, cells=3)
    >>> family.prime, family.seeds, family.collision
    (5, 20, Fraction(1, 5))
    """

    def __init__(self, categories: int, *, cells: int, prime: int | None = None) -> None:
        self.categories, self.prime = categories, check_prime(prime, categories)
        self.seeds = self.prime * (self.prime - 1)
        self.cells = cells
        inside = [len(range(cell, self.prime, cells)) for cell in range(cells)]
        self.collision = Fraction(sum(m * (m - 1) for m in inside), self.seeds)

    def draw(self, words: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Seeds (n,) = floor(W seeds / 2**96), W the number (n,) whose limbs are words (n, 3), the
        lowest first.

        Seeds differ in probability by at most 2**-96, all together by less than 2**-54 from
        uniform; `weights` has the exact numbers.
        """
        limbs = [words[:, i].astype(np.uint64) for i in range(SEED_WORDS)]
        # of W (P - 1) = a 2**96 + rest the rest stays in the limbs ...
        a = _carry(limbs, self.prime - 1)
        a *= np.uint64(self.prime)
        a += _carry(limbs, self.prime)  # ... so that this is floor(rest P / 2**96)
        return a.view(np.int64)

    @cached_property
    def weights(self) -> tuple[int, NDArray[np.int64]]:
        """How many W lead to a seed: the least number, and what each seed (seeds,) has above it."""
        size = 2 ** (32 * SEED_WORDS)
        starts = [-(-seed * size // self.seeds) for seed in range(self.seeds + 1)]
        least = size // self.seeds
        return least, np.array([end - start - least for start, end in pairwise(starts)], np.int64)

    def cell(self, seeds: NDArray[np.int64], values: NDArray[np.int64]) -> NDArray[np.int64]:
        """The cells that these functions send values to; the two broadcast."""
        a, b = _divmod(seeds, self.prime)
        a += 1
        residue = _divmod(a * values + b, self.prime)[1]  # below 2**43
        return _divmod(residue, self.cells)[1]

    def supporters(self, reports: NDArray[np.int64]) -> NDArray[np.int64]:
        """For each category (categories,) the number of reports seed * cells + cell whose function
        sends it to their cell.
        """
        if len(reports) < 2 * self.cells * self.prime:  # about where the two cost the same
            return sum(
                (self._list(part) for part in self._chunks(reports)),
                np.zeros(self.categories, np.int64),
            )
        return sum(
            (self._count(part, multipliers) for part, multipliers in self._blocks(reports)),
            np.zeros(self.categories, np.int64),
        )

    def _chunks(self, reports: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """Runs of reports with few enough residues."""
        size = max(BLOCK * self.cells // self.prime, 1)
        return (reports[start : start + size] for start in range(0, len(reports), size))

    def _list(self, reports: NDArray[np.int64]) -> NDArray[np.int64]:
        """Supporters one by one: v = (r - b) / a mod P for each residue r of the cell. Work:
        reports * P / cells.
        """
        prime, step = self.prime, self.cells
        seed, cell = _divmod(reports, step)
        a, b = _divmod(seed, prime)
        inverse = self._inverses[a]
        first, more = (
            _divmod(inverse * (cell - b + prime), prime)[1],
            _divmod(inverse * step, prime)[1],
        )
        most = -(-prime // step)  # residues of a cell; some have one less
        values = _divmod(first[:, None] + more[:, None] * np.arange(most), prime)[1]
        values[cell + (most - 1) * step >= prime, -1] = prime
        return np.bincount(values.reshape(-1), minlength=prime)[: self.categories]

    @cached_property
    def _inverses(self) -> NDArray[np.int64]:
        """1 / a mod P for a in 1..P - 1, which is a^(P - 2)."""
        power, inverse, exponent = (
            np.arange(1, self.prime),
            np.ones(self.prime - 1, np.int64),
            self.prime - 2,
        )
        while exponent:
            if exponent & 1:
                inverse = _divmod(inverse * power, self.prime)[1]
            power, exponent = _divmod(power * power, self.prime)[1], exponent >> 1
        return inverse

    def _blocks(self, reports: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], range]]:
        """Reports with the range that their multipliers come from, few enough for one table. In
        order only if they need more than one.
        """
        span = max(BLOCK // (2 * self.prime), 1)
        firsts = range(1, self.prime, span)
        if len(firsts) > 1:
            reports = np.sort(reports)
        ends = np.searchsorted(
            reports, [(first - 1) * self.prime * self.cells for first in firsts[1:]]
        ).tolist()
        for first, start, end in zip(firsts, [0, *ends], [*ends, len(reports)], strict=True):
            yield reports[start:end], range(first, min(first + span, self.prime))

    def _count(self, reports: NDArray[np.int64], multipliers: range) -> NDArray[np.int64]:
        """Supporters by the multiplier a. Work: reports + multipliers * P.

        The numbers a v that a report supports are its cell's residues less b: a run of step
        ``cells``, told by its two ends. So each report adds two numbers to the row of its a, a
        running sum fills the runs in, and category v looks at a v mod P of each row.
        """
        prime, step, rows = self.prime, self.cells, len(multipliers)
        length = -(-(2 * prime + step) // step) * step
        table = np.zeros(rows * length, np.int64)
        for first in range(0, len(reports), BLOCK):
            seed, cell = _divmod(reports[first : first + BLOCK], step)
            a, b = _divmod(seed, prime)
            # a row begins at -(P - 1)
            start = (a - (multipliers.start - 1)) * length + (cell - b + (prime - 1))
            end = start + (_divmod(prime - 1 - cell, step)[0] + 1) * step
            table += np.bincount(start, minlength=len(table))
            table -= np.bincount(end, minlength=len(table))
        runs = table.reshape(rows, -1, step).cumsum(axis=1).reshape(rows, length)
        residues = runs[:, prime - 1 : 2 * prime - 1]
        residues[:, 1:] += runs[:, : prime - 1]  # -1 is P - 1
        place = _divmod(np.array(multipliers)[:, None] * np.arange(self.categories), prime)[1]
        return np.asarray(np.take_along_axis(residues, place, axis=1).sum(axis=0))


def check_prime(prime: int | None, categories: int) -> int:
    """``prime``, or the least one that is at least ``categories`` and 3; TypeError or
    ConfigurationError otherwise.
    """
    least = max(categories, 3)
    if prime is None:
        return next(number for number in range(least, MOST_PRIME) if _is_prime(number))
    if not (least <= whole(prime, "prime") < MOST_PRIME and _is_prime(int(prime))):
        raise ConfigurationError(
            "prime must be a prime number, at least categories and 3, below 2**21"
        )
    return int(prime)


def _is_prime(number: int) -> bool:
    return all(number % factor for factor in range(2, isqrt(number) + 1))


def _carry(limbs: list[NDArray[np.uint64]], factor: int) -> NDArray[np.uint64]:
    """What of factor times the number in the limbs is above them; the rest stays in them. The
    factor has at most 32 bits.
    """
    carry = np.zeros(len(limbs[0]), np.uint64)
    for i, limb in enumerate(limbs):
        product = limb * np.uint64(factor)  # at most (2**32 - 1)**2: the carry fits too
        product += carry
        carry = product >> np.uint64(32)
        limbs[i] = product & np.uint64(2**32 - 1)
    return carry


def _divmod(numbers: NDArray[np.int64], by: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Quotient and remainder; by multiplication, numpy's own remainder is many times slower."""
    quotient = numbers // np.int64(by)
    return quotient, numbers - quotient * np.int64(by)
