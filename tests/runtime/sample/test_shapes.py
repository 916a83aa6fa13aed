"""What the user sees of messages that are no events: reason, place, what there is instead, and what
may be meant; never a value.
"""

from __future__ import annotations

import json
import struct

import pyarrow as pa
import pytest

from ldp_kafka.runtime.sample.say import as_json, lines
from ldp_kafka.runtime.wire.arrow import write_batch
from ldp_kafka.topology import loads
from tests.cases import cases
from tests.poison import LOUD, TEXT, WHOLE, shown
from tests.runtime.sample.made import HOUR, START, event, topology, verdict

NUMBERS = topology()
NAMED = topology(categories="[still, walk]")


def said_of(of, *messages):
    found = verdict(of, *messages)
    return "\n".join(lines(of, found, "x")), json.dumps(as_json(of, found, "x"))


def plain(**fields):
    return json.dumps(fields).encode()


def batch(**columns):
    return write_batch("event", list(columns), list(columns.values()))


def stream(**columns):
    rows = pa.RecordBatch.from_arrays([*columns.values()], names=[*columns])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    return sink.getvalue().to_pybytes()


# what is sent, and what the user sees of it
BAD = {
    "text for a number": (NUMBERS, event(kwh="2.5"), "1 x value: ", "a number as text (1)"),
    "a decimal comma": (NUMBERS, event(kwh="2,5"), "1 x value: ", "a decimal comma, as text (1)"),
    "a unit": (NUMBERS, event(kwh="2.5 kWh"), "1 x value: ", "there is: text (1)"),
    "null": (NUMBERS, event(kwh=None), "1 x value: ", "there is: null (1)"),
    "a flag": (NUMBERS, event(kwh=True), "1 x value: ", "there is: true or false (1)"),
    "a list": (NUMBERS, event(kwh=[1, 2]), "1 x value: ", "there is: a list (1)"),
    "an object": (NUMBERS, event(kwh={"v": 1}), "1 x value: ", "there is: an object (1)"),
    "NaN": (NUMBERS, b'{"meter":"a","kwh":NaN,"ts":1700000000}', "1 x not_finite: ", "at line 1"),
    "a huge number": (NUMBERS, event(kwh=10**400), "1 x not_finite: ", "there is: a number (1)"),
    "no user": (NUMBERS, plain(kwh=1, ts=START), "1 x user: ", "there is: nothing (1)"),
    "an empty user": (NUMBERS, event(""), "1 x user: ", "there is: empty text (1)"),
    "a long user": (NUMBERS, event("ü" * 200), "1 x user: ", "text of more than 256 bytes (1)"),
    "a user with a point": (
        NUMBERS, event(17.0), "1 x user: ", "a number with a point: write it as text (1)",
    ),
    "a user of 65 bits": (
        NUMBERS, event(2**64), "below 2**64 (17.0 has a point)",
        "a number of 2**64 or more: write it as text (1)",
    ),
    "a clock that is not set": (NUMBERS, event(ts=0), "1 x time: ", "a number that is no epoch"),
    "a day as a number": (NUMBERS, event(ts=20_240_331), "1 x time: ", "a number that is no epoch"),
    "a bare nan": (
        NUMBERS, b'{"meter":"a","kwh":2.5,"ts":1700000000,"temp": -nan}', "1 x not_json: ",
        "a bare nan or inf, as C prints it",
    ),
    "a column of bytes": (
        NUMBERS,
        batch(meter=pa.array([b"a"]), kwh=pa.array([2.5]), ts=pa.array([START])),
        "1 x user: ", "there is: a column of Arrow's binary (1)",
    ),
    "a column of 128 bits": (
        NUMBERS,
        batch(meter=pa.array(["a"]), kwh=pa.array([2.5]), ts=pa.array([START])).replace(
            struct.pack("<i", 64), struct.pack("<i", 128)  # of the one column of whole numbers
        ),
        "1 x not_arrow: ", "a type that pyarrow does not know, such as whole numbers of 128 bits",
    ),
    "a column of spans": (
        NUMBERS,
        batch(meter=pa.array(["a"]), kwh=pa.array([2.5]), ts=pa.array([START], pa.duration("s"))),
        "1 x time: ", "there is: a column of Arrow's duration[s] (1)",
    ),
    "a column of structs": (
        NUMBERS,
        stream(
            meter=pa.array(["a"]), ts=pa.array([START]),
            kwh=pa.DictionaryArray.from_arrays(pa.array([0]), pa.array([{TEXT: 1}])),
        ),
        "1 x value: ", "there is: a column of Arrow's nested type (1)",
    ),
    "half a character": (NUMBERS, event("\ud800"), "1 x user: ", "text with half a character (1)"),
    "a time beyond floats": (NUMBERS, event(ts=10**400), "1 x time: ", "there is: a number (1)"),
    "a time without an end": (NUMBERS, event(ts=1e308) , "1 x time: ", "a number with a point (1)"),
    "microseconds": (NUMBERS, event(ts=START * 1000), "1 x time: ", "input.time_unit: us (1)"),
    "nanoseconds": (NUMBERS, event(ts=START * 10**6), "1 x time: ", "input.time_unit: ns (1)"),
    "seconds as text": (NUMBERS, event(ts="1700000000"), "1 x time: ", "a number as text (1)"),
    "a local date": (NUMBERS, event(ts="14.11.2023 22:00"), "1 x time: ", "there is: text (1)"),
    "another category": (NAMED, event(kwh="run"), "1 x category: ", "there is: text (1)"),
    "another spelling": (NAMED, event(kwh="Walk "), "1 x category: ", "but for upper and lower"),
    "a category's number": (NAMED, event(kwh=1), "1 x category: ", "there is: a number (1)"),
    "avro": (NUMBERS, b"\0\0\0\0\x07" + TEXT.encode(), "1 x not_json: ", "registry's framing (1)"),
    "key and value": (NUMBERS, b"m1\t" + event(), "1 x not_json: ", "print.key=true prints it (1)"),
    "Python": (NUMBERS, b"{'meter': 'a'}", "1 x not_json: ", "single quotes, as Python"),
    "cut off": (NUMBERS, event()[:-5], "1 x not_json: ", "JSON that breaks off"),
    "a comma": (NUMBERS, event() + b",", "1 x not_json: ", "a comma at the end (1)"),
    "CSV": (NUMBERS, b"m1;2.5;1700000000", "1 x not_json: ", "there is: no JSON (1)"),
    "UTF-16": (NUMBERS, event().decode().encode("utf-16"), "1 x not_json: ", "zero bytes"),
    "a mark": (NUMBERS, b"\xef\xbb\xbf" + event(), "1 x not_json: ", "a byte order mark first"),
    "JSON in text": (NUMBERS, json.dumps(event().decode()).encode(), "1 x not_a_record", "JSON w"),
    "an array": (NUMBERS, b"[" + event() + b"]", "1 x not_a_record: ", "there is: a list (1)"),
    "a deletion": (NUMBERS, None, "1 x empty: ", "at line 1"),
    "Arrow's file format": (NUMBERS, b"ARROW1\0\0", "1 x not_json: ", "zero bytes"),
}  # fmt: skip


@cases("kind", BAD)
def test_what_is_seen_of_bad_messages(kind):
    """The reason with its cure, the place, and what there is instead."""
    of, message, reason, found = BAD[kind]
    text, _ = said_of(of, message)
    assert reason in text and found in text and "line 1" in text
    (problem,) = verdict(of, message).problems
    assert problem.reason.cure in text


def test_nan_where_nobody_looks_does_not_matter():
    """A literal of pandas and Python's json: the event counts, and so do its neighbours."""
    for literal in (b"NaN", b"Infinity", b"-Infinity", b"[NaN,1]"):
        good = b'{"meter":"a","kwh":2.5,"ts":1700000000,"temp":' + literal + b"}"
        said, _ = said_of(NUMBERS, good, good.replace(b'"ts":1700000000', b'"ts":NaN'))
        assert "2 messages, 1 of them with events; 1 would be dead letters" in said
        assert "1 x time: " in said
        assert "epoch seconds" in said


@cases("field", ["meter", "kwh", "ts", "other"])
@cases("value", [LOUD, TEXT, WHOLE, [TEXT], {TEXT: LOUD}, -LOUD, TEXT * 100, f"{TEXT},5"])
def test_no_value_is_shown(field, value):
    """Not where it is good, not where it is bad, and no name that a value may be."""
    found = [event(**{"meter": "a", field: value}), plain(**{field: value}), plain(id=value)]
    many = 1 if isinstance(value, dict) else 3  # names in most of several messages are shown
    for message in (*found, json.dumps(value).encode(), TEXT.encode()):
        for text in said_of(NUMBERS, *[message] * many):
            assert not shown(text), text


def test_missing_fields_and_what_may_be_meant():
    """The commonest first stumble: the topology's fields are called otherwise."""
    message = [
        plain(device={"meter_id": f"m{at}", "site": "x"}, reading={"kw_h": 1.5}, timestamp=START)
        for at in range(10)
    ]
    text, _ = said_of(NUMBERS, *message)
    assert "input.user: $.meter is not in 10 of them: did you mean $.device.meter_id?" in text
    assert "input.value: $.kwh is not in 10 of them: did you mean $.reading.kw_h?" in text
    assert "input.time: $.ts is not in 10 of them: did you mean $.timestamp?" in text
    assert (
        "most of these have: $.timestamp, $.device.meter_id, $.device.site, $.reading.kw_h\n"
        in text
    )


def test_a_field_of_no_like_name_is_told_by_the_usual_words():
    """And a name that another field is read from is no candidate."""
    text, _ = said_of(NUMBERS, *[plain(id="a", kwh=1.5, ts=START)] * 3)
    assert "input.user: $.meter is not in 3 of them: did you mean $.id?" in text
    text, _ = said_of(NUMBERS, *[plain(a="a", kwh=1.5, ts=START)] * 3)
    assert "input.user: $.meter is not in 3 of them\n" in text


def test_names_are_those_of_most_messages():
    """An object whose names are ids of users shows none of them; nor does a single message."""
    found = [
        plain(readings={f"house{at}a": 1, "x" * 70: 2, "a@b.c": 3, "49170123": 4}, unit="kWh")
        for at in range(10)
    ]
    names = verdict(NUMBERS, *found).names
    assert names == ["$.unit"]
    assert verdict(NUMBERS, found[0]).names == []
    assert verdict(NUMBERS, *found[:2]).names == ["$.unit"]
    wide = plain(**{f"column{chr(97 + at)}": at for at in range(26)})
    assert len(verdict(NUMBERS, wide, wide).names) == 20


def test_columns_of_a_batch_that_lacks_one_are_named():
    """As the fields of an object are."""
    columns = [pa.array(["a"]), pa.array([1.5]), pa.array([START])]
    message = write_batch("event", ["meter_id", "kwh", "ts"], columns)
    text, _ = said_of(NUMBERS, message, message)
    assert "2 x user: " in text
    assert "input.user: $.meter is not in 2 of them: did you mean $.meter_id?" in text


@pytest.mark.parametrize("number", [1, 3])
def test_it_is_said_for_whom_it_is(number):
    """In both forms, also where nothing is wrong."""
    for text in said_of(NUMBERS, *[event()] * number):
        assert "for the edge's own eyes" in text


def test_the_lines_of_good_messages():
    """As a whole."""
    found = [event(f"m{at % 4}", kwh=at, ts=START + at // 4 * 3_600_000) for at in range(12)]
    text, _ = said_of(NUMBERS, *found, event("m1", ts=START + 2 * 3_600_000))
    head, users, times, slots, values, _ = text.splitlines()
    assert head == "x: 13 messages, 13 of them with events"
    assert users == "  users   4 ids of 2 bytes: other text"
    assert times == (
        "  times   epoch milliseconds; events in 3 slots of 1h, the first from"
        " 2023-11-14T22:00:00Z, the last from 2023-11-15T00:00:00Z"
    )
    assert slots == (
        "  slots   1.08 events of a user in a slot with any, at most 2; 1 are not their user's"
        " first in the slot: dropped (input.per_slot: first)"
    )
    assert values == "  values  1 of 13 (7.6 %) lie outside the domain, and are clamped to it"


def test_what_a_count_is_compared_with_is_said():
    """The values behind it lie outside the domain, and the counts do not."""
    text, _ = said_of(topology("partitions: 1, per_slot: count"), *[event(kwh=99)] * 3)
    assert (
        "  values  0 of 1 slot of a user (0 %) come to a value outside the domain"
        " (input.per_slot: count), which is clamped to it\n" in text
    )


def test_a_field_that_most_messages_have_is_what_is_meant():
    """Where few lack it, and nothing else is like it, no other name is offered, nor its own."""
    few = [plain(meter="a", ts=START), plain(meter="a", kwh=1)]
    text, _ = said_of(NUMBERS, *few, plain(kwh=1, ts=START))
    assert "input.value: $.kwh is not in 1 of them\n" in text
    assert "did you mean" not in text


def test_arrays_of_events():
    """Rows are named, and looked at one by one; what is around them may hold a field."""
    of = loads(
        """
topology: meters
input: {slot: 1h, events: $.readings, user: ^.meter, value: $.kwh, time: $.ts, time_unit: us}
privacy: {method: sw_direct, epsilon: 2.0, window: 4, domain: [0, 10]}
output: {statistics: [mean]}
"""
    )
    rows = [{"kwh": 1, "ts": START * 1000}, {"kwh": "x", "ts": START * 1000}, {"kwh": 1}, 3]
    text, _ = said_of(of, plain(meter="a", readings=rows), plain(meter="a", readings={}))
    assert "2 messages, 1 of them with events; 4 would be dead letters" in text
    assert "at line 1 row 1\n      there is: text (1)" in text
    assert "at line 1 row 2\n      there is: nothing (1)" in text
    assert "at line 1 row 3\n      there is: a number (1)" in text
    assert "1 x events: " in text and "at line 2\n      there is: an object (1)" in text
    assert "input.time: $.ts is not in 1 of them\n" in text
    assert "numbers of us" in text


def test_a_user_of_several_fields():
    """Each is looked at by itself."""
    of = loads(
        """
topology: meters
input: {slot: 1h, user: [$.site, $.meter], value: $.kwh, time: $.ts}
privacy: {method: sw_direct, epsilon: 2.0, window: 4, domain: [0, 10]}
output: {statistics: [mean]}
"""
    )
    good = [plain(site="a", meter=at, kwh=1, ts=START) for at in range(5)]
    lacking = [plain(site="a", metre=at, kwh=1, ts=START) for at in range(3)]
    text, said = said_of(of, *good, *lacking, plain(site="a", meter=7.5, kwh=1, ts=START))
    assert "there is: nothing (3); a number with a point: write it as text (1)" in text
    assert "input.user[1]: $.meter is not in 3 of them: did you mean $.metre?" in text
    assert "users   5 ids of 9 bytes" in text and json.loads(said)["bad"] == 4


def test_late_events_come_with_a_cure():
    """The lateness that would do; where there is none, that; and messages that hold many slots."""
    hours = [0, 5, 1, 2]
    text, said = said_of(NUMBERS, *(event(ts=START + hour * HOUR) for hour in hours))
    assert (
        "  late    2 come when their slot is closed (input.lateness: 1): not reported, in the order"
        " of these messages\n      input.lateness: 4 would take all of them; a slot would close 3"
        " slots later, and what waits for that be released so much later\n"
    ) in text
    assert "several slots" not in text
    assert json.loads(said)["slots"]["lateness"] == 4
    assert json.loads(said)["lost_share"] == 0.5
    far = said_of(NUMBERS, event(ts=START), event(ts=START - 1001 * HOUR))[0]
    assert "up to 1,001 slots late, and input.lateness is at most 1,000: send events in the" in far
    of = loads(
        "topology: m\n"
        "input: {slot: 1h, events: $, user: $.meter, value: $.kwh, time: $.ts}\n"
        "privacy: {method: sw_direct, epsilon: 2.0, window: 4, domain: [0, 10]}\n"
        "output: {statistics: [mean]}\n"
    )
    days = [[json.loads(event(at, ts=START + hour * HOUR)) for hour in range(24)] for at in "ab"]
    text, said = said_of(of, *(json.dumps(day).encode() for day in days))
    assert "late    22 come" in text and "input.lateness: 23 would take all" in text
    assert "2 messages with events of several slots: the latest of these closes slots" in text
    assert json.loads(said)["slots"]["several"] == 2


@pytest.mark.parametrize(
    ("declared", "time", "name"),
    [
        ("us", START, "milliseconds"),
        ("us", str(START), "milliseconds"),
        ("s", START * 1000, "microseconds"),
        ("ms", START // 1000, "seconds"),
        ("ns", START * 1000, "microseconds"),
        ("ms", START * 10**6 + 0.5, "nanoseconds"),
    ],
)
def test_times_of_another_unit_than_the_declared_one_are_named(declared, time, name):
    of = topology(f"partitions: 1, time_unit: {declared}")
    text, _ = said_of(of, event(ts=time), event(ts=7))
    assert f"a number as of epoch {name} (input.time_unit says {declared}) (1)" in text
    assert "; a number that is no epoch: " in text


ARRAYS = loads(
    "topology: m\n"
    "input: {slot: 1h, events: $.readings, user: ^.meter, value: $.kwh, time: $.ts}\n"
    "privacy: {method: sw_direct, epsilon: 2.0, window: 4, domain: [0, 10]}\n"
    "output: {statistics: [mean]}\n"
)


def test_names_around_an_array_are_those_of_messages():
    """Of most of them, as ^.name; none of a single message, however many rows lack the field."""
    rows = [{"kwh": 1, "ts": START}] * 3

    def found(at):
        return plain(device={"meter_id": f"m{at}"}, **{f"house{at}a": 1}, readings=rows)

    text, _ = said_of(ARRAYS, *map(found, range(4)))
    assert "input.user: ^.meter is not in 12 of them: did you mean ^.device.meter_id?" in text
    assert "most of these have: ^.device.meter_id, $.kwh, $.ts\n" in text
    assert "^" not in "".join(verdict(ARRAYS, found(1)).names)


def test_each_message_is_named_once():
    """However many of its rows are bad, and the first of these."""
    rows = [{"kwh": 1, "ts": START}] * 3
    good = plain(meter="a", readings=[*rows, {"kwh": "x", "ts": START}])
    text, _ = said_of(ARRAYS, *[plain(readings=rows)] * 6, good)
    assert "at line 1 row 0 and 2 more rows, line 2 row 0 and 2 more rows, line 3" in text
    assert "line 5 row 0 and 2 more rows, ...\n" in text
    assert "at line 7 row 3\n" in text
    text, _ = said_of(ARRAYS, plain(readings=rows))
    assert "at line 1 row 0 and 2 more rows\n" in text


def test_a_path_through_an_array_is_told_from_one_that_leads_nowhere():
    """With what to set; not where its elements have no such field, or the path is right."""
    of = loads(
        "topology: m\n"
        "input: {slot: 1h, user: $.meter, value: $.a.readings.vol.l, time: $.ts}\n"
        "privacy: {method: sw_direct, epsilon: 2.0, window: 4, domain: [0, 10]}\n"
        "output: {statistics: [mean]}\n"
    )
    rows = [{"vol": {"l": 1}, "ts": START}] * 2
    text, said = said_of(of, *[plain(meter="a", ts=START, a={"readings": rows})] * 2)
    assert (
        "$.a.readings is an array of objects: set input.events: $.a.readings, and input.value:"
        " $.vol.l; what lies around the array begins with ^ then\n"
    ) in text
    assert json.loads(said)["missing"][0]["events"] == "$.a.readings"
    for other in ([{"vol": 1}], [], [3]):
        text, _ = said_of(of, *[plain(meter="a", ts=START, a={"readings": other})] * 2)
        assert "input.value: $.a.readings.vol.l is not in 2" in text
        assert "input.events" not in text
