"""A steady input: each topology's slots one after the other, by a producer that waits for its
broker as long as it takes; not by one of librdkafka's idempotent ones, which takes a core meanwhile
(`OrderedProducer`).
"""

from __future__ import annotations

import json
import threading
import time
import traceback
from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np
from confluent_kafka import Producer

from ldp_kafka.randomness import Ids
from ldp_kafka.records import Events, Tick
from ldp_kafka.runtime.wire.codec import encode
from tests.broker.chaos.feed import START, Taken, values_of
from tests.broker.flow import users_of

if TYPE_CHECKING:
    from tests.broker.outages.subjects import Subject

__all__ = ["Steady"]

PACE = 1.0  # seconds between two slots
PARTS = 4  # of a slot, at equal distances
HOUR = 3_600_000


class Steady(Taken):
    """Appends slots until it is closed, whether or not a broker is there to take them."""

    def __init__(self, boot: str, subjects: list[Subject], seed: int) -> None:
        super().__init__()
        self.subjects, self.slot = subjects, 0
        self.numbers = np.random.default_rng(seed)
        self.given: dict[str, dict[int, float]] = defaultdict(dict)
        """By topology: when the last event of each slot was given to the producer."""
        self.producer = Producer(
            {
                "bootstrap.servers": boot,
                "acks": "all",
                "max.in.flight": 1,  # what is tried again stays in its order
                "message.timeout.ms": 0,
                "reconnect.backoff.max.ms": 200,
                "queue.buffering.max.messages": 10_000_000,
                "linger.ms": 2,
                "log_level": 0,
            }
        )
        self._stop = threading.Event()
        self._error = ""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Append no more."""
        self._stop.set()
        self._thread.join()

    def close(self) -> None:
        """Write the ticks that close every slot, and see that everything arrives."""
        self.stop()
        assert not self._error, self._error
        for subject in self.subjects:
            for partition in range(subject.flow.topology.input.partitions):
                self._put(subject, partition, encode(Tick((START + self.slot + 12) * HOUR)))
        assert self.producer.flush(120) == 0, "the broker did not take the input"

    def per_slot(self, subject: Subject) -> int:
        """Messages of a slot, over all partitions: each ends with a tick."""
        partitions = subject.flow.topology.input.partitions
        return (subject.users if subject.singles else PARTS * partitions) + partitions

    def _run(self) -> None:
        try:
            begin, step = time.monotonic(), 0
            while not self._stop.wait(max(0.0, begin + step * PACE / PARTS - time.monotonic())):
                self.slot, part = divmod(step, PARTS)
                for subject in self.subjects:
                    if subject.fed:
                        self._give(subject, part)
                self.producer.poll(0)
                step += 1
        except BaseException:
            self._error = traceback.format_exc()

    def _give(self, subject: Subject, part: int) -> None:
        """A part of a slot's users; behind the last one a tick."""
        topology = subject.flow.topology
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

    def _put(self, subject: Subject, partition: int, value: bytes) -> None:
        topic = subject.flow.topology.raw_topic
        self.producer.produce(topic, value, None, partition, self.delivered)
