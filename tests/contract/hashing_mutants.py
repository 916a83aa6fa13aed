"""Broken twins of local hashing and of Hadamard response: each has one fault, and the check of the
contract that must find it.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from ldp_kafka.mechanisms import Hadamard, OptimalLocalHashing
from ldp_kafka.mechanisms.base import Certificate, Estimate
from ldp_kafka.mechanisms.hashing import SEED_WORDS
from tests.contract.deaf import shares_its_words

HASHING_MUTANTS: dict[type, str] = {}
"""Class -> name of the check."""


def dies(check):
    """Register a mutant under the check that must kill it."""

    def register(mutant):
        HASHING_MUTANTS[mutant] = check
        return mutant

    return register


class Olh(OptimalLocalHashing):
    """Four categories, so that every mutant is built from epsilon alone."""

    def __init__(self, epsilon):
        super().__init__(epsilon, 4)


class Had(Hadamard):
    """Four categories, in a matrix of order 8."""

    def __init__(self, epsilon):
        super().__init__(epsilon, 4)


# --- local hashing


@dies("sampler_follows_law")
class OlhNeverLies(Olh):
    def _perturb(self, values, randomness, first):
        words = randomness.words(len(values), SEED_WORDS + 1, first=first)
        seeds = self._family.draw(words[:, :SEED_WORDS])
        return seeds * self._family.cells + self._family.cell(seeds, values)


@dies("sampler_follows_law")
class OlhLiesAreNeverTheTruth(Olh):
    def _perturb(self, values, randomness, first):
        words, g = randomness.words(len(values), SEED_WORDS + 1, first=first), self._family.cells
        seeds = self._family.draw(words[:, :SEED_WORDS])
        cell = self._family.cell(seeds, values)
        other = (cell + 1 + words[:, SEED_WORDS] % (g - 1)) % g
        return seeds * g + np.where(words[:, SEED_WORDS] < self._truth - self._lie, cell, other)


@dies("sampler_follows_law")
class OlhDropsSeedsItDoesNotLike(Olh):
    def _perturb(self, values, randomness, first):
        reports, g = super()._perturb(values, randomness, first), self._family.cells
        again = self._family.cell(reports // g, values) == 0  # the seed then tells the category
        return np.where(again, super()._perturb(values, randomness, first), reports)


@dies("sampler_follows_law")
class OlhDrawsItsMultiplierUnevenly(Olh):
    def __init__(self, epsilon):
        super().__init__(epsilon)
        draw = self._family.draw
        self._family.draw = lambda words: np.minimum(draw(words) * 9 // 8, self._family.seeds - 1)


@dies("sampler_follows_law")
class OlhTellsTheTruthFivePercentLess(Olh):
    def perturb(self, values, randomness):
        truth = self._truth
        self._truth = truth - round(0.05 * truth)
        try:
            return np.minimum(super().perturb(values, randomness), self.index_range[1])
        finally:
            self._truth = truth


@dies("certificate_is_true")
class OlhRoundsTheLieDown(Olh):
    def __init__(self, epsilon):
        super().__init__(epsilon)
        r, g = self._response, self._family.cells
        r._lie -= 1
        r._keep = r._word - g * r._lie
        r._truth = self._truth = r._keep + r._lie
        self._lie = r._lie


@dies("certificate_is_true")
class OlhCertifiesLessThanItSpends(Olh):
    def certificate(self):
        return OptimalLocalHashing(self.epsilon / 2, 4).certificate()


@dies("certificate_is_true")
class OlhCertifiesForTheCollisions(Olh):
    def certificate(self):
        ratio = Fraction(self._truth, self._lie) * (1 - self._family.collision)
        return Certificate(ratio, float(np.log(float(ratio))))


@dies("law_is_exact")
class OlhSeedsAreCalledUniform(Olh):
    def law(self, value):
        law = super().law(value)
        return law._replace(denominator=law.denominator // self._family.seeds * self._family.seeds)


@dies("law_is_exact")
class OlhLeavesTheFalseCellsOut(Olh):
    def law(self, value):
        law = super().law(value)
        weights = [w if w > max(law.weights) // 2 else 0 for w in law.weights]
        return law._replace(weights=weights, denominator=sum(weights))


@dies("estimator_is_unbiased")
class OlhCollisionsAreIdeal(Olh):
    """One in g, as if hash functions were random: the usual formula, wrong for any family that can
    be written down.
    """

    def estimate_support(self, support, *, population=False):
        p, q, c = self._truth / self._word, self._lie / self._word, 1 / self._family.cells
        self._q = c * p + (1 - c) * q
        self._slope = p - self._q
        return super().estimate_support(support, population=population)


@dies("estimator_is_unbiased")
class OlhForgetsCollisions(Olh):
    def __init__(self, epsilon):
        super().__init__(epsilon)
        self._q = self._lie / self._word
        self._slope = self._p - self._q


@dies("estimator_is_unbiased")
class OlhMultipliesByZero(Olh):
    """a runs from 0: some functions send all categories to one cell."""

    def __init__(self, epsilon):
        super().__init__(epsilon)
        self._family.cell = lambda seeds, values: (
            (seeds // self.prime * values + seeds % self.prime) % self.prime % self._family.cells
        )


@dies("estimator_is_unbiased")
class OlhCountsNoWrappedResidues(Olh):
    def __init__(self, epsilon):
        super().__init__(epsilon)
        g, prime = self._family.cells, self.prime
        place = np.arange(self.categories)

        def supporters(reports):
            a, b = (reports // g // prime + 1)[:, None], (reports // g % prime)[:, None]
            return ((a * place % prime + b) % g == (reports % g)[:, None]).sum(0)

        self._family.supporters = supporters


@dies("error_is_stated")
class OlhErrorIsThatOfRareCategories(Olh):
    def estimate_support(self, support, *, population=False):
        found = super().estimate_support(support, population=population)
        if not found.reports:
            return found
        error = np.sqrt(self.variance(np.zeros(self.categories)) / found.reports)
        return found._replace(standard_error=error, variance=None)


@dies("reports_are_float_safe")
class OlhReportsFloats(Olh):
    def perturb(self, values, randomness):
        return super().perturb(values, randomness) / 1.0


@dies("reports_are_float_safe")
class OlhKeepsTheCategorysLastBit(Olh):
    def _perturb(self, values, randomness, first):
        return 2 * super()._perturb(values, randomness, first) + (values & 1)


@dies("randomness_has_one_door")
class OlhSeedsFromNumpy(Olh):
    def _perturb(self, values, randomness, first):
        reports, g = super()._perturb(values, randomness, first), self._family.cells
        return (
            np.random.default_rng().integers(0, self._family.seeds, len(values)) * g + reports % g
        )


@dies("pieces_do_not_matter")
class OlhSeedsFromTheRow(Olh):
    def perturb(self, values, randomness):
        reports, g = super().perturb(values, randomness), self._family.cells
        seeds = np.arange(len(reports)) % self._family.seeds
        return seeds * g + (self._family.cell(seeds, values) + reports) % g


@dies("support_is_additive")
class OlhSupportOfOneFunctionAtATime(Olh):
    def support(self, reports):
        return super().support(np.unique(reports))


@dies("bad_values_are_refused")
class OlhHashesWhatIsNoCategory(Olh):
    def _checked(self, values):
        return np.asarray(values).astype(np.int64) % self.prime


@dies("bad_epsilon_is_refused")
class OlhTakesAnyEpsilon(Olh):
    def __init__(self, epsilon):
        super().__init__(epsilon if isinstance(epsilon, int | float) and 0 < epsilon < 1e9 else 1.0)


@dies("tables_tell_mechanisms_apart")
class OlhTablesLeaveOutTheWeights(Olh):
    def tables(self):
        return self.categories, self.prime


# --- Hadamard response


@dies("sampler_follows_law")
class HadNeverFlips(Had):
    def _perturb(self, values, randomness, first):
        row = randomness.words(len(values), 1, first=first)[:, 0].astype(np.int64) % self._order
        return 2 * row + (np.bitwise_count(row & (values + 1)) & 1)


@dies("sampler_follows_law")
class HadLieMayBeTheTruth(Had):
    def _perturb(self, values, randomness, first):
        reports = super()._perturb(values, randomness, first)
        bit = np.bitwise_count((reports >> 1) & (values + 1)) & 1
        coin = randomness.words(len(values), 1, first=first)[:, 0] & 1
        return np.where((reports & 1) == bit, reports, (reports & ~1) | coin)


@dies("sampler_follows_law")
class HadLeavesTheRowsLastBit(Had):
    def _perturb(self, values, randomness, first):
        return super()._perturb(values, randomness, first) & ~2 | (values & 1) << 1


@dies("sampler_follows_law")
class HadFlipsThreePercentLess(Had):
    def _perturb(self, values, randomness, first):
        truth, self._truth = self._truth, self._truth + round(0.03 * self._truth)
        try:
            return super()._perturb(values, randomness, first)
        finally:
            self._truth = truth


@dies("certificate_is_true")
class HadRoundsTheLieDown(Had):
    def __init__(self, epsilon):
        super().__init__(epsilon)
        self._lie -= 1
        self._truth += 1


@dies("certificate_is_true")
class HadFlipsWithTheUnaryQ(Had):
    """1 / (e^(epsilon / 2) + 1) belongs to symmetric unary encoding: half of epsilon is left
    unused, but it is all declared.
    """

    def __init__(self, epsilon):
        super().__init__(epsilon)
        self._declared, half = super().certificate(), Hadamard(epsilon / 2, 4)
        self._truth, self._lie = half._truth, half._lie

    def certificate(self):
        return self._declared


@dies("certificate_is_true")
class HadFlipsTooSeldom(Had):
    def __init__(self, epsilon):
        super().__init__(epsilon)
        twice = Hadamard(2 * epsilon, 4)
        self._declared, self._truth, self._lie = super().certificate(), twice._truth, twice._lie

    def certificate(self):
        return self._declared


@dies("law_is_exact")
class HadLawInFloats(Had):
    def law(self, value):
        law = super().law(value)
        return law._replace(weights=[weight / 1.0 for weight in law.weights])


@dies("law_is_exact")
class HadListsTheRowsOfItsSign(Had):
    def law(self, value):
        law = super().law(value)
        kept = np.array(law.weights) == max(law.weights)
        return law._replace(
            support=law.support[kept],
            weights=[w + min(law.weights) for w in law.weights if w == max(law.weights)],
        )


@dies("estimator_is_unbiased")
class HadBeginsAtColumnZero(Had):
    """All signs of column 0 are alike: a category that says nothing."""

    def law(self, value):
        law = super().law(max(value - 1, 0) if 0 <= value < 4 else value)
        return law if value else law._replace(weights=[self._truth, self._lie] * self._order)

    def _perturb(self, values, randomness, first):
        return super()._perturb(values - 1, randomness, first)


@dies("estimator_is_unbiased")
class HadMatrixIsTooSmall(Had):
    def __init__(self, epsilon):
        super().__init__(epsilon)
        self._order //= 2
        self._truth, self._lie = 2 * self._truth, 2 * self._lie


@dies("estimator_is_unbiased")
class HadForgetsToDebias(Had):
    def estimate_support(self, support, *, population=False):
        estimate = super().estimate_support(support, population=population)
        return estimate._replace(value=estimate.value * self._slope)


@dies("error_is_stated")
class HadErrorIsThePopulations(Had):
    def estimate_support(self, support, *, population=False):
        return super().estimate_support(support, population=True)


@dies("error_is_stated")
class HadErrorBeforeDebiasing(Had):
    def estimate_support(self, support, *, population=False):
        value, error, n = super().estimate_support(support, population=population)
        return Estimate(value, error * self._slope, n)


@dies("reports_are_float_safe")
class HadReportsFloats(Had):
    def perturb(self, values, randomness):
        return super().perturb(values, randomness).astype(np.float64)


@dies("randomness_has_one_door")
class HadRowsFromNumpy(Had):
    def _perturb(self, values, randomness, first):
        kept = super()._perturb(values, randomness, first)
        row = np.random.default_rng().integers(0, self._order, len(values))
        bit = (kept ^ np.bitwise_count((kept >> 1) & (values + 1))) & 1  # whether it was flipped
        return 2 * row + (np.bitwise_count(row & (values + 1)) & 1 ^ bit)


@dies("pieces_do_not_matter")
class HadChunksShareTheirWords(Had):
    def _perturb(self, values, randomness, first):
        return super()._perturb(values, randomness, 0)


@dies("support_is_additive")
class HadSupportWithoutSigns(Had):
    def support(self, reports):
        return np.abs(super().support(reports))


@dies("bad_values_are_refused")
class HadTakesAnyColumn(Had):
    def _checked(self, values):
        return np.asarray(values).astype(np.int64) % self._order


@dies("bad_epsilon_is_refused")
class HadTakesAnyEpsilon(Had):
    def __init__(self, epsilon):
        super().__init__(epsilon if isinstance(epsilon, int | float) and 0 < epsilon < 1e9 else 1.0)


@dies("tables_tell_mechanisms_apart")
class HadTablesLeaveOutTheWeights(Had):
    def tables(self):
        return self.categories, self._order


@dies("has_every_member")
class OlhHasNoScale(Olh):
    scale = None


@dies("has_every_member")
class HadCertifiesInWords(Had):
    def certificate(self):
        return "epsilon"


for _kind in (Olh, Had):
    dies("noise_is_its_own")(shares_its_words(_kind))
