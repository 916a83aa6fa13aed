"""Faults of the mechanisms that report packed bits."""

from __future__ import annotations

from math import exp

import numpy as np

from ldp_kafka.mechanisms.base import Certificate
from ldp_kafka.mechanisms.bits import own_bits, pack, unpack
from ldp_kafka.mechanisms.unary import UnaryEncoding
from tests.mutants import breaks
from tests.mutants.mechanisms import BITS, CATEGORIES, Declares, Oue, Subset, Sue


@breaks("sampler_follows_law", of=BITS)
class NeverClearsTheTrueBit:
    def perturb(self, values, randomness):
        out = super().perturb(values, randomness)
        out[np.arange(len(values)), values >> 3] |= (0x80 >> (values & 7)).astype(np.uint8)
        return out


@breaks("sampler_follows_law", of=BITS)
class LeavesTheLastBitUntouched:
    def perturb(self, values, randomness):
        out = super().perturb(values, randomness)
        out[:, -1] &= np.where(values == CATEGORIES - 1, 0xFF, 0).astype(np.uint8)
        return out


@breaks("estimator_is_unbiased", of=BITS)
class EstimatesWithAnotherQ:
    @property
    def _probabilities(self):
        p, q = super()._probabilities
        return p, q * 1.001


# --- unary encodings


class _OtherTurn:
    """Another q, in 16 levels; the law stays."""

    def perturb(self, values, randomness):
        kept, levels = (self._threshold, self._levels, self._words), 16
        threshold = kept[0] * 2 ** (levels - kept[1]) * self.share()
        self._threshold, self._levels, self._words = round(threshold) | 1, levels, 2 * levels
        try:
            return UnaryEncoding.perturb(self, values, randomness)
        finally:
            self._threshold, self._levels, self._words = kept


@breaks("sampler_follows_law", of=(Oue, Sue))
class TurnsThreePercentMore(_OtherTurn):
    def share(self):
        return 1.03


@breaks("sampler_follows_law", of=(Oue, Sue))
class TurnsThreePercentLess(_OtherTurn):
    def share(self):
        return 0.97


@breaks("sampler_follows_law", of=Sue)
class TurnsAsOueDoes(_OtherTurn):
    """q = 1 / (e^epsilon + 1) in a symmetric encoding spends epsilon twice."""

    def share(self):
        return (1 + exp(self.epsilon / 2)) / (1 + exp(self.epsilon))


@breaks("sampler_follows_law", of=(Oue, Sue))
class OneLevelForAll:
    """Each level turns the same bits."""

    def _level(self, random, level, part):
        return super()._level(random, 0, part)


@breaks("sampler_follows_law", of=(Oue, Sue))
class ReadsItsThresholdBackwards:
    def _background(self, random, levels):
        kept, self._threshold = self._threshold, int(f"{self._threshold:0{levels}b}"[::-1], 2)
        try:
            return super()._background(random, levels)
        finally:
            self._threshold = kept


@breaks("sampler_follows_law", of=(Oue, Sue))
class FlipsTwoBitsTogether:
    """Each of the two by itself follows its law."""

    def perturb(self, values, randomness):
        bits = unpack(super().perturb(values, randomness), CATEGORIES)
        both = np.flatnonzero(values > 1)
        bits[both, 1] = bits[both, 0]
        return pack(bits)


@breaks("reports_are_float_safe", of=(Oue, Sue))
class LeavesNoiseBehindTheLastBit:
    def perturb(self, values, randomness):
        out = super().perturb(values, randomness)
        out[:, -1] |= np.uint8(1)
        return out


@breaks("sampler_follows_law", of=Sue)
class FlipsTheBitOfTheNeighbour:
    def _turned(self, values, random):
        return super()._turned(np.maximum(values - 1, 0), random)


@breaks("sampler_follows_law", of=Oue)
class SetsTheTrueBitAfterTheLastLevel:
    """So there is no fair coin any more."""

    def _turned(self, values, random):
        lanes = super()._turned(values, random)
        place, mask = own_bits(values, lanes.strides[0])
        lanes.view(np.uint8).reshape(-1)[place] |= mask
        return lanes


@breaks("certificate_is_true", of=(Oue, Sue))
class RoundsTheTurnDown(Declares):
    def __init__(self, epsilon):
        super().__init__(epsilon)
        self._threshold -= 2


# --- subsets


@breaks("sampler_follows_law", of=Subset)
class OthersMayBeTheTruth:
    """A set of any omega categories where the true one is not in."""

    def perturb(self, values, randomness):
        held = unpack(super().perturb(values, randomness), CATEGORIES)
        rows = np.flatnonzero(held[np.arange(len(values)), values] == 0)
        held[rows] = np.roll(held[rows], 1, axis=1)
        return pack(held)


@breaks("sampler_follows_law", of=Subset)
class TakesTheTruthForTheLastPlace:
    """The last category never is among the others."""

    def perturb_part(self, values, randomness, first):
        last = self.categories - 1
        return super().perturb_part(np.where(values == 0, last, values), randomness, first)


class _Skewed:
    """Words whose high halves are a little too small."""

    def __init__(self, source):
        self.source = source

    def words(self, n, k=1, *, first=0):
        words = self.source.words(n, k, first=first).copy()
        words[:, 1::2] -= words[:, 1::2] // 16
        return words


@breaks("sampler_follows_law", of=Subset)
class PrefersTheFirstOthers:
    def perturb_part(self, values, randomness, first):
        return super().perturb_part(values, _Skewed(randomness), first)


@breaks("law_is_exact", of=Subset)
class LawOfEvenSets:
    """As if Floyd's steps were exactly even."""

    def law(self, value):
        law = super().law(value)
        even = [
            max(other for other in law.weights if abs(other - weight) < weight // 2**40)
            for weight in law.weights
        ]
        return law._replace(weights=even)


@breaks("certificate_is_true", of=Subset)
class ForgetsThatSetsAreNotQuiteEven:
    """The ratio of an ideal draw: below what the law shows."""

    def certificate(self):
        ratio = super().certificate().ratio / self._slack
        return Certificate(ratio, float(np.log(float(ratio))))


@breaks("certificate_is_true", of=Subset)
class HoldsMoreThanItMay(Declares):
    def __init__(self, epsilon):
        super().__init__(epsilon)
        self._hold += self._hold // 20
