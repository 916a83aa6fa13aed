"""A sample of the report ids of a slot, to see a second report of a user where it should not be: in
two partitions, or from an edge that lost its state.

The ids that come first in their order are kept, the same whoever samples: a repeated id that is
among the first of both its sources is seen where they meet. Ids are keyed hashes, new in every
slot, so a user who reports twice is seen sooner or later, and many such users at once.
"""

from __future__ import annotations

from collections.abc import Iterable

from ldp_kafka.records import KEPT

__all__ = ["KEPT", "keep", "keep_each"]


def keep(held: list[str], found: Iterable[str]) -> tuple[list[str], int]:
    """The first ids of both in their order, and how many of ``found`` were held or found before.

    Examples
    --------
    >>> keep(["a", "c"], ["b", "c"])
    (['a', 'b', 'c'], 1)
    """
    seen, second = set(held), 0
    for name in found:
        second += name in seen
        seen.add(name)
    return sorted(seen)[:KEPT], second


def keep_each(held: list[str], found: Iterable[str]) -> tuple[list[str], int]:
    """The same of ids that come one after the other: each finds what is kept of those before it.

    Examples
    --------
    >>> keep_each(["a", "c"], ["b", "c", "b"])
    (['a', 'b', 'c'], 2)
    """
    kept, second = list(held), 0
    for name in found:
        if len(kept) == KEPT and name > kept[-1]:
            continue  # it is not kept, and was not
        kept, again = keep(kept, [name])
        second += again
    return kept, second
