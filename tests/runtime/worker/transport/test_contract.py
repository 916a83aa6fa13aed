"""What the transport relies on beyond what others document: nine names of Faust's, and what its
streams, its queues and librdkafka do with them. Another version that does something else fails
here, by name.
"""

from __future__ import annotations

import asyncio
import ctypes
import inspect
import threading
import time

import confluent_kafka as kafka
import faust
import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from ldp_kafka.runtime.brokers.embedded import EmbeddedBroker
from ldp_kafka.runtime.brokers.librdkafka import librdkafka
from ldp_kafka.runtime.worker.transport.app import App
from ldp_kafka.runtime.worker.transport.consumer import Consumer
from ldp_kafka.runtime.worker.transport.tables import Tables
from tests.runtime.worker.transport.world import P0, Client, message

TOPIC = "t"


class Faust:
    """A real app of Faust's with one agent and one table, over a scripted client."""

    def __init__(self):
        self.client, self.came, self.revoked, self.lost = Client(), [], [], []
        self.app = App(
            "group",
            config={},
            sources={"table": TOPIC},
            web_enabled=False,
            store="memory://",
            topic_allow_declare=False,
            topic_disable_leader=True,
            stream_wait_empty=False,
            broker_commit_interval=3600.0,
            env={},
        )
        self.app.transport.client = self.client
        self.app.lost = lambda: self.lost.append(1)
        self.app.tables.read = self.read
        self.holds = asyncio.Event()
        self.holds.set()
        raw = {"key_type": bytes, "value_type": bytes, "key_serializer": "raw"}
        topic = self.app.topic(TOPIC, **raw, value_serializer="raw", partitions=2)
        self.table = self.app.Table("table", key_type=str, value_type=bytes, partitions=2)
        self.app.agent(topic, name="table")(self.run)
        self.app.on_partitions_revoked.connect(self.on_revoked, weak=False)

    async def run(self, stream):
        async for event in stream.noack().events():
            self.came += [each.offset for each in event.message.take()]
            await self.holds.wait()

    async def on_revoked(self, _, revoked, **__):
        self.revoked.append(set(revoked))

    async def read(self, table, begins, wanted):
        assert table == "table"
        return {f"{number}/a": b"state" for number in begins}, dict.fromkeys(begins, 1)

    async def until(self, holds):
        async with asyncio.timeout(20):
            while not holds():  # noqa: ASYNC110 - a thread makes it so
                await asyncio.sleep(0.005)


def played(script):
    async def play():
        world = Faust()
        starting = asyncio.create_task(world.app.start())
        try:
            await world.until(lambda: hasattr(world.client, "on_assign"))
            await script(world)
        finally:
            await world.app.stop()
            starting.cancel()
        return world

    return asyncio.run(play())


def test_a_consumer_and_tables_have_all_that_faust_asks_for():
    """Faust declares it: what a new version asks for is named here."""
    assert Consumer.__abstractmethods__ == Tables.__abstractmethods__ == frozenset()


def test_faust_folds_what_a_poll_gives():
    """An agent is started for an assignment, and gets batches when the table is there. Streams ask
    the consumer for `_unacked_messages`, and changelogs are not subscribed to.
    """

    async def script(world):
        world.client.script.extend([world.client.gives(P0), [message(0)], [message(1)]])
        await world.until(lambda: world.came == [0, 1])
        assert world.table.data == {"0/a": b"state"}
        assert world.app.consumer_generation_id == 1
        assert world.app.rebalancing_count == 1 and not world.app.rebalancing
        assert ("subscribe", [TOPIC]) in world.client.calls
        assert world.app.tables.changelog_topics == {world.table.changelog_topic_name}
        assert world.app.consumer._unacked_messages == set()

    made = played(script)
    assert made.app.finished
    assert made.client.names()[-1] == "close"


def test_streams_want_the_private_name():
    """The one that is private: without it no agent runs. If it is asked for no more, it may go."""

    async def script(world):
        del world.app.consumer._unacked_messages
        with pytest.raises(AttributeError, match="_unacked_messages"):
            stream = world.app.stream(world.app.topic(TOPIC))
            async with asyncio.timeout(5):
                await anext(aiter(stream.events()))

    played(script)


def test_a_stream_drops_batches_of_another_assignment():
    """A batch that was in Faust's queues as the next assignment came."""

    async def script(world):
        world.client.script.extend([world.client.gives(P0), [message(0)], []])
        await world.until(lambda: world.came == [0])
        for generation, offset in ((0, 5), (1, 6)):
            await world.app.consumer.callback(batch(offset, generation))
        await world.until(lambda: world.came == [0, 6])

    played(script)


def batch(offset, generation):
    from ldp_kafka.runtime.worker.transport.messages import batches

    [made], _ = batches(P0, [message(offset)], generation, lambda: None)
    return made


def test_flow_control_holds_queues_up_and_empties_them_as_it_resumes():
    """So no batch may be handed over before `Consumer.begin`."""

    async def script(world):
        control = world.app.flow_control
        queue = world.app.FlowControlQueue(10, clear_on_resume=True)
        control.resume()
        await queue.put(1)
        control.suspend()
        waiting = asyncio.create_task(queue.put(2))
        await asyncio.sleep(0.01)
        assert not waiting.done() and queue.qsize() == 1
        control.resume()
        await waiting
        assert [queue.get_nowait() for _ in range(queue.qsize())] == [2]

    played(script)


def test_a_revocation_waits_for_agents_and_a_new_assignment_counts():
    """Faust's callback returns when `on_partitions_revoked` has been sent, which ends epochs."""

    async def script(world):
        world.client.script.extend([world.client.gives(P0), [message(0)], []])
        await world.until(lambda: world.came == [0])
        world.client.script.append(world.client.takes(P0))
        await world.until(lambda: ("revoked",) in world.client.calls)
        assert world.revoked == [{P0}]
        assert (world.app.rebalancing_count, world.app.rebalancing) == (2, True)
        world.client.script.extend([world.client.gives(P0), [message(1)], []])
        await world.until(lambda: world.came == [0, 1])
        assert (world.app.consumer_generation_id, world.app.rebalancing) == (2, False)

    played(script)


def test_an_app_that_ends_asks_to_close_instead_of_a_rebalance():
    """Faust then neither revokes nor assigns; the transport takes it for a loss."""

    async def script(world):
        world.client.script.append(world.client.gives(P0))
        await world.until(lambda: world.app.consumer_generation_id == 1)
        await world.until(lambda: not world.app.rebalancing)
        world.app._stopped.set()
        for tell in (world.app._on_partitions_revoked, world.app._on_partitions_assigned):
            await tell({P0})
        assert world.lost == [1, 1] and not world.revoked
        world.app._stopped.clear()

    played(script)


def test_names_that_are_public_without_documentation_are_there():
    """The other two, `Message.generation_id` and `Consumer._unacked_messages`, are used above."""
    assert "generation_id" in inspect.signature(faust.types.tuples.Message).parameters
    names = ["rebalancing_count", "consumer_generation_id", "flow_control"]
    calls = ["on_rebalance_start", "on_rebalance_return", "on_rebalance_end"]

    async def script(world):
        assert not [name for name in [*names, *calls] if not hasattr(world.app, name)]
        assert world.table.changelog_topic_name == "group-table-changelog"

    played(script)


# librdkafka, over its own mock of a broker


@pytest.fixture
def reading():
    """A client that has read three messages of partition 0, and its settings."""
    with EmbeddedBroker() as broker:
        config = {"bootstrap.servers": broker.bootstrap_servers, "log_level": 0}
        producer = Producer(config)
        for number in range(3):
            producer.produce(TOPIC, str(number).encode(), partition=0)
        producer.flush()
        more = {"group.id": "g", "enable.auto.commit": False}
        client = kafka.Consumer({**config, **more})
        client.assign([TopicPartition(TOPIC, 0, 0)])
        assert values(client) == [b"0", b"1", b"2"]
        yield client
        client.close()


def values(client, seconds=10.0):
    found = []
    for _ in range(int(seconds / 0.1)):
        found += [each.value() for each in client.consume(10, 0.1)]
        if len(found) == 3:
            break
    return found


def test_a_pause_outlasts_an_assignment(reading):
    """So the transport resumes what it has paused before it begins a new one."""
    reading.pause([TopicPartition(TOPIC, 0)])
    for resumes in (False, True):
        reading.unassign()
        reading.assign([TopicPartition(TOPIC, 0, 0)])
        if resumes:  # others too, which are another's by now
            reading.resume([TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 3)])
        assert values(reading, 10.0 if resumes else 1.0) == ([b"0", b"1", b"2"] * resumes)


def test_a_seek_of_what_is_not_assigned_is_refused(reading):
    """The transport logs that, and goes on."""
    with pytest.raises(KafkaException):
        reading.seek(TopicPartition(TOPIC, 3, 0))


def test_two_threads_in_one_client_wait_for_each_other(reading):
    """Therefore the event loop gives orders. If that is no longer so, orders may go."""
    begun, inside = [], threading.Event()

    def poll():
        begun.append(time.monotonic())
        inside.set()
        reading.consume(1, 1.0)

    thread = threading.Thread(target=poll)
    thread.start()
    assert inside.wait(10)
    time.sleep(0.05)
    reading.resume([TopicPartition(TOPIC, 0)])
    assert time.monotonic() - begun[0] > 0.9
    thread.join()


def test_a_client_whose_brokers_are_left_out_is_cut_off():
    """It finds none of them again, asks in vain for as long as it may, and closes at once. Here it
    is told not to look for them, elsewhere it may not (see `cut_off`).
    """
    forget = librdkafka().rd_kafka_mock_broker_remove_from_metadata
    forget.restype, forget.argtypes = ctypes.c_int, [ctypes.c_void_p, ctypes.c_int32]
    assigned = []
    with EmbeddedBroker() as broker:
        broker.create_topic(TOPIC, 1)
        client = kafka.Consumer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "group.id": "g",
                "log_level": 0,
                "metadata.recovery.strategy": "none",
            }
        )
        client.subscribe([TOPIC], on_assign=lambda _, found: assigned.append(found))
        while not assigned:
            client.consume(1, 0.05)
        forget(broker._running(), 1)
        assert not client.list_topics(TOPIC, timeout=5.0).brokers
        for _ in range(2):
            begun = time.monotonic()
            with pytest.raises(KafkaException) as told:
                client.list_topics(TOPIC, timeout=0.5)
            assert told.value.args[0].code() == KafkaError._TRANSPORT
            assert time.monotonic() - begun >= 0.4
        client.close()
