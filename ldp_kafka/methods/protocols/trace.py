"""The result of a protocol's run: what it has released and what it has cost, slot by slot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.methods.protocols.coordinator import Released

__all__ = ["Trace"]


@dataclass(frozen=True, repr=False, slots=True)
class Trace:
    """T slots of a protocol over d categories, or bins; d = 1 for the mean of numbers."""

    values: NDArray[np.float64]
    """(T, d), released frequencies or means, or shares of the bins."""
    standard_error: NDArray[np.float64]
    """(T, d); NaN where none is stated."""
    strategy: NDArray[np.str_]
    """(T,), ``publish`` or ``approximate``."""
    dissimilarity: NDArray[np.float64]
    """(T,), the squared distance of the truth from the last release, estimated without bias; NaN
    where a protocol does not look, or nobody has reported.
    """
    error: NDArray[np.float64]
    """(T,), the squared error that a publication was expected to have; NaN as above, and where
    nothing was left to publish with.
    """
    reports: NDArray[np.int64]
    """(T, 2), of the first and the second phase."""
    spent: NDArray[np.int32] | None
    """(users, T), whole micro-epsilon that each user has spent in each slot; None if left out."""
    confidence_interval: NDArray[np.float64]
    """(T, d, 2), low and high: the truth of each slot lies between them in 95 % of slots. NaN where
    none is stated.
    """
    error_reason: NDArray[np.str_]
    """(T,), why none is stated, a word of `ldp_kafka.methods.unstated.UNSTATED`; empty where one
    is.
    """

    @classmethod
    def of(
        cls,
        released: Sequence[Released],
        d: int,
        looked: NDArray[np.float64],
        reports: NDArray[np.int64],
        spent: NDArray[np.int32] | None,
    ) -> Trace:
        """That of what was released, ``looked`` (2, T): dissimilarities and errors."""
        slots = len(released)
        values, errors = np.empty((slots, d)), np.full((slots, d), np.nan)
        intervals = np.full((slots, d, 2), np.nan)
        for t, (found, _) in enumerate(released):
            values[t] = found.value
            if found.standard_error is not None:
                errors[t] = found.standard_error
                intervals[t] = np.stack(found.interval(), axis=-1)
        return cls(
            values,
            errors,
            np.array([one.strategy for one in released], np.str_),
            looked[0],
            looked[1],
            reports,
            spent,
            intervals,
            np.array([one.estimate.reason or "" for one in released], np.str_),
        )

    def __repr__(self) -> str:
        published = int(np.count_nonzero(self.strategy == "publish"))
        return f"Trace({len(self.strategy)} slots, {published} published)"  # never a user's row
