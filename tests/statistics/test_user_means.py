"""How users' means are spread: what single reports say of it, counted without their users; never
worse than reports as they are.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.errors import TopologyError
from ldp_kafka.methods.shrinkage import Shrinkage
from ldp_kafka.methods.unstated import NOISY_SPREAD
from ldp_kafka.runtime import local
from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.runtime.replay import as_log, from_arrays, messages
from ldp_kafka.statistics import user_means
from ldp_kafka.statistics.user_means import UserMeans
from ldp_kafka.topology import loads, plan
from tests.cases import cases

KEY, FIRST, SEGMENT, BINS = bytes(range(32)), 1_700_000_000, 4, 20
TEXT = """
topology: t
kafka: {{bootstrap_servers: "127.0.0.1:1"}}
input: {{slot: 1s, lateness: 0, partitions: 2, format: arrow}}
privacy: {{method: {method}, epsilon: {epsilon}, window: 4, domain: [0, 10]{more}}}
output: {{statistics: [{statistics}]{output}}}
"""
METHODS = ("sampling", "ipp_s", "app_s", "capp_s")


def topology(method="sampling", epsilon=8.0, more=", segment: 4", **given):
    shape = {"statistics": "user_means", "output": f", bins: {BINS}"} | given
    return loads(TEXT.format(method=method, epsilon=epsilon, more=more, **shape), "t.yaml")


def users_means(middle, spread, users=3000, seed=1):
    """Of users who move within a segment."""
    rng = np.random.default_rng(seed)
    level = np.clip(rng.normal(middle, spread, (users, 1)), 0, 10)
    return np.clip(level + rng.uniform(-0.5, 0.5, (users, SEGMENT)), 0, 10)


def made(method="sampling", epsilon=8.0, bins=BINS):
    used = lk.method(method, epsilon=epsilon, window=4, segment=4, domain=(0.0, 10.0))
    return used, UserMeans(used, bins=bins)


def reports_of(method, values, seed=2):
    """(released means, reports): of each user's segment."""
    released = method.release(values, lk.randomness.seeded(seed))[:, -1]
    zero, one = method.released(np.array([0.0, 1.0]))
    return released, (released - zero) / (one - zero)


def cumulated(values):
    """Shares of bins, as how much lies below each edge."""
    return np.cumsum(np.histogram(np.clip(values, 0, 10), BINS, (0, 10))[0]) / len(values)


def distance(shares, values):
    """Wasserstein, of what lies in which bin."""
    return float(np.abs(np.cumsum(shares) - cumulated(values)).mean()) * 10


@cases("name", METHODS)
def test_it_is_the_spread_of_matched_reports(name):
    """Of cells in place of reports: as far as a cell is wide. Sums of parts of a crowd add up."""
    method, spread = made(name)
    released, reports = reports_of(method, users_means(3, 1))
    crowd = Shrinkage(method, curve=spread.curve)
    index = crowd.index(released)
    crowd.update(index)
    parts = [spread.sums(each, 0) for each in np.array_split(reports, 3)]
    found = spread.estimate(sum(parts))
    assert (found.reports, found.standard_error, found.reason) == (3000, None, NOISY_SPREAD)
    assert found.value.sum() == pytest.approx(1)
    assert (found.value >= 0).all()
    assert np.cumsum(found.value) == pytest.approx(cumulated(crowd.spread(index)), abs=0.03)


def own_rule(prior, mean, variance, kurtosis):
    """The broken twin: the prior's mean and spread, whatever reports tell."""
    del mean, kurtosis
    return prior.mean, (prior.variance / variance) ** 0.5


CROWDS = [(5.0, 2.0), (3.0, 1.0), (8.0, 0.5), (1.0, 0.5)]
EPSILONS = (0.25, 1.0, 4.0, 16.0)


def beside_the_papers_rule():
    """By how much it is farther from the truth than reports as they are, at most, and its least
    share of their distance; over all crowds.
    """
    more, shares = [], []
    for middle, sd in CROWDS:
        values = users_means(middle, sd)
        truth = values.mean(axis=1)
        for epsilon in EPSILONS:
            method, spread = made(epsilon=epsilon)
            released, reports = reports_of(method, values)
            raw = distance(np.diff(np.concatenate([[0], cumulated(released)])), truth)
            found = distance(spread.estimate(spread.sums(reports, 0)).value, truth)
            more.append(found - raw)
            shares.append(found / raw)
    return max(more), min(shares)


def test_it_is_never_worse_than_the_papers_rule(monkeypatch):
    """But for a thousandth of the domain, for cells; and where reports tell much it is many times
    as near. A broken twin is found.
    """
    more, least = beside_the_papers_rule()
    assert more < 0.01
    assert least < 0.2
    monkeypatch.setattr(user_means, "matched", own_rule)
    assert beside_the_papers_rule()[0] > 0.03


@cases("name", METHODS)
def test_a_topology_releases_it(name):
    """Once a segment, with the edges of its bins; of reports that carry no pseudonym."""
    made = topology(name, 40.0)
    values = np.concatenate([users_means(3, 1), users_means(7, 1, seed=4)], axis=1)
    log = as_log(made, messages(made, from_arrays(made, values, 1000 * FIRST), 500), 1)
    run = local.run(made, edge_randomness(made, KEY, "here"), log, together=50)
    found = [json.loads(record.value) for record in run.releases]
    told = [each for each in found if each["value"] is not None]
    assert not made.per_user
    assert [each["slot"] - FIRST for each in told] == [3, 7]
    for each, at in zip(told, (0, 4), strict=True):
        assert each["edges"] == np.linspace(0, 10, BINS + 1).tolist()
        assert (each["standard_error"], each["error_reason"]) == (None, NOISY_SPREAD)
        assert distance(each["value"], values[:, at : at + 4].mean(axis=1)) < 0.4


def test_nobody_and_one_user():
    method, spread = made()
    [nobody] = spread.of_slot(spread.sums(method.blank(0), 0))
    assert nobody.value is None
    one = spread.estimate(spread.sums(np.array([0.5]), 0))
    assert one.value.sum() == pytest.approx(1)


REFUSED = [
    ({"output": ""}, "user_means needs output.bins: how many equal bins"),
    ({"more": ", mechanism: laplace"}, "user_means needs a mechanism that keeps the order"),
    *(
        (
            {"method": name, "more": ""},
            f"user_means cannot be made of what {name} reports: each is of one slot, and a user's",
        )
        for name in ("sw_direct", "ipp", "app", "capp")
    ),
    ({"output": ", bins: 4, events: {above: 0.5}"}, "errors of a user_means are not normal"),
    ({"statistics": "mean"}, "output.bins: must be given with distribution or user_means only"),
]


@cases("given, said", REFUSED)
def test_what_has_none_is_refused(given, said):
    with pytest.raises(TopologyError, match=said):
        topology(**given)


def test_a_plan_says_how_far_shares_are_off_and_that_no_error_is_stated():
    """Of values that are spread evenly; more users and more budget make it less."""
    said = [
        plan(topology(epsilon=epsilon), users).predictions[0]
        for epsilon, users in ((1.0, 500), (8.0, 500), (8.0, 4000))
    ]
    assert said[0].error > said[1].error > said[2].error > 0
    assert all(each.error_reason == NOISY_SPREAD for each in said)
