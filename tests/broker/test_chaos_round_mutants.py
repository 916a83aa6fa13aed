"""The harness finds what can go wrong between a request and its answers: each topology of one world
is broken in another way, the same happens to all of them, and the judge says of each what is wrong.
"""

from __future__ import annotations

import json
import random
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import pytest

from ldp_kafka.randomness import Ids
from ldp_kafka.records import Events, Tick
from ldp_kafka.runtime.stages.requests import is_request, read_request
from ldp_kafka.runtime.wire.codec import encode
from ldp_kafka.runtime.wire.records import encode_json
from tests.broker.chaos.crew import GO_ON, MUTANT
from tests.broker.cluster import Cluster
from tests.broker.crews import Crew
from tests.broker.flow import SLOT, START, Flow
from tests.broker.judge.logs import judge_all
from tests.broker.watching import until

TEXT = """
topology: {name}
kafka: {{bootstrap_servers: "{boot}"}}
input: {{partitions: {partitions}, format: json, slot: 60s, lateness: 0, hold: 5}}
privacy: {{method: {method}, {shape}, epsilon: 8.0, window: 4}}
output: {{statistics: [{statistics}]}}
edge: {{key_file: {key}}}
runtime: {{shards: 4, session_timeout: {session}}}
"""
USERS, PARTITIONS = 120, 2
CASES = {
    "none": None,
    "answers twice": "second reports",
    "commits before arrival": "requests missing in a partition",
    "decides anew": "different requests",
    "held values forgotten": "missing reports",
}
"""Of each mutant what the judge must say."""


def put(flow: Flow, slot: int) -> None:
    """Everybody's value of one slot, most of them the same, which closes the slot before it."""
    rnd = random.Random(slot)
    for partition in range(PARTITIONS):
        users = [f"u{at}" for at in range(partition, USERS, PARTITIONS)]
        values = [slot % 3 if rnd.random() < 0.8 else rnd.randrange(3) for _ in users]
        times = np.full(len(users), (START + slot) * SLOT)
        flow.put(partition, encode(Events(Ids.of(users), times, np.array(values))))
    flow.producer.flush(20)


def ask_again(flow: Flow) -> None:
    """Whoever writes the raw log asks for other amounts of the last slot that was asked for."""
    log = [m for m in flow.raw()[0] if is_request(m.value)]
    asked = next(r for r in map(read_request, (m.value for m in log[::-1])) if r.epsilon)
    for cost in (asked.epsilon // 3, asked.epsilon // 5, 1000):
        value = encode_json(replace(asked, epsilon=cost))
        flow.forged.add((None, value))
        for partition in range(PARTITIONS):
            flow.put(partition, value)
    flow.producer.flush(20)


def told(flow: Flow, topic: str) -> int:
    """The last slot that a topic tells of; -1 before any."""
    slots = (json.loads(m.value()).get("slot", -1) for m in flow.read(topic))
    return max(slots, default=-1)


@pytest.fixture(scope="module")
def found(can_start, tmp_path_factory):
    """What the judge says of each. Some rounds; requests of a slot that was answered; then nobody
    coordinates, and values are held when all workers leave; all are there again, the first request
    is in one partition when its forwarder is killed; some more rounds.
    """
    tmp, ends = tmp_path_factory.mktemp("mutants"), list[str]()
    flows: dict[str, Flow] = {}

    def make(at: int) -> Flow:
        name = f"mutant-{at}"
        made = {"method": "lbd", "shape": "categories: 3", "statistics": "frequencies"}
        return Flow(boot, tmp, name, partitions=PARTITIONS, text=TEXT, **made)

    with ExitStack() as stack:
        boot = stack.enter_context(Cluster(tmp / "kafka")).boot
        with ThreadPoolExecutor(len(CASES)) as pool:
            flows.update(zip(CASES, pool.map(make, range(len(CASES))), strict=True))
        every = list(flows.values())
        for flow in every:
            stack.callback(flow.close)
        mutants = {flow.topology.name: name for name, flow in flows.items()}
        crew = Crew(0, tmp, every, ends, **{MUTANT: json.dumps(mutants), GO_ON: "1"})
        stack.callback(crew.close)

        def rounds(slots: range, topic: str) -> None:
            """The topic tells of each slot before the next one comes."""
            for slot in slots:
                for flow in every:
                    put(flow, slot)
                for flow in every if slot else ():  # before the first one there is none
                    name = getattr(flow.topology, topic)
                    until(lambda f=flow, n=name, at=slot: told(f, n) >= START + at - 1)

        crew.start()
        rounds(range(5), "releases_topic")
        for flow in every:
            ask_again(flow)
        rounds(range(5, 6), "sums_topic")
        crew.leave()
        crew.start(away="coordinate")
        rounds(range(6, 9), "sums_topic")
        crew.leave()
        for flow in every:
            (tmp / f"between-{flow.topology.name}").touch()
        crew.start()
        until(lambda: not list(tmp.glob("between-*")))
        rounds(range(9, 12), "sums_topic")
        for flow in every:
            for partition in range(PARTITIONS):
                flow.put(partition, encode(Tick((START + 24) * SLOT)))
            flow.producer.flush(20)
        for flow in every:
            until(lambda f=flow: told(f, f.topology.releases_topic) >= START + 23)
        time.sleep(3)  # what is forwarded last leads to nothing
        crew.leave()
        assert not ends, ends
        yield dict(zip(flows, judge_all(every), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_a_mutant_is_found(found, name):
    """And without one nothing is said."""
    verdict, complaint = found[name], CASES[name]
    assert verdict.reports > 1000
    if complaint is None:
        assert not verdict.wrong, verdict
        assert verdict.published > 2, verdict
        return
    assert verdict.wrong[complaint] > 0, verdict
