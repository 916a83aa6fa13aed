"""Where a log begins and ends: a broker that does not know just now is asked again, and no answer
is taken for another.
"""

from __future__ import annotations

import ctypes

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from ldp_kafka.errors import BrokerError
from ldp_kafka.runtime.brokers.librdkafka import librdkafka
from ldp_kafka.runtime.kafka.admin import offsets
from ldp_kafka.runtime.kafka.admin.asking import asker

LIST_OFFSETS = 2  # the request's number
ANY_INTS = ctypes.POINTER(ctypes.c_int)


class _Follower:
    """A client whose broker learns of a partition after so many questions."""

    def __init__(self, code, questions):
        self.code, self.questions = code, questions

    def offsets_for_times(self, places, **_):
        (place,) = places
        assert (place.topic, place.partition) == ("new", 3)
        self.questions -= 1
        if self.questions >= 0:
            raise KafkaException(KafkaError(self.code))
        return [TopicPartition("new", 3, {-2: 0, -1: 7}[place.offset])]


@pytest.mark.parametrize(
    "code",
    [KafkaError._UNKNOWN_PARTITION, KafkaError.UNKNOWN_TOPIC_OR_PART],
)
def test_a_partition_that_a_broker_has_not_heard_of(monkeypatch, code):
    """As after a topic was made through another broker of the cluster."""
    monkeypatch.setattr(offsets, "asker", lambda *_: _Follower(code, 2))
    assert offsets.watermarks({}, "new", 3, timeout=5) == (0, 7)
    monkeypatch.setattr(offsets, "asker", lambda *_: _Follower(code, 10**9))
    with pytest.raises(BrokerError, match="the offsets of new partition 3"):
        offsets.watermarks({}, "new", 3, timeout=0.3)


def test_what_cannot_pass_is_said_at_once(monkeypatch):
    """A broker that refuses is asked once."""
    broker = _Follower(KafkaError.UNSUPPORTED_VERSION, 10**9)
    monkeypatch.setattr(offsets, "asker", lambda *_: broker)
    with pytest.raises(BrokerError, match="the offsets of new partition 3"):
        offsets.watermarks({}, "new", 3, timeout=60)
    assert broker.questions == 10**9 - 1


@pytest.mark.parametrize("code", ["NOT_LEADER_FOR_PARTITION", "OFFSET_NOT_AVAILABLE"])
@pytest.mark.parametrize("before", [0, 1], ids=["the first", "the second"])
def test_one_answer_is_not_taken_for_two(broker, code, before):
    """Where a leader moves, one of two questions may be answered and the other not. librdkafka's
    own question for both took a log of five records for an empty one then: from 5 to 5.
    """
    broker.create_topic("moves", 1)
    config = {"bootstrap.servers": broker.bootstrap_servers}
    place = TopicPartition("moves", 0)
    producer = Producer(config)
    while offsets.watermarks(config, "moves", 0)[1] < 5:
        producer.produce("moves", b"x", partition=0)
        producer.flush()
    errors = [*[0] * before, getattr(KafkaError, code)]
    push = librdkafka().rd_kafka_mock_push_request_errors_array
    push.restype, push.argtypes = None, [ctypes.c_void_p, ctypes.c_int16, ctypes.c_size_t, ANY_INTS]
    for _ in range(10):
        push(broker._running(), LIST_OFFSETS, len(errors), (ctypes.c_int * len(errors))(*errors))
        with pytest.raises(KafkaException, match=code):
            offsets.extent(asker(config, "anybody"), place, 5)
        push(broker._running(), LIST_OFFSETS, len(errors), (ctypes.c_int * len(errors))(*errors))
        assert offsets.watermarks(config, "moves", 0) == (0, 5)
