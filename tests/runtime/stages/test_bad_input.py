"""Bad input of every kind: one dead letter that says where and why, never what; and good neighbours
unharmed.
"""

from __future__ import annotations

import json
import logging
import traceback
from functools import cache

import numpy as np
import pyarrow as pa
import pytest

from ldp_kafka.errors import BadRecord
from ldp_kafka.runtime import local
from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.stages.perturb import make_perturb
from ldp_kafka.runtime.wire.arrow import MAX_BYTES, read_batch
from ldp_kafka.runtime.wire.codec import decode
from ldp_kafka.runtime.wire.parsing import parse_json
from ldp_kafka.runtime.wire.records import decode_json
from ldp_kafka.runtime.wire.reports import read_reports
from ldp_kafka.topology import loader
from tests.cases import cases

KEY = bytes(range(32))
loads = cache(loader.loads)
HOUR = 3_600_000
NOW = 1_772_366_400_000  # a whole hour
USER, NUMBER, CATEGORY = "poison-user-31337", 31337.4242, "poison-cat"
MARKS = (b"poison", b"31337")

NUMERIC = """
topology: meters
input: {{slot: 1h, lateness: 1, partitions: 1, format: {format}}}
privacy: {{method: capp, epsilon: 2.0, window: 4, domain: [0, 100]}}
output: {{statistics: [mean, per_user]}}
runtime: {{shards: 8}}
"""
CATEGORIES = """
topology: apps
input: {{slot: 1h, lateness: 1, partitions: 1, format: {format}}}
privacy: {{method: lpu, mechanism: grr, epsilon: 2.0, window: 2, categories: [a, b, c]}}
output: {{statistics: [frequencies]}}
runtime: {{shards: 8}}
"""


def event(**changes):
    """A bad event: poisoned wherever it may be."""
    return {"user": USER, "time": NOW, "value": NUMBER} | changes


def without(name):
    """A poisoned event without one field."""
    return {key: value for key, value in event().items() if key != name}


def text(record):
    """As JSON, NaN and all."""
    return json.dumps(record).encode()


# kind: (message, reason); each is a whole JSON message between good ones
JSON = {
    "nothing": (None, "empty"),
    "empty": (b"", "empty"),
    "not json": (b"poison-user-31337 31337.4242", "not_json"),
    "cut": (text(event())[:-1], "not_json"),
    "not utf-8": (b'{"user":"poison-user-31337\xff","time":1,"value":31337.4242}', "not_json"),
    "deep": (b'{"poison":' + b"[" * 100_000, "not_json"),
    "long number": (
        b'{"user":"poison","time":1700000000,"value":' + b"31337" * 1000 + b"}",
        "not_finite",
    ),
    "a list": (text([event()]), "not_a_record"),
    "a text": (text(USER), "not_a_record"),
    "not arrow": (b"\xff\xff\xff\xff poison-user-31337", "not_arrow"),
    "huge": (text(event(padding="poison" * (MAX_BYTES // 6))), "too_large"),
    "version": (text(event(ldp_kafka=2, type="event")), "version"),
    "version of a tick": (b'{"ldp_kafka":31337,"type":"tick","time":1772366400000}', "version"),
    "another kind": (text({"ldp_kafka": 1, "type": "poison"}), "wrong_fields"),
    "a request": (
        text(
            {
                "ldp_kafka": 1,
                "type": "request",
                "id": "poison",
                "slot": 31337,
                "phase": 0,
                "epsilon": 1,
                "deadline": 2,
            }
        ),
        "not_a_record",
    ),
    "a hostile partial": (
        text(
            {
                "ldp_kafka": 1,
                "type": "partial",
                "source": 0,
                "slot": 31337,
                "first": None,
                "support": 31337,
            }
        ),
        "wrong_fields",
    ),
    "a bad tick": (text({"ldp_kafka": 1, "type": "tick", "time": "poison"}), "time"),
    "a tick ahead": (
        text({"ldp_kafka": 1, "type": "tick", "time": NOW + 48 * HOUR + 31337}),
        "ahead",
    ),
    "no user": (text(without("user")), "user"),
    "empty user": (text(event(user="")), "user"),
    "long user": (text(event(user=USER * 20)), "user"),
    "surrogate": (text(event(user=USER + "\ud800")), "user"),
    "user of a wrong type": (text(event(user=[USER])), "user"),
    "no value": (text(without("value")), "value"),
    "a text for a value": (text(event(value="31337.4242")), "value"),
    "true": (text(event(value=True)), "value"),
    "NaN": (text(event(value=float("nan"))), "not_finite"),
    "inf": (text(event(value=float("inf"))), "not_finite"),
    "-inf": (text(event(value=float("-inf"))), "not_finite"),
    "1e999": (b'{"user":"poison-user-31337","time":1772366400000,"value":31337e999}', "not_finite"),
    "a number of 400 digits": (
        b'{"user":"poison-user-31337","time":1772366400000,"value":' + b"31337" * 80 + b"}",
        "not_finite",
    ),
    "no time": (text(without("time")), "time"),
    "before 1970": (text(event(time=-31337)), "time"),
    "before 1970, ISO": (text(event(time="1969-12-31T23:59:59.31337Z")), "time"),
    "unreadable time": (text(event(time="poison-31337")), "time"),
    "no calendar has it": (text(event(time=2**60)), "time"),
    "years ahead": (text(event(time="2031-03-01T00:00:00Z")), "ahead"),
    "a millisecond ahead": (text(event(time=NOW + 24 * HOUR + 1)), "ahead"),
}
# kind: (column, cell, reason); each is a row of a batch with good ones
ARROW = {
    "null user": ("user", None, "user"),
    "empty user": ("user", "", "user"),
    "long user": ("user", USER * 20, "user"),
    "null value": ("value", None, "value"),
    "NaN": ("value", float("nan"), "not_finite"),
    "inf": ("value", float("inf"), "not_finite"),
    "-inf": ("value", float("-inf"), "not_finite"),
    "null time": ("time", None, "time"),
    "before 1970": ("time", -31337, "time"),
    "wraps around": ("time", -(2**63) + 31337, "time"),
    "no calendar has it": ("time", 2**60, "time"),
    "ahead": ("time", NOW + 24 * HOUR + 1, "ahead"),
    "years ahead": ("time", NOW + 5 * 365 * 24 * HOUR, "ahead"),
}
KINDS = {
    **{f"json: {kind}": ("json", *case) for kind, case in JSON.items()},
    **{
        f"json: {kind}": ("names", *case)
        for kind, case in {
            "category": (text(event(value=CATEGORY)), "category"),
            "category by number": (text(event(value=31337)), "category"),
        }.items()
    },
    **{f"arrow: {kind}": ("arrow", *case) for kind, case in ARROW.items()},
    "arrow: category": ("arrow names", "value", CATEGORY, "category"),
    "arrow: null category": ("arrow names", "value", None, "value"),
}


def good(category):
    """Good events of five users in five slots, in the order of a log."""
    return [
        (
            f"u{i}",
            NOW - (5 - slot) * HOUR + i,
            "abc"[(slot + i) % 3] if category else float(7 * slot + i),
        )
        for slot in range(6)
        for i in range(5)
    ]


def batch(rows):
    """Rows as an Arrow IPC stream."""
    users, times, values = zip(*rows, strict=True)
    kinds = {
        "user": pa.array(users, pa.string()),
        "time": pa.array(times, pa.int64()),
        "value": pa.array(
            values, pa.string() if any(isinstance(v, str) for v in values) else pa.float64()
        ),
    }
    made = pa.RecordBatch.from_arrays(list(kinds.values()), names=list(kinds))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, made.schema) as writer:
        writer.write_batch(made)
    return sink.getvalue().to_pybytes()


@cache
def logs(kind):
    """(topology, the log with the bad input, the same without it, {offset: row} of the bad,
    reason).

    The clean log has a header-like nothing in the place of a bad message, so that the good ones
    keep their offsets.
    """
    shape, *case = KINDS[kind]
    names = "names" in shape
    if not shape.startswith("arrow"):
        value, reason = case
        messages = [text({"user": u, "time": t, "value": v}) for u, t, v in good(names)]
        nothing = json.dumps({"ldp_kafka": 1, "type": "header"}).encode()
        where = {3: 0, 17: 0, len(messages) + 2: 0}
        poisoned, clean = list(messages), list(messages)
        for offset in where:
            poisoned.insert(offset, value)
            clean.insert(offset, nothing)
    else:
        name, cell, reason = case
        poison = {"user": USER, "time": NOW - HOUR, "value": CATEGORY if names else NUMBER} | {
            name: cell
        }
        rows = good(names)
        poisoned, clean, where = [], [], {}
        for offset, start in enumerate(range(0, len(rows), 5)):
            part = list(rows[start : start + 5])
            clean.append(batch(part))
            at = (3 * offset) % 6
            part.insert(at, (poison["user"], poison["time"], poison["value"]))
            poisoned.append(batch(part))
            where[offset] = at
    topology = loads(
        (CATEGORIES if names else NUMERIC).format(
            format="arrow" if shape.startswith("arrow") else "json"
        )
    )
    stamp = [
        [Message(offset, NOW, value) for offset, value in enumerate(values)]
        for values in (poisoned, clean)
    ]
    return topology, *stamp, where, reason


def run(topology, messages, together=1):
    """Through every stage."""
    return local.run(
        topology, edge_randomness(topology, KEY, "here"), [messages], together=together
    )


@cache
def unharmed(kind):
    """A run over the log without the bad input."""
    topology, _, clean, *_ = logs(kind)
    return run(topology, clean)


def everything(records):
    """All bytes of records: values, keys, headers, topics."""
    return b"\n".join(
        part
        for r in records
        for part in (
            r.topic.encode(),
            r.key or b"",
            r.value,
            *(name.encode() + b"=" + value for name, value in r.headers),
        )
    )


@pytest.mark.parametrize("together", [1, 100])
@pytest.mark.parametrize("kind", KINDS)
def test_bad_input_is_one_dead_letter_and_its_neighbours_are_unharmed(
    kind, together, caplog, capfd
):
    """Each kind, through every stage: where and why, never what; all else is byte for byte as if it
    had not been there.
    """
    topology, poisoned, _, where, reason = logs(kind)
    with caplog.at_level(logging.DEBUG):
        found = run(topology, poisoned, together)
    expected = unharmed(kind)
    assert found.reports == expected.reports
    assert found.partials == expected.partials
    assert found.releases == expected.releases
    assert any(len(each) for each in found.reports)
    assert not expected.dead_letters
    assert len(found.dead_letters) == len(where)
    for record, (offset, row) in zip(found.dead_letters, sorted(where.items()), strict=True):
        place = {"topic": topology.raw_topic, "partition": 0, "offset": offset}
        assert (record.topic, record.key) == (topology.dead_letters_topic, None)
        assert json.loads(record.value) == {
            "ldp_kafka": 1,
            "type": "dead_letter",
            **place,
            "row": row,
            "reason": reason,
        }
        connect = {f"__connect.errors.{name}": str(value).encode() for name, value in place.items()}
        assert dict(record.headers) == {
            **connect,
            "ldp.row": str(row).encode(),
            "ldp.reason": reason.encode(),
        }
        assert len(record.headers) == 5
    assert found.counts[f"dead_letters:{reason}"] == len(where)
    assert {
        name: count for name, count in found.counts.items() if not name.startswith("dead_letters")
    } == expected.counts
    for whole in (
        everything(found.dead_letters),
        everything(found.releases),
        everything(found.partials),
        everything(found.reports[0]),
        repr(found.counts).encode(),
        caplog.text.encode(),
        *map(str.encode, capfd.readouterr()),
    ):
        assert not any(mark in whole for mark in MARKS)


@cases(
    "kind", sorted(KINDS.keys() - {"json: a request", "json: a tick ahead"})
)  # records of ours, of nobody's data
def test_no_exception_shows_the_value(kind):
    """Neither its text, nor its repr, nor a traceback of whatever a reader raises, nor the repr of
    what it returns.
    """
    topology, poisoned, _, where, _ = logs(kind)
    message = poisoned[min(where)].value
    edge = make_perturb(topology, 0, edge_randomness(topology, KEY, "here"))
    shown = [repr(edge.reader.read(message))]
    for reader in (
        decode,
        read_reports,
        lambda value: decode_json(parse_json(value)),
        lambda value: (parse_json(value), None)[1],
        lambda value: (read_batch(value), None)[1],
    ):
        if message is None:
            continue
        try:
            shown.append(repr(reader(message)))
        except BadRecord as bad:
            shown += [
                str(bad),
                repr(bad),
                "".join(traceback.format_exception_only(bad)),
                repr(bad.args),
            ]
            shown += ["poison: its context would be shown"] * (
                bad.__context__ is not None and not bad.__suppress_context__
            )
    for each in shown:
        assert not any(mark.decode() in each for mark in MARKS)


def test_two_bad_rows_are_two_dead_letters():
    """In the order of their rows, whatever their reasons; a batch without a good row
    is no report.
    """
    topology = loads(NUMERIC.format(format="arrow"))
    rows = [
        ("", NOW, 1.0),
        ("a", NOW, 1.0),
        (None, NOW, 1.0),
        ("b", NOW + 48 * HOUR, 1.0),
        ("c", NOW, float("nan")),
    ]
    edge = make_perturb(topology, 0, edge_randomness(topology, KEY, "here"))
    folded = edge.fold(edge.fresh(), [Message(5, NOW, batch(rows))])
    bodies = [
        json.loads(record.value)
        for record in folded.records
        if record.topic == topology.dead_letters_topic
    ]
    assert sorted((body["row"], body["reason"]) for body in bodies) == [
        (0, "user"),
        (2, "user"),
        (3, "ahead"),
        (4, "not_finite"),
    ]
    assert {body["offset"] for body in bodies} == {5}
    assert folded.counts["events"] == folded.counts["reports"] == 1
    state = edge.fresh()
    folded = edge.fold(state, [Message(5, NOW, batch([rows[0], rows[2]]))])
    assert [record.topic for record in folded.records] == [topology.dead_letters_topic] * 2
    assert state.watermark == -1


def test_bad_input_moves_no_watermark():
    """A time ahead, or a good time beside a bad value, must not close anybody's slots."""
    topology = loads(NUMERIC.format(format="arrow"))
    edge = make_perturb(topology, 0, edge_randomness(topology, KEY, "here"))
    state = edge.fresh()
    edge.fold(state, [Message(0, NOW, batch([("a", NOW - 9 * HOUR, 1.0)]))])
    before = (state.watermark, state.closed)
    edge.fold(
        state,
        [
            Message(
                1,
                NOW,
                batch([("b", NOW + 25 * HOUR, 1.0), ("", NOW, 1.0), ("c", NOW, float("inf"))]),
            )
        ],
    )
    assert (state.watermark, state.closed) == before


def test_a_record_without_a_timestamp_has_no_ahead():
    """Nothing to compare with; the calendar's end still holds."""
    topology = loads(NUMERIC.format(format="json"))
    edge = make_perturb(topology, 0, edge_randomness(topology, KEY, "here"))
    folded = edge.fold(
        edge.fresh(),
        [Message(0, -1, text({"user": "u", "time": NOW + 99 * 24 * HOUR, "value": 1}))],
    )
    assert folded.counts["reports"] == 1
    folded = edge.fold(
        edge.fresh(), [Message(0, -1, text({"user": "u", "time": 2**52, "value": 1}))]
    )
    assert folded.counts["dead_letters:time"] == 1


@pytest.mark.parametrize("stamp", [2**63 - 1, 2**63 - 24 * HOUR, 2**47, 2**47 - 1])
def test_a_timestamp_at_the_end_of_time_has_no_ahead_either(stamp):
    """A producer may write any number of 64 bits; beside it another message's own holds."""
    topology = loads(NUMERIC.format(format="json"))
    edge = make_perturb(topology, 0, edge_randomness(topology, KEY, "here"))
    event = text({"user": "u", "time": NOW + 99 * 24 * HOUR, "value": 1})
    folded = edge.fold(edge.fresh(), [Message(0, stamp, event), Message(1, NOW, event)])
    assert (folded.counts["reports"], folded.counts["dead_letters:ahead"]) == (1, 1)


def test_exactly_max_ahead_is_allowed():
    """The bound itself is no bad input: as an event, as a row, as a tick."""
    topology = loads(NUMERIC.format(format="json"))
    limit = NOW + 24 * HOUR
    for message in (
        text({"user": "u", "time": limit, "value": 1}),
        batch([("u", limit, 1.0)]),
        text({"ldp_kafka": 1, "type": "tick", "time": limit}),
    ):
        edge = make_perturb(topology, 0, edge_randomness(topology, KEY, "here"))
        state = edge.fresh()
        assert not [
            name
            for name in edge.fold(state, [Message(0, NOW, message)]).counts
            if name.startswith("dead_letters")
        ]
        assert state.watermark == limit


def test_of_two_rows_the_one_beyond_max_ahead_is_refused():
    """To the millisecond, in one batch."""
    topology = loads(NUMERIC.format(format="arrow"))
    edge = make_perturb(topology, 0, edge_randomness(topology, KEY, "here"))
    limit = NOW + 24 * HOUR
    folded = edge.fold(
        edge.fresh(), [Message(0, NOW, batch([("a", limit, 1.0), ("b", limit + 1, 1.0)]))]
    )
    assert [
        json.loads(record.value)["row"]
        for record in folded.records
        if record.topic == topology.dead_letters_topic
    ] == [1]
    assert (folded.counts["reports"], folded.gauges["watermark"]) == (1, limit)


def test_values_outside_the_domain_are_clamped_not_refused():
    """They are counted at the edge, and reported as the domain's end would be."""
    topology = loads(NUMERIC.format(format="arrow"))
    inside = run(topology, [Message(0, NOW, batch([("a", NOW, 100.0), ("b", NOW, 0.0)]))])
    outside = run(topology, [Message(0, NOW, batch([("a", NOW, NUMBER), ("b", NOW, -1e300)]))])
    assert outside.reports == inside.reports
    assert not outside.dead_letters
    assert (inside.counts["clamped"], outside.counts["clamped"]) == (0, 2)


def test_records_do_not_show_values():
    """The repr of what moves between rooms, were it logged."""
    topology = loads(NUMERIC.format(format="arrow"))
    edge = make_perturb(topology, 0, edge_randomness(topology, KEY, "here"))
    decoded = edge.reader.read(batch([(USER, NOW, NUMBER)]))
    state = edge.fresh()
    edge.fold(state, [Message(0, NOW, batch([(USER, NOW, NUMBER)]))])
    for shown in (
        repr(decoded),
        repr(decoded.events),
        repr(decoded.events.users),
        repr(state),
        repr(state.users.state),
        repr(edge),
    ):
        assert not any(mark.decode() in shown for mark in MARKS)
    assert np.array_equal(decoded.events.values, [NUMBER])
