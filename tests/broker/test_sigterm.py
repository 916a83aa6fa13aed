"""Workers that are told to end, whatever they are doing: 0, within 15 seconds; and nothing is lost.

Each try waits for a line of the worker's log and then a moment, which is drawn.
"""

from __future__ import annotations

import random
import time
from contextlib import contextmanager

import pytest
from confluent_kafka.admin import AdminClient

from ldp_kafka.runtime.worker.health_rules import LEAVE
from tests.broker.cluster import FROZEN, Cluster
from tests.broker.flow import Flow, load
from tests.broker.forks import MUTANT
from tests.broker.workers import Worker
from tests.depth import depth

LIMIT = 15.0  # seconds
STARTS, RECOVERIES, SNAPSHOTS, REBALANCES = depth((4, 3, 3, 2), (60, 40, 60, 40))
REPEATS = 400  # times that a changelog is longer than it was
SLOW = 0.7  # seconds for each record of a snapshot, where one is to take its time


def started(flow: Flow) -> Worker:
    """One with a log of its own, as much as there is to say in it."""
    number = len(list(flow.path.parent.glob("worker-*.log")))
    return Worker(flow.path, "perturb", flow.path.parent / f"worker-{number}.log", "-v")


@pytest.fixture
def partitions(request) -> int:
    return getattr(request, "param", 2)


@pytest.fixture
def flow(kafka, tmp_path, prefix, partitions):
    with Flow(kafka, tmp_path, prefix, statistics="mean", partitions=partitions) as made:
        yield made


@pytest.fixture
def rnd(prefix) -> random.Random:
    """The moments; its seed is a part of the topology's name."""
    return random.Random(prefix)


@contextmanager
def slow_snapshots(seconds: float = SLOW):
    """Those of workers that are started meanwhile take their time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(MUTANT, "none")
        patch.setenv("LDP_KAFKA_TEST_SLOW", str(seconds))
        yield


def nothing_is_lost(flow: Flow, slots: int) -> None:
    """What the next workers make of it is what one would have made that never ended."""
    flow.finish(slots)
    flow.start("perturb"), flow.start("collect")
    verdict = flow.settled()
    assert verdict.clean and not verdict.exits and verdict.reports, verdict
    flow.stop()


def test_while_it_starts_and_joins_its_group(flow, rnd):
    """From its first line on, before it has anything to end in order, to its first assignment."""
    for t in range(4):
        flow.slot(rnd, t, 60)
    for _ in range(STARTS):
        worker = started(flow)
        worker.says("start")
        time.sleep(rnd.uniform(0, 2.5))
        worker.leave(LIMIT)
    nothing_is_lost(flow, 4)


def test_in_recovery(flow, rnd):
    """While it reads its tables, from a changelog that nobody has compacted."""
    for t in range(4):
        flow.slot(rnd, t, 600)
    first = started(flow)
    first.says("snapshot")
    first.leave(LIMIT)
    lengthen(flow)
    hits = 0
    for at in range(RECOVERIES):  # the first one at once
        worker = started(flow)
        worker.says("assigned")
        time.sleep(rnd.uniform(0, 0.5) * at / RECOVERIES)
        hits += not worker.lines("ready")
        worker.leave(LIMIT)
    assert hits, "each had read its tables by then"
    nothing_is_lost(flow, 4)


def lengthen(flow: Flow) -> None:
    """Write the changelog of the perturb role again and again: it comes to the same tables."""
    (topic,) = (
        topic.name
        for topic in flow.topology.flow.topics
        if topic.name.endswith("-perturb-perturb-changelog")
    )
    records = flow.read(topic)
    for _ in range(REPEATS):
        for record in records:
            while True:
                try:
                    flow.producer.produce(
                        topic, record.value(), record.key(), partition=record.partition()
                    )
                    break
                except BufferError:
                    flow.producer.poll(0.1)
    flow.producer.flush(60)


def test_in_a_snapshot(flow, rnd):
    """While it writes one, or the last one."""
    with load(flow) as slots, slow_snapshots():
        for _ in range(SNAPSHOTS):
            worker = started(flow)
            worker.says("recovered")
            time.sleep(rnd.uniform(0, 4.0))
            worker.leave(LIMIT)
    nothing_is_lost(flow, len(slots))


@pytest.mark.parametrize("partitions", [1], indirect=True)
@pytest.mark.parametrize("other", ["leaves", "joins"])
def test_in_a_rebalance(flow, rnd, other):
    """Another worker joins, or leaves, while it writes its last snapshot. Faust would close its
    client: its group were not told, and a commit under way would wait for ever.
    """
    with load(flow) as slots, slow_snapshots():
        for _ in range(REBALANCES):
            worker = started(flow)
            worker.says("recovered")
            other_one = started(flow)
            if other == "leaves":
                other_one.says("assigned")
                worker.says("recovered", 2)  # it has its partition again
                time.sleep(rnd.uniform(0, 2.0))
                worker.terminate()
                time.sleep(rnd.uniform(0, 0.8))
                other_one.terminate()
            else:
                other_one.says("start")
                time.sleep(rnd.uniform(0.5, 2.5))
                worker.terminate()
                time.sleep(rnd.uniform(0, 3.0))
                other_one.terminate()
            for each in (worker, other_one):
                assert each.code(LIMIT) == 0, each.end_of_log
            if not any("was not told" in each.end_of_log for each in (worker, other_one)):
                assert not members(flow), worker.end_of_log
    nothing_is_lost(flow, len(slots))


def members(flow: Flow) -> list:
    """Of its group, as the broker knows: of one that did not leave until its session is over."""
    group = flow.topology.group("perturb")
    client = AdminClient({"bootstrap.servers": flow.boot})
    return client.describe_consumer_groups([group], request_timeout=10)[group].result(20).members


@pytest.fixture(scope="module")
def own(can_start, tmp_path_factory):
    """A broker that may be away."""
    with Cluster(tmp_path_factory.mktemp("own")) as cluster:
        yield cluster


@contextmanager
def away(cluster: Cluster):
    """It does not answer meanwhile."""
    cluster.freeze()
    try:
        yield
    finally:
        cluster.back(FROZEN)


def test_while_the_broker_is_away(own, tmp_path, prefix, rnd):
    """All is saved: 0, and its group is not told. Something is not: it tries until it has to end,
    and says that it did not end in order. Nothing is lost either way.
    """
    with Flow(own.boot, tmp_path, prefix, statistics="mean") as flow:
        flow.slot(rnd, 0, 60)
        saved = started(flow)
        for _ in range(2):  # partitions
            saved.says("snapshot")
        time.sleep(2)  # until it is committed, too
        with away(own):
            time.sleep(rnd.uniform(0, 3))
            saved.leave(LIMIT)
        flow.slot(rnd, 1, 60)
        with slow_snapshots(3.0):
            unsaved = started(flow)
        unsaved.says("recovered")
        with away(own):
            time.sleep(rnd.uniform(0, 3))
            unsaved.terminate()
            # one turn of whoever looks, and of a machine that is busy
            assert unsaved.code(LEAVE + 5) == 75, unsaved.end_of_log
        nothing_is_lost(flow, 2)
