"""Sums of the reports of a whole crowd, drawn from their exact law without drawing any report.

A sum depends on how many users have each category and on nothing else of them. So a run over
200,000 users costs what one over 200 does. These are experiments with data that are known: the
noise is an ordinary seeded generator's and protects nobody.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.mechanisms.base import report_width

__all__ = ["Bits", "Outputs", "law_of"]


class Outputs(NamedTuple):
    """Reports of a mechanism whose law lists all of them."""

    chances: NDArray[np.float64]
    """(categories, outputs): P[output | category]."""
    supports: NDArray[np.int64]
    """(outputs, sums): what one such report adds to the sums."""

    def sums(self, counts: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.int64]:
        """Of one report each of ``counts`` (categories,) users."""
        seen = generator.multinomial(counts, self.chances).sum(axis=0)
        return np.asarray(seen @ self.supports)


class Bits(NamedTuple):
    """Reports of a mechanism whose bits are independent, one a category."""

    own: float
    """P[1] of the bit of the user's category ..."""
    other: float
    """... and of each other one."""

    def sums(self, counts: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.int64]:
        """Of one report each of ``counts`` (categories,) users."""
        n = int(counts.sum())
        ones = generator.binomial(counts, self.own) + generator.binomial(n - counts, self.other)
        return np.concatenate([[n], ones])


def law_of(mechanism: Any) -> Outputs | Bits:
    """The law of a mechanism's reports: of independent bits for `oue` and `sue`, whose laws are
    too long to list for many categories; else as its ``law`` lists them.

    Raises
    ------
    ConfigurationError : the mechanism cannot list its law

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> found = law_of(lk.mechanism("grr", epsilon=1.0, categories=2))
    >>> found.chances.round(3).tolist(), found.supports.tolist()
    ([[0.731, 0.269], [0.269, 0.731]], [[1, 1, 0], [1, 0, 1]])
    >>> law_of(lk.mechanism("oue", epsilon=1.0, categories=117))._asdict()["own"]
    0.5
    """
    if report_width(mechanism) and hasattr(mechanism, "optimized"):
        # the chances of a bit do not depend on how many others there are
        two = type(mechanism)(epsilon=mechanism.epsilon, categories=2).law(0)
        own, other = two.probabilities() @ np.unpackbits(two.support, axis=1, count=2)
        return Bits(float(own), float(other))
    laws = [mechanism.law(category) for category in range(mechanism.categories)]
    return Outputs(
        np.array([law.probabilities() for law in laws]),
        np.array([mechanism.support(laws[0].support[i : i + 1]) for i in range(len(laws[0][1]))]),
    )
