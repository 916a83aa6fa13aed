"""The mechanisms that have twins, each built from epsilon alone, and the faults that any of them
can have.
"""

from __future__ import annotations

import numpy as np

from ldp_kafka.mechanisms import (
    Duchi,
    Gaussian,
    GaussianVector,
    GeneralizedRandomizedResponse,
    Hadamard,
    Hybrid,
    Laplace,
    OptimalLocalHashing,
    OptimizedUnaryEncoding,
    Piecewise,
    SquareWave,
    SubsetSelection,
    SymmetricUnaryEncoding,
)
from ldp_kafka.mechanisms.base import Certificate, Estimate, exp_below
from ldp_kafka.randomness import seeded, system
from tests.mechanisms.third_party import UpDownOrUnsure
from tests.mutants import breaks
from tests.mutants.deaf import Deaf

CATEGORIES = 9  # of packed bits: two bytes, the second nearly empty
DELTA, DIMENSION, DIAMETER = 1e-5, 3, 10.0


def at(kind, name, *settings):
    """The mechanism with all but epsilon fixed."""

    def __init__(self, epsilon):
        kind.__init__(self, epsilon, *settings)

    return type(name, (kind,), {"__init__": __init__, "__module__": __name__})


Grr = at(GeneralizedRandomizedResponse, "Grr", 4)
Olh = at(OptimalLocalHashing, "Olh", 4)
Had = at(Hadamard, "Had", 4)
Oue = at(OptimizedUnaryEncoding, "Oue", CATEGORIES)
Sue = at(SymmetricUnaryEncoding, "Sue", CATEGORIES)
Subset = at(SubsetSelection, "Subset", CATEGORIES)
Wave = at(SquareWave, "Wave", (0.0, 1.0))
Pm = at(Piecewise, "Pm", (-1.0, 1.0))
Du = at(Duchi, "Du", (-1.0, 1.0))
Hm = at(Hybrid, "Hm", (-1.0, 1.0))
Lap = at(Laplace, "Lap", (-1.0, 1.0))
Normal = at(Gaussian, "Normal", DELTA, (-1.0, 1.0))
Vector = at(GaussianVector, "Vector", DELTA, DIMENSION, DIAMETER)

CODES, BITS = (Grr, Olh, Had), (Oue, Sue, Subset)
WINDOWS = (Wave, Pm, Du, Hm)
NUMBERS = (*WINDOWS, Lap, Normal)


class Declares:
    """A certificate that computes nothing."""

    def certificate(self):
        return Certificate(exp_below(self.epsilon), self.epsilon)


# --- members


for _of, _name in (
    (Grr, "tables"), (Olh, "scale"), (Wave, "index_range"), (Pm, "support"), (Du, "law"),
):  # fmt: skip
    breaks("has_every_member", of=_of)(type(f"HasNo_{_name}", (), {_name: None}))


@breaks("has_every_member", of=Grr)
class ScaleIsAMethod:
    def scale(self):
        return 1


@breaks("has_every_member", of=Grr)
class LawIsADict:
    def law(self, value):
        law = super().law(value)
        return dict(zip(law.support.tolist(), law.weights, strict=True))


@breaks("has_every_member", of=Hm)
class IsOfNoDomain:
    domain = property(lambda self: None, lambda self, domain: None)


@breaks("has_every_member", of=Had)
class CertifiesInWords:
    def certificate(self):
        return "epsilon"


@breaks("bad_epsilon_is_refused", of=(*CODES, *BITS, *NUMBERS))
class TakesAnyEpsilon:
    def __init__(self, epsilon):
        super().__init__(epsilon if isinstance(epsilon, int | float) and 0 < epsilon < 1e9 else 1.0)


@breaks("tables_tell_mechanisms_apart", of=(*CODES, *BITS, *NUMBERS))
class TablesLeaveOutTheWeights:
    def tables(self):
        return (1,)


# --- laws and certificates


@breaks("law_is_exact", of=(Grr, Had, *BITS, Wave, Du))
class LawInFloats:
    def law(self, value):
        law = super().law(value)
        return law._replace(weights=[float(weight) for weight in law.weights])


@breaks("law_is_exact", of=(Grr, Olh, Pm, Du, Lap, UpDownOrUnsure))
class NeverSaysWhatIsRarest:
    """Noise that is bounded is of this kind."""

    def law(self, value):
        law = super().law(value)
        least = min(law.weights)
        weights = [weight if weight > least else 0 for weight in law.weights]
        weights[weights.index(max(weights))] += law.denominator - sum(weights)
        return law._replace(weights=weights)


@breaks("law_is_exact", of=(Grr, Olh, Hm))
class LosesTheRemainder:
    def law(self, value):
        law = super().law(value)
        return law._replace(denominator=law.denominator + 1)


@breaks("certificate_is_true", of=(Grr, Had, Du))
class SpendsHalf(Declares):
    """Half of epsilon is left unused, but it is all declared."""

    share = 0.5

    def __init__(self, epsilon):
        super().__init__(self.share * epsilon)
        self.epsilon = epsilon


@breaks("certificate_is_true", of=(Had, Pm, Du, Lap, UpDownOrUnsure))
class SpendsTwice(SpendsHalf):
    """Epsilon between the middle of the domain and an end, or in a bit."""

    share = 2


@breaks("certificate_is_true", of=UpDownOrUnsure)
class SpendsATenthMore:
    def __init__(self, epsilon):
        super().__init__(1.1 * epsilon)
        self.epsilon = epsilon


# --- reports


@breaks("reports_are_float_safe", of=(*CODES, *BITS))
class ReportsFloats:
    def perturb(self, values, randomness):
        return super().perturb(values, randomness).astype(np.float64)


@breaks("reports_are_float_safe", of=(Wave, Pm, Du, Lap, UpDownOrUnsure))
class KeepsTheInputsLowBits:
    def perturb(self, values, randomness):
        return super().perturb(values, randomness) * (1 + values * 2.0**-51)


@breaks("reports_are_float_safe", of=(Wave, Pm, Lap, Normal))
class AddsFloatNoise:
    """As the textbooks' samplers do."""

    def perturb_part(self, values, randomness, first):
        noise = randomness.words(len(values), 4, first=first)[:, 2] * 2.0**-60
        return super().perturb_part(values, randomness, first) + noise


@breaks("sampler_follows_law", of=(Grr, Olh, Had, *BITS, Pm, Du))
class NeverLies:
    """Reports are of the likeliest."""

    def perturb(self, values, randomness):
        reports, law = super().perturb(values, randomness), self.law(values[0])
        likely = law.support[np.array(law.weights) == max(law.weights)]
        reports[:] = likely[np.arange(len(reports)) % len(likely)]
        return reports


class _Off:
    """Reports +1 more or less often than the law says."""

    def perturb(self, values, randomness):
        reports = super().perturb(values, randomness)
        moved = (np.arange(len(values)) % 100 < 3) & (reports == self.off)
        return np.where(moved, -self.off, reports)


@breaks("sampler_follows_law", of=UpDownOrUnsure)
class IsTooSure(_Off):
    off = -1.0


@breaks("sampler_follows_law", of=UpDownOrUnsure)
class IsTooShy(_Off):
    off = 1.0


# --- where randomness comes from, and to which report it goes


@breaks("randomness_has_one_door", of=(*CODES, *BITS, Wave, Du, Hm, Lap, UpDownOrUnsure))
class DrawsAgain:
    """A replay gives other reports."""

    def perturb(self, values, randomness):
        return super().perturb(values, system())


@breaks("randomness_has_one_door", of=Du)
class RemembersNothingButItsSeed:
    def perturb(self, values, randomness):
        return super().perturb(values, seeded(0))


@breaks("randomness_has_one_door", of=(*WINDOWS, Lap, Normal))
class AsksAgainForWhatIsHigh:
    def perturb_part(self, values, randomness, first):
        reports = super().perturb_part(values, randomness, first)
        high = reports > 0.75
        return (
            np.where(high, super().perturb_part(values, randomness, first), reports)
            if high.any()
            else reports
        )


class Forgetful:
    """Gives every piece the words of the first."""

    def __init__(self, source):
        self.source = source

    def within(self, context):
        return Forgetful(self.source.within(context))

    def words(self, n, k=1, *, first=0):
        return self.source.words(n, k, first=0)


@breaks("vector_pieces_do_not_matter", of=Vector)
@breaks("pieces_do_not_matter", of=(*CODES, *BITS, *NUMBERS))
class ChunksShareTheirWords:
    def perturb(self, values, randomness):
        return super().perturb(values, Forgetful(randomness))


@breaks("pieces_do_not_matter", of=(Wave, Du), error=ValueError)  # what it is given is read-only
class ClampsInPlace:
    def perturb(self, values, randomness):
        np.clip(values, *self.domain, out=values)
        return super().perturb(values, randomness)


@breaks("noise_is_its_own", of=(*CODES, *BITS, *NUMBERS))
class SharesItsWords:
    def perturb(self, values, randomness):
        return super().perturb(values, Deaf(randomness))


# --- estimates


@breaks("error_is_stated", of=(Had, Wave, Pm, Hm, Lap))
class ErrorIsThePopulations:
    def estimate_support(self, support, *, population=False):
        return super().estimate_support(support, population=True)


@breaks("error_is_stated", of=(Grr, Had, *BITS, Pm, Du, Lap, Normal, UpDownOrUnsure))
class HalvesItsError:
    """As before debiasing, or on the unit scale."""

    def estimate_support(self, support, *, population=False):
        value, error, n, *_ = super().estimate_support(support, population=population)
        return Estimate(value, error / 2, n)


@breaks("estimator_is_unbiased", of=(Wave, Pm, Du, UpDownOrUnsure))
class TakesItsMeanForTheValue:
    """True of the continuous law of `Piecewise`, and here to a thousandth."""

    def estimate_support(self, support, *, population=False):
        value, error, n, *_ = super().estimate_support(support, population=population)
        lo, hi = self.domain
        mean = support[1] / max(int(support[0]), 1) * (self.scale if len(support) > 2 else 1)
        return Estimate(lo + mean * (hi - lo) if n else value, error, n)


@breaks("estimator_is_unbiased", of=(Wave, Pm, Lap))
class RoundsDown:
    def _snap(self, values):
        return super()._snap(values) >> np.uint32(16) << np.uint32(16)


@breaks("support_is_additive", of=(Grr, *BITS, Pm, Lap))
class SupportIsAShare:
    def support(self, reports):
        support = super().support(reports)
        support[1:] = support[1:] * 8 // max(1, len(reports))
        return support


@breaks("support_is_additive", of=(Wave, Du))
class SupportInFloats:
    def support(self, reports):
        return super().support(reports) / 1.0


# --- refusals


@breaks("bad_values_are_refused", of=(*CODES, *BITS))
class TakesAnyCategory:
    def perturb(self, values, randomness):
        return super().perturb(np.clip(values, 0, self.categories - 1), randomness)


@breaks("bad_values_are_refused", of=(Wave, Pm, Lap, UpDownOrUnsure))
class LetsNanIn:
    def perturb(self, values, randomness):
        return super().perturb(np.nan_to_num(values), randomness)


@breaks("bad_values_are_refused", of=(Grr, *BITS, Hm, Normal))
class ShowsTheValue:
    def perturb(self, values, randomness):
        try:
            return super().perturb(values, randomness)
        except ValueError:
            raise ValueError(f"not one of these: {np.asarray(values).tolist()}") from None


@breaks("bad_values_are_refused", of=(Wave, Du))
class FoldsInsteadOfClamping:
    def perturb(self, values, randomness):
        lo, hi = self.domain
        outside = (values < lo) | (values > hi)
        return super().perturb(np.where(outside, lo + hi - values, values), randomness)
