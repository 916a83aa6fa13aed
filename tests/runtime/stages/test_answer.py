"""The answer stage: whose values a request finds, what is held until then, and that neither groups
of messages nor crashes change a byte of it.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import fields
from random import Random

import numpy as np
import pytest

from ldp_kafka.accounting import NEVER
from ldp_kafka.errors import BadRecord
from ldp_kafka.methods.base import SENT
from ldp_kafka.methods.protocols import Request as Asking
from ldp_kafka.methods.protocols import Responder
from ldp_kafka.methods.protocols.turns import in_second_half
from ldp_kafka.randomness import Ids
from ldp_kafka.records import Request
from ldp_kafka.runtime import roles
from ldp_kafka.runtime.stages.answer import Answer
from ldp_kafka.runtime.stages.requests import is_request
from ldp_kafka.runtime.stages.shards import BEFORE
from ldp_kafka.runtime.wire.records import decode_json
from ldp_kafka.runtime.wire.reports import read_reports
from tests import rounds
from tests.depth import depth
from tests.fold import cases
from tests.fold.test_equivalence import folded, splits, state_of
from tests.rounds import batch, messages, request, tick

SEEDS = range(depth(5, 200))
SHORT = depth(60, 20_000)  # random logs of one or two users, of each protocol and window
KINDS = [(name, numeric) for name in rounds.NAMES for numeric in (False, True)]
PLACES = [(0, 2), (1, 2), (2, 3), (0, 4)]  # lateness, hold


def answer(of):
    return roles.make(of, "perturb", 0, cases.randomness(of))


def put(stage, state, *values, first=1):
    """Messages one by one: the batches that they give."""
    return [
        read_reports(record.value)
        for message in messages(values, first)
        for record in stage.fold(state, [message]).records
        if record.topic == stage.reports_topic
    ]


def reports(stage, records):
    """(id, slot, phase, value, cost) of each report."""
    found = []
    for record in records:
        made = read_reports(record.value) if record.topic == stage.reports_topic else None
        for at in range(0 if made is None else len(made)):
            what = (
                made.ids[at].tobytes(),
                int(made.slots[at]),
                made.phase,
                made.values[at].tobytes(),
            )
            found += [(*what, made.cost)]
    return found


@pytest.mark.parametrize(("name", "numeric"), KINDS)
def test_messages_together_or_one_by_one(name, numeric):
    """Runs of messages fold to the same bytes, counts and state however they are cut."""
    seen = Counter()
    for seed in SEEDS:
        lateness, hold = PLACES[seed % len(PLACES)]
        of = rounds.topology(name, lateness=lateness, hold=hold, numeric=numeric)
        log, random = rounds.wild(of, seed), Random(seed)
        expected = folded(answer(of), log, [1] * len(log))
        seen.update(expected[1])
        assert folded(answer(of), log, [len(log)]) == expected, seed
        for _ in range(depth(3, 10)):
            sizes = list(splits(len(log), random))
            assert folded(answer(of), log, sizes) == expected, (seed, sizes)
    names = ("reports", "late", "duplicates", "requests", "requests_late", "requests_refused")
    assert all(seen[each] > 2 for each in names), seen


class Twin:
    """What the stage does, user by user and value by value; slow."""

    def __init__(self, of):
        self.of, self.source = of, of.input
        self.responder = of.method.protocol.responder()
        self.noise = cases.randomness(of)
        self.history = self.responder.history()
        self.states, self.values = {}, defaultdict(dict)
        self.closed = self.settled = NEVER
        self.watermark = -1
        self.said = []

    def user(self, name):
        if name not in self.states:
            self.states[name] = self.responder.state(self.noise.digests(Ids.of([name])))
        return self.states[name]

    def fold(self, stage, message):
        if is_request(message.value):
            try:
                found = decode_json(json.loads(message.value))
            except (BadRecord, ValueError):
                return  # a dead letter
            self.ask(found)
        else:
            self.take(stage.reader.read(message.value))
        for slots in self.values.values():
            for slot in [slot for slot in slots if slot <= self.settled]:
                del slots[slot]

    def take(self, decoded):
        closed, times = self.closed, []
        if isinstance(decoded.tick, int):
            times.append(decoded.tick)
        if decoded.events is not None:
            times += decoded.events.times.tolist()
            codes = self.of.method.bound(decoded.events.values)
            rows = zip(decoded.events.users.texts(), times[-len(codes) :], codes, strict=True)
            # a user's rows of one message in the order of their slots
            rows = sorted(rows, key=lambda row: row[1] // self.source.slot_ms)
            for name, time, code in rows:
                slot, state = time // self.source.slot_ms, self.user(name)
                if not slot > max(closed, int(state.columns["last"][0])):
                    continue
                step = self.responder.first(
                    state, np.array([0]), slot, np.array([code]), np.array([True]), self.noise,
                    self.history,
                )  # fmt: skip
                self.say(state, step, slot, 0, 0)
                digest = state.users[:1]
                if not self.responder.terms.population or in_second_half(digest)[0]:
                    self.values[name][slot] = int(code)
        self.watermark = max([self.watermark, *times])
        if self.watermark >= 0:
            self.closed = self.watermark // self.source.slot_ms - self.source.lateness - 1
            self.settled = max(self.settled, self.closed - self.source.hold)

    def ask(self, found):
        assert isinstance(found, Request)
        if not self.settled < found.slot <= self.closed or found.phase != 1:
            return
        asking = Asking(found.slot, found.epsilon, found.share, found.of)
        if found.epsilon and not self.responder.valid(asking):
            return
        self.settled = found.slot
        if not found.epsilon:
            return
        for name, state in self.states.items():
            code = self.values[name].get(found.slot)
            step = self.responder.second(
                state, np.array([0]), asking, np.array([code or 0]), np.array([code is not None]),
                self.noise, self.history,
            )  # fmt: skip
            self.say(state, step, found.slot, 1, found.epsilon)
        self.history.add(asking)

    def say(self, state, step, slot, phase, cost):
        if step.status[0] == SENT:
            name = self.noise.report_ids(state.users[:1], np.array([slot]), phase)
            form = self.of.method.form(phase, cost)
            index = np.asarray(step.answers / form.scale, np.int64)[:1]
            self.said.append((name.tobytes(), slot, phase, index.tobytes(), cost))


@pytest.mark.parametrize(("name", "numeric"), KINDS)
def test_the_rules_by_a_slow_twin(name, numeric):
    """Every report, and every value that is held after any message."""
    asked = 0
    for seed in SEEDS:
        lateness, hold = PLACES[-1 - seed % len(PLACES)]
        of = rounds.topology(name, lateness=lateness, hold=hold, numeric=numeric)
        stage, twin, said = answer(of), Twin(of), []
        state = stage.fresh()
        for message in rounds.wild(of, seed):
            said += reports(stage, stage.fold(state, [message]).records)
            twin.fold(stage, message)
            assert (state.closed, state.settled) == (twin.closed, twin.settled)
            row = {state.users.rows(Ids.of([name]))[0]: name for name in twin.states}
            assert {(row[at], slot): value for (at, slot), value in rounds.held(state).items()} == {
                (name, slot): code
                for name, slots in twin.values.items()
                for slot, code in slots.items()
            }, (seed, message.offset)
        assert sorted(said) == sorted(twin.said), seed
        asked += sum(each[2] for each in said)
    assert asked > 3


# what is held


@pytest.mark.parametrize("hold", [2, 3])
@pytest.mark.parametrize("lateness", [0, 2])
@pytest.mark.parametrize("together", [1, 100])
def test_nothing_of_a_settled_slot_is_left(lateness, hold, together):
    """Whatever the gap to the next value or tick: at most the values of ``lateness + 1 + hold``
    slots are there, and none when all of them are settled.
    """
    of = rounds.topology("lbd", lateness=lateness, hold=hold)
    places = lateness + 1 + hold
    for gap in (1, 2, places - 1, places, places + 1, 3 * places, 1000, 2**20):
        stage = answer(of)
        state = stage.fresh()
        values = [batch([(f"u{user}", slot, user % 3) for user in range(7)]) for slot in range(9)]
        stage.fold(state, messages(values))
        kept = rounds.held(state)
        assert {slot for _, slot in kept} == set(
            range(rounds.FIRST_SLOT + 9 - places, rounds.FIRST_SLOT + 9)
        )
        last = messages([tick(8 + gap), tick(8 + gap + places)], 10)
        for at in range(0, 2, together):
            stage.fold(state, last[at : at + together])
            if together == 1 and not at:
                left = {slot - rounds.FIRST_SLOT for _, slot in rounds.held(state)}
                assert left == set(range(9 - places + gap, 9))
        assert not rounds.held(state)
        assert all((cells == -1).all() for cells in state.users.state.columns["held"])


@pytest.mark.parametrize("cost", [0, None])
def test_a_request_lets_go_of_its_slot(cost):
    """Whether it asks for anything or not, and of those before it; one that is not valid does
    not.
    """
    of = rounds.topology("lbd", lateness=0, hold=3)
    stage = answer(of)
    state = stage.fresh()
    second = of.method.protocol.terms.second
    put(stage, state, *(batch([(f"u{user}", slot, 1) for user in range(7)]) for slot in range(4)))
    assert len(rounds.held(state)) == 28
    put(stage, state, request(1, second + 1), request(3, second), first=5)
    assert len(rounds.held(state)) == 28
    made = put(stage, state, request(1, second if cost is None else cost), first=7)
    assert [len(each) for each in made] == [7 if cost is None else 0]
    assert made[0].settled == rounds.FIRST_SLOT + 1
    assert len(rounds.held(state)) == 14
    assert put(stage, state, request(1, second), request(0, second), first=8) == []


@pytest.mark.parametrize("name", ["lpd", "lpa"])
def test_values_of_the_first_half_are_never_held(name):
    """No request can ask for them."""
    of = rounds.topology(name)
    stage = answer(of)
    state = stage.fresh()
    for slot in range(4):
        rows = [(f"u{user}", slot, user % 3) for user in range(60)]
        stage.fold(state, messages([batch(rows)], 1 + slot))
        second = np.flatnonzero(in_second_half(state.users.state.users[: state.users.state.count]))
        assert {row for row, _ in rounds.held(state)} == set(second.tolist())
    assert 10 < len(second) < 50


def test_a_state_is_of_bounded_size():
    """``lateness + 1 + hold`` values of 8 bytes a user, however long it runs."""
    of = rounds.topology("lbd", lateness=2, hold=3)
    assert of.method.fields.keys() | {"held", BEFORE} == answer(of).fields.keys()
    assert answer(of).fields["held"].length == 6

    def size(slots):
        stage = answer(of)
        state = stage.fresh()
        for slot in range(slots):
            rows = [(f"u{user}", slot, user % 3) for user in range(200)]
            stage.fold(state, messages([batch(rows)], 1 + slot))
        dumped = stage.dump(state, stage.shards_of(state))
        return sum(map(len, dumped.values())), len(json.dumps(stage.meta(state)))

    short, long = size(20), size(60)  # numbers of two digits
    assert abs(long[0] - short[0]) < 0.1 * short[0]
    assert long[1] == short[1]


# crashes


def shards_of(stage, state):
    return stage.dump(state, stage.shards_of(state))


def held_by(state):
    """All that is held, by the users' digests."""
    digests = state.users.state.users
    found = rounds.held(state)
    return {(digests[row].tobytes(), slot): value for (row, slot), value in found.items()}


@pytest.mark.parametrize(("name", "numeric"), KINDS)
def test_shards_that_are_ahead(name, numeric):
    """A crash between shards and meta: some shards are written of a later offset than the rest,
    however far. What is folded again makes the state of the straight fold, and no report that is
    not the straight fold's; with those of before the crash it makes all of them.
    """
    for seed in SEEDS:
        random = Random(seed)
        lateness, hold = PLACES[seed % len(PLACES)]
        of = rounds.topology(name, lateness=lateness, hold=hold, numeric=numeric)
        stage, log = answer(of), rounds.wild(of, seed)
        first = random.randrange(len(log) - 2)
        second = random.randrange(first, len(log))
        state, written, straight, before, held = stage.fresh(), {}, [], [], []
        for at, message in enumerate(log):
            straight += reports(stage, stage.fold(state, [message]).records)
            held.append(held_by(state))
            if at == first:
                meta = json.loads(json.dumps(stage.meta(state)))
                written = {
                    each: (message.offset, payload)
                    for each, payload in shards_of(stage, state).items()
                }
            if at == second:
                before = list(straight)
                for each, payload in shards_of(stage, state).items():
                    if random.random() < 0.5:
                        written[each] = message.offset, payload
        found = stage.load(meta, written)
        said, at = set(before), first + 1
        for run in splits(len(log) - at, random):
            said |= set(reports(stage, stage.fold(found, log[at : at + run]).records))
            at += run
            if at > second:
                assert held_by(found) == held[at - 1], (seed, at)
        assert said == set(straight), seed
        assert state_of(stage, found) == state_of(stage, state), seed


# privacy


def answering(of):
    """Two users who can be asked."""
    names = [f"u{user}" for user in range(30)]
    second = in_second_half(cases.randomness(of).digests(Ids.of(names)))
    return [name for name, can in zip(names, second, strict=True) if can][:2]


def short(of, random):
    """A log of one or two users with many requests."""
    users = answering(of)[: random.choice((1, 1, 2))]
    values, now = [], 0
    for _ in range(random.randint(6, 18)):
        if random.random() < 0.45:
            slot = max(0, now - random.choice((0, 0, 1, 2)))
            rows = [(user, slot, rounds.value_of(of, random)) for user in users]
            values.append(batch(rows[: random.randint(1, len(users))]))
        else:
            slot = now - of.input.lateness - 1 - random.choice((0, 0, 1, 1, 2, -1))
            values.append(request(slot, *rounds.asked(of, random)))
            if random.random() < 0.4:
                values.append(request(slot, *rounds.asked(of, random), name="another"))
        if random.random() < 0.4:
            now += random.choice((1, 1, 1, 2))
            values.append(tick(now))
    return messages([*values, tick(now + 9)])


def overspent(of, said):
    """Whether any user spent more in any run of the window than its budget, or said two things of
    one phase of a slot.
    """
    noise, terms = cases.randomness(of), of.method.protocol.terms
    digests = noise.digests(Ids.of(answering(of)))
    slots = sorted({slot for _, slot, *_ in said})
    whose = {
        name.tobytes(): user
        for slot in slots
        for phase in (0, 1)
        for user, name in enumerate(noise.report_ids(digests, np.array([slot] * 2), phase))
    }
    spent = defaultdict(Counter)
    for name, slot, phase, _, cost in said:
        spent[whose[name]][slot] += cost if phase else terms.first
    return len({name for name, *_ in said}) != len(said) or any(
        sum(by[slot + each] for each in range(terms.window)) > terms.budget
        for by in spent.values()
        for first in by
        for slot in range(first - terms.window + 1, first + 1)
    )


def sound(of, number, make=answer):
    """Whether no random log makes the stage overspend, in one go or after a crash; and how many
    reports of the second phase there were.
    """
    second = 0
    for seed in range(number):
        random = Random(seed)
        stage, log = make(of), short(of, random)
        state = stage.fresh()
        cut = random.randrange(len(log))
        said = []
        for message in log[:cut]:
            said += reports(stage, stage.fold(state, [message]).records)
        kept = (
            json.loads(json.dumps(stage.meta(state))),
            {each: (cut, payload) for each, payload in shards_of(stage, state).items()},
        )
        lost = stage.fold(state, log[cut:])
        again = stage.load(*kept)
        replayed = []
        for message in log[cut:]:
            replayed += reports(stage, stage.fold(again, [message]).records)
        every = {*said, *replayed, *reports(stage, lost.records)}
        if overspent(of, every):
            return False, second
        second += sum(phase for _, _, phase, _, _ in every)
    return True, second


@pytest.mark.parametrize("name", ["lbd", "lba"])
def test_an_edge_that_answers_twice_is_found(name, monkeypatch):
    """The search has power: where neither the stage nor the users' ledgers remember a request, it
    finds two reports of one slot. (Where users are
    divided, who was selected is a third record of it.)
    """

    def forgets(self, state, rows, slot):
        del self, state, slot
        return np.ones(len(rows), np.bool_)

    class Forgets(Answer):
        def _ask(self, state, message, output):
            before = state.settled
            super()._ask(state, message, output)
            state.settled = before

    def make(of):
        plain = answer(of)
        return Forgets(**{each.name: getattr(plain, each.name) for each in fields(plain)})

    monkeypatch.setattr(Responder, "fresh", forgets)
    assert not sound(rounds.topology(name), SHORT, make)[0]


@pytest.mark.parametrize("window", [2, 3])
@pytest.mark.parametrize("name", rounds.NAMES)
def test_no_order_of_requests_makes_a_user_spend_more(name, window):
    """Repeated with another epsilon, out of order, late, in any place of the log, folded in any
    groups and again after a crash.
    """
    random = Random(window)
    lateness, hold = random.choice(PLACES)
    of = rounds.topology(name, lateness=lateness, hold=hold, window=window)
    good, second = sound(of, SHORT)
    assert good
    assert second > SHORT / 10


@pytest.mark.parametrize(("name", "numeric"), KINDS)
def test_a_changed_value_changes_no_other_report(name, numeric):
    """Noise is bound to (user, slot, phase): of two streams that differ in one user's values of one
    slot, the same requests lead to the same reports but for that user's of that slot.
    """
    changed = 0
    of = rounds.topology(name, lateness=1, hold=2, numeric=numeric)
    noise, terms = cases.randomness(of), of.method.protocol.terms
    users = list(dict.fromkeys([*answering(of), *(f"u{user}" for user in range(30))]))
    for slot in range(2, 6):
        said = []
        for other in (False, True):
            values = []
            for at in range(8):
                rows = [(user, at, (index + at) % 3) for index, user in enumerate(users)]
                if other and at == slot:
                    rows[0] = (users[0], at, (rows[0][2] + 1) % 3)
                values.append(batch(rows))
                cost = terms.budget if terms.population else terms.second // 3
                values.append(request(at - 2, cost, 1, 2 if terms.population else 1))
            stage = answer(of)
            folded = stage.fold(stage.fresh(), messages(values)).records
            said.append({each[:3]: each[3:] for each in reports(stage, folded)})
        one, two = said
        digest = noise.digests(Ids.of(users[:1]))
        at = rounds.FIRST_SLOT + slot
        mine = {
            (noise.report_ids(digest, np.array([at]), phase)[0].tobytes(), at, phase)
            for phase in (0, 1)
        }
        assert one.keys() == two.keys()
        differ = {each for each in one if one[each] != two[each]}
        assert differ <= mine
        changed += len(differ)
    assert changed or terms.population
