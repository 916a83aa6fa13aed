"""What the topologies under test read: every user once a slot, in another order each slot."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import numpy as np
import pyarrow as pa

import ldp_kafka as lk
from ldp_kafka.runtime.wire.arrow import write_batch
from ldp_kafka.topology.sections import Runtime
from tests.keys import KEY

ROWS = 2048  # events in a batch
BATCH = 900_000  # bytes of messages that lie together in the log: a worker fetches one at a time
SLOT = 60_000
AFTER = 1  # events that follow those that are counted, and close their slots
LATER = 10  # slots, after which one that was open is closed whatever the lateness
OPTION = "report_rows"
BATCHED = 16_384  # rows, where reports are sent in batches
FIRST = 1_700_000_040_000 // SLOT

TEXT = """
topology: {name}
kafka:
  bootstrap_servers: {boot}
input:
  topic: {raw}
  create: false
  partitions: 1
  format: {format}
  slot: 60s
privacy:
  method: capp
  epsilon: 1.0
  window: 10
  domain: [0.0, 100.0]
output:
  statistics: [mean]
edge:
  key_file: {key}
"""


def topology(
    folder: Path, name: str, boot: str, raw: str, *, shape: str = "arrow", more: str = ""
) -> tuple[Path, lk.Topology]:
    """The one of all measurements, with defaults wherever there are any; ``more`` is appended."""
    key = folder / "edge.key"
    key.write_bytes(KEY)
    key.chmod(0o600)
    path = folder / f"{name}.yaml"
    path.write_text(TEXT.format(name=name, boot=boot, raw=raw, format=shape, key=key) + more)
    return path, lk.load_topology(path)


def batches(users: int, slots: int, first: int = 0) -> Iterator[tuple[bytes, int]]:
    """(message, events in it): Arrow batches of at most ROWS events of one slot."""
    rng = np.random.default_rng(first)
    ids = pa.array([f"meter-{user:06d}" for user in range(users)])
    for slot in range(first, first + slots):
        order = rng.permutation(users)
        times, values = (
            (FIRST + slot) * SLOT + rng.integers(0, SLOT, users),
            rng.random(users) * 100,
        )
        for start in range(0, users, ROWS):
            part = slice(start, start + ROWS)
            columns = [
                ids.take(pa.array(order[part])),
                pa.array(times[part]),
                pa.array(values[part]),
            ]
            yield write_batch("event", ["user", "time", "value"], columns), len(columns[0])


def crowd(users: int) -> Iterator[bytes]:
    """Every user once, in order, with nothing held that grows with their number."""
    for start in range(0, users, ROWS):
        ids = [f"meter-{user:06d}" for user in range(start, min(start + ROWS, users))]
        yield write_batch(
            "event",
            ["user", "time", "value"],
            [pa.array(ids), pa.array([FIRST * SLOT] * len(ids)), pa.array([50.0] * len(ids))],
        )


def singles(users: int, count: int) -> Iterator[tuple[bytes, bytes]]:
    """(user, JSON event), one a message: ``count`` of them, and one more that closes their last
    slot, so that nothing of theirs waits for what comes next.
    """
    rng = np.random.default_rng(0)
    made, slot = 0, 0
    while made < count:
        for user, value in zip(
            rng.permutation(users)[: count - made].tolist(),
            (rng.random(users) * 100).tolist(),
            strict=False,
        ):
            yield single(f"meter-{user:06d}", (FIRST + slot) * SLOT, value)
            made += 1
        slot += 1
    yield single("meter-000000", (FIRST + slot + LATER) * SLOT, 50.0)


def single(user: str, time: int, value: float) -> tuple[bytes, bytes]:
    """(key, message) of one event."""
    return user.encode(), json.dumps({"user": user, "time": time, "value": value}).encode()


def closing(slot: int) -> bytes:
    """A batch of one event that closes all slots before this one, as those of `singles` does."""
    columns = [
        pa.array(["meter-000000"]),
        pa.array([(FIRST + slot + LATER) * SLOT]),
        pa.array([50.0]),
    ]
    return write_batch("event", ["user", "time", "value"], columns)


def runtime(rows: int, **settings: float) -> str | None:
    """The section that asks for reports in batches of so many rows, 1: those of each message by
    themselves; None where there is no such thing.
    """
    if OPTION in {field.name for field in fields(Runtime)}:
        settings[OPTION] = rows
    elif rows != 1:
        return None
    return f"runtime: {json.dumps(settings)}\n"
