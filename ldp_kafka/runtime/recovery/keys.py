"""The keys of a changelog's records, in the form in which Faust's windowed tables have theirs.

A record belongs to a partition, a shard and an epoch: its *place*, ``partition/shard/epoch``. That
is its key, too, but for the panes of open slots: those lie in windows of one slot each, as in a
Faust table with ``tumbling(1)`` over slot numbers. Their shards are named ``slot.shard``, and their
keys are pairs of ``partition/shard/epoch`` and the window's range.

>>> key_of(0, "12.3", "e0", windowed=True)
('0/3/e0', (12.0, 12.9))
>>> place_of(key_of(0, "12.3", "e0", windowed=True))
'0/12.3/e0'
>>> place_of(key_of(0, "3", "e0"))
'0/3/e0'
"""

from __future__ import annotations

from typing import TypeAlias

__all__ = ["META", "Key", "WindowRange", "is_meta", "key_of", "pane_range", "place_of"]

META = "meta"
"""The shard of all that is in no other."""

WindowRange: TypeAlias = tuple[float, float]
"""Its first slot, and the end that Faust gives it: a tenth before the next window."""

Key: TypeAlias = str | tuple[str, WindowRange]
"""Of a record without a window, or of one in a window, as Faust's table has it in memory."""


def pane_range(slot: int) -> WindowRange:
    """The range of a slot's tumbling window.

    Faust's own ``ranges`` is not asked: it counts in 32 bits, and has no end for a slot from 2**31
    on, as slots of milliseconds are.
    """
    return float(slot), float(slot) + 1.0 - 0.1


def key_of(partition: int, shard: str, epoch: str, *, windowed: bool = False) -> Key:
    """The table's key of one record; ``windowed``: of a stage that holds panes."""
    slot, dot, rest = shard.partition(".")
    if windowed and dot:
        return f"{partition}/{rest}/{epoch}", pane_range(int(slot))
    return f"{partition}/{shard}/{epoch}"


def place_of(key: Key) -> str:
    """Where a record belongs, whatever form its key has: versions up to 4 wrote a pane's place."""
    if isinstance(key, str):
        return key
    name, (slot, _) = key
    partition, _, rest = name.partition("/")
    return f"{partition}/{int(slot)}.{rest}"


def is_meta(key: Key) -> bool:
    """Whether a record's key is that of an epoch's ``meta``."""
    return f"/{META}/" in place_of(key)
