"""Crowd means of methods whose users do not report in each slot: of `fast` and `fast_cgm` where
they report samples, of `ba_sw` over unbiased mechanisms.
"""

from __future__ import annotations

from math import inf, sqrt

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.evaluation.cgm import law
from ldp_kafka.mechanisms.base import Law, Z
from ldp_kafka.methods import BudgetAbsorption, Fast, FastCorrelated
from ldp_kafka.methods.base import SENT
from ldp_kafka.methods.batch import Batch
from ldp_kafka.methods.estimates import Slot
from ldp_kafka.methods.spread import error_of_mean
from ldp_kafka.methods.unstated import CLIPPED, MIXED_SLOTS
from ldp_kafka.statistics.mean import Mean
from ldp_kafka.statistics.per_user import PerUser
from tests.cases import cases
from tests.methods.lifelong import Life, Script

DOMAIN, CROWDS = (10.0, 30.0), 300
LEAST = 0.95 - 4 * (0.95 * 0.05 / CROWDS) ** 0.5  # of intervals that hold with 0.95: four sigma
WIDEST = 1.3  # of the narrowest that holds
LIFE = {"horizon": 40, "samples": 12, "interval": 3, "filtered": False, "domain": DOMAIN}
OWN = {
    "fast": {"epsilon": 12.0, **LIFE},
    "fast_cgm": {"epsilon": 4.0, "delta": 1e-5, **LIFE},
}


def made(kind, **parameters):
    if isinstance(kind, str):
        return lk.method(kind, **{**OWN[kind], **parameters})
    base = next(name for name, each in lk.METHODS.items() if issubclass(kind, each))
    mechanism = lk.MECHANISMS[kind.default_mechanism]
    return kind(mechanism=mechanism, **{**OWN[base], **parameters})


def reports(method, streams, seed=4):
    """(slots, users) on the unit scale; NaN where nothing is reported."""
    source, rows = lk.randomness.seeded(seed), np.arange(len(streams))
    state = method.state(source.digests([str(row) for row in rows]))
    found = []
    for slot, values in enumerate(streams.T):
        step = method.step(state, Batch(rows, slot, method.bound(values), source))
        found.append(np.where(step.status == SENT, step.answers, np.nan))
    return np.array(found)


def judged(method, found, values, crowds=CROWDS):
    """Of reports (users,) and values (users,), in so many crowds: the share of intervals that hold
    the mean of those who reported, and the median width over the narrowest that would.
    """
    held, widths, off = [], [], []
    for said, true in zip(found.reshape(crowds, -1), values.reshape(crowds, -1), strict=True):
        there = ~np.isnan(said)
        if not there.any():
            continue
        estimate = method.crowd(method.support(said[there]))
        low, high = estimate.interval()
        truth = true[there].mean()
        held.append(low <= truth <= high)
        widths.append(2 * Z * estimate.standard_error)
        off.append(abs(estimate.value - truth))
    return np.mean(held), np.median(widths) / (2 * np.quantile(off, 0.95)), len(held)


def uniform(crowd):
    return np.random.default_rng(8).uniform(*DOMAIN, CROWDS * crowd)


# --- fast, fast_cgm


@cases("kind", [Fast, FastCorrelated])
def test_what_is_reported_are_the_samples(kind):
    """With scripted samples: in the slots in which a filtered one reports, and no other number."""
    told = []
    for filtered in (False, True):
        one = Life(
            lambda factory, filtered=filtered: kind(
                mechanism=factory, **OWN[kind.name] | {"filtered": filtered, "interval": 2}
            ),
            kind.default_mechanism,
        )
        method, script = one.over(Script)
        perturb, drawn = script.perturb, []

        def noted(values, randomness, perturb=perturb, drawn=drawn):
            drawn.append(perturb(values, randomness))
            return drawn[-1]

        script.perturb = noted
        found = reports(method, np.full((1, 40), 20.0))[:, 0]
        told.append((np.flatnonzero(~np.isnan(found)).tolist(), found[~np.isnan(found)]))
        if kind is Fast and not filtered:
            drawn = [float(each[0]) for each in drawn if len(each)]
            assert np.allclose(told[0][1], drawn)
    assert told[0][0] == told[1][0] == list(range(0, 24, 2))
    assert not np.allclose(told[0][1][1:], told[1][1][1:])


@cases("crowd", [5, 30])
@cases("kind", ["fast", "fast_cgm"])
def test_intervals_of_samples_hold(kind, crowd):
    """300 crowds, at the first sample, the second and the last: of 30 reports no wider than 1.3
    times the narrowest, whose own error is 6 %.
    """
    method, values = made(kind), uniform(crowd)
    found = reports(method, np.repeat(values[:, None], 40, axis=1))
    for slot in (0, 3, 33):
        held, excess, crowds = judged(method, found[slot], values)
        assert crowds == CROWDS
        assert held > LEAST
        assert excess < (WIDEST if crowd == 30 else 3)
    assert np.isnan(found[[1, 2, 4, 36]]).all()


def test_samples_at_times_that_the_filter_chooses_have_a_mean_too():
    """Of those who report in a slot, whose noise is fresh."""
    method, values = made("fast", interval=None, epsilon=60.0), uniform(60)
    slots = np.arange(20)
    streams = np.clip(values[:, None] + 8 * np.sin(slots / 3), *DOMAIN)
    found, some = reports(method, streams), 0
    for slot in range(2, 20):
        held, _, crowds = judged(method, found[slot], streams[:, slot])
        if crowds == CROWDS:
            some += 1
            assert held > LEAST
    assert some > 3
    shares = (~np.isnan(found[2:])).mean(axis=1)
    assert ((shares > 0) & (shares < 1)).sum() > 3  # they do not report together


class Drawn(Fast):
    """Takes estimates for samples."""

    def _sample(self, state, batch):
        super()._sample(state, batch)
        return state.columns["estimate"][batch.rows]


class Late(FastCorrelated):
    """States the last sample's error at once."""

    @property
    def _noise(self):
        last = super()._noise[0]
        return last, last


class Loud(FastCorrelated):
    """States the first one's for ever."""

    @property
    def _noise(self):
        first = super()._noise[1]
        return first, first


@cases("broken", [Drawn, Late, Loud])
def test_others_do_not(broken):
    """What `test_intervals_of_samples_hold` finds of them; of values that are no midpoint."""
    method, values = made(broken), 25 + uniform(30) / 10
    found = reports(method, np.repeat(values[:, None], 40, axis=1))
    fine = [judged(method, found[slot], values) for slot in (0, 33)]
    assert not all(held > LEAST and excess < WIDEST for held, excess, _ in fine)


def test_a_sample_has_the_error_of_its_turn():
    """Eq. 15, by the number of samples, in what is stated and in what the plan says."""
    method, users = made("fast_cgm"), 4000
    found = reports(method, np.full((users, 40), 20.0))
    course = dict(Mean(method).predict(users).course)
    for slot, turn in ((0, 1), (3, 2), (33, 12)):
        lawful = 20 * method._sigma * sqrt(law("cgm", 0.05, turn) / users)
        stated = method.crowd(method.support(found[slot])).standard_error
        assert stated == pytest.approx(lawful, rel=5 / sqrt(2 * users))
        assert course[slot + 1] == pytest.approx(lawful, rel=1e-6)


def test_a_crowd_that_moves_too_fast_is_seen_in_its_samples():
    """As of `cgm`, sample by sample: all jump at slot 9 by half of the domain."""
    method = made("fast_cgm", epsilon=12.0, differential_bound=0.1)
    streams = np.where(np.arange(40) < 9, 12.0, 24.0) * np.ones((30_000, 1))
    found, earlier, seen = reports(method, streams), {}, []
    for slot in range(0, 36, 3):
        sums = method.support(found[slot])
        seen.append(method.crowd_of_slot(sums, Slot(slot, dict(earlier))).reason == CLIPPED)
        earlier[slot] = sums
    assert not any(seen[:3]) and not any(seen[-1:])
    assert sum(seen[3:9]) >= 4
    assert method.looks_back % 3 == 0


def test_a_sample_of_one_user_has_an_error():
    for kind in ("fast", "fast_cgm"):
        method = made(kind, epsilon=12.0)
        assert method.single_reason is None
        assert made(kind, filtered=True).single_reason == MIXED_SLOTS
        values = uniform(10)
        found = reports(method, np.repeat(values[:, None], 1, axis=1))[0]
        low, high = method.single_limits(method.released(found))
        held = ((low <= values) & (values <= high)).mean()
        assert held > 0.92 - 4 * (0.92 * 0.08 / len(values)) ** 0.5
        assert np.isfinite(PerUser(method).predict(100).error)


def test_noise_of_filtered_reports_is_bound_to_what_it_was():
    """To no name of a parameter that came later."""
    for kind in ("fast", "fast_cgm"):
        assert "filtered" not in made(kind, filtered=True).resolved
        assert made(kind).resolved["filtered"] is False
        assert made(kind).use != made(kind, filtered=True).use


@cases(
    ("kind", "wrong", "said"),
    [
        ("fast", {"filtered": 0}, "filtered must be"),
        ("fast", {"filtered": "no"}, "filtered must be"),
        ("fast_cgm", {"interval": None}, "interval must be given"),
    ],
)
def test_what_cannot_be_is_refused(kind, wrong, said):
    with pytest.raises((TypeError, ValueError), match=said):
        made(kind, **wrong)


# --- ba_sw

ABSORBED = {"laplace": 8.0, "duchi": 4.0, "piecewise": 6.0, "hybrid": 4.0}
"""Mechanism -> epsilon, such that reports vary by their noise more than by their values."""


def absorbing(mechanism, kind=BudgetAbsorption, **parameters):
    factory = lk.MECHANISMS[mechanism]
    shape = {"epsilon": ABSORBED[mechanism], "window": 4, "domain": DOMAIN, **parameters}
    return kind(mechanism=factory, **shape)


def walks(crowd):
    rng = np.random.default_rng(3)
    values = uniform(crowd)[:, None] + np.cumsum(rng.normal(0, 2, (CROWDS * crowd, 12)), axis=1)
    return np.clip(values, *DOMAIN)


@cases("crowd", [8, 100])
@cases("mechanism", ABSORBED)
def test_intervals_of_those_who_report_hold(mechanism, crowd):
    """Whichever they are, of the values that those who report have: by unbiased mechanisms, with
    one unit or several. Of 30 reports or more no wider than 1.3 times the narrowest.
    """
    method, streams = absorbing(mechanism), walks(crowd)
    found = reports(method, streams)
    for slot in (0, 1, 5, 11):
        held, excess, _ = judged(method, found[slot], streams[:, slot])
        assert held > LEAST
        assert crowd == 8 or excess < WIDEST


class Least(BudgetAbsorption):
    """As if all budget had been absorbed."""

    @property
    def _noise(self):
        least = super()._noise[0]
        return least, least


class Most(BudgetAbsorption):
    """As if none had."""

    @property
    def _noise(self):
        most = super()._noise[1]
        return most, most


class Trusting(BudgetAbsorption):
    """Takes two-valued noise of few reports for normal noise."""

    few = 3


@cases(("broken", "mechanism", "crowd"), [(Least, "laplace", 100), (Most, "laplace", 100)])
def test_other_errors_do_not_hold(broken, mechanism, crowd):
    method, streams = absorbing(mechanism, broken), walks(crowd)
    found = reports(method, streams)
    fine = [judged(method, found[slot], streams[:, slot]) for slot in (0, 11)]
    assert not all(held > LEAST and excess < WIDEST for held, excess, _ in fine)


def test_few_reports_of_two_valued_noise_have_the_error_of_the_noisiest():
    """All on one side they have no spread, which happens once in 2^(n - 1) times: 3,000 crowds."""
    crowds, least = 10 * CROWDS, 0.95 - 4 * (0.95 * 0.05 / 10 / CROWDS) ** 0.5
    for kind, holds in ((Trusting, False), (BudgetAbsorption, True)):
        method = absorbing("duchi", kind, epsilon=2.0, window=8)
        ends = np.where(uniform(80) > 20, *DOMAIN[::-1])
        found = reports(method, np.repeat(ends[:, None], 2, axis=1))
        assert (judged(method, found[0], ends, crowds)[0] > least) == holds


def test_biased_mechanisms_have_none():
    for name, said in (("ba_sw", "towards the middle"), ("topl", "none tells which")):
        method = lk.method(name, epsilon=8.0, window=4, domain=DOMAIN)
        assert method.statistics == ("per_user",)
        assert said in Mean.unfit(method)
    for mechanism in ABSORBED:
        assert Mean.unfit(absorbing(mechanism)) is None
    assert Mean.unfit(made("fast")) is None
    assert "filtered: false" in Mean.unfit(made("fast", filtered=True))


class Unbiased(BudgetAbsorption):
    """As if a mechanism's grid had no bias."""

    def _prepare(self, mechanism, budget):
        super()._prepare(mechanism, budget)
        self._bias = 0.0


@cases("mechanism", ABSORBED)
def test_the_error_has_the_bias_of_a_grid(mechanism):
    """Exactly: the interval of 2^50 reports with the law's own moments holds the value, of all that
    they can have, and that of a twin without the bias does not. Of laplace there is none to see.
    """
    holds = {BudgetAbsorption: [], Unbiased: []}
    for kind, found in holds.items():
        method, n = absorbing(mechanism, kind), 2**50
        for each in method._by_units:
            for x in np.linspace(0, 1, 9).tolist():
                law = Law.of(each.law(x))
                mean, error = law.mean(), sqrt(law.variance() / n)
                assert error < 2.0**-22
                squares = round(n * law.mean_square() / method.scale**2)
                sums = np.array([n, round(n * mean / method.scale), squares], object)
                stated = method._mean(sums).standard_error
                found.append(abs(mean - x) <= Z * (stated + error) + 2.0**-20)
    assert all(holds[BudgetAbsorption])
    assert all(holds[Unbiased]) == (mechanism == "laplace")


def test_the_plan_says_how_many_report():
    """Where values stay: within four errors of what other noise gives."""
    method = absorbing("laplace")
    found = reports(method, np.linspace(*DOMAIN, 4000)[:, None] * np.ones(16), seed=9)
    share = (~np.isnan(found)).mean()
    assert method.reporting == pytest.approx(share, abs=4 * sqrt(0.25 / 400))
    predicted = Mean(method).predict(1000)
    assert predicted.reports == round(1000 * method.reporting)
    assert predicted.error == pytest.approx(20 * method._noise[1] / sqrt(predicted.reports))


def test_nobody_reports():
    for method in (absorbing("laplace"), made("fast"), made("fast_cgm")):
        nothing = method.crowd(method.support(np.empty(0)))
        assert (nothing.standard_error, nothing.reports) == (inf, 0)
    assert error_of_mean(7, 0.0, 1.0, 3.0, few=8) == 3.0 / sqrt(7)
