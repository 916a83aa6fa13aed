"""Releases as flat rows: every number once, nothing lost, names that SQL takes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldp_kafka.records import Release
from ldp_kafka.runtime.releases.columns import SCHEMA, table_of
from ldp_kafka.runtime.releases.connect import SCHEMA as CONNECT
from ldp_kafka.runtime.releases.connect import envelope
from ldp_kafka.runtime.releases.rows import COLUMNS, KEY, rows_of
from tests.runtime.releases.made import HOUR, above, release, shares

VECTOR = Release(
    *("meters", 3, "1970-01-01T03:00:00Z", "1970-01-01T04:00:00Z", "per_user", [1.0, None]),
    *([0.5, None], [[0.0, None], [2.0, None]], 1, "budget_split", {}, "5f", 0.25),
)
ALL = {
    "number": release(3),
    "null": release(3, None, standard_error=None, reports=0),
    "shares": shares(3, [0.25, 0.75]),
    "named": shares(3, [0.25, 0.75], categories=["a", "b"]),
    "named, null": shares(3, None, categories=["a", "b"]),
    "bins": shares(3, [0.25, 0.75], statistic="distribution", edges=[0.0, 5.0, 10.0]),
    "bins, null": shares(3, None, statistic="distribution", edges=[0.0, 5.0, 10.0]),
    "user": release(3, user="5f", reliability=0.25),
    "vector": VECTOR,
    "event": above(3, 1, 0.02),
    "events": release(
        3, [1, 0, None], "above", standard_error=None, event={"above": 0.3, "error": [0.1, 0.2, 0]}
    ),
    "round": release(3, round={"population": 9, "postprocess": {"smooth": "kalman"}}),
    "no guarantee": release(3, guarantee={"epsilon": None}),
}


@pytest.mark.parametrize("name", ALL)
def test_every_number_is_a_row(name):
    """With all columns, in their order; what may be empty is where the columns say so; the key
    tells rows apart.
    """
    found = list(rows_of(ALL[name]))
    lists = {"shares": 2, "vector": 2, "events": 3}
    lists |= {kind + more: 2 for kind in ("named", "bins") for more in ("", ", null")}
    assert len(found) == lists.get(name, 1)
    for row in found:
        assert list(row) == list(COLUMNS)
        empty = {column for column, value in row.items() if value is None}
        assert empty <= {column for column, each in COLUMNS.items() if each.optional}
    assert len({tuple(row[column] for column in KEY) for row in found}) == len(found)
    assert [row["position"] for row in found] == list(range(len(found)))


def test_what_numbers_are_of():
    def columns(name, *wanted):
        return [tuple(row[each] for each in wanted) for row in rows_of(ALL[name])]

    assert columns("named", "category", "value", "low", "high", "standard_error") == [
        ("a", 0.25, 0.15, 0.35, 0.05),
        ("b", 0.75, 0.65, 0.85, 0.05),
    ]
    assert columns("named, null", "category", "value", "low") == [
        ("a", None, None),
        ("b", None, None),
    ]
    bins = ("bin_low", "bin_high", "value")
    assert columns("bins", *bins) == [(0.0, 5.0, 0.25), (5.0, 10.0, 0.75)]
    assert columns("bins, null", *bins) == [(0.0, 5.0, None), (5.0, 10.0, None)]
    assert columns("vector", "subject", "value", "low", "high", "reliability") == [
        ("5f", 1.0, 0.0, 2.0, 0.25),
        ("5f", None, None, None, 0.25),
    ]
    assert columns("event", "value", "above", "error", "low") == [(1, 5.0, 0.02, None)]
    assert columns("events", "value", "above", "error") == [
        (1, 0.3, 0.1),
        (0, 0.3, 0.2),
        (None, 0.3, 0),
    ]
    assert columns("number", "subject", "category", "bin_low", "round") == [("", None, None, None)]
    [(told,)] = columns("round", "round")
    assert json.loads(told) == ALL["round"].round


numbers = st.none() | st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(numbers, max_size=4), st.lists(st.text(), max_size=4), st.lists(numbers))
def test_lists_of_other_lengths_break_nothing(values, names, edges):
    """Whoever can write the topic may have written it."""
    found = list(rows_of(release(3, values)))
    assert len(found) == len(values)
    odd = release(3, values, categories=names, edges=edges, confidence_interval=[values[:1], []])
    assert [row["value"] for row in rows_of(odd)] == values


def test_arrow_columns_are_those():
    """Every kind of release fits the schema; null where there is nothing."""
    rows = [row for each in ALL.values() for row in rows_of(each)]
    table = table_of(rows, HOUR)
    table.validate(full=True)
    assert table.column_names == list(COLUMNS) == SCHEMA.names
    assert table.num_rows == len(rows)
    for name, column in COLUMNS.items():
        assert SCHEMA.field(name).nullable == column.optional
        assert column.optional or table[name].null_count == 0
        assert SCHEMA.field(name).metadata == {b"description": column.meaning.encode()}


def test_times_have_no_last_year():
    """Those of tables are made of the slot's number: `datetime` has none after 9999."""
    far = 10**8  # hours: the year 13377
    [row] = rows_of(release(far))
    assert row["slot_start"].startswith("+13377")
    assert table_of([row], HOUR)["slot_start"].cast("int64")[0].as_py() == far * HOUR
    assert json.loads(envelope(row, HOUR))["payload"]["slot_end"] == (far + 1) * HOUR


PYTHON = {"string": str, "int64": int, "double": (int, float)}


@pytest.mark.parametrize("name", ALL)
def test_connect_takes_every_row(name):
    """As JsonConverter reads it: each field of the struct is there, of the type that the schema
    says, and null only where that is optional; times are its logical type of milliseconds.
    """
    for row in rows_of(ALL[name]):
        text = envelope(row, HOUR)
        assert "\n" not in text
        made = json.loads(text)
        assert made.keys() == {"schema", "payload"}
        assert made["schema"] == CONNECT
        assert CONNECT["type"] == "struct"
        assert [field["field"] for field in CONNECT["fields"]] == list(COLUMNS)
        for field in CONNECT["fields"]:
            value = made["payload"][field["field"]]
            if value is None:
                assert field["optional"]
                continue
            assert isinstance(value, PYTHON[field["type"]])
            assert not isinstance(value, bool)
            timed = field.get("name") == "org.apache.kafka.connect.data.Timestamp"
            assert timed == (COLUMNS[field["field"]].kind == "time")
            if timed:
                assert (field["type"], field["version"]) == ("int64", 1)
        assert made["payload"]["slot_start"] == 3 * HOUR
