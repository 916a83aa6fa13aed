"""The merger's fold where a coordinator decides: partials of all sources in, merged sums of each
phase of a slot out, each phase in the order of its slots.

Of the first phase every slot comes, as slots are released elsewhere. Of the second come the slots
with reports, and then how far it is closed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, ClassVar

from ldp_kafka.errors import BadRecord, Reason
from ldp_kafka.methods import Method
from ldp_kafka.methods.protocols.request import FIRST, SECOND
from ldp_kafka.records import Partial, Sums
from ldp_kafka.runtime.keys import EdgeNoise
from ldp_kafka.runtime.log import Look, Message, Output, Record
from ldp_kafka.runtime.stages.keyed import UnkeyedStage
from ldp_kafka.runtime.stages.lanes import joined, looked, named, split
from ldp_kafka.runtime.stages.merge import Merge, MergeState, Phases
from ldp_kafka.runtime.stages.slot_sums import look_at_sums
from ldp_kafka.runtime.wire.arrow import check_size
from ldp_kafka.runtime.wire.dead_letters import DeadLetters
from ldp_kafka.runtime.wire.parsing import parse_json
from ldp_kafka.runtime.wire.records import decode_json, encode_json
from ldp_kafka.topology import Topology

__all__ = ["MergePhases", "PhasesState", "make_merge_phases"]

COUNTS = ("repeated", "second_reports")


@dataclass
class PhasesState:
    """What the merger knows of each phase."""

    lanes: list[MergeState] = field(default_factory=list)


class MergeFirst(Merge):
    """The first phase: of a long run of slots without reports only the last one is told."""

    def _emit(self, state: MergeState, output: Output) -> None:
        before, told = state.released, None
        for slot, sums in self._complete(state):
            output.send(*self._released(state, slot, sums))
            told = slot
        now, first = state.released, state.first
        if first is not None and now is not None and now >= first and now not in (before, told):
            output.send(*self._released(state, now, {}))


class MergeSecond(Merge):
    """The second phase: slots without reports are told by how far it is closed."""

    def _emit(self, state: MergeState, output: Output) -> None:
        before = state.released
        for slot, sums in self._complete(state):
            output.send(*self._released(state, slot, sums))
        if state.released is not None and state.released != before:
            output.send(*self._released(state, state.released, {}))

    def _complete(self, state: MergeState) -> Iterable[tuple[int, dict[int, list[int]]]]:
        if len(state.closed) < self.sources:
            return
        through = min(state.closed.values())
        for slot in state.sums.waiting(through):
            state.released = slot
            yield slot, {cost: held.sums for cost, held in state.sums.close(slot).items()}
        state.released = through if state.released is None else max(through, state.released)
        state.sums.end(state.released)


@dataclass(frozen=True)
class MergePhases(UnkeyedStage):
    """The merge stage of a topology with a coordinator.

    Parameters
    ----------
    sources : partitions that reports come from; a slot waits for all of them
    method : whose reports were summed
    """

    oversize: ClassVar[str] = Merge.oversize

    sources: int
    method: Method
    topic: str
    sums_topic: str
    dead_letters_topic: str
    fingerprint: str
    layout: str
    partition: int = 0

    @cached_property
    def _lanes(self) -> Sequence[Merge]:
        """Of each phase; in the sums of the second, what reports cost stands for the phase."""
        width = len(self.method.support(self.method.blank(0)))
        common = (self.topic, self.dead_letters_topic, self.fingerprint, self.layout)
        lanes = ((MergeFirst, self._first), (MergeSecond, self._second))
        first, second = (
            lane(self.sources, width, told, *common, twice=(partial(told, twice=True), None))
            for lane, told in lanes
        )
        return (first, second)[: self.method.phases]

    def _first(
        self, slot: int, sums: Phases, earlier: Mapping[int, Phases], *, twice: bool = False
    ) -> list[Record]:
        del earlier
        return [self._record(slot, FIRST, 0, sums.get(FIRST), twice)]

    def _second(
        self, slot: int, sums: Phases, earlier: Mapping[int, Phases], *, twice: bool = False
    ) -> list[Record]:
        """Of each cost that reports of the slot had: of honest edges there is one."""
        del earlier
        told = [self._record(slot, SECOND, cost, each, twice) for cost, each in sums.items()]
        return told or [self._record(slot, SECOND, 0, None, twice)]

    def _record(
        self, slot: int, phase: int, cost: int, support: Sequence[int] | None, twice: bool
    ) -> Record:
        sums = Sums(slot, phase, cost, None if support is None else tuple(support), twice)
        return Record(self.sums_topic, 0, f"{slot}/{phase}".encode(), encode_json(sums))

    def fresh(self) -> PhasesState:
        return PhasesState([lane.fresh() for lane in self._lanes])

    def fold(self, state: PhasesState, messages: Sequence[Message]) -> Output:
        """Merged sums that consecutive partials complete."""
        output = Output(DeadLetters(self.dead_letters_topic, self.topic, self.partition), COUNTS)
        for message in messages:
            try:
                partial = self._read(message)
            except BadRecord as bad:
                output.dead_letter(message.offset, 0, bad.reason)
                continue
            if partial is None:
                continue
            if partial.phase == SECOND:
                lane, partial = SECOND, replace(partial, phase=partial.cost)
            else:
                lane = FIRST
            self._lanes[lane].add(state.lanes[lane], partial, message.offset, output)
        return output

    def _read(self, message: Message) -> Partial | None:
        """The partial of one of our sources; None for a header."""
        check_size(message.value)
        partial = decode_json(parse_json(message.value or b""))
        if partial is None:
            return None
        if not isinstance(partial, Partial) or not 0 <= partial.source < self.sources:
            raise BadRecord(Reason.NOT_A_RECORD)
        empty = partial.support is None
        form = self.method.form(partial.phase, 0 if empty else partial.cost)
        if empty and partial.phase < self.method.phases:
            return partial
        if form is None or len(form.support(form.blank(0))) != len(partial.support or ()):
            raise BadRecord(Reason.WRONG_FIELDS)
        return partial

    def dirty(self, state: PhasesState) -> set[str]:
        return joined(each.sums.dirty() for each in state.lanes)

    def shards_of(self, state: PhasesState) -> set[str]:
        return joined(each.sums.shards() for each in state.lanes)

    def dump(self, state: PhasesState, shards: Iterable[str]) -> dict[str, bytes]:
        wanted = split([(name, None) for name in shards], len(self._lanes))
        whole = zip(state.lanes, wanted, strict=True)
        return named(each.sums.dump(mine) for each, mine in whole)

    def meta(self, state: PhasesState) -> dict[str, Any]:
        lanes = zip(self._lanes, state.lanes, strict=True)
        return {"lanes": [lane.meta(each) for lane, each in lanes]}

    def load(self, meta: Mapping[str, Any], shards: Mapping[str, tuple[int, bytes]]) -> PhasesState:
        mine = split(shards.items(), len(self._lanes))
        told = zip(self._lanes, meta["lanes"], mine, strict=True)
        return PhasesState([lane.load(said, held) for lane, said, held in told])

    def look(self, meta: Mapping[str, Any], shards: Mapping[str, bytes]) -> Look:
        """The slots that wait, and those that are kept beside them, of each phase."""
        mine = split(shards.items(), len(self._lanes))
        told = zip(self._lanes, meta["lanes"], mine, strict=True)
        found = looked(
            look_at_sums(lane.size, said.get("slots"), held) for lane, said, held in told
        )
        found.closed = meta["lanes"][FIRST]["released"]
        return found


def make_merge_phases(
    topology: Topology, partition: int = 0, randomness: EdgeNoise | None = None
) -> MergePhases:
    """The merge stage; its log has one partition."""
    del partition, randomness  # there is no other, and it draws nothing
    return MergePhases(
        topology.input.partitions,
        topology.method,
        topology.partials_topic,
        topology.sums_topic,
        topology.collector_dead_letters_topic,
        topology.fingerprint,
        topology.layout,
    )
