"""RSS of a process that holds one partition's state and its table, and the time that a new
ownership takes over that table. ``python -m tests.bench.memory USERS SHARDS`` prints JSON
"""

from __future__ import annotations

import gc
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.recovery.epoch import Epoch
from ldp_kafka.runtime.stages.perturb import make_perturb
from tests.bench import inputs
from tests.fold.epochs import opened, saved

LOADS = 9


def resident() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main(users: int, shards: int) -> None:
    with tempfile.TemporaryDirectory(prefix="ldp-kafka-bench-") as folder:
        _, topology = inputs.topology(
            Path(folder), "memory", "embedded", "raw", more=f"runtime: {{shards: {shards}}}\n"
        )
    stage = make_perturb(topology, 0, edge_randomness(topology, inputs.KEY, "here"))
    epoch = opened(stage, want=0)
    before = resident()
    for offset, value in enumerate(inputs.crowd(users)):
        epoch.take(Message(offset, -1, value), None)
        epoch.fold()
        epoch.output.records.clear()
    table = saved(epoch)
    found = {
        "rss": resident() - before,
        "table": sum(map(len, table.values())),
        "largest": max(map(len, table.values())),
    }
    print(json.dumps({**found, "loads": [load(epoch, table) for _ in range(LOADS)]}))


def load(owned: Epoch, table: dict[str, bytes]) -> float:
    """Seconds until another owner has this state: what recovery does once the table is there."""
    begin = time.perf_counter()
    other = opened(owned.stage, 0, table, owned.offset + 1, committed=True)
    seconds = time.perf_counter() - begin
    if other.offset != owned.offset:
        raise RuntimeError(f"loaded up to {other.offset}, not {owned.offset}")
    return seconds


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
