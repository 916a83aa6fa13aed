"""What a producer writes lies in its partition without gaps, so that what came first may count:
against real brokers.
"""

from __future__ import annotations

import time

import pytest
from confluent_kafka.admin import AdminClient

from ldp_kafka.runtime.kafka.admin import TopicSpec, ensure
from ldp_kafka.runtime.kafka.producer import OrderedProducer
from ldp_kafka.runtime.log import Record
from tests.broker.flow import Reader, configure

TRIES = 5


@pytest.fixture(params=["kafka", "kafka_3_9"])
def boot(request):
    """A real broker's address."""
    return request.getfixturevalue(request.param)


def test_nothing_follows_what_was_refused(boot, prefix):
    """A broker takes any first sequence number from a producer that it does not know: what was
    under way behind a record that it refused would be in the log without it, for good.

    A worker that comes after says both again, and whoever reads them has the second already: it
    came first.
    """
    admin = AdminClient({"bootstrap.servers": boot, "log_level": 0})
    for number in range(TRIES):
        topic, words = f"{prefix}.{number}", []
        ensure({"bootstrap.servers": boot}, [TopicSpec(topic, 1)])
        configure(admin, topic, "max.message.bytes", "1000")
        outbox = OrderedProducer(
            {"bootstrap.servers": boot, "linger.ms": 0, "batch.num.messages": 1}, words.append
        )
        outbox.send([Record(topic, 0, None, b"x" * size, ()) for size in (2000, 10, 10, 10)])
        end = time.monotonic() + 30
        while not words and time.monotonic() < end:
            outbox.poll(0.1)
        assert words
        outbox.poll(0.5)  # what was under way behind it
        assert Reader(boot, topic).read(10) == []
