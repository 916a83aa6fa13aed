"""Exact draws from integer weights: one secure word of 64 bits, two look-ups and one comparison."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

__all__ = ["WORD", "AliasTable"]

WORD = 2**64  # values of the word that one draw takes
MOST = 2**20  # outcomes: a table of 16 MiB


class AliasTable:
    """Outcome ``start + i`` with probability ``weights[i]`` / 2**64, exactly.

    Parameters
    ----------
    weights : Python ints of at least 0 that sum to 2**64; at most 2**20 of them
    start : the first outcome

    Raises
    ------
    ValueError : they do not sum to 2**64, or are negative, or too many

    Notes
    -----
    Walker 1977, built as by Vose 1991. The lowest m bits of the word choose one of 2**m columns,
    the other 64 - m are compared with the column's integer cut: below it the column's own outcome,
    from it on its alias. Each column holds 2**(64 - m) words; building it moves whole words between
    outcomes, so no weight is rounded: what the columns hold is again the weights, to the last unit.

    Time and memory access do not depend on how likely an outcome is, but the cells of the table
    that are read do depend on the word: as elsewhere in this library, whoever watches the cache of
    the machine that perturbs is not kept out.

    Examples
    --------
    >>> table = AliasTable([2**62, 2**63, 2**62], start=-1)
    >>> table.draw(np.array([0, 1, 2, 3], np.uint64)).tolist()
    [-1, 0, 1, 0]
    """

    def __init__(self, weights: Sequence[int], start: int = 0) -> None:
        if not 1 <= len(weights) <= MOST or min(weights) < 0 or sum(weights) != WORD:
            raise ValueError(
                "weights must be at most 2**20 integers of at least 0 that sum to 2**64"
            )
        self.start, self.outcomes = start, len(weights)
        bits = (len(weights) - 1).bit_length()
        columns, full = 2**bits, WORD >> bits
        cut = [*weights, *(0 for _ in range(columns - len(weights)))]
        alias = list(range(columns))
        poor, rich = (
            [i for i, weight in enumerate(cut) if weight < full],
            [i for i, weight in enumerate(cut) if weight > full],
        )
        while poor:  # the sum is right, so someone is rich as long as someone is poor
            one, other = poor.pop(), rich[-1]
            alias[one] = other
            left = cut[other] - (full - cut[one])
            cut[other] = left
            if left <= full:
                rich.pop()
                if left < full:
                    poor.append(other)
        self._mask = np.uint64(columns - 1)
        # rest < cut is word < cut * columns; a full column would need 2**64 there, and is its own
        # alias
        self._cut = np.array([min(c << bits, WORD - 1) for c in cut], np.uint64)
        self._pair = np.empty(2 * columns, np.int32)
        self._pair[0::2], self._pair[1::2] = alias, np.arange(columns)
        self._pair += np.int32(start)

    def draw(self, words: NDArray[np.uint64]) -> NDArray[np.int32]:
        """Outcomes for uniform words, of their shape."""
        place = words & self._mask
        below = words < self._cut.take(place.view(np.int64))
        place <<= np.uint64(1)
        place += below  # arithmetic: a branch on random bits would be mispredicted half the time
        return self._pair.take(place.view(np.int64))

    def digest(self) -> tuple[int, ...]:
        """Four integers of 64 bits that stand for the table: SHA-256 of what `draw` reads."""
        raw = sha256(
            self._cut.astype("<u8").tobytes() + self._pair.astype("<i4").tobytes()
        ).digest()
        return tuple(int.from_bytes(raw[i : i + 8], "little") for i in range(0, 32, 8))
