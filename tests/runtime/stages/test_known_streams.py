"""A curator whose streams are known: no other name is released, and a slot without an event is 0
where values are added up, so that neither shows who was there.
"""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from ldp_kafka.records import Tick
from ldp_kafka.runtime import local
from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.runtime.partitioning import partitions_of
from ldp_kafka.runtime.wire.records import encode_json
from tests.fold.cases import HERE, KEY, SLOT, START, batch, log
from tests.runtime.shapes import WINDOWS
from tests.runtime.stages.pane_cases import (
    FIRST,
    SETTINGS,
    SLOTS,
    curated,
    curator,
    released,
    told_of,
)

NAMES = [f"s{stream}" for stream in range(6)]
BEGIN = "2025-10-09T08:54:00Z"
KNOWN = "partitions: {}, partitioning: murmur2, closing: events, streams: [{}]"


def topology_of(
    method="naive", setting="sliding", per_slot="sum", *, partitions=1, start=BEGIN, **more
):
    known = KNOWN.format(partitions, ", ".join(NAMES))
    if per_slot in ("sum", "count"):
        known += f', start: "{start}"'
    return curated(method, setting, per_slot, known, **more)


def stage_of(*args, partition=0, **more):
    return curator(topology_of(*args, **more), partition)


def values_of(stage, *messages):
    """What is released of messages."""
    found = released(stage, stage.fold(stage.fresh(), log(messages)).records)
    return {name: value for name, (value, _) in found.items()}


def test_its_start_is_the_first_slot():
    assert topology_of().input.before_start == FIRST - 1


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("method", WINDOWS)
def test_a_slot_without_an_event_is_zero(method, setting):
    """What is released is what the method says of streams that are 0 there: the mean of a segment
    of four slots, of which one has an 8, is that of 8, 0, 0 and 0.
    """
    topology = topology_of(method, setting)
    rng = np.random.default_rng(3)
    values = rng.uniform(0, 10, (6, SLOTS)).round(3)
    there = rng.random((6, SLOTS)) < 0.3
    there[5] = False  # a stream without any event
    rows = [
        (f"s{stream}", START + slot * SLOT + stream, values[stream, slot])
        for slot in range(SLOTS)
        for stream in range(6)
        if there[stream, slot]
    ]
    end = encode_json(Tick(START + (SLOTS + 10) * SLOT))
    noise = edge_randomness(topology, KEY, HERE)
    run = local.run(topology, noise, [log([*(batch([row]) for row in rows), end])], together=7)
    zeros = np.pad(np.where(there, values, 0.0), ((0, 0), (0, 8)))
    told = told_of(topology, zeros, np.ones_like(zeros, np.bool_), noise, NAMES).values
    found = released(curator(topology), run.releases)
    # a segment in which the start lies is released as a whole
    inside = {name: each for name, each in found.items() if FIRST <= name[1] < FIRST + SLOTS}
    assert len(inside) == 6 * SLOTS and min(slot for _, slot in found) > FIRST - 4
    for (stream, slot), (value, _) in inside.items():
        wanted = told[slot - FIRST, NAMES.index(stream)]
        assert value == pytest.approx(wanted, rel=1e-12, abs=1e-12), (stream, slot)


@pytest.mark.parametrize("per_slot", ["sum", "count"])
@pytest.mark.parametrize("setting", SETTINGS)
def test_the_only_customer_of_a_slot_changes_no_slot_that_is_released(setting, per_slot):
    stage, others = stage_of("segment_mean", setting, per_slot), []
    for rows in ([("s0", START + 5 * SLOT, 1.0)], []):
        more = [("s1", START + at * SLOT, 1.0) for at in range(15)]
        messages = [batch([row]) for row in sorted(rows + more, key=lambda row: row[1])]
        others.append(values_of(stage, *messages))
    assert others[0].keys() == others[1].keys()
    assert {stream for stream, _ in others[0]} == set(NAMES)
    moved = {name for name in others[0] if others[0][name] != others[1][name]}
    assert moved and {stream for stream, _ in moved} == {"s0"}


def test_an_empty_slot_counts_in_the_mean_of_its_segment():
    """8, 0, 0 and 0 are 2 on average, at a noise of a standard error of 0.07."""
    method = "segment_mean, smooth: false, segment: 4"
    stage = stage_of(method, "batch", lateness=0, epsilon=50.0)
    first = -(-FIRST // 4) * 4
    rows = [("s0", START + (first - FIRST) * SLOT, 8.0)]
    end = encode_json(Tick(START + (first - FIRST + 4) * SLOT))
    found = values_of(stage, batch(rows), end)
    for slot in range(first, first + 4):
        assert found["s0", slot] == pytest.approx(2.0, abs=1)


def test_what_is_before_the_start_is_late():
    stage = stage_of(lateness=1)
    rows = [("s0", START - 1, 3.0), ("s0", START, 3.0)]
    output = stage.fold(stage.fresh(), log([batch(rows)]))
    assert (output.counts["late"], output.counts["events"]) == (1, 2)


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_batch_in_which_the_start_lies_is_released_from_there_on(setting):
    begin = START + 6 * SLOT
    stage = stage_of("naive", setting, start="2025-10-09T09:00:00Z")
    assert stage.before_start == begin // SLOT - 1
    end = encode_json(Tick(begin + 20 * SLOT))
    found = values_of(stage, end)
    assert min(slot for _, slot in found) == begin // SLOT
    assert len({slot for _, slot in found}) >= 12


@pytest.mark.parametrize("per_slot", ["sum", "count", "last"])
def test_a_mistyped_stream_is_a_dead_letter(per_slot):
    """And closes nothing."""
    stage = stage_of(per_slot=per_slot)
    state = stage.fresh()
    rows = [("s0", START, 3.0), ("S0", START + 20 * SLOT, 3.0), ("s1", START, 3.0)]
    output = stage.fold(state, log([batch(rows)]))
    [letter] = [json.loads(each.value) for each in output.records]
    assert (letter["row"], letter["reason"]) == (1, "stream")
    assert output.counts["events"] == 2 and state.watermark == START
    end = encode_json(Tick(START + 20 * SLOT))
    found = released(stage, stage.fold(state, log([end], 2)).records)
    assert {stream for stream, _ in found} == ({"s0", "s1"} if per_slot == "last" else set(NAMES))


def test_a_stream_is_zero_in_its_own_partition_alone():
    streams = {}
    for partition in range(3):
        stage = stage_of(partitions=3, partition=partition)
        end = encode_json(Tick(START + 20 * SLOT))
        found = values_of(stage, end)
        streams[partition] = sorted({stream for stream, _ in found})
    home = partitions_of(NAMES, 3).tolist()
    assert streams == {
        at: [name for name, where in zip(NAMES, home, strict=True) if where == at]
        for at in range(3)
    }


def test_a_state_that_no_event_has_reached_is_sound():
    stage = stage_of("segment_mean")
    state = stage.fresh()
    stage.fold(state, log([encode_json(Tick(START + 20 * SLOT))]))
    meta, shards = stage.meta(state), stage.dump(state, stage.shards_of(state))
    good = stage.look(meta, shards)
    assert good.problems == [] and good.users == len(NAMES)
    assert "s0" not in repr(state) and "s0" not in repr(replace(stage, lateness=2))
