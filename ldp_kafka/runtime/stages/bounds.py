"""Where one batch of a partition's reports ends and the next begins: at places that the log alone
decides.

A bound is a message at which so many valid rows have come since the last bound, or one that closes
slots. It depends neither on time, nor on which messages are folded together, nor on what a shard
has folded already: whoever folds the log again finds the same bounds, and the same batches.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Bounds", "Cut", "cut", "find_bounds"]


class Bounds(NamedTuple):
    """The bounds in a run of messages."""

    at: list[int]
    """Places of messages in the run, rising."""
    since: int
    """Valid rows since the last bound, behind the run."""


def find_bounds(counts: NDArray[np.int64], moved: Sequence[int], since: int, most: int) -> Bounds:
    """The bounds in a run of messages.

    Parameters
    ----------
    counts : (n,) valid rows of each message, whatever becomes of them
    moved : places of messages that close slots, rising
    since : valid rows since the last bound, before the run
    most : valid rows at which a bound comes, at least 1

    Examples
    --------
    >>> find_bounds(np.array([2, 3, 0, 1, 1]), [3], 1, 4)
    Bounds(at=[1, 3], since=1)
    """
    ends = (since + np.cumsum(counts)).tolist()
    found: list[int] = []
    base, at, of_moved = 0, 0, 0
    while at < len(ends):
        full = bisect_left(ends, base + most, at)
        while of_moved < len(moved) and moved[of_moved] < at:
            of_moved += 1
        if of_moved < len(moved):
            full = min(full, moved[of_moved])
        if full >= len(ends):
            break
        found.append(full)
        base, at = ends[full], full + 1
    return Bounds(found, (ends[-1] if ends else since) - base)


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
    vary = [key for key in (bound, *keys) if key.min() != key.max()]
    order = _sorted(ids, vary)
    new = np.zeros(len(order), np.bool_)
    new[0] = True
    for key in vary:
        new[1:] |= np.diff(key[order]) != 0
    starts = np.flatnonzero(new | (_since(new) % most == 0))
    of = bound[order[starts]]
    first = np.concatenate([[True], of[1:] != of[:-1]])
    return Cut(order, np.append(starts, len(order)), _since(first), np.append(first[1:], True))


def _sorted(ids: NDArray[np.uint64], keys: Sequence[NDArray[np.int64]]) -> NDArray[np.intp]:
    """The order by these keys, the first one first, and then by id."""
    order = np.argsort(ids)
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


def _since(marked: NDArray[np.bool_]) -> NDArray[np.intp]:
    """How far each place is behind the last one that is marked; the first one is."""
    place = np.arange(len(marked))
    since: NDArray[np.intp] = place - np.maximum.accumulate(np.where(marked, place, 0))
    return since
