"""Some streams of a state during one step."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import State
from ldp_kafka.randomness import Randomness, take16

__all__ = ["ALL", "Rows", "Some", "among"]

Some = slice | NDArray[np.intp]
"""Which of the streams of a step: `ALL`, or their places in it."""
ALL = slice(None)


class Rows:
    """Reads and writes the rows of a state that one step is about, in the step's own order.

    Streams that lie beside each other in the state are seen in place. Of others a ring is copied
    when it is first asked for as a whole, and `close` writes it back.

    Parameters
    ----------
    randomness : what the step draws from
    slot : the slot that the step is at, which moves on
    span : slots in a window
    """

    def __init__(
        self, state: State, rows: NDArray[np.intp], randomness: Randomness, slot: int, span: int
    ) -> None:
        self.count, self.randomness, self.slot, self._span = len(rows), randomness, slot, span
        self.digests = state.digests(rows)
        self._columns, self._rows = state.columns, rows
        beside = self.count > 0 and bool((np.diff(rows) == 1).all())
        self._beside = slice(int(rows[0]), int(rows[0]) + self.count) if beside else None
        self._copies: dict[str, NDArray[Any]] = {}

    def ring(self, name: str) -> NDArray[Any]:
        """A whole ring (length, n), to read and to write into."""
        if self._beside is not None:
            whole: NDArray[Any] = self._columns[name][:, self._beside]
            return whole
        copy = self._copies.get(name)
        if copy is None:
            copy = self._copies[name] = self._columns[name][:, self._rows]
        return copy

    def at(self, name: str, place: int) -> NDArray[Any]:
        """One place of a ring (n,), to read."""
        if self._beside is not None:
            row: NDArray[Any] = self._columns[name][place, self._beside]
            return row
        if name in self._copies:
            kept: NDArray[Any] = self._copies[name][place]
            return kept
        return np.asarray(self._columns[name][place][self._rows])

    def put(self, name: str, place: int, values: Any, some: Some = ALL) -> None:
        """Write one place of a ring, of some of the streams."""
        if self._beside is not None:
            self._columns[name][place, self._beside][some] = values
        elif name in self._copies:
            self._copies[name][place][some] = values
        else:
            self._columns[name][place][self._rows[some]] = values

    def get(self, name: str) -> NDArray[Any]:
        """A single value of each stream (n,): a copy."""
        where = self._rows if self._beside is None else self._beside
        return np.array(self._columns[name][where])

    def set(self, name: str, values: Any, some: Some = ALL) -> None:
        """Write a single value of some of the streams."""
        if self._beside is not None:
            self._columns[name][self._beside][some] = values
        else:
            self._columns[name][self._rows[some]] = values

    @property
    def place(self) -> int:
        """The slot's place in each ring."""
        return self.slot % self._span

    def size(self, some: Some) -> int:
        """How many streams these are."""
        return self.count if isinstance(some, slice) else len(some)

    def at_random(
        self,
        some: Some,
        phase: int,
        *bound: NDArray[np.int64],
        slot: int | NDArray[np.int64] | None = None,
    ) -> Randomness:
        """The source for one draw of each of these streams, tied to its integers, and named after
        the slot of the step, or another one.
        """
        digests = self.digests if isinstance(some, slice) else take16(self.digests, some)
        pairs = np.empty((len(digests), len(bound)), np.int64)
        for i, column in enumerate(bound):
            pairs[:, i] = column
        return self.randomness.at(digests, self.slot if slot is None else slot, phase, pairs)

    def close(self) -> None:
        """Write back what was copied."""
        for name, copy in self._copies.items():
            self._columns[name][:, self._rows] = copy

    def __repr__(self) -> str:
        return f"Rows({self.count})"  # never a value


def among(count: int, some: Some, these: NDArray[np.intp] | None = None) -> NDArray[np.intp]:
    """The places in a step of some of its streams, or of these among them."""
    if isinstance(some, slice):
        return np.arange(count) if these is None else these
    return some if these is None else some[these]
