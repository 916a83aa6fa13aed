"""RSS of a process that holds one partition's state and its table. ``python -m tests.bench.memory USERS SHARDS`` prints JSON"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import tempfile
from pathlib import Path

from ldp_kafka.runtime import stages
from ldp_kafka.runtime.fold import Message, Partition, persist
from tests.bench import inputs


def resident() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main(users: int, shards: int) -> None:
    with tempfile.TemporaryDirectory(prefix="ldp-kafka-bench-") as folder:
        _, topology = inputs.topology(Path(folder), "memory", "embedded", "raw", more=f"runtime: {{shards: {shards}}}\n")
    table: dict[str, bytes] = {}
    partition = Partition(stages.edge(topology, stages.edge_randomness(topology, inputs.KEY), 0), 0, table, 0)
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
    print(json.dumps({"users": users, "rss": resident() - before, "table": sum(map(len, table.values())), "largest": max(map(len, table.values()))}))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
