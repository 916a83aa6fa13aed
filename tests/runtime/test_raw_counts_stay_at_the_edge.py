"""How many raw messages there were does not cross the trust line: with ``per_slot: count`` a user's
value is that number.

Each topology folds two raw logs. In both the same users have an event in the same slots, and the
same messages close them; one log has repeats, bad messages and late events besides. All values are
clamped to the same end of the domain, so each draw is a function of (user, slot, phase). Then what
goes to the collector, and what the collector makes of it, must be the same in every byte.
"""

from __future__ import annotations

import json
from random import Random

import pytest

import ldp_kafka as lk
from ldp_kafka.runtime import local
from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.runtime.log import Message
from ldp_kafka.topology import loads

KEY = bytes.fromhex("8f1d0b6a4c2e93575ad0c1e8b7f6243961e5a87c3b9d0f42d6c8527eb1a09f34")
SLOT, START, SLOTS, USERS = 60_000, 1_700_000_040_000, 9, 12

TOPOLOGY = """
topology: meters
input: {{topic: raw, partitions: {partitions}, slot: 1m, lateness: 1, {source}}}
privacy: {{epsilon: 2.0, window: 3, domain: [0.0, 1.0], {privacy}}}
output: {{{output}}}
runtime: {{report_rows: {rows}}}
edge: {{key_file: none}}
"""
MEAN = "statistics: [mean]"
FIRST = {
    "first": ("", "method: sw_direct", MEAN, 16384),
    "few rows": ("", "method: sw_direct", MEAN, 5),
    "one row": ("", "method: sw_direct", MEAN, 1),
    "silent users": ("", "method: lpu", MEAN, 5),
    "per user": ("", "method: capp", "statistics: [mean, per_user], shrinkage: false", 5),
    "gaps": ("gaps: allow, create: false", "method: sw_direct", MEAN, 5),
    "asked": ("hold: 2", "method: lpa", MEAN, 5),
}
TOGETHER = {
    **{
        per_slot: (f"per_slot: {per_slot}", "method: sw_direct", MEAN, 5)
        for per_slot in ("last", "mean", "sum", "max", "min", "count")
    },
    "count, asked": ("per_slot: count, hold: 2", "method: lbd", MEAN, 5),
    "window": ("per_slot: count", "method: naive, delay: 2", "statistics: [per_user]", 5),
}


def topology_of(name, partitions):
    source, privacy, output, rows = {**FIRST, **TOGETHER}[name]
    return loads(
        TOPOLOGY.format(
            source=source, privacy=privacy, output=output, rows=rows, partitions=partitions
        )
    )


def event(user, time, value=2.0):
    return json.dumps({"user": user, "time": time, "value": value}).encode()


BAD = [b"", b"no event", b'{"user": "u1"}', event("u2", START, "much"), event("", START)]


def log_of(seed, more):
    """One partition's messages; with ``more`` also others that change no user's presence."""
    plain, other = Random(seed), Random(f"others {seed}")
    values = []

    def beside(slot, time, users):
        """Repeats of users who have been heard in this slot, and messages that are no events. They
        come when the event before them does, so that a request finds its place between the same.
        """
        for _ in range(other.choice((0, 0, 1, 5)) if more else 0):
            kind = other.random()
            if kind < 0.6:
                values.append(event(other.choice(users), time, other.choice((1.0, 7.0))))
            elif kind < 0.8:
                values.append(other.choice(BAD))
            elif slot >= 3:
                values.append(event(other.choice(("u1", "nobody")), START + (slot - 3) * SLOT))

    for slot in range(SLOTS):
        heard = []
        users = plain.sample(range(USERS), plain.randrange(USERS // 2, USERS))
        times = sorted(START + slot * SLOT + plain.randrange(SLOT) for _ in users)
        for user, time in zip(users, times, strict=True):
            values.append(event(f"u{user}", time))
            heard.append(f"u{user}")
            beside(slot, time, heard)
    values.append(lk.encode(lk.Tick(START + (SLOTS + 4) * SLOT)))
    return [Message(at, START, value) for at, value in enumerate(values)]


def crossing(topology, seeds, together, *, more):
    """All that crosses the line, and what becomes of it there."""
    raw = [log_of(seed, more) for seed in seeds]
    made = local.run(topology, edge_randomness(topology, KEY, "raw"), raw, together=together)
    rows = [
        [(each.topic, each.partition, *row) for each in records for row in each.rows()]
        for records in (*made.reports, made.partials, made.releases, made.requests)
    ]
    return rows, len(raw[0])


@pytest.mark.parametrize("name", [*FIRST, *TOGETHER])
def test_nothing_that_crosses_the_line_tells_how_many_messages_there_were(name):
    """Reports, partials, releases and requests: keys, values, headers, partitions, order."""
    topology = topology_of(name, 2)
    few, number = crossing(topology, (1, 2), 1, more=False)
    many, greater = crossing(topology, (1, 2), 64, more=True)
    assert greater > 1.5 * number
    assert sum(map(len, few)) > 10
    assert many == few
