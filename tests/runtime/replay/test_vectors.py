"""Tables whose values are lists of numbers: lists in a column, JSON in CSV, a column a number."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from pyarrow import parquet

import ldp_kafka as lk
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.runtime.replay import from_table, messages, read_file
from ldp_kafka.runtime.replay.files import read_slices
from ldp_kafka.runtime.replay.rows import read_rows
from ldp_kafka.topology import loads
from tests.cases import cases

SECRET = "31337"
TEXT = """
topology: taxis
input: {slot: 1h, partitions: 1}
privacy: {level: user, method: %s, epsilon: 8.0, delta: 1.0e-5, horizon: 10, dimension: %d}
output: {statistics: [mean]}
"""
PLANE = loads(TEXT % ("cgm_vector", 2))
LINE = loads(TEXT % ("gaussian_direct_vector", 1))
HOURS = [1_700_000_000, 1_700_000_000, 1_700_003_600]
ROWS = [("a", [1, 2.5]), ("b", [-3, 4e-1]), ("a", [0.0, 7.25])]
MADE = [("a", [1.0, 2.5]), ("b", [-3.0, 0.4]), ("a", [0.0, 7.25])]


def events(source):
    """(user, value) of all, in the order of time."""
    return [
        (source.users[who], value)
        for slot in source.slots
        for who, value in zip(slot.who.tolist(), slot.values.tolist(), strict=True)
    ]


def csv(path, lines, head="user,value,time"):
    path.write_text("\n".join([head, *lines, ""]))
    return path


@pytest.fixture
def path(tmp_path):
    return tmp_path / "x.csv"


def test_cells_of_csv_hold_json(path):
    lines = [
        f'{user},"{json.dumps(value)}",{hour}'
        for (user, value), hour in zip(ROWS, HOURS, strict=True)
    ]
    assert events(read_file(PLANE, csv(path, lines))) == MADE


@cases("delimiter", [";", "\t", "|"])
def test_no_quotes_where_a_comma_parts_no_cells(path, delimiter):
    lines = [
        delimiter.join([user, f" {json.dumps(value)} ", str(hour)])
        for (user, value), hour in zip(ROWS, HOURS, strict=True)
    ]
    csv(path, lines, delimiter.join(["user", "value", "time"]))
    assert events(read_file(PLANE, path)) == MADE


def test_a_column_for_each_coordinate(path):
    """As they are named, whatever their order in the file."""
    lines = [
        f"{value[1]},{user},{value[0]},{hour}"
        for (user, value), hour in zip(ROWS, HOURS, strict=True)
    ]
    csv(path, lines, "lon,user,lat,time")
    assert events(read_file(PLANE, path, value="lat,lon")) == MADE


KINDS = [
    pa.list_(pa.float64()),
    pa.large_list(pa.float32()),
    pa.list_(pa.float64(), 2),
    pa.list_(pa.decimal128(6, 2)),
]


@cases("kind", KINDS)
def test_columns_of_lists_in_parquet(tmp_path, kind):
    column = pa.array([value for _, value in MADE], pa.list_(pa.float64()))
    if pa.types.is_decimal(kind.value_type):
        flat = column.flatten().cast(kind.value_type)
        column = pa.ListArray.from_arrays(pa.array([0, 2, 4, 6], pa.int32()), flat)
    else:
        column = column.cast(kind)
    table = pa.table({"user": [user for user, _ in MADE], "value": column, "time": HOURS})
    parquet.write_table(table, tmp_path / "x.parquet")
    found = events(read_file(PLANE, tmp_path / "x.parquet"))
    assert [user for user, _ in found] == ["a", "b", "a"]
    assert [value for _, value in found] == [pytest.approx(value, rel=1e-6) for _, value in MADE]


def test_one_number_is_a_list_of_one(path):
    table = pa.table({"user": ["a", "b"], "value": [1.5, 2.5], "time": HOURS[:2]})
    assert events(from_table(LINE, table, "user", "value", "time")) == [("a", [1.5]), ("b", [2.5])]
    lists = csv(path, ['a,"[1.5]",1700000000', 'b,"[2.5]",1700000000'])
    assert events(read_file(LINE, lists)) == [("a", [1.5]), ("b", [2.5])]


def test_rows_without_all_of_it_are_left_out(path):
    lines = ["a,1,2.5,1700000000", "b,1,,1700000000", "c,NA,3,1700000000"]
    source = read_file(PLANE, csv(path, lines, "user,x,y,time"), value="x,y")
    assert (source.left_out, events(source)) == (2, [("a", [1.0, 2.5])])
    source = read_file(PLANE, csv(path, ['a,"[1, 2]",1700000000', "b,,1700000000"]))
    assert (source.left_out, events(source)) == (1, [("a", [1.0, 2.0])])


@cases(
    "cell",
    [
        f'"[{SECRET}]"', f'"[{SECRET}, 1, 2]"', f'"[{SECRET}, true]"', f'"[{SECRET}, null]"',
        f'"[{SECRET}, ""1""]"', f'"[{SECRET}, [1]]"', f'"{{""{SECRET}"": 1}}"', SECRET,
        f'"[{SECRET}, 1"', f'"[{SECRET}, 1{"0" * 400}]"', f'"""[{SECRET}, 1]"""',
    ],
)  # fmt: skip
def test_a_row_that_holds_none_is_named_without_it(path, cell):
    csv(path, ['a,"[1, 2]",1700000000', f"b,{cell},1700000000"])
    with pytest.raises(ConfigurationError) as caught:
        read_file(PLANE, path)
    said = str(caught.value)
    assert said.startswith(f"{path}:3: column value must hold lists of 2 numbers")
    assert SECRET not in said
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


@cases(
    ("value", "said"),
    [
        ("x,y,z", "names 3 columns, and a value of cgm_vector has 2 numbers"),
        ("x,z", "no column z among user, x, y, time"),
        ("value", "no column value among user, x, y, time"),
    ],
)
def test_columns_that_are_not_there(path, value, said):
    csv(path, ["a,1,2.5,1700000000"], "user,x,y,time")
    with pytest.raises(ConfigurationError, match=said):
        read_file(PLANE, path, value=value)


def test_a_coordinate_that_is_no_number_is_named(path):
    csv(path, ["a,1,2.5,1700000000", f"b,1,x{SECRET},1700000000"], "user,x,y,time")
    with pytest.raises(ConfigurationError, match=r"x\.csv:3: column y must be readable") as caught:
        read_file(PLANE, path, value="x,y")
    assert SECRET not in str(caught.value)


def test_a_series_of_vectors_is_cut_into_users(path):
    csv(path, [f"{at},{at / 2}" for at in range(6)], "x,y")
    source = read_slices(PLANE, path, 3, "x,y")
    found = {}
    for user, value in events(source):
        found.setdefault(user, []).append(value)
    assert found == {
        f"u00000{user}": [[float(at), at / 2] for at in (2 * user, 2 * user + 1)]
        for user in range(3)
    }


@cases("batch", [1, 8])
def test_they_are_sent_as_lists(path, batch):
    source = read_file(PLANE, csv(path, ["a,1,2.5,1700000000"], "user,x,y,time"), value="x,y")
    raw = next(each for each in messages(PLANE, source, batch) if each.events)
    value = json.loads(raw.value)["value"] if batch == 1 else lk.decode(raw.value)[0].value
    assert list(value) == [1.0, 2.5]


def test_a_sample_of_a_table_is_tried_as_its_messages(path):
    csv(path, ["a,1,2.5,1700000000", "a,3,4,1700003600"], "user,x,y,time")
    rows = read_rows(PLANE, path, value="x,y")
    assert [json.loads(each.value)["value"] for each in rows.messages] == [[1.0, 2.5], [3.0, 4.0]]
    assert rows.place(1) == "line 3"


def test_a_table_becomes_releases_of_lists():
    """Each number with its error, a row each."""
    table = {"user": [f"u{at}" for at in range(200)], "value": [[0.1, -0.2]] * 200}
    made = lk.run(PLANE, {**table, "time": [1_700_000_000] * 200}, key=bytes(range(32)))
    rows = made.to_pylist()
    assert [(row["statistic"], row["position"], row["reports"]) for row in rows] == [
        ("mean", 0, 200),
        ("mean", 1, 200),
    ]
    for row, truth in zip(rows, (0.1, -0.2), strict=True):
        assert abs(row["value"] - truth) < 6 * row["standard_error"]
        assert -0.5 <= row["low"] <= row["high"] <= 0.5
