"""Crowd means of vectors of a ball: each coordinate has its error, and a crowd that moves as fast
as its clipped vectors can is seen by the length of its movement.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.evaluation.cgm import law
from ldp_kafka.methods import CorrelatedGaussianVector
from ldp_kafka.methods.estimates import Slot
from ldp_kafka.methods.noisy_mean import LOOKED_BACK
from ldp_kafka.methods.unstated import CLIPPED
from ldp_kafka.statistics.mean import Mean
from tests.cases import cases

LIFE = {"epsilon": 1.0, "delta": 1e-5, "horizon": 40}
CROWDS, CROWD, DIAMETER, REPORTS = 300, 30, 10.0, 40_000
LEAST = 0.95 - 4 * (0.95 * 0.05 / CROWDS) ** 0.5  # of intervals that hold with 0.95: four sigma
STREAMS = 50
FLAGGED = 1  # of `STREAMS` at rest: more come once in 10**5 tests, at one in 15,000 slots


def made(kind="cgm_vector", **parameters):
    given = {**LIFE, "dimension": 3, "diameter": DIAMETER, **parameters}
    if isinstance(kind, str):
        return lk.method(kind, **given)
    return kind(mechanism=lk.MECHANISMS["gaussian_vector"], **given)


def reports_of(method, values, slots):
    """Reports (slots, users, dimension) of users whose vectors stay the same, in diameters."""
    streams = np.repeat(values[:, None], slots, axis=1)
    released = method.release(streams, lk.randomness.seeded(4))
    return released.swapaxes(0, 1) / method.diameter


def judged(method, reports, values):
    """Shares (dimension,) of crowds whose intervals hold the truth, and the median error."""
    truth = values.reshape(CROWDS, CROWD, -1).mean(axis=1)
    found = [method.crowd(method.support(each)) for each in reports.reshape(CROWDS, CROWD, -1)]
    low, high = (np.array(ends) for ends in zip(*(each.interval() for each in found), strict=True))
    errors = np.median([each.standard_error for each in found], axis=0)
    return ((low <= truth) & (truth <= high)).mean(axis=0), errors


def ball(users, dimension):
    """Vectors in the ball, as many far out as near."""
    rng = np.random.default_rng(7)
    away = rng.normal(size=(users, dimension))
    away *= rng.uniform(0, DIAMETER / 2, (users, 1)) / np.linalg.norm(away, axis=1, keepdims=True)
    return away


@cases("name", ["cgm", "gaussian_differential", "gaussian_direct"])
@cases(("turn", "dimension"), [(1, 1), (20, 3), (40, 3)])
def test_intervals_of_coordinates_hold_the_truth(name, turn, dimension):
    """300 crowds of 30, whose turn-th report it is: covered in every coordinate, and no wider than
    1.15 times the error of eq. 15, or of the baselines' laws.
    """
    method, values = made(f"{name}_vector", dimension=dimension), ball(CROWDS * CROWD, dimension)
    held, errors = judged(method, reports_of(method, values, turn)[-1], values)
    lawful = DIAMETER * method.sigma * sqrt(law(name, 0.05, turn) / CROWD)
    assert (held > LEAST).all()
    assert (errors < 1.15 * lawful).all()


class First(CorrelatedGaussianVector):
    """States the first report's error in every slot."""

    @property
    def _noise(self):
        most = super()._noise[1]
        return most, most


class Late(CorrelatedGaussianVector):
    """States that of the last one."""

    @property
    def _noise(self):
        least = super()._noise[0]
        return least, least


class Whole(CorrelatedGaussianVector):
    """States how far the vector is off, in each coordinate."""

    def _mean(self, support):
        found = super()._mean(support)
        return found._replace(standard_error=found.standard_error * sqrt(self.dimension))


@cases("broken", [First, Late, Whole])
def test_other_errors_do_not(broken):
    method, values = made(broken), ball(CROWDS * CROWD, 3)
    reports, fine = reports_of(method, values, 40), []
    for turn in (1, 40):
        held, errors = judged(method, reports[turn - 1], values)
        lawful = DIAMETER * method.sigma * sqrt(law("cgm", 0.05, turn) / CROWD)
        fine.append((held > LEAST).all() and (errors < 1.15 * lawful).all())
    assert not all(fine)


def test_users_who_join_in_the_middle():
    """Of half of the users it is the 40th report, of the others the 10th: both laws' mean."""
    method, values = made(), ball(8000, 3)
    old, new = (
        reports_of(method, part, turn)[-1]
        for part, turn in ((values[:4000], 40), (values[4000:], 10))
    )
    found = method.crowd(method.support(np.concatenate([old, new])))
    both = sum(law("cgm", 0.05, turn) for turn in (40, 10)) / 2
    lawful = DIAMETER * method.sigma * sqrt(both / 8000)
    assert found.standard_error == pytest.approx(np.full(3, lawful), rel=0.05)


@cases("n", [1, 2])
def test_one_report_has_the_error_of_the_noisiest(n):
    method = made()
    found = method.crowd(method.support(reports_of(method, ball(n, 3), 1)[0]))
    assert found.standard_error == pytest.approx(np.full(3, 10 * sqrt(method.variance(1) / n)))
    assert (found.value.shape, found.reports) == ((3,), n)
    alone = sums_of(method, np.zeros((1, 3)))[0]
    assert method.crowd_of_slot(alone, Slot(0, {})).reason is None


def test_the_plan_says_the_error_of_each_slot():
    """Eq. 15 again, of a coordinate; and where a life has one report."""
    predicted = Mean(made()).predict(900)
    lawful = {
        at: DIAMETER * made().sigma * sqrt(law("cgm", 0.05, at) / 900) for at in (1, 2, 20, 40)
    }
    assert dict(predicted.course) == pytest.approx(lawful, rel=1e-6)
    assert predicted.error == max(error for _, error in predicted.course)
    once = made(horizon=1)
    assert Mean(once).predict(900).error == pytest.approx(DIAMETER * once.sigma / 30)


# --- a crowd that moves as fast as it can


def error_of(method):
    """Of a coordinate of the mean of `REPORTS`, in diameters."""
    return sqrt(method.variance(20) / REPORTS)


def sums_of(method, means):
    """Supports of crowds with these means (slots, dimension), and the error of them."""
    cells, error = method.mechanism.cells, error_of(method)
    square = means * means + error * error * REPORTS
    return [
        np.concatenate(
            [[REPORTS], np.rint(REPORTS * each * cells), np.rint(REPORTS * both * cells**2)]
        ).astype(np.int64)
        for each, both in zip(means, square, strict=True)
    ]


def clipped(method, means):
    """Whether the last of these slots is told to be clipped."""
    *before, last = sums_of(method, means)
    found = method.crowd_of_slot(last, Slot(len(before), dict(enumerate(before))))
    assert (found.standard_error is None) == (found.reason == CLIPPED)
    return found.reason == CLIPPED


def flagged(method, speed):
    """How many of `STREAMS` crowds are, which move so many steps a slot, in some direction."""
    rng, count = np.random.default_rng(5), 0
    for _ in range(STREAMS):
        way = rng.normal(size=method.dimension)
        way *= speed * method.differential_bound / np.linalg.norm(way)
        moved = way * np.arange(-LOOKED_BACK, 1)[:, None]
        count += clipped(method, moved + rng.normal(0, error_of(method), moved.shape))
    return count


DIMENSIONS, SLOW = [1, 2, 100], {"epsilon": 4.0, "differential_bound": 0.02}


@cases("dimension", DIMENSIONS)
def test_noise_alone_is_no_movement(dimension):
    assert flagged(made(dimension=dimension, **SLOW), 0.0) <= FLAGGED


@cases("dimension", DIMENSIONS)
def test_a_crowd_that_moves_as_fast_as_it_can_states_no_error(dimension):
    """In any direction; in 39 of 40 slots, so in fewer than 41 of 50 once in 10**6 tests."""
    assert flagged(made(dimension=dimension, **SLOW), 1.0) > 0.8 * STREAMS


@cases("dimension", DIMENSIONS)
def test_one_that_is_slower_does(dimension):
    assert flagged(made(dimension=dimension, **SLOW), 0.2) <= FLAGGED


class Noisy(CorrelatedGaussianVector):
    """Takes what noise adds to a length for movement."""

    def _apart(self, now, then, most):
        _, noise = super()._apart(now, then, most)
        return float(np.linalg.norm(now.value - then.value)), noise


class Numbers(CorrelatedGaussianVector):
    """Takes the error of a length for that of a number."""

    def _apart(self, now, then, most):
        apart, _ = super()._apart(now, then, most)
        return apart, min(sqrt(now.variance + then.variance), most)


@cases("broken", [Noisy, Numbers])
def test_others_see_movement_in_noise(broken):
    assert flagged(made(broken, dimension=100, **SLOW), 0.0) > FLAGGED


def test_a_jump_is_seen_until_it_has_come():
    """By vectors of 20,000 users, all of whom jump by .4 diameters at once."""
    method = made(epsilon=12.0, dimension=2, differential_bound=0.02)
    streams = np.zeros((20_000, 40, 2))
    streams[:, 8:] = 0.4 * DIAMETER * np.array([0.6, 0.8])
    released = method.release(streams, lk.randomness.seeded(2)) / DIAMETER
    sums = [method.support(column) for column in released.swapaxes(0, 1)]
    seen = [
        method.crowd_of_slot(sums[at], Slot(at, dict(enumerate(sums[:at])))).reason == CLIPPED
        for at in range(40)
    ]
    assert not any(seen[:8])
    assert sum(seen[8:28]) >= 12
    assert not any(seen[34:])
