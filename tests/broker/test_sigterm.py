"""Workers that are told to end, whatever they are doing: 0, within 15 seconds; and nothing is lost.

Each try waits for a line of the worker's log and then a moment, which is drawn.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from contextlib import contextmanager

import pytest
from confluent_kafka.admin import AdminClient

from ldp_kafka.runtime.brokers.local_kafka import KafkaServer
from ldp_kafka.runtime.worker.process import LEAVE
from tests.broker.flow import Flow
from tests.broker.forks import MUTANT, Life
from tests.depth import depth

LIMIT = 15.0  # seconds
STARTS, RECOVERIES, SNAPSHOTS, REBALANCES = depth((4, 3, 3, 2), (60, 40, 60, 40))
REPEATS = 400  # times that a changelog is longer than it was
SLOW = 0.7  # seconds for each record of a snapshot, where one is to take its time


class Worker(Life):
    """One with a log of its own."""

    def __init__(self, flow: Flow, role: str = "perturb") -> None:
        self.number = len(list(flow.path.parent.glob("worker-*.log")))
        self.path = flow.path.parent / f"worker-{self.number}.log"
        self.path.touch()
        super().__init__(["run", str(flow.path), "--role", role, "-v"], self.path)

    def says(self, event: str, times: int = 1, limit: float = 60.0) -> None:
        """Until its log has so many lines of this name."""
        end = time.monotonic() + limit
        while self.said(event) < times:
            assert self.poll() is None, self.end_of_log()
            assert time.monotonic() < end, self.end_of_log()
            time.sleep(0.01)

    def said(self, event: str) -> int:
        return self.path.read_text().count(f" perturb {event} ")

    def end_of_log(self) -> str:
        return self.path.read_text()[-2500:]

    def ends(self, limit: float = LIMIT) -> int:
        """Its exit code, within a time of being told."""
        try:
            return self.wait(limit)
        except BaseException:
            self.kill()
            raise AssertionError(f"not within {limit:g} s: {self.end_of_log()}") from None

    def told(self) -> None:
        """Tell it to end, and see that it does, in order."""
        self.terminate()
        assert self.ends() == 0, self.end_of_log()


@pytest.fixture
def partitions(request) -> int:
    return getattr(request, "param", 2)


@pytest.fixture
def flow(kafka, tmp_path, prefix, partitions):
    made = Flow(kafka, tmp_path, prefix, statistics="mean", partitions=partitions)
    yield made
    made.close()


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


@contextmanager
def load(flow: Flow):
    """Slot after slot, meanwhile; gives how many there were."""
    over, rnd, slots = threading.Event(), random.Random(3), []

    def put() -> None:
        while not over.wait(0.3):
            flow.slot(rnd, len(slots), 60)
            slots.append(1)

    thread = threading.Thread(target=put, daemon=True)
    thread.start()
    yield slots
    over.set()
    thread.join(30)


def nothing_is_lost(flow: Flow, slots: int) -> None:
    """What the next workers make of it is what one would have made that never ended."""
    flow.finish(slots)
    flow.start("perturb"), flow.start("collect")
    expected = flow.expected()
    flow.wait(expected)
    verdict = flow.judge(expected)
    assert verdict.clean and not verdict.exits and verdict.reports, verdict
    flow.stop()


def test_while_it_starts_and_joins_its_group(flow, rnd):
    """From its first line on, before it has anything to end in order, to its first assignment."""
    for t in range(4):
        flow.slot(rnd, t, 60)
    for _ in range(STARTS):
        worker = Worker(flow)
        worker.says("start")
        time.sleep(rnd.uniform(0, 2.5))
        worker.told()
    nothing_is_lost(flow, 4)


def test_in_recovery(flow, rnd):
    """While it reads its tables, from a changelog that nobody has compacted."""
    for t in range(4):
        flow.slot(rnd, t, 600)
    first = Worker(flow)
    first.says("snapshot")
    first.told()
    lengthen(flow)
    hits = 0
    for _ in range(RECOVERIES):
        worker = Worker(flow)
        worker.says("assigned")
        time.sleep(rnd.uniform(0, 0.5))
        hits += not worker.said("ready")
        worker.told()
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
            worker = Worker(flow)
            worker.says("recovered")
            time.sleep(rnd.uniform(0, 4.0))
            worker.told()
    nothing_is_lost(flow, len(slots))


@pytest.mark.parametrize("partitions", [1], indirect=True)
@pytest.mark.parametrize("other", ["leaves", "joins"])
def test_in_a_rebalance(flow, rnd, other):
    """Another worker joins, or leaves, while it writes its last snapshot. Faust would close its
    client: its group were not told, and a commit under way would wait for ever.
    """
    with load(flow) as slots, slow_snapshots():
        for _ in range(REBALANCES):
            worker = Worker(flow)
            worker.says("recovered")
            other_one = Worker(flow)
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
                assert each.ends() == 0, each.end_of_log()
            if not any("was not told" in each.end_of_log() for each in (worker, other_one)):
                assert not members(flow), worker.end_of_log()
    nothing_is_lost(flow, len(slots))


def members(flow: Flow) -> list:
    """Of its group, as the broker knows: of one that did not leave until its session is over."""
    group = flow.topology.group("perturb")
    client = AdminClient({"bootstrap.servers": flow.boot})
    return client.describe_consumer_groups([group], request_timeout=10)[group].result(20).members


@pytest.fixture(scope="module")
def own(can_start, tmp_path_factory):
    """A broker that may be away."""
    server = KafkaServer("4.3.1", tmp_path_factory.mktemp("own"))
    try:
        yield server.start()
    finally:
        server.stop()


@contextmanager
def away(server: KafkaServer):
    """It does not answer meanwhile."""
    (pid,) = server.pids().values()
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_while_the_broker_is_away(own, tmp_path, prefix, rnd):
    """All is saved: 0, and its group is not told. Something is not: it tries until it has to end,
    and says that it did not end in order. Nothing is lost either way.
    """
    flow = Flow(own.bootstrap_servers, tmp_path, prefix, statistics="mean")
    try:
        flow.slot(rnd, 0, 60)
        saved = Worker(flow)
        for _ in range(2):  # partitions
            saved.says("snapshot")
        time.sleep(2)  # until it is committed, too
        with away(own):
            time.sleep(rnd.uniform(0, 3))
            saved.told()
        flow.slot(rnd, 1, 60)
        with slow_snapshots(3.0):
            unsaved = Worker(flow)
        unsaved.says("recovered")
        with away(own):
            time.sleep(rnd.uniform(0, 3))
            unsaved.terminate()
            # one turn of whoever looks, and of a machine that is busy
            assert unsaved.ends(LEAVE + 5) == 75, unsaved.end_of_log()
        nothing_is_lost(flow, 2)
    finally:
        flow.close()
