"""The thread that polls Kafka. It alone calls the client.

confluent-kafka (2.16) lets no two threads into one client: the second one waits behind every poll,
and holds the event loop meanwhile. So the event loop gives orders, which the thread carries out
between two polls.

Callbacks of the group run in the thread, inside a poll. Each waits until the event loop has dealt
with it. So the group goes on only when this worker has let go of its partitions.

A client that is cut off from its brokers is replaced by a new one, see `cut_off`: its partitions
are lost by then, or will be.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from time import monotonic
from typing import Any

import confluent_kafka as kafka
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from faust.types import TP

from ldp_kafka.errors import BrokerError, ConfigurationError
from ldp_kafka.runtime.kafka.cut_off import CutOff
from ldp_kafka.runtime.worker.exits import end
from ldp_kafka.runtime.worker.transport.messages import MOST, Batch, batches, by_partition

__all__ = ["BUFFER", "Poller"]

logger = logging.getLogger(__name__)

BUFFER = 8  # batches of a partition that wait for their agent
FIRST = 64  # messages of the first poll: nobody knows how large they are
AT_ONCE = 2**21  # bytes of each later poll, about
POLL = 0.1  # seconds that a poll waits for its first message, and an order for its turn
GATHER = 0.01  # seconds that a poll waits for more messages behind its first, where many come
MANY = 4  # messages of one poll: where fewer come, a batch is not worth waiting for
FULL = 0.5  # seconds that all partitions wait for one that is full; then that one is paused
_RIGHTS = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "topic",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "group",
}
# librdkafka would leave out a batch that it cannot read, and go on behind it
_UNREAD = {KafkaError._BAD_MSG, KafkaError._BAD_COMPRESSION}  # noqa: SLF001 - that is their name
_UNREACHED = {KafkaError._SSL, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN}  # noqa: SLF001


class Poller:
    """The thread, and what the event loop may ask of it; `consumer.Consumer` is told what comes."""

    def __init__(self, consumer: Any) -> None:
        self.assigned: frozenset[TP] = frozenset()
        """The partitions of this worker; none between a revocation and the next assignment."""
        self._consumer, self._group, self._committed_at = consumer, consumer.app.conf.id, 0.0
        self.orders = deque[Callable[[kafka.Consumer], object]]()
        self._acknowledged: dict[TP, int] = {}
        self._committed: dict[TP, int] = {}
        self._room = threading.Condition()
        self._waiting: Counter[TP] = Counter()
        """Batches that wait for their agent."""
        self._paused: frozenset[TP] = frozenset()
        self._most, self._many = FIRST, False
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="consumer")

    def start(self, topics: Iterable[str]) -> None:
        """Join the group, and read these topics; once."""
        if self._thread.ident is None:
            self._loop, self._topics = asyncio.get_running_loop(), sorted(topics)
            self._thread.start()

    def acknowledge(self, event: Any) -> None:
        """What this event has brought need not come again, nor anything before it."""
        partition, following = event.message.tp, event.message.offset + 1
        self._acknowledged[partition] = max(following, self._acknowledged.get(partition, 0))

    def begin(self, partitions: set[TP]) -> None:
        """Begin a new assignment from nothing, while the thread waits in its callback."""
        self._acknowledged.clear()
        self._committed.clear()
        with self._room:
            self._waiting.clear()
        self.assigned = frozenset(partitions)

    def flush(self) -> None:
        """Commit all that is acknowledged; returns when it is committed."""
        if self._thread.is_alive():
            done = threading.Event()
            self.orders.extend((partial(self._commit, wait=True), lambda _: done.set()))
            done.wait()

    def leave(self) -> None:
        """Leave the group, and end the thread."""
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join()

    # in the thread

    def _run(self) -> None:
        try:
            client, cut_off = self._join(), CutOff(self._topics[0], self._consumer.transport.asker)
            while not self._ending.is_set():
                self._make_room(client)
                self._carry_out(client)
                if self._poll(client):
                    cut_off.heard()
                elif cut_off.found(client):
                    client = self._join_anew(client)
            client.close()
        except BaseException as error:  # noqa: BLE001 - nobody waits for what a thread raises
            if self._ending.is_set():  # all is committed
                return
            if isinstance(error, KafkaException):
                self._report(error.args[0], survived=False)
            end(error)

    def _join(self) -> kafka.Consumer:
        """A new client, which joins the group."""
        client = self._client = self._consumer.transport.client(
            on_commit=self._on_commit, error_cb=self._report
        )
        client.subscribe(
            self._topics,
            on_assign=self._on_assign,
            on_revoke=self._on_revoke,
            on_lost=self._on_lost,
        )
        return client

    def _join_anew(self, client: kafka.Consumer) -> kafka.Consumer:
        """Another client in the place of one that is cut off, which may take long to close."""
        logger.warning("the client of group %s found no broker: a new one joins", self._group)
        if self.assigned:
            self._on_lost(client, ())
        self._paused = frozenset()
        new = self._join()
        threading.Thread(target=client.close, daemon=True, name="closing").start()
        return new

    def _carry_out(self, client: kafka.Consumer) -> None:
        if monotonic() - self._committed_at >= self._consumer.commit_interval:
            self._committed_at = monotonic()
            self._commit(client)
        while self.orders:
            order = self.orders.popleft()
            try:
                order(client)
            except KafkaException as error:
                self._report(error.args[0])

    def _commit(self, client: kafka.Consumer, *, wait: bool = False) -> None:
        """Commit what was acknowledged. What cannot be committed is tried again next time."""
        new = {
            partition: offset
            for partition, offset in list(self._acknowledged.items())
            if self._committed.get(partition) != offset and partition in self.assigned
        }
        if new:
            offsets = [TopicPartition(*partition, offset) for partition, offset in new.items()]
            self._committed |= new
            try:
                done = client.commit(offsets=offsets, asynchronous=not wait)
            except KafkaException as error:
                self._on_commit(error.args[0], offsets)
            else:
                self._on_commit(None, done or ())

    def _on_commit(self, error: KafkaError | None, offsets: Sequence[TopicPartition]) -> None:
        failed = [each for each in offsets if error is not None or each.error is not None]
        for each in failed:
            self._committed.pop(TP(each.topic, each.partition), None)
        if failed:
            self._report(error or failed[0].error)

    def _make_room(self, client: kafka.Consumer) -> None:
        """Wait for agents that have enough. A partition that is still full then is left out of the
        polls until it has room.
        """

        def full() -> set[TP]:
            return {p for p, count in self._waiting.items() if count >= BUFFER} - self._paused

        with self._room:
            self._room.wait_for(lambda: not full(), FULL)
            pause = full()
            resume = {each for each in self._paused if self._waiting[each] <= BUFFER // 2}
        self._paused = (self._paused | pause) - resume
        if pause:
            client.pause([TopicPartition(*each) for each in pause])
        if resume:
            client.resume([TopicPartition(*each) for each in resume])

    def _poll(self, client: kafka.Consumer) -> bool:
        """Hand over what has come; whether anything has.

        Each `consume` leaves out what it had of an assignment that ended inside it. The first of
        two cannot leave out what ends inside the second.
        """
        found = client.consume(1, POLL)
        generation = self._consumer.generation
        if found and self._most > 1:
            more = client.consume(self._most - 1, GATHER if self._many else 0)
            found = more if self._consumer.generation != generation else found + more
            self._many = len(found) >= MANY
        if any(map(kafka.Message.error, found)):
            for each in found:
                if (error := each.error()) is not None:
                    self._report(error, each.topic() or "")
            found = [each for each in found if each.error() is None]
        if found:
            self._hand_over(found, self._consumer.generation)
        return bool(found)

    def _hand_over(self, found: Sequence[kafka.Message], generation: int) -> None:
        come: list[Batch] = []
        size = 1
        for partition, messages in by_partition(found, self._topics).items():
            taken = partial(self._taken, partition, generation)
            mine, bytes_ = batches(partition, messages, generation, taken)
            come += mine
            size += bytes_
        self._most = max(1, min(MOST, AT_ONCE * len(found) // size))
        with self._room:
            self._waiting.update(each.tp for each in come)
        self._loop.call_soon_threadsafe(self._consumer.arrived, come)

    def _taken(self, partition: TP, generation: int) -> None:
        """An agent has taken a batch; in the event loop."""
        if generation == self._consumer.generation:
            with self._room:
                self._waiting[partition] -= 1
                self._room.notify()

    # in the thread, inside a poll; of a client that another one has replaced, while it is closed

    def _on_assign(self, client: kafka.Consumer, partitions: Sequence[TopicPartition]) -> None:
        if client is not self._client:
            return
        client.assign(partitions)
        if self._paused:
            client.resume([TopicPartition(*each) for each in self._paused])
            self._paused = frozenset()
        self._wait_for(self._consumer.assigned({TP(p.topic, p.partition) for p in partitions}))

    def _on_revoke(self, client: kafka.Consumer, _: Sequence[TopicPartition]) -> None:
        """Once all epochs have ended, commit what is acknowledged: others begin there."""
        if client is not self._client:
            return
        if not self._ending.is_set():
            self._wait_for(self._consumer.revoked())
            self._commit(client)
        self.assigned = frozenset()

    def _on_lost(self, client: kafka.Consumer, _: Sequence[TopicPartition]) -> None:
        """Commit nothing: the partitions are another worker's, who may have committed since."""
        if client is not self._client:
            return
        if not self._ending.is_set():
            self._wait_for(self._consumer.revoked())
        self.assigned = frozenset()

    def _wait_for(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _report(self, error: KafkaError, topic: str = "", *, survived: bool = True) -> None:
        """Log what the client says, or end the process: where a right is missing, or it goes no
        further.
        """
        if (kind := _RIGHTS.get(error.code())) is not None:
            name = topic or (self._group if kind == "group" else " or ".join(self._topics))
            need = "`ldp-kafka topics TOPOLOGY --acls` says what it needs"
            end(ConfigurationError(f"this login may not READ {kind} {name}; {need}"))
        if error.fatal() or error.code() in _UNREAD or not survived:
            end(BrokerError(f"the client of group {self._group} has failed: {error.str()}"))
        if error.code() in _UNREACHED:
            self._consumer.app.failing()
        logger.warning("the client goes on: %s: %s", error.name(), error.str())
