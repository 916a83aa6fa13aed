"""Records survive the wire, and nothing else gets through it."""

from __future__ import annotations

import json
import struct
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ldp_kafka as lk
from ldp_kafka.errors import BadRecord, Reason
from ldp_kafka.records import (
    DeadLetter,
    Event,
    Events,
    Ids,
    Partial,
    Release,
    Report,
    Reports,
    Request,
    Sums,
    Tick,
)
from ldp_kafka.runtime.wire.arrow import (
    MAX_BYTES,
    MAX_ROWS,
    binary,
    lists,
    read_batch,
    write_batch,
)
from ldp_kafka.runtime.wire.codec import decode, encode
from ldp_kafka.runtime.wire.events import EventReader
from ldp_kafka.runtime.wire.parsing import LATEST, parse_json
from ldp_kafka.runtime.wire.records import decode_json, encode_json, header
from ldp_kafka.runtime.wire.reports import read_reports, write_reports
from tests.depth import depth

NOON = 1_772_366_400_000  # 2026-03-01T12:00:00Z
FINGERPRINT = "0123456789abcdef" * 2
SHARED = {
    "fingerprint": FINGERPRINT,
    "scale": 2**-10,
    "bound": 7,
    "chunk": 0,
    "phase": 0,
    "closed": None,
}

texts = st.text(st.characters(codec="utf-8"), max_size=20)
users = st.text(st.characters(codec="utf-8"), min_size=1, max_size=60)
times = st.integers(0, LATEST - 1)
whole = st.integers(-(2**61), 2**61)
digits = st.binary(min_size=16, max_size=16).map(bytes.hex)
floats = st.floats(allow_nan=False, allow_infinity=False)
numbers = st.none() | floats | whole | st.lists(floats, max_size=4)
slots = st.integers(0, LATEST - 1)

events = st.builds(Event, users, times, floats | whole | texts)
requests = st.builds(Request, texts, whole, whole, whole, whole)
releases = st.builds(
    Release,
    topology=texts,
    slot=whole,
    start=texts,
    end=texts,
    statistic=texts,
    value=numbers,
    standard_error=numbers,
    confidence_interval=st.none() | st.lists(numbers, max_size=2),
    reports=st.integers(0, 2**60),
    strategy=texts,
    guarantee=st.dictionaries(texts, st.none() | texts | floats, max_size=3),
    user=st.none() | texts,
    reliability=st.none() | floats,
    categories=st.none() | st.lists(texts, max_size=3),
    edges=st.none() | st.lists(floats, max_size=3),
)
partials = st.builds(
    Partial, whole, whole, st.none() | whole, st.none() | st.lists(whole, max_size=4).map(tuple)
)
ticks = st.builds(Tick, times)
letters = st.builds(
    DeadLetter, texts, st.integers(0, 99), slots, st.integers(0, 99), st.sampled_from(Reason)
)
sums = st.builds(
    Sums,
    whole,
    st.integers(0, 2**16 - 1),
    st.integers(0, 2**31 - 1),
    st.none() | st.lists(whole, max_size=4).map(tuple),
)


@st.composite
def reports(draw, least=1, most=4):
    """Reports of one batch: one fingerprint, phase and scale, all with a series or none."""
    phase, fingerprint, scale, linked = (
        draw(st.integers(0, 2**16 - 1)),
        draw(digits),
        draw(st.sampled_from([1, 2**-4, 2**-10, 2**-31])),
        draw(st.booleans()),
    )
    width = draw(st.integers(0, 3))
    if width:
        packed = st.tuples(digits, slots, st.binary(min_size=width, max_size=width), digits)
        return [
            Report(i, slot, phase, bits, fingerprint, series if linked else None)
            for i, slot, bits, series in draw(st.lists(packed, min_size=least, max_size=most))
        ]
    one = st.tuples(digits, slots, st.integers(-(2**31) + 1, 2**31 - 1), digits)
    rows = draw(st.lists(one, min_size=least, max_size=most))
    return [
        Report(i, slot, phase, index * scale, fingerprint, series if linked else None)
        for i, slot, index, series in rows
    ]


@st.composite
def batches(draw):
    """Report batches as the edge writes them: any number of rows."""
    n = draw(st.integers(0, 5))
    ids = np.frombuffer(draw(st.binary(min_size=16 * n, max_size=16 * n)), np.uint64).reshape(-1, 2)
    width, bound = draw(st.integers(0, 3)), draw(st.sampled_from([2**31, 2**62]))
    if width:
        index = np.frombuffer(
            draw(st.binary(min_size=width * n, max_size=width * n)), np.uint8
        ).reshape(n, width)
    else:
        index = np.array(
            draw(st.lists(st.integers(-bound, bound - 1), min_size=n, max_size=n)), np.int64
        )
    at = np.array(draw(st.lists(slots, min_size=n, max_size=n)), np.int64)
    series = ids[::-1].copy() if draw(st.booleans()) else None
    scale, closed = (
        1 if width else draw(st.sampled_from([1, 2**-10])),
        draw(st.none() | st.integers(-1002, LATEST)),
    )
    return Reports(
        ids,
        at,
        index,
        scale,
        draw(digits),
        draw(st.integers(-1, 2**61)),
        closed,
        draw(st.integers(0, 99)),
        draw(st.integers(0, 2**16 - 1)),
        series,
    )


def same(one, other):
    """Equality of report batches, column by column."""
    for name in ("scale", "fingerprint", "bound", "closed", "chunk", "phase"):
        assert getattr(one, name) == getattr(other, name)
    for name in ("ids", "slots", "values"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert (one.series is None) == (other.series is None)
    if one.series is not None:
        np.testing.assert_array_equal(one.series, other.series)


def refused(reader, message):
    """The reason with which a reader refuses a message; fails where it does not, or where it raises
    anything else.
    """
    with pytest.raises(BadRecord) as caught:
        reader(message)
    known(caught.value)
    return caught.value.reason


def known(bad):
    """A refusal says a reason from the list and nothing else."""
    assert bad.reason in Reason
    assert str(bad) == bad.reason.sentence


def survives(message):
    """No reader raises anything but a BadRecord with a known reason, whatever the bytes; nor does
    any reader return what is not a record.
    """
    for reader in (decode, read_reports, lambda value: decode_json(parse_json(value)), read_batch):
        try:
            found = reader(message)
        except BadRecord as bad:
            known(bad)
            continue
        if reader is decode:
            assert all(
                isinstance(record, Event | Report | Request | Release | Tick | Partial)
                for record in found
            )
            assert all(repr(record) for record in found)
    for categories, dimension in ((None, 0), (4, 0), (("a", "b"), 0), (None, 2)):
        decoded = EventReader(("user",), ("value",), ("time",), categories, dimension).read(message)
        assert all(type(reason) is Reason for _, reason in decoded.bad)
        if decoded.events is not None and len(decoded.events):
            assert (
                len(decoded.events.users.texts())
                == len(decoded.events.times)
                == len(decoded.events.values)
            )
            assert np.isfinite(decoded.events.values).all()
            assert decoded.events.values.shape[1:] == ((2,) if dimension else ())
            assert (decoded.events.times >= 0).all()
            assert (decoded.events.times < LATEST).all()


def stream(columns, metadata=None, **options):
    """An Arrow IPC stream of one batch with any columns."""
    rows = pa.RecordBatch.from_arrays(
        list(columns.values()), names=list(columns), metadata=metadata
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_batch(rows)
    return sink.getvalue().to_pybytes()


def several(batches, schema=None):
    """An Arrow IPC stream of several batches, or none."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema or batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def report_columns(n=3):
    """Columns of a good report batch."""
    return {
        "id": pa.array([bytes([i]) * 16 for i in range(n)], pa.binary(16)),
        "slot": pa.array(range(n), pa.int64()),
        "index": pa.array(range(n), pa.int32()),
    }


def report_stream(columns=None, shared=None, **metadata):
    """A report batch with anything changed."""
    body = json.dumps(SHARED | (shared or {})) if not isinstance(shared, str) else shared
    return stream(
        report_columns() if columns is None else columns,
        {"ldp_kafka": "1", "type": "report", "shared": body, **metadata},
    )


def event_stream(n=5, **options):
    """A batch of good events."""
    columns = {
        "user": pa.array([f"u{i}" for i in range(n)]),
        "time": pa.array(np.arange(n) + 1_700_000_000_000),
        "value": pa.array(np.arange(n) / 2),
    }
    return stream(columns, **options)


# Round trips


@given(st.one_of(events, requests, releases, partials, ticks, letters, sums))
def test_a_single_record_round_trips(record):
    """One record of each kind as JSON, through the public door."""
    message = lk.encode(record)
    assert message.startswith(b'{"ldp_kafka":1,"type":"')
    assert lk.decode(message) == [record]


@given(
    st.one_of(
        *(
            st.lists(kind, min_size=2, max_size=5)
            for kind in (
                requests,
                releases,
                partials,
                ticks,
                letters,
                sums,
                st.builds(Event, users, times, floats),
            )
        )
    )
)
@settings(max_examples=60)
def test_a_batch_of_records_round_trips(records):
    """Several records of one kind as Arrow."""
    message = lk.encode(records)
    assert message.startswith(b"\xff\xff\xff\xff")
    assert lk.decode(message) == records


@given(
    st.sampled_from([floats, whole, texts]).flatmap(
        lambda values: st.lists(st.builds(Event, users, times, values), min_size=1, max_size=5)
    )
)
@settings(max_examples=60)
def test_event_values_of_each_kind_round_trip(records):
    """Numbers, category numbers and category names, with their types."""
    found = lk.decode(lk.encode(records))
    assert found == records
    assert [type(record.value) for record in found] == [type(record.value) for record in records]


@given(reports())
def test_reports_round_trip(records):
    """Outputs are whole multiples of a power of two and come back exactly."""
    assert lk.decode(lk.encode(records)) == records
    assert lk.decode(lk.encode(records[0])) == records[:1]


@given(batches())
@settings(max_examples=60)
def test_report_batches_round_trip(batch):
    """What the edge writes is what the collector reads: any number of rows, with and without
    series.
    """
    message = write_reports(batch)
    same(read_reports(message), batch)
    singles = lk.decode(message)
    assert [single.id for single in singles] == [row.tobytes().hex() for row in batch.ids]
    whole = (
        [bits.tobytes() for bits in batch.values]
        if batch.values.ndim == 2
        else [index * batch.scale for index in batch.values.tolist()]
    )
    assert [single.value for single in singles] == whole


@given(st.lists(st.tuples(users, times, floats), max_size=5))
@settings(max_examples=40)
def test_columns_of_events_round_trip(rows):
    """`Events`, the batch form."""
    columns = Events(
        Ids.of([row[0] for row in rows]),
        np.array([row[1] for row in rows], np.int64),
        np.array([row[2] for row in rows], np.float64),
    )
    assert lk.decode(lk.encode(columns)) == [Event(*row) for row in rows]


def test_a_part_of_the_users_is_written_alone():
    """Of ids that were taken from others, or begin in the middle of their bytes."""
    every = Ids.of(["m1", "ü€", "", "m2"])
    for users in (every.take(np.array([2, 1])), Ids(every.data, every.offsets[1:3])):
        times, values = np.arange(len(users)), np.zeros(len(users))
        written = encode(Events(users, times, values))
        assert written == encode(Events(Ids.of(users.texts()), times, values))


@pytest.mark.parametrize("ends", [[0, 2], [0, 1, 2], [1, 2, 3]])
def test_users_that_are_no_text_are_refused(ends):
    """Who has one byte of a character of two."""
    users = Ids(np.frombuffer("aü".encode(), np.uint8), np.array(ends))
    with pytest.raises(ValueError, match="arrays"):
        encode(Events(users, np.arange(len(users)), np.zeros(len(users))))


def test_a_header_is_no_record():
    """Offset 0 of a topic of ours gives an empty list."""
    message = header("meters", FINGERPRINT, "f" * 32)
    assert lk.decode(message) == []
    assert read_reports(message) is None
    assert decode_json(parse_json(message)) is None
    assert EventReader(("u",), ("v",), ("t",)).read(message) == (None, None, (), None)


@pytest.mark.parametrize("n", [0, 1, 2, 7, 5000])
@pytest.mark.parametrize("shared", [None, {"bound": 3, "closed": None}])
def test_a_batch_is_what_a_stream_writer_writes(n, shared):
    """It is put together from its parts, which is faster."""
    rng = np.random.default_rng(n)
    columns = {
        "id": binary(rng.integers(0, 2**64, (n, 2), np.uint64)),
        "bits": binary(rng.integers(0, 256, (n, 5), np.uint8)),
        "slot": pa.array(rng.integers(0, 9, n)),
        "index": lists(rng.integers(0, 9, n).astype(np.int32)),
        "vector": lists(rng.integers(0, 9, (n, 3)).astype(np.int32)),
        "value": pa.array(rng.random(n)),
        "text": pa.array(["é" * at for at in rng.integers(0, 9, n)], pa.string()).slice(n // 3),
        "gap": pa.array([None, 1] * n, pa.int64()),
    }
    least = min(map(len, columns.values()))
    columns = {name: column.slice(0, least) for name, column in columns.items()}
    found = write_batch("event", list(columns), list(columns.values()), shared)
    rows, metadata = read_batch(found)
    assert rows.to_pydict() == {name: column.to_pylist() for name, column in columns.items()}
    schema = pa.schema([(name, each.type) for name, each in columns.items()], metadata)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(list(columns.values()), schema=schema))
    assert found == sink.getvalue().to_pybytes()


def test_the_same_record_is_always_the_same_bytes():
    """A replay must write byte for byte what was written before."""
    record = Reports(
        np.array([[1, 2], [3, 4]], np.uint64),
        np.array([5, 6]),
        np.array([7, -8]),
        2**-10,
        FINGERPRINT,
        9,
        4,
    )
    assert write_reports(record) == write_reports(record)
    assert len({write_batch("event", ["user"], [pa.array(["a"])]) for _ in range(3)}) == 1


@pytest.mark.parametrize(
    "records",
    [
        [],
        [Tick(1), Event("u", 1, 1.0)],
        [Event("u", 1, 1.0), Event("u", 2, "a")],
        Event("u", 1, float("nan")),
        Tick(1.5j),
    ],
)
def test_what_cannot_be_one_message_is_refused(records):
    """Nothing, a mixture, or what JSON cannot say."""
    with pytest.raises((TypeError, ValueError)):
        lk.encode(records)


@pytest.mark.parametrize(
    "wrong",
    [
        Report(
            "0" * 32, 1, 0, 0.1, FINGERPRINT
        ),  # no multiple of a power of two that 31 bits can hold
        Report("0" * 32, 1, 0, 2**62, FINGERPRINT),
        Report("0" * 32, 1, 0, b"\x01", FINGERPRINT),  # bits beside a number
        Report("0" * 32, 1, 0, float("inf"), FINGERPRINT),
        Report("0" * 32, 1, 0, float("nan"), FINGERPRINT),
        Report("0" * 30, 1, 0, 1, FINGERPRINT),
        Report("0" * 32, 1, 1, 1, FINGERPRINT),  # another phase than its neighbour's
        Report("0" * 32, 1, 0, 1, "f" * 32),
        Report("0" * 32, 1, 0, 1, FINGERPRINT, "0" * 32),
    ],
)
def test_reports_that_are_no_batch_are_refused_when_written(wrong):
    """Rather than wrapped into other numbers."""
    good = Report("1" * 32, 1, 0, 1, FINGERPRINT)
    with pytest.raises(ValueError, match=r"a batch|a report's value|wrong_fields|packed reports"):
        lk.encode([good, wrong])


# Strict JSON


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"", "empty"),
        (b" " * (MAX_BYTES + 1), "too_large"),
        (b"\x80abc", "not_json"),
        (b"not json", "not_json"),
        (b'{"ldp_kafka":1', "not_json"),
        (b"\xef\xbb\xbf{}", "not_json"),
        (b'{"ldp_kafka":1}trailing', "not_json"),
        (b"[" * 10**6, "not_json"),
        (b'{"a":' * 200_000 + b"1" + b"}" * 200_000, "not_json"),
        (b"9" * 10**6, "not_a_record"),
        (b"[]", "not_a_record"),
        (b"null", "not_a_record"),
        (b'"ldp_kafka"', "not_a_record"),
        (b"{}", "not_a_record"),
        (b'{"ldp_kafka":2,"type":"tick","time":1}', "version"),
        (b'{"ldp_kafka":true,"type":"tick","time":1}', "version"),
        (b'{"ldp_kafka":1.0,"type":"tick","time":1}', "version"),
        (b'{"ldp_kafka":null,"type":"header"}', "version"),
        (b'{"ldp_kafka":[],"type":"header"}', "version"),
        (b'{"ldp_kafka":1}', "wrong_fields"),
        (b'{"ldp_kafka":1,"type":"spy"}', "wrong_fields"),
        (b'{"ldp_kafka":1,"type":["tick"],"time":1}', "wrong_fields"),
        (b'{"ldp_kafka":1,"type":"tick"}', "wrong_fields"),
        (b'{"ldp_kafka":1,"type":"tick","time":1,"more":1}', "wrong_fields"),
        (b'{"ldp_kafka":1,"type":"tick","time":-1}', "time"),
        (b'{"ldp_kafka":1,"type":"tick","time":1.0}', "time"),
        (b'{"ldp_kafka":1,"type":"tick","time":true}', "time"),
        (b'{"ldp_kafka":1,"type":"tick","time":NaN}', "not_finite"),
        (b'{"ldp_kafka":1,"type":"tick","time":140737488355328}', "time"),
        (b'{"ldp_kafka":1,"type":"tick","time":1e999}', "time"),
        (b'{"ldp_kafka":1,"type":"event","user":"u","time":1,"value":Infinity}', "not_finite"),
        (b'{"ldp_kafka":1,"type":"event","user":"u","time":1,"value":1e999}', "not_finite"),
        (b'{"ldp_kafka":1,"type":"event","user":"u","time":1,"value":null}', "value"),
        (b'{"ldp_kafka":1,"type":"event","user":"u","time":1,"value":true}', "value"),
        (
            b'{"ldp_kafka":1,"type":"event","user":"u","time":1,"value":1' + b"0" * 400 + b"}",
            "value",
        ),
        (b'{"ldp_kafka":1,"type":"event","user":"","time":1,"value":1}', "user"),
        (b'{"ldp_kafka":1,"type":"event","user":7,"time":1,"value":1}', "user"),
        (b'{"ldp_kafka":1,"type":"event","user":"\\ud800","time":1,"value":1}', "user"),
        (b'{"ldp_kafka":1,"type":"event","user":"u","time":"1","value":1}', "time"),
        (b'{"ldp_kafka":1,"type":"event","time":1,"value":1}', "wrong_fields"),
        (b'{"ldp_kafka":1,"type":"event","user":"u","time":1}', "wrong_fields"),
        (
            b'{"ldp_kafka":1,"type":"partial","source":0,"slot":0,"first":null,"support":5}',
            "wrong_fields",
        ),
        (
            b'{"ldp_kafka":1,"type":"partial","source":0,"slot":0,"first":null,"support":false}',
            "wrong_fields",
        ),
        (
            b'{"ldp_kafka":1,"type":"partial","source":0,"slot":0,"first":null,"support":"12"}',
            "wrong_fields",
        ),
        (
            b'{"ldp_kafka":1,"type":"partial","source":0,"slot":0,"first":null,"support":{}}',
            "wrong_fields",
        ),
        (
            b'{"ldp_kafka":1,"type":"partial","source":0,"slot":0,"first":null,"support":[1.5]}',
            "wrong_fields",
        ),
        (
            b'{"ldp_kafka":1,"type":"partial","source":0,"slot":0,"first":null,"support":[1'
            + b"0" * 30
            + b"]}",
            "wrong_fields",
        ),
        (
            b'{"ldp_kafka":1,"type":"partial","source":true,"slot":0,"first":null,"support":null}',
            "wrong_fields",
        ),
        (
            b'{"ldp_kafka":1,"type":"partial","source":0,"slot":1e3,"first":null,"support":null}',
            "wrong_fields",
        ),
        (
            (
                b'{"ldp_kafka":1,"type":"request","id":"r","slot":"1","phase":0,"epsilon":1,'
                b'"deadline":1}'
            ),
            "wrong_fields",
        ),
    ],
)
def test_json_is_read_strictly(message, reason):
    """Every way to be wrong has its reason, and none of them raises anything else."""
    assert refused(lk.decode, message) == reason
    survives(message)


RELEASE = json.loads(
    encode_json(
        Release(
            *("t", 1, "a", "b", "mean", 1.0, 0.1, [0.8, 1.2], 5, "direct", {}, "ab", 0.5),
            categories=["a"],
            edges=[0.0, 1],
        )
    )
)
REQUEST = json.loads(encode_json(Request("r", 1, 0, 5, 2)))
PARTIAL = json.loads(encode_json(Partial(0, 1, 0, (1, 2))))
EVENT = json.loads(encode_json(Event("u", 1, 1.0)))
REPORT = json.loads(
    write_reports(
        Reports(
            np.ones((1, 2), np.uint64),
            np.array([1]),
            np.array([2]),
            2**-10,
            FINGERPRINT,
            3,
            None,
            series=np.ones((1, 2), np.uint64),
        )
    )
)


@pytest.mark.parametrize(
    "good", [RELEASE, REQUEST, PARTIAL, EVENT, REPORT], ids=lambda good: good["type"]
)
def test_no_field_takes_a_wrong_type(good):
    """An object in place of any field is refused; so is any field too many, and any field too few
    but the optional ones.
    """
    assert lk.decode(json.dumps(good).encode())
    optional = (
        {"user", "reliability", "categories", "edges"}
        if good["type"] == "release"
        else {"series", "scale"}
        if good["type"] == "report"
        else set()
    )
    for name in good.keys() - {"ldp_kafka", "type"}:
        if name != "guarantee":
            refused(lk.decode, json.dumps(good | {name: {"an": "object"}}).encode())
        wrong = 1 if name == "last" else True  # the one field that is true or false
        refused(lk.decode, json.dumps(good | {name: wrong}).encode())
        refused(lk.decode, json.dumps(good | {"unknown": 1}).encode())
        fewer = json.dumps({key: value for key, value in good.items() if key != name}).encode()
        if name in optional:
            assert lk.decode(fewer)
        else:
            assert refused(lk.decode, fewer) == "wrong_fields"


@pytest.mark.parametrize(
    "change",
    [
        {"id": "0" * 31},
        {"id": "0" * 30 + "  "},
        {"id": "g" * 32},
        {"id": "A" * 32},
        {"series": "0"},
        {"index": 2**62},
        {"index": -(2**62) - 1},
        {"index": 1.0},
        {"slot": -1},
        {"slot": LATEST},
        {"scale": 0},
        {"scale": -1},
        {"scale": 10**400},
        {"scale": 5e-324},
        {"bound": -2},
        {"bound": 2**70},
        {"chunk": -1},
        {"phase": 2**16},
        {"phase": -1},
        {"closed": 1.5},
        {"closed": "1"},
        {"closed": 10**30},
        {"fingerprint": "g" * 32},
        {"fingerprint": FINGERPRINT.upper()},
        {"fingerprint": "0" * 31},
    ],
    ids=str,
)
def test_a_reports_numbers_have_bounds(change):
    """As JSON and, where the batch shares them, in an Arrow batch's metadata."""
    assert refused(read_reports, json.dumps(REPORT | change).encode()) == "wrong_fields"
    if change.keys() <= SHARED.keys():
        assert refused(read_reports, report_stream(shared=change)) == "wrong_fields"


def test_of_a_field_said_twice_the_last_counts():
    """As in every JSON parser: nothing is added up, nothing is reported twice."""
    assert lk.decode(b'{"ldp_kafka":1,"type":"tick","time":1,"time":2}') == [lk.Tick(2)]
    decoded = EventReader(("user",), ("value",), ("time",)).read(
        b'{"user":"a","time":1700000000,"value":1,"value":2}'
    )
    assert decoded.events.values.tolist() == [2.0]


# Strict Arrow


def test_report_columns_are_exactly_those():
    """Other types, nulls, missing, doubled or more columns are refused, as are numbers of slots
    that cannot be.
    """
    good = report_columns()
    assert len(read_reports(report_stream(good))) == 3
    wrong = [
        {**good, "more": pa.array([1, 2, 3])},
        {name: good[name] for name in ("id", "slot")},
        {**good, "series": pa.array(["a", "b", "c"])},
        {**good, "index": pa.array([1, 2, 3], pa.int16())},
        {**good, "index": pa.array([1, 2, 2**62], pa.int64())},
        {**good, "bits": pa.array([b"a", b"b", b"c"], pa.binary(1))},
        {"id": good["id"], "slot": good["slot"], "bits": pa.array([b"a", b"b", b"c"])},
        {
            "id": good["id"],
            "slot": good["slot"],
            "bits": pa.array([b"a", None, b"c"], pa.binary(1)),
        },
        {**good, "index": pa.array([1, None, 3], pa.int32())},
        {**good, "id": pa.array([b"a" * 16, None, b"c" * 16], pa.binary(16))},
        {**good, "id": pa.array([b"a" * 16] * 3)},
        {**good, "id": pa.array([b"a" * 15] * 3, pa.binary(15))},
        {**good, "slot": pa.array([0, -1, 2], pa.int64())},
        {**good, "slot": pa.array([0, LATEST, 2], pa.int64())},
        {**good, "slot": pa.array([0, 1, 2], pa.timestamp("ms"))},
        {**good, "slot": pa.array([0, 1, 2], pa.int64()).dictionary_encode()},
    ]
    for columns in wrong:
        assert refused(read_reports, report_stream(columns)) == "wrong_fields"
    doubled = pa.RecordBatch.from_arrays(
        [*good.values(), good["slot"]],
        names=[*good, "slot"],
        metadata={"ldp_kafka": "1", "type": "report", "shared": json.dumps(SHARED)},
    )
    assert refused(read_reports, several([doubled])) == "wrong_fields"


@pytest.mark.parametrize(
    "shared",
    [
        "",
        "[]",
        '"x"',
        "7",
        "null",
        "{",
        "{}",
        "[" * 10**5,
        json.dumps(SHARED)[:-1],
        json.dumps(SHARED | {"more": 1}),
        json.dumps(SHARED).replace("0.0009765625", "Infinity"),
    ],
    ids=range(11),
)
def test_what_rows_share_is_read_as_strictly(shared):
    """The metadata are a stranger's JSON as well."""
    message = report_stream(shared=shared)
    assert refused(read_reports, message) == "wrong_fields"
    survives(message)


def test_reports_need_their_version_and_type():
    """A batch that does not say what it is is none of ours."""
    assert refused(read_reports, stream(report_columns())) == "not_a_report"
    assert (
        refused(read_reports, stream(report_columns(), {"ldp_kafka": "2", "type": "report"}))
        == "version"
    )
    assert (
        refused(read_reports, stream(report_columns(), {"ldp_kafka": "", "type": "report"}))
        == "version"
    )
    assert (
        refused(read_reports, stream(report_columns(), {"ldp_kafka": "1", "type": b"\xff\xfe"}))
        == "not_a_report"
    )
    assert (
        refused(read_reports, stream(report_columns(), {"ldp_kafka": "1", "type": "report"}))
        == "wrong_fields"
    )
    assert refused(read_reports, encode([Tick(1), Tick(2)])) == "not_a_report"
    assert refused(read_reports, encode(Tick(1))) == "not_a_report"
    assert refused(lk.decode, stream(report_columns())) == "not_a_record"
    assert (
        refused(lk.decode, stream(report_columns(), {"ldp_kafka": "1", "type": "spy"}))
        == "not_a_record"
    )


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
@pytest.mark.parametrize("encoded", [False, True])
def test_a_compressed_body_is_refused_before_it_is_inflated(codec, encoded):
    """80 MB of zeros in some 100 kB: whether in the rows or in a dictionary."""
    blank = (
        pa.array(["x" * 10_000_000]).dictionary_encode() if encoded else pa.array(np.zeros(10**6))
    )
    bomb = stream({"user": blank}, compression=codec)
    assert len(bomb) < 400_000
    before = pa.total_allocated_bytes()
    assert refused(read_batch, bomb) == "not_arrow"
    assert pa.total_allocated_bytes() - before < 10**6
    assert read_batch(stream({"user": blank}))[0].num_rows == len(blank)


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_a_compressed_bodys_claim_is_never_believed(codec):
    """A body that says that it holds an exabyte makes nobody reserve one."""
    message = bytearray(stream({"user": pa.array(np.zeros(1000))}, compression=codec))
    at = message.index(struct.pack("<q", 8000))
    message[at : at + 8] = struct.pack("<q", 2**60)
    assert refused(read_batch, bytes(message)) == "not_arrow"
    survives(bytes(message))


def test_rows_without_bytes_have_a_bound():
    """A column of nulls needs no bytes: the number of rows is the sender's word."""
    assert read_batch(stream({"a": pa.nulls(MAX_ROWS)}))[0].num_rows == MAX_ROWS
    assert refused(read_batch, stream({"a": pa.nulls(MAX_ROWS + 1)})) == "too_large"
    half = pa.RecordBatch.from_arrays([pa.nulls(MAX_ROWS // 2 + 1)], names=["a"])
    assert refused(read_batch, several([half, half])) == "too_large"
    claimed = stream({"a": pa.nulls(12345)}).replace(
        struct.pack("<q", 12345), struct.pack("<q", 2**40)
    )
    assert refused(read_batch, claimed) == "too_large"
    many = {str(i): pa.nulls(MAX_ROWS) for i in range(50)}
    assert refused(lk.decode, stream(many, {"ldp_kafka": "1", "type": "tick"})) == "wrong_fields"


@pytest.mark.parametrize("kind", ["user", "category"])
def test_a_dictionary_is_no_bomb(kind):
    """One long text said half a million times would be 128 GB written out."""
    n = 500_000
    long = pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, np.int8)), pa.array(["x" * 256_000]))
    short = pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, np.int8)), pa.array(["a"]))
    times = pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, np.int8)), pa.array([NOON]))
    columns = (
        {"user": long, "time": times, "value": short}
        if kind == "user"
        else {"user": short, "time": times, "value": long}
    )
    message = stream(columns)
    assert len(message) < MAX_BYTES
    before = pa.total_allocated_bytes()
    decoded = EventReader(("user",), ("value",), ("time",), ("a", "b")).read(message)
    assert pa.total_allocated_bytes() - before < 2**27
    assert len(decoded.bad) == n
    assert {reason for _, reason in decoded.bad} == {kind}
    allowed = pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, np.int8)), pa.array(["x" * 256]))
    assert EventReader(("user",), ("value",), ("time",), ("a", "b")).read(
        stream({"user": allowed, "time": times, "value": short})
    ).bad == [(0, "too_large")]
    refused(lk.decode, stream({**columns}, {"ldp_kafka": "1", "type": "event"}))


def test_several_batches_are_one_message():
    """Rows count through all of them; dictionaries may change on the way."""
    one = pa.RecordBatch.from_pydict(
        {
            "user": pa.array(["a", "b"]).dictionary_encode(),
            "time": [NOON, NOON + 1],
            "value": [0.5, 1.5],
        }
    )
    two = pa.RecordBatch.from_pydict(
        {
            "user": pa.array(["c", "a", ""]).dictionary_encode(),
            "time": [NOON + 2, NOON + 3, NOON + 4],
            "value": [2.5, 3.5, 4.5],
        }
    )
    decoded = EventReader(("user",), ("value",), ("time",)).read(
        several([one, two, one.slice(0, 0)])
    )
    assert decoded.events.users.texts() == ["a", "b", "c", "a"]
    assert decoded.events.values.tolist() == [0.5, 1.5, 2.5, 3.5]
    assert decoded.bad == [(4, "user")]


@pytest.mark.parametrize("count", [0, 1, 2, 3])
@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string()), pa.int64()]
)
def test_no_rows_are_no_events(count, kind):
    """No batches, or several empty ones."""
    schema = pa.schema([("user", kind), ("time", pa.int64()), ("value", pa.float64())])
    decoded = EventReader(("user",), ("value",), ("time",)).read(
        several(
            [
                (
                    schema.empty_table().to_batches()[0]
                    if schema.empty_table().to_batches()
                    else pa.RecordBatch.from_pylist([], schema)
                )
            ]
            * count,
            schema,
        )
    )
    assert not decoded.bad
    assert len(decoded.events) == len(decoded.events.users) == 0


def test_no_rows_of_reports_are_an_empty_batch():
    """But no batch is none: the message was cut off."""
    schema = pa.schema(
        [("id", pa.binary(16)), ("slot", pa.int64()), ("index", pa.int32())],
        {"ldp_kafka": "1", "type": "report", "shared": json.dumps(SHARED)},
    )
    nothing = pa.RecordBatch.from_pylist([], schema)
    for message in (several([nothing], schema), several([nothing, nothing], schema)):
        batch = read_reports(message)
        assert len(batch) == 0
        assert batch.bound == 7
    assert refused(read_reports, several([], schema)) == "not_arrow"


ODD = {
    "list": pa.array([[1], [2, 3]]),
    "pairs": pa.array([[1.0, 2.0], [3.0, 4.0]]),
    "fixed_pairs": pa.array([[1.0, 2.0], None], pa.list_(pa.float64(), 2)),
    "no_pairs": pa.array([[], []], pa.list_(pa.float64(), 0)),
    "large_pairs": pa.array([[1, 2], [3, None]], pa.large_list(pa.uint64())),
    "pairs_of_nothing": pa.array([[None, None], [None, None]]),
    "pairs_of_decimals": pa.array(
        [[Decimal(10) ** 70, Decimal(1)], [Decimal(1), Decimal(2)]], pa.list_(pa.decimal256(76))
    ),
    "pairs_of_halves": pa.array([[np.float16(1), np.float16(2)]] * 2, pa.list_(pa.float16())),
    "list_view": pa.array([[1.0, 2.0], [3.0, 4.0]], pa.list_view(pa.float64())),
    "pairs_of_codes": pa.ListArray.from_arrays(
        pa.array([0, 2, 4], pa.int32()), pa.array([0.5, 1.5, 0.5, 1.5]).dictionary_encode()
    ),
    "struct": pa.array([{"a": 1}, {"a": 2}]),
    "map": pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int64())),
    "null": pa.nulls(2),
    "bool": pa.array([True, False]),
    "binary": pa.array([b"a", b"\xff"]),
    "fixed": pa.array([b"", b""], pa.binary(0)),
    "view": pa.array(["a", "b"], pa.string_view()),
    "ree": pa.RunEndEncodedArray.from_arrays(pa.array([1, 2], pa.int32()), pa.array(["a", "b"])),
    "union": pa.UnionArray.from_dense(
        pa.array([0, 0], pa.int8()), pa.array([0, 1], pa.int32()), [pa.array(["a", "b"])]
    ),
    "decimal": pa.array([Decimal(1), Decimal(2)]),
    "half": pa.array(np.array([1, 2], np.float16)),
    "date": pa.array([1, 2], pa.date32()),
    "duration": pa.array([1, 2], pa.duration("s")),
    "interval": pa.array([(1, 2, 3), (1, 2, 3)], pa.month_day_nano_interval()),
    "of_floats": pa.array([0.5, 1.5]).dictionary_encode(),
    "of_binary": pa.array([b"a", b"b"]).dictionary_encode(),
    "of_lists": pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array([[1], [2]])),
    "uuid": pa.array([b"a" * 16, b"b" * 16], pa.uuid()),
}


@pytest.mark.parametrize("odd", ODD)
def test_any_column_type_is_read_or_refused(odd):
    """In the place of each field, beside the fields, and in two batches."""
    good = {
        "user": pa.array(["a", "b"]),
        "time": pa.array([NOON, NOON + 1]),
        "value": pa.array([0.5, 1.5]),
    }
    for name in (*good, "extra"):
        columns = {**good, name: ODD[odd]}
        for metadata in (
            None,
            {"ldp_kafka": "1", "type": "event"},
            {"ldp_kafka": "1", "type": "tick"},
        ):
            survives(stream(columns, metadata))
        rows = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        try:
            message = several([rows, rows])
        except pa.ArrowInvalid:  # a writer that cannot replace nested dictionaries
            continue
        survives(message)
    decoded = EventReader(("user",), ("value",), ("time",)).read(
        stream({**good, "extra": ODD[odd]})
    )
    assert decoded.events.users.texts() == ["a", "b"]


@pytest.mark.parametrize(
    ("true", "lie"),
    [
        (struct.pack("<3i", 0, 3, 9), struct.pack("<3i", 0, 9, 3)),  # offsets that run backwards
        (struct.pack("<3i", 0, 3, 9), struct.pack("<3i", -5, 3, 9)),
        (struct.pack("<3i", 0, 3, 9), struct.pack("<3i", 0, 3, 10**6)),  # out of the data
        (b"abcdefghi", b"ab\xffdefghi"),  # no UTF-8
        (struct.pack("<2i", 1, 0), struct.pack("<2i", 1, 77)),  # no such entry of the dictionary
        (struct.pack("<2i", 1, 0), struct.pack("<2i", -1, 0)),
        (b"extra", b"ext\xff\xfe"),
    ],
)
def test_columns_that_lie_are_refused(true, lie):
    """Arrow validates them before numpy sees them."""
    columns = {
        "user": pa.array(["abc", "defghi"]),
        "time": pa.array([1_700_000_055, 1_700_000_066]),
        "value": pa.array([0.5, 1.5]),
    }
    columns["extra"] = pa.DictionaryArray.from_arrays(
        pa.array([1, 0], pa.int32()), pa.array(["p", "q"])
    )
    message = stream(columns)
    assert message.count(true) == 1
    reader = EventReader(("user",), ("value",), ("time",))
    assert len(reader.read(message).events) == 2
    assert reader.read(message.replace(true, lie)).bad == [(0, "not_arrow")]
    survives(message.replace(true, lie))


# Anything at all


@given(st.binary(max_size=300))
@settings(max_examples=300)
def test_garbage_is_refused(noise):
    """Bytes that mean nothing, as they are and where Arrow would begin."""
    survives(noise)
    survives(b"\xff\xff\xff\xff" + noise)
    survives(event_stream()[:40] + noise)


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(st.sampled_from([RELEASE, REQUEST, PARTIAL, EVENT, REPORT]), st.data())
@settings(max_examples=400)
def test_any_json_in_any_field_is_read_or_refused(good, data):
    """Never an exception of another kind."""
    name = data.draw(st.sampled_from(sorted(good)))
    survives(json.dumps(good | {name: data.draw(json_values)}).encode())
    survives(
        json.dumps(
            {"user": "u", "time": 1_700_000_000, "value": 1}
            | {data.draw(st.sampled_from(["user", "time", "value"])): data.draw(json_values)}
        ).encode()
    )


MESSAGES = {
    "reports": report_stream(),
    "series": write_reports(
        Reports(
            np.ones((2, 2), np.uint64),
            np.array([1, 2]),
            np.array([2, 3]),
            2**-10,
            FINGERPRINT,
            3,
            None,
            series=np.ones((2, 2), np.uint64),
        )
    ),
    "events": event_stream(),
    "dictionary": stream(
        {
            "user": pa.array(["a", "b", "a"]).dictionary_encode(),
            "time": pa.array([1, 2, 3]),
            "value": pa.array([0.5, None, 1.5]),
        }
    ),
    "large": stream(
        {
            "user": pa.array(["a", "bb"], pa.large_string()),
            "time": pa.array([1, 2], pa.timestamp("us")),
            "value": pa.array([1, 2], pa.uint64()),
        }
    ),
    "vectors": stream(
        {
            "user": pa.array(["a", "b"]),
            "time": pa.array([1, 2]),
            "value": pa.array([[1.0, 2.0], [3.0, 4.0]]),
        }
    ),
    "fixed_vectors": stream(
        {
            "user": pa.array(["a", "b"]),
            "time": pa.array([1, 2]),
            "value": pa.array([[1.0, 2.0], None], pa.list_(pa.float64(), 2)),
        }
    ),
    "vector_reports": write_reports(
        Reports(
            np.ones((2, 2), np.uint64),
            np.array([1, 2]),
            np.array([[2, 3], [4, 5]]),
            2**-10,
            FINGERPRINT,
            3,
            None,
        )
    ),
    "zstd": event_stream(compression="zstd"),
    "ticks": encode([Tick(1), Tick(2)]),
    "partials": encode([Partial(0, 1, 0, (1, 2)), Partial(1, 1, None, None)]),
    "releases": encode(
        [lk.Release("t", 1, "a", "b", "mean", 1.0, 0.1, [0.8, 1.2], 5, "direct", {})] * 2
    ),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_a_truncated_message_is_refused(name):
    """Cut anywhere before its last batch ends; the end-of-stream mark alone may be missing."""
    message = MESSAGES[name]
    batch_end = len(message) - 8
    for end in range(batch_end):
        survives(message[:end])
        with pytest.raises(BadRecord):
            read_batch(message[:end], 1)
    if name in ("reports", "series"):
        same(read_reports(message[:batch_end]), read_reports(message))


@pytest.mark.parametrize("name", MESSAGES)
def test_a_flipped_byte_breaks_nothing(name):
    """Every byte of a valid message, set to another value: three kinds in turn, and in the long run
    all three of every byte.
    """
    message, flips = MESSAGES[name], (0xFF, 0x01, 0x80)
    for at in range(4, len(message)):
        for flip in depth(flips[at % 3 :][:1], flips):
            survives(message[:at] + bytes([message[at] ^ flip]) + message[at + 1 :])


@given(
    st.sampled_from(sorted(MESSAGES)),
    st.lists(
        st.tuples(st.integers(0, 2000), st.binary(min_size=1, max_size=8)), min_size=1, max_size=4
    ),
)
@settings(max_examples=400)
def test_scattered_damage_breaks_nothing(name, damage):
    """Several runs of other bytes, words of length and offset among them."""
    message = bytearray(MESSAGES[name])
    for place, noise in damage:
        at = place % len(message)
        message[at : at + len(noise)] = noise
    survives(bytes(message))


def test_the_order_of_rows_is_that_of_the_message():
    """A decoded batch is not sorted, grouped or deduplicated."""
    records = [Report(f"{i * 7 % 5:032x}", i % 2, 0, i, FINGERPRINT) for i in range(10)]
    assert [single.value for single in lk.decode(lk.encode(records))] == list(range(10))
    assert any(a.id > b.id for a, b in pairwise(records))


@pytest.mark.parametrize(
    "kind",
    [
        pa.timestamp("ns"), pa.duration("ns"), pa.timestamp("s", "Nowhere/X"), pa.bool_(),
        pa.decimal128(38, 3), pa.list_(pa.int64()),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("size", [-1, 1])
def test_lists_of_what_is_no_number_are_refused(kind, size):
    """Arrow's own errors show the value that Python has none of."""
    within = pa.nulls(1, kind)
    if pa.types.is_temporal(kind):
        within = pa.array([1_700_000_000_123_456_789], pa.int64()).cast(kind)
    value = (
        pa.FixedSizeListArray.from_arrays(within, 1)
        if size == 1
        else pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), within)
    )
    message = stream(
        {"user": pa.array(["m1"]), "time": pa.array([NOON]), "value": value},
        {"ldp_kafka": "1", "type": "event"},
    )
    assert refused(lk.decode, message) == "wrong_fields"
