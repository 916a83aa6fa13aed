"""The messages of a raw partition as rows of events: what is valid, at home and in time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.errors import Reason
from ldp_kafka.methods import Method
from ldp_kafka.randomness import Ids
from ldp_kafka.runtime.log import Message, Output
from ldp_kafka.runtime.partitioning import partitions_of
from ldp_kafka.runtime.runs import Run
from ldp_kafka.runtime.stages.rows import Rows
from ldp_kafka.runtime.wire.copies import CopyReader
from ldp_kafka.runtime.wire.decoded_run import DecodedRun
from ldp_kafka.runtime.wire.events import EventReader, event_reader
from ldp_kafka.runtime.wire.parsing import LATEST
from ldp_kafka.topology import Topology

__all__ = ["RawPartition", "given_partition", "raw_partition"]


@dataclass(frozen=True)
class RawPartition:
    """How the messages of one raw partition are read; the parameters are those of
    `ldp_kafka.runtime.stages.perturb.Perturb`.
    """

    reader: EventReader | CopyReader
    method: Method
    partition: int
    partitions: int
    slot_ms: int
    max_ahead_ms: int
    held: bool = False
    """Whether values wait for others of their slot, which are taken together before they are bound:
    they stay as they came.
    """
    streams: frozenset[str] | None = None
    """Ids of all streams that there are; None: any."""
    ticked: bool = False
    """Whether ticks alone bring the partition further."""

    def read(self, messages: Sequence[Message], output: Output) -> tuple[Rows, NDArray[np.int64]]:
        """All valid events of the messages, and the greatest time in each message (-1 if none) that
        brings the partition further.
        """
        given = Run.of(messages)
        run = self._known(self.reader.read_run(given.values))
        run = self._timely(self._at_home(run), given.timestamps)
        for at, row, reason in sorted(run.bad, key=itemgetter(0)):
            output.dead_letter(given.offsets.item(at), row, reason)
        latest = np.full(len(given), -1, np.int64)
        for at, time in run.ticks:
            latest[at] = time
        events = run.events
        if events is None:
            none = np.empty(0, np.int64)
            return Rows(Ids.of([]), none, none, run.message), latest
        if not self.ticked:
            np.maximum.at(latest, run.message, events.times)
        slots = events.times // self.slot_ms
        if self.held:
            return Rows(events.users, slots, events.values, run.message), latest
        if self.method.kind == "numeric":
            output.count("clamped", int(np.count_nonzero(self.method.outside(events.values))))
        return Rows(events.users, slots, self.method.bound(events.values), run.message), latest

    def latest(self, messages: Sequence[Message], output: Output) -> int:
        """The greatest time (milliseconds) in these messages that brings the partition further,
        accepted or late; -1 if there is none.
        """
        return int(self.read(messages, output)[1].max(initial=-1))

    def _known(self, run: DecodedRun) -> DecodedRun:
        """Without streams that are none."""
        if self.streams is None or run.events is None:
            return run
        strange = [user not in self.streams for user in run.events.users.texts()]
        return run.without(np.array(strange, np.bool_), Reason.STREAM)

    def _at_home(self, run: DecodedRun) -> DecodedRun:
        """Without users of other partitions, where the partitioner is known."""
        if not self.partitions or run.events is None:
            return run
        away = partitions_of(run.events.users.texts(), self.partitions) != self.partition
        return run.without(away, Reason.PARTITION)

    def _timely(self, run: DecodedRun, timestamps: NDArray[np.int64]) -> DecodedRun:
        """Without what is further ahead of its message's own timestamp than allowed: that would
        close slots for everybody.
        """
        # no time is as late as LATEST, which is what a message without a timestamp allows
        stamps = np.minimum(timestamps, LATEST)
        stamps[timestamps < 0] = LATEST
        limits = stamps + self.max_ahead_ms
        early = [(at, time) for at, time in run.ticks if time <= limits[at]]
        if len(early) < len(run.ticks):
            ahead = [(at, 0, Reason.AHEAD) for at, time in run.ticks if time > limits[at]]
            run = run._replace(ticks=early, bad=[*run.bad, *ahead])
        if run.events is None or run.events.times.max(initial=-1) <= limits.min():
            return run
        return run.without(run.events.times > limits[run.message], Reason.AHEAD)


def raw_partition(topology: Topology, partition: int) -> RawPartition:
    """How one partition of a topology's raw log is read."""
    found = given_partition(topology, partition)
    if not topology.input.rekey:
        return found
    reader = CopyReader(np.dtype(np.float64 if topology.privacy.categories is None else np.int64))
    return replace(found, reader=reader, partitions=topology.input.partitions, ticked=True)


def given_partition(topology: Topology, partition: int) -> RawPartition:
    """How one partition of the topic is read that values come in by: the raw log, or what is
    relayed into it.
    """
    source = topology.input
    at_home = source.partitioning == "murmur2" and not source.rekey
    return RawPartition(
        event_reader(topology),
        topology.method,
        partition,
        source.partitions if at_home else 0,
        source.slot_ms,
        source.max_ahead_ms,
        held=topology.holds_slots,
        streams=frozenset(source.streams) or None,
        ticked=source.by_ticks,
    )
