"""The collector's fold over the reports of devices (`ldp_kafka.Client`): each counts once by its
id, and slots close by the event time that reports carry.

A device's report has no source offset to be counted by, and may come twice: after a crash, or
because the broker's answer was lost. So the ids of a slot are kept while it is open, each with the
offset at which it counted and a digest of what it said. An id says in which partition it lies
(`partition_of`), so one partition is enough to tell a repetition.

Nobody closes slots for devices: the partition's watermark does, the latest slot that a report or a
tick has told, less ``lateness`` (and the method's delay). A report after that is a dead letter:
what a device has queued for longer than ``lateness`` is lost to the statistics, never to its
budget. No report closes more than its record's timestamp allows, or one device with a wrong clock
would shut all others out: the topic is to have ``message.timestamp.type=LogAppendTime``, so that
this is the broker's clock. One that is further ahead of it than ``max_ahead`` is a dead letter.

Any device can send any report, as in every local model: what one device can do to a mean is bounded
by the mechanism's range, and by how many ids it is let in with.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from ldp_kafka.errors import BadRecord
from ldp_kafka.records import Partial, Reports, Tick
from ldp_kafka.runtime.log import Folded, Message, Record
from ldp_kafka.runtime.stages.collect import Collect, CollectState
from ldp_kafka.runtime.stages.sample import KEPT
from ldp_kafka.runtime.wire.arrow import ARROW, check_size
from ldp_kafka.runtime.wire.dead_letters import dead_letter
from ldp_kafka.runtime.wire.records import decode_json, parse_json

__all__ = ["CollectDevices", "DevicesState", "partition_of"]

PARTS = 16  # of a slot: each a record of the changelog, for up to about 30,000 reports
_ROW = np.dtype([("id", "V16"), ("said", "V8"), ("offset", "<i8")])


def partition_of(name: bytes, partitions: int) -> int:
    r"""The partition of a report by its id (16 bytes): keyed hashes are uniform, and a report that
    is sent again must meet its first copy.

    Examples
    --------
    >>> partition_of(bytes(7) + b"\x05" + bytes(8), 3)
    2
    """
    return int.from_bytes(name[:8], "big") % partitions


class Counted(NamedTuple):
    """When a report counted, and what it said."""

    offset: int
    said: bytes


@dataclass
class Part:
    """Some of the reports of an open slot."""

    sums: list[int]
    ids: dict[bytes, Counted] = field(default_factory=dict)


@dataclass
class DevicesState(CollectState):
    """What the collector knows of one partition; ``open`` holds the sums over all
    parts of a slot.
    """

    parts: dict[tuple[int, int], Part] = field(default_factory=dict)
    watermark: int = -1
    """The latest event time (ms) that a report or a tick has told, by the broker's clock at most.
    """
    touched: set[tuple[int, int]] = field(default_factory=set)
    """Parts that changed or ended since the last snapshot."""


@dataclass(frozen=True)
class CollectDevices(Collect):
    """The collect stage of one partition of the devices' reports.

    Parameters
    ----------
    source : its number among the merger's sources
    partitions : of the topic
    slot_ms, lateness, max_ahead_ms : as in the topology; lateness in slots

    Notes
    -----
    A part of a slot is written down with its sums and ids together, and each id with its offset.
    After a crash a part can be ahead of the rest of the state: folding the messages between once
    more, an id that is there with the same offset is the report that made it, and one with an
    earlier offset a repetition. So nothing counts twice, and what goes out goes out again as it
    was.
    """

    source: int = 0
    partitions: int = 1
    slot_ms: int = 1
    lateness: int = 0
    max_ahead_ms: int = 0

    def fresh(self) -> DevicesState:
        return DevicesState(crowd=self.publisher.statistics.start)

    def fold(self, state: CollectState, messages: Sequence[Message]) -> Folded:
        """Partials and releases per user of consecutive messages."""
        assert isinstance(state, DevicesState)
        records: list[Record] = []
        counts: dict[str, float] = {"reports": 0, "repeated": 0, "partials": 0, "second_reports": 0}
        for message in messages:
            try:
                self._take(state, message, records, counts)
            except BadRecord as bad:
                records.append(
                    dead_letter(
                        self.dead_letters_topic,
                        self.topic,
                        self.partition,
                        message.offset,
                        0,
                        bad.reason,
                    )
                )
                counts[f"dead_letters:{bad.reason}"] = (
                    counts.get(f"dead_letters:{bad.reason}", 0) + 1
                )
        if state.closed is not None:
            counts["closed"] = state.closed
        return Folded(records, counts)

    def _take(
        self, state: DevicesState, message: Message, records: list[Record], counts: dict[str, float]
    ) -> None:
        check_size(message.value)
        assert message.value is not None
        if message.value.startswith(ARROW):
            raise BadRecord(
                "not_a_report"
            )  # a device sends one at a time: rows together would tell that they are one device's
        found = decode_json(parse_json(message.value))
        if found is None:
            return  # a header
        if isinstance(found, Tick):
            self._timely(found.time, message)
            self._advance(state, found.time // self.slot_ms, message, records, counts)
            return
        if not isinstance(found, Reports):
            raise BadRecord("not_a_report")
        self._report(state, found, message, records, counts)

    def _report(
        self,
        state: DevicesState,
        one: Reports,
        message: Message,
        records: list[Record],
        counts: dict[str, float],
    ) -> None:
        if one.fingerprint != self.fingerprint:
            raise BadRecord("fingerprint")
        if (one.offset, one.chunk, one.closed) != (-1, 0, None):
            raise BadRecord("wrong_fields")
        name, slot = one.ids.tobytes(), int(one.slots[0])
        if partition_of(name, self.partitions) != self.partition:
            raise BadRecord("partition")
        if slot < 0:
            raise BadRecord("time")
        self._timely(slot * self.slot_ms, message)
        [(_, support)] = self._sums(state, one)  # may refuse it: before anything is changed
        at, said = (
            (slot, name[0] % PARTS),
            blake2b(
                one.values.tobytes() + (b"" if one.series is None else one.series.tobytes()),
                digest_size=8,
            ).digest(),
        )
        part = state.parts.get(at)
        counted = None if part is None else part.ids.get(name)
        if counted is not None and counted.offset < message.offset:
            counts["repeated" if counted.said == said else "second_reports"] += 1
            return
        state.first = slot if state.first is None else min(state.first, slot)
        if counted is None:  # else the part was written down ahead of the rest
            if part is None:
                part = state.parts[at] = Part([0] * len(support))
            part.ids[name] = Counted(message.offset, said)
            part.sums = [a + b for a, b in zip(part.sums, support, strict=True)]
            held = state.open.get(slot)
            state.open[slot] = (
                support if held is None else [a + b for a, b in zip(held, support, strict=True)]
            )
            state.touched.add(at)
        counts["reports"] += 1
        self._release(state, one, records, counts)
        self._advance(state, slot, message, records, counts)

    def _timely(self, time: int, message: Message) -> None:
        """What is kept open is bounded."""
        if 0 <= message.timestamp < time - self.max_ahead_ms:
            raise BadRecord("ahead")

    def _advance(
        self,
        state: DevicesState,
        slot: int,
        message: Message,
        records: list[Record],
        counts: dict[str, float],
    ) -> None:
        """Close what is over, now that ``slot`` has begun; by the record's own
        timestamp at most.
        """
        if message.timestamp >= 0:
            slot = min(slot, message.timestamp // self.slot_ms)
        state.watermark = max(state.watermark, slot * self.slot_ms)
        closed = slot - self.lateness - 1 - self.method.delay
        if state.closed is None or closed > state.closed:
            self._close(state, closed, records, counts)

    def close(self, state: CollectState, slot: int) -> tuple[list[int], list[str]]:
        assert isinstance(state, DevicesState)
        ids: list[bytes] = []
        for at in [(slot, number) for number in range(PARTS) if (slot, number) in state.parts]:
            ids += state.parts.pop(at).ids
            state.touched.add(at)
        return state.open.pop(slot), [name.hex() for name in sorted(ids)[:KEPT]]

    def end(self, state: CollectState, through: int) -> None:
        """Nothing: a part ends with its slot."""

    def _partial(self, records: list[Record], counts: dict[str, float], partial: Partial) -> None:
        super()._partial(records, counts, replace(partial, source=self.source))

    def dirty(self, state: CollectState) -> set[str]:
        assert isinstance(state, DevicesState)
        found = {_name(at) for at in state.touched}
        state.touched.clear()
        return found

    def shards_of(self, state: CollectState) -> set[str]:
        assert isinstance(state, DevicesState)
        return {_name(at) for at in state.parts}

    def dump(self, state: CollectState, shards: Iterable[str]) -> dict[str, bytes]:
        assert isinstance(state, DevicesState)
        wanted = set(shards)
        return {
            _name(at): _written(part) for at, part in state.parts.items() if _name(at) in wanted
        }

    def meta(self, state: CollectState) -> dict[str, Any]:
        assert isinstance(state, DevicesState)
        return {
            "first": state.first,
            "closed": state.closed,
            "crowd": list(state.crowd),
            "watermark": state.watermark,
        }

    def load(
        self, meta: Mapping[str, Any], shards: Mapping[str, tuple[int, bytes]]
    ) -> DevicesState:
        state = DevicesState(
            first=meta["first"],
            closed=meta["closed"],
            crowd=tuple(meta["crowd"]),
            watermark=meta["watermark"],
        )
        for name, (_, payload) in shards.items():
            slot, number = map(int, name.split("."))
            part = state.parts[slot, number] = _read(payload)
            held = state.open.get(slot)
            state.open[slot] = (
                list(part.sums)
                if held is None
                else [a + b for a, b in zip(held, part.sums, strict=True)]
            )
        return state


def _name(at: tuple[int, int]) -> str:
    return f"{at[0]}.{at[1]}"


def _written(part: Part) -> bytes:
    """Sums as a line of JSON, then the ids."""
    rows = np.array([(name, said, offset) for name, (offset, said) in part.ids.items()], _ROW)
    return json.dumps(part.sums, separators=(",", ":")).encode() + b"\n" + rows.tobytes()


def _read(payload: bytes) -> Part:
    sums, rows = payload.split(b"\n", 1)
    found = np.frombuffer(rows, _ROW)
    names, said = (found[name].tolist() for name in ("id", "said"))
    return Part(
        json.loads(sums),
        {n: Counted(o, s) for n, s, o in zip(names, said, found["offset"].tolist(), strict=True)},
    )
