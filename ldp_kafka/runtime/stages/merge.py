"""The merger's fold: partials of all sources in, one release a slot out.

It has one partition, so releases come out in the order of their slots. A slot is released, all of
its phases together, when every source has closed it; sums are integers, so the order of partials
does not matter. Slots before the first one in which any source had a report are not released; empty
ones after it are, with null values, up to `EMPTY_RUN` in a row: a clock that was years behind must
not make millions of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

from ldp_kafka.errors import BadRecord, Reason
from ldp_kafka.methods.protocols import Coordinator
from ldp_kafka.records import KEPT, Partial
from ldp_kafka.runtime.keys import EdgeNoise
from ldp_kafka.runtime.log import Look, Message, Output, Record
from ldp_kafka.runtime.stages.keyed import UnkeyedStage
from ldp_kafka.runtime.stages.processed import Processed, processed
from ldp_kafka.runtime.stages.releases import publisher
from ldp_kafka.runtime.stages.slot_sums import At, SlotSums, look_at_sums, slots_in_a_shard
from ldp_kafka.runtime.wire.arrow import check_size
from ldp_kafka.runtime.wire.dead_letters import DeadLetters
from ldp_kafka.runtime.wire.parsing import parse_json
from ldp_kafka.runtime.wire.records import decode_json
from ldp_kafka.topology import Topology

__all__ = ["EMPTY_RUN", "MakeRelease", "Merge", "MergeState", "make_merge", "of_any_phase"]

EMPTY_RUN = 1000  # empty slots in a row that are released
HELD = 8192  # sampled ids of one slot, about: those of further sources are only compared with them
SAMPLED = 64  # latest slots whose sampled ids are kept
COUNTS = ("releases", "repeated", "second_reports")

Phases = Mapping[int, Sequence[int]]
"""The sums of each phase of a slot that had reports."""
MakeRelease = Callable[[int, Phases, Mapping[int, Phases]], list[Record]]
"""Makes the records of one slot from its sums, and those of slots before it."""


@dataclass
class MergeState:
    """What the merger knows of one topology."""

    sums: SlotSums
    closed: dict[int, int] = field(default_factory=dict)
    """Last closed slot of each source that was heard."""
    within: dict[int, At] = field(default_factory=dict)
    """Of a source that has not closed the slot that it told of last: how far it has come."""
    first: int | None = None
    """The first slot in which any source had a report."""
    released: int | None = None
    """Last slot that was released or passed over."""
    full: int | None = None
    """Last released slot that had reports."""
    coordinator: Coordinator | None = None
    """What is known of the releases so far, where they are processed."""


@dataclass(frozen=True)
class Merge(UnkeyedStage):
    """The merge stage of one topology.

    Parameters
    ----------
    sources : partitions of the raw topic; a release waits for all of them
    width : integers in a support
    release : makes the records of one slot; see `of_any_phase`
    processed : makes them where releases are processed; None: they are not
    twice : makes both once users were seen to report twice in a slot; None: as before
    looks_back : slots before its own whose sums ``release`` is given
    """

    oversize: ClassVar[str] = "too many slots wait for a partition without events"

    sources: int
    width: int
    release: MakeRelease
    topic: str
    dead_letters_topic: str
    fingerprint: str
    layout: str
    processed: Processed | None = None
    twice: tuple[MakeRelease, Processed | None] | None = None
    looks_back: int = 0
    partition: int = 0

    @cached_property
    def size(self) -> int:
        """Slots in a slot shard of the state."""
        return slots_in_a_shard(self.width, min(HELD, KEPT * self.sources))

    def fresh(self) -> MergeState:
        made = MergeState(SlotSums(self.size))
        if self.processed is not None:
            made.coordinator = self.processed.fresh()
        return made

    def fold(self, state: MergeState, messages: Sequence[Message]) -> Output:
        """Releases that consecutive partials complete."""
        output = Output(DeadLetters(self.dead_letters_topic, self.topic, self.partition), COUNTS)
        for message in messages:
            try:
                partial = self._read(message)
            except BadRecord as bad:
                output.dead_letter(message.offset, 0, bad.reason)
                continue
            if partial is not None:
                self.add(state, partial, message.offset, output)
        if state.released is not None:
            output.gauge("released", state.released)
        return output

    def _read(self, message: Message) -> Partial | None:
        """The partial of one of our sources; None for a header."""
        check_size(message.value)
        partial = decode_json(parse_json(message.value or b""))
        if partial is None:
            return None
        if not isinstance(partial, Partial) or not 0 <= partial.source < self.sources:
            raise BadRecord(Reason.NOT_A_RECORD)
        if partial.support is not None and len(partial.support) != self.width:
            raise BadRecord(Reason.WRONG_FIELDS)
        return partial

    def add(self, state: MergeState, partial: Partial, offset: int, output: Output) -> None:
        """Take in one source's partial, and release what it completes."""
        if not self._take(state, partial):
            output.count("repeated")
            return
        if partial.support is not None and state.sums.takes(partial.slot, offset):
            at = At(partial.slot, partial.phase)
            state.sums.add(at, partial.support)
            output.count("second_reports", self._see(state, at, partial.sample))
        self._emit(state, output)

    def _emit(self, state: MergeState, output: Output) -> None:
        """Release what is complete."""
        for slot, sums in self._complete(state):
            made = self._released(state, slot, sums)
            output.count("releases", len(made))
            output.send(*made)

    def _released(self, state: MergeState, slot: int, sums: Phases) -> list[Record]:
        release, processed = self.release, self.processed
        if self.twice is not None and state.sums.second_reports.number:
            release, processed = self.twice
        if processed is None or state.coordinator is None:
            return release(slot, sums, state.sums.before(slot, self.looks_back))
        return processed.release(state.coordinator, slot, sums)

    def _take(self, state: MergeState, partial: Partial) -> bool:
        """False for one that was taken before: a source's partials come in the order of their
        slots, and of the phases in a slot.
        """
        source, at = partial.source, At(partial.slot, partial.phase)
        if partial.slot <= state.closed.get(source, partial.slot - 1):
            return False
        if source in state.within and at <= state.within[source]:
            return False
        if partial.last:
            state.closed[source] = partial.slot
            state.within.pop(source, None)
        else:
            state.within[source] = at
        if partial.first is not None:
            state.first = partial.first if state.first is None else min(state.first, partial.first)
        return True

    def _see(self, state: MergeState, at: At, sample: Sequence[str]) -> int:
        """How many of one source's sampled ids another one has. Slots can wait long for a partition
        without events: their sums are kept, their ids need not be.
        """
        horizon = max([at.slot, *state.closed.values()]) - SAMPLED
        state.sums.forget(horizon)
        if at.slot <= horizon:
            return 0
        ids = state.sums.sample.setdefault(at, [])
        second = len(set(ids) & set(sample))
        state.sums.note(at, second)
        if len(ids) < HELD:
            ids += sample
        return second

    def _complete(self, state: MergeState) -> Iterable[tuple[int, dict[int, list[int]]]]:
        """Slots that all sources have closed, in order, with the sums of their phases."""
        if len(state.closed) < self.sources:
            return
        through = min(state.closed.values())
        while state.first is not None:
            slot = state.first if state.released is None else max(state.first, state.released + 1)
            if slot > through:
                break
            sums = {phase: held.sums for phase, held in state.sums.close(slot).items()}
            if not sums and state.full is not None and slot - state.full > EMPTY_RUN:
                state.released = min(
                    [through, *(waits - 1 for waits in state.sums.waiting(through)[:1])]
                )
                continue
            state.released = slot
            state.full = slot if sums else state.full
            yield slot, sums
        state.released = through if state.released is None else max(through, state.released)
        state.sums.end(state.released - self.looks_back)

    def dirty(self, state: MergeState) -> set[str]:
        return state.sums.dirty()

    def shards_of(self, state: MergeState) -> set[str]:
        return state.sums.shards()

    def dump(self, state: MergeState, shards: Iterable[str]) -> dict[str, bytes]:
        return state.sums.dump(shards)

    def meta(self, state: MergeState) -> dict[str, Any]:
        return {
            "closed": {str(source): slot for source, slot in state.closed.items()},
            "within": {str(source): list(at) for source, at in state.within.items()},
            "first": state.first,
            "released": state.released,
            "full": state.full,
            "slots": self.size,
            **state.sums.meta(),
            **({} if state.coordinator is None else {"coordinator": state.coordinator.saved()}),
        }

    def load(self, meta: Mapping[str, Any], shards: Mapping[str, tuple[int, bytes]]) -> MergeState:
        made = MergeState(
            SlotSums.load(self.size, meta["released"], meta.get("slots"), shards),
            {int(name): slot for name, slot in meta["closed"].items()},
            {int(name): At(*at) for name, at in meta["within"].items()},
            meta["first"],
            meta["released"],
            meta["full"],
        )
        made.sums.hear(meta)
        if self.processed is not None:
            made.coordinator = self.processed.load(meta.get("coordinator"))
        return made

    def look(self, meta: Mapping[str, Any], shards: Mapping[str, bytes]) -> Look:
        """The slots that wait, and those that are kept beside them."""
        found = look_at_sums(self.size, meta.get("slots"), shards)
        found.closed = meta["released"]
        if self.processed is not None:
            try:
                self.processed.load(meta.get("coordinator"))
            except (ValueError, TypeError, KeyError, AttributeError):
                found.complain("readable", 1, "state of what was released cannot be read")
        return found


def of_any_phase(
    release: Callable[[int, list[int] | None, Mapping[int, list[int]]], list[Record]],
) -> MakeRelease:
    """A release of statistics that take whatever phases a slot has: their supports are of one width
    and are added. It is given the sums, or None where there are no reports; and those of slots
    before it.
    """

    def added(phases: Phases) -> list[int]:
        return [sum(column) for column in zip(*phases.values(), strict=True)]

    def made(slot: int, sums: Phases, earlier: Mapping[int, Phases]) -> list[Record]:
        before = {at: added(phases) for at, phases in earlier.items()}
        return release(slot, added(sums) or None, before)

    return made


def make_merge(
    topology: Topology, partition: int = 0, randomness: EdgeNoise | None = None
) -> Merge:
    """The merge stage; its log has one partition."""
    del partition, randomness  # there is no other, and it draws nothing
    publishes = publisher(topology)
    unbound = replace(publishes, twice=True)
    return Merge(
        topology.input.partitions,
        topology.statistics.width,
        of_any_phase(publishes.of_slot),
        topology.partials_topic,
        topology.collector_dead_letters_topic,
        topology.fingerprint,
        topology.layout,
        processed(topology, publishes),
        (of_any_phase(unbound.of_slot), processed(topology, unbound)),
        topology.statistics.looks_back,
    )
