"""``input.coerce: numbers``: text that holds a JSON number is that number, in every format."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldp_kafka.errors import Reason, TopologyError
from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.runtime.local import run
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.wire.events import EventReader, event_reader
from ldp_kafka.runtime.wire.number_text import NUMBER
from ldp_kafka.topology import loads
from tests.runtime.wire.test_event_columns import NUMBERS
from tests.runtime.wire.test_events import NOON, arrow, outcome

PLACES = ("user",), ("value",), ("time",)
TEXTS = [
    *NUMBERS, "", " 12 ", "12 ", "12\n", "\t1", "1,5", "1_0", "0x10", "inf", "nan", "--1", "1e",
    "٣", "１", "1" * 256, "1" * 257, "0." + "1" * 254, "0." + "1" * 255, "true", "null", "x",
]  # fmt: skip
TEXT = """
topology: meters
input: {{slot: 1h, partitions: 1, create: false{more}}}
privacy: {{method: {method}, epsilon: 2.0, window: 4, {values}}}
output: {{statistics: [{statistic}]}}
"""


def topology(more="", method="sw_direct", values="domain: [0, 100]", statistic="mean"):
    return loads(TEXT.format(more=more, method=method, values=values, statistic=statistic))


def said_of(reader, value):
    """What `said` says of a value as JSON writes it."""
    return said(reader, json.dumps(value))


def said(reader, value):
    """The value of one JSON event, or the reason why it is none, read by itself and in a run."""
    message = f'{{"user":"m1","time":{NOON},"value":{value}}}'.encode()
    decoded = reader.read(message)
    [found] = outcome(decoded, 1)
    run = reader.read_run([message] * 3)
    assert [reason for _, _, reason in run.bad] == [reason for _, reason in decoded.bad] * 3
    assert decoded.events is None or run.events.values.tolist() == [found[2]] * 3
    return found if isinstance(found, str) else found[2]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("categories", [None, 7])
def test_text_is_what_json_says_without_its_quotes(text, categories):
    """And no value where JSON says no number."""
    reader = EventReader(*PLACES, categories, coerce=True)
    found = said_of(reader, text)
    if not NUMBER.fullmatch(text) or len(text) > 256:
        assert found is Reason.VALUE
        return
    assert found == said(EventReader(*PLACES, categories), text)
    assert said_of(EventReader(*PLACES, categories), text) is Reason.VALUE


@given(st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.integers()))
def test_any_number_comes_back(number):
    text = json.dumps(number)
    assert said_of(EventReader(*PLACES, coerce=True), text) == float(number)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), "dictionary"])
@pytest.mark.parametrize("categories", [None, 7])
def test_a_column_of_text_is_read_as_json_is(kind, categories):
    """Row by row, alone and among others; a null is no value."""
    column = pa.array([*TEXTS, None], pa.string() if kind == "dictionary" else kind)
    n = len(column)
    if kind == "dictionary":
        column = column.dictionary_encode()
    batch = arrow({"user": pa.array(["m1"] * n), "time": pa.array([NOON] * n), "value": column})
    reader = EventReader(*PLACES, categories, coerce=True)
    found = outcome(reader.read(batch), n)
    expected = [said_of(reader, text) for text in [*TEXTS, None]]
    assert [each if isinstance(each, str) else each[2] for each in found] == expected
    assert not isinstance(found[0], str)
    strict = EventReader(*PLACES, categories)
    assert strict.read(batch).bad == [(0, Reason.VALUE)]
    plain = arrow(
        {"user": pa.array(["m1"]), "time": pa.array([NOON]), "value": pa.array(["3"], pa.string())}
    )
    whole = reader.read_run([plain, plain, batch])
    assert whole.events.values[:2].tolist() == [3, 3]
    assert len(whole.bad) == sum(isinstance(each, str) for each in found)


def test_coordinates_of_lists():
    """Some text, some not; in Arrow a list of texts."""
    reader = EventReader(*PLACES, None, 2, coerce=True)
    rows = [["1", "2.5"], ["1"], None, ["1", None], ["1", "x"], ["1", "1e999"]]
    expected = [[1.0, 2.5], *[Reason.VALUE] * 4, Reason.NOT_FINITE]
    assert [said_of(reader, row) for row in rows] == expected
    assert said_of(reader, [1, "2.5"]) == [1.0, 2.5]
    for kind in (pa.list_(pa.string()), pa.large_list(pa.large_string())):
        n = len(rows)
        batch = arrow(
            {
                "user": pa.array(["m1"] * n),
                "time": pa.array([NOON] * n),
                "value": pa.array(rows, kind),
            }
        )
        found = outcome(reader.read(batch), n)
        assert [each if isinstance(each, str) else each[2] for each in found] == expected
        assert EventReader(*PLACES, None, 2).read(batch).bad == [(0, Reason.VALUE)]


def test_names_of_categories_are_text():
    """A category may be called 3, and a number is its name."""
    reader = EventReader(*PLACES, ("1", "3"), coerce=True)
    assert said_of(reader, "3") == 1
    assert said_of(reader, 3) == 1
    assert said_of(reader, "03") is Reason.CATEGORY


def test_a_topology_says_so():
    """What it says is what the fold reads, and a release counts it."""
    for more, count in (("", 1), (", coerce: numbers", 3)):
        made = topology(more)
        values = [50, "50", "5e1"]
        texts = [
            json.dumps({"user": f"m{i}", "time": NOON, "value": value}).encode()
            for i, value in enumerate(values)
        ]
        last = json.dumps({"user": "m9", "time": NOON + 7_200_000, "value": 1}).encode()
        log = [Message(at, -1, text) for at, text in enumerate([*texts, last])]
        result = run(made, edge_randomness(made, bytes(range(32)), "here"), [log])
        first = json.loads(result.releases[0].value)
        assert first["reports"] == count
        assert len(result.dead_letters) == 3 - count
        assert event_reader(made).read(texts[1]).bad == ([(0, Reason.VALUE)] if count == 1 else ())


def test_names_and_coerce_are_refused():
    with pytest.raises(TopologyError, match=r":3: input\.coerce: must be none where privacy\.cat"):
        topology(", coerce: numbers", "lpu", "categories: [a, b]", "frequencies")
    made = topology(", coerce: numbers", "lpu", "categories: 7", "frequencies")
    assert np.array_equal(
        event_reader(made).read(b'{"user":"a","time":1700000005,"value":"6"}').events.values, [6]
    )
