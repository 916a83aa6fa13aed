"""What a device answers to a coordinator's requests: the edge's rules (`Responder`), on one device.

A value gives its report of the first phase at once, and then waits in the database for the request
of its slot. The device trusts nobody who brings requests, be it Kafka or a gateway:

- *Which request counts.* The first valid one of a slot that is later than the last that counted:
  whatever is invalid, comes again, or comes for an earlier slot, changes nothing. So requests may
  be shown as often as one likes, from any place in their topic on, and whoever shows two devices
  different ones has each of them answer one.
- *Who answers.* Whom it selects is a function of the user's digest, the slot, and the requests
  before, never of a value or of whether there is one. Being selected uses up the user's turn: that
  the device was off in the slot, or that the value has come too late or is gone, changes nothing
  of it. A device that was off reads on where it stood. One that is new begins with the oldest
  request that there is, and so finds what its user would have been selected for (`Selection`).
- *What it costs* is charged in the slot of the value, on the disk in one transaction with the
  report and with the end of the value, before anything is sent.
- *How long a value waits.* Until the request of its slot, or of a later one, has counted; until a
  value of its user comes ``lateness`` + 1 + ``hold`` slots later, when the collector has closed the
  slot's second phase (`ldp_kafka.runtime.stages.collect_devices`); or until it has lain there
  for as long by the device's own clock, where neither comes. Nobody can make it wait longer.

A request may be ahead of the device's clock by ``input.max_ahead``, as a value may. Whoever asks
so keeps the users from being asked for the slots before, and has nothing else of it.
"""

from __future__ import annotations

import json
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import State
from ldp_kafka.errors import BadRecord, Dropped
from ldp_kafka.methods.base import SENT, Step
from ldp_kafka.methods.batch import Batch
from ldp_kafka.methods.protocols import Request as Asking
from ldp_kafka.methods.protocols import Responder
from ldp_kafka.methods.protocols.request import SECOND
from ldp_kafka.methods.protocols.turns import in_second_half
from ldp_kafka.randomness import Digests
from ldp_kafka.runtime.device.messages import messages_of
from ldp_kafka.runtime.device.queue import ReportQueue
from ldp_kafka.runtime.device.state import packed, unpacked
from ldp_kafka.runtime.device.store import DeviceStore, Held
from ldp_kafka.runtime.keys import EdgeNoise
from ldp_kafka.runtime.stages.requests import read_request
from ldp_kafka.topology import Topology

__all__ = ["Answers"]

_DIGEST = np.dtype("<u8")


class Answers:
    """The requests of one device, and what its users hold for them.

    Parameters
    ----------
    topology : whose method is a protocol that asks
    randomness : of the device
    store : with what is known of the requests so far
    queue : for the reports

    Attributes
    ----------
    last : slot of the last request that counted; -1: none yet
    offset : of the last one of the topic that counted, where it came from there; -1: none yet
    """

    def __init__(
        self, topology: Topology, randomness: EdgeNoise, store: DeviceStore, queue: ReportQueue
    ) -> None:
        method = topology.method
        assert isinstance(method, Responder)
        self._topology, self._randomness, self._method = topology, randomness, method
        self._store, self._queue = store, queue
        source = topology.input
        self._slots = source.lateness + 1 + source.hold
        self.last = self.offset = -1
        self._history = method.history()
        told = store.asked()
        if told is not None:
            found = json.loads(told)
            self.last, self.offset = found["last"], found["offset"]
            self._history.restore(found["history"])

    @classmethod
    def of(
        cls, topology: Topology, randomness: EdgeNoise, store: DeviceStore, queue: ReportQueue
    ) -> Self | None:
        """None where the topology's coordinator asks for nothing."""
        asks = topology.flow.requests is not None
        return cls(topology, randomness, store, queue) if asks else None

    def expire(self, now: int) -> None:
        """Let go of what has waited for too long by the clock (ms)."""
        self._store.expire(now - self._slots * self._topology.input.slot_ms)

    def first(self, state: State, slot: int, codes: NDArray[np.int64]) -> Step:
        """The first phase of one user's value, which needs no request."""
        batch = Batch(np.zeros(1, np.intp), slot, codes, self._randomness)
        return self._method.first(state, batch, self._history)

    def held(self, digests: Digests, slot: int, codes: NDArray[np.int64], now: int) -> Held | None:
        """The value of one user as it waits for a request; None where none can come. Of divided
        users those of half A are never asked.
        """
        if slot <= self.last:
            return None
        if self._method.terms.population and not in_second_half(digests)[0]:
            return None
        return Held(slot, int(codes[0]), now)

    def over(self, slot: int) -> int:
        """The last slot that no request of a user's can come for, once a value of ``slot`` has."""
        return slot - self._slots

    def take(self, value: bytes | None, now: int, offset: int | None = None) -> int | Dropped:
        """Answer a request, if it counts; how many reports are on the disk, and in the queue, for
        it. Why it does not count, where it does not: then nothing has changed.

        Parameters
        ----------
        now : milliseconds, of the device's clock
        offset : of its message in the topic, where it came from there
        """
        try:
            request = read_request(value)
        except BadRecord:
            return Dropped.NOT_A_REQUEST
        asking = Asking(request.slot, request.epsilon, request.share, request.of)
        responder = self._method
        if request.phase != SECOND:
            return Dropped.PHASE
        if request.slot <= self.last:
            return Dropped.REPEATED
        if request.slot * self._topology.input.slot_ms > now + self._topology.input.max_ahead_ms:
            return Dropped.AHEAD
        if request.epsilon and not responder.valid(asking):
            return Dropped.NOT_A_REQUEST
        self.expire(now)
        states, reports = self._asked(asking) if request.epsilon else ([], [])
        history = responder.history()
        history.restore(self._history.saved())
        if request.epsilon:
            history.add(asking)
        at = self.offset if offset is None else offset
        told = {"last": request.slot, "offset": at, "history": history.saved()}
        self._queue.answer(states, reports, told=json.dumps(told), through=request.slot)
        self.last, self.offset, self._history = request.slot, at, history
        return len(reports)

    def _asked(self, asking: Asking) -> tuple[list[tuple[bytes, bytes]], list[tuple[bytes, bytes]]]:
        """The states of all users after a valid request, and (id, message) of the reports."""
        held, states, reports = self._store.held(asking.slot), [], []
        for digest, kept in self._store.users():
            digests = np.frombuffer(digest, _DIGEST).reshape(1, 2)
            state = unpacked(self._method.fields, digests, kept)
            code = held.get(digest)
            batch = Batch(
                np.zeros(1, np.intp),
                asking.slot,
                np.array([0 if code is None else code]),
                self._randomness,
                np.array([code is not None]),
            )
            step = self._method.second(state, batch, asking, self._history)
            states.append((digest, packed(state)))
            if step.status[0] == SENT:
                reports += messages_of(
                    self._topology, self._randomness, digests, asking.slot, step, asking.cost
                )
        return states, reports
