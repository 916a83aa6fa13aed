"""One idempotent producer, and how to know that what it was given has arrived."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from ldp_kafka.errors import BrokerError, ConfigurationError
from ldp_kafka.runtime.fold import Record

__all__ = ["Outbox"]

FULL = 30.0  # seconds to wait for room in the producer's queue


class Outbox:
    """Produces records in order, without gaps; the first that cannot be delivered ends everything.

    Parameters
    ----------
    config : librdkafka settings: bootstrap servers and the topology's client settings
    failed : called once with the broker's word for a record that was not delivered; must not return into the fold
    """

    def __init__(self, config: Mapping[str, Any], failed: Callable[[str], None]) -> None:
        self._failed = failed
        self._given: Counter[tuple[str, int]] = Counter()
        self._arrived: Counter[tuple[str, int]] = Counter()
        settings = {"linger.ms": 5, "compression.type": "none", "log_level": 3, "queue.buffering.max.kbytes": 262144, **config}
        self._producer = Producer({**settings, "enable.idempotence": True, "enable.gapless.guarantee": True, "on_delivery": self._delivered})

    def send(self, records: Iterable[Record]) -> None:
        """Hand over records; waits where the queue is full. BrokerError if it stays so."""
        for record in records:
            if record.partition < 0:
                raise ValueError("a record must name its partition: what has arrived is counted by partition")
            until = 0.0
            while True:
                try:
                    self._producer.produce(record.topic, key=record.key, value=record.value, partition=record.partition, headers=list(record.headers) or None)
                    break
                except KafkaException as error:  # too large, an unknown partition: asking again does not help, and the text shows no value
                    if error.args[0].code() == KafkaError._FATAL:  # noqa: SLF001 - that is its name
                        raise BrokerError(f"topic {record.topic}: the producer has failed: {error.args[0].str()}") from None
                    raise ConfigurationError(f"topic {record.topic}: a record of {len(record.value):,} bytes was refused: {error.args[0].str()}") from None
                except BufferError:
                    now = time.monotonic()
                    until = until or now + FULL
                    if now > until:
                        raise BrokerError(f"topic {record.topic}: the broker took nothing for {FULL:g} s") from None
                    self.poll(0.05)
            self._given[record.topic, record.partition] += 1
        self.poll()

    def mark(self) -> dict[tuple[str, int], int]:
        """What has been handed over so far."""
        return dict(self._given)

    async def settle(self, mark: Mapping[tuple[str, int], int], timeout: float = 20.0) -> None:  # noqa: ASYNC109 - what is late is an error of ours
        """Wait until all of it has arrived: within a partition records arrive in order. BrokerError after ``timeout`` seconds."""
        until = time.monotonic() + timeout
        while True:
            self.poll()
            if all(self._arrived[to] >= count for to, count in mark.items()):
                return
            if time.monotonic() > until:
                raise BrokerError(f"the broker did not confirm within {timeout:g} s what was produced")
            await asyncio.sleep(0.002)

    def poll(self, seconds: float = 0.0) -> None:
        """Serve delivery reports; the broker's word for a failure that a producer does not survive comes here, before that for its record."""
        try:
            self._producer.poll(seconds)
        except KafkaException as error:
            self._failed(f"the producer has failed: {error.args[0].str()}")

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failed(f"topic {message.topic()}: not delivered: {error.str()}")
            return
        self._arrived[message.topic(), message.partition()] += 1
