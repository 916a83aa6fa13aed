"""`ldp_kafka.Client`: a device that perturbs its own values and has no raw topic.

It takes the same step as the edge's workers, so its reports have the same law and the same ledger
bounds them. It must never draw twice for one slot::

    report(value) ─▶ is the slot later than the user's last?
                  ─▶ method.step
                  ─▶ one transaction: state and report, on the disk
                  ─▶ producer ─▶ acknowledged ─▶ the queue's row is deleted

A crash before the transaction ends leaves nothing on the disk, and nothing has left the device:
another value may take the slot. A crash after it leaves both, and the same bytes are sent again.
The collector counts a report's id once in an open slot
(`ldp_kafka.runtime.stages.collect_devices`).
"""

from __future__ import annotations

import json
import os
import threading
import time as clocks
from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime
from enum import StrEnum
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import numpy as np
from confluent_kafka import KafkaException, Producer
from numpy.typing import NDArray

from ldp_kafka.accounting import NEVER, State
from ldp_kafka.errors import BadRecord, BrokerError, ConfigurationError, Reason, StateError
from ldp_kafka.methods.base import REFUSED, SENT, Step
from ldp_kafka.randomness import Digests, Ids, Keyed
from ldp_kafka.records import Reports
from ldp_kafka.runtime.device.store import DeviceStore, sync_folder
from ldp_kafka.runtime.kafka.setup import client_config
from ldp_kafka.runtime.keys import edge_randomness, new_key, read_key
from ldp_kafka.runtime.stages.collect_devices import partition_of
from ldp_kafka.runtime.wire.events import EventReader
from ldp_kafka.runtime.wire.parsing import LATEST
from ldp_kafka.runtime.wire.reports import write_reports
from ldp_kafka.topology import Topology, load

__all__ = ["Client", "Sender", "Status"]

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
    """The method reports nothing in this slot."""


class Sender(Protocol):
    """What of a confluent-kafka ``Producer`` a client needs: delivery reports come from within
    `poll`.
    """

    def produce(
        self,
        topic: str,
        /,
        *,
        value: bytes,
        partition: int,
        on_delivery: Callable[[Any, Any], None],
    ) -> None:
        """Take one message; BufferError where no more can be taken now."""

    def poll(self, timeout: float, /) -> int:
        """Serve delivery reports for up to ``timeout`` seconds."""


class Client:
    """One device, with one or a few users.

    Parameters
    ----------
    topology : of the reports, or the path of its file; all devices and the collector have the same
    user : who reports where `report` names nobody; 1 to 256 bytes
    database : path of the SQLite file with budgets and unsent reports, mode 0600
    key_file : path of the device's own secret, at least 32 random bytes, mode 0600; default: the
        topology's ``edge.key_file``, or ``LDP_KAFKA_EDGE_KEY`` (base64)
    create : make the database where it is missing, and with it the key file. To be left off once a
        device has reported: a lost database then is an error, not a new budget
    producer : in place of a confluent-kafka one of its own; its delivery reports must come from
        within ``poll``
    clock : milliseconds since 1970-01-01 UTC
    most_queued : reports that may wait for the broker

    Raises
    ------
    ConfigurationError : no key, no database, or others can read them; or the topology's
        ``input.source`` is not ``devices``
    StateError : the database is damaged, in use by another process, or of another key, fingerprint
        or version
    BrokerError : the broker is embedded, and no process hosts it

    Notes
    -----
    The guarantee is the topology's, for each user, as long as the user has **one** database: the
    same person on two devices, or on a device and in the raw topic, has two budgets, and they add
    up. A database that is brought back from a backup has forgotten what was spent since: begin a
    new topology instead. Each device has a key of its own; the collector needs none of them.

    When a report leaves tells when the value was there, to the second; where that is a secret,
    report at fixed times. A clock that was ahead keeps its user silent until that time has come.

    May be used from several threads, one process at a time; calls wait for the disk (one synced
    transaction a report). Delivery reports are served within `report`, `poll` and `flush`.

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
    >>> with Client(topology, user="m1", create=True, producer=broker, **files) as client:
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
        create: bool = False,
        producer: Sender | None = None,
        clock: Callable[[], int] | None = None,
        most_queued: int = QUEUE,
    ) -> None:
        self._topology = topology if isinstance(topology, Topology) else load(topology)
        if self._topology.flow.raw is not None:
            raise ConfigurationError(
                f"input.source of {self._topology.name} must be devices: nobody would count the"
                " reports of this client"
            )
        self._method, self._user, self._most = self._topology.method, user, most_queued
        self._clock = clock or _now
        categories = self._topology.privacy.category_names or self._topology.privacy.categories
        self._reader = EventReader(
            ("user",), ("value",), ("time",), categories, self._method.dimension
        )
        self._dtype = np.float64 if categories is None else np.int64
        place = Path(database)
        self._randomness = _randomness(self._topology, key_file, place, create=create)
        self._store = DeviceStore(place, _bound(self._topology, self._randomness), create=create)
        self._lock, self._process, self._closed = threading.RLock(), os.getpid(), False
        self._waiting = deque(self._store.waiting())  # of these the producer has none
        self._queued = len(self._waiting)
        # filled from within poll, whoever calls it
        self._delivered: deque[tuple[int, str | None]] = deque()
        self._acknowledged: list[int] = []
        self._problem: str | None = None
        try:
            self._producer: Sender = _producer(self._topology) if producer is None else producer
        except BaseException:
            self._store.close()
            raise

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
            now = self._clock()
            name, at, bound = self._event(value, time, now, user)
            if at > now + self._topology.input.max_ahead_ms:
                raise BadRecord(Reason.AHEAD)
            slot = at // self._topology.input.slot_ms
            digests = self._randomness.digests(Ids.of([name]))
            state = self._load(digests)
            if int(state.columns["last"][0]) >= slot:
                return Status.LATE
            if self._queued >= self._most:
                raise BrokerError(
                    f"{self._queued:,} reports wait for the broker, as many as may: nothing is"
                    f" drawn until it takes some{self._why()}"
                )
            step = self._method.step(state, np.zeros(1, np.intp), slot, bound, self._randomness)
            reports = self._reports(digests, slot, step)
            rows = self._commit(digests.tobytes(), _packed(state), reports)
            self._waiting.extend(rows)
            self._queued += len(rows)
            self._hand_over()
            if reports:
                return Status.QUEUED if self._waiting else Status.SENT
            return Status.REFUSED if step.status[0] == REFUSED else Status.SILENT

    def poll(self, timeout: float = 0) -> int:
        """Serve delivery reports for up to ``timeout`` seconds, and hand over what waits; how many
        reports are not acknowledged.
        """
        with self._lock:
            self._serve(timeout)
            self._forget()
            return self._queued

    def flush(self, timeout: float = 10.0) -> int:
        """Wait up to ``timeout`` seconds until the broker has everything; how many reports it has
        not.
        """
        until = clocks.monotonic() + timeout
        with self._lock:
            while self._queued and (left := until - clocks.monotonic()) > 0:
                self._serve(min(left, 0.1))
            self._forget()
            return self._queued

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

    @property
    def queued(self) -> int:
        """Reports that the broker has not acknowledged, as far as is known."""
        return self._queued

    @property
    def problem(self) -> str | None:
        """The last error of the broker, or of the connection, for a report; None where the last one
        arrived.
        """
        return self._problem

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
            f"{type(self).__name__}({self._topology.name!r}, {self._queued} queued)"
        )

    def _event(self, value: Any, time: Any, now: int, user: str | None) -> tuple[str, int, Any]:
        """User, milliseconds and the value as the method's integers: read as the edge reads it."""
        if not 0 <= now < LATEST:
            raise BadRecord(Reason.TIME)
        event = {
            "user": self._user if user is None else user,
            "value": _plain(value),
            "time": 0 if time is None else _plain(time),
        }
        name, at, found = self._reader.fields(event)
        return name, now if time is None else at, self._method.bound(np.array([found], self._dtype))

    def _load(self, digests: Digests) -> State:
        """The arrays of one user, read from the database, or fresh ones. They are read for each
        report anew: the database is the only state.
        """
        state = State(self._method.fields, digests)
        held = self._store.state(digests.tobytes())
        if held is not None:
            at = 0
            for name, dtype, length in _layout(state):
                cells = np.frombuffer(held, dtype, length or 1, at)
                state.columns[name][..., 0] = cells if length else cells[0]
                at += cells.nbytes
        return state

    def _reports(self, digests: Digests, slot: int, step: Step) -> list[tuple[bytes, bytes]]:
        """(id, message) of each report of a step."""
        if step.status[0] != SENT:
            return []
        scale, series = (
            self._method.scale,
            (self._randomness.series(digests) if self._topology.per_user else None),
        )
        if step.slots is None:
            slots, answers = np.array([slot]), step.answers
        else:
            there = step.slots[0] != NEVER
            slots, answers = step.slots[0][there], step.answers[0][there]
        values = self._method.blank(len(slots))
        values[...] = answers if scale == 1 else answers * (1 / scale)
        return [
            self._single(digests, slots[i : i + 1], values[i : i + 1], step.phase, series)
            for i in range(len(slots))
        ]

    def _single(
        self,
        digests: Digests,
        slots: NDArray[np.int64],
        values: NDArray[Any],
        phase: int,
        series: Digests | None,
    ) -> tuple[bytes, bytes]:
        """(id, message) of one report as a device sends it: with no source offset, and nothing that
        it closes.
        """
        ids = self._randomness.report_ids(digests, slots, phase)
        return ids.tobytes(), write_reports(
            Reports(
                ids,
                slots,
                values,
                self._method.scale,
                self._topology.fingerprint,
                -1,
                None,
                0,
                phase,
                series,
            )
        )

    def _commit(self, digest: bytes, state: bytes, reports: list[tuple[bytes, bytes]]) -> list[int]:
        """State and reports, on the disk when it returns; what was acknowledged goes with them."""
        self._usable()
        gone, self._acknowledged = self._acknowledged, []
        return self._store.commit(digest, state, reports, gone)

    def _forget(self) -> None:
        self._usable()
        gone, self._acknowledged = self._acknowledged, []
        self._store.forget(gone)

    def _serve(self, timeout: float) -> None:
        """Delivery reports, and what they leave to be sent again."""
        self._usable()
        self._hand_over()
        self._producer.poll(timeout)
        while self._delivered:
            seq, problem = self._delivered.popleft()
            self._problem = problem
            if problem is None:
                self._acknowledged.append(seq)
                self._queued -= 1
            else:
                self._waiting.append(seq)
        self._hand_over()

    def _hand_over(self) -> None:
        """Give the producer what is on the disk and what it does not have, as much as it takes."""
        while self._waiting:
            seq = self._waiting[0]
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
                self._problem = error.args[0].str()
                return
            self._waiting.popleft()

    # the producer's own signature
    def _arrived(self, seq: int, error: Any, message: Any) -> None:  # noqa: ARG002
        self._delivered.append((seq, None if error is None else error.str()))

    def _usable(self) -> None:
        if self._closed:
            raise StateError("the client is closed")
        if self._process != os.getpid():
            raise StateError(
                "a client does not survive a fork: open one in the process that reports"
            )

    def _why(self) -> str:
        return "" if self._problem is None else f" ({self._problem})"


def _now() -> int:
    return clocks.time_ns() // 1_000_000


def _plain(found: Any) -> Any:
    """A value as JSON would hold it."""
    if isinstance(found, datetime):
        return found.isoformat()
    return found.tolist() if isinstance(found, np.generic | np.ndarray) else found


def _layout(state: State) -> list[tuple[str, np.dtype[Any], int]]:
    """Name, little-endian type and length of each array, in the order in which they are written."""
    return [
        (name, np.dtype(field.dtype).newbyteorder("<"), field.length)
        for name, field in sorted(state.fields.items())
    ]


def _packed(state: State) -> bytes:
    return b"".join(
        state.columns[name][..., 0].astype(dtype).tobytes() for name, dtype, _ in _layout(state)
    )


def _bound(topology: Topology, randomness: Keyed) -> dict[str, str]:
    """The topology and key that a database belongs to."""
    fields = [
        [name, dtype.str, length] for name, dtype, length in _layout(State(topology.method.fields))
    ]
    layout = {"partitions": topology.input.partitions, "per_user": topology.per_user}
    return {
        "topology": topology.name,
        "fingerprint": topology.fingerprint,
        "key": randomness.check,
        "layout": json.dumps(layout, sort_keys=True),
        "fields": json.dumps(fields),
    }


def _randomness(
    topology: Topology, key_file: str | os.PathLike[str] | None, database: Path, *, create: bool
) -> Keyed:
    path = topology.edge.key_file if key_file is None else Path(key_file)
    if path is not None and not path.exists():
        if database.exists() and database.stat().st_size:
            raise StateError(
                f"{path}: the key is missing, and its database is there: bring it back; under a new"
                " key every budget would look unspent"
            )
        if create:
            new_key(path)
            sync_folder(path)
    return edge_randomness(topology, read_key(path))


def _producer(topology: Topology) -> Sender:
    """A producer that waits for its broker as long as the process lives. A message may arrive
    twice: its id counts once.
    """
    settings = {"acks": "all", "enable.idempotence": False, "message.timeout.ms": 0, "linger.ms": 5}
    made: Sender = Producer({**settings, **client_config(topology, "edge")})
    return made
