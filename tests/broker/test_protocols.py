"""The protocols of LDP-IDS on a real broker, two workers a role: the same decisions and releases,
slot by slot, as `ldp_kafka.protocol(...).run` makes of the same streams, however late events may
come.
"""

from __future__ import annotations

import json
import time
from contextlib import ExitStack

import numpy as np
import pytest

from ldp_kafka.runtime import local
from ldp_kafka.runtime.kafka.decisions import decided
from ldp_kafka.runtime.kafka.setup import client_config
from ldp_kafka.runtime.replay.messages import as_log, messages
from ldp_kafka.runtime.replay.send import send
from ldp_kafka.runtime.replay.source import from_arrays
from ldp_kafka.runtime.wire.reports import read_reports
from tests.broker.flow import Flow
from tests.broker.traces import compared, jumping, releases
from tests.rounds import numbers

TEXT = """
topology: {name}
kafka: {{bootstrap_servers: "{boot}"}}
input: {{partitions: {partitions}, format: arrow, slot: 1m, lateness: {lateness}, hold: 3,
  partitioning: murmur2}}
privacy: {{method: {method}, {shape}, epsilon: 2.0, window: 4}}
output: {output}
edge: {{key_file: {key}}}
runtime: {{shards: 8, snapshot_seconds: 1, session_timeout: {session}}}
"""
SLOT = 60_000
FIRST = 1_600_000_000_000 // SLOT // 4 * 4  # lsp reports in slots that its window divides
USERS, SLOTS, CATEGORIES = 20_000, 10, 3
SEVEN = ("lbu", "lsp", "lbd", "lba", "lpu", "lpd", "lpa")


def streams(seed, bins=None):
    """(USERS, SLOTS) categories whose shares jump every three slots; with bins numbers."""
    rng = np.random.default_rng(seed)
    table = jumping(rng, USERS, SLOTS, CATEGORIES)
    return table if bins is None else 3.0 * table + rng.random(table.shape)


def flow_of(boot, tmp_path, prefix, method, lateness, bins, switches):
    shape = f"categories: {CATEGORIES}"
    output = {"statistics": ["frequencies"], "postprocess": switches}
    if bins is not None:
        shape = "domain: [0, 10], mechanism: square_wave"
        output = {"statistics": ["distribution"], "bins": bins}
    return Flow(
        boot,
        tmp_path,
        f"{prefix}-{method}-{lateness}-{bins}-{len(switches)}",
        method=method,
        shape=shape,
        text=TEXT,
        lateness=lateness,
        output=json.dumps(output),
    )


def waited(flow, seconds=120):
    until = time.time() + seconds
    while len(found := releases(flow)) < SLOTS and time.time() < until:
        time.sleep(0.5)
    return found[:SLOTS]


PROCESSED = {"norm_sub": True, "merge": True, "smooth": "exponential"}
CASES = {
    **{f"{name}-{late}": (name, late, None, {}) for name in SEVEN for late in (0, 2)},
    "lpa-0-processed": ("lpa", 0, None, PROCESSED),
    "lpu-0-processed": ("lpu", 0, None, {"norm_sub": True, "smooth": "kalman"}),
    "lpd-0-bins": ("lpd", 0, 8, {}),
}


@pytest.mark.parametrize(("method", "lateness", "bins", "switches"), CASES.values(), ids=CASES)
def test_the_same_decisions_on_kafka(kafka, tmp_path, prefix, method, lateness, bins, switches):
    flow = flow_of(kafka, tmp_path, prefix, method, lateness, bins, switches)
    values = streams(SEVEN.index(method), bins)
    with ExitStack() as stack:
        stack.callback(flow.close)
        for role in [role.name for role in flow.topology.roles] * 2:
            flow.start(role)
        made = flow.topology
        config = client_config(made, "edge")
        paced = stack.enter_context(decided(made, config)) if made.flow.requests else None
        source = from_arrays(made, values, FIRST * SLOT)
        send(made, config, messages(made, source, 2048), decided=paced)
        same(flow, values)


def same(flow, values):
    """What was released is what the protocol makes of the streams."""
    made, found = flow.topology, waited(flow)
    source = from_arrays(made, values, FIRST * SLOT)
    trace, counted = compared(flow, found, source, values, FIRST)
    errors = numbers([release["standard_error"] for release in found], trace.standard_error)
    np.testing.assert_allclose(errors, trace.standard_error, rtol=1e-13)
    run = local.run(made, flow.noise(), as_log(made, messages(made, source, 2048)))
    batches = [read_reports(record.value) for part in run.reports for record in part]
    assert counted == {(one.id, one.phase): one for each in batches for one in each.singles()}
