"""Values of a slot that are taken together where a coordinator asks: they wait in panes until their
slot is closed, and for its request then. Neither groups of messages nor crashes change a byte of
it, and no order of requests makes a user spend more.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import fields
from random import Random

import numpy as np
import pytest

from ldp_kafka.methods.protocols import Responder
from ldp_kafka.methods.protocols.turns import in_second_half
from ldp_kafka.randomness import Ids
from ldp_kafka.records import Tick
from ldp_kafka.runtime.stages.answer import Answer
from ldp_kafka.runtime.stages.answer_at_close import AnswerAtClose
from ldp_kafka.runtime.stages.requests import is_request
from ldp_kafka.runtime.wire.records import encode_json
from tests import rounds
from tests.depth import depth
from tests.fold import cases
from tests.fold.test_equivalence import folded, splits, state_of
from tests.rounds import FIRST_SLOT, batch, messages, request, tick
from tests.runtime.stages.crashes import of_kind
from tests.runtime.stages.pane_cases import (
    AllBehind,
    KeepsNoPanes,
    NoCovers,
    crashed,
    is_found,
    numbered,
    straight,
)
from tests.runtime.stages.test_answer import (
    PLACES,
    SHORT,
    Twin,
    answer,
    answering,
    held_by,
    put,
    reports,
    shards_of,
    sound,
)
from tests.runtime.stages.test_settle import ONE

SEEDS = range(depth(4, 150))
KINDS = [(name, how) for name in rounds.NAMES for how in ("last", "mean")]
"""Of categories, and of numbers."""
TAKEN = {**ONE, "count": len}


def topology(name, how, **more):
    return rounds.topology(name, per_slot=how, numeric=how != "last", **more)


def placed(name, how, seed):
    lateness, hold = PLACES[seed % len(PLACES)]
    return topology(name, how, lateness=lateness, hold=hold)


@pytest.mark.parametrize(("name", "how"), KINDS)
def test_messages_together_or_one_by_one(name, how):
    """Runs of messages, with requests among the values that close slots, fold to the same bytes,
    counts and state however they are cut.
    """
    seen = Counter()
    for seed in SEEDS:
        of = placed(name, how, seed)
        log, random = rounds.wild(of, seed), Random(seed)
        expected = folded(answer(of), log, [1] * len(log))
        seen.update(expected[1])
        assert folded(answer(of), log, [len(log)]) == expected, seed
        for _ in range(depth(3, 10)):
            sizes = list(splits(len(log), random))
            assert folded(answer(of), log, sizes) == expected, (seed, sizes)
    names = ("reports", "late", "requests", "requests_late", "requests_refused")
    assert all(seen[each] > 2 for each in names), seen


class TwinAtClose(Twin):
    """What the stage does, user by user and value by value; slow."""

    def __init__(self, of):
        super().__init__(of)
        self.open = defaultdict(lambda: defaultdict(list))
        """By slot and user: the values that came."""

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
        step = self.responder.first(
            state, np.array([0]), slot, np.array([code]), np.array([True]), self.noise,
            self.history,
        )  # fmt: skip
        self.say(state, step, slot, 0, 0)
        if not self.responder.terms.population or in_second_half(state.users[:1])[0]:
            self.values[name][slot] = int(code)


def followed(of, log):
    """A log through the stage and its twin, message by message: what both say of it."""
    stage, twin, said = answer(of), TwinAtClose(of), []
    state = stage.fresh()
    for message in log:
        said += reports(stage, stage.fold(state, [message]).records)
        twin.fold(stage, message)
        assert (state.closed, state.settled) == (twin.closed, twin.settled)
        names = {*twin.states, *(name for users in twin.open.values() for name in users)}
        whose = dict(zip(state.users.rows(Ids.of(sorted(names))), sorted(names), strict=True))
        held = {(whose[at], slot): value for (at, slot), value in rounds.held(state).items()}
        assert held == {
            (name, slot): code
            for name, slots in twin.values.items()
            for slot, code in slots.items()
        }, message.offset
        assert state.panes.slots() == sorted(twin.open)
    return sorted(said), sorted(twin.said)


@pytest.mark.parametrize(("name", "how"), KINDS)
def test_the_rules_by_a_slow_twin(name, how):
    """Every report, and every value that is held after any message."""
    asked = 0
    for seed in SEEDS:
        of = placed(name, how, seed)
        found, expected = followed(of, rounds.wild(of, seed))
        assert found == expected, seed
        asked += sum(each[2] for each in found)
    assert asked > 3


@pytest.mark.parametrize("how", [how for how in TAKEN if how != "last"])
def test_every_way_of_taking_values_together(how):
    of = topology("lba", how)
    for seed in range(100, 103):
        found, expected = followed(of, rounds.wild(of, seed))
        assert found == expected and len(found) > 20


def one_value(of, log):
    """A log in which each user's one value of a slot comes just before the message that closes the
    slot, and nothing else does.
    """
    stage, twin, values = answer(of), TwinAtClose(of), []
    taken = []
    twin.report = lambda name, slot, value: taken.append((name, slot - FIRST_SLOT, value))
    for message in log:
        if is_request(message.value):
            values.append(message.value)
            continue
        taken.clear()
        twin.take(stage.reader.read(message.value))
        if taken:
            values.append(batch(taken))
        if twin.watermark >= 0:
            values.append(encode_json(Tick(twin.watermark)))
    return messages(values)


@pytest.mark.parametrize(("name", "how"), KINDS)
def test_it_answers_as_if_one_value_had_come(name, how):
    """The reports of both phases are those of the stage that holds values as they come, where each
    user's one value comes with what closes its slot.
    """
    found = 0
    for seed in SEEDS:
        of = placed(name, how, seed)
        stage, log = answer(of), rounds.wild(of, seed)
        at_once = Answer(**{each.name: getattr(stage, each.name) for each in fields(Answer)})
        one, many = (
            reports(each, each.fold(each.fresh(), given).records)
            for each, given in ((at_once, one_value(of, log)), (stage, log))
        )
        assert sorted(one) == sorted(many), seed
        found += len(many)
    assert found > 40


# what is held


@pytest.mark.parametrize("together", [1, 100])
@pytest.mark.parametrize("lateness", [0, 2])
@pytest.mark.parametrize("hold", [2, 3])
def test_nothing_of_a_settled_slot_is_left(lateness, hold, together):
    """Whatever the gap to the next value or tick: values of open slots are in panes alone, those of
    ``hold`` closed ones in the ring, and none are when all are settled.
    """
    of = topology("lbd", "last", lateness=lateness, hold=hold)
    values = [batch([(f"u{user}", slot, user % 3) for user in range(7)]) for slot in range(9)]
    for gap in (1, 2, hold - 1, hold, hold + 1, 3 * hold, 1000, 2**20):
        stage = answer(of)
        state = stage.fresh()
        counts = stage.fold(state, messages(values)).counts
        closed = 8 - lateness - 1
        assert counts["reports"] == 7 * (closed + 1)
        assert {slot - FIRST_SLOT for _, slot in rounds.held(state)} == set(
            range(closed + 1 - hold, closed + 1)
        )
        assert state.panes.slots() == list(range(FIRST_SLOT + closed + 1, FIRST_SLOT + 9))
        last = messages([tick(8 + gap), tick(8 + gap + lateness + 1 + hold)], 10)
        for at in range(0, 2, together):
            counts = stage.fold(state, last[at : at + together]).counts
            if together == 1 and not at:
                left = {slot - FIRST_SLOT for _, slot in rounds.held(state)}
                assert left == set(range(closed + gap + 1 - hold, min(9, closed + gap + 1)))
        assert not rounds.held(state) and not len(state.panes)
        assert all((cells == -1).all() for cells in state.users.state.columns["held"])


def test_a_jump_reports_what_it_settles():
    """A message that closes more slots than are held: each has its reports of the first phase, the
    last ones alone can be asked for, and nothing else is left.
    """
    of = topology("lbd", "mean", lateness=0, hold=2)
    second = of.method.protocol.terms.second
    stage = answer(of)
    state = stage.fresh()
    rows = [(f"u{user}", slot, user) for slot in range(5) for user in range(4)]
    put(stage, state, batch(rows[:1]))
    made = put(stage, state, batch([*rows[1:], ("u0", 9, 1)]), first=2)  # closes slots 0 to 8
    assert sum(map(len, made)) == 20
    assert (made[-1].closed, made[-1].settled) == (FIRST_SLOT + 8, FIRST_SLOT + 6)
    assert not rounds.held(state) and state.panes.slots() == [FIRST_SLOT + 9]

    state = stage.fresh()
    made = put(stage, state, batch(rows), tick(5))  # closes slots 0 to 4
    assert sorted(Counter(slot for each in made for slot in each.slots.tolist()).items()) == [
        (FIRST_SLOT + slot, 4) for slot in range(5)
    ]
    assert {slot - FIRST_SLOT for _, slot in rounds.held(state)} == {3, 4}
    asked = [put(stage, state, request(slot, second // 2), first=9 + slot) for slot in (2, 3, 4)]
    assert [sum(map(len, each)) for each in asked] == [0, 4, 4]


def test_a_request_of_an_open_slot_finds_nothing():
    """It comes too early, whatever waits."""
    of = topology("lbd", "last", lateness=1, hold=2)
    second = of.method.protocol.terms.second
    stage = answer(of)
    state = stage.fresh()
    made = put(stage, state, batch([(f"u{user}", 0, 1) for user in range(5)]), request(0, second))
    assert not sum(map(len, made)) and len(state.panes) == 1 and not rounds.held(state)
    made = put(stage, state, tick(2), request(0, second), first=3)
    assert [(each.phase, len(each)) for each in made] == [(0, 5), (1, 5)]
    assert not rounds.held(state)


@pytest.mark.parametrize("name", ["lpd", "lpa"])
def test_values_of_the_first_half_are_never_held(name):
    """No request can ask for them."""
    stage = answer(topology(name, "last"))
    state = stage.fresh()
    for slot in range(4):
        rows = [(f"u{user}", slot, user % 3) for user in range(60)]
        stage.fold(state, messages([batch(rows)], 1 + slot))
    second = np.flatnonzero(in_second_half(state.users.state.users[: state.users.state.count]))
    assert {row for row, _ in rounds.held(state)} == set(second.tolist())
    assert 10 < len(second) < 50


def test_a_state_is_of_bounded_size():
    """``hold`` values of 8 bytes a user, and panes of open slots, however long it runs."""
    of = topology("lbd", "last", lateness=2, hold=3)
    assert answer(of).fields["held"].length == 3

    def size(slots):
        stage = answer(of)
        state = stage.fresh()
        for slot in range(slots):
            rows = [(f"u{user}", slot, user % 3) for user in range(200)]
            stage.fold(state, messages([batch(rows)], 1 + slot))
        return sum(map(len, shards_of(stage, state).values())), len(json.dumps(stage.meta(state)))

    short, long = size(20), size(60)  # numbers of two digits
    assert abs(long[0] - short[0]) < 0.1 * short[0]
    assert long[1] == short[1]


def test_what_is_wrong_with_a_state_is_said():
    """As of either stage: values of settled slots, panes of closed ones, and what cannot be
    read.
    """
    of = topology("lbd", "last", lateness=0, hold=2)
    stage = answer(of)
    state = stage.fresh()
    put(stage, state, *(batch([(f"u{user}", slot, 1) for user in range(9)]) for slot in range(4)))
    shards, meta = shards_of(stage, state), stage.meta(state)
    good = stage.look(meta, shards)
    assert (good.problems, good.slots, good.users) == ([], 1, 9)

    def wrong(changed=None, **more):
        found = stage.look({**meta, **more}, {**shards, **(changed or {})})
        return [text.partition(" ")[2] for _, text in found.problems]

    assert wrong(settled=state.settled + 1) == ["values are held of slots that are settled"]
    assert wrong(closed=state.closed + 1) == ["panes are of slots that are closed"]
    pane = next(name for name in shards if "." in name)
    assert wrong({pane: b"x"}) == ["panes cannot be read"]
    assert wrong({"0": b"x"}) == ["shards cannot be read"]


# crashes


def said(stage, record):
    """Of reports: their ids, and all that they say."""
    return [(each[0], each[1:]) for each in reports(stage, [record])]


def logs_of(of):
    return lambda seed: numbered(rounds.wild(of, seed))


@pytest.mark.parametrize(("name", "how"), KINDS)
def test_crashes_between_any_two_records_of_a_snapshot(name, how):
    """Every report once: none is lost, and none is drawn of other values."""
    second = 0
    for seed in range(depth(8, 300)):
        of = placed(name, how, seed)
        stage, log = answer(of), logs_of(of)(seed)
        expected = straight(stage, log, said)
        assert crashed(stage, log, seed, said) == expected, seed
        second += sum(phase for [(_, phase, _, _)] in expected.values())
    assert second > 3


@pytest.mark.parametrize(("name", "how"), KINDS)
def test_shards_that_are_ahead(name, how):
    """Some records of users and of panes are written of a later offset than ``meta``, however far.
    What is folded again holds what the straight fold holds, and ends as it does.
    """
    for seed in SEEDS:
        random, of = Random(seed), placed(name, how, seed)
        stage, log = answer(of), rounds.wild(of, seed)
        first = random.randrange(len(log) - 2)
        second = random.randrange(first, len(log))
        state, written, held = stage.fresh(), {}, []
        for at, message in enumerate(log):
            stage.fold(state, [message])
            held.append((held_by(state), state.panes.slots()))
            if at == first:
                meta = json.loads(json.dumps(stage.meta(state)))
                shards = shards_of(stage, state)
                written = {each: (message.offset, shards[each]) for each in shards}
            if at == second:
                for each, payload in shards_of(stage, state).items():
                    if random.random() < 0.5:
                        written[each] = message.offset, payload
        found = stage.load(meta, written)
        at = first + 1
        for run in splits(len(log) - at, random):
            stage.fold(found, log[at : at + run])
            at += run
            if at > second:
                assert (held_by(found), found.panes.slots()) == held[at - 1], (seed, at)
        assert state_of(stage, found) == state_of(stage, state), seed


class DrawsAgain(AllBehind):
    """Reports at a slot's close, whatever its shard has reported before the crash."""

    def load(self, meta, shards):
        state = super().load(meta, shards)
        state.users.state.columns["last"][:] = np.iinfo(np.int64).min
        return state


class ForgetsAtClose:
    """Lets go of values when they have given their first report."""

    def _answer(self, state, who, slot, what):
        step = super()._answer(state, who, slot, what)
        state.users.state.columns["held"][:, who] = -1
        return step


class OnePlaceTooFew:
    """Holds values of one slot fewer than may be asked for."""

    @property
    def _places(self):
        return self.hold - 1


class ForgetsWhatIsAhead:
    """Lets go of values in shards that are ahead of it."""

    def _forget(self, state, before, offset):
        super()._forget(state, before, 2**62)


@pytest.mark.parametrize(
    ("broken", "name", "how"),
    [
        (NoCovers, "lba", "count"),
        (KeepsNoPanes, "lba", "last"),
        (DrawsAgain, "lba", "mean"),
        (ForgetsWhatIsAhead, "lba", "last"),
        (ForgetsAtClose, "lba", "last"),
        (OnePlaceTooFew, "lba", "last"),
    ],
)
def test_broken_twins_are_found(broken, name, how):
    """By what they say over crashes."""
    of = topology(name, how, hold=4)
    assert is_found(broken, answer(of), logs_of(of), said)


# privacy


@pytest.mark.parametrize("window", [2, 3])
@pytest.mark.parametrize("name", rounds.NAMES)
def test_no_order_of_requests_makes_a_user_spend_more(name, window):
    """Nor say two things of one slot: whatever values come how often, requests repeated, late and
    out of order, in any groups and again after a crash.
    """
    lateness, hold = Random(window).choice(PLACES)
    of = topology(name, "last", lateness=lateness, hold=hold, window=window)
    good, second = sound(of, SHORT)
    assert good
    assert second > SHORT / 10


@pytest.mark.parametrize("name", ["lbd", "lba"])
def test_an_edge_that_answers_twice_is_found(name, monkeypatch):
    """The search has power: where neither the stage nor the users' ledgers remember a request, it
    finds two reports of one slot.
    """

    class Forgets(AnswerAtClose):
        def _ask(self, state, message, output):
            before = state.settled
            super()._ask(state, message, output)
            state.settled = before

    monkeypatch.setattr(Responder, "fresh", lambda _, __, rows, ___: np.ones(len(rows), np.bool_))
    assert not sound(topology(name, "last"), SHORT, lambda of: of_kind(Forgets, answer(of)))[0]


@pytest.mark.parametrize(("name", "how"), KINDS)
def test_a_changed_value_changes_no_other_report(name, how):
    """Of two streams that differ in one of a user's several values of one slot, the same requests
    lead to the same reports, but for that user's of that slot.
    """
    changed, of = 0, topology(name, how, lateness=1, hold=2)
    noise, terms = cases.randomness(of), of.method.protocol.terms
    users = list(dict.fromkeys([*answering(of), *(f"u{user}" for user in range(30))]))
    cost = terms.budget if terms.population else terms.second // 3
    for slot in range(2, 6):
        told = []
        for other in (0, 1):
            values = []
            for at in range(8):
                rows = [(user, at, (index + at) % 3) for index, user in enumerate(users)]
                values.append(batch(rows))
                rows[0] = (users[0], at, (rows[0][2] + (other and at == slot)) % 3)
                values.append(batch(rows))
                values.append(request(at - 2, cost, 1, 2 if terms.population else 1))
            stage = answer(of)
            records = stage.fold(stage.fresh(), messages(values)).records
            told.append({each[:3]: each[3:] for each in reports(stage, records)})
        one, two = told
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
