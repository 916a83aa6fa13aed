"""Which reports of a partition are sent together, and where: at places that the log alone decides.

Rows wait by the slot of their event. A *bound* is a message behind which the rows of some slots are
sent: of all that it closes, and, where as many rows wait as may, of the slot that has most of them.
So reports of a slot go together, many of them or all that there are; the first one of a new slot
waits for others. Bounds are numbered one after the other. That number is what a collector counts a
batch once by: an offset would tell how many raw messages there were.

A bound depends neither on time, nor on which messages are folded together, nor on what a shard has
folded already, nor on events that are not accepted (`accepted`). A second fold of the log finds the
same bounds. It sends the same batches again, or, after a crash, those of their rows whose shards
had not been written since.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import MutableMapping, Sequence
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.records import ascending
from ldp_kafka.runtime.stages.rows import stretches

__all__ = ["Bound", "Cut", "assign", "cut", "find_bounds"]

FEW = 32  # rows that are counted one by one


class Bound(NamedTuple):
    """A message behind which rows are sent."""

    at: int
    """Its place in the run."""
    closed: int | None
    """The last slot that it closes, all before which go; None where it closes none."""
    full: tuple[int, ...] = ()
    """Slots that go since as many rows wait as may."""


def find_bounds(
    counts: MutableMapping[int, int],
    slots: NDArray[np.int64],
    message: NDArray[np.intp],
    closes: Sequence[tuple[int, int]],
    messages: int,
    most: int,
) -> list[Bound]:
    """The bounds in a run of messages.

    Parameters
    ----------
    counts : rows that wait of each slot, fewer than ``most``; brought up to date
    slots, message : (n,) of each event that is accepted, whatever becomes of it, in the order of
        messages
    closes : (place, last slot) of each message that closes slots, rising
    messages : of the run
    most : rows that may not wait, at least 1

    Examples
    --------
    >>> counts = {7: 1}
    >>> slots, message = np.array([7, 7, 8, 8]), np.array([0, 1, 1, 3])
    >>> find_bounds(counts, slots, message, [(2, 7)], 4, 4)
    [Bound(at=1, closed=None, full=(7,)), Bound(at=2, closed=7, full=())]
    >>> counts
    {8: 2}
    """
    ends = np.searchsorted(message, np.arange(messages), "right").tolist()
    found: list[Bound] = []
    total, row, next_close = sum(counts.values()), 0, 0
    while True:
        start = found[-1].at + 1 if found else 0
        at = bisect_left(ends, row + most - total, start)
        closed = None
        if next_close < len(closes) and closes[next_close][0] <= at:
            at, closed = closes[next_close]
            next_close += 1
        end = ends[at] if at < messages else len(slots)
        _count(counts, slots[row:end])
        total, row = total + end - row, end
        if at >= messages:
            return found
        if closed is not None:
            total -= sum(counts.pop(slot) for slot in [slot for slot in counts if slot <= closed])
        full = []
        while total >= most:
            fullest = max(counts, key=lambda slot: (counts[slot], -slot))
            full.append(fullest)
            total -= counts.pop(fullest)
        found.append(Bound(at, closed, tuple(full)))


def _count(counts: MutableMapping[int, int], slots: NDArray[np.int64]) -> None:
    """Count rows by their slots."""
    if not len(slots):
        return
    if len(slots) <= FEW:
        some = Counter(slots.tolist())
    elif slots.min() == slots.max():
        some = Counter({int(slots[0]): len(slots)})
    else:
        some = Counter(dict(zip(*(each.tolist() for each in np.unique_counts(slots)), strict=True)))
    for slot, count in some.items():
        counts[slot] = counts.get(slot, 0) + count


def assign(
    bounds: Sequence[Bound],
    behind: NDArray[np.int64],
    slots: NDArray[np.int64],
    offsets: NDArray[np.int64],
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The rows (m,) that go, slot by slot, and with which bound each does: the first one that takes
    its slot and is not before its message.

    Parameters
    ----------
    behind : the offset of each bound's message
    slots, offsets : (n,) of each row's event and of its message, by which rows are in order
    """
    full: dict[int, list[int]] = {}
    for number, bound in enumerate(bounds):
        for slot in bound.full:
            full.setdefault(slot, []).append(number)
    closing = [number for number, bound in enumerate(bounds) if bound.closed is not None]
    closed = [bound.closed for bound in bounds if bound.closed is not None]
    order = None if (slots[1:] >= slots[:-1]).all() else np.argsort(slots, kind="stable")
    if order is not None:
        slots, offsets = slots[order], offsets[order]
    rows, of = [np.empty(0, np.intp)], [np.empty(0, np.intp)]
    for part in stretches(slots):
        slot = int(slots[part.start])
        end = bisect_left(closed, slot)
        takes = np.array(sorted({*full.get(slot, ()), *closing[end : end + 1]}), np.intp)
        sizes = np.diff(np.searchsorted(offsets[part], behind[takes], "right"), prepend=0)
        of.append(np.repeat(takes, sizes))
        rows.append(np.arange(part.start, part.start + len(of[-1])))
    going = np.concatenate(rows)
    return going if order is None else order[going], np.concatenate(of)


class Cut(NamedTuple):
    """Rows as messages, in their order."""

    order: NDArray[np.intp]
    """(n,) rows, message by message, and in each by id."""
    ends: NDArray[np.intp]
    """(m + 1,): message i has the rows from ``ends[i]`` to ``ends[i + 1]`` of that order."""
    chunk: NDArray[np.intp]
    """(m,) which message of its bound each is."""
    last: NDArray[np.bool_]
    """(m,) whether it is the last one of its bound."""

    def __repr__(self) -> str:
        return f"Cut({len(self.chunk)})"  # never the order, which is that of users


def cut(
    ids: NDArray[np.uint64], bound: NDArray[np.intp], keys: Sequence[NDArray[np.int64]], most: int
) -> Cut:
    """Cut rows into messages: each of one bound and of one value of every key, in this order, and
    of ``most`` rows at most. Rows are sorted by id before they are cut, so what is in one message
    says nothing of the order in which users came.

    Parameters
    ----------
    ids : (n,) numbers that sort as the digits read
    bound : (n,) which bound each row goes to
    keys : (n,) each
    """
    if not len(ids):
        none = np.empty(0, np.intp)
        return Cut(none, np.zeros(1, np.intp), none, none.astype(np.bool_))
    if (bound[1:] > bound[:-1]).all():  # each has a bound, and so a message, of its own
        ends = np.arange(len(ids) + 1)
        return Cut(ends[:-1], ends, np.zeros(len(ids), np.intp), np.ones(len(ids), np.bool_))
    vary = [key for key in (bound, *keys) if key.min() != key.max()]
    order = _sorted(ids, vary)
    new = np.zeros(len(order), np.bool_)
    new[0] = True
    for key in vary:
        new[1:] |= np.diff(key[order]) != 0
    starts = _pieces(np.append(np.flatnonzero(new), len(order)), most)
    of = bound[order[starts]]
    first = np.concatenate([[True], of[1:] != of[:-1]])
    return Cut(order, np.append(starts, len(order)), _since(first), np.append(first[1:], True))


def _sorted(ids: NDArray[np.uint64], keys: Sequence[NDArray[np.int64]]) -> NDArray[np.intp]:
    """The order by these keys, the first one first, and then by id."""
    order = ascending(ids)
    if not keys:
        return order
    widths = [int(key.max()) - int(key.min()) + 1 for key in keys]
    if prod(widths) > 2**16:
        return np.lexsort((ids, *keys[::-1]))
    joined = np.zeros(len(ids), np.int64)
    for key, width in zip(keys, widths, strict=True):
        joined = joined * width + (key - key.min())
    # numbers of 16 bits are sorted by their digits, without comparing
    return order[np.argsort(joined.astype(np.uint16)[order], kind="stable")]


def _pieces(ends: NDArray[np.intp], most: int) -> NDArray[np.intp]:
    """Where rows begin that are cut at ``ends``, of which the first is 0, and behind each of them
    once more every ``most`` rows.
    """
    counts = -(-np.diff(ends) // most)
    nth = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    starts: NDArray[np.intp] = np.repeat(ends[:-1], counts) + nth * most
    return starts


def _since(marked: NDArray[np.bool_]) -> NDArray[np.intp]:
    """How far each place is behind the last one that is marked; the first one is."""
    place = np.arange(len(marked))
    since: NDArray[np.intp] = place - np.maximum.accumulate(np.where(marked, place, 0))
    return since
