"""Columns of Arrow of every type that writers use mean what JSON says of the same values."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import ldp_kafka
from ldp_kafka.runtime.wire.arrow import MAX_BYTES
from ldp_kafka.runtime.wire.arrow_columns import MOST_TEXT
from ldp_kafka.runtime.wire.events import EventReader
from tests.runtime.wire.test_events import NOON, arrow, outcome

NAMES = ("404", "true", "2.5", "é")
FIELDS = {"user": "m1", "time": NOON, "value": 1.5}
INTEGERS = [getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)]
TEXTS = [pa.string(), pa.large_string(), pa.string_view()]
FLOATS = [pa.float16(), pa.float32(), pa.float64()]
WHOLE = [pa.decimal128(38, 0), pa.decimal256(76, 0), pa.decimal128(5, -1)]
NANOSECONDS = 10**6
BY_ITSELF = """
import pickle, sys
from ldp_kafka.runtime.wire.events import EventReader
reader = EventReader(("user",), ("value", "v"), ("time",))
for message in pickle.load(sys.stdin.buffer):
    bad = [reason for _, reason in reader.read(message).bad]
    print(*bad, *[reason for _, _, reason in reader.read_run([message] * 2).bad])
"""


def encoded(values, kind):
    """The same values as a plain column, as dictionaries with every type of index, and as runs."""
    column = pa.array(values, kind)
    yield column
    for index in INTEGERS:
        places = pa.array([None if each is None else at for at, each in enumerate(values)], index)
        yield pa.DictionaryArray.from_arrays(places, column)
    for ends in (pa.int16(), pa.int32(), pa.int64()):
        twice = pa.array([2 * (at + 1) for at in range(len(values))], ends)
        # each said twice, of which the first is cut off
        yield pa.RunEndEncodedArray.from_arrays(twice, column).slice(1)


def read(name, column, reader, fill):
    """What each row is: its field, or its reason; by itself, and among other messages."""
    n = len(column)
    others = {other: pa.array([each] * n) for other, each in (FIELDS | fill).items()}
    message = arrow({**others, name: column})
    decoded = reader.read(message)
    run = reader.read_run([message] * 3)
    assert len(run.bad) == 3 * len(decoded.bad)
    assert len(run.row) == 3 * (0 if decoded.events is None else len(decoded.events))
    if decoded.events is None and len(decoded.bad) == 1 < n:
        return decoded.bad[0][1]
    return [row if isinstance(row, str) else row[list(FIELDS).index(name)]
            for row in outcome(decoded, n)]  # fmt: skip


def in_json(name, each, reader, fill):
    message = json.dumps(FIELDS | fill | {name: each}).encode()
    [row] = outcome(reader.read(message), 1)
    return row if isinstance(row, str) else row[list(FIELDS).index(name)]


def agree(name, kind, values, said, reader=None, fill=None):
    """Every encoding of the values is what JSON is that says ``said``."""
    reader, fill = reader or EventReader(("user",), ("value",), ("time",)), fill or {}
    expected = [in_json(name, each, reader, fill) for each in said]
    for column in encoded(values, kind):
        rows = expected
        if pa.types.is_run_end_encoded(column.type):
            rows = [row for row in expected for _ in "ab"][1:]
        assert read(name, column, reader, fill) == rows, column.type
    return expected


@pytest.mark.parametrize("kind", [*INTEGERS, *WHOLE[:2]], ids=str)
def test_whole_numbers(kind):
    """As ids, as numbers of categories, as names of them, and as values."""
    assert agree("user", kind, [17, None, 0], [17, None, 0]) == ["17", "user", "0"]
    by_number = EventReader(("user",), ("value",), ("time",), 3)
    assert agree("value", kind, [2, None, 3], [2, None, 3], by_number, {"value": 0}) == [
        2, "value", "category",
    ]  # fmt: skip
    by_name = EventReader(("user",), ("value",), ("time",), ("17", "true"))
    assert agree("value", kind, [17, None, 1], [17, None, 1], by_name, {"value": "17"}) == [
        0, "value", "category",
    ]  # fmt: skip
    assert agree("value", kind, [17, None, 0], [17, None, 0]) == [17.0, "value", 0.0]


@pytest.mark.parametrize("kind", TEXTS, ids=str)
def test_text(kind):
    """As ids, as names in either spelling, as numbers in text, and as times."""
    users = ["m1", None, "", "e\u0301", "a" * 256, "a" * 257]
    assert agree("user", kind, users, users) == ["m1", "user", "user", "é", "a" * 256, "user"]
    names = ["404", "e\u0301", "é", "x", None]
    by_name = EventReader(("user",), ("value",), ("time",), NAMES)
    assert agree("value", kind, names, names, by_name, {"value": "404"}) == [
        0, 3, 3, "category", "value",
    ]  # fmt: skip
    coerced = EventReader(("user",), ("value",), ("time",), coerce=True)
    assert agree("value", kind, ["2.5", "x", None], ["2.5", "x", None], coerced) == [
        2.5, "value", "value",
    ]  # fmt: skip
    times = ["2026-03-01T12:00:00Z", "2026-03-01T24:00", "2026-03-01T12.5", None]
    assert agree("time", kind, times, times) == [NOON, NOON + 12 * 3_600_000, "time", "time"]
    declared = EventReader(("user",), ("value",), ("time",), time_unit="us")
    assert agree("time", kind, [f"{NOON}999"], [f"{NOON}999"], declared) == [NOON]


@pytest.mark.parametrize("kind", FLOATS, ids=str)
def test_numbers_with_a_point(kind):
    """As values, and as names of categories."""
    halves = [np.float16(each) if kind == pa.float16() else each for each in (2.5, np.nan, np.inf)]
    assert agree("value", kind, [*halves, None], [2.5, np.nan, np.inf, None]) == [
        2.5, "not_finite", "not_finite", "value",
    ]  # fmt: skip
    by_name = EventReader(("user",), ("value",), ("time",), NAMES)
    values = [np.float16(each) if kind == pa.float16() else each for each in (404.0, 2.5, 3.5)]
    assert agree("value", kind, [*values, halves[1]], [404.0, 2.5, 3.5, np.nan], by_name) == [
        0, 2, "category", "not_finite",
    ]  # fmt: skip


@pytest.mark.parametrize("kind", [pa.decimal128(12, 3), pa.decimal256(60, 3)], ids=str)
def test_decimals(kind):
    """As values, as times of seconds, and as names."""
    values = [Decimal("2.5"), None, Decimal(404)]
    assert agree("value", kind, values, [2.5, None, 404]) == [2.5, "value", 404.0]
    by_name = EventReader(("user",), ("value",), ("time",), NAMES)
    assert agree("value", kind, values, [2.5, None, 404], by_name) == [2, "value", 0]
    wider = pa.decimal256(40, 3)
    times = [Decimal(NOON + 250) / 1000, Decimal(20_240_331), None]
    assert agree("time", wider, times, [NOON / 1000 + 0.25, 20_240_331, None]) == [
        NOON + 250, "time", "time",
    ]  # fmt: skip


def test_decimals_without_decimals_are_exact():
    """DuckDB's HUGEINT and sums: ids up to 2**64, and nanoseconds."""
    ids = [2**64 - 1, 2**64, -(2**64) + 1, 10**37, None]
    assert agree("user", pa.decimal128(38, 0), ids, ids) == [
        str(2**64 - 1), "user", str(1 - 2**64), "user", "user",
    ]  # fmt: skip
    declared = EventReader(("user",), ("value",), ("time",), time_unit="ns")
    times = [NOON * NANOSECONDS, NOON * NANOSECONDS - 1, NOON * NANOSECONDS + 2**80, 0]
    fill = {"time": NOON * NANOSECONDS}
    assert agree("time", pa.decimal128(38, 0), times, times, declared, fill) == [
        NOON, NOON - 1, "time", "time",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("unit", "zone"), [*product(("s", "ms", "us", "ns"), (None, "UTC", "Europe/Berlin", "-08:00"))]
)
def test_timestamps(unit, zone):
    """Of any unit and zone: an instant."""
    in_ms = {"s": 1000, "ms": 1, "us": 1, "ns": 1}[unit]
    over = {"us": 1000, "ns": NANOSECONDS}.get(unit, 1)
    later = NOON + 1000
    values = [NOON // in_ms * over, later // in_ms * over, None, -1]
    assert agree(
        "time", pa.timestamp(unit, zone), values, [NOON, "2026-03-01T12:00:01Z", None, -1]
    ) == [NOON, later, "time", "time"]


def test_days():
    """A day begins at midnight UTC, as ISO 8601 has it; its column says its own unit."""
    days = [date(2026, 3, 1), date(1969, 12, 31), None, date(1970, 1, 2)]
    said = [None if each is None else each.isoformat() for each in days]
    midnight = NOON - 12 * 3_600_000
    for kind in (pa.date32(), pa.date64()):
        assert agree("time", kind, days, said) == [midnight, "time", "time", 86_400_000]
    far = pa.array([2**31 - 1, -(2**31)], pa.int32()).cast(pa.date32())
    assert read("time", far, EventReader(("user",), ("value",), ("time",)), {}) == ["time"] * 2


def test_booleans():
    """Names of categories, as in JSON; neither numbers nor ids."""
    by_name = EventReader(("user",), ("value",), ("time",), NAMES)
    values = [True, False, None]
    assert agree("value", pa.bool_(), values, values, by_name) == [1, "category", "value"]
    plain = EventReader(("user",), ("value",), ("time",))
    by_number = EventReader(("user",), ("value",), ("time",), 2)
    in_bytes = pa.array([1, 0, None], pa.int8())
    bool8 = pa.ExtensionArray.from_storage(pa.bool8(), in_bytes)
    assert read("value", bool8, by_name, {}) == [1, "category", "value"]
    assert read("value", bool8, plain, {}) == "value"
    for name, reader in (("user", plain), ("value", plain), ("value", by_number)):
        assert read(name, pa.array([True, False]), reader, {}) == name


@pytest.mark.parametrize("name", FIELDS)
def test_a_column_of_nothing_lacks_every_row(name):
    """Of type null, as polars and pyarrow give to what holds nothing: each row is a dead letter."""
    names = EventReader(("user",), ("value",), ("time",), NAMES)
    pairs = EventReader(("user",), ("value",), ("time",), None, 2)
    plain = EventReader(("user",), ("value",), ("time",))
    for reader in (plain, names, pairs):
        fill = {"value": {names: "404", pairs: [1.0, 2.0]}.get(reader, 1.5)}
        assert read(name, pa.nulls(2), reader, fill) == [name] * 2


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.float64()), pa.large_list(pa.float32()), pa.list_(pa.float64(), 2),
        pa.list_view(pa.int8()), pa.large_list_view(pa.float64()), pa.list_(pa.decimal128(9, 1)),
    ],
    ids=str,
)  # fmt: skip
def test_lists(kind):
    """Of any kind of list."""
    vectors = EventReader(("user",), ("value",), ("time",), None, 2)
    column = pa.array([[1, 2], None, [3, None]], kind)
    if not pa.types.is_fixed_size_list(kind):
        column = pa.concat_arrays([column, pa.array([[1]], kind)])
    rows = read("value", column, vectors, {"value": [0.0, 0.0]})
    assert rows == [[1.0, 2.0], "value", "value", "value"][: len(column)]


@pytest.mark.parametrize("kind", [*TEXTS, pa.int64(), pa.bool_(), pa.float64()], ids=str)
def test_lists_of_names(kind):
    """Of any type within, encoded or not."""
    vectors = EventReader(("user",), ("value",), ("time",), NAMES, 2)
    one = True if pa.types.is_boolean(kind) else "404" if kind in TEXTS else 404
    inner = pa.array([one, one, one, None], kind)
    code = 1 if pa.types.is_boolean(kind) else 0
    for each in (inner, inner.dictionary_encode() if kind not in TEXTS[2:] else inner):
        column = pa.ListArray.from_arrays(pa.array([0, 2, 4], pa.int32()), each)
        assert read("value", column, vectors, {}) == [[code, code], "value"]


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("user", pa.array([1.5, 17.0])), ("user", pa.array([b"a", b"b"])),
        ("user", pa.array([b"a" * 16] * 2, pa.uuid())), ("user", pa.array([date(2026, 3, 1)] * 2)),
        ("user", pa.array([Decimal("1.5")] * 2)),
        ("time", pa.array([time(12)] * 2)), ("time", pa.array([timedelta(1)] * 2)),
        ("time", pa.array([True] * 2)),
        ("value", pa.array([datetime(2026, 3, 1)] * 2)),  # noqa: DTZ001
        ("value", pa.array([b"1"] * 2)), ("value", pa.array([[1.0]] * 2)),
    ],
    ids=str,
)  # fmt: skip
def test_other_types_are_one_dead_letter(name, column):
    """No row of them can be read."""
    reader = EventReader(("user",), ("value",), ("time",))
    assert read(name, column, reader, {}) == name
    assert (
        read(name, column.dictionary_encode(), reader, {}) == name
        if not pa.types.is_nested(column.type) and not isinstance(column.type, pa.BaseExtensionType)
        else True
    )


def test_what_is_not_registered_here_is_its_storage():
    """An extension type is the same, whoever has registered it."""
    text = pa.ExtensionArray.from_storage(pa.json_(), pa.array(["m1", "m2"]))
    reader = EventReader(("user",), ("value",), ("time",))
    assert read("user", text, reader, {}) == ["m1", "m2"]


def test_one_long_text_cannot_fill_the_memory():
    """Whether a dictionary, runs or views say it many times."""
    n = 2**20
    long = pa.array(["x" * (MOST_TEXT // n + 1)])
    as_runs = pa.RunEndEncodedArray.from_arrays(pa.array([n], pa.int32()), long)
    as_words = pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, np.int8)), long)
    _, view, data = long.cast(pa.string_view()).buffers()
    assert view.size == 16
    many = pa.py_buffer(view.to_pybytes() * 2**16)
    as_views = pa.Array.from_buffers(pa.string_view(), 2**16, [None, many, data])
    assert len(arrow({"user": as_words})) < MAX_BYTES
    reader = EventReader(("user",), ("value",), ("time",))
    for column in (as_runs, as_words):
        others = {
            name: pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, np.int8)), pa.array([each]))
            for name, each in (("time", NOON), ("value", 1.5))
        }
        words = arrow({"user": column, **{
            name: pc.run_end_encode(each.dictionary_decode()) for name, each in others.items()
        }})  # fmt: skip
        assert len(words) < MAX_BYTES
        assert reader.read(words).bad == [(0, "too_large")]
    longer = pa.array(["x" * (MOST_TEXT // 2**16 + 1)]).cast(pa.string_view())
    _, view, data = longer.buffers()
    many = pa.py_buffer(view.to_pybytes() * 2**16)
    as_views = pa.Array.from_buffers(pa.string_view(), 2**16, [None, many, data])
    ones = {name: pa.array([FIELDS[name]] * 2**16) for name in ("time", "value")}
    runs = {name: pc.run_end_encode(each) for name, each in ones.items()}
    message = arrow({"user": as_views, **runs})
    assert len(message) < MAX_BYTES
    assert reader.read(message).bad == [(0, "too_large")]


def decimals(kind):
    """Two numbers of this type whose digits are 17, whatever its scale."""
    digits = pa.py_buffer((17).to_bytes(kind.byte_width, "little") * 2)
    return pa.Array.from_buffers(kind, 2, [None, digits])


@pytest.mark.parametrize("make", [pa.decimal32, pa.decimal64, pa.decimal128, pa.decimal256])
@pytest.mark.parametrize("name", FIELDS)
def test_a_point_beyond_the_digits(name, make):
    """Arrow takes any scale, and says no number of some of them: a dead letter, and no end."""
    widest = {pa.decimal32: 9, pa.decimal64: 18, pa.decimal128: 38, pa.decimal256: 76}[make]
    readers = [
        (EventReader(("user",), ("value",), ("time",)), {}),
        (EventReader(("user",), ("value",), ("time",), 3), {"value": 0}),
        (EventReader(("user",), ("value",), ("time",), NAMES), {"value": "404"}),
    ]
    for scale in (-widest - 1, widest + 1, 1000, -1000, 2**31 - 1, -(2**31)):
        for reader, fill in readers:
            assert read(name, decimals(make(widest, scale)), reader, fill) == "not_arrow"
        if name == "value":
            pairs = EventReader(("user",), ("value",), ("time",), None, 1)
            column = pa.FixedSizeListArray.from_arrays(decimals(make(widest, scale)), 1)
            assert read(name, column, pairs, {"value": [0.0]}) == "not_arrow"
    for scale in (widest, -widest):
        said = float(f"17e{-scale}") if scale > 0 else 17 * 10**-scale
        row = in_json(name, said, *readers[0])
        # ids of a type with decimals are a dead letter as a whole; Arrow rounds values its own way
        expected = row if (name, scale) == ("user", widest) else [row] * 2
        found = read(name, decimals(make(widest, scale)), *readers[0])
        assert found == (pytest.approx(expected, rel=1e-15) if name == "value" else expected)


def structs(field, none):
    return pa.StructArray.from_arrays([field], ["v"], mask=pa.array(none))


UNION = pa.UnionArray.from_sparse(pa.array([0, 0], pa.int8()), [pa.array([1.0, 2.0])])
DENSE = pa.UnionArray.from_dense(
    pa.array([0, 0], pa.int8()), pa.array([0, 1], pa.int32()), [pa.array([1.0, 2.0])]
)


def test_a_union_within_structs_is_one_dead_letter():
    """Arrow ends the process that gives a union nulls: another one reads the messages."""
    fields = [
        UNION,
        DENSE,
        pa.ExtensionArray.from_storage(pa.opaque(UNION.type, "any", "one"), UNION),
        pa.RunEndEncodedArray.from_arrays(pa.array([2], pa.int32()), UNION[:1]),
    ]
    values = [structs(*each) for each in product(fields, [[True, False], [False, False]])]
    values += [UNION, pa.array([[1.0], [2.0]])]  # and what is no struct
    messages = [arrow({"user": ["a", "b"], "time": [NOON] * 2, "value": each}) for each in values]
    done = subprocess.run(
        [sys.executable, "-c", BY_ITSELF],
        input=pickle.dumps(messages),
        capture_output=True,
        cwd=Path(ldp_kafka.__file__).parents[1],
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode().splitlines() == ["value value value"] * len(messages)


@pytest.mark.parametrize("kind", [pa.float64(), pa.int32(), pa.decimal128(20, 0)], ids=str)
def test_a_field_of_no_struct_is_none(kind):
    """However it is encoded: runs and dictionaries have nulls in places of their own."""
    nested = EventReader(("user",), ("value", "v"), ("time",))
    for column in encoded([1, 2, 2, 4], kind):
        fields = column.slice(0, 4)
        expected = ["value", *fields.slice(1).to_pylist()]
        value = structs(fields, [True, False, False, False])
        others = {"user": ["m1"] * 4, "time": [NOON] * 4}
        message = arrow({**others, "value": value})
        rows = outcome(nested.read(message), 4)
        assert [row if row == "value" else row[2] for row in rows] == expected, column.type
        assert len(nested.read_run([message] * 2).row) == 6
        cut = arrow({**{name: each[1:] for name, each in others.items()}, "value": value.slice(1)})
        assert [row[2] for row in outcome(nested.read(cut), 3)] == expected[1:]


def test_nanoseconds_of_64_bits():
    """Until 2554, as a JSON number."""
    declared = EventReader(("user",), ("value",), ("time",), time_unit="ns")
    times = [2**63 - 1, 2**63, 10**19, 2**64 - 1, None, 5]
    assert agree("time", pa.uint64(), times, times, declared, {"time": NOON * NANOSECONDS}) == [
        9_223_372_036_854, 9_223_372_036_854, 10**13, 18_446_744_073_709, "time", "time",
    ]  # fmt: skip
    plain = EventReader(("user",), ("value",), ("time",))
    assert agree("time", pa.uint64(), times, times, plain) == ["time"] * 6


def test_the_reason_is_that_of_the_first_that_is_wrong():
    """Of a list of names, too."""
    names = EventReader(("user",), ("value",), ("time",), NAMES, 2)
    values = [[3.5, np.nan], [np.nan, 3.5], [404.0, None], [None, 3.5], [404.0, np.nan]]
    rows = agree("value", pa.list_(pa.float64()), values, values, names, {"value": ["404"] * 2})
    assert rows == ["category", "not_finite", "value", "value", "not_finite"]
