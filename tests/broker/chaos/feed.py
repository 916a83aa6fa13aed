"""Input without end for many topologies: a thread that appends one slot after another to each raw
topic.
"""

from __future__ import annotations

import json
import random
import threading
import time
import traceback
from collections import defaultdict

import numpy as np

from ldp_kafka.randomness import Ids
from ldp_kafka.records import Events, Tick
from ldp_kafka.runtime.wire.codec import encode
from ldp_kafka.topology import Topology
from tests.broker.flow import Flow, users_of

# at a time; others come after them, as some methods give a user so many reports for life
USERS = 16
CROWD = 120  # where a coordinator looks at what they all say
LIFE = 24  # slots
START = 1_600_000_000_000 // 3_600_000
LATE = 0.06  # share of events that come with a later slot
IDLE = range(20, 26)  # of forty slots: the second partition gets nothing, not even ticks
PACE = 1.5  # seconds between two slots


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


class Taken:
    """What brokers have acknowledged of an input, and what they have not taken."""

    def __init__(self) -> None:
        self.lost: list[str] = []
        self.taken: dict[str, set[tuple[int, int, bytes]]] = defaultdict(set)
        """By topic: (partition, offset, value)."""

    def delivered(self, error, message) -> None:
        """As a producer's ``on_delivery``."""
        if error is None:
            self.taken[message.topic()].add(
                (message.partition(), message.offset(), message.value())
            )
        else:
            self.lost.append(error.str())


class Feed(Taken):
    """Appends slots until it is closed.

    ``clock`` is what a fault sets: by how many milliseconds the clock of the raw log's producers is
    off.
    """

    def __init__(self, flows: list[Flow], seed: int) -> None:
        super().__init__()
        self.flows, self.slot = flows, 0
        self.random, self.numbers = random.Random(seed), np.random.default_rng(seed)
        self.twice = self.shuffled = self.quiet = self.ahead = self.clock = 0
        self._lock = threading.Lock()
        self._held: dict[str, list[tuple[int, bytes]]] = {}
        self._stop = threading.Event()
        self._error = ""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def disturb(self, *, twice: int = 0, shuffled: int = 0, quiet: int = 0, ahead: int = 0) -> None:
        """Have each message of so many of the next slots up to three times; or out of order with
        those of the slot before; or nothing but ticks in the second partition; or all of them at
        once.
        """
        with self._lock:
            self.twice, self.shuffled = max(twice, self.twice), max(shuffled, self.shuffled)
            self.quiet, self.ahead = max(quiet, self.quiet), max(ahead, self.ahead)

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
            for partition, value in self._held.pop(flow.topology.name, []):
                self._put(flow, partition, value)
            for partition in range(flow.topology.input.partitions):
                self._put(flow, partition, encode(Tick((START + self.slot + 12) * 3_600_000)))
        for flow in self.flows:
            assert flow.producer.flush(90) == 0, "the broker did not take the input"

    def _run(self) -> None:
        try:
            while not self._stop.wait(0 if self.ahead else PACE):
                with self._lock:
                    twice, shuffled, quiet = self.twice, self.shuffled, self.quiet
                    self.twice, self.shuffled = max(0, twice - 1), max(0, shuffled - 1)
                    self.quiet, self.ahead = max(0, quiet - 1), max(0, self.ahead - 1)
                for flow in self.flows:
                    self._one(flow, twice, shuffled, quiet)
                self.slot += 1
        except BaseException:
            self._error = traceback.format_exc()

    def _one(self, flow: Flow, twice: int, shuffled: int, quiet: int) -> None:
        """One slot of one topology: a few batches and single events, a tick in each partition."""
        partitions = [0] if self.slot % 40 in IDLE else range(flow.topology.input.partitions)
        messages = [
            (partition, value)
            for partition in partitions
            for value in self._messages(flow, partition)[-1 if quiet and partition else 0 :]
        ]
        held = self._held.pop(flow.topology.name, [])
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
        times = (START + slots) * 3_600_000 + self.numbers.integers(0, 3_600_000, len(users))
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
        return [*out, encode(Tick((START + self.slot) * 3_600_000))]

    def _put(self, flow: Flow, partition: int, value: bytes) -> None:
        flow.producer.produce(
            flow.topology.raw_topic,
            value=value,
            partition=partition,
            timestamp=int(time.time() * 1000) + self.clock,
            on_delivery=self.delivered,
        )
        flow.producer.poll(0)
