"""CGM over Laplace noise: the law of its reports against a recursion of our own, its privacy by all
outcomes, and errors that hold though sums of few Laplace noises are not normal.
"""

from __future__ import annotations

from itertools import product
from math import inf, sqrt

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.mechanisms import Laplace
from ldp_kafka.mechanisms.base import Law, Z
from ldp_kafka.mechanisms.intervals import quantile
from ldp_kafka.methods import SENT, Batch, CorrelatedLaplace
from ldp_kafka.methods.laplace_stream import LaplaceBudget
from ldp_kafka.methods.spread import error_of_mean
from ldp_kafka.randomness import seeded
from tests.cases import cases
from tests.mutants.lives import CgmPureCarriesOnTheValue, CgmPureDoesNotShareTheBudget

UNIT = {"domain": (0.0, 1.0)}
BOUNDS = (0.45, 0.25, 0.05, 0.01)
DRAWS = 10_000
LEAST = 0.95 - 4 * (0.95 * 0.05 / DRAWS) ** 0.5  # of intervals that hold with 0.95: four sigma


def made(**parameters):
    return lk.method("cgm_pure", **{"epsilon": 2.0, "horizon": 12, **UNIT, **parameters})


# --- the paper's recursion, once more


def spans(bound, reports):
    """r_i and V_i of Algorithm 3, in floats."""
    reuse, v = [0.0], 1.0
    for _ in range(reports - 1):
        below = (1 - 2 * bound) ** 2 + v
        reuse.append((1 - 2 * bound) / below)
        v /= below
    reuse = np.array(reuse)
    return reuse, (1 - reuse) + 2 * bound * reuse


def equation(bound, report):
    """15, in squares of the first report's noise."""
    return (4 * bound - 4 * bound**2) / (1 - (1 - 2 * bound) ** (2 * report))


def recursion(values, bound, scale, rng):
    """Algorithm 3 over Laplace noise of so much, with clipping around the last clipped value."""
    reuse, lengths = spans(bound, values.shape[1])
    kept, out = values[:, 0], np.empty(values.shape)
    for at in range(values.shape[1]):
        before, last = (kept, out[:, at - 1]) if at else (0.0, 0.0)
        kept = np.clip(values[:, at], kept - bound, kept + bound) if at else kept
        fresh = rng.laplace(scale=lengths[at] * scale, size=len(values))
        out[:, at] = reuse[at] * last + (kept - reuse[at] * before) + fresh
    return out


@cases("bound", BOUNDS)
def test_its_noise_has_the_law_of_the_recursion(bound):
    """Variance of every report and covariance with the one before, of 20,000 users who jump, beside
    the recursion's and equation 15's: 5 standard errors, of a kurtosis of 3 at most, so that all
    four together fail in one run of 6,000. Neither is biased about the same clipped values.
    """
    users, reports = 20_000, 12
    method = made(differential_bound=bound)
    streams = np.tile([0.0, 1.0, 0.3], (users, 4))
    both = [
        method.release(streams, seeded(3)),
        recursion(streams, bound, reports / 2.0, np.random.default_rng(4)),
    ]
    first = 2 * (reports / 2.0) ** 2
    lawful = np.array([equation(bound, at + 1) for at in range(reports)]) * first
    assert [method.variance(at + 1) for at in range(reports)] == pytest.approx(lawful, rel=1e-4)
    reuse, _ = spans(bound, reports)
    exact = recursion(streams[:1], bound, 0.0, np.random.default_rng(0))[0]
    for found in both:
        away = (found - exact) / np.sqrt(lawful)
        assert np.abs(away.mean(axis=0)).max() < 5 / sqrt(users)
        assert np.abs((away**2).mean(axis=0) - 1).max() < 5 * sqrt(5 / users)
        carried = (away[:, 1:] * away[:, :-1]).mean(axis=0)
        expected = reuse[1:] * np.sqrt(lawful[:-1] / lawful[1:])
        assert np.abs(carried - expected).max() < 5 * sqrt(6 / users)


# --- privacy


class Dealt:
    """A mechanism that gives to each row the outputs that it is dealt, and notes how likely they
    are.
    """

    def __init__(self, real, digits):
        self._real, self._digits, self.factors = real, digits, []

    def __getattr__(self, name):
        return getattr(self._real, name)

    def perturb(self, values, randomness):
        del randomness
        inputs, which = np.unique(values, return_inverse=True)
        chances = np.array([self._real.law(x).probabilities() for x in inputs.tolist()])
        dealt = self._digits[:, len(self.factors)]
        self.factors.append(np.log(chances[which, dealt]))
        return self._real.law(0.5).support[dealt]


def loss(kind, reports, one, *, every=1, **parameters):
    """The most that any two streams of an alphabet lose, over all outcomes of so many reports of
    epsilon ``one``, or over those of every n-th output and both ends; infinite where what is
    published does not follow from the outcomes.
    """
    outputs = len(Laplace(one, (0.0, 1.0), cells=8).law(0.5).support)
    kept = np.unique([*range(0, outputs, every), outputs - 1])
    digits = np.array(list(product(kept, repeat=reports)))
    streams = np.array(list(product((0.0, 0.05, 0.5, 1.0), repeat=reports)))
    rows, mechanisms = np.repeat(streams, len(digits), axis=0), []

    def factory(budget, domain):
        real = Laplace(budget, domain, cells=8)
        mechanisms.append(Dealt(real, np.tile(digits, (len(streams), 1))))
        return mechanisms[-1]

    method = kind(mechanism=factory, horizon=reports, **UNIT, **parameters)
    dealt, source = mechanisms[-1], seeded(1)
    state, published = method.state(source.digests(["one"] * len(rows))), []
    for slot in range(reports):
        values = method.bound(rows[:, slot])
        step = method.step(state, Batch(np.arange(len(rows)), slot, values, source))
        assert (step.status == SENT).all()
        published.append(step.answers.reshape(len(streams), -1))
    told = np.stack(published)
    if (told != told[:, :1]).any():
        return inf
    likely = np.sum(dealt.factors, axis=0).reshape(len(streams), -1)
    if every == 1:
        assert np.exp(likely).sum(axis=1) == pytest.approx(1.0)
    return float((likely.max(axis=0) - likely.min(axis=0)).max())


def test_no_outcome_of_two_reports_tells_more_than_epsilon():
    """All outcomes of the real mechanism, all streams: and at least the first report's epsilon is
    lost, so that the streams are told apart at all.
    """
    found = loss(CorrelatedLaplace, 2, 1.0, epsilon=2.0, differential_bound=0.05)
    assert 1.0 < found <= 2.0 + 1e-9


@cases("bound", (0.25, 0.05))
def test_nor_does_one_of_three(bound):
    """Of every thirtieth output and both ends."""
    found = loss(CorrelatedLaplace, 3, 0.5, every=30, epsilon=1.5, differential_bound=bound)
    assert 0.5 < found <= 1.5 + 1e-9


@cases("kind", (CgmPureDoesNotShareTheBudget, CgmPureCarriesOnTheValue))
def test_outcomes_find_broken_twins(kind):
    assert loss(kind, 2, 1.0, every=8, epsilon=1.0) > 1.0 + 1e-3


@cases("bound", BOUNDS)
def test_published_states_what_its_clipping_loses(bound):
    """The largest length of equation 23's inputs over V, times epsilon: computed here, and the
    noise is that of `sound`.
    """
    sound, published = (
        made(calibration=calibration, differential_bound=bound)
        for calibration in ("sound", "published")
    )
    reuse, lengths = spans(bound, 2000)
    assert published.guarantee.epsilon == pytest.approx(2.0 * max((1 + reuse) / lengths), rel=1e-4)
    assert (sound.guarantee.epsilon, sound.guarantee.delta) == (2.0, 0.0)
    assert published.sigma == pytest.approx(sound.sigma, rel=1e-4)


def test_refresh_adds_up_and_sigma_lasts():
    assert made(epsilon=1.0, horizon=30, refresh=4).guarantee.epsilon == pytest.approx(7.5)
    lasting = made(horizon=None, sigma=10.0)  # epsilon 2, each report sqrt(2) / 10
    assert (lasting.horizon, lasting.guarantee.epsilon) == (14, 2.0)
    assert lasting.sigma == pytest.approx(10.0, rel=1e-4)


# --- errors


def within(scales, ends):
    """The chance that a sum of Laplace noises lies within its ends, by its characteristic function
    (Gil-Pelaez 1951).
    """
    t = np.linspace(0, 200, 100_001)[1:]
    law = np.prod([1 / (1 + (scale * t) ** 2) for scale in scales], axis=0)
    return float(2 / np.pi * ((np.sin(t * ends) / t * law).sum() + ends / 2) * (t[1] - t[0]))


def scales_of(bound, report):
    """Those of the Laplace noises in a report."""
    reuse, lengths = spans(bound, report)
    kept = np.append(np.cumprod(reuse[:0:-1])[::-1], 1.0)
    return kept * lengths


@cases("bound", BOUNDS)
def test_of_one_report_and_of_two_the_first_ones_are_the_farthest_off(bound):
    """By exact laws: what is stated of one, and of the mean of two, holds in 95 % whichever reports
    of a life they are; and is wider by less than a fortieth than it has to be for the first.
    """
    turns = (1, 2, 3, 5, 30)
    for mine in turns:
        assert within(scales_of(bound, mine), quantile(3.0, 1) * sqrt(2)) >= 0.95
        for others in turns:
            both = np.concatenate([scales_of(bound, turn) / 2 for turn in (mine, others)])
            assert within(both, quantile(3.0, 2)) >= 0.95
    for count in (1, 2):
        ends = quantile(3.0, count) * sqrt(2 / count)
        assert within([1 / count] * count, ends / 1.025) < 0.95
        assert within([1 / count] * count, Z * sqrt(2 / count)) < 0.945  # the normal one


@cases("bound", (0.25, 0.05))
@cases("reports", [1, 2, 3, 10, 30, 100])
@cases("share", [0.0, 0.5, 1.0])
def test_intervals_hold_the_truth_whoever_is_new(bound, reports, share):
    """As of normal noise in `test_spread.py`: widths are of the narrowest that holds there."""
    rng, young = np.random.default_rng(reports), round(share * reports)
    drawn = np.concatenate(
        [
            sum(scale * rng.laplace(size=(DRAWS, count)) for scale in scales_of(bound, report))
            for count, report in ((young, 1), (reports - young, 15))
        ],
        axis=1,
    )
    least, total = (
        sqrt(2 * equation(bound, 15)),
        sqrt(young * 2 + (reports - young) * 2 * equation(bound, 15)),
    )
    errors = np.array(
        [
            error_of_mean(reports, spread, least, sqrt(2), kurtosis=3.0)
            for spread in drawn.std(axis=1, ddof=min(reports - 1, 1)).tolist()
        ]
    )
    assert (np.abs(drawn.mean(axis=1)) <= Z * errors).mean() > LEAST
    assert np.median(errors) / (total / reports) < (3.0 if reports < 30 else 1.2)


@cases("horizon", (1, 12))
def test_a_crowd_s_mean_has_the_error_of_its_slot(horizon):
    """From 4,000 reports, to 5 standard errors of a spread; of one, for the first report's law."""
    users, method = 4000, made(horizon=horizon, domain=(0.0, 10.0))
    released = method.release(np.full((users, horizon), 4.0), seeded(5)) / 10
    for at in {0, horizon - 1}:
        found = method.crowd(method.support(released[:, at]))
        lawful = 10 * sqrt(method.variance(at + 1) / users)
        assert found.standard_error == pytest.approx(lawful, rel=5 * sqrt(5 / (4 * users)))
        assert abs(found.value - 4.0) < 5 * lawful
    alone = method.crowd(method.support(released[:1, 0]))
    assert alone.standard_error == pytest.approx(10 * method.sigma * quantile(3.0, 1) / Z, rel=1e-3)


@cases("share", (0.3, 0.5))
def test_one_user_s_interval_is_for_laplace_noise(share):
    """By the exact law of a first report far inside the domain; a thirtieth less would not hold."""
    method = made(epsilon=40.0, horizon=1, domain=(0.0, 10.0))
    law = method.mechanism.law(share)
    low, high = method.single_limits(10 * law.support)
    chances, truth = law.probabilities(), 10 * share
    assert 0.95 <= chances[(low <= truth) & (truth <= high)].sum() < 0.96
    half = quantile(3.0, 1) * method.single_error
    assert chances[np.abs(10 * law.support - truth) <= half * (1 - 1 / 30)].sum() < 0.95


@cases("epsilon", (30.0, 60.0))
def test_of_a_power_the_first_report_is_the_farthest_off(epsilon):
    """E(e^X - 1)^2 by the moments of Laplace noises, 1 / (1 - s^2) each, of all reports; where the
    first has none the error is that of its ends.
    """
    method = made(epsilon=epsilon, horizon=5, change="multiplicative", domain=(10.0, 30.0))
    length, bound = np.log(3.0), method.chain.bound / 2**32

    def square(report):
        scales = scales_of(bound, report) * length * 5 / epsilon
        twice, once = (1 / np.prod(1 - (k * scales) ** 2) for k in (2, 1))
        return twice - 2 * once + 1

    assert max(square(report) for report in range(1, 6)) == square(1)
    assert method.single_error == pytest.approx(30 * sqrt(square(1)), rel=0.01)


def test_where_a_power_has_no_second_moment_its_error_is_that_of_the_ends():
    method = made(epsilon=4.0, horizon=5, change="multiplicative", domain=(10.0, 30.0))
    law = Law.of(method.mechanism.law(0.5))
    away = np.exp((law.support - 0.5) * np.log(3.0)) - 1
    assert method.single_error == pytest.approx(30 * sqrt(law.probabilities() @ away**2))
    assert method.single_error > 1000
    low, high = method.single_limits(np.array([20.0]))
    assert (low, high) == (10.0, 30.0)


# --- what is refused


@cases("mechanism", ("square_wave", "duchi", "piecewise", "hybrid"))
def test_other_noise_is_refused(mechanism):
    with pytest.raises(lk.ConfigurationError, match="one of Laplace noise"):
        made(mechanism=lk.MECHANISMS[mechanism])


def test_a_mechanism_without_a_law_is_refused():
    class Lawless(Laplace):
        law = None

    with pytest.raises(lk.ConfigurationError, match="one of Laplace noise"):
        made(mechanism=Lawless)


@cases(
    "parameters, match",
    [
        ({"horizon": None}, "horizon must be given, or sigma"),
        ({"sigma": 9.0}, "horizon and refresh must not be given"),
        ({"horizon": None, "sigma": 0.1}, "one report at this epsilon$"),
        ({"refresh": 13}, "refresh must not be more"),
        ({"epsilon": 3000.0}, "2147 nats"),
        ({"epsilon": 1e-5}, "one micro-epsilon a report"),
    ],
)
def test_what_cannot_be_is_refused(parameters, match):
    with pytest.raises(lk.ConfigurationError, match=match):
        made(**parameters)


def test_a_budget_is_in_whole_micro_epsilon():
    budget = LaplaceBudget(
        *(1.0,), horizon=7, refresh=None, sigma=None, widest=1.0, mechanism=Laplace
    )
    assert (budget.part, budget.total, budget.ledger().lost(7)) == (142_857, 1.0, 999_999)
