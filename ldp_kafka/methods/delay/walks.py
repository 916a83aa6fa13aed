"""Made-up streams that errors are simulated with."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["walks"]


def walks(moves: NDArray[np.float64]) -> NDArray[np.float64]:
    """Random walks (streams, slots) inside 0..1 that move so far in each slot, the first one
    included. They begin evenly spread, and turn round at 0 and 1.

    Examples
    --------
    >>> walks(np.array([[0.0, -0.5, -0.25], [0.0, 0.5, 0.5]])).tolist()
    [[0.25, 0.25, 0.5], [0.75, 0.75, 0.25]]
    """
    begin = (np.arange(len(moves)) + 0.5) / len(moves)
    # a mirror at each end: what walks on behind it comes back
    return np.abs((begin[:, None] + np.cumsum(moves, axis=1) + 1) % 2 - 1)
