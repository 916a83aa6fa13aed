"""Who reads which partitions, where a broker does not know every topic yet."""

from __future__ import annotations

from typing import Any

from faust.assignor.partition_assignor import PartitionAssignor

from ldp_kafka.errors import BrokerError
from ldp_kafka.runtime.worker.driver.private_api import Private

__all__ = ["PRIVATE_API", "Assignor"]


class Assignor(PartitionAssignor):  # type: ignore[misc]
    """Gives out all partitions or none.

    A broker that is just back may not know every topic yet. Faust's assignor leaves out what the
    group's leader is not told of: nobody would fold it, and nobody would say so, until the next
    rebalance. Here the client fails to assign, and tries again once `heard` has heard of it.
    """

    def _perform_assignment(self, cluster: Any, members: Any) -> Any:
        for topic in sorted(
            {topic for member in members.values() for topic in member.subscription}
        ):
            known, expected = (
                len(cluster.partitions_for_topic(topic) or ()),
                self.app.partitions.get(topic, 1),
            )
            if known < expected:
                raise BrokerError(
                    f"the broker knows {known} of the {expected} partitions of {topic} just now:"
                    " nobody would read the others, so it is asked again"
                )
        return super()._perform_assignment(cluster, members)


PRIVATE_API = (
    Private(PartitionAssignor, "_perform_assignment", "Assignor refuses part of an assignment"),
)  # fmt: skip
