"""Several states of one kind in one changelog: the phases of slots, which go on by themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from ldp_kafka.errors import StateError
from ldp_kafka.runtime.log import Look

__all__ = ["joined", "looked", "split"]

T = TypeVar("T")


def joined(lanes: Iterable[Iterable[str]]) -> set[str]:
    """The names of the shards of each lane as those of all.

    Examples
    --------
    >>> sorted(joined([["0", "1"], ["0"]]))
    ['0.0', '0.1', '1.0']
    """
    return {f"{lane}.{shard}" for lane, shards in enumerate(lanes) for shard in shards}


def split(shards: Iterable[tuple[str, T]], lanes: int) -> Sequence[Mapping[str, T]]:
    """What belongs to each lane, by the names that its shards have there. StateError where one is
    of none.

    Examples
    --------
    >>> split([("0.0", "a"), ("1.0", "b")], 2)
    [{'0': 'a'}, {'0': 'b'}]
    """
    found: list[dict[str, T]] = [{} for _ in range(lanes)]
    for name, held in shards:
        lane, _, shard = name.partition(".")
        if lane not in map(str, range(lanes)):
            raise StateError(f"the changelog's shard {name} is of no phase: {lanes} are there")
        found[int(lane)][shard] = held
    return found


def looked(lanes: Iterable[Look]) -> Look:
    """What is seen in all lanes: their slots together, and every problem."""
    found = Look(slots=0)
    for each in lanes:
        found.slots = (found.slots or 0) + (each.slots or 0)
        found.problems += each.problems
    return found
