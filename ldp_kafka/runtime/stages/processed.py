"""What is made of a slot's sums where a protocol decides nothing, and so has no coordinator's role:
the fold of its coordinator, beside the merger's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ldp_kafka.methods.protocols import Coordinator, Decider
from ldp_kafka.methods.protocols.processing import Processing
from ldp_kafka.methods.protocols.request import FIRST
from ldp_kafka.methods.runnable import protocol_of
from ldp_kafka.runtime.log import Record
from ldp_kafka.runtime.stages.releases import Publisher
from ldp_kafka.topology import Topology

__all__ = ["Processed", "processed"]


@dataclass(frozen=True)
class Processed:
    """Releases of a protocol that has one phase, as post-processing makes them.

    Parameters
    ----------
    protocol : that the topology's method stands for
    processing : what is made of its publications
    """

    protocol: Decider
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
        nobody has reported what stands is released, without an error.
        """
        first = sums.get(FIRST)
        coordinator.decide(slot, None if first is None else np.array(first, np.int64))
        released = coordinator.release(None)
        told = {"postprocess": self.processing.on}
        return self.publisher.of_round(slot, released.estimate, released.strategy, told)


def processed(topology: Topology, publisher: Publisher) -> Processed | None:
    """What is made of a topology's slots; None where they are released as they are."""
    wanted, protocol = topology.output.postprocess, protocol_of(topology.method)
    if not wanted.on or protocol is None:
        return None
    return Processed(protocol, wanted, publisher)
