"""Values of a slot that are taken together at the edge: reported once, when the slot closes, the
same whatever the cuts and crashes.
"""

from __future__ import annotations

import json
from functools import cache

import pytest

from ldp_kafka.runtime import local
from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.roles import make
from ldp_kafka.runtime.wire.reports import read_reports
from ldp_kafka.topology import loads
from tests.exact import mean_of, sum_of
from tests.fold.cases import CAPP, HERE, KEY, SLOT, START, closing, log, singly, wild

TEXT = """
topology: settled
input: {{slot: 1m, lateness: 1, partitions: 1, max_ahead: 1d, per_slot: {per_slot}}}
privacy: {privacy}
output: {{statistics: {statistics}}}
runtime: {{shards: 3, report_rows: 4}}
"""
APPS = "{method: lpu, epsilon: 2.0, window: 3, categories: 12}"
SPLIT = (
    "{method: budget_split, epsilon: 8.0, window: 3, domain: [0, 10], dimension: 2, inner: capp,"
    " block: 2}"
)
SAMPLED = "{method: sample_split, epsilon: 8.0, window: 3, domain: [0, 10], dimension: 2}"
ONE = {
    "last": lambda values: values[-1],
    "mean": mean_of,
    "sum": sum_of,
    "min": min,
    "max": max,
}
BOTH = ("[mean, per_user]", "[mean]")
"""A batch of reports a message; and batches between bounds."""


@cache
def topology_of(per_slot, statistics="[mean]", privacy=CAPP):
    return loads(TEXT.format(per_slot=per_slot, statistics=statistics, privacy=privacy))


def stage_of(*args, **more):
    topology = topology_of(*args, **more)
    return make(topology, "perturb", 0, edge_randomness(topology, KEY, HERE))


def reports(records, topic=None):
    """{id: what it says}, and no id twice; of a topic, where there are several."""
    found = {}
    for record in records:
        batch = read_reports(record.value) if topic in (None, record.topic) else None
        for one in () if batch is None else batch.singles():
            assert one.id not in found
            found[one.id] = one.slot, one.value, one.series
    return found


def twice(value):
    """A list of two numbers."""
    return [value, 7 * value % 10]


def one_of(per_slot, values):
    """Of several values of a slot, coordinate by coordinate where they are lists."""
    if isinstance(values[0], list):
        return [ONE[per_slot](each) for each in zip(*values, strict=True)]
    return ONE[per_slot](values)


def taken_together(messages, per_slot, reader):
    """A log with one value a user and slot, those of a slot beside each other, and nothing late."""
    by, closed = {}, None
    for message in messages:
        events = reader.read(message.value).events
        if events is None:
            continue
        ahead = message.timestamp + 24 * 3_600_000
        rows = [
            row
            for row in zip(
                events.users.texts(), events.times.tolist(), events.values.tolist(), strict=True
            )
            if row[1] <= ahead
        ]
        for user, time, value in rows:
            if closed is None or time // SLOT > closed:
                by.setdefault(time // SLOT, {}).setdefault(user, []).append(value)
        for _, time, _ in rows:
            closed = max(time // SLOT - 2, -1 if closed is None else closed)
    return log(
        [
            json.dumps(
                {"user": user, "time": slot * SLOT, "value": one_of(per_slot, values)}
            ).encode()
            for slot, users in sorted(by.items())
            for user, values in users.items()
        ]
        + [closing(60)]
    )


@pytest.mark.parametrize("statistics", BOTH)
@pytest.mark.parametrize(
    ("per_slot", "privacy"),
    [*((how, CAPP) for how in ONE), *((how, SPLIT) for how in ONE), ("mean", SAMPLED)],
)
def test_a_slots_values_are_one(per_slot, privacy, statistics):
    """The reports are those of a log in which each user has one value a slot. (Releases follow from
    them, see `test_partitions_make_no_difference`.)
    """
    stage = stage_of(per_slot, statistics, privacy)
    for seed in range(3):
        given = wild(seed)[0] if privacy == CAPP else singly(wild(seed)[0], twice)
        messages = [each for each in given if b'"tick"' not in (each.value or b"")]
        one, many = (
            reports(stage.fold(stage.fresh(), given).records, stage.reports_topic)
            for given in (
                taken_together(messages, per_slot, stage.reader),
                log([each.value for each in messages] + [closing(60)]),
            )
        )
        assert many == one and len(many) > 30


def test_categories_and_numbers_of_events():
    """The last category counts; and so many events."""
    row = b'{"user": "u", "time": %d, "value": %d}'
    rows = [row % (START + at, value) for at, value in enumerate((3, 5, 4))]
    for per_slot, privacy, statistics, wanted in (
        ("last", APPS, "[frequencies]", [row % (START, 4)]),
        ("count", CAPP, "[mean]", [row % (START + at, 9) for at in range(3)]),
    ):
        topology = topology_of(per_slot, statistics, privacy)
        noise = edge_randomness(topology, KEY, HERE)
        found, same = (
            local.run(topology, noise, [log([*values, closing(8)])]) for values in (rows, wanted)
        )
        assert reports(found.reports[0]) == reports(same.reports[0])
        assert found.counts["events"] == 3


def test_the_mean_of_vectors_of_a_ball():
    """They are taken together as they came, and are held in the ball then."""
    ball = (
        "{method: cgm_vector, level: user, epsilon: 8.0, horizon: 20, delta: 1.0e-5,"
        " dimension: 2, diameter: 4}"
    )
    row = b'{"user": "u", "time": %d, "value": %s}'
    topology = topology_of("mean", "[per_user]", ball)
    noise = edge_randomness(topology, KEY, HERE)
    found, same = (
        local.run(
            topology,
            noise,
            [log([*(row % (START + at, v) for at, v in enumerate(values)), closing(8)])],
        )
        for values in ((b"[30, 40]", b"[-30, -38]"), (b"[0, 1]",))
    )
    assert reports(found.reports[0]) == reports(same.reports[0])
    assert len(found.releases) == 1 and found.counts["clamped"] == 0


def test_nothing_is_reported_before_its_slot_is_closed():
    stage = stage_of("mean")
    state = stage.fresh()
    row = b'{"user": "u", "time": %d, "value": 4}'
    counts = []
    for at, time in enumerate((START, START + 5, START + SLOT, START + 2 * SLOT)):
        output = stage.fold(state, [Message(at, START, row % time)])
        counts.append(output.counts["reports"])
    assert counts == [0, 0, 0, 1] and output.gauges["open_slots"] == 2
    look = stage.look(stage.meta(state), stage.dump(state, stage.shards_of(state)))
    assert look.problems == [] and look.slots == 2 and look.users == 1
