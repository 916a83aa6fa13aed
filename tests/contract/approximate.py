"""The checks of an approximate guarantee, and of a mechanism for vectors."""

from __future__ import annotations

from fractions import Fraction
from math import log

import numpy as np

from ldp_kafka.checks.chisquare import FALSE_ALARM, by_place, limit, statistic
from ldp_kafka.checks.failure import require
from ldp_kafka.checks.laws import counts
from ldp_kafka.checks.mechanism import MECHANISM_CHECKS
from ldp_kafka.checks.sources import KEY, Constant
from ldp_kafka.mechanisms.base import CHUNK, exp_below
from ldp_kafka.mechanisms.gaussian import analytic_delta
from ldp_kafka.randomness import keyed, system
from tests.mutants.mechanisms import DIAMETER, DIMENSION

__all__ = ["APPROXIMATE", "VECTORS", "hockey_stick"]


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


APPROXIMATE = {
    "delta_is_true": delta_is_true,
    **{name: check for name, check in MECHANISM_CHECKS.items() if name != "certificate_is_true"},
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
