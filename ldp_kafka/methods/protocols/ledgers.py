"""What the two phases of a protocol are charged to: one ledger of each user, or one each."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import BudgetLedger, Field, State
from ldp_kafka.methods.protocols.request import FIRST, SECOND

__all__ = ["Ledgers"]


class Ledgers:
    """The ledgers of both phases, with entries of their own in one `State`.

    Parameters
    ----------
    first, second : the ledger of each phase; the same one twice where they share it

    Examples
    --------
    >>> from ldp_kafka.accounting import Ledger
    >>> ledgers = Ledgers(Ledger(run=2, budget=100), Ledger(run=2, budget=50))
    >>> state, row = State(ledgers.fields, np.zeros((1, 2), np.uint64)), np.array([0])
    >>> [bool(ledgers.charge(state, row, 0, 60, phase)[0]) for phase in (FIRST, SECOND)]
    [True, False]
    >>> ledgers.largest(state), ledgers.audit(state)
    (60, (0, 0))
    """

    def __init__(self, first: BudgetLedger, second: BudgetLedger) -> None:
        self._ledgers = {FIRST: first, SECOND: second}
        self._apart = first is not second

    @property
    def fields(self) -> dict[str, Field]:
        """The arrays of the state that are theirs."""
        return {
            self._entry(phase, name): field
            for phase, ledger in self._ledgers.items()
            for name, field in ledger.fields.items()
        }

    def charge(
        self, state: State, rows: NDArray[np.intp], slot: int, cost: int, phase: int
    ) -> NDArray[np.bool_]:
        """What the phase's ledger says, True (n,) where it allows the cost."""
        return self._ledgers[phase].charge(self._part(state, phase), rows, slot, cost)

    def largest(self, state: State) -> int:
        """The most that any user has spent in its current run, in micro-epsilon. With two ledgers
        the largest sum of both: an upper bound, since the run of each ends at its own last charge.
        """
        total = np.zeros(state.count, np.int64)
        for phase in self._phases:
            total += state.columns[self._entry(phase, "spent")][: state.count]
        return int(total.max(initial=0))

    def audit(self, state: State) -> tuple[int, int]:
        """Users over the budget of a ledger, and users whose entries contradict each other: (0, 0),
        or somebody else wrote this state. With two ledgers a user can be counted in each.
        """
        found = [self._ledgers[phase].audit(self._part(state, phase)) for phase in self._phases]
        return sum(over for over, _ in found), sum(torn for _, torn in found)

    @property
    def _phases(self) -> tuple[int, ...]:
        """One phase of each ledger."""
        return (FIRST, SECOND) if self._apart else (FIRST,)

    def _part(self, state: State, phase: int) -> State:
        """The users with the entries of one ledger: views, so that what is written there is written
        here.
        """
        part = State({})
        part.users, part.count = state.users, state.count
        part.columns = {
            name: state.columns[self._entry(phase, name)] for name in self._ledgers[phase].fields
        }
        return part

    def _entry(self, phase: int, name: str) -> str:
        """The state's array of a ledger's field: its own for each ledger."""
        return f"second_{name}" if self._apart and phase == SECOND else name
