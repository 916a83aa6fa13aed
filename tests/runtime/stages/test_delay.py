"""Windows at the edge: what they release is reported once, a report a slot, and released per user
as it was reported.
"""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import pytest

from ldp_kafka.methods.values import FIXED
from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.runtime.roles import make
from ldp_kafka.topology import loads, plan
from tests.fold.cases import HERE, KEY
from tests.runtime.shapes import WINDOWS
from tests.runtime.stages.pane_cases import (
    FIRST,
    SETTINGS,
    SLOTS,
    beside_the_method,
    wild_streams,
)
from tests.runtime.stages.test_settle import reports

TEXT = """
topology: delayed
input: {{slot: 1m, lateness: 1, partitions: 1, max_ahead: 1d, per_slot: {per_slot}}}
privacy:
  {{level: event, method: {method}, epsilon: 2.0, delay: 4, setting: {setting}, domain: [0, 10]}}
output: {{statistics: [per_user]}}
runtime: {{shards: 3}}
"""


@cache
def topology_of(method, setting, per_slot="first"):
    return loads(TEXT.format(method=method, setting=setting, per_slot=per_slot))


def stage_of(*args, **more):
    topology = topology_of(*args, **more)
    return make(topology, "perturb", 0, edge_randomness(topology, KEY, HERE))


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("method", WINDOWS)
def test_reports_are_the_releases_of_the_method(method, setting):
    topology = topology_of(method, setting)
    run, told, names = beside_the_method(topology)
    noise = edge_randomness(topology, KEY, HERE)
    wanted = {}
    for user, digest in enumerate(noise.digests(names)):
        for slot in np.flatnonzero(~np.isnan(told.values[:, user])).tolist():
            [name] = noise.report_ids(digest[None], np.array([FIRST + slot]), 0)
            wanted[name.tobytes().hex()] = FIRST + slot, told.values[slot, user]
    found = reports(run.reports[0])
    inside = {name: each for name, each in found.items() if FIRST <= each[0] < FIRST + SLOTS}
    assert inside.keys() == wanted.keys()
    for name, (slot, value) in wanted.items():
        assert inside[name][0] == slot
        assert inside[name][1] * 10 == pytest.approx(value, abs=10 / FIXED)
    releases = [json.loads(record.value) for record in run.releases]
    assert {each["statistic"] for each in releases} == {"per_user"}
    assert len(releases) == len(found) and len({each["user"] for each in releases}) == len(names)
    assert sorted(each["value"] for each in releases) == pytest.approx(
        sorted(10 * each[1] for each in found.values())
    )


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_fold_says_the_earliest_slot_that_it_reported(setting):
    stage = stage_of("naive", setting)
    state, told = stage.fresh(), 0
    for message in wild_streams(1):
        folded = stage.fold(state, [message])
        mine = [each for each in folded.records if each.topic == stage.reports_topic]
        slots = [said[0] for said in reports(mine).values()]
        assert folded.oldest == min(slots, default=None)
        told += bool(slots)
    assert told > 3


def test_a_plan_says_what_is_hidden_and_what_it_costs():
    topology = topology_of("segment_mean", "batch")
    lines = plan(topology, users=100).lines()
    [spends] = [line for line in lines if line.startswith("spending")]
    assert spends.endswith("epsilon 2 for the value of each slot of a stream")
    assert not [line for line in lines if line.startswith("trust")]
    error, none = [line for line in lines if line.startswith("error")]
    assert "per_user: one release is off by" in error
    assert "per_user: a release states none (mixed_slots)" in none
    assert topology.method.ledger.budget == 2_000_000
