"""A consumer that only looks, and what a header record is."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import KafkaError, Producer

from ldp_kafka.errors import BrokerError
from ldp_kafka.runtime.brokers.embedded import EmbeddedBroker
from ldp_kafka.runtime.kafka import admin, reader
from ldp_kafka.runtime.kafka.reader import follow_records, reading
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


def test_a_follower_goes_on(log, monkeypatch):
    """With what is there and what comes; None after each fetch; closed with its generator."""
    config, topic = log
    monkeypatch.setattr(reader, "QUIET", 0.1)
    found, nothing = [], 0
    following = follow_records(config, topic, {0: 8, 1: 10})
    for record in following:
        if record is None:
            nothing += 1
            if len(found) == 3:
                break
            continue
        found.append((record.partition, record.offset, record.value))
        if len(found) == 2:
            producer = Producer(config)
            producer.produce(topic, b"new", partition=1)
            assert producer.flush(10) == 0
    assert nothing
    assert sorted(found) == [(0, 8, b"\x08"), (0, 9, b"\x09"), (1, 10, b"new")]
    following.close()
    assert admin.committed(config, "ldp_kafka.reader", topic, [0, 1]) == {0: None, 1: None}


def test_a_follower_says_what_it_lacks(log):
    """An offset that is not there is an error; a broker that is away is told of, and waited for."""
    config, topic = log
    with pytest.raises(BrokerError, match="t: "):
        assert not any(follow_records(config, topic, {0: 50}))
    said = []
    away = {"bootstrap.servers": "127.0.0.1:1"}
    following = follow_records(away, topic, {0: 0}, away=said.append)
    assert [next(following) for _ in range(4)] == [None] * 4
    following.close()
    assert len(said) == 1
    assert "127.0.0.1:1" in said[0]


def test_what_a_header_record_is():
    """Only a JSON object of ours that says so: a user's own ``type`` makes no header."""
    made = header("a", "f", "l")
    assert header_of(made) == json.loads(made)
    own = {name: value for name, value in json.loads(made).items() if name != "ldp_kafka"}
    for other in (b"", b"\xff", b"[]", b'"header"', b"{}", json.dumps(own).encode()):
        assert header_of(other) is None
    assert header_of(json.dumps({**json.loads(made), "type": "event"}).encode()) is None
