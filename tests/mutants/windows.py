"""Faults of Square Wave, Piecewise, Duchi's and Hybrid."""

from __future__ import annotations

from fractions import Fraction
from math import exp

import numpy as np

from ldp_kafka.mechanisms import Piecewise
from ldp_kafka.mechanisms.base import Certificate, Estimate, exp_below
from ldp_kafka.mechanisms.hybrid import Hybrid
from ldp_kafka.mechanisms.window import ROUND, WORD
from tests.mutants import breaks
from tests.mutants.mechanisms import Du, Hm, Pm, Wave

# --- windows


@breaks("certificate_is_true", of=(Wave, Pm))
class NearIsAUnitTooLarge:
    def __init__(self, epsilon):
        super().__init__(epsilon)
        self._far -= 1
        self._near = int(exp_below(epsilon) * self._far) + 1
        self._inside = self._near * self._reach


@breaks("certificate_is_true", of=(Wave, Pm))
class LeftOversFollowTheInput:
    def _weights(self, point):
        weights = super()._weights(point)
        weights[-1] -= self._left
        weights[point] += self._left
        return weights


@breaks("certificate_is_true", of=(Wave, Hm))
class CertifiesInFloats:
    def certificate(self):
        return Certificate(Fraction(float(self._near) / float(self._far) * 0.97), self.epsilon)


@breaks("sampler_follows_law", of=Wave)
class IsAPointTooWide:
    def law(self, value):
        law = super().law(value)
        weights = [*law.weights[1:-1], law.weights[0] + law.weights[-1]]
        return law._replace(weights=weights, support=law.support[1:])


@breaks("sampler_follows_law", of=Pm)
class ForgetsTheGapOfTheWindow:
    """Far points are drawn as if the window were not among them: near ones too, and none at the
    upper end.
    """

    def _index(self, point, words):
        far = words[:, 1] >= self._inside
        rank = (words[:, 1] - np.uint32(self._inside)) // np.uint32(self._far) - np.uint32(
            self._shift
        )
        return np.where(far, rank, super()._index(point, words))


@breaks("reports_are_float_safe", of=Wave)
class StatesANarrowerRange:
    index_range = (0, 1023)


@breaks("reports_are_float_safe", of=Wave)
class ZeroHasTheInputsSign:
    def perturb(self, values, randomness):
        reports = super().perturb(values, randomness)
        return np.where((reports == 0) & (values > 0.5), -0.0, reports)


@breaks("pieces_do_not_matter", of=Wave)
class SortsItsBatch:
    def perturb(self, values, randomness):
        order = np.argsort(values, kind="stable")
        return super().perturb(values[order], randomness)[np.argsort(order)]


@breaks("estimator_is_unbiased", of=Pm)
class CutsEstimatesAtTheDomain:
    def estimate_support(self, support, *, population=False):
        value, error, n, *_ = super().estimate_support(support, population=population)
        return Estimate(min(max(value, -1.0), 1.0) if n else value, error, n)


# --- Duchi's


@breaks("certificate_is_true", of=Du)
class RoundsTheLieDown:
    def __init__(self, epsilon):
        super().__init__(epsilon)
        self._far -= 1
        self._near += 1


@breaks("law_is_exact", of=Du)
class IsSureAtTheEnds:
    def _cut(self, values):
        return np.where(values <= -1, np.uint32(0), super()._cut(values))


@breaks("sampler_follows_law", of=(Wave, Du))
class SaysTheOpposite:
    def perturb_part(self, values, randomness, first):
        return super().perturb_part(sum(self.domain) - values, randomness, first)


@breaks("sampler_follows_law", of=Du)
class UsesTheSignOfTheValue:
    """Randomised response of the sign: a value near the middle is reported as an end."""

    def perturb_part(self, values, randomness, first):
        return super().perturb_part(
            np.where(np.isfinite(values), np.sign(values), values), randomness, first
        )


@breaks("reports_are_float_safe", of=(Du, Hm))
class ReportsTheTextbooksC:
    def perturb_part(self, values, randomness, first):
        reports = super().perturb_part(values, randomness, first)
        c = (exp(self.epsilon) + 1) / (exp(self.epsilon) - 1)
        upper = self.law(0.0).support[np.argmax(self.law(1.0).weights)]
        return np.where(reports == upper, 0.5 + c / 2, reports)


# --- hybrid


@breaks("certificate_is_true", of=Hm)
class GivesDuchiMore:
    """Each report is one of two mechanisms', but one of them spends twice."""

    def __init__(self, epsilon):
        super().__init__(epsilon)
        other = Hybrid(2 * epsilon)
        self._rise = (WORD - 2 * other._low) // self._others // 2 * 2
        self._low = (WORD - self._rise * self._others) // 2


@breaks("certificate_is_true", of=Hm)
class CertifiesPiecewiseOnly(GivesDuchiMore):
    def certificate(self):
        return Piecewise.certificate(self)


@breaks("certificate_is_true", of=Hm)
class TossesByTheValue:
    """Duchi's near the ends, where it varies less: the coin tells."""

    def _weights(self, point):
        heads = self._heads
        self._heads = ROUND // 16 if point in (0, self._others) else heads
        try:
            return super()._weights(point)
        finally:
            self._heads = heads


@breaks("law_is_exact", of=Hm)
class DoesNotMergeItsPoints:
    """Duchi's two as outputs of their own beside the same points of the grid."""

    def law(self, value):
        law = super().law(value)
        points, weights = [self._lower, self._upper], list(law.weights)
        halves = [weights[i] // 2 for i in points]
        for i, half in zip(points, halves, strict=True):
            weights[i] -= half
        return law._replace(
            support=np.append(law.support, law.support[points]), weights=[*weights, *halves]
        )


class _Coin:
    def _index(self, point, words):
        kept, self._heads = self._heads, self.heads(self._heads)
        try:
            return super()._index(point, words)
        finally:
            self._heads = kept


@breaks("sampler_follows_law", of=Hm)
class IsDuchiOnly(_Coin):
    def heads(self, heads):
        return 0


@breaks("sampler_follows_law", of=Hm)
class IsPiecewiseOnly(_Coin):
    def heads(self, heads):
        return ROUND - 1


@breaks("sampler_follows_law", of=Hm)
class TossesThreePercentMoreHeads(_Coin):
    def heads(self, heads):
        return round(heads * 1.03)


@breaks("sampler_follows_law", of=Hm)
class DrawsWithItsCoin:
    """One word for both: which way it goes tells what it draws."""

    def _index(self, point, words):
        return super()._index(point, words[:, [0, 0]])


@breaks("estimator_is_unbiased", of=Hm)
class DebiasesAsPiecewise:
    def _polynomials(self):
        return Piecewise._polynomials(self)


@breaks("error_is_stated", of=Hm)
class ErrorIsPiecewises:
    def _polynomials(self):
        return super()._polynomials()[0], Piecewise._polynomials(self)[1]


@breaks("support_is_additive", of=Hm)
class SupportBeginsWithTheSum:
    def support(self, reports):
        return super().support(reports)[[1, 0, 2]]

    def estimate_support(self, support, *, population=False):
        return super().estimate_support(support[[1, 0, 2]], population=population)
