"""What of Faust and of aiokafka is changed, and every private name of theirs that is used for it.

All of it is in subclasses, which `App` puts together when a worker is built: nothing is patched,
and another Faust app in the same process is left as it is. `PRIVATE_API` lists the names; a test
looks each of them up, so that a new version of Faust or aiokafka fails by name. What only makes it
faster is in `chunks`, which can be left out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Any

import faust
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
from faust.assignor.partition_assignor import PartitionAssignor
from faust.tables.manager import TableManager
from faust.tables.recovery import RebalanceAgain, Recovery
from faust.transport.consumer import Consumer as BaseConsumer
from faust.transport.drivers import aiokafka
from faust.transport.producer import Producer as SilentProducer

from ldp_kafka.errors import BrokerError
from ldp_kafka.runtime.worker.connections import Connections
from ldp_kafka.runtime.worker.exits import end
from ldp_kafka.runtime.worker.private_api import Private
from ldp_kafka.runtime.worker.probes import Assignment
from ldp_kafka.runtime.worker.process import forbidden

__all__ = ["PRIVATE_API", "App", "Consumer"]

logger = logging.getLogger(__name__)

FETCH_WAIT_MS = 500
AGAIN = 1.0  # seconds until a question that a broker left without an answer is asked again


class Assignor(PartitionAssignor):  # type: ignore[misc]
    """Gives out all partitions or none.

    A broker that is just back may not know every topic yet. Faust's assignor leaves out what the
    group's leader is not told of: nobody would fold it, and nobody would say so, until the next
    rebalance. Here the client fails to assign, and tries again once `heard` has heard of it.
    """

    def _perform_assignment(self, cluster: Any, members: Any) -> Any:
        for topic in sorted(
            {topic for member in members.values() for topic in member.subscription}
        ):
            known, expected = (
                len(cluster.partitions_for_topic(topic) or ()),
                self.app.partitions.get(topic, 1),
            )
            if known < expected:
                raise BrokerError(
                    f"the broker knows {known} of the {expected} partitions of {topic} just now:"
                    " nobody would read the others, so it is asked again"
                )
        return super()._perform_assignment(cluster, members)


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
        """Their first offsets, the same."""
        ask = super().earliest_offsets
        return await self._patiently(lambda: ask(*partitions))

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

    def acknowledge(self, event: Any) -> None:
        """What this event has brought need not come again."""
        event.ack()


class TableRecovery(Recovery):  # type: ignore[misc]
    """Faust's recovery of tables, which ends as soon as another rebalance begins, and loses no
    message at its own end.

    Faust's goes on until the next assignment is there. It would then let messages flow that are
    nobody's, and say that a rebalance had ended that had just begun.

    At its end Faust's lets partitions be fetched, seeks each to where its group stands, and then
    empties all queues: what had come meanwhile of a partition that stood right already is gone, and
    never comes again. Here it waits before the queues until they have been emptied.
    """

    rebalance = 0
    """The number of the rebalance that brought the newest assignment."""
    completing = 0
    """The group's generation whose tables are there."""
    recovered = True
    """Whether the tables of the newest assignment are there, and messages flow."""

    async def on_rebalance(
        self, assigned: Any, revoked: Any, newly_assigned: Any, generation_id: int = 0
    ) -> None:
        """An assignment has come: its recovery begins, unless it is outdated already."""
        await super().on_rebalance(assigned, revoked, newly_assigned, generation_id)
        if self._generation_id == generation_id:
            self.recovered = False
            self.rebalance = self.app.rebalancing_count
            self.app.given(assigned)

    async def on_recovery_completed(self, generation_id: int = 0) -> None:
        """The tables are there: partitions go to where their group stands, and messages flow."""
        self.completing = generation_id
        self.app.flow_control.suspend()
        await super().on_recovery_completed(generation_id)
        self.flows()

    async def _resume_streams(self, generation_id: int = 0) -> None:
        """The same where there were no tables to recover."""
        self.app.flow_control.suspend()
        await super()._resume_streams(generation_id)
        self.flows()

    def flows(self) -> None:
        """Messages flow: of the newest assignment, if no rebalance has begun since."""
        self.recovered = True
        if self.rebalance == self.app.rebalancing_count:
            self.app.ready()

    async def _wait(self, coro: Any, timeout: Any = None) -> None:  # noqa: ARG002, ASYNC109
        """However long the broker is away. Where Faust's time is over, which is 90 s, it takes that
        for its own end: nothing would be recovered any more, and nobody would say so.
        """
        await super()._wait(coro)
        if self.rebalance != self.app.rebalancing_count:
            raise RebalanceAgain

    @property
    def stands(self) -> Assignment:
        """Where the newest assignment stands. It may be asked from any thread."""
        if not self.rebalance:
            return Assignment.NONE
        if self.rebalance != self.app.rebalancing_count:
            return Assignment.REVOKED
        return Assignment.RECOVERED if self.recovered else Assignment.RECOVERING

    @property
    def progress(self) -> int | None:
        """Where the recovery of an assignment goes on: how far it has come, in records. None where
        there is none, or the group is about to give out other partitions.
        """
        if self.recovered or self.rebalance != self.app.rebalancing_count:
            return None
        return sum(offset or 0 for offset in list(self.active_offsets.values()))

    def ends(self) -> bool:
        """Whether the recovery that is completing is of the newest assignment, and no rebalance has
        begun since.
        """
        outdated = self.completing != self._generation_id
        return not outdated and self.rebalance == int(self.app.rebalancing_count)


class Tables(TableManager):  # type: ignore[misc]
    """Faust's tables, with our recovery."""

    _recovery: TableRecovery | None = None

    @property
    def recovery(self) -> TableRecovery:
        """The one recovery of the app."""
        if self._recovery is None:
            self._recovery = TableRecovery(self.app, self, beacon=self.beacon, loop=self.loop)
        return self._recovery


class App(faust.App):  # type: ignore[misc]
    """Faust's app with all of the above.

    Parameters
    ----------
    name : the consumer group
    partitions : of each topic that the app reads: how many it has
    folded : the topics that agents read
    read_committed : leave out what a foreign producer's transaction took back
    consumers : what it reads with
    settings : Faust's own
    """

    def __init__(
        self,
        name: str,
        *,
        partitions: Mapping[str, int],
        folded: Collection[str],
        read_committed: bool,
        consumers: type[Consumer] = Consumer,
        **settings: Any,
    ) -> None:
        super().__init__(name, PartitionAssignor=Assignor, TableManager=Tables, **settings)
        self.finished = False
        """Whether it has ended all but its connections, before anything had crashed: what was
        acknowledged is committed.
        """
        self.partitions, self.folded = partitions, folded
        self.read_committed = read_committed
        self.consumers = consumers
        self.given: Callable[[Collection[Any]], None] = lambda _: None
        """Is told of each assignment, at its beginning."""
        self.ready: Callable[[], None] = lambda: None
        """Is told when its tables are there, and messages flow."""
        self.lost: Callable[[], None] = lambda: None
        """Is told, while it ends, that its partitions are given out anew."""

    def _create_directories(self) -> None:
        """None: nothing of it is on a disk, and who ends at once leaves nothing behind."""

    def _on_rebalance_when_stopped(self) -> None:
        """A rebalance begins while the app ends. Faust closes the client at once, and what is just
        being committed would wait for it without end: it is closed when all of that is done.
        """
        self.lost()

    def _new_producer(self) -> Any:
        """One that produces nothing: all that is written goes through `producers.Producers`.
        Faust's would wait for a broker that is away when it starts, flushes and ends, each in its
        own way.
        """
        return SilentProducer(self.transport, loop=self.loop, beacon=self.beacon)

    def _new_consumer(self) -> Any:
        self.transport.Consumer = self.consumers
        return super()._new_consumer()

    @property
    def recovering(self) -> int | None:
        """See `TableRecovery.progress`. It may be asked from any thread."""
        recovery = self.tables._recovery  # noqa: SLF001 - `recovery` would make one
        return None if recovery is None else recovery.progress

    @property
    def stands(self) -> Assignment:
        """Where its newest assignment stands. It may be asked from any thread."""
        recovery = self.tables._recovery  # noqa: SLF001 - `recovery` would make one
        return Assignment.NONE if recovery is None else recovery.stands

    def on_rebalance_end(self) -> None:
        """A recovery has come to its end: so has its rebalance, unless another has begun since."""
        if self.tables.recovery.ends():
            super().on_rebalance_end()


PRIVATE_API = (
    Private(PartitionAssignor, "_perform_assignment", "Assignor refuses part of an assignment"),
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
    Private(aiokafka.AIOKafkaConsumerThread, "verify_event_path", "Thread's does nothing"),
    Private(aiokafka.AIOKafkaConsumerThread, "_fetch_records", "Thread ends for want of a right"),
    Private(aiokafka.AIOKafkaConsumerThread, "self._fetch_records,", "it is called", "getmany"),
    Private(aiokafka.Consumer, "_new_consumer_thread", "Consumer makes a Thread"),
    Private(aiokafka.Consumer, "on_stop", "Consumer tells that it is over"),
    Private(BaseConsumer, "await self.commit_and_end_transactions()", "Consumer waits for it",
         "on_stop"),
    Private(faust.App, "_create_directories", "App makes none"),
    Private(faust.App, "self._create_directories()", "that is where", "on_first_start"),
    Private(faust.App, "_on_rebalance_when_stopped", "App goes on to its end"),
    Private(faust.App, "return self._on_rebalance_when_stopped()", "instead of all else",
         "_on_partitions_revoked"),
    Private(faust.App, "_new_consumer", "App has its transport make a Consumer"),
    Private(aiokafka.Transport, "Consumer", "the same"),
    Private(TableManager, "recovery", "Tables makes a TableRecovery"),
    Private(TableManager, "_recovery", "Tables keeps it there, and Faust stops it there"),
    Private(Recovery, "on_rebalance", "TableRecovery learns which rebalance it belongs to"),
    Private(Recovery, "_generation_id", "whether it took the assignment"),
    Private(Recovery, "on_recovery_completed", "TableRecovery learns whose tables are there"),
    Private(Recovery, "app.on_rebalance_end()", "App asks it then", "on_recovery_completed"),
    Private(Recovery, "app.flow_control.resume()", "it empties queues", "on_recovery_completed"),
    Private(Recovery, "_resume_streams", "TableRecovery holds messages back until then"),
    Private(Recovery, "app.flow_control.resume()", "it empties queues", "_resume_streams"),
    Private(Recovery, "_wait", "TableRecovery ends in it"),
    Private(Recovery, "await self._wait(\n                consumer.perform_seek()", "also here",
         "on_recovery_completed"),
    Private(Recovery, "except RebalanceAgain", "that is how a recovery ends", "_restart_recovery"),
    Private(faust.App, "rebalancing_count", "the number of a rebalance"),
    Private(faust.App, "self.rebalancing_count += 1", "it grows at once", "on_rebalance_start"),
    Private(aiokafka.ConsumerRebalanceListener, "app.on_rebalance_start()", "in its thread",
         "on_partitions_revoked"),
    Private(faust.App, "on_rebalance_end", "App ignores an outdated one"),
    Private(faust.App, "_new_producer", "App has one that produces nothing"),
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
    Private(Recovery, "active_offsets", "how far a recovery has come"),
)  # fmt: skip
