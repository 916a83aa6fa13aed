"""The interface of a ledger: a privacy filter that is charged before any noise is drawn."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting.state import Field, State

__all__ = ["Account", "BudgetLedger", "check_slot", "whole_cost"]

FARTHEST = 2**61  # slots lie between minus this and this: their differences fit into 64 bits


class Account(Protocol):
    """What users' budgets have been spent of, as a `State` has it."""

    @property
    def fields(self) -> dict[str, Field]:
        """The arrays of the state that are the ledger's, and nobody else's to write."""

    @property
    def budget(self) -> int:
        """Micro-epsilon that is never exceeded."""

    def audit(self, state: State) -> tuple[int, int]:
        """Users who have spent more than the budget, and users whose entries contradict each other:
        (0, 0), or somebody else wrote this state.
        """

    def largest(self, state: State) -> int:
        """The most that any user has spent in the current window, in micro-epsilon."""


class BudgetLedger(Account, Protocol):
    """What a method asks before it draws: whether a user's budget allows it.

    A ledger is told of every report before its noise is drawn, whoever asks for the report, and has
    its entries in the users' `State`. It knows nothing of repeats: whoever charges has refused them
    before, by their identity (user, slot, phase).
    """

    def charge(
        self, state: State, rows: NDArray[np.intp], slot: int, cost: int | NDArray[np.integer]
    ) -> NDArray[np.bool_]:
        """Add ``cost`` (one, or one a row) to what distinct ``rows`` have spent in ``slot``; True
        (n,) where the budget allowed it, and nothing is added where not. ValueError, and nothing is
        changed for anyone: a cost is no whole number of 0..2**31 - 1, or the slot is out of range.
        """


def check_slot(slot: int) -> None:
    """ValueError unless a ledger can tell how far the slot is from any other."""
    if not -FARTHEST < slot < FARTHEST:
        raise ValueError("a slot must lie between -2**61 and 2**61")


def whole_cost(cost: Any) -> NDArray[np.int32]:
    """Costs as a ledger adds them up; ValueError unless all are whole numbers of 0..2**31 - 1.

    Examples
    --------
    >>> whole_cost(5)
    array(5, dtype=int32)
    """
    price = np.asarray(cost)
    if not (
        price.dtype.kind in "iu" and (not price.size or (price.min() >= 0 and price.max() < 2**31))
    ):
        raise ValueError("a cost must be a whole number of 0..2**31 - 1")
    return price.astype(np.int32, copy=False)
