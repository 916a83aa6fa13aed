"""Faust's consumer, in the event loop. What reads is `polling.Poller`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, NoReturn

import confluent_kafka as kafka
from confluent_kafka import TopicPartition
from faust.types import TP
from faust.types.transports import ConsumerT
from mode import Service

from ldp_kafka.runtime.worker.transport.messages import Batch
from ldp_kafka.runtime.worker.transport.polling import Poller

__all__ = ["Consumer"]


class Consumer(Service, ConsumerT):  # type: ignore[misc]
    """Hands batches over to Faust, and tells Faust what the group decides.

    Messages flow from `begin`, which follows each assignment when its state is read, until the next
    rebalance. Batches that come earlier wait.
    """

    in_transaction = False

    def __init__(
        self,
        transport: Any,
        callback: Callable[[Any], Awaitable[Any]],
        on_partitions_revoked: Callable[[set[TP]], Awaitable[None]],
        on_partitions_assigned: Callable[[set[TP], int], Awaitable[None]],
        *,
        commit_interval: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.transport, self.app, self.callback = transport, transport.app, callback
        self._faust_revokes, self._faust_assigns = on_partitions_revoked, on_partitions_assigned
        self.commit_interval = commit_interval or self.app.conf.broker_commit_interval
        self.randomly_assigned_topics: set[str] = set()
        self._unacked_messages: set[Any] = set()  # always empty; Faust's streams want to see it
        self._flow = asyncio.Event()
        self._inbox: asyncio.Queue[Batch] = asyncio.Queue()
        self._revoked = False
        """Whether the group has taken the partitions back, and given none since."""
        self._poller = Poller(self)
        self.acknowledge = self._poller.acknowledge

    async def subscribe(self, topics: Iterable[str]) -> None:
        """Join the group. Whoever asks again asks for the same topics."""
        self._poller.start(topics)

    async def on_stop(self) -> None:
        """Commit the rest, then leave the group."""
        await asyncio.to_thread(self._poller.flush)
        self.app.finished = not self.app.crashed
        await asyncio.to_thread(self._poller.leave)

    def assignment(self) -> set[TP]:
        return set(self._poller.assigned)

    async def read_again(self, topic: str, partition: int, offset: int) -> None:
        """Read a partition from this offset on, unless a rebalance begins before."""
        rebalance = self.app.rebalancing_count

        def seek(client: kafka.Consumer) -> None:
            if rebalance == self.app.rebalancing_count:
                client.seek(TopicPartition(topic, partition, offset))

        self._poller.orders.append(seek)

    def begin(self) -> None:
        """The state of the newest assignment is read: messages flow."""
        self.app.flow_control.resume()
        self._flow.set()

    def stop_flow(self) -> None:
        self._flow.clear()

    @property
    def generation(self) -> int:
        """The number of the newest assignment. Any thread may ask."""
        return int(self.app.consumer_generation_id)

    def arrived(self, found: Iterable[Batch]) -> None:
        for each in found:
            self._inbox.put_nowait(each)

    @Service.task  # type: ignore[untyped-decorator]
    async def _deliver(self) -> None:
        while not self.should_stop:
            batch = await self._inbox.get()
            await self._flow.wait()
            if batch.generation_id == self.generation:
                await self.callback(batch)

    async def revoked(self) -> None:
        self._revoked = True
        self._start_rebalance()
        await self._faust_revokes(self.assignment())

    async def assigned(self, partitions: set[TP]) -> None:
        if not self._revoked:  # a group revokes nothing of a worker that has nothing
            self._start_rebalance()
        self._revoked = False
        self.app.consumer_generation_id += 1
        self._poller.begin(partitions)
        await self._faust_assigns(set(partitions), self.generation)
        self.app.on_rebalance_return()
        # only now: in what Faust has just called, an agent ends what it began too early
        self.app.tables.recover()

    def _start_rebalance(self) -> None:
        self._flow.clear()
        self.app.flow_control.suspend()
        self.app.on_rebalance_start()

    # what Faust asks a consumer for, and nothing here needs

    def close(self) -> None:
        """A rebalance has begun while the app ends, and Faust would close the client at once. The
        client ends when all is committed, see `on_stop`.
        """
        self.app.lost()

    def resume_flow(self) -> None: ...
    def pause_partitions(self, tps: Iterable[TP]) -> None: ...
    def on_buffer_full(self, tp: TP) -> None: ...
    def on_buffer_drop(self, tp: TP) -> None: ...
    async def on_task_error(self, exc: BaseException) -> None: ...

    @property
    def unacked(self) -> set[Any]:
        return self._unacked_messages

    def _not_offered(self, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError

    ack = commit = create_topic = earliest_offsets = getmany = highwater = highwaters = _not_offered
    key_partition = perform_seek = position = resume_partitions = seek = seek_wait = _not_offered
    topic_partitions = track_message = verify_recovery_event_path = wait_empty = _not_offered
