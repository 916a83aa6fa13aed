"""Faults of the ledger: with each some order of charges overspends, or is refused what fits."""

from __future__ import annotations

import numpy as np

from ldp_kafka.accounting import NEVER, Ledger
from tests.mutants import breaks


@breaks("overspent", of=Ledger)
class RingOneShort(Ledger):
    """The oldest slot of the oldest run shares its place with the newest slot."""

    def __init__(self, run, budget, lag=0):
        super().__init__(run, budget, lag)
        self.length = run + lag - 1


@breaks("overspent", of=Ledger)
class ChecksTheRunThatEndsThere(Ledger):
    """As if nothing came later: slots after the one charged do not count."""

    def _worst(self, ring, rows, now, behind, total):
        sums = [ring[(now - behind - back) % self.length, rows] for back in range(self.run)]
        return np.where(behind > 0, sum(sums), total)


@breaks("overspent", of=Ledger)
class ChecksTheRunThatEndsNow(Ledger):
    """As if the slot charged were the last one."""

    def _worst(self, ring, rows, now, behind, total):
        return total


@breaks("overspent", of=Ledger)
class ForgetsTheRunsBetween(Ledger):
    """Looks at the two ends, of the slot and of the clock, and at nothing between."""

    def _worst(self, ring, rows, now, behind, total):
        there = ChecksTheRunThatEndsThere._worst(self, ring, rows, now, behind, total)
        return np.maximum(there, np.where(behind < self.run, total, 0))


@breaks("overspent", of=Ledger)
class BillsAtArrival(Ledger):
    """Charges the clock, not the slot of the value."""

    def charge(self, state, rows, slot, cost):
        ends = state.columns["ring_end"][rows]
        allowed = np.zeros(len(rows), bool)
        for at in np.unique(np.maximum(ends, slot)).tolist():
            here = (np.maximum(ends, slot) == at) & (at - slot <= self.lag)
            allowed[here] = super().charge(state, rows[here], at, cost)
        return allowed


@breaks("overspent", of=Ledger)
class TakesOneSlotMore(Ledger):
    """A slot one further back than the lag."""

    def charge(self, state, rows, slot, cost):
        self.lag += 1
        try:
            return super().charge(state, rows, slot, cost)
        finally:
            self.lag -= 1


@breaks("overspent", of=Ledger)
class KeepsTheLatestCharge(Ledger):
    """A second charge to a slot takes the place of the first."""

    def charge(self, state, rows, slot, cost):
        before = state.columns["ring"][slot % self.length][rows]
        mine = (state.columns["ring_end"][rows] == slot) & (before > 0)
        state.columns["ring"][slot % self.length][rows[mine]] = 0
        state.columns["spent"][rows[mine]] -= before[mine]
        return super().charge(state, rows, slot, cost)


@breaks("overspent", of=Ledger)
class ForgetsItsClock(Ledger):
    """Charging an earlier slot sets the clock back."""

    def charge(self, state, rows, slot, cost):
        allowed = super().charge(state, rows, slot, cost)
        state.columns["ring_end"][rows] = slot
        return allowed


@breaks("overspent", of=Ledger)
class SumsLateChargesNowhere(Ledger):
    """A late charge is written into the ring, and the running sum does not know."""

    def charge(self, state, rows, slot, cost):
        late = state.columns["ring_end"][rows] > slot
        before = state.columns["spent"][rows]
        allowed = super().charge(state, rows, slot, cost)
        state.columns["spent"][rows[late]] = before[late]
        return allowed


@breaks("overspent", of=Ledger)
class ClearsNothing(Ledger):
    """What was spent a ring ago stays in the places of slots that were passed over, and is taken
    off the sum when these leave the run.
    """

    def _advance(self, ring, rows, slot, gap, total):
        kept = ring.copy()
        super()._advance(ring, rows, slot, gap, total)
        for back in range(1, self.length):
            ring[(slot - back) % self.length] = kept[(slot - back) % self.length]


@breaks("refused", of=Ledger)
class SumsEveryLateCharge(Ledger):
    """A late charge counts in the run that ends at the clock, even where its slot is not in it."""

    def charge(self, state, rows, slot, cost):
        ends = state.columns["ring_end"][rows]
        outside = (ends != NEVER) & (ends - slot >= self.run)
        allowed = super().charge(state, rows, slot, cost)
        state.columns["spent"][rows] += (outside & allowed) * np.int32(cost)
        return allowed


@breaks("refused", of=Ledger)
class ChecksRunsWithoutTheSlot(Ledger):
    """Every run in the ring must have room, also those that the charge does not touch."""

    def _worst(self, ring, rows, now, behind, total):
        worst = total
        for k in range(1, self.lag + 1):
            ends = [ring[(now - k - back) % self.length, rows] for back in range(self.run)]
            worst = np.maximum(worst, sum(ends))
        return worst
