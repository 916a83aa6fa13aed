"""Users who are met late: the record of their past is that of who was there for ever, and the same
in whatever order requests and first values come.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.accounting import NEVER
from ldp_kafka.checks.sources import KEY
from ldp_kafka.methods.batch import Batch
from ldp_kafka.methods.protocols import History, Request, Responder
from ldp_kafka.methods.protocols.history import WHOLE
from ldp_kafka.methods.protocols.turns import in_second_half
from ldp_kafka.methods.step import REFUSED, SENT, SILENT
from tests.cases import cases
from tests.depth import depth
from tests.methods.protocols.mutants import FreeWhenMet, LateRequestsForgotten, PastForgotten
from tests.methods.protocols.streams import made

BUDGET = 1_000_000


def requests_of(name, slots, window, seed):
    """Random valid requests, one a slot or none."""
    rng = np.random.default_rng(seed)
    costs = [BUDGET] if name in ("lpa", "lpd") else [BUDGET // 8, BUDGET // 2, BUDGET // 3]
    found = []
    for slot in range(slots):
        share = (1, 2) if name == "lpd" else (int(rng.integers(1, window + 1)), window)
        if name in ("lba", "lbd"):
            share = (1, 1)
        request = Request(slot, int(rng.choice(costs)), *share)
        found.append(request if rng.random() < 0.7 else None)
    return found


def joining(users, slots, seed):
    """Values (users, slots) of two categories, -1 for none: users come over time, with gaps."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 2, (users, slots))
    x[rng.random(x.shape) < 0.3] = -1
    x[np.arange(slots) < rng.integers(0, slots, users)[:, None]] = -1
    return x


def answers(responder, x, requests, late, source, *, kept_apart=False):
    """All reports, by slot and phase, and the state, where the request of a slot comes ``late[t]``
    slots after its own; ``kept_apart``: an edge that knows users with a value only, in any order.
    """
    users, slots = x.shape
    ids = [f"u{i}" for i in range(users)]
    state, rows, history = responder.state(source.digests(ids)), np.arange(users), History(4)
    due = np.maximum.accumulate(np.arange(slots) + np.asarray(late))  # in the order of slots
    told, rng = {}, np.random.default_rng(5)

    def noted(slot, phase, rows, step):
        sent = step.status == SENT
        for row, answer in zip(rows[sent].tolist(), step.answers[sent].tolist(), strict=True):
            told[slot, phase, row] = answer

    def asked(slot):
        request = requests[slot]
        if request is None:
            return
        here = x[:, slot] >= 0
        codes = np.where(here, x[:, slot], 0)
        step = responder.second(
            state, Batch(rows, request.slot, codes, source, here), request, history
        )
        assert (step.status[state.columns["met"] == NEVER] == SILENT).all()
        noted(slot, 1, rows, step)
        assert history.add(request)

    for now in range(slots + max(late)):
        if now < slots:
            here = x[:, now] >= 0
            parts = np.array_split(rng.permutation(np.flatnonzero(here)), 3)
            for part in parts if kept_apart else [rows]:
                codes = np.where(here, x[:, now], 0)[part]
                step = responder.first(state, Batch(part, now, codes, source, here[part]), history)
                noted(now, 0, part, step)
        for slot in np.flatnonzero(due == now).tolist():
            asked(slot)
    return told, state


def same_in_any_order(kind, name, seed):
    """Whether reports and selections do not depend on how late requests come."""
    users, slots, window = 120, 14, 4
    responder, source = kind(made(name, window=window)), lk.randomness.keyed(KEY)
    x, requests = joining(users, slots, seed), requests_of(name, slots, window, seed)
    told, state = answers(responder, x, requests, [0] * slots, source)
    rng = np.random.default_rng(seed)
    same = True
    for most in (0, 1, 2, 3):
        late = rng.integers(0, most + 1, slots)
        found, other = answers(responder, x, requests, late, source, kept_apart=True)
        same &= found == told
        for field in state.columns.keys() & {"met", "selected"}:
            same &= np.array_equal(state.columns[field], other.columns[field])
    assert len({slot for slot, phase, _ in told if phase == 1}) >= 4
    return bool(same)


@cases("name", ["lpd", "lpa", "lbd"])
@cases("seed", range(depth(6, 60)))
def test_the_order_of_requests_and_first_values_changes_nothing(name, seed):
    """The same selections and the same reports, for requests up to three slots late."""
    assert same_in_any_order(Responder, name, seed)


@cases("kind", [PastForgotten, LateRequestsForgotten])
def test_a_record_that_looks_one_way_is_found_by_its_order(kind):
    assert not all(same_in_any_order(kind, "lpa", seed) for seed in range(6))


def bias(kind, name, window, late):
    """How many standard errors the selections of users who join over time are from those of users
    who were always there; and of the latter from the amounts.
    """
    slots, each = 3 * window, 3_000
    responder, source = kind(made(name, window=window)), lk.randomness.keyed(KEY)
    ids = [f"u{i}" for i in range(each * slots)]
    state = responder.state(source.digests(ids))
    rows, history = np.arange(len(ids)), History(window)
    half = in_second_half(state.digests(rows))
    joins = np.repeat(np.arange(slots), each)  # slot 0: always there
    codes = np.zeros(len(ids), np.int64)
    requests = requests_of(name, slots, window, 3)
    moved = [[], []]
    for now in range(slots + late):
        here = joins <= now
        if now < slots:
            responder.first(state, Batch(rows, now, codes, source, here), history)
        slot = now - late
        if slot < 0 or requests[slot] is None:
            continue
        request = requests[slot]
        there = joins <= slot
        amount = history.amount(request) / WHOLE
        responder.second(state, Batch(rows, request.slot, codes, source, there), request, history)
        history.add(request)
        for at, who in enumerate((half & (joins == 0), half & there & (joins > 0))):
            if who.any():
                taken = state.columns["selected"][who] == slot
                moved[at].append((taken.sum() - who.sum() * amount, who.sum() * amount))
    return [sum(a for a, _ in each) / sum(b for _, b in each) ** 0.5 for each in moved]


@cases("name", ["lpd", "lpa"])
@cases("late", [0, 2])
def test_who_joins_is_selected_as_often_as_who_was_there(name, late):
    always, joined = bias(Responder, name, 5, late)
    assert abs(always) < 5 and abs(joined) < 5, (always, joined)


@cases(
    ("kind", "late"),
    [
        (FreeWhenMet, 0),
        (FreeWhenMet, 2),
        (PastForgotten, 0),
        (PastForgotten, 2),
        (LateRequestsForgotten, 2),
    ],
)
def test_who_is_taken_for_free_when_it_joins_is_found(kind, late):
    assert bias(kind, "lpa", 5, late)[1] > 8


def test_amounts_are_the_chances_of_who_was_always_there():
    """Amounts of any window slots fit into the whole; the rule of LPA gives whole units."""
    history, rng = History(4), np.random.default_rng(2)
    amounts = []
    for slot in range(60):
        request = Request(slot, 1, int(rng.integers(1, 5)), 4)
        noted = history.amount(request)
        assert history.add(request) and history.amount(request) == noted
        amounts.append(noted)
        assert sum(amounts[-4:]) <= WHOLE
        assert [each.slot for each in history.within(slot + 1)] == list(
            range(max(slot - 2, 0), slot + 1)
        )
    history = History(4)
    for slot, of in enumerate((4, 3, 2, 1, 1)):
        assert abs(history.amount(Request(slot, 1, 1, of)) - WHOLE // 4) <= 4
        history.add(Request(slot, 1, 1, of))


def test_a_history_goes_on_from_what_was_saved():
    plain, moved = History(3), History(3)
    for slot in (0, 1, 2, 5, 6, 20, 21):
        for each in (plain, moved):
            assert each.add(Request(slot, 1, 1, 2))
            assert not each.add(Request(slot, 1, 2, 2))
        saved = json.loads(json.dumps(moved.saved()))
        assert len(saved) <= 3
        moved = History(3)
        moved.restore(saved)
        assert moved.saved() == plain.saved() and moved.last == plain.last == slot
        assert moved.within(slot + 1) == plain.within(slot + 1)


def test_who_has_had_no_value_has_no_record():
    """Of users before their first value nothing is noted, by any phase."""
    responder, source = made("lpa").responder(), lk.randomness.keyed(KEY)
    state = responder.state(source.digests(["a", "b", "c"]))
    fresh = {name: column.copy() for name, column in state.columns.items()}
    rows, codes, nobody = np.arange(3), np.zeros(3, np.int64), np.zeros(3, bool)
    history = responder.history()
    for slot in range(5):
        responder.first(state, Batch(rows, slot, codes, source, nobody), history)
        request = Request(slot, BUDGET, 1, 2)
        step = responder.second(
            state, Batch(rows, request.slot, codes, source, nobody), request, history
        )
        assert (step.status == SILENT).all() and history.add(request)
    for name, column in state.columns.items():
        assert np.array_equal(column, fresh[name])


def test_a_request_closes_its_slot():
    """A user whose first value comes after the request of its slot is met behind it."""
    responder, source = made("lbd").responder(), lk.randomness.keyed(KEY)
    state, row = responder.state(source.digests(["a"])), np.zeros(1, np.intp)
    batch, history = Batch(row, 4, np.zeros(1, np.int64), source), responder.history()
    assert history.add(Request(4, BUDGET // 4))
    assert responder.first(state, batch, history).status.tolist() == [SENT]
    assert state.columns["met"].tolist()[:1] == [5]
    for slot, status in ((4, REFUSED), (5, SENT)):
        asked = batch._replace(slot=slot)
        step = responder.second(state, asked, Request(slot, BUDGET // 4), history)
        assert step.status.tolist() == [status]


@cases("name", ["lba", "lpa", "lbu", "lpu"])
def test_what_was_spent_is_told_and_audited(name):
    """Never above the budget, and all of it by somebody; entries that contradict are found."""
    responder, source = made(name, window=3).responder(), lk.randomness.keyed(KEY)
    x = joining(200, 12, 4)
    requests = requests_of(name, 12, 3, 1) if name in ("lba", "lpa") else [None] * 12
    _, state = answers(responder, x, requests, [0] * 12, source)
    assert 0.9 * BUDGET < responder.largest(state) <= responder.budget == BUDGET
    assert responder.audit(state) == (0, 0)
    state.columns["spent"][:2] += 1
    assert responder.audit(state)[1] == 2
    if name == "lba":
        state.columns["second_spent"][5] += 1
        assert responder.audit(state)[1] == 3
    empty = responder.state(source.digests([]))
    assert responder.largest(empty) == 0 and responder.audit(empty) == (0, 0)


@pytest.mark.parametrize("oracle", ["grr", "adaptive", "oue", "olh"])
def test_lpu_draws_the_reports_of_the_method_lpu(oracle):
    """Byte for byte: a topology runs the method, `run` the protocol."""
    source, x = lk.randomness.keyed(KEY), joining(200, 12, 6)
    ids = [f"u{i}" for i in range(200)]
    protocol = made("lpu", window=4, categories=5, oracle=oracle)
    method = lk.method("lpu", epsilon=1.0, window=4, categories=5, mechanism=oracle)
    responder, theirs = protocol.responder(), method.state(source.digests(ids))
    state, rows, history = responder.state(source.digests(ids)), np.arange(200), History(4)
    trace = protocol.run(x, source, users=ids, first_slot=3)
    for t in range(12):
        here = x[:, t] >= 0
        codes = np.where(here, x[:, t], 0)
        ours = responder.first(state, Batch(rows, 3 + t, codes, source, here), history)
        step = method.step(theirs, Batch(rows[here], 3 + t, method.bound(x[here, t]), source))
        assert np.array_equal(ours.status[here], step.status)
        assert ours.answers.dtype == step.answers.dtype
        assert ours.answers[here].tobytes() == step.answers.tobytes()
        sent = step.answers[step.status == SENT]
        if len(sent):
            found = method.crowd(method.mechanism.support(sent))
            assert np.array_equal(trace.values[t], found.value)
            assert np.array_equal(trace.standard_error[t], found.standard_error)
