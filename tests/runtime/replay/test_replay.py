"""A replay is the input, slot by slot, each user in one partition, and event time goes on
everywhere.
"""

from __future__ import annotations

import json
from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import Consumer, TopicPartition
from pyarrow import parquet

from ldp_kafka.cli import main
from ldp_kafka.errors import BrokerError, ConfigurationError
from ldp_kafka.runtime import local, replay
from ldp_kafka.runtime.brokers.embedded import EmbeddedBroker
from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.runtime.replay import (
    Raw,
    Unread,
    as_log,
    from_arrays,
    from_slots,
    from_table,
    last_tick,
    messages,
    murmur2,
    partitions_of,
    read_file,
    send,
)
from ldp_kafka.runtime.replay.files import read_slices
from ldp_kafka.runtime.replay.send import Position, check_ahead, check_past
from ldp_kafka.runtime.wire.codec import decode
from ldp_kafka.runtime.wire.events import EventReader
from ldp_kafka.topology import loads
from tests.cases import cases

HOUR = 3_600_000
START = 1_700_000_000_000 // HOUR * HOUR
TEXT = """
topology: meters
input: {{partitions: {partitions}, slot: 1h, lateness: {lateness}, format: {format}, {fields}}}
privacy: {{method: {method}, epsilon: 4.0, window: 3, {shape}}}
output: {{statistics: [{statistic}]}}
"""


def topology(
    *,
    partitions=2,
    lateness=1,
    format="json",  # noqa: A002
    fields="user: $.u, value: $.v, time: $.t",
    categories=None,
):
    method, shape, statistic = (
        ("sw_direct", "domain: [0, 10]", "mean")
        if categories is None
        else ("lpu", f"categories: {categories}", "frequencies")
    )
    return loads(
        TEXT.format(
            partitions=partitions,
            lateness=lateness,
            format=format,
            fields=fields,
            method=method,
            shape=shape,
            statistic=statistic,
        )
    )


def reader(made):
    source, privacy = made.input, made.privacy
    return EventReader(
        source.user, source.value, source.time, privacy.category_names or privacy.categories
    )


def events(made, stream):
    """(partition, user, time, value) of all messages, and the ticks of each partition."""
    found, ticks = [], defaultdict(list)
    for raw in stream:
        decoded = reader(made).read(raw.value)
        assert not decoded.bad
        if decoded.tick is not None:
            ticks[raw.partition].append(decoded.tick)
            assert raw.events == 0
        else:
            found += [
                (raw.partition, *row)
                for row in zip(
                    decoded.events.users.texts(),
                    decoded.events.times.tolist(),
                    decoded.events.values.tolist(),
                    strict=True,
                )
            ]
            assert raw.events == len(decoded.events)
            assert raw.timestamp == decoded.events.times.max()
    return found, ticks


@cases(
    ("key", "hash_"),
    [
        ("21", -973932308),
        ("foobar", -790332482),
        ("a-little-bit-long-string", -985981536),
        ("a-little-bit-longer-string", -1486304829),
        ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        ("abc", 479470107),
    ],
)
def test_murmur2_is_kafkas(key, hash_):
    """The vectors of Kafka's own test."""
    assert murmur2([b"x", key.encode(), b""]).astype(np.int32)[1] == hash_


def test_partitions_do_not_depend_on_company():
    """A user's partition is the same among others and alone, for ids of any length and script."""
    users = [f"u{i}" for i in range(300)] + ["ü", "用户", "x" * 200]
    together = partitions_of(users, 7)
    assert [int(partitions_of([user], 7)[0]) for user in users] == together.tolist()
    assert set(together.tolist()) == set(range(7))


@cases("batch", [None, 1, 3, 2048])
@cases("partitions", [1, 2, 4])
def test_every_event_goes_out_once_to_its_users_partition(batch, partitions):
    """As it was, in the order of slots, in messages of the size asked for."""
    made = topology(partitions=partitions)
    values = np.arange(60.0).reshape(12, 5) / 10
    source = from_arrays(made, values, START)
    stream = list(messages(made, source, batch))
    found, _ = events(made, stream)
    expected = {(f"u{i:06d}", START + t * HOUR, values[i, t]) for i in range(12) for t in range(5)}
    assert len(found) == 60
    assert {row[1:] for row in found} == expected
    assert all(partition == partitions_of([user], partitions)[0] for partition, user, _, _ in found)
    slots = [time for _, _, time, _ in found]
    assert slots == sorted(slots)
    assert max(raw.events for raw in stream) <= (batch or 1)


def test_a_batch_is_arrow_and_a_single_event_is_json():
    """By the topology's format unless said otherwise; the key of a single event is its user."""
    values = np.zeros((4, 1))
    for form, batch, arrow in (
        ("json", None, False),
        ("arrow", None, True),
        ("json", 10, True),
        ("arrow", 1, False),
    ):
        made = topology(format=form)
        sent = [
            raw for raw in messages(made, from_arrays(made, values, START), batch) if raw.events
        ]
        assert all(raw.value.startswith(b"\xff\xff\xff\xff") is arrow for raw in sent)
        assert all((raw.key is None) is arrow for raw in sent)
    assert json.loads(sent[0].value) == {"u": sent[0].key.decode(), "t": START, "v": 0.0}


def test_fields_go_where_the_topology_says():
    """Nested, in lists, and under names with spaces."""
    made = topology(fields="user: $.meter.id, value: \"$.readings[1]['k w h']\", time: $.meter.at")
    (raw,) = [raw for raw in messages(made, from_arrays(made, [[2.5]], START)) if raw.events]
    assert json.loads(raw.value) == {
        "meter": {"id": "u000000", "at": START},
        "readings": [None, {"k w h": 2.5}],
    }
    with pytest.raises(ConfigurationError, match="plain columns"):
        messages(made, from_arrays(made, [[2.5]], START), 10)


@cases(("categories", "wire"), [("[still, walk]", ["walk", "still"]), ("2", [1, 0])])
@cases("batch", [1, 100])
def test_categories_go_out_as_the_topology_reads_them(categories, wire, batch):
    """By name where they have names."""
    made = topology(categories=categories)
    stream = list(messages(made, from_arrays(made, [[1, 0]], START), batch))
    assert [value for _, _, _, value in events(made, stream)[0]] == [1, 0]
    if batch == 1:
        assert [json.loads(raw.value)["v"] for raw in stream if raw.events] == wire


def test_event_time_goes_on_in_every_partition():
    """A partition without events in a slot gets a tick at its end; the last tick closes the last
    slot and no later one.
    """
    made = topology(partitions=4, lateness=2)
    source = from_arrays(made, np.ones((1, 6)), START)
    _, ticks = events(made, messages(made, source))
    home = int(partitions_of(["u000000"], 4)[0])
    ends = [START + (t + 1) * HOUR - 1 for t in range(6)]
    for partition in range(4):
        assert ticks[partition] == ([] if partition == home else ends) + [
            last_tick(made, source.last)
        ]
    closed = last_tick(made, source.last) // HOUR - made.input.lateness - 1
    assert closed == source.last


def test_no_ticks_into_a_topic_of_someone_else():
    """Unless asked for."""
    made = topology(fields="user: $.u, value: $.v, time: $.t, create: false, topic: theirs")
    assert events(made, messages(made, from_arrays(made, np.ones((1, 3)), START)))[1] == {}
    assert (
        events(made, messages(made, from_arrays(made, np.ones((1, 3)), START), ticks=True))[1] != {}
    )


@pytest.mark.parametrize("batch", [1, 7, 2048])
def test_a_local_run_releases_every_slot(batch):
    """All slots, each with all users; the batch size and the partitions change no value."""
    values = np.random.default_rng(1).uniform(0, 10, (50, 8))
    found = set()
    for partitions in (1, 2, 4):
        made = topology(partitions=partitions)
        source = from_arrays(made, values, START)
        run = local.run(
            made,
            edge_randomness(made, bytes(32), "here"),
            as_log(made, messages(made, source, batch)),
        )
        assert not run.dead_letters
        records = [json.loads(record.value) for record in run.releases]
        assert [(record["slot"], record["reports"]) for record in records] == [
            (slot, 50) for slot in range(source.first, source.last + 1)
        ]
        found.add(tuple(record["value"] for record in records))
    assert len(found) == 1


def test_generated_slots_are_read_one_at_a_time():
    """A long stream need not be in memory."""
    made = topology()
    taken = []

    def slots():
        for t in range(3):
            taken.append(t)
            yield np.full(5, t)

    stream = messages(made, from_slots(made, slots(), 5, 3, start_ms=START))
    assert taken == []
    next(stream)
    assert taken == [0]
    assert len(list(stream)) > 10


@cases(
    "times",
    [
        [1_700_000_000, 1_700_003_600, 1_700_000_001],
        [1_700_000_000_000, 1_700_003_600_000, 1_700_000_001_000],
        [1_700_000_000.0, 1_700_003_600.0, 1_700_000_001.0],
        ["2023-11-14T22:13:20Z", "2023-11-14T23:13:20Z", "2023-11-14T22:13:21Z"],
        ["2023-11-14T22:13:20", "2023-11-14T23:13:20", "2023-11-14T22:13:21"],
        pa.array([1_700_000_000_000, 1_700_003_600_000, 1_700_000_001_000], pa.timestamp("ms")),
        pa.array(
            [1_700_000_000_000_000, 1_700_003_600_000_000, 1_700_000_001_000_000],
            pa.timestamp("us", "Europe/Berlin"),
        ),
    ],
)
def test_times_in_a_table_are_read_and_sorted(times):
    """Seconds, milliseconds, timestamps and text are the same times; rows come in their order."""
    made = topology()
    source = from_table(
        made,
        pa.table({"who": ["a", "b", "a"], "what": [1, 2, 3], "when": times}),
        "who",
        "what",
        "when",
    )
    found, _ = events(made, messages(made, source))
    rows = [row[1:] for row in found]
    assert [row for row in rows if row[0] == "a"] == [
        ("a", 1_700_000_000_000, 1.0),
        ("a", 1_700_000_001_000, 3.0),
    ]
    assert [row for row in rows if row[0] == "b"] == [("b", 1_700_003_600_000, 2.0)]
    assert source.events == 3


def test_start_shifts_by_whole_slots():
    """The place in the slot stays."""
    made = topology()
    table = pa.table(
        {
            "user": ["a", "a"],
            "value": [1.0, 2.0],
            "time": ["2012-10-02T09:10:00", "2012-10-02T11:20:00"],
        }
    )
    source = from_table(made, table, "user", "value", "time", start_ms=START + 5)
    assert [int(slot.times[0]) for slot in source.slots] == [
        START + 600_000,
        START + 2 * HOUR + 1_200_000,
    ]


def test_files(tmp_path):
    """CSV and Parquet, incomplete rows left out and counted; numbers as user ids."""
    made = topology()
    rows = (
        "meter,kwh,ts\n7,1.5,2023-11-14T22:00:00\n"
        "8,,2023-11-14T22:00:00\n7,2.5,2023-11-14T23:00:00\n"
    )
    (tmp_path / "x.csv").write_text(rows)
    columns = {
        "meter": [7, 8, 7],
        "kwh": [1.5, None, 2.5],
        "ts": pa.array([1_700_000_000, 1_700_000_000, 1_700_003_600], pa.timestamp("s")),
    }
    parquet.write_table(pa.table(columns), tmp_path / "x.parquet")
    for name in ("x.csv", "x.parquet"):
        source = read_file(made, tmp_path / name, "meter", "kwh", when="ts")
        assert (source.events, source.left_out, source.users) == (2, 1, ["7"])
        assert sorted(row[3] for row in events(made, messages(made, source))[0]) == [1.5, 2.5]


def test_one_series_is_sliced_into_users(tmp_path):
    """User i has the i-th piece; the last slot has just ended."""
    made = topology()
    (tmp_path / "x.csv").write_text(
        "t,value\n" + "\n".join(f"{i},{i % 10}" for i in range(11)) + "\n"
    )
    source = read_slices(made, tmp_path / "x.csv", 5)
    found = {
        (user, (time - source.first * HOUR) // HOUR): value
        for _, user, time, value in events(made, messages(made, source))[0]
    }
    assert found == {(f"u{i:06d}", t): float((2 * i + t) % 10) for i in range(5) for t in range(2)}
    check_ahead(made, source)
    with pytest.raises(ConfigurationError, match="too short"):
        read_slices(made, tmp_path / "x.csv", 12)


def test_bad_files_say_so_without_their_content(tmp_path):
    """Names of columns and files are configuration, values are not."""
    made, secret = topology(), "31337secret"
    (tmp_path / "x.csv").write_text(f"user,value,time\na,{secret},2023-11-14T22:00:00\n")
    (tmp_path / "ragged.csv").write_text(f"user,value,time\na,{secret}\n")
    (tmp_path / "bare.csv").write_text(f"{secret},1,1700000000\n{secret},2,1700000001\n")
    (tmp_path / "texts.csv").write_text("x31337secret,a,b\nx31337secret,c,d\n")
    (tmp_path / "missing_first.csv").write_text("x31337secret,NaN,b\nz,1,c\n")
    (tmp_path / "x.parquet").write_text(secret)
    lines = f'{{"user": "a", "value": "{secret}", "time": 1}}\n' * 2
    (tmp_path / "x.jsonl").write_text(lines)
    (tmp_path / "array.json").write_text(f'\ufeff\n[{{"user": "{secret}"}}]')
    (tmp_path / "times.csv").write_text(f"user,value,time\na,1,{secret}\n")
    (tmp_path / "latin.csv").write_bytes(
        f"z\u00e4hler,value,time\n{secret},1,2023-11-14T22:00:00\n".encode("latin-1")
    )
    (tmp_path / "rows.csv").write_bytes(
        f"user,value,time\na,1,2023-11-14T22:00:00\n\u00e4{secret},1,2023-11-14T22:00:00\n".encode(
            "latin-1"
        )
    )
    asks = {
        r"x\.csv:2: column value must be readable as a number; this row is not": (
            lambda: read_file(made, tmp_path / "x.csv")
        ),
        r"times\.csv:2: column time must be readable as a time: epoch seconds": (
            lambda: read_file(made, tmp_path / "times.csv")
        ),
        r"ragged\.csv:2: has 2 cells, and the header 3: each row": (
            lambda: read_file(made, tmp_path / "ragged.csv")
        ),
        r"x\.jsonl is JSON, .*CSV and Parquet: .* kafka-console-producer .* validate --sample": (
            lambda: read_file(made, tmp_path / "x.jsonl")
        ),
        r"array\.json is JSON, ": lambda: read_slices(made, tmp_path / "array.json", 1, "value"),
        "neither Parquet .*": lambda: read_file(made, tmp_path / "x.parquet"),
        "no column kwh among user, value, time: --user-column, --value-column and --time-column": (
            lambda: read_file(made, tmp_path / "x.csv", value="kwh")
        ),
        "no column user, value, time among the 3 that .* a header": (
            lambda: read_file(made, tmp_path / "bare.csv")
        ),
        "no column user, value, time among the 3 that .* header": (
            lambda: read_file(made, tmp_path / "texts.csv")
        ),
        "no column user, value, time among the 3 that .*": (
            lambda: read_file(made, tmp_path / "missing_first.csv")
        ),
        r"latin\.csv:1: must be UTF-8": lambda: read_file(made, tmp_path / "latin.csv"),
        r"rows\.csv:3: must be UTF-8": lambda: read_file(made, tmp_path / "rows.csv"),
        r"rows\.csv:3: must be UTF-8 .*": lambda: read_slices(
            made, tmp_path / "rows.csv", 1, "user"
        ),
        "there is no file": lambda: read_file(made, tmp_path / "missing.csv"),
    }
    for text, ask in asks.items():
        with pytest.raises(ConfigurationError, match=text) as error:
            ask()
        assert secret not in str(error.value)


def test_columns_of_other_names_are_named_with_the_flags_that_map_them(tmp_path):
    """Those that the topology's own paths name, as they are to be typed."""
    made = loads(
        "topology: t\n"
        "input: {slot: 1h, user: $.meter_id, value: $.kwh, time: $.at.ts}\n"
        "privacy: {method: sw_direct, epsilon: 1, window: 2, domain: [0, 9]}\n"
        "output: {statistics: [mean]}\n"
    )
    (tmp_path / "x.csv").write_text("meter_id,kwh,ts\na,1.5,2023-11-14T22:00:00\n")
    with pytest.raises(ConfigurationError) as caught:
        read_file(made, tmp_path / "x.csv")
    assert str(caught.value) == (
        "no column user, value, time among meter_id, kwh, ts: --user-column, --value-column and"
        " --time-column say which is which; as in the topology: --user-column meter_id"
        " --value-column kwh"
    )
    with pytest.raises(ConfigurationError) as caught:
        read_slices(made, tmp_path / "x.csv", 1)
    assert str(caught.value) == (
        "no column value among meter_id, kwh, ts: --value-column says which it is; as in the"
        " topology: --value-column kwh"
    )
    assert read_file(made, tmp_path / "x.csv", "meter_id", "kwh", when="ts").events == 1


def test_a_column_that_is_not_wanted_may_be_anything(tmp_path):
    """Only its name is read."""
    (tmp_path / "x.csv").write_bytes(
        "user,value,time,note\na,1,2023-11-14T22:00:00,\u00e4\n".encode("latin-1")
    )
    assert read_file(topology(), tmp_path / "x.csv").events == 1


CURATED = """
topology: shops
input: {slot: 1h, partitions: 2, lateness: 1, per_slot: sum}
privacy:
  {trust: curator, level: event, method: naive, domain: [0, 100], epsilon: 2.0, delay: 4}
output: {statistics: [per_stream]}
"""


def test_what_is_late_by_the_clock_is_refused():
    """From the millisecond on in which the first slot is as late as may be."""
    made = loads(CURATED)
    source = from_arrays(made, np.ones((1, 3)), START)
    over = made.slot_start(source.first + 2)
    check_past(made, source, over - 1)
    with pytest.raises(ConfigurationError, match="closing: events, for old data"):
        check_past(made, source, over)
    old = loads(CURATED.replace("slot: 1h", "slot: 1h, closing: events"))
    check_past(old, source, over)
    check_past(topology(), source, over)


def test_where_ticks_alone_close_slots_each_partition_gets_one_a_slot():
    """So what is replayed is released slot by slot."""
    made = loads(CURATED)
    source = from_arrays(made, np.ones((8, 6)), made.slot_start(made.slot_of(START) // 4 * 4))
    first, log = source.first, replay.as_log(made, messages(made, source))
    run = local.run(made, edge_randomness(made, bytes(range(32)), "here"), log)
    told = [json.loads(each.value) for each in run.releases]
    assert {each["slot"] - first for each in told if each["slot"] < first + 6} == set(range(6))
    for part in log:
        ticks = [decode(each.value)[0].time for each in part if b'"tick"' in each.value]
        assert [made.slot_of(time) - first for time in ticks[:-1]] == [1, 2, 3, 4, 5, 6]
        assert ticks[-1] == last_tick(made, source.last) and all(
            time % made.input.slot_ms == 0 for time in ticks
        )
    assert run.counts["events"] == 48 and not run.counts.get("late")


TIMES = {
    "2023-11-14T22:13:20Z": 1_700_000_000_000,
    "2023-11-14 22:13:20.123456": 1_700_000_000_123,
    "20231114T221320Z": 1_700_000_000_000,
    "2023-11-13T24:00:00Z": 1_699_920_000_000,
    "2023-11-14": 1_699_920_000_000,
    "2023-W46-2T22:13:20+0000": 1_700_000_000_000,
}


def test_text_times_are_read_as_the_workers_read_them(tmp_path):
    """By one grammar, in a table and in a CSV file, zones or not, and row by row."""
    table = pa.table({"user": ["a"] * len(TIMES), "value": [1.0] * len(TIMES), "time": [*TIMES]})
    path = tmp_path / "times.csv"
    path.write_text("user,value,time\n" + "".join(f"a,1,{text}\n" for text in TIMES), "utf-8")
    for source in (
        from_table(topology(), table, "user", "value", "time"),
        read_file(topology(), path),
    ):
        assert [time for each in source.slots for time in each.times.tolist()] == sorted(
            TIMES.values()
        )
    for text in ("2023-11-14T22.5", "2023-11-14+01:00", "2023-11-14_22:13"):
        bad = table.set_column(2, "time", pa.array(["2023-11-14", *[text] * (len(TIMES) - 1)]))
        with pytest.raises(ConfigurationError, match="row 2: column time must be readable as a"):
            from_table(topology(), bad, "user", "value", "time")


def test_float_times_keep_their_last_millisecond():
    """A thousand times it is a little less than the milliseconds, as it is for the workers."""
    table = pa.table({"user": ["a"], "value": [1.0], "time": [1_083_823_533.896]})
    source = from_table(topology(), table, "user", "value", "time")
    assert [each.times.tolist() for each in source.slots] == [[1_083_823_533_896]]


def test_decimal_times_are_numbers():
    """With decimals or without, as CSV and floats are."""
    for kind in (pa.decimal128(20, 3), pa.decimal128(20, 1), pa.decimal128(20, 0)):
        times = pa.array([1_700_000_000]).cast(pa.decimal128(20, 0)).cast(kind)
        table = pa.table({"user": ["a"], "value": [1.0], "time": times})
        source = from_table(topology(), table, "user", "value", "time")
        assert [each.times.tolist() for each in source.slots] == [[1_700_000_000_000]]
    half = pa.array(["1083823533.5"]).cast(pa.decimal128(20, 1))
    table = pa.table({"user": ["a"], "value": [1.0], "time": half})
    source = from_table(topology(), table, "user", "value", "time")
    assert [each.times.tolist() for each in source.slots] == [[1_083_823_533_500]]


@cases("kind", ["words", "views", "numbers", "decimals"])
def test_columns_of_files_that_are_encoded(kind):
    """Ids, times and names as dictionaries, views and wide numbers."""
    ids = {
        "words": pa.array(["17", "18"]).dictionary_encode(),
        "views": pa.array(["17", "18"], pa.string_view()),
        "numbers": pa.array([17, 18], pa.uint64()),
        "decimals": pa.array([17, 18], pa.decimal128(38, 0)),
    }[kind]
    times = pa.array(["2023-11-14T22:13:20Z", "2023-11-14T24:00:00Z"])
    encoded = {"words": times.dictionary_encode(), "views": times.cast(pa.string_view())}
    table = pa.table({"user": ids, "value": [404, 200], "time": encoded.get(kind, times)})
    made = topology(categories='["200", "404"]')
    source = from_table(made, table, "user", "value", "time")
    assert sorted(source.users) == ["17", "18"]
    assert [each.values.tolist() for each in source.slots] == [["404"], ["200"]]


@cases(("column", "said"), [
    (pa.array([17.0, None]), r"it is double: write ids as text \(pandas gives"),
    (pa.array([17.0]).dictionary_encode(), r"it is double: write ids as text \(pandas gives"),
    (pa.array([True]), "it is bool: write ids as text$"),
])  # fmt: skip
def test_ids_with_a_point_are_refused(column, said):
    """As in a message: 17.0 is no id."""
    n = len(column)
    table = pa.table({"user": column, "value": [1.0] * n, "time": [START] * n})
    with pytest.raises(ConfigurationError, match=said):
        from_table(topology(), table, "user", "value", "time")


def test_a_series_of_names_in_another_spelling(tmp_path):
    """One category, as in a message."""
    path = tmp_path / "series.csv"
    path.write_text("value\ne\u0301\n\u00e9\n404\n404\n", "utf-8")
    made = topology(categories='["404", "\u00e9"]')
    source = read_slices(made, path, 2, start_ms=START)
    assert np.column_stack([each.values for each in source.slots]).tolist() == [[1, 1], [0, 0]]


def test_times_that_would_be_misread_are_refused():
    """Milliseconds before 1973 look like seconds; a future beyond max_ahead is all dead letters."""
    made = topology()
    with pytest.raises(ConfigurationError, match="1973"):
        from_arrays(made, [[1.0]], 0)
    source = from_arrays(made, np.ones((1, 3)), START)
    check_ahead(made, source, last_tick(made, source.last) - made.input.max_ahead_ms)
    with pytest.raises(ConfigurationError, match="--start"):
        check_ahead(made, source, last_tick(made, source.last) - made.input.max_ahead_ms - 1)
    recent = from_arrays(made, np.ones((1, 3)), replay.recent_start(made, 3, START + 5))
    assert START - HOUR < last_tick(made, recent.last) <= START + 5


def test_unread_holds_back_and_lets_go():
    """It waits for the slower of the two groups, and gives up where nobody reads."""
    made = topology()
    at = {role: {0: Position(1, 1), 1: Position(1, 1)} for role in ("perturb", "collect")}
    unread = Unread(made, {}, {}, limit=10_000, ask=lambda role: dict(at[role]))
    raw = Raw(0, START, bytes(900), 1)
    assert [unread.add(raw) for _ in range(11)] == [False] * 10 + [True]
    with pytest.raises(BrokerError, match="ldp-kafka run"):
        unread.wait(0.01, 0.05)
    at["perturb"] = {0: Position(12, 12), 1: Position(1, 1)}
    unread.refresh()
    assert not unread.full
    for _ in range(600):
        unread.add(Raw(1, START, b"", 1))
    at["perturb"] = {0: Position(12, 12), 1: Position(601, 601)}
    at["collect"] = {0: Position(1, 3), 1: Position(1, 11)}
    unread.refresh()
    assert unread.full  # 600 reports of some 30 bytes, none of them read
    at["collect"] = {0: Position(1, 3), 1: Position(4, 11)}
    unread.refresh()
    assert unread.full  # seven tenths are left
    at["collect"] = {0: Position(1, 3), 1: Position(8, 11)}
    unread.wait(0.01, 0.05)
    assert not unread.full


def test_reports_that_wait_for_a_bound_hold_nothing_back():
    """They are at the edge: the next messages bring them out."""
    at = {role: {0: Position(1, 1), 1: Position(1, 1)} for role in ("perturb", "collect")}
    unread = Unread(topology(), {}, {}, limit=10_000, ask=lambda role: dict(at[role]))
    assert [unread.add(Raw(0, START, b"", 1)) for _ in range(400)][-1]
    at["perturb"] = {0: Position(401, 401), 1: Position(1, 1)}
    unread.wait(0.01, 0.05)
    assert not unread.full


@pytest.mark.parametrize("batch", [1, 200])
@pytest.mark.parametrize(("bits", "per_user"), [(0, False), (0, True), (800, False), (8000, False)])
def test_unread_knows_how_large_the_answers_are(bits, batch, per_user):
    """Packed bits and pseudonyms among them: what nobody has read is held back before an embedded
    broker drops it, and not long before.
    """
    shape = (
        f"method: lpu, mechanism: sue, categories: {bits}"
        if bits
        else "method: sw_direct, domain: [0, 10]"
    )
    statistic = "frequencies" if bits else "per_user" if per_user else "mean"
    made = loads(
        f"topology: t\ninput: {{partitions: 1, slot: 1h, lateness: 0}}\nprivacy: {{{shape},"
        f" epsilon: 4.0, window: 2}}\noutput: {{statistics: [{statistic}]}}"
    )
    users = 60 if bits > 1000 else 600  # a report of so many bits takes a while
    values = np.random.default_rng(1).integers(0, 10, (users, 2))
    stream = list(
        messages(made, from_arrays(made, values if bits else values.astype(float), START), batch)
    )
    unread = Unread(made, {}, {}, limit=0, ask=lambda _: {0: Position(1, 1)})
    for raw in stream:
        unread.add(raw)
    written = sum(
        len(record.value)
        for record in local.run(
            made, edge_randomness(made, bytes(32), "here"), as_log(made, stream), together=50
        ).reports[0]
    )
    assert 0.9 * written < unread._bytes["collect"][0] < 2 * written


def test_sent_messages_are_in_the_topic_in_order():
    """On the embedded broker: the bytes of `messages`, partition by partition."""
    made = topology()
    stream = list(messages(made, from_arrays(made, np.ones((20, 4)), START)))
    steps = []
    with EmbeddedBroker() as broker:
        broker.create_topic(made.raw_topic, 2)
        config = {"bootstrap.servers": broker.bootstrap_servers}
        sent = send(made, config, stream, progress=steps.append)
        consumer = Consumer({**config, "group.id": "judge", "enable.auto.commit": False})
        consumer.assign([TopicPartition(made.raw_topic, partition, 0) for partition in (0, 1)])
        found = defaultdict(list)
        for _ in range(len(stream)):
            message = consumer.poll(10)
            found[message.partition()].append((message.key(), message.value()))
        consumer.close()
    assert (sent.messages, sent.events) == (len(stream), 80)
    assert steps[-1] == 80
    for partition in (0, 1):
        assert found[partition] == [
            (raw.key, raw.value) for raw in stream if raw.partition == partition
        ]


def test_a_topic_that_is_not_there_is_a_broker_error():
    """Not a silent loss."""
    made = topology(partitions=6)
    with EmbeddedBroker() as broker:
        broker.create_topic(made.raw_topic, 1)
        config = {"bootstrap.servers": broker.bootstrap_servers, "message.timeout.ms": 2000}
        with pytest.raises(BrokerError, match=r"meters\.raw did not take the replay"):
            send(made, config, messages(made, from_arrays(made, np.ones((20, 1)), START)))


def test_replay_says_at_once_that_the_topic_is_missing(tmp_path, capfd):
    """Before anything is sent, with what makes it."""
    with EmbeddedBroker() as broker:
        path, data = tmp_path / "t.yaml", tmp_path / "data.csv"
        path.write_text(
            f"topology: t\nkafka: {{bootstrap_servers: '{broker.bootstrap_servers}'}}\ninput:"
            " {slot: 1h}\nprivacy: {method: sw_direct, epsilon: 1.0, window: 2, domain: [0,"
            " 1]}\noutput: {statistics: [mean]}\n"
        )
        data.write_text("user,value,time\na,1,1700000000\n")
        assert main(["replay", str(data), "-t", str(path)]) == 1
    assert "there is no topic t.raw: `ldp-kafka topics` or" in capfd.readouterr().err


def test_speed_paces_by_event_time():
    """Two hours of event time at 36,000 times take 0.2 seconds."""
    import time

    made = topology(partitions=1)
    with EmbeddedBroker() as broker:
        broker.create_topic(made.raw_topic, 1)
        begin = time.monotonic()
        stream = messages(made, from_arrays(made, np.ones((1, 3)), START), ticks=False)
        send(made, {"bootstrap.servers": broker.bootstrap_servers}, stream, speed=36_000)
        assert time.monotonic() - begin >= 0.2
    with pytest.raises(ConfigurationError, match="speed"):
        send(made, {}, [], speed=0)
