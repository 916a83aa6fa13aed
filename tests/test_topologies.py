"""Every shipped topology: useful for as many users as its file names, and run, its own kind of
messages in, its releases out, right within their stated errors.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from math import ceil
from pathlib import Path

import numpy as np
import pytest

from ldp_kafka.cli import main
from ldp_kafka.records import hexadecimal
from ldp_kafka.runtime import local
from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.runtime.replay.messages import as_log, messages
from ldp_kafka.runtime.replay.source import SlotEvents, from_arrays
from ldp_kafka.topology import load, loads, unset
from ldp_kafka.topology.cautions import EMBEDDED_USERS
from ldp_kafka.topology.planner import plan

SHIPPED = sorted((Path(__file__).parents[1] / "topologies").glob("*.yaml"))
USERS, SLOTS, START = 400, 12, 1_700_000_000_000
FIRST_LINE = "# yaml-language-server: $schema=../ldp_kafka/topology/schema.json\n"
WINDOWS = ("shop-sales", "clinic-visits", "heart-rate")
LARGEST_ERROR = 0.05  # of a crowd's statistic, in lengths of the domain or of the range of shares
LARGEST_OF_STREAM = 0.1  # of a release of one stream by windows, in lengths of the domain
LEAST_RELIABILITY = 0.5  # of a release per user


def test_there_are_some():
    """One of them reads somebody else's topic, one asks its users, one releases single users'
    values, one hides whole streams, one takes batches; of two with a curator one releases batches,
    the other slides.
    """
    topologies = [load(path) for path in SHIPPED]
    assert not all(topology.input.create for topology in topologies)
    assert any(topology.flow.requests for topology in topologies)
    assert any(topology.per_user for topology in topologies)
    assert {topology.guarantee.level for topology in topologies} == {"user", "w-event", "event"}
    assert {one.windowed.setting for one in topologies if one.curated} == {"batch", "sliding"}
    assert {topology.input.format for topology in topologies} == {"json", "arrow"}
    assert {topology.method.kind for topology in topologies} == {"numeric", "categorical"}


def users_of(path):
    """The number in the one comment ``# users: N`` of a shipped file, for which it is meant."""
    [found] = re.findall(r"^# users: (\d+)$", path.read_text("utf-8"), re.MULTILINE)
    return int(found)


def useless(topology, users):
    """Which of a topology's statistics are of no use for so many users, by what is predicted."""
    lo, hi = topology.privacy.domain or (0.0, 1.0)
    found = []
    for prediction in plan(topology, users).predictions:
        if prediction.reliability is not None:
            useful = prediction.reliability >= LEAST_RELIABILITY
        elif topology.guarantee.subject == "stream":
            useful = prediction.error < LARGEST_OF_STREAM * (hi - lo)
        elif prediction.reports == 1:  # of one user, as it was reported
            useful = False
        else:
            useful = prediction.error < LARGEST_ERROR * (hi - lo)
        if not (useful and prediction.useful):
            found.append(prediction.statistic)
    return found


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_it_is_valid_and_useful_as_shipped(path, capsys, monkeypatch):
    """By the command line too, where nothing but the key is missing; for the users that it names,
    who fit the embedded broker that it names. All of its statistics are predicted.
    """
    for name in ("LDP_KAFKA_BOOTSTRAP", "LDP_KAFKA_EDGE_KEY_FILE", "LDP_KAFKA_FOREIGN_TOPIC"):
        monkeypatch.delenv(name, raising=False)
    topology, users = load(path), users_of(path)
    assert topology.name == path.stem
    assert path.read_text("utf-8").startswith(FIRST_LINE)
    assert [problem.key for problem in unset(topology)] == ["edge.key_file"]
    assert main(["validate", str(path)]) == 0
    assert main(words := ["plan", str(path), "--users", str(users)]) == 0
    assert "guarantee" in capsys.readouterr().out
    assert main([*words, "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    level = {"body-weight": "user", **dict.fromkeys(WINDOWS, "event")}.get(path.stem, "w-event")
    assert (made["users"], made["guarantee"]["level"]) == (users, level)
    predicted = [prediction.statistic for prediction in plan(topology, users).predictions]
    assert set(predicted) == set(topology.output.statistics)
    assert useless(topology, users) == []
    assert users <= EMBEDDED_USERS


@pytest.mark.parametrize(
    ("privacy", "users", "statistics", "found"),
    [
        ("method: capp, epsilon: 1, window: 10, domain: [0, 7280]", 3000, "per_user", True),
        ("method: sw_direct, epsilon: 6, window: 3, domain: [0, 63.7]", 3000, "per_user", True),
        (
            "level: user, method: cgm, epsilon: 5, delta: 1.0e-6, horizon: 365, domain: [40, 140]",
            3000,
            "mean",
            True,
        ),
        ("method: lpu, epsilon: 1, window: 8, categories: 6", 6000, "frequencies", True),
        ("method: lpu, epsilon: 1, window: 8, categories: 6", 20_000, "frequencies", False),
        ("method: lpu, epsilon: 2, window: 4, domain: [0, 7280]", 300, "mean", True),
        ("method: lpu, epsilon: 2, window: 4, domain: [0, 7280]", 3000, "mean", False),
    ],
)
def test_what_is_useless_is_found(privacy, users, statistics, found):
    """Parameters that were shipped before, among them: 2,101 where the midpoint is off by 2,102,
    and 34 kilograms.
    """
    topology = loads(
        f"topology: t\ninput: {{slot: 1h}}\nprivacy: {{{privacy}}}\n"
        f"output: {{statistics: [{statistics}]}}\n"
    )
    assert useless(topology, users) == ([statistics] if found else [])


def right_of_streams(topology, noise, values, releases):
    """Each slot of each stream once, and closer to it than the midpoint."""
    first, (lo, hi) = topology.slot_of(START), topology.privacy.domain
    streams = {release["user"] for release in releases}
    names = [f"u{user:06d}" for user in range(USERS)]
    if not topology.curated:  # whose releases are under pseudonyms
        names = hexadecimal(noise.series(noise.digests(names), np.full(USERS, first)))
    at = dict(zip(names, range(USERS), strict=True))
    told = [(one["user"], one["slot"]) for one in releases if one["slot"] >= first]
    assert len(set(told)) == len(told) == values.size == len(streams) * SLOTS
    found = np.empty(values.shape)
    for release in releases:
        if release["slot"] >= first:
            found[at[release["user"]], release["slot"] - first] = release["value"]
    assert np.abs(found - values).mean() < 0.6 * np.abs((lo + hi) / 2 - values).mean()


def in_parts(source, most):
    """The same sums, of so many equal events each that none is clamped."""
    slots = list(source.slots)
    parts = ceil(max(each.values.max() for each in slots) / most)
    made = [
        SlotEvents(
            each.slot,
            np.repeat(each.who, parts),
            np.repeat(each.times, parts),
            np.repeat(each.values / parts, parts),
        )
        for each in slots
    ]
    return replace(source, slots=made, events=source.events * parts)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_it_runs(path):
    """Crowd statistics lie within six standard errors of the truth: a false alarm once in 10^7 for
    all of them.
    """
    topology = load(path)
    rng = np.random.default_rng(3)
    categories = topology.privacy.categories
    if categories is None:
        lo, hi = topology.privacy.domain
        values = lo + (hi - lo) * rng.beta(2, 5, (USERS, SLOTS))
        if (
            topology.guarantee.subject == "stream"
        ):  # streams that move slowly, as they are meant for
            levels = rng.beta(2, 5, (USERS, 1)) + rng.normal(0, 0.01, (USERS, SLOTS))
            values = lo + (hi - lo) * levels
    else:
        weights = np.arange(1, categories + 1)
        values = rng.choice(categories, (USERS, SLOTS), p=weights / weights.sum())
    source, batch = from_arrays(topology, values, START), None
    if topology.contribution is not None and topology.input.per_slot == "sum":
        source, batch = in_parts(source, topology.contribution.most), 2048
    sent = messages(topology, source, batch)
    log = as_log(topology, sent, first=1 if topology.input.create else 0)
    # which makes no difference to what comes out (`tests/fold/test_equivalence.py`)
    noise = edge_randomness(topology, bytes(range(32)), "here")
    run = local.run(topology, noise, log, together=50)
    assert not run.dead_letters
    assert run.counts["events"] == source.events >= values.size
    releases = [json.loads(record.value) for record in run.releases]
    assert {release["statistic"] for release in releases} == set(topology.output.statistics)
    parameters = topology.privacy.resolved
    first = topology.slot_of(START)
    reported = [
        slot
        for slot in range(first, first + SLOTS)
        if "position" not in parameters or slot % parameters["segment"] == parameters["position"]
    ]
    assert reported
    # nobody ticks in a foreign topic
    closed = SLOTS if topology.input.create else SLOTS - 1 - topology.input.lateness
    for statistic in topology.output.statistics:
        mine = [release for release in releases if release["statistic"] == statistic]
        if topology.guarantee.subject == "stream":
            # a segment that ends behind the last value is released as a whole
            inside = [release for release in mine if release["slot"] < first + SLOTS]
            right_of_streams(topology, noise, values, inside)
            continue
        if statistic == "per_user":
            assert sorted(release["slot"] for release in mine) == sorted(reported * USERS)
            assert len({release["user"] for release in mine}) == USERS
            continue
        assert [release["slot"] - mine[0]["slot"] for release in mine] == list(range(closed))
        for at, release in enumerate(mine):
            truth = (
                values[:, at].mean()
                if categories is None
                else np.bincount(values[:, at], minlength=categories) / USERS
            )
            assert np.all(
                np.abs(np.array(release["value"]) - truth) < 6 * np.array(release["standard_error"])
            )
