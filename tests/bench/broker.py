"""A broker, its topics, and what a worker wrote to them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ldp_kafka.runtime.brokers.local_kafka import KafkaServer
from ldp_kafka.runtime.kafka.admin import extent
from tests.bench import inputs
from tests.bench.measure import cores, pin, say

_TOPIC = {
    "message.timestamp.type": "LogAppendTime",
    "file.delete.delay.ms": "1000",
    "segment.bytes": str(64 * 2**20),
}


@contextmanager
def broker() -> Iterator[str]:
    """The user's broker (LDP_KAFKA_BOOTSTRAP), or a fresh one on a core of its own."""
    if address := os.environ.get("LDP_KAFKA_BOOTSTRAP"):
        yield address
        return
    with (
        tempfile.TemporaryDirectory(prefix="ldp-kafka-bench-") as folder,
        KafkaServer(directory=Path(folder)) as server,
    ):
        for pid in server.pids().values():
            pin(cores()[1], pid)
        say(f"broker: Apache Kafka {server.version} at {server.bootstrap_servers}")
        yield server.bootstrap_servers


class Topics:
    """Topics of one partition, stamped by the broker as records arrive."""

    def __init__(self, boot: str) -> None:
        self.boot = boot
        self.admin = AdminClient({"bootstrap.servers": boot})

    def create(self, name: str, policy: str = "delete", **more: str) -> str:
        """``more``: its configuration, with _ for the dots in Kafka's names."""
        config = {**_TOPIC, "cleanup.policy": policy}
        config |= {each.replace("_", "."): value for each, value in more.items()}
        self.admin.create_topics([NewTopic(name, 1, config=config)])[name].result(30)
        return name

    def delete(self, prefix: str) -> None:
        """All whose names begin so."""
        names = [
            name for name in self.admin.list_topics(timeout=15).topics if name.startswith(prefix)
        ]
        for future in (self.admin.delete_topics(names) if names else {}).values():
            future.result(30)

    def fill(self, name: str, values: Iterable[bytes]) -> int:
        """Write values in order; how many."""
        return self.fill_keyed(name, ((None, value) for value in values))

    def fill_keyed(self, name: str, records: Iterable[tuple[bytes | None, bytes]]) -> int:
        """Write records, (key, value), in order; how many."""
        producer = Producer(
            {
                "bootstrap.servers": self.boot,
                "linger.ms": 20,
                "batch.size": inputs.BATCH,
                "enable.idempotence": True,
            }
        )
        count = 0
        for key, value in records:
            while True:
                try:
                    producer.produce(name, value, key, partition=0)
                    break
                except BufferError:
                    producer.poll(0.1)
            count += 1
        if producer.flush(60):
            raise RuntimeError("the broker did not take the input")
        return count

    def end(self, name: str, consumer: Consumer) -> int:
        """How many records a topic has; 0 where it does not exist yet."""
        try:
            return extent(consumer, TopicPartition(name, 0), 5)[1]
        except KafkaException:
            return 0

    def reader(self) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self.boot,
                "group.id": "bench-reader",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )

    def read(self, name: str, first: int = 0) -> list[tuple[float, bytes]]:
        """(seconds, value) of every record from offset ``first`` on."""
        return list(self.records(name, first))

    def records(self, name: str, first: int = 0) -> Iterator[tuple[float, bytes]]:
        """(seconds, value) of one record after the other, from offset ``first`` to the present
        end.
        """
        consumer, at = self.reader(), first
        try:
            end = self.end(name, consumer)
            consumer.assign([TopicPartition(name, 0, first)])
            while at < end:
                for message in consumer.consume(min(2000, end - at), 5):
                    if message.error():
                        raise KafkaException(message.error())
                    yield message.timestamp()[1] / 1000, message.value()
                    at += 1
        finally:
            consumer.close()
