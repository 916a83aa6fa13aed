"""Mechanisms that draw from a table: the table itself, Laplace, and the approximate guarantee of
the Gaussian ones.
"""

from __future__ import annotations

from collections import Counter
from decimal import Decimal, localcontext
from fractions import Fraction
from math import exp, inf, nan

import numpy as np
import pytest
from scipy.stats import norm

import ldp_kafka as lk
from ldp_kafka.checks.failure import refused
from ldp_kafka.checks.laws import rows
from ldp_kafka.checks.mechanism import MECHANISM_CHECKS, MechanismTrial
from ldp_kafka.checks.sources import KEY, Constant
from ldp_kafka.checks.trial import SAMPLES
from ldp_kafka.mechanisms.additive import Noise
from ldp_kafka.mechanisms.alias import AliasTable
from ldp_kafka.mechanisms.base import exp_below
from ldp_kafka.mechanisms.gaussian import PARTS, analytic_delta, analytic_sigma, normal_noise
from ldp_kafka.randomness import keyed, seeded, system
from tests.cases import cases
from tests.contract.approximate import APPROXIMATE, VECTORS, hockey_stick
from tests.contract.epsilons import EPSILONS
from tests.contract.words import Words, limbs
from tests.depth import depth
from tests.mutants.mechanisms import DELTA, DIMENSION, Vector

# --- the table


def random_weights(n, seed):
    """Weights over many orders of magnitude, some of them 0, that sum to 2**64."""
    rng = np.random.default_rng(seed)
    raw = [int(x) for x in 2.0 ** rng.uniform(0, 52, n) * (rng.random(n) > 0.1)]
    raw[-1] += 1
    weights = [x * 2**64 // sum(raw) for x in raw]
    weights[-1] += 2**64 - sum(weights)
    return weights


@cases("n", [1, 2, 3, 7, 64, 65, 1000, 5377])
def test_alias_table_is_exact(n):
    """Cut at its steps and weighed, what `draw` gives is the weights to the last unit."""
    weights = random_weights(n, n)
    table = AliasTable(weights, start=-5)
    columns = 1 << (n - 1).bit_length()
    rest = 2**64 // columns
    seen = Counter()
    for column, cut in enumerate(table._cut.tolist()):
        kept = min(max(-((column - cut) // columns), 0), rest)
        for low, high in ((0, kept), (kept, rest)):
            if low < high:
                first, last = table.draw(
                    np.array([low * columns + column, (high - 1) * columns + column], np.uint64)
                ).tolist()
                assert first == last
                seen[first] += high - low
    assert [seen[i - 5] for i in range(n)] == weights


@cases("weights", [[], [2**64 - 1], [2**64, 1], [2**65, -(2**64)], [2**44] * 2**20 + [0]])
def test_weights_that_are_no_law_are_refused(weights):
    """They must be whole, not negative, sum to 2**64 and fit a table."""
    with pytest.raises(ValueError):
        AliasTable(weights)


@cases("outer", [[1, 2, 3], [5, 0, 1], [5, 4, 0], [2**63 // 3, 2**63 // 3 + 1, 1]])
def test_a_noise_must_fall(outer):
    """The proofs of the guarantees rest on it, so it is checked where it is made."""
    with pytest.raises(ValueError):
        Noise.of(outer)


# --- both mechanisms


def laplace(**kw):
    return lambda epsilon: lk.mechanism("laplace", epsilon=epsilon, **kw)


def gaussian(**kw):
    return lambda epsilon: lk.mechanism("gaussian", epsilon=epsilon, **{"delta": DELTA, **kw})


TRIALS = [
    pytest.param(
        MECHANISM_CHECKS,
        MechanismTrial(laplace(domain=(-1e12, -1e6), cells=64), 0.3, SAMPLES),
        id="laplace-wide",
    ),
    pytest.param(
        MECHANISM_CHECKS,
        MechanismTrial(laplace(domain=(1e-9, 3e-9), cells=8), 1.0, SAMPLES),
        id="laplace-coarse",
    ),
    *(
        pytest.param(APPROXIMATE, MechanismTrial(gaussian(), e, SAMPLES), id=f"gaussian-{e}")
        for e in (0.01, 1.0, 8.0)
    ),
    pytest.param(
        APPROXIMATE,
        MechanismTrial(gaussian(delta=1e-9, domain=(-40.0, 7280.0)), 1.0, SAMPLES),
        id="gaussian-1e-9",
    ),
    pytest.param(
        APPROXIMATE, MechanismTrial(gaussian(delta=0.1, cells=16), 1.0, SAMPLES), id="gaussian-0.1"
    ),
    *(
        pytest.param(VECTORS, MechanismTrial(Vector, e, SAMPLES), id=f"vector-{e}")
        for e in (0.1, 1.0, 4.0)
    ),
]


@pytest.mark.parametrize(("checks", "trial"), TRIALS)
def test_contract(checks, trial):
    """Every check that applies."""
    for check in checks.values():
        check(trial)


@cases(("make", "epsilon"), [(laplace(), 1.0), (gaussian(), 1.0), (laplace(cells=16), 2.0)])
@cases("share", [0.0, 0.5, 1.0])
def test_words_are_cut_where_the_law_says(make, epsilon, share):
    """Through `perturb`: words at and around every cut of the table, weighed by their distance,
    give the law to the last unit.
    """
    m = make(epsilon)
    lo, hi = m.domain
    value = lo + share * (hi - lo)
    cuts = m._table._cut.tolist()
    columns, words, widths = len(cuts), [], []
    rest = 2**64 // columns
    for column, cut in enumerate(cuts):
        kept = min(max(-((column - cut) // columns), 0), rest)
        for low, high in ((0, kept), (kept, rest)):
            if low < high:
                words.append((low * columns + column, (high - 1) * columns + column))
                widths.append(high - low)

    low, high = (
        m.perturb(np.full(len(words), value), Words([[0, 0, *limbs(pair[i], 2)] for pair in words]))
        for i in (0, 1)
    )
    assert np.array_equal(low, high)
    law = m.law(value)
    seen = Counter()
    for report, width in zip(low.tolist(), widths, strict=True):
        seen[report] += width * m._round
    assert [seen[report] for report in law.support.tolist()] == law.weights


@pytest.mark.parametrize("cells", [8, 256, 4096])
def test_rounding_is_unbiased(cells):
    """An input goes up for exactly as many values of the first word as its place between two grid
    points says.
    """
    m = lk.mechanism("laplace", epsilon=1.0, domain=(0.0, 1.0), cells=cells)
    one = 2**31 // cells  # steps of a cell
    nothing = m._noise.reach  # the least word of the column of noise 0
    for part in (0, 1, one // 3, one - 1):
        # up from one - part on
        words = {0: False, one - part - 1: False, one - part: part > 0, one - 1: part > 0}
        for word, up in words.items():
            if word < one:
                # the word's upper bits do not count
                report = m.perturb(
                    np.array([(3 * one + part) / 2**31]), Constant((word + 2**31, 0, nothing, 0))
                )
                assert report == (3 + up) * m.scale


# --- Laplace


def worst(law_of, points):
    """The largest ratio of any output and any two of these inputs."""
    top, bottom = 0, 1
    laws = [law_of(point) for point in points]
    for column in zip(*(law.weights for law in laws), strict=True):
        a, b = max(column), min(column)
        if a * bottom > top * b:
            top, bottom = a, b
    return Fraction(top, bottom)


@cases("epsilon", [1e-4, 0.001, *EPSILONS, 16.0, 20.0])
def test_laplace_certificate(epsilon):
    """Never above e^epsilon, and nothing to speak of below."""
    certificate = lk.mechanism("laplace", epsilon=epsilon).certificate()
    assert certificate.ratio <= exp_below(epsilon)
    assert (
        epsilon * (1 - (1e-5 if epsilon <= 16 else 2e-4))
        <= certificate.epsilon_effective
        <= epsilon
    )
    assert certificate.delta == 0


@pytest.mark.parametrize("epsilon", [30.0, 50.0, 1e6])
def test_laplace_beyond_its_words(epsilon):
    """It goes on being private where 64 bits end."""
    m = lk.mechanism("laplace", epsilon=epsilon)
    assert m.certificate().ratio <= exp_below(min(epsilon, 50.0))
    assert m.certificate().epsilon_effective > 29
    assert abs(m.estimate(m.perturb(np.full(1000, 0.5), seeded(1))).value - 0.5) < 0.1


@cases(("epsilon", "cells"), [(0.05, 2), (0.5, 4), (1.0, 8), (2.0, 16), (8.0, 64)])
def test_laplace_certificate_is_the_worst_of_all_pairs(epsilon, cells):
    """By brute force over all grid points and points between them."""
    m = lk.mechanism("laplace", epsilon=epsilon, domain=(0.0, 1.0), cells=cells)
    assert worst(m.law, np.arange(2 * cells + 1) / (2 * cells)) == m.certificate().ratio


@cases("epsilon", EPSILONS)
def test_laplace_moments(epsilon):
    """Bias below 1e-8 of the domain, variance 2 (domain / epsilon)^2 to within 2e-5 of it, whatever
    the value.
    """
    m = lk.mechanism("laplace", epsilon=epsilon, domain=(-1.0, 1.0))
    for value in (-1.0, -0.3, 1e-9, 0.7310585, 1.0):
        law = m.law(value)
        share = law.probabilities()
        mean = share @ law.support
        assert abs(2 * mean - 1 - value) < 1e-8
        assert share @ (law.support - mean) ** 2 == pytest.approx(2 / epsilon**2, rel=2e-5)


def test_reports_reach_their_ends():
    """The extreme words give the ends of the index range, for every input: nothing is
    out of reach.
    """
    for m in (
        lk.mechanism("laplace", epsilon=2.0, cells=16),
        lk.mechanism("gaussian", epsilon=2.0, delta=0.1, cells=16),
    ):
        low, high = m.index_range
        for value in m.domain:
            law = m.law(value)
            assert (law.support[0] / m.scale, law.support[-1] / m.scale) == (low, high)
            assert min(law.weights) > 0


# --- Gaussian


def test_gaussian_check_value():
    """The analytic calibration at epsilon 1, delta 1e-5, sensitivity sqrt(2)."""
    assert analytic_sigma(1.0, 1e-5) * 2**0.5 == pytest.approx(5.2759, abs=5e-5)


@cases("epsilon", [1e-3, *EPSILONS, 20.0, 50.0])
@cases("delta", [1e-12, 1e-9, 1e-5, 0.1, 0.9])
def test_gaussian_calibration(epsilon, delta):
    """Against scipy's distribution functions: never less than needed, and no more than a millionth
    more.
    """
    sigma = analytic_sigma(epsilon, delta)

    def true(s):
        return norm.cdf(0.5 / s - epsilon * s) - exp(epsilon) * norm.cdf(-0.5 / s - epsilon * s)

    assert true(sigma) <= delta < true(sigma * (1 - 1e-6)) + 1e-6 * delta
    assert true(sigma) <= analytic_delta(epsilon, sigma)


def tail(x):
    """P[Z > x] for a standard normal Z, to 60 digits: the series of Phi, x up to 12."""
    with localcontext() as context:
        context.prec = 120
        x = Decimal(x.numerator) / Decimal(x.denominator)
        term = total = x
        k = 1
        while abs(term) > Decimal(10) ** -110:
            term = term * x * x / (2 * k + 1)
            total += term
            k += 1
        pi = Decimal(
            "3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862"
            "803482534211706798214808651"
        )
        return Decimal("0.5") - total * (-x * x / 2).exp() / (2 * pi).sqrt()


@cases(("parts", "cells"), [(8 * PARTS, 2), (8 * PARTS, 64), (15237, 64), (50001, 1)])
def test_gaussian_weights_to_the_last_unit(parts, cells):
    """Each is the nearest integer to 2**64 times the probability, computed another way to 60
    digits.
    """
    noise = normal_noise(parts, cells)
    reach = noise.reach
    for j in sorted({1, 2, 3, parts // PARTS, 3 * parts // PARTS, reach // 2, reach - 1, reach}):
        low, high = (Fraction(2 * j + side, 2) * PARTS / parts for side in (-1, 1))
        true = (tail(low) - (tail(high) if j < reach else 0)) * 2**64
        assert (
            abs(noise.half[j] - max(true, 1)) <= Decimal("0.5000001")
            if true > Decimal("0.5")
            else noise.half[j] == 1
        )


@pytest.mark.parametrize("delta", [1e-9, 1e-5, 0.01])
@cases("epsilon", [0.001, *EPSILONS, 16.0])
def test_gaussian_certificate(epsilon, delta):
    """At most delta, and sigma within a ten-thousandth of the continuous mechanism's."""
    m = lk.mechanism("gaussian", epsilon=epsilon, delta=delta)
    certificate = m.certificate()
    assert 0.95 * delta < certificate.delta <= Fraction(delta)
    assert certificate.ratio == exp_below(epsilon)
    assert m.sigma == pytest.approx(analytic_sigma(epsilon, delta), rel=1e-4)
    assert m.sigma >= analytic_sigma(epsilon, delta)


@pytest.mark.parametrize(
    ("epsilon", "delta", "cells"),
    [(0.05, 0.01, 2), (1.0, 1e-5, 4), (1.0, 0.1, 16), (4.0, 1e-6, 32), (8.0, 0.1, 64)],
)
def test_gaussian_certificate_is_the_worst_of_all_pairs(epsilon, delta, cells):
    """By brute force over all ordered pairs of grid points: largest at the ends, and the
    certificate is no more than 1e-15 above.
    """
    m = lk.mechanism("gaussian", epsilon=epsilon, delta=delta, domain=(0.0, 1.0), cells=cells)
    certificate, laws = m.certificate(), [m.law(point / cells) for point in range(cells + 1)]
    lost = {
        (i, j): hockey_stick(a, b, certificate.ratio)
        for i, a in enumerate(laws)
        for j, b in enumerate(laws)
    }
    ends = lost[0, cells]
    assert ends == lost[cells, 0] == max(lost.values())
    assert ends <= certificate.delta <= ends + Fraction(1, 10**15)


@cases("epsilon", EPSILONS)
def test_gaussian_moments(epsilon):
    """No bias, and variance sigma^2 to within 1e-5 of it, whatever the value."""
    m = lk.mechanism("gaussian", epsilon=epsilon, delta=DELTA, domain=(0.0, 1.0))
    for value in (0.0, 1e-9, 0.3, 1.0):
        law = m.law(value)
        share = law.probabilities()
        mean = share @ law.support
        assert abs(mean - value) < 1e-9 * max(1, m.sigma)
        assert share @ (law.support - mean) ** 2 == pytest.approx(m.sigma**2, rel=1e-5)


@pytest.mark.parametrize("dimension", depth([1, 10, 1000], [1, 2, 10, 100, 1000]))
@cases("epsilon", [0.1, 1.0, 4.0])
def test_vector_calibration(epsilon, dimension):
    """The bound is at most delta, and the grid costs at most 3.5 % of sigma."""
    m = lk.mechanism("gaussian_vector", epsilon=epsilon, delta=DELTA, dimension=dimension)
    assert 0.98 * DELTA < m.certificate().delta <= Fraction(DELTA)
    assert 1 < m.sigma / analytic_sigma(epsilon, DELTA) < 1.035


def test_coupled_vectors_on_the_grid():
    """Two ends of a diameter, rounded with the same words, are farther apart than the calibrated
    distance less often than stated, and never beyond its sure bound.
    """
    dimension, cells = 50, 64
    m = lk.mechanism("gaussian_vector", epsilon=1.0, delta=0.5, dimension=dimension, cells=cells)
    rng = np.random.default_rng(4)
    direction = rng.normal(size=(2000, dimension))
    ends = direction / np.linalg.norm(direction, axis=1, keepdims=True) / 2
    add = rng.integers(0, 2**31 // cells, ends.shape)
    a, b = ((m._snap(m._inside(v)).astype(np.int64) + add) >> (31 - 6) for v in (ends, -ends))
    distance = np.sqrt(((a - b) ** 2).sum(axis=1))
    assert distance.max() <= cells + dimension**0.5
    assert (distance > m._sensitivity(cells)).mean() <= m._rare + 0.01
    assert (distance**2).mean() <= cells**2 + dimension / 4 + 10


# --- what is refused


BAD_NUMBERS = (0, -1.0, nan, inf, "1", None, True)


@cases("name", ["laplace", "gaussian", "gaussian_vector"])
@cases("bad", BAD_NUMBERS)
def test_bad_epsilon_and_delta(name, bad):
    """Both must be numbers in range when it is built."""
    shape = {"dimension": 2} if name == "gaussian_vector" else {}
    with pytest.raises((TypeError, lk.ConfigurationError)):
        lk.mechanism(name, epsilon=bad, **shape, **({} if name == "laplace" else {"delta": 1e-5}))
    if name != "laplace":
        with pytest.raises((TypeError, lk.ConfigurationError)):
            lk.mechanism(name, epsilon=1.0, delta=bad, **shape)


@cases("cells", [0, 3, -4, 2**17, 4.0, True, "8"])
@cases("make", [laplace, gaussian])
def test_bad_cells(make, cells):
    """A power of two."""
    with pytest.raises((TypeError, lk.ConfigurationError)):
        make(cells=cells)(1.0)


@cases(
    ("name", "parameters"),
    [
        ("laplace", {"epsilon": 1e-5}),  # the table would be too large
        ("laplace", {"epsilon": 0.1, "cells": 2**16}),
        ("laplace", {"epsilon": 4.0, "cells": 16}),  # the noise would be too coarse
        ("gaussian", {"epsilon": 1e-5, "delta": 1e-9}),
        ("gaussian", {"epsilon": 1.0, "delta": 1e-9, "cells": 2**16}),
        ("gaussian", {"epsilon": 8.0, "delta": 0.1, "cells": 2}),
        ("gaussian", {"epsilon": 1.0, "delta": 1e-300}),
        ("gaussian", {"epsilon": 1.0, "delta": 1e-16}),  # 64 bits are too few
        (
            "gaussian",
            {"epsilon": 1.0},
        ),  # there is no default delta: a pure mechanism cannot be replaced by oversight
        ("gaussian_vector", {"epsilon": 30.0, "delta": 1e-9, "dimension": 1000}),
        ("gaussian_vector", {"epsilon": 1.0, "delta": 1e-5, "dimension": 0}),
        ("gaussian_vector", {"epsilon": 1.0, "delta": 1e-5, "dimension": 2.0}),
        ("gaussian_vector", {"epsilon": 1.0, "delta": 1e-5, "dimension": True}),
        ("gaussian_vector", {"epsilon": 1.0, "delta": 1e-5, "dimension": 2, "cells": 1}),
        ("gaussian_vector", {"epsilon": 1.0, "delta": 1e-5, "dimension": 2, "diameter": 0.0}),
        ("gaussian_vector", {"epsilon": 1.0, "delta": 1e-5, "dimension": 2, "diameter": nan}),
    ],
)
def test_what_no_table_can_do_is_refused(name, parameters):
    """Before a value is seen."""
    with pytest.raises((TypeError, lk.ConfigurationError)):
        lk.mechanism(name, **parameters)


def test_bad_vectors_are_refused():
    """Another shape, NaN and infinities, without being shown."""
    m = Vector(1.0)
    for bad in (
        np.array([[1.0, nan, 987654321.0]]),
        np.array([[1.0, inf, 987654321.0]]),
        np.array([[987654321.0, 1.0]]),
        np.array([987654321.0]),
    ):
        refused(
            lambda bad=bad: m.perturb(bad, system()), "a vector that is none", hidden=["987654321"]
        )
    assert m.perturb(np.empty((0, DIMENSION)), system()).shape == (0, DIMENSION)


@pytest.mark.parametrize("diameter", [1e-250, 1.0, 8e307])
def test_extreme_balls_work(diameter):
    """Any vector of floats is held within any ball, without a warning."""
    m = lk.mechanism("gaussian_vector", epsilon=1.0, delta=DELTA, dimension=2, diameter=diameter)
    values = np.array(
        [[1e308, -1e308], [5e-324, 0.0], [0.0, 0.0], [diameter, 0.0], [diameter / 2, 0.0]]
    )
    inside = m._inside(values) / diameter
    assert np.allclose(
        inside[[0, 3, 4]], [[0.5**1.5, -(0.5**1.5)], [0.5, 0.0], [0.5, 0.0]], atol=1e-12
    )
    assert np.array_equal(m.perturb(values, seeded(1)), m.perturb(inside * diameter, seeded(1)))


def test_vector_reports_and_tables():
    """Multiples of a power of two within the index range; tables tell parameters apart."""
    m = Vector(1.0)
    values = np.random.default_rng(5).uniform(-9, 9, (5000, DIMENSION))
    reports = m.perturb(values, seeded(7))
    assert np.array_equal(reports, m.perturb(values, seeded(7)))
    low, high = m.index_range
    assert low == -high and low <= (reports / m.scale).min() and (reports / m.scale).max() <= high
    assert len({Vector(e).tables() for e in (1.0, 0.5, 2.0)}) == 3
    assert len(set(rows(m.law(0.0).support))) == high - low + 1
    with pytest.raises((TypeError, ValueError, RuntimeError)):
        m.perturb(values, keyed(KEY))
