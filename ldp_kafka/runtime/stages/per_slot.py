"""How several values of a stream in one slot become one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.methods.grid import Grid, added
from ldp_kafka.topology import Topology

__all__ = ["PER_SLOT", "Folded", "SlotValues", "Taking", "taking_of"]


class Folded(NamedTuple):
    """What streams have in one slot."""

    rows: NDArray[np.intp]
    """(n,) distinct, rising."""
    values: NDArray[Any]
    """(n,), or (n, dimension) where values are lists: each coordinate by itself. Where they are
    added, `Grid.parts`.
    """
    number: NDArray[np.int64]
    """Of values behind each."""

    def __repr__(self) -> str:
        return f"Folded({len(self.rows)})"  # never a value


class SlotValues(NamedTuple):
    """Values of some streams, those of one beside each other and as they came."""

    values: NDArray[Any]
    """As those of `Folded`."""
    starts: NDArray[np.intp]
    """Where each stream's begin."""

    @property
    def ends(self) -> NDArray[np.intp]:
        """Where its last one lies."""
        return np.append(self.starts[1:], len(self.values)) - 1

    def __repr__(self) -> str:
        return f"SlotValues({len(self.starts)})"  # never a value


class Taking(NamedTuple):
    """How several values of a stream in one slot become one."""

    fold: Callable[[SlotValues], NDArray[Any]]
    """In parts, or all at once: it comes to the same."""
    of: Callable[[Folded], NDArray[Any]]
    """What the slot's value is in the end; where values are added, in steps, from steps."""
    drops: bool = False
    """Whether all but one are left out."""
    grid: Grid | None = None
    """Where values are added."""

    def enter(self, values: NDArray[np.float64]) -> NDArray[Any]:
        """Finite values (n,), or lists (n, dimension), as those of `Folded`."""
        return values if self.grid is None else self.grid.parts(values)

    def clamped(self, values: NDArray[np.float64]) -> int:
        """How many of these values are clamped before they are added."""
        return 0 if self.grid is None else self.grid.clamped(values)

    def come_to(self, folded: Folded) -> NDArray[np.float64]:
        """The values (n,), or (n, dimension), of a slot."""
        if self.grid is None:
            return self.of(folded)
        totals = folded._replace(values=self.grid.totals(folded.values))
        return self.grid.values(self.of(totals))


def _sums(of: SlotValues) -> NDArray[np.int64]:
    return added(of.values, of.starts)


def _values(folded: Folded) -> NDArray[Any]:
    return folded.values


def _means(folded: Folded) -> NDArray[np.int64]:
    """Rounded down to a whole step."""
    each = folded.number if folded.values.ndim == 1 else folded.number[:, None]
    return np.asarray(folded.values // each)


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


def taking_of(topology: Topology) -> Taking:
    """That of a topology, with its grid."""
    return PER_SLOT[topology.input.per_slot]._replace(grid=topology.grid)
