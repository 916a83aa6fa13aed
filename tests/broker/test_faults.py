"""Faults on real Kafka, two workers a role; a judge recomputes every report and every release from the input: none twice, none missing, none different."""

from __future__ import annotations

import os
import random
import signal
import time

import pytest

from tests.broker.flow import MUTANT, TEXT, Flow

LONG = os.environ.get("LDP_KAFKA_LONG") == "1"
SESSION = 6.0  # seconds, in the topology of `flow`
USERS = 200


def two_of_each(flow: Flow) -> None:
    for role in ("perturb", "perturb", "collect", "collect"):
        flow.start(role)


def settle(flow: Flow, limit: float = 90.0):
    expected = flow.expected()
    flow.wait(expected, limit)
    return flow.judge(expected)


@pytest.fixture
def flow(kafka, tmp_path, prefix):
    made = Flow(kafka, tmp_path, prefix)
    yield made
    made.close()


def test_a_second_worker_joins_before_the_first_commit(flow):
    rnd = random.Random(1)
    for t in range(15):
        flow.slot(rnd, t, USERS)
    flow.finish(15)
    flow.start("perturb"), flow.start("collect")
    time.sleep(3.0)  # it has folded, and has not acknowledged all of it
    flow.start("perturb"), flow.start("collect")
    verdict = settle(flow)
    assert verdict.clean and verdict.reports > 1000 and verdict.releases > 1000, verdict


def test_workers_come_and_go(flow):
    """Added and removed every 2-4 s, gracefully; no offset may be skipped or lost."""
    rnd = random.Random(2)
    two_of_each(flow)
    slots, nxt, t = 120 if LONG else 30, time.time() + 6, 0
    while t < slots:
        flow.slot(rnd, t, USERS)
        t += 1
        time.sleep(0.7)
        if time.time() > nxt:
            role = rnd.choice(["perturb", "collect"])
            mine = [at for at, (name, _) in enumerate(flow.workers) if name == role]
            if len(mine) > 1 and rnd.random() < 0.5:
                flow.kill(rnd.choice(mine), signal.SIGTERM)
            else:
                flow.start(role)
            nxt = time.time() + rnd.uniform(2, 4)
    flow.finish(t)
    verdict = settle(flow)
    assert verdict.clean and verdict.reports > 3000, verdict


def test_kills_zombies_idle_partition_late_events(flow):
    """SIGKILLs, and workers stopped for twice the session timeout whose successor is killed just after they wake."""
    rnd = random.Random(3)
    two_of_each(flow)
    kills, zombies = (60, 8) if LONG else (20, 2)
    killed = woken = t = 0
    stopped, nxt = None, time.time() + 8
    while killed < kills or woken < zombies or stopped:
        flow.slot(rnd, t, USERS, idle=range(20, 32))
        t += 1
        end = time.time() + 1.0
        while time.time() < end:
            time.sleep(0.05)
            now = time.time()
            if stopped and now > stopped[1]:
                role, process = stopped[0]
                process.send_signal(signal.SIGCONT)
                time.sleep(0.3)
                heir = next(at for at, (name, other) in enumerate(flow.workers) if name == role and other is not process)
                flow.start(flow.kill(heir))
                killed, woken, stopped, nxt = killed + 1, woken + 1, None, time.time() + 4
            elif not stopped and now > nxt and killed < kills:
                at = rnd.randrange(len(flow.workers))
                if woken < zombies and killed >= (woken + 1) * kills // (zombies + 1):
                    flow.workers[at][1].send_signal(signal.SIGSTOP)
                    stopped = (flow.workers[at], now + 2 * SESSION)
                else:
                    flow.start(flow.kill(at))
                    killed, nxt = killed + 1, now + rnd.uniform(1, 3)
            if not stopped:
                flow.revive()
    flow.finish(t)
    verdict = settle(flow, 120)
    print(f"{killed} kills, {woken} zombies, {t} slots: {verdict}")
    assert verdict.clean and verdict.reports > 3000, verdict


def churn(flow: Flow, seed: int, kills: int, zombies: int):
    """SIGKILLs of perturb workers, then zombies: what the mutants are run through."""
    rnd = random.Random(seed)
    two_of_each(flow)
    done = t = 0
    nxt, stopped = time.time() + 7, None
    while done < kills + zombies or stopped:
        flow.slot(rnd, t, USERS)
        t += 1
        time.sleep(0.8)
        now = time.time()
        if stopped and now > stopped[1]:
            role, process = stopped[0]
            process.send_signal(signal.SIGCONT)
            time.sleep(0.4)
            flow.start(flow.kill(next(at for at, (name, other) in enumerate(flow.workers) if name == role and other is not process)))
            stopped, nxt = None, now + 5
        elif not stopped and now > nxt:
            at = next(at for at, (name, _) in enumerate(flow.workers) if name == "perturb")
            if done < kills:
                flow.start(flow.kill(at))
            else:
                for _ in range(40):  # it is stopped with its hands full: what it has fetched it goes on folding when it wakes
                    flow.slot(rnd, t, USERS)
                    t += 1
                time.sleep(0.15)
                flow.workers[at][1].send_signal(signal.SIGSTOP)
                stopped = (flow.workers[at], time.time() + 2 * SESSION)
            done, nxt = done + 1, now + 2.5
    flow.finish(t)
    return settle(flow, 20)


# A zombie overwrites shards only if it wakes into the middle of a write: a race, so this one is for the long run; tests/fold kills it in every run.
@pytest.mark.parametrize(("mutant", "kills", "zombies"), [("fresh noise", 4, 0), pytest.param("no tenure", 0, 12, marks=pytest.mark.long)])
def test_the_judge_finds_mutants(kafka, tmp_path, prefix, monkeypatch, mutant, kills, zombies):
    monkeypatch.setenv(MUTANT, mutant)
    flow = Flow(kafka, tmp_path, prefix)
    try:
        verdict = churn(flow, 4, kills, zombies)
    finally:
        flow.close()
    print(mutant, verdict)
    assert not verdict.clean
    if mutant == "fresh noise":
        assert verdict.second > 0, "a second draw is what this mutant does"


def test_the_owner_ticks_for_an_idle_partition(kafka, tmp_path, prefix):
    """With ``input.idle`` a partition that gets nothing does not hold the releases back; the ticks are in the log, so the judge folds them too."""
    flow = Flow(kafka, tmp_path, prefix, statistics="mean", text=TEXT.replace("  lateness: 1", "  lateness: 1\n  idle: 1s"))
    try:
        flow.start("perturb"), flow.start("collect")
        rnd = random.Random(5)
        for t in range(8):
            flow.slot(rnd, t, USERS, idle=range(100), late=0, tick=False)
            time.sleep(0.5)
        until = time.time() + 40
        while time.time() < until and len(flow.read(flow.topology.releases_topic)) < 6:
            time.sleep(0.5)
        ticks = [message for message in flow.raw()[1] if b'"tick"' in message.value]
        expected = flow.expected()
        flow.wait(expected)
        verdict = flow.judge(expected)
    finally:
        flow.close()
    assert ticks, "nobody else writes to that partition"
    assert verdict.clean and verdict.releases >= 6, verdict
