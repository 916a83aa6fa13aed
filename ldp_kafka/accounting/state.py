"""The state of many users as arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.randomness import Digests

__all__ = ["NEVER", "Field", "State", "take16"]

NEVER = -(2**62)  # a slot before all others: the last one of a user who has had none


class Field(NamedTuple):
    """One array of a state: one value a user or, with ``length``, a ring of that many."""

    dtype: str
    length: int = 0
    initial: int = 0


class State:
    """Users as a structure of arrays: one array a field, one row a user.

    A ring lies slot by slot, ``(length, users)``: what one slot needs of many users lies together.
    Arrays grow by doubling; ``count`` rows are in use.
    """

    def __init__(self, fields: Mapping[str, Field], users: Digests | None = None) -> None:
        self.fields = dict(fields)
        self.count = 0
        self.users: Digests = np.empty((0, 2), np.uint64)
        self.columns: dict[str, NDArray[Any]] = {
            name: np.empty(self._shape(field, 0), field.dtype)
            for name, field in self.fields.items()
        }
        if users is not None:
            self.append(users)

    def append(self, users: Digests) -> NDArray[np.intp]:
        """Rows (n,) for new users, their fields at the initial value."""
        first, self.count = self.count, self.count + len(users)
        if self.count > len(self.users):
            self._grow(max(self.count, 2 * len(self.users), 64))
        self.users[first : self.count] = users
        return np.arange(first, self.count)

    def digests(self, rows: NDArray[np.intp]) -> Digests:
        """Digests (n, 2) of the users at ``rows``."""
        return take16(self.users, rows)

    def lane(self, at: int, names: Iterable[str]) -> State:
        """The same users with place ``at`` of these rings as their columns: views, so that what is
        written there is written here.
        """
        part = State({})
        part.users, part.count, part.columns = (
            self.users,
            self.count,
            {name: self.columns[name][at] for name in names},
        )
        return part

    def _grow(self, capacity: int) -> None:
        users = np.empty((capacity, 2), np.uint64)
        users[: len(self.users)] = self.users
        for name, field in self.fields.items():
            column = np.full(self._shape(field, capacity), field.initial, field.dtype)
            column[..., : len(self.users)] = self.columns[name]
            self.columns[name] = column
        self.users = users

    @staticmethod
    def _shape(field: Field, capacity: int) -> tuple[int, ...]:
        return (field.length, capacity) if field.length else (capacity,)

    def __len__(self) -> int:
        return self.count

    def __repr__(self) -> str:
        return f"State({self.count} users; {', '.join(self.fields)})"  # never a value


def take16(pairs: NDArray[np.uint64], rows: NDArray[np.integer]) -> NDArray[np.uint64]:
    """``pairs[rows]``: as elements of 16 bytes, which numpy gathers three times as fast as rows of
    two.
    """
    return pairs.view(np.complex128).ravel().take(rows).view(np.uint64).reshape(-1, 2)
