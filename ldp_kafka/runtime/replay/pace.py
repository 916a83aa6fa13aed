"""Holds back who writes a raw log faster than a coordinator decides: values of slots that are past
their hold answer no request any more.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from ldp_kafka.errors import BrokerError
from ldp_kafka.records import Tick
from ldp_kafka.runtime.replay.messages import Raw
from ldp_kafka.runtime.wire.records import encode_json
from ldp_kafka.topology import Topology

__all__ = ["Pace"]

POLL = 0.05  # seconds
PATIENCE = 120.0  # seconds without a decision


class Pace:
    """Lets messages pass in the order of event time, at most ``input.ahead`` slots past the last
    decided one.

    Parameters
    ----------
    look : (seconds) -> the last decided slot, after waiting so long for news; see
        `ldp_kafka.runtime.kafka.decisions.Decided`
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
        while slot > (limit := self._base + self._topology.input.ahead):
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
