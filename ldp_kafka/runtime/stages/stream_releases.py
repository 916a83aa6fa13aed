"""Releases of a curator: one a stream and slot, keyed by both, as the records of a topic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ldp_kafka.methods.delay import Closed
from ldp_kafka.records import Release, release_key
from ldp_kafka.runtime.log import Record
from ldp_kafka.runtime.stages.releases import iso
from ldp_kafka.runtime.wire.user_releases import write_stream_releases
from ldp_kafka.topology import Topology

__all__ = ["StreamReleases", "stream_releases"]


@dataclass(frozen=True)
class StreamReleases:
    """Makes the release records of one partition of streams.

    Parameters
    ----------
    topic : of releases, as many partitions as the raw topic has
    partition : of the streams, whose releases go to the same: those of a stream keep their order
    statistic : what releases are called
    """

    topology: str
    topic: str
    partition: int
    statistic: str
    method: str
    slot_ms: int
    guarantee: dict[str, Any]

    def of_slot(self, closed: Closed, streams: Sequence[str]) -> list[Record]:
        """The releases of one slot, its only row, of streams (n,) by their ids."""
        slot = closed.first
        start, end = (iso(at * self.slot_ms) for at in (slot, slot + 1))
        common = Release(
            self.topology,
            slot,
            start,
            end,
            self.statistic,
            None,
            None,
            None,
            1,
            self.method,
            self.guarantee,
        )
        written = write_stream_releases(common, closed, streams)
        keys = (release_key(self.statistic, slot, stream) for stream in streams)
        return [
            Record(self.topic, self.partition, key.encode(), value)
            for key, value in zip(keys, written, strict=True)
        ]


def stream_releases(topology: Topology, partition: int) -> StreamReleases:
    """Of one partition of a topology with a curator."""
    return StreamReleases(
        topology.name,
        topology.releases_topic,
        partition,
        topology.output.statistics[0],
        topology.method.name,
        topology.input.slot_ms,
        topology.guarantee.as_json(),
    )
