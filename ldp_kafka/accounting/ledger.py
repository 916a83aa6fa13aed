"""The state of many users as arrays, and the budget of each of them in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.randomness import Digests, take16

__all__ = ["NEVER", "Field", "Ledger", "State", "take16"]

NEVER = -(2**62)  # the last slot of a user who has reported nothing


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


class Ledger:
    """Spend or refuse: in every run of ``run`` consecutive slots a user spends at most ``budget``
    micro-epsilon.

    Parameters
    ----------
    run : slots over which a changed window goes on to be visible: window + memory
    budget : whole micro-epsilon in one run

    Notes
    -----
    A user's slots come in increasing order (an event at or before a user's last slot is dropped
    before it gets here), so the runs that end at the slot being charged are all that can be
    exceeded; the later ones that contain it are checked when their last slots are charged. The ring
    holds what each of the last ``run`` slots spent at position ``slot % run``; a running sum makes
    spend-or-refuse one vector expression. All integers: nothing drifts.

    Examples
    --------
    >>> ledger = Ledger(run=2, budget=100)
    >>> state = State(ledger.fields, np.zeros((1, 2), np.uint64))
    >>> [bool(ledger.spend(state, np.array([0]), slot, 60)[0]) for slot in (0, 1, 2, 3)]
    [True, False, True, False]
    """

    def __init__(self, run: int, budget: int) -> None:
        if not (1 <= run <= 2**16 and 1 <= budget < 2**31):
            raise ConfigurationError(
                "a ledger needs a run of 1..65536 slots and a budget of 1..2**31 - 1 micro-epsilon"
            )
        self.run, self.budget = run, budget
        self.fields = {
            "last": Field("i8", initial=NEVER),
            "ring": Field("i4", run),
            "spent": Field("i4"),
        }

    def spend(
        self, state: State, rows: NDArray[np.intp], slot: int, cost: int | NDArray[np.int32]
    ) -> NDArray[np.bool_]:
        """Charge ``cost`` micro-epsilon (one, or one a row) to ``slot`` for distinct ``rows``; True
        (n,) where the budget allowed it, and nothing is charged where not.
        """
        price = np.asarray(cost, np.int32)
        if not (price >= 0).all():
            raise ValueError("a cost must not be negative")
        last, ring, spent = state.columns["last"], state.columns["ring"], state.columns["spent"]
        before = last.take(rows)
        gap = slot - before
        gap[before == NEVER] = 1  # an empty ring has nothing to forget
        if not gap.min(initial=1) > 0:
            raise ValueError("a user's slots must increase")
        total = spent.take(rows)
        now = ring[slot % self.run]
        total -= now.take(rows)  # what leaves the run as slot enters it
        for back in range(1, min(int(gap.max(initial=0)), self.run)):  # slots that were passed over
            passed = ring[(slot - back) % self.run]
            stale = rows[gap > back]
            total[gap > back] -= passed[stale]
            passed[stale] = 0
        allowed: NDArray[np.bool_] = total <= self.budget - price
        charged = allowed * price
        now[rows] = charged
        total += charged
        spent[rows] = total
        last[rows] = slot
        return allowed

    def more(
        self, state: State, rows: NDArray[np.intp], slot: int, cost: NDArray[np.int32]
    ) -> NDArray[np.bool_]:
        """Charge a further ``cost`` a row to the slot that `spend` has just charged, under the same
        bound; True (n,) where the budget allowed it. ValueError for any other slot.
        """
        price = np.asarray(cost, np.int32)
        if not (price >= 0).all():
            raise ValueError("a cost must not be negative")
        if not (state.columns["last"].take(rows) == slot).all():
            raise ValueError("more can be charged to a user's last slot only")
        ring, spent = state.columns["ring"][slot % self.run], state.columns["spent"]
        total = spent.take(rows)
        allowed: NDArray[np.bool_] = total <= self.budget - price
        charged = allowed * price
        ring[rows] += charged
        spent[rows] = total + charged
        return allowed

    def audit(self, state: State) -> tuple[int, int]:
        """Users who have more than the budget in their current run, and users whose running sum is
        not that of their ring: (0, 0), or somebody else wrote this state.
        """
        ring, spent = state.columns["ring"][:, : state.count], state.columns["spent"][: state.count]
        total = ring.sum(axis=0, dtype=np.int64)
        return int(np.count_nonzero(total > self.budget)), int(
            np.count_nonzero((total != spent) | (ring < 0).any(axis=0))
        )

    def largest(self, state: State) -> int:
        """The most that any user has in its current run, in micro-epsilon."""
        return int(state.columns["spent"][: state.count].max(initial=0))
