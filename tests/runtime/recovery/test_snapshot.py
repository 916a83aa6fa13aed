"""The order in which a snapshot is written, and what of it may go at the same time."""

from __future__ import annotations

import asyncio

from ldp_kafka.runtime.recovery.snapshot import Snapshot, persist

SHARDS = {f"0/{shard}/new": b"." for shard in range(20)}
ENDED = [f"0/7.{shard}/new" for shard in range(20)]
OLD = ["0/meta/old", *(f"0/{shard}/old" for shard in range(5))]


def test_what_ended_goes_together_and_behind_the_old_metas():
    """One after the other was a round trip each, and a worker that left was not done in time."""
    said: list[str] = []
    under_way = most = 0

    async def put(key: str, value: bytes | None) -> None:
        nonlocal under_way, most
        under_way += 1
        await asyncio.sleep(0)
        most = max(most, under_way)
        under_way -= 1
        said.append(key)

    async def flush() -> None:
        said.append("flush")

    snapshot = Snapshot(SHARDS, ("0/meta/new", b"."), ["acknowledged"], [*OLD, *ENDED])
    asyncio.run(persist(snapshot, flush=flush, put=put, acknowledge=said.append))
    steps = [
        ["flush"],
        list(SHARDS),
        ["0/meta/new"],
        ["acknowledged"],
        [OLD[0]],
        [*OLD[1:], *ENDED],
    ]
    for step in steps:
        part, said = said[: len(step)], said[len(step) :]
        assert sorted(part) == sorted(step)
    assert not said and most == len(OLD[1:]) + len(ENDED)
