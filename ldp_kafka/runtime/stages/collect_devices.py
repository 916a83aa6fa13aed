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

Where a coordinator asks, slots have two phases. Nobody can say when all devices have answered its
request: the second phase closes when ``hold`` slots more have begun, by the same watermark, and the
broker's clock holds it back as well. Devices let go of a value by the same rule, so that what is
spent after it is rare: a device that reads its requests late. It is a dead letter, as any report of
a closed slot. Slots are decided one after the other, and a slot that was asked waits until its
second phase is closed. So where every slot is asked, each has one slot's time for its answers,
whatever ``hold``; where few are, those have ``hold``.

What a report costs is the sender's word, as is all of it. The sums of each cost are kept apart, and
the coordinator reads those of what it has asked: reports of another cost count for nothing. Of one
slot there are `COSTS` of them at most, so that nobody fills the collector's memory with them;
a sender of `COSTS` different costs bars the others, as a sender of many reports bends a mean.

Any device can send any report, as in every local model: what one device can do to a mean is bounded
by the mechanism's range, and by how many ids it is let in with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from heapq import nsmallest
from typing import Any, ClassVar, TypeVar

import numpy as np

from ldp_kafka.errors import BadRecord, Reason, StateError
from ldp_kafka.methods import Method
from ldp_kafka.methods.protocols import Responder
from ldp_kafka.methods.protocols.request import FIRST, SECOND
from ldp_kafka.records import KEPT, Reports, Tick
from ldp_kafka.runtime.keys import EdgeNoise
from ldp_kafka.runtime.log import Look, Message, Output
from ldp_kafka.runtime.runs import Run
from ldp_kafka.runtime.stages.counting import (
    COUNTS,
    Counting,
    SourceState,
    meta_of,
    of_phases,
    told_of,
)
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

__all__ = ["COSTS", "CollectDevices", "DevicesState", "make_collect_devices", "partition_of"]

_FORM = 2  # of the state
FEW = 4  # messages, up to which columns cost more than they save
COSTS = 64  # that reports of one slot's second phase may have
T = TypeVar("T")


@dataclass
class DevicesState:
    """What the collector knows of one partition; ``phases`` have the sums over all parts of a
    slot.
    """

    phases: list[SourceState]
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
    hold : slots that the second phase of a slot is open for after the first

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
    hold: int = 1

    @cached_property
    def _phases(self) -> tuple[Counting, ...]:
        return of_phases(self.method, self.partials_topic, self.source, self.publisher)

    def fresh(self) -> DevicesState:
        return DevicesState([each.fresh(SlotSums(1)) for each in self._phases])

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
        closed = state.phases[FIRST].closed
        if closed is not None:
            output.gauge("closed", closed)
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
        at = min(batch.phase, len(self._phases) - 1)
        source = state.phases[at]
        if at != FIRST:
            if not (isinstance(self.method, Responder) and self.method.askable(batch.cost)):
                raise BadRecord(Reason.WRONG_FIELDS)
            # after a crash the same are refused: of parts that are there ahead of the rest, all
            # costs are among the first that came
            for slot in set(batch.slots.tolist()):
                costs = source.sums.open.get(slot, {})
                if batch.cost not in costs and len(costs) >= COSTS:
                    raise BadRecord(Reason.WRONG_FIELDS)
        return self._phases[at], source

    def _all_closed(self, state: DevicesState) -> int | None:
        """The slot through which all is closed that closes with it."""
        told = zip(state.phases, (0, self.hold), strict=False)
        closed = [None if phase.closed is None else phase.closed + hold for phase, hold in told]
        known = [each for each in closed if each is not None]
        return min(known) if len(known) == len(closed) else None

    @cached_property
    def _behind(self) -> int:
        """Slots that the last closed one is behind the one before that of the watermark."""
        return self.lateness + self.method.delay

    def _known(self, state: DevicesState, mine: PartOf, name: bytes) -> Counted | None:
        """When the report of this id counted; in the second phase under any cost, since a user has
        one report of it.
        """
        places: Iterable[PartOf] = (mine,)
        if mine.phase != FIRST and len(state.phases) > 1:
            costs = state.phases[SECOND].sums.open.get(mine.slot, {})
            places = (mine._replace(phase=cost) for cost in costs)
        for place in places:
            part = state.parts.get(place)
            if part is not None and name in part.ids:
                return part.ids[name]
        return None

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
        """Close slots up to this one, where they are open, and the second phases that are over."""
        ends = (through, through - self.hold)
        for counting, phase, end in zip(self._phases, state.phases, ends, strict=False):
            if phase.closes(end):
                counting.close(phase, end, output)
                self._end(state, [it for it in state.parts if self._over(state, it)])

    def _over(self, state: DevicesState, part: PartOf) -> bool:
        closed = self._phase(state.phases, part).closed
        return closed is not None and part.slot <= closed

    def _phase(self, phases: Sequence[T], part: PartOf) -> T:
        """That one a part is of; of the second, what its reports cost stands for the phase."""
        return phases[min(part.phase, len(phases) - 1)]

    def _end(self, state: DevicesState, parts: Iterable[PartOf]) -> None:
        """Let go of parts of slots that are closed."""
        for part in parts:
            del state.parts[part]
            state.touched.add(part)

    def dirty(self, state: DevicesState) -> set[str]:
        for phase in state.phases:
            phase.sums.dirty()  # they follow from the parts
        found = {part.shard for part in state.touched}
        state.touched.clear()
        return found | state.phases[FIRST].latest.dirty()

    def shards_of(self, state: DevicesState) -> set[str]:
        return {part.shard for part in state.parts} | state.phases[FIRST].latest.names()

    def dump(self, state: DevicesState, shards: Iterable[str]) -> dict[str, bytes]:
        wanted = set(shards)
        found = {at.shard: part.written() for at, part in state.parts.items() if at.shard in wanted}
        return found | state.phases[FIRST].latest.dump(wanted)

    def watermark(self, state: DevicesState) -> int:
        return state.watermark

    def meta(self, state: DevicesState) -> dict[str, Any]:
        return {"form": _FORM, "watermark": state.watermark, **meta_of(state.phases)}

    def load(
        self, meta: Mapping[str, Any], shards: Mapping[str, tuple[int, bytes]]
    ) -> DevicesState:
        if meta.get("form") != _FORM:
            raise StateError(
                "the changelog's state has its reports in other shards: it was written by another"
                " version; go on with that one, or give the topology a new name"
            )
        phases = [
            SourceState.load(told, SlotSums(1), self._phases[FIRST].latest())
            for told in told_of(meta, len(self._phases))
        ]
        state = DevicesState(phases, watermark=meta["watermark"])
        phases[FIRST].latest.load(shards)
        for name, (_, payload) in without(shards).items():
            at, part = PartOf.named(name), Part.read(payload)
            state.parts[at] = part
            sums = self._phase(phases, at).sums
            sums.add(At(at.slot, at.phase), part.sums)
            sums.see(At(at.slot, at.phase), [each.hex() for each in nsmallest(KEPT, part.ids)])
        return state

    def look(self, meta: Mapping[str, Any], shards: Mapping[str, bytes]) -> Look:
        """The slots that are open, and that every report lies in its own part, in its own
        partition, and has been summed.
        """
        found = Look(watermark=None if meta["watermark"] < 0 else meta["watermark"], slots=0)
        found.closed = meta["closed"]
        if meta.get("form") != _FORM:
            found.problems.append(("shards", "the state's parts are those of another version"))
            return found
        closed = [told["closed"] for told in told_of(meta, len(self._phases))]
        found = look_at_parts(
            found,
            without(shards),
            lambda name: partition_of(name, self.partitions) == self.partition,
            lambda part: self._phase(closed, part),
        )
        return self._phases[FIRST].latest().look(found, shards)


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
        hold=source.hold,
    )
