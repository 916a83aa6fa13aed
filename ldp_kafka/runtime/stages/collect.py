"""The collector's fold: report batches in, partials and releases per user out. It sees
perturbed reports only: no privacy guarantee rests on it.

A batch counts iff its (offset, chunk) comes after the last one of its source; ``closed`` is the
edge's and is followed, never decided here. When it passes a slot, what the source has of the slot
goes to the merger; runs of slots without reports go as one partial.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from ldp_kafka.errors import BadRecord, Reason
from ldp_kafka.methods import Method
from ldp_kafka.records import KEPT, Reports, hexadecimal
from ldp_kafka.runtime.keys import EdgeNoise
from ldp_kafka.runtime.log import Look, Message, Output
from ldp_kafka.runtime.stages.counting import COUNTS, Counting, SourceState
from ldp_kafka.runtime.stages.releases import Publisher, publisher
from ldp_kafka.runtime.stages.slot_sums import SlotSums, look_at_sums
from ldp_kafka.runtime.wire.dead_letters import DeadLetters
from ldp_kafka.runtime.wire.reports import read_reports
from ldp_kafka.topology import Topology

__all__ = ["Collect", "CollectState", "make_collect"]


@dataclass
class CollectState:
    """What the collector knows of one source."""

    source: SourceState
    last: tuple[int, int] = (-1, -1)
    """(offset, chunk) of the last batch that counted."""


@dataclass(frozen=True)
class Collect:
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
    deployment: ClassVar[str] = ""
    seal: ClassVar[None] = None
    key: ClassVar[str] = ""

    @cached_property
    def _counting(self) -> Counting:
        return Counting(self.method, self.partials_topic, self.partition, self.publisher)

    @cached_property
    def size(self) -> int:
        """Slots in a slot shard of the state."""
        return self._counting.slots_in_a_shard

    def fresh(self) -> CollectState:
        return CollectState(self._counting.fresh(SlotSums(self.size)))

    def fold(self, state: CollectState, messages: Sequence[Message]) -> Output:
        """Partials of consecutive messages."""
        output = Output(DeadLetters(self.dead_letters_topic, self.topic, self.partition), COUNTS)
        for message in messages:
            try:
                batch = read_reports(message.value or b"")
                if batch is not None:
                    self._count(state, batch, message.offset, output)
            except BadRecord as bad:
                output.dead_letter(message.offset, 0, bad.reason)
        if state.source.closed is not None:
            output.gauge("closed", state.source.closed)
        return output

    def _count(self, state: CollectState, batch: Reports, offset: int, output: Output) -> None:
        if batch.fingerprint != self.fingerprint:
            raise BadRecord(Reason.FINGERPRINT)
        source = state.source
        if (batch.offset, batch.chunk) <= state.last:
            if (
                batch.offset < state.last[0]
                and batch.closed is not None
                and (source.closed is None or batch.closed > source.closed)
            ):
                # a replay closes nothing new: the raw log was begun anew under the same name
                raise BadRecord(Reason.RESTARTED)
            output.count("repeated")
            return
        counting, source = self._counted(state, batch)
        found = counting.supports(source, batch)  # may refuse it: before anything is changed
        state.last = (batch.offset, batch.chunk)
        for at, support in found:
            source.first = at.slot if source.first is None else min(source.first, at.slot)
            if source.sums.takes(at.slot, offset):
                source.sums.add(at, support)
                mine = batch.ids if len(found) == 1 else batch.ids[batch.slots == at.slot]
                # a batch's rows come in the order of their ids
                output.count("second_reports", source.sums.see(at, hexadecimal(mine[:KEPT])))
        output.count("reports", len(batch))
        counting.release(source, batch, output)
        self._close(state, batch, output)

    def _counted(self, state: CollectState, batch: Reports) -> tuple[Counting, SourceState]:
        """How the reports of a batch count, and where."""
        del batch
        return self._counting, state.source

    def _close(self, state: CollectState, batch: Reports, output: Output) -> None:
        """Hand over what a batch says is closed."""
        if batch.closed is not None:
            self._counting.close(state.source, batch.closed, output)

    def dirty(self, state: CollectState) -> set[str]:
        return state.source.sums.dirty()

    def shards_of(self, state: CollectState) -> set[str]:
        return state.source.sums.shards()

    def dump(self, state: CollectState, shards: Iterable[str]) -> dict[str, bytes]:
        return state.source.sums.dump(shards)

    def watermark(self, state: CollectState) -> int:
        del state
        return -1

    def budget(self, state: CollectState) -> None:
        del state

    def meta(self, state: CollectState) -> dict[str, Any]:
        return {"last": list(state.last), "slots": self.size, **state.source.meta()}

    def load(
        self, meta: Mapping[str, Any], shards: Mapping[str, tuple[int, bytes]]
    ) -> CollectState:
        sums = SlotSums.load(self.size, meta["closed"], meta.get("slots"), shards)
        return CollectState(SourceState.load(meta, sums), tuple(meta["last"]))

    def look(self, meta: Mapping[str, Any], shards: Mapping[str, bytes]) -> Look:
        """The slots that wait, and those that are kept beside them."""
        found = look_at_sums(self.size, meta.get("slots"), shards)
        found.closed = meta["closed"]
        return found


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
