"""What the transport reads of real brokers: topics in every compression, and partitions that the
leader of a group hears of late.
"""

from __future__ import annotations

import random
import time

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewPartitions

from ldp_kafka.runtime.kafka import admin
from ldp_kafka.runtime.worker.side import Side
from ldp_kafka.topology import KafkaSide
from tests.broker.flow import Flow, client
from tests.broker.watching import until

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
USERS = 40
REFRESH = 15.0  # seconds after which a client asks again what a topic has, see `side.Side.member`


@pytest.fixture(params=["kafka", "kafka_3_9"])
def boot(request):
    """A real broker's address."""
    return request.getfixturevalue(request.param)


def test_topics_in_every_compression_are_folded(boot, tmp_path, prefix):
    """Single events and Arrow batches: the broker keeps them as producers have written them."""
    flow, rnd = Flow(boot, tmp_path, prefix), random.Random(1)
    try:
        flow.start("perturb"), flow.start("collect")
        for number, codec in enumerate(CODECS):
            # what comes together is written together, and so is worth to be compressed
            flow.producer = Producer(client(boot, **{"compression.type": codec, "linger.ms": 200}))
            flow.slot(rnd, number, USERS, late=0)
        flow.finish(len(CODECS))
        verdict = flow.settled()
        flow.stop()
    finally:
        flow.close()
    assert verdict.clean and not verdict.exits, verdict
    assert verdict.reports == len(CODECS) * USERS, verdict


def test_workers_of_another_release_are_waited_for(kafka, tmp_path, prefix):
    """Those of 0.2.0 share out partitions in another way: who comes later waits until they have
    ended, says so, and then folds what there is.
    """
    flow = Flow(kafka, tmp_path, prefix)
    older = Consumer(
        client(
            kafka,
            **{
                "group.id": flow.topology.group("perturb"),
                "partition.assignment.strategy": "roundrobin",
                "enable.auto.commit": False,
            },
        )
    )
    try:
        older.subscribe([flow.topology.raw_topic])
        until(lambda: older.poll(0.1) or older.assignment())
        worker = flow.start("perturb")
        flow.slot(random.Random(2), 0, USERS, late=0)
        until(lambda: older.poll(0.1) or "INCONSISTENT_GROUP_PROTOCOL" in flow.log_path.read_text())
        for _ in range(50):
            older.poll(0.1)
        assert worker.poll() is None and " assigned " not in flow.log_path.read_text()
        older.close()
        flow.until_acknowledged()
        flow.stop()
    finally:
        flow.close()


@pytest.mark.parametrize("known", [0, 1])
def test_no_partition_is_left_to_nobody(kafka, prefix, known):
    """A broker that is just back may not know every topic, or not all of its partitions. The leader
    of the group gives out those that it hears of, and the others when it has heard of them.
    """
    config = {"bootstrap.servers": kafka}
    if known:
        admin.ensure(config, [admin.TopicSpec(prefix, known, {"cleanup.policy": "delete"})])
    side = Side(KafkaSide(kafka), kafka)
    settings = side.member(prefix, session_ms=6000, read_committed=False)
    given: list[int] = []

    def assigned(of, partitions):
        of.assign(partitions)
        given[:] = sorted(each.partition for each in partitions)

    def until(wanted, seconds):
        end = time.monotonic() + seconds
        while given != wanted:
            assert time.monotonic() < end, given
            reader.consume(1, 0.1)

    reader = Consumer({name: value for name, value in settings.items() if name != "logger"})
    try:
        reader.subscribe([prefix], on_assign=assigned)
        if known:
            until([0], 60)
            admin_client = AdminClient(config)
            admin_client.create_partitions([NewPartitions(prefix, 3)])[prefix].result(20)
        else:
            for _ in range(30):  # it has looked for the topic
                reader.consume(1, 0.1)
            admin.ensure(config, [admin.TopicSpec(prefix, 3, {"cleanup.policy": "delete"})])
        until([0, 1, 2], 2 * REFRESH + 30)
    finally:
        reader.close()
