"""The collector's fold over the reports of devices where a coordinator asks: slots have two phases.

The first phase of a slot closes as slots of devices do (`collect_devices`), and what it has goes to
the coordinator. Nobody can say when all devices have answered its request: the second phase closes
when ``hold`` slots more have begun, by the same watermark, and the broker's clock holds it back as
well. Devices let go of a value by the same rule, so that what is spent after it is rare: a device
that reads its requests late. It is a dead letter, as any report of a closed slot.

Slots are decided one after the other, and a slot that was asked waits until its second phase is
closed. So where every slot is asked, each has one slot's time for its answers, whatever ``hold``;
where few are, those have ``hold``.

What a report costs is the sender's word, as is all of it. The sums of each cost are kept apart, and
the coordinator reads those of what it has asked: reports of another cost count for nothing. Of one
slot there are `COSTS` of them at most, so that nobody fills the collector's memory with them;
whoever sends so many bars the others, as whoever sends any number of reports bends a mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from ldp_kafka.errors import BadRecord, InvariantError, Reason
from ldp_kafka.methods.protocols import Responder
from ldp_kafka.methods.protocols.request import FIRST, SECOND
from ldp_kafka.records import Reports
from ldp_kafka.runtime.keys import EdgeNoise
from ldp_kafka.runtime.log import Output
from ldp_kafka.runtime.stages.collect_devices import (
    CollectDevices,
    DevicesState,
    make_collect_devices,
)
from ldp_kafka.runtime.stages.counting import Counting, CountingSecond, SourceState
from ldp_kafka.runtime.stages.parts import Counted, PartOf
from ldp_kafka.runtime.stages.slot_sums import SlotSums
from ldp_kafka.topology import Topology

__all__ = ["COSTS", "CollectDevicePhases", "DevicePhasesState", "make_collect_device_phases"]

COSTS = 64  # that reports of one slot's second phase may have


@dataclass
class DevicePhasesState(DevicesState):
    """What the collector knows of one partition: ``source`` is of the first phase."""

    second: SourceState | None = None


@dataclass(frozen=True)
class CollectDevicePhases(CollectDevices):
    """The collect stage of one partition of the reports of devices that are asked.

    Parameters
    ----------
    hold : slots that the second phase of a slot is open for after the first
    """

    hold: int = 1

    @cached_property
    def _second(self) -> CountingSecond:
        return CountingSecond(self.method, self.partials_topic, self.source, self.publisher)

    @cached_property
    def _asked(self) -> Responder:
        if not isinstance(self.method, Responder):
            raise InvariantError(f"{self.method.name} is asked for nothing")
        return self.method

    def fresh(self) -> DevicePhasesState:
        first, second = (counting.fresh(SlotSums(1)) for counting in (self._counting, self._second))
        return DevicePhasesState(first, second=second)

    def _counted(self, state: DevicesState, batch: Reports) -> tuple[Counting, SourceState]:
        if batch.phase == FIRST:
            return super()._counted(state, batch)
        if batch.phase != SECOND or not self._asked.askable(batch.cost):
            raise BadRecord(Reason.WRONG_FIELDS)
        # after a crash the same are refused: of parts that are there ahead of the rest, all costs
        # are among the first that came
        for slot in set(batch.slots.tolist()):
            costs = _second(state).sums.open.get(slot, {})
            if batch.cost not in costs and len(costs) >= COSTS:
                raise BadRecord(Reason.WRONG_FIELDS)
        return self._second, _second(state)

    def _known(self, state: DevicesState, mine: PartOf, name: bytes) -> Counted | None:
        """Under any cost: a user has one report of a slot's second phase."""
        if mine.phase == FIRST:
            return super()._known(state, mine, name)
        for cost in _second(state).sums.open.get(mine.slot, {}):
            found = super()._known(state, mine._replace(phase=cost), name)
            if found is not None:
                return found
        return None

    def _all_closed(self, state: DevicesState) -> int | None:
        first, second = state.source.closed, _second(state).closed
        return None if first is None or second is None else min(first, second + self.hold)

    def _close(self, state: DevicesState, through: int, output: Output) -> None:
        source, second = state.source, _second(state)
        if source.closed is None or through > source.closed:
            self._counting.close(source, through, output)
        settled = through - self.hold
        if second.closed is None or settled > second.closed:
            self._second.close(second, settled, output)
        self._end(
            state,
            [
                part
                for part in state.parts
                if part.slot <= (through if part.phase == FIRST else settled)
            ],
        )

    def meta(self, state: DevicesState) -> dict[str, Any]:
        return {**super().meta(state), "second": _second(state).meta()}

    def _begun(self, meta: Mapping[str, Any]) -> DevicePhasesState:
        first, second = (SourceState.load(told, SlotSums(1)) for told in (meta, meta["second"]))
        return DevicePhasesState(first, watermark=meta["watermark"], second=second)

    def _source(self, state: DevicesState, part: PartOf) -> SourceState:
        return state.source if part.phase == FIRST else _second(state)

    def _closed(self, meta: Mapping[str, Any], part: PartOf) -> int | None:
        closed: int | None = (meta if part.phase == FIRST else meta["second"])["closed"]
        return closed


def _second(state: DevicesState) -> SourceState:
    assert isinstance(state, DevicePhasesState)
    assert state.second is not None
    return state.second


def make_collect_device_phases(
    topology: Topology, partition: int, randomness: EdgeNoise | None = None
) -> CollectDevicePhases:
    """The collect stage of one partition of the devices' reports."""
    plain = make_collect_devices(topology, partition, randomness)
    shared = {each.name: getattr(plain, each.name) for each in fields(plain)}
    return CollectDevicePhases(**shared, hold=topology.input.hold)
