"""Local hashing and Hadamard response: the algebra of their laws."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import exp, log

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.checks.laws import variance
from ldp_kafka.checks.trial import MechanismTrial
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms import hashing
from ldp_kafka.mechanisms.base import exp_below
from ldp_kafka.mechanisms.hashing import LinearHash
from tests.cases import cases
from tests.contract.epsilons import EPSILONS
from tests.contract.words import Words, limbs
from tests.specimens import MORE_MECHANISMS

SIZES = (2, 4, 10, 100, 1000, 2**20)
SPECIMENS = {name: MORE_MECHANISMS[name] for name in ("hadamard", "olh")}


# --- privacy


@cases("categories", SIZES)
@cases("epsilon", EPSILONS)
@cases("name", SPECIMENS)
def test_certificate(name, epsilon, categories):
    """At most epsilon by exact comparison, at least 99 % of it, also where the law is too long to
    list.
    """
    m = lk.mechanism(name, epsilon=epsilon, categories=categories)
    certificate = m.certificate()
    assert certificate.ratio <= exp_below(epsilon)
    assert 0.99 * epsilon <= certificate.epsilon_effective <= epsilon
    assert m.index_range[1] < 2**53


@cases("name", SPECIMENS)
@cases("epsilon", [1e-6, 20.0, 40.0, 700.0])
def test_extreme_epsilon(name, epsilon):
    """Words are long enough, or the loss is what they can say."""
    m = lk.mechanism(name, epsilon=epsilon, categories=30)
    assert 0 < m.certificate().epsilon_effective <= epsilon
    assert m.certificate().ratio <= exp_below(min(epsilon, 50.0))
    reports = m.perturb(np.arange(30).repeat(100), lk.randomness.seeded(1))
    estimate = m.estimate(reports)
    assert (np.abs(estimate.value - 1 / 30) < 6 * estimate.standard_error + 1e-6).all()


@pytest.mark.parametrize("name", SPECIMENS)
def test_epsilon_below_the_words_is_refused(name):
    """Where the truth would be no likelier than a lie."""
    with pytest.raises(ConfigurationError, match="epsilon is too small"):
        lk.mechanism(name, epsilon=1e-25, categories=1000)


# --- the hash functions

FAMILIES = [
    (2, 2, None),
    (3, 2, None),
    (4, 3, None),
    (6, 6, None),
    (10, 4, None),
    (10, 5, 13),
    (20, 7, 31),
]


def collisions(categories, cells, prime):
    """Of every pair, counted over all functions, by the formula."""
    v = np.arange(categories)
    hashed = np.array([(a * v + b) % prime % cells for a in range(1, prime) for b in range(prime)])
    return hashed, {
        int((hashed[:, v] == hashed[:, w]).sum()) for v, w in combinations(range(categories), 2)
    }


@cases(("categories", "cells", "prime"), FAMILIES)
def test_all_pairs_collide_equally_often(categories, cells, prime):
    """Exactly so often as stated, never more than one time in ``cells``."""
    family = LinearHash(categories, cells=cells, prime=prime)
    hashed, times = collisions(categories, cells, family.prime)
    assert times == {family.collision * family.seeds}
    assert family.collision <= Fraction(1, cells)
    assert np.array_equal(
        hashed, family.cell(np.arange(family.seeds)[:, None], np.arange(categories))
    )


@cases(("categories", "cells", "prime"), FAMILIES)
def test_each_category_is_spread_evenly_over_residues(categories, cells, prime):
    """So the cell alone says nothing: it has the same law for all of them."""
    hashed, _ = collisions(
        categories, cells, LinearHash(categories, cells=cells, prime=prime).prime
    )
    counts = [np.bincount(column, minlength=cells).tolist() for column in hashed.T]
    assert all(count == counts[0] for count in counts)


@cases("prime", [3, 5, 101, 65537, 1048583])
def test_seeds_are_the_exact_quotient(prime):
    """floor(W seeds / 2**96) in Python's integers, at random and at the ends."""
    family = LinearHash(2, cells=2, prime=prime)
    rng = np.random.default_rng(3)
    table = np.concatenate(
        [
            rng.integers(0, 2**32, (2000, 3)),
            [
                limbs(0, 3),
                limbs(2**96 - 1, 3),
                [2**32 - 1, 0, 0],
                [0, 2**32 - 1, 0],
                [0, 0, 2**32 - 1],
            ],
        ]
    )
    exact = [(w[0] + (w[1] << 32) + (w[2] << 64)) * family.seeds >> 96 for w in table.tolist()]
    assert family.draw(table.astype(np.uint32)).tolist() == exact


@pytest.mark.parametrize("prime", [3, 5, 31])
def test_seeds_are_cut_where_the_weights_say(prime):
    """The draw is a step function of W: its steps, summed up from the weights, fall on the last
    unit.
    """
    family = LinearHash(2, cells=2, prime=prime)
    least, extra = family.weights
    ends = np.cumsum([least + int(more) for more in extra], dtype=object).tolist()
    assert ends[-1] == 2**96
    firsts, lasts = [0, *ends[:-1]], [end - 1 for end in ends]
    for words in (firsts, lasts):
        assert family.draw(
            np.array([limbs(word, 3) for word in words], np.uint32)
        ).tolist() == list(range(family.seeds))


@cases(
    ("epsilon", "categories", "prime"),
    [
        (0.01, 2, None),
        (1.0, 100, None),
        (4.0, 100, 127),
        (8.0, 100, None),
        (1.0, 1500, None),
        (5.0, 1500, 1511),
    ],
)
@cases("reports", [0, 1, 2, 500, 5000, 20000])
@cases("block", [2**8, 2**16])
def test_supporters_are_counted_right(epsilon, categories, prime, reports, block, monkeypatch):
    """The same as asking every report about every category, for few reports and many, in one table
    and in many.
    """
    monkeypatch.setattr(hashing, "BLOCK", block)
    m = lk.mechanism("olh", epsilon=epsilon, categories=categories, prime=prime)
    _, prime, cells, *_ = m.tables()
    sent = m.perturb(np.arange(reports) % categories, lk.randomness.seeded(reports))
    assert reports == 0 or 0 <= sent.min() <= sent.max() <= m.index_range[1]
    a, b, cell = sent // cells // prime + 1, sent // cells % prime, sent % cells
    some = range(0, categories, max(categories // 50, 1))
    support = m.support(sent)
    assert support[0] == reports
    assert len(support) == 1 + categories
    assert [support[1 + v] for v in some] == [
        ((a * v + b) % prime % cells == cell).sum() for v in some
    ]


@cases("multipliers", [[1], [100], [1, 100], [37, 38]])
@cases("block", [2**8, 2**16])
def test_supporters_of_few_functions(multipliers, block, monkeypatch):
    """Many reports that share some multipliers: tables in which most rows, or all, are empty."""
    monkeypatch.setattr(hashing, "BLOCK", block)
    family = LinearHash(100, cells=4, prime=101)
    rng = np.random.default_rng(1)
    a, b, cell = rng.choice(multipliers, 5000), rng.integers(0, 101, 5000), rng.integers(0, 4, 5000)
    supporters = family.supporters(((a - 1) * 101 + b) * 4 + cell)
    assert supporters.tolist() == [int(((a * v + b) % 101 % 4 == cell).sum()) for v in range(100)]


def test_supporters_at_the_ends_of_the_range():
    """Every possible report, once each."""
    for cells in (2, 3, 4):
        family = LinearHash(5, cells=cells, prime=5)
        everything = np.arange(family.seeds * cells)
        assert family.supporters(everything).tolist() == [family.seeds] * 5
        assert (
            family.supporters(everything[-1:]).tolist()
            == (family.cell(everything[-1:] // cells, np.arange(5)) == cells - 1)
            .astype(int)
            .tolist()
        )


@cases(
    "bad", [1, 2, 4, 9, 101 * 103, -7, 0, 3, 2**21 + 17, 2**61 - 1, True, 5.0, "5", float("nan")]
)
def test_what_is_no_prime_is_refused(bad):
    """Or is too small for the categories, or too large for a report; with TypeError where it is no
    whole number.
    """
    with pytest.raises((ConfigurationError, TypeError), match="prime"):
        lk.mechanism("olh", epsilon=1.0, categories=5, prime=bad)


# --- samplers to the last unit


@cases("epsilon", EPSILONS)
@cases("categories", [2, 3, 16])
def test_olh_words_are_cut_where_its_law_says(epsilon, categories):
    """For each seed, the coin is a step function whose steps have the law's weights."""
    m = lk.mechanism("olh", epsilon=epsilon, categories=categories)
    _, prime, cells, truth, lie, size = m.tables()
    value, k = categories - 1, size.bit_length() // 32
    family, law = LinearHash(categories, cells=cells, prime=prime), m.law(categories - 1)
    starts = np.cumsum(
        [0, *(family.weights[0] + int(more) for more in family.weights[1])], dtype=object
    ).tolist()
    steps = [0, *(truth - lie + i * lie for i in range(cells)), size]
    weights = dict.fromkeys(range(len(law.weights)), 0)
    for seed in {0, 1, family.seeds // 2, family.seeds - 1}:
        low, high = (
            m.perturb(
                np.full(len(steps) - 1, value),
                Words([limbs(starts[seed], 3) + limbs(word, k) for word in words]),
            ).tolist()
            for words in (steps[:-1], [s - 1 for s in steps[1:]])
        )
        assert low == high
        for report, start, end in zip(low, steps[:-1], steps[1:], strict=True):
            weights[report] += (end - start) * (starts[seed + 1] - starts[seed])
        mine = range(seed * cells, seed * cells + cells)
        assert [weights[report] for report in mine] == law.weights[mine.start : mine.stop]
    assert law.denominator == 2**96 * size


@cases("epsilon", EPSILONS)
@cases("categories", [2, 3, 16])
def test_hadamard_words_are_cut_where_its_law_says(epsilon, categories):
    """The low bits are the row; the rest lies when it reaches ``truth``."""
    m = lk.mechanism("hadamard", epsilon=epsilon, categories=categories)
    _, order, truth, lie = m.tables()
    bits = (order * (truth + lie)).bit_length() - 1
    for value in (0, categories - 1):
        law = m.law(value)
        assert law.denominator == 2**bits
        for coins, weight in (((0, truth - 1), truth), ((truth, truth + lie - 1), lie)):
            for coin in coins:
                reports = m.perturb(
                    np.full(order, value),
                    Words([limbs(coin * order + row, bits // 32) for row in range(order)]),
                )
                assert (reports // 2).tolist() == list(range(order))
                assert [law.weights[report] for report in reports.tolist()] == [weight] * order


@cases("order", [2, 4, 16, 256])
def test_the_transform_is_the_matrix(order):
    """Sylvester's, row by row; two columns are orthogonal, which is all that the estimate needs."""
    matrix = np.array([[1]])
    while len(matrix) < order:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    m = lk.mechanism("hadamard", epsilon=1.0, categories=max(order - 1, 2))
    if order > 2:
        for value in (0, order - 2):
            truth = np.array(m.law(value).weights[::2]) == m.tables()[2]
            assert np.array_equal(np.where(truth, 1, -1), matrix[:, value + 1])
        sums = np.random.default_rng(1).integers(-(2**40), 2**40, order)
        p = m.tables()[2] / sum(m.tables()[2:])
        estimate = m.estimate_support(np.array([2**41, *sums]))
        assert np.allclose(estimate.value, (matrix @ sums)[1:] / 2**41 / (2 * p - 1), rtol=1e-12)


# --- bias and error


@pytest.mark.parametrize(
    ("name", "categories"),
    [("olh", 2), ("olh", 5), ("olh", 16), ("hadamard", 2), ("hadamard", 5), ("hadamard", 40)],
)
@cases("epsilon", EPSILONS)
def test_bias_and_variance_follow_from_the_law(name, categories, epsilon):
    """Of single reports: the mean is one for the category and zero for each other one; the variance
    is `variance` at one and at zero.
    """
    m = lk.mechanism(name, epsilon=epsilon, categories=categories)
    single = MechanismTrial(lambda _: m, epsilon).singles
    for value in {0, categories // 2, categories - 1}:
        chances, is_it = m.law(value).probabilities(), np.arange(categories) == value
        assert np.abs(chances @ single - is_it).max() <= 1e-12 / epsilon
        assert np.allclose(variance(chances, single), m.variance(is_it.astype(float)), rtol=1e-9)


@cases("epsilon", [0.05, 0.5, 1.0, 2.0, 4.0, 8.0])
def test_hadamards_textbook_variance(epsilon):
    """((e^epsilon + 1) / (e^epsilon - 1))^2 - f, within the thousandth of epsilon that words may
    cost.
    """
    m = lk.mechanism("hadamard", epsilon=epsilon, categories=20)
    assert np.isclose(m.variance(0.0), ((exp(epsilon) + 1) / (exp(epsilon) - 1)) ** 2, rtol=2.5e-3)
    assert np.isclose(m.variance(0.0) - m.variance(0.25), 0.25)


@cases("cells", [3, 4, 8, 30])
def test_local_hashings_textbook_variance(cells):
    """4 e^epsilon / (e^epsilon - 1)^2 at f = 0 where g = e^epsilon + 1 and the residues are many;
    the default, with few, is never worse.
    """
    epsilon = log(cells - 1)
    limit = 4 * exp(epsilon) / (exp(epsilon) - 1) ** 2
    many = lk.mechanism("olh", epsilon=epsilon, categories=100, prime=2097143)
    assert many.tables()[2] == cells
    assert np.isclose(many.variance(0.0), limit, rtol=1e-4)
    assert lk.mechanism("olh", epsilon=epsilon, categories=100).variance(0.0) <= limit * (1 + 1e-4)


@cases("epsilon", [0.5, 1.0, 2.0])
@cases("categories", [2, 4, 100])
def test_randomized_responses_textbook_variance(epsilon, categories):
    """(d - 2 + e^epsilon) / (e^epsilon - 1)^2 + f (d - 2) / (e^epsilon - 1)."""
    m, e = lk.mechanism("grr", epsilon=epsilon, categories=categories), exp(epsilon)
    for f in (0.0, 0.3, 1.0):
        assert np.isclose(
            m.variance(f),
            (categories - 2 + e) / (e - 1) ** 2 + f * (categories - 2) / (e - 1),
            rtol=1e-3,
        )


def test_a_law_too_long_to_list_is_refused():
    """The rest works all the same."""
    m = lk.mechanism("olh", epsilon=1.0, categories=1000)
    with pytest.raises(ConfigurationError, match=r"2\*\*20"):
        m.law(0)
    values = np.arange(20000) % 1000
    estimate = m.estimate(m.perturb(values, lk.randomness.seeded(2)))
    assert np.abs((estimate.value - 0.001) / estimate.standard_error).max() < 6


# --- parameters


@cases("name", SPECIMENS)
@cases("bad", [1, 0, -3, 2**20 + 1, 4.0, float("nan"), float("inf"), "4", None, True])
def test_bad_categories_are_refused(name, bad):
    """When the mechanism is built."""
    with pytest.raises((ConfigurationError, TypeError), match="categories"):
        lk.mechanism(name, epsilon=1.0, categories=bad)


@cases("name", SPECIMENS)
@cases("values", [np.array([0.0]), np.array([True]), np.array(["1"]), np.array([None])])
def test_values_of_another_type_are_refused(name, values):
    """Categories are integers."""
    with pytest.raises(TypeError, match="integers"):
        lk.mechanism(name, epsilon=1.0, categories=4).perturb(values, lk.randomness.seeded(1))
