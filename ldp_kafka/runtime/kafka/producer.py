"""One idempotent producer, and how to know that what it was given has arrived."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from ldp_kafka.errors import BrokerError, ConfigurationError, LdpKafkaError
from ldp_kafka.runtime.kafka.admin import kind_of
from ldp_kafka.runtime.log import Record

__all__ = ["OrderedProducer"]

FULL = 30.0  # seconds to wait for room in the producer's queue
# seconds after a confirmation in which a partition's broker is taken to know the producer
KNOWN = 60.0
_PURGED = (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT)  # noqa: SLF001 - their names


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
        self._given: Counter[tuple[str, int]] = Counter()
        self._produced: Counter[tuple[str, int]] = Counter()
        self._arrived: Counter[tuple[str, int]] = Counter()
        self._heard: dict[tuple[str, int], float] = {}
        self._held: dict[tuple[str, int], list[Record]] = {}
        self._ends: dict[tuple[str, int], int] = {}
        self._broken: KafkaError | None = None
        """Of what the producer does not survive."""
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
                "on_delivery": self._delivered,
            }
        )

    def send(self, records: Iterable[Record]) -> None:
        """Hand over records; waits where the queue is full. BrokerError if it stays so."""
        for to, same in groupby(records, key=itemgetter(0, 1)):
            if to[1] < 0:
                raise ValueError(
                    "a record must name its partition: what has arrived is counted by partition"
                )
            lot = list(same)
            self._given[to] += len(lot)
            self._offer(to, lot)
        self.poll()

    def _offer(self, to: tuple[str, int], lot: list[Record]) -> None:
        """Produce records of one partition, or hold them back: of a partition whose broker may not
        know this producer all but the first one.
        """
        if to in self._held or not self._free(to):
            self._held.setdefault(to, []).extend(lot)
            return
        now = len(lot) if self._known(to) else 1
        for record in lot[:now]:
            self._produce(record)
        if lot[now:]:
            self._held[to] = lot[now:]

    def _free(self, to: tuple[str, int]) -> bool:
        """Whether nothing can get in before what is under way: the partition's broker knows this
        producer, or there is nothing.
        """
        return self._produced[to] == self._arrived[to] or self._known(to)

    def _known(self, to: tuple[str, int]) -> bool:
        """Whether the partition's broker has confirmed something lately."""
        return time.monotonic() - self._heard.get(to, float("-inf")) < KNOWN

    def _produce(self, record: Record) -> None:
        """Put a record into the producer's queue."""
        until = 0.0
        while True:
            try:
                self._producer.produce(
                    record.topic,
                    key=record.key,
                    value=record.value,
                    partition=record.partition,
                    headers=list(record.headers) or None,
                    timestamp=record.timestamp,
                )
                break
            # too large, an unknown partition: asking again does not help, and the text shows no
            # value
            except KafkaException as error:
                if error.args[0].code() == KafkaError._FATAL:  # noqa: SLF001 - that is its name
                    self._purged.add(record.topic)
                    raise self._end_of_it() from None
                raise ConfigurationError(
                    f"topic {record.topic}: a record of {len(record.value):,} bytes was refused:"
                    f" {error.args[0].str()}"
                ) from None
            except BufferError:
                now = time.monotonic()
                until = until or now + FULL
                if now > until:
                    raise BrokerError(
                        f"topic {record.topic}: the broker took nothing for {FULL:g} s"
                    ) from None
                self._serve(0.05)
        self._produced[record.topic, record.partition] += 1

    def mark(self) -> dict[tuple[str, int], int]:
        """What has been handed over so far."""
        return dict(self._given)

    def arrived(self, mark: Mapping[tuple[str, int], int]) -> bool:
        """Whether all of it has arrived, as far as delivery reports were served."""
        return all(self._arrived[to] >= count for to, count in mark.items())

    def end(self, topic: str, partition: int) -> int | None:
        """The offset behind a late record of ours that has arrived in a partition; None where none
        is known.
        """
        return self._ends.get((topic, partition))

    async def flush(
        self,
        mark: Mapping[tuple[str, int], int],
        timeout: float = 20.0,  # noqa: ASYNC109 - what is late is an error of ours
    ) -> None:
        """Wait until all of it has arrived: within a partition records arrive in order. BrokerError
        after ``timeout`` seconds.
        """
        until = time.monotonic() + timeout
        while True:
            self.poll()
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
        for to in [to for to in self._held if self._free(to)]:
            self._offer(to, self._held.pop(to))

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

    def _end_of_it(self) -> LdpKafkaError:
        """Why the producer failed. The reason comes before or after the records that it threw away,
        and before or after it refuses new ones.
        """
        for _ in range(10):
            self._listen(0.05)
            if self._broken is not None and self._purged:
                break
        of = {to[0] for to, n in self._produced.items() if n > self._arrived[to]} | self._purged
        reason = "it gave no reason" if self._broken is None else self._broken.str()
        # what it came of is in its text alone
        lacking = "authorization failed" in reason.lower()
        kind = ConfigurationError if lacking else BrokerError
        return kind(f"topic {', '.join(sorted(of))}: the producer has failed: {reason}")

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None and error.code() in _PURGED:
            self._purged.add(message.topic())
            return
        if error is not None:
            # without the right to write, another start writes no more than this one
            self._failed(kind_of(error)(f"topic {message.topic()}: not delivered: {error.str()}"))
            return
        to = message.topic(), message.partition()
        self._arrived[to] += 1
        self._heard[to] = time.monotonic()
        if message.offset() >= 0:  # of a record that had arrived before it was sent again: unknown
            self._ends[to] = message.offset() + 1
