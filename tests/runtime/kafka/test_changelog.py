"""What a changelog holds, whole and from an offset on."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from ldp_kafka.runtime.brokers.embedded import EmbeddedBroker
from ldp_kafka.runtime.kafka.changelog import compacted, key_bytes, since

TOPIC = "t-perturb-perturb-changelog"


@pytest.fixture
def broker():
    with EmbeddedBroker() as made:
        yield {"bootstrap.servers": made.bootstrap_servers}


def written(config, *records):
    producer = Producer(config)
    for partition, key, value in records:
        producer.produce(TOPIC, value, key, partition=partition)
    producer.flush()


def test_what_came_since_is_the_last_of_each_key(broker):
    """And where each partition ends: from there the next question goes on."""
    written(
        broker,
        (0, key_bytes("0/a"), b"1"),
        (0, key_bytes("0/b"), b"2"),
        (0, key_bytes("0/a"), b"3"),
        (1, key_bytes("1/a"), b"4"),
        (0, None, b"no key"),
        (0, b"not ours", b"5"),
    )
    found, ends = since(broker, TOPIC, {0: 0, 1: 0})
    assert found == {"0/a": b"3", "0/b": b"2", "1/a": b"4", "not ours": b"5"}
    assert ends == {0: 5, 1: 1}
    written(broker, (0, key_bytes("0/b"), None), (2, key_bytes("2/a"), b"6"))
    assert since(broker, TOPIC, ends) == ({"0/b": None}, {0: 6, 1: 1})
    assert since(broker, TOPIC, {0: 6}) == ({}, {0: 6})
    assert since(broker, TOPIC, {}) == ({}, {})
    assert compacted(broker, TOPIC) == {
        "0/a": b"3", "1/a": b"4", "2/a": b"6", "not ours": b"5",
    }  # fmt: skip
