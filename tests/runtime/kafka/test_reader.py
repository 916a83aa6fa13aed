"""A consumer that only looks, and what a header record is."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import KafkaError, Producer

from ldp_kafka.runtime.brokers.embedded import EmbeddedBroker
from ldp_kafka.runtime.kafka import admin, reader
from ldp_kafka.runtime.kafka.reader import reading
from ldp_kafka.runtime.wire.records import header, header_of


@pytest.fixture
def log():
    """Ten records in each of two partitions: config and topic."""
    with EmbeddedBroker() as broker:
        config = {"bootstrap.servers": broker.bootstrap_servers}
        broker.create_topic("t", 2)
        producer = Producer(config)
        for number in range(20):
            producer.produce("t", bytes([number // 2]), partition=number % 2)
        assert producer.flush(10) == 0
        yield config, "t"


def test_it_reads_from_the_offsets_and_leaves_no_trace(log, monkeypatch):
    """From the offset of each partition to the end; no offset is committed, and it is closed."""
    config, topic = log
    closed = []

    class Watched(reader.Reader):
        def close(self):
            closed.append(True)
            super().close()

    monkeypatch.setattr(reader, "Reader", Watched)
    found = {0: [], 1: []}
    with reading(config, topic, {0: 7, 1: 9}) as consumer:
        while sum(map(len, found.values())) < 4:
            for message in consumer.consume(10, 1):
                assert message.error() is None
                found[message.partition()].append(message.value()[0])
        assert closed == []
    assert closed == [True]
    assert found == {0: [7, 8, 9], 1: [9]}
    assert admin.committed(config, "ldp_kafka.reader", topic, [0, 1]) == {0: None, 1: None}


def test_it_is_closed_after_an_error(log, monkeypatch):
    config, topic = log
    closed = []

    class Watched(reader.Reader):
        def close(self):
            closed.append(True)
            super().close()

    monkeypatch.setattr(reader, "Reader", Watched)
    with pytest.raises(ZeroDivisionError), reading(config, topic, {0: 0}):
        1 / 0  # noqa: B018
    assert closed == [True]


def test_an_offset_that_is_not_there_is_an_error(log):
    """Never silently another one, unless it is asked for."""
    config, topic = log
    with reading(config, topic, {0: 50}) as consumer:
        message = consumer.poll(10)
        assert message.error().code() == KafkaError._AUTO_OFFSET_RESET
    with reading(config, topic, {0: 50}, **{"auto.offset.reset": "earliest"}) as consumer:
        message = consumer.poll(10)
        assert (message.error(), message.offset()) == (None, 0)


def test_what_a_header_record_is():
    """Only a JSON object of ours that says so: a user's own ``type`` makes no header."""
    made = header("a", "f", "l")
    assert header_of(made) == json.loads(made)
    own = {name: value for name, value in json.loads(made).items() if name != "ldp_kafka"}
    for other in (b"", b"\xff", b"[]", b'"header"', b"{}", json.dumps(own).encode()):
        assert header_of(other) is None
    assert header_of(json.dumps({**json.loads(made), "type": "event"}).encode()) is None
