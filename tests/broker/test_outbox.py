"""What a producer writes lies in its partition without gaps, so that what came first may count:
against real brokers.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from itertools import cycle, repeat
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from ldp_kafka.runtime.kafka import producer
from ldp_kafka.runtime.kafka.admin import TopicSpec, ensure
from ldp_kafka.runtime.kafka.producer import OrderedProducer
from ldp_kafka.runtime.log import Record
from tests.broker.asking import Reader, configure
from tests.broker.cluster import FROZEN, Cluster

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


def ticks() -> int:
    """What this process's producers have cost the machine by now."""
    found = 0
    for task in Path("/proc/self/task").iterdir():
        name, _, rest = (task / "stat").read_text().partition(") ")
        if "(rdk:broker" in name:
            found += sum(map(int, rest.split()[11:13]))
    return found


def arrives(outbox: OrderedProducer) -> None:
    """Wait until everything that was given has arrived."""
    end = time.monotonic() + 60
    while not outbox.arrived(outbox.mark()) and time.monotonic() < end:
        outbox.poll(0.1)
    assert outbox.arrived(outbox.mark())


def spent(cluster: Cluster, topic: str, lots: Iterator[int]) -> float:
    """The part of a core that a producer takes while its broker stands still and more comes, in
    lots of so many records.
    """
    boot, words = cluster.boot, []
    ensure({"bootstrap.servers": boot}, [TopicSpec(topic, 1)])
    outbox = OrderedProducer({"bootstrap.servers": boot}, words.append)

    def give(seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if outbox.room:
                outbox.send([Record(topic, 0, None, b"x", ())] * next(lots))
            outbox.poll()
            time.sleep(0.01)

    outbox.send([Record(topic, 0, None, b"x", ())])
    arrives(outbox)  # it knows the partition's leader
    cluster.freeze()
    give(1.0)
    before, begin = ticks(), time.monotonic()
    give(3.0)
    took = (ticks() - before) / os.sysconf("SC_CLK_TCK") / (time.monotonic() - begin)
    cluster.back(FROZEN)
    arrives(outbox)
    assert not words
    return took


def tries(cluster: Cluster, topic: str, lots: Iterator[int]) -> Iterator[float]:
    """What a producer takes each time, until it is little."""
    for number in range(5):
        yield (took := spent(cluster, f"{topic}-{number}", lots))
        if took < 0.02:
            return


LOTS = (repeat(1), repeat(20), cycle((1, 1, 1, 20)), repeat(500), repeat(5000))
"""The last are of several requests each."""


def test_who_waits_for_a_broker_sleeps(can_start, tmp_path, monkeypatch):
    """One that has more under way and more to send takes a whole core, of each worker, until the
    broker answers: beside enough of them it comes late.

    The least of five tries: where the machine holds a producer up amid a lot, for longer than
    linger.ms, librdkafka has sent the first half.
    """
    with Cluster(tmp_path / "kafka") as cluster:
        ours = [min(tries(cluster, f"ours-{at}", lots)) for at, lots in enumerate(LOTS)]
        monkeypatch.setattr(producer, "MANY", 10**9)
        twin = spent(cluster, "twin", repeat(20))
    assert max(ours) < 0.2 * twin, (ours, twin)
