"""What the seal over the edge's state costs: the same stage with it and without, side by side, in
one process.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.recovery.epoch import Epoch
from ldp_kafka.runtime.stages.perturb import Perturb, make_perturb
from ldp_kafka.runtime.stages.shards import packed, unpacked
from tests.bench import inputs
from tests.bench.measure import Figure, cores, pin, ratio, say
from tests.fold.epochs import opened

SHARDS = 256


class Unsealed(Perturb):
    """The edge's stage as it was without a seal: whole records are compressed."""

    seal: Any = None

    def dump(self, state: Any, shards: Any) -> dict[str, bytes]:
        return {shard: unpacked(held) for shard, held in super().dump(state, shards).items()}

    def load(self, meta: Any, shards: Any) -> Any:
        return super().load(meta, {s: (at, packed(held, 0)) for s, (at, held) in shards.items()})


def measure(*, quick: bool = False) -> list[Figure]:
    """Folds and snapshots of a crowd, and the time to have its state back."""
    pin(cores()[0])
    users, rounds = (2_000, 2) if quick else (200_000, 9)
    say(f"seal: {rounds} rounds of {users:,} users")
    work: dict[str, list[float]] = {"sealed": [], "plain": []}
    back: dict[str, list[float]] = {"sealed": [], "plain": []}
    size: dict[str, int] = {}
    log = [Message(offset, -1, value) for offset, value in enumerate(inputs.crowd(users))]
    for _ in range(rounds):
        for name, spent in work.items():
            epoch = begun(name == "sealed")
            begin = time.perf_counter()
            for message in log:
                epoch.take(message, None)
                epoch.fold()
                epoch.output.records.clear()
            asyncio.run(epoch.save())
            spent.append(time.perf_counter() - begin)
            table = epoch.table.table
            size[name] = sum(map(len, table.values()))
            begin = time.perf_counter()
            opened(epoch.stage, 0, table, epoch.offset + 1, committed=True)
            back[name].append(time.perf_counter() - begin)
    each = ", ".join(f"{name} {held / users:.0f} bytes a user" for name, held in size.items())
    return [
        ratio(
            "seal",
            "one event of everybody and a snapshot, sealed over not",
            work["sealed"],
            work["plain"],
            "<= 1.05",
            each,
        ),
        ratio(
            "seal", "state from a table, sealed over not", back["sealed"], back["plain"], "<= 1.10"
        ),
    ]


def begun(sealed: bool) -> Epoch[Any]:
    with tempfile.TemporaryDirectory(prefix="ldp-kafka-bench-") as folder:
        _, topology = inputs.topology(
            Path(folder), "seal", "embedded", "raw", more=f"runtime: {{shards: {SHARDS}}}\n"
        )
    stage = make_perturb(topology, 0, edge_randomness(topology, inputs.KEY, "here"))
    if not sealed:
        stage = Unsealed(**{each.name: getattr(stage, each.name) for each in fields(stage)})
    return opened(stage, want=0)
