"""A mechanism of numbers, written from the docstrings of `ldp_kafka.Mechanism` and
`ldp_kafka.checks` alone.
"""

from __future__ import annotations

from fractions import Fraction
from math import exp, inf, log, nan

import numpy as np

import ldp_kafka as lk
from ldp_kafka.randomness import use_of

__all__ = ["UpDownOrUnsure"]

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
