"""The curator's fold: what it releases is what the method says of the same streams, each slot once,
by event time, whatever the cuts and crashes.
"""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from ldp_kafka.records import Tick
from ldp_kafka.runtime import local
from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.runtime.partitioning import partitions_of
from ldp_kafka.runtime.stages.panes import Panes
from ldp_kafka.runtime.wire.records import encode_json
from ldp_kafka.topology import loads
from tests.cases import cases
from tests.fold.cases import HERE, KEY, SLOT, START, batch, log
from tests.runtime.shapes import WINDOWS
from tests.runtime.stages.pane_cases import (
    FIRST,
    SETTINGS,
    SLOTS,
    beside_the_method,
    curated,
    curator,
    released,
    wild_streams,
)

OTHER = bytes(32)  # another key


def stage_of(*args, **more):
    return curator(curated(*args, **more))


HOMES = """
topology: shops
input: {slot: 1m, lateness: 0, partitions: 4, max_ahead: 1d, per_slot: sum}
privacy: {trust: curator, level: event, method: naive, epsilon: 8.0, delay: 1, domain: [0, 1000]}
output: {statistics: [per_stream]}
"""


def test_a_stream_is_released_by_its_own_partition_alone():
    """A topic that is keyed by till: each shop's sales lie in all four partitions, and each would
    release a part of them under the same key. What lies elsewhere is a dead letter.
    """
    topology = loads(HOMES)
    shops = [f"shop-{at}" for at in range(6)]
    homes = partitions_of(shops, 4).tolist()
    rows = [(shop, START + slot * SLOT, 100.0) for slot in range(5) for shop in shops]
    tick = encode_json(Tick(START + 9 * SLOT))

    def run(values):
        of = edge_randomness(topology, KEY, HERE)
        return local.run(topology, of, [log([*each, tick]) for each in values])

    scattered = run([[batch([row]) for row in rows] for _ in range(4)])
    right = run(
        [[batch([row]) for row in rows if homes[shops.index(row[0])] == at] for at in range(4)]
    )
    keys = [record.key for record in scattered.releases]
    assert (len(keys), len(set(keys))) == (30, 30)
    assert [each.value for each in scattered.releases] == [each.value for each in right.releases]
    reasons = [json.loads(each.value)["reason"] for each in scattered.dead_letters]
    assert reasons == ["partition"] * (3 * 30)


@cases(("method", "setting"), [("matrix", ""), *product(WINDOWS, SETTINGS)])
def test_releases_are_those_of_the_method(method, setting):
    run, told, streams = beside_the_method(curated(method, setting))
    wanted = {
        (stream, FIRST + slot): (told.values[slot, at], told.standard_error[slot, at])
        for at, stream in enumerate(streams)
        for slot in range(SLOTS)
        if not np.isnan(told.values[slot, at])
    }
    found = released(stage_of(method, setting), run.releases)
    # a segment that begins before the first value, or ends behind the last, is released as a whole
    inside = {name: each for name, each in found.items() if FIRST <= name[1] < FIRST + SLOTS}
    assert inside.keys() == wanted.keys()
    assert all(-4 < slot - FIRST < SLOTS + 4 for _, slot in found)
    for name, (value, error) in wanted.items():
        assert inside[name][0] == pytest.approx(value, rel=1e-14)
        assert inside[name][1] == (None if np.isnan(error) else pytest.approx(error, rel=1e-14))
    assert run.counts["windows"] > 0 and run.counts["releases"] == len(found)


@pytest.mark.parametrize("setting", SETTINGS)
def test_every_window_closes_once_in_time(setting):
    """By event time: with the message that closes its last slot, at most ``delay`` slots after a
    value's own, and never twice.
    """
    stage, delay, lateness = stage_of("naive", setting), 4, 1
    state, seen = stage.fresh(), {}
    latest = -1
    for message in wild_streams(3):
        before = latest
        events = stage.raw.reader.read(message.value)
        times = [] if events.events is None else events.events.times.tolist()
        times += [] if events.tick is None else [events.tick]
        latest = max([latest, *times])
        for record in stage.fold(state, [message]).records:
            if record.topic != stage.releases.topic:
                continue
            release = json.loads(record.value)
            slot, name = release["slot"], (release["user"], release["slot"])
            assert name not in seen
            seen[name] = release
            due = (slot // delay + 1) * delay - 1 if setting == "batch" else slot + delay
            closes = (due + lateness + 1) * SLOT
            assert before < closes <= latest
    assert len(seen) > 50


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("method", ["naive", "segment_mean"])
def test_a_fold_says_the_earliest_slot_that_it_released(method, setting):
    """Which is how late its windows are: in a batch the first of its slots that has a release."""
    stage, found = stage_of(method, setting), []
    for seed in range(4):
        messages, state = wild_streams(seed), stage.fresh()
        for at in range(0, len(messages), 3):
            folded = stage.fold(state, messages[at : at + 3])
            topic = stage.releases.topic
            slots = [json.loads(each.value)["slot"] for each in folded.records if each[0] == topic]
            assert folded.oldest == min(slots, default=None)
            found.append(len(slots))
    assert 0 in found and max(found) > 1


def test_what_is_late_is_left_out():
    stage = stage_of("naive", "sliding")
    state = stage.fresh()
    counts = {}
    for value in (
        batch([("a", START, 1.0)]),
        batch([("a", START + 3 * SLOT, 2.0)]),  # closes slot 1
        batch([("a", START + SLOT, 3.0), ("a", START + 2 * SLOT, 4.0), ("a", START, 5.0)]),
    ):
        for name, count in stage.fold(state, log([value], 1 + len(counts))).counts.items():
            counts[name] = counts.get(name, 0) + count
    assert counts["late"] == 2 and counts["events"] == 5


def test_values_are_clamped_when_their_slot_closes():
    stage = stage_of("naive", "batch", "sum")
    state = stage.fresh()
    rows = [("a", START + at, 4.0) for at in range(3)] + [("b", START, 1.0)]
    end = encode_json(Tick(START + 20 * SLOT))
    output = stage.fold(state, log([batch(rows), end]))
    assert output.counts["clamped"] == 1  # twelve, of ten
    assert output.counts["duplicates"] == 0 and output.counts["events"] == 4
    assert len(output.records) == 2


def test_a_reader_of_the_state_sees_what_is_wrong():
    stage = stage_of("segment_mean", "sliding")
    state = stage.fresh()
    stage.fold(state, wild_streams(1)[:40])
    meta, shards = stage.meta(state), stage.dump(state, stage.shards_of(state))
    good = stage.look(meta, shards)
    assert good.problems == [] and good.users == 6 and good.slots
    keyless = replace(stage, randomness=edge_randomness(curated("naive", "batch"), OTHER, ""))
    assert keyless.look(meta, shards) == good, "whoever looks need not have the key"
    [pane, *_] = [name for name in shards if "." in name]
    for name, payload in (
        (pane, b"?"),
        ("0", b"?"),
        ("names-0", b"?"),
    ):
        assert [rule for rule, _ in stage.look(meta, {**shards, name: payload}).problems] == [
            "readable"
        ]
    moved = {**shards, "names-0": shards["names-1"]}
    assert [rule for rule, _ in stage.look(meta, moved).problems] == ["shards"]
    closed = stage.look({**meta, "closed": 2**40}, shards)
    assert [rule for rule, _ in closed.problems] == ["shards"]


@pytest.mark.parametrize("setting", SETTINGS)
def test_the_greatest_time_of_messages_is_what_a_fold_of_them_comes_to(setting):
    """What a rotation of the key begins behind."""
    stage = stage_of("naive", setting)
    for seed in range(4):
        messages, state = wild_streams(seed), stage.fresh()
        for cut in (1, 7, len(messages) // 2):
            stage.fold(state, messages[:cut])
            assert stage.latest(messages[:cut]) == state.watermark
            state = stage.fresh()


def test_nothing_shows_a_value():
    stage = stage_of("naive", "sliding")
    state = stage.fresh()
    stage.fold(state, log([batch([("a", START, 7.25)])]))
    for each in (state, state.panes, state.names, replace(stage, lateness=2)):
        assert "7.25" not in repr(each) and "'a'" not in repr(each)
    assert isinstance(state.panes, Panes)
