"""Sources of words for checks: one records the requests, one always gives the same words."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.randomness import Digests, Ids, Randomness

__all__ = ["KEY", "LOUD", "Constant", "Recorder"]

KEY = bytes(range(32))  # public: for checks only
LOUD = 987654321  # a value that no error text may show


class Constant:
    """Every row gets the same words, whatever its context. Also remembers what it was asked for."""

    private = False

    def __init__(self, pattern: Iterable[int]) -> None:
        self.pattern = np.array(list(pattern), np.uint32)
        self.asked: list[tuple[int, int, int]] = []

    def digests(self, users: Iterable[str] | Ids) -> Digests:
        """See `Randomness`; all are the same."""
        return np.zeros((len(users if isinstance(users, Ids) else list(users)), 2), np.uint64)

    def at(
        self, users: Digests, slot: int | NDArray[np.int64], phase: int, bound: NDArray[np.int64]
    ) -> Constant:
        """Itself."""
        del users, slot, phase, bound
        return self

    def words(self, n: int, k: int = 1, *, first: int = 0) -> NDArray[np.uint32]:
        """The pattern, for every row."""
        self.asked.append((n, k, first))
        return np.tile(np.resize(self.pattern, k), (n, 1))


class Recorder:
    """Passes everything on to a source and remembers whose noise was bound to what."""

    def __init__(self, source: Randomness) -> None:
        self.source, self.private = source, source.private
        self.draws: list[tuple[int, int, int, tuple[int, ...]]] = []
        """(second half of the user's digest, slot, phase, bound integers) of every row."""

    def digests(self, users: Iterable[str] | Ids) -> Digests:
        """The source's."""
        return self.source.digests(users)

    def at(
        self, users: Digests, slot: int | NDArray[np.int64], phase: int, bound: NDArray[np.int64]
    ) -> Randomness:
        """The source's, noted."""
        slots = np.broadcast_to(np.asarray(slot), (len(users),)).tolist()
        self.draws += [
            (user, at, phase, tuple(row))
            for user, at, row in zip(users[:, 1].tolist(), slots, bound.tolist(), strict=True)
        ]
        return self.source.at(users, slot, phase, bound)

    def words(self, n: int, k: int = 1, *, first: int = 0) -> NDArray[np.uint32]:
        """The source's."""
        return self.source.words(n, k, first=first)
