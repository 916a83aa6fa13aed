"""Where a client reads requests: a consumer of its own, or one that it is given."""

from __future__ import annotations

import time
from collections import deque
from typing import Any, Protocol

from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, TopicPartition

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.runtime.device.forks import never_freed, watch_forks
from ldp_kafka.runtime.kafka.admin import kind_of
from ldp_kafka.runtime.kafka.admin.asking import goes_on
from ldp_kafka.runtime.kafka.reader import Reader, reader
from ldp_kafka.runtime.kafka.setup import client_config
from ldp_kafka.topology import Topology

__all__ = ["Listener", "RequestReader", "device_consumer"]

PARTITION = 0  # of the requests: there is one, since they have one order
MOST = 500  # messages that are read together
LOOK = 5.0  # seconds between two looks at whether the topic can be read
READ_AHEAD = 1024  # kilobytes: a device is small


class Listener(Protocol):
    """What of a confluent-kafka ``Consumer`` a client needs."""

    def assign(self, partitions: list[TopicPartition], /) -> None:
        """Read from these offsets on."""

    def consume(self, num_messages: int, timeout: float, /) -> list[Any]:
        """Up to so many messages, as they come within ``timeout`` seconds."""

    def list_topics(self, topic: str, timeout: float, /) -> Any:
        """Metadata of the cluster, with an error of the topic."""

    def close(self) -> None:
        """Read no more."""


def device_consumer(topology: Topology) -> Listener:
    """A consumer in no group, which commits nothing: how far it has come is in the database. Where
    the log does not have that any more, it begins with the oldest request.
    """
    own: dict[str, Any] = {
        "auto.offset.reset": "earliest",
        "queued.max.messages.kbytes": READ_AHEAD,
    }
    made: Reader = reader(client_config(topology, "edge"), **own)
    return made


class RequestReader:
    """The requests of a topic in their order, each until it is done with.

    Parameters
    ----------
    consumer : to read with
    topic : of the requests
    offset : of the last one that counted; -1: none yet

    Attributes
    ----------
    waiting : (offset, value) of what was read, oldest first
    problem : the last error of the connection; None where something came after it
    """

    def __init__(self, consumer: Listener, topic: str, offset: int) -> None:
        self._consumer, self._topic, self._abandoned = consumer, topic, False
        self.waiting: deque[tuple[int, bytes | None]] = deque()
        self.problem: str | None = None
        self._heard, self._look_at = False, 0.0
        begin = OFFSET_BEGINNING if offset < 0 else offset + 1
        consumer.assign([TopicPartition(topic, PARTITION, begin)])
        watch_forks(self)

    def read(self, timeout: float) -> None:
        """What comes within ``timeout`` seconds, where nothing waits.

        Raises
        ------
        ConfigurationError : this login may not read the topic
        """
        if self.waiting:
            return
        if timeout > 0 and not self._heard and time.monotonic() >= self._look_at:
            self._look(timeout)
        try:
            found = self._consumer.consume(MOST, timeout)
        except KafkaException as failed:
            self.problem = failed.args[0].str()
            return
        for message in found:
            error = message.error()
            if error is not None:
                self._hear(error)
                continue
            self.problem, self._heard = None, True
            self.waiting.append((message.offset(), message.value()))

    def _look(self, timeout: float) -> None:
        """Whether the topic can be read: an assigned consumer is not told that it may not, and
        waits for ever.
        """
        self._look_at = time.monotonic() + LOOK
        try:
            error = self._consumer.list_topics(self._topic, timeout).topics[self._topic].error
        except KafkaException as failed:
            error = failed.args[0]
        self.problem = None
        if error is not None:
            self._hear(error)

    def _hear(self, error: KafkaError) -> None:
        self.problem = error.str()
        if kind_of(error) is ConfigurationError and not goes_on(error):
            raise ConfigurationError(
                f"this login may not READ topic {self._topic}; `ldp-kafka topics TOPOLOGY --acls`"
                " says what it needs"
            )

    def close(self) -> None:
        """Read no more; in a forked child nothing happens to the consumer."""
        if not self._abandoned:
            self._consumer.close()

    def abandon(self) -> None:
        """In a forked child: the consumer's threads are the parent's. Its end would wait for them
        for ever, or end the process: so that must not come.
        """
        self._abandoned = True
        never_freed(self._consumer)
