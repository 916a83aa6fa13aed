"""Confidence intervals of one user's value, against the exact law of one report."""

from __future__ import annotations

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.mechanisms.base import Law
from ldp_kafka.methods import inversion, response_curve
from ldp_kafka.methods.inversion import Inversion, law_ranges, shortest
from ldp_kafka.methods.response_curve import ResponseCurve
from tests.cases import cases

METHODS = ["sw_direct", "pm_direct", "sampling", "app", "capp"]
VALUES = (0.0, 0.013, 0.1, 0.317, 0.5, 0.77, 0.999, 1.0)


def made(name, epsilon, **more):
    more = {"segment": 1} if name == "sampling" else more
    return lk.method(name, epsilon=epsilon, window=1, domain=(10.0, 30.0), **more)


def law_of(method, value):
    """What is released of a value, (m,) each, and how often."""
    law = Law.of(method.mechanism.law(method._given(value)))
    return method.released(np.asarray(law.support, np.float64)), law.probabilities()


def chance(method, value):
    """That an interval holds the value, by the exact law."""
    released, chances = law_of(method, value)
    low, high = method.single_limits(released)
    x = 10 + 20 * value
    return chances[(low <= x + 1e-12) & (x - 1e-12 <= high)].sum()


@cases("name", METHODS)
@cases("epsilon", [0.2, 1.0, 4.0, 10.0, 16.0])
@cases("value", VALUES)
def test_each_value_is_in_its_interval_in_95_of_100_reports(name, epsilon, value):
    assert chance(made(name, epsilon), value) >= 0.9499


@cases("epsilon", [1.0, 4.0, 8.0])
@cases("value", VALUES)
def test_also_where_a_report_is_one_of_two(epsilon, value):
    assert chance(made("sw_direct", epsilon, mechanism="duchi"), value) >= 0.9499


@cases("name", ["ipp", "app", "capp"])
def test_where_reports_are_simulated_each_shape_of_stream_is_held(name):
    """Of those that stay as they are 95 %, and of those that jump in every slot."""
    method = made(name, 8.0).single
    curve, source = ResponseCurve.of(method), lk.randomness.seeded(response_curve.WORDS)
    for shape in (response_curve._constant, response_curve._stepping):
        slots = response_curve._slots(method, 1)
        levels, streams = shape(source, 1, slots)
        released, *_ = response_curve._simulate(method, streams)
        low, high = curve.inversion.low[levels], curve.inversion.high[levels]
        held = (low <= released) & (released <= high)
        assert min(held[levels == at].mean() for at in range(response_curve.LEVELS)) >= 0.95


def test_a_range_of_fewer_reports_would_be_found(monkeypatch):
    monkeypatch.setattr(inversion, "INSIDE", 0.85)
    assert min(chance(made("pm_direct", 4.0), value) for value in VALUES) < 0.9


@cases("mechanism", ["square_wave", "laplace", "piecewise"])
@cases("epsilon", [1.0, 4.0, 8.0])
def test_no_interval_is_much_wider_than_the_narrowest(mechanism, epsilon):
    """No interval that holds for each value is shorter on average than the ranges that hold 95 % of
    its law, integrated over values (Pratt 1961); cut to the domain as these are.
    """
    method = lk.method(
        "sw_direct", epsilon=epsilon, window=1, domain=(0.0, 1.0), mechanism=mechanism
    )
    levels = (np.arange(64) + 0.5) / 64
    accepted, mine, total = 0.0, 0.0, 0.0
    for value in (0.1, 0.5):
        released, chances = law_of(method, value)
        low, high = method.single_limits(released)
        mine += chances @ (high - low)
        order = np.argsort(released, kind="stable")
        ordered = released[order]
        for level in levels:
            _, others = law_of(method, level)
            first, final = shortest(ordered, others[order])
            accepted += chances[(released >= first) & (released <= final)].sum() / 64
        total += 1
    assert mine <= 1.3 * accepted + 2 * 2 / 64


def test_laplace_noise_has_the_interval_of_its_quantile():
    """Half as long as log(20) scales, where the domain does not cut it."""
    method = lk.method("sw_direct", epsilon=50.0, window=1, domain=(0.0, 1.0), mechanism="laplace")
    low, high = method.single_limits(np.array([0.5]))
    assert high - low == pytest.approx(2 * np.log(20) / 50, rel=0.05)
    low, high = method.single_limits(np.array([np.nan, 7.0]))
    assert np.isnan([low[0], high[0]]).all()
    assert high[1] == 1.0
    assert low[1] == pytest.approx(1 - np.log(20) / 50, rel=0.01)


def test_ranges_may_fall_by_chance():
    line = Inversion.of([0.0, 0.2, 0.1, 0.3], [0.5, 0.4, 0.7, 0.8], (0.0, 1.0), 0.0)
    assert line.low.tolist() == [0.0, 0.1, 0.1, 0.3]
    assert line.high.tolist() == [0.5, 0.5, 0.7, 0.8]


def test_equal_laws_have_equal_tails():
    first, final = shortest(np.arange(1000.0), np.full(1000, 1e-3))
    assert (first, final) == pytest.approx((25, 974), abs=15)


def test_ranges_of_a_law_are_its_own():
    method = made("sw_direct", 4.0)
    found = law_ranges(method.mechanism, method.in_lengths)
    again = method.inversion
    assert (found.low == again.low).all()
    assert (found.high == again.high).all()
