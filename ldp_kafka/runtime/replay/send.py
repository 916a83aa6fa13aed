"""Send messages to the raw topic, at the pace of event time and no faster than workers read."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Producer

from ldp_kafka.errors import BrokerError, ConfigurationError
from ldp_kafka.runtime.kafka import admin
from ldp_kafka.runtime.kafka.decisions import Decided
from ldp_kafka.runtime.replay.messages import Raw, last_tick
from ldp_kafka.runtime.replay.pace import Pace
from ldp_kafka.runtime.replay.source import Source
from ldp_kafka.topology import Topology
from ldp_kafka.topology.planner import BATCH_BYTES, row_bytes

__all__ = ["UNREAD_BYTES", "Sent", "Unread", "check_ahead", "check_past", "send"]

UNREAD_BYTES = 2 * 2**20  # a partition of the embedded broker holds 5 MiB and then drops the oldest
_SINGLE_BYTES = 250  # of one report as JSON, beside its row
_PATIENCE = 120.0  # seconds without any progress of the workers


class Sent(NamedTuple):
    """What a replay wrote."""

    messages: int
    events: int
    bytes: int


def check_ahead(topology: Topology, source: Source, now_ms: int | None = None) -> None:
    """Refuse what the edge would take for a time in the future: it would all be dead letters.

    Raises
    ------
    ConfigurationError : the tick after the last slot would be further ahead of now than
        ``input.max_ahead``

    """
    now = int(time.time() * 1000) if now_ms is None else now_ms
    if last_tick(topology, source.last) > now + topology.input.max_ahead_ms:
        raise ConfigurationError(
            "the input's last slot lies further in the future than input.max_ahead: shift it with"
            " --start"
        )


def check_past(topology: Topology, source: Source, now_ms: int | None = None) -> None:
    """Refuse what would be left out as late by the records that are written now.

    Raises
    ------
    ConfigurationError : ticks alone close slots, and the first slot is over, as late as may be

    """
    now = int(time.time() * 1000) if now_ms is None else now_ms
    over = topology.slot_start(source.first + 1 + topology.input.lateness)
    if topology.input.by_ticks and over <= now:
        old = ", or give the topology closing: events, for old data" * topology.curated
        raise ConfigurationError(
            "the input's first slot is over, and by the clock its events are late: shift it to now"
            f" with --start{old}"
        )


class Position(NamedTuple):
    """How far a group is in one partition."""

    committed: int | None
    end: int
    """Of the log."""


class Unread:
    """How much of the log nobody has read yet: of the raw topic, and of the reports that come of
    it.

    Parameters
    ----------
    edge, collector : configurations of confluent-kafka clients
    limit : bytes of a partition that may be unread
    ask : (role) -> by partition how far its group is; default: the brokers

    """

    def __init__(
        self,
        topology: Topology,
        edge: Mapping[str, Any],
        collector: Mapping[str, Any],
        limit: int = UNREAD_BYTES,
        ask: Callable[[str], Mapping[int, Position]] | None = None,
    ) -> None:
        self._topology, self._limit = topology, limit
        # of the users who report in a slot
        self._share = min(1.0, topology.method.influence / topology.method.window)
        self._row = row_bytes(topology)
        # Who reads the raw records, and who the reports that answer them, where anybody does
        self._perturb = topology.reader(topology.raw_topic)[0].name
        self._sides = {self._perturb: (edge, topology.raw_topic)}
        self._collect = None
        if not topology.curated:
            self._collect = topology.reader(topology.reports_topic)[0].name
            self._sides[self._collect] = (collector, topology.reports_topic)
        self._ask = ask or self._positions
        partitions = range(topology.input.partitions)
        # (messages sent so far, bytes, and about, of the reports that answer them)
        self._open: list[deque[tuple[int, int, int]]] = [deque() for _ in partitions]
        self._bytes = {role: [0 for _ in partitions] for role in self._sides}
        # of the reports that are in their topic, or wait for a bound
        self._answered = [0 for _ in partitions]
        self._slots = [-1 for _ in partitions]
        self._sent = [0 for _ in partitions]
        self._start: dict[int, int] | None = None
        self._read: dict[int, int] = {}

    def _positions(self, role: str) -> Mapping[int, Position]:
        config, topic = self._sides[role]
        partitions = range(self._topology.input.partitions)
        committed = admin.committed(config, self._topology.group(role), topic, partitions)
        ends = admin.extents(config, topic, partitions)
        return {each: Position(committed[each], ends[each][1]) for each in partitions}

    def add(self, raw: Raw) -> bool:
        """Note a message; whether its partition has too much unread now."""
        at, answer = raw.partition, self._answer(raw)
        if self._start is None:
            self._start = {of: each.committed or 0 for of, each in self._ask(self._perturb).items()}
            if self._collect is not None:
                told = self._ask(self._collect)
                self._read = {of: each.committed or 0 for of, each in told.items()}
        self._sent[at] += 1
        self._open[at].append((self._sent[at], len(raw.value) + 100, answer))
        self._bytes[self._perturb][at] += len(raw.value) + 100
        if self._collect is not None:
            self._bytes[self._collect][at] += answer
        return any(count[at] > self._limit for count in self._bytes.values())

    def _answer(self, raw: Raw) -> int:
        """About so many bytes of reports come of a message."""
        rows = int(self._share * self._row * raw.events)
        if self._topology.report_rows:
            slot = self._topology.slot_of(raw.timestamp)
            moves = slot > self._slots[raw.partition]
            self._slots[raw.partition] = max(slot, self._slots[raw.partition])
            return rows + BATCH_BYTES * moves
        # A single report is a JSON object, with packed bits in hexadecimal; a batch has its schema
        if raw.events == 1:
            return int(self._share * (_SINGLE_BYTES + 2 * self._row))
        return BATCH_BYTES + rows

    def refresh(self) -> bool:
        """Ask the brokers; whether anything has been read since the last time."""
        assert self._start is not None
        moved = False
        for at, position in self._ask(self._perturb).items():
            waiting, read = self._open[at], (position.committed or 0) - self._start[at]
            while waiting and waiting[0][0] <= read:
                _, size, answer = waiting.popleft()
                self._bytes[self._perturb][at] -= size
                self._answered[at] += answer
                moved = True
        if self._collect is None:
            return moved
        for at, position in self._ask(self._collect).items():
            # How many reports a message has is not known: what is unread is shared out evenly. What
            # is answered and not there waits at the edge for a bound: less than a partition holds
            before = self._read[at]
            now = max(position.committed or 0, before)
            unread, new = max(0, position.end - now), position.end - before
            left = self._answered[at] * unread // new if unread else 0
            self._bytes[self._collect][at] -= self._answered[at] - left
            self._answered[at] = left
            moved, self._read[at] = moved or now > before, now
        return moved

    @property
    def full(self) -> bool:
        """Whether some partition has too much unread."""
        return any(size > self._limit for sizes in self._bytes.values() for size in sizes)

    def wait(self, interval: float = 0.25, patience: float = _PATIENCE) -> None:
        """Return when no partition has too much unread; BrokerError where the workers have read
        nothing for ``patience`` seconds.
        """
        since = time.monotonic()
        while self.full:
            if self.refresh():
                since = time.monotonic()
            elif time.monotonic() - since > patience:
                raise BrokerError(
                    f"the workers have read nothing for {patience:g} s: start them with `ldp-kafka"
                    " run`"
                )
            else:
                time.sleep(interval)


def send(
    topology: Topology,
    config: Mapping[str, Any],
    stream: Iterable[Raw],
    *,
    speed: float | None = None,
    unread: Unread | None = None,
    decided: Decided | None = None,
    progress: Callable[[int], object] | None = None,
) -> Sent:
    """Write messages to the raw topic and wait until all are there.

    Parameters
    ----------
    topology
        whose raw topic it is
    stream
        the messages in their order
    config
        of a confluent-kafka client, the edge's side
    speed
        milliseconds of event time in one of wall time; default: as fast as can be
    unread
        holds the replay back while too much is unread (the embedded broker drops what it has no
        room for)
    decided
        holds the replay back while it is too far past the last slot that a coordinator has decided
    progress
        called with the number of events written so far

    Raises
    ------
    BrokerError : a message was not taken

    """
    if speed is not None and not speed > 0:
        raise ConfigurationError("speed must be greater than 0")
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: object) -> None:
        if error is not None:
            failed.append(error)

    # The order of a partition is the order of event time: idempotence keeps it through retries
    producer = Producer(
        {"linger.ms": 5, **config, "enable.idempotence": True, "on_delivery": delivered}
    )
    count = events = size = 0
    start: tuple[float, int] | None = None
    pace = None
    if decided is not None:
        pace = Pace(topology, decided.look, partial(_produce, producer, topology.input.topic))
    for raw in stream:
        if pace is not None:
            pace.hold(raw)
        start = start or (time.monotonic(), raw.timestamp)
        if speed is not None:
            _sleep_until(producer, start[0] + (raw.timestamp - start[1]) / 1000 / speed)
        _produce(producer, topology.input.topic, raw)
        count, events, size = count + 1, events + raw.events, size + len(raw.value)
        if failed:
            break
        if unread is not None and unread.add(raw):
            producer.flush(10)
            unread.wait()
        if progress is not None and (raw.events > 1 or count % 1000 == 0):
            progress(events)
    left = producer.flush(30)
    if failed or left:
        reason = failed[0].name() if failed else "no answer in time"
        raise BrokerError(f"topic {topology.input.topic} did not take the replay: {reason}")
    if progress is not None:
        progress(events)
    return Sent(count, events, size)


def _produce(producer: Any, topic: str, raw: Raw) -> None:
    while True:
        try:
            producer.produce(topic, raw.value, raw.key, partition=raw.partition)
        except BufferError:  # the local queue is full: let it drain
            producer.poll(0.1)
        except (
            KafkaException
        ) as error:  # refused before it was sent: the topic has no such partition, for one
            raise BrokerError(
                f"topic {topic} did not take the replay: {error.args[0].name()}"
            ) from error
        else:
            producer.poll(0)
            return


def _sleep_until(producer: Any, moment: float) -> None:
    while (left := moment - time.monotonic()) > 0:
        producer.poll(min(left, 0.5))
