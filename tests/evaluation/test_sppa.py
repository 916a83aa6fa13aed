"""The trends of the SPPA paper, small: those that reproduce, and those that do not."""

from __future__ import annotations

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.evaluation import sppa
from ldp_kafka.evaluation.experiment import by
from ldp_kafka.mechanisms import MECHANISMS
from ldp_kafka.methods import SamplingPeriod
from tests import needs

STREAMS = ("trips", "volume", "c6h6")


@pytest.fixture(scope="module", params=STREAMS)
def streams(request):
    """By name, (users, slots) in [0, 1]."""
    if request.param == "trips":
        return {"trips": sppa.trips(100, 120, seed=1)}
    with needs.data():
        return {request.param: sppa.stream(request.param, 50, 120)}


def errors(rows, method):
    """In the order of the table."""
    return np.array([row["mse"] for row in rows if row["method"] == method])


def test_error_falls_with_epsilon_and_sppa_s_is_the_least(streams):
    """Figure 5: SPPA below ETM below PeGaSus at every epsilon; SPPA and PeGaSus fall."""
    rows = sppa.errors(streams, epsilons=(0.5, 1.5, 3.0))
    s, e, p = (errors(rows, method) for method in sppa.COMPARED)
    assert (s < 0.8 * e).all() and (e < 0.8 * p).all()
    assert (np.diff(s) < 0).all() and (np.diff(p) < 0).all()


def test_error_grows_with_the_window_and_sppa_s_is_the_least(streams):
    """Figure 6."""
    rows = sppa.errors(streams, windows=(4, 10, 20))
    s, e, p = (errors(rows, method) for method in sppa.COMPARED)
    assert (s < 0.8 * e).all() and (e < 0.8 * p).all()
    assert (np.diff(s) > 0).all() and (np.diff(e) > 0).all()


@pytest.mark.parametrize("calibration", ["published", "sound"])
def test_error_grows_with_tau(streams, calibration):
    """Figure 4, and as much with the sound budget."""
    rows = sppa.errors(streams, taus=(0.2, 0.6, 2.0), methods=("sppa",), calibration=calibration)
    found = errors(rows, "sppa")
    assert (np.diff(found) > 0).all()


def test_soundness_costs(streams):
    """A third of the budget a segment: SPPA is worse sound than as published; ETM, whose blocks
    lose no value, is not, and comes out ahead of SPPA.
    """
    published, sound = (sppa.errors(streams, calibration=c) for c in ("published", "sound"))
    assert errors(sound, "sppa")[0] > 1.2 * errors(published, "sppa")[0]
    assert errors(sound, "etm")[0] < errors(sound, "sppa")[0]


@pytest.mark.parametrize("name", ["volume", "c6h6", "appliances"])
def test_sppa_tells_velocity_best_on_real_series(name):
    """Figure 8, the order of its areas: SPPA, ETM, PeGaSus; the last no better than chance."""
    with needs.data():
        streams = {name: sppa.stream(name)}
    s, e, p = sppa.monitoring(streams)
    assert (
        s["rank_auc"] > e["rank_auc"] + 0.05
        and e["rank_auc"] > p["rank_auc"]
        and abs(p["rank_auc"] - 0.5) < 0.03
    )
    assert s["auc"] > e["auc"] > p["auc"]


def test_who_tells_velocity_best_depends_on_how_long_it_lasts():
    """SPPA where it changes within a window of 8 slots; where it lasts for several windows ETM,
    which the paper's figure does not show. PeGaSus never.
    """
    rows = by(sppa.by_hold((4, 40), users=300), "stream", "method")
    found = {cell: row["rank_auc"] for cell, row in rows.items()}
    assert found["4", "sppa"] > found["4", "etm"] + 0.02
    assert found["40", "etm"] > found["40", "sppa"] + 0.01
    assert all(abs(found[hold, "pegasus_local"] - 0.5) < 0.02 for hold in ("4", "40"))


def test_the_symmetric_interpolant_is_the_usable_one(streams):
    """Close to the true period the sum as printed is off by far more. At the paper's budgets, where
    the period is anything, it is neither better nor worse by much.
    """
    (values,) = streams.values()

    def ratio(epsilon):
        how = {"epsilon": epsilon, "window": 8, "domain": (0.0, 1.0)}
        printed, symmetric = (
            sppa.squared_error(kind(mechanism=MECHANISMS["laplace"], **how), values)
            for kind in (sppa.Printed, SamplingPeriod)
        )
        return printed / symmetric

    assert ratio(60.0) > 2
    assert 0.7 < ratio(3.0) < 1.4


def test_theorem_5_is_a_wide_upper_bound(streams):
    """It is stated as the error; its proof's inequality is what holds."""
    (values,) = streams.values()
    segments = values[:, :60].reshape(-1, 10)
    released = lk.method(
        "swp", epsilon=1.0, window=8, domain=(0.0, 1.0), calibration="published"
    ).release(segments, lk.randomness.seeded(1))
    error = float(((released - segments)[:, 1:-1] ** 2).mean())
    assert 3 * error < sppa.theorem_5(segments, epsilon=1.0)


def test_curves_of_what_is_known():
    """A perfect release has area 1, one that has nothing to do with the truth a half."""
    rng = np.random.default_rng(1)
    truth = rng.random((50, 40))

    def area(seen):
        false, true = sppa.sweep(truth, seen)
        return np.trapezoid(true, false)

    assert area(truth) == pytest.approx(1)
    assert area(rng.random((50, 40))) == pytest.approx(0.5, abs=0.05)


def test_streams_must_be_long_enough():
    """The first and the last segment are left out of every figure."""
    with pytest.raises(lk.ConfigurationError, match="longer"):
        sppa.errors({"short": np.zeros((2, 20))})
