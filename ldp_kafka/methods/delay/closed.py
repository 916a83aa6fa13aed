"""The result of a step of a delay method: what its window releases."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Closed"]


class Closed(NamedTuple):
    """The slots that a window releases: one row a slot, one column for each stream that was
    stepped.
    """

    first: int
    """The first of the slots; below 0 before any slot is due."""
    values: NDArray[np.float64]
    """(hop, n) releases, inside the domain; NaN where a slot had no value."""
    standard_error: NDArray[np.float64]
    """(hop, n) of the release as an estimate of the slot's value; NaN where it cannot be said."""
    low: NDArray[np.float64]
    """(hop, n) lower end of the 95 % interval, inside the domain; NaN where there is none."""
    high: NDArray[np.float64]
    """(hop, n) upper end of it."""
    reason: str | None = None
    """Why no error is said, where none is: a word of `ldp_kafka.methods.unstated.UNSTATED`."""

    def __repr__(self) -> str:
        return f"Closed(first={self.first}, {len(self.values)} slots)"

    @property
    def numbers(self) -> tuple[NDArray[np.float64], ...]:
        """Values, errors, and the ends of the intervals."""
        return self.values, self.standard_error, self.low, self.high

    def of(self, streams: NDArray[np.intp]) -> Closed:
        """Of these of its streams, in this order."""
        values, error, low, high = (part[:, streams] for part in self.numbers)
        return Closed(self.first, values, error, low, high, self.reason)

    def between(self, first: int, start: int, end: int) -> Closed:
        """Its rows from ``start`` to before ``end``, the first of which is slot ``first``."""
        values, error, low, high = (part[start:end] for part in self.numbers)
        return Closed(first, values, error, low, high, self.reason)

    @classmethod
    def joined(cls, parts: list[Closed]) -> Closed:
        """One after the other, at least one."""
        values, error, low, high = (
            np.concatenate(each) for each in zip(*(part.numbers for part in parts), strict=True)
        )
        return cls(parts[0].first, values, error, low, high, parts[0].reason)
