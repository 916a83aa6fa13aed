"""The demo's releases beside the truth: which intervals cover it, the epsilon spent, and whether a
second computation gives the same releases.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import MICRO
from ldp_kafka.runtime import local, roles
from ldp_kafka.runtime.keys import EdgeNoise
from ldp_kafka.runtime.log import Message
from ldp_kafka.topology import Topology

__all__ = ["Result", "again", "compare", "largest_spent"]


@dataclass(frozen=True, repr=False)
class Result:
    """Arrays of one row a slot, and for categories one column each."""

    slots: NDArray[np.int64]
    truth: NDArray[np.float64]
    released: NDArray[np.float64]
    """NaN where nobody reported."""
    low: NDArray[np.float64]
    high: NDArray[np.float64]

    @property
    def inside(self) -> NDArray[np.bool_]:
        """Whether the truth lies inside the 95 % interval."""
        found: NDArray[np.bool_] = (self.low <= self.truth) & (self.truth <= self.high)
        return found

    @property
    def bars(self) -> NDArray[np.float64]:
        """How far the intervals reach below and above what was released (2, ...); a share below 0
        lies outside of its interval.
        """
        return np.maximum([self.released - self.low, self.high - self.released], 0.0)

    def __repr__(self) -> str:
        return f"Result({len(self.slots)} slots)"  # never the truth


def compare(
    releases: Mapping[int, Mapping[str, Any]], truth: NDArray[np.float64], first: int
) -> Result:
    """Releases by slot, and the truth (slots, ...) from slot ``first`` on."""
    slots = np.array(sorted(releases), np.int64)
    empty = np.full(truth.shape[1:], np.nan)

    def column(of: Any) -> NDArray[np.float64]:
        found = [of(releases[int(slot)]) for slot in slots]
        return np.array([empty if each is None else each for each in found], np.float64)

    def bound(side: int) -> NDArray[np.float64]:
        # (low, high), or two lists of them: one entry a category
        return column(
            lambda release: (
                None
                if release["confidence_interval"] is None
                else release["confidence_interval"][side]
            )
        )

    return Result(
        slots, truth[slots - first], column(lambda release: release["value"]), bound(0), bound(1)
    )


def largest_spent(topology: Topology, noise: EdgeNoise, logs: Sequence[Sequence[Message]]) -> float:
    """The most epsilon that any user spends in any run of slots that the ledger bounds: folded once
    more, message by message.
    """
    most = 0
    _, agent = topology.reader(topology.raw_topic)
    for partition, messages in enumerate(logs):
        edge: Any = roles.make(topology, agent, partition, noise)
        state = edge.fresh()
        for message in messages:
            edge.fold(state, [message])
            most = max(most, topology.method.ledger.largest(state.users.state))
    return most / MICRO


def again(
    topology: Topology,
    noise: EdgeNoise,
    logs: Sequence[Sequence[Message]],
    found: Mapping[int, bytes],
) -> bool:
    """Whether the same stages, run over lists and without Kafka, release the same bytes."""
    made = local.run(topology, noise, logs, together=256)
    return {json.loads(record.value)["slot"]: record.value for record in made.releases} == dict(
        found
    )
