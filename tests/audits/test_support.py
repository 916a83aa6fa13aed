"""Are the same reports possible?"""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.audits import audit, compare_laws, compare_supports
from ldp_kafka.audits.support import view_of_laws
from ldp_kafka.mechanisms.base import Law


def test_laws_of_ours_are_the_same():
    """For inputs on the grid and between."""
    m = lk.mechanism("square_wave", epsilon=1.0, domain=(0.0, 1.0))
    found = compare_laws(m.law(0.0), m.law(0.7310585), claimed=1.0)
    assert (found.epsilon_lower, found.alpha) == (0.0, 0.0)
    assert found.event == "the same reports are possible for both inputs"


def test_one_report_too_many():
    """Of any weight: infinite, unless delta pays for it."""
    a, b = Law(np.array([0, 1, 2]), [5, 4, 1], 10), Law(np.array([0, 1]), [5, 5], 10)
    assert compare_laws(a, b, claimed=1.0).epsilon_lower == inf
    assert compare_laws(b, a, claimed=1.0).direction == "second"
    assert compare_laws(a, b, claimed=1.0, delta=0.1).epsilon_lower == 0
    # a weight of 0 is no report
    assert compare_laws(a, Law(np.array([0, 1, 2]), [5, 5, 0], 10)).epsilon_lower == inf


def test_audit_asks_the_law_first():
    """A mechanism whose stated law already breaks its promise need not be sampled."""

    class Lopsided:
        epsilon, categories = 1.0, 2

        def law(self, value):
            return Law(np.array([value, 2]), [1, 1], 2)

        def perturb(self, values, randomness):
            raise AssertionError

    found = audit(Lopsided(), 0, 1)
    assert found.violated
    assert found.alpha == 0


def test_black_boxes_statistically():
    """Seen often for one input, never for the other, in reports that the event was not
    chosen from.
    """
    rng = np.random.default_rng()
    first, second = rng.integers(0, 10, 100_000), rng.integers(0, 9, 100_000)
    found = compare_supports(first, second, claimed=1.0)
    assert found.violated
    assert found.event in {"values equal to 9", "values of at least 9"}
    assert found.likelier.hits > 4000
    assert found.other.hits == 0
    assert found.other.bound < 4e-4
    same = compare_supports(*rng.integers(0, 10, (2, 100_000)), claimed=0.1, alpha=1e-6)
    assert not same.violated


@pytest.mark.parametrize(
    ("name", "parameters", "least"),
    [
        ("olh", {"categories": 10}, 0.7),
        ("grr", {"categories": 1000}, 0.2),
        ("square_wave", {}, 0.9),
    ],
)
def test_the_law_shows_where_to_look(name, parameters, least):
    """Local hashing has as many reports as functions: only its law tells which of them tell."""
    m = lk.mechanism(name, epsilon=1.0, **parameters)
    ends = (0, parameters["categories"] - 1) if parameters else (0.0, 1.0)
    found = audit(m, *ends, reports=400_000, alpha=1e-6)
    assert least < found.epsilon_lower <= 1.0
    assert not found.violated
    assert view_of_laws(*(m.law(x) for x in ends)).size >= 3
