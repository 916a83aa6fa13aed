"""Sums of slots as state in shards: blocks of consecutive slots, each a record of its own.

Some ten thousand slots can wait for a partition without events. A snapshot writes the blocks that
changed; a block ends, and its record goes, when all of its slots are closed and none can come back.
Until then a block keeps its closed slots too: its record can be ahead of ``meta``, and a fold from
``meta`` on must find in it what it closes once more.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

from ldp_kafka.errors import StateError

__all__ = ["Blocked", "Blocks"]

BYTES = 2**17  # of a block, about and at most
MOST = 256  # slots in a block
NUMBER_BYTES, ID_BYTES = 12, 36  # of one integer, of one report id, as JSON

S = TypeVar("S", bound="Blocks")


@dataclass
class Blocks:
    """Sums and sampled report ids of slots."""

    open: dict[int, list[int]] = field(default_factory=dict)
    """Additive sums of each slot that is not closed."""
    sample: dict[int, list[str]] = field(default_factory=dict)
    """Sampled report ids of open slots."""
    kept: dict[int, tuple[list[int], list[str]]] = field(default_factory=dict)
    """Both of the closed slots of a block that goes on."""
    changed: set[int] = field(default_factory=set)
    """Blocks that changed or ended since the last snapshot."""
    covers: dict[int, int] = field(default_factory=dict)
    """The offset that a loaded block covers, which can be ahead of that of the rest."""


class Blocked(Generic[S]):
    """How a stage over `Blocks` writes them down. A subclass has ``size``, and calls these in its
    fold.
    """

    key: ClassVar[str] = ""

    @property
    def size(self) -> int:
        """Slots in a block."""
        raise NotImplementedError

    def takes(self, state: S, slot: int, offset: int) -> bool:
        """Whether the message at ``offset`` is still to be counted in ``slot``; notes that its
        block changes.
        """
        block = slot // self.size
        if offset <= state.covers.get(block, -1):
            return False
        state.changed.add(block)
        return True

    def close(self, state: S, slot: int) -> tuple[list[int], list[str]]:
        """Close one slot: its sums, and its sampled ids."""
        state.kept[slot] = state.open.pop(slot), state.sample.pop(slot, [])
        return state.kept[slot]

    def end(self, state: S, through: int) -> None:
        """Let go of the blocks of which no slot after ``through``, the last closed one, is left."""
        for slot in [
            slot for slot in state.kept if (slot // self.size + 1) * self.size - 1 <= through
        ]:
            del state.kept[slot]
            state.changed.add(slot // self.size)

    def dirty(self, state: S) -> set[str]:
        found = {str(block) for block in state.changed}
        state.changed.clear()
        return found

    def shards_of(self, state: S) -> set[str]:
        return {str(slot // self.size) for slot in (*state.open, *state.kept)}

    def dump(self, state: S, shards: Iterable[str]) -> dict[str, bytes]:
        wanted = set(shards)
        slots: dict[str, dict[str, Any]] = {}
        for slot, (sums, ids) in (
            *state.kept.items(),
            *((slot, (sums, state.sample.get(slot, []))) for slot, sums in state.open.items()),
        ):
            if (block := str(slot // self.size)) in wanted:
                slots.setdefault(block, {})[str(slot)] = [sums, ids]
        return {
            block: json.dumps(held, separators=(",", ":")).encode() for block, held in slots.items()
        }

    def fill(
        self,
        state: S,
        closed: int | None,
        size: int | None,
        shards: Mapping[str, tuple[int, bytes]],
    ) -> S:
        """What `dump` wrote, into a fresh state whose last closed slot is ``closed``. StateError
        where blocks had another ``size``.
        """
        if size != self.size:
            raise StateError(
                "the changelog's state has its slots in other blocks: it was written by another"
                " version"
            )
        for block, (cover, payload) in shards.items():
            state.covers[int(block)] = cover
            for name, (sums, ids) in json.loads(payload).items():
                slot = int(name)
                if closed is not None and slot <= closed:
                    state.kept[slot] = sums, ids
                else:
                    state.open[slot] = sums
                    if ids:
                        state.sample[slot] = ids
        return state


def slots_in_a_block(width: int, ids: int) -> int:
    """So many that a block of sums of this width and so many sampled ids a slot is not too large
    for a record.

    Examples
    --------
    >>> slots_in_a_block(width=1, ids=32), slots_in_a_block(width=8192, ids=32)
    (112, 1)
    """
    return max(1, min(MOST, BYTES // (NUMBER_BYTES * width + ID_BYTES * ids)))
