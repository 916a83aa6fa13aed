"""What copies beside a worker's agents: a thread with a consumer group of its own."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from confluent_kafka import Consumer, KafkaError, KafkaException

from ldp_kafka.errors import BrokerError, ConfigurationError, LdpKafkaError
from ldp_kafka.runtime.kafka.admin import kind_of
from ldp_kafka.runtime.kafka.admin.asking import asker, goes_on, quiet
from ldp_kafka.runtime.kafka.cut_off import CutOff
from ldp_kafka.topology import Topology
from ldp_kafka.topology.roles import Forward, Relay

__all__ = ["GRACE", "Copying", "refuse"]

GRACE = 3.0  # seconds for what is under way when it is told to end


class Copying(ABC):
    """A thread that reads one topic as a member of a consumer group, and appends to another.

    A broker that is away is waited for, however long. What it does not survive is told to
    ``failed``, as a producer does.

    Parameters
    ----------
    topology : whose session timeout its consumer has
    copied : from where to where, and in which group
    what : can not be done where it ends, in words
    reads : settings of a confluent-kafka client of the cluster that is read
    failed : called once, at the end of the thread, with what ended it before it was told to
    """

    def __init__(
        self,
        topology: Topology,
        copied: Forward | Relay,
        what: str,
        reads: Mapping[str, Any],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._copied, self._what, self._failed = copied, what, failed
        session = topology.runtime.session_timeout_ms
        self._settings = {
            **reads,
            "group.id": copied.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": False,
            "allow.auto.create.topics": False,
            "session.timeout.ms": session,
            "heartbeat.interval.ms": min(3000, session // 10),
        }
        self._cut_off = CutOff(copied.reads.name, lambda: asker(quiet(reads), copied.group))
        self._stop = threading.Event()
        self._until = float("inf")
        name = type(self).__name__.lower()
        self._thread = threading.Thread(target=self._run, daemon=True, name=name)

    @abstractmethod
    def _consumer(self) -> Consumer:
        """Made of its settings."""

    @abstractmethod
    def _work(self, consumer: Consumer) -> None:
        """Until it is told to end."""

    @abstractmethod
    def _forget(self) -> None:
        """Nothing more is to be committed."""

    def start(self) -> None:
        """Begin, in a thread of its own."""
        self._thread.start()

    def stop(self) -> None:
        """Tell it to end: with what is under way, if that does not take longer than `GRACE`."""
        if not self._stop.is_set():
            self._until = time.monotonic() + GRACE
            self._stop.set()

    def join(self, seconds: float) -> bool:
        """Wait until it has left its group, for so long at most; whether it has. The next one goes
        on where it has committed.
        """
        if self._thread.is_alive():
            self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        consumer = None
        try:
            consumer = self._consumer()
            self._work(consumer)
        except KafkaException as error:
            self._end(self._error(error.args[0]))
        except BaseException as error:  # noqa: BLE001 - a thread's would only be printed
            self._end(error)
        if consumer is not None:
            consumer.close()

    def _end(self, error: BaseException) -> None:
        self._forget()
        self._failed(error)

    def _reach(self, consumer: Consumer) -> None:
        """BrokerError where the consumer is cut off: one of a new process finds its brokers."""
        if self._cut_off.found(consumer):
            raise BrokerError(f"the client of group {self._copied.group} found no broker")

    def _hear(self, error: KafkaError) -> None:
        """An error that the client goes on after is passed over; any other ends it."""
        late = error.code() == KafkaError._MAX_POLL_EXCEEDED  # noqa: SLF001 - that is its name
        if error.fatal() or not (late or goes_on(error)):
            raise KafkaException(error)

    def _error(self, error: KafkaError) -> LdpKafkaError:
        """What to say of an error."""
        topic, group = self._copied.reads.name, self._copied.group
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
        return BrokerError(f"topic {topic}: {self._what}: {error.str()}")


def refuse(error: LdpKafkaError) -> NoReturn:
    """What a producer of such a thread fails with."""
    raise error
