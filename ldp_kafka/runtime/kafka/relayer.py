"""The relayer: someone else's topic, copied into a log at the edge that is ours to write to.

It runs in a thread of each process of its role, in a consumer group of its own: each partition is
copied by one of them, into the partition of the same number, or, where it re-keys, each event into
that of its user.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from confluent_kafka import (
    OFFSET_INVALID,
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from ldp_kafka.errors import BrokerError, ConfigurationError, StateError
from ldp_kafka.runtime.kafka.admin import extent, extents, kind_of
from ldp_kafka.runtime.kafka.admin.asking import without_errors
from ldp_kafka.runtime.kafka.copying import Copying, refuse
from ldp_kafka.runtime.kafka.decisions import Decided, decided
from ldp_kafka.runtime.kafka.deployment import RawTopic
from ldp_kafka.runtime.kafka.producer import OrderedProducer
from ldp_kafka.runtime.kafka.reader import read_records
from ldp_kafka.runtime.log import Message as Read
from ldp_kafka.runtime.recovery.start import check_partitions
from ldp_kafka.runtime.stages.relaying import Extent, Mark, Relaying, relaying_of, source_of
from ldp_kafka.runtime.stages.requests import is_request
from ldp_kafka.runtime.wire.copies import place_of
from ldp_kafka.topology import Topology
from ldp_kafka.topology.roles import Relay

__all__ = ["Relayer", "Shown"]

MOST = 500  # messages of a partition that are read ahead, and appended together
BYTES = 8 * 2**20  # of them
LISTEN = 0.2  # seconds
SOON = 0.02  # seconds, while something waits to be copied
SERVE = 0.005  # seconds between two looks at what has been delivered
LOOK = 0.5  # seconds between two looks at how far other partitions are
CHECK = 5.0  # seconds between two looks at how many partitions there are
LONG = 60.0  # seconds of being held back after which it says so

_END = KafkaError._PARTITION_EOF  # noqa: SLF001 - that is its name


class Shown(NamedTuple):
    """Where a relayer stands, for the metrics."""

    waiting: int
    """Offsets of its partitions that are not copied."""
    held: float
    """Seconds for which the partition that has waited longest has been held back; 0: none is."""

    def __repr__(self) -> str:
        return "Shown()"  # never a count of raw data


@dataclass(repr=False)
class _Line:
    """One partition that is copied."""

    relaying: Relaying
    next: int
    """The offset that is copied next."""
    log: int
    """See `Mark.log`."""
    due: int
    """The offset that is read next."""
    seen: float
    """When something of it came last."""
    queue: deque[Message] = field(default_factory=deque)
    """Read, and not copied yet."""
    size: int = 0
    """Bytes of it."""
    first: tuple[Read, Extent] | None = None
    """What the first of them says, where it has been looked at."""
    ended: bool = False
    """Whether nothing is left of it."""
    paused: bool = False
    held: float | None = None
    """Since when the first of the queue has been held back."""
    told: bool = False
    """Whether that was said."""
    committed: tuple[int, Mark] | None = None

    def idle(self, seconds: float, now: float) -> bool:
        """Whether nothing is left to copy, and nothing has come for so long."""
        return self.ended and not self.queue and now - self.seen >= seconds

    def drop(self, message: Message) -> None:
        """It is done with."""
        self.queue.popleft()
        self.size -= _size(message)
        self.first, self.held = None, None
        self.next = message.offset() + 1


class Relayer(Copying):
    """Copies records as `ldp_kafka.runtime.stages.relaying` says: as they are, key, value, headers,
    timestamp, and their order, with a header that says which offset they had; or event by event.

    After a crash at any point the next one reads, from our log itself, what was copied last: the
    offset that is committed with the group is only where it begins to look. So a record is in our
    log once, unless a process goes on that has lost its partition to another (stopped for longer
    than its session, then woken): then a run of records may lie there twice, the first of each in
    the order of the other log. That changes no report: of a user's events at or before its last
    slot none counts, whatever its value.

    Where it re-keys (`Rekeying`) it looks at no log of ours: it goes on at the offset that is
    committed with the group, once all that was before it has arrived in all partitions, and writes
    again what was not committed. The fold drops what it has.

    Where a coordinator asks, nothing is copied past ``input.ahead`` slots after the last one that
    it has decided, for as long as it decides none. A partition that is held back is given ticks,
    and so is one of which nothing is left for ``input.idle``.

    Not copied are control records: requests come from the forwarder alone.

    Parameters
    ----------
    topology : whose values they are
    relay : from where to where
    own : settings of a confluent-kafka client of the edge's cluster
    collector : of the collector's, where requests are
    raw : the topic that it reads, of which nothing is copied once it was made anew
    counted : is told what was copied and dropped, in the names of `Metrics.add`
    shown : is told where it stands
    failed : called once, at the end of the thread, with what ended it before it was told to
    """

    def __init__(
        self,
        topology: Topology,
        relay: Relay,
        own: Mapping[str, Any],
        collector: Mapping[str, Any],
        *,
        raw: RawTopic,
        counted: Callable[[Mapping[str, int]], None],
        shown: Callable[[Shown], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        super().__init__(topology, relay, "its records cannot be relayed", own, failed)
        self._settings |= {
            "auto.offset.reset": "error",  # what has expired is a loss, and is said
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
        self._topology, self._relay, self._counted, self._shown = topology, relay, counted, shown
        self._own, self._collector, self._raw = own, collector, raw
        # how large a record may be is the topic's business
        more = {"message.timeout.ms": 0, "message.max.bytes": 1_000_000_000}
        self._producer = OrderedProducer({**own, **more}, refuse)
        idle = topology.input.idle_ms
        self._idle = None if idle is None else idle / 1000
        self._lines: dict[int, _Line] = {}
        self._new: list[int] = []
        """Partitions that were assigned, and are not begun yet."""
        self._decided: Decided | None = None
        self._unsure = False
        """Whether something was read since a broker has said of which topic."""
        self._paced = topology.method.phases > 1
        self._counts = {"relayed": 0, "relay_dropped": 0}
        self._checked = self._looked = self._told = 0.0

    def _consumer(self) -> Consumer:
        return Consumer(self._settings)

    def _forget(self) -> None:
        self._lines.clear()
        self._new.clear()

    def _work(self, consumer: Consumer) -> None:
        consumer.subscribe(
            [self._relay.reads.name],
            on_assign=self._assigned,
            on_revoke=self._revoked,
            on_lost=self._lost,
        )
        with ExitStack() as stack:
            while not self._stop.is_set():
                self._reach(consumer)
                self._take(consumer)
                if self._ready(consumer, stack) and self._is_same():
                    self._append(consumer)
                    self._commit(consumer)
                self._tell(consumer)

    # partitions come and go

    def _assigned(self, consumer: Consumer, given: Sequence[TopicPartition]) -> None:
        """Nothing is read before it is known from where, nor asked of partitions that are new."""
        self._forget()
        self._checked = 0.0
        self._new = sorted(each.partition for each in given)
        consumer.assign([])

    def _revoked(self, consumer: Consumer, _: object) -> None:
        with suppress(KafkaException):  # a right that is missing is heard of at the next question
            self._commit(consumer)
        self._forget()

    def _lost(self, *_: object) -> None:
        self._forget()

    def _ready(self, consumer: Consumer, stack: ExitStack) -> bool:
        """Whether all is known that is needed to go on; what a broker does not say now it is asked
        again.
        """
        try:
            if self._paced and self._decided is None:
                self._decided = stack.enter_context(decided(self._topology, self._collector))
            self._check(consumer)
            if self._new:
                self._begin(consumer)
        except BrokerError:
            return False
        except KafkaException as error:
            self._hear(error.args[0])
            return False
        return True

    def _check(self, consumer: Consumer) -> None:
        """That there are as many partitions as before: with others, users would move."""
        now = time.monotonic()
        if now - self._checked < CHECK:
            return
        topic = self._relay.reads
        found = consumer.list_topics(topic.name, timeout=5).topics[topic.name]
        if found.error is not None:
            raise KafkaException(found.error)
        if self._relay.rekey and len(found.partitions) != topic.partitions:
            raise StateError(
                f"{topic.name} must have {topic.partitions} partitions (input.sources), found"
                f" {len(found.partitions)}: no slot would wait for all of them. Give the topology"
                f" another name, with input.sources: {len(found.partitions)}"
            )
        check_partitions(topic.name, topic.partitions, len(found.partitions))
        self._checked = now

    def _is_same(self) -> bool:
        """Whether what was read is of the topic that the worker has begun with, as far as a broker
        says so now. StateError where it was made anew.
        """
        if self._unsure:
            try:
                self._raw.check()
            except BrokerError:
                return False
            self._unsure = False
        return True

    def _begin(self, consumer: Consumer) -> None:
        """Go on where our log ends."""
        source = self._relay.reads.name
        self._producer.poll()
        if not self._producer.arrived(self._producer.mark()):
            return  # what was under way when a partition was lost belongs to what is looked at
        places = [TopicPartition(source, number) for number in self._new]
        known = without_errors(consumer.committed(places, timeout=5))
        marks = {each.partition: Mark.read(each.metadata) for each in known}
        ends = self._ends()
        there = extents(self._own, source, self._new)
        lines = {}
        for place in known:
            number, mark = place.partition, marks[place.partition]
            made = relaying_of(self._topology, number, mark)
            at = None if place.offset == OFFSET_INVALID else place.offset
            first, end = ends.get(number, (0, 0))
            if made.in_log:
                at = self._follow(number, max(mark.log, first), end, made, at)
            elif at is None:
                at = self._unread(number, there[number][0], made)
            at = self._start(number, at, *there[number])
            lines[number] = _Line(made, at, end, at, time.monotonic())
        self._new.clear()
        self._lines = lines
        consumer.assign([TopicPartition(source, n, line.next) for n, line in lines.items()])

    def _ends(self) -> Mapping[int, tuple[int, int]]:
        """Of each partition that is new, where our log begins and ends; of none where it has no
        partition of the same number.
        """
        if self._relay.rekey:
            return {}
        return extents(self._own, self._relay.writes.name, self._new)

    def _follow(
        self, number: int, first: int, end: int, made: Relaying, at: int | None
    ) -> int | None:
        """What our log holds from ``first`` on: the offset behind what was copied last."""
        for kept in read_records(self._own, self._relay.writes.name, {number: (first, end)}):
            made.found(Read(kept.offset, kept.timestamp, kept.value))
            copied = source_of(kept.headers)
            if copied is not None:
                at = copied + 1 if at is None else max(at, copied + 1)
        return at

    def _unread(self, number: int, low: int, made: Relaying) -> int | None:
        """Where nothing is committed, as of a group that was away for too long: the offset behind
        all that our log has of a partition that it re-keys, if that is one of those before ``low``,
        which have expired. Else None: what it has is written again. What was decided is in our log,
        too, and may have expired elsewhere.
        """
        behind = -1
        held = read_records(self._own, self._relay.writes.name) if low > 0 or self._paced else ()
        for kept in held:
            if is_request(kept.value):
                made.found(Read(kept.offset, kept.timestamp, kept.value))
            elif (place := place_of(kept.value)) is not None and place.source == number:
                # a tick lies before the record at its offset
                behind = max(behind, place.offset + (not place.is_tick))
        return behind if 0 <= behind < low else None

    def _start(self, number: int, at: int | None, low: int, high: int) -> int:
        """The offset to begin with. What had expired before the first start was never ours.

        Raises
        ------
        StateError : it is not there any more, or not yet
        """
        where = f"{self._relay.reads.name} partition {number}"
        if at is None or (at < low and self._relay.gaps):
            return low
        if at < low:
            raise StateError(
                f"{where}: offsets {at} to {low - 1} expired before they were relayed: they are"
                " lost. input.gaps: allow goes on without them"
            )
        if at > high:
            raise StateError(
                f"{where} ends at offset {high}, and {at} were relayed: it was made anew, or lost"
                " its end. Give the topology another name"
            )
        return at

    # from there to here

    def _take(self, consumer: Consumer) -> None:
        """Read what there is, or wait a moment for it."""
        waits = any(line.queue for line in self._lines.values())
        message = consumer.poll(SOON if waits or self._new else LISTEN)
        self._producer.poll()
        taken = 0
        while message is not None:
            error = message.error()
            if error is None or error.code() == _END:
                self._keep(consumer, message)
            else:
                self._hear(error)
            taken += 1
            if taken >= MOST:
                return
            message = consumer.poll(0)

    def _keep(self, consumer: Consumer, message: Message) -> None:
        line = self._lines.get(message.partition())
        if line is None or message.offset() < line.due:
            return  # of an assignment before this one, or of before a pause
        if message.offset() > line.due and not self._relay.gaps:
            raise ConfigurationError(
                f"{self._relay.reads.name} partition {message.partition()} has no offset"
                f" {line.due}: it was compacted away, or belongs to a transaction. input.gaps:"
                " allow goes on without"
            )
        end = message.error() is not None
        line.due = message.offset() + (not end)
        line.ended, line.seen = False, line.seen if end else time.monotonic()
        line.queue.append(message)
        self._unsure = self._unsure or not end
        line.size += _size(message)
        if not line.paused and (len(line.queue) >= MOST or line.size >= BYTES):
            consumer.pause([TopicPartition(self._relay.reads.name, message.partition())])
            line.paused = True

    def _append(self, consumer: Consumer) -> None:
        """Copy what may be copied, and see that it has arrived."""
        slot = None if self._decided is None else self._decided.look(0)
        now = time.monotonic()
        for number, line in self._lines.items():
            line.relaying.hear(slot)
            self._copy(number, line, now)
            if line.paused and not line.queue:
                consumer.resume([TopicPartition(self._relay.reads.name, number)])
                line.paused = False
        self._tick(consumer, now)
        mark = self._producer.mark()
        while not self._producer.arrived(mark):
            if time.monotonic() > self._until:
                self._forget()
                return
            self._producer.poll(SERVE)
        if any(self._counts.values()):
            self._counted(dict(self._counts))
            self._counts = dict.fromkeys(self._counts, 0)

    def _copy(self, number: int, line: _Line, now: float) -> None:
        """As far as one partition may go. One message of each, whatever room there is: of a batch
        that is split there is a record for each event, and no partition is to wait for others.
        """
        copied = 0
        while line.queue and (not copied or self._producer.room):
            message = line.queue[0]
            if message.error() is not None:
                line.queue.popleft()
                line.next, line.ended = message.offset(), not line.queue
                continue
            if is_request(message.value()):
                self._counts["relay_dropped"] += 1
                line.drop(message)
                continue
            if line.first is None:
                read = Read(message.offset(), _stamp(message), message.value())
                line.first = read, line.relaying.extent(read)
            read, extent = line.first
            if not line.relaying.passes(extent):
                line.held = line.held or now
                due = line.relaying.due(extent)
                if due is not None:
                    self._send_ticks(line, due)
                return
            if line.told:
                line.told = False
                logging.getLogger(__name__).warning("%s goes on", self._where(number))
            more = message.key(), message.headers() or ()
            self._producer.send(line.relaying.copied(read, extent, *more))
            line.relaying.written(extent.time)
            self._counts["relayed"] += 1
            copied += 1
            line.drop(message)

    def _tick(self, consumer: Consumer, now: float) -> None:
        """Bring idle partitions to where others are, of which other processes say how far they are
        with what they commit.
        """
        if self._idle is None or now - self._looked < LOOK:
            return
        idle = {n: line for n, line in self._lines.items() if line.idle(self._idle, now)}
        if not idle:
            return
        self._looked = now
        every = [TopicPartition(self._relay.reads.name, n) for n in range(self._partitions)]
        try:
            known = without_errors(consumer.committed(every, timeout=5))
        except KafkaException as error:
            self._hear(error.args[0])
            return
        times = [Mark.read(each.metadata).time for each in known]
        latest = max(*times, *(line.relaying.time for line in self._lines.values()))
        for number, line in idle.items():
            due = line.relaying.news(latest)
            if due is not None and self._at_end(consumer, number, line):
                self._send_ticks(line, due)

    def _at_end(self, consumer: Consumer, number: int, line: _Line) -> bool:
        """Whether its leader says, now, that nothing is left. While one is away nothing comes,
        whatever was written; what a tick had passed by then would be late when it is back.
        """
        place = TopicPartition(self._relay.reads.name, number)
        try:
            _, end = extent(consumer, place, 1)
        except KafkaException:  # of what lasts the reader hears
            return False
        return end <= line.next

    def _send_ticks(self, line: _Line, at: int) -> None:
        self._producer.send(line.relaying.ticks(line.next, at))
        line.relaying.written(at)

    @property
    def _partitions(self) -> int:
        return self._relay.reads.partitions

    def _commit(self, consumer: Consumer) -> None:
        """Commit how far it has come; where that fails for now, the next turn does, or whoever has
        the partition then finds it in our log.
        """
        to, wanted = self._relay.writes.name, {}
        for number, line in self._lines.items():
            if line.relaying.in_log:
                line.log = max(line.log, self._producer.end(to, number) or 0)
            found = line.next, Mark(line.log, line.relaying.time, line.relaying.decided)
            if found != line.committed:
                wanted[number] = found
        if not wanted:
            return
        places = [
            TopicPartition(self._relay.reads.name, number, offset, metadata=mark.text)
            for number, (offset, mark) in wanted.items()
        ]
        try:
            without_errors(consumer.commit(offsets=places, asynchronous=False))
        except KafkaException as error:
            if kind_of(error.args[0]) is ConfigurationError:
                raise
        else:
            for number, found in wanted.items():
                self._lines[number].committed = found

    # what it says of itself

    def _tell(self, consumer: Consumer) -> None:
        now = time.monotonic()
        if now - self._told < 1:
            return
        self._told, waiting, held = now, 0, 0.0
        for number, line in self._lines.items():
            place = TopicPartition(self._relay.reads.name, number)
            with suppress(KafkaException):
                _, high = consumer.get_watermark_offsets(place, cached=True)
                waiting += max(0, high - line.next)
            since = 0.0 if line.held is None else now - line.held
            held = max(held, since)
            if since > LONG and not line.told:
                line.told = True
                logging.getLogger(__name__).warning(
                    "%s is held back: no slot was decided for %d s. It goes on once the"
                    " coordinator does; what its topic lets expire meanwhile is lost",
                    self._where(number),
                    LONG,
                )
        self._shown(Shown(waiting, held))

    def _where(self, number: int) -> str:
        return f"the relay of {self._relay.reads.name} partition {number}"


def _size(message: Message) -> int:
    return 0 if message.error() is not None else len(message.value() or b"")


def _stamp(message: Message) -> int:
    """When the record was written, by its own timestamp, and no later than now: brokers refuse
    what is later. Of 0, which a producer takes for now, it is 1.
    """
    kind, stamp = message.timestamp()
    now = time.time_ns() // 1_000_000
    return now if kind == TIMESTAMP_NOT_AVAILABLE else min(int(stamp), now) or 1
