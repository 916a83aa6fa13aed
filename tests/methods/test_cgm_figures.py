"""The laws, the modes and the flaw of CGM."""

from __future__ import annotations

from math import inf, nan, sqrt

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.accounting.composition import gaussian_delta, gaussian_epsilon
from ldp_kafka.evaluation.cgm import law, variances
from ldp_kafka.evaluation.cgm_streams import stream_errors
from ldp_kafka.mechanisms.gaussian import analytic_sigma
from ldp_kafka.methods.base import REFUSED, SENT
from ldp_kafka.methods.batch import Batch
from tests.cases import cases
from tests.methods.lifelong import inputs_of, life

UNIT = {"domain": (0.0, 1.0), "epsilon": 1.0, "delta": 1e-5}
METHODS = ("gaussian_direct", "gaussian_differential", "cgm")


# --- the variance law


@cases("bound", [0.001, 0.05, 0.2, 0.45])
@cases("name", METHODS)
def test_stated_variances_are_the_papers(name, bound):
    """To a millionth: reuse ratios are held in 24 bits."""
    own = {} if name == "gaussian_direct" else {"differential_bound": bound}
    m = lk.method(name, horizon=100, **own, **UNIT)
    for report in (1, 2, 3, 7, 30, 100):
        assert m.variance(report) / m.sigma**2 == pytest.approx(law(name, bound, report), rel=1e-6)


def test_baseline_ratio():
    """0.19 at C = 0.05 for large i, as METHODS and the paper's eq. 15 have it."""
    direct, cgm = (lk.method(name, horizon=100, **UNIT) for name in ("gaussian_direct", "cgm"))
    assert cgm.sigma == direct.sigma
    assert cgm.variance(100) / direct.variance(100) == pytest.approx(0.19, rel=1e-6)


def ratio_of(name, bound, i):
    """Eq. 21, and the baselines' ratios."""
    if name != "cgm" or i == 1:
        return float(name == "gaussian_differential" and i > 1)
    return (1 - 2 * bound) / ((1 - 2 * bound) ** 2 + law("cgm", bound, i - 1))


@pytest.mark.parametrize("name", METHODS)
def test_measured_variances_are_the_papers(name):
    """Every report's within six standard errors; the fresh parts y_i - r_i y_(i-1), which are
    independent of each other, to 1 %, where a deviation off by a fiftieth would fail.
    """
    bound, horizon, users = 0.05, 60, 6_000
    measured, errors = variances(name, bound, horizon, users)
    stated = np.array([law(name, bound, i) for i in range(1, horizon + 1)])
    assert (np.abs(measured - stated) < 6 * errors).all()
    own = {} if name == "gaussian_direct" else {"differential_bound": bound}
    m = lk.method(name, horizon=horizon, **own, **UNIT)
    noise = m.release(np.full((users, horizon), 0.5), lk.randomness.seeded(4)) - 0.5
    ratios = np.array([ratio_of(name, bound, i) for i in range(1, horizon + 1)])
    fresh = noise - ratios * np.column_stack([np.zeros(users), noise[:, :-1]])
    length = 1.0 if name == "gaussian_direct" else (1 - ratios) + 2 * bound * ratios
    square = float(((fresh / length / m.sigma) ** 2).mean())
    assert 4 * sqrt(2 / fresh.size) < 0.01
    assert abs(square - 1) < 0.01
    assert abs(square * 1.02**2 - 1) > 0.01 < abs(square / 1.02**2 - 1)


def test_noise_carries_on():
    """Reports next to each other share noise: Cov(y_i, y_(i+1)) = r_(i+1) Var(y_i), and none in the
    baseline.
    """
    cgm, direct = (lk.method(name, horizon=30, **UNIT) for name in ("cgm", "gaussian_direct"))
    for m, expected in ((cgm, 0.9), (direct, 0.0)):
        noise = m.release(np.full((20_000, 30), 0.3), lk.randomness.seeded(3)) - 0.3
        a, b = noise[:, 25], noise[:, 26]
        slope = (a * b).mean() / (a * a).mean()
        assert abs(slope - expected) < 6 / sqrt(20_000)


def test_sigma_is_the_analytic_one():
    """Eq. 7 and 14: sensitivity sqrt(l); what words of 64 bits and the table's grid add is below a
    thousandth.
    """
    for epsilon, horizon in ((1.0, 100), (0.25, 48), (2.0, 48)):
        m = lk.method("cgm", epsilon=epsilon, delta=1e-5, horizon=horizon, domain=(0.0, 1.0))
        assert 1 <= m.sigma / (sqrt(horizon) * analytic_sigma(epsilon, 1e-5)) < 1.001


def test_two_steps_of_the_papers_example():
    """Section 4.1: sigma 5.28 for two reports, and the second one's variance sigma^2 / (1 + (1 -
    2C)^2).
    """
    m = lk.method("cgm", horizon=2, differential_bound=0.1, **UNIT)
    assert m.sigma == pytest.approx(5.2759, rel=1e-3)
    assert m.variance(2) == pytest.approx(m.sigma**2 / (1 + 0.8**2), rel=1e-6)


def test_smooth_streams_gain_and_clipped_ones_are_followed():
    """On streams within the bound CGM has about 0.19 of the baseline's error; a jump is followed at
    C a report.
    """
    slots = np.arange(60)
    smooth = 0.5 + 0.3 * np.sin(slots / 20)[None]
    errors = {
        method: stream_errors(method, smooth, 0.05, epsilon=1.0, repeats=4_000)["mse"].mean()
        for method in METHODS
    }
    assert 0.19 < errors["cgm"] / errors["gaussian_direct"] < 0.3
    assert errors["gaussian_differential"] > errors["gaussian_direct"]
    m = lk.method("cgm", horizon=30, **UNIT)
    state = m.state(np.zeros((1, 2), np.uint64))
    for t in range(30):
        m.step(
            state,
            Batch(np.array([0]), t, m.bound(np.array([float(t > 4)])), lk.randomness.seeded(1)),
        )
        expected = min(max(t - 4, 0) * 0.05, 1.0)
        assert state.columns["kept"][0][0] / 2**32 == pytest.approx(expected, abs=1e-7)


def test_reports_follow_clipped_values_without_bias():
    """The mean of many users' reports is the clipped value, whatever was before."""
    m, users = lk.method("cgm", epsilon=10.0, delta=1e-5, horizon=20, domain=(-5.0, 5.0)), 20_000
    stream = -5 + 10 * np.array([0.2, 0.2, 0.24, 0.21, 0.5, 0.5, 0.1, 0.12])
    clipped = -5 + 10 * np.array([0.2, 0.2, 0.24, 0.21, 0.26, 0.31, 0.26, 0.21])
    released = m.release(np.tile(stream, (users, 1)), lk.randomness.seeded(9))
    assert (np.abs(released.mean(0) - clipped) < 6 * released.std(0) / sqrt(users)).all()
    crowd = m.crowd(m.mechanism.support((released[:, -1] + 5) / 10))
    assert abs(crowd.value - clipped[-1]) < 6 * crowd.standard_error
    assert crowd.reports == users


# --- the flaw of eq. 23


def worst(name, streams, **parameters):
    """Method, and the largest epsilon at delta that the draws of these two streams lose."""
    one = life(name, **parameters)
    method, spy, given = inputs_of(one, np.array(streams), np.ones(len(streams[0]), bool))
    return method, gaussian_epsilon(
        float(((given[0] - given[1]) ** 2).sum()) ** 0.5 / spy.sigma, method.delta
    )


def lost_mu(lost, delta=1e-5):
    """The mu of a loss at delta."""
    low, high = 0.0, 50.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if gaussian_epsilon(middle, delta) < lost else (low, middle)
    return low


def test_published_clipping_breaks_its_promise():
    """0, .4, 0, .4, ... with C = .05 against the same a slot later: clipped values step by .3 and
    .35, and the draws lose three times the epsilon that the paper says.
    """
    slots = 40
    first = [0.0, 0.4] * (slots // 2)
    second = [0.4, 0.0] * (slots // 2)
    method, lost = worst("cgm", [first, second], horizon=slots, calibration="published")
    assert method.epsilon == 1.0
    assert lost > 2.9
    assert gaussian_delta(1.0, lost_mu(lost)) > 1000 * method.delta  # at the paper's epsilon
    assert method.guarantee.epsilon >= lost
    assert method.guarantee.calibration == "published"
    sound, kept = worst("cgm", [first, second], horizon=slots)
    assert kept <= sound.guarantee.epsilon == 1.0
    # the same noise: it is the clipping
    assert sound.sigma == pytest.approx(method.sigma, rel=1e-3)


def test_published_clipping_over_the_whole_range_is_nearly_as_bad_as_is_stated():
    """Against 1, 0, 1, 0, ...: what is stated of the published calibration is what it
    nearly loses.
    """
    slots = 40
    method, lost = worst(
        "cgm", [[0.0, 1.0] * 20, [1.0, 0.0] * 20], horizon=slots, calibration="published"
    )
    assert 0.6 * method.guarantee.epsilon < lost <= method.guarantee.epsilon
    assert lost > 10


def test_where_nothing_can_be_proved_nothing_is_stated():
    """A small C published: more nats than words of 64 bits can tell."""
    nothing = lk.method(
        "cgm", horizon=50, differential_bound=0.02, calibration="published", **UNIT
    ).guarantee
    assert nothing.epsilon == inf
    assert nothing.describe().startswith("NONE for a user")
    assert lk.method("cgm", horizon=50, differential_bound=0.02, **UNIT).guarantee.epsilon == 1.0


def test_published_steps_exceed_the_bound():
    """The steps that METHODS tells of."""
    m = lk.method("cgm", horizon=10, calibration="published", **UNIT)
    state, kept = m.state(np.zeros((1, 2), np.uint64)), []
    for t in range(6):
        m.step(
            state,
            Batch(np.array([0]), t, m.bound(np.array([0.4 * (t % 2)])), lk.randomness.seeded(1)),
        )
        kept.append(state.columns["kept"][0][0] / 2**32)
    assert np.abs(np.diff(kept)).max() == pytest.approx(0.3, abs=1e-8)


def test_published_has_the_variance_law_too():
    m = lk.method("cgm", horizon=20, calibration="published", **UNIT)
    noise = (m.release(np.full((20_000, 20), 0.5), lk.randomness.seeded(2)) - 0.5) / m.sigma
    assert (
        (noise**2).mean(0) / [law("cgm", 0.05, i) for i in range(1, 21)]
    ).mean() == pytest.approx(1, abs=0.02)


# --- modes


def test_refresh_states_what_the_horizon_loses():
    """(1, 1e-5) a report: noise of one report, and over 100 of them ten times the mu."""
    m = lk.method("cgm", horizon=100, refresh=1, **UNIT)
    assert m.sigma == pytest.approx(analytic_sigma(1.0, 1e-5), rel=1e-3)
    assert m.guarantee.epsilon == pytest.approx(
        gaussian_epsilon(10 / m.mechanism.sigma, 1e-5), rel=1e-2
    )
    assert m.guarantee.epsilon > 10
    assert "over the first 100 reports" in m.guarantee.describe()


def test_a_fixed_sigma_lasts_as_long_as_the_budget():
    """As many reports as epsilon and delta allow, and not one more."""
    m = lk.method("cgm", sigma=10.0, **UNIT)
    assert (
        gaussian_epsilon(sqrt(m.horizon) / m.mechanism.sigma, 1e-5)
        <= 1.0
        < gaussian_epsilon(sqrt(m.horizon + 1.01) / m.mechanism.sigma, 1e-5)
    )
    state, source = m.state(lk.randomness.seeded(1).digests(["a"])), lk.randomness.seeded(1)
    status = [
        int(m.step(state, Batch(np.array([0]), t, m.bound(np.array([0.5])), source)).status[0])
        for t in range(m.horizon + 5)
    ]
    assert status == [SENT] * m.horizon + [REFUSED] * 5


def test_lag_is_interleaved_streams():
    """With lag 7 each weekday is a stream of its own: the same draws' inputs as seven methods would
    have.
    """
    rng = np.random.default_rng(1)
    streams = rng.random((5, 28))
    _, _, together = inputs_of(life("cgm", horizon=28, lag=7), streams, np.ones(28, bool))
    for day in range(7):
        _, _, alone = inputs_of(life("cgm", horizon=28), streams[:, day::7], np.ones(4, bool))
        assert np.array_equal(together[:, day::7], alone)


def test_multiplicative_bound():
    """Values that grow by less than the bound are followed; a jump is followed at that factor."""
    m = lk.method(
        "cgm",
        horizon=40,
        change="multiplicative",
        differential_bound=0.1,
        **UNIT | {"domain": (1.0, 1000.0)},
    )
    values = np.concatenate([1.09 ** np.arange(20), np.full(10, 1000.0)])
    state = m.state(np.zeros((1, 2), np.uint64))
    for t, value in enumerate(values):
        m.step(state, Batch(np.array([0]), t, m.bound(np.array([value])), lk.randomness.seeded(1)))
        kept = float(m.released(np.array([state.columns["kept"][0][0] / 2**32]))[0])
        assert kept == pytest.approx(value if t < 20 else values[19] * 1.1 ** (t - 19), rel=1e-6)


def test_a_missing_slot_changes_nothing_but_time():
    """The next value is clipped around the last that was reported."""
    m = lk.method("cgm", horizon=10, **UNIT)
    state, source = m.state(np.zeros((1, 2), np.uint64)), lk.randomness.seeded(1)
    for slot, value, kept in ((0, 0.5, 0.5), (1, 0.6, 0.55), (50, 0.9, 0.6), (51, 0.61, 0.61)):
        m.step(state, Batch(np.array([0]), slot, m.bound(np.array([value])), source))
        assert state.columns["kept"][0][0] / 2**32 == pytest.approx(kept, abs=1e-8)


# --- the integers of the table


@pytest.mark.parametrize("horizon", [1, 2])
def test_the_integers_of_the_table_keep_delta(horizon):
    """Not the normal law but the table's own words: the exact delta of one and of two reports at
    opposite ends, no more than asked for and nearly all of it.
    """
    m = lk.method("gaussian_direct", horizon=horizon, epsilon=1.0, delta=1e-3, domain=(0.0, 1.0))
    at = [
        np.array([w / law.denominator for w in law.weights])
        for law in (m.mechanism.law(0.0), m.mechanism.law(1.0))
    ]
    for here, there in (at, at[::-1]):
        if horizon == 2:
            exact = sum(
                float(np.maximum(p * here - np.exp(1.0) * q * there, 0).sum())
                for p, q in zip(here, there, strict=True)
            )
        else:
            exact = float(np.maximum(here - np.exp(1.0) * there, 0).sum())
        assert 0.98e-3 < exact <= 1e-3


# --- parameters


@cases(
    "wrong",
    [
        {"epsilon": 0.0}, {"epsilon": nan}, {"epsilon": inf}, {"epsilon": True}, {"epsilon": 60.0},
        {"delta": 0.0}, {"delta": 1.0}, {"delta": nan}, {"delta": "1e-5"}, {"delta": 1e-17},
        {"horizon": 0}, {"horizon": True}, {"horizon": 2.0}, {"horizon": 2**16 + 1},
        {"horizon": None},
        {"refresh": 0}, {"refresh": 11}, {"refresh": True},
        {"sigma": 3.0}, {"sigma": 20.0, "horizon": None, "refresh": 1},
        {"sigma": 0.0, "horizon": None}, {"sigma": nan, "horizon": None},
        {"sigma": 1.0, "horizon": None},
        {"differential_bound": 0.0}, {"differential_bound": 0.5}, {"differential_bound": nan},
        {"differential_bound": -0.1}, {"differential_bound": True}, {"differential_bound": "x"},
        {"lag": 0}, {"lag": True}, {"lag": 1.5},
        {"change": "other"}, {"change": "multiplicative"},
        {"change": "multiplicative", "domain": (1.0, 2.0), "differential_bound": 0.5},
        {"calibration": "other"}, {"domain": None}, {"domain": (1.0, 0.0)}, {"categories": 3},
        {"mechanism": "laplace"},
    ],
)  # fmt: skip
def test_wrong_parameters_are_refused(wrong):
    with pytest.raises((TypeError, ValueError)):
        lk.method(
            "cgm", **{"epsilon": 1.0, "delta": 1e-5, "horizon": 10, "domain": (0.0, 1.0)} | wrong
        )
