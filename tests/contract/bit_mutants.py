"""Broken twins of the mechanisms that report packed bits, and the check of the contract that must
find each.
"""

from __future__ import annotations

from math import exp

import numpy as np

from ldp_kafka.mechanisms import OptimizedUnaryEncoding, SubsetSelection, SymmetricUnaryEncoding
from ldp_kafka.mechanisms.base import Certificate, Estimate, exp_below
from ldp_kafka.mechanisms.bits import own_bits, pack, unpack
from ldp_kafka.mechanisms.unary import UnaryEncoding
from ldp_kafka.randomness import system
from tests.contract.deaf import Deaf

BIT_MUTANTS: dict[type, str] = {}
"""Class -> name of the check."""

CATEGORIES = 9  # two bytes, the second nearly empty


class Oue(OptimizedUnaryEncoding):
    """Built from epsilon alone."""

    def __init__(self, epsilon):
        super().__init__(epsilon, CATEGORIES)


class Sue(SymmetricUnaryEncoding):
    """Built from epsilon alone."""

    def __init__(self, epsilon):
        super().__init__(epsilon, CATEGORIES)


class Subset(SubsetSelection):
    """Built from epsilon alone, with two categories of nine or so."""

    def __init__(self, epsilon):
        super().__init__(epsilon, CATEGORIES)


def twins(check, *bases):
    """Register a fault under the check that must find it, in each of these mechanisms."""

    def register(fault):
        for base in bases:
            BIT_MUTANTS[type(f"{base.__name__}{fault.__name__}", (fault, base), {})] = check
        return fault

    return register


def own(values):
    """(byte, mask) of each true category's bit."""
    return values >> 3, (0x80 >> (values & 7)).astype(np.uint8)


@twins("sampler_follows_law", Oue, Sue, Subset)
class NeverClearsTheTrueBit:
    def perturb(self, values, randomness):
        out = super().perturb(values, randomness)
        byte, mask = own(values)
        out[np.arange(len(values)), byte] |= mask
        return out


@twins("sampler_follows_law", Oue, Sue, Subset)
class LeavesTheLastBitUntouched:
    def perturb(self, values, randomness):
        out = super().perturb(values, randomness)
        out[:, -1] &= np.where(values == CATEGORIES - 1, 0xFF, 0).astype(np.uint8)
        return out


def turned(self, share, values, randomness):
    """Reports with another q, in 16 levels; the law stays."""
    kept = self._threshold, self._levels, self._words
    levels = 16
    self._threshold, self._levels, self._words = (
        round(kept[0] * 2 ** (levels - kept[1]) * share) | 1,
        levels,
        2 * levels,
    )
    try:
        return UnaryEncoding.perturb(self, values, randomness)
    finally:
        self._threshold, self._levels, self._words = kept


@twins("sampler_follows_law", Oue, Sue)
class TurnsThreePercentMore:
    def perturb(self, values, randomness):
        return turned(self, 1.03, values, randomness)


@twins("sampler_follows_law", Oue, Sue)
class TurnsThreePercentLess:
    def perturb(self, values, randomness):
        return turned(self, 0.97, values, randomness)


@twins("sampler_follows_law", Sue)
class TurnsAsOueDoes:
    """q = 1 / (e^epsilon + 1) in a symmetric encoding spends epsilon twice."""

    def perturb(self, values, randomness):
        return turned(
            self, (1 + exp(self.epsilon / 2)) / (1 + exp(self.epsilon)), values, randomness
        )


@twins("sampler_follows_law", Oue, Sue)
class OneLevelForAll:
    """Each level turns the same bits."""

    def _level(self, random, level, part):
        return super()._level(random, 0, part)


@twins("sampler_follows_law", Oue, Sue)
class ReadsItsThresholdBackwards:
    def _background(self, random, levels):
        kept, self._threshold = self._threshold, int(f"{self._threshold:0{levels}b}"[::-1], 2)
        try:
            return super()._background(random, levels)
        finally:
            self._threshold = kept


@twins("sampler_follows_law", Oue, Sue)
class FlipsTwoBitsTogether:
    """Each of the two by itself follows its law."""

    def perturb(self, values, randomness):
        bits = unpack(super().perturb(values, randomness), CATEGORIES)
        both = np.flatnonzero(values > 1)
        bits[both, 1] = bits[both, 0]
        return pack(bits)


@twins("reports_are_float_safe", Oue, Sue)
class LeavesNoiseBehindTheLastBit:
    def perturb(self, values, randomness):
        out = super().perturb(values, randomness)
        out[:, -1] |= np.uint8(1)
        return out


@twins("sampler_follows_law", Sue)
class FlipsTheBitOfTheNeighbour:
    def _perturb(self, values, random):
        return super()._perturb(np.maximum(values - 1, 0), random)


@twins("sampler_follows_law", Oue)
class SetsTheTrueBitAfterTheLastLevel:
    """So there is no fair coin any more."""

    def _perturb(self, values, random):
        lanes = super()._perturb(values, random)
        place, mask = own_bits(values, lanes.strides[0])
        lanes.view(np.uint8).reshape(-1)[place] |= mask
        return lanes


@twins("sampler_follows_law", Subset)
class HoldsTheTruthThreePercentMore:
    def perturb(self, values, randomness):
        hold = self._hold
        self._hold = int(hold * 1.03)
        try:
            return super().perturb(values, randomness)
        finally:
            self._hold = hold


@twins("sampler_follows_law", Subset)
class OthersMayBeTheTruth:
    """A set of any omega categories where the true one is not in."""

    def perturb(self, values, randomness):
        held = unpack(super().perturb(values, randomness), CATEGORIES)
        rows = np.flatnonzero(held[np.arange(len(values)), values] == 0)
        held[rows] = np.roll(held[rows], 1, axis=1)
        return pack(held)


@twins("sampler_follows_law", Subset)
class TakesTheTruthForTheLastPlace:
    """The last category never is among the others."""

    def _perturb(self, values, randomness, first):
        return super()._perturb(
            np.where(values == 0, self.categories - 1, values), randomness, first
        )


@twins("law_is_exact", Subset)
class LawOfEvenSets:
    """As if Floyd's steps were exactly even."""

    def law(self, value):
        law = super().law(value)
        even = [
            max(
                w
                for w, other in zip(law.weights, law.weights, strict=True)
                if abs(w - weight) < weight // 2**40
            )
            for weight in law.weights
        ]
        return law._replace(weights=even)


@twins("certificate_is_true", Subset)
class ForgetsThatSetsAreNotQuiteEven:
    """The ratio of an ideal draw: below what the law shows."""

    def certificate(self):
        made = super().certificate()
        ratio = made.ratio / self._slack
        return Certificate(ratio, float(np.log(float(ratio))))


@twins("sampler_follows_law", Subset)
class PrefersTheFirstOthers:
    def _perturb(self, values, randomness, first):
        return super()._perturb(values, Skewed(randomness), first)


class Skewed:
    """Words whose high halves are a little too small."""

    def __init__(self, source):
        self.source = source

    def within(self, context):
        return Skewed(self.source.within(context))

    def words(self, n, k=1, *, first=0):
        words = self.source.words(n, k, first=first).copy()
        words[:, 1::2] -= words[:, 1::2] // 16
        return words


@twins("randomness_has_one_door", Oue, Sue, Subset)
class DrawsAgain:
    def perturb(self, values, randomness):
        return super().perturb(values, system())


@twins("pieces_do_not_matter", Oue, Sue, Subset)
class ForgetsWhereItsPieceBegins:
    def perturb(self, values, randomness):
        return super().perturb(values, Forgetful(randomness))


class Forgetful:
    """Gives every piece the words of the first."""

    def __init__(self, source):
        self.source = source

    def within(self, context):
        return Forgetful(self.source.within(context))

    def words(self, n, k=1, *, first=0):
        return self.source.words(n, k, first=first and 1)


@twins("reports_are_float_safe", Oue, Sue, Subset)
class ReportsFloats:
    def perturb(self, values, randomness):
        return super().perturb(values, randomness) + values[:, None] * 2.0**-40


@twins("certificate_is_true", Oue, Sue)
class RoundsTheTurnDown:
    def __init__(self, epsilon):
        super().__init__(epsilon)
        self._threshold -= 2

    def certificate(self):
        return Certificate(exp_below(self.epsilon), self.epsilon)


@twins("certificate_is_true", Subset)
class HoldsMoreThanItMay:
    def __init__(self, epsilon):
        super().__init__(epsilon)
        self._hold += self._hold // 20

    def certificate(self):
        return Certificate(exp_below(self.epsilon), self.epsilon)


@twins("law_is_exact", Oue, Sue, Subset)
class LawInFloats:
    def law(self, value):
        law = super().law(value)
        return law._replace(weights=[float(weight) for weight in law.weights])


@twins("estimator_is_unbiased", Oue, Sue, Subset)
class EstimatesWithAnotherQ:
    @property
    def _probabilities(self):
        p, q = super()._probabilities
        return p, q * 1.001


@twins("error_is_stated", Oue, Sue, Subset)
class HalvesItsError:
    def estimate_support(self, support, *, population=False):
        made = super().estimate_support(support, population=population)
        return Estimate(made.value, made.standard_error / 2, made.reports)


@twins("support_is_additive", Oue, Sue, Subset)
class CountsShares:
    def support(self, reports):
        counted = super().support(reports)
        counted[1:] = counted[1:] * 1000 // max(1, int(counted[0]))
        return counted


@twins("bad_values_are_refused", Oue, Sue, Subset)
class TakesAnyCategory:
    def perturb(self, values, randomness):
        return super().perturb(np.clip(values, 0, self.categories - 1), randomness)


@twins("bad_values_are_refused", Oue, Sue, Subset)
class ShowsTheValue:
    def perturb(self, values, randomness):
        try:
            return super().perturb(values, randomness)
        except ValueError:
            raise ValueError(f"no category: {np.asarray(values).tolist()}") from None


@twins("noise_is_its_own", Oue, Sue, Subset)
class SharesItsWords:
    def perturb(self, values, randomness):
        return super().perturb(values, Deaf(randomness))
