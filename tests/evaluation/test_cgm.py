"""The comparison of CGM with its baselines, at a small size."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from ldp_kafka.evaluation.cgm import METHODS_COMPARED, table, worst_streams
from tests.methods.lifelong import inputs_of, life


def test_measured_variances_follow_the_laws():
    """Every row within six of its standard errors, and these small enough to tell the methods
    apart.
    """
    rows = table(bound=0.05, horizon=40, users=3_000, reports=(1, 2, 5, 10, 40, 99))
    assert {row["method"] for row in rows} == set(METHODS_COMPARED)
    assert {row["report"] for row in rows} == {1, 2, 5, 10, 40}
    assert all(abs(row["variance"] - row["law"]) < 6 * row["variance_error"] for row in rows)
    assert all(row["variance_error"] < 0.04 * row["law"] for row in rows)
    last = {row["method"]: row["variance"] for row in rows if row["report"] == 40}
    assert 0.17 < last["cgm"] / last["gaussian_direct"] < 0.21


@pytest.mark.parametrize("bound", [0.05, 0.13, 0.3])
@pytest.mark.parametrize("reports", [1, 2, 5, 30])
def test_worst_streams_are_reached_by_the_methods_own_draws(bound, reports):
    """The method's own step moves its draws by just so much on these two streams, and never by more
    on many others.
    """
    worst, streams = worst_streams(bound, reports)
    one, everywhere = life("cgm", horizon=reports, differential_bound=bound), np.ones(reports, bool)
    _, _, given = inputs_of(one, streams, everywhere)
    assert ((given[0] - given[1]) ** 2).sum() == pytest.approx(worst, rel=1e-6)
    rng = np.random.default_rng(7)
    others = np.concatenate(
        [
            rng.random((400, reports)),
            np.round(rng.random((400, reports))),
            np.clip(np.cumsum(rng.normal(0, bound, (400, reports)), 1), 0, 1),
        ]
    )
    _, _, given = inputs_of(one, others, everywhere)
    for mates in (np.arange(1200)[::-1], rng.permutation(1200)):
        assert ((given - given[mates]) ** 2).sum(1).max() <= worst * (1 + 1e-9)


def test_worst_streams_against_all_paths_of_a_grid():
    """No path on a fine grid of differences is worse."""
    bound, reports = 0.2, 4
    worst, _ = worst_streams(bound, reports)
    grid = np.arange(-1, 1.01, 0.2)
    found, r, v = 0.0, [0.0], 1.0
    for _ in range(reports - 1):
        below = (1 - 2 * bound) ** 2 + v
        r.append((1 - 2 * bound) / below)
        v /= below
    for path in product(grid, repeat=reports):
        moves = np.diff(path)
        if np.abs(moves).max() <= 2 * bound + 1e-9:
            found = max(
                found,
                sum(
                    ((d - a * b) / (1 - a + 2 * bound * a)) ** 2
                    for a, b, d in zip(r, (0.0, *path), path, strict=False)
                ),
            )
    assert found == pytest.approx(worst, rel=1e-6)
