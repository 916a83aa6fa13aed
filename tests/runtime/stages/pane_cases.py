"""Logs for stages whose values wait in panes."""

from __future__ import annotations

import json
from functools import cache
from random import Random

import numpy as np

from ldp_kafka.records import Tick
from ldp_kafka.runtime import local
from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.stages.curate import make_curate
from ldp_kafka.runtime.wire.records import encode_json
from ldp_kafka.topology import loads
from tests.fold.cases import HERE, KEY, SLOT, START, batch, log

TEXT = """
topology: windows
input: {{slot: 1m, lateness: {lateness}, max_ahead: 1d, per_slot: {per_slot}, {more}}}
privacy:
  {{trust: curator, level: event, method: {method}, epsilon: {epsilon}, {own},
   domain: {domain}}}
output: {{statistics: [per_stream]}}
runtime: {{shards: 3}}
"""
FIRST = START // SLOT
SETTINGS = ("batch", "sliding")
ROOT = "delta: 1.0e-5, bands: 4"
SLOTS = 23  # of a log


@cache
def curated(
    method="naive",
    setting="sliding",
    per_slot="first",
    more="partitions: 1, closing: events",
    *,
    delay=4,
    lateness=1,
    epsilon=2.0,
    domain="[0, 10]",
):
    """A topology whose streams a curator releases; without a ``setting`` by `matrix`."""
    own = f"delay: {delay}, setting: {setting}" if setting else ROOT
    return loads(TEXT.format(**locals()))


def curator(topology, partition=0):
    return make_curate(topology, partition, edge_randomness(topology, KEY, HERE))


def released(stage, records):
    """{(stream, slot): (value, standard error)}, each once."""
    found = {}
    for record in records:
        if record.topic != stage.releases.topic:
            continue
        release = json.loads(record.value)
        name = release["user"], release["slot"]
        assert name not in found
        assert record.key.decode() == f"per_stream/{name[1]}/{name[0]}"
        found[name] = release["value"], release["standard_error"]
    return found


def wild_streams(seed, slots=SLOTS, streams=6):
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


def with_ticks(seed):
    """A log that nothing but ticks brings further: those that were there, and one a slot or so."""
    random, found = Random(seed), []
    for at, message in enumerate(wild_streams(seed % 7)):
        found.append(message.value)
        if random.random() < 0.2:
            found.append(encode_json(Tick(START + at // 3 * SLOT)))
    return log(found)


def numbered(messages):
    """From offset 0."""
    return [Message(at, each.timestamp, each.value) for at, each in enumerate(messages)]


def told_of(topology, values, there, noise, names):
    """What a topology's method says of streams from `FIRST` on. Where that lies inside a segment or
    a block, the slots before it have no values.
    """
    method = topology.windowed
    opens = method.drawn_from(FIRST)
    early = ((0, 0), (FIRST - opens, 0))
    told = method.trace(
        np.pad(values, early), noise, present=np.pad(there, early), users=names, first_slot=opens
    )
    return told.between(FIRST, FIRST - opens, len(told.values))


def beside_the_method(topology, streams=5, slots=SLOTS):
    """A run of a topology over streams with gaps, what its method says of them as a whole, and
    their ids.
    """
    rng = np.random.default_rng(3)
    values = rng.uniform(-1, 11, (streams, slots)).round(3)
    there = rng.random((streams, slots)) < 0.8
    rows = [
        (f"s{stream}", START + slot * SLOT + stream, values[stream, slot])
        for slot in range(slots)
        for stream in range(streams)
        if there[stream, slot]
    ]
    messages = [batch(rows[at : at + 3]) for at in range(0, len(rows), 3)]
    end = encode_json(Tick(START + (slots + 10) * SLOT))
    noise, names = edge_randomness(topology, KEY, HERE), [f"s{stream}" for stream in range(streams)]
    run = local.run(topology, noise, [log([*messages, end])], together=7)
    return run, told_of(topology, values, there, noise, names), names
