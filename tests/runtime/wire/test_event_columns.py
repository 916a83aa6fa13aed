"""Many small messages read as columns: the same events, bad rows and ticks as one by one."""

from __future__ import annotations

import json
import random
import secrets
from collections import Counter

import numpy as np
import pytest

from ldp_kafka import Event, Tick, encode
from ldp_kafka.errors import Reason
from ldp_kafka.runtime.wire import event_json, parsing, plain_json
from ldp_kafka.runtime.wire.decoded_run import join_runs
from ldp_kafka.runtime.wire.event_columns import plain_runs
from ldp_kafka.runtime.wire.events import EventReader
from ldp_kafka.runtime.wire.parsing import DEEPEST
from tests.depth import depth

MESSAGES = depth(8_000, 15_000)  # of each shape: one in 500 or more is bad for each reason
NAMES = ("on", "off", "é")
STATUSES = ("404", "true", "2.5", "é", "18446744073709551615")
READERS = {
    "flat": EventReader(("user",), ("value",), ("time",)),
    "nested": EventReader(("id", "user"), ("r", 1, "value"), ("at", "time")),
    "first": EventReader((0,), ("value",), ("time",)),
    "names": EventReader(("user",), ("value",), ("time",), NAMES),
    "statuses": EventReader(("user",), ("value",), ("time",), STATUSES),
    "status pairs": EventReader(("user",), ("value",), ("time",), STATUSES, 2),
    "numbers": EventReader(("user",), ("value",), ("time",), 7),
    "vector": EventReader(("user",), ("value",), ("time",), None, 2),
    "codes": EventReader(("user",), ("value",), ("time",), 3, 2),
    "seconds": EventReader(("user",), ("value",), ("time",), time_unit="s"),
    "microseconds": EventReader(("user",), ("value",), ("time",), time_unit="us"),
    "nanoseconds": EventReader(("user",), ("value",), ("time",), time_unit="ns"),
    "parts": EventReader((), ("value",), ("time",), parts=(("user",), ("more",))),
    "coerced": EventReader(("user",), ("value",), ("time",), coerce=True),
    "coerced numbers": EventReader(("user",), ("value",), ("time",), 7, coerce=True),
    "coerced vector": EventReader(("user",), ("value",), ("time",), None, 2, coerce=True),
}
NUMBERS = [
    "0", "-0", "1", "6", "7", "-1", "2.5", "-0.0", "1e3", "1E400", "-1e400", "1e-400", "0.1", "1.0",
    "9007199254740993", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
    "-9223372036854775809", "18446744073709551615", "18446744073709551616", "1" + "0" * 308,
    "1" + "0" * 309, "1" * 4301, "179769313486231580793728971405301e277", "4.9e-324", "2e-324",
    "01", "1.", ".5", "+1", "1e", "NaN", "Infinity", "-Infinity", "0x1", "1_0",
    "0.30000000000000004", "1.7976931348623157e308", "2.2250738585072011e-308",
]  # fmt: skip
TIMES = [
    "100000000", "1700000000", "1700000000.3", "1700000000123", "1700000000123.9", "99999999999",
    "100000000000", "140737488355327", "140737488355328", "-1", "1e12", "-0", "-0.0", "0",
    "20240331", "99999999", "99999999.999999", "1e8", '"2023-11-14T24:00Z"', '"2023-11-14T10.5"',
    '"2023-11-14T22:13:20Z"', '"2023-11-14"', '"2023-11-14T22:13:20.5+01:00"', '"x"', '""',
    '"1969-12-31T23:59:59Z"', '"9999-12-31T00:00:00Z"', '"2023-11-14T22:13:20\\u0000"',
]  # fmt: skip
DECLARED = {
    "seconds": ["1700000000", "1700000000.3", '"1700000000"', '"1700000000.123"', "140737488355"],
    "microseconds": [
        "1700000000123456", "1.7e15", '"1700000000123456"', '"1700000000123999.99999999999"',
        '"2023-11-14"',
    ],
    "nanoseconds": [
        *["1700000000123456789", "1.7e18", '"1700000000123456789"'] * 40, "9223372036854775808",
        "18446744073709551615", "18446744073709551616", "20000001599999999999", "2.5e19",
    ],
}  # fmt: skip
TEXTS = [
    '"m1"', '"é"', '"\\u00e9"', '"\\ud83d\\ude00"', '"\\ud800"', '"\\udc00\\ud800"', '""', '"on"',
    '"\\u0000"', '"a\\nb"', '"a\nb"', '"\\x41"', '"\x7f"', json.dumps("x" * 256),
    json.dumps("x" * 257), json.dumps("é" * 128), json.dumps("é" * 129, ensure_ascii=False),
]  # fmt: skip
OTHERS = [
    "true", "false", "null", "{}", "[]", "[1]", "[1,2]", "[0,2]", "[1,2,3]", "[1,true]", '[1,"2"]',
    "[[1,2]]", '{"user":"m1"}', '[0,{"value":3}]', "[NaN,1]", "[1.5,2]", "[1e400,1]", '["on"]',
    "[" * (DEEPEST - 1) + "]" * (DEEPEST - 1), "[" * DEEPEST + "]" * DEEPEST,
    "[" * 1020 + "]" * 1020, "[" * 5000 + "]" * 5000, json.dumps("[" * 300),
    '{"a":' * 200 + "1" + "}" * 200,
]  # fmt: skip
TOKENS = [b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"\n", b"\x00", b"\xff", b"\xc3\xa9",
          b"\xed\xa0\x80", b"\xc0\x80", b"\xef\xbb\xbf", b" ", b"\t", b"\x0c", b"1", b"-", b"e",
          b"NaN", b"{}", b"\\u", b"null", b'"ldp_kafka":1,', b"\xff\xff\xff\xff"]  # fmt: skip
OURS = [
    b"", b" ", b"{}", b"[]", b"1", b'"x"', b"null", b"{}{}", b'{"a":1}\n{"a":2}',
    b"\xff\xff\xff\xff",
    encode(Tick(1_700_000_000_000)), encode(Event("m1", 1_700_000_000_000, 2.5)),
    encode([Event("m1", 1_700_000_000_000, 2.5), Event("m2", 1_700_000_000_000, 1.5)]),
    b'{"ldp_kafka":2,"type":"tick","time":3}', b'{"ldp_kafka":1,"type":"tick","time":-3}',
    b'{"ldp_kafka":1,"user":"m1","time":1700000000,"value":1}',
    b'{"ldp_kafka":1,"type":"header","topology":"t","fingerprint":"f","layout":"l"}',
]  # fmt: skip


PLAIN = {
    "names": ['"on"', '"\\u00e9"'], "numbers": ["0", "6"], "codes": ["[1,2]", "[0,2]"],
    "statuses": [
        *["404", '"404"', "true", '"2.5"', '"e\\u0301"', "18446744073709551615"] * 40,
        "2.5", "404.0", "4.04e2", "18446744073709551616", "1.8446744073709552e19",
    ],
    "status pairs": ['[404,"404"]', '[true,"\\u00e9"]', '["2.5",404]', "[404,true]"],
    "vector": ["[1,2]", "[1.5,2]", "[-0.0,9007199254740993]"],
    "coerced": [*NUMBERS[:9], *map(json.dumps, NUMBERS[:9])],
    "coerced numbers": ["0", '"6"', '"0"'],
    "coerced vector": ["[1,2]", '["1.5",2]', '["-0.0","9007199254740993"]'],
}  # fmt: skip
"""Values of each shape that are good, most of them."""
ANY = {
    "user": TEXTS + NUMBERS + OTHERS,
    "time": TIMES + NUMBERS + TEXTS + OTHERS + [*map(json.dumps, TIMES), *DECLARED["seconds"]],
    "value": NUMBERS + TEXTS + OTHERS + [*map(json.dumps, NUMBERS)],
    "more": OTHERS + NUMBERS + TEXTS,
}


def _message(dice, shape):
    """One message, most of them plain."""
    usual = dice.random() < 0.85
    user = dice.choice(TEXTS[:4] if usual else ANY["user"])
    time = dice.choice(DECLARED.get(shape, TIMES[:7]) if usual else ANY["time"])
    value = dice.choice(PLAIN.get(shape, NUMBERS[:9]) if usual else ANY["value"])
    if dice.random() < 0.03:
        value = dice.choice(["NaN", "Infinity", "-Infinity", "[NaN,1]", "[2,Infinity]"])
    if shape == "nested":
        fields = [
            f'"id":{{"user":{user}}}',
            f'"r":[0,{{"value":{value}}}]',
            f'"at":{{"time":{time}}}',
        ]
    else:
        fields = [f'"user":{user}', f'"value":{value}', f'"time":{time}']
    if shape == "parts" and usual:
        fields.append('"more":' + dice.choice(['"1"', '"m1"', '"é"']))
    elif dice.random() < 0.2:
        fields.append(f'"more":{dice.choice(ANY["more"])}')
    if dice.random() < 0.1:
        fields.append(dice.choice(fields))
    if dice.random() < 0.05:
        fields.pop(dice.randrange(len(fields)))
    dice.shuffle(fields)
    space = dice.choice(["", "", " ", "\n"])
    return f"{space}{{{f',{space}'.join(fields)}}}{space}".encode("utf-8", "surrogatepass")


def mutated(dice, message):
    for _ in range(dice.choice([0] * 8 + [1, 1, 2, 5])):
        a, b = sorted(dice.randrange(len(message) + 1) for _ in range(2))
        message = dice.choice(
            [
                message[:a] + dice.choice(TOKENS) + message[a:],
                message[:a] + message[a + 1 :],
                message[:a] + bytes([dice.randrange(256)]) + message[a + 1 :],
                message[:b] + message[a:],
                message[:a],
            ]
        )
    return message


def _said(run):
    """All that a run says, down to the bits of each value."""
    events = run.events
    columns = (
        None
        if events is None
        else (
            events.users.texts(),
            events.times.dtype,
            events.times.tolist(),
            events.values.dtype,
            events.values.shape,
            events.values.tobytes(),
        )
    )
    return (
        columns, run.message.tolist(), run.row.tolist(), sorted(run.bad, key=lambda bad: bad[0]),
        sorted(run.ticks),
    )  # fmt: skip


def _one_by_one(reader, messages):
    return join_runs([], [(at, reader.read(message)) for at, message in enumerate(messages)])


@pytest.mark.parametrize("shape", READERS)
def test_what_is_read_as_columns_is_what_is_read_one_by_one(shape, monkeypatch):
    """Generated, mutated, in runs of any length."""
    careful = Counter()
    read = EventReader.read

    def counted(self, message):
        careful[counting] += 1
        return read(self, message)

    monkeypatch.setattr(EventReader, "read", counted)
    seed = secrets.randbits(32)
    dice, reader, left, reasons, found = random.Random(seed), READERS[shape], MESSAGES, Counter(), 0
    while left > 0:
        n = min(left, dice.choice([1, 2, 3, 7, 64, 500]))
        left -= n
        messages = [
            dice.choice([*OURS, None])
            if dice.random() < 0.05
            else mutated(dice, _message(dice, shape))
            for _ in range(n)
        ]
        counting = "as columns"
        columns = reader.read_run(messages)
        counting = "one by one"
        expected = _one_by_one(reader, messages)
        assert _said(columns) == _said(expected), (seed, messages)
        reasons.update(reason for _, _, reason in expected.bad)
        if reader._fields.count is not None:  # NaN is no number of a category ...
            odd = [messages[at] for at, _, reason in expected.bad if reason is Reason.NOT_FINITE]
            assert all(b"ldp_kafka" in each for each in odd), (seed, odd)  # ... but in our records
        found += len(expected.row)
    assert careful["one by one"] == MESSAGES
    if shape == "first":  # an object has no first element: all are bad
        assert reasons.keys() >= {Reason.USER}
        return
    # both paths were taken, and what is bad is bad for every reason there is
    assert found > MESSAGES / 4
    assert MESSAGES / 8 < careful["as columns"] < 0.75 * MESSAGES
    assert reasons.keys() >= {
        Reason.EMPTY, Reason.NOT_JSON, Reason.NOT_A_RECORD, Reason.USER, Reason.TIME, Reason.VALUE,
        Reason.VERSION,
    }  # fmt: skip
    assert Reason.NOT_FINITE in reasons or reader._fields.count is not None


@pytest.mark.parametrize(
    ("reader", "message"),
    [
        # 65 bits: a float where numbers have 64
        (READERS["flat"], b'{"user":-9223372036854775809,"value":1,"time":1700000005}'),
        # a text has a first element as a list has
        (
            EventReader(("user",), ("r", 0), ("time",), ("a",)),
            b'{"user":"m1","r":"ab","time":1700000005}',
        ),
    ],
)
def test_what_is_not_plain_is_read_by_itself(reader, message):
    """Where the two parsers differ, the strict one decides."""
    assert event_json.read_plain([message], reader._fields) == []
    assert _said(reader.read_run([message])) == _said(_one_by_one(reader, [message]))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), True, None])
def test_no_parser_could_say_what_is_no_number(value):
    """Also if one did not refuse NaN."""
    record = {"user": "m1", "time": 1_700_000_005, "value": value}
    assert plain_runs([record], READERS["flat"]._fields) == []
    [(events, places, _)] = plain_runs([{**record, "value": 1}], READERS["flat"]._fields)
    assert (events.values.tolist(), places.tolist()) == ([1.0], [0])


def test_messages_are_never_joined():
    """A message that holds two objects, or a newline, is one bad message."""
    reader = READERS["flat"]
    event = b'{"user":"m1","time":1700000000,"value":1}'
    for joint in (b"", b"\n", b","):
        run = reader.read_run([event, event + joint + event, event])
        assert run.message.tolist() == [0, 2]
        assert run.bad == [(1, 0, Reason.NOT_JSON)]


@pytest.mark.parametrize("opens", ["[", '{"a":'])
def test_depth_has_a_limit_of_its_own(opens):
    """So that what is read does not depend on how deep the caller is, as Python's limit does."""
    shuts = "]" if opens == "[" else "}"
    reader = READERS["flat"]

    def message(levels):
        inner = opens * levels + "1" + shuts * levels
        return f'{{"user":"m1","time":1700000000,"value":1,"more":{inner}}}'.encode()

    def read(levels, stack=0):
        return read(levels, stack - 1) if stack else reader.read(message(levels)).bad

    for stack in (0, 600):
        assert read(DEEPEST - 1, stack) == ()
        assert read(DEEPEST, stack) == read(600, stack) == [(0, Reason.NOT_JSON)]
    run = reader.read_run([message(levels) for levels in (1, DEEPEST - 1, DEEPEST, 900)])
    assert run.message.tolist() == [0, 1]
    assert [at for at, _, _ in run.bad] == [2, 3]
    # what stands in a text is no level, and of a name that occurs twice the last one counts
    text = json.dumps(
        {"user": "m1", "time": 1_700_000_005, "value": 1, "more": opens * 500}
    ).encode()
    assert reader.read(text).bad == ()


def test_short_messages_cannot_be_too_deep():
    """What is not looked at for its depth has too few bytes for it."""
    shortest = b"[" * (DEEPEST + 1) + b"]" * (DEEPEST + 1)
    assert len(shortest) > plain_json.SHORT
    assert parsing.maybe_deep(shortest)


def test_a_run_shows_no_value():
    run = READERS["flat"].read_run([b'{"user":"m77","time":1700000000,"value":4321.5}'] * 2)
    assert repr(run) == "DecodedRun(2 events, 0 bad rows)"
    assert np.array_equal(run.events.values, [4321.5, 4321.5])


def test_nanoseconds_beyond_64_bits_keep_each_digit():
    """Whatever is read with it: one nanosecond before a slot ends is within it."""
    reader = READERS["nanoseconds"]
    end = 5_555_556 * 3_600_000
    texts = [
        json.dumps({"user": "m1", "time": time, "value": 1}).encode()
        for time in (end * 10**6 - 1, 1_700_000_000 * 10**9, end * 10**6)
    ]
    assert end * 10**6 > 2**64
    assert [int(reader.read(text).events.times[0]) for text in texts][::2] == [end - 1, end]
    for n in (1, 4):
        assert reader.read_run(texts * n).events.times.tolist() == [
            end - 1, 1_700_000_000_000, end,
        ] * n  # fmt: skip
