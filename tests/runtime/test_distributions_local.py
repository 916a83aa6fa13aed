"""Distributions over public bins through the stages that run on Kafka: slot by slot what
`ldp_kafka.protocol(bins=)` releases, and of users the reports that any other statistic has of them.
"""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.errors import TopologyError
from ldp_kafka.methods.protocols import PROTOCOLS
from ldp_kafka.records import Reports
from ldp_kafka.runtime import local, roles
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.wire.reports import read_reports, write_reports
from ldp_kafka.topology import loads, plan
from tests.cases import cases
from tests.fold import cases as fold
from tests.fold.judge import downstream
from tests.rounds import are_of
from tests.runtime.test_postprocess import released, restarted
from tests.runtime.test_protocols_local import (
    IDS,
    START,
    TEXT,
    WINDOW,
    asked,
    due,
    raw,
    said,
    streams,
)

BINNED = ("lpu", "lpd", "lpa", "lbu", "lsp")
BINS = 5


def text_of(name, statistic="distribution], bins: 5", kind="square_wave", lateness=0):
    shape = f"domain: [0, 10], mechanism: {kind}" if kind != "categories" else "categories: 3"
    whole = TEXT.format(
        name=name, kind=shape, statistic=statistic, lateness=lateness, hold=2, per_slot="first"
    )
    return whole if "]" not in statistic else whole.replace("]}\nruntime", "}\nruntime")


@cache
def topology(name, statistic="distribution], bins: 5", lateness=0):
    return loads(text_of(name, statistic, lateness=lateness))


@cache
def run_of(name, lateness=0):
    of, table = topology(name, lateness=lateness), streams(True, 0 if lateness else 3)
    return of, table, local.run(of, fold.randomness(of), raw(table, lateness=lateness))


@cases("lateness", [0, 2])
@cases("name", BINNED)
def test_releases_are_those_of_the_protocol(name, lateness):
    """Shares, errors, strategies, and every single report."""
    of, table, run = run_of(name, lateness)
    assert not run.dead_letters
    assert (run.counts["late"], run.counts["duplicates"], run.counts["refused"]) == (0, 0, 0)
    protocol = lk.protocol(
        name, epsilon=6.0, window=WINDOW, domain=(0, 10), bins=BINS, oracle="square_wave"
    )
    trace = protocol.run(table, fold.randomness(of), users=IDS, first_slot=START)
    first = int(np.flatnonzero(trace.reports[:, 0])[0])
    found = released(run.releases)[: len(trace.values) - first]
    are_of(found, trace, first, START, atol=1e-300)
    assert {each["statistic"] for each in found} == {"distribution"}
    assert [each["strategy"] for each in found] == trace.strategy[first:].tolist()
    assert [each["round"]["reports"] for each in found] == trace.reports[first:].tolist()
    assert said(of, run) == due(of, protocol, table, asked(run))
    published = (trace.strategy == "publish").sum()
    assert published > 2
    assert len(asked(run)) >= published if protocol.adaptive else not run.requests


@cases("name", ["lpu", "lbu", "lsp"])
def test_users_report_what_they_report_for_a_mean(name):
    """The same bytes, under one fingerprint; only what is kept of them differs."""
    of, mean = topology(name), topology(name, "mean")
    assert (
        of.fingerprint == mean.fingerprint == topology(name, "distribution], bins: 7").fingerprint
    )
    kept = [of.layout, mean.layout, topology(name, "distribution], bins: 7").layout]
    assert len(set(kept)) == 3
    _, table, run = run_of(name)
    assert run.reports == local.run(mean, fold.randomness(mean), raw(table, lateness=0)).reports


@cases("name", BINNED)
def test_a_coordinator_that_is_stopped_after_every_record_goes_on(name):
    of, _, run = run_of(name)
    log = local.log(downstream(of, run.reports)[1])
    stage = roles.make(of, "coordinate", 0)
    made, _ = restarted(log, [stage] * len(log))
    assert [(each.key, each.value) for each in made] == [
        (each.key, each.value) for each in run.releases
    ]
    assert len(made) >= 10


def test_a_report_that_there_is_not_is_a_dead_letter():
    """Outside of the mechanism's outputs, or on another grid."""
    of, _, run = run_of("lpu")
    stage = roles.make(of, "collect", 0)
    batch = next(made for each in run.reports[0] if len(made := read_reports(each.value)))
    most = of.method.index_range[1]
    for change, reason in (
        ({"values": batch.values * 0 + most + 1}, "range"),
        ({"scale": batch.scale / 2}, "wrong_fields"),
    ):
        fields = {name: getattr(batch, name) for name in Reports.__dataclass_fields__}
        value = write_reports(Reports(**{**fields, **change}))
        output = stage.fold(stage.fresh(), [Message(1, -1, value)])
        [letter] = [each for each in output.records if each.topic.endswith("dead-letters")]
        assert json.loads(letter.value)["reason"] == reason
        assert not [each for each in output.records if each.topic == of.partials_topic]


def test_devices_can_report_for_one():
    text = text_of("lpu").replace(", partitioning: murmur2, hold: 2", ", source: devices")
    assert plan(loads(text)).devices


@cases("name", ["lbu", "lpu"])
def test_what_a_plan_predicts_is_about_what_is_stated(name):
    """Of users whose values are spread evenly: not less than what errs."""
    of, users, slots = topology(name), 4_000, 24
    [told] = plan(of, users).predictions
    x = np.random.default_rng(3).uniform(0, 10, (users, slots))
    trace = of.method.protocol.run(x, lk.randomness.seeded(4))
    off = np.sqrt(np.mean((trace.values - 1 / BINS) ** 2))
    assert told.statistic == "distribution"
    assert told.reports == trace.reports[0, 0] if name == "lbu" else told.reports == users / WINDOW
    stated = np.sqrt(np.mean(trace.standard_error**2))
    assert 0.8 < told.error / stated < 1.25 and off < stated
    assert "values spread evenly" in told.sentence()
    assert not plan(topology("lpa"), users).predictions  # of how many it decides as it goes


@cases(
    ("name", "statistic", "kind", "what"),
    [
        ("lbd", "distribution], bins: 5", "square_wave", "lbd releases no distributions"),
        ("lba", "distribution], bins: 5", "square_wave", "lba releases no distributions"),
        ("lbd", "distribution", "square_wave", "[0]: distribution cannot be made of what lbd rep"),
        ("lbd", "distribution", "square_wave", "lpd or lpa can"),
        ("lpa", "distribution", "square_wave", "distribution needs output.bins"),
        ("lpa", "mean], bins: 5", "square_wave", "output.bins: must be given with distribution"),
        ("sw_direct", "mean], bins: 5", "square_wave", "output.bins: must be given with distrib"),
        ("lpa", "mean, distribution], bins: 5", "square_wave", "output.statistics: must name one"),
        ("lpa", "distribution], bins: 1", "square_wave", "output.bins: must be at least 2; got 1"),
        ("lpa", "distribution], bins: 257", "square_wave", "output.bins: must be at most 256"),
        ("lpa", "distribution], bins: x", "square_wave", "output.bins: must be a whole number"),
        ("lpa", "distribution], bins: 5", "laplace", "output.bins: lpa over laplace: bins needs"),
        ("lpa", "distribution], bins: 5", "categories", "categories are bins already"),
        ("lpa", "distribution", "categories", "distribution must come from a method for numbers"),
        ("lpu", "distribution], bins: 5", "categories", "must come from a method for numbers"),
        ("sw_direct", "distribution], bins: 5", "square_wave", "comes later, it is not built yet"),
        (
            "lpa",
            "distribution], bins: 5, events: {above: 0.3}",
            "square_wave",
            "output.events: must not be given: errors of a distribution are not normal",
        ),
        (
            "lpa",
            "distribution], bins: 5, postprocess: {smooth: kalman}",
            "square_wave",
            "output.postprocess.smooth: is for frequencies and means, not for bins",
        ),
    ],
)
def test_what_cannot_be_is_said_by_its_key(name, statistic, kind, what):
    with pytest.raises(TopologyError) as caught:
        loads(text_of(name, statistic, kind))
    assert what in str(caught.value)


def test_these_are_all_that_release_them():
    assert set(BINNED) == {name for name, each in PROTOCOLS.items() if each.distributions}
    assert all(topology(name).method.protocol.bins == BINS for name in BINNED)
