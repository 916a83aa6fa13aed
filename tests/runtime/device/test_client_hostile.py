"""A device under a coordinator that asks whatever it likes, and that shows every life of the device
something else; whatever stops the device, and when. Never two reports of one phase of a slot, never
more than the budget in a window, nothing lost that was on the disk.
"""

from __future__ import annotations

import shutil
from collections import defaultdict
from contextlib import contextmanager
from hashlib import sha256
from itertools import product
from random import Random

import numpy as np
import pytest

from ldp_kafka.methods.protocols import Responder
from ldp_kafka.methods.protocols.request import FIRST as FIRST_PHASE
from ldp_kafka.methods.protocols.request import SECOND
from ldp_kafka.randomness import Ids
from ldp_kafka.records import Request
from ldp_kafka.runtime.device import provisioning
from ldp_kafka.runtime.device.client import Client
from ldp_kafka.runtime.device.queue import ReportQueue
from ldp_kafka.runtime.wire.parsing import parse_json
from ldp_kafka.runtime.wire.records import encode_json
from tests.depth import depth
from tests.runtime.device.lives import (
    FIRST,
    SLOT,
    TEXT,
    Broker,
    client_of,
    let_out,
    lived,
    loads,
)

ASKED = TEXT.replace("lateness: 1000", "lateness: 0, hold: 2, max_ahead: 5m")
TOPOLOGIES = {
    name: ASKED % (name, "mechanism: grr, categories: 5", "frequencies") for name in ("lba", "lpd")
}
BUDGET, WINDOW, SLOTS = 3_000_000, 3, 6
TWO = "two different reports of one phase of a slot left the device"
MUCH = "more than the budget left the device"
LOST = "a report that was on the disk never arrived"
LESS = "the ledger holds less than what has left"
KEYS = (1, 13)
"""The number of the key of a device whose user is in half A, and of one in half B."""


def asking(name, slot, dice):
    """A request of a slot counted from the first, as dear as can be more often than not."""
    if name.startswith("lp"):
        cost, share, of = dice.choice([BUDGET, BUDGET, BUDGET, 0]), 1, dice.choice([1, 1, 2])
    else:
        cost, share, of = dice.choice([BUDGET // 2, BUDGET // 2, 700_000, 400_000, 0]), 1, 1
    return encode_json(Request("r", FIRST + slot, SECOND, cost, FIRST + slot, share, of))


def script(name, dice, slots=SLOTS):
    """What happens to a device: values of most slots, and requests for any slots, more than once,
    in any order, some before there is a value.
    """
    for slot in range(slots):
        if dice.random() < 0.9:
            yield "report", slot
        for _ in range(dice.randint(0, 3)):
            yield "answer", max(0, slot - dice.choice([0, 0, 0, 0, 1, 1, 2, -1]))
    for slot in (slots - 2, slots - 1):
        yield "answer", slot


def lives(kind, name, folder, monkeypatch, cuts, *, key, arrives=True, seed=0, slots=SLOTS):
    """A device that lives through a script, over as many lives as there are cuts and one more. What
    was cut is tried again, with another value, and another request for the same slot.
    """
    broker, dice = Broker(), Random(seed)
    acts, at, made, charged = list(script(name, Random(seed), slots)), 0, 0, 0

    def secret(path):
        path.write_bytes(sha256(bytes([key])).digest())
        path.chmod(0o600)

    def live(client):
        nonlocal at, made, charged
        while at < len(acts):
            what, slot = acts[at]
            broker.down = at % 5 == 1
            if what == "report":
                made += client.report(dice.randrange(5), (FIRST + slot) * SLOT) in (
                    "sent",
                    "queued",
                )
            else:
                made += client.answer(asking(name, slot, dice))
            at += 1
        broker.down = False
        state = client._load(client._randomness.digests(Ids.of(["m"])))
        charged = client._method.largest(state)
        client.close(1)

    monkeypatch.setattr(provisioning, "new_key", secret)
    steps, halted = lived(
        *(kind, loads(TOPOLOGIES[name]), folder, monkeypatch, cuts, live),
        broker=broker,
        arrives=arrives,
        slots=slots,
    )
    return Outcome(broker, made, steps, charged=0 if halted else charged, halted=halted)


class Outcome:
    """What came of a device's lives."""

    def __init__(self, broker, made, steps, *, charged=0, halted=False):
        self.broker, self.made, self.steps, self.halted = broker, made, steps, halted
        self.charged = charged
        self.bodies = defaultdict(set)
        for _, value in broker.left:
            body = parse_json(value)
            self.bodies[body["slot"] - FIRST, body["phase"]].add(value)

    def spent(self, first):
        """Micro-epsilon by slot, each different report counted."""
        found = defaultdict(int)
        for (slot, phase), values in self.bodies.items():
            for value in values:
                found[slot] += parse_json(value)["cost"] if phase else first
        return found

    def most(self, first):
        """Of any window."""
        spent = self.spent(first)
        return max(
            (sum(spent[slot + back] for back in range(WINDOW)) for slot in list(spent)), default=0
        )

    def faults(self, first):
        """Everything that must not be, in words."""
        found = ["the database refused what came"] if self.halted else []
        if any(len(values) > 1 for values in self.bodies.values()):
            found.append(TWO)
        if self.most(first) > BUDGET:
            found.append(MUCH)
        arrived = {
            (parse_json(value)["slot"], parse_json(value)["phase"])
            for values in self.broker.log.values()
            for value in values
        }
        runs = 0
        for phase in (FIRST_PHASE, SECOND):
            slots = {slot - FIRST for slot, of in arrived if of == phase}
            for slot in slots:
                if slot > max(slots) - WINDOW:
                    [value, *_] = self.bodies[slot, phase]
                    runs += parse_json(value)["cost"] if phase else first
        if len(arrived) < self.made or runs < self.charged:
            found.append(LOST)
        if runs > self.charged:
            found.append(LESS)
        return found


def price(name):
    """Of a report of the first phase."""
    return loads(TOPOLOGIES[name]).method.protocol.terms.first


@client_of
class AnswersEarly(ReportQueue):
    """An answer leaves before its transaction ends."""

    def answer(self, states, reports, **more):
        let_out(self, reports)
        super().answer(states, reports, **more)


@client_of
class StatesLater(ReportQueue):
    """The answer is in one transaction, what it was charged to in the next."""

    def answer(self, states, reports, *, told, through):
        before = self._store.asked() or '{"last":-1,"offset":-1,"history":[]}'
        super().answer([], reports, told=before, through=-1)
        super().answer(states, [], told=told, through=through)


@client_of
class AnswerLater(ReportQueue):
    """What it was charged to is in one transaction, the answer in the next."""

    def answer(self, states, reports, *, told, through):
        super().answer(states, [], told=told, through=through)
        super().answer(states, reports, told=told, through=through)


class AnswersTwice(Client):
    """Which slots were asked for is nobody's business, and values stay."""

    def __init__(self, *given, **named):
        super().__init__(*given, **named)
        self._queue.__class__ = type("Holds", (ReportQueue,), {"answer": _holds})

    def answer(self, *requests):
        self._answers.last = -1
        responder = self._answers._method
        fresh, responder.fresh = responder.fresh, lambda _, rows, __: np.ones(len(rows), np.bool_)
        try:
            return super().answer(*requests)
        finally:
            responder.fresh = fresh


def _holds(self, states, reports, *, told, through):
    ReportQueue.answer(self, states, reports, told=told, through=-1)


class ChargesNothing(Client):
    """What is asked for is not charged, nor is a turn used."""

    def answer(self, *requests):
        with _patched(Responder, "charge", _free), _patched(Responder, "select", _everybody):
            return super().answer(*requests)


class StatesNothing(Client):
    """A charge is not written down."""

    def __init__(self, *given, **named):
        super().__init__(*given, **named)
        self._queue.__class__ = type("Stateless", (ReportQueue,), {"answer": _stateless})


def _stateless(self, states, reports, **more):
    del states
    ReportQueue.answer(self, [], reports, **more)


@contextmanager
def _patched(owner, name, what):
    before = getattr(owner, name)
    setattr(owner, name, what)
    try:
        yield
    finally:
        setattr(owner, name, before)


def _free(self, state, rows, slot, cost, phase):
    del self, state, slot, cost, phase
    return np.ones(len(rows), np.bool_)


def _everybody(self, state, rows, request, history, randomness):
    del self, state, request, history, randomness
    return np.ones(len(rows), np.bool_)


@pytest.mark.parametrize(("name", "key"), [*product(TOPOLOGIES, KEYS)])
def test_never_more_than_the_budget(name, key, disk, monkeypatch):
    """Over hostile scripts and lives that end soon; and some come close: all of the budget is asked
    for, and given.
    """
    most = answers = 0
    for seed in range(depth(12, 300)):
        cuts = np.random.default_rng(seed).integers(1, 120, seed % 5).tolist()
        here = disk / str(seed)
        here.mkdir()
        outcome = lives(
            Client,
            name,
            here,
            monkeypatch,
            cuts,
            key=key,
            arrives=bool(seed % 2),
            seed=seed,
            slots=12,
        )
        assert not outcome.faults(price(name)), (seed, cuts)
        most = max(most, outcome.most(price(name)))
        answers += sum(phase == SECOND for _, phase in outcome.bodies)
        shutil.rmtree(here)
    assert most > 0.9 * BUDGET
    assert (answers > 12) == (name == "lba" or key == KEYS[1])


def everywhere(kind, name, folder, monkeypatch, *, arrives, seed=1, until=None):
    """One cut before each step of a life, or ``until`` this is found."""
    whole = folder / "whole"
    whole.mkdir()
    calm = lives(kind, name, whole, monkeypatch, [], key=KEYS[1], arrives=arrives, seed=seed)
    found = defaultdict(list)
    for fault in calm.faults(price(name)):
        found[fault].append(None)
    cuts = list(range(1, calm.steps[0] + 1))
    if until is not None:
        Random(seed).shuffle(cuts)  # most faults are late in a life
    for at in cuts:
        if until in found:
            break
        here = folder / f"at{at}"
        here.mkdir()
        outcome = lives(
            kind, name, here, monkeypatch, [at], key=KEYS[1], arrives=arrives, seed=seed
        )
        for fault in outcome.faults(price(name)):
            found[fault].append(at)
        shutil.rmtree(here)
    return dict(found), calm.steps[0]


@pytest.mark.parametrize(
    ("name", "arrives"),
    depth([("lba", True), ("lpd", False)], [*product(TOPOLOGIES, (False, True))]),
)
def test_a_cut_before_every_step(name, arrives, disk, monkeypatch):
    found, cuts = everywhere(Client, name, disk, monkeypatch, arrives=arrives)
    assert not found
    assert cuts > 150


@pytest.mark.parametrize(
    ("kind", "arrives", "fault"),
    [(AnswersEarly, False, TWO), (StatesLater, False, TWO), (AnswerLater, True, LOST)],
)
def test_a_client_that_a_cut_breaks_is_found(kind, arrives, fault, disk, monkeypatch):
    """By the same cuts."""
    for seed in range(1, 4):
        here = disk / str(seed)
        here.mkdir()
        found, _ = everywhere(
            kind, "lba", here, monkeypatch, arrives=arrives, seed=seed, until=fault
        )
        if fault in found:
            return
    pytest.fail("it was not found")


@pytest.mark.parametrize(
    ("kind", "name", "fault"),
    [
        (AnswersTwice, "lba", TWO),
        (ChargesNothing, "lba", MUCH),
        (ChargesNothing, "lpd", MUCH),
        (StatesNothing, "lba", LESS),
        (StatesNothing, "lba", MUCH),
        (StatesNothing, "lpd", MUCH),
    ],
)
def test_a_broken_client_is_found(kind, name, fault, disk, monkeypatch):
    """By the same scripts, and nothing stops it."""
    for seed in range(60):
        here = disk / str(seed)
        here.mkdir()
        outcome = lives(kind, name, here, monkeypatch, [], key=KEYS[1], seed=seed, slots=12)
        if fault in outcome.faults(price(name)):
            return
    pytest.fail("it was not found")
