"""What brokers say of topologies, asked from outside."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.broker.askers import Askers
from tests.broker.flow import client

if TYPE_CHECKING:
    from tests.broker.outages.subjects import Subject

__all__ = ["Questions"]


class Questions:
    """Asks the brokers of this address; each thread by clients of its own."""

    def __init__(self, boot: str) -> None:
        self.boot = boot
        self._admin = AdminClient(client(boot))
        self._mine = threading.local()

    @property
    def _askers(self) -> Askers:
        mine: Askers = self._mine.__dict__.setdefault("askers", Askers(self.boot))
        return mine

    def end(self, topic: str, partition: int) -> int:
        """Where a log ends."""
        return self._askers.end(TopicPartition(topic, partition))

    def last(self, topic: str, partition: int) -> tuple[bytes, bytes | None]:
        """Key and value of a partition's last record."""
        place = TopicPartition(topic, partition, self.end(topic, partition) - 1)
        asker = self._askers.of("nobody")
        asker.assign([place])
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
            for place in self._askers.committed(role.group, places):
                total += self.end(place.topic, place.partition) - max(0, place.offset)
        return total

    def group(self, subject: Subject):
        """The edge's, as its coordinator describes it. By the old call: during the new one
        librdkafka ends the process (an assertion) where a broker is lost.
        """
        return self._admin.list_groups(subject.edge[0].group, timeout=10)[0]
