"""A new statistic, and a new method, is a class and its registry line: all that loads, plans,
collects and releases takes it from there.
"""

from __future__ import annotations

import random
import secrets
from typing import ClassVar

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.errors import TopologyError
from ldp_kafka.mechanisms.base import Estimate
from ldp_kafka.methods import METHODS
from ldp_kafka.methods.base import FIXED
from ldp_kafka.methods.direct import Direct
from ldp_kafka.records import Events, Ids, Tick
from ldp_kafka.runtime import local
from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.wire.codec import encode
from ldp_kafka.statistics import STATISTICS, CrowdStatistic, Prediction, Singles, SingleStatistic
from ldp_kafka.topology import loads, plan, schema
from tests.runtime.stages import test_single_runs as single_runs

USERS, SLOTS, START = 60, 4, 1_700_000_000


class Count(CrowdStatistic):
    """How many reported: of any method."""

    name = "count"

    def sums(self, reports, phase):
        return np.array([len(reports)])

    def estimate(self, sums):
        return Estimate(float(sums[0]), 0.0, int(sums[0]))

    def error(self, reports):
        return 0.0


class LargestShare(CrowdStatistic):
    """The share of the most frequent category: of what tells frequencies."""

    name = "largest_share"
    kind = "categorical"
    needs = "frequencies"

    def sums(self, reports, phase):
        return self.method.support(reports, phase)

    def estimate(self, sums):
        found = self.method.crowd(sums)
        most = int(np.argmax(found.value))
        return Estimate(found.value[most], found.standard_error[most], found.reports)

    def error(self, reports):
        return STATISTICS["frequencies"](self.method).error(reports)


class Above(SingleStatistic):
    """Of each report, its distance from the mean of all reports so far: with totals of its own."""

    name = "above"
    kind = "numeric"

    @property
    def start(self):
        return (0, 0)

    def totals(self, index):
        return len(index), int(index.sum())

    def read(self, batch, totals):
        scale = batch.scale * (self.method.domain[1] - self.method.domain[0])
        away = (batch.values - totals[1] / totals[0]) * scale
        return Singles(away, np.full(away.shape, 1.0), 0.5)

    def predict(self, users):
        return Prediction(self.name, 1.0, None, 1)


class Rounded(Direct):
    """Perturbs values that were rounded to a grid of ``steps`` first."""

    name = "rounded"
    parameters: ClassVar = {"steps": "of the grid; default: 4"}

    def __init__(self, *, steps=4, **parameters):
        self.steps = steps
        super().__init__(**parameters)

    def bound(self, values):
        step = FIXED // self.steps
        return np.asarray((super().bound(values) + step // 2) // step * step)

    def tables(self):
        return [*super().tables(), self.steps]


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    for toy in (Count, LargestShare, Above):
        monkeypatch.setitem(STATISTICS, toy.name, toy)
    monkeypatch.setitem(METHODS, Rounded.name, Rounded)


def topology(method, shape, statistics):
    return loads(f"""
topology: toys
input: {{slot: 1s, lateness: 0, partitions: 2, format: arrow}}
privacy: {{method: {method}, epsilon: 8.0, window: 2, {shape}}}
output: {{statistics: [{statistics}], shrinkage: false}}
""")


def releases(made, draw):
    """Of a run over two partitions, by statistic."""
    logs = []
    for partition in (0, 1):
        users = Ids.of([f"u{at}" for at in range(partition, USERS, 2)])
        log = [
            encode(Events(users, np.full(len(users), 1000 * (START + slot)), draw(len(users))))
            for slot in range(SLOTS)
        ]
        log.append(encode(Tick(1000 * (START + SLOTS))))
        logs.append([Message(offset, -1, value) for offset, value in enumerate(log)])
    run = local.run(made, edge_randomness(made, bytes(range(32)), "here"), logs)
    assert not run.dead_letters
    found = {}
    for record in run.releases:
        [release] = lk.decode(record.value)
        found.setdefault(release.statistic, []).append(release)
    return found


def test_a_statistic_of_a_crowd():
    """Beside one that is built in, each from its own sums; in the order of the topology."""
    made = topology("lpu", "categories: 3", "count, frequencies, largest_share")
    assert made.statistics.width == 1 + len(made.method.support(made.method.blank(0))) * 2
    rng = np.random.default_rng(5)
    found = releases(made, lambda n: rng.choice(3, n, p=[0.7, 0.2, 0.1]))
    assert list(found) == ["count", "frequencies", "largest_share"]
    assert {len(each) for each in found.values()} == {SLOTS}
    for count, shares, largest in zip(*found.values(), strict=True):
        assert count.slot == shares.slot == largest.slot
        assert count.value == shares.reports == largest.reports > 0
        assert largest.value == max(shares.value)
        assert largest.standard_error == shares.standard_error[np.argmax(shares.value)]
    assert sum(count.value for count in found["count"]) == USERS * SLOTS / 2


def test_a_statistic_of_single_reports():
    """Beside one that is built in; its totals are its own, whoever stands before it."""
    made = topology("sw_direct", "domain: [0, 10]", "mean, per_user, above")
    rng = np.random.default_rng(6)
    found = releases(made, lambda n: rng.uniform(0, 10, n))
    assert len(found["above"]) == len(found["per_user"]) == USERS * SLOTS
    assert {one.user for one in found["above"]} == {one.user for one in found["per_user"]}
    for source in (0, 1):  # of the first slot: what one source has counted by then
        first = [
            (said.value, away.value)
            for said, away in zip(found["per_user"], found["above"], strict=True)
            if said.slot == START
        ][source * USERS // 2 : (source + 1) * USERS // 2]
        values, away = np.array(first).T
        assert away == pytest.approx(values - values.mean())
        assert np.ptp(away) > 0


def test_single_reports_together_or_one_by_one():
    """Each is released beside those before it, and of each report every statistic in turn."""
    made = topology("sw_direct", "domain: [0, 10]", "above, mean, per_user")
    seed = secrets.randbits(32)
    messages = single_runs.log(made, random.Random(seed), 400, wild=0)
    stage = single_runs.made(made, 100)
    expected = single_runs.strictly(stage, stage.fresh(), messages)
    found = single_runs.folded(stage, stage.fresh(), messages, [len(messages)])
    assert found == expected, seed
    assert expected[1]["releases"] > 400


def test_it_is_planned_and_published_in_the_schema():
    made = topology("lpu", "categories: 3", "frequencies, largest_share, count")
    frequencies, largest, count = plan(made, users=1000).predictions
    assert (largest.statistic, largest.error) == ("largest_share", frequencies.error)
    assert (count.error, count.reports) == (0.0, 500)
    enum = schema()["properties"]["output"]["properties"]["statistics"]["items"]["enum"]
    assert enum == sorted(STATISTICS)
    assert not made.per_user
    assert topology("sw_direct", "domain: [0, 1]", "above").per_user


@pytest.mark.parametrize(
    ("method", "shape", "statistics", "said"),
    [
        (
            "capp",
            "domain: [0, 1]",
            "mean, largest_share",
            r"statistics\[1\]: largest_share must come from a method for categories; capp is for",
        ),
        ("capp", "domain: [0, 1]", "larges_share", r"did you mean largest_share\?"),
        ("etm", "domain: [0, 1]", "count, mean", r"statistics\[1\]: mean cannot be made of what"),
    ],
)
def test_the_loader_refuses_what_does_not_fit(method, shape, statistics, said):
    with pytest.raises(TopologyError, match=said):
        topology(method, shape, statistics)


def test_a_method():
    """With a parameter of its own, which its noise and the fingerprint depend on."""
    made = topology("rounded", "domain: [0, 10], steps: 2", "mean, per_user")
    assert made.method.steps == 2
    assert made.fingerprint != topology("rounded", "domain: [0, 10]", "mean").fingerprint
    found = releases(made, lambda n: np.full(n, 4.0))
    assert len(found["per_user"]) == USERS * SLOTS
    assert np.mean([one.value for one in found["mean"]]) == pytest.approx(5.0, abs=0.5)
    streams = np.full((USERS, SLOTS), 4.0)
    ids = [f"u{at}" for at in range(USERS)]
    offline = made.method.release(
        streams, edge_randomness(made, bytes(range(32)), "here"), users=ids, first_slot=START
    )
    assert sorted(one.value for one in found["per_user"]) == pytest.approx(sorted(offline.ravel()))
    assert all(prediction.error > 0 for prediction in plan(made).predictions)
    with pytest.raises(TopologyError, match="stepps: unknown key"):
        topology("rounded", "domain: [0, 10], stepps: 2", "mean")
    with pytest.raises(TopologyError, match="steps: is no parameter of capp"):
        topology("capp", "domain: [0, 10], steps: 2", "mean")
