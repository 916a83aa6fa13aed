"""Frequencies projected onto the simplex."""

from __future__ import annotations

import numpy as np
import pytest

from ldp_kafka.mechanisms.projection import norm_sub, project_simplex
from tests.cases import cases

RNG = np.random.default_rng(5)
NOISY = [
    RNG.normal(1 / k, spread, (4, k))
    for k in (1, 2, 3, 16, 1000)
    for spread in (1e-9, 0.1, 3.0, 1e6)
]


@cases("frequencies", NOISY)
def test_what_comes_out_is_a_distribution(frequencies):
    """Non-negative, sum one, same shape; doing it again changes no bit, and the input is left
    alone.
    """
    frequencies.flags.writeable = False
    projected = norm_sub(frequencies)
    assert projected.shape == frequencies.shape
    assert (projected >= 0).all()
    assert np.abs(projected.sum(axis=-1) - 1).max() < 1e-12
    assert norm_sub(projected).tobytes() == projected.tobytes()


@cases("frequencies", NOISY)
def test_no_other_distribution_is_nearer(frequencies):
    """The conditions of Karush, Kuhn and Tucker: one shift for all that stays above zero, and what
    is zero lies below it.
    """
    projected = norm_sub(frequencies)
    for before, after in zip(frequencies, projected, strict=True):
        shift = (before - after)[after > 0]
        room = 1e-12 * max(1.0, np.abs(before).max())
        assert np.ptp(shift) <= room
        assert (before[after == 0] <= shift.max() + room).all()


def iterated(f):
    """Norm-Sub step by step: what is below zero becomes zero, what is missing or too much is shared
    by the others.
    """
    f = np.array(f)
    while (f < 0).any() or abs(f.sum() - 1) > 1e-13:
        f = np.maximum(f, 0)
        f[f > 0] += (1 - f.sum()) / (f > 0).sum()
    return f


@cases("seed", range(20))
def test_it_is_norm_sub_as_it_is_usually_programmed(seed):
    """The loop gives the same wherever the positive frequencies sum to one or more."""
    f = np.random.default_rng(seed).normal(0.05, 0.1, 20)
    f += (1 - f.sum()) / 20
    assert np.allclose(norm_sub(f), iterated(f), rtol=0, atol=1e-12)


@cases("valid", [[1.0], [0.0, 1.0], [0.1] * 10, [1 / 3] * 3, [0.7, 0.2, 0.1, 0.0]])
def test_valid_frequencies_stay(valid):
    """To the last bit."""
    assert norm_sub(valid).tolist() == valid


def test_rows_are_projected_by_themselves():
    """Also where some are valid and some are not."""
    both = norm_sub([[0.25, 0.75], [2.0, 0.0]])
    assert both.tolist() == [[0.25, 0.75], [1.0, 0.0]]
    cube = RNG.normal(0.2, 1.0, (2, 3, 5))
    assert np.array_equal(norm_sub(cube)[1, 2], norm_sub(cube[1, 2]))


def test_it_is_never_further_from_the_truth():
    """A projection onto a convex set that holds the truth."""
    truth = RNG.dirichlet(np.full(50, 0.3), 200)
    noisy = truth + RNG.normal(0, 0.05, truth.shape)
    before, after = (((f - truth) ** 2).sum(axis=-1) for f in (noisy, norm_sub(noisy)))
    assert (after <= before).all()


@pytest.mark.parametrize("total", [0.125, 1.0, 700.0])
def test_other_totals(total):
    """The simplex of any size is the unit one, scaled."""
    points = RNG.normal(0, 2 * total, (5, 9))
    assert np.allclose(
        project_simplex(points, total), total * norm_sub(points / total), rtol=0, atol=1e-12 * total
    )


def test_extremes_do_not_overflow():
    """The greatest floats are numbers too."""
    assert norm_sub([1.7e308, -1.7e308, 1.7e308]).tolist() == [0.5, 0.0, 0.5]


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_what_is_no_number_is_refused(bad):
    """NaN would come out as a distribution."""
    with pytest.raises(ValueError, match="finite"):
        norm_sub([0.5, bad])


@pytest.mark.parametrize("points", [[], 1.0, np.empty((3, 0))])
def test_nothing_is_refused(points):
    """No categories, no distribution."""
    with pytest.raises(ValueError, match="coordinate"):
        norm_sub(points)


@cases("total", [0.0, -1.0, float("nan"), float("inf")])
def test_bad_totals_are_refused(total):
    """A simplex has a size."""
    with pytest.raises(ValueError, match="total"):
        project_simplex([0.5, 0.5], total)


@cases("total", [1e308, 1.7e308, 1e-300])
@cases(
    "point",
    [
        [1.0, 1.0],
        [1.0, 0.0, 0.0, -1.0],
        [1e308, 0.0, 0.0, -1e308],
        [0.0, 0.0, 0.0],
        [3.0, -7.0, 2.5, 2.25],
    ],
)
def test_totals_of_any_size(total, point):
    """Sums of what lies far below never overflow, whatever is to be their sum."""
    nearest = project_simplex(point, total=total)
    assert (nearest >= 0).all()
    assert (nearest / total).sum() == pytest.approx(1, abs=1e-12)
    assert np.argmax(nearest) == np.argmax(point)
