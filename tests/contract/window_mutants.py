"""Broken twins of Piecewise, Duchi's and Hybrid, and the check of the contract that
must find each.
"""

from __future__ import annotations

from fractions import Fraction
from math import exp

import numpy as np

from ldp_kafka.mechanisms import Duchi, Hybrid, Piecewise
from ldp_kafka.mechanisms.base import Certificate, Estimate, exp_below
from ldp_kafka.mechanisms.window import ROUND, WORD
from ldp_kafka.randomness import seeded, system
from tests.contract.deaf import shares_its_words

WINDOW_MUTANTS: dict[type, str] = {}
"""Class -> name of the check."""


def dies(check):
    """Register a mutant under the check that must kill it."""

    def register(mutant):
        WINDOW_MUTANTS[mutant] = check
        return mutant

    return register


class Pm(Piecewise):
    """On its native interval, so that every mutant is built from epsilon alone."""

    def __init__(self, epsilon):
        super().__init__(epsilon, (-1.0, 1.0))


class Du(Duchi):
    """The same."""

    def __init__(self, epsilon):
        super().__init__(epsilon, (-1.0, 1.0))


class Hm(Hybrid):
    """The same."""

    def __init__(self, epsilon):
        super().__init__(epsilon, (-1.0, 1.0))


def declared(epsilon):
    """A certificate that computes nothing."""
    return Certificate(exp_below(epsilon), epsilon)


def any_epsilon(epsilon):
    return epsilon if isinstance(epsilon, int | float) and 0 < epsilon < 1e9 else 1.0


# --- piecewise


@dies("certificate_is_true")
class PmNearIsAUnitTooLarge(Pm):
    def __init__(self, epsilon):
        super().__init__(epsilon)
        self._far -= 1
        self._near = int(exp_below(epsilon) * self._far) + 1
        self._inside = self._near * self._reach


@dies("certificate_is_true")
class PmTakesTheWholeBudgetForItsWidth(Pm):
    """Near points e^(2 epsilon) times as likely: epsilon on either side of the middle."""

    def __init__(self, epsilon):
        super().__init__(epsilon)
        other = Piecewise(2 * epsilon)
        self.__dict__.update(other.__dict__, epsilon=self.epsilon, domain=self.domain)

    def certificate(self):
        return declared(self.epsilon)


@dies("certificate_is_true")
class PmLeftOversFollowTheInput(Pm):
    def _weights(self, point):
        weights = super()._weights(point)
        weights[-1] -= self._left
        weights[point] += self._left
        return weights


@dies("law_is_exact")
class PmIsAWindowAlone(Pm):
    """Noise that is bounded: far points are never reported."""

    def _weights(self, point):
        weights = [0] * self._points
        weights[point : point + self._reach] = [WORD // self._reach] * self._reach
        weights[point] += WORD - sum(weights)
        return weights


@dies("sampler_follows_law")
class PmStaysInItsWindowThreePercentMore(Pm):
    def _index(self, point, words):
        near, inside = self._near, self._inside
        self._near = round(near * 1.03)
        self._inside = self._near * self._reach
        try:
            return super()._index(point, words)
        finally:
            self._near, self._inside = near, inside


@dies("sampler_follows_law")
class PmNeverLies(Pm):
    def _index(self, point, words):
        return super()._index(point, words % np.uint32(self._inside))


@dies("sampler_follows_law")
class PmForgetsTheGapOfTheWindow(Pm):
    """Far points are drawn as if the window were not among them: near ones too, and none at the
    upper end.
    """

    def _index(self, point, words):
        far = words[:, 1] >= self._inside
        rank = (words[:, 1] - np.uint32(self._inside)) // np.uint32(self._far) - np.uint32(
            self._shift
        )
        return np.where(far, rank, super()._index(point, words))


@dies("reports_are_float_safe")
class PmInFloats(Pm):
    """The textbook's sampler."""

    def _perturb(self, values, randomness, first):
        words = (randomness.words(len(values), 3, first=first) + 0.5) / 2**32
        t = exp(self.epsilon / 2)
        c = (t + 1) / (t - 1)
        left = (c + 1) / 2 * values - (c - 1) / 2
        near = left + (c - 1) * words[:, 1]
        far = words[:, 1] * (c + 1) - c
        far += (far >= left) * (c - 1)
        return (np.where(words[:, 0] < t / (t + 1), near, far) + 1) / 2


@dies("reports_are_float_safe")
class PmKeepsTheInputsLowBits(Pm):
    def _perturb(self, values, randomness, first):
        return super()._perturb(values, randomness, first) * (1 + values * 2.0**-51)


@dies("estimator_is_unbiased")
class PmCutsEstimatesAtTheDomain(Pm):
    def estimate_support(self, support, *, population=False):
        value, error, n, *_ = super().estimate_support(support, population=population)
        return Estimate(min(max(value, -1.0), 1.0) if n else value, error, n)


@dies("estimator_is_unbiased")
class PmRoundsDown(Pm):
    def _snap(self, values):
        return super()._snap(values) >> np.uint32(16) << np.uint32(16)


@dies("estimator_is_unbiased")
class PmTakesItsMeanForTheValue(Pm):
    """True of the continuous law, and here to a thousandth."""

    def estimate_support(self, support, *, population=False):
        value, error, n, *_ = super().estimate_support(support, population=population)
        return Estimate(2 * support[1] / support[0] * self.scale - 1 if n else value, error, n)


@dies("error_is_stated")
class PmErrorIsThePopulations(Pm):
    def estimate_support(self, support, *, population=False):
        return super().estimate_support(support, population=True)


@dies("error_is_stated")
class PmErrorOnTheUnitScale(Pm):
    def estimate_support(self, support, *, population=False):
        value, error, n, *_ = super().estimate_support(support, population=population)
        return Estimate(value, error / 2, n)


@dies("randomness_has_one_door")
class PmDrawsAgainOutsideTheDomain(Pm):
    def _perturb(self, values, randomness, first):
        reports = super()._perturb(values, randomness, first)
        outside = np.abs(reports - 0.5) > 0.5
        return (
            np.where(outside, super()._perturb(values, randomness, first), reports)
            if outside.any()
            else reports
        )


@dies("pieces_do_not_matter")
class PmChunksShareTheirWords(Pm):
    def _perturb(self, values, randomness, first):
        return super()._perturb(values, randomness, 0)


@dies("support_is_additive")
class PmSupportIsAMean(Pm):
    def support(self, reports):
        n, total, squares = super().support(reports)
        return np.array([n, total // max(n, 1), squares // max(n, 1)])


@dies("bad_values_are_refused")
class PmLetsNanIn(Pm):
    def _snap(self, values):
        return super()._snap(np.nan_to_num(values))


@dies("bad_epsilon_is_refused")
class PmTakesAnyEpsilon(Pm):
    def __init__(self, epsilon):
        super().__init__(any_epsilon(epsilon))


@dies("tables_tell_mechanisms_apart")
class PmTablesLeaveOutTheWeights(Pm):
    def tables(self):
        return (self.cells,)


# --- Duchi's


@dies("certificate_is_true")
class DuRoundsTheLieDown(Du):
    def __init__(self, epsilon):
        super().__init__(epsilon)
        self._far -= 1
        self._near += 1


@dies("certificate_is_true")
class DuCountsTheMiddleAsSensitivity(Du):
    """Epsilon between the middle and an end: twice that between the ends."""

    def __init__(self, epsilon):
        super().__init__(epsilon)
        self.__dict__.update(Duchi(2 * epsilon).__dict__, epsilon=self.epsilon, domain=self.domain)

    def certificate(self):
        return declared(self.epsilon)


@dies("certificate_is_true")
class DuCertifiesMoreThanItSpends(Du):
    def __init__(self, epsilon):
        super().__init__(epsilon)
        self.__dict__.update(Duchi(epsilon / 2).__dict__, epsilon=self.epsilon, domain=self.domain)

    def certificate(self):
        return declared(self.epsilon)


@dies("law_is_exact")
class DuIsSureAtTheEnds(Du):
    def _cut(self, values):
        cut = super()._cut(values)
        return np.where(values <= -1, np.uint32(0), cut)


@dies("law_is_exact")
class DuLawInFloats(Du):
    def law(self, value):
        law = super().law(value)
        return law._replace(weights=[float(weight) for weight in law.weights])


@dies("sampler_follows_law")
class DuNeverLies(Du):
    def _perturb(self, values, randomness, first):
        randomness.words(len(values), 1, first=first)
        self._cut(values)
        return np.where(values > 0, self._outputs[1], self._outputs[0])


@dies("sampler_follows_law")
class DuSaysTheOpposite(Du):
    def _perturb(self, values, randomness, first):
        return super()._perturb(-values, randomness, first)


@dies("sampler_follows_law")
class DuSaysUpThreePercentMore(Du):
    def _perturb(self, values, randomness, first):
        words = randomness.words(len(values), 1, first=first)[:, 0]
        return np.where(words < 1.03 * self._cut(values), self._outputs[1], self._outputs[0])


@dies("sampler_follows_law")
class DuUsesTheSignOfTheValue(Du):
    """Randomised response of the sign: a value near the middle is reported as an end."""

    def _perturb(self, values, randomness, first):
        return super()._perturb(
            np.where(np.isfinite(values), np.sign(values), values), randomness, first
        )


@dies("reports_are_float_safe")
class DuKeepsTheInputsLowBits(Du):
    def _perturb(self, values, randomness, first):
        return super()._perturb(values, randomness, first) * (1 + values * 2.0**-51)


@dies("reports_are_float_safe")
class DuReportsTheTextbooksC(Du):
    def _perturb(self, values, randomness, first):
        c = (exp(self.epsilon) + 1) / (exp(self.epsilon) - 1)
        return np.where(super()._perturb(values, randomness, first) > 0.5, 0.5 + c / 2, 0.5 - c / 2)


@dies("estimator_is_unbiased")
class DuForgetsToDebias(Du):
    def estimate_support(self, support, *, population=False):
        value, error, n, *_ = super().estimate_support(support, population=population)
        return Estimate(2 * support[1] / support[0] - 1 if n else value, error, n)


@dies("error_is_stated")
class DuErrorBeforeDebiasing(Du):
    def estimate_support(self, support, *, population=False):
        value, error, n, *_ = super().estimate_support(support, population=population)
        return Estimate(value, error * (self._near - self._far) / WORD, n)


@dies("randomness_has_one_door")
class DuDrawsSystemNoise(Du):
    """A replay would draw again."""

    def perturb(self, values, randomness):
        return super().perturb(values, system())


@dies("randomness_has_one_door")
class DuRemembersNothingButItsSeed(Du):
    def perturb(self, values, randomness):
        return super().perturb(values, seeded(0))


@dies("pieces_do_not_matter")
class DuChunksShareTheirWords(Du):
    def _perturb(self, values, randomness, first):
        return super()._perturb(values, randomness, 0)


@dies("pieces_do_not_matter")
class DuClampsInPlace(Du):
    def perturb(self, values, randomness):
        np.clip(values, -1, 1, out=values)
        return super().perturb(values, randomness)


@dies("support_is_additive")
class DuSupportInFloats(Du):
    def support(self, reports):
        return super().support(reports) / 1.0


@dies("bad_values_are_refused")
class DuFoldsInsteadOfClamping(Du):
    def _cut(self, values):
        return super()._cut(np.where(np.abs(values) > 1, -values, values))


@dies("bad_epsilon_is_refused")
class DuTakesAnyEpsilon(Du):
    def __init__(self, epsilon):
        super().__init__(any_epsilon(epsilon))


@dies("tables_tell_mechanisms_apart")
class DuTablesLeaveOutTheWeights(Du):
    def tables(self):
        return (WORD,)


# --- hybrid


@dies("certificate_is_true")
class HmGivesDuchiMore(Hm):
    """Each report is one of two mechanisms', but one of them spends twice."""

    def __init__(self, epsilon):
        super().__init__(epsilon)
        other = Hybrid(2 * epsilon)
        self._rise = (WORD - 2 * other._low) // self._others // 2 * 2
        self._low = (WORD - self._rise * self._others) // 2


@dies("certificate_is_true")
class HmCertifiesPiecewiseOnly(HmGivesDuchiMore):
    def certificate(self):
        return Piecewise.certificate(self)


@dies("certificate_is_true")
class HmTossesByTheValue(Hm):
    """Duchi's near the ends, where it varies less: the coin tells."""

    def _weights(self, point):
        heads = self._heads
        self._heads = ROUND // 16 if point in (0, self._others) else heads
        try:
            return super()._weights(point)
        finally:
            self._heads = heads


@dies("law_is_exact")
class HmDoesNotMergeItsPoints(Hm):
    """Duchi's two as outputs of their own beside the same points of the grid."""

    def law(self, value):
        law = super().law(value)
        twice = np.append(law.support, law.support[[self._lower, self._upper]])
        halves = [law.weights[i] // 2 for i in (self._lower, self._upper)]
        weights = list(law.weights)
        for i, half in zip((self._lower, self._upper), halves, strict=True):
            weights[i] -= half
        return law._replace(support=twice, weights=[*weights, *halves])


@dies("law_is_exact")
class HmForgetsTheCoinsDenominator(Hm):
    def law(self, value):
        law = super().law(value)
        return law._replace(denominator=law.denominator // ROUND)


class _Coin(Hm):
    heads = 0

    def _index(self, point, words):
        heads = self._heads
        self._heads = self.heads if self.heads is not None else min(round(heads * 1.03), ROUND - 1)
        try:
            return super()._index(point, words)
        finally:
            self._heads = heads


@dies("sampler_follows_law")
class HmIsDuchiOnly(_Coin):
    heads = 0


@dies("sampler_follows_law")
class HmIsPiecewiseOnly(_Coin):
    heads = ROUND - 1


@dies("sampler_follows_law")
class HmTossesThreePercentMoreHeads(_Coin):
    heads = None


@dies("sampler_follows_law")
class HmDrawsWithItsCoin(Hm):
    """One word for both: which way it goes tells what it draws."""

    def _index(self, point, words):
        return super()._index(point, words[:, [0, 0]])


@dies("reports_are_float_safe")
class HmReportsTheTextbooksC(Hm):
    def _perturb(self, values, randomness, first):
        reports = super()._perturb(values, randomness, first)
        c = (exp(self.epsilon) + 1) / (exp(self.epsilon) - 1)
        upper = (self._upper - self._shift) * self.scale
        return np.where(reports == upper, 0.5 + c / 2, reports)


@dies("estimator_is_unbiased")
class HmDebiasesAsPiecewise(Hm):
    def _polynomials(self):
        return Piecewise._polynomials(self)


@dies("error_is_stated")
class HmErrorIsPiecewises(Hm):
    def _polynomials(self):
        mean, _ = super()._polynomials()
        return mean, Piecewise._polynomials(self)[1]


@dies("error_is_stated")
class HmErrorIsThePopulations(Hm):
    def estimate_support(self, support, *, population=False):
        return super().estimate_support(support, population=True)


@dies("randomness_has_one_door")
class HmTossesWithNumpy(Hm):
    def _index(self, point, words):
        words = words.copy()
        words[:, 0] = np.random.default_rng().integers(0, 2**32, len(words))
        return super()._index(point, words)


@dies("randomness_has_one_door")
class HmAsksForASecondWordWhenItNeedsOne(Hm):
    def _perturb(self, values, randomness, first):
        coin = randomness.words(len(values), 1, first=first)[:, 0]
        if (coin < self._heads * ROUND).any():
            return super()._perturb(values, randomness, first)
        point = self._snap(values) >> np.uint32(16)
        return self._index(point, np.column_stack([coin, coin])).view(np.int32) * self.scale


@dies("pieces_do_not_matter")
class HmChunksShareTheirWords(Hm):
    def _perturb(self, values, randomness, first):
        return super()._perturb(values, randomness, 0)


@dies("support_is_additive")
class HmSupportBeginsWithTheSum(Hm):
    def support(self, reports):
        return super().support(reports)[[1, 0, 2]]

    def estimate_support(self, support, *, population=False):
        return super().estimate_support(support[[1, 0, 2]], population=population)


@dies("bad_values_are_refused")
class HmShowsTheValue(Hm):
    def _snap(self, values):
        if not np.isfinite(values).all():
            raise ValueError(f"not finite: {values}")
        return super()._snap(values)


@dies("bad_epsilon_is_refused")
class HmTakesAnyEpsilon(Hm):
    def __init__(self, epsilon):
        super().__init__(any_epsilon(epsilon))


@dies("tables_tell_mechanisms_apart")
class HmTablesLeaveOutTheWeights(Hm):
    def tables(self):
        return (self.cells,)


@dies("certificate_is_true")
class HmCertifiesInFloats(Hm):
    def certificate(self):
        return Certificate(Fraction(float(self._near) / float(self._far) * 0.97), self.epsilon)


@dies("has_every_member")
class PmHasNoSupport(Pm):
    support = None


@dies("has_every_member")
class DuHasNoLaw(Du):
    law = None


@dies("has_every_member")
class HmIsOfNoDomain(Hm):
    domain = property(lambda self: None, lambda self, domain: None)


for _kind in (Pm, Du, Hm):
    dies("noise_is_its_own")(shares_its_words(_kind))
