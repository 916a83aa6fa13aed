"""The collector's fold: report batches in, partials and releases per user out. It sees
perturbed reports only: no privacy guarantee rests on it.

A batch counts iff its (bound, chunk) comes after the last one of its source; ``closed`` is the
edge's and is followed, never decided here. When it passes a slot, what the source has of the slot
goes to the merger; runs of slots without reports go as one partial.

Where a coordinator asks, slots have two phases, which close by themselves. The first phase of a
slot is closed as the edge closes slots, the second when the edge says that the slot is settled: its
request was answered, or none can come any more. Reports of the second phase cost what their request
said; those of each cost are summed by themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from ldp_kafka.errors import BadRecord, Reason
from ldp_kafka.methods import Method
from ldp_kafka.methods.protocols.request import FIRST
from ldp_kafka.records import KEPT, Reports, hexadecimal
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
from ldp_kafka.runtime.stages.keyed import UnkeyedStage
from ldp_kafka.runtime.stages.lanes import joined, looked, named, split
from ldp_kafka.runtime.stages.latest import without
from ldp_kafka.runtime.stages.releases import Publisher, publisher
from ldp_kafka.runtime.stages.slot_sums import SlotSums, look_at_sums
from ldp_kafka.runtime.wire.dead_letters import DeadLetters
from ldp_kafka.runtime.wire.report_columns import ReportRun, read_plain_reports
from ldp_kafka.runtime.wire.reports import read_reports
from ldp_kafka.topology import Topology

__all__ = ["Collect", "CollectState", "make_collect"]


@dataclass
class CollectState:
    """What the collector knows of one source, phase by phase."""

    phases: list[SourceState]
    last: tuple[int, int] = (-1, -1)
    """(bound, chunk) of the last batch that counted."""


@dataclass(frozen=True)
class Collect(UnkeyedStage):
    """The collect stage of one source.

    Parameters
    ----------
    method : whose reports they are
    publisher : has the topology's statistics, and makes the releases of single reports
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

    @cached_property
    def _phases(self) -> tuple[Counting, ...]:
        return of_phases(self.method, self.partials_topic, self.partition, self.publisher)

    @cached_property
    def size(self) -> int:
        """Slots in a slot shard of the state."""
        return self._phases[FIRST].slots_in_a_shard

    def fresh(self) -> CollectState:
        return CollectState([each.fresh(SlotSums(self.size)) for each in self._phases])

    def fold(self, state: CollectState, messages: Sequence[Message]) -> Output:
        """Partials of consecutive messages."""
        output = Output(DeadLetters(self.dead_letters_topic, self.topic, self.partition), COUNTS)
        at = 0
        for run in read_plain_reports([value or b"" for value in Run.of(messages).values]):
            self._one_by_one(state, messages[at : run.place], output)
            self._together(state, run, messages, output)
            at = run.place + len(run)
        self._one_by_one(state, messages[at:], output)
        closed = state.phases[FIRST].closed
        if closed is not None:
            output.gauge("closed", closed)
        return output

    def _one_by_one(self, state: CollectState, messages: Sequence[Message], output: Output) -> None:
        """Take messages, whatever they are."""
        for message in messages:
            try:
                batch = read_reports(message.value or b"")
                if batch is not None:
                    self._count(state, batch, message.offset, output)
            except BadRecord as bad:
                output.dead_letter(message.offset, 0, bad.reason)

    def _together(
        self, state: CollectState, run: ReportRun, messages: Sequence[Message], output: Output
    ) -> None:
        """Take a run of single reports in parts that count as their messages would one by one."""
        waiting = [(0, len(run))]
        while waiting:
            start, stop = waiting.pop()
            offset = messages[run.place + start].offset
            if stop - start > 1 and self._is_special(state, run, start, offset):
                waiting += [(start + 1, stop), (start, start + 1)]
                continue
            try:
                self._count(state, run.part(start, stop).reports, offset, output, singles=True)
            except BadRecord as bad:  # before anything was changed
                if stop - start == 1:
                    output.dead_letter(offset, 0, bad.reason)
                else:
                    half = (start + stop) // 2
                    waiting += [(half, stop), (start, half)]

    def _is_special(self, state: CollectState, run: ReportRun, at: int, offset: int) -> bool:
        """Whether a report of a run, in the message at ``offset``, may do more than count: repeat
        another, close slots, or be known to a slot shard that is ahead. What comes after it then
        depends on whether it counts.
        """
        _, source = self._counted(state, run.reports)
        return (
            run.source(at) <= state.last
            or self._closes(state, run.reports)
            or offset <= source.ahead
        )

    def _count(
        self,
        state: CollectState,
        batch: Reports,
        offset: int,
        output: Output,
        *,
        singles: bool = False,
    ) -> None:
        """Count the reports of a message, or (``singles``) of one message each, in their order."""
        if batch.fingerprint != self.fingerprint:
            raise BadRecord(Reason.FINGERPRINT)
        if (batch.bound, batch.chunk) <= state.last:
            if batch.bound < state.last[0] and state.phases[FIRST].closes(batch.closed):
                # a replay closes nothing new: the raw log was begun anew under the same name
                raise BadRecord(Reason.RESTARTED)
            output.count("repeated")
            return
        counting, source = self._counted(state, batch)
        # may refuse it: before anything is changed
        found = counting.supports(source, batch, singles=singles)
        state.last = (batch.bound, batch.chunk)
        for at, support in found:
            source.first = at.slot if source.first is None else min(source.first, at.slot)
            if source.sums.takes(at.slot, offset):
                source.sums.add(at, support)
                mine = batch.ids if len(found) == 1 else batch.ids[batch.slots == at.slot]
                if not singles:
                    mine = mine[:KEPT]  # a message's rows come in the order of their ids
                second = source.sums.see(at, hexadecimal(mine), singles=singles)
                output.count("second_reports", second)
        output.count("reports", len(batch))
        counting.release(source, batch, offset, output, singles=singles)
        self._close(state, batch, output)

    def _counted(self, state: CollectState, batch: Reports) -> tuple[Counting, SourceState]:
        """How the reports of a batch count, and where."""
        at = min(batch.phase, len(self._phases) - 1)
        return self._phases[at], state.phases[at]

    def _closes(self, state: CollectState, batch: Reports) -> bool:
        """Whether it says that more is closed."""
        told = zip(state.phases, (batch.closed, batch.settled), strict=False)
        return any(phase.closes(through) for phase, through in told)

    def _close(self, state: CollectState, batch: Reports, output: Output) -> None:
        """Hand over what a batch says is closed."""
        told = zip(self._phases, state.phases, (batch.closed, batch.settled), strict=False)
        for counting, phase, through in told:
            if through is not None:
                counting.close(phase, through, output)

    def dirty(self, state: CollectState) -> set[str]:
        return joined((it.sums.dirty() | it.latest.dirty() for it in state.phases), alone=True)

    def shards_of(self, state: CollectState) -> set[str]:
        return joined((it.sums.shards() | it.latest.names() for it in state.phases), alone=True)

    def dump(self, state: CollectState, shards: Iterable[str]) -> dict[str, bytes]:
        wanted = split([(name, None) for name in shards], len(self._phases), alone=True)
        found = (
            each.sums.dump(mine) | each.latest.dump(mine)
            for each, mine in zip(state.phases, wanted, strict=True)
        )
        return named(found, alone=True)

    def meta(self, state: CollectState) -> dict[str, Any]:
        return {"last": list(state.last), "slots": self.size, **meta_of(state.phases)}

    def load(
        self, meta: Mapping[str, Any], shards: Mapping[str, tuple[int, bytes]]
    ) -> CollectState:
        told, phases = told_of(meta, len(self._phases)), []
        for said, mine in zip(told, split(shards.items(), len(told), alone=True), strict=True):
            sums = SlotSums.load(self.size, said["closed"], meta.get("slots"), without(mine))
            phases.append(SourceState.load(said, sums, self._phases[FIRST].latest()))
            phases[-1].latest.load(mine)
        return CollectState(phases, tuple(meta["last"]))

    def look(self, meta: Mapping[str, Any], shards: Mapping[str, bytes]) -> Look:
        """The slots that wait, and those that are kept beside them, of each phase."""
        phases = split(shards.items(), len(self._phases), alone=True)
        found = looked(look_at_sums(self.size, meta.get("slots"), without(it)) for it in phases)
        found.closed = meta["closed"]
        return self._phases[FIRST].latest().look(found, shards)


def make_collect(
    topology: Topology, partition: int, randomness: EdgeNoise | None = None
) -> Collect:
    """The collect stage of one partition of the edge's reports."""
    del randomness  # it draws nothing
    return Collect(
        topology.method,
        topology.reports_topic,
        topology.partials_topic,
        topology.collector_dead_letters_topic,
        partition,
        topology.fingerprint,
        topology.layout,
        publisher(topology),
    )
