"""The rows of a run of messages: from the events that were read to the reports that they gave.

Events lie as columns, one row each. A step takes rows of one slot in which every user is a
different one (`rounds`), and gives each row one report, none, or several of slots of their own
(`Answers`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import NEVER
from ldp_kafka.methods.base import REFUSED, SENT, Step
from ldp_kafka.methods.contract import Method
from ldp_kafka.randomness import Ids

__all__ = ["Answered", "Answers", "Placed", "Rows", "by_phase", "rounds", "stretches"]


class Rows(NamedTuple):
    """Valid events of a run of messages as columns."""

    users: Ids
    slots: NDArray[np.int64]
    values: NDArray[Any]
    """Bound to the method's integers: (n,), or (n, dimension); as they came where they are held."""
    message: NDArray[np.intp]
    """Which message of the run each came with."""

    def __repr__(self) -> str:
        return f"Rows({len(self.slots)})"  # never a value


class Placed(NamedTuple):
    """The same with the users' rows of the state in place of their ids."""

    users: NDArray[np.intp]
    slots: NDArray[np.int64]
    values: NDArray[np.int64]
    message: NDArray[np.intp]

    def __repr__(self) -> str:
        return f"Placed({len(self.slots)})"  # never a value

    def take(self, rows: slice | NDArray[Any]) -> Placed:
        """Those at ``rows``, in that order, or those that a mask (n,) keeps."""
        return Placed(*(column[rows] for column in self))

    @staticmethod
    def join(rows: Placed, others: Placed | None) -> Placed:
        """All of them, in the order of messages."""
        if others is None or not len(others.slots):
            return rows
        whole = Placed(*(np.concatenate(columns) for columns in zip(rows, others, strict=True)))
        return whole.take(np.argsort(whole.message, kind="stable"))

    def in_order(self) -> Placed:
        """By message, then slot; within a slot as they came."""
        if not len(self.slots) or self.slots.min() == self.slots.max():
            return self
        order = np.lexsort((self.slots, self.message))
        return self.take(order) if (order[1:] < order[:-1]).any() else self


def rounds(
    users: NDArray[np.intp],
    slots: NDArray[np.int64],
    distinct: Callable[[NDArray[np.intp]], bool],
) -> Iterable[NDArray[np.intp] | slice]:
    """Groups of rows of one slot in which a user occurs once, so that each user's rows come in
    their order.

    Parameters
    ----------
    distinct : whether no user occurs twice among some
    """
    if (slots[1:] >= slots[:-1]).all():
        parts = stretches(slots)
        if all(distinct(users[part]) for part in parts):
            yield from parts
            return
    order = np.argsort(users, kind="stable")
    by_user = users[order]
    first = np.concatenate([[True], by_user[1:] != by_user[:-1]])
    start = np.flatnonzero(first)
    nth = np.empty(len(users), np.intp)
    nth[order] = np.arange(len(users)) - np.repeat(start, np.diff(np.append(start, len(users))))
    groups = np.lexsort((slots, nth))
    edges = np.flatnonzero((np.diff(nth[groups]) != 0) | (np.diff(slots[groups]) != 0)) + 1
    yield from np.split(groups, edges)


def stretches(values: NDArray[np.int64]) -> list[slice]:
    """Where the same value comes again and again, one after the other."""
    if not len(values):
        return []
    starts = [0, *(np.flatnonzero(values[1:] != values[:-1]) + 1).tolist()]
    return list(map(slice, starts, [*starts[1:], len(values)]))


class Answered(NamedTuple):
    """Reports of a run of messages as columns, in the order of messages."""

    users: NDArray[np.intp]
    """Rows of the state."""
    event_slots: NDArray[np.int64]
    """Of the events that they answer."""
    slots: NDArray[np.int64]
    phases: NDArray[np.int64]
    values: NDArray[Any]
    """In units of the method's scale."""
    message: NDArray[np.intp]

    def __repr__(self) -> str:
        return f"Answered({len(self.slots)})"  # never a value


class Several(NamedTuple):
    """Reports of a step whose rows have several, each of a slot of its own."""

    rows: NDArray[np.intp]
    """Of the step."""
    source: NDArray[np.intp]
    """Row of each report."""
    slots: NDArray[np.int64]
    answers: NDArray[np.int64]

    def __repr__(self) -> str:
        return f"Several({len(self.slots)})"  # never a value


class Answers:
    """What the steps of a run gave, row by row."""

    def __init__(self, method: Method, n: int) -> None:
        self._scale = method.scale
        self._values = method.blank(n)
        self._status = np.zeros(n, np.uint8)
        self._phases = np.zeros(n, np.int64)
        self._several: list[Several] = []
        self.taken = np.zeros(n, np.bool_)
        """(n,) which rows a step took: not those at or before their user's last slot."""

    def take(self, group: NDArray[np.intp] | slice, step: Step) -> None:
        """What a step gave the rows of a group."""
        index = step.answers if self._scale == 1 else step.answers * (1 / self._scale)
        self.taken[group] = True
        self._status[group] = step.status
        self._phases[group] = step.phase
        if step.slots is None:
            self._values[group] = index
            return
        rows = np.arange(len(self._status))[group]
        row, nth = np.nonzero((step.slots != NEVER) & (step.status == SENT)[:, None])
        self._several.append(
            Several(rows, rows[row], step.slots[row, nth], index[row, nth].astype(np.int64))
        )

    @property
    def sent(self) -> int:
        """Rows that reported."""
        return int(np.count_nonzero(self._status == SENT))

    @property
    def refused(self) -> int:
        """Rows that the ledger refused."""
        return int(np.count_nonzero(self._status == REFUSED))

    def of(self, rows: Placed) -> Answered:
        """The reports of these rows."""
        sent = self._status == SENT
        if self._several:
            return self._expanded(rows, sent)
        if sent.all():
            users, slots, _, message = rows
            return Answered(users, slots, slots, self._phases, self._values, message)
        return Answered(
            rows.users[sent],
            rows.slots[sent],
            rows.slots[sent],
            self._phases[sent],
            self._values[sent],
            rows.message[sent],
        )

    def _expanded(self, rows: Placed, own: NDArray[np.bool_]) -> Answered:
        """One row a report, in the order of messages: those of the rows' own slots, and those of
        rows that have several.
        """
        own[np.concatenate([part.rows for part in self._several])] = False
        source = np.concatenate([np.flatnonzero(own), *(part.source for part in self._several)])
        slots = np.concatenate([rows.slots[own], *(part.slots for part in self._several)])
        values = np.concatenate([self._values[own], *(part.answers for part in self._several)])
        order = np.argsort(rows.message[source], kind="stable")
        source = source[order]
        return Answered(
            rows.users[source],
            rows.slots[source],
            slots[order],
            self._phases[source],
            values[order],
            rows.message[source],
        )


def by_phase(phases: NDArray[np.int64]) -> list[tuple[int, slice | NDArray[np.intp]]]:
    """Rows of each phase; all of them, of phase 0, where there are none."""
    if len(phases) < 2 or phases.min() == phases.max():
        return [(int(phases[0]) if len(phases) else 0, slice(0, len(phases)))]
    return [(phase, np.flatnonzero(phases == phase)) for phase in np.unique(phases).tolist()]
