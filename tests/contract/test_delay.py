"""Every method that releases windows against the contract."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.checks import CheckFailure
from ldp_kafka.checks.delay.trial import DelayTrial
from ldp_kafka.checks.failure import run_all
from ldp_kafka.checks.methods import METHOD_CHECKS, fit
from tests.cases import cases
from tests.depth import depth
from tests.specimens import DELAY_METHODS as SPECIMENS
from tests.specimens import HALVES

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
        run_all(fit(trial), trial)
    finally:
        trial.__dict__.pop("outcomes", None)


def test_every_method_that_releases_windows_is_a_specimen():
    assert SPECIMENS.keys() == {
        name for name, kind in lk.METHODS.items() if issubclass(kind, lk.DelayMethod)
    }


def losses(name, **settings):
    """Exact losses of answers and of sums, as shares of what is meant for them."""
    trial = DelayTrial(maker(name, settings), alphabet=(0.0, 1.0))
    shape, values = trial.small.parts
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
    METHOD_CHECKS["guarantee_is_true"](trial)
    METHOD_CHECKS["released_follows_from_draws"](trial)
    stated = trial.small.guarantee.epsilon
    over = ["adapub", "buc_order", "contin_group", "pegasus", "pegasus_delay"]
    one_test = name == "adapub" and setting == "batch"  # of two slots: no more than is sound
    assert (stated > 1.0) == (name in over and not one_test)


@cases("name", ["buc_order", "contin_group", "discontin_group", "pegasus", "segment_mean"])
def test_a_sample_loses_no_more_than_is_stated_as_published(name):
    """A sampled value's choice stands for the noise that it is not in."""
    settings = {"calibration": "published", "delay": 3, "domain": (0.0, 300.0), **HALVES}
    settings |= {"segment_mean": {"segment": 3}, "buc_order": {"buckets": 2}}.get(name, {})
    trial = DelayTrial(maker(name, settings), length=4)
    METHOD_CHECKS["guarantee_is_true"](trial)
    METHOD_CHECKS["released_follows_from_draws"](trial)
    assert trial.worst > 0.5 * trial.small.guarantee.epsilon


def test_the_papers_flip_is_caught():
    """Of three buckets it loses log(1 + 3 e^e_g / 2), and not e_g."""
    settings = {"calibration": "published", "delay": 2, "domain": (0.0, 300.0), "epsilon": 4.0}
    trial = DelayTrial(maker("buc_order", settings), length=3)
    answers = max(outcomes.answers_loss() for outcomes in trial.outcomes)
    assert trial.small.buckets == 3
    assert answers == pytest.approx(np.log(1 + 1.5 * np.e), abs=1e-3)
    with pytest.raises(CheckFailure):
        METHOD_CHECKS["loss_within_epsilon"](trial)
