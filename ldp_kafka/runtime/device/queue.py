"""The reports that a device still has to send: from its disk to the producer, until the broker has
acknowledged them.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import Any

from confluent_kafka import KafkaException

from ldp_kafka.errors import BrokerError
from ldp_kafka.runtime.device.producer import Sender
from ldp_kafka.runtime.device.store import DeviceStore
from ldp_kafka.runtime.stages.collect_devices import partition_of
from ldp_kafka.topology import Topology

__all__ = ["ReportQueue"]


class ReportQueue:
    """The queue of a database, and the producer that it goes out with.

    Parameters
    ----------
    store : of the device; all that it holds is sent
    producer : to send with; its delivery reports come from within ``poll``
    topology : of the reports

    Attributes
    ----------
    waiting : reports that are on the disk and that the producer does not have, oldest first
    queued : how many reports the broker has not acknowledged
    problem : the last error for a report; None where the last one arrived
    """

    def __init__(self, store: DeviceStore, producer: Sender, topology: Topology) -> None:
        self._store, self._producer, self._topology = store, producer, topology
        self.waiting = deque(store.waiting())  # of these the producer has none
        self.queued = len(self.waiting)
        # filled from within poll, whoever calls it
        self._delivered: deque[tuple[int, str | None]] = deque()
        self._acknowledged: list[int] = []
        self.problem: str | None = None

    def commit(
        self, digest: bytes, state: bytes, reports: list[tuple[bytes, bytes]], **more: Any
    ) -> None:
        """State and reports, on the disk when it returns; what was acknowledged goes with them.
        ``more`` as of `DeviceStore.commit`.
        """
        gone, self._acknowledged = self._acknowledged, []
        self._add(self._store.commit(digest, state, reports, gone, **more))

    def answer(
        self,
        states: list[tuple[bytes, bytes]],
        reports: list[tuple[bytes, bytes]],
        *,
        told: str,
        through: int,
    ) -> None:
        """As `commit`, of a request: see `DeviceStore.answer`."""
        gone, self._acknowledged = self._acknowledged, []
        self._add(self._store.answer(states, reports, gone, told=told, through=through))

    def _add(self, rows: list[int]) -> None:
        self.waiting.extend(rows)
        self.queued += len(rows)

    def forget(self) -> None:
        """What was acknowledged goes from the disk."""
        gone, self._acknowledged = self._acknowledged, []
        self._store.forget(gone)

    def serve(self, timeout: float) -> None:
        """Delivery reports, and what they leave to be sent again."""
        self.hand_over()
        self._producer.poll(timeout)
        while self._delivered:
            seq, problem = self._delivered.popleft()
            self.problem = problem
            if problem is None:
                self._acknowledged.append(seq)
                self.queued -= 1
            else:
                self.waiting.append(seq)
        self.hand_over()

    def hand_over(self) -> None:
        """Give the producer what is on the disk and what it does not have, as much as it takes."""
        while self.waiting:
            seq = self.waiting[0]
            name, message = self._store.payload(seq)
            try:
                self._producer.produce(
                    self._topology.reports_topic,
                    value=message,
                    partition=partition_of(name, self._topology.input.partitions),
                    on_delivery=partial(self._arrived, seq),
                )
            except BufferError:
                return
            except KafkaException as error:
                self.problem = error.args[0].str()
                return
            self.waiting.popleft()

    def room(self, most: int) -> None:
        """BrokerError where as many wait as may."""
        if self.queued >= most:
            raise BrokerError(
                f"{self.queued:,} reports wait for the broker, as many as may: nothing is drawn"
                f" until it takes some{self.why()}"
            )

    def why(self) -> str:
        """The last error, to be added to a text."""
        return "" if self.problem is None else f" ({self.problem})"

    # the producer's own signature
    def _arrived(self, seq: int, error: Any, message: Any) -> None:  # noqa: ARG002
        self._delivered.append((seq, None if error is None else error.str()))
