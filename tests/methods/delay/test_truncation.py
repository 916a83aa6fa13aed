"""Values clamped to a threshold that an earlier batch chose; the contract has its proof."""

from __future__ import annotations

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.mechanisms.exponential import ExponentialMechanism
from ldp_kafka.mechanisms.sum_noise import SumNoise
from ldp_kafka.methods import Batch
from ldp_kafka.methods.delay.truncation import truncation_of
from ldp_kafka.randomness import keyed, seeded
from ldp_kafka.statistics.per_stream import PerStream
from tests.cases import cases
from tests.keys import KEY

DELAY = 20
ABLE = [
    name
    for name, kind in lk.METHODS.items()
    if issubclass(kind, lk.DelayMethod) and "truncation" in kind.parameters
]


def made(name="naive", **given):
    how = {"epsilon": 2.0, "delay": DELAY, "domain": (0.0, 1.0), "smooth": False}
    return lk.method(name, **(how | given))


def outliers(streams=40, batches=10):
    """One value in fifty is the domain's end, the others are in its lowest tenth."""
    rng = np.random.default_rng(2)
    values = rng.uniform(0, 0.1, (streams, batches * DELAY))
    values[rng.random(values.shape) < 0.02] = 1.0
    return values


def errors(method, values, first=0):
    """MAE from a slot on."""
    return float(np.abs(method.release(values, seeded(1)) - values)[:, first:].mean())


@cases("name", ABLE)
@cases("calibration", ["sound", "published"])
def test_every_method_of_batches_takes_it(name, calibration):
    """And states that its errors are unknown."""
    method = made(name, truncation=True, calibration=calibration)
    released = method.release(outliers(4, 3), seeded(1))
    assert released.shape == (4, 3 * DELAY)
    assert np.isfinite(released).all()
    assert (released <= 1).all()
    assert method.single_reason == "unknown_threshold"
    assert PerStream(method).predict(1).error_reason == "unknown_threshold"
    assert method.truncation == {"interval": 5, "thresholds": 32}
    plain = made(name, calibration=calibration)
    assert method.use != plain.use
    assert method.tables() != plain.tables()


@cases("name", ["naive", "pegasus_delay", "comp_order"])
def test_noise_is_made_for_what_most_values_are(name):
    """Where each value has its own noise, errors are little more than half, but in the first batch,
    which knows no threshold.
    """
    values = outliers()
    plain = errors(made(name), values, DELAY)
    assert errors(made(name, truncation=True), values, DELAY) < 0.6 * plain
    released = made(name, truncation=True).release(values, seeded(1))
    first, second = ((released[:, at : at + DELAY] > 0.9).mean() for at in (0, DELAY))
    assert first > 0.01
    assert first > 5 * second


def test_a_batch_that_does_not_choose_has_all_of_the_budget():
    """The batches of numbers 0, 5, 10, ... draw with four fifths of it."""
    method = made(truncation=True)
    plain, reduced = (lk.method(**how) for how in (
        {"name": "naive", "epsilon": 2.0, "delay": DELAY, "domain": (0.0, 1.0)},
        {"name": "naive", "epsilon": 1.6, "delay": DELAY, "domain": (0.0, 1.0)},
    ))  # fmt: skip
    assert method.adder.tables() == plain.adder.tables()
    assert method.reduced.adder.tables() == reduced.adder.tables()
    assert [method.limit.chooses(batch) for batch in range(6)] == [True, *[False] * 4, True]
    assert method.guarantee.epsilon == 2.0
    assert method.influence == 2


def test_a_batch_that_chooses_is_one_call():
    """Two calls would choose by halves of it under one context."""
    values, users = outliers(2, 4), ["a", "b"]
    method = made(truncation=True)
    whole = method.release(values, keyed(KEY), users=users, first_slot=0)
    again = method.release(values, keyed(KEY), users=users, first_slot=0)
    assert np.array_equal(whole, again)
    with pytest.raises(ValueError, match="first_slot 25"):
        method.release(values[:, 25:], keyed(KEY), users=users, first_slot=25)
    made().release(values[:, 25:], keyed(KEY), users=users, first_slot=25)


SAMPLED = {"interval": 1, "thresholds": 4, "sample": 30}
GROUPED = [name for name in ABLE if name not in ("naive", "comp_order")]


@cases("name", GROUPED)
@cases("calibration", ["sound", "published"])
def test_a_sample_is_of_every_method_of_groups(name, calibration):
    """Each slot is released, and what is guaranteed is that of the method without it."""
    method = made(name, truncation=SAMPLED, calibration=calibration)
    values = outliers(4, 3)
    present = np.random.default_rng(3).random(values.shape) < 0.6
    released = method.release(values, seeded(1), present=present)
    assert np.isfinite(released[present]).all()
    plain = made(name, calibration=calibration)
    assert method.guarantee == plain.guarantee
    assert method.reduced is None
    assert method.adder.tables() == plain.adder.tables()
    assert method.limit.part == round(plain.parts[1] * 1e6), "what noise has"
    assert method.use != made(name, truncation=SAMPLED | {"sample": 40}).use


@pytest.fixture
def exact(monkeypatch):
    """Choices take the highest score, and sums have no noise."""
    monkeypatch.setattr(
        ExponentialMechanism, "choose", lambda _, scores, source: scores.argmax(axis=1)
    )
    monkeypatch.setattr(SumNoise, "perturb", lambda _, sums, source: sums)


@pytest.mark.usefixtures("exact")
def test_a_sample_chooses_and_the_others_are_released():
    """Against an implementation of one stream, slot by slot, without noise: of the values of a
    batch of segments of seven slots, but for each segment's first, 30 per cent choose.
    """
    method = made("segment_mean", epsilon=2000.0, delay=14, segment=7, truncation=SAMPLED)
    rng = np.random.default_rng(4)
    values, present = rng.random((3, 42)), rng.random((3, 42)) < 0.8
    found = method.release(values, seeded(1), present=present)
    for stream, there, released in zip(values, present, found, strict=True):
        level = 1.0
        for batch in range(0, 42, 14):
            sample, joined = [], 0
            for first in (batch, batch + 7):
                rest = []
                for slot in range(first, first + 7):
                    if there[slot] and rest:
                        joined += 1
                    if there[slot] and rest and joined % 10 in (1, 4, 7):
                        sample.append(stream[slot])
                    elif there[slot]:
                        rest.append(slot)
                mean = np.mean([min(stream[slot], level) for slot in rest])
                assert released[first : first + 7] == pytest.approx(mean, abs=1e-6)
            # so little is lost to noise that the best is the least that cuts nothing off
            level = min(k / 4 for k in (1, 2, 3, 4) if k / 4 >= max(sample))


@pytest.mark.usefixtures("exact")
def test_a_batch_without_a_sampled_value_keeps_the_threshold():
    """It has no group of two: the threshold stays the domain's end, until a later batch chooses."""
    method = made("segment_mean", epsilon=2000.0, delay=4, segment=4, truncation=SAMPLED)
    values = np.full((1, 12), 0.2)
    present = np.array([[True, False, False, False, *[True] * 8]])
    state = method.state(seeded(1).digests(["a"]))
    levels = []
    for slot in (0, 4, 8):
        batch = slice(slot, slot + 4)
        given = Batch(
            np.arange(1), slot, method.bound(values).T[batch], seeded(1), present.T[batch]
        )
        method.close(state, given)
        levels.append(int(state.columns["limit"][0]))
    assert levels == [3, 0, 0]


@cases(
    ("how", "words"),
    [
        ({"setting": "sliding"}, "for batches"),
        ({"truncation": {"sample": 20}}, "of groups: naive releases each value by itself"),
        ({"truncation": {"sample": 100}}, "sample of truncation, in per cent"),
        ({"smooth": True}, "must not be given with smooth"),
        ({"contribution": 0.5}, "contribution"),
        ({"truncation": {"every": 3}}, "truncation must be"),
        ({"truncation": {}}, "truncation must be"),
        ({"truncation": {"interval": 0}}, "interval of truncation"),
        ({"truncation": {"thresholds": 1}}, "thresholds of truncation"),
    ],
)
def test_what_it_does_not_go_with_is_refused(how, words):
    with pytest.raises(lk.ConfigurationError, match=words):
        made(**({"truncation": True} | how))


@cases("name", ["truncate", "adapub", "dpi"])
def test_methods_that_look_at_earlier_batches_are_refused(name):
    with pytest.raises(lk.ConfigurationError, match="for methods that look at no earlier batch"):
        made(name, truncation=True)


def test_defaults_are_filled_in():
    assert truncation_of(True) == {"interval": 5, "thresholds": 32}
    assert truncation_of({"sample": 20}) == {"interval": 5, "thresholds": 32, "sample": 20}
    assert truncation_of(None) is truncation_of(False) is None
    assert made("segment_mean", smooth=None, truncation=True).smooth is False
