"""Intervals of releases hold the truth of their slot whatever the stream did: published, held,
after a jump, and whatever was made of publications.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from ldp_kafka.mechanisms import GeneralizedRandomizedResponse as GRR
from ldp_kafka.mechanisms.base import Estimate
from ldp_kafka.mechanisms.frequencies import AffineSupport
from ldp_kafka.methods.protocols import coordinator
from ldp_kafka.methods.protocols.coordinator import reaching
from ldp_kafka.methods.protocols.oracle import scalar
from ldp_kafka.statistics import above
from tests.cases import cases
from tests.depth import depth
from tests.methods.protocols.rounds import drawn
from tests.methods.protocols.streams import ADAPTIVE, ALL

SLOTS = np.arange(160)
SCENES = {
    "still": np.full(160, 0.2),
    "walk": 0.4 + np.cumsum(np.random.default_rng(1).normal(0, 0.02, 160)),
    "season": 0.4 + 0.25 * np.sin(2 * np.pi * SLOTS / 24),
    "jump": np.where((SLOTS // 20) % 2, 0.6, 0.2),
    "small jump": np.where((SLOTS // 20) % 2, 0.4, 0.3),
    "one category": np.zeros(160),
}
AFTER = (SLOTS >= 20) & (SLOTS % 20 < 4)  # slots of a jump, and three more
SWITCHES = [{}, {"smooth": "kalman"}, {"smooth": "exponential"}, {"norm_sub": True}]


def of_three(p):
    """Frequencies of three categories, of which one is rare."""
    return np.stack([1 - p, 0.95 * p, 0.05 * p], axis=1)


def shares_covered(name, scene, users, switches=SWITCHES, seeds=None):
    """How often intervals held the truth, by kind of slot and switch, and how many slots."""
    found = {}
    for seed in range(seeds or depth(2, 40)):
        rounds = drawn(name, of_three(SCENES[scene]), users, seed, switches, epsilon=3.0, window=6)
        jumped = AFTER if "jump" in scene else np.zeros(160, bool)
        for at, switch in enumerate(switches):
            told = np.isfinite(rounds.errors[at][:, 0])
            assert told.sum() == (27 if name == "lsp" else 160)
            covered = rounds.covered(at)
            for kind, slots in (
                ("published", rounds.published & ~jumped),
                ("held", ~rounds.published & ~jumped),
                ("published after a jump", rounds.published & jumped),
                ("held after a jump", ~rounds.published & jumped),
            ):
                found.setdefault((kind, str(switch)), []).extend(covered[slots & told])
    return {key: (np.mean(each), len(each)) for key, each in found.items() if len(each) > 20}


def missing(found):
    """Kinds whose share is below 95 % by more than chance, and by more than what intervals that
    are chosen by noise may lose.
    """
    return {
        key: share
        for key, (share, count) in found.items()
        if share < 0.925 - 3 * (0.05 * 0.95 / count) ** 0.5
    }


@cases("name", ALL)
@cases("scene", depth(["season", "jump"], list(SCENES)))
def test_intervals_hold_the_truth_of_every_kind_of_slot(name, scene):
    assert not missing(shares_covered(name, scene, 5_000))


@cases("name", depth(["lba", "lpa"], ADAPTIVE))
@cases("scene", ["jump", "small jump"])
def test_intervals_hold_where_few_report(name, scene):
    """Of 300 users, some 25 a slot in the first phase where users are divided."""
    assert not missing(shares_covered(name, scene, 300, [{}], seeds=depth(6, 60)))


def without_looking(value, stated, bounds):
    """What stands has a tenth of the width: the reports of the slot are not believed."""
    del bounds
    return Estimate(value, stated.standard_error / 10, stated.reports)


def half_way(value, stated, bounds):
    """Limits that are missed by half of all, not by 5 %."""
    low, high = ((end + stated.value) / 2 for end in stated.interval())
    return reaching(value, stated._replace(limits=(low, high)), bounds)


@cases("mutant", [without_looking, half_way])
def test_intervals_that_do_not_hold_are_found(mutant, monkeypatch):
    monkeypatch.setattr(coordinator, "reaching", mutant)
    kinds = {kind for kind, _ in missing(shares_covered("lpa", "jump", 5_000, [{}], seeds=3))}
    assert kinds & {"held", "held after a jump"}


@cases("population", [True, False])
@cases(
    ("epsilon", "users", "truth", "held"),
    [
        (1.0, 400, 0.0, 0.02),
        (1.0, 400, 0.01, 0.05),
        (1.0, 400, 1.0, 0.95),
        (8.0, 50, 0.0, 0.04),
        (8.0, 50, 0.02, 0.04),
    ],
)
def test_what_is_held_has_limits_that_hold(population, epsilon, users, truth, held):
    """Of skewed limits, too, that are cut at 0 or 1: by the exact law of how many reports support
    a category.
    """
    mechanism = GRR(epsilon, 5)
    p, q = (mechanism.law(0).probabilities()[at] for at in (0, 1))
    some = round(truth * users)
    number = np.arange(users + 1)
    if population:
        law = binom.pmf(number, users, q + (p - q) * truth)
    else:
        law = np.convolve(binom.pmf(number, some, p), binom.pmf(number, users - some, q))
        law = law[: users + 1]
    sums = np.concatenate([[users], number])
    stated = AffineSupport(p, q).estimate(sums, population=population)
    low, high = reaching(np.full(users + 1, held), stated, (0.0, 1.0)).interval()
    assert law[(low <= truth) & (truth <= high)].sum() > 0.945


def test_the_event_of_what_is_held_is_by_the_reports_of_the_slot():
    """A mean or share of .5 is held, and the slot's reports say that the truth is about .15."""
    seen = Estimate(np.array([0.15]), np.array([0.025]), 90)
    mean = scalar(reaching(np.array([0.5]), seen, (0.0, 1.0)))
    assert above(mean, 0.3, (0.0, 1.0)) == (1, pytest.approx(1.0, abs=1e-8))
    support = np.array([900, 135])
    seen = AffineSupport(1 - 1e-9, 1e-9).estimate(support, population=True)
    shares = reaching(np.array([0.5]), seen, (0.0, 1.0))
    assert above(shares, 0.3, (0.0, 1.0)) == ([1], [pytest.approx(1.0, abs=1e-8)])
    assert above(shares, 0.15, (0.0, 1.0)).error[0] == pytest.approx(0.5, abs=0.02)


def test_an_error_is_that_of_limits_before_they_are_cut():
    found = reaching(np.array([-0.2]), Estimate(np.array([0.1]), np.array([0.2]), 9), (0.0, 1.0))
    low, high = found.interval()
    assert (low[0], high[0]) == pytest.approx((0.1 - 1.96 * 0.2, 0.1 + 1.96 * 0.2), abs=1e-4)
    cut = coordinator.within_bounds(found, (0.0, 1.0))
    assert cut.limits[0] == 0.0 and cut.limits[1] == high[0]
    assert cut.standard_error == found.standard_error == pytest.approx(0.2)
    assert cut.value == -0.2


def test_what_is_projected_to_an_end_of_its_limits_has_the_error_of_its_noise():
    """Seven of a hundred reports support a category where noise alone makes twenty do so: its
    limits are cut to nothing.
    """
    seen = AffineSupport(0.5, 0.2).estimate(np.array([100, 7, 50]), population=False)
    found = reaching(np.zeros(2), seen, (0.0, 1.0))
    assert found.interval()[1][0] < 1e-6
    assert (found.standard_error >= seen.standard_error).all()
    assert found.standard_error[0] > 0.1
