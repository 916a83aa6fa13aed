"""Events: whether a crowd's statistic is above a threshold, and how often that is wrong."""

from __future__ import annotations

import itertools
import json
from functools import cache
from math import exp, sqrt

import numpy as np
import pytest
from scipy.special import ndtr

import ldp_kafka as lk
from ldp_kafka.errors import TopologyError
from ldp_kafka.mechanisms.base import Estimate
from ldp_kafka.mechanisms.frequencies import AffineSupport
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
EDGES = [0.0, 0.02, 0.1, 0.25, 0.4, 1.0]


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


def apart(stated, wrong, least=10):
    """The most standard deviations between errors found and stated, over how likely they are
    stated.
    """
    most = 0.0
    for low, high in itertools.pairwise(EDGES):
        among = (stated >= low) & (stated <= high)
        assert among.sum() >= least
        spread = sqrt((stated[among] * (1 - stated[among])).sum()) + 1
        most = max(most, abs(wrong[among].sum() - stated[among].sum()) / spread)
    return most


def judged(scale=1.0, threshold=5.0):
    values, errors, truth = found()
    event = above(Estimate(values, errors * scale, 1), threshold)
    return apart(np.array(event.error), np.array(event.value) != (truth > threshold))


def test_the_error_that_is_stated_is_the_one_made():
    """As often as it is said, the truth is on the other side: whatever is said."""
    assert judged() < FALSE_ALARM


@cases("scale", [0.5, 2.0])
def test_a_wrong_standard_error_would_be_found(scale):
    assert judged(scale) > FALSE_ALARM


def test_an_event_of_no_estimate_and_of_a_sure_one():
    assert above(Estimate(None, None, 0), 0.3) == (None, None)
    sure = above(Estimate(0.4, 0.0, 1), 0.3)
    assert sure.value == 1
    assert 0 < sure.error < 1e-14
    assert above(Estimate(0.3, 0.0, 1), 0.3) == (0, 0.5)
    assert above(Estimate(0.3, np.inf, 1), 0.4) == (0, 0.5)
    assert above(Estimate(0.3, np.inf, 1), 0.4, (0.0, 1.0)) == (0, 0.6)
    mixed = above(Estimate(np.array([np.nan, 0.4]), np.array([np.nan, 0.1]), 1), 0.4)
    assert mixed.value == [None, 0]
    assert mixed.error == [None, 0.5]


def test_the_truth_lies_where_it_can():
    """A share below 0 is above no threshold in 0..1, and the truth may well be above one."""
    event = above(Estimate(-1.0, 2.0, 3), 0.1, (0.0, 1.0))
    low, at, high = (ndtr((-1 - place) / 2) for place in (0.0, 0.1, 1.0))
    assert event.value == 0
    assert event.error == pytest.approx((at - high) / (low - high), rel=1e-9)


SHARES = {
    "lpu of few": (True, "grr", 8.0, 3),
    "lpu of one": (True, "oue", 4.0, 1),
    "lpu of many": (True, "oue", 4.0, 20_000),
    "all of few": (False, "grr", 2.0, 4),
    "all of many": (False, "hadamard", 1.0, 3000),
    "all, rarely noisy": (False, "grr", 8.0, 5000),
}
CROWDS = 4000


@cache
def shares(case):
    """Estimates of a share, one a crowd, where any share is as likely; and the truths."""
    population, name, epsilon, reports = SHARES[case]
    rng = np.random.default_rng(7)
    truth = rng.uniform(0, 1, CROWDS)
    if not population:
        truth = rng.integers(0, reports + 1, CROWDS) / reports
    p, q = AFFINE[name](epsilon)
    mine = rng.binomial(reports, truth) if population else np.rint(truth * reports).astype(int)
    supporters = rng.binomial(mine, p) + rng.binomial(reports - mine, q)
    law = AffineSupport(p, q)
    found = law.stated(
        (supporters / reports - q) / (p - q),
        np.concatenate([[reports], supporters]),
        population=population,
    )
    return found, truth


AFFINE = {
    "grr": lambda epsilon: (exp(epsilon) / (exp(epsilon) + 2), 1 / (exp(epsilon) + 2)),
    "oue": lambda epsilon: (0.5, 1 / (exp(epsilon) + 1)),
    "hadamard": lambda epsilon: (exp(epsilon) / (exp(epsilon) + 1), 0.5),
}


def misjudged(case, threshold, twin=lambda found: found):
    """How far the errors made are from the errors stated, in the worst of five bins: standard
    deviations.
    """
    found, truth = shares(case)
    event = above(twin(found), threshold, (0.0, 1.0))
    wrong = (np.array(event.value) == 1) != (truth > threshold)
    return apart(np.array(event.error), wrong, least=0)


@cases("threshold", [0.05, 0.3, 0.8])
@cases("case", SHARES)
def test_errors_of_shares_are_those_made(case, threshold):
    """Of few reports and of many, of a sample and of those who report."""
    assert misjudged(case, threshold) < FALSE_ALARM


def normal(found):
    """By the standard error, as of means."""
    return found._replace(chance_above=None, limits=None)


def wald(found):
    """By the variance that the reports have, which is 0 where none of them supports a category."""
    noise = np.sqrt(np.clip(found.value * (1 - found.value), 0, 1) / found.reports)
    return normal(found)._replace(standard_error=noise)


@cases(("case", "twin"), [("lpu of few", normal), ("lpu of one", wald), ("all of few", wald)])
def test_errors_of_another_law_would_be_found(case, twin):
    assert max(misjudged(case, threshold, twin) for threshold in (0.05, 0.3, 0.8)) > FALSE_ALARM


def released(made, values):
    log = as_log(made, messages(made, from_arrays(made, values, 1_600_000_020_000), 4096))
    run = local.run(made, edge_randomness(made, bytes(range(32)), "here"), log)
    return [json.loads(record.value) for record in run.releases], run


def oracle(method):
    """The mechanism of every report."""
    if not method.phases > 1:
        return method.mechanism
    terms = method.protocol.terms
    return terms.oracle.at(terms.first)


def counted(mechanism, release, population):
    """The estimate of as many supporters as a release of categories has, in its last phase."""
    p, q = mechanism.affine
    phases = release["round"]["reports"] if "round" in release else [release["reports"]]
    reports = [each for each in phases if each][-1]
    supporters = np.rint(reports * (q + (p - q) * np.array(release["value"])))
    support = np.concatenate([[reports], supporters]).astype(np.int64)
    return mechanism.estimate_support(support, population=population)


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
        value, error, (low, high) = (
            np.array(one[name]) for name in ("value", "standard_error", "confidence_interval")
        )
        if not value.ndim or one["strategy"] == "approximate":
            told = above(Estimate(value, error, 1, (low, high)), threshold, (0.0, 10.0))
        else:
            told = above(counted(oracle(made.method), one, method != "lbu"), threshold)
        assert event["value"] == told.value
        if one["strategy"] != "approximate":  # what is held has the law of what is not released
            assert event["event"]["error"] == pytest.approx(told.error, rel=1e-9)
        assert lk.decode(json.dumps(event).encode())[0].event == event["event"]


def test_an_event_without_an_error_says_why():
    found = Estimate(5.0, None, 0, reason="no_reports")
    made = publisher(topology()).of_round(7, found, "approximate", {})
    release, event = (json.loads(each.value) for each in made)
    assert (event["value"], event["event"]["error"]) == (1, None)
    assert event["error_reason"] == release["error_reason"] == "no_reports"


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
