"""Faults of the mechanisms that draw from a table."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from ldp_kafka.mechanisms.additive import AdditiveNoise, Noise
from ldp_kafka.mechanisms.base import Certificate, Estimate, Law, exp_below
from ldp_kafka.mechanisms.gaussian import normal_noise
from ldp_kafka.mechanisms.laplace import _weights
from tests.mutants import breaks
from tests.mutants.mechanisms import Declares, Lap, Normal, Vector

# --- numbers


class _OtherNoise:
    """Reports of a mechanism whose noise is drawn from the table of another epsilon."""

    def perturb(self, values, randomness):
        original = Lap if isinstance(self, Lap) else Normal
        kept, self._noise = self._noise, original(self.epsilon * self.narrower)._noise
        try:
            return AdditiveNoise.perturb(self, values, randomness)
        finally:
            self._noise = kept


@breaks("sampler_follows_law", of=(Lap, Normal))
class IsThreePercentWider(_OtherNoise):
    narrower = 1 / 1.03


@breaks("sampler_follows_law", of=(Lap, Normal))
class IsThreePercentNarrower(_OtherNoise):
    narrower = 1.03


@breaks("law_is_exact", of=(Lap, Normal))
class EndsItsNoiseInsteadOfItsReports:
    """Truncated noise: which outputs are possible depends on the input."""

    def _law(self, step):
        half, reach = self._noise.half, self._noise.reach
        support = (np.arange(-reach, reach + 1) + step // self._round) * self.scale
        return Law(support, [*half[:0:-1], *half], 2**64)


# --- Laplace


@breaks("sampler_follows_law", of=Lap)
class OnlyAdds:
    def _draw(self, steps, words):
        points = (steps.copy() >> self._shift).view(np.int32)
        return points + np.abs(super()._draw(steps, words) - points)


@breaks("certificate_is_true", of=Lap)
class IsNotBuiltAgain:
    """Rounded to the nearest and left so: some ratio is a little above e^epsilon."""

    def __init__(self, epsilon):
        super().__init__(epsilon)
        noise = Noise.of(_weights(exp_below(epsilon / self.cells), self._noise.reach)[1:])
        self._build(self.cells, noise, self._beyond)


@breaks("certificate_is_true", of=Lap)
class LosesItsTail(Declares):
    """The mass beyond the table goes to the centre: at the ends of the range the far input is much
    too rare.
    """

    def __init__(self, epsilon):
        super().__init__(epsilon)
        half = self._noise.half
        self._build(self.cells, Noise.of([*half[1:-1], half[-2]]), self._beyond)


@breaks("estimator_is_unbiased", of=Lap)
class ClampsItsReports:
    """Held within the domain, as outputs often are: reports are then biased."""

    def _weights(self, point):
        weights = super()._weights(point)
        low, high = self._spare, self._spare + self.cells
        weights[low] += sum(weights[:low]) - low
        weights[high] += sum(weights[high + 1 :]) - (len(weights) - high - 1)
        return [weight if low <= i <= high else 1 for i, weight in enumerate(weights)]


# --- Gaussian


class _Scaled:
    factor = 1.0

    def __init__(self, epsilon):
        super().__init__(epsilon)
        self._parts = round(self._parts * self.factor)
        self._build(self.cells, normal_noise(self._parts, self.cells))


class _DeclaresDelta:
    def certificate(self):
        return Certificate(exp_below(self.epsilon), self.epsilon, Fraction(self.delta))


@breaks("delta_is_true", of=Normal)
class IsHalfAPercentTooNarrow(_Scaled):
    factor = 0.995


@breaks("delta_is_true", of=Normal)
class CertifiesWhatItWasAsked(_DeclaresDelta, IsHalfAPercentTooNarrow):
    pass


@breaks("delta_is_true", of=Normal)
class CertifiesWithoutComputing(_DeclaresDelta, _Scaled):
    factor = 1.05


@breaks("delta_is_true", of=Normal)
class CountsTheMiddleAsSensitivity(_DeclaresDelta, _Scaled):
    """Half the domain: the distance from its middle, not between two inputs."""

    factor = 0.5


@breaks("delta_is_true", of=Normal)
class CertifiesADeltaInFloats:
    def certificate(self):
        return super().certificate()._replace(delta=float(super().certificate().delta))


@breaks("delta_is_true", of=Normal)
class CertifiesAtALargerEpsilon:
    def certificate(self):
        more = self.epsilon + 0.1
        return super().certificate()._replace(ratio=exp_below(more), epsilon_effective=more)


@breaks("estimator_is_unbiased", of=Normal)
class ForgetsTheDomain:
    def estimate_support(self, support, *, population=False):
        value, error, n, *_ = super().estimate_support(support, population=population)
        return Estimate((value + 1) / 2, error, n)


# --- vectors


@breaks("vectors_are_noised_by_coordinate", of=Vector)
class UsesOneNoiseForAll:
    def _draw(self, steps, words):
        same = words.reshape(-1, self.dimension, 4)[:, :1].repeat(self.dimension, axis=1)
        return super()._draw(steps, same.reshape(-1, 4))


@breaks("vectors_are_noised_by_coordinate", of=Vector)
class ForgetsTheLastCoordinate:
    def perturb(self, values, randomness):
        reports = super().perturb(values, randomness)
        last = np.asarray(values)[:, -1] / self.diameter
        reports[:, -1] = np.rint(last * self.cells) * self.scale
        return reports


@breaks("vectors_stay_in_the_ball", of=Vector)
class ClampsToTheCube:
    """Each coordinate within the radius: the corners are sqrt(d) times too far out."""

    def _inside(self, values):
        return values


@breaks("vectors_stay_in_the_ball", of=Vector)
class Overflows:
    def _inside(self, values):
        with np.errstate(all="ignore"):
            length = np.sqrt((values * values).sum(axis=1, keepdims=True))
            return np.where(length > self.domain[1], values / length * self.domain[1], values)


@breaks("vector_delta_covers_the_grid", of=Vector)
class ForgetsTheGrid:
    def _sensitivity(self, cells):
        return float(cells)


@breaks("vector_delta_covers_the_grid", of=Vector)
class CertifiesWhatItWasAskedOfVectors(_DeclaresDelta, ForgetsTheGrid):
    pass


@breaks("vector_delta_covers_the_grid", of=Vector)
class CalibratesToTheRadius:
    def _sensitivity(self, cells):
        return super()._sensitivity(cells) / 2


@breaks("vector_estimates_are_stated", of=Vector)
class ForgetsTheDiameter:
    def estimate_support(self, support, *, population=False):
        value, error, n, *_ = super().estimate_support(support, population=population)
        return Estimate(value / self.diameter, error / self.diameter, n)


@breaks("vector_estimates_are_stated", of=Vector)
class ErrorOfAllCoordinatesTogether:
    def estimate_support(self, support, *, population=False):
        value, error, n, *_ = super().estimate_support(support, population=population)
        return Estimate(value, error * self.dimension**0.5, n)
