"""The frequencies of a crowd's categories."""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.mechanisms.base import Estimate, expected_support
from ldp_kafka.methods import Method
from ldp_kafka.statistics.base import CrowdStatistic
from ldp_kafka.statistics.prediction import law_error

__all__ = ["DECIDED", "LARGEST", "NUMBERS", "Frequencies"]

LARGEST = 950_000  # bytes of a release: a broker takes a million, with key and headers
NUMBERS = 80  # bytes of it that a category takes beside its name, about
MOST = 8192
DECIDED = 1024  # about 700 bytes each, of what a coordinator remembers


class Frequencies(CrowdStatistic):
    """The share of each category among the users, a list of numbers.

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> shares = Frequencies(lk.method("lpu", epsilon=8.0, window=1, categories=3))
    >>> values = np.array([0, 0, 1, 2] * 500)
    >>> reports = shares.method.mechanism.perturb(values, lk.randomness.seeded(7))
    >>> shares.estimate(shares.sums(reports, 0)).value.round(2).tolist()
    [0.5, 0.25, 0.25]
    """

    name = "frequencies"
    kind = "categorical"
    needs = "frequencies"
    by_category = True
    of_protocols = True
    guess = "an equal share for each"

    @classmethod
    def unfit(cls, method: Method) -> str | None:
        wrong = super().unfit(method)
        if wrong is None and method.categories > MOST:
            return (
                f"frequencies must be of at most {MOST:,} categories: a release of more would be"
                " larger than a broker takes"
            )
        if wrong is None and method.phases and method.categories > DECIDED:
            return (
                f"frequencies must be of at most {DECIDED:,} categories for {method.name}: what its"
                " coordinator remembers of more would be larger than a broker takes"
            )
        return wrong

    def sums(self, reports: NDArray[np.generic], phase: int) -> NDArray[np.int64]:
        return self.method.support(reports, phase)

    def estimate(self, sums: NDArray[np.int64]) -> Estimate:
        return self.method.crowd(sums)

    def error(self, reports: int) -> float:
        """That of `Method.crowd`, where as many reports support each category as is expected: the
        largest where all have one category, or half of them each of two.
        """
        shares = np.zeros((2, self.method.values.unit))
        shares[0, 0], shares[1, :2] = 1.0, 0.5
        worst = 0.0
        for each in shares:
            support = expected_support(self.method.mechanism, each, reports)
            if support is None:  # a mechanism of somebody else's
                return law_error(self.method, 0, reports)
            worst = max(worst, float(np.max(self.method.crowd(support).standard_error)))
        return worst

    @property
    def bounds(self) -> tuple[float, float]:
        return 0.0, 1.0

    @property
    def constant(self) -> float:
        """That of equal shares: the root mean square over d shares where all users are alike.

        One share is off by 1 - 1/d and the d - 1 others by 1/d each, and no other constant does
        better whichever category it is: sqrt(((d - 1)^2 / d^2 + (d - 1) / d^2) / d) = sqrt(d - 1) /
        d.
        """
        return sqrt(self.method.categories - 1) / self.method.categories
