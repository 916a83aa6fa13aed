"""What is replayed: the events of a set of users, slot by slot."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.base import as_array
from ldp_kafka.runtime.wire.fields import SECONDS
from ldp_kafka.topology import Topology

__all__ = [
    "Place",
    "SlotEvents",
    "Source",
    "column_values",
    "from_arrays",
    "from_slots",
    "from_table",
    "in_table",
    "no_column",
    "recent_start",
]

_NAME = re.compile(r"[A-Za-z_]\w{0,63}([ .-]\w{1,63}){0,7}")
_MISSING = re.compile(r"nan|inf|infinity|n/?a|null|none|nil", re.IGNORECASE)
"""Among names that start with a letter, what a number's cell may hold."""


_COMMA = re.compile(r"[+-]?[0-9]+,[0-9]+")
_TIME = "a time: epoch seconds or milliseconds, or ISO 8601, all rows alike"
Place: TypeAlias = Callable[[int], str]
"""Where a row lies, in words."""


def in_table(row: int) -> str:
    """Of a table that is no file."""
    return f"row {row + 1}"


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


def no_column(topology: Topology, table: Any, **wanted: str) -> str:
    """What to say where a table lacks a column.

    Parameters
    ----------
    topology : the columns that its own paths name are told apart, if the table has them
    table : its columns are named where their types show that the first line of the file is a
        header; in a file without one that line is data, which no error shows
    wanted : the column of each of ``user``, ``value`` and ``time`` that is looked for
    """
    there = table.column_names
    missing = [name for name in wanted.values() if name not in there]
    options = "--user-column, --value-column and --time-column say which is which"
    if len(wanted) == 1:
        options = "--value-column says which it is"
    if not _named(table):
        return (
            f"no column {', '.join(missing)} among the {len(there)} that the file's first line"
            f" names: it must be a header with the columns' names; {options}"
        )
    own = {role: getattr(topology.input, role) for role in wanted}
    guess = "".join(
        f" --{role}-column {path[0]}"
        for role, path in own.items()
        if len(path) == 1 and path[0] in there and path[0] != wanted[role]
    )
    shown = ", ".join(name or "(one without a name)" for name in there)
    return f"no column {', '.join(missing)} among {shown}: {options}" + (
        f"; as in the topology:{guess}" if guess else ""
    )


def _named(table: Any) -> bool:
    """Whether the first line surely names columns: one holds numbers or times, and no name is one,
    or stands for one that is missing.
    """
    return any(
        not (pa.types.is_string(field.type) or pa.types.is_null(field.type))
        for field in table.schema
    ) and all(
        _NAME.fullmatch(name) and not _MISSING.fullmatch(name)
        for name in table.column_names
        if name
    )


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
    ids = [f"u{i:06d}" for i in range(people)] if users is None else users
    if len(ids) != people or len(set(ids)) != people:
        raise ConfigurationError("users must be distinct ids, one a stream")
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
        text (UTC where they name no zone)
    start_ms
        where given, all times are shifted by whole slots so that the first slot is that of this
        time
    place
        says, before what is wrong, in which row of the table

    Raises
    ------
    ConfigurationError : a column is missing, or a row of it cannot be read, or no row is complete;
        or the topology's values are vectors

    """
    if topology.method.dimension:
        raise ConfigurationError(
            f"a table's values are single numbers or categories, and {topology.privacy.method} is"
            f" for lists of {topology.method.dimension} numbers: write them to the raw topic"
            " yourself"
        )
    if not {user, value, when} <= {*table.column_names}:
        raise ConfigurationError(no_column(topology, table, user=user, value=value, time=when))
    table = table.select(list(dict.fromkeys((user, value, when))))
    rows = np.flatnonzero(np.all([each.is_valid().to_numpy() for each in table.columns], axis=0))
    if not len(rows):
        raise ConfigurationError("no row of the file has a user, a value and a time")
    kept = table.take(pa.array(rows)) if len(rows) < table.num_rows else table
    of_row = _at_rows(place, rows)
    times = _milliseconds(kept.column(when), when, of_row)
    if start_ms is not None:
        times += topology.slot_start(topology.slot_of(start_ms)) - topology.slot_start(
            topology.slot_of(int(times.min()))
        )
    order = np.argsort(times, kind="stable")
    times = times[order]
    values = column_values(topology, kept.column(value), value, of_row)[order]
    named = _column(kept.column(user), pa.string(), user, of_row)
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


def column_values(
    topology: Topology, column: Any, name: str, place: Place = in_table
) -> NDArray[Any]:
    """A column without nulls as the topology's values: numbers, category numbers, or names of
    categories as objects.
    """
    privacy = topology.privacy
    if privacy.category_names is not None:
        return np.array(_column(column, pa.string(), name, place).to_pylist(), object)
    kind = pa.float64() if privacy.categories is None else pa.int64()
    found: NDArray[Any] = _column(column, kind, name, place).to_numpy()
    return found


Reading: TypeAlias = Callable[[Any], Any]
"""A column as another one. `pyarrow.ArrowInvalid` where a row cannot be read so,
`pyarrow.ArrowNotImplementedError` where none can.
"""


def _column(column: Any, kind: Any, name: str, place: Place) -> Any:
    """A column as another type. Text is read as the numbers that it spells."""
    readings: list[Reading] = [lambda some: pc.cast(some, kind)]
    if _is_text(column.type) and not pa.types.is_string(kind):
        readings += [
            lambda some: pc.cast(pc.cast(some, pa.float64()), kind),
            lambda some: pc.cast(pc.cast(some, pa.bool_()), kind),
        ]
    return _read(column, readings, name, str(kind), place)


def _read(column: Any, readings: Sequence[Reading], name: str, kind: str, place: Place) -> Any:
    """What the first of the readings says that can read all rows. Otherwise the error says which
    row is the first that cannot be read by the one that comes furthest; it shows none of its
    values, which Arrow's does, and no name of a nested field.
    """
    partial = []
    for reading in readings:
        try:
            return reading(column)
        except pa.ArrowNotImplementedError:
            continue
        except pa.ArrowInvalid:
            partial.append(reading)
    if not partial:
        found = "nested" if pa.types.is_nested(column.type) else column.type
        raise ConfigurationError(f"column {name} must be readable as {kind}; it is {found}")
    row = max(_first_unread(column, reading) for reading in partial)
    raise ConfigurationError(
        f"{place(row)}: column {name} must be readable as {kind}; {_wrong(column[row], name)}"
    )


def _first_unread(column: Any, reading: Reading) -> int:
    """The first row that cannot be read, of a column in which one cannot."""
    read, end = 0, len(column)  # all before `read` can, one before `end` cannot
    while end - read > 1:
        half = (read + end) // 2
        try:
            reading(column.slice(read, half - read))
        except pa.ArrowInvalid:
            end = half
        else:
            read = half
    return read


def _wrong(cell: Any, name: str) -> str:
    """What is wrong with a cell, in words."""
    text = cell.as_py()
    if not isinstance(text, str):
        return "this row is not"
    if text.strip() == name:
        return "this row is the header again: were files joined?"
    if _COMMA.fullmatch(text.strip()):
        return "this row has a decimal comma: write a point"
    return "this row is not"


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _milliseconds(column: Any, name: str, place: Place) -> NDArray[np.int64]:
    kind = column.type
    if _is_text(kind) or pa.types.is_date(kind):
        readings: list[Reading] = [
            lambda some: pc.cast(some, pa.timestamp("ms", "UTC")),  # with a zone ...
            lambda some: pc.cast(some, pa.timestamp("ms")),  # ... or all without
        ]
        if _is_text(kind):
            readings.append(lambda some: pc.cast(some, pa.float64()))
        column = _read(column, readings, name, _TIME, place)
    if pa.types.is_timestamp(column.type):
        found: NDArray[np.int64] = (
            pc.cast(pc.cast(column, pa.timestamp("ms", column.type.tz), safe=False), pa.int64())
            .to_numpy()
            .copy()
        )
        return found
    whole = pa.types.is_floating(column.type)
    numbers = _column(column, pa.float64() if whole else pa.int64(), name, place).to_numpy()
    return np.asarray(np.where(numbers < SECONDS, numbers * 1000, numbers).astype(np.int64))


def _not_too_early(topology: Topology, first: int) -> None:
    """Times are sent as milliseconds; small ones would be read as seconds."""
    if topology.slot_start(first) < SECONDS:
        raise ConfigurationError(
            "times must be in or after April 1973: smaller numbers of milliseconds are read as"
            " seconds; shift them with --start"
        )
