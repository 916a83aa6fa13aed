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

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from heapq import nsmallest
from typing import Any, ClassVar

import numpy as np

from ldp_kafka.errors import BadRecord, Reason, StateError
from ldp_kafka.methods import Method
from ldp_kafka.records import KEPT, Reports, Tick
from ldp_kafka.runtime.keys import EdgeNoise
from ldp_kafka.runtime.log import Look, Message, Output
from ldp_kafka.runtime.runs import Run
from ldp_kafka.runtime.stages.counting import COUNTS, Counting, SourceState
from ldp_kafka.runtime.stages.device_rows import DeviceRows, partition_of, said
from ldp_kafka.runtime.stages.keyed import UnkeyedStage
from ldp_kafka.runtime.stages.latest import without
from ldp_kafka.runtime.stages.parts import Counted, Part, PartOf, look_at_parts
from ldp_kafka.runtime.stages.releases import Publisher, publisher
from ldp_kafka.runtime.stages.slot_sums import At, SlotSums
from ldp_kafka.runtime.wire.arrow import ARROW, check_size
from ldp_kafka.runtime.wire.dead_letters import DeadLetters
from ldp_kafka.runtime.wire.parsing import parse_json
from ldp_kafka.runtime.wire.records import decode_json
from ldp_kafka.runtime.wire.report_columns import ReportRun, read_plain_reports
from ldp_kafka.topology import Topology

__all__ = ["CollectDevices", "DevicesState", "make_collect_devices", "partition_of"]

_FORM = 2  # of the state
FEW = 4  # messages, up to which columns cost more than they save


@dataclass
class DevicesState:
    """What the collector knows of one partition; ``source`` has the sums over all parts of a
    slot.
    """

    source: SourceState
    parts: dict[PartOf, Part] = field(default_factory=dict)
    watermark: int = -1
    """The latest event time (ms) that a report or a tick has told, by the broker's clock at most.
    """
    touched: set[PartOf] = field(default_factory=set)
    """Parts that changed or ended since the last snapshot."""


@dataclass(frozen=True)
class CollectDevices(UnkeyedStage):
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

    oversize: ClassVar[str] = "too many slots wait for a partition without events"

    method: Method
    topic: str
    partials_topic: str
    dead_letters_topic: str
    partition: int
    fingerprint: str
    layout: str
    publisher: Publisher
    source: int = 0
    partitions: int = 1
    slot_ms: int = 1
    lateness: int = 0
    max_ahead_ms: int = 0

    @cached_property
    def _counting(self) -> Counting:
        return Counting(self.method, self.partials_topic, self.source, self.publisher)

    def fresh(self) -> DevicesState:
        return DevicesState(self._counting.fresh(SlotSums(1)))

    def fold(self, state: DevicesState, messages: Sequence[Message]) -> Output:
        """Partials and releases per user of consecutive messages."""
        output = Output(DeadLetters(self.dead_letters_topic, self.topic, self.partition), COUNTS)
        at, values = 0, [value or b"" for value in Run.of(messages).values]
        for run in read_plain_reports(values, ordered=False) if len(values) > FEW else ():
            end = run.place + len(run)
            self._one_by_one(state, messages[at : run.place], output)
            self._together(state, run, messages[run.place : end], output)
            at = end
        self._one_by_one(state, messages[at:], output)
        if state.source.closed is not None:
            output.gauge("closed", state.source.closed)
        return output

    def _one_by_one(self, state: DevicesState, messages: Sequence[Message], output: Output) -> None:
        """Take messages, whatever they are."""
        for message in messages:
            try:
                self._take(state, message, output)
            except BadRecord as bad:
                output.dead_letter(message.offset, 0, bad.reason)

    def _take(self, state: DevicesState, message: Message, output: Output) -> None:
        check_size(message.value)
        assert message.value is not None
        if message.value.startswith(ARROW):
            # a device sends one at a time: rows together would tell that they are one device's
            raise BadRecord(Reason.NOT_A_REPORT)
        found = decode_json(parse_json(message.value))
        if found is None:
            return  # a header
        if isinstance(found, Tick):
            self._timely(found.time, message)
            self._advance(state, found.time // self.slot_ms, message, output)
            return
        if not isinstance(found, Reports):
            raise BadRecord(Reason.NOT_A_REPORT)
        self._report(state, found, message, output)

    def _report(self, state: DevicesState, one: Reports, message: Message, output: Output) -> None:
        if one.fingerprint != self.fingerprint:
            raise BadRecord(Reason.FINGERPRINT)
        if not _of_a_device(one):
            raise BadRecord(Reason.WRONG_FIELDS)
        name, slot = one.ids.tobytes(), int(one.slots[0])
        if partition_of(name, self.partitions) != self.partition:
            raise BadRecord(Reason.PARTITION)
        if slot < 0:
            raise BadRecord(Reason.TIME)
        self._timely(slot * self.slot_ms, message)
        if self._count(state, one, [name], [message.offset], output):
            self._advance(state, slot, message, output)

    def _together(
        self, state: DevicesState, run: ReportRun, messages: Sequence[Message], output: Output
    ) -> None:
        """Take a run of single reports in stretches that close nothing and count as their messages
        would one by one.
        """
        if run.reports.fingerprint != self.fingerprint or not _of_a_device(run.reports):
            self._one_by_one(state, messages, output)
            return
        rows = DeviceRows.of(
            run.reports,
            Run.of(messages).timestamps.tolist(),
            self.partition,
            self.partitions,
            self.slot_ms,
            self.max_ahead_ms,
        )
        waiting = [(0, len(run))]
        while waiting:
            start, stop = waiting.pop()
            end = self._stretch(state, rows, start, stop)
            if end < stop:
                waiting.append((max(end, start + 1), stop))
            if end - start < 2:  # one that closes something, or is to be read with care
                self._one_by_one(state, messages[start : start + 1], output)
                continue
            offsets = Run.of(messages[start:end]).offsets.tolist()
            try:
                counted = self._count(
                    state, run.part(start, end).reports, rows.names[start:end], offsets, output
                )
            except BadRecord:  # before anything was changed
                half = (start + end) // 2
                waiting += [(half, end), (start, half)]
                continue
            if counted:
                told = int(rows.told[start:end][counted].max())
                state.watermark = max(state.watermark, told * self.slot_ms)

    def _stretch(self, state: DevicesState, rows: DeviceRows, start: int, stop: int) -> int:
        """Before which row those from ``start`` on lie in this partition, are in time by the
        broker's clock, and close nothing.
        """
        closed = self._all_closed(state)
        if closed is None:
            return start
        part = slice(start, stop)
        plain = (
            rows.at_home[part]
            & (rows.slots[part] <= rows.latest[part])
            & (rows.told[part] <= closed + 1 + self._behind)
        )
        return stop if plain.all() else start + int(plain.argmin())

    def _count(
        self,
        state: DevicesState,
        batch: Reports,
        names: Sequence[bytes],
        offsets: Sequence[int],
        output: Output,
    ) -> list[int]:
        """Count reports of a message each, in their order; which of them count, and are no
        repetitions. BadRecord where any is refused: before anything is changed.
        """
        counting, source = self._counted(state, batch)
        whole = dict(counting.supports(source, batch, singles=True))
        ats = {at.slot: at for at in whole}
        slots, counted, added = batch.slots.tolist(), [], dict[PartOf, list[int]]()
        for row, (slot, name, what) in enumerate(zip(slots, names, said(batch), strict=True)):
            mine = PartOf.of(*ats[slot], name)
            known = self._known(state, mine, name)
            if known is not None and known.offset < offsets[row]:
                second = known.said != what
                output.count("second_reports" if second else "repeated")
                seen = source.sums.second_reports
                source.sums.second_reports = seen.and_of(int(second), slot)
                continue
            counted.append(row)
            if known is None:  # else the part was written down ahead of the rest
                if mine not in added:
                    added[mine] = []
                    nothing = [0] * len(whole[ats[slot]])
                    state.parts.setdefault(mine, Part(nothing))
                    source.sums.add(ats[slot], nothing)  # it is known from here on
                state.parts[mine].ids[name] = Counted(offsets[row], what)
                added[mine].append(row)
        for mine, rows in added.items():
            at, part = ats[mine.slot], state.parts[mine]
            if len(rows) == len(names):
                support = whole[at]
            else:
                [(_, support)] = counting.supports(source, batch.take(np.array(rows)))
            part.sums = [a + b for a, b in zip(part.sums, support, strict=True)]
            source.sums.add(at, support)
            source.sums.see(at, [names[row].hex() for row in rows])
            state.touched.add(mine)
        if counted:
            first = min(slots[row] for row in counted)
            source.first = first if source.first is None else min(source.first, first)
            some = batch if len(counted) == len(names) else batch.take(np.array(counted))
            output.count("reports", len(counted))
            places = np.array(offsets)[counted]
            counting.release(source, some, places, output, singles=True)
        return counted

    def _counted(self, state: DevicesState, batch: Reports) -> tuple[Counting, SourceState]:
        """How reports count, and where. BadRecord where they cannot."""
        del batch
        return self._counting, state.source

    def _all_closed(self, state: DevicesState) -> int | None:
        """The slot through which all is closed that closes with it."""
        return state.source.closed

    @cached_property
    def _behind(self) -> int:
        """Slots that the last closed one is behind the one before that of the watermark."""
        return self.lateness + self.method.delay

    def _known(self, state: DevicesState, mine: PartOf, name: bytes) -> Counted | None:
        """When the report of this id counted."""
        part = state.parts.get(mine)
        return None if part is None else part.ids.get(name)

    def _timely(self, time: int, message: Message) -> None:
        """BadRecord where ``time`` is more than max_ahead after the record's own timestamp."""
        if 0 <= message.timestamp < time - self.max_ahead_ms:
            raise BadRecord(Reason.AHEAD)

    def _advance(self, state: DevicesState, slot: int, message: Message, output: Output) -> None:
        """Close what is over, now that ``slot`` has begun; by the record's own
        timestamp at most.
        """
        if message.timestamp >= 0:
            slot = min(slot, message.timestamp // self.slot_ms)
        state.watermark = max(state.watermark, slot * self.slot_ms)
        self._close(state, slot - 1 - self._behind, output)

    def _close(self, state: DevicesState, through: int, output: Output) -> None:
        """Close slots up to this one, where they are open."""
        if state.source.closed is not None and through <= state.source.closed:
            return
        self._counting.close(state.source, through, output)
        self._end(state, [part for part in state.parts if part.slot <= through])

    def _end(self, state: DevicesState, parts: Iterable[PartOf]) -> None:
        """Let go of parts of slots that are closed."""
        for part in parts:
            del state.parts[part]
            state.touched.add(part)

    def dirty(self, state: DevicesState) -> set[str]:
        state.source.sums.dirty()  # they follow from the parts
        found = {part.shard for part in state.touched}
        state.touched.clear()
        return found | state.source.latest.dirty()

    def shards_of(self, state: DevicesState) -> set[str]:
        return {part.shard for part in state.parts} | state.source.latest.names()

    def dump(self, state: DevicesState, shards: Iterable[str]) -> dict[str, bytes]:
        wanted = set(shards)
        found = {at.shard: part.written() for at, part in state.parts.items() if at.shard in wanted}
        return found | state.source.latest.dump(wanted)

    def watermark(self, state: DevicesState) -> int:
        return state.watermark

    def meta(self, state: DevicesState) -> dict[str, Any]:
        return {"form": _FORM, "watermark": state.watermark, **state.source.meta()}

    def load(
        self, meta: Mapping[str, Any], shards: Mapping[str, tuple[int, bytes]]
    ) -> DevicesState:
        if meta.get("form") != _FORM:
            raise StateError(
                "the changelog's state has its reports in other shards: it was written by another"
                " version; go on with that one, or give the topology a new name"
            )
        state = self._begun(meta)
        state.source.latest.load(shards)
        for name, (_, payload) in without(shards).items():
            at, part = PartOf.named(name), Part.read(payload)
            state.parts[at] = part
            sums = self._source(state, at).sums
            sums.add(At(at.slot, at.phase), part.sums)
            sums.see(At(at.slot, at.phase), [each.hex() for each in nsmallest(KEPT, part.ids)])
        return state

    def _begun(self, meta: Mapping[str, Any]) -> DevicesState:
        """The state without its parts."""
        source = SourceState.load(meta, SlotSums(1), self._counting.latest())
        return DevicesState(source, watermark=meta["watermark"])

    def _source(self, state: DevicesState, part: PartOf) -> SourceState:
        """Where a part counts."""
        del part
        return state.source

    def look(self, meta: Mapping[str, Any], shards: Mapping[str, bytes]) -> Look:
        """The slots that are open, and that every report lies in its own part, in its own
        partition, and has been summed.
        """
        found = Look(watermark=None if meta["watermark"] < 0 else meta["watermark"], slots=0)
        found.closed = meta["closed"]
        if meta.get("form") != _FORM:
            found.problems.append(("shards", "the state's parts are those of another version"))
            return found
        found = look_at_parts(
            found,
            without(shards),
            lambda name: partition_of(name, self.partitions) == self.partition,
            lambda part: self._closed(meta, part),
        )
        return self._counting.latest().look(found, shards)

    def _closed(self, meta: Mapping[str, Any], part: PartOf) -> int | None:
        """The last slot that is closed for a part of this kind."""
        del part
        closed: int | None = meta["closed"]
        return closed


def _of_a_device(batch: Reports) -> bool:
    """Whether they have no place in a log of the edge's."""
    return (batch.bound, batch.chunk, batch.closed) == (-1, 0, None)


def make_collect_devices(
    topology: Topology, partition: int, randomness: EdgeNoise | None = None
) -> CollectDevices:
    """The collect stage of one partition of the devices' reports; its number is the source's too,
    for the merger.
    """
    del randomness  # it draws nothing
    source = topology.input
    return CollectDevices(
        method=topology.method,
        topic=topology.reports_topic,
        partials_topic=topology.partials_topic,
        dead_letters_topic=topology.collector_dead_letters_topic,
        partition=partition,
        fingerprint=topology.fingerprint,
        layout=topology.layout,
        publisher=publisher(topology),
        source=partition,
        partitions=source.partitions,
        slot_ms=source.slot_ms,
        lateness=source.lateness,
        max_ahead_ms=source.max_ahead_ms,
    )
