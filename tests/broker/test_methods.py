"""Every method end to end on a real broker: what comes out is what `runtime.local` says, byte for
byte; workers are killed half way and restarted from their snapshots.
"""

from __future__ import annotations

import time

import pytest

from ldp_kafka.methods import METHODS
from ldp_kafka.methods.runnable import runnable
from ldp_kafka.runtime.replay.messages import messages
from ldp_kafka.runtime.replay.source import from_arrays
from tests.broker.flow import Flow
from tests.runtime.test_methods import (
    OWN,
    STREAMS,
    VARIANTS,
    W_EVENT,
    shape_of,
    streams_of,
    unbinned,
)

TEXT = """
topology: {name}
kafka: {{bootstrap_servers: "{boot}"}}
input: {{partitions: {partitions}, format: arrow, slot: 1h, lateness: 1,
  closing: events}}
privacy: {{method: {method}, {shape}, {budget}}}
output: {{statistics: [{statistics}]}}
edge: {{key_file: {key}}}
runtime: {{shards: 8, snapshot_seconds: 1, session_timeout: {session}}}
"""
START = 1_600_000_000_000 // 3_600_000 * 3_600_000
USERS, TOGETHER = 60, 11
ASKED = {
    "lpa": ("lpa", "categorical"),
    "lbd-mean": ("lbd", "numeric"),
    "lba": ("lba", "categorical"),
    "lpd-mean": ("lpd", "numeric"),
    "lpd": ("lpd", "categorical"),
    "lba-mean": ("lba", "numeric"),
    "lbu": ("lbu", "categorical"),
    "lsp-mean": ("lsp", "numeric"),
    "lpd-held": ("lpd", "numeric"),
    "lba-held": ("lba", "categorical"),
}
"""Protocols with a coordinator, by a name of ours: method and kind. The first six ask."""
HELD = {"lpd-held": "mean", "lba-held": "last"}
"""Those whose users answer with what a whole slot was, once it has closed."""
CURATED = {
    "segment_mean-batch": ("segment_mean", "batch", "first"),
    "discontin_group-sliding": ("discontin_group", "sliding", "mean"),
    "contin_group-batch": ("contin_group", "batch", "max"),
    "pegasus_delay-sliding": ("pegasus_delay", "sliding", "first"),
    "naive-sliding": ("naive", "sliding", "count"),
    "comp_order-batch": ("comp_order", "batch", "last"),
}
"""Topologies with a curator, by a name of ours: method, setting, and what a slot is made of."""
EDGES = {
    "segment_mean-edge": ("segment_mean", "sliding", "mean"),
    "buc_order-edge": ("buc_order", "batch", "sum"),
    "pegasus-edge": ("pegasus", "sliding", "first"),
}
"""The same where each user's edge releases windows."""
BASELINES = {
    "truncate-batch": ("truncate", "batch", "first"),
    "adapub-sliding": ("adapub", "sliding", "first"),
    "dpi-edge": ("dpi", "batch", "min"),
    "adapub-edge": ("adapub", "sliding", "count"),
}
"""More of both, in the long run."""
WINDOWS = {**CURATED, **EDGES, **BASELINES}
TRUNCATED = {"comp_order-batch"}
SHAPES = {"categorical": "categories: 3", "numeric": "domain: [10, 30]"}
NAMES = [*STREAMS, *VARIANTS]
GROUPS = [NAMES[at : at + TOGETHER] for at in range(0, len(NAMES), TOGETHER)]


def flow_of(boot, tmp_path, prefix, name, **more):
    """Of a method, or of one of `VARIANTS`, `ASKED` or `WINDOWS`."""
    if name in WINDOWS:
        method, setting, per_slot = WINDOWS[name]
        at_edge = name.endswith("-edge")
        return Flow(
            boot,
            tmp_path,
            f"{prefix}-{name}",
            method=method,
            shape=f"trust: {'edge' if at_edge else 'curator'}, level: event, delay: 4,"
            f" setting: {setting}, domain: [10, 30]"
            + ", truncation: {interval: 1}"
            * (name in TRUNCATED),
            statistics="per_user" if at_edge else "per_stream",
            text=TEXT.replace("lateness: 1", f"lateness: 1, per_slot: {per_slot}"),
            budget="epsilon: 4.0",
            **more,
        )
    method, budget = VARIANTS.get(name, (name, OWN.get(name, W_EVENT)))
    method, kind = ASKED.get(name, (method, None))
    of_kind = runnable(method, kind) if kind else METHODS[method]
    return Flow(
        boot,
        tmp_path,
        f"{prefix}-{name}",
        method=method,
        shape=SHAPES[kind] if kind else shape_of(method),
        # a coordinator decides by the one that it releases
        statistics=", ".join(unbinned(of_kind)[: 1 if kind else None]),
        text=TEXT.replace("lateness: 1", f"lateness: 1, per_slot: {HELD.get(name, 'first')}"),
        budget=budget,
        **more,
    )


def run(boot, tmp_path, prefix, methods, **more):
    """Several topologies at a time, so that none waits for another's brokers."""
    flows = [flow_of(boot, tmp_path, prefix, method, **more) for method in methods]
    try:
        logs = [
            list(
                messages(
                    flow.topology,
                    from_arrays(flow.topology, streams_of(flow.topology, USERS), START),
                    16,
                )
            )
            for flow in flows
        ]
        for flow in flows:
            flow.start("perturb")
            flow.start("collect")
        for flow, log in zip(flows, logs, strict=True):
            for raw in log[: len(log) // 2]:
                flow.put(raw.partition, raw.value)
            flow.producer.flush(30)
        time.sleep(4)  # into a snapshot or two
        for flow, log in zip(flows, logs, strict=True):
            flow.kill(0)
            for raw in log[len(log) // 2 :]:
                flow.put(raw.partition, raw.value)
            flow.producer.flush(30)
            flow.start("perturb")
        for flow in flows:
            verdict = flow.settled(90)
            assert verdict.clean, (flow.topology.privacy.method, verdict)
            assert verdict.reports > USERS, flow.topology.privacy.method
    finally:
        for flow in flows:
            flow.close()


@pytest.mark.long  # test_chaos.py has every method too, on every run
@pytest.mark.parametrize("methods", GROUPS, ids="-".join)
def test_methods_on_kafka(kafka, tmp_path, prefix, methods):
    run(kafka, tmp_path, prefix, methods)
