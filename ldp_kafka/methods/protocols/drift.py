"""How far the truth moves in a slot, as publications tell: the error of what is held meanwhile."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Drift"]


class Drift:
    """The variance by which the truth moves in one slot, from publications beside each other: the
    mean of (squared difference - what its noise explains) / slots between, as of a random walk.

    Examples
    --------
    >>> drift = Drift()
    >>> drift.published(0, np.array([0.5]), np.array([0.0]))
    >>> drift.published(4, np.array([0.7]), np.array([0.0]))
    >>> round(drift.variance, 3)
    0.01
    """

    def __init__(self) -> None:
        self._last: tuple[int, NDArray[np.float64], NDArray[np.float64]] | None = None
        self._sum, self._steps = 0.0, 0

    def published(self, slot: int, value: NDArray[np.float64], error: NDArray[np.float64]) -> None:
        """Take in a publication: values (d,) and their standard errors (d,)."""
        if self._last is not None:
            before, old, noise = self._last
            moved = np.mean((value - old) ** 2 - error**2 - noise**2)
            self._sum += float(moved) / (slot - before)
            self._steps += 1
        self._last = (slot, value, error)

    @property
    def variance(self) -> float:
        """Of one slot's move; infinite before there are two publications."""
        return max(self._sum / self._steps, 0.0) if self._steps else float("inf")

    def since(self, slot: int) -> float:
        """Of all moves from the last publication to ``slot``."""
        return self.variance * (slot - self._last[0]) if self._last is not None else float("inf")

    def saved(self) -> dict[str, Any]:
        """Its state in plain lists and numbers."""
        last = None
        if self._last is not None:
            slot, value, error = self._last
            last = [slot, value.tolist(), error.tolist()]
        return {"last": last, "sum": self._sum, "steps": self._steps}

    def restore(self, saved: dict[str, Any]) -> None:
        """Take the state of another one."""
        self._last = None
        if saved["last"] is not None:
            slot, value, error = saved["last"]
            self._last = (slot, np.array(value), np.array(error))
        self._sum, self._steps = saved["sum"], saved["steps"]
