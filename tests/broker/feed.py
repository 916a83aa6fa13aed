"""Input without end for many topologies: a thread that appends one slot after another to each raw
topic, whether or not a broker is there to take it.
"""

from __future__ import annotations

import json
import random
import threading
import time
import traceback
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ldp_kafka.randomness import Ids
from ldp_kafka.records import Events, Tick
from ldp_kafka.runtime.wire.codec import encode
from ldp_kafka.topology import Topology
from tests.broker.flow import Flow, users_of

if TYPE_CHECKING:
    from tests.broker.outages.subjects import Subject

__all__ = ["START", "Feed", "Rough", "Steady"]

HOUR = 3_600_000
# at a time; others come after them, as some methods give a user so many reports for life
USERS = 16
CROWD = 120  # where a coordinator looks at what they all say
LIFE = 24  # slots
START = 1_600_000_000_000 // HOUR
LATE = 0.06  # share of events that come with a later slot
UNKNOWN = -1  # an offset
IDLE = range(20, 26)  # of forty slots: the second partition gets nothing, not even ticks
ROUGH, STEADY = 1.5, 1.0  # seconds between two slots
PARTS = 4  # of a steady slot, at equal distances


def crowd(flow: Flow) -> int:
    """How many users a topology has at a time."""
    return USERS if flow.topology.flow.sums is None else CROWD


def values_of(topology: Topology, slot: int, numbers: np.random.Generator, n: int) -> np.ndarray:
    """What so many users have in a slot."""
    method = topology.method
    if topology.flow.sums is not None:  # something to publish: it jumps every other slot
        most = numbers.random(n) < 0.8
        if method.kind == "categorical":
            return np.where(most, slot // 2 % 3, numbers.integers(0, 3, n))
        return np.where(most, 12.0 + 8 * (slot // 2 % 3), 10 + 20 * numbers.random(n))
    if method.kind == "categorical":
        return numbers.integers(0, topology.privacy.categories, n)
    values = numbers.beta(2, 5, (n, method.dimension) if method.dimension else n).round(4)
    return 20 * values if method.ball else 10 + 20 * values


class Feed:
    """Appends slots until it is closed. Where messages are to stay in their order, flows have
    producers for that.

    Parameters
    ----------
    seed : of values and disorder
    """

    def __init__(self, flows: Sequence[Flow], seed: int) -> None:
        self.flows, self.slot = flows, 0
        self.random, self.numbers = random.Random(seed), np.random.default_rng(seed)
        self.clock = 0
        """What a fault sets: by how many milliseconds the clock of the raw log's producers is
        off.
        """
        self.lost: list[str] = []
        """What brokers have not taken."""
        self.taken: dict[str, set[tuple[int, int, bytes]]] = defaultdict(set)
        """What they have acknowledged, by topic: (partition, offset, value)."""
        self._stop = threading.Event()
        self._error = ""
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin to append."""
        self._thread.start()

    def stop(self) -> None:
        """Append no more."""
        self._stop.set()
        self._thread.join()

    def close(self) -> None:
        """Write what is held back and the ticks that close every slot, and see that everything
        arrived.
        """
        self.stop()
        assert not self._error, self._error
        for flow in self.flows:
            for partition, value in self._rest(flow):
                self._put(flow, partition, value)
            for partition in range(flow.topology.input.partitions):
                self._put(flow, partition, encode(Tick((START + self.slot + 12) * HOUR)))
        for flow in self.flows:
            assert flow.producer.flush(120) == 0, "the broker did not take the input"

    def not_there(self, flow: Flow) -> int:
        """How many records of its raw log a broker has acknowledged that are not there."""
        topic = flow.topology.raw_topic
        log, taken = flow.read(topic), self.taken[topic]
        assert taken, "nothing was ever acknowledged"
        there = {(m.partition(), m.offset(), m.value()) for m in log}
        # of what had arrived before it was sent again the producer does not hear where it lies
        there |= {(m.partition(), UNKNOWN, m.value()) for m in log}
        return len({(n, max(UNKNOWN, offset), value) for n, offset, value in taken} - there)

    def _run(self) -> None:
        try:
            self._go_on()
        except BaseException:
            self._error = traceback.format_exc()

    def _go_on(self) -> None:
        """Append slots until `_stop` is set."""
        raise NotImplementedError

    def _rest(self, flow: Flow) -> list[tuple[int, bytes]]:
        """What is held back, by partition."""
        del flow
        return []

    def _put(self, flow: Flow, partition: int, value: bytes) -> None:
        flow.producer.produce(
            flow.topology.raw_topic,
            value=value,
            partition=partition,
            timestamp=int(time.time() * 1000) + self.clock,
            on_delivery=self._delivered,
        )
        flow.producer.poll(0)

    def _delivered(self, error, message) -> None:
        if error is None:
            place = message.partition(), message.offset(), message.value()
            self.taken[message.topic()].add(place)
        else:
            self.lost.append(error.str())


class Rough(Feed):
    """Some events are late, users come and go, a partition is idle now and then."""

    def __init__(self, flows: Sequence[Flow], seed: int) -> None:
        super().__init__(flows, seed)
        self.twice = self.shuffled = self.quiet = self.ahead = 0
        self._lock = threading.Lock()
        self._held: dict[str, list[tuple[int, bytes]]] = {}

    def disturb(self, *, twice: int = 0, shuffled: int = 0, quiet: int = 0, ahead: int = 0) -> None:
        """Have each message of so many of the next slots up to three times; or out of order with
        those of the slot before; or nothing but ticks in the second partition; or all of them at
        once.
        """
        with self._lock:
            self.twice, self.shuffled = max(twice, self.twice), max(shuffled, self.shuffled)
            self.quiet, self.ahead = max(quiet, self.quiet), max(ahead, self.ahead)

    def _go_on(self) -> None:
        while not self._stop.wait(0 if self.ahead else ROUGH):
            with self._lock:
                twice, shuffled, quiet = self.twice, self.shuffled, self.quiet
                self.twice, self.shuffled = max(0, twice - 1), max(0, shuffled - 1)
                self.quiet, self.ahead = max(0, quiet - 1), max(0, self.ahead - 1)
            for flow in self.flows:
                self._one(flow, twice, shuffled, quiet)
            self.slot += 1

    def _rest(self, flow: Flow) -> list[tuple[int, bytes]]:
        return self._held.pop(flow.topology.name, [])

    def _one(self, flow: Flow, twice: int, shuffled: int, quiet: int) -> None:
        """One slot of one topology: a few batches and single events, a tick in each partition."""
        partitions = [0] if self.slot % 40 in IDLE else range(flow.topology.input.partitions)
        messages = [
            (partition, value)
            for partition in partitions
            for value in self._messages(flow, partition)[-1 if quiet and partition else 0 :]
        ]
        held = self._rest(flow)
        if twice:
            messages += [self.random.choice(messages) for _ in range(2 * len(messages))]
        if shuffled > 1:
            self._held[flow.topology.name] = messages[::2]
            messages = messages[1::2]
        messages += held
        if held or twice:
            self.random.shuffle(messages)
        for partition, value in messages:
            self._put(flow, partition, value)

    def _messages(self, flow: Flow, partition: int) -> list[bytes]:
        topology, rnd = flow.topology, self.random
        users = users_of(topology, partition, crowd(flow), f"u{self.slot // LIFE}.")
        rnd.shuffle(users)
        values, cut = values_of(topology, self.slot, self.numbers, len(users)), len(users) // 2
        slots = np.array(
            [
                max(0, self.slot - rnd.choice((1, 1, 2, 4))) if rnd.random() < LATE else self.slot
                for _ in users
            ]
        )
        times = (START + slots) * HOUR + self.numbers.integers(0, HOUR, len(users))
        out = [
            encode(Events(Ids.of(users[:cut]), times[:cut], values[:cut])),
            encode(Events(Ids.of(users[cut:-1]), times[cut:-1], values[cut:-1])),
        ]
        if topology.privacy.category_names is None:
            out.append(
                json.dumps(
                    {"user": users[-1], "time": int(times[-1]), "value": values[-1].tolist()}
                ).encode()
            )
        return [*out, encode(Tick((START + self.slot) * HOUR))]


class Steady(Feed):
    """A part of each slot's users every quarter of a second."""

    def __init__(self, subjects: Sequence[Subject], seed: int) -> None:
        super().__init__(subjects, seed)
        self.subjects = subjects
        self.given: dict[str, dict[int, float]] = defaultdict(dict)
        """By topology: when the last event of each slot was given to the producer."""

    def per_slot(self, subject: Subject) -> int:
        """Messages of a slot, over all partitions: each ends with a tick."""
        partitions = subject.topology.input.partitions
        return (subject.users if subject.singles else PARTS * partitions) + partitions

    def _go_on(self) -> None:
        begin, step = time.monotonic(), 0
        while not self._stop.wait(max(0.0, begin + step * STEADY / PARTS - time.monotonic())):
            self.slot, part = divmod(step, PARTS)
            for subject in self.subjects:
                if subject.fed:
                    self._give(subject, part)
            step += 1

    def _give(self, subject: Subject, part: int) -> None:
        """A part of a slot's users; behind the last one a tick."""
        topology = subject.topology
        for partition in range(topology.input.partitions):
            users = users_of(topology, partition, subject.users)[part::PARTS]
            values = values_of(topology, self.slot, self.numbers, len(users))
            times = (START + self.slot) * HOUR + self.numbers.integers(0, HOUR, len(users))
            if subject.singles:
                for user, at, value in zip(users, times.tolist(), values.tolist(), strict=True):
                    record = {"user": user, "time": at, "value": value}
                    self._put(subject, partition, json.dumps(record).encode())
            else:
                self._put(subject, partition, encode(Events(Ids.of(users), times, values)))
            if part == PARTS - 1:
                self._put(subject, partition, encode(Tick((START + self.slot) * HOUR)))
        if part == PARTS - 1:
            self.given[topology.name][START + self.slot] = time.time()
