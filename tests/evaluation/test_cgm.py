"""The comparison of CGM with its baselines, at a small size."""

from __future__ import annotations

import numpy as np

from ldp_kafka.evaluation.cgm import METHODS_COMPARED, stream_errors, table


def test_measured_variances_follow_the_laws():
    """Every row within six of its standard errors, and these small enough to tell the methods apart."""
    rows = table(bound=0.05, horizon=40, users=3_000, reports=(1, 2, 5, 10, 40, 99))
    assert {row.method for row in rows} == set(METHODS_COMPARED)
    assert {row.report for row in rows} == {1, 2, 5, 10, 40}
    assert all(abs(row.measured - row.expected) < 6 * row.error for row in rows)
    assert all(row.error < 0.04 * row.expected for row in rows)
    last = {row.method: row.measured for row in rows if row.report == 40}
    assert 0.17 < last["cgm"] / last["gaussian_direct"] < 0.21


def test_errors_of_streams_have_clipping_in_them():
    """Where streams jump and noise is small, following at C a report costs more than the noise that is saved."""
    jumps = np.tile(np.repeat([0.0, 1.0], 5), 4)[None]
    errors = stream_errors(jumps, (0.0, 1.0), 0.05, epsilon=40.0, repeats=50)
    assert errors["cgm"] > 2 * errors["gaussian_direct"]
