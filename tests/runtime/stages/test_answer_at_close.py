"""Values of a slot that are taken together where a coordinator asks: they wait in panes until their
slot is closed, and for its request then. Neither groups of messages nor crashes change a byte of
it, and no order of requests makes a user spend more.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from ldp_kafka.records import Tick
from ldp_kafka.runtime.stages.gates import AtOnce
from ldp_kafka.runtime.stages.requests import is_request
from ldp_kafka.runtime.wire.records import encode_json
from tests import rounds
from tests.depth import depth
from tests.rounds import FIRST_SLOT, batch, messages, request, tick
from tests.runtime.stages.test_answer import (
    PLACES,
    TAKEN,
    TwinAtClose,
    answer,
    followed,
    put,
    reports,
)

SEEDS = range(depth(4, 150))
KINDS = [(name, how) for name in rounds.NAMES for how in ("last", "mean")]
"""Of categories, and of numbers."""


def topology(name, how, **more):
    return rounds.topology(name, per_slot=how, numeric=how != "last", **more)


def placed(name, how, seed):
    lateness, hold = PLACES[seed % len(PLACES)]
    return topology(name, how, lateness=lateness, hold=hold)


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
        places = of.input.hold + of.input.lateness + 1  # those of open slots, too
        held = replace(stage.requested, places=places)
        at_once = replace(stage, gate=AtOnce(stage.method), requested=held)
        one, many = (
            reports(each, each.fold(each.fresh(), given).records)
            for each, given in ((at_once, one_value(of, log)), (stage, log))
        )
        assert sorted(one) == sorted(many), seed
        found += len(many)
    assert found > 40


# what is held


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


def test_what_is_wrong_with_a_state_is_said():
    """As of either stage: values of settled slots, panes of closed ones, and what cannot be
    read.
    """
    of = topology("lbd", "last", lateness=0, hold=2)
    stage = answer(of)
    state = stage.fresh()
    put(stage, state, *(batch([(f"u{user}", slot, 1) for user in range(9)]) for slot in range(4)))
    shards, meta = stage.dump(state, stage.shards_of(state)), stage.meta(state)
    good = stage.look(meta, shards)
    assert (good.problems, good.slots, good.users) == ([], 1, 9)

    def wrong(changed=None, **more):
        found = stage.look({**meta, **more}, {**shards, **(changed or {})})
        return [text.partition(" ")[2] for _, text in found.problems]

    assert wrong(settled=state.asked.settled + 1) == ["values are held of slots that are settled"]
    assert wrong(closed=state.closed + 1) == ["panes are of slots that are closed"]
    pane = next(name for name in shards if "." in name)
    assert wrong({pane: b"x"}) == ["panes cannot be read"]
    assert wrong({"0": b"x"}) == ["shards cannot be read"]


# crashes


# privacy
