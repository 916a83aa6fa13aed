"""The harness finds what it is there to find: each topology of one world is broken in another way,
the same faults happen to all of them, and the judge says of each what is wrong.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from operator import ge
from pathlib import Path

import numpy as np
import pytest

from ldp_kafka.randomness import Ids
from ldp_kafka.records import Events, Tick
from ldp_kafka.runtime.wire.codec import encode
from tests.broker.chaos.crew import GO_ON, MUTANT
from tests.broker.cluster import Cluster
from tests.broker.crews import Crew, cpu_features
from tests.broker.flow import SLOT, START, Flow, users_of
from tests.broker.judge.logs import judge_all

TEXT = """
topology: {name}
kafka: {{bootstrap_servers: "{boot}"}}
input: {{partitions: {partitions}, format: json, slot: 60s, lateness: 1, closing: events}}
privacy: {{method: {method}, {shape}, epsilon: 4.0, window: 3}}
output: {{statistics: [{statistics}]}}
edge: {{key_file: {key}}}
runtime:
  shards: 4
  report_rows: 14
  snapshot_messages: 100000
  snapshot_seconds: 3600
  session_timeout: {session}
"""
TEXT_OF_WINDOWS = TEXT.replace(
    "window: 3", "trust: curator, level: event, delay: 3, setting: sliding"
)
USERS = 30
CASES = {
    "none": ("capp", None),
    "fresh noise": ("capp", "second reports"),
    "floats in contexts": ("capp", "second reports"),
    "ledger over the window only": ("app", "users over budget"),
    "ledger over the window only, ipp": ("ipp", "users over budget"),
    "early commit": ("capp", "missing reports"),
    "no de-duplication": ("capp", "second reports"),
    "billing at arrival": ("capp", "perturb states"),
    "none, of crowds": ("capp", None),
    "bounds where a fold ends, of crowds": ("capp", "different batches"),
    "none, of windows": ("naive", None),
    "fresh noise, of windows": ("naive", "second releases"),
    "none, of windows kept": ("naive", None),
    "panes forgotten, of windows kept": ("naive", "missing releases"),
}
"""Of each mutant: a method, and what the judge must say."""
CROWDS = "of crowds"
"""Without releases per user: reports wait for bounds."""
WINDOWS = "of windows"
"""Of a curator; ``kept``: state is written before the first worker dies."""
SHAPE = {"app": "domain: [0.0, 100.0], block: 2"}  # by default it remembers nothing at this epsilon
TANH = (
    "import numpy as np, sys; sys.stdout.buffer.write(np.tanh(np.arange(4096, dtype=np.float32) /"
    " 4096).tobytes())"
)


def flow_of(boot: str, tmp: Path, topology: str, name: str, method: str) -> Flow:
    """The topology of a case."""
    text = TEXT_OF_WINDOWS if WINDOWS in name else TEXT
    if name.endswith("kept"):
        text = text.replace("snapshot_seconds: 3600", "snapshot_seconds: 0.5")
    return Flow(
        boot,
        tmp,
        topology,
        method=method,
        shape=SHAPE.get(method, "domain: [0.0, 100.0]"),
        statistics="per_stream"
        if WINDOWS in name
        else "mean"
        if name.endswith(CROWDS)
        else "mean, per_user",
        text=text,
    )


def put(flow: Flow, rnd: random.Random, slots: range) -> None:
    """Every user in every slot; one in five a slot late and within the lateness, one in five twice,
    with another value the second time.
    """
    held: list[list] = [[], []]
    for t in slots:
        for partition in (0, 1):
            mine = users_of(flow.topology, partition, USERS)
            rows = [(user, t, rnd.random()) for user in mine]
            late, held[partition] = (
                held[partition],
                [row for row in rows if row[0].endswith(("4", "5"))],
            )
            rows = [row for row in rows if row not in held[partition]]
            again = [(user, t, 1 - value) for user, t, value in rows if user.endswith(("2", "3"))]
            # What is new comes before what is late: on arrival it is the next slot already
            for part in (rows, again, late):
                if part:
                    times = np.array([(START + slot) * SLOT for _, slot, _ in part])
                    values = np.array([100 * value for _, _, value in part])
                    flow.put(
                        partition,
                        encode(Events(Ids.of([user for user, _, _ in part]), times, values)),
                    )
    flow.producer.flush(20)


def quiet(flows: dict[str, Flow], least: int, limit: float = 300.0) -> None:
    """Until every topology has written so many batches, or releases, and for three seconds none.

    A ledger that bills at arrival refuses all that some messages hold, and reports that wait are
    sent together: half as many of these.
    """
    wanted = [
        least // 2 if name == "billing at arrival" or name.endswith(CROWDS) else least
        for name in flows
    ]
    seen, since, end = [], time.time(), time.time() + limit
    while time.time() < end:
        now = [len(flow.read(flow.topology.answers_topic)) for flow in flows.values()]
        since = since if now == seen else time.time()
        seen = now
        if all(map(ge, now, wanted)) and time.time() - since > 3:
            return
        time.sleep(0.3)
    raise AssertionError(f"it was never quiet: {seen}")


@pytest.fixture(scope="module")
def found(can_start, tmp_path_factory):
    """What the judge says of each: all events in, folded and sent; SIGKILL before any state is
    written; the next owner has another CPU and folds them again, and some more; it leaves in order.
    """
    tmp, ends = tmp_path_factory.mktemp("mutants"), list[str]()
    flows: dict[str, Flow] = {}
    with ExitStack() as stack:
        boot = stack.enter_context(Cluster(tmp / "kafka")).boot
        with ThreadPoolExecutor(len(CASES)) as pool:  # most of it is waiting
            made = [
                pool.submit(flow_of, boot, tmp, f"mutant-{at}", name, method)
                for at, (name, (method, _)) in enumerate(CASES.items())
            ]
        flows.update((name, one.result()) for name, one in zip(CASES, made, strict=True))
        every = list(flows.values())
        for flow in every:
            stack.callback(flow.close)
        mutants = {flow.topology.name: name.partition(",")[0] for name, flow in flows.items()}
        crew = Crew(0, tmp, every, ends, **{MUTANT: json.dumps(mutants), GO_ON: "1"})
        stack.callback(crew.close)
        for flow in every:
            put(flow, random.Random(1), range(10))
        crew.start()
        quiet(flows, 40)
        crew.end()
        for flow in every:
            put(flow, random.Random(2), range(10, 14))
            for partition in (0, 1):
                flow.put(partition, encode(Tick((START + 20) * SLOT)))
            flow.producer.flush(20)
        crew.disabled = cpu_features()
        crew.start()
        quiet({name: flow for name, flow in flows.items() if name != "early commit"}, 90)
        crew.end(signal.SIGTERM)
        assert not ends, ends
        yield dict(zip(flows, judge_all(every), strict=True)), crew.said(10**9)


@pytest.mark.parametrize("name", CASES)
def test_a_mutant_is_found(found, name):
    """And without one nothing is said."""
    verdicts, log = found
    verdict, (_, complaint) = verdicts[name], CASES[name]
    assert (verdict.windows if WINDOWS in name else verdict.reports) > 300
    if complaint is None:
        assert not verdict.wrong, verdict
        return
    if name == "floats in contexts":
        need_another_cpu()
    assert verdict.wrong[complaint] > 0, verdict
    if name == "early commit":
        assert "was acknowledged, but the changelog holds no complete state" in log


def need_another_cpu() -> None:
    """Skip where numpy computes the same whatever it is told of the CPU."""
    features = " ".join(cpu_features())
    made = {
        subprocess.run(
            [sys.executable, "-c", TANH],
            capture_output=True,
            check=True,
            env={**os.environ, **more},
        ).stdout
        for more in ({}, {"NPY_DISABLE_CPU_FEATURES": features} if features else {})
    }
    if len(made) == 1:
        pytest.skip("numpy's tanh is the same with and without this CPU's features")
