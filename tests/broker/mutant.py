"""A worker with one thing broken on purpose: LDP_KAFKA_TEST_MUTANT names it. What the judge
must find.

LDP_KAFKA_TEST_STOP names a file: a worker that finds it while it writes a snapshot takes it away
and stops itself there (SIGSTOP), after the flush and before the first shard. It breaks nothing: a
machine may pause between any two instructions.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np

from ldp_kafka.accounting import Ledger
from ldp_kafka.methods.feedback import AccumulatedPerturbation, IterativePerturbation
from ldp_kafka.randomness import Keyed, System
from ldp_kafka.runtime.kafka import forwarder
from ldp_kafka.runtime.kafka.producer import OrderedProducer
from ldp_kafka.runtime.recovery.epoch import Epoch
from ldp_kafka.runtime.stages import perturb as edge
from ldp_kafka.runtime.stages.requests import is_request


def floating(at):
    """Noise tied to what a float function makes of the integers."""

    def tied(self, users, slot, phase, bound):
        floats = np.tanh((bound / 2**32).astype(np.float32)).view(np.int32)
        return at(self, users, slot, phase, floats.astype(np.int64))

    return tied


def acknowledging(fold):
    """Acknowledges what is folded, before any state is written."""

    def folded(self):
        events = [event for _, event in self.waiting]
        fold(self)
        for event in events:
            event.ack()

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
        perturb(self, state, *others)

    return perturbed


def late(charge):
    """Charges the slot in which a value arrives."""

    def charged(self, state, rows, slot, cost):
        return charge(self, state, rows, max(ARRIVED[0], slot), cost)

    return charged


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
