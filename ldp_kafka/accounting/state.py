"""The state of many users as arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.randomness import Digests, take16

__all__ = ["NEVER", "Field", "State"]

NEVER = -(2**62)  # a slot before all others: the last one of a user who has had none
LINE = 64  # bytes that a processor fetches at once
USER = "user"  # the digest's name in a record


class Field(NamedTuple):
    """One array of a state: one value a user or, with ``length``, a ring of that many."""

    dtype: str
    length: int = 0
    initial: int = 0


class State:
    """Users as arrays: one array a field, one row a user.

    A user's digest and single values lie side by side, in one line of the cache or few: among many
    users each look at another line is a wait for memory, and a step looks at nearly all of them.
    The arrays of these are views with gaps. ``column[rows]`` reads what it needs of one;
    ``column.take(rows)`` would copy the whole array first.

    A ring lies slot by slot, ``(length, users)``: what one slot needs of many users lies together.
    Arrays grow by doubling; ``count`` rows are in use.
    """

    def __init__(self, fields: Mapping[str, Field], users: Digests | None = None) -> None:
        self.fields = dict(fields)
        self.count = 0
        self.standing: NDArray[np.float64] | None = None
        """What was released last of each user, where that stands until the next report: of a
        `Method.release` that is carried on, and nowhere else.
        """
        self.users: Digests
        self.columns: dict[str, NDArray[Any]]
        self._lay_out(0)
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
        users, columns = self.users, self.columns
        self._lay_out(capacity)
        self.users[: len(users)] = users
        for name, field in self.fields.items():
            self.columns[name][..., : len(users)] = columns[name]
            self.columns[name][..., len(users) :] = field.initial

    def _lay_out(self, capacity: int) -> None:
        """New arrays of so many rows, not filled."""
        kind = _record(
            tuple((name, field.dtype) for name, field in self.fields.items() if not field.length)
        )
        room = np.empty(capacity * kind.itemsize + LINE, np.uint8)
        start = -room.ctypes.data % LINE
        records = room[start : start + capacity * kind.itemsize].view(kind)
        self.users = records[USER]
        self.columns = {
            name: np.empty((field.length, capacity), field.dtype) if field.length else records[name]
            for name, field in self.fields.items()
        }

    def __len__(self) -> int:
        return self.count

    def __repr__(self) -> str:
        return f"State({self.count} users; {', '.join(self.fields)})"  # never a value


@lru_cache(maxsize=64)
def _record(single: tuple[tuple[str, str], ...]) -> np.dtype[Any]:
    """A digest and these fields, the widest first so that each is aligned, in whole lines."""
    kinds = [(name, np.dtype(kind)) for name, kind in single]
    kinds = [(USER, np.dtype((np.uint64, 2))), *sorted(kinds, key=lambda one: -one[1].itemsize)]
    ends = [0, *accumulate(kind.itemsize for _, kind in kinds)]
    return np.dtype(
        {
            "names": [name for name, _ in kinds],
            "formats": [kind for _, kind in kinds],
            "offsets": ends[:-1],
            "itemsize": -(-ends[-1] // LINE) * LINE,
        }
    )
