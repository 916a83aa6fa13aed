"""The intervals that streams' releases state, and those that state none."""

from __future__ import annotations

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.mechanisms.sum_noise import SumNoise
from ldp_kafka.methods.delay.naive import Naive
from ldp_kafka.methods.delay.segments import SegmentMean
from tests.cases import cases
from tests.keys import KEY

UNIT = (0.0, 1.0)
STREAMS, SLOTS = 120, 84
LOUD = 1.0  # nats: the noise is wider than the domain
KINDS = [
    (Naive, {}),
    (Naive, {"smooth": True}),
    (Naive, {"smooth": {"season": 7}}),
    (SegmentMean, {"segment": 1}),
    (SegmentMean, {"segment": 1, "smooth": False}),
    (SegmentMean, {"smooth": {"season": 7}}),
]


def streams(shape):
    """(streams, slots), and which slots are looked at."""
    rng, slot = np.random.default_rng(4), np.arange(SLOTS)
    every = np.ones((STREAMS, SLOTS), bool)
    if shape == "walk":
        walk = np.cumsum(rng.normal(0, 0.03, (STREAMS, SLOTS)), axis=1)
        return np.clip(0.5 + walk, 0.0, 1.0), every
    if shape == "season":
        return np.tile(0.5 + 0.4 * np.sin(2 * np.pi * slot / 7), (STREAMS, 1)), every
    if shape == "after a jump":
        return np.where(slot < 40, 0.1, 0.9) * np.ones((STREAMS, 1)), every & (slot // 5 == 8)
    high = rng.random((STREAMS, 1)) < 0.05
    if shape == "skewed":
        return np.where(high, 0.95, 0.1) * np.ones(SLOTS), every & high
    return np.full((STREAMS, SLOTS), 0.3), every


def covered(method, shape):
    """Share of slots whose interval holds the truth."""
    values, looked = streams(shape)
    told = method.trace(values, lk.randomness.seeded(11))
    assert ((told.low <= told.values) & (told.values <= told.high)).all()
    assert (told.low >= 0).all() and (told.high <= 1).all()
    inside = (told.low <= values.T) & (told.high >= values.T)
    return inside[looked.T].mean()


@cases("setting", ["batch", "sliding"])
@cases("epsilon", [LOUD, 8.0, 40.0])
@cases("shape", ["constant", "walk", "season", "after a jump", "skewed"])
@cases("kind, how", KINDS)
def test_they_hold_whatever_the_stream_does(setting, epsilon, shape, kind, how):
    method = kind(epsilon=epsilon, delay=7, domain=UNIT, setting=setting, **how)
    assert covered(method, shape) > 0.925


def test_the_error_of_a_smoother_s_models_would_not_hold():
    """Those are narrow where a stream is slow, and as narrow where it is not."""

    class Sure(SegmentMean):
        half_width = 0.1

        def _on_domain(self, first, released, looks):
            del looks
            return super()._on_domain(first, released, released)

    method = Sure(epsilon=2.0, delay=7, domain=UNIT, segment=1)
    assert covered(method, "after a jump") < 0.5


@cases("epsilon", [0.1, 1.0, 8.0, 50.0])
def test_a_half_width_is_that_of_the_exact_law(epsilon):
    """Of 100 draws at least 95 are as near, and fewer would be two steps less far."""
    noise = SumNoise(epsilon, 2**20, 2**24)
    least, most = noise.range
    total = 2**23
    outputs = np.arange(least, most + 1) if most - least < 2**17 else None
    half = noise.half_width
    near = np.arange(-(half // noise.unit), half // noise.unit + 1)
    middle = total // noise.unit
    words = noise.words_of(total, middle + near)
    assert outputs is None or sum(noise.words_of(total, outputs)) <= 2**96
    assert sum(words) >= 0.95 * 2**96
    assert sum(words[2:-2]) < 0.95 * 2**96
    laplace = np.log(20) * 2**20 / epsilon
    assert half == pytest.approx(laplace, rel=0.02, abs=2.5 * noise.unit)


def test_two_streams_of_equal_sums_are_released_alike():
    """So no interval holds what both have inside a segment, and none is stated."""
    method = lk.method("segment_mean", epsilon=1.0, delay=8, domain=UNIT)
    assert method.segment == 8
    even, odd = np.full(80, 0.5), np.tile([0.0] * 4 + [1.0] * 4, 10)
    first, second = (
        method.trace(values, lk.randomness.keyed(KEY), users=["a"], first_slot=0)
        for values in (even, odd)
    )
    assert (first.values == second.values).all()
    assert np.isnan(first.standard_error).all()
    assert first.reason == "mixed_slots"
