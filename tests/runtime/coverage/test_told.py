"""Of which values a method's reports are, beside the method's own state and a loop."""

from __future__ import annotations

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.methods import Batch
from ldp_kafka.methods.base import FIXED
from ldp_kafka.runtime.coverage.told import told
from tests.cases import cases

LIFE = {"epsilon": 8.0, "delta": 1e-5, "horizon": 20}


def streams(*shape):
    """A third of the slots have no value."""
    rng = np.random.default_rng(2)
    values = 10 * rng.random((40, 11, *shape)) - 5
    values[rng.random((40, 11)) < 0.3] = np.nan
    return values


def test_means_of_segments():
    """Slot by slot, of users who have a value in the segment's last one."""
    method = lk.method("app_s", epsilon=1.0, window=9, segment=3, domain=(-5.0, 5.0))
    values = streams()
    found = told(method, values, 301)
    for user, slot in np.ndindex(values.shape):
        part = values[user, max(0, slot - 2) : slot + 1]
        reports = (301 + slot) % 3 == 2 and not np.isnan(part[-1])
        assert np.isnan(found[user, slot]) != reports
        assert not reports or found[user, slot] == pytest.approx(np.nanmean(part))


@cases("name", ["budget_split", "sample_split"])
def test_means_of_segments_of_coordinates(name):
    """Of those values of a coordinate that count, which lie next to each other or in its turns."""
    method = lk.method(
        name, epsilon=1, window=9, dimension=2, inner="app_s", segment=3, domain=(-5.0, 5.0)
    )
    values, apart = streams(2), 1 if name == "budget_split" else 2
    found = told(method, values, 301)
    for user, slot, at in np.ndindex(values.shape):
        turn = (301 + slot) // apart
        due = (301 + slot - at) % apart == 0 and turn % 3 == 2
        part = values[user, slot % apart : slot + 1 : apart, at][-3:]
        assert np.isnan(found[user, slot, at]) != (due and not np.isnan(part[-1]))
        if due and not np.isnan(part[-1]):
            assert found[user, slot, at] == pytest.approx(np.nanmean(part))


@cases(
    "name, more",
    [
        ("cgm", {"domain": (-5.0, 5.0)}),
        ("gaussian_differential", {"domain": (-5.0, 5.0), "differential_bound": 0.1}),
        ("cgm_vector", {"dimension": 2, "diameter": 20.0}),
    ],
)
def test_values_are_clipped_as_the_method_keeps_them(name, more):
    method = lk.method(name, **LIFE, **more)
    values = streams(*[2] * ("dimension" in more))
    low, length = (0.0, 20.0) if "dimension" in more else (-5.0, 10.0)
    found, source = told(method, values, 0), lk.randomness.seeded(1)
    state = method.state(source.digests([str(user) for user in range(len(values))]))
    moved = 0
    for slot in range(values.shape[1]):
        rows = np.flatnonzero(~np.isnan(values[:, slot].reshape(len(values), -1)).any(1))
        method.step(state, Batch(rows, slot, method.bound(values[rows, slot]), source))
        kept = low + state.columns["kept"][..., rows] / FIXED * length
        assert np.allclose(kept.reshape(-1, len(rows)).T.squeeze(), found[rows, slot], atol=1e-6)
        assert np.isnan(np.delete(found[:, slot], rows, axis=0)).all()
        moved += (np.abs(found[rows, slot] - values[rows, slot]) > 0.1).sum()
    assert moved > 100


@cases("kind", ["numeric", "categorical"])
def test_with_cover_no_value_is_one_too(kind):
    """From a user's first value on: the midpoint, or the number behind the categories."""
    if kind == "numeric":
        method = lk.method("sw_direct", epsilon=8.0, window=4, domain=(-5.0, 5.0), cover=True)
        values, none = streams(), 0.0
    else:
        method = lk.method("lpu", epsilon=8.0, window=4, categories=3, cover=True)
        values, none = np.random.default_rng(2).integers(-1, 3, (40, 11)), 3
    found = told(method, values, 0)
    for user, slot in np.ndindex(values.shape):
        there = ~np.isnan(values[user]) & (kind == "numeric") | (values[user] >= 0)
        own = values[user, slot] if there[slot] or not there[:slot].any() else none
        assert found[user, slot] == own or (np.isnan(found[user, slot]) and np.isnan(own))


def test_other_values_are_as_they_are():
    values = streams()
    method = lk.method("gaussian_direct", domain=(-5.0, 5.0), **LIFE)
    assert told(method, values, 0) is values
