"""Values clamped to a threshold that an earlier batch chose; the contract has its proof."""

from __future__ import annotations

import numpy as np
import pytest

import ldp_kafka as lk
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


@cases(
    ("how", "words"),
    [
        ({"setting": "sliding"}, "for batches"),
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
    assert truncation_of(None) is truncation_of(False) is None
    assert made("segment_mean", smooth=None, truncation=True).smooth is False
