"""What is made of a slot's sums where a release depends on earlier slots and no coordinator's role
decides it: a fold beside the merger's, of a protocol that asks for nothing, or of what is clipped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from typing import Protocol as Interface

import numpy as np

from ldp_kafka.mechanisms.base import Estimate
from ldp_kafka.methods.asked import standing
from ldp_kafka.methods.protocols import Coordinator, Protocol
from ldp_kafka.methods.protocols.processing import Processing
from ldp_kafka.methods.protocols.request import FIRST
from ldp_kafka.runtime.log import Record
from ldp_kafka.runtime.stages.followed import Followed
from ldp_kafka.runtime.stages.releases import Publisher
from ldp_kafka.topology import Topology

__all__ = ["Beside", "Processed", "processed"]


class Beside(Interface):
    """A fold beside the merger's, by which a slot's releases depend on earlier slots."""

    def fresh(self) -> Any:
        """Its state before the first slot; `saved` gives it as JSON."""

    def load(self, saved: Any) -> Any:
        """The state that goes on from a saved one; None: there was none."""

    def release(self, state: Any, slot: int, sums: Mapping[int, Sequence[int]], /) -> list[Record]:
        """The records of one slot, later than those before, from the sums of its phases."""


@dataclass(frozen=True)
class Processed:
    """Releases of a protocol that has one phase, as post-processing makes them.

    Parameters
    ----------
    protocol : that the topology's method stands for
    processing : what is made of its publications
    """

    protocol: Protocol
    processing: Processing
    publisher: Publisher

    def fresh(self) -> Coordinator:
        """Before the first slot."""
        return self.protocol.coordinator(self.processing)

    def load(self, saved: Mapping[str, Any] | None) -> Coordinator:
        """What goes on from a saved one; None: there was none, nothing was processed."""
        made = self.fresh()
        if saved is not None:
            made.restore(dict(saved))
        return made

    def release(
        self, coordinator: Coordinator, slot: int, sums: Mapping[int, Sequence[int]]
    ) -> list[Record]:
        """The records of one slot, later than those before, from the sums of its phase: where
        nobody has reported what stands is released, with an error of its own.
        """
        first = sums.get(FIRST)
        coordinator.decide(slot, None if first is None else np.array(first, np.int64))
        found = coordinator.release(None)
        reports = 0 if first is None else first[0]
        return self.publisher.of_round(
            slot,
            Estimate(found.value, found.standard_error, reports),
            found.strategy,
            {"postprocess": self.processing.on},
        )


def processed(topology: Topology, publisher: Publisher) -> Beside | None:
    """What is made of a topology's slots; None where they are released as they are, each by
    itself.
    """
    if publisher.statistics.looks_back:
        return Followed(publisher)
    wanted, protocol = topology.output.postprocess, standing(topology.method)
    if not wanted.on or protocol is None:
        return None
    return Processed(protocol, wanted, publisher)
