"""The merger's fold: partials of all sources in, one release a slot out.

It has one partition, so releases come out in the order of their slots. A slot is released when
every source has closed it; sums are integers, so the order of partials does not matter. Slots
before the first one in which any source had a report are not released; empty ones after it are,
with null values, up to `EMPTY_RUN` in a row: a clock that was years behind must not make millions
of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

from ldp_kafka.errors import BadRecord
from ldp_kafka.randomness import Keyed
from ldp_kafka.records import Partial
from ldp_kafka.runtime.log import Folded, Message, Record
from ldp_kafka.runtime.stages.releases import publisher
from ldp_kafka.runtime.stages.sample import KEPT
from ldp_kafka.runtime.stages.slot_shards import Blocked, Blocks, slots_in_a_block
from ldp_kafka.runtime.wire.arrow import check_size
from ldp_kafka.runtime.wire.dead_letters import dead_letter
from ldp_kafka.runtime.wire.records import decode_json, parse_json
from ldp_kafka.topology import Topology

__all__ = ["EMPTY_RUN", "Merge", "MergeState", "make_merge"]

EMPTY_RUN = 1000  # empty slots in a row that are released
HELD = 8192  # sampled ids of one slot, about: those of further sources are only compared with them
SAMPLED = 64  # latest slots whose sampled ids are kept


@dataclass
class MergeState(Blocks):
    """What the merger knows of one topology."""

    closed: dict[int, int] = field(default_factory=dict)
    """Last closed slot of each source that was heard."""
    first: int | None = None
    """The first slot in which any source had a report."""
    released: int | None = None
    """Last slot that was released or passed over."""
    full: int | None = None
    """Last released slot that had reports."""


@dataclass(frozen=True)
class Merge(Blocked[MergeState]):
    """The merge stage of one topology.

    Parameters
    ----------
    sources : partitions of the raw topic; a release waits for all of them
    width : integers in a support
    release : makes the records of one slot from its sums (None: no reports)
    """

    oversize: ClassVar[str] = "too many slots wait for a partition without events"

    sources: int
    width: int
    release: Callable[[int, list[int] | None], list[Record]]
    topic: str
    dead_letters_topic: str
    fingerprint: str
    layout: str
    partition: int = 0

    @cached_property
    def size(self) -> int:
        """Slots in a block of the state."""
        return slots_in_a_block(self.width, min(HELD, KEPT * self.sources))

    def fresh(self) -> MergeState:
        return MergeState()

    def fold(self, state: MergeState, messages: Sequence[Message]) -> Folded:
        """Releases that consecutive partials complete."""
        records: list[Record] = []
        counts: dict[str, float] = {"releases": 0, "repeated": 0, "second_reports": 0}
        for message in messages:
            try:
                check_size(message.value)
                partial = decode_json(parse_json(message.value or b""))
                if partial is None:
                    continue
                if not isinstance(partial, Partial) or not 0 <= partial.source < self.sources:
                    raise BadRecord("not_a_record")
                if partial.support is not None and len(partial.support) != self.width:
                    raise BadRecord("wrong_fields")
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
                continue
            if self._take(state, partial):
                if partial.support is not None and self.takes(state, partial.slot, message.offset):
                    counts["second_reports"] += self._add(
                        state, partial.slot, partial.support, partial.sample
                    )
                made = [
                    record
                    for slot, sums in self._complete(state)
                    for record in self.release(slot, sums)
                ]
                counts["releases"] += len(made)
                records += made
            else:
                counts["repeated"] += 1
        if state.released is not None:
            counts["released"] = state.released
        return Folded(records, counts)

    def _take(self, state: MergeState, partial: Partial) -> bool:
        """False for one that was taken before: a source's partials come in the order of their
        slots.
        """
        if partial.slot <= state.closed.get(partial.source, partial.slot - 1):
            return False
        state.closed[partial.source] = partial.slot
        if partial.first is not None:
            state.first = partial.first if state.first is None else min(state.first, partial.first)
        return True

    def _add(
        self, state: MergeState, slot: int, support: Sequence[int], sample: Sequence[str]
    ) -> int:
        """Add one source's sums; how many of its sampled ids another one has."""
        held = state.open.get(slot)
        state.open[slot] = (
            list(support) if held is None else [a + b for a, b in zip(held, support, strict=True)]
        )
        # Slots can wait long for a partition without events: their sums are kept, their ids need
        # not be
        horizon = max(state.closed.values()) - SAMPLED
        for old in [old for old in state.sample if old <= horizon]:
            del state.sample[old]
            state.changed.add(old // self.size)
        if slot <= horizon:
            return 0
        ids = state.sample.setdefault(slot, [])
        second = len(set(ids) & set(sample))
        if len(ids) < HELD:
            ids += sample
        return second

    def _complete(self, state: MergeState) -> Iterable[tuple[int, list[int] | None]]:
        """Slots that all sources have closed, in order."""
        if len(state.closed) < self.sources:
            return
        through = min(state.closed.values())
        while state.first is not None:
            slot = state.first if state.released is None else max(state.first, state.released + 1)
            if slot > through:
                break
            sums = self.close(state, slot)[0] if slot in state.open else None
            if sums is None and state.full is not None and slot - state.full > EMPTY_RUN:
                state.released = min(
                    [through, *(held - 1 for held in state.open if held <= through)]
                )
                continue
            state.released = slot
            state.full = state.full if sums is None else slot
            yield slot, sums
        state.released = through if state.released is None else max(through, state.released)
        self.end(state, state.released)

    def watermark(self, state: MergeState) -> int:
        del state
        return -1

    def budget(self, state: MergeState) -> None:
        del state

    def meta(self, state: MergeState) -> dict[str, Any]:
        return {
            "closed": {str(source): slot for source, slot in state.closed.items()},
            "first": state.first,
            "released": state.released,
            "full": state.full,
            "block": self.size,
        }

    def load(self, meta: Mapping[str, Any], shards: Mapping[str, tuple[int, bytes]]) -> MergeState:
        closed = {int(name): value for name, value in meta["closed"].items()}
        state = MergeState(
            closed=closed, first=meta["first"], released=meta["released"], full=meta["full"]
        )
        return self.fill(state, state.released, meta.get("block"), shards)


def make_merge(topology: Topology, partition: int = 0, randomness: Keyed | None = None) -> Merge:
    """The merge stage; its log has one partition."""
    del partition, randomness  # there is no other, and it draws nothing
    return Merge(
        topology.input.partitions,
        len(topology.method.support(topology.method.blank(0))),
        publisher(topology).crowd,
        topology.partials_topic,
        topology.collector_dead_letters_topic,
        topology.fingerprint,
        topology.layout,
    )
