"""The exact law of what one user's edge answers to any sequence of requests.

A coordinator that adapts its requests to the reports follows, for each outcome, one sequence of
them; the chances of the reports multiply along it. So the worst loss over all sequences is that of
every coordinator, hostile and adaptive ones too.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np

import ldp_kafka as lk
from ldp_kafka.checks.deal import Deal
from ldp_kafka.checks.enumeration import Outcomes
from ldp_kafka.checks.tiny import narrow
from ldp_kafka.methods.batch import Batch
from ldp_kafka.methods.protocols import Responder
from ldp_kafka.methods.protocols.oracle import Oracle
from ldp_kafka.methods.protocols.request import MEETING, SELECTION, Request
from ldp_kafka.methods.step import SENT

__all__ = ["Look", "Selecting", "hostile_plans", "made", "play", "worst"]

EPSILON = 1.0
BUDGET = 1_000_000


class Look(NamedTuple):
    """The first phase of a slot; the other entries of a plan are requests."""

    slot: int


class _Words:
    """Words of a selection: the same for every user."""

    def __init__(self, word):
        self.word = word

    def words(self, n, k=1, *, first=0):
        return np.full((n, k), self.word, np.uint32)


class Selecting(Deal):
    """A deal that gives out words for selections: half of the way up in even slots, else 0; and
    ``meeting`` for what users who are met late were selected for before.
    """

    def __init__(self, digits, hashed=0, meeting=0):
        super().__init__(digits, hashed)
        self.meeting = meeting

    def at(self, users, slot, phase, bound):
        if phase == SELECTION:
            return _Words(2**31 if slot % 2 == 0 else 0)
        if phase == MEETING:
            return _Words(self.meeting)
        return super().at(users, slot, phase, bound)


def made(name, window, kind=None):
    """The responder of a protocol of two categories over tiny mechanisms."""
    protocol = lk.protocol(name, epsilon=EPSILON, window=window, categories=2, oracle="grr")
    protocol.terms = replace(protocol.terms, oracle=Oracle(protocol.values, narrow))
    return (kind or Responder)(protocol)


def play(responder, plan, slots, *, hashed=0, present=None, meeting=0):
    """The law of all answers to a plan, for all streams of ``slots`` binary values of one user,
    whose digest begins with ``hashed``; ``present`` says in which slots there is a value, and
    ``meeting`` is the word of a user who is met late.
    """
    streams = np.array(list(product((0, 1), repeat=slots)), np.int64)
    turns = len(plan)
    digits = np.indices((2,) * turns, np.intp).reshape(turns, -1).T
    deal = Selecting(np.tile(digits, (len(streams), 1)), hashed, meeting)
    values = np.repeat(streams, len(digits), axis=0)
    here = np.ones(slots, bool) if present is None else np.array(present, bool)
    rows = np.arange(len(values))
    state = responder.state(deal.digests([str(row) for row in rows]))
    history, seen = responder.history(), []
    for each in plan:
        codes, there = values[:, each.slot], np.full(len(values), here[each.slot])
        if isinstance(each, Look):
            step = responder.first(state, Batch(rows, each.slot, codes, deal, there), history)
        else:
            step = responder.second(
                state, Batch(rows, each.slot, codes, deal, there), each, history
            )
            if responder.valid(each):
                history.add(each)
        seen += [step.status.astype(np.int64), np.where(step.status == SENT, step.answers, -1)]
    shape = (len(streams), len(digits))
    unused = np.arange(turns) >= deal.taken[:, None]
    real = ~(unused & (deal.digits != 0)).any(1).reshape(shape)
    factors = deal.factors.reshape(*shape, -1)
    assert np.abs(np.where(real, factors.prod(2), 0).sum(1) - 1).max() < 1e-9
    published = np.stack(seen, axis=1).reshape(*shape, -1)
    return Outcomes(streams, factors, real, published, deal.draws)


def hostile_plans(name, window, slots, delay, *, backwards=False, twice=False, fewer=False):
    """Every plan in which the first phases come in their order, and each slot has a request or
    none, of one of a few costs or fractions, up to ``delay`` slots after its own. ``backwards``:
    requests of one moment come latest slot first; ``twice``: each comes again, for half of it;
    ``fewer``: of each slot all is asked that can be, or nothing.
    """
    divided = name in ("lpd", "lpa")
    costs = (BUDGET,) if divided else (BUDGET // 2, BUDGET // 4, 3 * BUDGET // 4)
    fractions = ((1, 1), (1, max(window, 2))) if divided else ((1, 1),)
    if fewer:
        costs, fractions = costs[:1], fractions[:1]
    asked = [None, *product(costs, fractions, range(delay + 1))]
    for choice in product(asked, repeat=slots):
        plan = []
        for now in range(slots):
            plan.append(Look(now))
            due = [
                Request(slot, one[0], *one[1])
                for slot, one in enumerate(choice)
                if one is not None and slot + one[2] == now
            ]
            for request in reversed(due) if backwards else due:
                plan.append(request)
                if twice:
                    plan.append(request._replace(cost=max(request.cost // 2, 1)))
        yield plan


def worst(name, window, slots, delay, kind=None, **options):
    """The largest loss over all hostile plans, and for users of every turn."""
    turns = range(2 * window) if name in ("lpd", "lpa", "lpu") else (0,)
    responder = made(name, window, kind)
    return max(
        play(responder, plan, slots, hashed=hashed).loss(window)
        for hashed in turns
        for plan in hostile_plans(name, window, slots, delay, **options)
    )
