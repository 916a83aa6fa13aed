"""Releases: the fields that sinks read, and numbers that are right."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import cache
from math import inf, sqrt

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ldp_kafka as lk
from ldp_kafka.errors import TopologyError
from ldp_kafka.methods.response_curve import ResponseCurve
from ldp_kafka.methods.shrinkage import Shrinkage
from ldp_kafka.records import Release, Reports
from ldp_kafka.runtime import local
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.stages.releases import CYCLE, Publisher, iso, publisher
from ldp_kafka.topology import loader
from tests.cases import cases

loads = cache(loader.loads)
FIELDS = [
    "topology",
    "slot",
    "start",
    "end",
    "statistic",
    "value",
    "standard_error",
    "confidence_interval",
    "reports",
    "strategy",
    "guarantee",
]
GUARANTEE = {"level", "epsilon", "delta", "window", "influence", "protects", "calibration"}


def topology(
    method="sw_direct", statistics="mean", slot="1h", calibration="sound", shrinkage="true"
):
    """One topology of each kind."""
    shape = "categories: [a, b, c], mechanism: grr" if method == "lpu" else "domain: [-10, 30]"
    return loads(f"""
topology: meters
input: {{slot: {slot}, lateness: 0, partitions: 1, format: arrow}}
privacy: {{method: {method}, epsilon: 4.0, window: 4, {shape}, calibration: {calibration}}}
output: {{statistics: [{statistics}], shrinkage: {shrinkage}}}
""")


def crowd(made, slot, answers):
    """The release of a slot with these answers of the mechanism."""
    sums = None if answers is None else made.method.mechanism.support(np.array(answers)).tolist()
    [record] = publisher(made).of_slot(slot, sums)
    assert (record.topic, record.partition) == ("meters.releases", 0)
    return record.key, json.loads(record.value)


def strip(body):
    """Without the mark of our records; the order of its fields."""
    assert (body.pop("ldp_kafka"), body.pop("type")) == (1, "release")
    return list(body)


def test_a_mean_has_these_fields():
    """As the design spells them, keyed by statistic and slot."""
    key, body = crowd(topology(), 492_324, [0.25, 0.75])
    assert key == b"mean/492324"
    assert strip(body) == FIELDS
    assert body["topology"] == "meters"
    assert (body["slot"], body["start"], body["end"]) == (
        492_324,
        "2026-03-01T12:00:00Z",
        "2026-03-01T13:00:00Z",
    )
    assert (body["statistic"], body["strategy"], body["reports"]) == ("mean", "sw_direct", 2)
    assert isinstance(body["value"], float)
    assert body["confidence_interval"] == [-10, 30]  # of two reports: cut to the domain
    half = 1.959964 * body["standard_error"]
    assert body["value"] - half < -10
    assert body["value"] + half > 30
    assert body["guarantee"].keys() == GUARANTEE
    assert body["guarantee"] == topology().guarantee.as_json()
    assert (
        body["guarantee"]["epsilon"],
        body["guarantee"]["window"],
        body["guarantee"]["calibration"],
    ) == (4.0, 4, "sound")


def test_frequencies_are_lists():
    """One number a category: values, errors, and both ends of the intervals; they sum to one."""
    key, body = crowd(topology("lpu", "frequencies"), 7, [0, 0, 1, 2, 0, 1])
    assert key == b"frequencies/7"
    assert strip(body) == [*FIELDS, "categories"]
    assert len(body["value"]) == len(body["standard_error"]) == 3
    assert [len(end) for end in body["confidence_interval"]] == [3, 3]
    for low, value, error, high in zip(
        body["confidence_interval"][0],
        body["value"],
        body["standard_error"],
        body["confidence_interval"][1],
        strict=True,
    ):
        assert 0 <= low < value < high <= 1
        assert high - low <= 2 * 1.959964 * error * (1 + 1e-6)
    assert sum(body["value"]) == pytest.approx(1)
    assert body["value"][0] > body["value"][1] > body["value"][2]
    assert (body["reports"], body["strategy"]) == (6, "lpu")


@cases(("method", "statistic"), [("sw_direct", "mean"), ("capp", "mean"), ("lpu", "frequencies")])
@cases("answers", [None, []])
def test_nobody_is_null(method, statistic, answers):
    """No reports: no value, no error, no interval; the slot is there all the same."""
    _, body = crowd(
        topology(method, statistic),
        3,
        None if answers is None else np.array(answers, float if statistic == "mean" else int),
    )
    assert strip(body) == FIELDS + ["categories"] * (statistic == "frequencies")
    assert (
        body["value"],
        body["standard_error"],
        body["confidence_interval"],
        body["reports"],
    ) == (None, None, None, 0)
    assert (body["slot"], body["statistic"]) == (3, statistic)


BINNED = """
topology: meters
input: {slot: 1h, partitions: 1}
privacy: {method: lpu, domain: [-10, 30], epsilon: 4.0, window: 4}
output: {statistics: [distribution], bins: 5}
"""


def test_what_the_numbers_of_a_list_are_of():
    """Whoever reads the topic has no topology: names of categories, in their order, and the edges
    of bins, also where nobody reported; the event of shares has the names too.
    """
    named = """
topology: apps
input: {slot: 1h, partitions: 1}
privacy: {method: lpu, categories: [maps, "Ä mail", news], epsilon: 4.0, window: 4}
output: {statistics: [frequencies], events: {above: 0.3}}
"""
    for text in (named, named.replace('[maps, "Ä mail", news]', "3")):
        made = loads(text)
        for answers in ([0, 1, 1, 2], []):
            sums = made.method.mechanism.support(np.array(answers, int)).tolist()
            found = [lk.decode(each.value)[0] for each in publisher(made).of_slot(7, sums)]
            assert [each.statistic for each in found] == ["frequencies", "above"]
            names = ["maps", "Ä mail", "news"] if text is named else None
            assert [each.categories for each in found] == [names] * 2
            assert [each.edges for each in found] == [None] * 2
    made = loads(BINNED)
    for sums in (None, [3, 1, 1, 1, *[0] * (made.statistics.width - 4)]):
        [record] = publisher(made).of_slot(7, sums)
        [found] = lk.decode(record.value)
        assert found.edges == [-10.0, -2.0, 6.0, 14.0, 22.0, 30.0]
        assert found.categories is None
        assert json.loads(record.value)["edges"] == found.edges


def test_names_that_no_broker_would_take():
    """The largest release that a topology may have says all names, and fits; longer names are
    refused with their key.
    """
    many, long = 8192, 30

    def named(letters):
        names = ", ".join(f"n{at:0{letters - 1}}" for at in range(many))
        return f"""
topology: apps
input: {{slot: 1h, partitions: 1}}
privacy: {{method: lpu, categories: [{names}], epsilon: 4.0, window: 4}}
output: {{statistics: [frequencies]}}
"""

    made = loader.loads(named(long))
    answers = np.random.default_rng(1).integers(0, many, 50_000)
    [record] = publisher(made).of_slot(10**6, made.method.mechanism.support(answers).tolist())
    assert 750_000 < len(record.value) < 1_000_000
    with pytest.raises(TopologyError, match="must have shorter names"):
        loader.loads(named(long + 3))


def test_per_user_adds_a_pseudonym_and_a_reliability():
    """One release a report, keyed by the pseudonym too."""
    made = topology("capp", "mean, per_user", shrinkage="false")
    ids = np.arange(4, dtype=np.uint64).reshape(2, 2)
    batch = Reports(
        ids, np.array([5, 6]), np.array([0, 1024]), 2**-10, made.fingerprint, 0, None, series=ids
    )
    records = publisher(made).of_reports(batch, ["aa", "bb"], ())
    assert [(record.key, record.partition) for record in records] == [
        (b"per_user/5/aa", 0),
        (b"per_user/6/bb", 0),
    ]
    low, high = (json.loads(record.value) for record in records)
    assert strip(low) == [*FIELDS, "user", "reliability"]
    assert (low["user"], low["statistic"], low["reports"], low["strategy"]) == (
        "aa",
        "per_user",
        1,
        "capp",
    )
    assert low["value"] < 10 < high["value"]
    assert 0 < low["reliability"] < 1
    assert (
        low["standard_error"] == high["standard_error"] == pytest.approx(made.method.single_error)
    )
    ends = made.method.single_limits(made.method.released(np.array([0.0])))
    assert low["confidence_interval"] == pytest.approx([float(end[0]) for end in ends])
    assert "user" not in crowd(made, 1, [0.5])[1]
    assert "reliability" not in crowd(made, 1, [0.5])[1]


@pytest.mark.parametrize("method", ["sw_direct", "capp", "ipp", "sampling", "capp_s"])
def test_per_user_is_drawn_to_the_crowd(method):
    """By the sums of all reports so far, as `Shrinkage` says; a crowd that says nothing is given
    the midpoint.
    """
    made = topology(method, "per_user")
    ids = np.arange(4, dtype=np.uint64).reshape(2, 2)
    scale = made.method.scale
    batch = Reports(
        ids,
        np.array([5, 6]),
        np.array([0, round(1 / scale)]),
        scale,
        made.fingerprint,
        0,
        None,
        series=ids,
    )
    maker = publisher(made)
    unknown = [
        json.loads(record.value)
        for record in maker.of_reports(
            batch, ["aa", "bb"], (2, round(1 / scale), round(1 / scale) ** 2)
        )
    ]
    lo, hi = made.method.domain
    assert [release["value"] for release in unknown] == pytest.approx([(lo + hi) / 2] * 2, rel=1e-3)
    assert unknown[0]["reliability"] == 0
    # a crowd that spreads more than noise alone would make it
    middle, far = (round(0.4 / scale), round(0.9 / scale))
    crowd_sums = (200_000, 100_000 * (middle + far), 100_000 * (middle**2 + far**2))
    known = [
        json.loads(record.value) for record in maker.of_reports(batch, ["aa", "bb"], crowd_sums)
    ]
    expected = Shrinkage(made.method, curve=ResponseCurve.of(made.method.single))
    expected.add(list(crowd_sums))
    shrunk = expected.apply(batch.values)
    assert [release["value"] for release in known] == pytest.approx(
        shrunk.values.tolist(), rel=1e-12
    )
    assert known[0]["standard_error"] == pytest.approx(shrunk.standard_error)
    assert known[0]["reliability"] == pytest.approx(shrunk.reliability)
    assert known[0]["standard_error"] <= (hi - lo) / 2


def test_several_statistics_are_several_records():
    """Only those of the crowd come from sums; per_user does not."""
    made = topology("capp", "per_user, mean")
    assert [
        json.loads(record.value)["statistic"] for record in publisher(made).of_slot(1, [0, 0, 0])
    ] == ["mean"]
    assert publisher(topology("capp", "per_user")).of_slot(1, None) == []


def test_a_release_without_a_guarantee_says_null():
    """JSON has no infinity: a published calibration that protects nothing over an endless stream is
    null, not a number.
    """
    _, body = crowd(topology("capp", calibration="published"), 1, [0.5])
    assert topology("capp", calibration="published").guarantee.epsilon == inf
    assert body["guarantee"]["epsilon"] is None
    assert body["guarantee"]["influence"] is None
    assert body["guarantee"]["calibration"] == "published"


def test_releases_are_read_back():
    """By `lk.decode`, as the same release."""
    made = topology("capp", "per_user, mean")
    [record] = publisher(made).of_slot(
        9, made.method.mechanism.support(np.array([0.5, 0.25])).tolist()
    )
    [release] = lk.decode(record.value)
    assert isinstance(release, Release)
    body = json.loads(record.value)
    strip(body)
    assert {name: getattr(release, name) for name in body} == body


@cases(
    ("slot", "length", "start", "end"),
    [
        (0, "1h", "1970-01-01T00:00:00Z", "1970-01-01T01:00:00Z"),
        (1, "250ms", "1970-01-01T00:00:00.250Z", "1970-01-01T00:00:00.500Z"),
        (3, "250ms", "1970-01-01T00:00:00.750Z", "1970-01-01T00:00:01Z"),
        (19_782, "1d", "2024-02-29T00:00:00Z", "2024-03-01T00:00:00Z"),
    ],
)
def test_times_are_iso_8601_utc(slot, length, start, end):
    """Milliseconds only where there are any; an end is the next slot's start."""
    _, body = crowd(topology(slot=length), slot, [0.5])
    assert (body["start"], body["end"]) == (start, end)
    assert crowd(topology(slot=length), slot + 1, None)[1]["start"] == end


@given(st.integers(0, 253_402_300_799_999))
def test_times_are_those_of_the_calendar(milliseconds):
    """Read back by the standard library."""
    text = iso(milliseconds)
    assert text.endswith("Z")
    moment = datetime.fromisoformat(text)
    assert moment.utcoffset() == UTC.utcoffset(None)
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    assert (
        since.days * 86_400_000 + since.seconds * 1000 + since.microseconds // 1000 == milliseconds
    )


@cases(
    ("cycles", "expected"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (20, "9970-01-01T00:00:00Z"),
        (21, "+10370-01-01T00:00:00Z"),
        (10**9, "+400000001970-01-01T00:00:00Z"),
    ],
)
def test_times_go_on_after_the_year_9999(cycles, expected):
    """A report for an absurd slot stops nobody."""
    assert iso(cycles * CYCLE) == expected
    assert int(np.datetime64("2370-01-01", "ms").astype(int)) == CYCLE


def test_floats_have_fifteen_digits():
    """The last digits are the platform's, not the data's."""
    made = topology()
    _, body = crowd(made, 1, np.arange(7) / 1024)
    for number in (body["value"], body["standard_error"], *body["confidence_interval"]):
        assert number == float(f"{number:.15g}")


def arrow(users, time, values):
    """One slot of all users as an Arrow message."""
    made = pa.RecordBatch.from_pydict({"user": users, "time": [time] * len(users), "value": values})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, made.schema) as writer:
        writer.write_batch(made)
    return sink.getvalue().to_pybytes()


def over_slots(made, values, users=400, slots=60):
    """The crowd's releases of a stream in which user i always has values[i], under fresh noise."""
    names, start = [f"u{i}" for i in range(users)], 1_772_366_400_000
    raw = [
        Message(slot, -1, arrow(names, start + slot * 3_600_000, values))
        for slot in range(slots + 1)
    ]
    run = local.run(made, lk.randomness.keyed(np.random.default_rng().bytes(32)), [raw], together=8)
    assert not run.dead_letters
    return [json.loads(record.value) for record in run.releases]


def test_the_mean_is_unbiased_and_its_error_is_true():
    """Over many slots of the whole pipeline: z of the mean within 6, spread of the z scores within
    6 of its own (false alarms: 1e-8).
    """
    values = np.linspace(-10, 30, 400) ** 2 / 30 - 10 / 3
    found = over_slots(topology(), values)
    assert len(found) == 60
    assert all(body["reports"] == 400 for body in found)
    z = np.array([(body["value"] - values.mean()) / body["standard_error"] for body in found])
    assert abs(z.mean()) * sqrt(len(z)) < 6
    assert abs((z**2).mean() - 1) / sqrt(2 / len(z)) < 6
    biased = z + 1.2  # a bias of little more than one standard error of a slot would be seen
    assert abs(biased.mean()) * sqrt(len(z)) > 3


def test_frequencies_are_unbiased():
    """Each category's, over many slots in which other users report each time."""
    values = [("a", "a", "a", "b", "c")[i % 5] for i in range(400)]
    found = over_slots(topology("lpu", "frequencies"), values)
    names = [f"u{i}" for i in range(400)]
    assert sum(body["reports"] for body in found[:4]) == len(names)
    estimates = np.array([body["value"] for body in found])
    errors = np.array([body["standard_error"] for body in found])
    groups = [found[i::4] for i in range(4)]
    assert all(len({body["reports"] for body in group}) == 1 for group in groups)
    weight = np.array([body["reports"] for body in found])[:, None]
    truth = np.array([0.6, 0.2, 0.2])
    z = ((estimates - truth) * weight).sum(0) / np.sqrt(((errors * weight) ** 2).sum(0))
    assert (np.abs(z) < 6).all()
    wrong = ((estimates - truth[::-1]) * weight).sum(0) / np.sqrt(((errors * weight) ** 2).sum(0))
    assert (np.abs(wrong[[0, 2]]) > 6).all()


def test_a_publisher_takes_what_a_topology_says():
    """Names, topic and slots."""
    made = topology("capp", "mean, per_user")
    assert publisher(made) == Publisher(
        "meters",
        "meters.releases",
        "capp",
        made.guarantee.as_json(),
        made.statistics,
        3_600_000,
        shards=made.runtime.shards,
    )
    assert [one.name for one in made.statistics.statistics] == ["mean", "per_user"]
