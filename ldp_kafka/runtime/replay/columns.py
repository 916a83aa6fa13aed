"""Columns of a table as users, values and times: every row of them, or the first that cannot be
read so. No error shows a value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ldp_kafka.accounting.words import instant
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.runtime.wire.parsing import LATEST
from ldp_kafka.runtime.wire.times import NUDGE, SECONDS
from ldp_kafka.topology import Topology

__all__ = ["Place", "column_values", "in_table", "milliseconds_of", "no_column", "read_ids"]

_NAME = re.compile(r"[A-Za-z_]\w{0,63}([ .-]\w{1,63}){0,7}")
_MISSING = re.compile(r"nan|inf|infinity|n/?a|null|none|nil", re.IGNORECASE)
"""Among names that start with a letter, what a number's cell may hold."""
_COMMA = re.compile(r"[+-]?[0-9]+,[0-9]+")
_WORDS = {pa.float64(): "a number", pa.int64(): "a whole number", pa.string(): "text"}
_TIME = "a time: epoch seconds or milliseconds, or ISO 8601, all rows alike"
Place: TypeAlias = Callable[[int], str]
"""Where a row lies, in words."""


def in_table(row: int) -> str:
    """Of a table that is no file."""
    return f"row {row + 1}"


def no_column(topology: Topology, table: Any, **wanted: tuple[str, ...]) -> str:
    """What to say where a table lacks a column.

    Parameters
    ----------
    topology : the columns that its own paths name are told apart, if the table has them
    table : its columns are named where their types show that the first line of the file is a
        header; in a file without one that line is data, which no error shows
    wanted : the columns of each of ``user``, ``value`` and ``time`` that are looked for
    """
    there = table.column_names
    missing = [name for names in wanted.values() for name in names if name not in there]
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
        if len(path) == 1 and path[0] in there and path[0] not in wanted[role]
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


def column_values(
    topology: Topology, column: Any, name: str, place: Place = in_table
) -> NDArray[Any]:
    """A column without nulls as the topology's values: numbers, category numbers, or names of
    categories as objects.
    """
    privacy = topology.privacy
    if privacy.category_names is not None:
        return np.array(read_column(column, pa.string(), name, place).to_pylist(), object)
    kind = pa.float64() if privacy.categories is None else pa.int64()
    found: NDArray[Any] = read_column(column, kind, name, place).to_numpy()
    return found


Reading: TypeAlias = Callable[[Any], Any]
"""A column as another one. `pyarrow.ArrowInvalid` where a row cannot be read so,
`pyarrow.ArrowNotImplementedError` where none can.
"""


def read_column(column: Any, kind: Any, name: str, place: Place) -> Any:
    """A column as another type. Text is read as the numbers that it spells."""
    column = _written_out(column)
    readings: list[Reading] = [lambda some: pc.cast(some, kind)]
    if _is_text(column.type) and not pa.types.is_string(kind):
        readings += [
            lambda some: pc.cast(pc.cast(some, pa.float64()), kind),
            lambda some: pc.cast(pc.cast(some, pa.bool_()), kind),
        ]
    return _read(column, readings, name, _WORDS.get(kind, str(kind)), place)


def read_ids(column: Any, name: str, place: Place) -> Any:
    """A column without nulls as ids, which are text or whole numbers, as in a message."""
    kind = _written_out(column).type
    if pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        point = " (pandas gives numbers a point where a column has gaps)"
        raise ConfigurationError(
            f"column {name} must hold ids, which are text or whole numbers; it is {kind}: write ids"
            f" as text{point if pa.types.is_floating(kind) else ''}"
        )
    return read_column(column, pa.string(), name, place)


def _written_out(column: Any) -> Any:
    """Without a dictionary, or views of text."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _written_out(pc.cast(column, kind.value_type))
    return pc.cast(column, pa.large_string()) if pa.types.is_string_view(kind) else column


def _instants(column: Any) -> Any:
    """Times in ISO 8601, as the workers read them: Arrow knows some of it, and faster."""
    try:
        found = [instant(text) for text in column.to_pylist()]
        return pa.chunked_array([pa.array(found, pa.timestamp("ms"))])
    except ValueError:
        raise pa.ArrowInvalid from None


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


def milliseconds_of(column: Any, name: str, place: Place) -> NDArray[np.int64]:
    """A column without nulls as epoch milliseconds (n,): of epoch seconds or milliseconds,
    timestamps, dates or ISO 8601 text.
    """
    column = _written_out(column)
    kind = column.type
    if _is_text(kind) or pa.types.is_date(kind):
        readings: list[Reading] = [
            lambda some: pc.cast(some, pa.timestamp("ms", "UTC")),  # with a zone ...
            lambda some: pc.cast(some, pa.timestamp("ms")),  # ... or all without
        ]
        if _is_text(kind):
            readings += [lambda some: pc.cast(some, pa.float64()), _instants]
        column = _read(column, readings, name, _TIME, place)
    if pa.types.is_timestamp(column.type):
        found: NDArray[np.int64] = (
            pc.cast(pc.cast(column, pa.timestamp("ms", column.type.tz), safe=False), pa.int64())
            .to_numpy()
            .copy()
        )
        return found
    kind = column.type
    floats = pa.types.is_floating(kind) or (pa.types.is_decimal(kind) and kind.scale > 0)
    numbers = read_column(column, pa.float64() if floats else pa.int64(), name, place).to_numpy()
    (wrong,) = np.nonzero(~(np.abs(numbers) < LATEST))
    if len(wrong):
        raise ConfigurationError(
            f"{place(int(wrong[0]))}: column {name} must be readable as {_TIME}; this row is not"
        )
    scaled = numbers * 1000 + (NUDGE if floats else 0)
    return np.asarray(np.where(numbers < SECONDS, scaled, numbers).astype(np.int64))
