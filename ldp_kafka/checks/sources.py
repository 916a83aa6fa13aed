"""Sources of words for checks: one records the requests, one always gives the same words."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.randomness import Digests, Ids, Randomness

__all__ = ["KEY", "LOUD", "Constant", "Listener", "Recorder"]

KEY = sha256(b"public: for checks only").digest()
LOUD = 987654321  # a value that no error text may show


class Constant:
    """Every row gets the same words, whatever its context. Also remembers what it was asked for."""

    private = repeats = False

    def __init__(self, pattern: Iterable[int]) -> None:
        self.pattern = np.array(list(pattern), np.uint32)
        self.asked: list[tuple[int, int, int]] = []

    def within(self, context: bytes) -> Constant:
        """Itself."""
        del context
        return self

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
        self.source, self.private, self.repeats = source, source.private, source.repeats
        self.draws: list[tuple[int, int, int, tuple[int, ...]]] = []
        """(second half of the user's digest, slot, phase, bound integers) of every row."""

    def within(self, context: bytes) -> Recorder:
        """The source's, noted in the same list."""
        found = Recorder(self.source.within(context))
        found.draws = self.draws
        return found

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


class Listener:
    """Passes everything on to a source and remembers the words that it gave, one of each row."""

    def __init__(self, source: Randomness, heard: set[int] | None = None) -> None:
        self.source, self.private, self.repeats = source, source.private, source.repeats
        self.heard: set[int] = set() if heard is None else heard

    def within(self, context: bytes) -> Listener:
        """The source's, heard by the same ear."""
        return Listener(self.source.within(context), self.heard)

    def digests(self, users: Iterable[str] | Ids) -> Digests:
        """The source's."""
        return self.source.digests(users)

    def at(
        self, users: Digests, slot: int | NDArray[np.int64], phase: int, bound: NDArray[np.int64]
    ) -> Listener:
        """The source's, heard by the same ear."""
        return Listener(self.source.at(users, slot, phase, bound), self.heard)

    def words(self, n: int, k: int = 1, *, first: int = 0) -> NDArray[np.uint32]:
        """The source's, the first of each row noted."""
        found = self.source.words(n, k, first=first)
        self.heard.update(found[:, 0].tolist())
        return found
