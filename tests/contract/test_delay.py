"""Every method that releases windows against the contract, and its broken twins."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.checks import CheckFailure
from ldp_kafka.checks.delay import DELAY_CHECKS, DelayTrial
from ldp_kafka.checks.failure import run_all
from tests.cases import cases
from tests.contract.delay_mutants import DELAY_MUTANTS
from tests.depth import depth

SLIDING = {"setting": "sliding"}
WIDE = {"domain": (-3.0, 7.0), "epsilon": 3.0}
ENDS = {"alphabet": (0.0, 1.0)}
GROUPS = [
    ({"delay": 2, "theta": 0.7}, {}),
    ({"delay": 3, "theta": 0.4, "epsilon": 20.0, **SLIDING}, {}),
    ({"delay": 4, "theta": 1.0, "contribution": 0.5, "smooth": True}, {}),
    ({"delay": 2, **WIDE, **SLIDING}, {}),
    ({"delay": 3, "theta": 0.7, "window": 3, "contribution": 0.5}, {"length": 4}),
]
POINT = {"noise": "point"}
# name -> what to build it with beside epsilon 1 on [0, 1], and what to enumerate
SPECIMENS = {
    "adapub": [
        ({"delay": 2}, {}),
        ({"delay": 3, "epsilon": 20.0, **SLIDING}, {}),
        ({"delay": 4, "contribution": 0.5, "smooth": True}, {}),
        ({"delay": 2, **WIDE, **SLIDING}, {"length": 4}),
        ({"delay": 12}, {}),
        ({"delay": 3, "window": 2}, {"length": 4}),
        ({"delay": 4, "epsilon": 0.1}, {"length": 4}),
        ({"delay": 1}, {}),
    ],
    "buc_order": [
        ({"delay": 2, "buckets": 3}, {}),
        ({"delay": 3, "buckets": 2, "smooth": True, **SLIDING}, {}),
        ({"delay": 3, "buckets": 4, **POINT, **WIDE, **SLIDING}, ENDS),
        ({"delay": 5, "contribution": 0.25}, {"alphabet": (0.0, 0.25, 0.5)}),
        ({"delay": 1, "buckets": 1}, {}),
        ({"delay": 2, "buckets": 2, "window": 3, **SLIDING}, {"length": 4}),
    ],
    "comp_order": [
        ({"delay": 3}, ENDS),
        ({"delay": 2, **SLIDING}, {"length": 4}),
        ({"delay": 5, "contribution": 0.5}, {"alphabet": (0.2, 0.7)}),
        ({"delay": 3, "smooth": True, **WIDE, **SLIDING}, ENDS),
        ({"delay": 1}, ENDS),
        ({"delay": 2, "window": 2, **SLIDING}, {"length": 4}),
    ],
    "contin_group": [*GROUPS, ({"delay": 3, **POINT}, {}), ({"delay": 12, "theta": 0.0}, {})],
    "discontin_group": [
        ({"delay": 5, "theta": 0.7}, ENDS),
        ({"delay": 2, "theta": 0.4, **SLIDING}, {"length": 4}),
        ({"delay": 3, "theta": 0.4, "epsilon": 20.0, **SLIDING}, ENDS),
        ({"delay": 3, "theta": 1.0, "contribution": 0.5, "smooth": True}, {"length": 4}),
        ({"delay": 2, **POINT, **WIDE, **SLIDING}, ENDS),
        ({"delay": 4, "theta": 0.7, "window": 2}, {"length": 4}),
    ],
    "dpi": [
        ({"delay": 2, "synopses": 3}, {}),
        ({"delay": 3, "synopses": 4, "smooth": True, **WIDE, **SLIDING}, {}),
        ({"delay": 5, "synopses": 8, "contribution": 0.25}, {"alphabet": (0.0, 0.25, 0.5)}),
        ({"delay": 2, "synopses": 4, "window": 3}, {"length": 4}),
        ({"delay": 1, "synopses": 4}, ENDS),
    ],
    "naive": [
        ({"delay": 2}, {}),
        ({"delay": 3, "smooth": True, **WIDE, **SLIDING}, {}),
        ({"delay": 1, "contribution": 0.5}, {}),
        ({"delay": 2, "window": 3}, {}),
    ],
    "pegasus": [GROUPS[0], GROUPS[1], GROUPS[2]],
    "pegasus_delay": [GROUPS[0], GROUPS[3], GROUPS[4]],
    "segment_mean": [
        ({"delay": 3, "segment": 2}, {}),
        ({"delay": 3, "segment": 2, **SLIDING}, {}),
        ({"delay": 2, "segment": 2, "smooth": False, **WIDE, **SLIDING}, {}),
        ({"delay": 4, "segment": 1, "contribution": 0.5}, {}),
        ({"delay": 3, "segment": 3, "window": 4, **SLIDING}, {}),
    ],
    "truncate": [
        ({"delay": 2, "thresholds": 3}, {}),
        ({"delay": 2, "thresholds": 3, "interval": 2, "smooth": True, **SLIDING}, {}),
        (
            {"delay": 3, "thresholds": 4, "contribution": 0.3, **SLIDING},
            {"alphabet": (0.0, 0.3, 0.6)},
        ),
        ({"delay": 5, "thresholds": 8, **WIDE}, {}),
        ({"delay": 2, "thresholds": 2, "interval": 2, "window": 3}, {"length": 4}),
        ({"delay": 1, "thresholds": 2, "interval": 3}, {}),
    ],
}
UNIT = {"epsilon": 1.0, "domain": (0.0, 1.0)}


def maker(name, settings):
    return lambda: lk.method(name, **(UNIT | settings))


TRIALS = [
    pytest.param(DelayTrial(maker(name, settings), **how), id=f"{name}-{settings}")
    for name, shapes in SPECIMENS.items()
    for settings, how in shapes
]


@pytest.mark.parametrize("trial", TRIALS)
def test_contract(trial):
    """What was enumerated is let go afterwards."""
    try:
        run_all(DELAY_CHECKS, trial)
    finally:
        trial.__dict__.pop("outcomes", None)


def test_every_method_that_releases_windows_is_a_specimen():
    assert SPECIMENS.keys() == {
        name for name, kind in lk.METHODS.items() if issubclass(kind, lk.DelayMethod)
    }


@cases("mutant", DELAY_MUTANTS)
def test_mutant_dies(mutant):
    check, settings = DELAY_MUTANTS[mutant]
    trial = DelayTrial(lambda: mutant(**(UNIT | settings)), alphabet=(0.0, 0.5, 1.0), length=4)
    with pytest.raises(CheckFailure, match=check):
        run_all({check: DELAY_CHECKS[check]}, trial)


def test_every_check_kills():
    assert {check for check, _ in DELAY_MUTANTS.values()} == DELAY_CHECKS.keys()


def losses(name, **settings):
    """Exact losses of answers and of sums, as shares of what is meant for them."""
    trial = DelayTrial(maker(name, settings), alphabet=(0.0, 1.0))
    shape, values = trial.method.parts
    answers = max(outcomes.answers_loss() for outcomes in trial.outcomes)
    sums = max(outcomes.sums_loss() for outcomes in trial.outcomes)
    return answers / shape if shape else 0.0, sums / values


@cases(("delay", "setting"), [(2, "batch"), (3, "batch"), (1, "sliding"), (2, "sliding")])
def test_orders_and_buckets_spend_all_that_they_have(delay, setting):
    """Less noise would not be enough."""
    for name, own in (("comp_order", {}), ("buc_order", {"buckets": 2})):
        found = losses(name, delay=delay, setting=setting, **own)
        assert found == pytest.approx((1.0, 1.0), abs=1e-5), name


def test_a_window_spends_all_that_it_has():
    """Each of its values alters a sum: an epsilon that is divided by less would be found."""
    for own in ({"segment": 1}, {"segment": 3}):
        found = losses("segment_mean", delay=3, window=3, **own)
        assert found == pytest.approx((0.0, 1.0), abs=1e-5)
    found = losses("buc_order", delay=3, window=2, buckets=2)
    assert found == pytest.approx((1.0, 1.0), abs=1e-5)


def test_groups_spend_what_is_known_of_them():
    """Discontinuous groups two thirds of their share at five slots; continuous ones less than half
    of theirs at every length tried, which is why the paper's half of the noise was never caught.
    """
    assert losses("discontin_group", delay=5, theta=0.7)[0] == pytest.approx(0.67, abs=0.01)
    shares = [losses("contin_group", delay=delay, theta=0.0)[0] for delay in (5, 12, 24)]
    assert all(one < other < 0.5 for one, other in itertools.pairwise([*shares, 0.499]))


@cases("name", [name for name in SPECIMENS if name != "segment_mean"])
@cases("setting", ["batch", "sliding"])
def test_what_published_spending_truly_loses_is_stated(name, setting):
    """In the domain in which the paper's absolute numbers have a meaning."""
    length = depth(4, 5)
    settings = {"calibration": "published", "delay": 2, "setting": setting, "domain": (0.0, 300.0)}
    settings |= {"dpi": {"synopses": 4}, "truncate": {"thresholds": 4}}.get(name, {})
    trial = DelayTrial(maker(name, settings), length=length, alphabet=(0.0, 0.01, 1.0))
    DELAY_CHECKS["guarantee_is_true"](trial)
    DELAY_CHECKS["released_follows_from_draws"](trial)
    stated = trial.method.guarantee.epsilon
    over = ["adapub", "buc_order", "contin_group", "pegasus", "pegasus_delay"]
    one_test = name == "adapub" and setting == "batch"  # of two slots: no more than is sound
    assert (stated > 1.0) == (name in over and not one_test)


def test_the_papers_flip_is_caught():
    """Of three buckets it loses log(1 + 3 e^e_g / 2), and not e_g."""
    settings = {"calibration": "published", "delay": 2, "domain": (0.0, 300.0), "epsilon": 4.0}
    trial = DelayTrial(maker("buc_order", settings), length=3)
    answers = max(outcomes.answers_loss() for outcomes in trial.outcomes)
    assert trial.method.buckets == 3
    assert answers == pytest.approx(np.log(1 + 1.5 * np.e), abs=1e-3)
    with pytest.raises(CheckFailure):
        DELAY_CHECKS["loss_within_epsilon"](trial)
