"""The messages of a raw partition as rows of events: what is valid, at home and in time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ldp_kafka.errors import Reason
from ldp_kafka.methods import Method
from ldp_kafka.randomness import Ids
from ldp_kafka.records import Events
from ldp_kafka.runtime.log import Message, Output
from ldp_kafka.runtime.partitioning import partitions_of
from ldp_kafka.runtime.stages.rows import Rows
from ldp_kafka.runtime.wire.events import EventReader
from ldp_kafka.runtime.wire.fields import Decoded
from ldp_kafka.topology import Topology

__all__ = ["RawPartition", "raw_partition"]


@dataclass(frozen=True)
class RawPartition:
    """How the messages of one raw partition are read; the parameters are those of
    `ldp_kafka.runtime.stages.perturb.Perturb`.
    """

    reader: EventReader
    method: Method
    partition: int
    partitions: int
    slot_ms: int
    max_ahead_ms: int

    def read(self, messages: Sequence[Message], output: Output) -> tuple[Rows, list[int]]:
        """All valid events of the messages, and the greatest time in each message (-1 if none)."""
        parts: list[Events] = []
        source, latest = [], []
        for at, message in enumerate(messages):
            decoded = self._timely(self._at_home(self.reader.read(message.value)), message)
            for row, reason in decoded.bad:
                output.dead_letter(message.offset, row, reason)
            time = -1 if decoded.tick is None else decoded.tick
            if decoded.events is not None and len(decoded.events):
                parts.append(decoded.events)
                source.append(np.full(len(decoded.events), at))
                time = max(time, int(decoded.events.times.max()))
            latest.append(time)
        if not parts:
            none = np.empty(0, np.int64)
            return Rows(Ids.of([]), none, none, np.empty(0, np.intp)), latest
        events = Events.join(parts)
        if self.method.kind == "numeric":
            output.count("clamped", int(np.count_nonzero(self.method.outside(events.values))))
        slots, values = events.times // self.slot_ms, self.method.bound(events.values)
        message_of = source[0] if len(source) == 1 else np.concatenate(source)
        return Rows(events.users, slots, values, message_of), latest

    def _at_home(self, decoded: Decoded) -> Decoded:
        """Without users of other partitions, where the partitioner is known."""
        events = decoded.events
        if not self.partitions or events is None or not len(events):
            return decoded
        away = partitions_of(events.users.texts(), self.partitions) != self.partition
        return decoded.without(away, Reason.PARTITION)

    def _timely(self, decoded: Decoded, message: Message) -> Decoded:
        """Without what is further ahead of the message's own timestamp than allowed: that would
        close slots for everybody.
        """
        if message.timestamp < 0:
            return decoded
        limit = message.timestamp + self.max_ahead_ms
        if decoded.tick is not None and decoded.tick > limit:
            return Decoded(bad=[(0, Reason.AHEAD)])
        if decoded.events is None or not len(decoded.events):
            return decoded
        return decoded.without(decoded.events.times > limit, Reason.AHEAD)


def raw_partition(topology: Topology, partition: int) -> RawPartition:
    """How one raw partition of a topology is read."""
    source, privacy, method = topology.input, topology.privacy, topology.method
    return RawPartition(
        EventReader(
            source.user,
            source.value,
            source.time,
            privacy.category_names or privacy.categories,
            method.dimension,
        ),
        method,
        partition,
        source.partitions if source.partitioning == "murmur2" else 0,
        source.slot_ms,
        source.max_ahead_ms,
    )
