"""Small inputs with everything in them: several shards, batches and single events, late and
out-of-order events, repeats, bad rows, an idle partition, ticks.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from ldp_kafka.randomness import Keyed
from ldp_kafka.records import Tick
from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.stages.perturb import make_perturb
from ldp_kafka.runtime.wire.arrow import write_batch
from ldp_kafka.runtime.wire.records import encode_json
from ldp_kafka.topology import Topology, loads
from tests.fold.judge import Judge

START = 1_760_000_040_000  # milliseconds; a slot begins there
SLOT = 60_000
LATENESS = 1
USERS = 7  # of a partition
HERE = "here/"  # the deployment, as it is read of an embedded broker that is called so
KEY = bytes(range(32))

TEXT = """
topology: fold
input: {{slot: 1m, lateness: {lateness}, partitions: {partitions}, max_ahead: 1h}}
privacy: {privacy}
output: {{statistics: {statistics}}}
runtime: {{shards: 3, report_rows: 4}}
"""
CAPP = "{method: capp, epsilon: 2.0, window: 3, block: 2, domain: [0, 10]}"
PER_USER, CROWDS = "[mean, per_user]", "[mean]"
"""A batch of reports a message; and batches between bounds, each of few rows."""
BOTH = (PER_USER, CROWDS)


@cache
def topology(
    partitions: int = 2,
    privacy: str = CAPP,
    statistics: str = PER_USER,
    lateness: int = LATENESS,
) -> Topology:
    """The default one is stateful: a report depends on the reports before it."""
    return loads(
        TEXT.format(
            partitions=partitions, privacy=privacy, statistics=statistics, lateness=lateness
        )
    )


def randomness(of: Topology) -> Keyed:
    return edge_randomness(of, KEY, HERE)


def batch(rows: list[tuple[str, int, float]]) -> bytes:
    """Events as one message: JSON where it is one."""
    if len(rows) == 1:
        ((user, time, value),) = rows
        return json.dumps({"user": user, "time": time, "value": value}).encode()
    users, times, values = zip(*rows, strict=True)
    return write_batch(
        "event",
        ["user", "time", "value"],
        [pa.array(users), pa.array(np.array(times)), pa.array(values)],
    )


def closing(slots: int, lateness: int = LATENESS) -> bytes:
    """A tick that closes all slots."""
    return encode_json(Tick(START + (slots + lateness + 1) * SLOT))


def log(values: list[bytes], first: int = 1) -> list[Message]:
    return [Message(offset, START, value) for offset, value in enumerate(values, first)]


@cache
def orderly(partitions: int = 1, slots: int = 6, first: int = 1) -> list[list[Message]]:
    """Every user once a slot, in order, two or three events a message: nothing is late, nothing
    comes twice.
    """
    logs = []
    for number in range(partitions):
        values = []
        for slot in range(slots):
            rows = [
                (
                    f"u{number}.{user}",
                    START + slot * SLOT + 100 * user,
                    (3 * user + slot) % 10 + 0.5,
                )
                for user in range(USERS)
            ]
            values += [batch(rows[:3]), batch(rows[3:5]), batch(rows[5:])]
        logs.append(log([*values, closing(slots)], first))
    return logs


@cache
def wild(seed: int, partitions: int = 2, slots: int = 8) -> list[list[Message]]:
    """Late, out of order, twice, bad, idle."""
    random = Random(seed)
    logs = []
    for number in range(partitions):
        values: list[bytes] = []
        for slot in range(slots):
            if number and slot in (3, 4):
                values += [encode_json(Tick(START + slot * SLOT))] * (slot == 4)
                continue
            rows = []
            for user in range(USERS):
                for _ in range(random.choice((0, 1, 1, 1, 1, 2))):
                    when = max(0, slot - random.choice((0, 0, 0, 0, 1, 1, 3)))
                    rows.append(
                        (
                            f"u{number}.{user}",
                            START + when * SLOT + random.randrange(SLOT),
                            random.uniform(-1, 11),
                        )
                    )
            random.shuffle(rows)
            while rows:
                count = random.randint(1, 5)
                values.append(batch(rows[:count]))
                rows = rows[count:]
            if random.random() < 0.4:
                values.append(
                    random.choice(
                        (
                            b"{",
                            b'{"user": 1}',
                            batch([("u0", START, float("inf")), ("u1", START + 10**8, 1.0)]),
                        )
                    )
                )
        logs.append(log([*values, closing(slots)]))
    return logs


def singly(messages: list[Message], value_of: Callable[[float], Any]) -> list[Message]:
    """The same log with other values, one event a message; what is no event stays."""
    of = topology()
    values, reader = [], make_perturb(of, 0, randomness(of)).reader
    for message in messages:
        events = reader.read(message.value).events
        if events is None:
            values.append(message.value)
            continue
        for user, time, value in zip(
            events.users.texts(), events.times.tolist(), events.values.tolist(), strict=True
        ):
            text = json.dumps({"user": user, "time": time, "value": value_of(value)})
            values.append(text.encode())
    return log(values)


_judges: dict[tuple[str, str, str, int], tuple[Any, Judge]] = {}


def judge(of: Topology, role: str, given: Any, make: Callable[[], Judge]) -> Judge:
    """A judge's straight fold of what a role is given is made once. It is kept with the judge, so
    that nothing else has its id.
    """
    key = (of.fingerprint, of.layout, role, id(given))
    if key not in _judges:
        _judges[key] = given, make()
    return _judges[key][1].fresh()
