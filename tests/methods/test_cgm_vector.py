"""CGM and its baselines for vectors: the ball, the clipping along a line, the law in every
coordinate, and twins that must die.
"""

from __future__ import annotations

from math import inf, nan, sqrt

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.accounting.composition import gaussian_delta, gaussian_epsilon
from ldp_kafka.checks.sources import KEY, Recorder
from ldp_kafka.evaluation.cgm import law
from ldp_kafka.methods import (
    CorrelatedGaussianVector,
    GaussianDifferentialVector,
    GaussianDirectVector,
)
from ldp_kafka.methods.ball import VectorChain
from ldp_kafka.methods.base import FIXED, REFUSED, SENT
from ldp_kafka.methods.batch import Batch
from ldp_kafka.methods.cgm import reuse_ratios
from ldp_kafka.methods.chain import RATIO
from ldp_kafka.randomness import keyed
from tests.cases import cases
from tests.methods.lifelong import Spy

VECTOR = {"epsilon": 1.0, "delta": 1e-5, "horizon": 14}
SHAPES = [
    {"dimension": 1},
    {"dimension": 2, "diameter": 6.0},
    {"dimension": 3, "lag": 3},
    {"dimension": 20, "differential_bound": 0.3},
    {"dimension": 40},
]
LIVES = [
    *((CorrelatedGaussianVector, shape) for shape in SHAPES),
    *((GaussianDifferentialVector, SHAPES[at]) for at in (0, 1, 3, 4)),
    *((GaussianDirectVector, SHAPES[at]) for at in (0, 1, 4)),
]


def pairs(slots, dimension, rng):
    """Pairs of streams (n, 2, slots, dimension) in units of the diameter: opposite ends, walks
    apart and together, corners of cubes, jumps along one coordinate, and beyond the ball.
    """
    few = 30
    poles = rng.normal(size=(few, dimension))
    poles /= 2 * np.linalg.norm(poles, axis=1, keepdims=True)
    t = np.arange(slots)[:, None]
    still = np.repeat(poles[:, None], slots, axis=1)
    flips = still * np.where(t % 2, 1, -1)
    slow = still * np.where((t // 3) % 2, 1, -0.4)
    edges = np.zeros_like(still)
    edges[..., 0] = np.where(t[:, 0] % 2, 0.5, -0.5)
    cubes = rng.choice([-0.5, 0.5], size=(few, slots, dimension))
    walks = np.cumsum(rng.normal(0, 0.05, (few, slots, dimension)), axis=1)
    outside = rng.normal(size=(few, slots, dimension)) * 3
    kinds = np.concatenate([still, flips, slow, edges, cubes, walks, outside])
    mates = rng.permutation(len(kinds))
    return np.concatenate([np.stack([kinds, -kinds], 1), np.stack([kinds, kinds[mates]], 1)])


def moves(kind, present=1.0, **parameters):
    """How far the draws' means of two streams are apart, (n, slots), in diameters; and the method
    and its mechanism.
    """
    spies = []

    def factory(*args):
        spies.append(Spy(lk.MECHANISMS["gaussian_vector"](*args)))
        return spies[-1]

    method = kind(mechanism=factory, **VECTOR, **parameters)
    rng = np.random.default_rng(3)
    slots = 2 * method.horizon
    streams = pairs(slots, method.dimension, rng)
    flat = streams.reshape(-1, slots, method.dimension) * method.diameter
    source = keyed(KEY)
    state = method.state(source.digests([str(i) for i in range(len(flat))]))
    given = []
    for t in np.flatnonzero(rng.random(slots) < present):
        step = method.step(
            state, Batch(np.arange(len(flat)), int(t), method.bound(flat[:, t]), source)
        )
        if (step.status == SENT).all():
            given.append(spies[-1].inputs[-1])
    assert len(given) == min(method.horizon, len(given))
    apart = np.linalg.norm(np.stack(given, 1)[0::2] - np.stack(given, 1)[1::2], axis=2)
    return apart, method, spies[-1]


@pytest.mark.parametrize("present", [1.0, 0.6])
@pytest.mark.parametrize(("kind", "shape"), LIVES, ids=str)
def test_draws_move_within_the_budget(kind, shape, present):
    """No draw's mean by more than a diameter, whatever two users' vectors were; and what all lose
    together, with the grid that a vector is rounded to, is what is stated.
    """
    apart, method, spy = moves(kind, present, **shape)
    assert apart.max() <= 1 + 1e-7
    assert apart.max() > 0.9
    grid = 1 + sqrt(method.dimension) / spy.cells
    assert (
        gaussian_epsilon(sqrt(method.horizon) * grid / spy.sigma, method.delta)
        <= method.guarantee.epsilon
        == 1.0
    )
    assert (
        gaussian_delta(1.0, float((apart**2).sum(1).max()) ** 0.5 * grid / spy.sigma)
        <= method.delta
    )


class _Cube(VectorChain):
    """Clips every coordinate by itself."""

    def _clipped(self, values, turn, around):
        return np.where(
            turn[:, None] == 0,
            values,
            np.clip(values, around - self._radius, around + self._radius),
        )


class _Still(VectorChain):
    """Forgets to clip where a coordinate alone is within C."""

    def _clipped(self, values, turn, around):
        near = np.abs(values - around) <= self._radius
        return np.where(near, values, super()._clipped(values, turn, around))


class _Wide(VectorChain):
    """C a radius, not a share of the diameter."""

    def __init__(self, *args):
        super().__init__(*args)
        self._radius *= 2


@pytest.mark.parametrize(
    ("chain", "shape"),
    [(_Cube, {"dimension": 20}), (_Still, {"dimension": 20}), (_Wide, {"dimension": 2})],
)
def test_mutant_dies(chain, shape):
    class Mutant(CorrelatedGaussianVector):
        def _chain(self):
            units = int(self.differential_bound * FIXED)
            return chain(
                self.dimension, reuse_ratios(units / FIXED), units, self.calibration, self.lag
            )

    apart, _, _ = moves(Mutant, **shape)
    assert apart.max() > 1.05


class _Forgets(VectorChain):
    """Clips nothing, and calls what vectors differ by bounded."""

    def _clipped(self, values, turn, around):
        return values


@pytest.mark.parametrize("chain", [_Cube, _Still, _Wide, _Forgets])
def test_mutants_of_the_differential_die(chain):
    class Mutant(GaussianDifferentialVector):
        def _chain(self):
            units = int(self.differential_bound * FIXED)
            return chain(self.dimension, [0, RATIO], units, self.calibration, 1)

    apart, _, _ = moves(Mutant, dimension=20)
    assert apart.max() > 1.05


def test_published_differences_lose_what_is_stated():
    """Eq. 23 clips around raw vectors: steps of up to 1 - 2 C, which its noise does not cover."""
    apart, method, spy = moves(GaussianDifferentialVector, dimension=2, calibration="published")
    grid = 1 + sqrt(2) / spy.cells
    assert apart.max() <= 1 + 1e-7
    assert gaussian_epsilon(sqrt(method.horizon) * grid / spy.sigma, method.delta) <= (
        method.guarantee.epsilon
    )
    assert method.guarantee.epsilon > 3


@pytest.mark.parametrize("name", ["cgm", "gaussian_differential"])
def test_one_dimension_is_that_of_numbers(name):
    """What is clipped is what it is of numbers on the same values, from another origin."""
    values = np.random.default_rng(1).random((40, 12))
    numbers, vectors = (
        lk.method(name, **VECTOR, domain=(-0.5, 0.5)),
        lk.method(f"{name}_vector", **VECTOR, dimension=1),
    )
    states = [
        m.state(lk.randomness.seeded(1).digests([str(i) for i in range(40)]))
        for m in (numbers, vectors)
    ]
    for t in range(12):
        numbers.step(
            states[0],
            Batch(np.arange(40), t, numbers.bound(values[:, t] - 0.5), lk.randomness.seeded(1)),
        )
        vectors.step(
            states[1],
            Batch(
                np.arange(40), t, vectors.bound(values[:, t, None] - 0.5), lk.randomness.seeded(1)
            ),
        )
        kept = states[0].columns["kept"][0][:40] - FIXED // 2
        # units of 2**-32: rounding towards the last one
        assert np.abs(kept - states[1].columns["kept"][0][:40]).max() <= 14


@pytest.mark.parametrize("dimension", [2, 5])
@pytest.mark.parametrize("name", ["cgm", "gaussian_differential", "gaussian_direct"])
def test_variance_law_in_every_coordinate(name, dimension):
    """Within six standard errors at each report, unbiased, and coordinates apart from
    each other.
    """
    m, users = lk.method(f"{name}_vector", **VECTOR, dimension=dimension, diameter=4.0), 12_000
    point = np.full(dimension, 1.0 / dimension)
    noise = (m.release(np.tile(point, (users, 14, 1)), lk.randomness.seeded(5)) - point) / (
        m.sigma * m.diameter
    )
    expected = np.array([law(name, 0.05, i) for i in range(1, 15)])[:, None]
    assert (np.abs((noise**2).mean(0) / expected - 1) < 6 * sqrt(2 / users)).all()
    assert (np.abs(noise.mean(0)) / np.sqrt(expected) < 6 / sqrt(users)).all()
    assert abs((noise[:, 9, 0] * noise[:, 9, 1]).mean()) / expected[9, 0] < 6 / sqrt(users)


def test_a_jump_is_followed_along_the_line():
    m = lk.method("cgm_vector", **VECTOR, dimension=2, diameter=2.0)
    state, source = m.state(np.zeros((1, 2), np.uint64)), lk.randomness.seeded(1)
    for t, expected in enumerate([0.0, 0.1, 0.2, 0.3]):
        target = np.zeros(2) if t == 0 else np.array([0.6, 0.8])
        m.step(state, Batch(np.array([0]), t, m.bound(target[None]), source))
        assert state.columns["kept"][:2, 0] / FIXED * 2 == pytest.approx(
            expected * np.array([0.6, 0.8]), abs=1e-8
        )


def test_release_is_step_in_any_order_and_silent_after_the_horizon():
    m = lk.method("cgm_vector", **VECTOR, dimension=3, lag=2)
    streams = np.random.default_rng(2).normal(size=(6, 20, 3)) / 4
    ids = [f"user-{i}" for i in range(6)]
    whole = m.release(streams, keyed(KEY), users=ids, first_slot=3)
    assert np.isnan(whole[:, 14:]).all() and not np.isnan(whole[:, :14]).any()
    assert np.array_equal(
        m.release(streams[2], keyed(KEY), users=ids[2:3], first_slot=3), whole[2], equal_nan=True
    )
    assert not np.array_equal(
        m.release(streams, keyed(KEY[::-1]), users=ids, first_slot=3), whole, equal_nan=True
    )
    source = Recorder(keyed(KEY))
    state = m.state(source.digests(ids))
    for t in range(20):
        rows = np.roll(np.arange(6), t)
        step = m.step(state, Batch(rows, 3 + t, m.bound(streams[rows, t]), source))
        assert np.array_equal(m.published(step), whole[rows, t], equal_nan=True)
        assert (step.status == (SENT if t < 14 else REFUSED)).all()
    assert len(source.draws) == len(set(source.draws)) == 6 * 14


def test_vectors_are_held_in_the_ball():
    m = lk.method("cgm_vector", **VECTOR, dimension=3, diameter=2.0)
    bound = m.bound(
        np.array(
            [
                [3.0, 4.0, 0.0],
                [1e300, 1e300, 1e300],
                [0.1, 0.2, 0.3],
                [0.0, 0.0, 0.0],
                [-1.0, 0.0, 0.0],
            ]
        )
    ) / (FIXED / 2)
    assert bound == pytest.approx(
        np.array([[0.6, 0.8, 0.0], [3**-0.5] * 3, [0.1, 0.2, 0.3], [0.0] * 3, [-1.0, 0.0, 0.0]]),
        abs=1e-9,
    )
    for bad in (
        np.zeros(3),
        np.zeros((2, 2)),
        np.array([[0.0, nan, 0.0]]),
        np.array([[inf, 0.0, 0.0]]),
    ):
        with pytest.raises(ValueError):
            m.bound(bad)


def test_sigma_that_is_fixed_pays_for_the_grid():
    m = lk.method("cgm_vector", epsilon=1.0, delta=1e-5, sigma=10.0, dimension=50)
    grid = 1 + sqrt(50) / m.mechanism.cells
    assert gaussian_epsilon(sqrt(m.horizon) * grid / m.mechanism.sigma, 1e-5) <= 1.0
    assert m.guarantee.window == m.horizon < 8


@cases(
    "wrong",
    [
        {"dimension": 0}, {"dimension": 128}, {"dimension": True}, {"dimension": 2.0},
        {"diameter": 0.0}, {"diameter": inf}, {"diameter": nan}, {"diameter": True},
        {"domain": (0.0, 1.0)}, {"change": "multiplicative"}, {"mechanism": "gaussian"},
        {"differential_bound": 0.5}, {"categories": 3},
    ],
)  # fmt: skip
def test_wrong_parameters_are_refused(wrong):
    with pytest.raises((TypeError, ValueError)):
        lk.method("cgm_vector", **{**VECTOR, "dimension": 2} | wrong)
