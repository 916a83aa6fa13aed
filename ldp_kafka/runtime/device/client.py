"""`ldp_kafka.Client`: a device that perturbs its own values and has no raw topic.

It takes the same step as the edge's workers, so its reports have the same law and the same ledger
bounds them. It must never draw twice for one slot::

    report(value) ─▶ is the slot later than the user's last?
                  ─▶ method.step
                  ─▶ one transaction: state and report, on the disk
                  ─▶ producer ─▶ acknowledged ─▶ the queue's row is deleted

Where a coordinator asks for a second phase, a value then waits in the database for the request of
its slot, and is answered with by the same rules (`ldp_kafka.runtime.device.answers`)::

    poll() or answer(request) ─▶ the first valid request of a later slot than the last one?
                              ─▶ who is selected, and has a value there?
                              ─▶ one transaction: states, reports, and the end of the values

A crash before the transaction ends leaves nothing on the disk, and nothing has left the device:
another value may take the slot. A crash after it leaves both, and the same bytes are sent again.
The collector counts a report's id once in an open slot
(`ldp_kafka.runtime.stages.collect_devices`).
"""

from __future__ import annotations

import os
import threading
import time as clocks
from collections.abc import Callable, Sequence
from datetime import datetime
from enum import StrEnum
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import State
from ldp_kafka.errors import BadRecord, ConfigurationError, Reason, StateError
from ldp_kafka.methods.base import REFUSED, Step
from ldp_kafka.methods.batch import Batch
from ldp_kafka.randomness import Digests, Ids
from ldp_kafka.runtime.device.answers import Answers
from ldp_kafka.runtime.device.messages import messages_of
from ldp_kafka.runtime.device.producer import Sender, device_producer
from ldp_kafka.runtime.device.provisioning import files_of, found, provision
from ldp_kafka.runtime.device.queue import ReportQueue
from ldp_kafka.runtime.device.requests import Listener, RequestReader, device_consumer
from ldp_kafka.runtime.device.state import bound_to, packed, unpacked
from ldp_kafka.runtime.device.store import DeviceStore
from ldp_kafka.runtime.device.values import ValueReader
from ldp_kafka.runtime.kafka.deployment import read_deployment
from ldp_kafka.runtime.kafka.setup import client_config
from ldp_kafka.runtime.keys import edge_randomness, read_key
from ldp_kafka.topology import Topology, load

__all__ = ["Client", "Status"]

QUEUE = 100_000  # reports that may wait for the broker; about 40 MB on the disk


class Status(StrEnum):
    """What `Client.report` did with a value."""

    SENT = "sent"
    """Its report is on the disk, and the producer has it."""
    QUEUED = "queued"
    """Its report is on the disk. The producer is full; the report is sent later."""
    LATE = "late"
    """The user's slot was over: nothing was drawn, nothing spent."""
    REFUSED = "refused"
    """The ledger allowed no report."""
    SILENT = "silent"
    """The method reports nothing in this slot, or nothing before it is asked to."""


class Client:
    """One device, with one or a few users.

    Parameters
    ----------
    topology : of the reports, or the path of its file; all devices and the collector have the same
    user : who reports where `report` names nobody; 1 to 256 bytes in NFC, as which it is read
    database : path of the SQLite file with budgets and unsent reports, mode 0600
    key_file : path of the device's own secret, at least 32 random bytes, mode 0600; default: the
        topology's ``edge.key_file``, or ``LDP_KAFKA_EDGE_KEY`` (base64)
    producer : in place of a confluent-kafka one of its own; its delivery reports must come from
        within ``poll``
    consumer : of requests, in place of a confluent-kafka one of its own; where a producer is given
        and no consumer, requests come by `answer` alone
    clock : milliseconds since 1970-01-01 UTC
    most_queued : reports that may wait for the broker

    Raises
    ------
    ConfigurationError : the device was not provisioned, others can read its key or database, or
        the topology's ``input.source`` is not ``devices``
    StateError : key, database or counter is missing; the database is empty, damaged, an older copy,
        put together of two, or of another key, deployment, fingerprint or version; the device is in
        use, be it with another database, or its counter cannot be locked
    BrokerError : the broker is embedded, and no process hosts it

    Notes
    -----
    The guarantee is the topology's, for each user, as long as the user has **one** database: the
    same person on two devices, or on a device and in the raw topic, has two budgets, and they add
    up. A database that is brought back from a backup has forgotten what was spent since: it is
    refused, as long as the counter beside the key was not brought back with it. Each device has a
    key of its own; the collector needs none of them.

    When a report leaves tells when the value was there, to the second; where that is a secret,
    report at fixed times. Times of a device's own link its reports, as its connection does: give
    all devices the same, or draw one in each slot. A clock that was ahead keeps its user silent
    until that time has come.

    May be used from several threads, one process at a time; calls wait for the disk (a report is a
    synced transaction and a synced counter). Delivery reports are served within `report`, `poll`
    and `flush`.

    Where the method is a protocol that asks (``lbd``, ``lba``, ``lpd``, ``lpa``), requests are read
    and answered within `report` and `poll`: call `poll` more often than once a slot. A request is
    answered while the values of ``input.hold`` more slots come, and what is answered later is
    spent, and not counted.

    Examples
    --------
    >>> import tempfile
    >>> from ldp_kafka.topology.loader import loads
    >>> topology = loads('''
    ... topology: meters
    ... input: {source: devices, slot: 1h}
    ... privacy: {method: sw_direct, epsilon: 1.0, window: 10, domain: [0, 100]}
    ... output: {statistics: [mean]}
    ... ''')
    >>> class Memory:  # in place of a broker
    ...     def __init__(self):
    ...         self.log, self.calls = [], []
    ...     def produce(self, topic, *, value, partition, on_delivery):
    ...         self.log.append((topic, value))
    ...         self.calls.append(on_delivery)
    ...     def poll(self, timeout):
    ...         calls, self.calls = self.calls, []
    ...         return len([call(None, None) for call in calls])
    >>> folder, broker = tempfile.TemporaryDirectory(), Memory()
    >>> files = {"database": f"{folder.name}/m1.db", "key_file": f"{folder.name}/m1.key"}
    >>> Client.provision(topology, deployment="doctest", **files)  # once in a device's life
    >>> with Client(topology, user="m1", producer=broker, **files) as client:
    ...     print(client.report(37.5, time="2024-05-01T10:00:00Z"))
    ...     print(client.report(99.0, time="2024-05-01T10:59:59Z"))  # the same hour
    ...     print(client.report(41.0, time="2024-05-01T11:00:00Z"))
    sent
    late
    sent
    >>> len(broker.log), broker.log[0][0]
    (2, 'meters.device-reports')
    >>> folder.cleanup()
    """

    def __init__(
        self,
        topology: Topology | str | os.PathLike[str],
        *,
        database: str | os.PathLike[str],
        user: str | None = None,
        key_file: str | os.PathLike[str] | None = None,
        producer: Sender | None = None,
        consumer: Listener | None = None,
        clock: Callable[[], int] | None = None,
        most_queued: int = QUEUE,
    ) -> None:
        self._topology = _of_devices(topology)
        self._method, self._user, self._most = self._topology.method, user, most_queued
        self._clock = clock or _now
        self._values = ValueReader(self._topology)
        files = files_of(self._topology, database, key_file)
        found(files)
        self._store = DeviceStore(files.database, files.counter)
        self._lock, self._process, self._closed = threading.RLock(), os.getpid(), False
        self._requests: RequestReader | None = None
        try:
            deployment = self._store.bound.get("deployment", "")
            self._randomness = edge_randomness(self._topology, read_key(files.key), deployment)
            self._store.require(bound_to(self._topology, self._randomness))
            self._store.catch_up()
            sender = device_producer(self._topology) if producer is None else producer
            self._queue = ReportQueue(self._store, sender, self._topology)
            self._answers = Answers.of(self._topology, self._randomness, self._store, self._queue)
            if self._answers is not None:
                self._answers.expire(self._clock())
                if consumer is None and producer is None:
                    consumer = device_consumer(self._topology)
                if consumer is not None:
                    topic = self._topology.requests_topic
                    self._requests = RequestReader(consumer, topic, self._answers.offset)
        except BaseException:
            self._store.close()
            raise

    @staticmethod
    def provision(
        topology: Topology | str | os.PathLike[str],
        *,
        database: str | os.PathLike[str],
        key_file: str | os.PathLike[str] | None = None,
        deployment: str | None = None,
    ) -> None:
        """Make the key, the database and the counter of a new device, once in its life; a start
        never does.

        Parameters
        ----------
        topology, database, key_file : as for the client; a key in the environment is not made
        deployment : what the device's noise is bound to beside topology and key; the database
            keeps it. Default: the id of the reports topic, for which the broker is asked

        Raises
        ------
        ConfigurationError : one of the files is there, or cannot be made; the broker gives topics
            no ids and ``deployment`` is not given
        BrokerError : the broker did not answer, or has no such topic yet
        """
        loaded = _of_devices(topology)
        if deployment is None:
            config = client_config(loaded, "edge")
            deployment = read_deployment(loaded, config, loaded.reports_topic)
        provision(loaded, files_of(loaded, database, key_file), deployment)

    def report(
        self,
        value: float | str | Sequence[float],
        time: float | str | datetime | None = None,
        *,
        user: str | None = None,
    ) -> Status:
        """Perturb one value and send it; nothing where the user's slot is over.

        Parameters
        ----------
        value : a number, clamped to the domain; a list of numbers; or a category, by number or
            name: as in the topology
        time : of the value: milliseconds or seconds since 1970-01-01 UTC, ISO 8601, or a datetime
            (UTC where it names no zone); default: the clock's
        user : whose it is; default: the client's

        Returns
        -------
        what became of it; where it is ``sent`` or ``queued`` the report is on the disk and will
        reach the broker, over whatever crashes

        Raises
        ------
        BadRecord : NaN, infinite, of a wrong type, no category, no user, or further ahead of the
            clock than ``input.max_ahead``; its ``reason`` is a code, and nothing was spent
        BrokerError : as many reports wait as may; nothing was drawn
        StateError : the database could not be written; nothing has left. Open the client anew
        """
        with self._lock:
            self._serve(0)
            self._listen(0)
            now = self._clock()
            name, at, found = self._values.read(
                self._user if user is None else user, value, time, now
            )
            bound = self._method.bound(found)
            if at > now + self._topology.input.max_ahead_ms:
                raise BadRecord(Reason.AHEAD)
            slot = at // self._topology.input.slot_ms
            digests = self._randomness.digests(Ids.of([name]))
            state = self._load(digests)
            if int(state.columns["last"][0]) >= slot:
                return Status.LATE
            self._queue.room(self._most)
            step, more = self._step(state, slot, bound, now)
            reports = messages_of(self._topology, self._randomness, digests, slot, step)
            self._usable()
            self._queue.commit(digests.tobytes(), packed(state), reports, **more)
            self._queue.hand_over()
            if reports:
                return Status.QUEUED if self._queue.waiting else Status.SENT
            return Status.REFUSED if step.status[0] == REFUSED else Status.SILENT

    def answer(self, *requests: bytes) -> int:
        """Answer a coordinator's requests, whoever brings them: a gateway, say, where the device
        does not read their topic. Nobody has to be trusted for it.

        Parameters
        ----------
        requests : messages of ``<topology>.requests`` as they are there, in their order; one that
            is none, comes again, or is of a slot before one that has come, changes nothing

        Returns
        -------
        how many reports they gave: these are on the disk, as those of `report`

        Raises
        ------
        ConfigurationError : the topology's method is not asked for anything
        BrokerError : as many reports wait as may; that request, and those after it, have changed
            nothing, and may come again
        StateError : the database could not be written; nothing has left. Open the client anew
        """
        with self._lock:
            self._serve(0)
            if self._answers is None:
                raise ConfigurationError(f"{self._method.name} is not asked for anything")
            made = sum(self._answer(self._answers, request) for request in requests)
            self._queue.hand_over()
            return made

    def poll(self, timeout: float = 0) -> int:
        """Serve delivery reports for up to ``timeout`` seconds, and hand over what waits; how many
        reports are not acknowledged. Where the client reads requests, it is these that are waited
        for, and they are answered.

        Raises
        ------
        ConfigurationError : the login may not read requests
        BrokerError, StateError : as of `answer`
        """
        with self._lock:
            self._serve(0 if self._requests is not None else timeout)
            self._listen(timeout)
            self._forget()
            return self._queue.queued

    def flush(self, timeout: float = 10.0) -> int:
        """Wait up to ``timeout`` seconds until the broker has everything; how many reports it has
        not.
        """
        until = clocks.monotonic() + timeout
        with self._lock:
            while self._queue.queued and (left := until - clocks.monotonic()) > 0:
                self._serve(min(left, 0.1))
            self._forget()
            return self._queue.queued

    def close(self, timeout: float = 10.0) -> None:
        """`flush`, and close the database; what the broker has not acknowledged by then goes out
        with the next client.
        """
        with self._lock:
            if self._closed:
                return
            try:
                if not self._store.failed:  # whoever asked for what failed knows
                    self.flush(timeout)
            finally:
                self._closed = True
                self._store.close()
                if self._requests is not None:
                    self._requests.close()

    @property
    def queued(self) -> int:
        """Reports that the broker has not acknowledged, as far as is known."""
        return self._queue.queued

    @property
    def problem(self) -> str | None:
        """The last error of the broker, or of the connection, for a report; None where the last one
        arrived. Where there is none, that of the connection for requests.
        """
        heard = None if self._requests is None else self._requests.problem
        return self._queue.problem or heard

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return (  # neither users nor values
            f"{type(self).__name__}({self._topology.name!r}, {self._queue.queued} queued)"
        )

    def _load(self, digests: Digests) -> State:
        """The arrays of one user, read from the database, or fresh ones. They are read for each
        report anew: the database is the only state.
        """
        return unpacked(self._method.fields, digests, self._store.state(digests.tobytes()))

    def _step(
        self, state: State, slot: int, bound: NDArray[np.int64], now: int
    ) -> tuple[Step, dict[str, Any]]:
        """What a value gives at once, and what is committed with it."""
        if self._answers is None:
            batch = Batch(np.zeros(1, np.intp), slot, bound, self._randomness)
            return self._method.step(state, batch), {}
        held = self._answers.held(state.digests(np.zeros(1, np.intp)), slot, bound, now)
        step = self._answers.first(state, slot, bound)
        return step, {"held": held, "through": self._answers.over(slot)}

    def _listen(self, timeout: float) -> None:
        """Answer the requests that come within ``timeout`` seconds."""
        if self._answers is None:
            return
        self._answers.expire(self._clock())
        if self._requests is None:
            return
        self._requests.read(timeout)
        waiting = self._requests.waiting
        while waiting:
            offset, request = waiting[0]
            self._answer(self._answers, request, offset)
            waiting.popleft()
        self._queue.serve(0)

    def _answer(self, answers: Answers, request: bytes | None, offset: int | None = None) -> int:
        """How many reports it gave."""
        self._queue.room(self._most)
        self._usable()
        made = answers.take(request, self._clock(), offset)
        return made if isinstance(made, int) else 0

    def _serve(self, timeout: float) -> None:
        self._usable()
        self._queue.serve(timeout)

    def _forget(self) -> None:
        self._usable()
        self._queue.forget()

    def _usable(self) -> None:
        if self._closed:
            raise StateError("the client is closed")
        if self._process != os.getpid():
            raise StateError(
                "a client does not survive a fork: open one in the process that reports"
            )


def _now() -> int:
    return clocks.time_ns() // 1_000_000


def _of_devices(topology: Topology | str | os.PathLike[str]) -> Topology:
    loaded = topology if isinstance(topology, Topology) else load(topology)
    if loaded.flow.raw is not None:
        raise ConfigurationError(
            f"input.source of {loaded.name} must be devices: nobody would count the reports of this"
            " client"
        )
    return loaded
