"""What mechanisms are given: one value a row, numbers, reports that are some. Anything else is
refused before a word is drawn or a report counted.
"""

from __future__ import annotations

from math import inf, nan

import numpy as np
import pytest

import ldp_kafka as lk
from tests.cases import cases

CATEGORICAL = ("grr", "hadamard", "olh", "oue", "subset_selection", "sue")
NUMERIC = ("duchi", "gaussian", "hybrid", "laplace", "piecewise", "square_wave")
LOUD = "987654321"


def build(name, epsilon=1.0):
    shape = {"categories": 6} if name in CATEGORICAL else {"domain": (0.0, 1.0)}
    return lk.mechanism(
        name, epsilon=epsilon, **shape, **({"delta": 1e-5} if name == "gaussian" else {})
    )


@cases("name", [*CATEGORICAL, *NUMERIC])
@cases("shape", [(), (4, 4), (4, 1), (1, 4), (0, 4), (2, 2, 2)])
def test_values_that_are_no_column_are_refused(name, shape):
    """Rows of a table would share their words: one report would tell the noise of the others."""
    with pytest.raises(ValueError, match="values must be"):
        build(name).perturb(
            np.zeros(shape, np.int64 if name in CATEGORICAL else np.float64),
            lk.randomness.seeded(1),
        )


@cases("name", [*CATEGORICAL, *NUMERIC])
@cases("bad", [[LOUD], [LOUD + "x"], [None], [1j], [b"1"]])
def test_values_that_are_no_numbers_are_refused_unseen(name, bad):
    """Numpy's own errors show what they could not convert."""
    with pytest.raises(TypeError) as caught:
        build(name).perturb(np.array(bad), lk.randomness.seeded(1))
    assert LOUD not in str(caught.value)


@pytest.mark.parametrize("name", ["grr", "hadamard", "olh"])
def test_numbers_that_are_no_report_are_refused(name):
    """A collector reads what strangers write: none may count for another category, or make a
    support of another length.
    """
    m = build(name)
    low, high = m.index_range
    assert m.support(np.arange(low, high + 1))[0] == high + 1
    for bad in (low - 1, high + 1, high + 2, high + 10**6, -(2**62), 2**62):
        with pytest.raises(ValueError, match="reports must"):
            m.support(np.array([low, bad]))
    with pytest.raises(ValueError, match="reports must"):
        m.support(np.array([[low, high]]))
    with pytest.raises(TypeError):
        m.support(np.array([0.7, 1.0]))


def test_a_set_that_is_too_large_is_not_made_up_for_by_one_that_is_too_small():
    """Each report must hold omega categories, not only all together."""
    m = lk.mechanism("subset_selection", epsilon=1.0, categories=8)
    assert m.omega == 2
    with pytest.raises(ValueError, match="must hold"):
        m.support(np.array([[0b11110000], [0]], np.uint8))


@cases("name", [*CATEGORICAL, *NUMERIC, "adaptive"])
@cases(
    "bad",
    [
        10**400,
        -(10**400),
        np.longdouble("1e4000"),
        np.longdouble("1e-4000"),
        np.float32(inf),
        np.float16(nan),
    ],
)
def test_epsilon_beyond_floats_is_refused(name, bad):
    """What is finite, and not when it is a float."""
    shape = {"domain": (0.0, 1.0)} if name in NUMERIC else {"categories": 6}
    with pytest.raises(lk.ConfigurationError):
        lk.mechanism(name, epsilon=bad, **shape, **({"delta": 1e-5} if name == "gaussian" else {}))


@cases("name", CATEGORICAL)
@cases("bad", [1.5, 1.0, "1", None, True])
def test_the_law_of_what_is_no_category_is_refused(name, bad):
    """It is not cut to the next category."""
    with pytest.raises(TypeError):
        build(name).law(bad)
