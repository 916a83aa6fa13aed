"""The users' own messages: what is an event, what is not, and why."""

from __future__ import annotations

import json
from datetime import UTC, datetime, time
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ldp_kafka as lk
from ldp_kafka.errors import Reason
from ldp_kafka.records import Event, Partial, Report, Request, Tick
from ldp_kafka.runtime.wire import event_arrow
from ldp_kafka.runtime.wire.arrow import MAX_BYTES
from ldp_kafka.runtime.wire.events import EventReader
from ldp_kafka.runtime.wire.parsing import LATEST
from ldp_kafka.runtime.wire.records import header
from ldp_kafka.topology import schema
from ldp_kafka.topology.paths import parse_path

NOON = 1_772_366_400_000  # 2026-03-01T12:00:00Z
NAMES = ("bus", "car", "bike")


def reader(user="$.user", value="$.value", time="$.time", categories=None):
    """A reader with paths as a topology writes them."""
    return EventReader(parse_path(user), parse_path(value), parse_path(time), categories)


def read(record, **options):
    """What one JSON message gives: (user, milliseconds, value), or its reason."""
    return one(reader(**options).read(json.dumps(record).encode()))


def one(decoded):
    """The single event of a message, or the reason why it has none."""
    if decoded.bad:
        assert decoded.events is None
        [(row, reason)] = decoded.bad
        assert row == 0
        return reason
    assert len(decoded.events) == 1
    return (
        decoded.events.users.texts()[0],
        int(decoded.events.times[0]),
        decoded.events.values[0].item(),
    )


def arrow(columns, metadata=None):
    """An Arrow IPC stream."""
    rows = pa.RecordBatch.from_arrays(
        [
            column if isinstance(column, pa.Array) else pa.array(column)
            for column in columns.values()
        ],
        names=list(columns),
        metadata=metadata,
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    return sink.getvalue().to_pybytes()


def outcome(decoded, n):
    """Of each of ``n`` rows of a batch: its event or its reason."""
    found = dict(decoded.bad)
    if decoded.events is not None:
        rows = range(n) if decoded.rows is None else decoded.rows.tolist()
        found |= dict(
            zip(
                rows,
                zip(
                    decoded.events.users.texts(),
                    decoded.events.times.tolist(),
                    decoded.events.values.tolist(),
                    strict=True,
                ),
                strict=True,
            )
        )
    assert len(found) == n, "a row is an event or has one reason"
    return [found[row] for row in range(n)]


def column(kind, values, *, categories=None, fill=None):
    """Outcomes of a batch in which only the column ``kind`` is put to the test."""
    n = len(values)
    good = {
        "user": pa.array([f"u{i}" for i in range(n)]),
        "time": pa.array([NOON] * n),
        "value": pa.array([1.0] * n) if categories is None else pa.array([0] * n),
    }
    if fill is not None:
        good["value"] = pa.array([fill] * n)
    decoded = reader(categories=categories).read(arrow({**good, kind: values}))
    return outcome(decoded, n) if decoded.rows is not None or not decoded.bad else decoded.bad


# Where the fields are


@pytest.mark.parametrize(
    ("paths", "record"),
    [
        (
            {"user": "$.meter_id", "value": "$.kwh", "time": "$.ts"},
            {"meter_id": "u", "kwh": 2.5, "ts": NOON},
        ),
        (
            {"user": "$.meter.id", "value": "$.reading.kwh", "time": "$.ts"},
            {"meter": {"id": "u"}, "reading": {"kwh": 2.5}, "ts": NOON},
        ),
        (
            {"user": "$.ids[1]", "value": "$.rows[0][2].v", "time": "$['t i.me']"},
            {"ids": ["x", "u"], "rows": [[0, 1, {"v": 2.5}]], "t i.me": NOON},
        ),
        ({"user": "$['μετρητής']"}, {"μετρητής": "u", "value": 2.5, "time": NOON}),
        ({}, {"user": "u", "value": 2.5, "time": NOON, "more": [1, {"user": "other"}]}),
    ],
)
def test_fields_are_where_the_topology_says(paths, record):
    """Nested names, list positions, any text; what else the record holds does not matter."""
    assert read(record, **paths) == ("u", NOON, 2.5)


@pytest.mark.parametrize(
    ("user", "found"),
    [
        ("$.a[0]", {"a": "text"}),
        ("$.a[0]", {"a": {"0": "u"}}),
        ("$.a[3]", {"a": ["u"]}),
        ("$.a.b", {"a": ["b"]}),
        ("$.a.b", {"a": "b"}),
        ("$.a.b", {"a": None}),
        ("$.a", {}),
        ("$.a.b.c", {"a": {"b": "c"}}),
    ],
)
def test_a_path_leads_through_what_it_names_only(user, found):
    """A letter of a text is no element of a list."""
    assert read({**found, "value": 1, "time": NOON}, user=user) == "user"


# Users


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        ("meter 7", "meter 7"),
        ("ж" * 128, "ж" * 128),
        ("a\0b", "a\0b"),
        ("😀", "😀"),
        (" ", " "),
        (0, "0"),
        (-7, "-7"),
        (2**63, str(2**63)),
        (2**64, "user"),
        (-(2**64), "user"),
        ("", "user"),
        ("a" * 256, "a" * 256),
        ("a" * 257, "user"),
        ("ж" * 129, "user"),
        ("\ud800", "user"),
        ("a\udfff", "user"),
        (None, "user"),
        (True, "user"),
        (1.0, "user"),
        (["u"], "user"),
        ({"id": "u"}, "user"),
        (17.0, "user"),
        (float("nan"), "user"),
    ],
    ids=ascii,
)
def test_a_user_is_text_or_a_whole_number(user, expected):
    """Of 1 to 256 bytes of UTF-8."""
    found = read({"user": user, "value": 1, "time": NOON})
    assert (found if isinstance(found, str) else found[0]) == expected


def test_users_that_differ_in_a_nul_are_two():
    """Padding must not make one of them."""
    users = ["a", "a\0", "a\0\0", "", "\0"]
    found = column("user", users)
    assert [row if isinstance(row, str) else row[0] for row in found] == [
        "a",
        "a\0",
        "a\0\0",
        "user",
        "\0",
    ]
    randomness = lk.randomness.seeded(1)
    digests = randomness.digests(
        reader().read(arrow({"user": users, "time": [NOON] * 5, "value": [1.0] * 5})).events.users
    )
    assert len({row.tobytes() for row in digests}) == 4


# Values


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, 1.0),
        (-2.5, -2.5),
        (0, 0.0),
        (1e308, 1e308),
        (5e-324, 5e-324),
        (2**63, 2.0**63),
        (10**308, 1e308),
        (10**309, "not_finite"),
        (float("nan"), "not_finite"),
        (float("inf"), "not_finite"),
        (float("-inf"), "not_finite"),
        (True, "value"),
        (False, "value"),
        (None, "value"),
        ("1", "value"),
        ("NaN", "value"),
        ([1], "value"),
        ({"v": 1}, "value"),
    ],
    ids=str,
)
def test_a_value_is_a_finite_number(value, expected):
    """Nothing is taken for a number that is not one."""
    found = read({"user": "u", "value": value, "time": NOON})
    assert (found if isinstance(found, str) else found[2]) == expected


@pytest.mark.parametrize("text", [b"1e999", b"-1e999", b"1" + b"0" * 4000])
def test_a_number_beyond_floats_is_not_finite(text):
    """JSON can write it; a float cannot hold it."""
    assert (
        one(reader().read(b'{"user":"u","time":1700000000,"value":' + text + b"}")) == "not_finite"
    )
    assert one(
        reader(categories=3).read(b'{"user":"u","time":1700000000,"value":' + text + b"}")
    ) in (
        "value",
        "category",
    )


@pytest.mark.parametrize(
    ("categories", "value", "expected"),
    [
        (3, 0, 0),
        (3, 2, 2),
        (3, 3, "category"),
        (3, -1, "category"),
        (3, 2**70, "category"),
        (3, 1.0, "value"),
        (3, True, "value"),
        (3, "1", "value"),
        (3, None, "value"),
        (NAMES, "bus", 0),
        (NAMES, "bike", 2),
        (NAMES, "Bus", "category"),
        (NAMES, "", "category"),
        (NAMES, "\ud800", "category"),
        (NAMES, 0, "category"),
        (NAMES, None, "value"),
        (NAMES, ["bus"], "value"),
    ],
)
def test_a_category_goes_by_number_or_by_name(categories, value, expected):
    """Whichever the topology lists, and nothing else."""
    found = read({"user": "u", "value": value, "time": NOON}, categories=categories)
    assert (found if isinstance(found, str) else found[2]) == expected


# Times


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        (NOON, NOON),
        (NOON // 1000, NOON),
        (NOON / 1000, NOON),
        (float(NOON), NOON),
        (1_700_000_000.25, 1_700_000_000_250),
        (1_700_000_000.3, 1_700_000_000_300),
        (1_700_000_000.0009, 1_700_000_000_000),
        (0, "time"),
        (0.5, "time"),
        (-0.0, "time"),
        (120, "time"),  # of a device that is on for two minutes
        (20_240_331, "time"),
        (20_240_331.5, "time"),
        (10**8 - 1, "time"),
        (10**8 - 0.001, "time"),
        (10**8, 10**11),
        (1e8, 10**11),
        (10**11 - 1, (10**11 - 1) * 1000),
        (10**11, 10**11),
        (LATEST - 1, LATEST - 1),
        (LATEST, "time"),
        (2**200, "time"),
        (-1, "time"),
        (-0.001, "time"),
        (True, "time"),
        (None, "time"),
        ([NOON], "time"),
        ("2026-03-01T12:00:00Z", NOON),
        ("2026-03-01T12:00:00", NOON),
        ("2026-03-01 12:00:00", NOON),
        ("2026-03-01T12:00", NOON),
        ("20260301T120000Z", NOON),
        ("2026-03-01", NOON - 12 * 3_600_000),
        ("2026-03-01T14:30:00+02:30", NOON),
        ("2026-03-01T04:00:00-08:00", NOON),
        ("2026-03-01T12:00:00.25Z", NOON + 250),
        ("2026-03-01T12:00:00.123456Z", NOON + 123),
        ("2026-03-01T12:00:00,999999999Z", NOON + 999),
        ("1970-01-01T00:00:00Z", 0),
        ("1969-12-31T23:59:59.999Z", "time"),
        ("1970-01-01T00:00:00+00:01", "time"),
        ("0001-01-01T00:00:00+23:59", "time"),
        ("6429-12-31T00:00:00Z", "time"),
        ("9999-12-31T23:59:59-23:59", "time"),
        ("2026-02-29", "time"),
        ("2026-03-01T25:00:00Z", "time"),
        ("yesterday", "time"),
        ("1772366400", "time"),
        ("", "time"),
        ("2026-03-01T12:00:00\ud800", "time"),
        ("2026-03-01T12:00:00Z\0", "time"),
    ],
    ids=ascii,
)
def test_times_are_epochs_or_iso(time, expected):
    """Seconds, milliseconds, whole or not, and ISO 8601 with and without zone and fractions; UTC
    where no zone is named.
    """
    found = read({"user": "u", "value": 1, "time": time})
    assert (found if isinstance(found, str) else found[1]) == expected


@given(st.integers(10**11, 4_000_000_000_000))
def test_a_millisecond_survives_every_spelling(milliseconds):
    """As whole milliseconds, as float seconds, as ISO text: the same slot, whatever the slots'
    length.
    """
    moment = datetime.fromtimestamp(milliseconds // 1000, UTC).replace(
        microsecond=milliseconds % 1000 * 1000
    )
    seconds = milliseconds / 1000
    assert read({"user": "u", "value": 1, "time": seconds}) == ("u", milliseconds, 1.0)
    assert read({"user": "u", "value": 1, "time": moment.isoformat()}) == ("u", milliseconds, 1.0)
    assert read({"user": "u", "value": 1, "time": milliseconds}) == ("u", milliseconds, 1.0)
    assert [row[1] for row in column("time", [seconds])] == [milliseconds]


# Arrow columns


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.large_string(),
        pa.dictionary(pa.int8(), pa.string()),
        pa.dictionary(pa.uint32(), pa.large_string()),
    ],
    ids=str,
)
def test_text_columns_of_users(kind):
    """Every encoding of text gives the same users and the same reasons."""
    users = ["a", "", None, "ж" * 128, "ж" * 129, "a\0", "a" * 256, "a" * 257]
    found = column(
        "user",
        (
            pa.array(users).cast(kind)
            if not pa.types.is_dictionary(kind)
            else pa.array(users).dictionary_encode().cast(kind)
        ),
    )
    assert [row if isinstance(row, str) else row[0] for row in found] == [
        "a",
        "user",
        "user",
        "ж" * 128,
        "user",
        "a\0",
        "a" * 256,
        "user",
    ]


def test_a_dictionary_may_hold_nulls():
    """A null entry is as good as a null."""
    users = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 0]), pa.array(["a", None]))
    assert [row if isinstance(row, str) else row[0] for row in column("user", users)] == [
        "a",
        "user",
        "user",
        "a",
    ]
    values = pa.DictionaryArray.from_arrays(
        pa.array([0, 1, None, 2]), pa.array(["bus", None, "boat"])
    )
    assert [
        row if isinstance(row, str) else row[2] for row in column("value", values, categories=NAMES)
    ] == [0, "value", "value", "category"]


@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.int64(), pa.uint64(), pa.dictionary(pa.int8(), pa.int64())], ids=str
)
def test_number_columns_of_users(kind):
    """A whole number is the text of its digits, as in JSON."""
    assert [
        row[0]
        for row in column(
            "user",
            (
                pa.array([1, 0, 127]).cast(kind)
                if not pa.types.is_dictionary(kind)
                else pa.array([1, 0, 127]).dictionary_encode()
            ),
        )
    ] == ["1", "0", "127"]
    if kind == pa.uint64():
        assert column("user", pa.array([2**64 - 1], kind))[0][0] == str(2**64 - 1)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (
            pa.array([1.5, None, np.nan, np.inf, -np.inf, -0.5], pa.float64()),
            [1.5, "value", "not_finite", "not_finite", "not_finite", -0.5],
        ),
        (pa.array([1.5, None, np.nan], pa.float32()), [1.5, "value", "not_finite"]),
        (pa.array(np.array([1.5, np.inf], np.float16)), [1.5, "not_finite"]),
        (pa.array([1, None, -(2**63)], pa.int64()), [1.0, "value", -(2.0**63)]),
        (pa.array([1, 2**64 - 1], pa.uint64()), [1.0, 2.0**64]),
        (pa.array([Decimal("1.25"), None, Decimal("-3.50")]), [1.25, "value", -3.5]),
        (pa.array([Decimal(10) ** 60, Decimal(1)], pa.decimal256(70)), [1e60, 1.0]),
    ],
    ids=["double", "float", "half", "int", "uint", "decimal", "decimal256"],
)
def test_number_columns_of_values(values, expected):
    """Each row by itself: neighbours of a bad one are unharmed."""
    assert [row if isinstance(row, str) else row[2] for row in column("value", values)] == expected


@pytest.mark.parametrize(
    ("values", "categories", "expected"),
    [
        (pa.array([0, 2, 3, -1, None], pa.int64()), 3, [0, 2, "category", "category", "value"]),
        (pa.array([0, 2, 3, None], pa.uint8()), 3, [0, 2, "category", "value"]),
        (pa.array([0, 2**64 - 1, 2**63, 2], pa.uint64()), 3, [0, "category", "category", 2]),
        (
            pa.array(["bus", "boat", None, "bike", ""]),
            NAMES,
            [0, "category", "value", 2, "category"],
        ),
        (
            pa.array(["bus", "boat", None, "bike"], pa.large_string()),
            NAMES,
            [0, "category", "value", 2],
        ),
        (
            pa.array(["bus", "boat", None, "bike", "x" * 999]).dictionary_encode(),
            NAMES,
            [0, "category", "value", 2, "category"],
        ),
    ],
)
def test_columns_of_categories(values, categories, expected):
    """By number or by name, each row by itself."""
    assert [
        row if isinstance(row, str) else row[2]
        for row in column("value", values, categories=categories)
    ] == expected


LOW, HIGH = -(2**63), 2**63 - 1


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        (
            pa.array([NOON, NOON // 1000, 0, -1, None, LATEST, LOW, LOW + 1, HIGH], pa.int64()),
            [NOON, NOON, "time", "time", "time", "time", "time", "time", "time"],
        ),
        (pa.array([NOON, 2**64 - 1, 2**63], pa.uint64()), [NOON, "time", "time"]),
        (pa.array([5, None, -5], pa.int8()), ["time"] * 3),
        (pa.array([20_240_331, 10**8 - 1, 10**8], pa.int32()), ["time", "time", 10**11]),
        (pa.array([20_240_331.5, 1e8 - 0.001, 1e8]), ["time", "time", 10**11]),
        (pa.array([1_700_000_000, None], pa.int32()), [1_700_000_000_000, "time"]),
        (
            pa.array(
                [
                    NOON / 1000,
                    1_700_000_000.3,
                    float(NOON),
                    np.nan,
                    np.inf,
                    -np.inf,
                    -0.001,
                    None,
                    1e300,
                ]
            ),
            [NOON, 1_700_000_000_300, NOON, *["time"] * 6],
        ),
        (
            pa.array([NOON // 1000, 5, None, -1, LOW, HIGH, 2**62], pa.timestamp("s")),
            [NOON, 5000, *["time"] * 5],
        ),
        (
            pa.array([NOON, 5, None, -1, LOW, HIGH], pa.timestamp("ms", "UTC")),
            [NOON, 5, *["time"] * 4],
        ),
        (
            pa.array(
                [NOON * 1000 + 999, 5999, None, -1, LOW, HIGH], pa.timestamp("us", "Europe/Berlin")
            ),
            [NOON, 5, *["time"] * 4],
        ),
        (
            pa.array([NOON * 10**6 + 999_999, None, -1, LOW, HIGH], pa.timestamp("ns", "+05:30")),
            [NOON, "time", "time", "time", HIGH // 10**6],
        ),
        (pa.array([NOON], pa.timestamp("ms", "no/such zone")), [NOON]),
        (
            pa.array(["2026-03-01T12:00:00Z", "1969-12-31T23:59:59Z", "soon", None, ""]),
            [NOON, *["time"] * 4],
        ),
        (pa.array(["2026-03-01T13:00:00+01:00"], pa.large_string()), [NOON]),
    ],
    ids=[
        "int64",
        "uint64",
        "int8",
        "days",
        "float days",
        "int32",
        "double",
        "s",
        "ms",
        "us",
        "ns",
        "zone",
        "text",
        "large_text",
    ],
)
def test_columns_of_times(times, expected):
    """Epochs of any width, timestamps of any unit and zone, texts; nothing wraps around, nothing
    before 1970 is rounded into it.
    """
    assert [row if isinstance(row, str) else row[1] for row in column("time", times)] == expected


@pytest.mark.parametrize(
    ("name", "values", "reason"),
    [
        ("user", pa.array([0.5, 1.5]), "user"),
        ("user", pa.array([True, False]), "user"),
        ("user", pa.array([b"a", b"b"]), "user"),
        ("user", pa.array([0.5, 1.5]).dictionary_encode(), "user"),
        ("value", pa.array(["1", "2"]), "value"),
        ("value", pa.array([True, False]), "value"),
        ("value", pa.array([NOON, NOON], pa.timestamp("ms")), "value"),
        ("time", pa.array([True, False]), "time"),
        ("time", pa.array([time(12)] * 2), "time"),
        ("time", pa.array([1, 2], pa.duration("s")), "time"),
    ],
)
def test_a_column_of_a_wrong_type_is_one_bad_message(name, values, reason):
    """No row of it can be an event, so there is one dead letter."""
    assert column(name, values) == [(0, reason)]


@pytest.mark.parametrize(
    ("missing", "reason"), [("user", "user"), ("time", "time"), ("value", "value")]
)
def test_a_missing_or_doubled_column_is_one_bad_message(missing, reason):
    """Which of two is meant nobody can say."""
    columns = {"user": ["a"], "time": [NOON], "value": [1.0]}
    assert reader().read(
        arrow({name: cells for name, cells in columns.items() if name != missing})
    ).bad == [(0, reason)]
    rows = pa.RecordBatch.from_arrays(
        [pa.array(cells) for cells in (*columns.values(), columns[missing])],
        names=[*columns, missing],
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    assert reader().read(sink.getvalue().to_pybytes()).bad == [(0, reason)]


def test_the_first_reason_of_a_row_counts():
    """A row that is wrong in all fields is one dead letter."""
    decoded = reader().read(
        arrow(
            {
                "user": ["", "", "a", "b"],
                "time": [-1, NOON, -1, NOON],
                "value": [np.nan, np.nan, np.nan, 1.0],
            }
        )
    )
    assert decoded.bad == [(0, "user"), (1, "user"), (2, "time")]
    assert decoded.rows.tolist() == [3]


def test_fields_of_structs():
    """A path of several names leads into struct columns; a null struct is a missing field."""
    meter = pa.StructArray.from_arrays(
        [pa.array(["a", "b", "c"]), pa.array([0.5, 1.5, 2.5])],
        ["id", "kwh"],
        mask=pa.array([False, True, False]),
    )
    paths = {"user": "$.meter.id", "value": "$.meter.kwh", "time": "$.ts"}
    decoded = reader(**paths).read(arrow({"meter": meter, "ts": [NOON] * 3}))
    assert outcome(decoded, 3) == [("a", NOON, 0.5), "user", ("c", NOON, 2.5)]
    assert reader(**{**paths, "user": "$.meter.name"}).read(
        arrow({"meter": meter, "ts": [NOON] * 3})
    ).bad == [(0, "user")]
    assert reader(**{**paths, "user": "$.ts.id"}).read(
        arrow({"meter": meter, "ts": [NOON] * 3})
    ).bad == [(0, "user")]


def test_slices_keep_to_their_rows():
    """A batch cut out of a larger one, as a columnar producer does: in memory as on the wire."""
    users = pa.array(["first", "", "ab", "cde", None, "last"])
    rows = pa.RecordBatch.from_arrays(
        [users, pa.array([NOON + i for i in range(6)]), pa.array([0.5, 1, 2, None, 4, 5])],
        names=["user", "time", "value"],
    ).slice(1, 4)
    expected = ["user", ("ab", NOON + 2, 2.0), "value", "user"]
    assert (
        outcome(reader().read(arrow(dict(zip(rows.schema.names, rows.columns, strict=True)))), 4)
        == expected
    )
    for kind in (pa.string(), pa.large_string()):
        ids, bad = event_arrow._users(users.cast(kind).slice(1, 3))
        assert ids.texts() == ["", "ab", "cde"]
        assert bad.tolist() == [True, False, False]
    assert event_arrow._users(users.dictionary_encode().slice(2, 2))[0].texts() == ["ab", "cde"]


# One logic for both formats

fields = {
    "user": st.one_of(
        st.text(st.characters(codec="utf-8"), max_size=4), st.none(), st.just("a" * 257)
    ),
    "time": st.one_of(
        st.integers(-5, 10),
        st.integers(10**8 - 2, 10**8 + 2),
        st.integers(10**11 - 2, 10**11 + 2),
        st.integers(LATEST - 2, LATEST + 2),
        st.integers(LOW, HIGH),
        st.none(),
    ),
    "value": st.one_of(st.floats(), st.none()),
}


@given(st.lists(st.fixed_dictionaries(fields), min_size=1, max_size=6), st.booleans())
@settings(max_examples=200)
def test_json_and_arrow_say_the_same(rows, encoded):
    """The same logical rows, one JSON message each or one batch: the same events and the same
    reasons.
    """
    singles = [one(reader().read(json.dumps(row).encode())) for row in rows]
    users = pa.array([row["user"] for row in rows], pa.string())
    columns = {
        "user": users.dictionary_encode() if encoded else users,
        "time": pa.array([row["time"] for row in rows], pa.int64()),
        "value": pa.array([row["value"] for row in rows], pa.float64()),
    }
    batch = outcome(reader().read(arrow(columns)), len(rows))
    for single, together in zip(singles, batch, strict=True):
        assert single == together


@given(
    st.lists(
        st.one_of(
            st.floats(-10, 2e14),
            st.floats(1e8 - 0.01, 1e8 + 0.01),
            st.floats(1e9, 2e9),
            st.floats(allow_nan=False, allow_infinity=False),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_float_times_are_the_same_in_both(times):
    """To the last millisecond: they decide the slot."""
    singles = [read({"user": "u", "value": 1, "time": time}) for time in times]
    assert [row if isinstance(row, str) else row[1] for row in column("time", times)] == [
        single if isinstance(single, str) else single[1] for single in singles
    ]


@given(
    st.lists(st.one_of(st.sampled_from([*NAMES, "boat", ""]), st.none()), min_size=1, max_size=6),
    st.booleans(),
)
def test_category_names_are_the_same_in_both(names, encoded):
    """Plain and dictionary-encoded."""
    singles = [read({"user": "u", "value": name, "time": NOON}, categories=NAMES) for name in names]
    cells = pa.array(names, pa.string())
    batch = column("value", cells.dictionary_encode() if encoded else cells, categories=NAMES)
    assert [row if isinstance(row, str) else row[2] for row in batch] == [
        single if isinstance(single, str) else single[2] for single in singles
    ]


# What else comes in a raw topic


def test_our_own_events_are_events():
    """As `lk.encode` writes them, one or many; but not those of another version."""
    events = [Event("a", NOON, 1.5), Event("b", NOON + 1, 2.5)]
    assert one(reader().read(lk.encode(events[0]))) == ("a", NOON, 1.5)
    assert outcome(reader().read(lk.encode(events)), 2) == [("a", NOON, 1.5), ("b", NOON + 1, 2.5)]
    assert (
        one(reader().read(lk.encode(events[0]).replace(b'{"ldp_kafka":1', b'{"ldp_kafka":2')))
        == "version"
    )
    columns = {"user": ["a"], "time": [NOON], "value": [1.0]}
    assert one(reader().read(arrow(columns, {"ldp_kafka": "2", "type": "event"}))) == "version"
    assert (
        one(reader().read(arrow(columns, {"ldp_kafka": "1", "type": "report"}))) == "not_a_record"
    )


def test_ticks_and_headers_are_no_events():
    """They are ours, wherever the user's fields are."""
    paths = {"user": "$.a", "value": "$.b", "time": "$.c"}
    assert reader(**paths).read(lk.encode(Tick(NOON))).tick == NOON
    assert reader(**paths).read(header("t", "0" * 32, "1" * 32)) == (None, None, (), None)


@pytest.mark.parametrize(
    "record",
    [Partial(0, 1, None, (1,)), Request("r", 1, 0, 1, 1), Report("0" * 32, 1, 0, 1, "0" * 32)],
)
def test_other_records_do_not_belong_here(record):
    """They are nobody's event, and no reason to stop."""
    assert one(reader().read(lk.encode(record))) == "not_a_record"


REASON_OF = {
    "empty": b"",
    "too_large": b"[" * (MAX_BYTES + 1),
    "not_json": b"{",
    "not_arrow": b"\xff\xff\xff\xff garbage",
    "not_a_record": b"[]",
    "wrong_fields": b'{"ldp_kafka":1,"type":"spy"}',
    "version": b'{"ldp_kafka":2,"type":"tick","time":1}',
    "user": b'{"time":1,"value":1}',
    "value": b'{"user":"u","time":1700000000}',
    "not_finite": b'{"user":"u","time":1700000000,"value":NaN}',
    "category": b'{"user":"u","time":1700000000,"value":7}',
    "time": b'{"user":"u","value":1}',
}
ELSEWHERE = {
    "ahead": "the edge's: tests/runtime/stages/test_bad_input.py",
    "not_a_report": "the collector's: tests/runtime/stages/test_collector.py",
    "fingerprint": "the collector's: tests/runtime/stages/test_collector.py",
    "range": "the collector's: tests/runtime/stages/test_collector.py",
    "closed": "the collector's: tests/runtime/stages/test_collector.py",
    "restarted": "the collector's: tests/runtime/stages/test_collector.py",
    "partition": "the edge's: tests/runtime/stages/test_edge.py",
    "stream": "the curator's: tests/runtime/stages/test_known_streams.py",
    "events": "of arrays: tests/runtime/wire/test_event_arrays.py",
}


@pytest.mark.parametrize("reason", REASON_OF)
def test_each_reason_has_its_message(reason):
    """One dead letter each, at row 0."""
    assert reader(categories=3 if reason == "category" else None).read(REASON_OF[reason]).bad == [
        (0, reason)
    ]


def test_a_whole_number_and_its_digits_are_one_user():
    """In either format; the schema and the documentation say so."""
    number, text = ({"user": user, "value": 1.0, "time": NOON} for user in (17, "17"))
    assert read(number) == read(text) == ("17", NOON, 1.0)
    assert read({**text, "user": "017"}) == ("017", NOON, 1.0)
    rows = {"time": [NOON], "value": [1.0]}
    assert one(reader().read(arrow({"user": [17], **rows}))) == ("17", NOON, 1.0)
    said = schema()["$defs"]["input"]["properties"]["user"]["description"]
    assert '17 and "17" are one user' in said
    readme = (Path(__file__).parents[3] / "topologies" / "README.md").read_text("utf-8")
    assert '`17` and `"17"` are one user' in " ".join(readme.split())


def test_no_reason_is_forgotten():
    """Every code of the list is met here or where it is said, and fits the column of a batch."""
    assert REASON_OF.keys() | ELSEWHERE.keys() == set(Reason)
    assert not REASON_OF.keys() & ELSEWHERE.keys()
    assert all(reason.meaning and reason.meaning == reason.meaning.strip() for reason in Reason)


@pytest.mark.parametrize(
    "error",
    [pa.ArrowNotImplementedError(NAMES[0]), pa.ArrowInvalid(NAMES[0]), ValueError(NAMES[0])],
)
def test_what_arrow_cannot_do_with_a_column_is_a_dead_letter(monkeypatch, error):
    """A kernel that some release of Arrow lacks must not stop the worker at the same message
    forever.
    """

    def fail(*_):
        raise error

    monkeypatch.setattr("ldp_kafka.runtime.wire.event_arrow._times", fail)
    assert reader().read(arrow({"user": ["a"], "time": [NOON], "value": [1.0]})).bad == [
        (0, "not_arrow")
    ]


def test_no_value_no_message():
    """A Kafka record without a value is empty, not an error."""
    assert reader().read(None).bad == [(0, "empty")]


@given(st.text(max_size=30))
@settings(max_examples=200)
def test_any_text_is_a_time_or_a_reason(text):
    """Whatever a parser of dates makes of it."""
    found = read({"user": "u", "value": 1, "time": text})
    assert found == "time" or 0 <= found[1] < LATEST
