"""Several states of one kind in one changelog: the phases of slots, which go on by themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from ldp_kafka.errors import StateError
from ldp_kafka.runtime.log import Look

__all__ = ["joined", "looked", "named", "split"]

T = TypeVar("T")


def joined(lanes: Iterable[Iterable[str]], *, alone: bool = False) -> set[str]:
    """The names of the shards of each lane as those of all; see `named`.

    Examples
    --------
    >>> sorted(joined([["0", "1"], ["0"]])), joined([["0"]]), joined([["0"]], alone=True)
    (['0.0', '0.1', '1.0'], {'0.0'}, {'0'})
    """
    return set(named((dict.fromkeys(shards, "") for shards in lanes), alone=alone))


def named(lanes: Iterable[Mapping[str, T]], *, alone: bool = False) -> dict[str, T]:
    """The shards of each lane by their names among those of all, which a lane ``alone`` has itself,
    where there is one.
    """
    every = list(lanes)
    if alone and len(every) == 1:
        return dict(every[0])
    return {f"{at}.{name}": held for at, lane in enumerate(every) for name, held in lane.items()}


def split(
    shards: Iterable[tuple[str, T]], lanes: int, *, alone: bool = False
) -> Sequence[Mapping[str, T]]:
    """What belongs to each lane, by the names that its shards have there. StateError where one is
    of none.

    Examples
    --------
    >>> split([("0.0", "a"), ("1.0", "b")], 2)
    [{'0': 'a'}, {'0': 'b'}]
    """
    if alone and lanes == 1:
        return [dict(shards)]
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
