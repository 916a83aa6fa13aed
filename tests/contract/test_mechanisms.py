"""Every one-value mechanism against the contract."""

from __future__ import annotations

import pytest
from scipy import stats

import ldp_kafka as lk
from ldp_kafka.checks.chisquare import limit
from ldp_kafka.checks.failure import run_all
from ldp_kafka.checks.mechanism import MechanismTrial
from ldp_kafka.checks.trial import SAMPLES
from tests.cases import cases
from tests.contract.epsilons import BETWEEN, EPSILONS, checks_at, checks_of
from tests.contract.words import limbs, tally
from tests.specimens import MORE_MECHANISMS as SPECIMENS

EXCLUSIONS = {
    "adaptive": "one of the others",
    "gaussian": "its guarantee has a delta: test_tables.py",
    "gaussian_vector": "its guarantee has a delta, its values are vectors: test_tables.py",
}

# more shapes at one epsilon: what does not depend on epsilon is tried once
SHAPES = [
    ("square_wave", 1.0, {"domain": (-40.0, 7280.0)}),
    ("square_wave", 1.0, {"domain": (1e-9, 3e-9)}),
    ("square_wave", 0.3, {"domain": (-1e12, -1e6)}),
    ("grr", 1.0, {"categories": 2000}),  # words of 64 bits
    ("subset_selection", 1.0, {"categories": 9}),
    ("sue", 1.0, {"categories": 9}),
]


def contract(name, epsilon, given):
    """What looks at this epsilon."""
    trial = MechanismTrial(lambda e: lk.mechanism(name, epsilon=e, **given), epsilon, SAMPLES)
    run_all(checks_at(epsilon, checks_of(trial.mechanism)), trial)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        pytest.param(name, given, id=f"{name}-{given}")
        for name, shapes in SPECIMENS.items()
        for given in shapes
    ],
)
@cases("epsilon", EPSILONS)
def test_contract(name, given, epsilon):
    """Where laws are long at a few, and at all in the long run; over other domains in
    test_windows.py.
    """
    long = name == "laplace" or (name == "hadamard" and given["categories"] >= 100)
    if not (long and epsilon in BETWEEN):
        contract(name, epsilon, given)


@cases(("name", "epsilon", "given"), [shape for shape in SHAPES if "domain" not in shape[2]])
def test_contract_of_more_shapes(name, epsilon, given):
    contract(name, epsilon, given)


def test_every_mechanism_is_a_specimen():
    """A new mechanism is under contract, or excluded for a reason."""
    assert set(lk.MECHANISMS) == SPECIMENS.keys() | EXCLUSIONS.keys()
    assert not SPECIMENS.keys() & EXCLUSIONS.keys()
    assert all(EXCLUSIONS.values())


@cases(
    "domain",
    [
        (0.0, 0.0),
        (1.0, 0.0),
        (0.0, float("nan")),
        (0.0, float("inf")),
        (-1e308, 1e308),
        (0.0, 5e-324),
        (0.0, 1e-300),
        (0.0,),
        (0.0, 1.0, 2.0),
        (False, True),
        ("0", "1"),
    ],
)
def test_domains_without_arithmetic_are_refused(domain):
    """A domain whose length, or one over it, is not a number would let NaN in by the back door."""
    with pytest.raises((ValueError, TypeError)):
        lk.mechanism("square_wave", epsilon=1.0, domain=domain)


@cases("epsilon", EPSILONS)
@cases("categories", [2, 5, 300])
def test_grr_words_are_cut_where_its_law_says(epsilon, categories):
    """The same for randomised response, whose words have 32 or 64 bits."""
    m = lk.mechanism("grr", epsilon=epsilon, categories=categories)
    _, truth, lie, size = m.tables()
    keep = truth - lie
    edges, k = [0, *(keep + i * lie for i in range(categories)), size], size.bit_length() // 32
    law = m.law(categories - 1)
    found = tally(m, categories - 1, edges, lambda word: limbs(word, k))
    assert (found.tolist(), size) == (law.weights, law.denominator)


@cases("freedom", [1, 2, 3, 5, 10, 30, 63, 200])
@cases("false_alarm", [1e-6, 1e-7])
def test_chi_square_limit(freedom, false_alarm):
    """The approximation keeps the false-alarm rate, and never loses much power."""
    found, exact = limit(freedom, false_alarm), stats.chi2.isf(false_alarm, freedom)
    assert stats.chi2.sf(found, freedom) <= false_alarm
    assert found <= 1.2 * exact
