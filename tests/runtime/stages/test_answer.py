"""The edges that are asked: whose values a request finds, what is held until then, and that no
request makes a user spend more; where values are reported as they come, and where those of a slot
are taken together when it is closed.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from functools import cache
from random import Random

import numpy as np
import pytest

from ldp_kafka.accounting import NEVER
from ldp_kafka.errors import BadRecord
from ldp_kafka.methods.base import SENT
from ldp_kafka.methods.batch import Batch
from ldp_kafka.methods.protocols import Request as Asking
from ldp_kafka.methods.protocols import Responder
from ldp_kafka.methods.protocols.turns import in_second_half
from ldp_kafka.randomness import Ids
from ldp_kafka.records import Request
from ldp_kafka.runtime import roles
from ldp_kafka.runtime.stages.requests import is_request
from ldp_kafka.runtime.stages.shards import BEFORE
from ldp_kafka.runtime.wire.records import decode_json
from ldp_kafka.runtime.wire.reports import read_reports
from tests import rounds
from tests.depth import depth
from tests.fold import cases
from tests.fold.test_equivalence import splits
from tests.rounds import FIRST_SLOT, batch, messages, request, tick
from tests.runtime.stages.crashes import of_kind
from tests.runtime.stages.test_settle import ONE
from tests.runtime.stages.twins import AsksAgain

SEEDS = range(depth(5, 200))
SHORT = depth(60, 20_000)  # random logs of one or two users, of each protocol and window
KINDS = [
    (name, *kind)
    for name in rounds.NAMES
    for kind in (("first", False), ("first", True), ("last", False), ("mean", True))
]
"""Of a protocol: which value of a slot counts, of categories or of numbers."""
TAKEN = {**ONE, "count": len}
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


class Twin:
    """What the stage does, user by user and value by value; slow."""

    def __init__(self, of):
        self.of, self.source = of, of.input
        self.responder = of.method.protocol.responder()
        self.noise = cases.randomness(of)
        self.history = self.responder.history()
        self.states, self.values = {}, defaultdict(dict)
        self.open = defaultdict(lambda: defaultdict(list))
        """By slot and user: values that are taken together when it is closed."""
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
                batch = Batch(np.array([0]), slot, np.array([code]), self.noise)
                step = self.responder.first(state, batch, self.history)
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
            codes, there = np.array([code or 0]), np.array([code is not None])
            batch = Batch(np.array([0]), asking.slot, codes, self.noise, there)
            step = self.responder.second(state, batch, asking, self.history)
            self.say(state, step, found.slot, 1, found.epsilon)
        self.history.add(asking)

    def say(self, state, step, slot, phase, cost):
        if step.status[0] == SENT:
            name = self.noise.report_ids(state.users[:1], np.array([slot]), phase)
            form = self.of.method.form(phase, cost)
            index = np.asarray(step.answers / form.scale, np.int64)[:1]
            self.said.append((name.tobytes(), slot, phase, index.tobytes(), cost))


class TwinAtClose(Twin):
    """The same where values of a slot are taken together."""

    def take(self, decoded):
        slot_ms, times, before = self.source.slot_ms, [], self.closed
        if isinstance(decoded.tick, int):
            times.append(decoded.tick)
        if decoded.events is not None:
            events = decoded.events
            times += events.times.tolist()
            for name, time, value in zip(
                events.users.texts(), events.times.tolist(), events.values.tolist(), strict=True
            ):
                if time // slot_ms > before:
                    self.open[time // slot_ms][name].append(value)
        self.watermark = max([self.watermark, *times])
        if self.watermark >= 0:
            self.closed = self.watermark // slot_ms - self.source.lateness - 1
            self.settled = max(self.settled, self.closed - self.source.hold)
        for slot in sorted(slot for slot in self.open if slot <= self.closed):
            for name, values in self.open.pop(slot).items():
                self.report(name, slot, TAKEN[self.source.per_slot](values))

    def report(self, name, slot, value):
        state, [code] = self.user(name), self.of.method.bound(np.array([value]))
        batch = Batch(np.array([0]), slot, np.array([code]), self.noise)
        step = self.responder.first(state, batch, self.history)
        self.say(state, step, slot, 0, 0)
        if not self.responder.terms.population or in_second_half(state.users[:1])[0]:
            self.values[name][slot] = int(code)


def followed(of, log):
    """A log through the stage and its twin, message by message: what both say of it."""
    stage, twin, said = answer(of), (Twin if of.input.per_slot == "first" else TwinAtClose)(of), []
    state = stage.fresh()
    for message in log:
        said += reports(stage, stage.fold(state, [message]).records)
        twin.fold(stage, message)
        assert (state.closed, state.asked.settled) == (twin.closed, twin.settled)
        names = sorted({*twin.states, *(name for users in twin.open.values() for name in users)})
        whose = dict(zip(state.users.rows(Ids.of(names)), names, strict=True)) if names else {}
        held = {(whose[at], slot): value for (at, slot), value in rounds.held(state).items()}
        assert held == {
            (name, slot): code
            for name, slots in twin.values.items()
            for slot, code in slots.items()
        }, message.offset
        if of.input.per_slot != "first":
            assert state.panes.slots() == sorted(twin.open)
    return sorted(said), sorted(twin.said)


@pytest.mark.parametrize(("name", "how", "numeric"), KINDS)
def test_the_rules_by_a_slow_twin(name, how, numeric):
    """Every report, and every value that is held after any message."""
    asked = 0
    for seed in SEEDS:
        lateness, hold = PLACES[seed % len(PLACES)]
        of = rounds.topology(name, lateness=lateness, hold=hold, numeric=numeric, per_slot=how)
        found, expected = followed(of, rounds.wild(of, seed))
        assert found == expected, seed
        asked += sum(each[2] for each in found)
    assert asked > 3


# what is held


@pytest.mark.parametrize("how", ["first", "last"])
@pytest.mark.parametrize("hold", [2, 3])
@pytest.mark.parametrize("lateness", [0, 2])
@pytest.mark.parametrize("together", [1, 100])
def test_nothing_of_a_settled_slot_is_left(lateness, hold, together, how):
    """Whatever the gap to the next value or tick: at most the values of so many slots are there,
    and none when all of them are settled. Where values are taken together, those of open slots are
    in panes alone.
    """
    of = rounds.topology("lbd", lateness=lateness, hold=hold, per_slot=how)
    open_slots = lateness + 1
    last = 8 if how == "first" else 8 - open_slots  # of which values are held
    places = hold + open_slots * (how == "first")
    values = [batch([(f"u{user}", slot, user % 3) for user in range(7)]) for slot in range(9)]
    for gap in (1, 2, places - 1, places, places + 1, 3 * places, 1000, 2**20):
        stage = answer(of)
        state = stage.fresh()
        counts = stage.fold(state, messages(values)).counts
        assert counts["reports"] == 7 * (last + 1)
        kept = {slot - FIRST_SLOT for _, slot in rounds.held(state)}
        assert kept == set(range(last + 1 - places, last + 1))
        if how != "first":
            assert state.panes.slots() == [FIRST_SLOT + slot for slot in range(last + 1, 9)]
        ticks = messages([tick(8 + gap), tick(8 + gap + open_slots + hold)], 10)
        for at in range(0, 2, together):
            stage.fold(state, ticks[at : at + together])
            if together == 1 and not at:
                left = {slot - FIRST_SLOT for _, slot in rounds.held(state)}
                assert left == set(range(last + 1 - places + gap, min(9, last + gap + 1)))
        assert not rounds.held(state) and (how == "first" or not len(state.panes))
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
    assert made[0].settled == FIRST_SLOT + 1
    assert len(rounds.held(state)) == 14
    assert put(stage, state, request(1, second), request(0, second), first=8) == []


@pytest.mark.parametrize("how", ["first", "last"])
@pytest.mark.parametrize("name", ["lpd", "lpa"])
def test_values_of_the_first_half_are_never_held(name, how):
    """No request can ask for them."""
    stage = answer(rounds.topology(name, per_slot=how))
    state = stage.fresh()
    for slot in range(4):
        rows = [(f"u{user}", slot, user % 3) for user in range(60)]
        stage.fold(state, messages([batch(rows)], 1 + slot))
        second = np.flatnonzero(in_second_half(state.users.state.users[: state.users.state.count]))
        held = {row for row, _ in rounds.held(state)}
        assert held == set(second.tolist()) if how == "first" or slot == 3 else not held - {*second}
    assert 10 < len(second) < 50


@pytest.mark.parametrize(("how", "places"), [("first", 6), ("last", 3)])
def test_a_state_is_of_bounded_size(how, places):
    """Values of 8 bytes of so many slots a user, and panes of open slots, however long it runs."""
    of = rounds.topology("lbd", lateness=2, hold=3, per_slot=how)
    assert of.method.fields.keys() | {"held", BEFORE} == answer(of).fields.keys()
    assert answer(of).fields["held"].length == places

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


# privacy


@cache
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
        made = stage.fold(state, log[:cut]).records
        kept = (
            json.loads(json.dumps(stage.meta(state))),
            {
                each: (cut, payload)
                for each, payload in stage.dump(state, stage.shards_of(state)).items()
            },
        )
        made += stage.fold(state, log[cut:]).records
        again = stage.load(*kept)
        for size in splits(len(log) - cut, random):
            made += stage.fold(again, log[cut : cut + size]).records
            cut += size
        every = {*reports(stage, made)}
        if overspent(of, every):
            return False, second
        second += sum(phase for _, _, phase, _, _ in every)
    return True, second


@pytest.mark.parametrize("how", ["first", "last"])
@pytest.mark.parametrize("name", ["lbd", "lba"])
def test_an_edge_that_answers_twice_is_found(name, how, monkeypatch):
    """The search has power: where neither the stage nor the users' ledgers remember a request, it
    finds two reports of one slot. (Where users are divided, who was selected is a third record of
    it.)
    """
    monkeypatch.setattr(Responder, "fresh", lambda _, __, rows, ___: np.ones(len(rows), np.bool_))
    of = rounds.topology(name, per_slot=how)
    assert not sound(of, SHORT, lambda of: of_kind(AsksAgain, answer(of)))[0]


@pytest.mark.parametrize("how", ["first", "last"])
@pytest.mark.parametrize("window", [2, 3])
@pytest.mark.parametrize("name", rounds.NAMES)
def test_no_order_of_requests_makes_a_user_spend_more(name, window, how):
    """Nor say two things of one slot: whatever values come how often, requests repeated with
    another epsilon, out of order, late, in any place of the log, folded together and again in any
    groups after a crash.
    """
    lateness, hold = Random(window).choice(PLACES)
    of = rounds.topology(name, lateness=lateness, hold=hold, window=window, per_slot=how)
    good, second = sound(of, SHORT)
    assert good
    assert second > SHORT / 10


@pytest.mark.parametrize(("name", "how", "numeric"), KINDS)
def test_a_changed_value_changes_no_other_report(name, how, numeric):
    """Noise is bound to (user, slot, phase): of two streams that differ in one of a user's values
    of one slot, the same requests lead to the same reports but for that user's of that slot.
    """
    changed, of = 0, rounds.topology(name, lateness=1, hold=2, numeric=numeric, per_slot=how)
    noise, terms = cases.randomness(of), of.method.protocol.terms
    users = list(dict.fromkeys([*answering(of), *(f"u{user}" for user in range(30))]))
    cost = terms.budget if terms.population else terms.second // 3
    for slot in range(2, 6):
        said = []
        for other in (0, 1):
            values = []
            for at in range(8):
                rows = [(user, at, (index + at) % 3) for index, user in enumerate(users)]
                values += [] if how == "first" else [batch(rows)]
                rows[0] = (users[0], at, (rows[0][2] + (other and at == slot)) % 3)
                values.append(batch(rows))
                values.append(request(at - 2, cost, 1, 2 if terms.population else 1))
            stage = answer(of)
            records = stage.fold(stage.fresh(), messages(values)).records
            said.append({each[:3]: each[3:] for each in reports(stage, records)})
        one, two = said
        at, digest = FIRST_SLOT + slot, noise.digests(Ids.of(users[:1]))
        mine = {
            (noise.report_ids(digest, np.array([at]), phase)[0].tobytes(), at, phase)
            for phase in (0, 1)
        }
        assert one.keys() == two.keys()
        differ = {each for each in one if one[each] != two[each]}
        assert differ <= mine
        changed += len(differ)
    assert changed or terms.population
