"""Releases of a curator: one a stream and slot, keyed by both, as the records of a topic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.mechanisms.base import Estimate
from ldp_kafka.records import Release
from ldp_kafka.runtime.log import Record
from ldp_kafka.runtime.stages.releases import DIGITS, iso
from ldp_kafka.runtime.wire.records import encode_json
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

    def of_slot(
        self,
        slot: int,
        values: NDArray[np.float64],
        errors: NDArray[np.float64],
        streams: Sequence[str],
    ) -> list[Record]:
        """The releases of one slot, of streams (n,) by their ids; an error is NaN where it cannot
        be said.
        """
        start, end = (iso(at * self.slot_ms) for at in (slot, slot + 1))
        low, high = Estimate(values, errors, 1).interval()
        records = []
        for stream, value, error, least, most in zip(
            streams,
            *(column.tolist() for column in (values, errors, np.asarray(low), np.asarray(high))),
            strict=True,
        ):
            release = Release(
                self.topology,
                slot,
                start,
                end,
                self.statistic,
                _published(value),
                _published(error),
                None if isnan(error) else [_published(least), _published(most)],
                1,
                self.method,
                self.guarantee,
                user=stream,
            )
            records.append(
                Record(self.topic, self.partition, release.key.encode(), encode_json(release))
            )
        return records


def _published(number: float) -> float | None:
    """Of 15 digits, which every platform computes alike; None where there is none."""
    return None if isnan(number) else float(f"{number:.{DIGITS}g}")


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
