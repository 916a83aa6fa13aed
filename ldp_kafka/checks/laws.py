"""Algebra on exact laws."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.checks.failure import require
from ldp_kafka.mechanisms.base import Law

__all__ = ["counts", "mean_support", "probabilities", "rows", "variance", "worst_ratio"]


def rows(support: NDArray[Any]) -> list[bytes]:
    """The outputs as bytes: what tells them apart to the last bit."""
    support = np.asarray(support)
    return [row.tobytes() for row in support]


def worst_ratio(a: Law, b: Law) -> Fraction:
    """The largest likelihood ratio of one output, exact."""
    return max(Fraction(x * b.denominator, y * a.denominator) for x, y in set(zip(a.weights, b.weights, strict=True)))


def counts(reports: NDArray[Any], law: Law) -> NDArray[np.float64]:
    """How often each output of the law occurs; CheckFailure for any other."""
    support, reports = np.asarray(law.support), np.asarray(reports)
    kinds, times = np.unique(reports, axis=0, return_counts=True) if reports.ndim > 1 else _unique(reports)
    place = {row: i for i, row in enumerate(rows(support))}
    out = np.zeros(len(support))
    for row, count in zip(rows(kinds.astype(support.dtype)), times.tolist(), strict=True):
        require(row in place, "every report must be an output of the law")
        out[place[row]] += count
    return out


def _unique(reports: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """`numpy.unique` with counts; sorting bits is several times faster than sorting floats that repeat."""
    ordered = np.sort(reports)
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])) if len(ordered) else np.empty(0, np.intp)
    return ordered[starts], np.diff(np.append(starts, len(ordered)))


def probabilities(law: Law) -> NDArray[np.float64]:
    """The weights as floats."""
    return np.array([weight / law.denominator for weight in law.weights])


def mean_support(law: Law, singles: NDArray[np.int64]) -> NDArray[Any]:
    """The exact expectation of one report's support, as Fractions: outputs of one weight are summed first."""
    kinds = sorted(set(law.weights))
    order = {weight: i for i, weight in enumerate(kinds)}
    level = np.array([order[weight] for weight in law.weights])
    sums = np.zeros((len(kinds), singles.shape[1]), np.int64)
    np.add.at(sums, level, singles)
    totals = [sum(weight * part for weight, part in zip(kinds, column, strict=True)) for column in sums.T.tolist()]
    return np.array([Fraction(total, law.denominator) for total in totals], object)


def variance(chances: NDArray[np.float64], single: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of each number that one report is an estimate of."""
    return np.asarray(chances @ (single - chances @ single) ** 2)
