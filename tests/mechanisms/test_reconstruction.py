"""EM and EMS beside dense matrices, known laws, and what cannot be reconstructed."""

from __future__ import annotations

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.mechanisms import Distribution, Hybrid, Piecewise, SquareWave, reconstruct
from ldp_kafka.mechanisms.reconstruction import SMOOTH, _grid, _smoothed
from ldp_kafka.mechanisms.window import WORD
from tests.cases import cases
from tests.depth import depth

KINDS = [SquareWave, Piecewise, Hybrid]


def dense(m):
    """(outputs, grid points): P[output | point], from the weights that it samples with."""
    return np.array([[w / m._total for w in m._weights(point)] for point in range(m.steps + 1)]).T


def dense_of_bins(m, bins, inner=256):
    """(outputs, bins): the mean law over the values of each bin, by the law itself at ``inner``
    values of it.
    """
    lo, hi = m.domain
    values = lo + (hi - lo) * (np.arange(bins * inner) + 0.5) / (bins * inner)
    laws = [m.law(value) for value in values.tolist()]
    table = np.array([np.array(law.weights, float) / law.denominator for law in laws])
    return table.reshape(bins, inner, -1).mean(1).T


def wasserstein(a, b):
    """Between shares of equal bins, as a share of the domain."""
    return float(np.abs(np.cumsum(a - b)).sum() / len(a))


def reports_of(m, values, seed):
    return m.perturb(values, lk.randomness.seeded(seed))


def beta(n, seed, bins):
    """Values of [0, 1], smoothly distributed, and their own histogram."""
    values = np.random.default_rng(seed).beta(2, 5, n)
    return values, np.histogram(values, bins, (0, 1))[0] / n


# --- the operators


@cases("epsilon", [0.05, 1.0, 4.0, 12.0])
@cases("kind", KINDS)
def test_cumulative_sums_are_the_dense_matrix(kind, epsilon):
    """Both ways, and for more mass than one."""
    m = kind(epsilon, cells=64)
    matrix, rng = dense(m), np.random.default_rng(0)
    points, scores = rng.random(m.steps + 1), rng.normal(size=len(matrix))
    assert m.push(points) == pytest.approx(matrix @ points, abs=1e-12)
    assert m.pull(scores) == pytest.approx(matrix.T @ scores, abs=1e-12)


@cases("bins", [2, 3, 16, 64, 100, 1024])
@cases("kind", KINDS)
def test_bins_are_rounded_as_the_mechanism_rounds(kind, bins):
    """Each bin's share is spread over grid points, whether or not the bins divide the grid, or are
    finer than it.
    """
    m = kind(1.0, cells=64)
    column, weight = _grid(m.steps, bins)
    assert weight.sum(1) == pytest.approx(1.0, abs=1e-12)
    assert weight.min() > -1e-15
    means = (weight * column).sum(1) / m.steps
    assert means == pytest.approx((np.arange(bins) + 0.5) / bins, abs=1e-12)  # without bias


@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_it_is_em_with_the_dense_matrix(kind, smooth):
    """Li et al., section 5, written as it is printed, gives the same shares and likelihoods."""
    m, bins = kind(2.0, (-3.0, 5.0), cells=64), 24
    histogram = m.histogram(reports_of(m, np.random.default_rng(1).normal(0, 1.5, 5000), 1))
    matrix, shares, trail = dense_of_bins(m, bins), np.full(bins, 1 / bins), []
    for _ in range(40):
        chance = matrix @ shares
        trail.append(float(histogram[1:] @ np.log(chance)))
        shares = shares * (matrix.T @ (histogram[1:] / chance))
        shares /= shares.sum()
        if smooth:
            shares = _smoothed(shares)
    found = reconstruct(m, histogram, bins=bins, smooth=smooth, tolerance=0, iterations=40)
    assert found.iterations == 40
    # the law takes values to 2**-16 of a cell, the means above 256 of a bin
    assert found.shares == pytest.approx(shares, abs=1e-5)
    assert found.log_likelihood == pytest.approx(trail, rel=1e-6)


def test_smoothing_is_the_binomial_kernel():
    """(1, 2, 1) / 4; nothing is lost at the ends, and even shares stay even."""
    assert _smoothed(np.array([0, 0, 1.0, 0, 0])).tolist() == [0, 0.25, 0.5, 0.25, 0]
    assert _smoothed(np.array([1.0, 0, 0])).tolist() == [0.75, 0.25, 0]
    assert _smoothed(np.full(7, 1 / 7)) == pytest.approx(np.full(7, 1 / 7))


# --- what it finds


@pytest.mark.parametrize("kind", KINDS)
@cases("epsilon", [0.1, 1.0, 4.0])
def test_likelihood_never_falls_and_converges(kind, epsilon):
    """The theorem behind EM; and it stops by itself, at the tolerance of the paper."""
    m = kind(epsilon, (0.0, 1.0))
    found = m.distribution(reports_of(m, beta(50_000, 2, 256)[0], 2), smooth=False)
    gains = np.diff(found.log_likelihood)
    assert gains.min() > -1e-6
    assert found.converged and found.iterations < 10_000
    assert gains[-1] < SMOOTH * np.exp(epsilon)
    assert (gains[:-1] >= SMOOTH * np.exp(epsilon)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_known_law_is_recovered(kind):
    """Three quarters in one bin, the rest in another: from exact expected counts, within a
    thousandth of the domain.
    """
    m, truth = kind(2.0, (0.0, 1.0)), np.zeros(32)
    truth[[5, 20]] = 0.75, 0.25
    column, weight = _grid(m.steps, 32)
    expected = m.push(np.bincount(column.ravel(), (weight * truth[:, None]).ravel(), m.steps + 1))
    counts = np.rint(expected * 1e9).astype(np.int64)
    found = reconstruct(m, np.concatenate([[counts.sum()], counts]), bins=32, smooth=False)
    assert wasserstein(found.shares, truth) < 1e-3
    assert abs(found.shares - truth).max() < 0.01


@pytest.mark.parametrize("kind", KINDS)
@cases("bins", depth([64, 1000], [64, 256, 1000, 1024]))
def test_a_population_is_recovered(kind, bins):
    """A hundred thousand reports at two nats: within one hundredth of the domain, whatever the
    bins.
    """
    m = kind(2.0, (0.0, 1.0))
    values, truth = beta(100_000, 3, bins)
    for smooth in (False, True):
        found = m.distribution(reports_of(m, values, 3), bins=bins, smooth=smooth)
        assert wasserstein(found.shares, truth) < 0.01
        assert found.shares.sum() == pytest.approx(1)
        assert found.shares.min() >= 0
        assert found.mean == pytest.approx(values.mean(), abs=0.01)


def test_smoothing_is_better_where_the_truth_is_smooth():
    """In Wasserstein distance, averaged over populations."""
    m, far = SquareWave(2.0), {True: 0.0, False: 0.0}
    for seed in range(6):
        values, truth = beta(50_000, seed, 512)
        reports = reports_of(m, values, seed)
        for smooth in far:
            far[smooth] += wasserstein(
                m.distribution(reports, bins=512, smooth=smooth).shares, truth
            )
    assert far[True] < 0.8 * far[False]


def test_domains_are_affine_maps():
    """Edges and density are in the domain's unit; the shares are those of the unit interval."""
    unit, metres = SquareWave(1.0), SquareWave(1.0, (-100.0, 300.0))
    values, _ = beta(20_000, 4, 64)
    one, other = (
        unit.distribution(reports_of(unit, values, 4), bins=64),
        metres.distribution(reports_of(metres, values * 400 - 100, 4), bins=64),
    )
    assert other.edges == pytest.approx(one.edges * 400 - 100)
    assert other.shares == pytest.approx(one.shares, abs=1e-3)
    assert (other.density * np.diff(other.edges)).sum() == pytest.approx(1)
    assert other.mean == pytest.approx(one.mean * 400 - 100, abs=1)


# --- warm starts


@pytest.mark.parametrize("smooth", [False, True])
def test_a_warm_start_needs_fewer_iterations(smooth):
    """From the same slot's result for both; with smoothing from the last slot's too, and to nearly
    the same shares.
    """
    m = SquareWave(1.0)
    last, now = (m.histogram(reports_of(m, beta(100_000, seed, 256)[0], seed)) for seed in (5, 6))
    cold = reconstruct(m, now, smooth=smooth)
    again = reconstruct(m, now, smooth=smooth, start=cold.shares)
    assert again.iterations < cold.iterations
    assert again.log_likelihood[-1] > cold.log_likelihood[-1] - 1
    if smooth:
        warm = reconstruct(m, now, start=reconstruct(m, last).shares)
        assert warm.iterations < cold.iterations
        assert wasserstein(warm.shares, cold.shares) < 0.01


def test_a_start_rules_nothing_out():
    """Bins that were empty in the last slot can fill."""
    m = SquareWave(3.0)
    start = np.zeros(64)
    start[:8] = 1.0
    found = m.distribution(
        reports_of(m, np.full(20_000, 0.8), 7), bins=64, smooth=False, start=start
    )
    assert found.mean == pytest.approx(0.8, abs=0.02)


# --- histograms


@pytest.mark.parametrize("kind", KINDS)
def test_histograms_add_up(kind):
    """Integers, the number of reports first: of a batch what its parts' add up to, in any order."""
    m = kind(1.0)
    reports = reports_of(m, np.linspace(*m.domain, 5000), 8)
    whole = m.histogram(reports)
    assert whole.dtype == np.int64
    assert whole[0] == whole[1:].sum() == 5000
    assert np.array_equal(whole, m.histogram(reports[:999]) + m.histogram(reports[:998:-1]))
    low, high = m.index_range
    assert len(whole) == high - low + 2
    every = m.histogram(np.arange(low, high + 1) * m.scale)
    assert every.tolist() == [high - low + 1, *[1] * (high - low + 1)]


@pytest.mark.parametrize("kind", KINDS)
def test_foreign_reports_are_refused(kind):
    """What lies outside the outputs is of another mechanism."""
    m = kind(1.0)
    low, high = m.index_range
    for index in (low - 1, high + 1):
        with pytest.raises(ValueError, match="within the range"):
            m.histogram(np.array([index * m.scale]))


def test_without_reports_nothing_is_known():
    """NaN, as estimates are; no iterations, not converged."""
    m = SquareWave(1.0)
    found = m.distribution(np.empty(0), bins=16)
    assert np.isnan(found.shares).all() and np.isnan(found.mean)
    assert (found.reports, found.iterations, found.converged) == (0, 0, False)
    assert len(found.edges) == 17


def test_one_report_is_enough_to_run():
    """Its own window, and no warnings."""
    found = SquareWave(1.0).distribution(np.array([0.5]), bins=256)
    assert found.reports == 1
    assert found.shares.sum() == pytest.approx(1)


def test_the_iterations_end():
    """At the number given, and says so."""
    m = SquareWave(1.0)
    found = m.distribution(reports_of(m, beta(1000, 9, 8)[0], 9), tolerance=0.0, iterations=7)
    assert isinstance(found, Distribution)
    assert (found.iterations, found.converged) == (7, False)


# --- parameters


@cases(
    "m",
    [
        lk.mechanism("duchi", epsilon=1.0),
        lk.mechanism("hybrid", epsilon=0.5),
        lk.mechanism("grr", epsilon=1.0, categories=4),
        None,
    ],
)
def test_only_windows_have_distributions(m):
    """Two points tell a mean only; categories have frequencies."""
    with pytest.raises(TypeError, match="square_wave"):
        reconstruct(m, np.zeros(5, np.int64))


@cases(
    "parameters",
    [
        {"bins": 1},
        {"bins": 2**14 + 1},
        {"bins": 64.0},
        {"bins": True},
        {"bins": None},
        {"smooth": 1},
        {"smooth": None},
        {"tolerance": -1e-9},
        {"tolerance": float("nan")},
        {"tolerance": float("inf")},
        {"tolerance": True},
        {"tolerance": "1"},
        {"iterations": 0},
        {"iterations": 1.5},
        {"iterations": False},
        {"start": np.ones(255)},
        {"start": np.zeros(256)},
        {"start": np.full(256, np.nan)},
        {"start": np.full(256, np.inf)},
        {"start": -np.ones(256)},
        {"start": np.ones((256, 1))},
    ],
)
def test_bad_parameters_are_refused(parameters):
    """By name."""
    with pytest.raises((ValueError, TypeError), match=next(iter(parameters))):
        SquareWave(1.0).distribution(np.array([0.5]), **parameters)


@cases(
    ("change", "error"),
    [
        (lambda h: h[1:], ValueError),
        (lambda h: h.astype(float), TypeError),
        (
            lambda h: h + np.eye(1, len(h), 0, np.int64)[0],
            ValueError,
        ),  # says one report more than it holds
        (
            lambda h: (
                h
                - np.eye(1, len(h), 3, np.int64)[0] * (h[3] + 1)
                - np.eye(1, len(h), 0, np.int64)[0] * (h[3] + 1)
            ),
            ValueError,
        ),  # a count below zero
        (lambda h: h.reshape(1, -1), ValueError),
    ],
)
def test_bad_histograms_are_refused(change, error):
    """They must be counts of this mechanism's outputs."""
    m = SquareWave(1.0)
    with pytest.raises(error, match="histogram"):
        reconstruct(m, change(m.histogram(np.array([0.25, 0.5]))))


def test_words_left_over_are_in_the_model():
    """The highest output has them for every input."""
    m = Piecewise(8.0)
    assert m._left > 0
    assert m.push(np.eye(1, m.steps + 1, 0)[0])[-1] == pytest.approx(
        (m._far + m._left) / WORD, rel=1e-12
    )
