"""Broken twins of mechanisms: each has one fault that would cost privacy, truth or repeatability,
and the check of the contract that must find it.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from ldp_kafka.mechanisms import GeneralizedRandomizedResponse, SquareWave
from ldp_kafka.mechanisms.base import Certificate, Estimate, exp_below
from ldp_kafka.mechanisms.window import WORD
from ldp_kafka.randomness import seeded
from tests.contract.deaf import shares_its_words

MECHANISM_MUTANTS: dict[type, str] = {}
"""Class -> name of the check."""


def dies(check):
    """Register a mutant under the check that must kill it."""

    def register(mutant):
        MECHANISM_MUTANTS[mutant] = check
        return mutant

    return register


class Grr(GeneralizedRandomizedResponse):
    """Four categories, so that every mutant is built from epsilon alone."""

    def __init__(self, epsilon):
        super().__init__(epsilon, 4)


class Wave(SquareWave):
    """On the unit interval."""

    def __init__(self, epsilon):
        super().__init__(epsilon, (0.0, 1.0))


# --- randomised response


@dies("sampler_follows_law")
class GrrTellsTheTruthThreePercentMore(Grr):
    def perturb(self, values, randomness):
        keep = self._keep
        self._keep = keep + round(0.03 * self._truth)
        try:
            return np.minimum(super().perturb(values, randomness), self.categories - 1)
        finally:
            self._keep = keep


@dies("sampler_follows_law")
class GrrTellsTheTruthThreePercentLess(Grr):
    def _perturb(self, values, randomness, first):
        words = randomness.words(len(values), 1, first=first)[:, 0]
        keep = self._keep - round(0.03 * self._truth)
        return np.where(words < keep, values, (words - np.uint32(keep)) % np.uint32(4)).astype(
            np.int64
        )


@dies("sampler_follows_law")
class GrrLiesAreNeverTheTruth(Grr):
    def _perturb(self, values, randomness, first):
        words = randomness.words(len(values), 1, first=first)[:, 0]
        return np.where(words < self._keep, values, (values + 1 + words % 3) % 4).astype(np.int64)


@dies("sampler_follows_law")
class GrrNeverLies(Grr):
    def _perturb(self, values, randomness, first):
        randomness.words(len(values), 1, first=first)
        return values.copy()


@dies("certificate_is_true")
class GrrRoundsTheLieDown(Grr):
    def __init__(self, epsilon):
        super().__init__(epsilon)
        self._lie -= 1
        self._keep = self._word - self.categories * self._lie
        self._truth = self._keep + self._lie


@dies("certificate_is_true")
class GrrDeclaresACertificate(GrrRoundsTheLieDown):
    def certificate(self):
        return Certificate(exp_below(self.epsilon), self.epsilon)


@dies("certificate_is_true")
class GrrCertifiesMoreThanItSpends(Grr):
    def __init__(self, epsilon):
        super().__init__(epsilon)
        half = GeneralizedRandomizedResponse(epsilon / 2, 4)
        self._lie, self._keep, self._truth, self.asked = (
            half._lie,
            half._keep,
            half._truth,
            self.epsilon,
        )

    def certificate(self):
        return Certificate(exp_below(self.asked), self.asked)


@dies("law_is_exact")
class GrrLawInFloats(Grr):
    def law(self, value):
        law = super().law(value)
        return law._replace(weights=[float(weight) for weight in law.weights])


@dies("law_is_exact")
class GrrNeverSaysTheOpposite(Grr):
    def law(self, value):
        law = super().law(value)
        weights = list(law.weights)
        weights[value] += weights[(value + 2) % 4]
        weights[(value + 2) % 4] = 0
        return law._replace(weights=weights)


@dies("law_is_exact")
class GrrLosesTheRemainder(Grr):
    def law(self, value):
        law = super().law(value)
        return law._replace(denominator=law.denominator + 1)


@dies("bad_values_are_refused")
class GrrWrapsUnknownCategories(Grr):
    def _checked(self, values):
        return np.asarray(values).astype(np.int64) % self.categories


@dies("bad_values_are_refused")
class GrrShowsTheValue(Grr):
    def _checked(self, values):
        for value in np.asarray(values).tolist():
            if value not in range(self.categories):
                raise ValueError(f"{value} is no category")
        return super()._checked(values)


@dies("estimator_is_unbiased")
class GrrForgetsToDebias(Grr):
    def estimate_support(self, support, *, population=False):
        estimate = super().estimate_support(support, population=population)
        return estimate._replace(
            value=support[1:] / max(int(support[0]), 1) if support[0] else estimate.value
        )


@dies("estimator_is_unbiased")
class GrrCutsEstimatesAtZero(Grr):
    def estimate_support(self, support, *, population=False):
        estimate = super().estimate_support(support, population=population)
        return estimate._replace(value=np.clip(estimate.value, 0, 1))


@dies("error_is_stated")
class GrrErrorBeforeDebiasing(Grr):
    def estimate_support(self, support, *, population=False):
        value, error, n, *_ = super().estimate_support(support, population=population)
        return Estimate(value, error * (self._truth - self._lie) / self._word, n)


@dies("randomness_has_one_door")
class GrrDrawsFromNumpy(Grr):
    def perturb(self, values, randomness):
        values = self._checked(values)
        return np.where(
            np.random.default_rng().random(len(values)) < self._keep / self._word,
            values,
            np.random.default_rng().integers(0, 4, len(values)),
        )


@dies("randomness_has_one_door")
class GrrLiesFromAFixedSeed(Grr):
    def _perturb(self, values, randomness, first):
        words = randomness.words(len(values), 1, first=first)[:, 0]
        return np.where(
            words < self._keep, values, np.random.default_rng(0).integers(0, 4, len(values))
        )


@dies("pieces_do_not_matter")
class GrrChunksShareTheirWords(Grr):
    def _perturb(self, values, randomness, first):
        return super()._perturb(values, randomness, 0)


@dies("reports_are_float_safe")
class GrrReportsFloats(Grr):
    def perturb(self, values, randomness):
        return super().perturb(values, randomness).astype(np.float64)


@dies("support_is_additive")
class GrrSupportIsAShare(Grr):
    def support(self, reports):
        counts = super().support(reports)
        return counts // max(1, len(reports) // 500)


@dies("bad_epsilon_is_refused")
class GrrTakesAnyEpsilon(Grr):
    def __init__(self, epsilon):
        super().__init__(epsilon if isinstance(epsilon, int | float) and 0 < epsilon < 1e9 else 1.0)


@dies("tables_tell_mechanisms_apart")
class GrrTablesLeaveOutTheWeights(Grr):
    def tables(self):
        return (self.categories,)


# --- square wave


@dies("certificate_is_true")
class WaveNearIsAUnitTooLarge(Wave):
    def __init__(self, epsilon):
        super().__init__(epsilon)
        self._far -= 1
        self._near = int(exp_below(epsilon) * self._far) + 1
        self._inside = self._near * self._reach


@dies("certificate_is_true")
class WaveLeftOversFollowTheInput(Wave):
    def _weights(self, point):
        weights = super()._weights(point)
        left = WORD - self._inside - self._far * self._others
        weights[-1] -= left
        weights[point] += left
        return weights


@dies("sampler_follows_law")
class WaveIsAPointTooWide(Wave):
    def law(self, value):
        law = super().law(value)
        weights = [*law.weights[1:-1], law.weights[0] + law.weights[-1]]
        return law._replace(weights=weights, support=law.support[1:])


@dies("sampler_follows_law")
class WaveMixesUpNearAndFar(Wave):
    def _perturb(self, values, randomness, first):
        return super()._perturb(1 - values, randomness, first)


@dies("reports_are_float_safe")
class WaveAddsFloatNoise(Wave):
    def _perturb(self, values, randomness, first):
        return (
            super()._perturb(values, randomness, first)
            + randomness.words(len(values), 3, first=first)[:, 2] * 2.0**-60
        )


@dies("reports_are_float_safe")
class WaveKeepsTheInputsLowBits(Wave):
    def _perturb(self, values, randomness, first):
        return super()._perturb(values, randomness, first) * (1 + values * 2.0**-51)


@dies("bad_values_are_refused")
class WaveLetsNanIn(Wave):
    def _snap(self, values):
        return super()._snap(np.nan_to_num(values, nan=0.5))


@dies("bad_values_are_refused")
class WaveFoldsInsteadOfClamping(Wave):
    def _snap(self, values):
        return super()._snap(values - np.floor(values) * (np.abs(values) > 1))


@dies("estimator_is_unbiased")
class WaveForgetsToDebias(Wave):
    def estimate_support(self, support, *, population=False):
        value, error, n, *_ = super().estimate_support(support, population=population)
        return Estimate(value if n == 0 else support[1] / support[0] * self.scale, error, n)


@dies("estimator_is_unbiased")
class WaveRoundsDown(Wave):
    def _snap(self, values):
        return super()._snap(values) >> np.uint32(16) << np.uint32(16)


@dies("error_is_stated")
class WaveErrorIsThePopulations(Wave):
    def estimate_support(self, support, *, population=False):
        return super().estimate_support(support, population=True)


@dies("randomness_has_one_door")
class WaveDrawsFromNumpy(Wave):
    def perturb(self, values, randomness):
        return super().perturb(values, seeded(int(np.random.default_rng().integers(2**60))))


@dies("randomness_has_one_door")
class WaveRetriesWhatItDoesNotLike(Wave):
    def _perturb(self, values, randomness, first):
        reports = super()._perturb(values, randomness, first)
        again = reports == reports.max(initial=-1.0)
        return (
            np.where(again, super()._perturb(values, randomness, first), reports)
            if (values > 0.5).any()
            else reports
        )


@dies("pieces_do_not_matter")
class WaveClampsInPlace(Wave):
    def perturb(self, values, randomness):
        np.clip(values, 0, 1, out=values)
        return super().perturb(values, randomness)


@dies("pieces_do_not_matter")
class WaveSortsItsBatch(Wave):
    def perturb(self, values, randomness):
        order = np.argsort(values, kind="stable")
        reports = super().perturb(values[order], randomness)
        return reports[np.argsort(order)]


@dies("support_is_additive")
class WaveSupportInFloats(Wave):
    def support(self, reports):
        return super().support(reports) / 1.0


@dies("certificate_is_true")
class WaveCertifiesInFloats(Wave):
    def certificate(self):
        return Certificate(Fraction(float(self._near) / float(self._far) * 0.97), self.epsilon)


@dies("has_every_member")
class GrrHasNoTables(Grr):
    tables = None


@dies("has_every_member")
class GrrScaleIsAMethod(Grr):
    def scale(self):
        return 1


@dies("has_every_member")
class GrrLawIsADict(Grr):
    def law(self, value):
        law = super().law(value)
        return dict(zip(law.support.tolist(), law.weights, strict=True))


@dies("support_is_additive")
class GrrEstimateForgetsThePopulation(Grr):
    def estimate(self, reports, *, population=False):
        return self.estimate_support(self.support(reports))


@dies("support_is_additive")
class GrrEstimateIsOfAPopulation(Grr):
    def estimate(self, reports, *, population=True):
        return self.estimate_support(self.support(reports), population=population)


@dies("support_is_additive")
class GrrSupportIsThatOfAPopulation(Grr):
    def estimate(self, reports, *, population=None):
        return self.estimate_support(self.support(reports), population=population)

    def estimate_support(self, support, *, population=None):
        return super().estimate_support(support, population=population is None or population)


@dies("has_every_member")
class WaveKnowsNoRange(Wave):
    index_range = None


@dies("reports_are_float_safe")
class WaveStatesANarrowerRange(Wave):
    index_range = (0, 1023)


@dies("reports_are_float_safe")
class WaveZeroHasTheInputsSign(Wave):
    def perturb(self, values, randomness):
        reports = super().perturb(values, randomness)
        return np.where((reports == 0) & (values > 0.5), -0.0, reports)


for _kind in (Grr, Wave):
    dies("noise_is_its_own")(shares_its_words(_kind))
