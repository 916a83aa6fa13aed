"""Statistics of a crowd from releases per user."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.evaluation.metrics import wasserstein
from ldp_kafka.methods.crowd import Crowd, distribution, means
from ldp_kafka.methods.priors import Prior, matched
from ldp_kafka.methods.shrinkage import shrink
from tests.cases import cases

UNIT = (0.0, 1.0)


@pytest.mark.parametrize("name", ["sw_direct", "capp"])
def test_means_are_spread_as_the_users_are(name):
    """Nearer to the true distribution of the users' means than the released means, and than shrunk
    ones.
    """
    m = lk.method(name, epsilon=20.0, window=5, domain=UNIT)
    truth = np.random.default_rng(1).beta(2, 5, 5000)
    released = m.release(np.repeat(truth[:, None], 5, axis=1), lk.randomness.seeded(1))
    found = wasserstein(means(m, released).values, truth)
    assert found < 0.6 * wasserstein(released.mean(axis=1), truth)
    assert found < 0.8 * wasserstein(shrink(m, released).values, truth)


NORMAL = 3.0


def own_rule(prior, mean, variance, kurtosis):
    """The broken twin: the prior's, whatever reports tell."""
    del mean, kurtosis
    return prior.mean, sqrt(prior.variance / variance)


def is_worse(rule):
    """Whether a rule leaves a mean or a spread that may be farther from the truth than what is
    released; over priors, and all truths that are within two standard errors.
    """
    rng = np.random.default_rng(1)
    for _ in range(300):
        mean, error, known, more, given, spread = rng.uniform(0, 0.3, 6)
        prior = Prior(0.3 + mean, error / 3, known**2, (known + more) ** 2)
        centre, gain = rule(prior, 0.3 + given, spread**2, NORMAL)
        truths = prior.mean + np.linspace(-2, 2, 9) * prior.mean_error
        if (abs(centre - truths) > abs(0.3 + given - truths) + 1e-12).any():
            return True
        truths = np.linspace(0, known + more, 9)
        if (abs(gain * spread - truths) > abs(spread - truths) + 1e-12).any():
            return True
    return False


def test_a_crowd_is_never_moved_away_from_where_it_may_be():
    """And is moved where reports tell. A broken twin is found."""
    assert not is_worse(matched)
    assert is_worse(own_rule)
    told, nothing = Prior(0.3, 0.01, 0.01, 0.0121), Prior(0.3, 0.2, 0.0, 0.2)
    assert matched(told, 0.5, 0.04, NORMAL) == (pytest.approx(0.3), pytest.approx(0.5))
    assert matched(told, 0.5, 0.04, 9.0) == (0.5, 1.0)
    assert matched(nothing, 0.5, 0.04, NORMAL) == (0.5, 1.0)


@cases("epsilon", [0.5, 2.0, 8.0, 32.0])
@pytest.mark.parametrize("name", ["sw_direct", "capp"])
def test_means_are_never_worse_than_the_papers_rule(name, epsilon):
    """Of crowds in the middle and at an end, wide and narrow; but for two thousandths of the
    domain, since noise and values have not quite one shape.
    """
    m = lk.method(name, epsilon=epsilon, window=5, domain=UNIT)
    rng = np.random.default_rng(3)
    for middle, spread in ((0.5, 0.15), (0.25, 0.05), (0.8, 0.08)):
        truth = np.clip(rng.normal(middle, spread, 1500), 0, 1)
        released = m.release(np.repeat(truth[:, None], 5, axis=1), lk.randomness.seeded(4))
        raw = wasserstein(released.mean(axis=1), truth)
        assert wasserstein(means(m, released).values, truth) < raw + 0.002


def test_whose_they_are_is_gone():
    """Values are in order, so that a row says nothing of its user."""
    m = lk.method("capp", epsilon=20.0, window=5, domain=UNIT)
    found = means(
        m, m.release(np.random.default_rng(2).uniform(size=(50, 5)), lk.randomness.seeded(2))
    )
    assert (np.diff(found.values) >= 0).all()


def test_quantiles_and_histogram():
    """As numpy has them, over the domain."""
    crowd = Crowd(np.array([0.0, 1.0, 2.0, 3.0, 10.0]), (0.0, 10.0))
    assert crowd.quantiles([0.5, 1.0]).tolist() == [2.0, 10.0]
    shares, edges = crowd.histogram(5)
    assert shares.tolist() == pytest.approx([0.4, 0.4, 0.0, 0.0, 0.2])
    assert edges.tolist() == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]


def test_values_behind_reports():
    """Half of them at each of two places, found by EM; a gap is no value."""
    m = lk.method("sw_direct", epsilon=4.0, window=1, domain=(-10.0, 10.0))
    values = np.repeat([-7.0, 5.0], 20_000)[:, None]
    released = m.release(values, lk.randomness.seeded(3))
    released[::50] = np.nan
    found = distribution(m, released, bins=10, smooth=False)
    assert found.reports == 40_000 * 49 // 50
    assert (found.edges[0], found.edges[-1]) == (-10, 10)
    assert found.shares[1] == pytest.approx(0.5, abs=0.03)
    assert found.shares[7] == pytest.approx(0.5, abs=0.03)
    with_bias = np.histogram(released[~np.isnan(released)], bins=found.edges)[0] / found.reports
    assert wasserstein_of(found.shares, values, found.edges) < 0.25 * wasserstein_of(
        with_bias, values, found.edges
    )


def wasserstein_of(shares, values, edges):
    """Between shares of bins and the bins of the values."""
    return float(
        np.abs(np.cumsum(shares - np.histogram(values, bins=edges)[0] / values.size)).sum()
    )


@cases(
    ("name", "mechanism"),
    [
        ("capp", "square_wave"),
        ("ipp", "square_wave"),
        ("sw_direct", "laplace"),
        ("sw_direct", "duchi"),
    ],
)
def test_what_has_no_distribution(name, mechanism):
    """Reports of aims, and mechanisms without order."""
    m = lk.method(name, epsilon=4.0, window=2, domain=UNIT, mechanism=mechanism)
    with pytest.raises(ConfigurationError):
        distribution(m, np.array([0.5]))
