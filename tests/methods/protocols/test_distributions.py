"""Distributions over bins: what is released, how far it is off, and who refuses it."""

from __future__ import annotations

import json

import numpy as np
import pytest

import ldp_kafka as lk
from tests.cases import cases
from tests.depth import depth

WITH_BINS = ["lbu", "lsp", "lpu", "lpd", "lpa"]


def made(name, epsilon=2.0, bins=8, **parameters):
    given = {"window": 3, "domain": (0.0, 10.0), **parameters}
    return lk.protocol(name, epsilon=epsilon, bins=bins, **given)


def levels(users, slots, seed=1):
    """Numbers around a level that jumps in the middle, with gaps, and their shares."""
    rng = np.random.default_rng(seed)
    x = np.clip(
        rng.normal(np.where(np.arange(slots) < slots // 2, 3.0, 6.5), 1, (users, slots)), 0, 10
    )
    x[rng.random(x.shape) < 0.1] = np.nan
    shares = [np.histogram(column[~np.isnan(column)], 8, (0, 10))[0] for column in x.T]
    return x, np.array([each / each.sum() for each in shares])


@cases("name", WITH_BINS)
def test_distributions_are_released_with_their_errors(name):
    """Intervals hold the truth, published or held, before and after a jump."""
    slots = depth(9, 40)
    x, truth = levels(4_000, slots)
    trace = made(name, 6.0 if name == "lbu" else 3.0).run(x, lk.randomness.seeded(3))
    assert trace.values.shape == trace.standard_error.shape == (slots, 8)
    assert (trace.values >= 0).all() and np.abs(trace.values.sum(1) - 1).max() < 1e-9
    low, high = np.moveaxis(trace.confidence_interval, -1, 0)
    seen = np.flatnonzero(trace.strategy == "publish")
    assert len(seen) >= 2 and (seen < slots // 2).any()
    told = trace.error_reason == ""  # lsp does not look between its slots
    assert told.sum() == (len(seen) if name == "lsp" else slots)
    assert ((low <= truth) & (truth <= high))[told].mean() > 0.94
    assert (low[told] >= 0).all() and (high[told] <= 1).all()
    assert np.median((high - low)[seen]) < 0.3
    held = trace.strategy == "approximate"
    assert np.array_equal(trace.values[1:][held[1:]], trace.values[:-1][held[1:]])


def test_a_publication_is_what_em_finds():
    protocol, rng = made("lbu", window=1), np.random.default_rng(2)
    mechanism, coordinator = protocol.terms.oracle.at(2_000_000), protocol.coordinator()
    reports = mechanism.perturb(rng.uniform(0, 0.5, 4_000), lk.randomness.seeded(1))
    assert coordinator.decide(0, mechanism.histogram(reports)).request is None
    found = coordinator.release(None)
    expected = mechanism.distribution(reports, bins=16, smooth=False).shares
    assert np.array_equal(found.estimate.value, expected.reshape(8, 2).sum(1))
    assert found.estimate.value[:4].sum() > 0.9


@cases("name", ["lpu", "lpa"])
def test_a_jump_is_seen_in_report_space(name):
    x, _ = levels(4_000, 16)
    trace = made(name).run(x, lk.randomness.seeded(5))
    middle = trace.values @ (np.arange(8) + 0.5) / 8 * 10
    assert abs(middle[2:8].mean() - 3.0) < 0.7 and abs(middle[11:].mean() - 6.5) < 0.7
    assert (trace.dissimilarity[8:11] > trace.error[8:11]).any() or name == "lpu"


@cases("name", WITH_BINS)
def test_a_coordinator_of_distributions_goes_on_from_what_was_saved(name):
    protocol = made(name)
    oracle, first = protocol.terms.oracle, protocol.terms.first
    plain, moved = protocol.coordinator(), protocol.coordinator()
    rng = np.random.default_rng(11)
    for slot in range(5):
        values = rng.uniform(0, rng.random(), 0 if slot == 3 else 300)
        sums = oracle.support(first, oracle.at(first).perturb(values, lk.randomness.seeded(slot)))
        a, b = plain.decide(slot, sums), moved.decide(slot, sums)
        assert a.request == b.request
        second = None if a.request is None else sums
        found, other = plain.release(second), moved.release(second)
        assert found.strategy == other.strategy and found.estimate.reason == other.estimate.reason
        for each in ("value", "standard_error", "limits"):
            assert np.array_equal(getattr(found.estimate, each), getattr(other.estimate, each))
        saved = json.loads(json.dumps(moved.saved(), allow_nan=False))
        moved = protocol.coordinator()
        moved.restore(saved)
        assert moved.saved() == plain.saved()


def test_a_state_of_the_version_before_goes_on():
    """That held the shares of bins beside the state, whose own ``held`` stayed what it began as."""
    protocol, shares = made("lpa"), [0.6, 0.4, 0, 0, 0, 0, 0, 0]
    begun = protocol.coordinator().saved()
    saved = {
        **begun,
        "law": [0.001] * 8,
        "tracker": {**begun["tracker"], "now": None},
        "shares": {"value": shares, "error": [0.1] * 8, "noise": 0.002},
    }
    moved = protocol.coordinator()
    moved.restore(json.loads(json.dumps(saved)))
    moved.decide(1, None)
    assert moved.release(None).estimate.value.tolist() == shares


@cases("name", ["lbd", "lba"])
def test_protocols_whose_reports_have_several_budgets_refuse_bins(name):
    with pytest.raises(lk.errors.ConfigurationError, match="releases no distributions"):
        made(name)


@cases(
    ("parameters", "said"),
    [
        ({"bins": 1}, "between 2 and 256"),
        ({"bins": 257}, "between 2 and 256"),
        ({"oracle": "laplace"}, "keep the order"),
        ({"oracle": "duchi"}, "keep the order"),
        ({"oracle": "hybrid", "epsilon": 0.3}, "keep the order"),
        ({"merge": True}, "not for bins"),
        ({"smooth": "kalman"}, "not for bins"),
        ({"domain": None, "categories": 4}, "bins already"),
        ({"domain": None}, "either categories or a domain"),
    ],
)
def test_bins_that_cannot_be_are_refused(parameters, said):
    with pytest.raises(lk.errors.ConfigurationError, match=said):
        made("lpa", **parameters)
    with pytest.raises(TypeError, match="bins must be a whole number"):
        made("lpa", bins=True)


@cases("oracle", ["square_wave", "piecewise", "hybrid"])
def test_any_oracle_that_keeps_the_order_will_do(oracle):
    x, _ = levels(3_000, 4)
    trace = made("lpu", oracle=oracle).run(x, lk.randomness.seeded(7))
    assert trace.values[:, :1].max() < 0.3 and (trace.strategy == "publish").all()
