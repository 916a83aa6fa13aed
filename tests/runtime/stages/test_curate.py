"""The curator's fold: what it releases is what the method says of the same streams, each slot once,
by event time, whatever the cuts and crashes.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from random import Random

import numpy as np
import pytest

from ldp_kafka.methods.windowed import WINDOWED
from ldp_kafka.records import Tick
from ldp_kafka.runtime import local
from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.stages.curate import Curate, make_curate
from ldp_kafka.runtime.stages.panes import Panes
from ldp_kafka.runtime.wire.records import encode_json
from ldp_kafka.topology import loads
from tests.depth import depth
from tests.fold.cases import HERE, KEY, SLOT, START, batch, log
from tests.fold.epochs import Shelf, folded, opened, saved
from tests.runtime.stages.crashes import of_kind

TEXT = """
topology: windows
input: {{slot: 1m, lateness: {lateness}, partitions: 1, max_ahead: 1d, per_slot: {per_slot}}}
privacy:
  {{trust: curator, level: event, method: {method}, epsilon: 2.0, delay: {delay},
   setting: {setting}, domain: [0, 10]}}
output: {{statistics: [per_stream]}}
runtime: {{shards: 3}}
"""
FIRST = START // SLOT
OTHER = bytes(32)  # another key
SETTINGS = ("batch", "sliding")


@cache
def topology_of(method, setting, per_slot="first", delay=4, lateness=1):
    return loads(
        TEXT.format(
            method=method, setting=setting, per_slot=per_slot, delay=delay, lateness=lateness
        )
    )


def stage_of(*args, **more):
    topology = topology_of(*args, **more)
    return make_curate(topology, 0, edge_randomness(topology, KEY, HERE))


def released(records):
    """{(stream, slot): (value, standard error)}, each once."""
    found = {}
    for record in records:
        release = json.loads(record.value)
        name = release["user"], release["slot"]
        assert name not in found
        assert record.key.decode() == f"per_stream/{name[1]}/{name[0]}"
        found[name] = release["value"], release["standard_error"]
    return found


def table(seed, streams=5, slots=23):
    """Values (streams, slots) and which there are."""
    rng = np.random.default_rng(seed)
    return rng.uniform(-1, 11, (streams, slots)).round(3), rng.random((streams, slots)) < 0.8


def wild(seed, slots=23, streams=6):
    """A log with late, early and repeated values, bad rows, and silence that closes much at
    once.
    """
    random, values = Random(seed), []
    for slot in range(slots):
        if slot in (9, 10, 11):
            continue
        rows = [
            (
                f"s{stream}",
                START + max(0, slot - random.choice((0, 0, 0, 1, 1, 4))) * SLOT + at,
                random.uniform(-1, 11),
            )
            for stream in range(streams)
            for at in range(random.choice((0, 1, 1, 2)))
        ]
        random.shuffle(rows)
        while rows:
            size = random.randint(1, 4)
            values.append(batch(rows[:size]))
            rows = rows[size:]
        if random.random() < 0.3:
            values.append(random.choice((b"{", encode_json(Tick(START + slot * SLOT)))))
    return log([*values, encode_json(Tick(START + (slots + 20) * SLOT))])


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("method", WINDOWED)
def test_releases_are_those_of_the_method(method, setting):
    topology = topology_of(method, setting)
    values, there = table(3)
    rows = [
        (f"s{stream}", START + slot * SLOT + stream, values[stream, slot])
        for slot in range(values.shape[1])
        for stream in range(len(values))
        if there[stream, slot]
    ]
    messages = [batch(rows[at : at + 3]) for at in range(0, len(rows), 3)]
    end = encode_json(Tick(START + (values.shape[1] + 10) * SLOT))
    noise = edge_randomness(topology, KEY, HERE)
    run = local.run(topology, noise, [log([*messages, end])], together=7)
    streams = [f"s{stream}" for stream in range(len(values))]
    told = topology.windowed.trace(values, noise, present=there, users=streams, first_slot=FIRST)
    wanted = {
        (stream, FIRST + slot): (told.values[slot, at], told.standard_error[slot, at])
        for at, stream in enumerate(streams)
        for slot in range(values.shape[1])
        if not np.isnan(told.values[slot, at])
    }
    found = released(run.releases)
    # a segment that begins before the first value, or ends behind the last, is released as a whole
    inside = {
        name: each for name, each in found.items() if FIRST <= name[1] < FIRST + values.shape[1]
    }
    assert inside.keys() == wanted.keys()
    assert all(-4 < slot - FIRST < values.shape[1] + 4 for _, slot in found)
    for name, (value, error) in wanted.items():
        assert inside[name][0] == pytest.approx(value, rel=1e-14)
        assert inside[name][1] == (None if np.isnan(error) else pytest.approx(error, rel=1e-14))
    assert run.counts["windows"] > 0 and run.counts["releases"] == len(found)


@pytest.mark.parametrize("per_slot", ["first", "mean", "count"])
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("method", ["segment_mean", "discontin_group", "naive"])
def test_the_same_records_in_whatever_runs(method, setting, per_slot):
    stage = stage_of(method, setting, per_slot)
    for seed in range(4):
        messages, random = wild(seed), Random(seed)
        alone = [
            record
            for state in [stage.fresh()]
            for message in messages
            for record in stage.fold(state, [message]).records
        ]
        state, together, at = stage.fresh(), [], 0
        while at < len(messages):
            size = random.randint(1, 30)
            together += stage.fold(state, messages[at : at + size]).records
            at += size
        releases = [
            [each for each in some if each.topic == stage.releases.topic]
            for some in (alone, together)
        ]
        assert releases[0] == releases[1] and len(releases[0]) > 40
        assert sorted(alone) == sorted(together)


def crashed(stage, seed):
    """{key: all values that were ever released under it} over owners that end at random: after a
    snapshot, and some records of one more, without its ``meta``. What a record that is ahead has
    stepped was released before it was written, and is not again. And the log.
    """
    random, messages = Random(seed), numbered(wild(seed % 7))
    table, out, want = {}, {}, 0
    for cut in [*sorted(random.sample(range(1, len(messages)), 4)), len(messages)]:
        epoch = opened(stage, 1, want=want, committed=want > 0, shelf=Shelf(table))
        more = random.randint(0, 12)
        for message in messages[epoch.next_offset : cut + more]:
            for record in folded(epoch, [message]):
                if record.topic == stage.releases.topic:
                    out.setdefault(record.key, set()).add(record.value)
            if message.offset == cut - 1:
                table = saved(epoch)
                want = cut
        shards = epoch.snapshot().shards  # and then the end: no meta
        table |= {key: shards[key] for key in sorted(shards) if random.random() < 0.5}
    return out, messages


def numbered(messages):
    """From offset 0."""
    return [Message(at, each.timestamp, each.value) for at, each in enumerate(messages)]


def straight(stage, messages):
    """The same of one owner."""
    state = stage.fresh()
    return {
        record.key: {record.value}
        for message in messages
        for record in stage.fold(state, [message]).records
        if record.topic == stage.releases.topic
    }


@pytest.mark.parametrize("per_slot", ["first", "mean"])
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("method", ["segment_mean", "contin_group"])
def test_crashes_between_any_two_records_of_a_snapshot(method, setting, per_slot):
    stage = stage_of(method, setting, per_slot)
    for seed in range(depth(8, 300)):
        found, messages = crashed(stage, seed)
        assert found == straight(stage, messages), seed


class AllBehind(Curate):
    """Steps streams of shards that have done so before the crash."""

    def load(self, meta, shards):
        state = super().load(meta, shards)
        state.shard_offsets[:] = -1
        return state


class NoCovers(Curate):
    """Counts values again that a pane has folded."""

    def load(self, meta, shards):
        state = super().load(meta, shards)
        state.panes._ahead = -1
        return state


class KeepsNoPanes(Curate):
    """Writes no panes down."""

    def shards_of(self, state):
        return super().shards_of(state) - state.panes.names()

    def dirty(self, state):
        return {name for name in super().dirty(state) if "." not in name}


@pytest.mark.parametrize(
    ("broken", "per_slot"),
    [(AllBehind, "first"), (NoCovers, "count"), (KeepsNoPanes, "first")],
)
@pytest.mark.parametrize("setting", SETTINGS)
def test_broken_twins_are_found(broken, setting, per_slot):
    sound = stage_of("segment_mean", setting, per_slot)
    twin = of_kind(broken, sound)
    found = 0
    for seed in range(40):
        try:
            records, messages = crashed(twin, seed)
        except (AssertionError, ValueError):
            found += 1
        else:
            found += records != straight(sound, messages)
    assert found


@pytest.mark.parametrize("setting", SETTINGS)
def test_every_window_closes_once_in_time(setting):
    """By event time: with the message that closes its last slot, at most ``delay`` slots after a
    value's own, and never twice.
    """
    stage, delay, lateness = stage_of("naive", setting), 4, 1
    state, seen = stage.fresh(), {}
    latest = -1
    for message in wild(3):
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
    stage, state, found = stage_of(method, setting), None, []
    for seed in range(4):
        messages, state = wild(seed), stage.fresh()
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
    stage.fold(state, wild(1)[:40])
    meta, shards = stage.meta(state), stage.dump(state, stage.shards_of(state))
    good = stage.look(meta, shards)
    assert good.problems == [] and good.users == 6 and good.slots
    keyless = replace(stage, randomness=edge_randomness(topology_of("naive", "batch"), OTHER, ""))
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
        messages, state = wild(seed), stage.fresh()
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
