"""A snapshot of one partition's state, and the one order in which it may be written."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ldp_kafka.runtime.recovery.keys import Key, is_meta, place_of

__all__ = ["Snapshot", "persist"]


@dataclass(frozen=True, repr=False)
class Snapshot:
    """What has to be written, in this order; see `persist`."""

    shards: Mapping[Key, bytes]
    meta: tuple[Key, bytes]
    acknowledge: Sequence[Any]
    """Handles of the messages that it has folded."""
    drop: Sequence[Key]
    """Keys of older epochs, their ``meta`` first, and of shards that have ended."""

    @property
    def records(self) -> Mapping[Key, bytes]:
        """All that is written, by key."""
        return {**self.shards, self.meta[0]: self.meta[1]}

    @property
    def bytes(self) -> int:
        """Of all that is written."""
        return sum(map(len, self.records.values()))

    @property
    def partition(self) -> int:
        """Whose state it is, by its keys."""
        return int(place_of(self.meta[0]).partition("/")[0])

    def __repr__(self) -> str:
        return f"Snapshot({len(self.shards)} shards)"  # never what they hold


async def persist(
    snapshot: Snapshot,
    *,
    flush: Callable[[], Awaitable[None]],
    put: Callable[[Key, bytes | None], Awaitable[None]],
    acknowledge: Callable[[Any], None],
) -> None:
    """Write a snapshot in the one order that survives a crash between any two steps.

    - Output before state: what a state says was sent, was sent.
    - Shards before ``meta``: a crash between leaves the old ``meta`` with shards that are ahead of
      it, each with its own checkpoint offset. They are complete, and what is folded again is not
      counted twice. A shard that only the new ``meta`` would have listed is not loaded: at the old
      one it held nothing.
    - ``meta`` before acknowledgements: what is acknowledged is in a complete checkpoint.
    - What ended, and older epochs, after that: a shard goes when the ``meta`` in force no longer
      lists it. A crash between leaves records that no ``meta`` lists; they are not loaded, and the
      next epoch drops them with the others.
    """
    await flush()
    await asyncio.gather(*(put(key, value) for key, value in snapshot.shards.items()))
    await put(*snapshot.meta)
    for handle in snapshot.acknowledge:
        acknowledge(handle)
    metas = [key for key in snapshot.drop if is_meta(key)]
    for key in metas:
        await put(key, None)
    # A curator's windows end in as many records as they have slots and shards
    await asyncio.gather(*(put(key, None) for key in snapshot.drop if not is_meta(key)))
