"""Which records of a releases topic are given: the releases that are wanted, each once."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

from ldp_kafka.errors import BadRecord
from ldp_kafka.records import Release
from ldp_kafka.runtime.kafka.reader import Kept
from ldp_kafka.runtime.releases.since import Since
from ldp_kafka.runtime.wire.codec import decode

__all__ = ["REMEMBERED", "Choosing", "Counts"]

REMEMBERED = 2**20  # releases that a follower knows again, about 100 bytes each


@dataclass
class Counts:
    """What was found so far."""

    given: int = 0
    """Releases."""
    left_out: int = 0
    """Releases that were not wanted."""
    repeated: int = 0
    """Releases that were written again."""
    changed: int = 0
    """Of these, those with other numbers."""
    unreadable: int = 0
    """Records of the topic that are no releases."""


@dataclass
class Choosing:
    """What is wanted of the releases of a topic.

    Parameters
    ----------
    slot_ms : length of a slot, milliseconds
    since : which slots
    statistics : which statistics; None: all
    labels : by statistic, what the numbers of lists are of, for releases that do not say it:
        ``categories`` or ``edges``, as in `Release`
    """

    slot_ms: int
    since: Since = field(default_factory=Since)
    statistics: frozenset[str] | None = None
    labels: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    counts: Counts = field(default_factory=Counts)

    def __post_init__(self) -> None:
        self._start = self.since.start
        self._seen = _Seen()

    def read(
        self,
        held: Generator[Kept, None, None],
        later: Callable[[], Generator[Kept | None, None, None]] | None,
    ) -> Generator[Release | None, None, None]:
        """The releases of the records that the topic holds, and of those after them as they come;
        None whenever no more is there at the moment. Both are closed with it.
        """
        for found in self._in_order(held, later):
            self.counts.given += found is not None
            yield found

    def _in_order(
        self,
        held: Generator[Kept, None, None],
        later: Callable[[], Generator[Kept | None, None, None]] | None,
    ) -> Iterator[Release | None]:
        with closing(held):
            if self.since.back is None:
                yield from self._wanted(held)
            else:
                yield from self._newest(held, self.since.back)
        if later is not None:
            yield None
            self._seen.most = REMEMBERED
            with closing(later()) as coming:
                yield from self._wanted(coming)

    def _newest(self, held: Iterable[Kept], back: int) -> Iterator[Release]:
        """Those whose slots start so long before the end of the newest one, or later: which is
        known when all are read. In the order of their slots.
        """
        by_slot: dict[int, list[Release]] = {}
        newest: int | None = None
        for release in self._wanted(held):
            if release is None:
                continue
            if newest is None or release.slot > newest:
                newest = release.slot
                self._start = start = (newest + 1) * self.slot_ms - back
                for slot in [slot for slot in by_slot if slot * self.slot_ms < start]:
                    self.counts.left_out += len(by_slot.pop(slot))
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
                    self.counts.left_out += 1
                elif (before := self._seen.add(release.key, hash(record.value))) is not None:
                    self.counts.repeated += 1
                    self.counts.changed += before != hash(record.value)
                else:
                    yield self._labelled(release)

    def _releases(self, record: Kept) -> Iterator[Release]:
        """Of one record; none of a header and of a tombstone."""
        if record.value is None:
            return
        try:
            found = decode(record.value)
        except BadRecord:
            self.counts.unreadable += 1
            return
        for each in found:
            if isinstance(each, Release):
                yield each
            else:
                self.counts.unreadable += 1

    def _wants(self, release: Release) -> bool:
        return (self.statistics is None or release.statistic in self.statistics) and (
            self._start is None or release.slot * self.slot_ms >= self._start
        )

    def _labelled(self, release: Release) -> Release:
        """The same with what its numbers are of, where an earlier version left that out."""
        if release.categories is not None or release.edges is not None:
            return release
        labels = self.labels.get(release.statistic)
        return replace(release, **labels) if labels else release


class _Seen:
    """Keys, each with the mark of its first record."""

    def __init__(self) -> None:
        self.most: int | None = None
        """How many are remembered at least, and twice as many at most; None: all."""
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
