"""Square Wave, Piecewise, Duchi's and Hybrid: against the contract, their textbooks, and every word
that they can be given.
"""

from __future__ import annotations

from fractions import Fraction
from hashlib import sha256
from math import exp, log

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.checks.failure import run_all
from ldp_kafka.checks.laws import variance, worst_ratio
from ldp_kafka.checks.mechanism import MechanismTrial
from ldp_kafka.checks.trial import SAMPLES
from ldp_kafka.mechanisms import Duchi, Hybrid, Piecewise, SquareWave
from ldp_kafka.mechanisms.base import exp_below
from ldp_kafka.mechanisms.window import ROUND, WORD
from tests.cases import cases
from tests.contract.epsilons import EPSILONS, checks_at, checks_of
from tests.contract.words import Words, tally
from tests.specimens import MECHANISMS

NAMES = ("square_wave", "piecewise", "duchi", "hybrid")
PLACES = (0.0, 0.15, 0.35, 0.5, 0.73, 1.0)  # shares of the domain


def contract(factory, epsilon=1.0, *, coarse=False, samples=SAMPLES):
    trial = MechanismTrial(factory, epsilon, samples)
    run_all(checks_at(epsilon, checks_of(trial.mechanism, coarse=coarse)), trial)


# --- the contract


@pytest.mark.parametrize("name", NAMES)
@cases("domain", [(-40.0, 7280.0), (1e-9, 3e-9), (-1e12, -1e6)])
def test_contract_on_other_domains(name, domain):
    """Affine maps of public bounds."""
    contract(lambda e: lk.mechanism(name, epsilon=e, domain=domain), samples=2**16)


@cases("domain", [(-40.0, 7280.0), (0.0, 1e-250), (-8e307, 8e307), (1e15, 1e15 + 1)])
@cases("name", [*NAMES, "laplace", "gaussian"])
def test_the_law_is_that_of_the_unit_scale(name, domain):
    """Whatever the domain."""
    own = MECHANISMS[name]
    m, unit = (lk.mechanism(name, epsilon=1.0, **own | {"domain": d}) for d in (domain, (0.0, 1.0)))
    for place in (0.0, 0.5, 1.0):
        here, there = m.law(domain[0] + place * (domain[1] - domain[0])), unit.law(place)
        assert (here.weights, here.support.tolist()) == (there.weights, there.support.tolist())


@pytest.mark.parametrize("name", ["square_wave", "piecewise", "hybrid"])
@cases("epsilon", [0.05, 1.0, 8.0])
@cases("cells", [64, 256])
def test_contract_on_coarse_grids(name, cells, epsilon):
    """The error then counts the rounding at its most."""
    contract(
        lambda e: lk.mechanism(name, epsilon=e, domain=(0.0, 1.0), cells=cells),
        epsilon,
        coarse=True,
        samples=2**16,
    )


# --- privacy, exact


@pytest.mark.parametrize("name", NAMES)
@cases("epsilon", [0.05, 0.61, 0.62, 1.0, 4.0, 8.0, 12.0])
def test_certificate_is_the_worst_pair_of_all(name, epsilon):
    """Over every pair of grid points and every output of a small grid, the worst ratio is the
    certified one: reached, not bounded.
    """
    parameters = {} if name == "duchi" else {"cells": 64}
    steps = getattr(lk.mechanism(name, epsilon=epsilon, **parameters), "steps", 64)
    # so that values are grid points
    m = lk.mechanism(name, epsilon=epsilon, domain=(0.0, float(steps)), **parameters)
    table = np.array(
        [
            [Fraction(w, law.denominator) for w in law.weights]
            for law in (m.law(float(i)) for i in range(steps + 1))
        ],
        object,
    )
    worst = max(column.max() / column.min() for column in table.T)
    assert worst == m.certificate().ratio <= exp_below(epsilon)


@pytest.mark.parametrize("name", ["square_wave", "piecewise", "hybrid"])
@cases("cells", [64, 256, 1024, 4096, 2**14])
@cases("epsilon", EPSILONS)
def test_certificates_at_every_grid(name, epsilon, cells):
    """At most epsilon, by integers; little of it is lost to words of 32 bits."""
    m = lk.mechanism(name, epsilon=epsilon, cells=cells)
    certificate = m.certificate()
    assert 1 < certificate.ratio <= exp_below(epsilon)
    assert certificate.epsilon_effective >= (0.99 if epsilon >= 0.05 else 0.98) * epsilon
    lo, hi = m.domain
    laws = [m.law(x) for x in (lo, hi, lo + 0.4321 * (hi - lo))]
    assert all(sum(law.weights) == law.denominator and min(law.weights) > 0 for law in laws)
    assert max(worst_ratio(a, b) for a in laws for b in laws) <= certificate.ratio


# --- the textbooks


def textbook(name, epsilon, x):
    """Variance of the debiased mean for a value x of [-1, 1]: Wang et al. 2019 (lemmas 1 and 2,
    section III-C); Li et al. 2020, section 4.1, by integrating its density.
    """
    e, t = exp(epsilon), exp(epsilon / 2)
    piecewise = x**2 / (t - 1) + (t + 3) / (3 * (t - 1) ** 2)
    duchi = ((e + 1) / (e - 1)) ** 2 - x**2
    share = 1 - 1 / t if epsilon > 0.61 else 0.0
    b = (epsilon * e - e + 1) / (2 * e * (e - 1 - epsilon))
    u, q = (x + 1) / 2, 1 / (2 * b * e + 1)
    p = e * q
    mean = 2 * b * (p - q) * u + q * (b + 0.5)
    square = q * ((1 + b) ** 3 + b**3) / 3 + (p - q) * ((u + b) ** 3 - (u - b) ** 3) / 3
    return {
        "piecewise": piecewise,
        "duchi": duchi,
        "hybrid": share * piecewise + (1 - share) * duchi,
        "square_wave": (square - mean**2) / (b * (p - q)) ** 2,
    }[name]


@cases("epsilon", [0.01, 0.05, 0.1, 0.5, 0.61, 0.62, 1.0, 2.0, 4.0, 8.0])
@cases("name", NAMES)
def test_variance_is_the_textbooks(name, epsilon):
    """From the exact law: within 1 % of the continuous mechanism's, for Square Wave 2 % (its window
    is rounded down) up to 4 nats, from where 1024 cells are coarse.
    """
    m = lk.mechanism(
        name,
        epsilon=epsilon,
        domain=(-1.0, 1.0),
        **({"cells": 2**14} if (name, epsilon) == ("square_wave", 8.0) else {}),
    )
    for place in PLACES:
        x = 2 * place - 1
        law = m.law(x)
        chances, reports = law.probabilities(), np.asarray(law.support)
        found = variance(chances, reports) * (2 / m.moments.slope) ** 2
        assert found == pytest.approx(
            textbook(name, epsilon, x), rel=0.03 if name == "square_wave" else 0.01
        )


@cases("epsilon", [0.002, *EPSILONS, 16.0])
@cases("name", NAMES)
def test_moments_are_those_of_the_law(name, epsilon):
    """Mean and mean square of the reports at grid points."""
    m = lk.mechanism(name, epsilon=epsilon, domain=(0.0, 1.0))
    slope, low, curve, tilt, level = m.moments
    steps = getattr(m, "steps", 8)
    for point in (0, 1, steps // 3, steps):
        x = point / steps
        law = m.law(x)
        chances, reports = law.probabilities(), np.asarray(law.support)
        # values are taken to 2**-16 of a cell
        near = 1e-6 * max(1.0, float(np.abs(reports).max()) ** 2)
        assert chances @ reports == pytest.approx(low + slope * x, abs=near)
        assert chances @ reports**2 == pytest.approx(level + tilt * x + curve * x**2, abs=near)


@cases("epsilon", [*EPSILONS, 16.0])
@cases("name", ["piecewise", "duchi", "hybrid"])
def test_the_mean_report_is_the_value(name, epsilon):
    """To a thousandth of the domain: what methods that use reports as values rest on."""
    slope, low, *_ = lk.mechanism(name, epsilon=epsilon).moments
    assert abs(low) < 1e-3
    assert abs(low + slope - 1) < 1e-3


def test_hybrid_is_duchis_below_its_threshold():
    """Wang et al.: from 0.61 nats on a mixture is better at the worst input."""
    assert isinstance(lk.mechanism("hybrid", epsilon=0.61), Duchi)
    assert isinstance(lk.mechanism("hybrid", epsilon=0.62), Hybrid)
    for epsilon in (0.7, 1.0, 3.0):
        worst = {
            name: max(textbook(name, epsilon, x) for x in (0.0, 1.0))
            for name in ("hybrid", "piecewise", "duchi")
        }
        assert worst["hybrid"] <= min(worst["piecewise"], worst["duchi"])


# --- the sampler, word by word


@cases("epsilon", EPSILONS)
@cases("place", [0.0, 0.001, 0.25, 0.5, 0.999, 1.0])
@cases("kind", [SquareWave, Piecewise])
def test_words_of_windows_are_cut_where_their_laws_say(kind, place, epsilon):
    """The sampler is a step function of its second word: words at and around every step, weighed by
    their distance, give the law to the last unit.
    """
    steps = kind(epsilon).steps
    # values are grid points
    m, point = kind(epsilon, (0.0, float(steps))), float(round(place * steps))
    near, far, inside = m._near, m._far, m._near * m._reach
    edges = [*range(0, inside, near), *range(inside, inside + far * (steps + 1), far), WORD]
    for first in (0, WORD - 1):
        found = tally(m, point, edges, lambda word, first=first: [first, word])
        assert [weight * ROUND for weight in found] == m.law(point).weights


@cases("epsilon", [0.62, 1.0, 4.0, 8.0])
@cases("place", [0.0, 0.25, 1.0])
def test_hybrid_words_are_cut_where_its_law_says(epsilon, place):
    """The same on either side of the coin, weighed as it falls."""
    steps, reach, _, near, far, heads, _, _, low, rise = Hybrid(epsilon).tables()
    m, point = Hybrid(epsilon, (0.0, float(steps))), round(place * steps)
    inside = near * reach
    edges = [
        *range(0, inside, near),
        *range(inside, inside + far * (steps + 1), far),
        low + rise * point,
        WORD,
    ]
    sides = [
        tally(m, float(point), edges, lambda word, coin=coin: [coin * ROUND, word])
        for coin in (0, heads - 1, heads, ROUND - 1)
    ]
    assert (sides[0] == sides[1]).all() and (sides[2] == sides[3]).all()
    mixed = sides[0] * heads + sides[2] * (ROUND - heads)
    assert [weight * ROUND for weight in mixed] == m.law(float(point)).weights


@cases("epsilon", [1e-6, *EPSILONS, 30.0])
def test_duchis_words_are_cut_where_its_law_says(epsilon):
    """One step; at the ends it lies at ``far`` and ``near`` exactly."""
    m = Duchi(epsilon, (-3.0, 5.0))
    *_, near, far = m.tables()
    for value in (-3.0, -2.9, 1.0, np.pi, 5.0):
        upper = m.law(value).weights[1]
        assert (
            tally(m, value, [0, upper, WORD], lambda word: [word]).tolist() == m.law(value).weights
        )
    assert m.law(-3.0).weights == [near, far]
    assert m.law(5.0).weights == [far, near]


@cases("domain", [(-3.0, 5.0), (0.1, 0.7), (-1e-9, 3e7), (1e15, 1e15 + 3)])
@cases("epsilon", [1e-6, 0.3, 1.0, 8.0])
def test_duchis_chance_is_affine_to_half_a_word(epsilon, domain):
    """Nearest words, and at the ends the certified ones: what its bias is stated to be."""
    m = Duchi(epsilon, domain)
    *_, near, far = m.tables()
    lo, hi = (Fraction(end) for end in domain)
    for value in (
        domain[0],
        (domain[0] + domain[1]) / 2,
        domain[0] + 0.7310585 * (domain[1] - domain[0]),
        domain[1],
    ):
        exact = far + (near - far) * (Fraction(value) - lo) / (hi - lo)
        assert abs(m.law(value).weights[1] - exact) <= Fraction(50001, 100000)
    assert (m.law(domain[0]).weights[1], m.law(domain[1]).weights[1]) == (far, near)


@cases("cells", [64, 1024, 2**14])
@cases("epsilon", [0.62, 0.7, 0.9, 1.1, 2.0, 3.3, 4.0, 5.9, 8.0])
def test_hybrids_chances_are_symmetric(epsilon, cells):
    """Duchi's lower point at the lower end of the domain is as likely as the upper at the upper, to
    the word.
    """
    steps, *_, low, rise = Hybrid(epsilon, cells=cells).tables()
    assert low + rise * steps == WORD - low


@cases("part", [0, 1, 0x1234, 2**16 - 1])
@cases("kind", [SquareWave, Piecewise, Hybrid])
def test_rounding_is_unbiased_and_leaves_the_coin_alone(kind, part):
    """Over all values of its 16 bits, whatever the other 16 of the word, an input goes up exactly
    as often as its place between two grid points says.
    """
    steps = kind(1.0).steps
    m = kind(1.0, (0.0, float(steps)))
    for coin in (0, 7):
        # a second word of 0: the lowest near point
        words = np.column_stack([np.arange(2**16) + coin * ROUND, np.zeros(2**16, np.int64)])
        reports = m.perturb(np.full(2**16, 500 + part / 2**16), Words(words))
        assert (reports == reports.max()).sum() == (part or 2**16)
        assert len(np.unique(reports)) == (2 if part else 1)


# --- parameters


@cases("cells", [0, -64, 32, 63, 100, 1000, 2**15, True, 64.0, "64", None])
@cases("name", ["square_wave", "piecewise", "hybrid"])
def test_bad_grids_are_refused(name, cells):
    """When it is built."""
    with pytest.raises((ValueError, TypeError), match="cells"):
        lk.mechanism(name, epsilon=1.0, cells=cells)


@cases(
    ("name", "epsilon"),
    [("square_wave", 1e-10), ("piecewise", 1e-4), ("duchi", 5e-7), ("hybrid", 1e-10)],
)
def test_an_epsilon_too_small_for_words_is_refused(name, epsilon):
    """Not rounded to nothing."""
    with pytest.raises(ValueError, match="too small"):
        lk.mechanism(name, epsilon=epsilon)


@cases("epsilon", [20.0, 60.0, 1e3, 1e300])
@cases("name", NAMES)
def test_huge_epsilons_work(name, epsilon):
    """A word of 32 bits loses 22 nats at most; the stated error is that of the
    rounding, not zero.
    """
    m = lk.mechanism(name, epsilon=epsilon, domain=(-1.0, 1.0))
    assert 19 < m.certificate().epsilon_effective <= log(WORD)
    reports = m.perturb(np.full(4000, 0.12345), lk.randomness.seeded(1))
    estimate = m.estimate(reports)
    assert abs(estimate.value - 0.12345) < 6 * estimate.standard_error


@pytest.mark.parametrize("kind", [SquareWave, Piecewise, Hybrid])
def test_a_finer_grid_is_another_mechanism(kind):
    """Its tables, and so a topology's fingerprint, tell."""
    tables = {cells: kind(1.0, cells=cells).tables() for cells in (256, 1024, 4096)}
    assert len(set(tables.values())) == 3
    assert kind(1.0).tables() == tables[1024]
    assert kind(1.0).steps >= 1023


def test_square_wave_is_what_it_was():
    """Reports under one key and the integers of the fingerprint stay the same from version to
    version.
    """
    assert SquareWave(1.0).tables() == (1024, 262, 4765087, 1752978)
    assert SquareWave(0.05).tables() == (1024, 495, 2186725, 2080080)
    values = np.arange(40_000) * 0.6180339887498949 % 1
    reports = np.concatenate(
        [SquareWave(epsilon).perturb(values, lk.randomness.seeded(3)) for epsilon in EPSILONS]
    )
    assert sha256((reports * 1024).astype("<i4").tobytes()).hexdigest()[:16] == "2ec71c63ac74e882"
