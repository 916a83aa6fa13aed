"""Every mechanism through the pure stages: events in, releases out, the truth inside the error
bars.
"""

from __future__ import annotations

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.errors import TopologyError
from ldp_kafka.randomness import Ids
from ldp_kafka.records import Events, Tick
from ldp_kafka.runtime import local, roles
from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.wire.codec import encode
from ldp_kafka.runtime.wire.reports import read_reports
from ldp_kafka.topology import loads, plan
from ldp_kafka.topology.sections import pure

TEXT = """
topology: {name}
kafka: {{bootstrap_servers: "127.0.0.1:1"}}
input: {{slot: 1s, lateness: 0, partitions: 2, format: arrow}}
privacy: {{method: {method}, mechanism: {mechanism}, epsilon: 4.0, window: 2, {shape}}}
output: {{statistics: [{statistic}]}}
"""
USERS, SLOTS, START = 3000, 4, 1_700_000_000
NUMBERS = ("duchi", "hybrid", "laplace", "piecewise", "square_wave")


def released(mechanism):
    """(releases, truth (slots, ...), report batches, topology)."""
    numeric = mechanism in NUMBERS
    kind = (
        {"method": "sw_direct", "shape": "domain: [10, 30]", "statistic": "mean"}
        if numeric
        else {"method": "lpu", "shape": "categories: 10", "statistic": "frequencies"}
    )
    topology = loads(TEXT.format(name=f"t-{mechanism}", mechanism=mechanism, **kind), "t.yaml")
    rng = np.random.default_rng(3)
    values = (
        10 + 20 * rng.beta(2, 5, (SLOTS, USERS))
        if numeric
        else rng.choice(10, (SLOTS, USERS), p=np.arange(10) / 45)
    )
    logs = [[], []]
    for slot, row in enumerate(values):
        for partition in (0, 1):
            mine = row[partition::2]
            users = Ids.of([f"u{at}" for at in range(partition, USERS, 2)])
            events = Events(users, np.full(len(mine), 1000 * (START + slot)), mine)
            for message in (encode(events), encode(Tick(1000 * (START + slot + 1)))):
                logs[partition].append(Message(len(logs[partition]), -1, message))
    run = local.run(topology, edge_randomness(topology, bytes(range(32)), "here"), logs)
    truth = (
        values.mean(axis=1)
        if numeric
        else np.array([np.bincount(row, minlength=10) for row in values]) / USERS
    )
    batches = [read_reports(record.value) for partition in run.reports for record in partition]
    return (
        [lk.decode(record.value)[0] for record in run.releases],
        truth,
        [batch for batch in batches if batch is not None and len(batch)],
        topology,
    )


@pytest.mark.parametrize("mechanism", pure())
def test_a_topology_over_every_mechanism(mechanism):
    releases, truth, batches, topology = released(mechanism)
    assert [release.slot for release in releases] == list(range(START, START + SLOTS))
    for release, true in zip(releases, truth, strict=True):
        z = (np.array(release.value) - true) / np.array(release.standard_error)
        assert np.abs(z).max() < 6.5
    width = topology.method.mechanism.width
    assert all(batch.values.shape[1:] == ((width,) if width else ()) for batch in batches)
    assert sum(map(len, batches)) == sum(release.reports for release in releases)
    predicted = plan(topology, users=USERS).predictions[0].error
    stated = max(np.max(release.standard_error) for release in releases)
    # plan's is the worst input's; lpu adds sampling
    assert 0.5 < stated / predicted < 1.6, (stated, predicted)


@pytest.mark.parametrize("mechanism", ["gaussian", "gaussian_vector"])
def test_a_delta_is_not_spent_by_a_ledger_of_epsilon(mechanism):
    with pytest.raises(TopologyError, match=r"privacy\.mechanism"):
        loads(
            TEXT.format(
                name="t",
                mechanism=mechanism,
                method="sw_direct",
                shape="domain: [0, 1]",
                statistic="mean",
            ),
            "t.yaml",
        )


def written(stage, state):
    """All of a state, as a snapshot has it."""
    shards = stage.shards_of(state)
    return stage.meta(state), shards, stage.dump(state, shards)


def test_bits_that_no_report_has_are_dead_letters():
    """A stranger's bits beyond the last category, or of another width, are not counted."""
    _, _, batches, topology = released("oue")
    stage = roles.make(topology, "collect", 0)
    good = batches[0]
    for values, reason in [
        (good.values | np.uint8(1), "range"),
        (np.hstack([good.values, good.values]), "wrong_fields"),
        (good.values[:, 0].astype(np.int64), "wrong_fields"),
    ]:
        state = stage.fresh()
        batch = type(good)(good.ids, good.slots, values, 1, good.fingerprint, 0, None)
        folded = stage.fold(state, [Message(0, -1, encode(batch))])
        assert folded.counts[f"dead_letters:{reason}"] == 1
        assert folded.counts["reports"] == 0
        assert written(stage, state) == written(stage, stage.fresh())
