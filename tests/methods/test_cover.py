"""Methods that hide presence: what a crowd's estimate is of, and how far it is off."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import exp

import numpy as np
import pytest
from scipy.stats import chi2

import ldp_kafka as lk
from ldp_kafka.mechanisms.base import Law
from ldp_kafka.methods.base import SENT
from ldp_kafka.methods.batch import Batch
from tests.specimens import UNIT

USERS, SLOTS = 2000, 60
FALSE_ALARM = 1e-6
SETTINGS = {
    "sw_direct": {"domain": (0.0, 10.0)},
    "sampling": {"domain": (0.0, 10.0), "segment": 2},
    "lpu": {"categories": 3},
}
PRESENT = 0.4


def made(name, **more):
    return lk.method(name, epsilon=6.0, window=2, cover=True, **SETTINGS[name], **more)


def streams_of(method, seed):
    """Values far from the midpoint, and most slots without one."""
    rng = np.random.default_rng(seed)
    there = rng.random((USERS, SLOTS)) < PRESENT
    if method.kind == "numeric":
        return np.where(there, rng.uniform(7, 10, (USERS, SLOTS)), np.nan)
    codes = rng.choice(3, p=(0.6, 0.3, 0.1), size=(USERS, SLOTS))
    return np.where(there, codes, -1)


def estimates(method, streams):
    """The estimate of each slot with reports, and which users made it."""
    source = lk.randomness.seeded(5)
    state = method.state(source.digests([str(user) for user in range(USERS)]))
    for slot in range(SLOTS):
        present = method.values.present(streams[:, slot])
        bound = method.bound(np.where(present, streams[:, slot], 0).astype(streams.dtype))
        step = method.step(state, Batch(np.arange(USERS), slot, bound, source, present))
        sent = step.status == SENT
        if sent.any():
            yield slot, sent, method.crowd(method.support(step.answers[sent]))


def squares(method, truth):
    """Of each number of each estimate its distance to a truth, in standard errors, squared."""
    streams = streams_of(method, 3)
    return np.concatenate(
        [
            np.atleast_1d(((found.value - truth(streams, slot)) / found.standard_error) ** 2)
            for slot, _, found in estimates(method, streams)
        ]
    )


def filled(streams):
    """With the midpoint where there is no value."""
    return np.where(np.isnan(streams), 5.0, streams)


def of_all(name):
    """What an estimate of a slot is of."""
    if name == "lpu":  # shares of a population, in which presence and values are as they were drawn
        return lambda streams, slot: PRESENT * np.array([0.6, 0.3, 0.1])
    slots = 2 if name == "sampling" else 1
    return lambda streams, slot: filled(streams)[:, slot - slots + 1 : slot + 1].mean()


def of_those_with_a_value(name):
    if name == "lpu":
        return lambda streams, slot: np.array([0.6, 0.3, 0.1])
    return lambda streams, slot: np.nanmean(streams[:, slot])


@pytest.mark.parametrize("name", SETTINGS)
def test_a_crowd_is_all_users(name):
    """Its error is true: the squares are not more than normal ones, but for a false alarm of one in
    a million, nor less than half of them; and they are, if it were of those with a value alone.
    Numbers of one slot are not independent: so they are thought to be as few as slots.
    """
    method = made(name)
    found = squares(method, of_all(name))
    slots = SLOTS // method.stride if name == "sampling" else SLOTS
    high = chi2.isf(FALSE_ALARM, slots) / slots
    assert 0.3 < found.mean() < high
    assert squares(method, of_those_with_a_value(name)).mean() > high


def test_every_user_reports_whatever_it_has():
    """In the slots in which it would with a value in each of them."""
    for name in SETTINGS:
        method = made(name)
        streams = streams_of(method, 4)
        some = [(slot, sent.tolist()) for slot, sent, _ in estimates(method, streams)]
        full = np.where(method.values.present(streams), streams, 1).astype(streams.dtype)
        assert some == [(slot, sent.tolist()) for slot, sent, _ in estimates(method, full)]


@pytest.mark.parametrize(("name", "mechanism"), [("sw_direct", "square_wave"), ("lpu", "grr")])
def test_no_report_tells_a_value_from_none(name, mechanism):
    """By the laws of the mechanism itself, without rounding: of any two of values and none, no
    report is more than e^epsilon times likelier.
    """
    method = lk.method(name, epsilon=1.0, window=1, cover=True, mechanism=mechanism, **SHAPE[name])
    nothing = method.nothing / 2**32 if name == "sw_direct" else method.nothing
    inputs = [*((0.0, 0.3, 1.0) if name == "sw_direct" else (0, 1, 2)), nothing]
    laws = [Law.of(method.mechanism.law(each)) for each in inputs]
    for one, other in product(laws, laws):
        ratio = max(map(Fraction, one.weights, other.weights))
        assert ratio <= exp(1.0)
    assert any(one.weights != laws[-1].weights for one in laws[:-1])


SHAPE = {"sw_direct": UNIT, "lpu": {"categories": 3}}


def test_it_is_true_or_false():
    for wrong in (1, "yes", None):
        with pytest.raises(TypeError, match="cover must be true or false"):
            lk.method("sw_direct", epsilon=1.0, window=2, cover=wrong, **UNIT)


def test_the_number_for_none_is_no_value():
    method = made("lpu")
    assert method.categories == 3 and method.nothing == 3
    with pytest.raises(ValueError, match="categor"):
        method.release(np.array([3]), lk.randomness.seeded(1))
