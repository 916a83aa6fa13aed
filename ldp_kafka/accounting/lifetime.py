"""A budget for life: what is spent does not come back."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting.protocol import check_slot, whole_cost
from ldp_kafka.accounting.state import Field, State
from ldp_kafka.errors import ConfigurationError

__all__ = ["LifetimeLedger"]


class LifetimeLedger:
    """Spend or refuse: a user makes at most so many reports, ever.

    Parameters
    ----------
    reports : the most that one user makes, 1..2**31 - 1
    budget : micro-epsilon that all of them lose together
    loss : micro-epsilon that the first n of them lose together, at the delta of the whole: what is
        shown, not what decides

    Notes
    -----
    All reports cost the same, so their number is what counts; it never falls. A `BudgetLedger`
    whose costs are numbers of reports.

    Examples
    --------
    >>> ledger = LifetimeLedger(2, 100, lambda n: 50 * n)
    >>> state = State(ledger.fields, np.zeros((1, 2), np.uint64))
    >>> [bool(ledger.charge(state, np.array([0]), slot, 1)[0]) for slot in (0, 1, 10**6)]
    [True, True, False]
    >>> ledger.largest(state)
    100
    """

    def __init__(self, reports: int, budget: int, loss: Callable[[int], int]) -> None:
        if not (1 <= reports < 2**31 and 1 <= budget < 2**53):
            raise ConfigurationError(
                "a lifetime ledger needs at least one report and one micro-epsilon"
            )
        self.reports, self.budget, self._loss = reports, budget, loss

    @property
    def fields(self) -> dict[str, Field]:
        """The number of reports; there is no clock."""
        return {"spent": Field("i4")}

    def charge(
        self, state: State, rows: NDArray[np.intp], slot: int, cost: int | NDArray[np.integer]
    ) -> NDArray[np.bool_]:
        """Count ``cost`` reports (one number, or one a row) for distinct ``rows``; True (n,) where
        so many were left, and nothing is counted where not. Any slot may be charged, in any order:
        all are of one life. ValueError: see `BudgetLedger.charge`.
        """
        price = whole_cost(cost)
        check_slot(slot)
        spent = state.columns["spent"]
        before = spent[rows]
        allowed: NDArray[np.bool_] = before <= self.reports - price
        spent[rows] = before + allowed * price
        return allowed

    def audit(self, state: State) -> tuple[int, int]:
        """Users who have made more reports than allowed, and users whose number of reports is none:
        (0, 0), or somebody else wrote this state.
        """
        spent = state.columns["spent"][: state.count]
        return int(np.count_nonzero(spent > self.reports)), int(np.count_nonzero(spent < 0))

    def largest(self, state: State) -> int:
        """The most that any user has lost, in micro-epsilon, rounded up."""
        most = int(state.columns["spent"][: state.count].max(initial=0))
        return self.lost(most)

    def lost(self, reports: int) -> int:
        """Micro-epsilon that the first so many reports of a user lose together."""
        return min(self._loss(reports), self.budget) if reports else 0
