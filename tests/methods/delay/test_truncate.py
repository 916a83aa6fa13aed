"""Thresholds: which are chosen, when, from what, and what noise values get under them."""

from __future__ import annotations

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.methods.batch import Batch
from ldp_kafka.methods.delay.truncation import clipped_error
from ldp_kafka.randomness import seeded
from tests.cases import cases

UNIT = {"epsilon": 50.0, "delay": 10, "domain": (0.0, 1.0)}


def made(**given):
    return lk.method("truncate", **(UNIT | given))


def thresholds(method, streams):
    """What is chosen for each stream, as a share of the domain, after all its slots."""
    state = method.state(seeded(1).digests([str(i) for i in range(len(streams))]))
    rows, bound, hop = np.arange(len(streams)), method.bound(streams).T, method.windows.hop
    for slot in range(0, len(bound), hop):
        method.step(state, Batch(rows, slot, bound[slot : slot + hop], seeded(slot)))
    return (state.columns["threshold"][: len(streams)] + 1) / method.thresholds


@cases("scale", [0.003, 0.02, 0.3, 1.0, 4.0, 70.0, 9e3])
def test_the_error_of_clipped_noise(scale):
    """By sampling, to half a per cent."""
    rng = np.random.default_rng(3)
    values = rng.random(400_000)
    found = np.abs(np.clip(values + rng.laplace(0, scale, len(values)), 0, 1) - values).mean()
    assert clipped_error(scale) == pytest.approx(found, rel=0.01)
    assert clipped_error(2e4) == 0.5 == pytest.approx(clipped_error(9.9e3), abs=1e-4)


@cases("setting", ["batch", "sliding"])
@cases("level", [0.1, 0.4, 0.9])
def test_a_threshold_weighs_noise_against_what_it_cuts_off(setting, level):
    """Of values spread evenly up to a level L, tau cuts off (L - tau)^2 / 2L, and noise errs by
    about tau / 8: an eighth of them lies above the best threshold.
    """
    streams = np.random.default_rng(1).uniform(0, level, (300, 100))
    given = {"setting": setting, "delay": 100}
    found = thresholds(made(**given, epsilon=10.0), streams)
    assert np.median(found) == pytest.approx(0.875 * level, abs=0.07)
    assert found.std() < 0.1
    alike = thresholds(made(**given, epsilon=0.01), streams)  # hardly anything is known
    assert alike.std() > 0.2


def test_outliers_are_cut_off_and_the_rest_is_nearer():
    """One value in fifty is large: a tenth of naive's error for the others."""
    rng = np.random.default_rng(2)
    streams = rng.uniform(0, 0.03, (200, 200))
    streams[rng.random(streams.shape) < 0.02] = 1.0
    usual = streams < 0.5
    given = {"epsilon": 5.0, "delay": 50}
    ours, naive = (
        np.abs(method.release(streams, seeded(3)) - streams)
        for method in (made(**given), lk.method("naive", **(UNIT | given)))
    )
    assert ours[usual].mean() < 0.25 * naive[usual].mean()
    assert ours.mean() < 0.6 * naive.mean()


@cases("setting", ["batch", "sliding"])
def test_a_choice_holds_for_an_interval(setting):
    """A stream that falls keeps its old threshold until the next choice, and has no draw of one."""
    streams = np.repeat([[0.9, 0.1, 0.1, 0.1]], 100, axis=1).repeat(100, axis=0)
    given = {"setting": setting, "delay": 100, "epsilon": 10.0}
    for interval, blocks, want in ((1, 2, 0.1), (2, 2, 0.9), (2, 3, 0.1), (3, 3, 0.9), (3, 4, 0.1)):
        found = thresholds(made(**given, interval=interval), streams[:, : 100 * blocks])
        assert np.median(found) == pytest.approx(want, abs=0.05)


def test_blocks_without_a_choice_have_the_whole_epsilon():
    """Their values are in no score."""
    method = made(interval=2, epsilon=10.0, thresholds=2)
    assert method.adder.epsilon == pytest.approx(8.0)
    assert method.alone.epsilon == 10.0
    streams = np.full((4000, 40), 0.999)
    off = np.abs(method.release(streams, seeded(1)) - streams).reshape(4000, 4, 10).mean((0, 2))
    assert off[[1, 3]].mean() == pytest.approx(0.8 * off[[0, 2]].mean(), rel=0.05)


def test_gaps_do_not_keep_a_stream_from_choosing():
    """A block without values chooses nothing; the next one with values does."""
    method = made(setting="sliding", interval=2)
    streams, present = np.full((300, 60), 0.2), np.ones((300, 60), np.bool_)
    present[:, 20:40] = False
    streams[:, 40:] = 0.8
    released = method.release(streams, seeded(1), present=present)
    assert np.isnan(released[:, 20:40]).all()
    assert np.median(released[:, 45:]) == pytest.approx(0.8, abs=0.05)


def test_published_scores_count_noise_beyond_the_domain():
    """The paper's sqrt(2) tau / epsilon says that small thresholds are always better where epsilon
    is small; scores over m know less.
    """
    streams = np.random.default_rng(1).uniform(0.6, 1.0, (300, 100))
    given = {"epsilon": 1.0, "delay": 100}
    sound = thresholds(made(**given), streams)
    published = thresholds(made(**given, calibration="published"), streams)
    assert sound.mean() > published.mean() + 0.1
