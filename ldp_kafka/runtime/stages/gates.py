"""When a value of a slot becomes input of the method: at once, when its slot closes, when a tick
closes it for everybody, or when its window closes.

Values that do not go at once wait in panes, one a slot. What becomes of them is what becomes of
values that come with the message that closes their slot: one a user, in the order of slots. That
message is decided by the log alone, and so is what lies in the panes before any shard skips it; so
reports, and the bounds that they wait for, are the same whichever worker folds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import NEVER
from ldp_kafka.errors import InvariantError
from ldp_kafka.methods import DelayMethod, Method
from ldp_kafka.methods.cover import Covering
from ldp_kafka.runtime.keys import EdgeNoise
from ldp_kafka.runtime.log import Look, Output
from ldp_kafka.runtime.runs import Run
from ldp_kafka.runtime.stages.closings import closings
from ldp_kafka.runtime.stages.panes import Panes, look_at_panes
from ldp_kafka.runtime.stages.per_slot import Folded, Taking, taking_of
from ldp_kafka.runtime.stages.places import Places, closed_at
from ldp_kafka.runtime.stages.rows import Answered, Placed, Rows
from ldp_kafka.runtime.stages.users import Users
from ldp_kafka.runtime.stages.windows import Held, Released, Windows
from ldp_kafka.topology import Topology

__all__ = ["AtClose", "AtOnce", "Covered", "WindowCloses", "gate_of"]

NONE = np.empty(0, np.int64)
NO_ROWS = Placed(NONE, NONE, NONE, NONE)
Perturbing = Callable[[Placed, Output], tuple[Placed, Answered]]
"""Perturbs values: those that are accepted, and their reports."""


@dataclass(frozen=True, repr=False)
class AtOnce:
    """A value that came in time goes with its message.

    Parameters
    ----------
    method : what perturbs
    """

    holds: ClassVar[bool] = False
    """Whether values wait in panes: they stay as they came."""
    ticked: ClassVar[bool] = False
    """Whether ticks alone close slots."""

    method: Method

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.method.name})"  # never what its key draws

    def panes(self, users: Users) -> Panes | None:
        """The panes of a partition of these users, None where no value waits."""
        del users
        return None

    def ended(self, closed: int) -> int:
        """The last slot whose pane has been let go, where ``closed`` is the last closed slot."""
        return closed

    def look(self, found: Look, records: Mapping[str, bytes], shards: int, closed: int) -> None:
        """What is in the panes, and what is wrong with them."""

    def reported(
        self,
        state: Held,
        run: Run,
        rows: Rows,
        places: Places,
        output: Output,
        perturb: Perturbing,
    ) -> tuple[Placed, Answered]:
        """The values that are accepted with a run of messages, and the reports of them."""
        return perturb(self._due(state, run, rows, places, output), output)

    def _due(self, state: Held, run: Run, rows: Rows, places: Places, output: Output) -> Placed:
        """The values that are to be reported, each with its message."""
        del run
        if not len(rows.slots):
            return NO_ROWS
        found = Placed(state.users.rows(rows.users), rows.slots, rows.values, rows.message)
        if rows.slots.min() > places.passed[-1].closed:
            return found
        in_time = rows.slots > places.closed_before[rows.message]
        output.count("late", int(np.count_nonzero(~in_time)))
        return found.take(in_time)


@dataclass(frozen=True, repr=False)
class AtClose(AtOnce):
    """The values of a slot go together, with the message that closes it.

    Parameters
    ----------
    taking : how several values of a user in one slot become one
    slot_ms, lateness : as in the topology; lateness in slots
    """

    holds: ClassVar[bool] = True

    taking: Taking
    slot_ms: int
    lateness: int

    def panes(self, users: Users) -> Panes:
        return Panes(users, self.taking)

    def look(self, found: Look, records: Mapping[str, bytes], shards: int, closed: int) -> None:
        panes = look_at_panes(records, shards, self.ended(closed))
        found.slots = panes.slots
        found.complain("readable", panes.unreadable, "panes cannot be read")
        found.complain("shards", panes.strangers, "users lie in a pane that is not theirs")
        found.complain("shards", panes.ended, "panes are of slots that are closed")

    def _due(self, state: Held, run: Run, rows: Rows, places: Places, output: Output) -> Placed:
        found = list(self._closed(state, run, rows, places, output))
        if not found:
            return NO_ROWS
        return Placed(*(np.concatenate(column) for column in zip(*found, strict=True)))

    def _closed(
        self, state: Held, run: Run, rows: Rows, places: Places, output: Output
    ) -> Iterator[Placed]:
        """Each slot with a value that a run of messages closes."""
        for moving, _, closed in self._closings(state, run, rows, places, output):
            for slot in state.panes.slots():
                if slot <= closed:
                    yield self._placed(slot, state.panes, moving, output)

    def _late_for(self, run: Run) -> NDArray[np.int64] | None:
        """The last slot (messages,) that each message is too late for by itself; None: none is."""
        del run
        return None

    def _closings(
        self, state: Held, run: Run, rows: Rows, places: Places, output: Output
    ) -> Iterator[tuple[int, int, int]]:
        """See `closings`; and how many slots are open then."""
        own = self._late_for(run)
        yield from closings(state.panes, rows, places, state.users.rows, output, own)
        output.gauge("open_slots", len(state.panes))

    def _placed(self, slot: int, panes: Panes, message: int, output: Output) -> Placed:
        """The values of a slot that a message closes."""
        folded = panes.close(slot)
        output.count("duplicates", panes.dropped(folded))
        values = self._bound(panes, folded, output)
        count = len(folded.rows)
        return Placed(folded.rows, np.full(count, slot), values, np.full(count, message))

    def _bound(self, panes: Panes, folded: Folded, output: Output) -> NDArray[np.int64]:
        """As the integers that the method works on."""
        values = panes.of(folded)
        if self.method.kind != "numeric":
            return self.method.bound(values.astype(np.int64))
        output.count("clamped", int(np.count_nonzero(self.method.outside(values))))
        return self.method.bound(values)


@dataclass(frozen=True, repr=False)
class Covered(AtClose):
    """The same for every user of the partition, with a value or without: presence is hidden.

    Ticks alone close slots. So when reports are sent, how many, of whom and of which slot follows
    from ticks and from each user's first event, and from no other event: one that comes in time
    becomes its user's value of the slot, and the reports of the slot come without it as well.

    A user is known from the first slot on that closes with a value of it: ``last`` says so from
    then on. After a crash it says so of a shard where that shard is, and no other is stepped: so
    the same users report in the same slots, whichever worker folds, and each once.
    """

    ticked: ClassVar[bool] = True

    @property
    def nothing(self) -> int:
        """The value of those who have none."""
        if not isinstance(self.method, Covering):
            raise InvariantError(f"{self.method.name} reports nothing where there is no value")
        return self.method.nothing

    def _late_for(self, run: Run) -> NDArray[np.int64]:
        """An event is late by its own record, too: no other's event, and no tick, decides that."""
        return closed_at(run.timestamps, slot_ms=self.slot_ms, lateness=self.lateness)

    def _closed(
        self, state: Held, run: Run, rows: Rows, places: Places, output: Output
    ) -> Iterator[Placed]:
        """Each slot that a run of messages closes, of all users who are known by then."""
        known = state.users.state.columns["last"][: state.users.state.count] != NEVER
        for moving, before, closed in self._closings(state, run, rows, places, output):
            known = np.pad(known, (0, state.users.state.count - len(known)))
            # a shard that is ahead may know users of slots before the first that was closed
            begins = min(state.panes.slots(), default=closed + 1)
            if before != NEVER and known.any():
                begins = before + 1
            for slot in range(begins, closed + 1):
                with_value = self._placed(slot, state.panes, moving, output)
                known[with_value.users] = True
                values = np.full(len(known), self.nothing)
                values[with_value.users] = with_value.values
                who = np.flatnonzero(known)
                yield Placed(who, *np.broadcast_arrays(slot, values[who], moving))


@dataclass(frozen=True, repr=False)
class WindowCloses(AtClose):
    """The values of a window go together, and what it releases is reported, a report a slot. The
    window tumbles (``setting: batch``), or hops by a slot (``setting: sliding``).

    Parameters
    ----------
    windows : of the method
    """

    method: DelayMethod
    windows: Windows

    def ended(self, closed: int) -> int:
        return self.windows.ended(closed)

    def reported(
        self,
        state: Held,
        run: Run,
        rows: Rows,
        places: Places,
        output: Output,
        perturb: Perturbing,
    ) -> tuple[Placed, Answered]:
        del perturb  # windows draw for themselves
        found = [Answered(NONE, NONE, NONE, NONE, self.method.blank(0), NONE)]
        for moving, before, closed in self._closings(state, run, rows, places, output):
            offset = run.offsets.item(moving)
            for each in self.windows.close(state, before, closed, offset, output):
                found += self._answers(each, moving)
        made = Answered(*(np.concatenate(column) for column in zip(*found, strict=True)))
        output.count("reports", len(made.slots))
        return NO_ROWS, made

    def _answers(self, found: Released, message: int) -> Iterator[Answered]:
        """What a window releases as reports of its slots, sent with a message."""
        for slot, values in enumerate(found.closed.values, found.closed.first):
            there = np.flatnonzero(~np.isnan(values))
            slots, phases = np.full(len(there), slot), np.zeros(len(there), np.int64)
            index = self.method.index(values[there])
            at = np.full(len(there), message)
            yield Answered(found.rows[there], slots, slots, phases, index, at)


def gate_of(topology: Topology, randomness: EdgeNoise) -> AtOnce:
    """That of a topology's edge."""
    method, source = topology.method, topology.input
    if not topology.holds_slots:
        return AtOnce(method)
    waits = taking_of(topology), source.slot_ms, source.lateness
    if isinstance(method, DelayMethod):
        return WindowCloses(method, *waits, Windows(method, randomness))
    return Covered(method, *waits) if method.cover else AtClose(method, *waits)
