"""Broken twins of the mechanisms that draw from a table, and the check that must find each."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from ldp_kafka.mechanisms import Gaussian, GaussianVector, Laplace
from ldp_kafka.mechanisms.additive import AdditiveNoise, Noise
from ldp_kafka.mechanisms.base import Certificate, Estimate, Law, exp_below
from ldp_kafka.mechanisms.gaussian import normal_noise
from ldp_kafka.mechanisms.laplace import _weights
from tests.contract.deaf import shares_its_words

TABLE_MUTANTS: dict[type, str] = {}
"""Class -> name of the check."""

DELTA, DIMENSION, DIAMETER = 1e-5, 3, 10.0


def dies(check):
    """Register a mutant under the check that must kill it."""

    def register(mutant):
        TABLE_MUTANTS[mutant] = check
        return mutant

    return register


class Lap(Laplace):
    """On its native interval, so that every mutant is built from epsilon alone."""

    def __init__(self, epsilon):
        super().__init__(epsilon, (-1.0, 1.0))


class Normal(Gaussian):
    """The same at one delta."""

    def __init__(self, epsilon):
        super().__init__(epsilon, DELTA, (-1.0, 1.0))


class Vector(GaussianVector):
    """The same in three dimensions."""

    def __init__(self, epsilon):
        super().__init__(epsilon, DELTA, DIMENSION, DIAMETER)


def declared(epsilon):
    """A certificate that computes nothing."""
    return Certificate(exp_below(epsilon), epsilon)


# --- Laplace


@dies("sampler_follows_law")
class LapIsThreePercentWider(Lap):
    def perturb(self, values, randomness):
        return other_noise(self, Lap(self.epsilon / 1.03), values, randomness)


@dies("sampler_follows_law")
class LapIsThreePercentNarrower(Lap):
    def perturb(self, values, randomness):
        return other_noise(self, Lap(self.epsilon * 1.03), values, randomness)


@dies("sampler_follows_law")
class LapOnlyAdds(Lap):
    def _draw(self, steps, words):
        points = steps.copy() >> self._shift
        return points.view(np.int32) + np.abs(super()._draw(steps, words) - points.view(np.int32))


def other_noise(mechanism, other, values, randomness):
    """Reports of a mechanism whose noise is drawn from another's table."""
    noise = mechanism._noise
    mechanism._noise = other._noise
    try:
        return AdditiveNoise.perturb(mechanism, values, randomness)
    finally:
        mechanism._noise = noise


@dies("law_is_exact")
class LapEndsItsNoiseInsteadOfItsReports(Lap):
    """Truncated noise: which outputs are possible depends on the input."""

    def _law(self, step):
        point = step // self._round
        half = self._noise.half
        return Law(
            (np.arange(-self._noise.reach, self._noise.reach + 1) + point) * self.scale,
            [*half[:0:-1], *half],
            2**64,
        )


@dies("law_is_exact")
class LapDropsWhatIsRare(Lap):
    def law(self, value):
        law = super().law(value)
        return law._replace(
            weights=[weight if weight > law.denominator >> 25 else 0 for weight in law.weights]
        )


@dies("certificate_is_true")
class LapIsNotBuiltAgain(Lap):
    """Rounded to the nearest and left so: some ratio is a little above e^epsilon."""

    def __init__(self, epsilon):
        super().__init__(epsilon)
        noise = Noise.of(_weights(exp_below(epsilon / self.cells), self._noise.reach)[1:])
        self._build(self.cells, noise, self._beyond)


@dies("certificate_is_true")
class LapSpendsTheDomainTwice(Lap):
    """Calibrated to half the sensitivity."""

    def __init__(self, epsilon):
        super().__init__(epsilon)
        half = Laplace(2 * epsilon, cells=self.cells)
        self._build(self.cells, half._noise, half._beyond)

    def certificate(self):
        return declared(self.epsilon)


@dies("certificate_is_true")
class LapLosesItsTail(Lap):
    """The mass beyond the table goes to the centre: at the ends of the range the far input is much
    too rare.
    """

    def __init__(self, epsilon):
        super().__init__(epsilon)
        self._build(
            self.cells, Noise.of([*self._noise.half[1:-1], self._noise.half[-2]]), self._beyond
        )

    def certificate(self):
        return declared(self.epsilon)


@dies("reports_are_float_safe")
class LapInFloats(Lap):
    """The textbook's inverse of the distribution function."""

    def _perturb(self, values, randomness, first):
        words = randomness.words(len(values), 4, first=first)
        u = (words[:, 0] + 0.5) / 2**32 - 0.5
        return (values + 1) / 2 - np.sign(u) * np.log1p(-2 * np.abs(u)) / self.epsilon


@dies("reports_are_float_safe")
class LapKeepsTheInputsLowBits(Lap):
    def _perturb(self, values, randomness, first):
        return super()._perturb(values, randomness, first) * (1 + values * 2.0**-50)


@dies("estimator_is_unbiased")
class LapRoundsDown(Lap):
    def _snap(self, values):
        return super()._snap(values) >> self._shift << self._shift


@dies("estimator_is_unbiased")
class LapClampsItsReports(Lap):
    """Held within the domain, as outputs often are: reports are then biased."""

    def _weights(self, point):
        weights = super()._weights(point)
        low, high = self._spare, self._spare + self.cells
        below, above = sum(weights[:low]), sum(weights[high + 1 :])
        weights[low] += below - low
        weights[high] += above - (len(weights) - high - 1)
        return [weight if low <= i <= high else 1 for i, weight in enumerate(weights)]


@dies("error_is_stated")
class LapErrorIsThePopulations(Lap):
    def estimate_support(self, support, *, population=False):
        return super().estimate_support(support, population=True)


@dies("error_is_stated")
class LapErrorIsItsScale(Lap):
    """The scale of the noise is not its standard deviation."""

    def estimate_support(self, support, *, population=False):
        value, error, n, *_ = super().estimate_support(support, population=population)
        return Estimate(value, error / 2**0.5, n)


@dies("randomness_has_one_door")
class LapDrawsAgainAboveTheDomain(Lap):
    def _perturb(self, values, randomness, first):
        reports = super()._perturb(values, randomness, first)
        above = reports > 1
        return (
            np.where(above, super()._perturb(values, randomness, first), reports)
            if above.any()
            else reports
        )


@dies("randomness_has_one_door")
class LapRoundsWithNumpy(Lap):
    def _snap(self, values):
        return super()._snap(
            values + np.random.default_rng().uniform(-1e-2, 1e-2, len(values)) * np.isfinite(values)
        )


@dies("pieces_do_not_matter")
class LapChunksShareTheirWords(Lap):
    def _perturb(self, values, randomness, first):
        return super()._perturb(values, randomness, 0)


@dies("support_is_additive")
class LapSupportIsAMean(Lap):
    def support(self, reports):
        n, total, squares = super().support(reports)
        return np.array([n, total // max(n, 1), squares // max(n, 1)])


@dies("bad_values_are_refused")
class LapLetsNanIn(Lap):
    def _snap(self, values):
        return super()._snap(np.nan_to_num(values))


@dies("bad_epsilon_is_refused")
class LapTakesAnyEpsilon(Lap):
    def __init__(self, epsilon):
        super().__init__(epsilon if isinstance(epsilon, int | float) and 0 < epsilon < 1e9 else 1.0)


@dies("tables_tell_mechanisms_apart")
class LapTablesLeaveOutTheWeights(Lap):
    def tables(self):
        return (1,)


# --- Gaussian


class _Scaled(Normal):
    factor = 1.0

    def __init__(self, epsilon):
        super().__init__(epsilon)
        self._parts = round(self._parts * self.factor)
        self._build(self.cells, normal_noise(self._parts, self.cells))


@dies("delta_is_true")
class NormalIsHalfAPercentTooNarrow(_Scaled):
    factor = 0.995


@dies("delta_is_true")
class NormalCertifiesWhatItWasAsked(NormalIsHalfAPercentTooNarrow):
    def certificate(self):
        return Certificate(exp_below(self.epsilon), self.epsilon, Fraction(DELTA))


@dies("delta_is_true")
class NormalCertifiesWithoutComputing(_Scaled):
    factor = 1.05

    def certificate(self):
        return Certificate(exp_below(self.epsilon), self.epsilon, Fraction(DELTA))


@dies("delta_is_true")
class NormalCertifiesInFloats(Normal):
    def certificate(self):
        return super().certificate()._replace(delta=float(super().certificate().delta))


@dies("delta_is_true")
class NormalCertifiesAtALargerEpsilon(Normal):
    def certificate(self):
        certificate = super().certificate()
        return certificate._replace(
            ratio=exp_below(self.epsilon + 0.1), epsilon_effective=self.epsilon + 0.1
        )


@dies("delta_is_true")
class NormalCountsTheMiddleAsSensitivity(Normal):
    """Half the domain: the distance from its middle, not between two inputs."""

    def __init__(self, epsilon):
        super().__init__(epsilon)
        self._parts //= 2
        self._build(self.cells, normal_noise(self._parts, self.cells))

    def certificate(self):
        return Certificate(exp_below(self.epsilon), self.epsilon, Fraction(DELTA))


@dies("law_is_exact")
class NormalEndsAtFourSigma(Normal):
    def __init__(self, epsilon):
        super().__init__(epsilon)
        reach = 4 * self._parts // 64
        half = self._noise.half
        self._build(self.cells, Noise.of([*half[1:reach], sum(half[reach:])]))

    def _law(self, step):
        point = step // self._round
        half = self._noise.half
        return Law(
            (np.arange(-self._noise.reach, self._noise.reach + 1) + point) * self.scale,
            [*half[:0:-1], *half],
            2**64,
        )


@dies("sampler_follows_law")
class NormalIsThreePercentWider(Normal):
    def perturb(self, values, randomness):
        return other_noise(self, Normal(self.epsilon / 1.03), values, randomness)


@dies("sampler_follows_law")
class NormalIsThreePercentNarrower(Normal):
    def perturb(self, values, randomness):
        return other_noise(self, Normal(self.epsilon * 1.03), values, randomness)


@dies("reports_are_float_safe")
class NormalByBoxMuller(Normal):
    def _perturb(self, values, randomness, first):
        u = (randomness.words(len(values), 4, first=first)[:, :2] + 0.5) / 2**32
        return (values + 1) / 2 + self.sigma * np.sqrt(-2 * np.log(u[:, 0])) * np.cos(
            2 * np.pi * u[:, 1]
        )


@dies("randomness_has_one_door")
class NormalDrawsItsTailsAgain(Normal):
    def _perturb(self, values, randomness, first):
        reports = super()._perturb(values, randomness, first)
        far = np.abs(reports) > 2 * self.sigma
        return (
            np.where(far, super()._perturb(values, randomness, first), reports)
            if far.any()
            else reports
        )


@dies("pieces_do_not_matter")
class NormalChunksShareTheirWords(Normal):
    def _perturb(self, values, randomness, first):
        return super()._perturb(values, randomness, 0)


@dies("estimator_is_unbiased")
class NormalForgetsTheDomain(Normal):
    def estimate_support(self, support, *, population=False):
        value, error, n, *_ = super().estimate_support(support, population=population)
        return Estimate((value + 1) / 2, error, n)


@dies("error_is_stated")
class NormalErrorOnTheUnitScale(Normal):
    def estimate_support(self, support, *, population=False):
        value, error, n, *_ = super().estimate_support(support, population=population)
        return Estimate(value, error / 2, n)


@dies("bad_values_are_refused")
class NormalShowsTheValue(Normal):
    def _snap(self, values):
        if not np.isfinite(values).all():
            raise ValueError(f"not finite: {values}")
        return super()._snap(values)


@dies("tables_tell_mechanisms_apart")
class NormalTablesLeaveOutTheWeights(Normal):
    def tables(self):
        return (1,)


# --- vectors


@dies("vectors_are_noised_by_coordinate")
class VectorUsesOneNoiseForAll(Vector):
    def _draw(self, steps, words):
        same = words.reshape(-1, self.dimension, 4)[:, :1].repeat(self.dimension, axis=1)
        return super()._draw(steps, same.reshape(-1, 4))


@dies("vectors_are_noised_by_coordinate")
class VectorForgetsTheLastCoordinate(Vector):
    def perturb(self, values, randomness):
        reports = super().perturb(values, randomness)
        reports[:, -1] = (
            np.rint(np.asarray(values)[:, -1] / self.diameter * self.cells) * self.scale
        )
        return reports


@dies("vectors_stay_in_the_ball")
class VectorClampsToTheCube(Vector):
    """Each coordinate within the radius: the corners are sqrt(d) times too far out."""

    def _inside(self, values):
        return values


@dies("vectors_stay_in_the_ball")
class VectorOverflows(Vector):
    def _inside(self, values):
        with np.errstate(all="ignore"):
            length = np.sqrt((values * values).sum(axis=1, keepdims=True))
            return np.where(length > self.domain[1], values / length * self.domain[1], values)


@dies("vector_delta_covers_the_grid")
class VectorForgetsTheGrid(Vector):
    def _sensitivity(self, cells):
        return float(cells)


@dies("vector_delta_covers_the_grid")
class VectorCalibratesToTheRadius(Vector):
    def _sensitivity(self, cells):
        return super()._sensitivity(cells) / 2


@dies("vector_delta_covers_the_grid")
class VectorCertifiesWhatItWasAsked(VectorForgetsTheGrid):
    def certificate(self):
        return Certificate(exp_below(self.epsilon), self.epsilon, Fraction(DELTA))


@dies("vector_pieces_do_not_matter")
class VectorChunksShareTheirWords(Vector):
    def perturb(self, values, randomness):
        class Shared:
            def __init__(self, source):
                self.source = source

            def within(self, context):
                return Shared(self.source.within(context))

            def words(self, n, k, *, first=0):
                return self.source.words(n, k, first=0)

        return super().perturb(values, Shared(randomness))


@dies("vector_estimates_are_stated")
class VectorForgetsTheDiameter(Vector):
    def estimate_support(self, support, *, population=False):
        value, error, n, *_ = super().estimate_support(support, population=population)
        return Estimate(value / self.diameter, error / self.diameter, n)


@dies("vector_estimates_are_stated")
class VectorErrorOfAllCoordinatesTogether(Vector):
    def estimate_support(self, support, *, population=False):
        value, error, n, *_ = super().estimate_support(support, population=population)
        return Estimate(value, error * self.dimension**0.5, n)


for _kind in (Lap, Normal):
    dies("noise_is_its_own")(shares_its_words(_kind))
