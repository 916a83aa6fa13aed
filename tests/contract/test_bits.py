"""Mechanisms that report packed bits: their formulas, and what they refuse."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from math import comb, exp, log

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.mechanisms.base import exp_below
from ldp_kafka.mechanisms.bits import check_packed, count, pack, unpack
from tests.cases import cases
from tests.contract.epsilons import EPSILONS
from tests.contract.words import Words

NAMES = ("oue", "sue", "subset_selection")


def build(name, epsilon=1.0, categories=9):
    return lk.mechanism(name, epsilon=epsilon, categories=categories)


@cases("name", NAMES)
@cases("categories", [2, 4, 10, 100, 1000])
def test_certificates_spend_epsilon_and_no_more(name, categories):
    for epsilon in EPSILONS:
        certificate = build(name, epsilon, categories).certificate()
        assert type(certificate.ratio) is Fraction
        assert certificate.ratio <= exp_below(epsilon)
        assert certificate.epsilon_effective >= 0.995 * epsilon


@cases("epsilon", EPSILONS)
def test_laws_are_those_of_the_papers(epsilon):
    """Wang et al., USENIX Security 2017; Ye and Barg 2018."""
    e = exp(epsilon)
    for frequency in (0.0, 0.3, 1.0):
        oue, sue = build("oue", epsilon), build("sue", epsilon)
        assert oue.variance(frequency) == pytest.approx(4 * e / (e - 1) ** 2 + frequency, rel=0.02)
        assert sue.variance(frequency) == pytest.approx(
            exp(epsilon / 2) / (exp(epsilon / 2) - 1) ** 2, rel=0.02
        )
        subset = build("subset_selection", epsilon)
        k, omega = 9, subset.omega
        p = omega * e / (omega * e + k - omega)
        q = p * (omega - 1) / (k - 1) + (1 - p) * omega / (k - 1)
        assert subset.variance(frequency) == pytest.approx(
            (frequency * p * (1 - p) + (1 - frequency) * q * (1 - q)) / (p - q) ** 2, rel=1e-9
        )


@cases("epsilon", EPSILONS)
def test_subset_certificate_holds_what_its_law_shows(epsilon):
    """The stated bound covers every pair of inputs and every set, and is no more than 2**-33 above
    the worst of them.
    """
    m = build("subset_selection", epsilon, 6)
    laws = [m.law(value) for value in range(6)]
    assert len(laws[0].weights) == comb(6, m.omega)
    worst = max(
        Fraction(a, b)
        for one in laws
        for other in laws
        for a, b in zip(one.weights, other.weights, strict=True)
    )
    assert worst <= m.certificate().ratio <= worst * (1 + Fraction(1, 2**33))


@cases("categories", [1, 2, 7, 8, 9, 100])
def test_packing_and_counting(categories):
    bits = np.random.default_rng(1).integers(0, 2, (300, categories))
    packed = pack(bits)
    assert np.array_equal(unpack(packed, categories), bits)
    assert np.array_equal(count(packed, categories), bits.sum(axis=0))
    assert check_packed(packed, categories) is packed


@pytest.mark.parametrize("name", NAMES)
def test_reports_that_are_none_are_refused(name):
    """Other widths, other types, bits beyond the last category: a collector reads what strangers
    write.
    """
    m = build(name)
    good = m.perturb(np.zeros(5, np.int64), lk.randomness.system())
    assert good.shape == (5, 2)
    for wrong in (good[:, :1], np.hstack([good, good]), good | np.uint8(1), good[0]):
        with pytest.raises(ValueError):
            m.support(wrong)
    with pytest.raises(TypeError):
        m.support(good.astype(np.int64))
    if name == "subset_selection":
        with pytest.raises(ValueError, match="must hold"):
            m.support(np.zeros_like(good))


@pytest.mark.parametrize("name", NAMES)
def test_laws_of_many_outputs_are_not_listed(name):
    with pytest.raises(lk.ConfigurationError, match="12"):
        build(name, 1.0, 13).law(0)


@cases("name", NAMES)
@cases("categories", [13, 64, 65, 200])
def test_more_categories_than_a_law_lists(name, categories):
    """Each category's count follows p and q: three standard deviations times two, of a million
    bits.
    """
    m, n = build(name, 1.0, categories), 20_000
    value = categories - 1
    seen = m.support(m.perturb(np.full(n, value), lk.randomness.system()))[1:]
    p, q = m._probabilities
    expected = np.where(np.arange(categories) == value, p, q) * n
    z = (seen - expected) / np.sqrt(expected * (1 - expected / n))
    assert np.abs(z).max() < 6.5
    assert log(p / (1 - p) * (1 - q) / q) < 1.0 or name == "subset_selection"


class Lanes(Words):
    """Words from bytes or from numbers of 64 bits, and some to spare."""

    def __init__(self, table):
        super().__init__(np.ascontiguousarray(table, "<u8").view("<u4"))

    def words(self, n, k=1, *, first=0):
        return self.table[first : first + n, :k].copy()


@cases("name", ["oue", "sue"])
@cases("categories", [2, 9, 30, 100, 600])
@cases("epsilon", [0.5, 1.0, 4.0])
def test_every_bit_is_one_so_often_as_the_law_says(name, categories, epsilon):
    """Of all 2**levels ways in which its fair bits can fall, exactly: T for another category, p of
    them for the true one.
    """
    m = build(name, epsilon, categories)
    _, threshold, levels, p, whole = m.tables()
    size, lanes = m._lane.itemsize, m._lanes
    ways = np.arange(2**levels)
    falls = (ways[:, None] >> np.arange(levels) & 1).astype(np.uint8) * 0xFF
    table = np.repeat(falls, size * lanes, axis=1)  # each level falls alike for all categories
    table = np.hstack([table, np.zeros((len(ways), -table.shape[1] % 8), np.uint8)]).view("<u8")
    for value in {0, categories // 2, categories - 1}:
        seen = m.support(m.perturb(np.full(len(ways), value), Lanes(table)))[1:]
        assert seen[value] * whole == p * 2**levels
        assert (np.delete(seen, value) == threshold).all()


@cases("name", ["oue", "sue"])
@cases("categories", [9, 100, 600])
def test_every_byte_has_fair_bits_of_its_own(name, categories):
    """Row i + 1 has the words of row 0, with those of byte i turned around in each level: no other
    byte may change.
    """
    m = build(name, 1.0, categories)
    table = np.repeat(
        np.random.default_rng(2).integers(0, 256, (1, 4 * m._words + -m._words % 2 * 4), np.uint8),
        m.width + 1,
        axis=0,
    )
    for byte in range(m.width):
        table[
            byte + 1,
            byte : m.tables()[2] * m._lanes * m._lane.itemsize : m._lanes * m._lane.itemsize,
        ] ^= 0xFF
    reports = m.perturb(np.zeros(len(table), np.int64), Lanes(table.view("<u8")))
    changed = reports[1:] != reports[0]
    assert changed.any()
    assert not (changed & ~np.eye(m.width, dtype=bool)).any()


def floyd(m, value, random):
    """What the docstring says, in Python's integers, for one row."""
    k, omega, hold = m.tables()
    bits = k.bit_length()
    holds, taken = int(random[0]) < hold, set()
    for step in range(omega):
        j = k - 1 - omega + step
        place = (int(random[1 + step]) >> bits) * (j + 1) // 2 ** (64 - bits)
        if step or not holds:
            taken.add(j if place in taken else place)
    others = {k - 1 if place == value else place for place in taken}
    return others | ({value} if holds else set())


@cases("categories", [2, 3, 9, 100, 1000])
@cases("epsilon", [0.05, 1.0, 4.0])
def test_subsets_are_floyds(categories, epsilon):
    """Row by row, also for words at the ends of what says a place."""
    m = build("subset_selection", epsilon, categories)
    rng, n = np.random.default_rng(1), 120
    values = rng.integers(0, categories, n)
    values[:2] = 0, categories - 1
    random = rng.integers(0, 2**64, (n, 1 + m.omega), np.uint64)
    bits = categories.bit_length()
    for row in range(0, n, 2):  # the least word of a place, or the greatest of the one before it
        for step in range(m.omega):
            j = categories - 1 - m.omega + step
            place = int(rng.integers(0, j + 1))
            least = -(-place * 2 ** (64 - bits) // (j + 1)) << bits
            random[row, 1 + step] = least - (place > 0 and row % 4 > 0)
    random[::3, 0] = m.tables()[2] - 1
    random[1::3, 0] = m.tables()[2]
    held = unpack(m.perturb(values, Lanes(random)), categories)
    for row in range(n):
        assert set(np.flatnonzero(held[row]).tolist()) == floyd(m, values[row], random[row])


def paths(m, value, step, taken, holds):
    """(set, words) for each way in which the steps can go."""
    k, omega, _ = m.tables()
    if step == omega:
        yield (
            frozenset(k - 1 if place == value else place for place in taken)
            | ({value} if holds else frozenset()),
            1,
        )
        return
    j, bits = k - 1 - omega + step, k.bit_length()
    if holds and step == 0:
        yield from ((chosen, words << 64) for chosen, words in paths(m, value, 1, taken, holds))
        return
    size = 2 ** (64 - bits)
    ends = [-(-place * size // (j + 1)) for place in range(j + 2)]
    for place in range(j + 1):
        share = ends[place + 1] - ends[place] << bits
        yield from (
            (chosen, words * share)
            for chosen, words in paths(
                m, value, step + 1, taken | {j if place in taken else place}, holds
            )
        )


@cases(("epsilon", "categories"), [(0.05, 2), (0.05, 5), (1.0, 6), (0.05, 7), (4.0, 9)])
def test_subset_law_is_the_sum_of_all_ways(epsilon, categories):
    """Every choice of places, step by step, counted in words."""
    m = build("subset_selection", epsilon, categories)
    hold = m.tables()[2]
    for value in (0, categories - 1):
        law, words = m.law(value), Counter()
        for holds, weight in ((True, hold), (False, 2**64 - hold)):
            for chosen, share in paths(m, value, 0, frozenset(), holds):
                words[chosen] += share * weight
        assert law.denominator == sum(words.values()) == 2 ** (64 * (m.omega + 1))
        assert {
            frozenset(np.flatnonzero(row).tolist()): weight
            for row, weight in zip(unpack(law.support, categories), law.weights, strict=True)
        } == dict(words)


@cases("categories", [100, 1000, 2**14])
@cases("epsilon", [0.01, 1.0])
def test_subset_certificate_covers_every_step(epsilon, categories):
    """Also where no law can be listed: each step's places are even up to the factor that the
    certificate has in it.
    """
    m = build("subset_selection", epsilon, categories)
    k, omega, hold = m.tables()
    size, low, high = 2 ** (64 - k.bit_length()), Fraction(1), Fraction(1)
    for j in {k - 1 - omega, k - 2}:
        least, most = (
            Fraction(size // (j + 1), size) * (j + 1),
            Fraction(-(-size // (j + 1)), size) * (j + 1),
        )
        low, high = min(low, least), max(high, most)
    even = Fraction(hold * (k - omega), (2**64 - hold) * omega)
    slack = m.certificate().ratio / even
    assert 1 <= slack < 1 + Fraction(1, 2**21)
    assert (
        slack - 1 >= omega * (high - low)
        # no less than what all steps, as uneven as the worst, add up to: a ratio has two sides, and
        # places are never fewer than half of all
    )
