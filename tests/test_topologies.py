"""Every shipped topology, run: its own kind of messages in, its releases out, right within their
stated errors.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from ldp_kafka.runtime import local
from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.runtime.replay.messages import as_log, messages
from ldp_kafka.runtime.replay.source import from_arrays
from ldp_kafka.topology import load

SHIPPED = sorted((Path(__file__).parents[1] / "topologies").glob("*.yaml"))
USERS, SLOTS = 400, 12


def test_there_are_some():
    """And one of them reads somebody else's topic."""
    assert len(SHIPPED) >= 4
    assert not all(load(path).input.create for path in SHIPPED)


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
    else:
        values = rng.choice(
            categories,
            (USERS, SLOTS),
            p=np.arange(1, categories + 1) / np.arange(1, categories + 1).sum(),
        )
    log = as_log(
        topology,
        messages(topology, from_arrays(topology, values, 1_700_000_000_000)),
        first=1 if topology.input.create else 0,
    )
    # which makes no difference to what comes out (`tests/fold/test_equivalence.py`)
    run = local.run(topology, edge_randomness(topology, bytes(range(32)), "here"), log, together=50)
    assert not run.dead_letters
    assert run.counts["events"] == values.size
    releases = [json.loads(record.value) for record in run.releases]
    assert {release["statistic"] for release in releases} == set(topology.output.statistics)
    # nobody ticks in a foreign topic
    closed = SLOTS if topology.input.create else SLOTS - 1 - topology.input.lateness
    for statistic in topology.output.statistics:
        mine = [release for release in releases if release["statistic"] == statistic]
        if statistic == "per_user":
            assert len(mine) == values.size
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
