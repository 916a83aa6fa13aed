"""Events: whether a crowd's statistic is above a threshold, and how often that is wrong."""

from __future__ import annotations

import itertools
import json
from functools import cache
from math import sqrt

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.errors import TopologyError
from ldp_kafka.mechanisms.base import Estimate
from ldp_kafka.runtime import local
from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.runtime.replay.messages import as_log, messages
from ldp_kafka.runtime.replay.source import from_arrays
from ldp_kafka.runtime.stages.releases import publisher
from ldp_kafka.statistics import above
from ldp_kafka.topology import loads
from tests.cases import cases

TEXT = """\
topology: meters
input: {{slot: 1m, format: arrow, partitions: 1}}
privacy: {{method: {method}, epsilon: 2.0, window: 4, {shape}}}
output: {{statistics: [{statistics}]{events}}}
"""
NUMBERS, CATEGORIES = "domain: [0, 10]", "categories: [a, b, c]"
FALSE_ALARM = 5.0  # standard deviations: once in two million
EDGES = [0.0, 0.02, 0.1, 0.25, 0.4, 0.5]


def topology(method="sw_direct", shape=NUMBERS, statistics="mean", events=", events: {above: 4}"):
    return loads(TEXT.format(method=method, shape=shape, statistics=statistics, events=events))


@cache
def found():
    """(estimates, standard errors, truths) of 4,000 crowds of 200, spread evenly about 5."""
    method = topology().method
    users, crowds = 200, 4000
    rng = np.random.default_rng(2)
    truth = rng.uniform(1, 9, crowds)
    values = np.repeat(truth, users) / 10
    reports = method.mechanism.perturb(values, lk.randomness.seeded(9)).reshape(crowds, users)
    made = [method.crowd(method.mechanism.support(row)) for row in reports]
    return (
        np.array([one.value for one in made]),
        np.array([one.standard_error for one in made]),
        truth,
    )


def apart(stated, wrong):
    """The most standard deviations between errors found and stated, over how likely they are
    stated.
    """
    most = 0.0
    for low, high in itertools.pairwise(EDGES):
        among = (stated >= low) & (stated <= high)
        assert among.sum() > 10
        spread = sqrt((stated[among] * (1 - stated[among])).sum()) + 1
        most = max(most, abs(wrong[among].sum() - stated[among].sum()) / spread)
    return most


def judged(scale=1.0, threshold=5.0):
    values, errors, truth = found()
    events = [
        above(Estimate(value, error * scale, 1), threshold)
        for value, error in zip(values, errors, strict=True)
    ]
    stated = np.array([event.error for event in events])
    said = np.array([event.value for event in events])
    return apart(stated, said != (truth > threshold))


def test_the_error_that_is_stated_is_the_one_made():
    """As often as it is said, the truth is on the other side: whatever is said."""
    assert judged() < FALSE_ALARM


@cases("scale", [0.5, 2.0])
def test_a_wrong_standard_error_would_be_found(scale):
    assert judged(scale) > FALSE_ALARM


def test_an_event_of_no_estimate_and_of_a_sure_one():
    assert above(Estimate(None, None, 0), 0.3) == (None, None)
    assert above(Estimate(0.4, 0.0, 1), 0.3) == (1, 0.0)
    assert above(Estimate(0.3, 0.0, 1), 0.3) == (0, 0.5)
    mixed = above(Estimate(np.array([np.nan, 0.4]), np.array([np.nan, 0.1]), 1), 0.4)
    assert mixed.value == [None, 0]
    assert mixed.error == [None, 0.5]


def released(made, values):
    log = as_log(made, messages(made, from_arrays(made, values, 1_600_000_020_000), 4096))
    run = local.run(made, edge_randomness(made, bytes(range(32)), "here"), log)
    return [json.loads(record.value) for record in run.releases], run


@cases(
    ("method", "shape", "statistics", "threshold"),
    [
        ("sw_direct", NUMBERS, "mean, per_user", 4),
        ("lpu", CATEGORIES, "frequencies", 0.3),
        ("lpa", NUMBERS, "mean", 4),
        ("lbu", CATEGORIES, "frequencies", 0.3),
        ("lpd", CATEGORIES, "frequencies", 0.3),
    ],
)
def test_an_event_stands_beside_each_release_of_the_crowd(method, shape, statistics, threshold):
    """And all else is as without: reports, releases, fingerprint and layout."""
    events = f", events: {{above: {threshold}}}"
    made = topology(method, shape, statistics, events)
    bare = topology(method, shape, statistics, "")
    rng = np.random.default_rng(3)
    values = rng.integers(0, 3, (300, 6)) if "cat" in shape else rng.uniform(0, 10, (300, 6))
    (said, run), (silent, other) = released(made, values), released(bare, values)
    assert (made.fingerprint, made.layout) == (bare.fingerprint, bare.layout)
    assert run.reports == other.reports
    assert [one for one in said if one["statistic"] != "above"] == silent
    crowd = [one for one in silent if "user" not in one]
    beside = {one["slot"]: one for one in said if one["statistic"] == "above"}
    assert sorted(beside) == sorted(one["slot"] for one in crowd)
    for one in crowd:
        event = beside[one["slot"]]
        assert event["standard_error"] is event["confidence_interval"] is None
        assert (event["reports"], event["strategy"]) == (one["reports"], one["strategy"])
        assert event["event"]["above"] == threshold
        value, error = one["value"], one["standard_error"]
        many = isinstance(value, list)
        told = above(
            Estimate(np.array(value), np.array(error), 1) if many else Estimate(value, error, 1),
            threshold,
        )
        assert event["value"] == told.value
        assert event["event"]["error"] == pytest.approx(told.error, rel=1e-9)
        assert lk.decode(json.dumps(event).encode())[0].event == event["event"]


def test_a_slot_without_reports_has_an_event_without_a_value():
    made = topology()
    release, event = publisher(made).of_slot(7, None)
    assert json.loads(release.value)["value"] is None
    told = json.loads(event.value)
    assert (event.key, told["value"], told["event"]) == (
        b"above/7",
        None,
        {"above": 4.0, "error": None},
    )


@cases(
    ("method", "shape", "statistics", "events", "said"),
    [
        ("capp", NUMBERS, "per_user", "{above: 4}", "output.events: must be given with one stat"),
        (
            "sw_direct",
            NUMBERS,
            "mean",
            "{above: 10}",
            "must lie between 0 and 10, as the mean does",
        ),
        (
            "sw_direct",
            NUMBERS,
            "mean",
            "{above: -1}",
            "must lie between 0 and 10, as the mean does",
        ),
        ("lpu", CATEGORIES, "frequencies", "{above: 1}", "must lie between 0 and 1, as the freq"),
        ("sw_direct", NUMBERS, "mean", "{}", "output.events.above: must be given"),
        ("sw_direct", NUMBERS, "mean", "{above: high}", "output.events.above: must be a number"),
        ("sw_direct", NUMBERS, "mean", "{below: 4}", "unknown key"),
        ("sw_direct", NUMBERS, "mean", "4", "output.events: must be a mapping"),
    ],
)
def test_what_an_event_must_be(method, shape, statistics, events, said):
    with pytest.raises(TopologyError) as caught:
        topology(method, shape, statistics, f", events: {events}")
    assert said in str(caught.value)
