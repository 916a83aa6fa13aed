"""Faults at one exact moment each; `test_chaos.py` has those of every kind, in any order. A judge
recomputes every report and every release from the input: none twice, none missing, none different.
"""

from __future__ import annotations

import os
import random
import signal
import time

import pytest
from confluent_kafka.admin import AdminClient

from ldp_kafka.runtime.kafka import admin
from ldp_kafka.runtime.worker.children import SUPERVISED
from ldp_kafka.runtime.worker.exits import RETRY, WRONG
from tests.broker.asking import configure
from tests.broker.flow import TEXT, Flow
from tests.broker.forks import MUTANT
from tests.broker.watching import stopped, until

USERS = 200


@pytest.fixture
def flow(kafka, tmp_path, prefix):
    with Flow(kafka, tmp_path, prefix) as made:
        yield made


def test_a_second_worker_joins_before_the_first_commit(flow):
    rnd = random.Random(1)
    for t in range(15):
        flow.slot(rnd, t, USERS)
    flow.finish(15)
    flow.start("perturb"), flow.start("collect")
    time.sleep(3.0)  # it has folded, and has not acknowledged all of it
    flow.start("perturb"), flow.start("collect")
    verdict = flow.settled()
    assert verdict.clean and verdict.reports > 1000 and verdict.releases > 1000, verdict


def test_a_worker_dies_between_its_output_and_its_state(kafka, tmp_path, prefix, monkeypatch):
    """What it has sent must come again, byte for byte: a second draw is a second epsilon."""
    monkeypatch.setenv(MUTANT, "none")
    stop = tmp_path / "stop"
    monkeypatch.setenv("LDP_KAFKA_TEST_STOP", str(stop))
    flow = Flow(kafka, tmp_path, prefix)
    rnd = random.Random(4)
    with flow:
        flow.start("collect"), flow.start("perturb")
        for round_ in range(3):
            victim = flow.workers[-1][1]
            stop.touch()
            for t in range(6 * round_, 6 * round_ + 6):
                flow.slot(rnd, t, USERS)
            until(lambda victim=victim: not stop.exists() and stopped(victim.pid))
            flow.start(flow.kill(len(flow.workers) - 1))
        flow.finish(18)
        verdict = flow.settled(60)
    assert verdict.clean, verdict


@pytest.mark.parametrize("mutant", ["none", "no epoch"])
def test_a_zombie_wakes_into_the_middle_of_a_snapshot(kafka, tmp_path, prefix, monkeypatch, mutant):
    """A worker stops between its output and its shards; its heir folds on and acknowledges; then it
    wakes, writes what it had, and both are killed. The third must know what the heir knew.
    """
    monkeypatch.setenv(MUTANT, mutant)
    stop = tmp_path / "stop"
    monkeypatch.setenv("LDP_KAFKA_TEST_STOP", str(stop))
    flow = Flow(kafka, tmp_path, prefix)
    rnd = random.Random(6)
    with flow:
        flow.start("collect")
        zombie = flow.start("perturb")
        for t in range(6):
            flow.slot(rnd, t, USERS)
        flow.until_acknowledged()
        stop.touch()
        for t in range(6, 12):
            flow.slot(rnd, t, USERS)
        until(lambda: not stop.exists() and stopped(zombie.pid))
        heir = flow.start("perturb")
        for t in range(12, 20):
            flow.slot(rnd, t, USERS)
        flow.until_acknowledged()
        written = changelog_end(flow)
        zombie.send_signal(signal.SIGCONT)
        until(lambda: changelog_end(flow) > written)
        time.sleep(0.2)
        for process in (heir, zombie):
            flow.start(
                flow.kill(
                    next(at for at, (_, other) in enumerate(flow.workers) if other is process)
                )
            )
        for t in range(20, 26):
            flow.slot(rnd, t, USERS)
        flow.finish(26)
        verdict = flow.settled(60 if mutant == "none" else 25)
    assert verdict.clean == (mutant == "none"), verdict


@pytest.mark.parametrize("mutant", ["none", "reads nothing again"])
def test_what_a_fetch_lost_is_read_again(kafka, tmp_path, prefix, monkeypatch, mutant):
    """Without an end of the process, which would be the only way to it otherwise."""
    monkeypatch.setenv(MUTANT, mutant)
    lost = tmp_path / "lost"
    monkeypatch.setenv("LDP_KAFKA_TEST_LOSE", str(lost))
    flow = Flow(kafka, tmp_path, prefix)
    rnd = random.Random(8)
    with flow:
        worker = flow.start("perturb")
        for t in range(8):
            flow.slot(rnd, t, USERS)
            if t == 3:
                flow.until_acknowledged()
                lost.touch()
            if t == 4:
                until(lambda: not lost.exists())
        flow.finish(8)
        if mutant == "none":
            flow.start("collect")
            verdict = flow.settled()
            assert verdict.clean and verdict.reports > 500, verdict
            assert worker.poll() is None
            assert "perturb read_again partition=" in flow.log_path.read_text()
        else:
            assert worker.wait(60) == RETRY
            assert " did not come, though it was read 30 times, but " in flow.log_path.read_text()


def test_a_topic_that_takes_too_little_is_named(kafka, tmp_path, prefix):
    """While a worker runs, a failure that a producer does not survive is the broker's word like any
    other: the worker asks to be started again. The next start says how much the topic must take,
    and asks for no other.
    """
    flow, client = Flow(kafka, tmp_path, prefix), AdminClient({"bootstrap.servers": kafka})

    with flow:
        worker = flow.start("perturb")
        until(lambda: "perturb ready" in flow.log_path.read_text())
        configure(client, flow.topology.reports_topic, "max.message.bytes", "64")
        for t in range(4):
            flow.slot(random.Random(7), t, USERS)
        flow.finish(4)
        assert worker.wait(60) == RETRY
        said = flow.log_path.read_text()
        assert "Message size too large" in said
        assert "its max.message.bytes is too small: the next start says for what" in said
        assert "unexpected" not in said
        for supervised in (False, True):
            if supervised:
                os.environ[SUPERVISED] = "1"
            try:
                assert flow.start("perturb").wait(60) == WRONG
            finally:
                os.environ.pop(SUPERVISED, None)
            told = flow.log_path.read_text().removeprefix(said)
            assert "must have max.message.bytes=1000000 or more, found 64" in told
            said += told
        flow.workers.clear()
        configure(client, flow.topology.reports_topic, "max.message.bytes", None)
        flow.start("collect"), flow.start("perturb")
        verdict = flow.settled()
    assert verdict.clean and verdict.reports > 100, verdict


def changelog_end(flow: Flow) -> int:
    """How many records the edge has written to its changelog."""
    role, agent = flow.edge
    config, topic = {"bootstrap.servers": flow.boot}, role.changelog(agent.name)
    return sum(admin.watermarks(config, topic, p)[1] for p in range(agent.partitions))


@pytest.mark.parametrize("workers", [1, 2])
def test_the_owner_ticks_for_an_idle_partition(kafka, tmp_path, prefix, workers):
    """With ``input.idle`` a partition that gets nothing does not hold the releases back, also where
    its owner has no other; the ticks are in the log, so the judge folds them too.
    """
    with Flow(
        kafka,
        tmp_path,
        prefix,
        statistics="mean",
        text=TEXT.replace("  lateness: 1", "  lateness: 1\n  idle: 1s"),
    ) as flow:
        for role in ("collect", *["perturb"] * workers):
            flow.start(role)
        rnd = random.Random(5)
        for t in range(8):
            flow.slot(rnd, t, USERS, idle=range(100), late=0, tick=False)
            time.sleep(0.5)
        until(lambda: len(flow.read(flow.topology.releases_topic)) >= 6)
        ticks = [message for message in flow.raw()[1] if b'"tick"' in message.value]
        verdict = flow.settled()
    assert ticks, "nobody else writes to that partition"
    assert verdict.clean and verdict.releases >= 6, verdict
