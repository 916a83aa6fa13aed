"""The delay method to take: right where it is clear what is right, and told from public parameters
alone.
"""

from __future__ import annotations

from functools import cache
from inspect import signature

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.methods.delay.choice import DelayChoice, choose_delay
from ldp_kafka.randomness import seeded
from tests.cases import cases

DOMAIN = (100.0, 300.0)
STILL = {"epsilon": 0.5, "delay": 40, "drift": 0.0, "setting": "batch"}
MIDDLING = {"epsilon": 1.0, "delay": 8, "drift": 0.02, "setting": "sliding"}
FAST = {"epsilon": 40.0, "delay": 8, "drift": 0.3, "setting": "batch"}
HOPELESS = {"epsilon": 0.1, "delay": 8, "drift": 1.0, "setting": "batch"}
HOPELESS_SLIDING = HOPELESS | {"setting": "sliding"}


@cache
def _chosen(items):
    return choose_delay(domain=DOMAIN, **dict(items))


def chosen(how):
    return _chosen(tuple(how.items()))


class Reversed(DelayChoice):
    """A broken twin: the greatest error is the best."""

    @property
    def best(self):
        return max(self.simulated, key=lambda each: each.error)


class Hopeful(DelayChoice):
    """A broken twin: there is always something to take."""

    @property
    def take(self):
        return self.best


def broken(kind, choice):
    return kind(**{name: getattr(choice, name) for name in signature(DelayChoice).parameters})


@cache
def measured(drift, name, parameters, slots=400):
    """The mean absolute error on other walks and with other noise, and that of the midpoint."""
    lo, hi = DOMAIN
    rng = np.random.default_rng(77)
    moves = rng.normal(0, drift, (100, slots))
    place = rng.random((100, 1)) + np.cumsum(moves, axis=1)
    streams = lo + (hi - lo) * np.abs((place + 1) % 2 - 1)
    released = lk.method(name, **dict(parameters)).release(streams, seeded(78))
    return np.abs(released - streams).mean(), np.abs(streams - (lo + hi) / 2).mean()


def check(choice):
    """What is taken is about as good as the best of a few on other streams, and better than the
    midpoint; nothing is taken where none of them is.
    """
    usual = {name: choice.parameters[name] for name in ("epsilon", "delay", "setting")}
    usual |= {"domain": DOMAIN}
    others = [
        ("naive", {}),
        ("segment_mean", {}),
        ("segment_mean", {"segment": 1}),
        ("segment_mean", {"segment": choice.delay}),
        ("discontin_group", {}),
        ("buc_order", {}),
    ]
    found = [measured(choice.drift, name, tuple((usual | own).items())) for name, own in others]
    least, midpoint = min(error for error, _ in found), found[0][1]
    if choice.take is None:
        assert least > 0.9 * midpoint
        return
    error, midpoint = measured(choice.drift, choice.take.method, tuple(choice.parameters.items()))
    assert error < 0.98 * midpoint
    assert error <= 1.15 * least


@cases("how", [STILL, MIDDLING, FAST, HOPELESS, HOPELESS_SLIDING])
def test_what_is_chosen_is_right_on_other_streams(how):
    check(chosen(how))


@cases("how", [STILL, MIDDLING, FAST])
def test_a_broken_ranking_is_found(how):
    with pytest.raises(AssertionError):
        check(broken(Reversed, chosen(how)))


def test_taking_what_does_not_beat_the_midpoint_is_found():
    with pytest.raises(AssertionError):
        check(broken(Hopeful, chosen(HOPELESS)))


def test_still_streams_get_segments_as_long_as_the_delay():
    choice = chosen(STILL)
    assert (choice.take.method, choice.take.parameters) == ("segment_mean", {"segment": 40})
    assert choice.take.error < choice.naive.error / 4


def test_streams_that_jump_get_single_values():
    """Long segments would average what has nothing in common."""
    choice = chosen(FAST)
    assert choice.take.parameters != {"segment": FAST["delay"]}
    segments = {
        each.parameters["segment"]: each.error
        for each in choice.simulated
        if each.method == "segment_mean"
    }
    assert segments[1] < segments[8] / 2


@cases("how", [HOPELESS, HOPELESS_SLIDING])
def test_it_says_where_nothing_beats_the_midpoint(how):
    choice = chosen(how)
    assert choice.take is None
    assert choice.as_json()["take"] is None
    assert any(line.startswith("take         nothing") for line in choice.lines())
    assert choice.midpoint == pytest.approx(50, rel=0.05)


def test_every_method_has_its_error():
    delayed = {name for name, kind in lk.METHODS.items() if issubclass(kind, lk.DelayMethod)}
    choice = chosen(MIDDLING)
    assert {each.method for each in choice.methods} == delayed
    errors = [each.error for each in choice.methods]
    assert errors == sorted(errors)
    told = "\n".join(choice.lines())
    assert all(name in told for name in delayed)
    assert choice.best == choice.methods[0]


def test_a_choice_follows_from_its_arguments_alone():
    """The same twice; and in another unit, where all errors are so many times as large."""
    how = {"epsilon": 1.0, "delay": 4, "drift": 0.05, "length": 12}
    one, same = (choose_delay(domain=(0.0, 1.0), **how) for _ in range(2))
    assert one == same
    other = choose_delay(domain=(0.0, 1000.0), contribution=1000.0, **how)
    assert [each.parameters for each in other.simulated] == [
        each.parameters for each in one.simulated
    ]
    assert [each.error for each in other.simulated] == pytest.approx(
        [1000 * each.error for each in one.simulated], rel=0.1
    )


def test_what_is_chosen_can_be_made():
    choice = choose_delay(
        epsilon=1.0, delay=4, domain=(0.0, 9.0), drift=0.1, contribution=0.5, length=8
    )
    made = lk.method(choice.best.method, **choice.parameters)
    assert made.contribution == 0.5
    assert made.epsilon == 1.0


@cases(
    ("wrong", "says"),
    [
        ({"drift": -0.1}, "drift"),
        ({"drift": 1.5}, "drift"),
        ({"drift": float("nan")}, "drift"),
        ({"length": 0}, "length"),
        ({"length": 100_001}, "length"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"delay": 0}, "delay"),
        ({"setting": "both"}, "setting"),
    ],
)
def test_wrong_parameters_are_refused(wrong, says):
    usual = {"epsilon": 1.0, "delay": 4, "domain": (0.0, 1.0), "drift": 0.1}
    with pytest.raises(ConfigurationError, match=says):
        choose_delay(**(usual | wrong))
