"""The producer of how-to/producers.md, run as it stands there against an embedded broker."""

from __future__ import annotations

import contextlib
import re

import pytest
from confluent_kafka import Consumer, TopicPartition

import ldp_kafka as lk
from ldp_kafka.runtime.brokers.embedded import EmbeddedBroker
from ldp_kafka.runtime.partitioning import partitions_of
from ldp_kafka.runtime.wire.events import event_reader
from ldp_kafka.topology import loads
from tests.deploy.code_blocks import ROOT

PAGES = ROOT / "deploy" / "docs" / "pages" / "how-to"
FIRST_LINE = "embedded broker: {}, in this process; it keeps nothing when it ends\n"


def blocks(page, language):
    text = (PAGES / page).read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.fixture
def topology(monkeypatch):
    monkeypatch.setenv("LDP_KAFKA_EDGE_KEY_FILE", "edge.key")
    (text,) = blocks("own-topic.md", "yaml")
    return loads(text)


@pytest.fixture
def written(topology, tmp_path, monkeypatch):
    """The messages (partition, key, value) that the page's lines write, in their order."""
    monkeypatch.chdir(tmp_path)
    partitions = topology.input.partitions
    with EmbeddedBroker() as broker:
        broker.create_topic(topology.input.topic, partitions)
        (tmp_path / "run.log").write_text(FIRST_LINE.format(broker.bootstrap_servers))
        found = {}
        for block in blocks("producers.md", "python"):
            exec(block, found)
        assert not len(found["producer"])
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "reader"})
        with contextlib.closing(consumer):
            consumer.assign([TopicPartition(topology.input.topic, p, 0) for p in range(partitions)])
            messages = consumer.consume(partitions + 1, timeout=30)
    assert len(messages) == partitions + 1
    return [(each.partition(), each.key(), each.value()) for each in messages]


def test_it_writes_what_the_workers_read(topology, written):
    """An event where murmur2 has its user, another partition than librdkafka's default takes; then
    a tick in each partition, with which the event's slot is closed, and no sooner one.
    """
    [(place, key, value)] = [each for each in written if each[1] is not None]
    decoded = event_reader(topology).read(value)
    assert decoded.events is not None and not decoded.bad
    [user], [time] = decoded.events.users.texts(), decoded.events.times
    assert key.decode() == user
    assert place == partitions_of([user], topology.input.partitions)[0] == 0
    ticks = [each for each in written if each[1] is None]
    assert sorted(each[0] for each in ticks) == [*range(topology.input.partitions)]
    for _, _, tick in ticks:
        [record] = lk.decode(tick)
        assert isinstance(record, lk.Tick)
        ahead = topology.slot_of(record.time) - topology.slot_of(int(time))
        assert ahead == topology.input.lateness + 1
    same = [each for each in written if each[0] == place]
    assert [each[1] is None for each in same] == [False, True]
