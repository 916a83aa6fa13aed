"""The collector's fold where a coordinator asks: slots have two phases, which close by themselves.

The first phase of a slot is closed as the edge closes slots, the second when the edge says that the
slot is settled: its request was answered, or none can come any more. Reports of the second phase
cost what their request said; those of each cost are summed by themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

from numpy.typing import NDArray

from ldp_kafka.methods.protocols.request import FIRST, SECOND
from ldp_kafka.records import Partial, Reports
from ldp_kafka.runtime.keys import EdgeNoise
from ldp_kafka.runtime.log import Look, Output
from ldp_kafka.runtime.stages.collect import Collect, CollectState, make_collect
from ldp_kafka.runtime.stages.counting import Counting, SourceState
from ldp_kafka.runtime.stages.lanes import joined, looked, split
from ldp_kafka.runtime.stages.slot_sums import At, SlotSums, look_at_sums
from ldp_kafka.topology import Topology

__all__ = ["CollectPhases", "PhasesState", "make_collect_phases"]

PHASES = 2


@dataclass
class PhasesState(CollectState):
    """What the collector knows of one source: ``source`` is of the first phase."""

    second: SourceState | None = None


class CountingSecond(Counting):
    """How reports of the second phase count: in its sums, what they cost stands for the phase."""

    def _at(self, slot: int, batch: Reports) -> At:
        return At(slot, batch.cost)

    def _sums(self, values: NDArray[Any], batch: Reports) -> list[int]:
        form = self.method.form(SECOND, batch.cost)
        assert form is not None, "what there is no form for was refused"
        found: list[int] = form.support(values, SECOND).tolist()
        return found

    def _send(self, partial: Partial, output: Output) -> None:
        super()._send(replace(partial, phase=SECOND, cost=partial.phase), output)


@dataclass(frozen=True)
class CollectPhases(Collect):
    """The collect stage of one source whose slots have two phases."""

    @cached_property
    def _second(self) -> CountingSecond:
        return CountingSecond(self.method, self.partials_topic, self.partition, self.publisher)

    def fresh(self) -> PhasesState:
        first, second = (self._counting.fresh(SlotSums(self.size)) for _ in range(PHASES))
        return PhasesState(first, second=second)

    def _counted(self, state: CollectState, batch: Reports) -> tuple[Counting, SourceState]:
        if batch.phase == FIRST:
            return super()._counted(state, batch)
        return self._second, _both(state)[1]

    def _closes(self, state: CollectState, batch: Reports) -> bool:
        return super()._closes(state, batch) or _both(state)[1].closes(batch.settled)

    def _close(self, state: CollectState, batch: Reports, output: Output) -> None:
        super()._close(state, batch, output)
        if batch.settled is not None:
            self._second.close(_both(state)[1], batch.settled, output)

    def dirty(self, state: CollectState) -> set[str]:
        return joined(each.sums.dirty() for each in _both(state))

    def shards_of(self, state: CollectState) -> set[str]:
        return joined(each.sums.shards() for each in _both(state))

    def dump(self, state: CollectState, shards: Iterable[str]) -> dict[str, bytes]:
        wanted = split([(name, None) for name in shards], PHASES)
        return {
            f"{lane}.{shard}": payload
            for lane, each in enumerate(_both(state))
            for shard, payload in each.sums.dump(wanted[lane]).items()
        }

    def meta(self, state: CollectState) -> dict[str, Any]:
        return {**super().meta(state), "second": _both(state)[1].meta()}

    def load(self, meta: Mapping[str, Any], shards: Mapping[str, tuple[int, bytes]]) -> PhasesState:
        first, second = (
            SourceState.load(told, SlotSums.load(self.size, told["closed"], meta["slots"], mine))
            for told, mine in zip(
                (meta, meta["second"]), split(shards.items(), PHASES), strict=True
            )
        )
        return PhasesState(first, tuple(meta["last"]), second)

    def look(self, meta: Mapping[str, Any], shards: Mapping[str, bytes]) -> Look:
        """The slots that wait, and those that are kept beside them, of both phases."""
        lanes = split(shards.items(), PHASES)
        found = looked(look_at_sums(self.size, meta.get("slots"), mine) for mine in lanes)
        found.closed = meta["closed"]
        return found


def _both(state: CollectState) -> tuple[SourceState, SourceState]:
    assert isinstance(state, PhasesState)
    assert state.second is not None
    return state.source, state.second


def make_collect_phases(
    topology: Topology, partition: int, randomness: EdgeNoise | None = None
) -> CollectPhases:
    """The collect stage of one partition of the edge's reports."""
    plain = make_collect(topology, partition, randomness)
    return CollectPhases(**{each.name: getattr(plain, each.name) for each in fields(plain)})
