"""Generalised randomised response: say the true category, or one of the others."""

from __future__ import annotations

from fractions import Fraction
from math import log

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.base import (
    Certificate,
    Law,
    check_categories,
    check_epsilon,
    check_reports,
    exp_below,
)
from ldp_kafka.mechanisms.frequencies import AffineSupport, FrequencyOracle
from ldp_kafka.randomness import Randomness

__all__ = ["GeneralizedRandomizedResponse"]


class GeneralizedRandomizedResponse(FrequencyOracle):
    """Report a category: the true one with probability p, each other one with probability q = p /
    e^epsilon.

    Parameters
    ----------
    epsilon : float in (0, inf), nats
    categories : int in 2..2**20

    Notes
    -----
    p = e^epsilon / (e^epsilon + categories - 1) (Warner 1965; LDP-IDS, eq. 1). One secure word
    decides: words below ``keep`` tell the truth, the rest fall into ``categories`` intervals of
    ``lie`` words each, so that truth = keep + lie. Words have 32 bits, or 64 where 32 would cost
    more than a thousandth of epsilon.

    Guarantee: for any output and any two inputs the ratio is at most truth / lie; ``lie`` is
    rounded up, so truth / lie <= e^epsilon. Every category is possible for every input.

    Examples
    --------
    >>> import numpy as np, ldp_kafka as lk
    >>> m = lk.mechanism("grr", epsilon=1.0, categories=4)
    >>> m.perturb(np.array([0, 0, 3, 2]), lk.randomness.seeded(7)).tolist()
    [0, 3, 1, 1]
    """

    def __init__(self, epsilon: float, categories: int) -> None:
        self.epsilon, self.categories = check_epsilon(epsilon), check_categories(categories)
        for bits in (32, 64):
            self._word, self._dtype = 2**bits, np.dtype(f"u{bits // 8}").type
            q = 1 / (exp_below(min(self.epsilon, 50.0)) + self.categories - 1)
            self._lie = -(-self._word * q.numerator // q.denominator)  # up: directed rounding
            self._keep = self._word - self.categories * self._lie
            self._truth = self._keep + self._lie
            if self._keep > 0 and log(Fraction(self._truth, self._lie)) >= 0.999 * self.epsilon:
                break
        if not self._keep > 0:
            raise ConfigurationError(
                "epsilon is too small for this many categories: the truth would be no likelier than"
                " a lie"
            )

    def perturb_part(
        self, values: NDArray[np.int64], randomness: Randomness, first: int
    ) -> NDArray[np.int64]:
        word = randomness.words(len(values), self._word.bit_length() // 32, first=first)
        word = np.ascontiguousarray(word).view(self._dtype)[:, 0]
        truth = word < self._dtype(self._keep)
        # without the cast, numpy makes floats of uint64 and int64
        other = ((word - self._dtype(self._keep)) // self._dtype(self._lie)).astype(np.int64)
        return np.where(truth, values, other)

    def law(self, value: int) -> Law:
        """The exact law."""
        weights = [self._lie] * self.categories
        weights[int(self.checked([value])[0])] = self._truth
        return Law(np.arange(self.categories), weights, self._word)

    def certificate(self) -> Certificate:
        """The exact loss."""
        ratio = Fraction(self._truth, self._lie)
        return Certificate.of(ratio, self.epsilon)

    def support(self, reports: NDArray[np.integer]) -> NDArray[np.int64]:
        """(n, count of each category). TypeError or ValueError where they are no reports of this
        mechanism.
        """
        counts = np.bincount(check_reports(reports, self.categories), minlength=self.categories)
        return np.concatenate([[counts.sum()], counts]).astype(np.int64)

    @property
    def affine(self) -> AffineSupport:
        return AffineSupport(self._truth / self._word, self._lie / self._word)

    @property
    def index_range(self) -> tuple[int, int]:
        """Least and greatest report."""
        return 0, self.categories - 1

    def tables(self) -> tuple[int, ...]:
        """(categories, truth, lie, size of a word)."""
        return self.categories, self._truth, self._lie, self._word
