"""Releases as they lie in their topic, each once: an iterator of records."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any, Self

from ldp_kafka.errors import BadRecord, ConfigurationError
from ldp_kafka.records import Release
from ldp_kafka.runtime.kafka.reader import Kept
from ldp_kafka.runtime.releases.columns import table_of
from ldp_kafka.runtime.releases.rows import Row, rows_of
from ldp_kafka.runtime.releases.since import Since
from ldp_kafka.runtime.wire.codec import decode

__all__ = ["Releases"]

REMEMBERED = 2**20  # releases that a follower knows again, about 100 bytes each


class Releases:
    """The releases of one topology: an iterator of `Release`, in the order of the log.

    Close it, or use it in a ``with`` statement: it holds a connection to the brokers, which also
    ends with the iteration and with the last reference. It is for one thread.

    A release that is written again, by a worker that goes on after a crash, comes once: the first
    time. pandas and polars take it as a table (`table`).

    Parameters
    ----------
    held : the records that the topic holds at this moment
    later : the records after these, as they come, and None whenever there are none; None: the
        iteration ends with ``held``
    slot_ms : length of a slot, milliseconds
    since : which slots
    statistics : which statistics; None: all
    labels : by statistic, what the numbers of lists are of, for releases that do not say it:
        ``categories`` or ``edges``, as in `Release`
    """

    def __init__(
        self,
        held: Generator[Kept, None, None],
        later: Callable[[], Generator[Kept | None, None, None]] | None,
        *,
        slot_ms: int,
        since: Since | None = None,
        statistics: frozenset[str] | None = None,
        labels: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self.slot_ms = slot_ms
        self.follows = later is not None
        self.given = 0
        """Releases so far."""
        self.left_out = 0
        """Releases that were not wanted."""
        self.repeated = 0
        """Releases that were written again."""
        self.changed = 0
        """Of these, those with other numbers."""
        self.unreadable = 0
        """Records of the topic that are no releases."""
        self._since, self._statistics = since or Since(), statistics
        self._labels = labels or {}
        self._start = self._since.start
        self._seen = _Seen()
        self._held, self._later = held, later
        self._at_hand = self._read()
        self._table: Any = None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Release:
        for found in self._at_hand:
            if found is not None:
                return found
        raise StopIteration

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Releases({self.given} so far)"

    def close(self) -> None:
        """End the iteration, and the connection; once more changes nothing."""
        self._at_hand.close()
        self._held.close()

    def at_hand(self) -> Iterator[Release | None]:
        """The same releases, and None whenever no more is there at the moment: when to write what
        waits to be written.
        """
        return self._at_hand

    def rows(self) -> Iterator[Row]:
        """The same as flat rows: a dict each number of each release, as `ldp_kafka.runtime.releases
        .rows.COLUMNS` says.
        """
        for release in self:
            yield from rows_of(release)

    def table(self) -> Any:
        """What has not been iterated yet as a `pyarrow.Table` of flat rows, sorted by slot,
        statistic, subject and position; the same table when it is asked for again.

        Raises
        ------
        ConfigurationError : it follows the topic, and has no end
        """
        if self.follows:
            raise ConfigurationError("a table needs an end: releases must be read without follow")
        if self._table is None:
            self._table = table_of(self.rows(), self.slot_ms)
        return self._table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The table, for whatever takes the Arrow PyCapsule interface."""
        return self.table().__arrow_c_stream__(requested_schema)

    def _read(self) -> Generator[Release | None, None, None]:
        for found in self._in_order():
            self.given += found is not None
            yield found

    def _in_order(self) -> Iterator[Release | None]:
        """What the topic holds, and what comes after it."""
        with closing(self._held):
            if self._since.back is None:
                yield from self._wanted(self._held)
            else:
                yield from self._newest(self._since.back)
        if self._later is not None:
            yield None
            self._seen.most = REMEMBERED
            with closing(self._later()) as later:
                yield from self._wanted(later)

    def _newest(self, back: int) -> Iterator[Release]:
        """Those whose slots start so long before the end of the newest one, or later: which is
        known when all are read. In the order of their slots.
        """
        by_slot: dict[int, list[Release]] = {}
        newest: int | None = None
        for release in self._wanted(self._held):
            if release is None:
                continue
            if newest is None or release.slot > newest:
                newest = release.slot
                self._start = start = (newest + 1) * self.slot_ms - back
                for slot in [slot for slot in by_slot if slot * self.slot_ms < start]:
                    self.left_out += len(by_slot.pop(slot))
            by_slot.setdefault(release.slot, []).append(release)
        for slot in sorted(by_slot):
            yield from by_slot[slot]

    def _wanted(self, records: Iterable[Kept | None]) -> Iterator[Release | None]:
        """The releases of these records that are wanted, each once."""
        for record in records:
            if record is None:
                yield None
                continue
            for release in self._releases(record):
                if not self._wants(release):
                    self.left_out += 1
                elif (before := self._seen.add(release.key, hash(record.value))) is not None:
                    self.repeated += 1
                    self.changed += before != hash(record.value)
                else:
                    yield self._labelled(release)

    def _releases(self, record: Kept) -> Iterator[Release]:
        """Of one record; none of a header and of a tombstone."""
        if record.value is None:
            return
        try:
            found = decode(record.value)
        except BadRecord:
            self.unreadable += 1
            return
        for each in found:
            if isinstance(each, Release):
                yield each
            else:
                self.unreadable += 1

    def _wants(self, release: Release) -> bool:
        return (self._statistics is None or release.statistic in self._statistics) and (
            self._start is None or release.slot * self.slot_ms >= self._start
        )

    def _labelled(self, release: Release) -> Release:
        """The same with what its numbers are of, where an earlier version left that out."""
        if release.categories is not None or release.edges is not None:
            return release
        labels = self._labels.get(release.statistic)
        return replace(release, **labels) if labels else release


class _Seen:
    """Keys, each with the mark of its first record."""

    def __init__(self) -> None:
        self.most: int | None = None
        """How many are remembered at least, those of twice as many at most; None: all."""
        self._new: dict[str, int] = {}
        self._old: dict[str, int] = {}

    def add(self, key: str, mark: int) -> int | None:
        """The mark that the key had; None where it is new."""
        before = self._new.get(key, self._old.get(key))
        if before is None:
            if self.most is not None and len(self._new) >= self.most:
                self._new, self._old = {}, self._new
            self._new[key] = mark
        return before
