"""The perturb stage: which events are reported, when slots close, and what the batches
look like.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ldp_kafka as lk
from ldp_kafka.accounting import NEVER
from ldp_kafka.randomness import Ids
from ldp_kafka.records import Events, Reports, Tick
from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.partitioning import partitions_of
from ldp_kafka.runtime.stages import report_messages
from ldp_kafka.runtime.stages.perturb import make_perturb
from ldp_kafka.runtime.wire.records import header
from ldp_kafka.runtime.wire.reports import read_reports
from ldp_kafka.topology import loader
from tests.cases import cases

KEY = bytes(range(32))
SLOT = 1000  # milliseconds
loads = cache(loader.loads)


def topology(lateness=1, statistics="mean", method="sw_direct", window=4, partitions=1):
    """Slots of one second."""
    return loads(f"""
topology: t
input: {{slot: 1s, lateness: {lateness}, partitions: {partitions}, format: arrow}}
privacy: {{method: {method}, epsilon: 2.0, window: {window}, domain: [0, 100]}}
output: {{statistics: [{statistics}]}}
runtime: {{shards: 8}}
""")


class Fed:
    """An edge that sends a batch a message, its state, and a log that grows."""

    def __init__(self, **options):
        self.topology = topology(**options)
        self.randomness = edge_randomness(self.topology, KEY, "here")
        self.edge = replace(make_perturb(self.topology, 0, self.randomness), report_rows=0)
        self.state, self.offset, self.counts = self.edge.fresh(), 0, {}

    def send(self, *rows):
        """One message with rows (user, slot, value); its report batches, decoded."""
        return self.put(message(rows))

    def put(self, *values):
        """Messages, folded together."""
        log = [Message(self.offset + i, -1, value) for i, value in enumerate(values)]
        self.offset += len(values)
        folded = self.edge.fold(self.state, log)
        self.counts, self.gauges = folded.counts, folded.gauges
        assert all(record.topic == self.topology.reports_topic for record in folded.records)
        assert all((record.partition, record.key) == (0, None) for record in folded.records)
        return [read_reports(record.value) for record in folded.records]

    def id_of(self, user, slot):
        """The id of the report that this user makes in this slot."""
        return (
            self.randomness.report_ids(self.randomness.digests([user]), slot, 0)[0].tobytes().hex()
        )


def message(rows):
    """Rows (user, slot, value) as an Arrow message; a slot with a fraction lies inside it."""
    users, slots, values = zip(*rows, strict=True)
    made = pa.RecordBatch.from_pydict(
        {
            "user": list(users),
            "time": pa.array([int(s * SLOT) for s in slots], pa.timestamp("ms")),
            "value": [float(v) for v in values],
        }
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, made.schema) as writer:
        writer.write_batch(made)
    return sink.getvalue().to_pybytes()


def ids(batch):
    """As hexadecimal digits."""
    return [row.tobytes().hex() for row in batch.ids]


def said(batches):
    """(id, slot) of all reports."""
    return sorted(
        (i, int(slot)) for batch in batches for i, slot in zip(ids(batch), batch.slots, strict=True)
    )


# Time


def test_lateness_is_judged_by_what_was_closed_before_the_message():
    """Rows of one message do not make each other late; the next message's are."""
    fed = Fed(lateness=1)
    fed.send(("a", 10, 1))
    assert fed.state.closed == 8
    [batch] = fed.send(("b", 20, 1), ("c", 9, 1), ("d", 8, 1))
    assert said([batch]) == sorted([(fed.id_of("b", 20), 20), (fed.id_of("c", 9), 9)])
    assert (fed.counts["late"], fed.counts["reports"]) == (1, 2)
    assert batch.closed == 18
    assert fed.send(("e", 18, 1)) == []
    [batch] = fed.send(("e", 19, 1))
    assert said([batch]) == [(fed.id_of("e", 19), 19)]


@pytest.mark.parametrize("lateness", [0, 1, 3])
def test_closed_follows_the_greatest_time(lateness):
    """Slot t closes when an event of slot t + lateness + 1 comes, not a millisecond before."""
    fed = Fed(lateness=lateness)
    [batch] = fed.send(("a", 10, 1))
    assert batch.closed == 10 - lateness - 1
    [batch] = fed.send(("b", 10.999, 1))
    assert batch.closed == 10 - lateness - 1
    [batch] = fed.send(("c", 11, 1))
    assert batch.closed == 11 - lateness - 1
    [batch] = fed.send(("d", 10.5, 1)) if lateness else fed.send(("d", 11.5, 1))
    assert batch.closed == 11 - lateness - 1


def test_closed_starts_below_the_epoch():
    """The first slots may be the first there are."""
    fed = Fed(lateness=2)
    [batch] = fed.send(("a", 0, 1), ("b", 1, 1))
    assert batch.closed == -2
    assert sorted(batch.slots.tolist()) == [0, 1]


def test_late_helps_across_users_only():
    """One user's order is its own: behind its last slot there is nothing, within the lateness or
    not.
    """
    fed = Fed(lateness=5)
    fed.send(("a", 10, 1))
    [batch] = fed.send(("b", 7, 1), ("a", 9, 1))
    assert said([batch]) == [(fed.id_of("b", 7), 7)]
    assert (fed.counts["late"], fed.counts["duplicates"]) == (0, 1)


def test_a_late_event_moves_nothing():
    """It is counted and gone: not the user's last slot, not the watermark."""
    fed = Fed(lateness=0)
    fed.send(("a", 10, 1))
    before = fed.state.watermark
    assert fed.send(("b", 9, 1)) == []
    assert fed.counts["late"] == 1
    assert fed.state.watermark == before
    assert len(fed.send(("b", 10, 1))) == 1


def put_at(fed, *stamped):
    """Messages (slot of the record, rows), folded one by one or together."""
    log = [
        Message(fed.offset + at, stamp * SLOT, message(rows))
        for at, (stamp, rows) in enumerate(stamped)
    ]
    fed.offset += len(log)
    return fed.edge.fold(fed.state, log)


@pytest.mark.parametrize("together", [True, False])
def test_who_is_late_by_one_fast_clock_is_counted(together):
    """Also after a restart, and not who is late by the records' own time, or by a clock that is
    fast by no more than the lateness.
    """
    log = [
        (10, [("fast", 50, 1)]),
        *((10 + at, [(f"m{at}", 10 + at, 1)]) for at in range(5)),
        (14, [("slow", 11, 1)]),
        (15, [("late by one", 14, 1)]),
    ]
    fed, counts = Fed(), Counter()
    for part in [log] if together else [log[:3], log[3:6], log[6:]]:
        counts.update(put_at(fed, *part).counts)
        shards = fed.edge.dump(fed.state, fed.edge.shards_of(fed.state))
        held = {name: (fed.offset - 1, payload) for name, payload in shards.items()}
        fed.state = fed.edge.load(fed.edge.meta(fed.state), held)
    assert (counts["events"], counts["late"], counts["late_by_clocks"]) == (8, 7, 6)
    fed = Fed(lateness=1)
    found = put_at(fed, (10, [("fast", 12, 1)]), (10, [("m", 10, 1)])).counts
    assert found["late"] == 1
    assert "late_by_clocks" not in found, "lateness: 2 takes it"
    assert "come" not in fed.edge.meta(fed.state)


def test_what_records_are_stamped_with_changes_no_report():
    """Timestamps tell whose clock is fast, and nothing of that goes out."""
    rows = [(at, [(f"m{user}", at, user) for user in range(4)]) for at in (3, 9, 5, 6, 12)]
    found = [
        [record.value for record in put_at(Fed(), *((stamp, each) for _, each in rows)).records]
        for stamp in (12, 3)
    ]
    assert found[0] == found[1]
    assert len(found[0]) > 2


def test_ticks_close_the_slots_of_an_idle_partition():
    """With an empty batch; one that brings nothing new says nothing."""
    fed = Fed(lateness=1)
    [batch] = fed.put(lk.encode(Tick(5 * SLOT)))
    assert (len(batch), batch.closed, batch.bound) == (0, 3, 0)
    assert fed.put(lk.encode(Tick(5 * SLOT + 999))) == []
    assert fed.put(lk.encode(Tick(3 * SLOT))) == []
    [batch] = fed.put(lk.encode(Tick(6 * SLOT)))
    assert (batch.closed, batch.bound) == (4, 1)
    assert fed.send(("a", 4, 1)) == []
    assert fed.counts["late"] == 1
    [batch] = fed.send(("a", 5, 1))
    assert batch.closed == 4


def test_an_empty_batch_is_written_only_when_closed_moves():
    """Late, repeated or bad events alone are no batch; an event whose row drops but whose time is
    new is.
    """
    fed = Fed(lateness=0)
    fed.send(("a", 10, 1))
    assert fed.send(("a", 10, 2)) == []
    assert fed.send(("b", 3, 2)) == []
    assert fed.put(header("t", "0" * 32, "1" * 32)) == []
    fed = Fed(lateness=0, method="sw_direct", statistics="mean, per_user")
    [batch] = fed.put(lk.encode(Tick(5 * SLOT)))
    assert batch.series is not None
    assert len(batch) == len(batch.series) == 0


# Order and repeats


def test_repeats_of_a_user_and_slot_drop():
    """In one message, the first row counts; in later messages, none."""
    fed = Fed()
    [batch] = fed.send(("a", 5, 10), ("a", 5, 90), ("b", 5, 10), ("a", 5, 10))
    assert said([batch]) == sorted([(fed.id_of("a", 5), 5), (fed.id_of("b", 5), 5)])
    assert fed.counts["duplicates"] == 2
    other = Fed()
    [expected] = other.send(("a", 5, 10), ("b", 5, 10))
    np.testing.assert_array_equal(batch.values, expected.values)
    assert fed.send(("a", 5, 10)) == []
    assert fed.counts["duplicates"] == 1


@cases("value", [10, 90, 1e9])
@cases("slot", [4, 5, 6])
def test_behind_the_last_slot_is_nothing_whatever_the_value(slot, value):
    """Re-sending iff the value is equal would be an equality test on raw values."""
    fed = Fed(lateness=9)
    fed.send(("a", 6, 10))
    ledger = {name: column.copy() for name, column in fed.state.users.state.columns.items()}
    assert fed.send(("a", slot, value)) == []
    assert fed.counts["duplicates"] == 1
    for name, column in fed.state.users.state.columns.items():
        np.testing.assert_array_equal(column[..., :1], ledger[name][..., :1])


def test_several_slots_of_one_message_are_folded_in_their_order():
    """By slot, whatever the order of the rows: nothing of a well-behaved batch drops."""
    rows = [(user, slot, 10 * slot) for slot in range(4) for user in "abc"]
    fed, shuffled, one_by_one = (
        Fed(method="capp", window=4),
        Fed(method="capp", window=4),
        Fed(method="capp", window=4),
    )
    [batch] = fed.send(*rows)
    [mixed] = shuffled.send(*[rows[i] for i in np.random.default_rng(5).permutation(len(rows))])
    assert len(batch) == 12
    assert fed.counts["duplicates"] == 0
    for name in ("ids", "slots", "values"):
        np.testing.assert_array_equal(getattr(batch, name), getattr(mixed, name))
    single = [found for row in rows for found in one_by_one.send(row)]
    assert {i: v for b in single for i, v in zip(ids(b), b.values.tolist(), strict=True)} == dict(
        zip(ids(batch), batch.values.tolist(), strict=True)
    )


def test_messages_come_before_slots():
    """A later message's earlier slot is behind, however they are folded."""
    for together in (True, False):
        fed = Fed(lateness=9)
        messages = [message([("a", 5, 1)]), message([("a", 4, 1), ("b", 4, 1), ("a", 6, 1)])]
        batches = (
            fed.put(*messages)
            if together
            else [batch for each in messages for batch in fed.put(each)]
        )
        assert said(batches) == sorted(
            [(fed.id_of("a", 5), 5), (fed.id_of("b", 4), 4), (fed.id_of("a", 6), 6)]
        )


row = st.tuples(st.sampled_from("abcd"), st.integers(0, 12), st.integers(0, 100))
logs = st.lists(
    st.one_of(st.lists(row, min_size=1, max_size=8), st.integers(0, 12)), min_size=1, max_size=8
)


@given(logs, st.integers(0, 2))
@settings(max_examples=80)
def test_the_rules_of_order_by_a_slow_twin(log, lateness):
    """Which (user, slot) is reported, and what closes, row by row in plain Python."""
    fed, last, closed, expected = Fed(lateness=lateness), {}, NEVER, []
    for each in log:
        rows = [] if isinstance(each, int) else each
        accepted = []
        for user, slot, _ in sorted(rows, key=lambda r: r[1]):
            if slot > closed and slot > last.get(user, NEVER):
                last[user] = slot
                accepted.append((fed.id_of(user, slot), slot))
        before, closed = (
            closed,
            max(
                closed,
                (each if isinstance(each, int) else max(slot for _, slot, _ in rows))
                - lateness
                - 1,
            ),
        )
        if accepted or closed != before:
            expected.append((sorted(accepted), closed))
    found = []
    for each in log:
        found += [
            (said([batch]), batch.closed)
            for batch in fed.put(
                lk.encode(Tick(each * SLOT)) if isinstance(each, int) else message(each)
            )
        ]
    assert found == expected


# What a batch looks like


@pytest.mark.parametrize("chunk_rows", [1, 3, 4, 100])
def test_a_large_batch_comes_in_chunks(monkeypatch, chunk_rows):
    """Of one offset, numbered, `closed` moving with the last; together they are the batch in one
    piece.
    """
    rows = [(f"u{i}", 5, i) for i in range(10)]
    whole = Fed(statistics="mean, per_user")
    whole.send(("x", 4, 1))
    [expected] = whole.send(*rows)
    monkeypatch.setattr(report_messages, "CHUNK_ROWS", chunk_rows)
    fed = Fed(statistics="mean, per_user")
    fed.send(("x", 4, 1))
    chunks = fed.send(*rows)
    assert [chunk.chunk for chunk in chunks] == list(range(-(-10 // chunk_rows)))
    assert {chunk.bound for chunk in chunks} == {1}
    assert [chunk.closed for chunk in chunks] == [2] * (len(chunks) - 1) + [3]
    assert all(0 < len(chunk) <= chunk_rows for chunk in chunks)
    joined = sorted(
        row
        for chunk in chunks
        for row in zip(
            ids(chunk), chunk.values.tolist(), (s.tobytes() for s in chunk.series), strict=True
        )
    )
    assert joined == sorted(
        zip(
            ids(expected),
            expected.values.tolist(),
            (s.tobytes() for s in expected.series),
            strict=True,
        )
    )
    assert all(ids(chunk) == sorted(ids(chunk)) for chunk in chunks)


def test_the_first_chunks_of_a_first_batch_close_nothing(monkeypatch):
    """Nothing had been closed before it."""
    monkeypatch.setattr(report_messages, "CHUNK_ROWS", 2)
    assert [
        chunk.closed for chunk in Fed(lateness=0).send(*((f"u{i}", 5, i) for i in range(5)))
    ] == [None, None, 4]


def test_rows_are_sorted_by_id():
    """As their digits read: the order of rows says nothing of the order of users."""
    rows = [(f"u{i}", slot, i) for slot in (3, 4, 5) for i in range(50)]
    fed, mixed = Fed(), Fed()
    [batch] = fed.send(*rows)
    assert ids(batch) == sorted(ids(batch))
    [other] = mixed.send(*[rows[i] for i in np.random.default_rng(1).permutation(len(rows))])
    assert ids(other) == ids(batch)
    np.testing.assert_array_equal(other.values, batch.values)
    assert sorted(ids(batch)) != [fed.id_of(user, slot) for user, slot, _ in rows]


def test_batches_carry_where_they_come_from():
    """The number of their bound, the fingerprint, the mechanism's scale."""
    fed = Fed()
    fed.offset = 41
    [first], [second] = fed.send(("a", 1, 1), ("b", 1, 1)), fed.send(("a", 2, 1))
    assert [(b.bound, b.chunk, b.phase, b.scale, b.fingerprint) for b in (first, second)] == [
        (at, 0, 0, 2**-10, fed.topology.fingerprint) for at in (0, 1)
    ]


def test_nothing_links_a_users_reports_without_per_user():
    """No series, and ids of different slots have nothing in common; with per_user, one pseudonym a
    user.
    """
    plain, linked = Fed(), Fed(statistics="mean, per_user")
    for fed in (plain, linked):
        fed.batches = [
            batch
            for slot in range(6)
            for batch in fed.send(*((f"u{i}", slot, 50) for i in range(20)))
        ]
    assert all(batch.series is None for batch in plain.batches)
    seen = [i for batch in plain.batches for i in ids(batch)]
    assert len(set(seen)) == 120
    assert len({i[:16] for i in seen}) == len({i[16:] for i in seen}) == 120, (
        "not even half of an id comes again"
    )
    pseudonyms = [{s.tobytes() for s in batch.series} for batch in linked.batches]
    assert all(each == pseudonyms[0] for each in pseudonyms)
    assert len(pseudonyms[0]) == 20
    digests = {d.tobytes() for d in linked.randomness.digests([f"u{i}" for i in range(20)])}
    assert not digests & pseudonyms[0]
    assert not digests & {bytes.fromhex(i) for batch in linked.batches for i in ids(batch)}


def test_a_report_says_nothing_of_the_exact_time():
    """Only the slot: any time within it gives the same bytes."""
    one, other = Fed(), Fed()
    assert (
        one.edge.fold(one.state, [Message(0, -1, message([("a", 5, 1)]))]).records
        == other.edge.fold(other.state, [Message(0, -1, message([("a", 5.999, 1)]))]).records
    )


def test_noise_is_keyed():
    """The same log under the same key gives the same bytes, and other bytes under another key."""
    log = [Message(i, -1, message([(f"u{j}", i, j) for j in range(50)])) for i in range(3)]
    made = []
    for key in (KEY, KEY, bytes(32)):
        edge = make_perturb(topology(), 0, edge_randomness(topology(), key, "here"))
        edge = replace(edge, report_rows=0)
        made.append(edge.fold(edge.fresh(), log).records)
    assert made[0] == made[1]
    assert all(a.value != b.value for a, b in zip(made[0], made[2], strict=True))


def test_lpu_members_report_and_others_are_silent():
    """Silent, not refused: each user in one slot of every window, and its ids are nobody else's."""
    apps = loads("""
topology: apps
input: {slot: 1s, lateness: 0, partitions: 1, format: arrow}
privacy: {method: lpu, mechanism: grr, epsilon: 2.0, window: 3, categories: 4}
output: {statistics: [frequencies]}
""")
    edge = make_perturb(apps, 0, edge_randomness(apps, KEY, "here"))
    edge = replace(edge, report_rows=0)
    state, seen = edge.fresh(), {}
    for slot in range(6):
        made = pa.RecordBatch.from_pydict(
            {
                "user": [f"u{i}" for i in range(30)],
                "time": [1_700_000_000_000 + slot * SLOT] * 30,
                "value": [i % 4 for i in range(30)],
            }
        )
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, made.schema) as writer:
            writer.write_batch(made)
        folded = edge.fold(state, [Message(slot, -1, sink.getvalue().to_pybytes())])
        assert folded.counts["refused"] == folded.counts["duplicates"] == 0
        seen[slot] = sum(len(read_reports(record.value)) for record in folded.records)
    assert [seen[t] for t in range(3)] == [seen[t] for t in range(3, 6)]
    assert sum(seen.values()) == 60


def test_counts_are_whole():
    """Every event is reported, late, a duplicate, refused or silent."""
    fed = Fed(lateness=0)
    fed.send(("a", 5, 1), ("b", 5, 200), ("a", 5, 1))
    assert {
        name: fed.counts[name]
        for name in ("events", "reports", "late", "duplicates", "clamped", "refused")
    } == {"events": 3, "reports": 2, "late": 0, "duplicates": 1, "clamped": 1, "refused": 0}
    assert fed.gauges == {"watermark": 5000}
    fed.send(("c", 4, 1), ("c", 6, 1))
    assert (fed.counts["events"], fed.counts["reports"], fed.counts["late"]) == (2, 1, 1)


def test_reports_hold_no_rows_of_others():
    """A batch's length is that of its columns: `Reports` of a part is a part of each."""
    batch = Reports(
        np.arange(8, dtype=np.uint64).reshape(4, 2),
        np.arange(4),
        np.arange(4),
        1,
        "f" * 32,
        0,
        None,
        series=np.arange(8, dtype=np.uint64).reshape(4, 2),
    )
    part = batch.take(slice(1, 3))
    assert (len(part), part.ids.tolist(), part.series.tolist(), part.values.tolist()) == (
        2,
        [[2, 3], [4, 5]],
        [[2, 3], [4, 5]],
        [1, 2],
    )


def test_a_user_of_another_partition_is_a_dead_letter_where_the_partitioner_is_known():
    """Two partitions would each give it a whole budget. Kafka's own default partitioner says where
    it belongs.
    """
    users = [f"m{i}" for i in range(40)]
    home = partitions_of(users, 2)
    assert 0 < home.sum() < len(users)
    made = loads("""
topology: t
input: {slot: 1s, partitions: 2, format: arrow, partitioning: murmur2}
privacy: {method: sw_direct, epsilon: 2.0, window: 4, domain: [0, 100]}
output: {statistics: [mean]}
""")
    randomness = edge_randomness(made, KEY, "here")
    for partition in (0, 1):
        stage = replace(make_perturb(made, partition, randomness), report_rows=0)
        folded = stage.fold(
            stage.fresh(), [Message(0, -1, message([(user, 5, 1.0) for user in users]))]
        )
        dead = [
            json.loads(record.value)
            for record in folded.records
            if record.topic == made.dead_letters_topic
        ]
        assert [letter["row"] for letter in dead] == np.flatnonzero(home != partition).tolist()
        assert {letter["reason"] for letter in dead} == {"partition"}
        [reports] = [
            read_reports(record.value)
            for record in folded.records
            if record.topic == made.reports_topic
        ]
        assert len(reports) == np.count_nonzero(home == partition)


def test_packed_reports_are_cut_where_a_broker_would_refuse_them():
    """A message of many events over wide reports becomes chunks below what a broker takes by
    default, none lost.
    """
    topology = loads(
        "topology: t\nkafka: {bootstrap_servers: 127.0.0.1:1}\ninput: {slot: 1h, format: arrow,"
        " partitions: 1}\nprivacy: {method: lpu, mechanism: oue, epsilon: 1.0, window: 1,"
        " categories: 8192}\noutput: {statistics: [frequencies]}\n"
    )
    stage = make_perturb(topology, 0, edge_randomness(topology, bytes(range(32)), "here"))
    n = 2048
    events = Events(
        Ids.of([f"u{at}" for at in range(n)]), np.full(n, 1_700_000_000_000), np.arange(n)
    )
    state = stage.fresh()
    records = stage.fold(state, [Message(0, -1, lk.encode(events))]).records
    assert len(records) > 1
    assert max(len(record.value) for record in records) < 900_000
    batches = [read_reports(record.value) for record in records]
    assert sum(map(len, batches)) == n
    assert [batch.chunk for batch in batches] == list(range(len(batches)))


def test_users_who_need_not_report_are_counted():
    """In lpu three of four are silent: every event is reported, late, a duplicate, refused or
    silent.
    """
    topology = loads(
        "topology: t\nkafka: {bootstrap_servers: 127.0.0.1:1}\ninput: {slot: 1h, format: arrow,"
        " partitions: 1}\nprivacy: {method: lpu, epsilon: 1.0, window: 4, categories: 3}\noutput:"
        " {statistics: [frequencies]}\n"
    )
    stage = make_perturb(topology, 0, edge_randomness(topology, bytes(range(32)), "here"))
    users = Ids.of([f"u{at % 300}" for at in range(400)])  # a hundred come twice
    counts = stage.fold(
        stage.fresh(),
        [
            Message(
                0,
                -1,
                lk.encode(Events(users, np.full(400, 1_700_000_000_000), np.zeros(400, np.int64))),
            )
        ],
    ).counts
    assert counts["duplicates"] == 100
    assert 40 < counts["reports"] < 120
    assert (
        sum(counts[name] for name in ("reports", "silent", "late", "duplicates", "refused"))
        == counts["events"]
        == 400
    )
