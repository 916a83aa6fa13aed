"""Where a client reads requests: a consumer of its own, or one that it is given."""

from __future__ import annotations

from collections import deque
from typing import Any, Protocol

from confluent_kafka import OFFSET_BEGINNING, KafkaException, TopicPartition

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.runtime.kafka.admin import kind_of
from ldp_kafka.runtime.kafka.admin.asking import goes_on
from ldp_kafka.runtime.kafka.reader import Reader, reader
from ldp_kafka.runtime.kafka.setup import client_config
from ldp_kafka.topology import Topology

__all__ = ["Listener", "RequestReader", "device_consumer"]

PARTITION = 0  # of the requests: there is one, since they have one order
MOST = 500  # messages that are read together
READ_AHEAD = 1024  # kilobytes: a device is small


class Listener(Protocol):
    """What of a confluent-kafka ``Consumer`` a client needs."""

    def assign(self, partitions: list[TopicPartition], /) -> None:
        """Read from these offsets on."""

    def consume(self, num_messages: int, timeout: float, /) -> list[Any]:
        """Up to so many messages, as they come within ``timeout`` seconds."""

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
        self._consumer, self._topic = consumer, topic
        self.waiting: deque[tuple[int, bytes | None]] = deque()
        self.problem: str | None = None
        begin = OFFSET_BEGINNING if offset < 0 else offset + 1
        consumer.assign([TopicPartition(topic, PARTITION, begin)])

    def read(self, timeout: float) -> None:
        """What comes within ``timeout`` seconds, where nothing waits.

        Raises
        ------
        ConfigurationError : this login may not read the topic
        """
        if self.waiting:
            return
        try:
            found = self._consumer.consume(MOST, timeout)
        except KafkaException as failed:
            self.problem = failed.args[0].str()
            return
        for message in found:
            error = message.error()
            if error is None:
                self.problem = None
                self.waiting.append((message.offset(), message.value()))
                continue
            self.problem = error.str()
            if kind_of(error) is ConfigurationError and not goes_on(error):
                raise ConfigurationError(
                    f"this login may not READ topic {self._topic}; `ldp-kafka topics TOPOLOGY"
                    " --acls` says what it needs"
                )

    def close(self) -> None:
        """Read no more."""
        self._consumer.close()
