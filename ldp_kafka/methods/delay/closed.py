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
    """(hop, n) of the release as an estimate of the slot's value; NaN where it cannot be said,
    because how far apart the values behind it lie is not known from what was released.
    """

    def __repr__(self) -> str:
        return f"Closed(first={self.first}, {len(self.values)} slots)"
