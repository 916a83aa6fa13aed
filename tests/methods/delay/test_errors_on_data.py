"""Errors on the paper's streams, in public domains: ours against the paper's methods as they were
published, with the authors' theta and bucket, every release clipped to the domain.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.evaluation.data import series
from tests import needs
from tests.cases import cases
from tests.depth import LONG, depth

DOMAINS = {"unemployment": 700.0, "covid19_death": 30_000.0, "outpatient": 3e6}
WIDTH = {"outpatient": 10_000.0}  # of a bucket; elsewhere 100
REPEATS = depth(10, 40)
PAPER = {
    "pegasus": (None,),
    "pegasus_delay": (None,),
    "contin_group": ("sum", "point"),
    "discontin_group": ("sum", "point"),
    "comp_order": (None,),
    "buc_order": ("sum", "point"),
}
# the others are nowhere near: comp_order is slow, too
USUAL = {"contin_group": ("sum",), "discontin_group": ("sum",), "buc_order": ("sum",)}


@cache
def stream(name):
    with needs.data():
        return series(name)


def error(method, name, **how):
    """Mean absolute error over the whole stream and so many repetitions."""
    values = stream(name)
    made = lk.method(method, domain=(0.0, DOMAINS[name]), **how)
    released = made.release(np.tile(values, (REPEATS, 1)), lk.randomness.seeded(30))
    return float(np.abs(released - values).mean())


def midpoint(name):
    return float(np.abs(DOMAINS[name] / 2 - stream(name)).mean())


def papers_best(name, **how):
    """Of its methods, with its noise, theta and buckets."""
    own = {"buckets": int(DOMAINS[name] / WIDTH.get(name, 100.0))}
    return min(
        error(
            method,
            name,
            calibration="published",
            noise=noise,
            **how,
            **(own if method == "buc_order" else {}),
        )
        for method, noises in (PAPER if LONG else USUAL).items()
        for noise in noises
    )


@pytest.mark.parametrize("name", DOMAINS)
@pytest.mark.parametrize(("delay", "most"), [(10, 0.7), (100, 0.85)])
@cases("epsilon", depth((0.5, 1.0), (0.5, 0.7, 1.0)))
def test_segments_beat_the_papers_best(name, delay, most, epsilon):
    how = {"epsilon": epsilon, "delay": delay}
    assert error("segment_mean", name, **how) <= most * papers_best(name, **how)


@pytest.mark.parametrize("name", DOMAINS)
@pytest.mark.parametrize("setting", ["batch", "sliding"])
@cases("delay", [10, 100])
@cases("epsilon", [0.1, 0.2, 0.5, 1.0])
def test_segments_are_never_far_above_the_midpoint(name, setting, delay, epsilon):
    found = error("segment_mean", name, epsilon=epsilon, delay=delay, setting=setting)
    assert found <= 1.2 * midpoint(name)


def test_groups_at_a_long_delay():
    """With the authors' threshold and with ours, sound."""
    for own in ({}, {"theta": 3 / 700}):
        assert error("discontin_group", "unemployment", epsilon=1.0, delay=100, **own) <= 80


def test_clipping_is_most_of_the_papers_thirty_times():
    """Naive noise at epsilon 0.1 has twenty times the error of naive noise that is clipped."""
    clipped = error("naive", "unemployment", epsilon=0.1, delay=1)
    unclipped = DOMAINS["unemployment"] / 0.1
    assert unclipped / clipped > 15


def test_the_papers_buckets_lose_to_the_midpoint_at_a_short_delay():
    """On all three streams, at every epsilon of the paper."""
    for name, length in DOMAINS.items():
        own = {"buckets": int(length / WIDTH.get(name, 100.0))}
        for epsilon in (0.1, 0.5, 1.0):
            found = error(
                "buc_order", name, calibration="published", epsilon=epsilon, delay=10, **own
            )
            assert found > midpoint(name)


@pytest.mark.parametrize("name", DOMAINS)
@cases("epsilon", [0.1, 0.5, 1.0])
def test_truncating_beats_naive_noise(name, epsilon):
    """With scores that know of clipping, at a short delay; the paper's own scores gain less."""
    how = {"epsilon": epsilon, "delay": 10}
    found = error("truncate", name, **how)
    assert found < 0.8 * error("naive", name, **how)
    assert found < 0.9 * error("truncate", name, calibration="published", **how)
