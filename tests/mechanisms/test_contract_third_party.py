"""A mechanism of numbers, written from the docstrings of `ldp_kafka.Mechanism` and
`ldp_kafka.checks` alone: it passes, and each of its broken twins is told what is wrong.
"""

from __future__ import annotations

import re
from fractions import Fraction
from math import exp, inf, isfinite, log, nan

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.checks import CheckFailure, check_mechanism
from ldp_kafka.checks.trial import SAMPLES
from ldp_kafka.randomness import use_of
from tests.cases import cases

WORD, UNSURE = 2**32, 2**30


def own_words(mechanism, values, randomness):
    """A word for each value, of a use of the key that is this mechanism's at this budget."""
    use = use_of(type(mechanism).__name__, mechanism.epsilon)
    return randomness.within(use).words(len(values), 1)[:, 0]


class UpDownOrUnsure:
    """A number of [lo, hi] as +1, 0 or -1: 0 with probability 1/4 whatever it is, +1 the likelier
    the higher it is.
    """

    scale = 1.0
    index_range = (-1, 1)
    hides_spread = True

    def __init__(self, epsilon, domain=(10.0, 30.0)):
        if isinstance(epsilon, bool) or not isinstance(epsilon, int | float):
            raise TypeError("epsilon must be a number")
        if not 0 < epsilon < inf:
            raise ValueError("epsilon must be positive and finite")
        self.epsilon, self.domain = float(epsilon), domain
        self.sure = WORD - UNSURE
        self.lie = int(self.sure / (exp(min(epsilon, 20)) + 1)) + 1
        self.truth = self.sure - self.lie

    def cuts(self, values):
        lo, hi = self.domain
        values = np.asarray(values, np.float64)
        if not np.isfinite(values).all():
            raise ValueError("values must be finite")
        share = (np.clip(values, lo, hi) - lo) / (hi - lo)
        return np.rint(self.lie + share * (self.truth - self.lie)).astype(np.int64)

    def perturb(self, values, randomness):
        word, cut = own_words(self, values, randomness).astype(np.int64), self.cuts(values)
        return np.where(word < cut, 1.0, np.where(word < self.sure, -1.0, 0.0))

    def law(self, value):
        (cut,) = self.cuts([value]).tolist()
        return lk.Law(np.array([-1.0, 0.0, 1.0]), [self.sure - cut, UNSURE, cut], WORD)

    def certificate(self):
        ratio = Fraction(self.truth, self.lie)
        return lk.Certificate(ratio, log(ratio))

    def support(self, reports):
        return np.array(
            [len(reports), np.count_nonzero(reports > 0.5), np.count_nonzero(reports < -0.5)],
            np.int64,
        )

    def estimate(self, reports, *, population=False):
        return self.estimate_support(self.support(reports), population=population)

    def estimate_support(self, support, *, population=False):
        n, up, down = support.tolist()
        if n == 0:
            return lk.Estimate(nan, inf, 0)
        lo, hi = self.domain
        mean, slope = (up - down) / n, 2 * (self.truth - self.lie) / WORD
        share = (mean - (2 * self.lie - self.sure) / WORD) / slope
        return lk.Estimate(
            lo + share * (hi - lo),
            ((up + down) / n - mean**2) ** 0.5 / n**0.5 / slope * (hi - lo),
            n,
        )

    def tables(self):
        return (self.truth, self.lie)


class TooSure(UpDownOrUnsure):
    """Reports +1 for the highest value 3 % more often than its law says."""

    def perturb(self, values, randomness):
        word, cut = own_words(self, values, randomness).astype(np.int64), self.cuts(values)
        return np.where(
            word < np.minimum(cut * 103 // 100, self.sure),
            1.0,
            np.where(word < self.sure, -1.0, 0.0),
        )


class TooShy(UpDownOrUnsure):
    """And 3 % less often."""

    def perturb(self, values, randomness):
        word, cut = own_words(self, values, randomness).astype(np.int64), self.cuts(values)
        return np.where(word < cut * 97 // 100, 1.0, np.where(word < self.sure, -1.0, 0.0))


class Spender(UpDownOrUnsure):
    """Lies a tenth less often than epsilon asks for, and says so in its law and its certificate."""

    def __init__(self, epsilon):
        super().__init__(epsilon)
        self.lie = 9 * self.lie // 10
        self.truth = self.sure - self.lie


class LeakyBits(UpDownOrUnsure):
    """The value survives in the last bits of its reports."""

    def perturb(self, values, randomness):
        return super().perturb(values, randomness) * (1 + np.asarray(values) * 2.0**-55)


class NeverUnsureAtTheTop(UpDownOrUnsure):
    """One output gives the highest value away by never coming from it."""

    def law(self, value):
        law = super().law(value)
        if value < self.domain[1]:
            return law
        down, unsure, up = law.weights
        return law._replace(weights=[down, 0, up + unsure])


class NanIsLow(UpDownOrUnsure):
    """Takes NaN for the lower end."""

    def cuts(self, values):
        return super().cuts(np.nan_to_num(np.asarray(values, np.float64), nan=self.domain[0]))


class OwnDice(UpDownOrUnsure):
    """Does not draw from the source that it is given."""

    def perturb(self, values, randomness):
        return super().perturb(values, lk.randomness.system())


class Dimmed(UpDownOrUnsure):
    """Forgets that it is unsure a quarter of the time."""

    def estimate_support(self, support, *, population=False):
        n, up, down = support.tolist()
        return (
            super()
            .estimate_support(np.array([up + down, up, down]), population=population)
            ._replace(reports=n)
        )


class Unstated(UpDownOrUnsure):
    """Half the error."""

    def estimate_support(self, support, *, population=False):
        found = super().estimate_support(support, population=population)
        return found._replace(standard_error=found.standard_error / 2)


@cases("epsilon", [0.1, 1.0, 4.0])
@cases("domain", [(10.0, 30.0), (-1e6, -1e3)])
def test_it_passes(epsilon, domain):
    """Every check, over any domain."""
    check_mechanism(lambda e: UpDownOrUnsure(e, domain), epsilon=epsilon, samples=SAMPLES)


def test_it_passes_as_it_is_called():
    """With no more than the factory: what a second allows."""
    check_mechanism(UpDownOrUnsure)


@cases(
    ("twin", "check", "says"),
    [
        (
            TooSure,
            "sampler_follows_law",
            "reports must follow the law (chi-square, false-alarm rate 1e-6)",
        ),
        (
            TooShy,
            "sampler_follows_law",
            "reports must follow the law (chi-square, false-alarm rate 1e-6)",
        ),
        (Spender, "certificate_is_true", "the certified ratio must lie between 1 and e^epsilon"),
        (LeakyBits, "reports_are_float_safe", "low bits can tell inputs apart"),
        (NeverUnsureAtTheTop, "law_is_exact", "every output must be possible for every input"),
        (NanIsLow, "bad_values_are_refused", "a value that is not finite: must be refused"),
        (OwnDice, "randomness_has_one_door", "some randomness does not come from the source"),
        (Dimmed, "estimator_is_unbiased", "the expected estimate of one report must be the value"),
        (
            Unstated,
            "error_is_stated",
            "the standard error given the values must be the one that follows from the law",
        ),
    ],
)
def test_a_broken_twin_is_told_what_is_wrong(twin, check, says):
    """The check that finds it says what must hold; one line for each, no traceback of ours."""
    with pytest.raises(CheckFailure) as caught:
        check_mechanism(twin, samples=SAMPLES)
    lines = dict(line.split(": ", 1) for line in str(caught.value).splitlines())
    assert tuple(lines) == caught.value.checks
    assert says in lines[check]
    assert not any(re.match(r"\w+Error: ", line) for line in lines.values())


def test_it_runs_in_a_method():
    """On arrays, as any mechanism of ours."""
    method = lk.method(
        "sw_direct", epsilon=2.0, window=2, domain=(0.0, 1.0), mechanism=UpDownOrUnsure
    )
    assert isfinite(
        float(np.nanmean(method.release(np.full((20, 5), 0.5), lk.randomness.system())))
    )
