"""Limits of the shares of bins hold wherever in their bins values lie, and however few report."""

from __future__ import annotations

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.methods.protocols.bin_limits import BinLimits
from tests.cases import cases
from tests.depth import depth

BINS = 8
PLACES = {
    "one point": lambda rng, n: np.full(n, 0.06),
    "beside an edge": lambda rng, n: np.full(n, 0.1245),
    "even": lambda rng, n: rng.uniform(0, 1, n),
    "rare": lambda rng, n: np.where(rng.random(n) < 0.005, 0.9, 0.3),
    "two ends": lambda rng, n: rng.integers(0, 2, n).astype(float),
}


def oracle_of(epsilon, kind="square_wave"):
    made = {"epsilon": epsilon, "window": 1, "domain": (0.0, 1.0), "bins": BINS, "oracle": kind}
    terms = lk.protocol("lbu", **made).terms
    return terms.oracle, terms.first


def intervals(told, oracle, cost, place, reports, repeats=12):
    """True shares, values and limits (repeats, bins)."""
    rng, found = np.random.default_rng(4), []
    for seed in range(repeats):
        values = PLACES[place](rng, reports)
        answers = oracle.at(cost).perturb(values, lk.randomness.seeded(seed))
        truth = np.histogram(values, BINS, (0, 1))[0] / reports
        estimate = told(cost, oracle.support(cost, answers), population=False).stated
        found.append((truth, estimate.value, *estimate.interval()))
    return np.moveaxis(np.array(found), 1, 0)


@cases("place", list(PLACES))
@cases("epsilon", [0.01, 1.0, 8.0])
def test_limits_hold_the_share_of_every_bin(place, epsilon):
    oracle, cost = oracle_of(epsilon)
    for reports in depth((30, 2_000), (5, 30, 300, 5_000)):
        truth, _, low, high = intervals(oracle.told, oracle, cost, place, reports)
        covered = (low <= truth) & (truth <= high)
        assert covered.mean(0).min() > 0.75 and covered.mean() > 0.94, (reports, covered.mean(0))
        assert (low >= 0).all() and (high <= 1).all() and (low < high).all()


def test_what_em_states_of_itself_does_not_hold():
    """The mutant: a parametric bootstrap of EM, which begins evenly and hardly moves at a small
    epsilon. All values are in one bin, and it finds an eighth there.
    """
    oracle, cost = oracle_of(0.01)
    truth, value, low, high = intervals(oracle.told, oracle, cost, "one point", 2_000, 3)
    assert np.abs(value - 1 / BINS).max() < 0.01 and truth[:, 0].min() == 1
    assert (high - low > 0.9).all()


def test_where_reports_tell_much_limits_are_narrow():
    """8 nats, 5,000 reports of one point: nothing but noise and an edge's width is left."""
    oracle, cost = oracle_of(8.0)
    _, _, low, high = intervals(oracle.told, oracle, cost, "one point", 5_000, 2)
    assert np.median(high - low) < 0.05


@cases("kind", ["square_wave", "piecewise", "hybrid"])
def test_scores_keep_to_their_side_for_every_value(kind):
    """Their means are at least 1 in the bin and 0 beside it, or at most: exactly, of the law."""
    mechanism = oracle_of(2.0, kind)[0].at(2_000_000)
    limits, step = BinLimits(mechanism, BINS, 1000), 1 / mechanism.steps
    places = np.arange(mechanism.steps + 1) * step
    for at in range(BINS):
        low, high = (mechanism.pull(each[at]) for each in (limits._low, limits._high))
        within = (places >= at / BINS) & (places <= (at + 1) / BINS)
        assert (high >= within - 1e-9).all() and (low <= within + 1e-9).all()
        deep = (places > (at + 0.4) / BINS) & (places < (at + 0.6) / BINS)
        assert (high[deep] < 1.6).all() and (low[deep] > 0.2).all()


def test_reports_that_no_values_make_have_an_error_above_0():
    """All on the output whose lower limit of a bin is most above its upper one."""
    oracle, cost = oracle_of(2.0)
    limits = BinLimits(oracle.at(cost), BINS, 4**9)
    over = limits._low - limits._high
    counts = np.zeros(over.shape[1] + 1, np.int64)
    counts[[0, 1 + int(over.max(0).argmax())]] = 4**9 + 1
    low, high = limits.of(counts[1:])
    assert (low > high).any()
    found = oracle.told(cost, counts, population=False).stated
    assert (found.standard_error > 0).all()
    assert (found.limits[0] <= found.limits[1]).all()


def test_of_a_share_unseen_they_are_wider_than_wilsons():
    """No report supports a bin: its upper limit is z^2 / n above what the score has anyway."""
    mechanism = oracle_of(8.0)[0].at(8_000_000)
    limits = BinLimits(mechanism, BINS, 400)
    counts = np.zeros(limits._high.shape[1], np.int64)
    low = int(np.argmin(limits._high[6]))
    counts[low] = 400
    _, high = limits.of(counts)
    spread = limits._high[6].max() - limits._high[6].min()
    wanted = limits._high[6].min() + 1.96**2 / 400 * spread
    assert high[6] == pytest.approx(wanted, rel=1e-3)
