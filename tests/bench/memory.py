"""RSS of a process that holds one partition's state and its table, and the time that a new
ownership takes over that table. ``python -m tests.bench.memory USERS SHARDS`` prints JSON
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.recovery.partition import Partition, persist
from ldp_kafka.runtime.stages.perturb import make_perturb
from tests.bench import inputs

LOADS = 9


def resident() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main(users: int, shards: int) -> None:
    with tempfile.TemporaryDirectory(prefix="ldp-kafka-bench-") as folder:
        _, topology = inputs.topology(
            Path(folder), "memory", "embedded", "raw", more=f"runtime: {{shards: {shards}}}\n"
        )
    table: dict[str, bytes] = {}
    partition = Partition(
        make_perturb(topology, 0, edge_randomness(topology, inputs.KEY)), 0, table, 0
    )
    before = resident()
    for offset, value in enumerate(inputs.crowd(users)):
        partition.fold([Message(offset, -1, value)])

    async def put(key: str, value: bytes | None) -> None:
        if value is None:
            table.pop(key, None)
        else:
            table[key] = value

    async def flush() -> None:
        return

    asyncio.run(persist(partition.snapshot(), flush=flush, put=put, acknowledge=lambda _: None))
    found = {
        "rss": resident() - before,
        "table": sum(map(len, table.values())),
        "largest": max(map(len, table.values())),
    }
    print(json.dumps({**found, "loads": [load(partition, table) for _ in range(LOADS)]}))


def load(owned: Partition, table: dict[str, bytes]) -> float:
    """Seconds until another owner has this state: what recovery does once the table is there."""
    begin = time.perf_counter()
    other = Partition(owned.stage, 0, table, owned.cover + 1, committed=True)
    seconds = time.perf_counter() - begin
    if other.cover != owned.cover:
        raise RuntimeError(f"loaded up to {other.cover}, not {owned.cover}")
    return seconds


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
