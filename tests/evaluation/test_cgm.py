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
    """The mean square error of a stream that jumps is that of one that stands still and what clipping keeps back, by hand."""
    slots, repeats = 10, 4_000
    jumps = np.repeat([0.0, 1.0], slots // 2)
    kept = np.array([0.0] * 5 + [0.05, 0.1, 0.15, 0.2, 0.25])
    errors = [stream_errors(stream[None], (0.0, 1.0), 0.05, epsilon=8.0, repeats=repeats) for stream in (np.zeros(slots), jumps)]
    assert np.isclose(errors[1]["cgm"] - errors[0]["cgm"], ((jumps - kept) ** 2).mean(), rtol=0.15)
    assert np.isclose(errors[1]["gaussian_direct"], errors[0]["gaussian_direct"], rtol=0.05)
