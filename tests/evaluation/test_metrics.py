"""Metrics beside well-known implementations, and their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.spatial import distance

from ldp_kafka.evaluation.metrics import (
    auc,
    cosine_distance,
    jensen_shannon,
    mean_error,
    roc,
    wasserstein,
)


@pytest.fixture
def rng():
    return np.random.default_rng(1)


def test_mean_error_is_of_means(rng):
    """Noise that cancels within a window costs nothing."""
    truth = rng.uniform(size=(30, 8))
    noise = rng.normal(size=(30, 8))
    assert mean_error(truth + noise, truth) == pytest.approx((noise.mean(axis=1) ** 2).mean())
    assert mean_error(truth + noise - noise.mean(axis=1, keepdims=True), truth) < 1e-30


def test_cosine_distance(rng):
    """As scipy's, averaged over pairs; pairs without a direction are left out."""
    a, b = rng.normal(size=(2, 20, 5))
    assert cosine_distance(a, b) == pytest.approx(
        np.mean([distance.cosine(x, y) for x, y in zip(a, b, strict=True)])
    )
    assert cosine_distance(
        np.vstack([a, np.zeros(5)]), np.vstack([b, np.ones(5)])
    ) == pytest.approx(cosine_distance(a, b))
    assert np.isnan(cosine_distance(np.zeros(3), np.ones(3)))


@pytest.mark.parametrize(("n", "m"), [(1, 1), (7, 7), (40, 13), (5, 500)])
def test_wasserstein(rng, n, m):
    """As scipy's, ties among the values too."""
    a, b = rng.integers(0, 9, n) / 4, rng.normal(size=m).round(1)
    assert wasserstein(a, b) == pytest.approx(stats.wasserstein_distance(a, b))
    assert wasserstein(b, a) == pytest.approx(wasserstein(a, b))
    assert wasserstein(a + 3, a) == pytest.approx(3)


def test_jensen_shannon(rng):
    """The square of scipy's distance, in bits; a zero share counts nothing."""
    p, q = rng.integers(0, 5, (2, 12)).astype(float)
    assert jensen_shannon(p, q) == pytest.approx(distance.jensenshannon(p, q, base=2) ** 2)
    assert jensen_shannon(p, p) == 0


def test_auc_is_the_chance_of_a_higher_score(rng):
    """Over all pairs, ties half; a curve runs from corner to corner and never turns back."""
    scores, cases = rng.integers(0, 12, 300) / 3, rng.random(300) < 0.3
    scores[cases] += 1 / 3
    above = scores[cases][:, None] - scores[~cases]
    assert auc(scores, cases) == pytest.approx((above > 0).mean() + (above == 0).mean() / 2)
    assert auc(-scores, cases) == pytest.approx(1 - auc(scores, cases))
    curve = roc(scores, cases)
    assert (np.diff(curve.false_positive) >= 0).all() and (np.diff(curve.true_positive) >= 0).all()
    assert (curve.false_positive[[0, -1]] == [0, 1]).all() and (
        curve.true_positive[[0, -1]] == [0, 1]
    ).all()
    for threshold, wrong, found in zip(
        curve.thresholds, curve.false_positive, curve.true_positive, strict=True
    ):
        assert (scores[~cases] >= threshold).mean() == pytest.approx(wrong)
        assert (scores[cases] >= threshold).mean() == pytest.approx(found)


@pytest.mark.parametrize(
    ("metric", "a", "b"),
    [
        (mean_error, [[1.0]], [[1.0, 2.0]]),
        (mean_error, [[np.nan]], [[1.0]]),
        (cosine_distance, [], []),
        (wasserstein, [], [1.0]),
        (wasserstein, [1.0], [np.inf]),
        (jensen_shannon, [1.0, -1.0], [1.0, 1.0]),
        (jensen_shannon, [0.0, 0.0], [1.0, 1.0]),
        (jensen_shannon, [1.0], [1.0, 1.0]),
        (roc, [1.0, 2.0], [True, True]),
        (roc, [1.0, np.nan], [True, False]),
        (roc, [1.0], [True, False]),
    ],
)
def test_what_is_refused(metric, a, b):
    """Shapes that differ, what is empty or no number, cases of one kind."""
    with pytest.raises(ValueError):
        metric(a, b)
