"""One idempotent producer, and how to know that what it was given has arrived."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain, groupby, islice
from operator import itemgetter
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from ldp_kafka.errors import BrokerError, ConfigurationError, LdpKafkaError
from ldp_kafka.runtime.kafka.admin import kind_of
from ldp_kafka.runtime.log import PlainRecords, Record, Row

__all__ = ["OrderedProducer"]

FULL = 30.0  # seconds to wait for room in the producer's queue
# seconds after a confirmation in which a partition's broker is taken to know the producer
KNOWN = 60.0
_PURGED = (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT)  # noqa: SLF001 - their names


class _Line:
    """What was given for one partition, and how much of it has arrived.

    Parameters
    ----------
    failures : by error, the first record that was not delivered; and None
    """

    __slots__ = ("_failures", "arrived", "end", "given", "heard", "held", "produced")

    def __init__(self, failures: dict[Any, Any]) -> None:
        self._failures = failures
        self.given = self.produced = self.arrived = 0
        self.heard = float("-inf")
        """When something was last confirmed."""
        self.held: list[Row] = []
        """Given, and not produced yet."""
        self.end: int | None = None
        """The offset behind a late record that has arrived."""

    def delivered(self, number: int, error: KafkaError | None, message: Message) -> None:
        """The last record of a lot has arrived, and so have all ``number`` up to it: a partition's
        records arrive in order. Once any has failed, none counts any more.
        """
        self._failures.setdefault(error, message)
        if len(self._failures) > 1:
            return
        self.arrived = number
        self.heard = time.monotonic()
        offset = message.offset()
        if offset >= 0:  # of a record that had arrived before it was sent again: unknown
            self.end = offset + 1


class OrderedProducer:
    """Produces records in order, without gaps; the first that cannot be delivered ends everything.

    Whoever reads what a worker wrote takes what comes first and drops repeats, so nothing may lie
    in a partition without what was to come before it. An idempotent producer alone does not promise
    that: a broker takes any first sequence number from a producer that it does not know, so of
    several requests under way the second would be written where the first is refused. To a
    partition that has confirmed nothing for `KNOWN` seconds one record goes alone, and the rest
    when it has arrived. (Brokers forget a producer that is silent for
    ``producer.id.expiration.ms``, a day by default; it must not be set to minutes.)

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
        self._failures: dict[Any, Any] = {None: None}
        """The first record of each error. None is what a record says that has arrived: it is there
        from the beginning, so that nothing is kept of these.
        """
        self._told = len(self._failures)
        self._purged: set[str] = set()
        """Topics of records that it threw away because of it."""
        settings = {
            "linger.ms": 5,
            "compression.type": "none",
            "log_level": 3,
            "queue.buffering.max.kbytes": 262144,
            **config,
        }
        self._producer = Producer(
            {
                **settings,
                "enable.idempotence": True,
                "enable.gapless.guarantee": True,
            }
        )

    def send(self, records: Iterable[Record | PlainRecords]) -> None:
        """Hand over records; waits where the queue is full. BrokerError if it stays so."""
        for to, same in groupby(records, key=itemgetter(0, 1)):
            line = self._lines.get(to) or self._begin(to)
            lot = list(same)
            number = sum(each.number for each in lot)
            line.given += number
            self._offer(to, line, number, chain.from_iterable(each.rows() for each in lot))
        self.poll()

    def _begin(self, to: tuple[str, int]) -> _Line:
        """The line of a partition that nothing was given for yet."""
        if to[1] < 0:
            raise ValueError(
                "a record must name its partition: what has arrived is counted by partition"
            )
        return self._lines.setdefault(to, _Line(self._failures))

    def _offer(self, to: tuple[str, int], line: _Line, number: int, rows: Iterator[Row]) -> None:
        """Produce records of one partition, or hold them back: of a partition whose broker may not
        know this producer all but the first one.
        """
        if line.held or not self._free(line):
            line.held += rows
            return
        self._produce(to, line, number if self._known(line) else 1, rows)
        line.held = list(rows)

    def _free(self, line: _Line) -> bool:
        """Whether nothing can get in before what is under way: the partition's broker knows this
        producer, or there is nothing.
        """
        return line.produced == line.arrived or self._known(line)

    def _known(self, line: _Line) -> bool:
        """Whether the partition's broker has confirmed something lately."""
        return time.monotonic() - line.heard < KNOWN

    def _produce(self, to: tuple[str, int], line: _Line, number: int, rows: Iterator[Row]) -> None:
        """Put the first ``number`` of these records into the producer's queue.

        The last one says when all have arrived. What the others say is only looked at where they
        fail: to answer each in Python takes longer than to produce it.
        """
        topic, partition = to
        line.produced += number
        last = partial(line.delivered, line.produced)
        # by position: to look up names takes the client half as long as all the rest
        produce = self._producer.produce
        for delivered, some in ((self._failures.setdefault, number - 1), (last, 1)):
            for key, value, headers, timestamp in islice(rows, some):
                until = 0.0
                while True:
                    try:
                        produce(
                            topic,
                            value,
                            key,
                            partition,
                            delivered,
                            None,
                            timestamp,
                            list(headers) if headers else None,
                        )
                        break
                    # too large, an unknown partition: asking again does not help, and the text
                    # shows no value
                    except KafkaException as error:
                        raise self._refused(topic, len(value), error.args[0]) from None
                    except BufferError:
                        until = until or time.monotonic() + FULL
                        self._wait_for_room(topic, until)

    def _wait_for_room(self, topic: str, until: float) -> None:
        """Until there may be some. BrokerError at the time ``until``."""
        if time.monotonic() > until:
            raise BrokerError(f"topic {topic}: the broker took nothing for {FULL:g} s") from None
        self._serve(0.05)

    def _refused(self, topic: str, size: int, reason: KafkaError) -> LdpKafkaError:
        """What to say of a record that the producer did not take."""
        if reason.code() == KafkaError._FATAL:  # noqa: SLF001 - that is its name
            self._purged.add(topic)
            return self._end_of_it()
        return ConfigurationError(
            f"topic {topic}: a record of {size:,} bytes was refused: {reason.str()}"
        )

    def mark(self) -> dict[tuple[str, int], int]:
        """What has been handed over so far."""
        return {to: line.given for to, line in self._lines.items()}

    def arrived(self, mark: Mapping[tuple[str, int], int]) -> bool:
        """Whether all of it has arrived, as far as delivery reports were served."""
        return all(self._lines[to].arrived >= count for to, count in mark.items())

    def end(self, topic: str, partition: int) -> int | None:
        """The offset behind a late record of ours that has arrived in a partition; None where none
        is known.
        """
        line = self._lines.get((topic, partition))
        return None if line is None else line.end

    async def flush(
        self,
        mark: Mapping[tuple[str, int], int],
        timeout: float = 20.0,  # noqa: ASYNC109 - what is late is an error of ours
    ) -> None:
        """Wait until all of it has arrived: within a partition records arrive in order. BrokerError
        after ``timeout`` seconds, without those in which what was held back is produced: of the
        windows of many streams it may be a million records, which wait for room as any do.
        """
        until = time.monotonic() + timeout
        while True:
            begin = time.monotonic()
            self.poll()
            until += time.monotonic() - begin
            if self.arrived(mark):
                return
            if time.monotonic() > until:
                raise BrokerError(
                    f"the broker did not confirm within {timeout:g} s what was produced"
                )
            await asyncio.sleep(0.002)

    def poll(self, seconds: float = 0.0) -> None:
        """Serve delivery reports, and produce what has waited for one."""
        self._serve(seconds)
        for to, line in self._lines.items():
            if line.held and self._free(line):
                lot, line.held = line.held, []
                self._offer(to, line, len(lot), iter(lot))

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
        new = list(self._failures.items())[self._told :]
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
        return kind(f"topic {', '.join(sorted(of))}: the producer has failed: {reason}")

    def _not_delivered(self, error: KafkaError, message: Message) -> None:
        if error.code() in _PURGED:
            self._purged.add(message.topic())
            return
        # without the right to write, another start writes no more than this one
        self._failed(kind_of(error)(f"topic {message.topic()}: not delivered: {error.str()}"))
