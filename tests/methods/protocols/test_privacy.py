"""What a user's answers give away, whatever a coordinator asks: by enumeration, never by trust."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.checks.enumeration import Outcomes
from ldp_kafka.checks.sources import KEY
from ldp_kafka.methods.batch import Batch
from ldp_kafka.methods.protocols import Responder
from ldp_kafka.methods.protocols.request import FIRST, SECOND, SELECTION, Request
from ldp_kafka.methods.step import REFUSED, SENT
from tests.cases import cases
from tests.depth import LONG, depth
from tests.methods.protocols.hostile import (
    BUDGET,
    EPSILON,
    Look,
    Selecting,
    hostile_plans,
    made,
    play,
    worst,
)
from tests.methods.protocols.mutants import (
    AmongTheFree,
    AtArrival,
    BilledOnce,
    OnlyTheRunThatEnds,
    SameUse,
    Unordered,
    Unreserved,
)

ADAPTIVE = ["lbd", "lba", "lpd", "lpa"]
EXACT = 1e-12  # what the logarithms of the exact ratios are added up to


@pytest.mark.parametrize("name", ["lbd", "lpd", "lpa"])
@pytest.mark.parametrize("delay", [0, 1])
def test_no_coordinator_learns_more_than_epsilon(name, delay):
    """Of any run of two slots, from any sequence of requests, answered late as well; and some
    coordinator learns all of it.
    """
    assert worst(name, 2, 3, delay) == pytest.approx(EPSILON, abs=EXACT)


@cases("name", ["lbd", "lpa"])
@cases(("backwards", "twice"), [(True, False), (False, True)])
def test_disorder_and_repeats_change_nothing(name, backwards, twice):
    found = (
        worst(name, 2, 3, 1, backwards=backwards, twice=twice)
        if LONG
        else worst(name, 2, 2, 1, backwards=backwards, twice=twice)
    )
    assert found <= EPSILON + EXACT


@cases("name", depth(["lbd", "lpa"], ADAPTIVE))
def test_no_coordinator_learns_more_in_longer_windows(name):
    assert worst(name, 3, depth(3, 4), depth(1, 2), fewer=True) <= EPSILON + EXACT


@cases("name", ["lbd", "lpa"])
def test_no_coordinator_learns_more_from_answers_two_slots_late(name):
    assert worst(name, 2, 3, 2, fewer=True) <= EPSILON + EXACT


@cases("name", ["lbu", "lsp", "lpu"])
@cases("window", [1, 2, 3])
def test_protocols_without_requests_keep_to_epsilon(name, window):
    slots = window + 2
    plan = [Look(slot) for slot in range(slots)]
    for hashed in range(window if name == "lpu" else 1):
        loss = play(made(name, window), plan, slots, hashed=hashed).loss(window)
        assert loss <= EPSILON + EXACT
        assert loss >= EPSILON / 1.5, "the budget is hardly used"


@cases("name", ["lbd", "lpa"])
def test_who_is_silent_in_some_slots_gains_and_loses_nothing(name):
    """Presence is public here; values are not, whatever it is."""
    plans = list(hostile_plans(name, 2, 3, 0))
    for present in product((True, False), repeat=3):
        for hashed in range(4 if name == "lpa" else 1):
            for plan in plans[:: depth(3, 1)]:
                outcomes = play(made(name, 2), plan, 3, hashed=hashed, present=present)
                assert outcomes.loss(2) <= EPSILON + EXACT


@cases("name", ["lbd", "lpa"])
@cases("late", [0, 1, 2])
def test_who_is_met_late_loses_nothing_whatever_its_record_is(name, late):
    """The first value is of the second or third slot; requests come up to two slots after their
    own, before and after users are met; records of the past are drawn low, in the middle and high.
    """
    plans = list(hostile_plans(name, 2, 3, late, fewer=late == 2))
    for first, meeting in product((1, 2), (0, 2**31, 2**32 - 1) if name == "lpa" else (0,)):
        present = np.arange(3) >= first
        for hashed in (1, 3) if name == "lpa" else (0,):
            for plan in plans[:: depth(7, 1)]:
                outcomes = play(
                    made(name, 2), plan, 3, hashed=hashed, present=present, meeting=meeting
                )
                assert outcomes.loss(2) <= EPSILON + EXACT


def adaptive_loss(responder, hashed=0):
    """The largest loss over all outcomes where what is asked next depends on all answers so far:
    by a whole budget where they were unequal, else by a part of it or not at all.
    """
    streams = np.array(list(product((0, 1), repeat=3)), np.int64)
    here, rows = np.ones(len(streams), bool), np.arange(len(streams))
    factors, told, real = [], [], []
    for digits in product((0, 1), repeat=6):
        deal = Selecting(np.tile(np.array(digits, np.intp), (len(streams), 1)), hashed)
        state = responder.state(deal.digests([str(row) for row in rows]))
        heard, history = [], responder.history()
        for slot in range(3):
            step = responder.first(state, Batch(rows, slot, streams[:, slot], deal, here), history)
            heard += step.answers[:1].tolist() * bool(step.status[0] == SENT)
            cost = BUDGET // 2 if sum(heard) % 2 else BUDGET // 4
            if responder.terms.population:
                cost = BUDGET
            for late in {slot, max(slot - sum(heard), 0)}:
                request = Request(late, cost)
                step = responder.second(
                    state, Batch(rows, request.slot, streams[:, late], deal, here), request, history
                )
                history.add(request)
                assert len(set(step.status.tolist())) == 1, "a status depends on values"
                heard += step.answers[:1].tolist() * bool(step.status[0] == SENT)
        factors.append(deal.factors)
        told.append(np.tile(np.pad(heard, (0, 6 - len(heard)), constant_values=-1), (8, 1)))
        real.append(deal.taken >= np.max(np.flatnonzero(digits), initial=-1) + 1)
    return Outcomes(streams, *(np.stack(each, axis=1) for each in (factors, real, told)), []).loss(
        2
    )


@cases("name", ADAPTIVE)
def test_requests_that_follow_from_reports_learn_no_more(name):
    turns = range(4) if name in ("lpd", "lpa") else (0,)
    found = [adaptive_loss(made(name, 2), hashed) for hashed in turns]
    assert EPSILON / 2 <= max(found) <= EPSILON + EXACT


@cases("name", ["lbd", "lpa"])
def test_ledgers_keep_the_budget_without_the_order_of_requests(name):
    """Even if requests came in any order and twice, every run that contains a slot is looked at."""
    for backwards, twice in ((True, False), (False, True)):
        found = worst(name, 2, 2, 1, Unordered, backwards=backwards, twice=twice)
        assert found <= EPSILON + EXACT


@cases(
    ("mutant", "name", "options"),
    [
        (OnlyTheRunThatEnds, "lbd", {"backwards": True}),
        (BilledOnce, "lbd", {"twice": True}),
        (AtArrival, "lbd", {}),
        (Unreserved, "lbd", {}),
    ],
)
def test_broken_bills_are_found(mutant, name, options):
    """The exact loss of each is above epsilon."""
    assert worst(name, 2, 3, 1, mutant, **options) > 1.2 * EPSILON


def statuses(kind, present):
    """Whether user after user of half B was asked in three slots, given who had values before."""
    protocol = lk.protocol("lpa", epsilon=EPSILON, window=2, categories=2, oracle="grr")
    responder, source = kind(protocol), lk.randomness.keyed(KEY)
    users = source.digests([f"u{i}" for i in range(200)])
    state, rows = responder.state(users), np.arange(200)
    codes, seen, history = np.zeros(200, np.int64), [], responder.history()
    for slot in range(4):
        here = np.ones(200, bool) if slot == 3 else present[:, slot]
        request = Request(slot, BUDGET, 1, 2)
        responder.first(state, Batch(rows, slot, codes, source, here), history)
        step = responder.second(
            state, Batch(rows, request.slot, codes, source, here), request, history
        )
        history.add(request)
        seen.append(step.status)
    return seen[-1]


def presence_is_told(kind):
    some = np.random.default_rng(3).random((200, 3)) < 0.5
    some[:, 0] = True  # all are met in one slot: their records of the time before are the same
    return (statuses(kind, np.ones((200, 3), bool)) != statuses(kind, some)).any()


def test_selection_does_not_look_at_presence():
    """Of users that have been met; and a selection among those whose ledgers are free does, which
    is what biases it.
    """
    assert not presence_is_told(Responder)
    assert presence_is_told(AmongTheFree)


class Contexts:
    """A source that notes the context of all words that are drawn from another one."""

    private = repeats = True

    def __init__(self, source, noted, use=b"", context=()):
        self.source, self.noted, self.use, self.context = source, noted, use, context

    def within(self, context):
        return Contexts(self.source.within(context), self.noted, self.use + context, self.context)

    def at(self, users, slot, phase, bound):
        source = self.source.at(users, slot, phase, bound)
        return Contexts(source, self.noted, self.use, (slot, phase, bound[:, 1:].tolist()))

    def digests(self, users):
        return self.source.digests(users)

    def words(self, n, k=1, *, first=0):
        words = self.source.words(n, k, first=first)
        self.noted.append((self.use, *self.context, words[:, 0].tolist()))
        return words


def contexts(kind, name="lbd"):
    """What the noise of one user's answers to one slot's two phases and two budgets is bound to."""
    protocol = lk.protocol(name, epsilon=EPSILON, window=1, categories=2, oracle="grr")
    responder, noted = kind(protocol), []
    source = Contexts(lk.randomness.keyed(KEY), noted)
    state, rows = responder.state(source.digests(["a"])), np.zeros(1, np.intp)
    codes, here = np.zeros(1, np.int64), np.ones(1, bool)
    history = responder.history()
    responder.first(state, Batch(rows, 5, codes, source, here), history)
    for cost in (BUDGET // 4, BUDGET // 8):
        responder.second(state, Batch(rows, 5, codes, source, here), Request(5, cost), history)
    return noted


def test_noise_is_bound_to_phase_and_budget():
    """Two budgets on the same words would tell the value; so would two phases."""
    noted = contexts(Unordered)
    assert len(noted) == 3
    for a, b in pairwise(noted):
        assert a[0] != b[0] and a[3] != b[3] and a[4] != b[4]
    assert [one[2] for one in noted] == [FIRST, SECOND, SECOND]
    assert len({FIRST, SECOND, SELECTION}) == 3
    assert len({one[0][:32] for one in contexts(SameUse)}) == 1, "the mutant is one"
    assert len({one[0][:32] for one in noted}) == 3


def test_a_slot_has_one_answer_a_phase():
    """The first valid request counts, whatever another one costs; invalid ones use up nothing."""
    responder, source = made("lbd", 2), Selecting(np.zeros((1, 9), np.intp))
    state, rows = responder.state(source.digests(["0"])), np.zeros(1, np.intp)
    codes, here, history = np.zeros(1, np.int64), np.ones(1, bool), responder.history()
    responder.first(state, Batch(rows, 1, codes, source, here), history)
    for request, status in [
        (Request(4, BUDGET), REFUSED),  # more than the second phase has
        (Request(4, 0), REFUSED),
        (Request(4, BUDGET // 4, 1, 2), REFUSED),  # all or none where the budget is divided
        (Request(4, BUDGET // 4), SENT),
        (Request(4, BUDGET // 4), REFUSED),
        (Request(4, BUDGET // 8), REFUSED),
        (Request(3, BUDGET // 8), REFUSED),  # a slot before the last one
        (Request(5, BUDGET // 2), REFUSED),  # the window has half of that left
        (Request(6, BUDGET // 2), SENT),
    ]:
        found = responder.second(
            state, Batch(rows, request.slot, codes, source, here), request, history
        )
        assert found.status.tolist() == [status], request


@cases("name", ["lpd", "lpa"])
def test_requests_below_the_least_fraction_are_refused(name):
    """And those of another budget than the whole one."""
    responder = made(name, 4)
    share, of = responder.terms.least
    assert responder.valid(Request(0, BUDGET, share, of))
    assert not responder.valid(Request(0, BUDGET, share, of + 1))
    assert not responder.valid(Request(0, BUDGET, 2, 1))
    assert not responder.valid(Request(2**61, BUDGET, share, of))
    assert not responder.valid(Request(-(2**70), BUDGET, share, of))
    assert not responder.valid(Request(0, BUDGET - 1, share, of))
    assert not responder.valid(Request(0, BUDGET, 0, 1))
    assert not responder.valid(Request(0, BUDGET, -1, -1))


@cases("name", ["lbu", "lsp", "lpu"])
def test_who_has_no_second_phase_answers_no_request(name):
    assert not made(name, 3).valid(Request(0, 1))
