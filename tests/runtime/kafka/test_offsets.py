"""A broker that has not heard of a new partition yet is asked again."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from ldp_kafka.errors import BrokerError
from ldp_kafka.runtime.kafka.admin import offsets


class _Follower:
    """A client whose broker learns of a partition after so many questions."""

    def __init__(self, code, questions):
        self.code, self.questions = code, questions

    def get_watermark_offsets(self, place, **_):
        assert (place.topic, place.partition) == ("new", 3)
        self.questions -= 1
        if self.questions >= 0:
            raise KafkaException(KafkaError(self.code))
        return 0, 7


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
