"""Many reports, 27 bytes each: who said what, and whether anybody said two things, or said them
in two places.

Up to `FLUSH` of them wait in memory. With a folder what is more lies on disk, in `BUCKETS` files
by id, each of which is sorted by itself: 10**9 reports are 27 GB of disk, and some 0.6 GB of memory
at a time, where they are compared with as many that were made once more.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.records import Reports

__all__ = ["Compared", "ReportIndex", "compare"]

FLUSH = 2**21  # reports that wait before repeats among them go, or they are written to disk
BUCKETS = 256  # a power of two

_DUE, _PRESENT, _SCATTERED = 1, 2, 4
_ROW = np.dtype([("a", "u8"), ("b", "u8"), ("content", "u8"), ("partition", "u2"), ("is", "u1")])


class Compared(NamedTuple):
    """What is true of two sets of reports, those that were held and those that were expected;
    counts of ids.
    """

    ids: int
    """That were held."""
    second: int
    """Held with two contents or more: a second draw, a second epsilon."""
    missing: int
    """Expected and due, and not held."""
    different: int
    """Held with a content that was not expected, where another was."""
    unexpected: int
    """Held, and nothing was expected."""
    scattered: int = 0
    """Held in several partitions, whether with one content or not: there each counts once."""


class ReportIndex:
    """Report ids with a 64-bit hash of all that each report says: its slot, phase, cost, value,
    fingerprint and series.

    Parameters
    ----------
    seed : of the hash, drawn anew each time, so that nobody can make two contents of one hash; two
        `ReportIndex` that are compared must share it
    folder : where to keep what is too much for memory; None: all is kept in memory
    """

    def __init__(self, seed: int | None = None, folder: Path | None = None) -> None:
        self.seed = int.from_bytes(os.urandom(8), "little") if seed is None else seed
        self.folder = folder
        self.reports = 0
        """That were added."""
        self.repeats = 0
        """Of them those that were there before, the same in every byte; known after `compare`."""
        self.spilled = False
        """Whether some are on disk."""
        self._rows: list[NDArray[np.void]] = []
        self._waiting = 0
        self._kept = 0
        self._name = os.urandom(4).hex()

    def add(self, batch: Reports, *, partition: int = 0, due: bool = True) -> None:
        """See the reports of a batch in a partition; ``due`` marks those that must be held by
        now.
        """
        rows = np.zeros(len(batch), _ROW)
        rows["a"], rows["b"] = batch.ids[:, 0], batch.ids[:, 1]
        rows["content"] = self._contents(batch)
        rows["partition"], rows["is"] = partition, _PRESENT | (_DUE if due else 0)
        self.reports += len(rows)
        self._rows.append(rows)
        self._waiting += len(rows)
        if self.folder is not None:
            if self._waiting > FLUSH:
                self.spill()
        elif self._waiting > max(FLUSH, self._kept):
            self.rows()

    def rows(self) -> NDArray[np.void]:
        """Each distinct (id, content) in memory once, in order."""
        kept = _distinct(np.concatenate([np.zeros(0, _ROW), *self._rows]))
        self._rows, self._waiting, self._kept = [kept], 0, len(kept)
        return kept

    def spill(self) -> None:
        """Write what is in memory to the folder. OSError where it has no room."""
        assert self.folder is not None
        whole = np.concatenate([np.zeros(0, _ROW), *self._rows])
        self._rows, self._waiting, self.spilled = [], 0, True
        # ids are uniform, unless somebody chose them
        bucket = _mix(whole["a"] ^ np.uint64(self.seed)) % np.uint64(BUCKETS)
        order = np.argsort(bucket, kind="stable")
        whole, ends = whole[order], np.searchsorted(bucket[order], np.arange(BUCKETS + 1))
        for each in range(BUCKETS):
            if ends[each + 1] > ends[each]:
                with self._file(each).open("ab") as file:
                    file.write(whole[ends[each] : ends[each + 1]].tobytes())

    def parts(self) -> Iterator[NDArray[np.void]]:
        """What `rows` gives, of each bucket."""
        for each in range(BUCKETS):
            file = self._file(each)
            yield _distinct(np.fromfile(file, _ROW) if file.exists() else np.zeros(0, _ROW))

    def _file(self, bucket: int) -> Path:
        assert self.folder is not None
        return self.folder / f"{self._name}-{bucket:02x}"

    def _contents(self, batch: Reports) -> NDArray[np.uint64]:
        """A 64-bit hash of each row: one round of splitmix64 a word."""
        digest = blake2b(
            batch.fingerprint.encode()
            + np.float64(batch.scale).tobytes()
            + batch.phase.to_bytes(4, "little")
            + batch.cost.to_bytes(8, "little"),
            digest_size=8,
        ).digest()
        shared = self.seed ^ int.from_bytes(digest, "little")
        values = (
            _hashed(batch.values)
            if batch.values.ndim == 2
            else np.ascontiguousarray(batch.values, np.int64).view(np.uint64)
        )
        words = [np.ascontiguousarray(batch.slots, np.int64).view(np.uint64), values]
        if batch.series is not None:
            words += [batch.series[:, 0], batch.series[:, 1]]
        mixed = _mix(np.full(len(batch), shared, np.uint64))
        for word in words:
            mixed = _mix(mixed ^ word)
        return mixed ^ np.uint64(len(words))


def _distinct(rows: NDArray[np.void]) -> NDArray[np.void]:
    """Each distinct (id, content) once, in order, with one of its partitions and whether it has
    more.
    """
    rows = rows[np.lexsort((rows["content"], rows["b"], rows["a"]))]
    starts = np.flatnonzero(_changes(rows, "a", "b", "content"))
    kept: NDArray[np.void] = rows[starts]
    if len(starts):
        kept["is"] = np.bitwise_or.reduceat(rows["is"], starts)
        kept["is"][_differ(rows["partition"], starts)] |= _SCATTERED
    return kept


def _differ(values: NDArray[np.uint16], starts: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Of each run of values, given by where it starts, whether they are not all the same."""
    lowest, highest = np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)
    different: NDArray[np.bool_] = lowest < highest
    return different


def _scattered(mine: NDArray[np.void]) -> int:
    """How many ids of distinct rows, in order, are in several partitions."""
    if not len(mine):
        return 0
    starts = np.flatnonzero(_changes(mine, "a", "b"))
    within = np.logical_or.reduceat(mine["is"] & _SCATTERED > 0, starts)
    return int(np.count_nonzero(within | _differ(mine["partition"], starts)))


def _mix(word: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of splitmix64 (Steele, Lea and Flood, OOPSLA 2014): a bijection."""
    word = word + np.uint64(0x9E3779B97F4A7C15)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: NDArray[np.uint64] = word ^ (word >> np.uint64(31))
    return mixed


def _hashed(bits: NDArray[np.uint8]) -> NDArray[np.uint64]:
    return np.frombuffer(
        b"".join(blake2b(row.tobytes(), digest_size=8).digest() for row in bits), np.uint64
    )


def _changes(rows: NDArray[np.void], *names: str) -> NDArray[np.bool_]:
    """Whether each of the sorted rows differs from the one before it."""
    new = np.zeros(len(rows), np.bool_)
    new[:1] = True
    for name in names:
        new[1:] |= rows[name][1:] != rows[name][:-1]
    return new


def compare(held: ReportIndex, expected: ReportIndex | None = None) -> Compared:
    """Held reports, with themselves and with those that were expected. OSError where one of them is
    on disk, and there is no room for the other.
    """
    both = [held] if expected is None else [held, expected]
    if any(each.spilled for each in both):
        for each in both:
            each.spill()
        pairs: Iterable[tuple[NDArray[np.void], ...]] = zip(
            *(each.parts() for each in both), strict=True
        )
    else:
        pairs = [tuple(each.rows() for each in both)]
    total, distinct = Compared(0, 0, 0, 0, 0), 0
    for mine, *theirs in pairs:
        distinct += len(mine)
        part = _compare(mine, theirs[0] if theirs else None)
        total = Compared(*(a + b for a, b in zip(total, part, strict=True)))
    held.repeats = held.reports - distinct
    return total


def _compare(mine: NDArray[np.void], theirs: NDArray[np.void] | None) -> Compared:
    """Of distinct rows, in order."""
    whole = mine if theirs is None else np.concatenate([mine, theirs])
    if not len(whole):
        return Compared(0, 0, 0, 0, 0)
    is_held = np.arange(len(whole)) < len(mine)
    order = np.lexsort((whole["content"], whole["b"], whole["a"]))
    whole, is_held = whole[order], is_held[order]
    new_id, new_pair = _changes(whole, "a", "b"), _changes(whole, "a", "b", "content")
    pairs = np.flatnonzero(new_pair)
    pair_held, pair_expected = (
        np.logical_or.reduceat(is_held, pairs),
        np.logical_or.reduceat(~is_held, pairs),
    )
    starts = np.searchsorted(pairs, np.flatnonzero(new_id))
    any_held, any_expected = (
        np.logical_or.reduceat(pair_held, starts),
        np.logical_or.reduceat(pair_expected, starts),
    )
    due = np.logical_or.reduceat(~is_held & (whole["is"] & _DUE > 0), np.flatnonzero(new_id))
    wrong = np.logical_or.reduceat(pair_held & ~pair_expected, starts)
    count = np.count_nonzero
    return Compared(
        int(count(any_held)),
        int(count(np.add.reduceat(pair_held.astype(np.int64), starts) > 1)),
        int(count(~any_held & due)),
        0 if theirs is None else int(count(any_expected & wrong)),
        0 if theirs is None else int(count(any_held & ~any_expected)),
        _scattered(mine),
    )
