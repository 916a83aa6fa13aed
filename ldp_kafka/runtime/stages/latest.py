"""What users released last, by their pseudonyms: what moving averages per user are made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import NEVER, Field
from ldp_kafka.methods.smoothing import smooth
from ldp_kafka.randomness import Digests
from ldp_kafka.runtime.log import Look
from ldp_kafka.runtime.stages.shards import read_shards
from ldp_kafka.runtime.stages.users import UNREADABLE, Users, strangers

__all__ = ["Latest", "without"]

KIND = "user-"  # with which the names of its records begin
T = TypeVar("T")


class Latest:
    """The latest releases of each pseudonym, before they are averaged, in shards.

    Parameters
    ----------
    length : releases in an average, at least 1: its own and those before it; of 1 nothing is kept
    stride : slots from one report of a user to the next
    shards : that pseudonyms are spread over

    Notes
    -----
    After a crash a shard can be ahead of the rest of the state. The releases of its users up to its
    own offset were sent before it was written, so that they are neither made again nor kept again.
    Names of shards say the length: those of another one are not loaded, and averages begin anew.
    """

    def __init__(self, length: int, stride: int, shards: int) -> None:
        self.length, self.stride, self.shards = length, stride, shards
        self._prefix = f"{KIND}{length}."
        self._users = Users(_fields(length), (), None, shards)
        self._offsets = np.full(shards, -1, np.int64)

    @property
    def ahead(self) -> int:
        """The last offset that any shard has seen which was loaded."""
        return int(self._offsets.max())

    def averaged(
        self,
        series: Digests,
        slots: NDArray[np.int64],
        values: NDArray[np.float64],
        offsets: NDArray[np.int64],
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """The moving averages (n,) of releases (n,) that come one after the other, and which of
        them are to be sent; they are kept. One that comes behind a later one of its user stands
        alone.

        Parameters
        ----------
        series : (n, 2), pseudonyms
        offsets : (n,), of the messages that they come of
        """
        rows = self._users.rows_of(series)
        new = self._offsets[self._users.shard[rows]] < offsets
        found = values.copy()
        for turn in _turns(rows):
            found[turn] = self._of_distinct(rows[turn], slots[turn], values[turn], new[turn])
        self._users.touch(rows[new])
        return found, new

    def _of_distinct(
        self,
        rows: NDArray[np.intp],
        slots: NDArray[np.int64],
        values: NDArray[np.float64],
        new: NDArray[np.bool_],
    ) -> NDArray[np.float64]:
        """The same of users who differ."""
        columns, steps = self._users.state.columns, self.length - 1
        later = slots > columns["last"][rows]
        back = (slots - columns["slot"][:, rows]) // self.stride
        user, place = np.nonzero((later & (back <= steps)).T)
        stream = np.full((len(rows), self.length), np.nan)
        stream[user, steps - back.T[user, place]] = columns["value"][:, rows].T[user, place]
        stream[:, -1] = values
        kept = new & later
        mine, place = rows[kept], slots[kept] // self.stride % steps
        columns["last"][mine] = slots[kept]
        columns["slot"][place, mine], columns["value"][place, mine] = slots[kept], values[kept]
        return smooth(stream, self.length)[:, -1]

    def dirty(self) -> set[str]:
        """Names of the shards that changed since the last call."""
        return {self._prefix + name for name in self._users.dirty()}

    def names(self) -> set[str]:
        """Names of all shards that hold anybody."""
        return {self._prefix + name for name in self._users.records()}

    def dump(self, names: Iterable[str]) -> dict[str, bytes]:
        """Those of these shards that are its own."""
        mine = self._mine(dict.fromkeys(names))
        return {self._prefix + name: payload for name, payload in self._users.dump(mine).items()}

    def load(self, shards: Mapping[str, tuple[int, bytes]]) -> None:
        """Fill an empty one with its own of these shards."""
        mine = self._mine(shards)
        self._users.load({name: payload for name, (_, payload) in mine.items()})
        for name, (offset, _) in mine.items():
            self._offsets[int(name)] = offset

    def look(self, found: Look, shards: Mapping[str, bytes]) -> Look:
        """What lies in its own of these shards: that each can be read, and that every pseudonym
        lies in its own.
        """
        unreadable = strange = 0
        for name, payload in self._mine(shards).items():
            try:
                digests = read_shards([payload], self._users.state.fields).users
                strange += strangers(digests, self.shards, int(name))
            except UNREADABLE:
                unreadable += 1
        found.complain("readable", unreadable, "shards of releases per user cannot be read")
        found.complain("shards", strange, "pseudonyms lie in a shard that is not theirs")
        return found

    def _mine(self, shards: Mapping[str, T]) -> dict[str, T]:
        """Its own of these shards, by their numbers."""
        return {
            name.removeprefix(self._prefix): held
            for name, held in shards.items()
            if name.startswith(self._prefix)
        }

    def __repr__(self) -> str:
        return f"Latest({self._users!r})"  # never a pseudonym


def without(shards: Mapping[str, T]) -> dict[str, T]:
    """Those shards that are of something else."""
    return {name: held for name, held in shards.items() if not name.startswith(KIND)}


def _fields(length: int) -> dict[str, Field]:
    """A user's last slot; and of each release before it its slot, and its value."""
    steps = max(1, length - 1)
    return {
        "last": Field("i8", initial=NEVER),
        "slot": Field("i8", steps, NEVER),
        "value": Field("f8", steps),
    }


def _turns(rows: NDArray[np.intp]) -> Iterator[NDArray[np.intp]]:
    """The places of each user's first row, then of the second ones, and so on."""
    order = np.argsort(rows, kind="stable")
    firsts = np.flatnonzero(np.diff(rows[order], prepend=-1))
    number = np.arange(len(rows)) - np.repeat(firsts, np.diff(firsts, append=len(rows)))
    for turn in range(int(number.max(initial=-1)) + 1):
        yield order[number == turn]
