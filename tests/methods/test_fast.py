"""FAST: its filter, its controller and its samples."""

from __future__ import annotations

from math import exp, inf, nan

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.methods import Fast, FastCorrelated
from ldp_kafka.methods.base import SENT
from ldp_kafka.methods.batch import Batch
from ldp_kafka.methods.kalman import Observed
from tests.cases import cases
from tests.methods.lifelong import Life, Script

FAST = {"epsilon": 20.0, "horizon": 60, "domain": (0.0, 1.0)}


def sent_at(method, streams, source):
    """Slots of the reports of each stream, as a mask, and the releases."""
    method.holds = False
    released = method.release(streams, source)
    return ~np.isnan(released), released


class Plain:
    """The paper's formulas in plain floats, one user: Kalman filter (random walk) and PID
    controller.
    """

    def __init__(self, drift, noise):
        self.q, self.r = drift**2, noise
        self.x, self.p, self.at, self.due, self.interval, self.errors = (
            0.5,
            1 / 12,
            None,
            0,
            1.0,
            [0.0] * 5,
        )

    def sample(self, slot, z):
        gap = 0 if self.at is None else slot - self.at
        prior = self.p + self.q * gap
        gain = prior / (prior + self.r)
        before, self.x = self.x, self.x + gain * (z - self.x)
        self.p, self.at = (1 - gain) * prior, slot
        self.errors = [abs(self.x - before), *self.errors[:4]]
        control = 0.9 * self.errors[0] + 0.1 * sum(self.errors) / 5
        self.interval = max(1.0, self.interval + 1 - exp((control - 0.1) / 0.1))
        self.due = slot + int(self.interval + 0.5)
        return self.x


@cases("seed", range(5))
def test_filter_and_controller_are_the_formulas(seed):
    """Against the same in floats, over scripted samples: the estimates to 2**-15, the same slots
    sampled.
    """
    one = Life(
        lambda factory: lk.method(
            "fast", mechanism=factory, drift=0.02, samples=40, **{**FAST, "epsilon": 300.0 + seed}
        ),
        "laplace",
    )
    method, script = one.over(Script)
    plain, outputs = Plain(0.02, method._variance / 2**32), []
    perturb = script.perturb
    rng = np.random.default_rng(seed)

    def scripted(values, randomness):
        perturb(values, randomness)
        outputs.append(rng.choice([0.1, 0.2, 0.9]))
        return np.full(len(values), outputs[-1])

    script.perturb = scripted
    state, source, sampled = method.state(np.zeros((1, 2), np.uint64)), lk.randomness.seeded(1), 0
    for slot in range(60):
        before = len(script.inputs)
        step = method.step(state, Batch(np.array([0]), slot, method.bound(np.array([0.3])), source))
        due = slot >= plain.due
        assert (step.status[0] == SENT) == due == (len(script.inputs) > before)
        if due:
            sampled += 1
            assert step.answers[0] == pytest.approx(plain.sample(slot, outputs[-1]), abs=2**-15)
    assert 3 < sampled < 60


def test_at_most_so_many_samples_ever():
    for samples in (1, 9):
        method = lk.method("fast", samples=samples, **FAST)
        kept, _ = sent_at(
            method, np.random.default_rng(0).random((50, 300)), lk.randomness.seeded(2)
        )
        assert (kept.sum(1) == samples).all()
        assert kept[:, 0].all()
    assert lk.method("fast", **FAST).samples == 9  # 15 % of the horizon


def test_fixed_interval():
    method = lk.method("fast", samples=5, interval=4, **FAST)
    kept, _ = sent_at(method, np.full((3, 40), 0.5), lk.randomness.seeded(2))
    assert [np.flatnonzero(row).tolist() for row in kept] == [[0, 4, 8, 12, 16]] * 3


def test_still_streams_are_sampled_less_often_than_moving_ones():
    """The controller: intervals grow where samples say nothing new."""
    slots = np.arange(60)
    streams = np.stack([np.full(60, 0.5), 0.5 + 0.5 * np.sin(slots / 2)])
    method = lk.method("fast", samples=60, drift=0.2, **{**FAST, "epsilon": 3000.0})
    kept, _ = sent_at(method, streams, lk.randomness.seeded(2))
    assert 1.5 * kept[0].sum() < kept[1].sum()


def test_what_was_released_last_stands():
    method = lk.method("fast", samples=5, interval=4, **FAST)
    released = method.release(np.linspace(0, 1, 40), lk.randomness.seeded(2))
    assert not np.isnan(released).any()
    assert all(len(set(released[i : i + 4])) == 1 for i in range(0, 16, 4))
    assert len(set(released[16:])) == 1


def test_guarantees():
    fast, both = (
        lk.method("fast", **FAST),
        lk.method("fast_cgm", delta=1e-5, **{**FAST, "epsilon": 1.0}),
    )
    assert fast.guarantee[:5] == ("user", 20.0, 0.0, 9, 9)
    assert (
        "epsilon 20 over the first 9 reports of a user, after which it is silent"
        in fast.guarantee.describe()
    )
    assert both.guarantee[:5] == ("user", 1.0, 1e-5, 9, 9)
    published = lk.method(
        "fast_cgm", delta=1e-5, calibration="published", **{**FAST, "epsilon": 1.0}
    )
    assert published.guarantee.epsilon > 3


def known_error(method, slots=24, users=20_000):
    """(measured, kept) at every sample: mean square error on random walks of the method's drift,
    and the variance that its filter keeps.
    """
    rng = np.random.default_rng(5)
    walks = rng.random((users, 1)) + np.cumsum(rng.normal(0, method.drift, (users, slots)), axis=1)
    walks = 1 - np.abs(1 - np.abs(walks))  # reflected: they stay uniform on the domain
    source = lk.randomness.seeded(6)
    state, found = method.state(source.digests([str(i) for i in range(users)])), []
    for t in range(slots):
        step = method.step(state, Batch(np.arange(users), t, method.bound(walks[:, t]), source))
        if step.status[0] == SENT:
            found.append(
                (
                    float(((step.answers - walks[:, t]) ** 2).mean()),
                    float(state.columns["spread"][0] / 2**32),
                )
            )
    return np.array(found).T


def quiet(kind, **own):
    """A method with so little noise that its filter has something to do: no budget
    would give it.
    """
    shape = {
        "samples": 24,
        "horizon": 24,
        "drift": 0.008,
        "epsilon": 12.0,
        "domain": (0.0, 1.0),
        **own,
    }
    if kind is Fast:
        method = Fast(mechanism=lk.MECHANISMS["laplace"], **shape)
        method.mechanism = lk.mechanism("laplace", epsilon=8.0, domain=(0.0, 1.0))
        del method._variance
        return method
    method = kind(mechanism=lk.MECHANISMS["gaussian"], delta=1e-5, **shape)
    method.mechanism = lk.mechanism("gaussian", epsilon=30.0, delta=1e-5)
    method._fresh = np.round(
        np.square(method.chain.lengths) * method.mechanism.sigma**2 * 2**32
    ).astype(np.int64)
    return method


@cases("own", [{"differential_bound": 0.03}, {"differential_bound": 0.2}, {}])
@cases("interval", [1, 4])
def test_the_filter_knows_its_error(own, interval):
    """On random walks of the drift that it expects, its mean square error is the variance that it
    keeps, to 6 %, at every sample: where noise carries on, too.
    """
    measured, kept = known_error(quiet(FastCorrelated if own else Fast, interval=interval, **own))
    assert np.allclose(measured, kept, rtol=0.06)
    assert kept[-1] < 0.02


class TakesNoiseForFresh(FastCorrelated):
    """A filter that is told the variance of eq. 15 and not that the noise carries on."""

    def _observe(self, state, batch):
        super()._observe(state, batch)
        turn = np.minimum(state.columns["count"][0].take(batch.rows) - 1, len(self._fresh) - 1)
        noise = np.round(
            np.array(self.chain.variances)[turn] * self.mechanism.sigma**2 * 2**32
        ).astype(np.int64)
        reported = state.columns["reported"][0].take(batch.rows)
        return Observed(reported, noise, np.zeros(len(noise), np.int64), reported)


def test_a_filter_that_takes_the_noise_for_fresh_trusts_it_too_far():
    measured, kept = known_error(quiet(TakesNoiseForFresh, interval=1, differential_bound=0.03))
    assert measured[-1] > 2 * kept[-1]


@cases(
    "wrong",
    [
        {"epsilon": 0.0}, {"epsilon": nan}, {"epsilon": True}, {"epsilon": 1e-7},
        {"horizon": 0}, {"horizon": True}, {"horizon": 2.5},
        {"samples": 0}, {"samples": 61}, {"samples": True},
        {"drift": 0.0}, {"drift": inf}, {"drift": nan}, {"drift": True}, {"drift": 1e-9},
        {"interval": 0}, {"interval": True}, {"domain": None}, {"categories": 2},
        {"calibration": "x"},
    ],
)  # fmt: skip
def test_wrong_parameters_are_refused(wrong):
    with pytest.raises((TypeError, ValueError)):
        lk.method("fast", **FAST | wrong)
