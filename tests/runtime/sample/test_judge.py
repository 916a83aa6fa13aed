"""The verdict on messages is that of the workers on the same messages."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldp_kafka.errors import ConfigurationError, Reason
from ldp_kafka.records import Request, Tick
from ldp_kafka.runtime import local
from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.partitioning import partitions_of
from ldp_kafka.runtime.sample.judge import judge
from ldp_kafka.runtime.sample.parts import Part
from ldp_kafka.runtime.sample.say import lines
from ldp_kafka.runtime.wire.arrow import write_batch
from ldp_kafka.runtime.wire.records import encode_json, header
from ldp_kafka.topology import loads
from tests.cases import cases
from tests.runtime.sample.made import HOUR, NOW, START, event, part, topology, verdict

NUMBERS = topology("partitions: 2")
HOMES = topology("partitions: 2, partitioning: murmur2")
NAMED = topology("partitions: 2", categories="[still, walk]")
LAST = topology("partitions: 2, per_slot: last")
ASKED = topology("partitions: 2", method="lba")
LISTS = loads(
    """
topology: meters
input: {slot: 1h, lateness: 1, user: $.meter, value: $.kwh, time: $.ts, partitions: 2}
privacy: {method: budget_split, dimension: 2, domain: [0, 10], epsilon: 4.0, window: 3}
output: {statistics: [mean]}
"""
)
CURATOR = """
topology: meters
input: {slot: 1h, lateness: 1, user: $.meter, value: $.kwh, time: $.ts, partitions: 2}
privacy:
  {trust: curator, level: event, method: naive, domain: [0, 10], epsilon: 2.0, delay: 2}
output: {statistics: [per_stream]}
"""
CURATED = loads(CURATOR)
OF_EVENTS = loads(CURATOR.replace("slot: 1h", "slot: 1h, closing: events"))
KNOWN = loads(
    CURATOR.replace(
        "slot: 1h",
        "slot: 1h, per_slot: sum, streams: [m1, 17, \u00e9], start: '2023-11-15T00:00:00Z'",
    )
)

TEXT = """
topology: meters
input: {{slot: 1h, lateness: {}, user: $.meter, value: $.kwh, time: $.ts, partitions: 2}}
privacy: {{method: sw_direct, epsilon: 4.0, window: 3, domain: [0, 10]}}
output: {{statistics: [mean]}}
"""


def batch(users, times, values):
    """An Arrow message."""
    columns = [pa.array(users), pa.array(times), pa.array(values)]
    return write_batch("event", ["meter", "ts", "kwh"], columns)


# what producers send, good and bad
users = st.sampled_from(["m1", "m2", "é", 17, "17", "", "x" * 300, 1.5, None, True, ["m1"]])
values = st.sampled_from(
    [1, 2.5, -3, 99.0, "2.5", None, "still", "Still", True, 1e308, [1], [1, 99]]
)
hours = st.integers(0, 6)
times = st.one_of(
    hours.map(lambda hour: START + hour * HOUR),
    hours.map(lambda hour: START // 1000 + hour * 3600),
    st.sampled_from([None, "2023-11-14T22:13:20Z", "soon", -1, START * 1000, True]),
)
texts = st.sampled_from([
    b"", None, b"{", b"[]", b"3", b"\0\0\0\0\1avro", b'{"meter": NaN}', b"\xff\xff\xff\xff",
    encode_json(Tick(START + 4 * HOUR)), header("meters", "0" * 32, "0" * 32),
    encode_json(Request("7/1", 7, 1, 500_000, 9)),
])  # fmt: skip
rows = st.lists(st.tuples(st.sampled_from(["m1", "m3", ""]), hours, st.floats()), max_size=4)
messages = st.one_of(
    st.builds(event, users, values, times),
    st.builds(event),
    texts,
    rows.map(
        lambda found: batch(
            [user for user, _, _ in found],
            [START + hour * HOUR for _, hour, _ in found],
            pa.array([value for _, _, value in found], pa.float64()),
        )
    ),
)
stamps = st.sampled_from([-1, START, START - 30 * HOUR])
logs = st.lists(st.lists(st.tuples(messages, stamps), max_size=12), min_size=2, max_size=2)


@pytest.mark.parametrize(
    "of",
    [NUMBERS, HOMES, NAMED, LAST, ASKED, LISTS, CURATED, OF_EVENTS, KNOWN],
    ids=range(9),
)
def test_it_is_that_of_the_workers(of):
    """As many events, late ones and dead letters, of the same reasons, as `runtime.local` makes of
    the same messages.
    """

    @settings(max_examples=60)
    @given(logs)
    def same(found):
        log = [[Message(at, stamp, one) for at, (one, stamp) in enumerate(each)] for each in found]
        run = local.run(of, edge_randomness(of, bytes(32), "here"), log)
        said = judge(of, [Part(each, str, at) for at, each in enumerate(log)], now_ms=NOW)
        letters = [json.loads(record.value) for record in run.dead_letters]
        reasons = Counter(letter["reason"] for letter in letters)
        assert {each.reason: each.count for each in said.problems} == reasons
        assert said.events == run.counts.get("events", 0)
        if said.looks is None:
            return
        slots = said.looks.slots
        assert slots.late == run.counts.get("late", 0)
        # no lateness helps what is before the start
        assert of.input.zeros or (slots.late > slots.clocks) == (slots.lateness > of.input.lateness)
        if not of.curated:
            assert slots.clocks == run.counts.get("late_by_clocks", 0)
        if not of.holds_slots:
            assert slots.repeated + slots.behind == run.counts.get("duplicates", 0)

    same()


def test_events_do_not_close_slots_where_ticks_do():
    """Also where one tick is far ahead of its record's timestamp: without it, all are as early."""
    tick = (encode_json(Tick(START + 4 * HOUR)), START)
    log = [(event("m1", 1, START + 2 * HOUR), -1), (event("m1", 1, START), -1), tick]
    messages = [Message(at, stamp, one) for at, (one, stamp) in enumerate(log)]
    slots = judge(CURATED, [Part(messages, str, 0)], now_ms=NOW).looks.slots
    assert (slots.late, slots.lateness) == (0, 0)


def test_messages_of_ours_are_neither_events_nor_bad():
    """Headers, ticks, and where a coordinator asks, requests; elsewhere a request is bad."""
    request = encode_json(Request("7/1", 7, 1, 500_000, 9))
    ours = [header("meters", "0" * 32, "0" * 32), encode_json(Tick(START)), request]
    said = verdict(topology(method="lba"), *ours, event())
    assert (said.messages, said.with_events, said.others, said.bad) == (4, 1, 3, 0)
    said = verdict(topology(), *ours, event())
    assert (said.messages, said.with_events, said.others, said.bad) == (4, 1, 2, 1)
    assert [(each.reason, each.places) for each in said.problems] == [
        (Reason.NOT_A_RECORD, ["line 3"])
    ]


def test_ids_are_counted_and_none_is_kept():
    """How many, how long, of which kind; those of several partitions, and those nearly alike."""
    parts = [
        part(*(event(meter) for meter in (17, "17", "017", "ü", "m1")), partition=0),
        part(*(event(meter) for meter in ("M1 ", "m1", -5, "-0")), partition=1),
    ]
    found = judge(topology("partitions: 2"), parts, now_ms=NOW).looks.ids
    assert (found.distinct, found.shortest, found.longest) == (7, 2, 3)
    assert (found.whole, found.not_ascii, found.alike, found.split) == (2, 1, 1, 1)


def test_a_user_of_four_partitions_is_one_user():
    """And not the three pairs that it makes beyond its first."""
    everywhere = [
        part(event("m1"), event("m2"), event(f"only-{at}"), partition=at) for at in range(4)
    ]
    found = judge(topology("partitions: 4"), everywhere, now_ms=NOW)
    assert (found.looks.ids.distinct, found.looks.ids.split, found.split) == (6, 2, 2)


@cases(
    ("stamped", "clocks", "lateness"),
    [(True, 40, 3), (False, 0, 8)],
)
def test_who_is_late_by_a_fast_clock_is_told_apart(stamped, clocks, lateness):
    """One message eight slots ahead makes all others late, but for their own last one: no lateness
    is advised against it. Where messages have no timestamps nobody knows.
    """
    now = START + 8 * HOUR
    found = [
        Message(1, now if stamped else -1, event("fast", ts=now + 8 * HOUR)),
        *(
            Message(2 + at, START + hour * HOUR if stamped else -1, event(f"m{at}", ts=time))
            for at, (hour, time) in enumerate(
                [(8 + at // 10, now + at // 10 * HOUR) for at in range(40)]
                + [(11, now)]  # three slots late by its own record
            )
        ),
    ]
    said = judge(topology(), [Part(found, "line {}".format, 0)], now_ms=NOW)
    assert (said.looks.slots.late, said.looks.slots.clocks) == (41, clocks)
    assert said.looks.slots.lateness == lateness
    text = "\n".join(lines(topology(), said, "log"))
    assert (f"{clocks} of them by an event alone" in text) is stamped
    assert ("input.max_ahead" in text) is stamped
    assert f"input.lateness: {lateness} would take" in text


def test_times_of_valid_events():
    """Their kinds, the slots that they are in, and what a wrong clock shows."""
    said = verdict(
        topology(),
        event(ts=START),
        event(ts=START // 1000 + 3600),
        event(ts=NOW + 1000),
        event(ts=NOW + 25 * HOUR),
        event(ts="1999-12-31T23:00:00Z"),
        batch(["m1"], [START], [1.0]),
    )
    assert dict(said.time_kinds) == {
        "epoch milliseconds": 3,
        "epoch seconds": 1,
        "ISO 8601 text": 1,
        "Arrow's int64": 1,
    }
    found = said.looks.times
    assert (found.after_now, found.ahead, found.before_2000) == (2, 1, 1)
    assert found.slots == 5
    assert found.last == NOW // HOUR + 25


def test_values_outside_and_categories_that_occur():
    assert (
        verdict(topology(), *(event(kwh=kwh) for kwh in (-1, 0, 10, 11))).looks.values.outside == 2
    )
    found = verdict(
        topology(categories="[still, walk, run]"),
        *(event(kwh=kwh) for kwh in ("run", "walk", "run")),
    )
    assert (found.looks.values.outside, found.looks.values.categories) == (0, 2)


@pytest.mark.parametrize(
    ("per_slot", "outside"),
    [("first", 7), ("last", 2), ("min", 2), ("max", 3), ("mean", 2), ("sum", 4), ("count", 1)],
)
def test_what_slots_come_to_is_compared_with_the_domain(per_slot, outside):
    """Not the values behind it: eleven of .1 are outside as a count alone. As many as the workers
    clamp, once a tick has closed all slots. With `first` each event is bounded when it comes.
    """
    of = topology(f"partitions: 2, per_slot: {per_slot}")
    values = {"a": [9, 12, 1], "b": [0.1] * 11, "c": [11, 5], "d": [-6, 9, -5], "e": [30]}
    logs = [
        [event(user, kwh) for user in users for kwh in values[user]]
        + [encode_json(Tick(START + 9 * HOUR)), event("late", 99)]
        for users in ("abc", "de")
    ]
    said = judge(
        of, [part(*each, partition=at, first=0) for at, each in enumerate(logs)], now_ms=NOW
    )
    run = local.run(
        of,
        edge_randomness(of, bytes(32), "here"),
        [[Message(at, -1, each) for at, each in enumerate(log)] for log in logs],
    )
    found = said.looks.values
    assert found.outside == run.counts["clamped"] == outside
    assert found.compared == (22 if per_slot == "first" else 5)
    assert said.looks.slots.late == run.counts["late"] == 2


def test_events_of_a_user_in_a_slot():
    """In the order of the log: repeats of a slot, those behind a later slot, and the late ones."""
    hours = [0, 0, 2, 1, 1, 1, 5, 0]
    slots = verdict(topology(), *(event(ts=START + hour * HOUR) for hour in hours)).looks.slots
    assert (slots.pairs, slots.most) == (4, 3)
    assert (slots.repeated, slots.behind, slots.late) == (3, 1, 1)


def test_the_least_lateness_that_takes_all_events():
    """With it none is late, and with one slot less one is: over pieces and partitions, too."""
    hours = [0, 3, 1, 2, 9, 8, 4, 5, 14, 0]
    logs = [
        part(*(event(ts=START + hour * HOUR) for hour in hours), partition=0),
        part(*[event(ts=START + 2 * HOUR)] * 4096, event(ts=START - 18 * HOUR), partition=1),
    ]

    def slots(lateness):
        of = loads(TEXT.format(lateness))
        return judge(of, logs, now_ms=NOW).looks.slots

    assert (slots(1).late, slots(1).lateness) == (5, 20)
    assert (slots(20).late, slots(19).late, slots(20).lateness) == (0, 1, 20)
    assert verdict(topology(), event(), event(ts=START + HOUR)).looks.slots.lateness == 0


def test_messages_of_several_slots_are_counted():
    """Also where their events lie in any order."""
    said = verdict(
        topology(),
        batch(["a", "b", "a", "b"], [START, START + HOUR, START, START + HOUR], [1.0] * 4),
        batch(["a", "b"], [START, START], [1.0] * 2),
        event(ts=START + HOUR),
    )
    assert said.looks.slots.several == 1


def test_a_file_knows_no_partition_and_no_timestamp():
    """What only the log can tell is no reason there; in the topic it is."""
    of = topology("partitions: 2, partitioning: murmur2")
    home = int(partitions_of(["m1"], 2)[0])
    assert verdict(of, event(), event(ts=NOW + 10**9)).bad == 0
    there = [
        part(event(), event("m1", ts=START + 10**9), partition=at, timestamp=START) for at in (0, 1)
    ]
    said = judge(of, there, now_ms=NOW)
    assert {each.reason: each.count for each in said.problems} == {
        Reason.PARTITION: 2,
        Reason.AHEAD: 1,
    }
    assert said.events == 1
    assert said.with_events == 1
    assert home in (0, 1)


def test_rows_of_a_batch_are_named():
    """From 0, as in dead letters; a message with any event counts once."""
    said = verdict(topology(), event(), batch(["m1", "", "m2"], [START] * 3, [1.0, 2.0, np.nan]))
    assert (said.messages, said.with_events, said.events, said.bad) == (2, 2, 2, 2)
    assert {each.reason: each.places for each in said.problems} == {
        Reason.USER: ["line 2 row 1"],
        Reason.NOT_FINITE: ["line 2 row 2"],
    }


def test_many_messages_are_judged_in_pieces():
    """As all at once, and it is told how far it is."""
    steps = []
    found = [event(f"m{at % 50}", ts=START + at // 50 * HOUR) for at in range(5000)]
    judged = judge(topology(), [part(*found)], now_ms=NOW, progress=steps.append)
    assert (judged.events, judged.looks.slots.late, judged.looks.slots.repeated) == (5000, 0, 0)
    assert steps == [4096, 5000]


def test_places_are_the_first_ones():
    """Five of each reason."""
    (problem,) = verdict(topology(), *[event(kwh="x")] * 9).problems
    assert (problem.count, list(problem.places)) == (9, [f"line {at}" for at in range(1, 6)])


def test_devices_have_no_messages_to_try():
    """They report by themselves."""
    of = loads(
        "topology: d\ninput: {source: devices, slot: 1h}\n"
        "privacy: {method: sw_direct, epsilon: 1, window: 2, domain: [0, 9]}\n"
        "output: {statistics: [mean]}\n"
    )
    with pytest.raises(ConfigurationError, match="d has no raw topic, whose messages"):
        verdict(of, event())
