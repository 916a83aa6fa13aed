"""The users of one partition: their state in shards, and an index from user digest to row."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ldp_kafka.accounting import Account, Field, State
from ldp_kafka.errors import BadRecord, StateError
from ldp_kafka.randomness import Digests, Ids, Keyed, take16
from ldp_kafka.runtime.log import Look
from ldp_kafka.runtime.stages.shards import read_shards, write_shard
from ldp_kafka.runtime.stages.waiting import Kept, Waiting

__all__ = ["UNREADABLE", "Users", "look_at_users", "strangers"]

UNREADABLE = (
    BadRecord,
    StateError,
    pa.ArrowException,
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
)
"""What reading a shard that is not ours, or is damaged, can end with."""


class Index:
    """Digest to row, vectorised: tables of rows. Digests are uniform already, so they are their own
    hash.

    In the first table, at most a quarter full, a digest lies at its one place or not at all. Those
    whose place was taken, about one in ten, lie in a table of their own that is nearly empty:
    nearly all are found at the second look. Looking on in the first table took six, each of a few
    digests and of as many calls as the first.
    """

    def __init__(self) -> None:
        self._table = np.full(1 << 10, -1, np.int32)
        self._count = 0
        self._others = Probing()

    def find(self, digests: Digests, known: Digests) -> NDArray[np.intp]:
        """Rows (n,) of ``known`` that hold these digests, -1 where none does."""
        found = self._table.take(_places(digests, self._table)).astype(np.intp)
        # -1 takes the last row, whoever that is
        same = _same(take16(known, found), digests) & (found >= 0)
        other = np.flatnonzero(~same)
        if len(other):
            found[other] = self._others.find(take16(digests, other), known)
        return found

    def add(self, digests: Digests, rows: NDArray[np.intp], known: Digests) -> None:
        """Enter distinct digests that are not in it."""
        self._count += len(rows)
        size = len(self._table)
        while 4 * self._count > size:
            size *= 2
        if size > len(self._table):
            self._table, self._others = np.full(size, -1, np.int32), Probing()
            digests, rows = known[: self._count], np.arange(self._count)
        on = _settle(self._table, _places(digests, self._table), rows)
        self._others.add(digests[on], rows[on], known)


class Probing:
    """The same, where a digest whose place is taken lies in the next free one: a table that is at
    most a sixteenth full.
    """

    def __init__(self) -> None:
        self._table = np.full(1 << 6, -1, np.int32)
        self._rows = np.empty(0, np.intp)

    def find(self, digests: Digests, known: Digests) -> NDArray[np.intp]:
        """See `Index.find`."""
        found = np.full(len(digests), -1, np.intp)
        left, place = np.arange(len(digests)), _places(digests, self._table)
        while len(left):
            row = self._table[place].astype(np.intp)
            same = _same(take16(known, row), digests) & (row >= 0)
            found[left[same]] = row[same]
            on = np.flatnonzero(~same & (row >= 0))  # another digest lies there
            left, digests = left[on], take16(digests, on)
            place = (place[on] + 1) & (len(self._table) - 1)
        return found

    def add(self, digests: Digests, rows: NDArray[np.intp], known: Digests) -> None:
        """See `Index.add`."""
        self._rows = np.concatenate([self._rows, rows])
        size = len(self._table)
        while 16 * len(self._rows) > size:
            size *= 2
        if size > len(self._table):
            self._table = np.full(size, -1, np.int32)
            rows = self._rows
            digests = take16(known, rows)
        place = _places(digests, self._table)
        while len(rows):
            on = _settle(self._table, place, rows)
            rows, place = rows[on], (place[on] + 1) & (size - 1)


def _places(digests: Digests, table: NDArray[np.int32]) -> NDArray[np.intp]:
    return (digests[:, 0] & np.uint64(len(table) - 1)).view(np.intp)


def _settle(
    table: NDArray[np.int32], place: NDArray[np.intp], rows: NDArray[np.intp]
) -> NDArray[np.intp]:
    """Write rows at their places where these are free, the last one where there are several; which
    of them found no place.
    """
    free = table[place] < 0
    table[place[free]] = rows[free]
    return np.flatnonzero(table[place] != rows)


def _same(a: Digests, b: Digests) -> NDArray[np.bool_]:
    """Whether both halves agree, row by row; the comparison's bytes are looked at in pairs, which
    is faster than a reduction over two.
    """
    equal = (np.ascontiguousarray(a) == np.ascontiguousarray(b)).view(np.uint16).ravel()
    same: NDArray[np.bool_] = equal == 0x0101
    return same


def _shard_of(digests: Digests, shards: int) -> NDArray[np.uint64]:
    return digests[:, 1] % np.uint64(shards)


def strangers(digests: Digests, shards: int, shard: int) -> int:
    """How many of these users belong to another one of so many shards."""
    return int(np.count_nonzero(_shard_of(digests, shards) != shard))


class Users:
    """The users of one partition in shards: their state, an index from digest to row, and which
    shards changed. Ids are digested as they come and not kept.

    Parameters
    ----------
    fields : of the method's state
    ledger : those of them that say when a user was heard and what it spent
    randomness : digests ids; None where nobody comes by an id
    blank : of the reports that may wait, see `Waiting`; None: none do, ever
    """

    def __init__(
        self,
        fields: Mapping[str, Field],
        ledger: Collection[str],
        randomness: Keyed | None,
        shards: int,
        blank: NDArray[Any] | None = None,
    ) -> None:
        self.state, self._ledger = State(fields), ledger
        self.waiting = None if blank is None else Waiting(blank)
        self._randomness, self._shards = randomness, shards
        self._index = Index()
        self._mark = np.empty(0, np.int32)
        self.shard = np.empty(0, np.int32)  # of each row
        self.changed = np.zeros(shards, np.bool_)

    def rows(self, ids: Ids) -> NDArray[np.intp]:
        """Rows (n,) of the users with these ids; new ones are given one."""
        assert self._randomness is not None, "nobody comes by an id"
        return self.rows_of(self._randomness.digests(ids))

    def rows_of(self, digests: Digests) -> NDArray[np.intp]:
        """The same by the digests of their ids."""
        if not self.state.count:
            self._add(digests)
        found = self._index.find(digests, self.state.users)
        missing = np.flatnonzero(found < 0)
        if len(missing):
            self._add(digests[missing])
            found[missing] = self._index.find(digests[missing], self.state.users)
        return found

    def distinct(self, rows: NDArray[np.intp]) -> bool:
        """Whether no row occurs twice."""
        order = np.arange(len(rows), dtype=np.int32)
        self._mark[rows] = order
        return bool((self._mark.take(rows) == order).all())

    def _add(self, digests: Digests) -> None:
        """Enter digests, each once, in the order of their bytes. Of a run of messages most come
        again and again: those that lie where one like them does are left out before they are
        sorted, which takes ten times as long.
        """
        table = np.empty(1 << (2 * len(digests)).bit_length(), np.int32)
        place, order = _places(digests, table), np.arange(len(digests), dtype=np.int32)
        table[place] = order
        first = table.take(place)
        digests = digests[(first == order) | ~_same(take16(digests, first), digests)]
        digests = (
            np.unique(np.ascontiguousarray(digests).view("V16").ravel())
            .view(np.uint64)
            .reshape(-1, 2)
        )
        self._enter(digests, self.state.append(digests))

    def _enter(self, digests: Digests, rows: NDArray[np.intp]) -> None:
        self._index.add(digests, rows, self.state.users)
        capacity, count = len(self.state.users), self.state.count
        if count > len(self.shard):
            grown = np.empty(capacity, np.int32)
            grown[: len(self.shard)] = self.shard
            self.shard, self._mark = grown, np.empty(capacity, np.int32)
        self.shard[rows] = _shard_of(digests, self._shards)

    def touch(self, rows: NDArray[np.intp]) -> None:
        """Note that these rows changed."""
        if not self.changed.all():
            self.changed[self.shard.take(rows)] = True

    def dirty(self) -> set[str]:
        """Names of the shards that changed since the last call."""
        found = {str(shard) for shard in np.flatnonzero(self.changed)}
        self.changed[:] = False
        return found

    def records(self) -> set[str]:
        """Names of all shards that hold anybody."""
        return {str(shard) for shard in np.unique(self.shard[: self.state.count])}

    def dump(self, shards: Iterable[str]) -> dict[str, bytes]:
        """Each shard's rows, as `write_shard` writes them."""
        count = self.state.count
        of_row = self.shard[:count]
        order = np.argsort(of_row, kind="stable")
        starts = np.searchsorted(of_row[order], np.arange(self._shards + 1))
        kept = None if self.waiting is None else self.waiting.by(order)
        return {
            shard: self._write(order, int(starts[int(shard)]), int(starts[int(shard) + 1]), kept)
            for shard in shards
        }

    def _write(self, order: NDArray[np.intp], start: int, stop: int, kept: Kept | None) -> bytes:
        rows = order[start:stop]
        columns = {name: cells[..., rows] for name, cells in self.state.columns.items()}
        users = np.ascontiguousarray(self.state.users[rows])
        mine = None if kept is None else Kept(kept.ends[start : stop + 1], kept.rows)
        return write_shard(users, self.state.fields, columns, self._ledger, mine)

    def load(self, shards: Mapping[str, bytes]) -> None:
        """Fill an empty state from what `dump` wrote."""
        if not shards:
            return
        kind = None if self.waiting is None else self.waiting.kind
        digests, columns, kept = read_shards(list(shards.values()), self.state.fields, kind)
        rows = self.state.append(digests)
        self._enter(digests, rows)
        for name, cells in columns.items():
            self.state.columns[name][..., : len(rows)] = cells
        if self.waiting is not None and kept is not None:
            self.waiting.load(np.repeat(rows, np.diff(kept.ends)), kept.rows)

    def __repr__(self) -> str:
        return f"Users({self.state.count})"  # never a digest


def look_at_users(
    shards: Mapping[str, bytes],
    count: int,
    fields: Mapping[str, Field],
    ledger: Account,
    kind: np.dtype[Any] | None = None,
) -> Look:
    """What lies in these shards of ``count``: that every user lies in its own, once, and that every
    ledger adds up and is within the budget.

    Parameters
    ----------
    kind : of a report that waits; None where none do, ever
    """
    found = Look(users=0, spent=0, budget=ledger.budget)
    most = everybody = 0
    unreadable = strange = twice = torn = over = 0
    for name, payload in shards.items():
        try:
            digests, columns, _ = read_shards([payload], fields, kind)
            users = State(fields, digests)
            for column, cells in columns.items():
                users.columns[column][..., : len(digests)] = cells
        except UNREADABLE:
            unreadable += 1
            continue
        known = name.isdecimal() and int(name) < count
        strange += strangers(digests, count, int(name)) if known else len(digests)
        twice += len(digests) - len(np.unique(digests, axis=0))
        beyond, contradictory = ledger.audit(users)
        over, torn = over + beyond, torn + contradictory
        everybody += len(digests)
        most = max(most, ledger.largest(users))
    found.users, found.spent = everybody, most
    found.complain("readable", unreadable, "shards cannot be read")
    found.complain("shards", strange, "users lie in a shard that is not theirs")
    found.complain("shards", twice, "users are there more than once")
    found.complain("ledger", torn, "users have a ledger that contradicts itself")
    found.complain(
        "budget", over, f"users have spent more than the budget of {ledger.budget} micro-epsilon"
    )
    return found
