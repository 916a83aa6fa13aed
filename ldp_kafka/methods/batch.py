"""The argument of a step: some users at one slot."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.randomness import Randomness

__all__ = ["Batch"]


class Batch(NamedTuple):
    """Distinct users at one slot, with their values, and the source of their noise."""

    rows: NDArray[np.intp]
    """(n,) the users' rows in the state."""
    slot: int
    """Of a method that takes several slots together, the first of them."""
    values: NDArray[np.int64]
    """(n,) or (n, dimension), as the method's `bound` made them; (slots, n) of several slots.
    Anything stands where there is no value.
    """
    randomness: Randomness
    present: NDArray[np.bool_] | None = None
    """Which values there are, (n,) or (slots, n); None: all."""

    def __repr__(self) -> str:
        return f"Batch({len(self.rows)} rows)"  # never a value

    def part(self, which: NDArray[Any]) -> Batch:
        """Some of its users of one slot, by their places (m,), or by true or false for each (n,).
        They must have values.
        """
        return self._replace(rows=self.rows[which], values=self.values[which], present=None)
