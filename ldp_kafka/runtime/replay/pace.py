"""Holds back who writes a raw log faster than a coordinator decides: values of slots that are past
their hold answer no request any more.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ldp_kafka.errors import BadRecord, BrokerError
from ldp_kafka.records import Tick
from ldp_kafka.runtime.kafka.reader import Reader, reading, spans
from ldp_kafka.runtime.replay.messages import Raw
from ldp_kafka.runtime.stages.requests import read_request
from ldp_kafka.runtime.wire.records import encode_json
from ldp_kafka.topology import Topology

__all__ = ["Decided", "Pace", "ahead", "decided"]

POLL = 0.05  # seconds
PATIENCE = 120.0  # seconds without a decision


def ahead(topology: Topology) -> int:
    """How many slots past the last decided one may be written.

    With the events of slot s the edge closes s - lateness - 1, and settles what lies ``hold`` slots
    before that. The request for the last decided slot may be on its way to the raw log still: its
    slot must not be settled when it comes.
    """
    return topology.input.lateness + topology.input.hold


class Decided:
    """The last slot that a coordinator has decided: every slot has a request."""

    def __init__(self, consumer: Reader) -> None:
        self._consumer = consumer
        self.slot: int | None = None

    def look(self, seconds: float) -> int | None:
        """What is known after waiting so long for news, at most."""
        for message in self._consumer.consume(1000, seconds):
            if message.error() is not None:
                raise BrokerError(f"requests: {message.error().str()}")
            try:
                found = read_request(message.value() or b"").slot
            except BadRecord:  # a header, or a stranger's
                continue
            self.slot = found if self.slot is None else max(self.slot, found)
        return self.slot


@contextmanager
def decided(topology: Topology, config: Mapping[str, Any]) -> Iterator[Decided]:
    """What the topology's coordinator decides from now on, and the last slot that it has.

    Parameters
    ----------
    config : of a confluent-kafka client, the collector's side
    """
    topic = topology.requests_topic
    first, end = spans(config, topic)[0]
    with reading(config, topic, {0: max(first, end - 1)}) as consumer:
        yield Decided(consumer)


class Pace:
    """Lets messages pass in the order of event time, at most `ahead` slots past the last decided
    one.

    Parameters
    ----------
    look : (seconds) -> the last decided slot, after waiting so long for news; see `Decided.look`
    write : writes one message: what is held back needs ticks where there are no events, since slots
        close by what comes after them

    Examples
    --------
    >>> from ldp_kafka.topology import loads
    >>> topology = loads('''
    ... topology: meters
    ... input: {slot: 1s, lateness: 0, hold: 2, partitions: 1}
    ... privacy: {method: lpa, epsilon: 1.0, window: 4, domain: [0, 100]}
    ... output: {statistics: [mean]}
    ... ''')
    >>> written, news = [], iter([None, 3])
    >>> pace = Pace(topology, lambda _: next(news), written.append)
    >>> for slot in (2, 5):
    ...     pace.hold(Raw(0, slot * 1000, b"", 1))
    >>> [tick.timestamp for tick in written]
    [3000]
    """

    def __init__(
        self,
        topology: Topology,
        look: Callable[[float], int | None],
        write: Callable[[Raw], object],
        patience: float = PATIENCE,
    ) -> None:
        self._topology, self._look, self._write = topology, look, write
        self._patience = patience
        self._base: int | None = None
        self._reached = [-1] * topology.input.partitions

    def hold(self, raw: Raw) -> None:
        """Return when this message may be written. BrokerError where nothing is decided."""
        slot = self._topology.slot_of(raw.timestamp)
        if self._base is None:
            self._base = slot - 1
        since = time.monotonic()
        while slot > (limit := self._base + ahead(self._topology)):
            self._tick(self._topology.slot_start(limit))
            found = self._look(POLL)
            if found is not None and found > self._base:
                self._base, since = found, time.monotonic()
            elif time.monotonic() - since > self._patience:
                raise BrokerError(
                    f"nothing was decided for {self._patience:g} s: start the workers, all roles of"
                    " them, with `ldp-kafka run`"
                )
        self._reached[raw.partition] = max(self._reached[raw.partition], raw.timestamp)

    def _tick(self, at: int) -> None:
        """Bring every partition to this time."""
        for partition, reached in enumerate(self._reached):
            if reached < at:
                self._write(Raw(partition, at, encode_json(Tick(at)), 0))
                self._reached[partition] = at
