"""How several values of a stream in one slot become one."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["MOST", "PER_SLOT", "Folded", "SlotValues", "Taking"]

MOST = 2.0**960
"""What a value is held at: sums of 2**60 of them are finite."""


class Folded(NamedTuple):
    """What streams have in one slot."""

    rows: NDArray[np.intp]
    """(n,) distinct, rising."""
    values: NDArray[np.float64]
    """(n,), or (n, dimension) where values are lists: each coordinate by itself."""
    number: NDArray[np.int64]
    """Of values behind each."""

    def __repr__(self) -> str:
        return f"Folded({len(self.rows)})"  # never a value


class SlotValues(NamedTuple):
    """Values of some streams, those of one beside each other and as they came."""

    values: NDArray[np.float64]
    """(n,) or (n, dimension)."""
    starts: NDArray[np.intp]
    """Where each stream's begin."""

    @property
    def ends(self) -> NDArray[np.intp]:
        """Where its last one lies."""
        return np.append(self.starts[1:], len(self.values)) - 1

    def __repr__(self) -> str:
        return f"SlotValues({len(self.starts)})"  # never a value


def _sums(of: SlotValues) -> NDArray[np.float64]:
    """One after the other, so that a sum that goes on from a part of it is the same."""
    found = np.zeros((len(of.starts), *of.values.shape[1:]))
    lengths = np.diff(np.append(of.starts, len(of.values)))
    np.add.at(found, np.repeat(np.arange(len(of.starts)), lengths), of.values)
    return found


class Taking(NamedTuple):
    """How several values of a stream in one slot become one."""

    fold: Callable[[SlotValues], NDArray[np.float64]]
    """In parts, or all at once: it comes to the same."""
    of: Callable[[Folded], NDArray[np.float64]]
    """What the slot's value is in the end."""
    drops: bool = False
    """Whether all but one are left out."""


def _values(folded: Folded) -> NDArray[np.float64]:
    return folded.values


def _means(folded: Folded) -> NDArray[np.float64]:
    each = folded.number if folded.values.ndim == 1 else folded.number[:, None]
    return np.asarray(folded.values / each)


PER_SLOT: dict[str, Taking] = {
    "first": Taking(lambda of: of.values[of.starts], _values, drops=True),
    "last": Taking(lambda of: of.values[of.ends], _values, drops=True),
    "mean": Taking(_sums, _means),
    "sum": Taking(_sums, _values),
    "min": Taking(lambda of: np.minimum.reduceat(of.values, of.starts), _values),
    "max": Taking(lambda of: np.maximum.reduceat(of.values, of.starts), _values),
    "count": Taking(
        lambda of: of.values[of.starts], lambda folded: folded.number.astype(np.float64)
    ),
}
"""By ``input.per_slot``."""
