"""Responders that are broken in one way each: tests must find every one."""

from __future__ import annotations

import numpy as np

from ldp_kafka.accounting import Ledger
from ldp_kafka.methods.protocols import Responder
from ldp_kafka.methods.protocols.ledgers import Ledgers
from ldp_kafka.methods.protocols.request import FIRST, SECOND
from ldp_kafka.methods.protocols.selection import Selection
from ldp_kafka.methods.protocols.turns import in_second_half

__all__ = [
    "AmongTheFree",
    "AtArrival",
    "BilledOnce",
    "FreeWhenMet",
    "LateRequestsForgotten",
    "OnlyTheRunThatEnds",
    "PastForgotten",
    "SameUse",
    "Unordered",
    "Unreserved",
]

LAG = 2


class Unordered(Responder):
    """Answers every request, in any order and twice; ledgers with a lag bill all of them."""

    kind_of_ledger = Ledger

    def __init__(self, protocol):
        super().__init__(protocol)
        terms = self.terms
        if terms.population:
            shared = self.kind_of_ledger(terms.window, terms.budget, LAG)
            self.ledgers = Ledgers(shared, shared)
        else:
            reserved = Ledger(terms.window, terms.window * terms.first)
            self.ledgers = Ledgers(reserved, self.kind_of_ledger(terms.window, terms.second, LAG))

    def fresh(self, state, rows, slot):
        return np.ones(len(rows), bool)


class _RunThatEnds(Ledger):
    """Looks at the run that ends at the slot, and not at the later ones that contain it."""

    def _worst(self, ring, rows, now, behind, total):
        sums = np.zeros(len(rows), np.int32)
        for i, (row, at) in enumerate(zip(rows, now - behind, strict=True)):
            sums[i] = sum(
                ring[slot % self.length, row]
                for slot in range(int(at) - self.run + 1, int(at) + 1)
                if slot > now[i] - self.length
            )
        return sums


class OnlyTheRunThatEnds(Unordered):
    """Bills a late answer where one run has room for it."""

    kind_of_ledger = _RunThatEnds


class BilledOnce(Unordered):
    """Answers twice and bills once."""

    def charge(self, state, rows, slot, cost, phase):
        if phase == SECOND and self.__dict__.setdefault("billed", {}).get(id(state)) == slot:
            return np.ones(len(rows), bool)
        self.billed = {id(state): slot} if phase == SECOND else self.__dict__.get("billed", {})
        return super().charge(state, rows, slot, cost, phase)


class AtArrival(Responder):
    """Bills an answer in the slot in which it is given."""

    def charge(self, state, rows, slot, cost, phase):
        now = int(state.columns["last"][0])
        return super().charge(state, rows, max(slot, now), cost, phase)


class Unreserved(Responder):
    """One ledger of the whole budget for both phases; the first is answered in any case, and billed
    where there is room.
    """

    def __init__(self, protocol):
        super().__init__(protocol)
        terms = self.terms
        shared = Ledger(terms.window, terms.budget, LAG)
        self.ledgers = Ledgers(shared, shared)

    def valid(self, request):
        return request.cost <= self.terms.budget

    def charge(self, state, rows, slot, cost, phase):
        allowed = super().charge(state, rows, slot, cost, phase)
        return np.ones(len(rows), bool) if phase == FIRST else allowed


class AmongTheFree(Responder):
    """Selects among those whose ledger has room, and keeps no record of who was selected."""

    def select(self, state, rows, request, history, randomness):
        found = in_second_half(state.digests(rows))
        free = state.columns["ring_end"].take(rows) <= request.slot - self.terms.window
        return found & free


class SameUse(Unordered):
    """Draws every report from the same words, whatever it costs and in which phase."""

    def _use(self, phase, cost):
        return b"one use for all".ljust(32)


class FreeWhenMet(Responder):
    """Takes users who are met late for free, whatever was asked before."""

    def __init__(self, protocol):
        super().__init__(protocol)
        terms = self.terms
        self.selection = _AlwaysFree(terms)


class PastForgotten(Responder):
    """Looks up what is asked after users are met, and not what was asked before."""

    def __init__(self, protocol):
        super().__init__(protocol)
        terms = self.terms
        self.selection = _NoPast(terms)


class LateRequestsForgotten(Responder):
    """Looks up what was asked before users are met, and no request that comes later than that."""

    def __init__(self, protocol):
        super().__init__(protocol)
        terms = self.terms
        self.selection = _NoLateRequests(terms)


class _NoPast(Selection):
    def meet(self, state, rows, slot, history, randomness):
        pass


class _NoLateRequests(Selection):
    def _select_later(self, state, rows, request, history, randomness):
        pass


class _AlwaysFree(_NoPast, _NoLateRequests):
    pass
