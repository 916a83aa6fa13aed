"""The smoother against what a random walk and normal noise give exactly."""

from __future__ import annotations

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.accounting import State
from ldp_kafka.methods.delay.rows import Rows
from ldp_kafka.methods.delay.smoother import UNKNOWN, Piece, Smoother
from tests.cases import cases
from tests.keys import KEY

FINE = 32  # grid points of a slot in the exact twin


def exact(pieces, move, length):
    """Start, mean and end of each piece that is known, of one walk on a fine grid: the normal law
    of all of it, given what was released.
    """
    points = length * FINE + 1
    # nothing is known before the first piece that is
    begins = min(piece.first for piece in pieces if piece.known[0])
    t = np.maximum(np.arange(points) / FINE - begins, 0.0)
    covariance = UNKNOWN + move**2 * np.minimum.outer(t, t)
    looks, starts, ends = [], [], []
    for piece in pieces:
        first, last = piece.first * FINE, (piece.first + piece.slots) * FINE
        look = np.zeros(points)
        look[first : last + 1] = 1.0
        look[[first, last]] = 0.5  # the trapezium rule
        looks.append(look / look.sum())
        starts.append(first)
        ends.append(last)
    known = np.array([bool(piece.known[0]) for piece in pieces])
    looks = np.array(looks)
    seen = looks[known]
    noise = np.diag(
        [float(piece.variance[0]) for piece, there in zip(pieces, known, strict=True) if there]
    )
    released = np.array(
        [float(piece.released[0]) for piece, there in zip(pieces, known, strict=True) if there]
    )
    gain = covariance @ seen.T @ np.linalg.inv(seen @ covariance @ seen.T + noise)
    mean = 0.5 + gain @ (released - 0.5)
    return mean[starts], looks @ mean, mean[ends]


def one(value):
    return np.array([value])


@cases("hidden", [(), (1,), (0, 2), (2, 3)])
@cases("commit", [0, 1, 3])
def test_it_is_the_exact_law_of_one_model(hidden, commit):
    """With gaps, and whatever the window has left behind."""
    rng, move, spans = np.random.default_rng(1), 0.03, (4, 1, 6, 3, 2)
    firsts = np.r_[0, np.cumsum(spans)[:-1]]
    pieces = [
        Piece(
            int(first), slots, one(rng.normal(0.4, 0.2)), one(0.3 / slots**2), one(at not in hidden)
        )
        for at, (first, slots) in enumerate(zip(firsts, spans, strict=True))
    ]
    smoother = Smoother(np.array([move]))
    state = State(smoother.fields, np.zeros((1, 2), np.uint64))
    if commit:
        window = Rows(state, np.arange(1), lk.randomness.seeded(1), 0, 1)
        smoother.forward(window, pieces[:commit])
    shapes = smoother.smooth(
        Rows(state, np.arange(1), lk.randomness.seeded(1), 0, 1), pieces[commit:], 0
    )
    start, mean, end = exact(pieces, move, int(sum(spans)))
    for at, shape in enumerate(shapes, commit):
        if at in hidden:
            continue
        found = [float(each[0]) for each in (shape.start, shape.mean, shape.end)]
        assert found == pytest.approx([start[at], mean[at], end[at]], abs=2e-3)
        middle = float(shape.at(0.5)[0])
        assert middle == pytest.approx(1.5 * found[1] - (found[0] + found[2]) / 4)


def test_it_never_costs_much_and_often_helps():
    """Error of releases smoothed, in shares of the error unsmoothed, of the methods of the paper on
    a slow stream.
    """
    slow = 0.5 + 0.3 * np.sin(np.arange(240) / 30)
    streams = np.tile(slow, (60, 1))
    for name in ("naive", "pegasus_delay", "contin_group", "discontin_group", "comp_order"):
        found = []
        for smooth in (False, True):
            method = lk.method(name, epsilon=2.0, delay=6, domain=(0.0, 1.0), smooth=smooth)
            found.append(np.abs(method.release(streams, lk.randomness.seeded(3)) - slow).mean())
        assert found[1] < 0.75 * found[0], name


def test_noise_is_the_same_with_and_without():
    """What is smoothed is what would have been released: it draws the same words."""
    streams = np.random.default_rng(1).random((4, 30))
    source = lk.randomness.keyed(KEY)
    names = {"users": ["a", "b", "c", "d"], "first_slot": 0}
    one, other = (
        lk.method("naive", epsilon=1.0, delay=5, domain=(0.0, 1.0), smooth=smooth)
        for smooth in (False, True)
    )
    assert one.use == other.use
    assert not np.array_equal(
        one.release(streams, source, **names), other.release(streams, source, **names)
    )
