"""Faults of randomised response, local hashing and Hadamard response."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from ldp_kafka.mechanisms.base import Certificate
from ldp_kafka.mechanisms.hashing import SEED_WORDS
from tests.mutants import breaks
from tests.mutants.mechanisms import Declares, Grr, Had, Olh

# --- randomised response


@breaks("sampler_follows_law", of=Grr)
class LiesAreNeverTheTruth:
    def perturb_part(self, values, randomness, first):
        words = randomness.words(len(values), 1, first=first)[:, 0]
        return np.where(words < self._keep, values, (values + 1 + words % 3) % 4).astype(np.int64)


@breaks("certificate_is_true", of=Grr)
class RoundsTheLieDown:
    def __init__(self, epsilon):
        super().__init__(epsilon)
        self._lie -= 1
        self._keep = self._word - self.categories * self._lie
        self._truth = self._keep + self._lie


@breaks("certificate_is_true", of=Grr)
class DeclaresACertificate(Declares, RoundsTheLieDown):
    pass


@breaks("estimator_is_unbiased", of=Grr)
class ForgetsToDebias:
    def estimate_support(self, support, *, population=False):
        estimate = super().estimate_support(support, population=population)
        return estimate._replace(value=support[1:] / support[0] if support[0] else estimate.value)


@breaks("estimator_is_unbiased", of=Grr)
class CutsEstimatesAtZero:
    def estimate_support(self, support, *, population=False):
        estimate = super().estimate_support(support, population=population)
        return estimate._replace(value=np.clip(estimate.value, 0, 1))


@breaks("randomness_has_one_door", of=Grr)
class LiesFromAFixedSeed:
    def perturb_part(self, values, randomness, first):
        words = randomness.words(len(values), 1, first=first)[:, 0]
        lies = np.random.default_rng(0).integers(0, 4, len(values))
        return np.where(words < self._keep, values, lies)


@breaks("support_is_additive", of=Grr)
class EstimateForgetsThePopulation:
    def estimate(self, reports, *, population=False):
        return self.estimate_support(self.support(reports))


@breaks("support_is_additive", of=Grr)
class EstimateIsOfAPopulation:
    def estimate(self, reports, *, population=True):
        return self.estimate_support(self.support(reports), population=population)


@breaks("support_is_additive", of=Grr)
class SupportIsThatOfAPopulation:
    def estimate(self, reports, *, population=None):
        return self.estimate_support(self.support(reports), population=population)

    def estimate_support(self, support, *, population=None):
        return super().estimate_support(support, population=population is None or population)


# --- local hashing


@breaks("sampler_follows_law", of=Olh)
class LiesAreNeverTheCell:
    def perturb_part(self, values, randomness, first):
        words, g = randomness.words(len(values), SEED_WORDS + 1, first=first), self._family.cells
        seeds = self._family.draw(words[:, :SEED_WORDS])
        cell = self._family.cell(seeds, values)
        other = (cell + 1 + words[:, SEED_WORDS] % (g - 1)) % g
        return seeds * g + np.where(words[:, SEED_WORDS] < self._truth - self._lie, cell, other)


@breaks("sampler_follows_law", of=Olh)
class DropsSeedsItDoesNotLike:
    def perturb_part(self, values, randomness, first):
        reports, g = super().perturb_part(values, randomness, first), self._family.cells
        again = self._family.cell(reports // g, values) == 0  # the seed then tells the category
        return np.where(again, super().perturb_part(values, randomness, first), reports)


@breaks("sampler_follows_law", of=Olh)
class DrawsItsMultiplierUnevenly:
    def __init__(self, epsilon):
        super().__init__(epsilon)
        draw = self._family.draw
        self._family.draw = lambda words: np.minimum(draw(words) * 9 // 8, self._family.seeds - 1)


@breaks("certificate_is_true", of=Olh)
class RoundsTheLieOfACellDown:
    def __init__(self, epsilon):
        super().__init__(epsilon)
        r, g = self._response, self._family.cells
        r._lie -= 1
        r._keep = r._word - g * r._lie
        r._truth = self._truth = r._keep + r._lie
        self._lie = r._lie


@breaks("certificate_is_true", of=Olh)
class CertifiesLessThanItSpends:
    def certificate(self):
        return Olh(self.epsilon / 2).certificate()


@breaks("certificate_is_true", of=Olh)
class CertifiesForTheCollisions:
    def certificate(self):
        ratio = Fraction(self._truth, self._lie) * (1 - self._family.collision)
        return Certificate(ratio, float(np.log(float(ratio))))


@breaks("estimator_is_unbiased", of=Olh)
class CollisionsAreIdeal:
    """One in g, as if hash functions were random: the usual formula, wrong for any family that can
    be written down.
    """

    def estimate_support(self, support, *, population=False):
        p, q, c = self._truth / self._word, self._lie / self._word, 1 / self._family.cells
        self._q = c * p + (1 - c) * q
        self._slope = p - self._q
        return super().estimate_support(support, population=population)


@breaks("estimator_is_unbiased", of=Olh)
class ForgetsCollisions:
    def __init__(self, epsilon):
        super().__init__(epsilon)
        self._q = self._lie / self._word
        self._slope = self._p - self._q


@breaks("estimator_is_unbiased", of=Olh)
class MultipliesByZero:
    """a runs from 0: some functions send all categories to one cell."""

    def __init__(self, epsilon):
        super().__init__(epsilon)
        self._family.cell = lambda seeds, values: (
            (seeds // self.prime * values + seeds % self.prime) % self.prime % self._family.cells
        )


@breaks("estimator_is_unbiased", of=Olh)
class CountsNoWrappedResidues:
    def __init__(self, epsilon):
        super().__init__(epsilon)
        g, prime = self._family.cells, self.prime
        place = np.arange(self.categories)

        def supporters(reports):
            a, b = (reports // g // prime + 1)[:, None], (reports // g % prime)[:, None]
            return ((a * place % prime + b) % g == (reports % g)[:, None]).sum(0)

        self._family.supporters = supporters


@breaks("error_is_stated", of=Olh)
class ErrorIsThatOfRareCategories:
    def estimate_support(self, support, *, population=False):
        found = super().estimate_support(support, population=population)
        if not found.reports:
            return found
        error = np.sqrt(self.variance(np.zeros(self.categories)) / found.reports)
        return found._replace(standard_error=error, variance=None)


@breaks("reports_are_float_safe", of=Olh)
class KeepsTheCategorysLastBit:
    def perturb_part(self, values, randomness, first):
        return 2 * super().perturb_part(values, randomness, first) + (values & 1)


@breaks("pieces_do_not_matter", of=Olh)
class SeedsFromTheRow:
    def perturb(self, values, randomness):
        reports, g = super().perturb(values, randomness), self._family.cells
        seeds = np.arange(len(reports)) % self._family.seeds
        return seeds * g + (self._family.cell(seeds, values) + reports) % g


@breaks("support_is_additive", of=Olh)
class SupportOfOneFunctionAtATime:
    def support(self, reports):
        return super().support(np.unique(reports))


# --- Hadamard response


@breaks("sampler_follows_law", of=Had)
class LieMayBeTheTruth:
    def perturb_part(self, values, randomness, first):
        reports = super().perturb_part(values, randomness, first)
        bit = np.bitwise_count((reports >> 1) & (values + 1)) & 1
        coin = randomness.words(len(values), 1, first=first)[:, 0] & 1
        return np.where((reports & 1) == bit, reports, (reports & ~1) | coin)


@breaks("sampler_follows_law", of=Had)
class LeavesTheRowsLastBit:
    def perturb_part(self, values, randomness, first):
        return super().perturb_part(values, randomness, first) & ~2 | (values & 1) << 1


@breaks("certificate_is_true", of=Had)
class RoundsTheLieOfASignDown:
    def __init__(self, epsilon):
        super().__init__(epsilon)
        self._lie -= 1
        self._truth += 1


@breaks("law_is_exact", of=Had)
class ListsTheRowsOfItsSign:
    def law(self, value):
        law = super().law(value)
        kept = np.array(law.weights) == max(law.weights)
        weights = [w + min(law.weights) for w in law.weights if w == max(law.weights)]
        return law._replace(support=law.support[kept], weights=weights)


@breaks("estimator_is_unbiased", of=Had)
class BeginsAtColumnZero:
    """All signs of column 0 are alike: a category that says nothing, as one that a matrix is too
    small for.
    """

    def law(self, value):
        law = super().law(max(value - 1, 0) if 0 <= value < 4 else value)
        return law if value else law._replace(weights=[self._truth, self._lie] * self._order)

    def perturb_part(self, values, randomness, first):
        return super().perturb_part(values - 1, randomness, first)


@breaks("estimator_is_unbiased", of=Had)
class ForgetsTheSlope:
    def estimate_support(self, support, *, population=False):
        estimate = super().estimate_support(support, population=population)
        return estimate._replace(value=estimate.value * self._slope)


@breaks("support_is_additive", of=Had)
class SupportWithoutSigns:
    def support(self, reports):
        return np.abs(super().support(reports))
