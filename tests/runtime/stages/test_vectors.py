"""Values that are lists of numbers, from the raw topic to the releases."""

from __future__ import annotations

import json
from decimal import Decimal
from math import inf, nan

import numpy as np
import pyarrow as pa
import pytest

import ldp_kafka as lk
from ldp_kafka.errors import BadRecord, ConfigurationError, TopologyError
from ldp_kafka.randomness import Ids
from ldp_kafka.records import Event, Events, Report, Reports, Tick
from ldp_kafka.runtime import local, roles
from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.replay import as_log, from_arrays, messages
from ldp_kafka.runtime.wire.codec import decode, encode
from ldp_kafka.runtime.wire.events import EventReader
from ldp_kafka.runtime.wire.reports import read_reports, write_reports
from ldp_kafka.topology import loads, plan
from tests.cases import cases
from tests.runtime.wire.test_events import arrow, outcome

NOON = 1_772_366_400_000
FIRST = NOON // 1000
LOUD = 987654.321
TEXT = """
topology: t-{method}
kafka: {{bootstrap_servers: "127.0.0.1:1"}}
input: {{slot: 1s, lateness: 0, partitions: 1, format: {format}}}
privacy: {{method: {method}, {shape}}}
output: {{statistics: [{statistics}], shrinkage: true}}
"""
SHAPES = {
    "budget_split": "epsilon: 8.0, window: 4, domain: [0, 10], dimension: 3",
    "sample_split": "epsilon: 8.0, window: 4, domain: [0, 10], dimension: 3",
    "cgm_vector": (
        "level: user, epsilon: 8.0, horizon: 20, delta: 1.0e-5, dimension: 3, diameter: 20"
    ),
}
METHODS = list(SHAPES)


def topology_of(method, format="json", **changed):  # noqa: A002
    statistics = "per_user" if method == "cgm_vector" else "mean, per_user"
    return loads(
        TEXT.format(
            **{
                "method": method,
                "format": format,
                "shape": SHAPES[method],
                "statistics": statistics,
            }
            | changed
        ),
        "t.yaml",
    )


def edge_key(topology):
    return edge_randomness(topology, bytes(range(32)), "here")


def run(topology, values, **options):
    return local.run(
        topology,
        edge_key(topology),
        [[Message(at, -1, value) for at, value in enumerate(values)]],
        **options,
    )


# --- reading


def read(value, dimension=2):
    decoded = EventReader(("user",), ("value",), ("time",), None, dimension).read(
        json.dumps({"user": "u", "time": NOON, "value": value}).encode()
    )
    return decoded.bad[0][1] if decoded.bad else decoded.events.values


@pytest.mark.parametrize("value", [[1, 2.5], [-0.0, 1e300], [0, 2**70]])
def test_a_list_of_numbers_is_a_vector(value):
    assert read(value).tolist() == [[float(each) for each in value]]


@cases(
    ("value", "reason"),
    [
        ([1.0], "value"),
        ([1.0, 2.0, 3.0], "value"),
        ([], "value"),
        (1.0, "value"),
        (None, "value"),
        ("1,2", "value"),
        ({"0": 1.0, "1": 2.0}, "value"),
        ([1.0, "2"], "value"),
        ([1.0, None], "value"),
        ([True, 1.0], "value"),
        ([1.0, [2.0]], "value"),
        ([1.0, 10**400], "not_finite"),
    ],
)
def test_what_is_no_vector_is_refused(value, reason):
    assert read(value) == reason


@pytest.mark.parametrize("bad", [b"NaN", b"Infinity", b"-Infinity"])
def test_no_coordinate_is_infinite(bad):
    message = b'{"user":"u","time":1772366400000,"value":[1,' + bad + b"]}"
    assert EventReader(("user",), ("value",), ("time",), None, 2).read(message).bad == [
        (0, "not_finite")
    ]


KINDS = [
    pa.list_(pa.float64()),
    pa.large_list(pa.float64()),
    pa.list_(pa.float64(), 2),
    pa.list_(pa.float32()),
    pa.list_(pa.int64()),
    pa.list_(pa.int8(), 2),
    pa.list_(pa.decimal128(6, 2)),
]


@cases("kind", KINDS)
def test_columns_of_lists(kind):
    """Of any length type and any numbers; one null row is bad and its neighbours are not."""
    one = Decimal(1) if pa.types.is_decimal(kind.value_type) else 1
    column = pa.array([[one, 2 * one], None, [3 * one, 4 * one]], kind)
    decoded = EventReader(("user",), ("value",), ("time",), None, 2).read(
        arrow({"user": ["a", "b", "c"], "time": [NOON] * 3, "value": column})
    )
    assert decoded.events.values.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert decoded.events.values.dtype == np.float64
    assert (decoded.rows.tolist(), decoded.bad) == ([0, 2], [(1, "value")])


def test_rows_of_lists_are_judged_one_by_one():
    rows = [
        [1.0, 2.0],
        [1.0],
        [nan, 1.0],
        [1.0, None],
        [],
        None,
        [1.0, inf],
        [5.0, 6.0],
        [1.0, 2.0, 3.0],
        [None, nan],
    ]
    message = arrow(
        {
            "user": ["u"] * len(rows),
            "time": [NOON] * len(rows),
            "value": pa.array(rows, pa.list_(pa.float64())),
        }
    )
    found = dict(EventReader(("user",), ("value",), ("time",), None, 2).read(message).bad)
    assert found == {
        1: "value",
        2: "not_finite",
        3: "value",
        4: "value",
        5: "value",
        6: "not_finite",
        8: "value",
        9: "value",
    }


@cases(
    "column",
    [
        pa.array([1.0]),
        pa.array(["1,2"]),
        pa.array([["1", "2"]]),
        pa.array([[[1.0, 2.0]]]),
        pa.array([[True, False]]),
        pa.array([None]),
        pa.array([[1.0, 2.0, 3.0]], pa.list_(pa.float64(), 3)),
    ],
)
def test_other_columns_are_no_vectors(column):
    decoded = EventReader(("user",), ("value",), ("time",), None, 2).read(
        arrow({"user": ["u"], "time": [NOON], "value": column})
    )
    assert (decoded.events is None or not len(decoded.events)) and [
        reason for _, reason in decoded.bad
    ] == ["value"]


def test_short_lists_are_no_bomb():
    """Half a million empty lists would be gigabytes of vectors."""
    n = 400_000
    message = arrow(
        {
            "user": pa.array([1] * n, pa.int8()),
            "time": pa.array([0] * n, pa.int8()),
            "value": pa.ListArray.from_arrays(
                np.zeros(n + 1, np.int32), pa.array([], pa.float64())
            ),
        }
    )
    decoded = EventReader(("user",), ("value",), ("time",), None, 1024).read(message)
    assert decoded.bad == [(0, "too_large")]


def test_lists_are_bad_where_numbers_are_asked_for():
    message = arrow({"user": ["u"], "time": [NOON], "value": pa.array([[1.0, 2.0]])})
    assert outcome(EventReader(("user",), ("value",), ("time",)).read(message), 1) == ["value"]
    assert EventReader(("user",), ("value",), ("time",)).read(
        b'{"user":"u","time":1772366400000,"value":[1,2]}'
    ).bad == [(0, "value")]


# --- our own records


def test_events_round_trip():
    events = [Event("a", NOON, (1.5, 2.0)), Event("b", NOON + 1, (3.0, -4.0))]
    assert decode(encode(events)) == events
    assert decode(encode(events[0])) == events[:1]
    assert (
        decode(
            encode(
                Events(
                    Ids.of(["a", "b"]),
                    np.array([NOON, NOON + 1]),
                    np.array([[1.5, 2.0], [3.0, -4.0]]),
                )
            )
        )
        == events
    )
    assert "1.5" not in repr(events[0])


@cases("value", [[], ["a"], [1.0, None], [[1.0]], [True], [1.0, "b"]])
def test_events_of_other_lists_are_refused(value):
    message = json.dumps(
        {"ldp_kafka": 1, "type": "event", "user": "a", "time": NOON, "value": value}
    ).encode()
    with pytest.raises(BadRecord, match="value"):
        decode(message)


@cases("n", [1, 3])
@cases("large", [7, 2**40])
def test_reports_round_trip(n, large):
    rng = np.random.default_rng(3)
    batch = Reports(
        rng.integers(0, 2**63, (n, 2)).astype(np.uint64),
        np.arange(n),
        rng.integers(-large, large, (n, 3)),
        0.25,
        "0" * 32,
        5,
        4,
        1,
        2,
    )
    again = read_reports(write_reports(batch))
    assert np.array_equal(again.values, batch.values)
    assert (again.values.dtype, again.phase, again.chunk) == (np.int64, 2, 1)
    singles = decode(write_reports(batch))
    assert [list(single.value) for single in singles] == (batch.values * 0.25).tolist()
    assert len({*singles}) == n
    assert np.array_equal(
        read_reports(encode(singles)).values * read_reports(encode(singles)).scale,
        batch.values * 0.25,
    )


@cases("index", [[], [1, None], [1.5], [[1]], ["1"], [2**62], [True]])
def test_other_lists_are_no_report(index):
    shared = {"fingerprint": "0" * 32, "bound": 0, "chunk": 0, "phase": 0, "closed": None}
    with pytest.raises(BadRecord):
        decode(
            json.dumps(
                {
                    "ldp_kafka": 1,
                    "type": "report",
                    "id": "0" * 32,
                    "slot": 1,
                    "index": index,
                    **shared,
                }
            ).encode()
        )


def test_reports_of_unlike_vectors_are_no_batch():
    for values in ([(1.0,), (1.0, 2.0)], [(1.0,), 1.0], [(), ()]):
        with pytest.raises(ValueError, match="coordinates"):
            encode([Report(f"{at:032x}", 1, 0, value, "0" * 32) for at, value in enumerate(values)])


# --- the edge


def batches(values, users, per_message):
    """(users, T, d) as messages that hold so many slots each, and a tick."""
    made = []
    for first in range(0, values.shape[1], per_message):
        part = values[:, first : first + per_message]
        slots = np.repeat(FIRST + first + np.arange(part.shape[1]), len(users))
        made.append(
            encode(
                Events(
                    Ids.of(users * part.shape[1]),
                    1000 * slots,
                    np.concatenate(list(part.transpose(1, 0, 2))),
                )
            )
        )
    return [*made, encode(Tick(1000 * (FIRST + values.shape[1])))]


@pytest.mark.parametrize("method", METHODS)
@cases("per_message", [1, 5])
def test_messages_of_several_slots(method, per_message):
    """Reports of every phase, each in chunks of its own phase; the last chunk of a message alone
    closes slots; ids are those of (user, slot, phase).
    """
    topology = topology_of(method, "arrow")
    values = np.random.default_rng(3).uniform(0, 5, (6, 15, 3))
    users = [f"u{at}" for at in range(6)]
    made = run(topology, batches(values, users, per_message))
    assert made.reports == run(topology, batches(values, users, per_message), together=4).reports
    sent = [read_reports(record.value) for record in made.reports[0]]
    keyed = edge_key(topology)
    expected = topology.method
    released = type(expected).release(expected, values, keyed, users=users, first_slot=FIRST)
    by_id = {}
    for digest, user in zip(keyed.digests(users), range(6), strict=True):
        for slot in range(FIRST, FIRST + 15):
            for phase in range(3):
                if not expected.in_phase(np.array([slot]), phase).all():
                    continue
                by_id[bytes(keyed.report_ids(digest[None], slot, phase)[0])] = (user, slot, phase)
    assert len(by_id) == 90
    seen = set()
    for batch in sent:
        for row, (digest, slot) in enumerate(zip(batch.ids, batch.slots, strict=True)):
            user, at, phase = by_id[bytes(digest)]
            assert (at, phase) == (slot, batch.phase)
            said = expected.released(batch.values[row] * batch.scale)
            there = released[user, at - FIRST]
            assert np.array_equal(said, there[phase] if method == "sample_split" else there)
            seen.add((user, at, phase))
    assert len(seen) == sum(len(batch) for batch in sent) == 90
    for offset in {batch.bound for batch in sent}:
        chunks = [batch for batch in sent if batch.bound == offset]
        assert [batch.chunk for batch in chunks] == list(range(len(chunks)))
        assert [batch.phase for batch in chunks] == sorted(batch.phase for batch in chunks)
        assert len({batch.closed for batch in chunks[:-1]}) <= 1
    if per_message == 5 and method == "sample_split":
        assert max(batch.chunk for batch in sent) == 2


@pytest.mark.parametrize("method", METHODS)
def test_bad_vectors_are_dead_letters_that_show_nothing(method):
    topology = topology_of(method)
    values = [
        [1.0, 2.0, 3.0],
        [LOUD, LOUD],
        [LOUD, LOUD, "x"],
        LOUD,
        [LOUD, LOUD, None],
        [LOUD, 2 * LOUD, 3 * LOUD],
    ]
    made = run(
        topology,
        [
            json.dumps({"user": f"u{at}", "time": NOON, "value": value}).encode()
            for at, value in enumerate(values)
        ],
    )
    assert len(made.dead_letters) == 4
    assert all(str(LOUD)[:6].encode() not in record.value for record in made.dead_letters)
    assert (made.counts["events"], made.counts["reports"], made.counts["clamped"]) == (2, 2, 1)


def test_vectors_beyond_the_ball_are_clamped_and_counted():
    method = topology_of("cgm_vector").method
    assert method.outside(
        np.array([[10.0, 0.0, 0.0], [6.0, 6.0, 6.0], [5.0, 5.0, 5.0], [1e300, 0.0, 0.0]])
    ).tolist() == [False, True, False, True]


# --- the collector


def collector(topology):
    collect = roles.make(topology, "collect", 0)
    return collect, collect.fresh()


@pytest.mark.parametrize("method", METHODS)
def test_a_replay_counts_nothing(method):
    topology = topology_of(method, "arrow")
    made = run(
        topology,
        batches(
            np.random.default_rng(3).uniform(0, 5, (6, 10, 3)), [f"u{at}" for at in range(6)], 5
        ),
    )
    collect, state = collector(topology)
    log = local.log(made.reports[0])
    first, again = collect.fold(state, log), collect.fold(state, log)
    assert first.counts["reports"] == 60
    assert (again.records, again.counts["reports"], again.counts["repeated"]) == ([], 0, len(log))


@pytest.mark.parametrize("method", METHODS)
def test_reports_of_another_shape_or_phase_are_refused(method):
    topology = topology_of(method)
    collect, state = collector(topology)
    ids = np.ones((2, 2), np.uint64)
    width = () if method == "sample_split" else (3,)

    def reasons(values, phase, slots):
        batch = Reports(
            ids, slots, values, topology.method.scale, topology.fingerprint, 5, None, 0, phase, ids
        )
        folded = collect.fold(state, [Message(0, -1, write_reports(batch))])
        return {name for name in folded.counts if name.startswith("dead_letters")}

    slots, odd = np.array([3, 6]), np.array([3, 4])
    assert reasons(np.zeros((2, 2), np.int64), 0, slots) == {"dead_letters:wrong_fields"}
    assert reasons(np.zeros((2, 3), np.uint8), 0, slots) == {"dead_letters:wrong_fields"}
    assert reasons(np.zeros((2, *((3,) if not width else ())), np.int64), 0, slots) == {
        "dead_letters:wrong_fields"
    }
    if method == "sample_split":
        assert reasons(np.zeros(2, np.int64), 1, slots) == {"dead_letters:wrong_fields"}
        assert reasons(np.zeros(2, np.int64), 0, odd) == {"dead_letters:wrong_fields"}
    assert reasons(np.full((2, *width), 2**50), 0, slots) == {"dead_letters:range"}
    assert reasons(np.zeros((2, *width), np.int64), 0, slots) == set()


def test_a_release_of_a_sampled_coordinate_has_nulls():
    topology = topology_of("sample_split")
    slot = FIRST - FIRST % 3 + 1
    made = run(
        topology,
        [
            json.dumps({"user": "a", "time": 1000 * slot, "value": [1, 2, 3]}).encode(),
            encode(Tick(1000 * (slot + 1))),
        ],
    )
    both = [json.loads(record.value) for record in made.releases]
    assert {release["statistic"] for release in both} == {"per_user", "mean"}
    for release in both:
        for field in ("value", "standard_error"):
            assert [each is None for each in release[field]] == [True, False, True]
        assert [[each is None for each in ends] for ends in release["confidence_interval"]] == [
            [True, False, True]
        ] * 2
        assert release["reports"] == 1
    assert lk.decode(made.releases[0].value)[0].value == both[0]["value"]


# --- topologies


@cases("method", METHODS)
@cases("batch", [1, 4])
def test_arrays_of_vectors_are_replayed(method, batch):
    topology = topology_of(method)
    values = np.random.default_rng(3).uniform(0, 5, (6, 5, 3))
    [log] = as_log(topology, messages(topology, from_arrays(topology, values, NOON), batch))
    events = (
        [
            record
            for message in log
            for record in lk.decode(message.value)
            if isinstance(record, Event)
        ]
        if batch > 1
        else [json.loads(m.value) for m in log[:30]]
    )
    assert [
        list(event.value if batch > 1 else event["value"]) for event in events
    ] == values.transpose(1, 0, 2).reshape(-1, 3).tolist()
    for wrong in (values[..., 0], values[..., :2], values[:, :0]):
        with pytest.raises(ConfigurationError, match="slots, 3"):
            from_arrays(topology, wrong, NOON)


@cases(
    ("method", "old", "new", "said"),
    [
        (
            "cgm_vector",
            "diameter: 20",
            "diameter: 20, domain: [0, 1]",
            r"privacy\.domain: must not be given",
        ),
        ("cgm_vector", "dimension: 3, ", "", "dimension"),
        ("cgm_vector", "dimension: 3", "dimension: 500", "127"),
        ("budget_split", ", dimension: 3", "", "dimension"),
        ("budget_split", ", domain: [0, 10]", "", r"privacy\.domain: must be given"),
        ("budget_split", "dimension: 3", "dimension: 0", "dimension"),
        ("sample_split", "dimension: 3", "dimension: 3, inner: etm", "inner"),
        (
            "sample_split",
            "dimension: 3",
            "dimension: 3, diameter: 2",
            r"privacy\.diameter: is no parameter",
        ),
    ],
)
def test_wrong_topologies_are_refused(method, old, new, said):
    with pytest.raises(TopologyError, match=said):
        topology_of(method, shape=SHAPES[method].replace(old, new))


@cases(
    "changed",
    [
        "dimension: 2",
        "dimension: 3, inner: capp",
        "dimension: 3, inner: app, block: 3",
        "dimension: 3, inner: app, block: 2",
    ],
)
def test_what_shapes_reports_moves_the_fingerprint(changed):
    for method in ("budget_split", "sample_split"):
        assert (
            topology_of(method, shape=SHAPES[method].replace("dimension: 3", changed)).fingerprint
            != topology_of(method).fingerprint
        )


@pytest.mark.parametrize("method", METHODS)
def test_the_plan_predicts_the_error_of_a_coordinate(method):
    """Of one release of one user, against a simulation with other words."""
    topology = topology_of(method)
    [predicted] = [each for each in plan(topology).predictions if each.statistic == "per_user"]
    errors = []
    for level in (0.0, 0.25, 0.5, 0.75, 1.0):
        lo, hi = topology.method.domain
        value = (lo + level * (hi - lo)) / (3**0.5 if topology.method.ball else 1)
        slots = min(2 * topology.method.window, 64)
        released = topology.method.release(
            np.full((400, slots, 3), value), lk.randomness.seeded(11)
        )
        errors.append(np.sqrt(np.nanmean((released - value) ** 2)))
    assert abs(predicted.error / max(errors) - 1) < 0.1
