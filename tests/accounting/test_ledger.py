"""The ledger against a slow exact twin."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldp_kafka.accounting import MICRO, NEVER, Field, Guarantee, Ledger, State, micro
from ldp_kafka.errors import ConfigurationError
from tests.accounting.orders import COSTS, explored, users_of
from tests.cases import cases
from tests.depth import depth
from tests.mutants.ledgers import RingOneShort

LARGEST = 2**31 - 1


class Twin:
    """What each user spent in each slot, for ever; a charge is allowed where every run that
    contains its slot has room for it, unless the slot is older than ``lag``.
    """

    def __init__(self, run, budget, lag=0):
        self.run, self.budget, self.lag, self.spent, self.clock = run, budget, lag, {}, {}

    def held(self, user, end):
        """What the run that ends there has spent."""
        return sum(
            cost for at, cost in self.spent.get(user, {}).items() if end - self.run < at <= end
        )

    def current(self, user):
        return self.held(user, self.clock[user]) if user in self.clock else 0

    def charge(self, user, slot, cost):
        clock = self.clock[user] = max(self.clock.get(user, slot), slot)
        allowed = clock - slot <= self.lag and all(
            self.held(user, end) + cost <= self.budget for end in range(slot, slot + self.run)
        )
        if allowed:
            by = self.spent.setdefault(user, {})
            by[slot] = by.get(slot, 0) + cost
        return allowed

    def within(self):
        """Whether every run of every user has at most the budget."""
        return all(
            self.held(user, at + ahead) <= self.budget
            for user, by in self.spent.items()
            for at in by
            for ahead in range(self.run)
        )


GAPS = (
    st.integers(-3, 3) | st.integers(1, 3) | st.integers(-6, 20) | st.sampled_from([2**20, 2**40])
)
STARTS = st.sampled_from([0, 1, 5, 1_700_000_000])


@settings(max_examples=depth(120, 300))
@given(
    st.integers(1, 6),
    st.sampled_from([0, 0, 1, 2, 3, 7]),
    st.sampled_from([1, 7, 100, LARGEST]),
    STARTS,
    st.lists(GAPS, min_size=1, max_size=25),
    st.booleans(),
    st.data(),
)
def test_ledger_is_its_twin(run, lag, budget, slot, gaps, one_price, data):
    """Users that come and go, slots ahead and behind with gaps of any size, one cost or one a row:
    the same decisions, and never a run beyond the budget.
    """
    users = 4
    ledger, twin = Ledger(run, budget, lag), Twin(run, budget, lag)
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
            twin.charge(user, slot, price)
            for user, price in zip(
                rows.tolist(), np.broadcast_to(cost, rows.shape).tolist(), strict=True
            )
        ]
        assert ledger.charge(state, rows, slot, cost).tolist() == expected
        current = [twin.current(user) for user in range(users)]
        assert state.columns["spent"][:users].tolist() == current
        assert ledger.largest(state) == max(current)
        assert ledger.audit(state) == (0, 0)
    assert twin.within()


SHAPES = [(run, lag) for run in (1, 2, 3) for lag in (0, 1, 2, 3)]


@pytest.mark.parametrize("budget", COSTS)
@cases(("run", "lag"), SHAPES)
def test_no_order_of_charges_overspends(run, lag, budget):
    """All of them, over more slots than the ring has: no run ever has more than the budget, nothing
    is refused that fits, and the audit agrees.
    """
    wrong, met = explored(Ledger(run, budget, lag), COSTS[budget], run + lag + 2)
    assert wrong == set()
    assert met > 2 ** (run + lag)


@cases("budget", [1, 2])
@cases(("run", "lag"), [shape for shape in SHAPES if sum(shape) > 1])
def test_a_ring_one_place_shorter_overspends(run, lag, budget):
    """Whatever the run and the lag: run + lag places, and none less."""
    assert "overspent" in explored(RingOneShort(run, budget, lag), COSTS[budget], run + lag + 2)[0]


def test_sums_do_not_overflow():
    """Budgets go up to 2**31 - 1: nothing may be added before it is compared."""
    ledger = Ledger(3, LARGEST)
    state = State(ledger.fields, users_of(1))
    row = np.array([0])
    assert [
        bool(ledger.charge(state, row, slot, cost)[0])
        for slot, cost in [(0, LARGEST), (1, LARGEST), (2, 1), (3, LARGEST - 1), (4, 2), (5, 1)]
    ] == [True, False, False, True, False, True]
    assert ledger.largest(state) == LARGEST


@cases(
    ("run", "budget", "lag"),
    [
        (0, 1, 0),
        (-1, 1, 0),
        (2**16 + 1, 1, 0),
        (1, 0, 0),
        (1, -1, 0),
        (1, 2**31, 0),
        (1, 1, -1),
        (1, 1, 2**16 + 1),
    ],
)
def test_limits(run, budget, lag):
    """What does not fit its integers is refused at construction."""
    with pytest.raises(ConfigurationError):
        Ledger(run, budget, lag)
    Ledger(2**16, LARGEST, 2**16)


def test_no_lag_no_place():
    """Without a lag the ring is as long as the run: nothing is paid for what is not asked for."""
    assert Ledger(5, 100).fields["ring"] == Field("i4", 5)
    assert Ledger(5, 100, 2).fields["ring"] == Field("i4", 7)


def test_what_is_too_old_is_refused():
    """A row at a time: the clock is each user's own, and nothing is charged or moved."""
    ledger = Ledger(2, 100, lag=1)
    state = State(ledger.fields, users_of(3))
    ledger.charge(state, np.array([0]), 9, 10)
    ledger.charge(state, np.array([1]), 8, 10)
    before = state.columns["ring"][:, 0].copy()
    assert ledger.charge(state, np.arange(3), 7, 5).tolist() == [False, True, True]
    assert state.columns["ring_end"][:3].tolist() == [9, 8, 7]
    assert state.columns["spent"][:3].tolist() == [10, 15, 5]
    assert np.array_equal(state.columns["ring"][:, 0], before)


def test_a_late_charge_at_the_largest_budget():
    """The sum of one run is taken from that of another: nothing may be added before something is
    taken off.
    """
    ledger = Ledger(2, LARGEST, lag=2)
    state = State(ledger.fields, users_of(1))
    row = np.array([0])
    charges = [(0, LARGEST), (2, LARGEST - 1), (3, 1), (1, 1), (1, 0), (4, LARGEST - 1), (2, 1)]
    allowed = [bool(ledger.charge(state, row, slot, cost)[0]) for slot, cost in charges]
    assert allowed == [True, True, True, False, True, True, False]
    assert ledger.audit(state) == (0, 0)


def test_the_audit_looks_at_every_run():
    """Also at those that ended before the clock, as far back as the ring goes."""
    ledger = Ledger(2, 100, lag=2)
    for slot, wrong in ((1, (1, 0)), (2, (1, 0)), (3, (1, 1)), (4, (1, 1))):
        state = State(ledger.fields, users_of(2))
        for charged in range(5):
            ledger.charge(state, np.arange(2), charged, 50)
        assert ledger.audit(state) == (0, 0)
        state.columns["ring"][slot % ledger.length, 1] += 1
        assert ledger.audit(state) == wrong, slot
    state.columns["spent"][0] -= 1
    assert ledger.audit(state) == (1, 2)
    fresh = State(ledger.fields, users_of(1))
    fresh.columns["ring"][:, 0] = [0, 5, 0, 0]
    fresh.columns["spent"][0] = 5
    assert ledger.audit(fresh) == (0, 1), "entries, and no slot that they could be of"


def test_a_refused_charge_is_free():
    """Refused is not charged, not even in part."""
    ledger = Ledger(2, 10)
    state = State(ledger.fields, users_of(2))
    both = np.array([0, 1])
    assert ledger.charge(state, both, 0, np.array([10, 11], np.int32)).tolist() == [True, False]
    assert ledger.charge(state, both, 1, np.array([1, 10], np.int32)).tolist() == [False, True]
    assert ledger.charge(state, both, 2, np.array([10, 0], np.int32)).tolist() == [True, True]


def test_nobody_is_charged_for_nothing():
    """A batch without users is a batch."""
    ledger = Ledger(2, 10)
    state = State(ledger.fields)
    assert ledger.charge(state, np.array([], np.intp), 0, 5).tolist() == []
    assert (ledger.largest(state), len(state)) == (0, 0)


@settings(max_examples=50)
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


@cases(
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
