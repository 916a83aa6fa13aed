"""One partition of someone else's topic on its way into a log of ours: what may be copied now, and
what ticks are due.

A relay copies records as they are, or, where it re-keys, each event to the partition of its user.
It reads of them what the fold will read, the times of valid events: so it knows how far event time
has come in the log, and does not write past what a coordinator can still ask for.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import NEVER
from ldp_kafka.errors import BadRecord, Reason
from ldp_kafka.records import Tick
from ldp_kafka.runtime.log import Message, Output, Record
from ldp_kafka.runtime.partitioning import partitions_of
from ldp_kafka.runtime.stages.raw import RawPartition, given_partition
from ldp_kafka.runtime.stages.requests import is_request, read_request
from ldp_kafka.runtime.wire.copies import copies, tick_of
from ldp_kafka.runtime.wire.records import encode_json
from ldp_kafka.topology import Topology

__all__ = [
    "SOURCE",
    "Extent",
    "Headers",
    "Mark",
    "Rekeying",
    "Relaying",
    "relaying_of",
    "source_of",
]

Headers = Sequence[tuple[str, bytes | None]]
SOURCE = "ldp-source"
"""Header of each record of the log that was copied: the offset that it had, in decimal digits."""
_OFFSET = re.compile(rb"[0-9]{1,19}")
_MARK = re.compile(r"ldp_kafka: log ([0-9]{1,19}) time (-?[0-9]{1,15}) decided (-|-?[0-9]{1,15})")


class Extent(NamedTuple):
    """What a record says of event time."""

    time: int
    """Greatest time of what is valid in it, milliseconds; -1: there is none."""
    slots: NDArray[np.int64]
    """Of its valid events."""

    def __repr__(self) -> str:
        return "Extent()"  # never a time of a user


class Mark(NamedTuple):
    """What is kept with the offset of a partition that was relayed: metadata of the group."""

    log: int
    """An offset of our log: all records that were copied later lie there or behind it."""
    time: int
    """Greatest event time in our log, milliseconds; -1: there is none."""
    decided: int | None
    """The last slot that was decided, as far as it was known; before any was, the one before the
    first.
    """

    def __repr__(self) -> str:
        return "Mark()"  # never a time of a user

    @property
    def text(self) -> str:
        """The metadata: it lies at the edge's cluster, where the values do."""
        last = "-" if self.decided is None else self.decided
        return f"ldp_kafka: log {self.log} time {self.time} decided {last}"

    @classmethod
    def read(cls, metadata: str | None) -> Mark:
        """From metadata; where it is none of ours, what is known of a log that nothing is known
        of.

        Examples
        --------
        >>> Mark(7, 60_000, None).text
        'ldp_kafka: log 7 time 60000 decided -'
        >>> Mark.read(Mark(7, 60_000, None).text) == Mark(7, 60_000, None)
        True
        >>> Mark.read("") == Mark(0, -1, None)
        True
        """
        found = _MARK.fullmatch(metadata or "")
        if found is None:
            return cls(0, -1, None)
        last = None if found[3] == "-" else int(found[3])
        return cls(int(found[1]), int(found[2]), last)


def source_of(headers: Headers) -> int | None:
    """The offset that a record was copied from; None where it was not. The last header of the name
    is ours, whatever else the record came with.
    """
    found = [value for name, value in headers if name == SOURCE]
    if not found or found[-1] is None or not _OFFSET.fullmatch(found[-1]):
        return None
    return int(found[-1])


@dataclass(repr=False)
class Relaying:
    """What is known of one partition, and what follows.

    Parameters
    ----------
    raw : how it is read
    to : the topic that it is copied to
    lateness : slots that the watermark stays behind the greatest event time
    ahead : slots past the last decided one that may be written; None: nobody decides
    time : greatest event time in the log, milliseconds, ticks included; -1: there is none
    decided : the last slot that was decided; None: not known. Before any was decided, it is taken
        to be the one before the first that is relayed

    Notes
    -----
    A record that is held back holds its whole partition: the order is that of the other log. While
    it waits, a tick brings the partition to the last slot that may be written, and never so far
    that an event of the record would be late for it. Its own event time is later, so nothing that
    lies behind it would have been in time without the tick.

    A record whose events lie in more slots than `ahead` passes when all slots before its first are
    decided: waiting longer would bring nothing. What it holds of slots past the limit may be
    settled when their request comes.
    """

    raw: RawPartition
    to: str
    lateness: int
    ahead: int | None
    time: int = -1
    decided: int | None = None
    in_log: ClassVar[bool] = True
    """Whether the log says what was copied last, and the next one looks for it there."""

    def copied(
        self, message: Message, extent: Extent, key: bytes | None, headers: Headers
    ) -> list[Record]:
        """What is to be written for a message: the same record. One without a value gets an empty
        one: either is a dead letter.
        """
        del extent
        mine = (*headers, (SOURCE, str(message.offset).encode()))
        value = message.value or b""
        return [Record(self.to, self.raw.partition, key, value, mine, message.timestamp)]

    def ticks(self, offset: int, time: int) -> list[Record]:
        """What is to be written where event time has come so far, before the record at an
        offset.
        """
        del offset
        return [Record(self.to, self.raw.partition, None, encode_json(Tick(time)))]

    def extent(self, message: Message) -> Extent:
        """What a message says of event time, as the fold will read it: what becomes a dead letter
        there does not count.
        """
        rows, latest = self.raw.read([message], Output(_nothing))
        return Extent(int(latest[0]), rows.slots)

    def passes(self, extent: Extent) -> bool:
        """Whether it may be copied now."""
        if self.ahead is None or extent.time < 0:
            return True
        first, last = self._first(extent), self._slot(extent.time)
        if self.decided is None:
            self.decided = first - 1
        return last <= self.decided + self.ahead or first <= self.decided + 1

    def due(self, extent: Extent) -> int | None:
        """The time of the tick that is due while this is held back; None: none is."""
        assert self.ahead is not None
        assert self.decided is not None
        slot = min(self.decided + self.ahead, self._first(extent) + self.lateness)
        at = slot * self.raw.slot_ms
        return at if at > self.time else None

    def news(self, latest: int) -> int | None:
        """The time of the tick that is due where nothing is left to copy, and the log of another
        partition is at time ``latest``; None: none is.
        """
        return latest if latest > self.time else None

    def written(self, time: int) -> None:
        """Something of this time is in the log."""
        self.time = max(self.time, time)

    def hear(self, slot: int | None) -> None:
        """A slot was decided."""
        if slot is not None:
            self.decided = slot if self.decided is None else max(self.decided, slot)

    def found(self, message: Message) -> None:
        """A record that is in the log already, after a start: an event, a tick or a request."""
        if not is_request(message.value):
            extent = self.extent(message)
            if self.decided is None and len(extent.slots):
                self.decided = self._first(extent) - 1
            self.written(extent.time)
            return
        try:
            self.hear(read_request(message.value).slot)
        except BadRecord:
            return

    def _slot(self, time: int) -> int:
        return time // self.raw.slot_ms

    def _first(self, extent: Extent) -> int:
        """The first slot of its events that is not closed yet."""
        last = self._slot(extent.time)
        closed = NEVER if self.time < 0 else self._slot(self.time) - self.lateness - 1
        open_ = extent.slots[extent.slots > closed]
        return int(open_.min()) if len(open_) else last


@dataclass(repr=False)
class Rekeying(Relaying):
    """The same where each event is copied by itself, to the partition of its user.

    Notes
    -----
    All that follows from a record, what is written and in which order, follows from it and from
    ``time`` before it. So whoever goes on from an offset whose copies have all arrived writes what
    anybody else would, and the fold drops what it has (`ldp_kafka.runtime.stages.sources`).

    The events of a record that is the first of a slot are written before the ticks that say so:
    none of them is late by another one of the same record. A row that is no event goes to a
    partition that follows from its own.
    """

    partitions: int = 1
    in_log: ClassVar[bool] = False

    def copied(
        self, message: Message, extent: Extent, key: bytes | None, headers: Headers
    ) -> list[Record]:
        """What is to be written for a message: its events, row by row, and where it brings this
        partition into another slot, ticks.
        """
        del key, headers
        source, offset = self.raw.partition, message.offset
        rows = list(copies(source, offset, self.raw.reader.read_run([message.value])))
        users = [user for user, _ in rows if user is not None]
        homes = iter(partitions_of(users, self.partitions).tolist())
        of_bad = source % self.partitions
        made = [
            Record(
                self.to,
                of_bad if user is None else next(homes),
                None,
                value,
                timestamp=message.timestamp,
            )
            for user, value in rows
        ]
        if extent.time >= 0 and (self.time < 0 or self._slot(extent.time) > self._slot(self.time)):
            made += self._ticks(offset + 1, extent.time, message.timestamp)
        return made

    def news(self, latest: int) -> int | None:
        """The same, and not past what can still be asked: slots close by the slowest partition,
        which this one may be.
        """
        if self.ahead is not None and self.decided is not None:
            latest = min(latest, (self.decided + self.ahead) * self.raw.slot_ms)
        return super().news(latest)

    def ticks(self, offset: int, time: int) -> list[Record]:
        """To all partitions: any may wait for this one."""
        return self._ticks(offset, time, 0)

    def _ticks(self, offset: int, time: int, timestamp: int) -> list[Record]:
        value = tick_of(self.raw.partition, offset, time)
        return [
            Record(self.to, number, None, value, timestamp=timestamp)
            for number in range(self.partitions)
        ]


def relaying_of(topology: Topology, partition: int, mark: Mark) -> Relaying:
    """Of a partition as far as ``mark`` says."""
    source = topology.input
    ahead = source.ahead if topology.method.phases > 1 else None
    raw, to = given_partition(topology, partition), topology.raw_topic
    known = raw, to, source.lateness, ahead, mark.time, mark.decided
    return Rekeying(*known, source.partitions) if source.rekey else Relaying(*known)


def _nothing(offset: int, row: int, reason: Reason) -> Record:
    """No dead letter: the fold writes it."""
    del offset, row, reason
    return Record("", 0, None, b"")
