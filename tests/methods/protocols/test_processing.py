"""What is made of publications before they are released: decisions stay what they were, errors are
honest, and each switch gains what it is for.
"""

from __future__ import annotations

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.mechanisms.base import Estimate
from ldp_kafka.methods.protocols.processing import Merging
from ldp_kafka.methods.protocols.tracker import Tracker
from tests.cases import cases
from tests.depth import depth
from tests.methods.protocols.rounds import drawn
from tests.methods.protocols.streams import ADAPTIVE, ALL, made, stepping

SWITCHES = [
    {"norm_sub": True},
    {"merge": True},
    {"smooth": "kalman"},
    {"smooth": "exponential"},
    {"norm_sub": True, "merge": True, "smooth": "kalman"},
]


def of(name, switches):
    """The switches that a protocol has."""
    return switches if name in ADAPTIVE else {k: v for k, v in switches.items() if k != "merge"}


def binary(p):
    return np.stack([1 - p, p], axis=1)


@cases("name", ALL)
@cases("switches", SWITCHES)
def test_requests_and_decisions_do_not_depend_on_processing(name, switches):
    x = stepping(600, 24)
    plain = made(name).run(x, lk.randomness.seeded(2))
    trace = made(name, **of(name, switches)).run(x, lk.randomness.seeded(2))
    for each in ("strategy", "dissimilarity", "error", "reports", "spent"):
        assert np.array_equal(
            getattr(plain, each), getattr(trace, each), equal_nan=each in ("dissimilarity", "error")
        )
    assert np.isfinite(trace.values).all()
    possible = (plain.values >= 0).all()
    if of(name, switches) and not (switches == {"norm_sub": True} and possible):
        assert not np.array_equal(plain.values, trace.values)


@cases("parameters", [{"smooth": "often"}, {"merge": True}])
def test_switches_that_there_are_not_are_refused(parameters):
    with pytest.raises(lk.errors.ConfigurationError, match=r"smooth must be one of|one phase"):
        made("lpu", **parameters)
    for wrong in ({"merge": 1}, {"norm_sub": "yes"}):
        with pytest.raises(TypeError, match="must be True or False"):
            made("lpa", **wrong)
    with pytest.raises(lk.errors.ConfigurationError, match="frequencies"):
        lk.protocol("lpa", epsilon=1.0, window=4, domain=(0.0, 1.0), norm_sub=True)


@cases("name", ["lbu", "lpa"])
def test_projected_frequencies_are_possible_and_nearer(name):
    """None below zero, sums of one; the squared error of all together never grows, slot by slot,
    and intervals hold the truth: those of the reports where they were what was published.
    """
    d, users, slots = 16, 4_000, 40
    shares = np.r_[0.5, 0.3, np.full(d - 2, 0.2 / (d - 2))]
    x = np.random.default_rng(4).choice(d, (users, slots), p=shares)
    truth = np.stack([np.bincount(x[:, t], minlength=d) for t in range(slots)]) / users
    traces = [
        made(name, 1.0, 4, d, norm_sub=on).run(x, lk.randomness.seeded(5)) for on in (False, True)
    ]
    raw, near = (((trace.values - truth) ** 2).sum(1) for trace in traces)
    assert (near <= raw + 1e-12).all() and near.mean() < 0.8 * raw.mean()
    values = traces[1].values
    assert (values >= 0).all() and np.abs(values.sum(1) - 1).max() < 1e-9
    low, high = np.moveaxis(traces[1].confidence_interval, -1, 0)
    assert (low >= 0).all() and (low <= values).all()
    assert (values <= high).all() and (high <= 1).all()
    covered = (low <= truth) & (truth <= high)
    assert covered.mean() > 0.94 and covered[:, :2].mean() > 0.9  # two are drawn down
    at = traces[0].strategy == "publish"
    own_low, own_high = np.moveaxis(traces[0].confidence_interval, -1, 0)
    assert np.array_equal(low[at], np.minimum(own_low, values)[at])
    assert np.array_equal(high[at], np.maximum(own_high, values)[at])


def test_merged_publications_are_nearer_and_hold_the_truth():
    """Users who stand still: every publication is one that noise has triggered."""
    gains = []
    for name in ADAPTIVE:
        off, before, covered = [], [], []
        for seed in range(depth(4, 40)):
            found = drawn(
                name, binary(np.full(160, 0.2)), 20_000, seed, [{}, {"merge": True}], epsilon=2.0
            )
            at = np.flatnonzero(found.published)[4:]
            off.append((found.values[1] - found.truth)[at, 1])
            before.append((found.values[0] - found.truth)[at, 1])
            covered.append(found.covered(1)[at, 1])
        assert np.concatenate(covered).mean() > 0.9 and np.concatenate(covered).size > 60, name
        gains.append(np.mean(np.concatenate(off) ** 2) / np.mean(np.concatenate(before) ** 2))
    assert max(gains) < 1.15 and np.mean(gains) < 0.9, gains


def test_merging_learns_how_much_the_trigger_inflates():
    """Errors of the first phase three times as large, squared, as their standard errors say: with
    the weights of that ratio the square of the merged error is 1 / (1 / 3 + 1 / .64).
    """
    rng, merging, off = np.random.default_rng(1), Merging(), []
    for _ in range(600):
        first = Estimate(rng.normal(0, 3**0.5, 1), np.ones(1), 10)
        second = Estimate(rng.normal(0, 0.8, 1), np.full(1, 0.8), 10)
        off.append(merging.merge(first, second))
    assert 2.3 < merging.inflation < 3.7
    assert np.mean(np.square(off[50:])) == pytest.approx(1 / (1 / 3 + 1 / 0.64), rel=0.15)
    naive = Merging()
    naive.restore([1e9, 1e9])  # a ratio of one, for good
    assert naive.inflation == 1.0


@cases("name", ALL)
def test_smoothing_gains_where_little_moves(name):
    """Of several runs: in a single one the noise may happen to lie as a drift would."""
    shares, off = binary(0.3 + 0.05 * np.sin(0.05 * np.arange(80))), []
    switches = [{}, {"smooth": "kalman"}, {"smooth": "exponential"}]
    for seed in range(depth(3, 30)):
        found = drawn(name, shares, 8_000, seed, switches, epsilon=2.0)
        off.append([np.mean((each - found.truth)[15:, 1] ** 2) for each in found.values])
    plain, kalman, exponential = np.mean(off, axis=0)
    assert kalman < (1.05 if name == "lsp" else 0.9) * plain
    assert exponential < (1.05 if name == "lsp" else 0.9) * plain


@cases("name", ["lbu", "lpa"])
@cases("smooth", ["kalman", "exponential"])
def test_smoothing_is_causal(name, smooth):
    """What is released of a slot does not change with later ones."""
    x = stepping(400, 24)
    whole, part = (
        made(name, smooth=smooth).run(each, lk.randomness.seeded(3)) for each in (x, x[:, :10])
    )
    assert np.array_equal(part.values, whole.values[:10])
    assert np.array_equal(part.confidence_interval, whole.confidence_interval[:10])


def test_the_tracker_follows_a_jump_and_calms_down():
    tracker = Tracker(np.array([0.5, 0.5]), (0.0, 1.0))
    rng, away = np.random.default_rng(8), []
    for slot in range(200):
        truth = 0.2 if slot < 100 else 0.7
        seen = truth + rng.normal(0, 0.02)
        tracker.observe(slot, np.array([1 - seen, seen]), np.full(2, 0.02))
        away.append(abs(tracker.value[1] - truth))
    assert max(away[100:]) < 0.07 and np.mean(away[60:100] + away[160:]) < 0.007
