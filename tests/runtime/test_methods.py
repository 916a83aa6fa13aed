"""Every method through the pure stages: a topology's releases are what `Method.release` says of the
same streams, and nothing else.
"""

from __future__ import annotations

from copy import copy
from functools import cache

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.methods import METHODS
from ldp_kafka.randomness import Ids
from ldp_kafka.records import Events, Tick
from ldp_kafka.runtime import local
from ldp_kafka.runtime.coverage.told import told
from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.stages.perturb import make_perturb
from ldp_kafka.runtime.wire.codec import encode
from ldp_kafka.statistics import STATISTICS
from ldp_kafka.topology import loads, plan
from tests.cases import cases

TEXT = """
topology: {name}
kafka: {{bootstrap_servers: "127.0.0.1:1"}}
input: {{slot: 1s, lateness: 0, partitions: 2, format: arrow}}
privacy: {{method: {method}, {shape}, {budget}}}
output: {{statistics: [{statistics}], shrinkage: {shrinkage}}}
"""
START, USERS, SLOTS = 1_700_000_000, 40, 24
STREAMS = [name for name, kind in METHODS.items() if not kind.own_noise]
W_EVENT = "epsilon: 8.0, window: 4"
USER = "level: user, epsilon: 8.0, horizon: 20"
BALL = f"{USER}, delta: 1.0e-5, dimension: 2, diameter: 40"
OWN = {
    "budget_split": f"{W_EVENT}, dimension: 3, inner: capp, block: 2",
    **dict.fromkeys([name for name, kind in METHODS.items() if kind.ball], BALL),
    "sample_split": f"{W_EVENT}, dimension: 3, inner: app, block: 2",
    "cgm": f"{USER}, delta: 1.0e-5",
    "cgm_pure": USER,
    "etm": f"{W_EVENT}, delay: 2",
    "fast": f"{USER}, samples: 5",
    "fast_cgm": f"{USER}, samples: 5, delta: 1.0e-5",
    "gaussian_differential": f"{USER}, delta: 1.0e-5",
    "gaussian_direct": f"{USER}, delta: 1.0e-5",
    "topl": f"{W_EVENT}, first: 6",
}

SAMPLES = "interval: 3, filtered: false"
VARIANTS = {
    "capp-clipped": ("capp", f"{W_EVENT}, clip: 0.1"),
    "sppa-vectors": ("sppa", f"{W_EVENT}, dimension: 3"),
    "fast-samples": ("fast", f"{OWN['fast']}, {SAMPLES}"),
    "fast_cgm-samples": ("fast_cgm", f"{OWN['fast_cgm']}, {SAMPLES}"),
    "ba_sw-laplace": ("ba_sw", f"{W_EVENT}, mechanism: laplace"),
    "budget_split-segments": (
        "budget_split",
        f"{W_EVENT}, dimension: 3, inner: capp_s, segment: 3, block: 2",
    ),
    "sample_split-segments": (
        "sample_split",
        f"{W_EVENT}, dimension: 3, inner: sampling, segment: 2",
    ),
}
"""Methods in another form, by a name of ours."""
MEANS = ("fast-samples", "fast_cgm-samples", "ba_sw-laplace")
"""Those that have crowd means in that form alone."""


def statistics_of(name, kind):
    """All that need no bins."""
    plain = [each for each in kind.statistics if not STATISTICS[each].binned]
    return ", ".join([*plain, *(["mean"] if name in MEANS else [])])


def shape_of(method):
    """What the values of a method are."""
    kind = METHODS[method]
    return (
        "calibration: sound"
        if kind.ball
        else "domain: [10, 30]"
        if kind.kind == "numeric"
        else "categories: 3"
    )


@cache
def topology_of(name, **changed):
    method, budget = VARIANTS.get(name, (name, OWN.get(name, W_EVENT)))
    kind = METHODS[method]
    return loads(
        TEXT.format(
            **{
                "name": f"t-{name}",
                "method": method,
                "shape": shape_of(method),
                "budget": budget,
                "statistics": statistics_of(name, kind),
                "shrinkage": "false",
            }
            | changed
        ),
        "t.yaml",
    )


def streams_of(topology, users=USERS):
    rng, shape = (
        np.random.default_rng(3),
        (users, SLOTS, *([topology.method.dimension] if topology.method.dimension else [])),
    )
    if topology.method.kind == "categorical":
        return rng.integers(0, 3, shape)
    values = rng.beta(2, 5, shape).round(4)
    return 20 * values if topology.method.ball else 10 + 20 * values  # some lie outside the ball


def logs_of(topology, streams):
    """Two partitions; a tick after the last slot that closes it for everybody."""
    logs = [[], []]
    for partition in (0, 1):
        users = Ids.of([f"u{at}" for at in range(partition, USERS, 2)])
        for slot in range(SLOTS):
            values = np.ascontiguousarray(streams[partition::2, slot])
            logs[partition].append(
                encode(Events(users, np.full(len(values), 1000 * (START + slot)), values))
            )
        logs[partition].append(encode(Tick(1000 * (START + SLOTS + topology.method.delay))))
    return [[Message(offset, -1, value) for offset, value in enumerate(log)] for log in logs]


@cache
def played(method, together=1):
    """The logs of a method's streams, and what a run over them makes."""
    topology = topology_of(method)
    logs = logs_of(topology, streams_of(topology))
    return logs, local.run(
        topology, edge_randomness(topology, bytes(range(32)), "here"), logs, together=together
    )


@pytest.mark.parametrize("method", [*STREAMS, *VARIANTS])
def test_a_topology_releases_what_the_method_says(method):
    topology = topology_of(method)
    randomness = edge_randomness(topology, bytes(range(32)), "here")
    streams = streams_of(topology)
    _, run = played(method)
    assert not run.dead_letters
    releases = [lk.decode(record.value)[0] for record in run.releases]
    ids = [f"u{at}" for at in range(USERS)]
    said = Bare(topology.method).release(streams, randomness, users=ids, first_slot=START)
    crowd = {release.slot: release for release in releases if release.statistic != "per_user"}
    if "per_user" not in topology.output.statistics:
        assert sorted(crowd) == list(range(START, START + SLOTS))
        assert sum(release.reports for release in crowd.values()) == (said >= 0).sum()
        return
    pseudonyms = {
        bytes(row).hex(): at
        for at, row in enumerate(np.ascontiguousarray(randomness.series(randomness.digests(ids))))
    }
    found, seen = np.full(said.shape, np.nan), np.zeros((USERS, SLOTS), np.int64)
    for release in releases:
        if release.statistic == "per_user":
            at = pseudonyms[release.user], release.slot - START
            found[at], seen[at] = np.array(release.value, float), seen[at] + 1  # null is NaN
    assert seen.max() == 1, "one release a user and slot"
    assert np.allclose(found, said, rtol=1e-12, atol=1e-9, equal_nan=True)
    assert np.isfinite(found).sum() > USERS
    for slot, release in crowd.items():
        reported = np.isfinite(said[:, slot - START])
        assert release.reports == (reported.any(1) if reported.ndim > 1 else reported).sum()
        if topology.method.dimension and release.reports:
            assert [value is not None for value in release.value] == reported.any(0).tolist()
            spread = [None if error is None else 6 * error for error in release.standard_error]
            means = told(topology.method, streams, START)[:, slot - START].mean(0)
            assert all(
                value is None or abs(value - mean) < margin
                for value, mean, margin in zip(release.value, means, spread, strict=True)
            )


class Bare:
    """A method whose releases are NaN where nothing is reported: what was held is not
    on the wire.
    """

    def __init__(self, method):
        self.method = method

    def release(self, *given, **named):
        bare = copy(self.method)
        bare.holds = False
        return bare.release(*given, **named)


@pytest.mark.parametrize("method", STREAMS)
def test_together_or_one_by_one(method):
    """Messages folded at once make the same records."""
    (_, one), (_, many) = played(method), played(method, together=7)
    assert one.reports == many.reports
    assert one.releases == many.releases


@pytest.mark.parametrize("method", STREAMS)
def test_a_state_that_was_written_down_goes_on_alike(method):
    """Dump and load between any two messages: the records are those of a worker that
    never stopped.
    """
    topology = topology_of(method)
    edge = make_perturb(topology, 0, edge_randomness(topology, bytes(range(32)), "here"))
    logs, run = played(method)
    state, made = edge.fresh(), []
    for message in logs[0]:
        made += edge.fold(state, [message]).records
        shards = {
            shard: (message.offset, payload)
            for shard, payload in edge.dump(state, edge.shards_of(state)).items()
        }
        state = edge.load(edge.meta(state), shards)
    assert made == run.reports[0]


@cases("method", STREAMS)
def test_every_method_plans(method):
    """The plan says what is guaranteed, and what a release will be off by."""
    planned = plan(topology_of(method), users=500)
    assert planned.guarantee.describe() in "\n".join(planned.lines())
    assert all(np.isfinite(prediction.error) for prediction in planned.predictions)
    assert planned.epsilon_per_report > 0


@cases("method", STREAMS)
def test_a_level_or_a_statistic_that_a_method_has_not_is_refused(method):
    kind = METHODS[method]
    other = W_EVENT if kind.level == "user" else USER
    with pytest.raises(lk.errors.TopologyError, match=r"privacy\.level"):
        topology_of(method, budget=other)
    wrong = next(
        name for name in ("frequencies", "mean", "per_user") if name not in kind.statistics
    )
    with pytest.raises(lk.errors.TopologyError, match=r"output\.statistics"):
        topology_of(method, statistics=wrong)
