"""What reads from brokers: the thread in which Faust runs its client, and what Faust has of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import (
    CommitFailedError,
    GroupAuthorizationFailedError,
    IllegalStateError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    TopicAuthorizationFailedError,
)
from aiokafka.structs import OffsetAndMetadata
from aiokafka.structs import TopicPartition as ClientPartition
from faust.transport.consumer import Consumer as BaseConsumer
from faust.transport.drivers import aiokafka
from faust.types import TP

from ldp_kafka.runtime.worker.driver.connections import Connections
from ldp_kafka.runtime.worker.driver.private_api import Private
from ldp_kafka.runtime.worker.exits import end
from ldp_kafka.runtime.worker.process import forbidden

__all__ = ["PRIVATE_API", "Consumer", "ConsumerThread"]

logger = logging.getLogger(__name__)

FETCH_WAIT_MS = 500
AGAIN = 1.0  # seconds until a question that a broker left without an answer is asked again


class ConsumerThread(aiokafka.AIOKafkaConsumerThread):  # type: ignore[misc]
    """The thread in which Faust runs its client."""

    def _create_worker_consumer(self, transport: Any) -> Any:
        """A fetch waits for data for Kafka's usual time. Faust's wait three times as long, and what
        else is asked on the same connection waits behind them: a worker with nothing to read took
        six seconds from its assignment to its first fold.

        With ``read_committed``, leave out what a foreign producer's transaction took back; Faust
        itself does so under exactly_once only. Its connections are `connections`.
        """
        consumer = super()._create_worker_consumer(transport)
        consumer._client.__class__ = Connections  # noqa: SLF001 - it has sent nothing yet
        consumer._client.connect_within(self.app.connect_ms)  # noqa: SLF001
        consumer._fetch_max_wait_ms = FETCH_WAIT_MS  # noqa: SLF001 - read when it starts
        if self.app.read_committed:
            consumer._isolation_level = "read_committed"  # noqa: SLF001 - read when it starts
        return consumer

    async def on_start(self) -> None:
        """A broker that is away as the client begins is waited for."""
        self._consumer = self._create_consumer(loop=self.thread_loop)
        self.time_started = monotonic()
        while True:
            try:
                await self._consumer.start()
            except KafkaConnectionError:
                if self.should_stop or self.app.should_stop:
                    raise
                await asyncio.sleep(AGAIN)
            else:
                return

    async def highwaters(self, *partitions: Any) -> Any:
        """The ends of logs, however long their broker is away."""
        return await self._patiently(lambda: super(ConsumerThread, self).highwaters(*partitions))

    async def earliest_offsets(self, *partitions: Any) -> Any:
        """Their first offsets, the same. Faust goes to the offset before each, but for 0; before
        one below 0 there is none that the client takes, and the worker would end.
        """
        ask = super().earliest_offsets
        found = await self._patiently(lambda: ask(*partitions))
        return {place: first and max(0, first) for place, first in found.items()}

    async def _patiently(self, ask: Callable[[], Awaitable[Any]]) -> Any:
        """Ask until there is an answer, or nobody wants it any more."""
        while True:
            try:
                return await ask()
            except KafkaTimeoutError:
                if self.should_stop:
                    raise
                await asyncio.sleep(AGAIN)

    async def _commit(self, offsets: Mapping[Any, int]) -> bool:
        """Commit what is this worker's; whether it is committed. What is not is committed next
        time, by whoever has it then. Faust's ends the worker where a rebalance has begun meanwhile,
        or the group's coordinator has another reason to refuse for a while.
        """
        mine = self.assignment()
        found = {
            ClientPartition(tp.topic, tp.partition): OffsetAndMetadata(offset, "")
            for tp, offset in offsets.items()
            if tp in mine
        }
        if not found:  # the client may have no assignment at all, which it takes for a mistake
            return False
        try:
            await self._ensure_consumer().commit(found)
        except (CommitFailedError, IllegalStateError):
            return False
        except KafkaError as error:
            if forbidden(error) is not None:
                await self.crash(error)
            else:
                logger.warning("offsets are not committed just now: %r", error)
            return False
        return True

    async def seek_to_committed(self) -> Any:
        """What Faust asks for once its tables are there: each partition back to where its group
        stands.

        Its client leaves a partition alone whose group stands at 0 or nowhere yet: what had been
        fetched of it by then was thrown away, and is not fetched again. Such a partition goes to
        the first offset of its log.

        The broker answers on a connection that may wait for a fetch. Where another rebalance begins
        meanwhile none goes to its first offset: that is left to the recovery of its assignment.
        """
        consumer, rebalance = self._ensure_consumer(), self.app.tables.recovery.rebalance

        async def seek() -> Any:
            found = await consumer.seek_to_committed()
            fresh = [
                place
                for place, offset in found.items()
                if not offset and place.topic in self.app.folded
            ]
            begin = partial(consumer.beginning_offsets, fresh)
            first = await self._patiently(begin) if fresh else {}
            # a rebalance begins in this thread, so none can begin between this and the seek
            if rebalance == self.app.rebalancing_count:
                for place, offset in first.items():
                    consumer.seek(place, offset)
            return found

        return await self.call_thread(seek)

    async def read_again(self, topic: str, partition: int, offset: int) -> None:
        """Go back to an offset, unless a rebalance begins meanwhile: it goes where its group
        stands.
        """
        consumer, rebalance = self._ensure_consumer(), self.app.rebalancing_count
        place = TP(topic, partition)

        async def seek() -> None:
            if rebalance == self.app.rebalancing_count:
                with suppress(IllegalStateError):  # it is another's by now
                    consumer.seek(place, offset)
                    self.consumer._read_offset[place] = offset or None  # noqa: SLF001

        await self.call_thread(seek)

    async def _fetch_records(self, consumer: Any, *what: Any, **how: Any) -> Any:
        """What there is, unless nobody may have it now: then it is left to be fetched again.

        A fetch of the last assignment waits out a rebalance, and takes what comes first after it,
        of any partition. Faust throws that away, since no message may flow yet. Of a changelog
        whose place had just been sought it would never come again, and its recovery would wait for
        it without end.

        A worker whose right to read was taken away ends. Faust would log that and end too late, as
        if another start could help. Of what the client's group waits for somebody to hear, which
        wakes whoever waits for records, too, `heard` hears.
        """
        try:
            found = await super()._fetch_records(consumer, *what, **how)
        except (TopicAuthorizationFailedError, GroupAuthorizationFailedError) as error:
            end(forbidden(error) or error)
        except KafkaError as error:
            if type(error) is not KafkaError and not error.retriable:
                raise
            await asyncio.sleep(AGAIN)
            return {}
        if not found or self.consumer.flow_active:
            return found
        for place, records in found.items():
            with suppress(IllegalStateError):  # it is another's by now
                consumer.seek(place, getattr(records[0], "first", records[0].offset))
        return {}

    def verify_event_path(self, now: float, tp: Any) -> None:
        """Nothing: Faust looks for stalled partitions here, and would only log them; the worker
        looks for itself and acts. Faust's look asserts that every partition has a position, which
        one that is just assigned has not, and the assertion would end the worker.
        """


class Consumer(aiokafka.Consumer):  # type: ignore[misc]
    """Faust's consumer, with our thread, which tells when its last offsets are committed."""

    buffer = 512
    """Events that wait for an agent."""

    async def on_stop(self) -> None:
        """All that is left to do after it is to take leave of the group."""
        await super().on_stop()
        self.app.finished = not self.app.crashed

    def _new_consumer_thread(self) -> ConsumerThread:
        return ConsumerThread(self, loop=self.loop, beacon=self.beacon)

    async def getmany(self, timeout: float) -> AsyncIterator[tuple[Any, Any]]:  # noqa: ASYNC109
        """What is fetched, but nothing of changelogs whose tables are there: a fetch may hold
        hundreds of their records, each of which takes its turn of the loop, and on a busy machine
        the log would wait for ten seconds behind them.
        """
        async for tp, message in super().getmany(timeout):
            if not (self.app.tables.recovery.recovered and self._is_changelog_tp(tp)):
                yield tp, message

    def on_buffer_full(self, tp: Any) -> None:
        """A partition has enough that waits. Not a changelog: once there was room again, Faust
        would go on to read what the worker itself writes into it.
        """
        if not self._is_changelog_tp(tp):
            super().on_buffer_full(tp)

    def acknowledge(self, event: Any) -> None:
        """What this event has brought need not come again."""
        event.ack()

    async def read_again(self, topic: str, partition: int, offset: int) -> None:
        """Read a partition from this offset on."""
        await self._thread.read_again(topic, partition, offset)


PRIVATE_API = (
    Private(aiokafka.AIOKafkaConsumerThread, "_create_worker_consumer", "Thread changes it"),
    Private(AIOKafkaConsumer, "self._client = AIOKafkaClient(", "Thread makes it ours", "__init__"),
    Private(AIOKafkaConsumer, "self._isolation_level = ", "Thread sets it", "__init__"),
    Private(AIOKafkaConsumer, "self._fetch_max_wait_ms = ", "Thread sets it", "__init__"),
    Private(AIOKafkaConsumer, "=self._fetch_max_wait_ms", "it is read after that", "start"),
    Private(AIOKafkaConsumer, "=self._isolation_level", "it is read after Thread set it", "start"),
    Private(aiokafka.AIOKafkaConsumerThread, "_ensure_consumer", "Thread asks the client"),
    Private(aiokafka.AIOKafkaConsumerThread, "call_thread", "Thread seeks in the client's loop"),
    Private(aiokafka.AIOKafkaConsumerThread, "seek_to_committed", "Thread seeks more partitions"),
    Private(BaseConsumer, "await self.seek_to_committed()", "Thread's is called", "perform_seek"),
    Private(aiokafka.AIOKafkaConsumerThread, "self.consumer._read_offset[tp] = ",
            "Thread goes back as this does", "_seek_wait"),
    Private(BaseConsumer, "get_read_offset(tp)", "what is before it is dropped", "_drain_messages"),
    Private(aiokafka.Consumer, "_thread", "Consumer asks it to go back"),
    Private(aiokafka.AIOKafkaConsumerThread, "verify_event_path", "Thread's does nothing"),
    Private(aiokafka.AIOKafkaConsumerThread, "_fetch_records", "Thread ends for want of a right"),
    Private(aiokafka.AIOKafkaConsumerThread, "self._fetch_records,", "it is called", "getmany"),
    Private(aiokafka.Consumer, "_new_consumer_thread", "Consumer makes a Thread"),
    Private(aiokafka.Consumer, "on_stop", "Consumer tells that it is over"),
    Private(BaseConsumer, "await self.commit_and_end_transactions()", "Consumer waits for it",
         "on_stop"),
    Private(BaseConsumer, "ait = cast(AsyncIterator, getmany(", "Consumer leaves changelogs out",
         "_drain_messages"),
    Private(BaseConsumer, "_is_changelog_tp", "which are changelogs"),
    Private(BaseConsumer, "on_buffer_full", "Consumer leaves changelogs alone"),
    Private(aiokafka.AIOKafkaConsumerThread, "on_start", "Thread starts its client itself"),
    Private(aiokafka.AIOKafkaConsumerThread, "_create_consumer", "the same"),
    Private(aiokafka.AIOKafkaConsumerThread, "_consumer", "Thread keeps it there"),
    Private(aiokafka.AIOKafkaConsumerThread, "self.time_started = ", "the same", "on_start"),
    Private(aiokafka.AIOKafkaConsumerThread, "highwaters", "Thread asks again"),
    Private(aiokafka.AIOKafkaConsumerThread, "earliest_offsets", "the same"),
    Private(aiokafka.AIOKafkaConsumerThread, "_commit", "Thread commits what is its own"),
    Private(aiokafka.AIOKafkaConsumerThread, "self.call_thread(self._commit", "it is called",
         "commit"),
    Private(BaseConsumer, "flow_active", "Thread leaves what nobody may have"),
)  # fmt: skip
