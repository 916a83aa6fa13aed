"""The forwarder: the coordinator's requests, copied into every partition of the edge's raw log.

It runs in a thread of each process of its role, in a consumer group of its own at the collector's
cluster: the one partition of requests is read by one of them, the others stand by.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from confluent_kafka import (
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaException,
    Message,
    TopicPartition,
)

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.runtime.kafka.admin import kind_of
from ldp_kafka.runtime.kafka.admin.asking import without_errors
from ldp_kafka.runtime.kafka.copying import Copying, refuse
from ldp_kafka.runtime.kafka.producer import OrderedProducer
from ldp_kafka.runtime.log import Record
from ldp_kafka.runtime.stages.requests import Forwarding
from ldp_kafka.topology import Topology
from ldp_kafka.topology.roles import Forward

__all__ = ["Forwarder"]

PARTITION = 0  # of the requests: there is one, since they have one order
MOST = 500  # messages that are appended together
LISTEN = 0.2  # seconds
SERVE = 0.02  # seconds between two looks at what has been delivered

_LAST = re.compile(r"ldp_kafka: slot ([0-9]{1,15})")
"""Metadata of the group's offset: the last slot that was forwarded before it."""


class Forwarder(Copying):
    """Reads requests, and appends each that is valid to every partition of the raw log, in order.

    An offset is committed once all before it has arrived in all partitions: whoever reads on from
    there, after a crash at any point, appends again what may be missing in some. So a partition
    holds every request, in the order of the slots, and repeats only of a whole last run of them;
    who folds the log takes the first of each slot.

    A broker that is away is waited for, however long. What it does not survive is told to
    ``failed``, as a producer does.

    Parameters
    ----------
    topology : whose slots and ``input.max_ahead`` requests are held against
    forward : from where to where
    reads, writes : settings of a confluent-kafka client of the collector's cluster, and of the
        edge's
    counted : is told what was forwarded and dropped, in the names of `Metrics.add`
    failed : called once, at the end of the thread, with what ended it before it was told to
    """

    def __init__(
        self,
        topology: Topology,
        forward: Forward,
        reads: Mapping[str, Any],
        writes: Mapping[str, Any],
        *,
        counted: Callable[[Mapping[str, int]], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        super().__init__(topology, forward, "requests cannot be forwarded", reads, failed)
        self._forward, self._counted = forward, counted
        self._slot_ms, self._ahead_ms = topology.input.slot_ms, topology.input.max_ahead_ms
        self._producer = OrderedProducer({**writes, "message.timeout.ms": 0}, refuse)
        self._state: Forwarding | None = None
        self._taken: list[Message] = []
        """Read, and not appended yet."""
        self._done: int | None = None
        """The offset to be committed: all before it has arrived."""

    def _consumer(self) -> Consumer:
        return Consumer(self._settings)

    def _forget(self) -> None:
        self._done = None

    def _work(self, consumer: Consumer) -> None:
        consumer.subscribe(
            [self._forward.reads.name],
            on_assign=self._assigned,
            on_revoke=self._revoked,
            on_lost=self._assigned,
        )
        while not self._stop.is_set():
            self._reach(consumer)
            self._take(consumer)
            self._append(consumer)
            self._commit(consumer)

    def _assigned(self, *_: object) -> None:
        """Another reader may have gone on meanwhile: nothing that was read before counts."""
        self._taken.clear()
        self._state = self._done = None

    def _revoked(self, consumer: Consumer, _: object) -> None:
        with suppress(KafkaException):  # a right that is missing is heard of at the next question
            self._commit(consumer)
        self._assigned()

    def _take(self, consumer: Consumer) -> None:
        """Read what there is, or wait a moment for it."""
        message = consumer.poll(LISTEN)
        self._producer.poll()
        while message is not None:
            if (error := message.error()) is None:
                self._taken.append(message)
            else:
                self._hear(error)
            if len(self._taken) >= MOST:
                return
            message = consumer.poll(0)

    def _append(self, consumer: Consumer) -> None:
        """Append what was read to every partition, and see that it has arrived in all."""
        if not self._taken or (state := self._begun(consumer)) is None:
            return
        to = self._forward.writes
        for message in self._taken:
            value = state.take(message.value(), _asked_at(message))
            if value is not None:
                for number in range(to.partitions):
                    self._producer.send([Record(to.name, number, None, value)])
        mark = self._producer.mark()
        while not self._producer.arrived(mark):
            if time.monotonic() > self._until:
                return
            self._producer.poll(SERVE)
        self._done = self._taken[-1].offset() + 1
        self._taken.clear()
        self._counted(state.counted())

    def _begun(self, consumer: Consumer) -> Forwarding | None:
        """What is known of the requests so far: where the partition is new to this process, what
        the group has committed with its offset. None while the broker does not say.
        """
        if self._state is None:
            place = TopicPartition(self._forward.reads.name, PARTITION)
            try:
                [found] = without_errors(consumer.committed([place], timeout=5))
            except KafkaException as error:
                self._hear(error.args[0])
                return None
            last = _LAST.fullmatch(found.metadata or "")
            self._state = Forwarding(
                self._slot_ms, self._ahead_ms, -1 if last is None else int(last[1])
            )
        return self._state

    def _commit(self, consumer: Consumer) -> None:
        """Commit how far it has come; where that fails for now, the next turn does, or whoever has
        the partition then reads again what this one has appended.
        """
        if self._done is None or self._state is None:
            return
        last = self._state.last
        place = TopicPartition(
            self._forward.reads.name,
            PARTITION,
            self._done,
            metadata="" if last < 0 else f"ldp_kafka: slot {last}",
        )
        try:
            without_errors(consumer.commit(offsets=[place], asynchronous=False))
        except KafkaException as error:
            if kind_of(error.args[0]) is ConfigurationError:
                raise
        else:
            self._done = None


def _asked_at(message: Message) -> int:
    """When a request was asked for: by its own timestamp, which is its sender's word, and no later
    than now.
    """
    kind, stamp = message.timestamp()
    now = time.time_ns() // 1_000_000
    return now if kind == TIMESTAMP_NOT_AVAILABLE else min(int(stamp), now)
