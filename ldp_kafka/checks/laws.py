"""Algebra on exact laws."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.checks.failure import require
from ldp_kafka.mechanisms.base import Law

__all__ = ["Tally", "counts", "mean_support", "numbers", "rows", "variance", "worst_ratio"]

OUTPUT = "every report must be an output of the law"


def rows(support: NDArray[Any]) -> list[bytes]:
    """The outputs as bytes: what tells them apart to the last bit."""
    support = np.asarray(support)
    return [row.tobytes() for row in support]


def worst_ratio(a: Law, b: Law) -> Fraction:
    """The largest likelihood ratio of one output, exact; CheckFailure where it is infinite."""
    require(
        min(b.weights) > 0,
        "an output that is possible for one input must be possible for every other: else the ratio"
        " is infinite",
    )
    top, bottom = 0, 1
    for x, y in set(zip(a.weights, b.weights, strict=True)):
        if x * bottom > top * y:  # no fraction is reduced but the last
            top, bottom = x, y
    return Fraction(top * b.denominator, bottom * a.denominator)


class Tally:
    """How often each output of a law occurs, batch after batch, in ``seen`` (outputs,).

    Outputs are told apart to the last bit: a negative zero is not a zero.
    """

    def __init__(self, law: Law) -> None:
        self._support = np.asarray(law.support)
        names = numbers(self._support)
        self._order = np.argsort(names)
        self._names = names[self._order]
        self.seen = np.zeros(len(names), np.int64)

    def add(self, reports: NDArray[Any]) -> None:
        """Count a batch; CheckFailure for what is no output of the law."""
        reports = np.asarray(reports)
        require(
            reports.shape[1:] == self._support.shape[1:],
            "reports must have the shape of the support's rows",
        )
        require(
            np.can_cast(reports.dtype, self._support.dtype, "same_kind"),
            "reports must have the kind of number that the support has",
        )
        kinds, times = _kinds(reports)
        exact = kinds.astype(self._support.dtype)
        require(np.array_equal(exact, kinds), OUTPUT)
        names = numbers(exact)
        place = np.searchsorted(self._names, names).clip(max=len(self._names) - 1)
        require((self._names[place] == names).all(), OUTPUT)
        self.seen[self._order[place]] += times


def counts(reports: NDArray[Any], law: Law) -> NDArray[np.int64]:
    """How often each output of the law occurs; CheckFailure for any other."""
    tally = Tally(law)
    tally.add(reports)
    return tally.seen


def numbers(rows: NDArray[Any]) -> NDArray[Any]:
    """Rows (n,) or (n, width) as one name each, by their bits: unsigned numbers where they have up
    to eight bytes, which sort several times faster than rows.
    """
    rows = np.ascontiguousarray(rows)
    n, size = len(rows), rows.dtype.itemsize * int(np.prod(rows.shape[1:]))
    whole = next((width for width in (1, 2, 4, 8) if width >= size), size)
    as_bytes = rows.reshape(-1).view(np.uint8).reshape(n, size)
    if whole > size:
        as_bytes = np.concatenate([as_bytes, np.zeros((n, whole - size), np.uint8)], axis=1)
    return as_bytes.reshape(-1).view(
        np.dtype(f"u{whole}") if whole <= 8 else np.dtype((np.void, whole))
    )


def _kinds(reports: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """The distinct rows and how often they occur."""
    names = numbers(reports)
    if names.itemsize <= 2:
        times = np.bincount(names)
        kinds = np.flatnonzero(times)
        return _rows(kinds.astype(names.dtype), reports), times[kinds]
    names = np.sort(names)
    starts = (
        np.flatnonzero(np.concatenate([[True], names[1:] != names[:-1]]))
        if len(names)
        else np.empty(0, np.intp)
    )
    return _rows(names[starts], reports), np.diff(np.append(starts, len(names)))


def _rows(names: NDArray[Any], like: NDArray[Any]) -> NDArray[Any]:
    """What `numbers` was given."""
    size = like.dtype.itemsize * int(np.prod(like.shape[1:]))
    as_bytes = np.ascontiguousarray(
        names.view(np.uint8).reshape(len(names), names.itemsize)[:, :size]
    )
    return as_bytes.reshape(-1).view(like.dtype).reshape(len(names), *like.shape[1:])


def mean_support(law: Law, singles: NDArray[np.int64]) -> NDArray[Any]:
    """The exact expectation of one report's support, as Fractions: outputs of one weight are summed
    first.
    """
    kinds = sorted(set(law.weights))
    order = {weight: i for i, weight in enumerate(kinds)}
    level = np.array([order[weight] for weight in law.weights])
    safe = int(np.abs(singles).max(initial=0)) * len(singles) < 2**63  # else in Python's integers
    sums, singles = (
        np.zeros((len(kinds), singles.shape[1]), np.int64 if safe else object),
        (singles if safe else singles.astype(object)),
    )
    np.add.at(sums, level, singles)
    totals = [
        sum(weight * part for weight, part in zip(kinds, column, strict=True))
        for column in sums.T.tolist()
    ]
    return np.array([Fraction(total, law.denominator) for total in totals], object)


def variance(chances: NDArray[np.float64], single: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of each number that one report is an estimate of."""
    return np.asarray(chances @ (single - chances @ single) ** 2)
