"""What a worker writes, and how long it waits for it: a broker that is away, or a part of it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from ldp_kafka.errors import BrokerError
from ldp_kafka.runtime.kafka.broker_health import BrokerHealth
from ldp_kafka.runtime.log import Record, TableRecord
from ldp_kafka.runtime.worker import producers as room
from ldp_kafka.topology.roles import Topic

OURS, THEIRS = {"of": "edge"}, {"of": "collector"}


class Box:
    """A producer whose `flush` comes to what it is told."""

    def __init__(self, config, failed):
        self.config, self.sent, self.answers, self.room = config, [], [], True
        self.pauses = []

    @property
    def pause(self):
        return self.pauses.pop(0) if self.pauses else None

    def poll(self):
        self.sent.append("polled")

    def send(self, records):
        self.sent += records

    def mark(self, topic=None, partition=0):
        return {(topic or "all", partition): len(self.sent)}

    def late(self, mark):
        return list(mark)

    async def flush(self, mark, seconds, clock):
        assert seconds == room.WAIT
        return self.answers.pop(0) if self.answers else True


def made(monkeypatch, led=lambda topic, in_sync: None):
    monkeypatch.setattr(room, "OrderedProducer", Box)
    topics = [
        Topic("raw", 2, {}, "", "edge"),
        Topic("log", 2, {}, "", "edge"),
        Topic("reports", 2, {}, "", "collector"),
    ]
    brokers = BrokerHealth()
    offsets = SimpleNamespace(led=led)
    return room.Producers({"edge": OURS, "collector": THEIRS}, topics, offsets, brokers), brokers


def test_each_record_goes_to_the_cluster_of_its_topic(monkeypatch):
    ours, _ = made(monkeypatch)
    there, report = Record("raw", 0, None, b"t"), Record("reports", 1, None, b"r")
    ours.send([there, report])
    record = TableRecord("log", 1, b"k", None)
    asyncio.run(ours.put(record))
    edge, collector = ours._boxes
    assert (edge.config, edge.sent, collector.sent) == (OURS, [there, record], [report])
    assert ours.room
    collector.room = False
    assert not ours.room


def test_what_a_partition_without_its_replicas_takes_is_waited_for(monkeypatch):
    """Brokers answer, but not those that it needs: it is an outage, too, until it has arrived."""
    asked, seen = [], []

    def led(topic, *, in_sync):
        asked.append((topic.name, list(in_sync)))
        seen.append(brokers.here)
        raise BrokerError("some of its replicas are away")

    ours, brokers = made(monkeypatch, led)
    ours._boxes[0].answers = [False, False, True]
    asyncio.run(ours.put(TableRecord("log", 1, b"k", b"v")))
    assert asked == [("log", [1])] * 2
    assert seen == [True, False] and brokers.here


def test_what_brokers_that_are_there_do_not_take_ends_the_worker(monkeypatch):
    ours, brokers = made(monkeypatch)
    ours._boxes[0].answers = [False]
    with pytest.raises(BrokerError, match="topic log: the broker did not confirm within 20 s"):
        asyncio.run(ours.put(TableRecord("log", 1, b"k", b"v")))
    assert brokers.here


def test_what_is_held_back_goes_on_by_itself(monkeypatch):
    """Until nothing is."""
    ours, _ = made(monkeypatch)
    box, other = ours._boxes
    box.pauses = [0.0, 0.0, 0.0, None]

    async def go():
        ours.send([Record("raw", 0, None, b"t")])
        ours.send([Record("raw", 0, None, b"t")])  # one timer is enough
        await asyncio.sleep(0.05)

    asyncio.run(go())
    assert box.sent[2:] == ["polled"] * 2
    assert other.sent == ["polled"] * 2


def test_a_record_that_is_refused_later_ends_the_worker(monkeypatch):
    ours, _ = made(monkeypatch)
    error, said = BrokerError("too large"), []
    monkeypatch.setattr(room, "end", said.append)
    ours._boxes[0].pauses = [0.0]
    monkeypatch.setattr(ours._boxes[0], "poll", lambda: (_ for _ in ()).throw(error))

    async def go():
        ours.send([Record("raw", 0, None, b"t")])
        await asyncio.sleep(0.05)

    asyncio.run(go())
    assert said == [error]
