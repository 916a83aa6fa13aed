"""What every ledger can do, of both."""

from __future__ import annotations

import numpy as np
import pytest

from ldp_kafka.accounting import BudgetLedger, Ledger, LifetimeLedger, State
from tests.cases import cases

UNITS = 5
"""Charges of 1 that fit, in one run or one life."""
LEDGERS: dict[str, BudgetLedger] = {
    "a run": Ledger(3, UNITS),
    "a run, with a lag": Ledger(3, UNITS, lag=2),
    "a run of one slot": Ledger(1, UNITS),
    "a life": LifetimeLedger(UNITS, 100 * UNITS, lambda n: 100 * n),
}


@pytest.fixture(params=LEDGERS, name="ledger")
def each_ledger(request):
    return LEDGERS[request.param]


def state_of(ledger, users):
    return State(ledger.fields, np.column_stack([np.arange(users)] * 2).astype(np.uint64))


def copied(state):
    return {name: column[..., : state.count].copy() for name, column in state.columns.items()}


def test_charges_add_up_until_the_budget_is_spent(ledger):
    """Of one slot, in any parts; a part that does not fit leaves room for one that does."""
    state = state_of(ledger, 3)
    rows = np.array([2, 0])
    assert (ledger.largest(state), ledger.audit(state)) == (0, (0, 0))
    assert ledger.charge(state, rows, 7, 3).tolist() == [True, True]
    before = copied(state)
    assert ledger.charge(state, rows, 7, 3).tolist() == [False, False]
    assert all(np.array_equal(column, before[name]) for name, column in copied(state).items())
    assert ledger.charge(state, rows, 7, np.array([2, 1], np.int32)).tolist() == [True, True]
    assert ledger.charge(state, rows, 7, 1).tolist() == [False, True]
    assert ledger.charge(state, np.arange(3), 7, 0).tolist() == [True] * 3
    assert ledger.largest(state) == ledger.budget
    assert ledger.audit(state) == (0, 0)


def test_users_are_apart(ledger):
    """Rows in any order; what one has spent is nothing to another."""
    state = state_of(ledger, 4)
    assert ledger.charge(state, np.array([3, 1]), 5, np.array([UNITS, 1])).tolist() == [True, True]
    assert ledger.charge(state, np.array([1, 3, 0]), 5, 1).tolist() == [True, False, True]
    assert ledger.charge(state, np.array([2]), 5, UNITS).tolist() == [True]


def test_nobody_is_charged_for_nothing(ledger):
    """A batch without users is a batch, also where there are none yet."""
    state = state_of(ledger, 0)
    assert ledger.charge(state, np.array([], np.intp), 0, 5).tolist() == []
    assert ledger.charge(state, np.array([], np.intp), 0, np.array([], np.int32)).tolist() == []
    assert (ledger.largest(state), ledger.audit(state), len(state)) == (0, (0, 0), 0)


@cases(
    ("slot", "cost"),
    [
        (9, -1),
        (9, np.array([1, -1])),
        (9, 2**31),
        (9, np.array([1, 2**32])),
        (9, 2**70),
        (9, 0.5),
        (9, np.array([1.0, 1.0])),
        (9, True),
        (2**61, 1),
        (-(2**62), 1),
        (2**70, 1),
    ],
)
def test_what_is_no_charge_changes_nothing(ledger, slot, cost):
    """A cost that is no whole number or does not fit its integers, a slot whose distance to another
    would not: guard first, then book.
    """
    state = state_of(ledger, 3)
    ledger.charge(state, np.array([0, 1]), 3, 2)
    before = copied(state)
    with pytest.raises(ValueError, match="must"):
        ledger.charge(state, np.array([0, 2]), slot, cost)
    assert all(np.array_equal(column, before[name]) for name, column in copied(state).items())


def test_the_audit_finds_what_is_too_much_and_what_is_none(ledger):
    """As somebody else might have written it."""
    state = state_of(ledger, 3)
    ledger.charge(state, np.arange(3), 4, 3)
    for column in state.columns.values():
        if column.dtype == np.int32:
            column[column == 3] = [3, UNITS + 1, -1]
    assert ledger.audit(state) == (1, 1)


def test_the_event_is_not_its_business(ledger):
    """When a user's last event was is the edge's to know."""
    assert "last" not in ledger.fields
