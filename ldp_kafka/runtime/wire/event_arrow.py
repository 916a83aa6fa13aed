"""Events as Arrow IPC streams: a column a field."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ldp_kafka.errors import BadRecord, Reason
from ldp_kafka.records import Events, Ids
from ldp_kafka.runtime.wire.arrow import check_size, kind_of, read_batch
from ldp_kafka.runtime.wire.arrow_columns import (
    UNREADABLE,
    field_of,
    filled,
    is_encoded,
    is_text,
    numbers_in,
    written_out,
)
from ldp_kafka.runtime.wire.arrow_values import WRONG, values_of
from ldp_kafka.runtime.wire.decoded_run import PlainRun
from ldp_kafka.runtime.wire.fields import Decoded, Fields
from ldp_kafka.runtime.wire.parsing import LATEST, LONGEST
from ldp_kafka.runtime.wire.times import UNITS, Unit, many_milliseconds, milliseconds
from ldp_kafka.runtime.wire.user_ids import joined_id, nfc, one_id
from ldp_kafka.topology.paths import OUTER, Path

__all__ = ["read", "read_plain"]

_DAYS = Unit(86_400_000, 1)


def read(message: bytes, fields: Fields) -> Decoded:
    """A row an event. BadRecord for what is no batch of them."""
    try:
        return _decoded(partial(_column, _rows(message)), fields)
    except BadRecord:
        raise
    except UNREADABLE:  # what Arrow cannot do with a stranger's columns
        raise BadRecord(Reason.NOT_ARROW) from None


def read_plain(messages: Sequence[bytes], fields: Fields) -> Sequence[PlainRun]:
    """The messages whose rows are all events, as `read` reads them one by one: those with columns
    of the same types together.
    """
    if len(messages) < 2:
        return ()
    paths = [(part, Reason.USER) for part in fields.parts or (fields.user,)]
    paths += [(fields.time, Reason.TIME), (fields.value, Reason.VALUE)]
    groups: dict[tuple[Any, ...], list[tuple[int, dict[Path, Any]]]] = {}
    for at, message in enumerate(messages):
        try:
            check_size(message)
            rows = _rows(message)
            columns = {path: _column(rows, path, what) for path, what in paths}
        except UNREADABLE:  # a BadRecord is a ValueError
            continue
        kinds = tuple([column.type for column in columns.values()])
        # what is checked of columns that are encoded is checked of a message as a whole
        if not any(map(is_encoded, kinds)):
            groups.setdefault(kinds, []).append((at, columns))
    found = (_together(group, fields) for group in groups.values())
    return [run for run in found if run is not None]


def _together(group: Sequence[tuple[int, dict[Path, Any]]], fields: Fields) -> PlainRun | None:
    """The rows of several messages as one run; None where they are to be read one by one."""
    try:
        decoded = _decoded(
            lambda path, _: pa.concat_arrays([columns[path] for _, columns in group]), fields
        )
    except UNREADABLE:
        return None
    if not decoded.events:
        return None
    places = np.array([at for at, _ in group], np.intp)
    sizes = np.array([len(columns[fields.time]) for _, columns in group], np.intp)
    if decoded.rows is None:
        return PlainRun(decoded.events, places, sizes)
    plain = np.ones(len(group), np.bool_)
    message = np.repeat(np.arange(len(group)), sizes)
    plain[message[[at for at, _ in decoded.bad]]] = False
    (kept,) = np.nonzero(plain[message[decoded.rows]])
    return PlainRun(decoded.events.take(kept), places[plain], sizes[plain]) if len(kept) else None


def _rows(message: bytes) -> Any:
    rows, metadata = read_batch(message)
    if kind_of(metadata) not in (None, "event"):
        raise BadRecord(Reason.NOT_A_RECORD)
    return rows


def _decoded(column: Callable[[Path, Reason], Any], fields: Fields) -> Decoded:
    """What columns hold, row by row.

    Parameters
    ----------
    column : the one at a path; BadRecord for this reason where there is none
    """
    users, no_user = (
        _joined([_users(column(part, Reason.USER)) for part in fields.parts])
        if fields.parts
        else _users(column(fields.user, Reason.USER))
    )
    times, no_time = _times(written_out(column(fields.time, Reason.TIME)), fields.unit)
    values, bad_value = values_of(written_out(column(fields.value, Reason.VALUE)), fields)
    if not (no_user.any() or no_time.any() or bad_value.any()):
        return Decoded(Events(users, times, values))
    good = ~(no_user | no_time | (bad_value != 0))
    bad = [
        (
            int(row),
            Reason.USER
            if no_user[row]
            else Reason.TIME
            if no_time[row]
            else WRONG[int(bad_value[row])],
        )
        for row in np.flatnonzero(~good)
    ]
    kept = np.flatnonzero(good)
    return Decoded(Events(users.take(kept), times[kept], values[kept]), kept, bad)


def _users(column: Any) -> tuple[Ids, NDArray[np.bool_]]:
    column = written_out(column)
    if pa.types.is_integer(column.type) or pa.types.is_null(column.type):
        column = column.cast(pa.string())
    elif pa.types.is_decimal(column.type) and column.type.scale <= 0:
        column = pa.array([_id_text(each) for each in numbers_in(column)], pa.string())
    elif not is_text(column.type):
        raise BadRecord(Reason.USER)
    if column.null_count:
        column = column.fill_null("")
    if not len(column):
        return Ids.of([]), np.zeros(0, np.bool_)
    _, offsets, data = column.buffers()
    wide = np.dtype(np.int64 if pa.types.is_large_string(column.type) else np.int32)
    ends = np.frombuffer(offsets, wide, len(column) + 1, wide.itemsize * column.offset)
    ids = Ids(np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8), ends)
    if ids.data[ends[0] : ends[-1]].max(initial=0) >= 128:  # not ASCII
        ids = Ids.of([_normal(text) for text in column.to_pylist()])
        ends = ids.offsets
    length = ends[1:] - ends[:-1]
    return ids, (length < 1) | (length > LONGEST)


def _id_text(found: float | None) -> str:
    """The id that a number is; empty where it is none."""
    try:
        return one_id(found)
    except BadRecord:
        return ""


def _normal(text: str) -> str:
    """An id in NFC; what is too long for one stays as it is."""
    try:
        return nfc(text)
    except BadRecord:
        return text


def _joined(
    parts: Sequence[tuple[Ids, NDArray[np.bool_]]],
) -> tuple[Ids, NDArray[np.bool_]]:
    """Ids made of parts, and which are none."""
    bad = np.logical_or.reduce([none for _, none in parts])
    users = []
    for row, found in enumerate(zip(*(texts.texts() for texts, _ in parts), strict=True)):
        try:
            users.append("" if bad[row] else joined_id(found))
        except BadRecord:  # too long together
            users.append("")
            bad[row] = True
    return Ids.of(users), bad


def _times(column: Any, declared: Unit | None) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Times, and which are none; ``declared`` is the unit of what has none of its own."""
    kind = column.type
    if is_text(kind) or pa.types.is_null(kind):
        return _read_times(column.to_pylist(), declared)
    if pa.types.is_decimal(kind):
        return _read_times(numbers_in(column), declared)
    if pa.types.is_uint64(kind) and len(column) and filled(column, kind, 0).max() >= 2**63:
        return _read_times(column.to_pylist(), declared)
    if pa.types.is_integer(kind):
        return many_milliseconds(filled(column, pa.int64(), -1), declared)
    if pa.types.is_floating(kind):
        return many_milliseconds(filled(column, pa.float64(), -1.0), declared)
    if pa.types.is_date32(kind):
        times, unit = filled(column.cast(pa.int32()), pa.int64(), -1), _DAYS
    elif pa.types.is_date64(kind):
        times, unit = filled(column, pa.int64(), -1), UNITS["ms"]
    elif pa.types.is_timestamp(kind):
        times, unit = filled(column, pa.int64(), -1), UNITS[kind.unit]
    else:
        raise BadRecord(Reason.TIME)
    bad = (times < 0) | (times >= LATEST * unit.over // unit.times)
    return np.where(bad, 0, times) * unit.times // unit.over, bad


def _read_times(found: list[Any], unit: Unit | None) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    times, bad = np.zeros(len(found), np.int64), np.zeros(len(found), np.bool_)
    for row, each in enumerate(found):
        try:
            times[row] = milliseconds(each, unit)
        except BadRecord:
            bad[row] = True
    return times, bad


def _column(rows: Any, path: Path, what: Reason) -> Any:
    """The column at a path: its first step names it, further ones fields of structs."""
    if path[0] == OUTER:  # nothing is around a batch; and Arrow's last column is -1
        raise BadRecord(what)
    try:
        column = rows.column(path[0])
        for step in path[1:]:
            column = field_of(column, step)
    except (KeyError, IndexError, TypeError, *UNREADABLE):
        raise BadRecord(what) from None
    return column
