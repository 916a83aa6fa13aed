"""Mechanisms that draw from a table: the table itself, Laplace, and the approximate guarantee of
the Gaussian ones.
"""

from __future__ import annotations

from collections import Counter
from decimal import Decimal, localcontext
from fractions import Fraction
from math import exp, inf, log, nan

import numpy as np
import pytest
from scipy.stats import norm

import ldp_kafka as lk
from ldp_kafka.checks import CheckFailure
from ldp_kafka.checks.chisquare import FALSE_ALARM, by_place, limit, statistic
from ldp_kafka.checks.failure import refused, require
from ldp_kafka.checks.laws import counts, rows
from ldp_kafka.checks.mechanism import MECHANISM_CHECKS, MechanismTrial
from ldp_kafka.checks.sources import KEY, Constant
from ldp_kafka.checks.trial import SAMPLES
from ldp_kafka.mechanisms.additive import Noise
from ldp_kafka.mechanisms.alias import AliasTable
from ldp_kafka.mechanisms.base import CHUNK, exp_below
from ldp_kafka.mechanisms.gaussian import PARTS, analytic_delta, analytic_sigma, normal_noise
from ldp_kafka.randomness import keyed, seeded, system
from tests.cases import cases
from tests.contract.table_mutants import (
    DELTA,
    DIAMETER,
    DIMENSION,
    TABLE_MUTANTS,
    Lap,
    Normal,
    Vector,
)
from tests.depth import depth

EPSILONS = (0.01, 0.05, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0)


# --- the checks of an approximate guarantee


def hockey_stick(a, b, ratio):
    """The least delta with P_a[S] <= ratio P_b[S] + delta for every set S, exact."""
    over, under = ratio.as_integer_ratio()
    lost = sum(
        max(x * b.denominator * under - y * a.denominator * over, 0)
        for x, y in zip(a.weights, b.weights, strict=True)
    )
    return Fraction(lost, a.denominator * b.denominator * under)


def delta_is_true(trial):
    """The certified delta is at most delta and at least what any two probed laws lose at e^epsilon;
    some pair comes within 2 % of it.
    """
    m, certificate = trial.mechanism, trial.mechanism.certificate()
    require(
        type(certificate.ratio) is Fraction and type(certificate.delta) is Fraction,
        "ratio and delta must be Fractions",
    )
    require(
        1 < certificate.ratio <= exp_below(trial.epsilon),
        "the ratio that delta is stated for must be at most e^epsilon",
    )
    require(
        abs(certificate.epsilon_effective - log(certificate.ratio)) <= 1e-9 * trial.epsilon,
        "the effective epsilon must be its logarithm",
    )
    require(0 < certificate.delta <= Fraction(m.delta), "the certified delta must be at most delta")
    worst = max(hockey_stick(a, b, certificate.ratio) for a in trial.laws for b in trial.laws)
    require(
        worst <= certificate.delta, "two probed laws must not lose more than the certified delta"
    )
    require(
        worst >= Fraction(98, 100) * certificate.delta,
        "a pair of probes must come within 2 % of the certified delta: it is computed, not"
        " declared",
    )


def vectors_are_noised_by_coordinate(trial):
    """Each coordinate of a report follows the law of one number, and no two go together."""
    m, n = trial.mechanism, 2**17
    reports = m.perturb(np.tile([3.0, -2.0, 0.0], (n, 1)), system())
    require(
        reports.shape == (n, DIMENSION)
        and np.array_equal(reports / m.scale, np.rint(reports / m.scale)),
        "reports must be whole multiples of scale",
    )
    for value, column in zip((3.0, -2.0, 0.0), reports.T, strict=True):
        law = m.law(value)
        expected = law.probabilities() * n
        found, freedom = statistic(
            counts(np.ascontiguousarray(column), law), expected, by_place(expected)
        )
        require(found <= limit(freedom, FALSE_ALARM / 6), "coordinates must follow the law")
    together = np.corrcoef(reports.T)[np.triu_indices(DIMENSION, 1)]
    require(
        np.abs(together).max() < 5.3 / n**0.5, "the noise of two coordinates must not go together"
    )


def vectors_stay_in_the_ball(trial):
    """Whatever comes in, what is noised lies within the public ball and points where it pointed."""
    m = trial.mechanism
    for long in (
        [300.0, -400.0, 0.0],
        [1e200, 1e200, 1e200],
        [1e-300, 0.0, 0.0],
        [4.9, 4.9, 4.9],
        [0.0, 0.0, 0.0],
        [-1e308, 1e308, 1e308],
    ):
        vector = np.array(long)
        unit = vector / max(np.abs(vector).max(), 5e-324)
        near = (
            vector
            if np.sqrt((unit**2).sum()) * np.abs(vector).max() <= DIAMETER / 2
            else unit / np.sqrt((unit**2).sum()) * DIAMETER / 2
        )
        for word in (0, 2**32 - 1):  # rounded down, and up
            # noise 0
            got, expected = (
                m.perturb(np.array([v]), Constant((word, 0, m._noise.reach, 0)))
                for v in (vector, near)
            )
            require(
                np.abs(got - expected).max() <= m.scale,
                "a vector must be shortened to the ball, in its direction",
            )


def vector_delta_covers_the_grid(trial):
    """The certified delta is at most delta, and no less than normal noise has for the distances
    that rounding leaves between two vectors.
    """
    m = trial.mechanism
    certificate = m.certificate()
    require(
        type(certificate.delta) is Fraction and 0 < certificate.delta <= Fraction(m.delta),
        "the certified delta must be at most delta",
    )
    require(
        certificate.ratio <= exp_below(trial.epsilon),
        "the ratio that delta is stated for must be at most e^epsilon",
    )
    rng, distance = np.random.default_rng(1), 0.0
    source = Constant(tuple(rng.integers(0, 2**32, 4 * DIMENSION)))
    for _ in range(200):
        direction = rng.normal(size=(1, DIMENSION))
        end = direction / np.linalg.norm(direction) * DIAMETER / 2
        distance = max(
            distance, float(np.linalg.norm(m.perturb(end, source) - m.perturb(-end, source)))
        )
    require(distance > 1, "the coupled distance grows by the grid")
    require(
        analytic_delta(m.epsilon, m.sigma / distance)
        <= certificate.delta * (1 + Fraction(1, 10**6)),
        "delta must cover the distances on the grid",
    )


def vector_pieces_do_not_matter(trial):
    """A batch, its halves and its single rows get the same reports; the values are left as they
    were.
    """
    n, m = CHUNK // DIMENSION * 2 + 3, trial.mechanism
    values = np.random.default_rng(2).uniform(-5, 5, (n, DIMENSION))
    values.flags.writeable = False
    users = np.column_stack([np.arange(n), np.arange(n)]).astype(np.uint64)

    def reports(part):
        return m.perturb(
            values[part],
            keyed(KEY).at(users[part], 3, 0, np.zeros((len(users[part]), 0), np.int64)),
        )

    whole = reports(slice(0, n))
    edge = CHUNK // DIMENSION
    for part in (
        slice(0, n // 2),
        slice(n // 2, n),
        *(slice(i, i + 1) for i in (0, 1, edge - 1, edge, edge + 1, n - 1)),
    ):
        require(
            np.array_equal(reports(part), whole[part]),
            "a vector's report must not depend on the batch it comes in",
        )


def vector_estimates_are_stated(trial):
    """The mean vector is the mean of the vectors, its errors are those of the noise, and supports
    add up.
    """
    m, n = trial.mechanism, 2**16
    values = np.random.default_rng(3).normal(size=(n, DIMENSION))
    values *= np.minimum(1, DIAMETER / 2 / np.linalg.norm(values, axis=1, keepdims=True))
    reports = m.perturb(values, system())
    support = m.support(reports)
    require(
        support.dtype == np.int64 and support[0] == n,
        "a support must be int64 and begin with the number of reports",
    )
    require(
        np.array_equal(support, m.support(reports[:100]) + m.support(reports[100:])),
        "supports must add up",
    )
    estimate = m.estimate(reports)
    require(
        np.abs((estimate.value - values.mean(axis=0)) / estimate.standard_error).max() < 6,
        "the estimate must be the mean",
    )
    require(
        np.allclose(
            estimate.standard_error * n**0.5, (reports * m.diameter - values).std(axis=0), rtol=0.03
        ),
        "the error must be the noise's",
    )
    total = m.estimate_support(support, population=True)
    require(
        np.allclose((total.variance * n) ** 0.5, (reports * m.diameter).std(axis=0, ddof=1)),
        "the population's variance must be that of the reports",
    )
    empty = m.estimate(reports[:0])
    require(
        empty.reports == 0 and np.isnan(empty.value).all() and np.isinf(empty.standard_error).all(),
        "without reports an estimate must be NaN",
    )


PURE = MECHANISM_CHECKS
APPROXIMATE = {
    "delta_is_true": delta_is_true,
    **{name: check for name, check in PURE.items() if name != "certificate_is_true"},
}
VECTORS = {
    check.__name__: check
    for check in (
        vectors_are_noised_by_coordinate,
        vectors_stay_in_the_ball,
        vector_delta_covers_the_grid,
        vector_pieces_do_not_matter,
        vector_estimates_are_stated,
    )
}
CHECKS = {**PURE, **APPROXIMATE, **VECTORS}


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
    *(
        pytest.param(PURE, MechanismTrial(laplace(), e, SAMPLES), id=f"laplace-{e}")
        for e in (0.01, 1.0, 8.0)
    ),
    pytest.param(
        PURE,
        MechanismTrial(laplace(domain=(-1e12, -1e6), cells=64), 0.3, SAMPLES),
        id="laplace-wide",
    ),
    pytest.param(
        PURE,
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


@pytest.mark.parametrize("kind", TABLE_MUTANTS)
def test_broken_table_mechanism_is_found(kind):
    """The check meant for it says so."""
    with pytest.raises(CheckFailure):
        CHECKS[TABLE_MUTANTS[kind]](MechanismTrial(kind, 1.0, SAMPLES))


def test_enough_mutants():
    """At least six a mechanism, and every check of the approximate guarantee kills."""
    for base in (Lap, Normal, Vector):
        assert sum(issubclass(kind, base) for kind in TABLE_MUTANTS) >= 6
    assert {"delta_is_true", *VECTORS} <= set(TABLE_MUTANTS.values())


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

    class Words:
        def __init__(self, of):
            self.table = np.array([[0, 0, word % 2**32, word >> 32] for word in of], np.uint32)

        def within(self, context):
            return self

        def words(self, n, k=1, *, first=0):
            assert k == 4
            return self.table[first : first + n]

    low, high = (
        m.perturb(np.full(len(words), value), Words([pair[i] for pair in words])) for i in (0, 1)
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


@cases("domain", [(0.0, 1e-250), (-8e307, 8e307), (1e15, 1e15 + 1)])
@cases("make", [laplace, gaussian])
def test_extreme_domains_work(make, domain):
    """Up to there the law is the unit interval's."""
    m, unit = make(domain=domain)(1.0), make(domain=(0.0, 1.0))(1.0)
    for share in (0.0, 0.5, 1.0):
        assert m.law(domain[0] + share * (domain[1] - domain[0])).weights == unit.law(share).weights
