"""Mechanisms of a handful of outputs, drawn as a `Deal` says: every sequence can be tried."""

from __future__ import annotations

from fractions import Fraction
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.checks.deal import BoundDeal
from ldp_kafka.checks.failure import CheckFailure
from ldp_kafka.mechanisms.base import Certificate, Estimate, Law, exp_below
from ldp_kafka.randomness import Randomness

__all__ = ["TinyCategorical", "TinyNumeric", "narrow", "wide"]

WHOLE = 2**62  # denominator of the tiny laws


class _Tiny:
    """Randomised response on ``len(outputs)`` outputs: the right one weighs ``high``, each other
    one ``low``, and high / low <= e^epsilon.
    """

    epsilon: float

    def _weigh(self, epsilon: float, outputs: int) -> None:
        self.epsilon = float(epsilon)
        share = 1 / (exp_below(self.epsilon) + outputs - 1)
        self.low = -(-WHOLE * share.numerator // share.denominator)  # up
        self.high = WHOLE - (outputs - 1) * self.low

    def certificate(self) -> Certificate:
        """The exact loss."""
        return Certificate(Fraction(self.high, self.low), self.epsilon)

    def tables(self) -> tuple[int, ...]:
        """The two weights."""
        return self.low, self.high

    def _choose(
        self, values: NDArray[Any], probabilities: NDArray[np.float64], randomness: Randomness
    ) -> NDArray[np.intp]:
        if not isinstance(randomness, BoundDeal):
            raise CheckFailure(
                "a method must hand its mechanism the source that it was given, bound to users and"
                " slot"
            )
        return randomness.choose(values, probabilities)


class TinyNumeric(_Tiny):
    """Three outputs around the domain's middle, ``reach`` lengths of it apart; inputs are rounded
    to three points without bias.
    """

    def __init__(
        self, epsilon: float, domain: tuple[float, float] = (0.0, 1.0), *, reach: float = 0.5
    ) -> None:
        self._weigh(epsilon, 3)
        self.domain = (float(domain[0]), float(domain[1]))
        self.outputs = self.domain[0] + (self.domain[1] - self.domain[0]) * (
            0.5 + reach * np.array([-1.0, 0.0, 1.0])
        )

    def perturb(self, values: NDArray[Any], randomness: Randomness) -> NDArray[np.float64]:
        """The outputs dealt to these rows."""
        lo, hi = self.domain
        values = np.asarray(values, np.float64)
        place = 2 * (np.clip(values, lo, hi) - lo) / (hi - lo)
        # weights of the rounding, (n, 3)
        close = np.maximum(1 - np.abs(place[:, None] - np.arange(3)), 0)
        low, high = self.low / WHOLE, self.high / WHOLE
        return self.outputs[self._choose(values, low + (high - low) * close, randomness)]

    def law(self, value: float) -> Law:
        """The exact law."""
        lo, hi = (Fraction(end) for end in self.domain)
        place = 2 * (min(max(Fraction(value), lo), hi) - lo) / (hi - lo)
        close = [max(1 - abs(place - i), Fraction(0)) for i in range(3)]
        weights = [
            self.low * place.denominator + int((self.high - self.low) * part * place.denominator)
            for part in close
        ]
        return Law(self.outputs, weights, WHOLE * place.denominator)

    def estimate(self, reports: NDArray[np.float64]) -> Estimate:
        """Unbiased, as any mechanism's."""
        ends = [self.law(end).mean() for end in self.domain]
        one = self.domain[0] + (np.asarray(reports) - ends[0]) / (ends[1] - ends[0]) * (
            self.domain[1] - self.domain[0]
        )
        return Estimate(float(one.mean()), float(one.std() / len(one) ** 0.5), len(one))


class TinyCategorical(_Tiny):
    """Generalised randomised response."""

    def __init__(self, epsilon: float, categories: int = 2) -> None:
        self._weigh(epsilon, categories)
        self.categories = categories

    def perturb(self, values: NDArray[Any], randomness: Randomness) -> NDArray[np.int64]:
        """The outputs dealt to these rows."""
        low, high = self.low / WHOLE, self.high / WHOLE
        right = np.asarray(values)[:, None] == np.arange(self.categories)
        return self._choose(values, low + (high - low) * right, randomness).astype(np.int64)

    def law(self, value: int) -> Law:
        """The exact law."""
        return Law(
            np.arange(self.categories),
            [self.high if i == value else self.low for i in range(self.categories)],
            WHOLE,
        )

    def estimate(self, reports: NDArray[np.int64]) -> Estimate:
        """Unbiased, as any mechanism's."""
        seen = np.bincount(reports, minlength=self.categories) / max(len(reports), 1)
        return Estimate(
            (seen - self.low / WHOLE) / ((self.high - self.low) / WHOLE),
            np.full(self.categories, inf),
            len(reports),
        )


def narrow(epsilon: float, of: Any) -> TinyNumeric | TinyCategorical:
    """The tiny mechanism of a domain, its outputs inside it, or of a number of categories: a
    factory for any method.
    """
    return (
        TinyCategorical(epsilon, int(of))
        if isinstance(of, int | np.integer)
        else TinyNumeric(epsilon, of)
    )


def wide(epsilon: float, of: Any) -> TinyNumeric | TinyCategorical:
    """The same with outputs beyond the domain, as Square Wave's are: it moves what a method
    remembers further.
    """
    return (
        TinyCategorical(epsilon, int(of))
        if isinstance(of, int | np.integer)
        else TinyNumeric(epsilon, of, reach=1.0)
    )
