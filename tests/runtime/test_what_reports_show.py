"""What somebody sees who reads all that leaves the edge: of two raw streams with the same events
but other values, nothing differs but what reports say.
"""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from ldp_kafka.methods import METHODS
from ldp_kafka.records import Events, Ids, Tick
from ldp_kafka.runtime import local
from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.stages.perturb import make_perturb
from ldp_kafka.runtime.wire.codec import encode
from ldp_kafka.runtime.wire.reports import read_reports, write_reports
from tests.depth import depth
from tests.runtime.test_methods import SLOTS, START, STREAMS, USERS, topology_of

CHOOSY = {"ba_sw", "fast", "fast_cgm"}
"""Whether these report depends on noisy answers: silence is a part of what they say, and of what is
paid for.
"""
KEY = bytes(range(32))


def values_of(topology, seed):
    """Valid values, some of which lie outside the domain."""
    rng, shape = (
        np.random.default_rng(seed),
        (USERS, SLOTS, *([topology.method.dimension] if topology.method.dimension else [])),
    )
    if topology.method.kind == "categorical":
        return rng.integers(0, 3, shape)
    return rng.normal(20, 12, shape) if seed else np.full(shape, 10.0)


def raw(topology, seed):
    """Events with gaps, late ones, repetitions, strangers' bytes and a user who comes late: all but
    the values is the same for every seed.
    """
    values, rng, logs = values_of(topology, seed), np.random.default_rng(17), []
    for partition in (0, 1):
        messages = []
        for slot in range(SLOTS):
            users = np.arange(partition, USERS, 2)
            users = users[(rng.random(len(users)) < 0.8) & ((users > 3) | (slot > 9))]
            slots = np.maximum(slot - (rng.random(len(users)) < 0.1) * 3, 0)
            events = Events(
                Ids.of([f"u{at}" for at in users]),
                1000 * (START + slots),
                np.ascontiguousarray(values[users, slots]),
            )
            messages += [encode(events)] * (1 + (slot % 7 == 3)) + [b"no message"] * (slot % 5 == 2)
        messages.append(encode(Tick(1000 * (START + SLOTS + topology.method.delay))))
        logs.append([Message(offset, -1, value) for offset, value in enumerate(messages)])
    return logs


def left(topology, seed, edge=make_perturb):
    """All that leaves the edge, and what it says; all but what reports say."""
    randomness, said, shown = edge_randomness(topology, KEY, "here"), [], []
    for partition, messages in enumerate(raw(topology, seed)):
        made = edge(topology, partition, randomness)
        state = made.fresh()
        for message in messages:
            for record in made.fold(state, [message]).records:
                if record.topic != topology.reports_topic:
                    shown.append(record)
                    continue
                batch = read_reports(record.value)
                assert write_reports(batch) == record.value, (
                    "there is nothing in a message but what is read of it"
                )
                said.append(batch.values)
                shown.append(
                    record._replace(
                        value=write_reports(replace(batch, values=np.zeros_like(batch.values)))
                    )
                )
                shown.append(len(record.value))
    return said, shown


def told_apart(topology, edge=make_perturb):
    """Whether several raw streams can be told apart by anything but what reports say, which does
    differ.
    """
    said, shown = left(topology, 0, edge)
    assert sum(map(len, said)) > USERS
    found = []
    for seed in depth((1,), (1, 2)):
        other, seen = left(topology, seed, edge)
        assert len(said) != len(other) or any(
            a.shape != b.shape or (a != b).any() for a, b in zip(said, other, strict=True)
        )
        found.append(shown != seen)
    return any(found)


@pytest.mark.parametrize("method", [name for name in STREAMS if name not in CHOOSY])
def test_nothing_differs_but_what_reports_say(method):
    """Counts, sizes, keys, headers, partitions, ids, pseudonyms, slots, order, what was closed,
    dead letters.
    """
    assert not told_apart(topology_of(method))


@pytest.mark.parametrize("method", sorted(CHOOSY))
def test_silence_is_said_by_noise(method):
    """Methods that choose when to report: of the messages nothing differs but their rows."""
    topology = topology_of(method)
    frames = []
    for seed in (0, 1):
        frames.append([])
        for partition, messages in enumerate(raw(topology, seed)):
            edge = make_perturb(topology, partition, edge_randomness(topology, KEY, "here"))
            state = edge.fresh()
            for message in messages:
                for record in edge.fold(state, [message]).records:
                    batch = (
                        read_reports(record.value)
                        if record.topic == topology.reports_topic
                        else None
                    )
                    frames[-1].append(
                        record
                        if batch is None
                        else (
                            record.key,
                            record.headers,
                            record.partition,
                            batch.bound,
                            batch.closed,
                            batch.chunk,
                            batch.scale,
                        )
                    )
    assert frames[0] == frames[1]


def test_the_collectors_side_shows_no_more():
    """Dead letters, partials and releases: as many, at the same places, and the same but for what
    they estimate.
    """
    topology = topology_of("sw_direct")
    randomness = edge_randomness(topology, KEY, "here")
    one, two = (local.run(topology, randomness, raw(topology, seed)) for seed in (0, 1))
    assert one.dead_letters == two.dead_letters
    assert one.dead_letters, "strangers' bytes are told of"
    assert [frame(record) for record in one.partials] == [frame(record) for record in two.partials]
    assert [frame(record) for record in one.releases] == [frame(record) for record in two.releases]
    assert [record.value for record in one.releases] != [record.value for record in two.releases]


def frame(record):
    """A record without what it estimates."""
    body = json.loads(record.value)
    estimates = ("value", "standard_error", "confidence_interval", "support")
    return (
        {name: value for name, value in body.items() if name not in estimates},
        record.key,
        record.headers,
        record.partition,
    )


def only(topic, record, rows):
    """A message of reports with these of its rows, in this order; others as they are."""
    if record.topic != topic:
        return record
    batch = read_reports(record.value)
    at = rows(batch.values)
    series = None if batch.series is None else batch.series[at]
    return record._replace(
        value=write_reports(
            replace(
                batch,
                ids=batch.ids[at],
                slots=batch.slots[at],
                values=batch.values[at],
                series=series,
            )
        )
    )


class Sorted:
    """Reports in the order of what they say."""

    def fold(self, state, messages):
        folded = super().fold(state, messages)
        folded.sent = [
            only(self.reports_topic, record, lambda values: np.argsort(values, kind="stable"))
            for record in folded.records
        ]
        return folded


class Dropping:
    """No report of the larger answers."""

    def fold(self, state, messages):
        folded = super().fold(state, messages)
        middle = self.method.index_range[1] // 2
        folded.sent = [
            only(self.reports_topic, record, lambda values: values < middle)
            for record in folded.records
        ]
        return folded


class Counting:
    """The number of clamped values in a header."""

    def fold(self, state, messages):
        folded = super().fold(state, messages)
        clamped = str(int(folded.counts["clamped"])).encode()
        folded.sent = [
            record._replace(headers=(*record.headers, ("clamped", clamped)))
            for record in folded.records
        ]
        return folded


@pytest.mark.parametrize("twin", [Sorted, Counting, Dropping], ids=lambda twin: twin.__name__)
def test_an_edge_that_tells_more_is_found(twin):
    topology = topology_of("sw_direct")

    def edge(*given):
        made = make_perturb(*given)
        told = object.__new__(type(twin.__name__, (twin, type(made)), {}))
        told.__dict__.update(made.__dict__)
        return told

    assert told_apart(topology, edge)


def test_every_method_is_looked_at():
    """None is left out."""
    assert set(STREAMS) == {name for name, kind in METHODS.items() if not kind.own_noise}
    assert set(STREAMS) >= CHOOSY
