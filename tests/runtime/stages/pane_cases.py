"""Stages whose values wait in panes: logs for them, owners that end, and broken twins."""

from __future__ import annotations

from random import Random

import numpy as np

from ldp_kafka.records import Tick
from ldp_kafka.runtime import local
from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.wire.records import encode_json
from tests.fold.cases import HERE, KEY, SLOT, START, batch, log
from tests.fold.epochs import Shelf, folded, opened, saved
from tests.runtime.stages.crashes import of_kind

FIRST = START // SLOT
SETTINGS = ("batch", "sliding")
SLOTS = 23  # of a log


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


def in_runs(stage, messages, seed, most):
    """All records of a log, folded message by message, and in runs of up to ``most``."""
    random, states = Random(seed), (stage.fresh(), stage.fresh())
    alone = [r for message in messages for r in stage.fold(states[0], [message]).records]
    together, at = [], 0
    while at < len(messages):
        size = random.randint(1, most)
        together += stage.fold(states[1], messages[at : at + size]).records
        at += size
    return alone, together


def crashed(stage, messages, seed, said):
    """{name: all that was ever said under it} over owners that end at random: after a snapshot, and
    some records of one more, without its ``meta``. What a record that is ahead has stepped was sent
    before it was written, and is not again.

    Parameters
    ----------
    messages : from offset 0
    said : of a stage and a record, (name, what is said) of each that it holds
    """
    random, table, out, want = Random(seed), {}, {}, 0
    for cut in [*sorted(random.sample(range(1, len(messages)), 4)), len(messages)]:
        epoch = opened(stage, 1, want=want, committed=want > 0, shelf=Shelf(table))
        more = random.randint(0, 12)
        for message in messages[epoch.next_offset : cut + more]:
            for record in folded(epoch, [message]):
                for name, what in said(stage, record):
                    out.setdefault(name, set()).add(what)
            if message.offset == cut - 1:
                table = saved(epoch)
                want = cut
        shards = epoch.snapshot().shards  # and then the end: no meta
        table |= {key: shards[key] for key in sorted(shards) if random.random() < 0.5}
    return out


def straight(stage, messages, said):
    """The same of one owner, who says nothing twice."""
    state, out = stage.fresh(), {}
    for message in messages:
        for record in stage.fold(state, [message]).records:
            for name, what in said(stage, record):
                assert name not in out
                out[name] = {what}
    return out


def is_found(broken, stage, logs, said):
    """Whether crashes tell a broken twin of a stage from it.

    Parameters
    ----------
    broken : what it does otherwise, a class to stand before the stage's own
    logs : the messages, by seed
    """
    twin = of_kind(type(broken.__name__, (broken, type(stage)), {}), stage)
    for seed in range(40):
        messages = logs(seed)
        try:
            found = crashed(twin, messages, seed, said)
        except (AssertionError, ValueError):
            return True
        if found != straight(stage, messages, said):
            return True
    return False


class AllBehind:
    """Steps streams of shards that have done so before the crash."""

    def load(self, meta, shards):
        state = super().load(meta, shards)
        state.shard_offsets[:] = -1
        return state


class NoCovers:
    """Counts values again that a pane has folded."""

    def load(self, meta, shards):
        state = super().load(meta, shards)
        state.panes._ahead = -1
        return state


class KeepsNoPanes:
    """Writes no panes down."""

    def shards_of(self, state):
        return super().shards_of(state) - state.panes.names()

    def dirty(self, state):
        return {name for name in super().dirty(state) if "." not in name}
