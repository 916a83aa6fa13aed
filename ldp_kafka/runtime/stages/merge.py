"""The merger's fold: partials of all sources in, what becomes of complete slots out: one release a
slot, or sums of each of its phases where a coordinator decides.

It has one partition, so both come in the order of their slots.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, TypeVar

from ldp_kafka.errors import BadRecord, Reason
from ldp_kafka.methods.protocols import Coordinator
from ldp_kafka.methods.protocols.request import FIRST
from ldp_kafka.records import KEPT, Partial
from ldp_kafka.runtime.keys import EdgeNoise
from ldp_kafka.runtime.log import Look, Message, Output
from ldp_kafka.runtime.stages.complete import HELD, Complete
from ldp_kafka.runtime.stages.destinations import Destination, destination
from ldp_kafka.runtime.stages.keyed import UnkeyedStage
from ldp_kafka.runtime.stages.lanes import joined, looked, named, split
from ldp_kafka.runtime.stages.slot_sums import At, SlotSums, look_at_sums, slots_in_a_shard
from ldp_kafka.runtime.wire.arrow import check_size
from ldp_kafka.runtime.wire.dead_letters import DeadLetters
from ldp_kafka.runtime.wire.parsing import parse_json
from ldp_kafka.runtime.wire.records import decode_json
from ldp_kafka.topology import Topology

__all__ = ["Merge", "MergeState", "make_merge"]

COUNTS = ("repeated", "second_reports")
T = TypeVar("T")


@dataclass
class MergeState:
    """What the merger knows of one topology, phase by phase."""

    phases: list[Complete]
    coordinator: Coordinator | None
    """What is known of the releases so far, where they are processed."""


@dataclass(frozen=True)
class Merge(UnkeyedStage):
    """The merge stage of one topology.

    Parameters
    ----------
    sources : partitions of the raw topic; a slot waits for all of them
    destination : what becomes of slots
    """

    oversize: ClassVar[str] = "too many slots wait for a partition without events"

    sources: int
    destination: Destination
    topic: str
    dead_letters_topic: str
    fingerprint: str
    layout: str
    partition: int = 0

    @cached_property
    def size(self) -> int:
        """Slots in a slot shard of the state."""
        return slots_in_a_shard(self.destination.width, min(HELD, KEPT * self.sources))

    @property
    def _alone(self) -> bool:
        """Whether all phases of a slot are one."""
        return self.destination.phases is None

    @property
    def _phases(self) -> int:
        return self.destination.phases or 1

    def fresh(self) -> MergeState:
        phases = [Complete(SlotSums(self.size)) for _ in range(self._phases)]
        return MergeState(phases, self.destination.fresh())

    def fold(self, state: MergeState, messages: Sequence[Message]) -> Output:
        """What becomes of slots that consecutive partials complete."""
        letters = DeadLetters(self.dead_letters_topic, self.topic, self.partition)
        output = Output(letters, (*self.destination.counts, *COUNTS))
        for message in messages:
            try:
                found = self._read(message)
            except BadRecord as bad:
                output.dead_letter(message.offset, 0, bad.reason)
                continue
            if found is not None:
                self._add(state, *found, message.offset, output)
        released = state.phases[FIRST].released
        if self._alone and released is not None:
            output.gauge("released", released)
        return output

    def _read(self, message: Message) -> tuple[Partial, int, At] | None:
        """The partial of one of our sources, in which phase it counts, and as what; None for a
        header.
        """
        check_size(message.value)
        partial = decode_json(parse_json(message.value or b""))
        if partial is None:
            return None
        if not isinstance(partial, Partial) or not 0 <= partial.source < self.sources:
            raise BadRecord(Reason.NOT_A_RECORD)
        placed = self.destination.place(partial)
        if placed is None:
            raise BadRecord(Reason.WRONG_FIELDS)
        return partial, *placed

    def _add(
        self, state: MergeState, partial: Partial, phase: int, at: At, offset: int, output: Output
    ) -> None:
        """Take in one source's partial, and hand on what it completes."""
        second = state.phases[phase].take(partial, at, offset)
        if second is None:
            output.count("repeated")
            return
        output.count("second_reports", second)
        made = self.destination.made(state.coordinator, phase, state.phases[phase], self.sources)
        for name in self.destination.counts:
            output.count(name, len(made))
        output.send(*made)

    def dirty(self, state: MergeState) -> set[str]:
        return joined((each.sums.dirty() for each in state.phases), alone=self._alone)

    def shards_of(self, state: MergeState) -> set[str]:
        return joined((each.sums.shards() for each in state.phases), alone=self._alone)

    def dump(self, state: MergeState, shards: Iterable[str]) -> dict[str, bytes]:
        wanted = split([(name, None) for name in shards], self._phases, alone=self._alone)
        whole = zip(state.phases, wanted, strict=True)
        return named((each.sums.dump(mine) for each, mine in whole), alone=self._alone)

    def meta(self, state: MergeState) -> dict[str, Any]:
        told = [each.meta() for each in state.phases]
        if not self._alone:
            return {"lanes": told}
        known = state.coordinator
        return told[FIRST] if known is None else {**told[FIRST], "coordinator": known.saved()}

    def load(self, meta: Mapping[str, Any], shards: Mapping[str, tuple[int, bytes]]) -> MergeState:
        told = zip(self._told(meta), self._split(shards), strict=True)
        phases = [Complete.load(self.size, said, held) for said, held in told]
        return MergeState(phases, self._known(meta))

    def look(self, meta: Mapping[str, Any], shards: Mapping[str, bytes]) -> Look:
        """The slots that wait, and those that are kept beside them, of each phase."""
        told = zip(self._told(meta), self._split(shards), strict=True)
        found = looked(look_at_sums(self.size, said.get("slots"), held) for said, held in told)
        found.closed = self._told(meta)[FIRST]["released"]
        try:
            self._known(meta)
        except (ValueError, TypeError, KeyError, AttributeError):
            found.complain("readable", 1, "state of what was released cannot be read")
        return found

    def _told(self, meta: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        """Of each phase what its own `meta` wrote."""
        return [meta] if self._alone else meta["lanes"]

    def _split(self, shards: Mapping[str, T]) -> Sequence[Mapping[str, T]]:
        """The shards of each phase."""
        return split(shards.items(), self._phases, alone=self._alone)

    def _known(self, meta: Mapping[str, Any]) -> Coordinator | None:
        """What is known of the releases so far."""
        known, saved = self.destination.fresh(), meta.get("coordinator")
        if known is not None and saved is not None:  # else nothing was processed before
            known.restore(dict(saved))
        return known


def make_merge(
    topology: Topology, partition: int = 0, randomness: EdgeNoise | None = None
) -> Merge:
    """The merge stage; its log has one partition."""
    del partition, randomness  # there is no other, and it draws nothing
    return Merge(
        topology.input.partitions,
        destination(topology),
        topology.partials_topic,
        topology.collector_dead_letters_topic,
        topology.fingerprint,
        topology.layout,
    )
