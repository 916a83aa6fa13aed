"""One idempotent producer, and how to know that what it was given has arrived."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain, groupby, islice
from operator import itemgetter
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from ldp_kafka.errors import BrokerError, ConfigurationError, LdpKafkaError
from ldp_kafka.runtime.kafka.admin import kind_of
from ldp_kafka.runtime.log import PlainRecords, Record, TableRecord, TableRow

__all__ = ["OrderedProducer"]

# records that are held back, and their bytes, from which on there is no `room` for more
HELD, HELD_BYTES = 10_000, 2**25
# What goes together, at most: what one request holds. Its bytes are those of librdkafka's default,
# with what it writes beside each record; its records are so few that it does not begin to send
# (after linger.ms) before all are there.
ROWS, BYTES, BESIDE = 2_000, 950_000, 100
LARGEST = 1_000_000  # bytes of a request: `message.max.bytes` of librdkafka, where nobody sets it
# records of one partition under way, with which librdkafka makes no further request of it
MANY = 5
TURN = 0.002  # seconds between two looks at what has arrived
SOON, STILL = 1.0, 0.05  # seconds without anything, after which it looks this seldom
# seconds after a confirmation in which a partition's broker is taken to know the producer
KNOWN = 60.0
Failures = dict[int, tuple[KafkaError, Message]]
_PURGED = (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT)  # noqa: SLF001 - their names


class _Line:
    """What was given for one partition, and how much of it has arrived.

    Parameters
    ----------
    failures : by error code, the first record that was not delivered
    """

    __slots__ = ("_failures", "arrived", "cut", "end", "given", "heard", "held", "produced", "size")

    def __init__(self, failures: Failures) -> None:
        self._failures = failures
        self.given = self.produced = self.arrived = 0
        self.heard = float("-inf")
        """When something was last confirmed."""
        self.held: deque[TableRow] = deque()
        """Given, and not produced yet."""
        self.size = 0
        """Bytes of their values."""
        self.end: int | None = None
        """The offset behind a late record that has arrived."""
        self.cut = False
        """Whether records are under way of which none will say that they have arrived: there was no
        room for the one that would."""

    def hold(self, rows: Sequence[TableRow]) -> None:
        """Hold these back, behind all that is."""
        self.held.extend(rows)
        self.size += _size(rows)

    def delivered(self, number: int, error: KafkaError | None, message: Message) -> None:
        """The last record of a lot has arrived, and so have all ``number`` up to it: a partition's
        records arrive in order. Once any has failed, none counts any more.
        """
        self.failed(error, message)
        if self._failures:
            return
        self.arrived = number
        self.heard, self.cut = time.monotonic(), False
        offset = message.offset()
        if offset >= 0:  # of a record that had arrived before it was sent again: unknown
            self.end = offset + 1

    def failed(self, error: KafkaError | None, message: Message) -> None:
        """Note a record that was not delivered. By code: an error of code -1 (unknown) has no hash,
        and the client comes to its end where it is asked for one.
        """
        if error is not None:
            self._failures.setdefault(error.code(), (error, message))


class OrderedProducer:
    """Produces records in order, without gaps; the first that cannot be delivered ends everything.

    Whoever reads what a worker wrote takes what comes first and drops repeats, so nothing may lie
    in a partition without what was to come before it. An idempotent producer alone does not promise
    that: a broker takes any first sequence number from a producer that it does not know, so of
    several requests under way the second would be written where the first is refused. To a
    partition that has confirmed nothing for `KNOWN` seconds one record goes alone, and the rest
    when it has arrived. (Brokers forget a producer that is silent for
    ``producer.id.expiration.ms``, a day by default; it must not be set to minutes.)

    To a partition with `MANY` records under way nothing more goes, either, and more than so many
    go together only where nothing is, and no more than one request holds: librdkafka would make no
    further request of it before they have arrived, and as long as there is one to be made it does
    not sleep. It looks whether it may, without a pause, on a whole core, however long a broker is
    slow or frozen. (What is under way may not be sent yet: librdkafka would begin to send in the
    middle of what comes behind it. So it does where the machine holds this up amid records that go
    together, for longer than linger.ms: the rest of them then waits on a core, for one answer.)

    A broker that is away is waited for, however long: what is tried again is tried in its order,
    and a copy of it that arrives late is known by its sequence number and not written. Nothing here
    blocks: what finds no room is held back, and whoever gives more should look at `room` before.

    Parameters
    ----------
    config : librdkafka settings: bootstrap servers and the topology's client settings
    failed : called once with the broker's word for a record that was not delivered, as the error
        that it is; must not return into the fold
    """

    def __init__(self, config: Mapping[str, Any], failed: Callable[[LdpKafkaError], None]) -> None:
        self._failed = failed
        self._lines: dict[tuple[str, int], _Line] = {}
        self._broken: KafkaError | None = None
        """Of what the producer does not survive."""
        self._failures: Failures = {}
        self._told = 0
        self._polled = float("-inf")
        self._purged: set[str] = set()
        """Topics of records that it threw away because of it."""
        settings = {
            "linger.ms": 5,
            "batch.num.messages": ROWS,
            "compression.type": "none",
            "log_level": 3,
            "queue.buffering.max.kbytes": 262144,
            # how long a broker may be away is not for one record to say
            "message.timeout.ms": 0,
            **config,
        }
        self._producer = Producer(
            {
                **settings,
                "enable.idempotence": True,
                "enable.gapless.guarantee": True,
            }
        )

    def send(self, records: Iterable[Record | PlainRecords | TableRecord]) -> None:
        """Hand over records, in order."""
        for to, same in groupby(records, key=itemgetter(0, 1)):
            line = self._lines.get(to) or self._begin(to)
            lot = list(same)
            number = sum(each.number for each in lot)
            line.given += number
            rows = list(chain.from_iterable(each.rows() for each in lot))
            go = 0 if line.held else _together(rows, self._share(line, len(rows)))
            line.hold([*self._produce(to, line, rows[:go]), *islice(rows, go, None)])
        self.poll()

    def _begin(self, to: tuple[str, int]) -> _Line:
        """The line of a partition that nothing was given for yet."""
        if to[1] < 0:
            raise ValueError(
                "a record must name its partition: what has arrived is counted by partition"
            )
        return self._lines.setdefault(to, _Line(self._failures))

    @property
    def room(self) -> bool:
        """Whether little is held back, so that more may be given; not while something under way
        would only be known to have arrived where nothing else is, see `_share`.
        """
        lines = self._lines.values()
        few = sum(len(line.held) for line in lines) < HELD
        small = sum(line.size for line in lines) < HELD_BYTES
        return few and small and not any(each.cut for each in lines)

    def _share(self, line: _Line, wait: int) -> int:
        """How many of those that wait may go. One alone where the partition's broker may not know
        this producer, so that nothing can get in before it.

        Of what is under way before a record that found no room nobody says that it has arrived:
        the next record does, once there is room for it. Where nothing is under way at all, and
        nothing has failed, it has.
        """
        under_way = line.produced - line.arrived
        if line.cut and not self._failures and not len(self._producer):
            under_way = 0
        if not self._known(line):
            return int(not under_way)
        if not under_way:
            return ROWS
        return wait if under_way + wait <= MANY else int(line.cut)

    def _known(self, line: _Line) -> bool:
        """Whether the partition's broker has confirmed something lately."""
        return time.monotonic() - line.heard < KNOWN

    def _produce(
        self, to: tuple[str, int], line: _Line, rows: Sequence[TableRow]
    ) -> Sequence[TableRow]:
        """Put records into the producer's queue; those that found no room there.

        The last of them says that all up to it have arrived, the others only where they fail.
        """
        topic, partition = to
        # by position: to look up names takes the client half as long as all the rest
        produce = self._producer.produce
        left = iter(rows)
        last = partial(line.delivered, line.produced + len(rows))
        for delivered, some in ((line.failed, len(rows) - 1), (last, 1)):
            for row in islice(left, max(some, 0)):
                key, value, headers, timestamp = row
                more = list(headers) if headers else None
                try:
                    produce(topic, value, key, partition, delivered, None, timestamp, more)
                except BufferError:
                    self._serve(0.0)  # what has arrived lies there until it is said
                    try:
                        produce(topic, value, key, partition, delivered, None, timestamp, more)
                    except BufferError:
                        line.cut = line.produced > line.arrived
                        return [row, *left]
                    except KafkaException as error:
                        raise self._refused(topic, len(value or b""), error.args[0]) from None
                # too large, an unknown partition: asking again does not help, and the text
                # shows no value
                except KafkaException as error:
                    raise self._refused(topic, len(value or b""), error.args[0]) from None
                line.produced += 1
        return ()

    def _refused(self, topic: str, size: int, reason: KafkaError) -> LdpKafkaError:
        """What to say of a record that the producer did not take."""
        if reason.code() == KafkaError._FATAL:  # noqa: SLF001 - that is its name
            self._purged.add(topic)
            return self._end_of_it()
        return ConfigurationError(
            f"topic {topic}: a record of {size:,} bytes was refused: {reason.str()}"
        )

    @property
    def pause(self) -> float | None:
        """Seconds until it is to be polled again, so that what is held back goes on; None where
        nothing is.
        """
        lines = self._lines.values()
        if not any(line.held for line in lines):
            return None
        heard = max(line.heard for line in lines)
        return TURN if time.monotonic() - heard < SOON else STILL

    def mark(self, topic: str | None = None, partition: int = 0) -> dict[tuple[str, int], int]:
        """What has been handed over so far, of all partitions or of one."""
        if topic is not None:
            return {(topic, partition): self._lines[topic, partition].given}
        return {to: line.given for to, line in self._lines.items()}

    def arrived(self, mark: Mapping[tuple[str, int], int]) -> bool:
        """Whether all of it has arrived, as far as delivery reports were served."""
        return all(self._lines[to].arrived >= count for to, count in mark.items())

    def late(self, mark: Mapping[tuple[str, int], int]) -> list[tuple[str, int]]:
        """The partitions that have not got all of it."""
        return [to for to, count in mark.items() if self._lines[to].arrived < count]

    def end(self, topic: str, partition: int) -> int | None:
        """The offset behind a late record of ours that has arrived in a partition; None where none
        is known.
        """
        line = self._lines.get((topic, partition))
        return None if line is None else line.end

    async def flush(
        self,
        mark: Mapping[tuple[str, int], int],
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> bool:
        """Wait until all of it has arrived; whether it has. It has not where for so many seconds,
        by this clock, nothing of it did, nor found room.
        """
        moved, before, looked = clock(), -1, time.monotonic()
        while True:
            self._poll_again()
            if self.arrived(mark):
                return True
            now = sum(self._lines[to].arrived + self._lines[to].produced for to in mark)
            if now != before:
                moved, before, looked = clock(), now, time.monotonic()
            if clock() - moved > seconds:
                return False
            await asyncio.sleep(TURN if time.monotonic() - looked < SOON else STILL)

    def _poll_again(self) -> None:
        """Poll, unless another has just done it: of a large state hundreds wait at a time."""
        if abs(time.monotonic() - self._polled) >= TURN / 2:
            self.poll()

    def poll(self, seconds: float = 0.0) -> None:
        """Serve delivery reports, and produce what has waited for one, or for room."""
        self._serve(seconds)
        for to, line in self._lines.items():
            if line.held and (go := _together(line.held, self._share(line, len(line.held)))):
                rows = [line.held.popleft() for _ in range(go)]
                left = self._produce(to, line, rows)
                line.held.extendleft(reversed(left))
                line.size += _size(left) - _size(rows)
        self._polled = time.monotonic()

    def _serve(self, seconds: float) -> None:
        """Delivery reports, and the end where the producer has come to its own."""
        self._listen(seconds)
        if self._broken is not None or self._purged:
            self._failed(self._end_of_it())

    def _listen(self, seconds: float) -> None:
        try:
            self._producer.poll(seconds)
        except KafkaException as error:
            self._broken = self._broken or error.args[0]
        new = list(self._failures.values())[self._told :]
        self._told += len(new)
        for failure, message in new:
            self._not_delivered(failure, message)

    def _end_of_it(self) -> LdpKafkaError:
        """Why the producer failed. The reason comes before or after the records that it threw away,
        and before or after it refuses new ones.
        """
        for _ in range(10):
            self._listen(0.05)
            if self._broken is not None and self._purged:
                break
        late = {to[0] for to, line in self._lines.items() if line.produced > line.arrived}
        of = late | self._purged
        reason = "it gave no reason" if self._broken is None else self._broken.str()
        # what it came of is in its text alone
        lacking = "authorization failed" in reason.lower()
        kind = ConfigurationError if lacking else BrokerError
        return kind(
            f"topic {', '.join(sorted(of))}: the producer has failed: {reason}{_advice(reason)}"
        )

    def _not_delivered(self, error: KafkaError, message: Message) -> None:
        if error.code() in _PURGED:
            self._purged.add(message.topic())
            return
        # without the right to write, another start writes no more than this one
        text = f"topic {message.topic()}: not delivered: {error.str()}{_advice(error.str())}"
        self._failed(kind_of(error)(text))


def _advice(reason: str) -> str:
    """What to do about it, where that is known: the reason of a failure is text alone."""
    small = "size too large" in reason.lower()
    return "; its max.message.bytes is too small: the next start says for what" * small


def _size(rows: Iterable[TableRow]) -> int:
    """Bytes of their values."""
    return sum(len(value) for _, value, *_ in rows if value is not None)


def _together(rows: Collection[TableRow], most: int) -> int:
    """How many of these records go together, the first ones: so many at most, and what fits into
    one request.
    """
    left = BYTES
    for number, (key, value, *_) in enumerate(islice(rows, most)):
        left -= len(key or b"") + len(value or b"") + BESIDE
        if left < 0 and number:
            return number
    return min(most, len(rows))
