"""What ids, times and values of valid events look like: counts and extents, never one of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.runtime.stages.per_slot import Folded, SlotValues, Taking

__all__ = [
    "Events",
    "Ids",
    "Looks",
    "Slots",
    "Times",
    "Values",
    "in_several",
    "look_at_ids",
    "look_at_slots",
    "look_at_times",
    "look_at_values",
]

EARLY = 946_684_800_000  # 2000-01-01, milliseconds: a device's clock that was never set is before


@dataclass(frozen=True, repr=False)
class Events:
    """Valid events as columns, those of one partition after those of another.

    Parameters
    ----------
    users : (n,) a number for each id
    times : (n,) milliseconds
    slots : (n,)
    message : (n,) the place of each one's message among those of its partition
    in_time : (n,) whether its slot is open when its message comes
    back : (n,) how many slots before the latest event of the messages before it, but for what was
        far ahead of its message's timestamp; negative where it is itself the latest
    clocks : (n,) whether it is late by an event alone that was so
    values : (n,), or lists (n, dimension), as they came
    """

    users: NDArray[np.intp]
    times: NDArray[np.int64]
    slots: NDArray[np.int64]
    message: NDArray[np.intp]
    in_time: NDArray[np.bool_]
    back: NDArray[np.int64]
    clocks: NDArray[np.bool_]
    values: NDArray[Any]

    def __len__(self) -> int:
        return len(self.users)

    @staticmethod
    def join(parts: Sequence[Events]) -> Events:
        """All of them, at least one part, one after the other."""
        return Events(
            *(
                np.concatenate([getattr(part, each.name) for part in parts])
                for each in fields(Events)
            )
        )


@dataclass(frozen=True, repr=False)
class Ids:
    """Of the users of valid events."""

    distinct: int
    shortest: int
    """Bytes of the shortest id, ..."""
    longest: int
    """... and of the longest one."""
    whole: int
    """Ids that are whole numbers; the others are other text."""
    not_ascii: int
    alike: int
    """Ids that differ from another one in upper and lower case, or in space around it, alone."""
    split: int
    """Ids that lie in more than one partition: each has a budget in each of them."""


@dataclass(frozen=True, repr=False)
class Times:
    """Of valid events."""

    first: int
    """The first slot with an event, ..."""
    last: int
    """... and the last one."""
    slots: int
    """Slots with an event."""
    after_now: int
    ahead: int
    """Those that are later than now by more than ``input.max_ahead``."""
    before_2000: int


@dataclass(frozen=True, repr=False)
class Slots:
    """Of the events of one user in one slot."""

    pairs: int
    """Pairs of a user and a slot with an event."""
    most: int
    """Events of one user in one slot."""
    repeated: int
    """Events in time beyond the first of their user and slot, in the order of the log."""
    behind: int
    """Events in time that come after one of a later slot of their user."""
    late: int
    """Events whose slot is closed when they come."""
    clocks: int
    """Of these, those that an event alone makes late that was far ahead of its message's
    timestamp.
    """
    lateness: int
    """The least ``input.lateness`` with which none of the others is late, in the same order."""
    several: int
    """Messages that hold events of several slots."""


@dataclass(frozen=True, repr=False)
class Values:
    """Of valid events."""

    outside: int
    """Values outside the domain, which are clamped, ..."""
    compared: int
    """... of so many that the domain bounds: those of all events, or, where slots are held, what
    the events in time of each user and slot come to."""
    categories: int | None
    """Categories that occur; None for numbers."""


@dataclass(frozen=True, repr=False)
class Looks:
    """Of valid events, at least one."""

    ids: Ids
    times: Times
    slots: Slots
    values: Values


def look_at_ids(partitions: Sequence[Iterable[str]]) -> Ids:
    """Ids, those of each partition."""
    each = [set(texts) for texts in partitions]
    ids = set().union(*each)
    lengths = [len(text.encode()) for text in ids]
    return Ids(
        distinct=len(ids),
        shortest=min(lengths, default=0),
        longest=max(lengths, default=0),
        whole=sum(map(_whole, ids)),
        not_ascii=sum(not text.isascii() for text in ids),
        alike=len(ids) - len({text.strip().casefold() for text in ids}),
        split=in_several(each),
    )


def in_several(partitions: Iterable[Iterable[str]]) -> int:
    """How many ids lie in more than one of these sets, each of one partition.

    Examples
    --------
    >>> in_several([{"m1", "m2"}, {"m1"}, {"m1", "m3"}])
    1
    """
    return sum(number > 1 for number in Counter(chain.from_iterable(partitions)).values())


def _whole(text: str) -> bool:
    """Whether a JSON number could say it."""
    digits = text.removeprefix("-")
    return text == "0" or (digits.isascii() and digits.isdecimal() and digits[0] != "0")


def look_at_times(events: Events, now_ms: int, max_ahead_ms: int) -> Times:
    """The times of at least one event."""
    times, slots = events.times, events.slots
    return Times(
        first=int(slots.min()),
        last=int(slots.max()),
        slots=len(np.unique(slots)),
        after_now=int(np.count_nonzero(times > now_ms)),
        ahead=int(np.count_nonzero(times > now_ms + max_ahead_ms)),
        before_2000=int(np.count_nonzero(times < EARLY)),
    )


def look_at_slots(events: Events, starts: Sequence[int]) -> Slots:
    """How many events users have in a slot, and in which order.

    Parameters
    ----------
    starts : where the events of each partition begin
    """
    ranks = np.unique(events.slots, return_inverse=True)[1]
    width = int(ranks.max(initial=0)) + 1
    _, number = np.unique(events.users * width + ranks, return_counts=True)
    repeated = behind = several = 0
    for start, end in zip(starts, [*starts[1:], len(events.slots)], strict=True):
        several += _several(events.message[start:end], ranks[start:end], width)
        mine = start + np.flatnonzero(events.in_time[start:end])
        if len(mine):
            mine = mine[np.lexsort((ranks[mine], events.message[mine]))]
            again, after = _in_order(events.users[mine], ranks[mine], width)
            repeated, behind = repeated + again, behind + after
    return Slots(
        pairs=len(number),
        most=int(number.max(initial=0)),
        repeated=repeated,
        behind=behind,
        late=int(np.count_nonzero(~events.in_time)),
        clocks=int(np.count_nonzero(events.clocks)),
        lateness=max(0, int(events.back.max(initial=0))),
        several=several,
    )


def look_at_values(
    events: Events,
    starts: Sequence[int],
    *,
    taking: Taking | None,
    outside: Callable[[NDArray[Any]], NDArray[np.bool_]] | None,
) -> Values:
    """Which values the workers would clamp, or which categories occur.

    Parameters
    ----------
    starts : where the events of each partition begin
    taking : how several values of a user in one slot become one; None where each event's own value
        is bounded
    outside : which of values are outside the domain; None of categories
    """
    if outside is None:
        return Values(0, 0, len(np.unique(events.values)))
    values = events.values if taking is None else _of_slots(events, starts, taking)
    return Values(int(np.count_nonzero(outside(values))), len(values), None)


def _of_slots(events: Events, starts: Sequence[int], taking: Taking) -> NDArray[Any]:
    """What the events in time of each partition, user and slot come to, as the workers have it."""
    partition = np.searchsorted(starts, np.arange(len(events)), "right")
    mine = np.flatnonzero(events.in_time)
    # a slot's values stay in the order in which they came
    mine = mine[np.lexsort((events.slots[mine], events.users[mine], partition[mine]))]
    if not len(mine):
        return np.empty(0)
    of = np.stack([partition[mine], events.users[mine], events.slots[mine]])
    first = np.append(True, (of[:, 1:] != of[:, :-1]).any(axis=0))
    rows = np.flatnonzero(first)
    values = taking.enter(np.asarray(events.values[mine], np.float64))
    number = np.diff(np.append(rows, len(mine)))
    return taking.come_to(Folded(rows, taking.fold(SlotValues(values, rows)), number))


def _several(message: NDArray[np.intp], ranks: NDArray[np.intp], width: int) -> int:
    """How many messages hold events of more than one slot."""
    _, slots = np.unique(np.unique(message * width + ranks) // width, return_counts=True)
    return int(np.count_nonzero(slots > 1))


def _in_order(users: NDArray[np.intp], ranks: NDArray[np.intp], width: int) -> tuple[int, int]:
    """Of events in the order in which they are folded: how many are of a slot that their user has
    one of already; and of a slot that it has none of, and before its last one.
    """
    order = np.argsort(users, kind="stable")
    at = users[order] * width + ranks[order]  # each user's slots are beyond those of users before
    latest = np.maximum.accumulate(at)
    behind = np.concatenate([[False], at[1:] <= latest[:-1]])
    seen = np.ones(len(at), np.bool_)
    seen[np.unique(at, return_index=True)[1]] = False
    return int(np.count_nonzero(seen)), int(np.count_nonzero(behind & ~seen))
