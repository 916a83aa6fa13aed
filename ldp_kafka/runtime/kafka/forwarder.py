"""The forwarder: the coordinator's requests, copied into every partition of the edge's raw log.

It runs in a thread of each process of its role, in a consumer group of its own at the collector's
cluster: the one partition of requests is read by one of them, the others stand by.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NoReturn

from confluent_kafka import (
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from ldp_kafka.errors import BrokerError, ConfigurationError, LdpKafkaError
from ldp_kafka.runtime.kafka.admin import kind_of
from ldp_kafka.runtime.kafka.admin.asking import goes_on, without_errors
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
GRACE = 3.0  # seconds for what is under way when it is told to end

_LAST = re.compile(r"ldp_kafka: slot ([0-9]{1,15})")
"""Metadata of the group's offset: the last slot that was forwarded before it."""


class Forwarder:
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
        self._forward, self._counted, self._failed = forward, counted, failed
        self._slot_ms, self._ahead_ms = topology.input.slot_ms, topology.input.max_ahead_ms
        session = topology.runtime.session_timeout_ms
        self._settings = {
            **reads,
            "group.id": forward.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": False,
            "allow.auto.create.topics": False,
            "session.timeout.ms": session,
            "heartbeat.interval.ms": min(3000, session // 10),
        }
        self._producer = OrderedProducer({**writes, "message.timeout.ms": 0}, _raise)
        self._state: Forwarding | None = None
        self._taken: list[Message] = []
        """Read, and not appended yet."""
        self._done: int | None = None
        """The offset to be committed: all before it has arrived."""
        self._stop = threading.Event()
        self._until = float("inf")
        self._thread = threading.Thread(target=self._run, daemon=True, name="forwarder")

    def start(self) -> None:
        """Begin, in a thread of its own."""
        self._thread.start()

    def stop(self) -> None:
        """Tell it to end: with what is under way, if that does not take longer than `GRACE`."""
        if not self._stop.is_set():
            self._until = time.monotonic() + GRACE
            self._stop.set()

    def join(self, seconds: float) -> bool:
        """Wait until it has left its group, for so long at most; whether it has. What it has not
        committed is forwarded again by the next one.
        """
        if self._thread.is_alive():
            self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        consumer = None
        try:
            consumer = Consumer(self._settings)
            self._work(consumer)
        except KafkaException as error:
            self._end(self._error(error.args[0]))
        except BaseException as error:  # noqa: BLE001 - a thread's would only be printed
            self._end(error)
        if consumer is not None:
            consumer.close()

    def _end(self, error: BaseException) -> None:
        self._done = None
        self._failed(error)

    def _work(self, consumer: Consumer) -> None:
        """Until it is told to end."""
        consumer.subscribe(
            [self._forward.reads.name],
            on_assign=self._assigned,
            on_revoke=self._revoked,
            on_lost=self._assigned,
        )
        while not self._stop.is_set():
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

    def _hear(self, error: KafkaError) -> None:
        """An error that the client goes on after is passed over; any other ends it."""
        late = error.code() == KafkaError._MAX_POLL_EXCEEDED  # noqa: SLF001 - that is its name
        if error.fatal() or not (late or goes_on(error)):
            raise KafkaException(error)

    def _error(self, error: KafkaError) -> LdpKafkaError:
        """What to say of an error."""
        topic, group = self._forward.reads.name, self._forward.group
        if kind_of(error) is ConfigurationError:
            lacks = (
                f"group {group}"
                if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED
                else f"topic {topic}"
            )
            return ConfigurationError(
                f"this login may not READ {lacks}; `ldp-kafka topics TOPOLOGY --acls` says what it"
                " needs"
            )
        return BrokerError(f"topic {topic}: requests cannot be forwarded: {error.str()}")


def _raise(error: LdpKafkaError) -> NoReturn:
    raise error


def _asked_at(message: Message) -> int:
    """When a request was asked for: by its own timestamp, which is its sender's word, and no later
    than now.
    """
    kind, stamp = message.timestamp()
    now = time.time_ns() // 1_000_000
    return now if kind == TIMESTAMP_NOT_AVAILABLE else min(int(stamp), now)
