"""AdaPub and DPI: what they do, and that they follow a stream at all."""

from __future__ import annotations

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.randomness import seeded
from tests.cases import cases

UNIT = {"epsilon": 50.0, "delay": 20, "domain": (0.0, 1.0)}
LEVELS = np.tile(np.repeat([0.2, 0.8, 0.3], 20), (300, 1))


@cases("setting", ["batch", "sliding"])
@cases("calibration", ["sound", "published"])
def test_adapub_groups_and_releases_medians(setting, calibration):
    """Values that do not move are one group, whose medians err less and less; in the code that the
    delay-allowed paper ran no value ever joins one.
    """
    given = UNIT | {"setting": setting, "calibration": calibration}
    adapub, naive = (lk.method(name, **given) for name in ("adapub", "naive"))
    still = np.full((2000, 20), 0.5)
    errors = np.abs(adapub.release(still, seeded(1)) - still).mean(axis=0)
    alone = np.abs(naive.release(still, seeded(1)) - still).mean()
    assert errors[0] == pytest.approx(1.25 * alone, rel=0.1)
    assert errors[-1] < 0.75 * alone


def test_adapub_controls_its_threshold_by_feedback():
    """Where releases are far from noisy values it lets more into a group: theta is D^2 / epsilon
    units of one reach, D 0.9 times the last relative error and 0.1 times the group's mean.
    """
    method = lk.method("adapub", **UNIT | {"epsilon": 0.5, "delay": 100})
    state = method.state(seeded(1).digests(["a"]))
    from ldp_kafka.methods.delay.rows import ALL, Rows

    window = Rows(state, np.arange(1), seeded(1), 0, 1)
    for begun, before, errors, size, noisy, want in (
        (False, 0.0, 0.0, 0, 3.0, 1.0),
        (True, 0.2, 0.0, 0, 0.4, 1.0),
        (True, 0.0, 0.0, 0, -5.0, (0.9 * 5.0) ** 2 / 0.5),
        (True, 1.0, 6.0, 3, 4.0, max(1.0, (0.9 * 0.75 + 0.1 * 2.0) ** 2 / 0.5)),
        (True, 1.0, 0.0, 0, 1e6, (0.9 * (1e6 - 1) / 1e6) ** 2 / 0.5),
        (True, 0.0, 0.0, 0, -1e3, 50.0),
    ):
        for name, value in zip(
            ("begun", "before", "errors", "size"), (begun, before, errors, size), strict=True
        ):
            window.set(name, value)
        method._control(window, np.array([noisy]), ALL)
        assert window.get("theta")[0] / 2**32 == pytest.approx(want, rel=1e-6)


def test_adapub_says_what_published_loses():
    found = [
        lk.method("adapub", **UNIT | {"epsilon": 1.0, "delay": delay}, calibration="published")
        for delay in (1, 2, 10, 100)
    ]
    stated = [each.guarantee.epsilon for each in found]
    assert stated == pytest.approx([0.8, 1.0, 2.6, 20.6])


@cases("setting", ["batch", "sliding"])
def test_dpi_releases_levels_near_the_values(setting):
    method = lk.method("dpi", **UNIT, setting=setting, synopses=10)
    released = method.release(LEVELS, seeded(1))
    assert set(np.unique(released.round(6)).tolist()) <= set((np.arange(10) / 10 + 0.05).round(6))
    assert np.abs(released - LEVELS).mean() < 0.06
    assert (released[:, 1:20] == released[:, :1]).all()


def test_dpi_boosts_what_was_released():
    """At a small epsilon a stream that does not move is chosen for the better the longer it has
    been: boosts carry what earlier blocks have said.
    """
    still = np.full((6000, 200), 0.55)
    given = UNIT | {"epsilon": 4.0, "delay": 5}
    method = lk.method("dpi", **given, synopses=10)
    right = (method.release(still, seeded(1)).round(6) == 0.55).mean(axis=0)
    assert right[-50:].mean() > right[0] + 0.02


def test_dpi_is_no_worse_than_the_midpoint_where_it_knows_nothing():
    values = np.random.default_rng(1).random((500, 60))
    method = lk.method("dpi", **UNIT | {"epsilon": 0.01})
    assert np.abs(method.release(values, seeded(1)) - values).mean() < 0.36
    assert np.abs(values - 0.5).mean() == pytest.approx(0.25, abs=0.01)
