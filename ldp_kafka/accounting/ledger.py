"""A privacy filter over a sliding window: per user at most a budget in any run of slots."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting.protocol import check_slot, whole_cost
from ldp_kafka.accounting.state import NEVER, Field, State
from ldp_kafka.errors import ConfigurationError

__all__ = ["Ledger"]

EVERY = slice(None)  # of the rows


class Ledger:
    """Spend or refuse: in every run of ``run`` consecutive slots a user spends at most ``budget``
    micro-epsilon.

    Parameters
    ----------
    run : slots over which a changed window goes on to be visible: window + memory
    budget : whole micro-epsilon in one run
    lag : how many slots back a report may be asked for, public; slots further back are refused

    Notes
    -----
    A charge counts in the slot of its *value*, whenever it is asked for: counted when they arrive,
    values of one run could use the budgets of two. It adds to what the slot has spent already.
    The ledger has a clock for each user, ``ring_end``: the latest slot that was asked for, allowed
    or not. A slot may be ahead of it, or up to ``lag`` behind; what is older is refused, so a
    request far ahead moves the clock, and only makes older slots be refused. The ring holds what
    each of the ``run + lag`` slots up to the clock has spent, at position ``slot % (run + lag)``;
    ``spent`` is the sum of the run that ends at the clock. All integers: nothing drifts.

    No run ever has more than the budget, by induction over charges. A charge to slot s adds its
    cost to the runs that contain s, which end at s .. s + run - 1, and to no others. With ``now``
    the clock, moved to s first where s is later, there are two kinds of them:

    - Some end at now - k with 0 <= k <= now - s <= lag. Each of these is summed, and the charge is
      allowed only if each has room for it. What they hold after s has been charged before: that is
      why the run that ends at s does not say enough.
    - The others end after ``now``. No slot after ``now`` has been charged, so all that they hold
      lies in the run that ends at ``now``, s with it. Costs are not negative: they have no more
      than that run, which is one of the first kind.

    The oldest slot in any of these runs is s - run + 1 >= now - lag - run + 1, the oldest in the
    ring. With one place less it would share its place with ``now``, whose charge takes the place of
    its own, and the run that ends ``lag`` slots back would seem to have spent less than it has. A
    run that begins before the ring does ended more than ``lag`` slots ago: no charge reaches it any
    more.

    Examples
    --------
    >>> ledger = Ledger(run=2, budget=100)
    >>> state = State(ledger.fields, np.zeros((1, 2), np.uint64))
    >>> [bool(ledger.charge(state, np.array([0]), slot, 60)[0]) for slot in (0, 1, 2, 3)]
    [True, False, True, False]
    >>> ledger = Ledger(run=2, budget=100, lag=1)
    >>> state = State(ledger.fields, np.zeros((1, 2), np.uint64))
    >>> [bool(ledger.charge(state, np.array([0]), slot, 60)[0]) for slot in (0, 2, 1, 1, 3)]
    [True, True, False, False, False]
    """

    def __init__(self, run: int, budget: int, lag: int = 0) -> None:
        if not (1 <= run <= 2**16 and 1 <= budget < 2**31):
            raise ConfigurationError(
                "a ledger needs a run of 1..65536 slots and a budget of 1..2**31 - 1 micro-epsilon"
            )
        if not 0 <= lag <= 2**16:
            raise ConfigurationError("a ledger needs a lag of 0..65536 slots")
        self.run, self.budget, self.lag = run, budget, lag
        self.length = run + lag
        """Places of the ring."""

    @property
    def fields(self) -> dict[str, Field]:
        """``ring_end`` is the ledger's clock: the newest slot in the ring."""
        return {
            "ring_end": Field("i8", initial=NEVER),
            "ring": Field("i4", self.length),
            "spent": Field("i4"),
        }

    def charge(
        self, state: State, rows: NDArray[np.intp], slot: int, cost: int | NDArray[np.integer]
    ) -> NDArray[np.bool_]:
        """Add ``cost`` micro-epsilon (one, or one a row) to what distinct ``rows`` have spent in
        ``slot``; True (n,) where the budget of every run allowed it, and nothing is added where
        not, or where the slot is more than ``lag`` behind the user's clock. ValueError: see
        `BudgetLedger.charge`.
        """
        price = whole_cost(cost)
        check_slot(slot)
        ends, ring, spent = (state.columns[name] for name in ("ring_end", "ring", "spent"))
        end, total, here = ends[rows], spent[rows], ring[slot % self.length]
        gap = slot - end
        gap[end == NEVER] = 1  # an empty ring has nothing to forget
        self._advance(ring, rows, slot, gap, total)
        if gap.min(initial=1) > 0:  # the slot is new to everyone, so one run says all
            allowed: NDArray[np.bool_] = total <= self.budget - price
            charged = allowed * price
            here[rows] = charged
            total += charged
            spent[rows] = total
            ends[rows] = slot
            return allowed
        ahead = gap > 0
        now = np.where(ahead, slot, end)
        behind = now - slot
        allowed = self._worst(ring, rows, now, behind, total) <= self.budget - price
        allowed &= behind <= self.lag
        charged = allowed * price
        here[rows] = np.where(ahead, 0, here[rows]) + charged
        total += charged * (behind < self.run)
        spent[rows] = total
        ends[rows] = now
        return allowed

    def _advance(
        self,
        ring: NDArray[np.int32],
        rows: NDArray[np.intp],
        slot: int,
        gap: NDArray[np.int64],
        total: NDArray[np.int32],
    ) -> None:
        """Move the clock of the rows for which ``slot`` is ``gap`` > 0 ahead of it: ``total``
        becomes the sum of the run that ends at ``slot``, and the slots that were passed over are
        empty. The place of ``slot`` itself is the caller's to write.
        """
        least, most = int(gap.min(initial=1)), int(gap.max(initial=1))
        if most > self.run:
            total[gap > self.run] = 0
        for back in range(min(most, self.length) - 1, -1, -1):  # slot by slot
            passed = EVERY if back < least else np.flatnonzero(gap > back)
            leaving = (
                passed if most <= self.run else np.flatnonzero((gap > back) & (gap <= self.run))
            )
            total[leaving] -= ring[(slot - back - self.run) % self.length].take(rows[leaving])
            if back:
                ring[(slot - back) % self.length][rows[passed]] = 0

    def _worst(
        self,
        ring: NDArray[np.int32],
        rows: NDArray[np.intp],
        now: NDArray[np.int64],
        behind: NDArray[np.int64],
        total: NDArray[np.int32],
    ) -> NDArray[np.int32]:
        """The most that any run has spent that contains the slot ``behind`` the clock ``now``; of
        the run that ends there it is ``total``.
        """
        worst = np.where(behind < self.run, total, 0)
        late = np.flatnonzero((behind > 0) & (behind <= self.lag))
        if not len(late):
            return worst
        who, end, of, most, sums = rows[late], now[late], behind[late], worst[late], total[late]
        for k in range(1, int(of.max()) + 1):  # the run that ends k slots before the clock
            sums -= ring[(end - k + 1) % self.length, who]  # first: budgets go up to 2**31 - 1
            sums += ring[(end - k + 1 - self.run) % self.length, who]
            np.maximum(most, sums, out=most, where=(of >= k) & (of - k < self.run))
        worst[late] = most
        return worst

    def audit(self, state: State) -> tuple[int, int]:
        """Users who have more than the budget in any run that the ring holds, and users whose
        entries contradict each other: ``spent`` is not the sum of the last run, an entry is
        negative, or there are entries before the first charge.
        """
        count = state.count
        ring = state.columns["ring"][:, :count].astype(np.int64)
        ends, spent = state.columns["ring_end"][:count], state.columns["spent"][:count]
        users = np.arange(count)

        def at(back: int) -> NDArray[Any]:
            return np.asarray(ring[(ends - back) % self.length, users])

        total = ring.sum(axis=0)
        for back in range(self.run, self.length):
            total -= at(back)
        torn = (total != spent) | (ring < 0).any(axis=0)
        torn |= (ends == NEVER) & (ring != 0).any(axis=0)
        over = total > self.budget
        for back in range(self.lag):
            total += at(back + self.run) - at(back)
            over |= total > self.budget
        return int(np.count_nonzero(over)), int(np.count_nonzero(torn))

    def largest(self, state: State) -> int:
        """The most that any user has in the run that ends at its clock, in micro-epsilon."""
        return int(state.columns["spent"][: state.count].max(initial=0))
