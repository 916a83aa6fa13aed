"""A topic from its beginning to where it ends now, or on without an end."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from confluent_kafka import (
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    Message,
    TopicPartition,
)

from ldp_kafka.errors import BrokerError, ConfigurationError
from ldp_kafka.runtime.kafka.admin import Config, extents, kind_of, partitions_of, quiet
from ldp_kafka.runtime.kafka.admin.asking import goes_on, refused

__all__ = [
    "Kept",
    "Reader",
    "Spans",
    "follow_records",
    "read_records",
    "read_topic",
    "reader",
    "reading",
    "spans",
]

SILENCE = 20.0  # seconds without a record after which a broker counts as gone
QUIET = 0.5  # seconds without a record after which a follower is told that none is there
AGAIN = 60.0  # seconds after which it is said once more that a broker is away

Spans = Mapping[int, tuple[int, int]]
"""Of each partition the first offset, and the one after the last."""


class Kept(NamedTuple):
    """One record as the broker keeps it."""

    partition: int
    offset: int
    timestamp: int
    """Milliseconds; -1 if it has none."""
    key: bytes | None
    value: bytes | None
    """None: a tombstone."""
    headers: Sequence[tuple[str, bytes | None]] = ()

    def __repr__(self) -> str:
        return f"Kept(partition={self.partition}, offset={self.offset})"  # never a value


class Reader(Consumer):  # type: ignore[misc]
    """A consumer that is in no group: that it may not look one up is no error. librdkafka asks for
    its coordinator all the same, and would hand out the refusal among the messages.
    """

    def poll(self, timeout: float = -1) -> Message | None:
        """The next message, or None after ``timeout`` seconds."""
        found = self.consume(1, timeout)
        return found[0] if found else None

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        """Up to so many messages, as they come within ``timeout`` seconds."""
        end = time.monotonic() + timeout
        while True:
            left = max(0.0, end - time.monotonic()) if timeout >= 0 else timeout
            found = super().consume(num_messages, left)
            mine = [message for message in found if not _of_group(message.error())]
            if mine or not found:
                return mine


def _of_group(error: KafkaError | None) -> bool:
    return error is not None and error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED


def reader(config: Config, **more: object) -> Reader:
    """A consumer that is in no group and commits nothing, to be assigned partitions, and closed.

    Parameters
    ----------
    config : of a confluent-kafka client
    more : further settings of librdkafka, which win
    """
    own = {
        "group.id": "ldp_kafka.reader",  # librdkafka asks for one; nobody ever joins it
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "allow.auto.create.topics": False,
        "enable.partition.eof": False,
        **more,
    }
    return Reader({**config, **own})


@contextmanager
def reading(
    config: Config, topic: str, offsets: Mapping[int, int], **more: object
) -> Iterator[Reader]:
    """A consumer that reads partitions of one topic from these offsets on: in no group, and it
    commits nothing. It is closed at the end.

    Parameters
    ----------
    config : of a confluent-kafka client
    offsets : partition -> the first offset that is wanted; where the log does not have it, the
        first message is an error, unless ``auto.offset.reset`` says otherwise
    more : further settings of librdkafka, which win
    """
    consumer = reader(config, **more)
    try:
        consumer.assign(
            [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
        )
        yield consumer
    finally:
        consumer.close()


def spans(config: Config, topic: str) -> Spans:
    """What each partition of a topic holds at this moment, and may be read: up to the first open
    transaction.

    Raises
    ------
    ConfigurationError : there is no such topic
    BrokerError : the broker did not answer, or refused
    """
    partitions = partitions_of(config, topic)
    if not partitions:
        raise ConfigurationError(f"there is no topic {topic}")
    return extents(config, topic, range(partitions), stable=True)


def read_records(
    config: Config, topic: str, within: Spans | None = None, *, patience: float = SILENCE
) -> Generator[Kept, None, None]:
    """All records that the topic holds at this moment, tombstones too: in the order of each
    partition, partitions in no promised order. No group, no commit.

    Parameters
    ----------
    config : of a confluent-kafka client
    within : what to read of which partition; default: all that `spans` gives
    patience : seconds without a record after which a broker counts as gone

    Raises
    ------
    ConfigurationError : there is no such topic
    BrokerError : the broker did not answer, or refused
    """
    ends = spans(config, topic) if within is None else within
    left = {partition for partition, (first, end) in ends.items() if end > first}
    starts = {partition: ends[partition][0] for partition in sorted(left)}
    with refused(topic), reading(quiet(config), topic, starts) as consumer:
        heard = time.monotonic()
        while left:
            for message in consumer.consume(1000, 0.1):
                if (error := message.error()) is not None:
                    raise kind_of(error)(f"{topic}: {error.str()}")
                heard = time.monotonic()
                partition, end = message.partition(), ends[message.partition()][1]
                if message.offset() < end:
                    yield _kept(message)
                if message.offset() >= end - 1:
                    left.discard(partition)
            left = {
                partition
                for partition in left
                if _before(consumer, topic, partition, ends[partition][1])
            }
            if time.monotonic() - heard > patience:
                raise BrokerError(f"{topic}: nothing came for {patience:g} s")


def follow_records(
    config: Config,
    topic: str,
    offsets: Mapping[int, int],
    *,
    away: Callable[[str], None] | None = None,
) -> Generator[Kept | None, None, None]:
    """Records from these offsets on as they come, without an end; None after each fetch, and
    whenever none is there. A broker that is away is waited for. No group, no commit.

    Parameters
    ----------
    config : of a confluent-kafka client
    offsets : partition -> the first offset that is wanted
    away : is told, once a minute, what keeps the broker from answering

    Raises
    ------
    ConfigurationError, BrokerError : the broker refuses, or does not have an offset any more
    """
    with reading({**quiet(config), "error_cb": _Away(away)}, topic, offsets) as consumer:
        while True:
            found = consumer.consume(1000, QUIET)
            for message in found:
                if (error := message.error()) is None:
                    yield _kept(message)
                elif not goes_on(error):
                    raise kind_of(error)(f"{topic}: {error.str()}")
            yield None


class _Away:
    """What a client says of brokers that it cannot reach, told now and then."""

    def __init__(self, tell: Callable[[str], None] | None) -> None:
        self._tell, self._next = tell, 0.0

    def __call__(self, error: KafkaError) -> None:
        if self._tell is not None and time.monotonic() >= self._next:
            self._next = time.monotonic() + AGAIN
            self._tell(error.str())


def _kept(message: Message) -> Kept:
    kind, stamp = message.timestamp()
    return Kept(
        message.partition(),
        message.offset(),
        -1 if kind == TIMESTAMP_NOT_AVAILABLE else stamp,
        message.key(),
        message.value(),
        message.headers() or (),
    )


def read_topic(config: Config, topic: str) -> Iterator[bytes]:
    """The values alone of what `read_records` gives."""
    return (record.value for record in read_records(config, topic) if record.value is not None)


def _before(consumer: Consumer, topic: str, partition: int, end: int) -> bool:
    """Whether the consumer has still to come to ``end``: what a compacted or transactional log
    lacks at its end never comes as a record.
    """
    [position] = consumer.position([TopicPartition(topic, partition)])
    return bool(position.offset < end)
