"""A season that is learnt from what was released."""

from __future__ import annotations

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.accounting import State
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.methods.delay.rows import Rows
from ldp_kafka.methods.delay.season import GROWTH, UNKNOWN, Season
from ldp_kafka.methods.delay.smoother import Piece
from tests.cases import cases
from tests.keys import KEY

WEEK = {"season": 7}
SHOP = {"delay": 7, "domain": (0.0, 1600.0), "contribution": 40.0}
SOLD = np.array([300.0, 320.0, 350.0, 400.0, 600.0, 900.0, 150.0])


def state_of(season, count):
    return State(season.fields, np.arange(2 * count, dtype=np.uint64).reshape(count, 2))


def test_a_place_s_height_is_what_a_kalman_filter_says():
    """By hand, of a season of two slots: nothing before a whole period, and then each look less the
    mean of the last two.
    """
    season = Season(2)
    window, variance = Rows(state_of(season, 1), np.arange(1), lk.randomness.seeded(1), 0, 1), 0.01
    looks, doubt, height = [0.2, 0.6, 0.3, 0.5], [UNKNOWN] * 2, [0.0] * 2
    for slot, look in enumerate(looks):
        piece = Piece(slot, 1, np.array([look]), np.array([variance]), np.array([True]))
        season.learn(window, piece)
        if slot > 0:
            at = slot % 2
            before = doubt[at] + GROWTH
            gain = before / (before + variance * 1.5)
            seen = look - (look + looks[slot - 1]) / 2
            height[at] += gain * (seen - height[at])
            doubt[at] = before * (1 - gain)
        for at in range(2):
            assert season.level(window, at) == pytest.approx(height[at], abs=1e-15)


def test_a_place_without_values_stops_no_learning():
    """A shop that is closed on one day of three, by hand: the mean is of the other two."""
    season, variance = Season(3), 0.01
    window = Rows(state_of(season, 1), np.arange(1), lk.randomness.seeded(1), 0, 1)
    looks, doubt, height = {0: 0.2, 1: 0.6, 3: 0.3, 4: 0.5}, [UNKNOWN] * 2, [0.0] * 2
    for slot in range(6):
        known = np.array([slot in looks])
        look = looks.get(slot, 9.0)
        season.learn(window, Piece(slot, 1, np.array([look]), np.array([variance]), known))
        if slot in (3, 4):
            at = slot - 3
            before = doubt[at] + GROWTH
            gain = before / (before + variance * 1.5)
            height[at] = gain * (look - (look + looks[3 if at else 1]) / 2)
        for at in range(2):
            assert season.level(window, at) == pytest.approx(height[at], abs=1e-15)
    assert min(np.abs(height)) > 0
    assert season.level(window, 2) == 0


@cases("setting", ["batch", "sliding"])
@cases("name", ["segment_mean", "naive"])
def test_it_makes_releases_better(setting, name):
    """Of shops that sell by the day of the week; without it the smoother takes the week's peaks for
    noise.
    """
    rng = np.random.default_rng(6)
    sold = np.tile(SOLD, 26) * rng.normal(1, 0.05, (80, 182))
    errors = []
    for smooth in (False, True, WEEK):
        more = {"segment": 1} if name == "segment_mean" else {}
        made = lk.method(name, epsilon=1.0, setting=setting, smooth=smooth, **more, **SHOP)
        away = made.release(sold, lk.randomness.seeded(2)) - sold
        errors.append(np.sqrt((away[:, 56:] ** 2).mean()))
    assert errors[2] < 0.8 * min(errors[:2]), errors


def test_a_stream_is_released_the_same_beside_others():
    """To the bit: the season adds in one order, whoever else is stepped."""
    rng = np.random.default_rng(3)
    values, there = rng.uniform(0, 1600, (5, 60)), rng.random((5, 60)) < 0.8
    made = lk.method("segment_mean", epsilon=1.0, smooth=WEEK, setting="sliding", **SHOP)
    names, noise = [f"s{at}" for at in range(5)], lk.randomness.keyed(KEY)
    whole = made.release(values, noise, present=there, users=names, first_slot=0)
    for at in range(5):
        row = slice(at, at + 1)
        alone = made.release(values[row], noise, present=there[row], users=names[row], first_slot=0)
        assert np.array_equal(alone[0], whole[at], equal_nan=True)


def test_it_changes_no_noise():
    made = [
        lk.method("segment_mean", epsilon=1.0, segment=1, smooth=smooth, **SHOP)
        for smooth in (False, True, WEEK)
    ]
    assert len({each.use for each in made}) == 1
    assert len({tuple(each.tables()) for each in made}) == 1
    assert made[2].smooth == WEEK


@cases(
    "smooth, error",
    [
        ({"season": 1}, ConfigurationError),
        ({"season": 1025}, ConfigurationError),
        ({"season": 7.0}, TypeError),
        ({"season": True}, TypeError),
        ({}, ConfigurationError),
        ({"season": 7, "trend": 1}, ConfigurationError),
        ("season", ConfigurationError),
    ],
)
def test_what_is_no_season_is_refused(smooth, error):
    with pytest.raises(error, match=r"season|smooth"):
        lk.method("naive", epsilon=1.0, delay=2, domain=(0.0, 1.0), smooth=smooth)


def test_a_segment_of_several_slots_has_no_season():
    made = lk.method("segment_mean", epsilon=1.0, smooth=WEEK, **SHOP)
    assert made.segment == 1
    with pytest.raises(ConfigurationError, match="segment must be 1"):
        lk.method("segment_mean", epsilon=1.0, smooth=WEEK, segment=7, **SHOP)
