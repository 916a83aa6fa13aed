"""What a changelog holds of one partition: the checkpoints that its owners have written.

An *epoch* is one term of ownership of a partition, from an assignment to the end of it; its token
is drawn anew each time and never used again. In its epoch a worker writes records under the keys
``partition/shard/epoch`` (`keys`): one for each shard of the state, and one, ``meta``, for all
that is in no shard. Each record begins with its *checkpoint offset*: the last offset of the log
that it has folded. ``meta`` lists the shards that belong to it, each with the least offset that it
must have.

The edge's records are sealed (`ldp_kafka.runtime.sealing`), all but what a ``meta`` binds and
lists. They are opened only where their ``meta`` names the key that is at hand.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ldp_kafka.errors import StateError
from ldp_kafka.runtime.recovery.keys import META, Key, place_of
from ldp_kafka.runtime.recovery.packing import HEAD, unpack
from ldp_kafka.runtime.sealing import Seal, Sealed

__all__ = ["META", "READ", "VERSION", "WINDOWED", "Checkpoint", "checkpoints", "latest"]

VERSION = 4  # of what `Epoch.snapshot` writes; what has none is of version 1
WINDOWED = 5  # of a state with panes: since then the keys of those have a window
READ = (VERSION, WINDOWED)
"""Versions that are read."""


class Checkpoint(NamedTuple):
    """What one epoch has written of the state, as far as its records are still there."""

    epoch: str
    offset: int
    """The last offset that the state has folded; -1 where ``meta`` is not there."""
    meta: Mapping[str, Any]
    """What ``meta`` says; empty where it is not there. Its ``state`` is what the stage wrote."""
    shards: Mapping[str, tuple[int, bytes]]
    """Each shard that is there: its checkpoint offset, and what it holds."""
    keys: Sequence[Key]
    """Of its records in the table, that of ``meta`` first."""
    meta_bytes: int = 0
    """Of the record, as it lies there."""
    damaged: bool = False
    """Whether one of its records cannot be read."""
    sealed: bool = False
    """Whether it is still sealed: it was written under another key than the one at hand, or none
    is.
    """
    altered: str = ""
    """Why one of its records is not what this edge sealed there; empty where all are."""

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


def checkpoints(
    table: Mapping[Key, bytes], partition: int, seal: Seal | None = None
) -> list[Checkpoint]:
    """All checkpoints of one partition, complete or not.

    Parameters
    ----------
    table : what the changelog holds, of all partitions or of this one
    seal : opens what the edge has sealed; without it such records stay sealed
    """
    records: dict[str, dict[str, tuple[Key, bytes]]] = {}
    for key, value in list(table.items()):
        number, _, rest = place_of(key).partition("/")
        shard, _, epoch = rest.rpartition("/")
        if number == str(partition) and value is not None:
            records.setdefault(epoch, {})[shard] = key, value
    return [_read(epoch, held, seal) for epoch, held in records.items()]


def _read(epoch: str, records: Mapping[str, tuple[Key, bytes]], seal: Seal | None) -> Checkpoint:
    held: dict[str, _Record] = {}
    damaged = False
    for shard, (_, value) in records.items():
        damaged = damaged or "/" in shard or not shard or len(value) < HEAD
        try:
            held[shard] = _unpacked(value)
        except StateError:
            damaged = True
    head = held.pop(META, _Record(-1, b"{}", b"", sealed=False))
    sealed = head.sealed
    try:
        meta = json.loads(head.clear)
    except ValueError:
        meta = None
    if not _is_meta(meta):
        meta, damaged = {}, True
    altered = ""
    # Of another version or key it is not altered, but another's: that is what has to be said
    if seal is not None and meta.get("version") in READ and meta.get("key") == seal.check:
        try:
            state = _opened(seal, *records[META])
            meta, sealed = {**meta, "state": json.loads(state)}, False
            held = {
                shard: each._replace(payload=_opened(seal, *records[shard]), sealed=False)
                for shard, each in held.items()
            }
        except StateError as error:
            altered = str(error)
    return Checkpoint(
        epoch,
        head.offset,
        meta,
        {shard: (each.offset, each.payload) for shard, each in held.items()},
        [records[shard][0] for shard in sorted(records, key=META.__ne__)],
        len(records[META][1]) if meta else 0,
        damaged,
        sealed or any(each.sealed for each in held.values()),
        altered,
    )


def _opened(seal: Seal, key: Key, value: bytes) -> bytes:
    return seal.open(place_of(key), value)


class _Record(NamedTuple):
    """One record as it lies there."""

    offset: int
    clear: bytes
    """What anybody may read: of a record that is not sealed all of it."""
    payload: bytes
    sealed: bool

    def __repr__(self) -> str:
        return f"_Record(offset={self.offset})"  # never what it holds


def _unpacked(value: bytes) -> _Record:
    """StateError where a record is damaged."""
    found = Sealed.read(value)
    if found is not None:
        return _Record(found.offset, found.clear, found.body, sealed=True)
    offset, payload = unpack(value)
    return _Record(offset, payload, payload, sealed=False)


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
