"""A consumer over a client that does as it is told, and over an app that notes what it is told."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections import deque
from collections.abc import Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace

import confluent_kafka as kafka
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from faust.types import TP

from ldp_kafka.runtime.worker.transport import consumer as consumers
from ldp_kafka.runtime.worker.transport import polling
from ldp_kafka.runtime.worker.transport.consumer import Consumer
from ldp_kafka.runtime.worker.transport.polling import Poller

TOPIC = "t"
P0, P1 = TP(TOPIC, 0), TP(TOPIC, 1)


class Ended(BaseException):
    """What ``end`` is here: a process ends with nothing above it to catch."""


def message(offset, *, partition=P0, value=b"v", error=None, timestamp=(1, 1_700_000_000_123)):
    """One of librdkafka's."""
    return kafka.Message(
        topic=partition.topic,
        partition=partition.partition,
        offset=offset,
        value=value,
        timestamp=timestamp,
        error=error,
    )


def refused(code=KafkaError._STATE):
    return KafkaException(KafkaError(code))


class Client:
    """librdkafka's client. Each `consume` takes one step of the script: messages, or what is called
    inside the poll and gives messages. Behind the script's end nothing comes any more.
    """

    def __init__(self):
        self.script, self.calls, self.settings = deque(), [], {}
        self.raises: dict[str, BaseException] = {}
        self.answer = None
        """What a commit gives that waits."""
        self.polls: list[int] = []
        """How many messages each poll asked for."""
        self.waits: list[float] = []
        """How long each poll waits for more than its first message."""
        self.threads: set[int] = set()
        """Who has called."""
        self.inside = 0
        self.next: Client | None = None
        """The one that has taken its place."""
        self.answers = True
        """Whether it finds a broker."""

    def __call__(self, **settings):
        if self.settings:
            self.next = Client()
            return self.next(**settings)
        self.settings = settings
        return self

    def called(self, name, *what):
        """A call: by one thread alone, whose calls are one behind the other."""
        self.threads.add(threading.get_ident())
        self.calls.append((name, *what))
        if (error := self.raises.pop(name, None)) is not None:
            raise error

    def names(self):
        return [name for name, *_ in self.calls]

    def subscribe(self, topics, *, on_assign, on_revoke, on_lost):
        self.called("subscribe", topics)
        self.on_assign, self.on_revoke, self.on_lost = on_assign, on_revoke, on_lost

    def consume(self, count, timeout):
        self.threads.add(threading.get_ident())
        self.polls.append(count)
        if count > 1:
            self.waits.append(timeout)
        if (error := self.raises.pop("consume", None)) is not None:
            raise error
        if not self.script:
            threading.Event().wait(min(timeout, 0.002))
            return []
        step = self.script.popleft()
        return step() if callable(step) else step

    def assign(self, partitions):
        self.called("assign", places(partitions))

    def pause(self, partitions):
        self.called("pause", places(partitions))

    def resume(self, partitions):
        self.called("resume", places(partitions))

    def seek(self, at):
        self.called("seek", at.topic, at.partition, at.offset)

    def commit(self, *, offsets, asynchronous):
        found = {TP(at.topic, at.partition): at.offset for at in offsets}
        self.called("commit" if asynchronous else "commit and wait", found)
        return None if asynchronous else self.answer

    def list_topics(self, topic, timeout):
        if not self.answers:
            raise refused(KafkaError._TRANSPORT)

    def close(self):
        self.called("close")

    # what a script calls inside a poll

    def gives(self, *partitions, then=()):
        """An assignment; then these messages in the same poll."""

        def inside():
            self.on_assign(self, [TopicPartition(*each) for each in partitions])
            return list(then)

        return inside

    def takes(self, *partitions, lost=False, then=()):
        """A revocation."""

        def inside():
            tell = self.on_lost if lost else self.on_revoke
            tell(self, [TopicPartition(*each) for each in partitions])
            self.calls.append(("revoked",))
            return list(then)

        return inside

    def moves(self, *partitions, then=()):
        """A revocation and an assignment in one poll."""

        def inside():
            self.takes(*partitions)()
            return self.gives(*partitions, then=then)()

        return inside


def places(partitions):
    return {TP(each.topic, each.partition) for each in partitions}


class Flow:
    """Faust's flow control, noted."""

    def __init__(self, noted):
        self.noted = noted

    def suspend(self):
        self.noted.append("suspend")

    def resume(self):
        self.noted.append("resume")


class World:
    """What is around a consumer.

    Parameters
    ----------
    poller, consumer : ours, or broken twins
    begins : whether the state of each assignment is there at once
    """

    def __init__(self, poller=Poller, consumer=Consumer, *, begins=True):
        self.client, self.noted, self.delivered = Client(), [], []
        self.asker = Client()
        """A new client."""
        self.holds = False
        """Whether agents leave batches where they are."""
        self.held = deque()
        self._poller, self._kind, self._begins = poller, consumer, begins
        self.app = SimpleNamespace(
            conf=SimpleNamespace(id="group", broker_commit_interval=3600.0),
            consumer_generation_id=0,
            rebalancing_count=0,
            crashed=False,
            finished=None,
            flow_control=Flow(self.noted),
            lost=lambda: self.noted.append("lost"),
            on_rebalance_start=self.on_rebalance_start,
            on_rebalance_return=lambda: self.noted.append("returned"),
            tables=SimpleNamespace(recover=self.recover),
        )

    def on_rebalance_start(self):
        self.app.rebalancing_count += 1
        self.noted.append("rebalance")

    def recover(self):
        self.noted.append("recover")
        if self._begins:
            self.consumer.begin()

    async def revokes(self, partitions):
        self.noted.append(("revoked", frozenset(partitions)))
        await self.on_revoked()

    async def on_revoked(self):
        """What an agent does then."""

    async def assigns(self, partitions, generation):
        await asyncio.sleep(0)
        self.noted.append(("assigned", frozenset(partitions), generation))

    async def deliver(self, batch):
        if self.holds:
            self.held.append(batch)
        else:
            self.take(batch)

    def take(self, batch):
        self.delivered += [(batch.tp.partition, each.offset) for each in batch.take()]

    def offsets(self, partition=0):
        return [offset for number, offset in self.delivered if number == partition]

    def event(self, offset, partition=P0):
        """What an agent acknowledges."""
        return SimpleNamespace(message=SimpleNamespace(tp=partition, offset=offset))

    @asynccontextmanager
    async def running(self, monkeypatch, *, commits=3600.0):
        """A consumer that has joined its group."""
        monkeypatch.setattr(consumers, "Poller", self._poller)
        self.ended = []

        def end(error):
            self.ended.append(error)
            raise Ended(error)

        monkeypatch.setattr(polling, "end", end)
        monkeypatch.setattr(threading, "excepthook", lambda _: None)
        transport = SimpleNamespace(app=self.app, client=self.client, asker=lambda: self.asker)
        self.consumer = self._kind(
            transport, self.deliver, self.revokes, self.assigns, commit_interval=commits
        )
        await self.consumer.start()
        await self.consumer.subscribe({TOPIC})
        try:
            yield self
        finally:
            await asyncio.wait_for(self.consumer.stop(), 20)

    async def until(self, holds: Callable[[], object], seconds=10.0):
        """Wait until it holds."""
        for _ in itertools.count():
            if holds():
                return
            seconds -= 0.002
            assert seconds > 0, (self.client.calls, self.noted, self.delivered)
            await asyncio.sleep(0.002)

    async def play(self, *steps):
        """Have the client go through these steps, and what comes of them."""
        self.client.script.extend(steps)
        polls = len(self.client.polls)
        await self.until(lambda: not self.client.script)
        await self.until(lambda: len(self.client.polls) >= polls + len(steps) + 2)
        for _ in range(20):
            await asyncio.sleep(0)
