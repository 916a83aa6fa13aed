"""A worker with one thing broken on purpose: LDP_KAFKA_TEST_MUTANT names it. What the judge
must find.

LDP_KAFKA_TEST_STOP names a file: a worker that finds it while it writes a snapshot takes it away
and stops itself there (SIGSTOP), after the flush and before the first shard. It breaks nothing: a
machine may pause between any two instructions. LDP_KAFKA_TEST_SLOW: so many seconds pass before
each record of a snapshot. A broker may be slow.

LDP_KAFKA_TEST_LOSE names a file: a worker that finds it takes it away, and throws away the fetch of
folded records that it has just made, as Faust does with one that a rebalance overtakes.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np

from ldp_kafka.accounting import Ledger
from ldp_kafka.methods.feedback import AccumulatedPerturbation, IterativePerturbation
from ldp_kafka.randomness import Keyed, System
from ldp_kafka.runtime.kafka import forwarder
from ldp_kafka.runtime.kafka.producer import OrderedProducer
from ldp_kafka.runtime.recovery.epoch import Epoch
from ldp_kafka.runtime.stages import asked, coordinate, curate
from ldp_kafka.runtime.stages import perturb as edge
from ldp_kafka.runtime.stages.panes import PaneOf
from ldp_kafka.runtime.stages.report_messages import Drawn
from ldp_kafka.runtime.stages.requests import is_request, read_request
from ldp_kafka.runtime.worker.transport.polling import Poller


def floating(at):
    """Noise tied to what a float function makes of the integers."""

    def tied(self, users, slot, phase, bound):
        floats = np.tanh((bound / 2**32).astype(np.float32)).view(np.int32)
        return at(self, users, slot, phase, floats.astype(np.int64))

    return tied


def acknowledging(fold):
    """Acknowledges what is folded, before any state is written."""

    def folded(self):
        events = self.handles[:]
        fold(self)
        for event in events:
            self.acknowledge(event)

    return folded


def forgetting(step):
    """Takes every event for one of a new slot: the slot and what it cost are forgotten."""

    def stepped(self, state, group, users, slots, *others):
        who, columns = users[group], state.users.state.columns
        if len(who):
            slot = int(slots[group][0])
            again = who[columns["last"].take(who) >= slot]
            columns["last"][again] = columns["ring_end"][again] = slot - 1
            columns["spent"][again] -= columns["ring"][slot % self.method.ledger.run, again]
            columns["ring"][slot % self.method.ledger.run, again] = 0
        step(self, state, group, users, slots, *others)

    return stepped


ARRIVED = [0]  # the slot of the latest event


def arriving(perturb):
    """Notes when a run of messages arrives."""

    def perturbed(self, state, *others):
        ARRIVED[0] = state.watermark // self.slot_ms
        return perturb(self, state, *others)

    return perturbed


def ending(at_bounds):
    """Sends what waits where a fold ends: how much is folded together depends on time."""

    def ended(self, state, places, *others):
        at_bounds(self, state, places, *others)
        waits = state.users.waiting.take()
        state.waiting.clear()
        state.users.touch(waits.users)
        batch = self._batch(state, waits.users, waits.slot, waits.phase, waits.value)
        drawn = Drawn(batch, waits.phase, np.zeros(len(waits.users), np.intp))
        self._send(state, places.take([-1]), drawn, others[-1])

    return ended


def late(charge):
    """Charges the slot in which a value arrives."""

    def charged(self, state, rows, slot, cost):
        return charge(self, state, rows, max(ARRIVED[0], slot), cost)

    return charged


def answering_twice(ask):
    """Takes every request of a closed slot for its first one, and lets no value go."""

    def again(self, state, message, *more):
        settled, request = self._passed(state).settled, read_request(message.value)
        if request.slot <= settled:
            state.asked.settled = request.slot - 1
            state.users.state.columns["asked"][:] = state.asked.settled
        ask(self, state, message, *more)
        state.asked.settled = max(state.asked.settled, settled)

    return again


def committing(append):
    """Commits requests before they have arrived."""

    def appended(self, consumer):
        if self._taken and (state := self._begun(consumer)) is not None:
            ahead = replace(state, counts=Counter())
            for message in self._taken:
                ahead.take(message.value(), forwarder._asked_at(message))
            self._state, self._done = ahead, self._taken[-1].offset() + 1
            self._commit(consumer)
            self._state = state
        append(self, consumer)

    return appended


def deciding_anew(load):
    """After a restart asks for half of what it would have asked for."""

    def loaded(self, meta, shards):
        state = load(self, meta, shards)
        coordinator = state.coordinator
        decide = coordinator.decide

        def decided(slot, sums, *, asks=True):
            verdict = decide(slot, sums, asks=asks)
            if verdict.request is None:
                return verdict
            coordinator._cost = verdict.request.cost // 2
            return verdict._replace(request=verdict.request._replace(cost=coordinator._cost))

        coordinator.decide = decided
        return state

    return loaded


def without_values(load):
    """Holds none of the values of before a restart."""

    def loaded(self, meta, shards):
        state = load(self, meta, shards)
        if self.requested is not None:
            state.users.state.columns["held"][:] = asked.NOTHING
        return state

    return loaded


def without_panes(names):
    """Says of no pane that it is to be written."""

    def said(self, state):
        return {name for name in names(self, state) if PaneOf.named(name) is None}

    return said


def reading_nothing(check):
    """What is missing is waited for, and not read again."""

    def checked(self) -> None:
        check(self)

    return checked


def break_it(name: str) -> None:
    if name == "fresh noise":
        Keyed.at = lambda *_: System()  # keyed ids, but noise that a replay draws again
    elif name == "no epoch":
        begin = Epoch.__init__

        def shared(self, *given, **named) -> None:
            begin(self, *given, **named | {"token": "0"})
            self._obsolete = []

        Epoch.__init__ = shared
    elif name == "floats in contexts":
        Keyed.at = floating(Keyed.at)
    elif name == "ledger over the window only":
        for kind in (AccumulatedPerturbation, IterativePerturbation):
            kind.memory = property(lambda _: 0)
    elif name == "early commit":
        Epoch.fold = acknowledging(Epoch.fold)
    elif name == "no de-duplication":
        edge.Perturb._step = forgetting(edge.Perturb._step)
    elif name == "billing at arrival":
        edge.Perturb._perturb = arriving(edge.Perturb._perturb)
        Ledger.charge = late(Ledger.charge)
    elif name == "bounds where a fold ends":
        edge.Perturb._at_bounds = ending(edge.Perturb._at_bounds)
    elif name == "answers twice":
        edge.Perturb._ask = answering_twice(edge.Perturb._ask)
        asked.Requested.forget = lambda *_: None
    elif name == "commits before arrival":
        forwarder.Forwarder._append = committing(forwarder.Forwarder._append)
    elif name == "decides anew":
        coordinate.Coordinate.load = deciding_anew(coordinate.Coordinate.load)
    elif name == "panes forgotten":
        curate.Curate.shards_of = without_panes(curate.Curate.shards_of)
        curate.Curate.dirty = without_panes(curate.Curate.dirty)
    elif name == "held values forgotten":
        edge.Perturb.load = without_values(edge.Perturb.load)
    elif name == "reads nothing again":
        Epoch.check = reading_nothing(Epoch.check)
    elif name != "none":
        raise SystemExit(f"no mutant {name}")


def stop_at(place: Path) -> None:
    """Stop in the middle of a snapshot."""
    persist = Epoch.persist

    async def stopping(snapshot, *, flush, put, acknowledge) -> None:
        async def flushed() -> None:
            await flush()
            if snapshot.shards and place.exists():  # noqa: ASYNC240
                place.unlink()  # noqa: ASYNC240
                os.kill(os.getpid(), signal.SIGSTOP)

        await persist(snapshot, flush=flushed, put=put, acknowledge=acknowledge)

    Epoch.persist = staticmethod(stopping)


def lose_at(place: Path) -> None:
    """Throw a fetch away."""
    hand_over = Poller._hand_over

    def losing(self, found, generation) -> None:
        if place.exists():
            place.unlink()
        else:
            hand_over(self, found, generation)

    Poller._hand_over = losing


def slow_down(seconds: float) -> None:
    """Write each record of a snapshot after so many seconds."""
    persist = Epoch.persist

    async def slowly(snapshot, *, flush, put, acknowledge) -> None:
        async def late(key, value) -> None:
            await asyncio.sleep(seconds)
            await put(key, value)

        await persist(snapshot, flush=flush, put=late, acknowledge=acknowledge)

    Epoch.persist = staticmethod(slowly)


def kill_between(place: Path) -> None:
    """Kill this process when its forwarder has appended a request to one partition alone, at the
    next one after the file is there. It breaks nothing either.
    """
    append = OrderedProducer.send

    def sent(self, records) -> None:
        append(self, records)
        # another worker's producers have no requests
        first = any(is_request(record.value) and record.partition == 0 for record in records)
        if first and place.exists():
            while not self.arrived(self.mark()):
                self.poll(0.01)
            place.unlink()
            os.kill(os.getpid(), signal.SIGKILL)

    forwarder.OrderedProducer = type("Killed", (OrderedProducer,), {"send": sent})


def become(words: list[str]) -> None:
    """Break what the environment names, in a process that is about to run these words."""
    break_it(os.environ["LDP_KAFKA_TEST_MUTANT"])
    # the collector writes snapshots too
    if os.environ.get("LDP_KAFKA_TEST_STOP") and "perturb" in words:
        stop_at(Path(os.environ["LDP_KAFKA_TEST_STOP"]))
    if os.environ.get("LDP_KAFKA_TEST_LOSE"):
        lose_at(Path(os.environ["LDP_KAFKA_TEST_LOSE"]))
    if seconds := os.environ.get("LDP_KAFKA_TEST_SLOW"):
        slow_down(float(seconds))
