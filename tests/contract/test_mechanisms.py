"""Every one-value mechanism against the contract."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import ldp_kafka as lk
from ldp_kafka.checks import CheckFailure
from ldp_kafka.checks.chisquare import limit
from ldp_kafka.checks.failure import run_all
from ldp_kafka.checks.mechanism import MECHANISM_CHECKS, MechanismTrial
from ldp_kafka.checks.trial import SAMPLES
from tests.cases import cases
from tests.contract.epsilons import EPSILONS, checks_at
from tests.depth import depth

# name -> what to build it with beside epsilon; every name of MECHANISMS is here or below
SPECIMENS = {
    "duchi": [{"domain": (-1.0, 1.0)}],
    "hadamard": [{"categories": 2}, {"categories": 4}, {"categories": 100}],
    "hybrid": [{"domain": (-1.0, 1.0)}],
    "laplace": [{"domain": (-1.0, 1.0)}],
    "olh": [{"categories": 2}, {"categories": 4}],
    "oue": [{"categories": 2}, {"categories": 9}],
    "piecewise": [{"domain": (-1.0, 1.0)}],
    "subset_selection": [{"categories": 2}, {"categories": 5}],
    "sue": [{"categories": 2}, {"categories": 5}],
    "grr": [{"categories": 2}, {"categories": 4}, {"categories": 16}, {"categories": 300}],
    "square_wave": [{"domain": (0.0, 1.0)}],
}
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


def builder(name, **parameters):
    """epsilon -> mechanism."""
    return lambda epsilon: lk.mechanism(name, epsilon=epsilon, **parameters)


# the others meet the contract at more epsilons in test_windows, test_tables, test_hashing
FULL = ("grr", "square_wave", "oue", "sue", "subset_selection")
FEW = depth((1.0,), (0.05, 1.0, 8.0))

TRIALS = [
    pytest.param(
        [MechanismTrial(builder(name, **kw), epsilon, SAMPLES) for epsilon in epsilons],
        id=f"{name}-{kw}",
    )
    for name, epsilons, kw in [
        *(
            (name, EPSILONS if name in FULL else FEW, kw)
            for name, shapes in SPECIMENS.items()
            for kw in shapes
        ),
        *((name, (epsilon,), kw) for name, epsilon, kw in SHAPES),
    ]
]


@pytest.mark.parametrize("trials", TRIALS)
def test_contract(trials):
    """At each epsilon what looks at it."""
    for trial in trials:
        try:
            run_all(checks_at(trial.epsilon), trial)
        except CheckFailure as failure:
            failure.add_note(f"at epsilon {trial.epsilon}")
            raise


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


@pytest.mark.parametrize("domain", [(0.0, 1e-250), (-8e307, 8e307), (1e15, 1e15 + 1)])
def test_extreme_domains_work(domain):
    """Up to there the law is the unit interval's."""
    m, unit = (
        lk.mechanism("square_wave", epsilon=1.0, domain=domain),
        lk.mechanism("square_wave", epsilon=1.0),
    )
    for share in (0.0, 0.5, 1.0):
        assert m.law(domain[0] + share * (domain[1] - domain[0])).weights == unit.law(share).weights


class Words:
    """Hands out prepared words."""

    private = False

    def __init__(self, table):
        self.table = np.asarray(table, np.uint32)

    def within(self, context):
        return self

    def words(self, n, k=1, *, first=0):
        assert self.table.shape[1] == k
        return self.table[first : first + n].copy()


@cases("epsilon", EPSILONS)
@cases("point", [0, 1, 511, 1022, 1023])
def test_square_wave_words_are_cut_where_its_law_says(epsilon, point):
    """The sampler is a step function of its second word: words at and around every step, weighed by
    their distance, give the law to the last unit.
    """
    # so that values are grid points
    m = lk.mechanism("square_wave", epsilon=epsilon, domain=(0.0, 1023.0))
    cells, half, near, far = m.tables()
    inside = near * (2 * half + 1)
    # the last step but one: what is left over
    steps = np.array([*range(0, inside, near), *range(inside, inside + far * cells, far), 2**32])
    starts, ends = steps[:-1], steps[1:]
    values = np.full(len(starts), float(point))
    low = m.perturb(values, Words(np.column_stack([np.zeros_like(starts), starts])))
    high = m.perturb(values, Words(np.column_stack([np.full_like(starts, 2**32 - 1), ends - 1])))
    assert np.array_equal(low, high)
    law = m.law(float(point))
    weights = dict.fromkeys(law.support.tolist(), 0)
    for y, width in zip(low.tolist(), (ends - starts).tolist(), strict=True):
        weights[y] += width
    assert [weight * 2**16 for weight in weights.values()] == law.weights
    assert law.denominator == 2**48


@cases("part", [0, 1, 0x1234, 2**16 - 1])
def test_square_wave_rounds_without_bias(part):
    """Over all values of the first word an input goes up exactly as often as its place between two
    grid points says.
    """
    m = lk.mechanism("square_wave", epsilon=1.0, domain=(0.0, 1023.0))
    # a second word of 0: the lowest near point
    words = np.column_stack([np.arange(2**16), np.zeros(2**16, np.int64)])
    reports = m.perturb(np.full(2**16, 500 + part / 2**16), Words(words))
    assert (reports == reports.max()).sum() == (part or 2**16)
    assert len(np.unique(reports)) == (2 if part else 1)


@cases("epsilon", EPSILONS)
@cases("categories", [2, 5, 300])
def test_grr_words_are_cut_where_its_law_says(epsilon, categories):
    """The same for randomised response, whose words have 32 or 64 bits."""
    m = lk.mechanism("grr", epsilon=epsilon, categories=categories)
    _, truth, lie, size = m.tables()
    keep = truth - lie
    steps = [0, *(keep + i * lie for i in range(categories)), size]
    value = categories - 1

    def reports(words):
        halves = [[word % 2**32, word >> 32] if size == 2**64 else [word] for word in words]
        return m.perturb(np.full(len(words), value), Words(halves))

    low, high = reports(steps[:-1]), reports([step - 1 for step in steps[1:]])
    assert np.array_equal(low, high)
    weights = [0] * categories
    for y, start, end in zip(low.tolist(), steps[:-1], steps[1:], strict=True):
        weights[y] += end - start
    law = m.law(value)
    assert (weights, size) == (law.weights, law.denominator)


@cases("freedom", [1, 2, 3, 5, 10, 30, 63, 200])
@cases("false_alarm", [1e-6, 1e-7])
def test_chi_square_limit(freedom, false_alarm):
    """The approximation keeps the false-alarm rate, and never loses much power."""
    found, exact = limit(freedom, false_alarm), stats.chi2.isf(false_alarm, freedom)
    assert stats.chi2.sf(found, freedom) <= false_alarm
    assert found <= 1.2 * exact


@pytest.mark.parametrize("shift", [1.03, 0.97])
@pytest.mark.parametrize(("name", "parameters"), [("square_wave", {}), ("grr", {"categories": 4})])
def test_the_sampler_test_has_power_both_ways(name, parameters, shift):
    """A law whose heavy weights are 3 % more, or less, than what is sampled is told apart."""
    mechanism = lk.mechanism(name, epsilon=1.0, **parameters)

    class Shifted:
        epsilon, scale, perturb = mechanism.epsilon, mechanism.scale, mechanism.perturb

        def law(self, value):
            law = mechanism.law(value)
            heavy = max(law.weights)
            weights = [round(w * shift) if 2 * w > heavy else w for w in law.weights]
            return law._replace(weights=weights, denominator=sum(weights))

    for attribute in ("domain", "categories"):
        if hasattr(mechanism, attribute):
            setattr(Shifted, attribute, getattr(mechanism, attribute))
    with pytest.raises(CheckFailure, match="follow the law"):
        MECHANISM_CHECKS["sampler_follows_law"](MechanismTrial(lambda epsilon: Shifted(), 1.0))
