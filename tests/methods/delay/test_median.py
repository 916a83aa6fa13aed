"""The median of a group's noisy values in place of their mean: the paper's MedianSmoother."""

from __future__ import annotations

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.randomness import seeded
from tests.cases import cases

NAMES = ("contin_group", "pegasus_delay", "discontin_group", "buc_order", "pegasus")


def made(name, **given):
    how = {"epsilon": 20.0, "delay": 9, "domain": (0.0, 1.0), "noise": "point"}
    own = {"buckets": 1} if name == "buc_order" else {"theta": 500.0}
    return lk.method(name, **(how | own | given))


@cases("setting", ["batch", "sliding"])
@cases("name", NAMES)
def test_it_is_the_median_of_the_same_noise(name, setting):
    """Where all of a window is one group; what is drawn does not depend on it. The noisy values
    are those of groups of one.
    """
    streams = np.random.default_rng(1).random((5, 45))
    median, mean = (made(name, setting=setting, smooth=how) for how in ("median", False))
    assert median.use == mean.use
    assert median.tables() == mean.tables()
    assert median.smooth is False
    released = median.release(streams, seeded(3))
    assert not np.array_equal(released, mean.release(streams, seeded(3)))
    if setting == "sliding":
        return
    noisy = []

    class Watched:
        def __init__(self, real):
            self.real = real

        def __getattr__(self, what):
            return getattr(self.real, what)

        def perturb(self, values, source):
            noisy.append(self.real.perturb(values, source) / 2**32)
            return np.rint(noisy[-1] * 2**32).astype(np.int64)

    again = made(name, smooth="median")
    again.adder = Watched(again.adder)
    assert np.array_equal(again.release(streams, seeded(3)), released)
    groups = np.array(noisy).T.reshape(5, -1, 9)
    if name == "pegasus":
        found = np.stack([np.median(groups[..., : at + 1], axis=-1) for at in range(9)], axis=-1)
    else:
        found = np.repeat(np.median(groups, axis=-1)[..., None], 9, axis=-1)
    assert released == pytest.approx(np.clip(found, 0, 1).reshape(5, 45), abs=1e-8)


@cases(
    ("name", "how", "words"),
    [
        ("contin_group", {"smooth": "median", "noise": "sum"}, "noise: point"),
        ("naive", {"smooth": "median"}, "noise: point"),
        ("adapub", {"smooth": "median"}, "noise: point"),
        ("contin_group", {"smooth": "mean", "noise": "point"}, "median"),
    ],
)
def test_it_is_for_groups_of_noisy_values(name, how, words):
    with pytest.raises(lk.ConfigurationError, match=words):
        lk.method(name, epsilon=1.0, delay=3, domain=(0.0, 1.0), **how)
