"""The generators say what LDP-IDS, section 7.1.1, says. Where chance is involved, a right generator
fails with probability 10**-6 whatever the seed.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.evaluation.streams import binary, lns, log, sin, slice_series

ALARM = 1e-6


def test_paper_defaults():
    """800 slots, and the curves at their first slot."""
    assert len(lns(seed=1)) == len(sin()) == len(log()) == 800
    assert sin()[0] == pytest.approx(0.05 * np.sin(0.01) + 0.075)
    assert sin()[156] == pytest.approx(0.125, abs=1e-6)  # the crest: b t = pi / 2
    assert log()[0] == pytest.approx(0.25 / (1 + np.exp(-0.01)))
    assert log()[-1] == pytest.approx(0.25 / (1 + np.exp(-8)))


def test_lns_increments_are_normal_with_the_right_scale():
    """Their sum of squares over Q is chi-square, their sum normal: the scale times 1.1 or 0.9 must
    fail both ways.
    """
    n, scale = 20_000, 0.001
    steps = np.diff(lns(n, p0=0.5, sqrt_q=scale, seed=11), prepend=0.5)
    low, high = stats.chi2.ppf([ALARM / 4, 1 - ALARM / 4], n)
    squares = float((steps**2).sum())
    assert low < squares / scale**2 < high
    assert not low < squares / (1.1 * scale) ** 2 < high
    assert not low < squares / (0.9 * scale) ** 2 < high
    assert abs(steps.sum()) < stats.norm.isf(ALARM / 4) * scale * np.sqrt(n)


def test_lns_stays_a_probability():
    """However wild its steps are."""
    walk = lns(2000, p0=0.05, sqrt_q=0.5, seed=3)
    assert walk.min() == 0
    assert walk.max() == 1


def test_lns_is_repeatable():
    """A seed is a stream."""
    assert (lns(50, seed=4) == lns(50, seed=4)).all()
    assert (lns(50, seed=4) != lns(50, seed=5)).any()


def test_curves_are_clipped():
    """A curve with an amplitude beyond [0, 1] is kept inside."""
    assert (sin(1000, a=2.0).min(), sin(1000, a=2.0).max()) == (0.0, 1.0)
    assert log(1000, a=3.0).max() == 1.0


def test_binary_has_exactly_the_share():
    """The paper chooses a portion of the users, it does not toss a coin for each."""
    shares = [0.0, 0.1, 0.123, 0.5, 1.0]
    slots = list(binary(shares, users=1000, seed=6))
    assert [int(slot.sum()) for slot in slots] == [0, 100, 123, 500, 1000]
    assert all(slot.dtype == np.uint8 and slot.shape == (1000,) for slot in slots)


def test_binary_chooses_every_user_alike():
    """Over independent slots a user's ones are binomial; none of 40 users is out of line."""
    users, slots, share = 40, 4000, 0.25
    ones = sum(slot.astype(int) for slot in binary([share] * slots, users=users, seed=7))
    low, high = stats.binom.ppf([ALARM / users / 2, 1 - ALARM / users / 2], slots, share)
    assert ones.min() >= low
    assert ones.max() <= high


def test_binary_chooses_anew():
    """Two slots of one share are not the same users: chance of equality is 1 in C(60, 30), about
    10**17.
    """
    one, other = binary([0.5, 0.5], users=60, seed=8)
    assert (one != other).any()


def test_slices_are_consecutive_pieces():
    """User i has piece i; what is left over is left out."""
    pieces = slice_series(np.arange(11), users=3)
    assert pieces.tolist() == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert slice_series(np.arange(11), users=2, slots=2).tolist() == [[0, 1], [2, 3]]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: slice_series(np.arange(3), users=4),
        lambda: slice_series(np.arange(3), users=1, slots=4),
        lambda: slice_series(np.arange(3), users=0),
        lambda: lns(0, seed=1),
        lambda: sin(True),
        lambda: binary([0.5, 1.5], users=2, seed=1),
        lambda: binary([float("nan")], users=2, seed=1),
        lambda: binary([0.5], users=-1, seed=1),
    ],
)
def test_parameters_are_checked(wrong):
    """At once, also where the values come later."""
    with pytest.raises(ConfigurationError):
        wrong()
