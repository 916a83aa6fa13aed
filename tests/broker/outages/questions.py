"""What brokers say of topologies, asked from outside."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.broker.flow import client, watermarks

if TYPE_CHECKING:
    from tests.broker.outages.subjects import Subject

__all__ = ["Questions"]


class Questions:
    """Asks the brokers of this address; each thread by clients of its own."""

    def __init__(self, boot: str) -> None:
        self.boot = boot
        self._admin = AdminClient(client(boot))
        self._mine = threading.local()

    def _asker(self, group: str) -> Consumer:
        """A client of a group that is no member of it."""
        mine = self._mine.__dict__.setdefault("askers", {})
        if group not in mine:
            own = {"group.id": group, "enable.auto.commit": False}
            mine[group] = Consumer(client(self.boot, **own))
        return mine[group]

    def end(self, topic: str, partition: int) -> int:
        """Where a log ends."""
        return watermarks(self._asker("nobody"), TopicPartition(topic, partition))[1]

    def last(self, topic: str, partition: int) -> tuple[bytes, bytes | None]:
        """Key and value of a partition's last record."""
        asker = self._asker("nobody")
        asker.assign([TopicPartition(topic, partition, self.end(topic, partition) - 1)])
        until = time.time() + 10
        while time.time() < until:
            message = asker.poll(0.5)
            if message is not None and message.error() is None:
                asker.unassign()
                return message.key() or b"", message.value()
        raise KafkaException(f"{topic}: its last record did not come")

    def left(self, subject: Subject, *, everything: bool = False) -> int:
        """Messages that the edge, or any of the roles, has not acknowledged."""
        readers = [*subject.flow.topology.flow.readers()] if everything else [subject.edge]
        total = 0
        for role, agent in readers:
            places = [TopicPartition(agent.topic, n) for n in range(agent.partitions)]
            for place in self._asker(role.group).committed(places, timeout=10):
                total += self.end(place.topic, place.partition) - max(0, place.offset)
        return total

    def group(self, subject: Subject):
        """The edge's, as its coordinator describes it. By the old call: during the new one
        librdkafka ends the process (an assertion) where a broker is lost.
        """
        return self._admin.list_groups(subject.edge[0].group, timeout=10)[0]
