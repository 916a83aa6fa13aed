"""What is predicted of the protocols against what they do, on streams whose statistic moves."""

from __future__ import annotations

from functools import cache
from itertools import combinations
from math import sqrt
from types import SimpleNamespace

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.evaluation.ldp_ids.simulation import simulate
from ldp_kafka.methods.protocols import prediction
from ldp_kafka.methods.protocols.prediction import LONGEST, Crowd, Variances, predict
from tests.cases import cases
from tests.methods.protocols.streams import ADAPTIVE, ALL

FACTOR = 1.25  # between what is predicted and what is found
APART = 1.3  # errors that differ by less are in no order
NUMBERS = SimpleNamespace(
    users=500,
    slots=1000,
    given={"epsilon": 2.0, "window": 6, "domain": (-5.0, 15.0)},
    oracle="duchi",
)
CATEGORIES = SimpleNamespace(
    users=500, slots=1000, given={"epsilon": 2.0, "window": 6, "categories": 3}, oracle="grr"
)
MOVES = [0.0, 0.03]


def walked(rng, slots, drift):
    """A random walk within 0.1 and 0.9 that turns at its ends."""
    path = 0.45 + np.cumsum(drift * rng.standard_normal(slots))
    return 0.1 + np.abs((path - 0.1 + 0.8) % 1.6 - 0.8)


def shuffled(rng, users, slots):
    """Evenly spread numbers of 0..1, in each slot of other users: a sample's error is then another
    one in every slot, and its mean square is met sooner.
    """
    ranks = np.tile(((np.arange(users) + 0.5) / users)[:, None], slots)
    return rng.permuted(ranks, axis=0)


def numbers(rng, users, slots, drift):
    """Values over all of the domain, whose mean walks; and that mean."""
    mean = walked(rng, slots, drift)
    ranks = shuffled(rng, users, slots)
    values = ranks ** ((1 - mean) / mean)  # of a uniform number u, u^k has mean 1 / (k+1)
    return -5 + 20 * values, -5 + 20 * values.mean(0)[:, None]


def categories(rng, users, slots, drift):
    """Categories whose frequencies walk; and these."""
    shares = np.full((slots, 3), 1 / 3)
    for t in range(1, slots):
        step = rng.standard_normal(3)
        moved = np.abs(shares[t - 1] + drift * sqrt(3 / 2) * (step - step.mean()))
        shares[t] = moved / moved.sum()
    ranks = shuffled(rng, users, slots)
    values = (ranks > np.cumsum(shares, 1)[:, 0]) + (ranks > np.cumsum(shares, 1)[:, 1]).astype(int)
    return values, np.stack([(values == each).mean(0) for each in range(3)], 1)


def made(case, name):
    return lk.protocol(name, oracle=case.oracle, **case.given)


def scale(case):
    return 20.0 if case is NUMBERS else 1.0


@cache
def found(kind, name, move):
    """(root mean square error, publications) of a run: of numbers over all users, of categories
    over their counts, which has the same law.
    """
    case, stream = (NUMBERS, numbers) if kind == "numbers" else (CATEGORIES, categories)
    values, truth = stream(np.random.default_rng(8), case.users, case.slots, move)
    if kind == "numbers":
        trace = made(case, name).run(values, lk.randomness.seeded(4), with_spent=False)
    else:
        counts = np.rint(truth * case.users).astype(np.int64)
        trace = simulate(made(case, name), counts, np.random.default_rng(4))
    skip = 2 * case.given["window"]
    return (
        float(np.sqrt(np.mean((trace.values - truth)[skip:] ** 2))),
        float(np.mean(trace.strategy[skip:] == "publish")),
    )


def case_of(kind):
    return NUMBERS if kind == "numbers" else CATEGORIES


def told(kind, name, move):
    case = case_of(kind)
    return predict(made(case, name), Crowd(case.users, move * scale(case)))


@pytest.mark.parametrize("kind", ["numbers", "categories"])
@cases("move", MOVES)
@cases("name", ALL)
def test_the_predicted_error_is_the_one_found(kind, name, move):
    """And so is the share of slots in which something is published."""
    expected, (error, publications) = told(kind, name, move), found(kind, name, move)
    assert 1 / FACTOR < expected.error / error < FACTOR, (name, move, expected, error)
    assert abs(expected.publications - publications) < 0.08, (name, move, expected, publications)


@pytest.mark.parametrize("kind", ["numbers", "categories"])
@cases("move", MOVES)
def test_the_order_of_the_protocols_is_the_one_found(kind, move):
    """Of each two whose errors differ: so the one that a plan names is the right one."""
    pairs = 0
    for one, other in combinations(ALL, 2):
        ratio = told(kind, one, move).error / told(kind, other, move).error
        if not 1 / APART < ratio < APART:
            pairs += 1
            assert (found(kind, one, move)[0] < found(kind, other, move)[0]) == (ratio < 1)
    assert pairs >= 10


BROKEN = {
    "everybody reports": ("_sampled", lambda law, spread, reports, users: law / users),
    "nothing moves": ("_moved", lambda slots, drift, wander: 0.0),
    "no error is left": ("_longer", lambda length, variance, free, along, across: length),
}


@cases("how", sorted(BROKEN))
def test_a_wrong_prediction_would_be_found(how):
    """Each of these is off by more than the factor for some protocol and move."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prediction, *BROKEN[how])
        off = [
            told("numbers", each, move).error / found("numbers", each, move)[0]
            for each in ALL
            for move in MOVES
        ]
    assert any(not 1 / FACTOR < each < FACTOR for each in off)


def test_a_prediction_is_the_same_each_time():
    assert told("numbers", "lpa", 0.004) == told("numbers", "lpa", 0.004)


@cases("name", ALL)
def test_more_users_and_more_budget_help(name):
    still = Crowd(1000, 0.0)
    errors = [
        predict(lk.protocol(name, epsilon=epsilon, window=6, categories=3, oracle="grr"), crowd)
        for epsilon, crowd in ((1.0, still), (1.0, Crowd(100_000, 0.0)), (4.0, still))
    ]
    assert errors[0].error > 5 * errors[1].error
    assert errors[0].error > 1.5 * errors[2].error


@cases("name", ALL)
def test_what_moves_faster_is_held_worse(name):
    errors = [told("numbers", name, move).error for move in (0.0, 0.1)]
    assert (errors[1] > 1.1 * errors[0]) == (name not in ("lbu", "lpu")), errors
    assert errors[1] > 0.95 * errors[0]


@cases("oracle", ["duchi", "hybrid", "laplace", "piecewise", "square_wave"])
def test_variances_between_costs_are_interpolated(oracle):
    """Within 3 % of those of the mechanism of that cost, and below the least by the square."""
    terms = lk.protocol("lbu", epsilon=2.0, window=10, domain=(0.0, 5.0), oracle=oracle).terms
    known = Variances(terms.oracle, 100_000, 2_000_000)
    for cost in (20_000, 130_000, 700_000, 1_999_999):
        assert known.worst(cost) == pytest.approx(terms.oracle.variance(cost), rel=0.03)
        assert known.mean(cost) <= known.worst(cost)


def test_the_variance_of_values_spread_evenly_is_their_mean():
    terms = lk.protocol("lbu", epsilon=1.0, window=1, domain=(0.0, 1.0), oracle="duchi").terms
    known = Variances(terms.oracle, 1_000_000, 1_000_000)
    c = (np.e + 1) / (np.e - 1)
    assert known.worst(1e6) == pytest.approx(c * c / 4, rel=1e-3)
    assert known.mean(1e6) == pytest.approx((c * c - 1 / 3) / 4, rel=0.01)


@cases("name", ADAPTIVE)
def test_a_window_that_is_too_long_to_simulate_is_refused(name):
    long = lk.protocol(name, epsilon=50.0, window=LONGEST + 1, categories=2, oracle="grr")
    with pytest.raises(ConfigurationError, match="window must be at most 1024"):
        predict(long, Crowd(10, 0.0))


@cases(("users", "drift"), [(0, 0.1), (10, -0.1), (10, float("nan")), (10, float("inf"))])
def test_what_a_crowd_must_be(users, drift):
    with pytest.raises(ConfigurationError, match=r"users|drift"):
        Crowd(users, drift)


def test_a_distribution_is_refused():
    binned = lk.protocol(
        "lpu", epsilon=1.0, window=2, domain=(0.0, 1.0), bins=8, oracle="square_wave"
    )
    with pytest.raises(ConfigurationError, match="not bins"):
        predict(binned, Crowd(10, 0.0))
