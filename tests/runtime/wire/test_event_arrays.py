"""``input.events``: many events in one JSON message, each an event or a dead letter by itself."""

from __future__ import annotations

import json
import random
import secrets
import sys
from collections import Counter

import pytest

from ldp_kafka import Tick, encode
from ldp_kafka.errors import Reason, TopologyError
from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.runtime.local import run
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.partitioning import partitions_of
from ldp_kafka.runtime.replay import from_arrays, messages
from ldp_kafka.runtime.wire import event_columns, event_json
from ldp_kafka.runtime.wire.events import EventReader, event_reader
from ldp_kafka.runtime.wire.parsing import DEEPEST
from ldp_kafka.topology import loads, plan
from ldp_kafka.topology.paths import OUTER
from tests.runtime.wire.test_event_columns import (
    NUMBERS,
    OTHERS,
    OURS,
    TEXTS,
    TIMES,
    _one_by_one,
    _said,
    mutated,
)
from tests.runtime.wire.test_events import NOON, arrow, outcome

READERS = {
    "whole": EventReader(("user",), ("value",), ("time",), events=()),
    "inner": EventReader(("user",), ("value",), ("time",), events=("r", 0)),
    "around": EventReader((OUTER, "m", "id"), ("value",), ("time",), events=("r",)),
    "times around": EventReader(("user",), ("value",), (OUTER, "time"), 7, events=("r",)),
    "parts": EventReader(
        (), ("value",), ("time",), events=("r",), parts=((OUTER, "m", "id"), ("user",))
    ),
    "coerced": EventReader(
        (OUTER, "m", "id"), ("value",), ("time",), events=("r",), coerce=True, time_unit="s"
    ),
}
WRAPS = {
    "whole": "[{}]",
    "inner": '{{"r":[[{}],1]}}',
    "around": '{{"m":{{"id":{user}}},"r":[{}]}}',
    "times around": '{{"time":{time},"r":[{}]}}',
    "parts": '{{"m":{{"id":{user}}},"r":[{}]}}',
    "coerced": '{{"m":{{"id":{user}}},"r":[{}]}}',
}
TEXT = """
topology: meters
input: {{slot: 1h, partitions: {partitions}, {more}}}
privacy: {{method: sw_direct, epsilon: 2.0, window: 4, domain: [0, 100]}}
output: {{statistics: [mean]}}
"""


def topology(more="events: $.readings, user: ^.meter, time: $.ts, value: $.kwh", partitions=1):
    return loads(TEXT.format(more=more, partitions=partitions))


def _element(dice, usual):
    """One element, most of them events."""
    if not usual and dice.random() < 0.3:
        return dice.choice([*OTHERS[:11], *NUMBERS[:3], '"x"'])
    user, time, value = (
        dice.choice(pool[:most] if usual else [*NUMBERS, *TEXTS, *OTHERS[:17], *TIMES])
        for pool, most in ((TEXTS, 4), (TIMES[1:], 2), (["1", "6", "0"], 3))
    )
    fields = [f'"user":{user}', f'"value":{value}', f'"time":{time}']
    if dice.random() < 0.1:
        fields.append(f'"more":{dice.choice(OTHERS[:17])}')
    if not usual and dice.random() < 0.2:
        fields.pop()
    dice.shuffle(fields)
    return f"{{{','.join(fields)}}}"


def _message(dice, shape):
    usual = dice.random() < 0.8
    elements = [
        _element(dice, usual or dice.random() < 0.7)
        for _ in range(dice.choice([0, 1, 1, 2, 5, 60]))
    ]
    fill = {"user": '"m1"', "time": "1700000000"}
    if dice.random() < 0.1:
        fill = {"user": dice.choice(TEXTS + OTHERS[:17]), "time": dice.choice(TIMES)}
    shape = shape if dice.random() < 0.97 else dice.choice(list(WRAPS))
    return WRAPS[shape].format(",".join(elements), **fill).encode("utf-8", "surrogatepass")


@pytest.fixture
def digits():
    """Sets how many digits of a whole number Python reads; puts the setting back."""
    before = sys.get_int_max_str_digits()
    yield sys.set_int_max_str_digits
    sys.set_int_max_str_digits(before)


@pytest.mark.parametrize("most", [0, 640, 4300])
def test_a_number_of_many_digits_is_bad_by_itself(most, digits):
    """Whatever Python's own limit is, which an environment sets: two workers read one log."""
    digits(most)
    many = "9" * 5000
    told = [
        (f'"a","value":{many},"time":{NOON}', Reason.NOT_FINITE),
        (f'"a","value":1,"time":{many}', Reason.TIME),
        (f'{many},"value":1,"time":{NOON}', Reason.USER),
    ]
    rows = [f'{{"user":{row}}}' for row, _ in told]
    fine = [f'{{"user":"b","value":2,"time":{NOON},"other":{sign}{many}}}' for sign in ("", "-")]
    reader = READERS["whole"]
    for text in (f"[{','.join([*rows, *fine])}]", f"[{','.join([*fine, *rows])}]"):
        found = reader.read(text.encode())
        assert found.events.users.texts() == ["b", "b"]
        assert Counter(reason for _, reason in found.bad) == Counter(why for _, why in told)


@pytest.mark.parametrize("shape", READERS)
def test_what_is_read_as_columns_is_what_is_read_one_by_one(shape, monkeypatch):
    """Generated, mutated, in runs of any length, ticks and other records of ours among them."""
    careful = Counter()
    read = EventReader.read

    def counted(self, message):
        careful[counting] += 1
        return read(self, message)

    monkeypatch.setattr(EventReader, "read", counted)
    seed = secrets.randbits(32)
    dice, reader, left, reasons, found = random.Random(seed), READERS[shape], 3_000, Counter(), 0
    while left > 0:
        n = min(left, dice.choice([1, 2, 7, 64]))
        left -= n
        batch = [
            dice.choice([*OURS, None])
            if dice.random() < 0.1
            else mutated(dice, _message(dice, shape))
            for _ in range(n)
        ]
        counting = "as columns"
        columns = reader.read_run(batch)
        counting = "one by one"
        expected = _one_by_one(reader, batch)
        assert _said(columns) == _said(expected), (seed, batch)
        reasons.update(reason for _, _, reason in expected.bad)
        found += len(expected.row)
    assert careful["one by one"] == 3_000
    assert careful["as columns"] < 2_500
    assert found > 10_000
    assert reasons.keys() >= {
        Reason.EMPTY, Reason.NOT_JSON, Reason.NOT_A_RECORD, Reason.EVENTS, Reason.USER,
        Reason.TIME, Reason.VALUE,
    }  # fmt: skip


def test_bad_elements_are_bad_by_themselves():
    """Each has its row and its reason; the user around them may be what is bad."""
    made = topology()
    rows = [
        {"ts": NOON, "kwh": 1.5}, {"ts": NOON}, 7, {"ts": "x", "kwh": 1}, {"ts": NOON, "kwh": "2"},
        {"ts": NOON + 1, "kwh": 2.5},
    ]  # fmt: skip
    message = json.dumps({"meter": 17, "readings": rows}).encode()
    expected = [
        ("17", NOON, 1.5), Reason.VALUE, Reason.NOT_A_RECORD, Reason.TIME, Reason.VALUE,
        ("17", NOON + 1, 2.5),
    ]  # fmt: skip
    assert outcome(event_reader(made).read(message), 6) == expected
    for meter in ({}, {"meter": ""}, {"meter": [1]}):
        lost = json.dumps({**meter, "readings": rows[:1] * 2}).encode()
        assert event_reader(made).read(lost).bad == [(0, Reason.USER), (1, Reason.USER)]


@pytest.mark.parametrize(
    ("message", "bad"),
    [
        (b"{}", [(0, Reason.EVENTS)]),
        (b"[]", [(0, Reason.EVENTS)]),
        (b"7", [(0, Reason.EVENTS)]),
        (b'{"meter":"a","readings":{}}', [(0, Reason.EVENTS)]),
        (b'{"meter":"a","ts":1700000000,"kwh":1}', [(0, Reason.EVENTS)]),
        (b'{"meter":"a","readings":[]}', []),
        (b'{"ldp_kafka":2,"meter":"a","readings":[]}', [(0, Reason.VERSION)]),
        (b'{"ldp_kafka":1,"type":"report"}', [(0, Reason.WRONG_FIELDS)]),
    ],
)
def test_messages_without_events(message, bad):
    reader = event_reader(topology())
    assert (reader.read(message).events, reader.read(message).bad) == (None, bad)
    run_of = reader.read_run([message] * 6)
    assert run_of.events is None
    assert len(run_of.bad) == 6 * len(bad)


def test_ticks_lie_between_arrays():
    reader = event_reader(topology("events: $"))
    event = json.dumps([{"user": "a", "value": 1, "time": NOON}] * 2).encode()
    found = reader.read_run([event, encode(Tick(NOON)), event])
    assert found.message.tolist() == [0, 0, 2, 2]
    assert found.row.tolist() == [0, 1, 0, 1]
    assert found.ticks == [(1, NOON)]
    batch = arrow({"user": ["b"], "time": [NOON], "value": [1.0]})
    assert reader.read(batch).events.users.texts() == ["b"]
    assert event_reader(topology()).read(batch).bad == [(0, Reason.USER)]


def test_an_array_has_a_limit(monkeypatch):
    """Elements of two bytes would be a million dead letters in one message."""
    monkeypatch.setattr(event_json, "MOST", 3)
    monkeypatch.setattr(event_columns, "MOST", 3)
    reader = event_reader(topology("events: $"))
    event = {"user": "a", "value": 1, "time": NOON}
    for n, bad in ((3, []), (4, [(0, 0, Reason.TOO_LARGE)])):
        assert reader.read_run([json.dumps([event] * n).encode()]).bad == bad


def test_long_arrays_are_read_as_columns(monkeypatch):
    """Many brackets are no depth; what is too deep is bad all the same."""
    reader = event_reader(topology("events: $"))
    event = {"user": "a", "value": 1, "time": NOON}
    long = json.dumps([event] * 500).encode()
    inner = json.loads("[" * (DEEPEST - 2) + "]" * (DEEPEST - 2))
    deep = json.dumps([{**event, "more": inner}, event]).encode()
    deeper = json.dumps([{**event, "more": [inner]}, event]).encode()
    assert len(reader.read(deep).events) == 2
    assert reader.read(deeper).bad == [(0, Reason.NOT_JSON)]
    [plain] = event_json.read_plain([long, deep, deeper], reader._fields)
    assert plain.places.tolist() == [0, 1]
    assert plain.sizes.tolist() == [500, 2]


def test_arrays_are_folded_as_single_events_are():
    """The same events, whatever messages they come in: the same releases; and each bad element is
    a dead letter with its row.
    """
    arrays, alone = topology(), topology("user: $.user, value: $.value, time: $.time")
    key = bytes(range(32))
    dice = random.Random(5)
    hour = 3_600_000
    batches = [
        (f"m{i}", [(NOON + slot * hour, dice.randrange(100)) for slot in range(4)])
        for i in range(30)
    ]
    many = [
        json.dumps(
            {"meter": user, "readings": [{"ts": ts, "kwh": kwh} for ts, kwh in rows[:2]]}
        ).encode()
        for user, rows in batches
    ]
    many += [
        json.dumps(
            {"meter": user, "readings": [{"ts": ts, "kwh": kwh} for ts, kwh in rows[2:]] + [5]}
        ).encode()
        for user, rows in batches
    ]
    one = [
        json.dumps({"user": user, "time": ts, "value": kwh}).encode()
        for cut in (slice(2), slice(2, 4))
        for user, rows in batches
        for ts, kwh in rows[cut]
    ]
    tick = encode(Tick(NOON + 9 * hour))
    found = []
    for made, texts in ((arrays, many), (alone, one)):
        log = [Message(at, -1, text) for at, text in enumerate([*texts, tick], 1)]
        found.append(run(made, edge_randomness(made, key, "here"), [log]))
    assert [len(each.dead_letters) for each in found] == [30, 0]
    assert [json.loads(one.value)["row"] for one in found[0].dead_letters] == [2] * 30
    assert found[0].counts["events"] == found[1].counts["events"] == 120
    reports = [[json.loads(one.value)["reports"] for one in each.releases] for each in found]
    assert reports[0] == reports[1]
    assert sum(reports[0]) == 120


def test_partitions_are_those_of_each_element():
    """murmur2 looks at users, not at messages."""
    made = topology("events: $, partitioning: murmur2", 3)
    users = [f"m{i}" for i in range(9)]
    message = json.dumps([{"user": u, "time": NOON, "value": 1} for u in users]).encode()
    found = run(made, edge_randomness(made, bytes(32), "here"), [[Message(1, -1, message)], [], []])
    assert [json.loads(one.value)["row"] for one in found.dead_letters] == [
        row for row, home in enumerate(partitions_of(users, 3)) if home
    ]


def test_a_plan_warns_as_of_batches():
    """Events of one message may be linked, in the same way as those of an Arrow batch."""
    gaps = ", gaps: allow"
    said, batched = (
        [line for line in plan(topology(more + gaps)).warnings if "linked to each other" in line]
        for more in ("events: $", "format: arrow")
    )
    assert said == batched
    assert len(said) == 1


@pytest.mark.parametrize(
    "more", ["events: $", "events: $.r", "events: \"$.a[1]['b c']\", time: ^.t"]
)
def test_a_replay_writes_arrays(more):
    """What is sent is read as the source has it."""
    made = topology(more)
    sent = list(messages(made, from_arrays(made, [[1.0, 2.0]] * 3, NOON)))
    found = [event_reader(made).read(raw.value) for raw in sent if raw.events]
    assert [one.events.users.texts() for one in found] == [
        ["u000000"],
        ["u000001"],
        ["u000002"],
    ] * 2
    assert [one.events.values.tolist() for one in found] == [[1.0]] * 3 + [[2.0]] * 3
    assert not any(one.bad for one in found)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("user: ^.a", r"3: input\.user: must begin with \$: .* input\.events is not given"),
        ("events: $, time: ^.a", r"3: input\.time: must begin with \$: .* nothing is around it"),
        ("events: $.r, format: arrow", r"3: input\.events: must be left out where format is arrow"),
        ("events: ^.r", r"3: input\.events: must be \$, where the message is an array"),
        ("events: r", r"3: input\.events: must be \$, where the message is an array"),
        ("events: $.", r"3: input\.events: "),
        ("event: $", r"3: input\.event: unknown key \(did you mean events\?\)"),
        ("events: $.r, user: ^.a, value: ^.a", "user, value and time must be three different"),
    ],
)
def test_what_is_wrong_is_said(more, said):
    with pytest.raises(TopologyError, match=said):
        topology(more)
