"""The choice among mechanisms for categories."""

from __future__ import annotations

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.mechanisms.adaptive import CANDIDATES, EQUAL, FACTOR, adaptive
from tests.cases import cases

EPSILONS = (0.01, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0)
SIZES = (2, 3, 4, 10, 100, 1000, 30000)
GRID = [(epsilon, categories) for epsilon in EPSILONS for categories in SIZES]


def candidates(epsilon, categories):
    """name -> mechanism."""
    made = {}
    for name in CANDIDATES:
        try:
            made[name] = lk.mechanism(name, epsilon=epsilon, categories=categories)
        except lk.ConfigurationError:  # subset_selection of so many
            assert categories > 2**14
    return made


def size(m):
    """Bytes of a report."""
    return getattr(m, "width", 0) or (4 if m.index_range[1] < 2**31 else 8)


@cases(("epsilon", "categories"), GRID)
def test_least_variance(epsilon, categories):
    """Nothing among the candidates is better, and nothing as good is smaller."""
    chosen = adaptive(epsilon, categories)
    for other in candidates(epsilon, categories).values():
        ours, theirs = chosen.variance(1 / categories), other.variance(1 / categories)
        assert ours <= theirs * EQUAL
        assert size(chosen) <= size(other) or ours * EQUAL < theirs * (1 + 1e-9)


@cases(("epsilon", "categories"), GRID)
def test_fewest_bytes(epsilon, categories):
    """Never larger than the least variance's choice, nor 1.25 times as noisy; anything smaller is
    noisier than that.
    """
    best, chosen = adaptive(epsilon, categories), adaptive(epsilon, categories, minimize="bytes")
    limit = FACTOR * best.variance(1 / categories)
    assert size(chosen) <= size(best)
    assert chosen.variance(1 / categories) <= limit
    assert all(
        size(other) >= size(chosen) or other.variance(1 / categories) > limit
        for other in candidates(epsilon, categories).values()
    )


@cases("categories", [2, 4, 20])
@cases("epsilon", [0.5, 3.0])
@cases("name", [*CANDIDATES, "hadamard", "sue"])
def test_variances_are_those_of_the_estimates(name, epsilon, categories):
    """Times the reports: equal frequencies, as nearly as reports can show them."""
    m, n = lk.mechanism(name, epsilon=epsilon, categories=categories), 400 * categories
    values = np.arange(n) % categories
    errors = np.mean(
        [m.estimate(m.perturb(values, lk.randomness.seeded(i))).variance for i in range(20)],
        axis=0,
    )
    assert np.allclose(errors * n, m.variance(1 / categories), rtol=0.05)
    assert np.allclose(
        m.variance(np.array([0.0, 0.5, 1.0])), [m.variance(f) for f in (0.0, 0.5, 1.0)], rtol=1e-12
    )
    assert np.isclose(2 * m.variance(0.5), m.variance(0.0) + m.variance(1.0), rtol=1e-9), (
        "affine in the frequency"
    )


@cases("epsilon", [0.5, 1.0, 2.0, 4.0])
def test_the_papers_rule(epsilon):
    """Nothing beats randomized response for few categories; something does from well above 3
    e^epsilon + 2 on.
    """
    few, many = 3, int(3 * (3 * np.exp(epsilon) + 2))
    grr = [
        lk.mechanism("grr", epsilon=epsilon, categories=categories).variance(1 / categories)
        for categories in (few, many)
    ]
    assert np.isclose(adaptive(epsilon, few).variance(1 / few), grr[0], rtol=1e-3)
    assert adaptive(epsilon, many).variance(1 / many) < 0.9 * grr[1]


def test_it_returns_the_mechanism_itself():
    """The same integers as when it is asked for by name."""
    chosen = lk.mechanism("adaptive", epsilon=8.0, categories=1000)
    assert chosen.tables() == lk.mechanism("grr", epsilon=8.0, categories=1000).tables()


@cases(
    "parameters",
    [
        *(
            {"epsilon": bad, "categories": 4}
            for bad in (0, -1.0, float("nan"), float("inf"), "1", None, True)
        ),
        *({"epsilon": 1.0, "categories": bad} for bad in (1, 0, 2**20 + 1, 4.0, "4", None, True)),
        *({"epsilon": 1.0, "categories": 4, "minimize": bad} for bad in ("Variance", "", None, 1)),
    ],
)
def test_bad_parameters_are_refused(parameters):
    """Before anything is built."""
    with pytest.raises((ValueError, TypeError)):
        lk.mechanism("adaptive", **parameters)
