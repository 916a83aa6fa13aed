"""A topic from its beginning to where it ends now."""

from __future__ import annotations

import time
from collections.abc import Iterator

from confluent_kafka import Consumer, KafkaException, TopicPartition

from ldp_kafka.errors import BrokerError, ConfigurationError
from ldp_kafka.runtime.admin import Config, partitions_of, quiet, watermarks

__all__ = ["read_topic"]

SILENCE = 20.0  # seconds without a record after which a broker counts as gone


def read_topic(config: Config, topic: str) -> Iterator[bytes]:
    """The values of all records that the topic holds at this moment, partition after partition in no promised order. No group, no commit.

    Parameters
    ----------
    config : of a confluent-kafka client

    Raises
    ------
    ConfigurationError : there is no such topic
    BrokerError : the broker did not answer, or refused
    """
    partitions = partitions_of(config, topic)
    if not partitions:
        raise ConfigurationError(f"there is no topic {topic}")
    ends = {partition: watermarks(config, topic, partition) for partition in range(partitions)}
    left = {partition for partition, (first, end) in ends.items() if end > first}
    consumer = Consumer(
        {**quiet(config), "group.id": "ldp_kafka.reader", "enable.auto.commit": False, "auto.offset.reset": "error", "enable.partition.eof": False}
    )
    try:
        consumer.assign([TopicPartition(topic, partition, ends[partition][0]) for partition in sorted(left)])
        heard = time.monotonic()
        while left:
            for message in consumer.consume(1000, 0.5):
                if (error := message.error()) is not None:
                    raise BrokerError(f"{topic}: {error.str()}")
                heard = time.monotonic()
                partition, end = message.partition(), ends[message.partition()][1]
                if message.offset() < end and (value := message.value()) is not None:
                    yield value
                if message.offset() >= end - 1:
                    left.discard(partition)
            left = {partition for partition in left if _before(consumer, topic, partition, ends[partition][1])}
            if time.monotonic() - heard > SILENCE:
                raise BrokerError(f"{topic}: nothing came for {SILENCE:g} s")
    except KafkaException as error:
        raise BrokerError(f"{topic}: {error.args[0].str()}") from None
    finally:
        consumer.close()


def _before(consumer: Consumer, topic: str, partition: int, end: int) -> bool:
    """Whether the consumer has still to come to ``end``: what a compacted or transactional log lacks at its end never comes as a record."""
    [position] = consumer.position([TopicPartition(topic, partition)])
    return bool(position.offset < end)
