"""The ledger against a slow exact twin."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldp_kafka.accounting import MICRO, NEVER, Field, Guarantee, Ledger, State, micro
from ldp_kafka.errors import ConfigurationError

LARGEST = 2**31 - 1


class Twin:
    """What each user spent in each slot, for ever; a charge is allowed if every run that ends at
    its slot stays within the budget.
    """

    def __init__(self, run, budget):
        self.run, self.budget, self.spent = run, budget, {}

    def held(self, user, slot):
        return sum(
            cost for at, cost in self.spent.get(user, {}).items() if slot - self.run < at <= slot
        )

    def spend(self, user, slot, cost):
        allowed = self.held(user, slot) + cost <= self.budget
        self.spent.setdefault(user, {})[slot] = cost if allowed else 0
        return allowed


def users_of(n):
    """Digests of n users."""
    return np.column_stack([np.arange(n), np.arange(n)]).astype(np.uint64)


GAPS = st.integers(1, 3) | st.integers(1, 20) | st.sampled_from([2**20, 2**40])
STARTS = st.sampled_from([0, 1, 5, 1_700_000_000])


@settings(max_examples=300, deadline=None)
@given(
    st.integers(1, 6),
    st.sampled_from([1, 7, 100, LARGEST]),
    STARTS,
    st.lists(GAPS, min_size=1, max_size=25),
    st.booleans(),
    st.data(),
)
def test_ledger_is_its_twin(run, budget, slot, gaps, one_price, data):
    """Users that come and go, slots with gaps of any size, one cost or one a row: the same
    decisions, and never a run beyond the budget.
    """
    users = 4
    ledger, twin = Ledger(run, budget), Twin(run, budget)
    state = State(ledger.fields, users_of(users))
    prices = st.sampled_from(
        [0, 1, budget // 3, budget // 2, budget - 1, budget, min(budget + 1, LARGEST), LARGEST]
    )
    for gap in gaps:
        slot += gap
        rows = np.array(sorted(data.draw(st.sets(st.integers(0, users - 1)))), np.intp)
        cost = (
            data.draw(prices)
            if one_price
            else np.array([data.draw(prices) for _ in rows], np.int32)
        )
        expected = [
            twin.spend(user, slot, price)
            for user, price in zip(
                rows.tolist(), np.broadcast_to(cost, rows.shape).tolist(), strict=True
            )
        ]
        assert ledger.spend(state, rows, slot, cost).tolist() == expected
        assert all(twin.held(user, slot) <= budget for user in range(users))
        assert state.columns["spent"][rows].tolist() == [
            twin.held(user, slot) for user in rows.tolist()
        ]
        assert state.columns["ring"][:, :users][:, rows].sum(0).tolist() == [
            twin.held(user, slot) for user in rows.tolist()
        ]
    ends = {at for spent in twin.spent.values() for at in spent}
    assert all(twin.held(user, end) <= budget for user in twin.spent for end in ends)


def test_sums_do_not_overflow():
    """Budgets go up to 2**31 - 1: nothing may be added before it is compared."""
    ledger = Ledger(3, LARGEST)
    state = State(ledger.fields, users_of(1))
    row = np.array([0])
    assert [
        bool(ledger.spend(state, row, slot, cost)[0])
        for slot, cost in [(0, LARGEST), (1, LARGEST), (2, 1), (3, LARGEST - 1), (4, 2), (5, 1)]
    ] == [
        True,
        False,
        False,
        True,
        False,
        True,
    ]
    assert ledger.largest(state) == LARGEST


@pytest.mark.parametrize(
    ("run", "budget"), [(0, 1), (-1, 1), (2**16 + 1, 1), (1, 0), (1, -1), (1, 2**31)]
)
def test_limits(run, budget):
    """What does not fit its integers is refused at construction."""
    with pytest.raises(ConfigurationError):
        Ledger(run, budget)
    Ledger(2**16, LARGEST)


@pytest.mark.parametrize(
    ("rows", "slot", "cost"),
    [([0, 1], 5, 1), ([1, 0], 4, 1), ([2, 1], 0, 1), ([0, 2], 9, -1), ([0, 2], 9, [1, -1])],
)
def test_a_refused_call_changes_nothing(rows, slot, cost):
    """A slot that does not increase for one of the users, or a negative cost: guard first, then
    book.
    """
    ledger = Ledger(4, 100)
    state = State(ledger.fields, users_of(3))
    ledger.spend(state, np.array([0, 1]), 3, 30)
    ledger.spend(state, np.array([1]), 5, 40)
    before = {name: column.copy() for name, column in state.columns.items()}
    with pytest.raises(ValueError, match="must"):
        ledger.spend(state, np.array(rows), slot, np.array(cost, np.int32))
    assert all(np.array_equal(column, before[name]) for name, column in state.columns.items())


def test_a_refused_charge_is_free():
    """Refused is not charged, not even in part."""
    ledger = Ledger(2, 10)
    state = State(ledger.fields, users_of(2))
    both = np.array([0, 1])
    assert ledger.spend(state, both, 0, np.array([10, 11], np.int32)).tolist() == [True, False]
    assert ledger.spend(state, both, 1, np.array([1, 10], np.int32)).tolist() == [False, True]
    assert ledger.spend(state, both, 2, np.array([10, 0], np.int32)).tolist() == [True, True]


def test_nobody_is_charged_for_nothing():
    """A batch without users is a batch."""
    ledger = Ledger(2, 10)
    state = State(ledger.fields)
    assert ledger.spend(state, np.array([], np.intp), 0, 5).tolist() == []
    assert (ledger.largest(state), len(state)) == (0, 0)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 70), min_size=1, max_size=8))
def test_state_keeps_rows_as_it_grows(sizes):
    """Rows are numbered in order, keep what they hold, and begin at the initial value."""
    state = State(
        {"last": Field("i8", initial=NEVER), "ring": Field("i4", 3), "mean": Field("f8", 0, 7)}
    )
    users = users_of(sum(sizes))
    first = 0
    for size in sizes:
        rows = state.append(users[first : first + size])
        assert rows.tolist() == list(range(first, first + size))
        assert (state.columns["last"][rows] == NEVER).all()
        assert (state.columns["ring"][:, rows] == 0).all()
        assert (state.columns["mean"][rows] == 7).all()
        state.columns["last"][rows], state.columns["ring"][:, rows], state.columns["mean"][rows] = (
            rows,
            [rows, rows + 1, rows + 2],
            -rows,
        )
        first += size
        every = np.arange(first)
        assert len(state) == state.count == first
        assert np.array_equal(state.users[:first], users[:first])
        assert np.array_equal(state.columns["last"][:first], every)
        assert np.array_equal(state.columns["ring"][:, :first], [every, every + 1, every + 2])
        assert np.array_equal(state.columns["mean"][:first], -every)


def test_state_shows_no_values():
    """Its repr goes to logs."""
    state = State({"deviation": Field("i8")}, np.array([[987654321, 987654321]], np.uint64))
    state.columns["deviation"][:] = 987654321
    assert repr(state) == "State(1 users; deviation)"


@pytest.mark.parametrize(
    ("epsilon", "whole"),
    [
        ("0.1", 100_000),
        ("0.3", 300_000),
        ("1", 1_000_000),
        ("0.29", 290_000),
        ("2.675", 2_675_000),
        ("1e-6", 1),
        ("0.0000019", 1),
        ("9e-7", 0),
    ],
)
def test_micro_is_the_decimal_as_written(epsilon, whole):
    """Rounded down, and not by way of the binary fraction."""
    assert micro(float(epsilon)) == whole


@given(st.decimals(min_value="0.000001", max_value=2000, places=6))
def test_micro_keeps_six_decimals(epsilon):
    """Whatever can be written with six decimals is kept to the last one."""
    assert micro(float(epsilon)) == int(epsilon * MICRO)


@given(st.floats(1e-6, 2000), st.integers(1, 100))
def test_shares_never_exceed_the_whole(epsilon, shares):
    """The budget of a run, divided and rounded down, fits into epsilon as it was written."""
    each = micro(epsilon) // shares
    assert Decimal(each * shares) / MICRO <= Decimal(repr(epsilon))


@pytest.mark.parametrize("level", ["w-event", "user"])
def test_guarantee_says_none_where_there_is_none(level):
    """An infinite epsilon is never printed as a number."""
    nothing = Guarantee(level, float("inf"), 0.0, 10, float("inf"), "values", "published")
    assert nothing.describe().startswith("NONE")
    assert nothing.as_json()["epsilon"] is None
    assert nothing.as_json()["influence"] is None
    something = nothing._replace(epsilon=1.0, influence=10)
    assert (
        "epsilon 1 over the first 10 reports of a user"
        if level == "user"
        else "epsilon 1 over any 10 consecutive slots"
    ) in something.describe()
    assert something.as_json()["epsilon"] == 1.0
