"""The result of a protocol's run: what it has released and what it has cost, slot by slot."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Trace"]


@dataclass(frozen=True, repr=False, slots=True)
class Trace:
    """T slots of a protocol over d categories, or bins; d = 1 for the mean of numbers."""

    values: NDArray[np.float64]
    """(T, d), released frequencies or means, or shares of the bins."""
    standard_error: NDArray[np.float64]
    """(T, d), of a publication that of its reports; of what is held, smoothed or projected the
    root mean square distance of the truth from it, given all estimates so far (`Tracker`), at most
    how far it can be.
    """
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

    def __repr__(self) -> str:
        published = int(np.count_nonzero(self.strategy == "publish"))
        return f"Trace({len(self.strategy)} slots, {published} published)"  # never a user's row
