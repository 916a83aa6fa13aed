"""Epochs over dicts, for tests that need no broker: `recovery.begin` as a worker calls it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from ldp_kafka.runtime.log import Message, Record, Stage
from ldp_kafka.runtime.recovery.begin import begin
from ldp_kafka.runtime.recovery.epoch import Epoch, Limits, OffsetAction
from ldp_kafka.runtime.recovery.rules import Facts, PartitionOffsets, bindings_of

FAR = 10**12  # the end of a log that has everything


class Shelf:
    """A changelog, and where the records of folds go."""

    def __init__(self, held: Mapping[str, bytes] | None = None) -> None:
        self.table = dict(held or {})
        self.records: list[Record] = []
        self.counts: dict[str, float] = {}
        self.acknowledged: list[Any] = []

    async def put(self, key: str, value: bytes | None) -> None:
        if value is None:
            self.table.pop(key, None)
        else:
            self.table[key] = value

    def send(self, partition: int, folded: Any, seconds: float) -> None:
        self.records += folded.records
        for name, count in folded.counts.items():
            self.counts[name] = self.counts.get(name, 0) + count

    def mark(self) -> None:
        return

    async def flush(self, mark: None) -> None:
        return

    def saved(self, snapshot: Any, seconds: float) -> None:
        return


def facts_of(stage: Stage[Any], position: PartitionOffsets, number: int = 0, **more: Any) -> Facts:
    """Of a log that begins with a header record, unless told otherwise."""
    return Facts(
        **{"topic": "log", "partition": number, "position": position, "header": True}
        | {"bindings": bindings_of(stage), "seal": stage.seal}
        | more
    )


def opened(
    stage: Stage[Any],
    number: int = 0,
    held: Mapping[str, bytes] | None = None,
    want: int = 1,
    *,
    committed: bool = False,
    shelf: Shelf | None = None,
    token: str | None = None,
    kind: type[Epoch[Any]] = Epoch,
    limits: Limits | None = None,
    **more: Any,
) -> Epoch[Any]:
    """An epoch that begins at ``want``; ``committed``: all before it was acknowledged."""
    shelf = shelf or Shelf(held)
    position = PartitionOffsets(want, 0, FAR, begun=not committed)
    return begin(
        stage,
        facts_of(stage, position, number, header=False, **more),
        shelf.table if held is None else held,
        lambda: shelf.table if held is None else held,
        kind,
        table=shelf,
        output=shelf,
        acknowledge=shelf.acknowledged.append,
        clock=lambda: 0.0,
        limits=limits or Limits(run=10**9, run_bytes=10**12),
        token=token,
    )


def folded(epoch: Epoch[Any], messages: Sequence[Message]) -> list[Record]:
    """The records of these messages, folded together; all of them must be new."""
    shelf = epoch.output
    before = len(shelf.records)
    for message in messages:
        assert epoch.take(message, message.offset) is OffsetAction.FOLD
    epoch.fold()
    return shelf.records[before:]


def saved(epoch: Epoch[Any]) -> dict[str, bytes]:
    """The changelog after a snapshot."""
    asyncio.run(epoch.save())
    return epoch.table.table
