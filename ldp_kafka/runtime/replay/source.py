"""What is replayed: the events of a set of users, slot by slot."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.base import as_array
from ldp_kafka.methods.contexts import distinct_ids
from ldp_kafka.runtime.replay.columns import (
    Place,
    in_table,
    milliseconds_of,
    no_column,
    read_ids,
)
from ldp_kafka.runtime.replay.vectors import value_names, values_in
from ldp_kafka.runtime.wire.fields import SECONDS
from ldp_kafka.topology import Topology

__all__ = ["SlotEvents", "Source", "from_arrays", "from_slots", "from_table", "recent_start"]


def _at_rows(place: Place, rows: NDArray[np.intp]) -> Place:
    """Of those rows alone."""
    return lambda at: place(int(rows[at]))


class SlotEvents(NamedTuple):
    """The events of one slot, in the order in which they are sent."""

    slot: int
    who: NDArray[np.intp]
    """Positions in the source's users."""
    times: NDArray[np.int64]
    """Milliseconds since 1970-01-01 UTC."""
    values: NDArray[Any]
    """float64, (n, dimension) for vectors; for categories int64, or their names as objects."""
    rows: NDArray[np.intp] | None = None
    """Of the table that they come from, from 0."""

    def __repr__(self) -> str:
        return f"SlotEvents(slot={self.slot}, {len(self.who)} events)"  # never a value


@dataclass(frozen=True, repr=False)
class Source:
    """Events in the order of their slots.

    Parameters
    ----------
    users : distinct ids
    slots : the events of each slot that has any, in order; may be an iterator, which is read once
    first, last : slot numbers
    events : how many in all
    left_out : rows of the input that lack a user, a value or a time

    """

    users: list[str]
    slots: Iterable[SlotEvents]
    first: int
    last: int
    events: int
    left_out: int = 0

    def __repr__(self) -> str:
        return (
            f"Source({len(self.users)} users, {self.events} events, slots {self.first} to"
            f" {self.last})"
        )


def recent_start(topology: Topology, slots: int, now_ms: int | None = None) -> int:
    """The start (ms) of so many slots of which the last is closed by a tick that is not in the
    future.
    """
    now = int(time.time() * 1000) if now_ms is None else now_ms
    return topology.slot_start(topology.slot_of(now) - topology.input.lateness - slots)


def from_arrays(
    topology: Topology, values: Any, start_ms: int, users: list[str] | None = None
) -> Source:
    """Streams (users, slots), one value a slot, or (users, slots, dimension) of vectors.

    Parameters
    ----------
    topology
        gives slots and the type of values
    values
        numbers, or category numbers
    start_ms
        time of the first slot
    users
        ids; default: u000000, u000001, ...

    Examples
    --------
    >>> from ldp_kafka.topology import loads
    >>> topology = loads('''
    ... topology: meters
    ... input: {slot: 1h}
    ... privacy: {method: sw_direct, epsilon: 1.0, window: 10, domain: [0, 100]}
    ... output: {statistics: [mean]}
    ... ''')
    >>> from_arrays(topology, np.zeros((3, 4)), 1_700_000_000_000)
    Source(3 users, 12 events, slots 472222 to 472225)

    """
    table = as_array(values, "fiub", "streams must hold numbers")
    d = topology.method.dimension
    if table.ndim != 2 + bool(d) or (d and table.shape[-1] != d) or not table.size:
        raise ConfigurationError(
            f"streams must be a table (users, slots{f', {d}' if d else ''}) with something in it,"
            f" got shape {table.shape}"
        )
    return from_slots(
        topology,
        iter(np.swapaxes(table, 0, 1)),
        table.shape[0],
        table.shape[1],
        start_ms=start_ms,
        users=users,
    )


def from_slots(
    topology: Topology,
    values: Iterable[Any],
    people: int,
    slots: int,
    *,
    start_ms: int,
    users: list[str] | None = None,
) -> Source:
    """Arrays (users,) that come slot by slot, and need not be in memory together; see
    `from_arrays`.
    """
    ids = distinct_ids((f"u{i:06d}" for i in range(people)) if users is None else users, people)
    first = topology.slot_of(start_ms)
    _not_too_early(topology, first)
    who = np.arange(people)
    kind = np.float64 if topology.privacy.categories is None else np.int64

    def each() -> Iterator[SlotEvents]:
        for at, column in enumerate(values):
            yield SlotEvents(
                first + at,
                who,
                np.full(people, topology.slot_start(first + at)),
                as_array(column, "fiub", "streams must hold numbers").astype(kind, copy=False),
            )

    return Source(ids, each(), first, first + slots - 1, people * slots)


def from_table(
    topology: Topology,
    table: Any,
    user: str,
    value: str,
    when: str,
    *,
    start_ms: int | None = None,
    place: Place = in_table,
) -> Source:
    """Rows of a `pyarrow.Table` with a user, a value and a time each, sorted by time.

    Parameters
    ----------
    topology
        gives slots and the type of values
    table
        the rows
    user, value, when
        names of the columns. Times are epoch seconds or milliseconds, timestamps, dates or ISO 8601
        text (UTC where they name no zone). Lists of numbers are in one column of lists, or of JSON,
        or in a column for each coordinate, whose names are parted by commas
    start_ms
        where given, all times are shifted by whole slots so that the first slot is that of this
        time
    place
        says, before what is wrong, in which row of the table

    Raises
    ------
    ConfigurationError : a column is missing, or a row of it cannot be read, or no row is complete

    """
    names = value_names(topology, value)
    if not {user, *names, when} <= {*table.column_names}:
        raise ConfigurationError(
            no_column(topology, table, user=(user,), value=names, time=(when,))
        )
    table = table.select(list(dict.fromkeys((user, *names, when))))
    rows = np.flatnonzero(np.all([each.is_valid().to_numpy() for each in table.columns], axis=0))
    if not len(rows):
        raise ConfigurationError("no row of the file has a user, a value and a time")
    kept = table.take(pa.array(rows)) if len(rows) < table.num_rows else table
    of_row = _at_rows(place, rows)
    times = milliseconds_of(kept.column(when), when, of_row)
    if start_ms is not None:
        times += topology.slot_start(topology.slot_of(start_ms)) - topology.slot_start(
            topology.slot_of(int(times.min()))
        )
    order = np.argsort(times, kind="stable")
    times = times[order]
    values = values_in(topology, [kept.column(name) for name in names], names, of_row)[order]
    named = read_ids(kept.column(user), user, of_row)
    named = named.combine_chunks().dictionary_encode()
    named = named.combine_chunks() if isinstance(named, pa.ChunkedArray) else named
    who = named.indices.to_numpy().astype(np.intp)[order]
    slots = topology.slot_of(times)
    _not_too_early(topology, int(slots[0]))
    edges = [0, *(np.flatnonzero(np.diff(slots)) + 1).tolist(), len(slots)]
    parts = [
        SlotEvents(int(slots[a]), who[a:b], times[a:b], values[a:b], rows[order[a:b]])
        for a, b in pairwise(edges)
    ]
    return Source(
        named.dictionary.to_pylist(),
        parts,
        int(slots[0]),
        int(slots[-1]),
        len(slots),
        table.num_rows - kept.num_rows,
    )


def _not_too_early(topology: Topology, first: int) -> None:
    """Times are sent as milliseconds; small ones would be read as seconds."""
    if topology.slot_start(first) < SECONDS:
        raise ConfigurationError(
            "times must be in or after April 1973: smaller numbers of milliseconds are read as"
            " seconds; shift them with --start"
        )
