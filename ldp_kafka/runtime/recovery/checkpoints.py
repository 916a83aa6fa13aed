"""What a changelog holds of one partition: the checkpoints that its owners have written.

An *epoch* is one term of ownership of a partition, from an assignment to the end of it; its token
is drawn anew each time and never used again. In its epoch a worker writes records under the keys
``partition/shard/epoch``: one for each shard of the state, and one, ``meta``, for all that is in no
shard. Each record begins with its *checkpoint offset*: the last offset of the log that it has
folded. ``meta`` lists the shards that belong to it, each with the least offset that it must have.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ldp_kafka.errors import StateError
from ldp_kafka.runtime.recovery.packing import HEAD, unpack

__all__ = ["META", "VERSION", "Checkpoint", "checkpoints", "key_of", "latest"]

META = "meta"
VERSION = 3  # of what `Epoch.snapshot` writes; what has none is of version 1


class Checkpoint(NamedTuple):
    """What one epoch has written of the state, as far as its records are still there."""

    epoch: str
    offset: int
    """The last offset that the state has folded; -1 where ``meta`` is not there."""
    meta: Mapping[str, Any]
    """What ``meta`` says; empty where it is not there."""
    shards: Mapping[str, tuple[int, bytes]]
    """Each shard that is there: its checkpoint offset, and what it holds."""
    keys: Sequence[str]
    """Of its records in the table, that of ``meta`` first."""
    meta_bytes: int = 0
    damaged: bool = False
    """Whether one of its records cannot be read."""

    @property
    def listed(self) -> Mapping[str, int]:
        """The shards that belong to ``meta``, each with the least offset that it must have."""
        listed: Mapping[str, int] = self.meta.get("manifest", {})
        return listed

    @property
    def lost(self) -> int:
        """Listed shards that are not there, or older than listed."""
        shards = self.shards
        return sum(
            shard not in shards or shards[shard][0] < least for shard, least in self.listed.items()
        )

    @property
    def complete(self) -> bool:
        """Whether a state can be loaded from it."""
        return bool(self.meta) and not self.damaged and not self.lost

    @property
    def state(self) -> dict[str, tuple[int, bytes]]:
        """The shards that ``meta`` lists. Others were deleted, or are newer than ``meta`` and
        folded again.
        """
        return {shard: held for shard, held in self.shards.items() if shard in self.listed}

    def __repr__(self) -> str:
        return (
            f"Checkpoint(epoch={self.epoch[:8]}, offset={self.offset}, shards={len(self.shards)})"
        )


def key_of(partition: int, shard: str, epoch: str) -> str:
    """The table's key of one record."""
    return f"{partition}/{shard}/{epoch}"


def checkpoints(table: Mapping[str, bytes], partition: int) -> list[Checkpoint]:
    """All checkpoints of one partition, complete or not.

    Parameters
    ----------
    table : what the changelog holds, of all partitions or of this one
    """
    records: dict[str, dict[str, bytes]] = {}
    for key, value in list(table.items()):
        number, _, rest = key.partition("/")
        shard, _, epoch = rest.rpartition("/")
        if number == str(partition) and value is not None:
            records.setdefault(epoch, {})[shard] = value
    return [_read(partition, epoch, held) for epoch, held in records.items()]


def _read(partition: int, epoch: str, records: Mapping[str, bytes]) -> Checkpoint:
    shards: dict[str, tuple[int, bytes]] = {}
    damaged = False
    for shard, value in records.items():
        damaged = damaged or "/" in shard or not shard or len(value) < HEAD
        try:
            shards[shard] = unpack(value)
        except StateError:
            damaged = True
    offset, payload = shards.pop(META, (-1, b"{}"))
    try:
        meta = json.loads(payload)
    except ValueError:
        meta = None
    if not _is_meta(meta):
        meta, damaged = {}, True
    keys = [key_of(partition, shard, epoch) for shard in sorted(records, key=META.__ne__)]
    return Checkpoint(epoch, offset, meta, shards, keys, len(payload) if meta else 0, damaged)


def _is_meta(meta: Any) -> bool:
    """Whether this is what `Epoch.snapshot` writes, in any version, or nothing."""
    if not isinstance(meta, dict):
        return False
    listed = meta.get("manifest", {} if not meta else None)
    return isinstance(listed, dict) and all(type(least) is int for least in listed.values())


def latest(found: Iterable[Checkpoint]) -> Checkpoint | None:
    """The complete checkpoint that has folded most; None if there is none.

    Of two with the same offset either will do: state is a function of the log, so they hold the
    same. A worker that was cut off and writes late writes under its own epoch only, so nobody has
    to be kept from writing.
    """
    return max(
        (each for each in found if each.complete),
        key=lambda each: (each.offset, each.epoch),
        default=None,
    )
