"""Someone else's topic, a relayer, and what is in our log: for tests of the relayer on an embedded
broker and on a real one.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from confluent_kafka import Producer

from ldp_kafka.errors import BadRecord
from ldp_kafka.randomness import Ids
from ldp_kafka.records import Events, Tick
from ldp_kafka.runtime.kafka import admin
from ldp_kafka.runtime.kafka.reader import Kept, read_records
from ldp_kafka.runtime.kafka.relayer import Relayer
from ldp_kafka.runtime.stages.relaying import source_of
from ldp_kafka.runtime.stages.requests import is_request
from ldp_kafka.runtime.wire.codec import decode, encode
from ldp_kafka.topology import Topology
from tests.broker import requests

__all__ = [
    "FIRST",
    "PARTITIONS",
    "SLOT",
    "TEXT",
    "Copier",
    "batch",
    "copied",
    "event",
    "kept",
    "left",
    "now",
    "put",
    "slots_of",
    "ticks",
]

PARTITIONS = 2
SLOT = 60_000
FIRST = 1_600_000_000_000 // SLOT // 4 * 4
TEXT = """
topology: {name}
kafka: {{bootstrap_servers: "{boot}"}}
input: {{topic: {name}.theirs, relay: true, slot: 60s, partitions: 2, lateness: 1, hold: 3,
  idle: {idle}{more}}}
privacy: {{method: {method}, epsilon: 1.0, window: 5, categories: 4}}
output: {{statistics: [frequencies]}}
edge: {{key_file: {key}}}
runtime: {{session_timeout: {session}}}
"""


def event(slot: int, user: str = "u", late: int = 0, value: int = 1) -> bytes:
    """An event of a slot after the first."""
    time_ms = (FIRST + slot) * SLOT + late
    return json.dumps({"user": user, "time": time_ms, "value": value}).encode()


def batch(slots: list[int]) -> bytes:
    """A batch with an event of a user of its own in each of these slots after the first."""
    times = (FIRST + np.array(slots)) * SLOT
    users = Ids.of([f"b{n}" for n in range(len(slots))])
    return encode(Events(users, times, np.ones(len(slots), np.int64)))


def put(topology: Topology, config: Mapping[str, Any], partition: int, *values: Any) -> None:
    """Append to the other topic: values, or (value, more of what `produce` takes)."""
    producer = Producer(dict(config))
    for each in values:
        value, more = each if isinstance(each, tuple) else (each, {})
        producer.produce(topology.input.topic, value, partition=partition, **more)
    assert producer.flush(20) == 0


def kept(topology: Topology, config: Mapping[str, Any]) -> list[list[Kept]]:
    """Our log, by partition."""
    found: list[list[Kept]] = [[] for _ in range(topology.input.partitions)]
    for each in sorted(read_records(config, topology.raw_topic), key=lambda each: each[:2]):
        found[each.partition].append(each)
    return found


def copied(topology: Topology, config: Mapping[str, Any]) -> list[list[int]]:
    """The offsets that were copied, in the order in which they are in our log."""
    sources = [[source_of(each.headers) for each in part] for part in kept(topology, config)]
    return [[each for each in part if each is not None] for part in sources]


def ticks(topology: Topology, config: Mapping[str, Any]) -> list[list[float]]:
    """The ticks of each partition, in slots after the first."""
    found: list[list[float]] = [[] for _ in range(topology.input.partitions)]
    for number, part in enumerate(kept(topology, config)):
        for each in part:
            if source_of(each.headers) is None and not is_request(each.value):
                found[number] += [
                    record.time / SLOT - FIRST
                    for record in decode(each.value or b"")
                    if isinstance(record, Tick)
                ]
    return found


def slots_of(part: list[Kept]) -> list[int]:
    """The slots of what was copied, after the first."""
    values = [each.value for each in part if source_of(each.headers) is not None]
    found = []
    for value in values:
        try:
            found.append(json.loads(value)["time"] // SLOT - FIRST)
        except (ValueError, KeyError, BadRecord):
            found.append(-1)
    return found


def left(topology: Topology, config: Mapping[str, Any]) -> int:
    """What the group has not committed."""
    relay = topology.role("perturb").relay
    assert relay is not None
    return sum(admin.lag(config, relay.group, relay.reads.name, range(PARTITIONS)).values())


Copier = partial(requests.Copier, make=Relayer)
"""One relayer."""


def now() -> int:
    """Milliseconds."""
    return time.time_ns() // 1_000_000
