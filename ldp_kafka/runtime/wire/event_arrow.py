"""Events as Arrow IPC streams: a column a field."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ldp_kafka.errors import BadRecord, Reason
from ldp_kafka.records import Events, Ids
from ldp_kafka.runtime.wire.arrow import MAX_BYTES, check_size, kind_of, read_batch
from ldp_kafka.runtime.wire.decoded_run import PlainRun
from ldp_kafka.runtime.wire.fields import Decoded, Fields
from ldp_kafka.runtime.wire.parsing import LATEST, LONGEST
from ldp_kafka.runtime.wire.times import NUDGE, SECONDS, Unit, many_milliseconds, milliseconds
from ldp_kafka.runtime.wire.user_ids import MOST_CHARACTERS, joined_id, nfc
from ldp_kafka.topology.paths import OUTER, Path

__all__ = ["read", "read_plain"]

# what may be wrong with a value, by the number that stands for it; 0: nothing
_WRONG = {1: Reason.CATEGORY, 2: Reason.NOT_FINITE, 3: Reason.VALUE}
_CATEGORY, _NOT_FINITE, _VALUE = _WRONG
_CODES = {reason: code for code, reason in _WRONG.items()}
_WIDEST = 4 * MOST_CHARACTERS  # bytes
_IN_MILLISECOND = {"us": 1000, "ns": 1_000_000}


def read(message: bytes, fields: Fields) -> Decoded:
    """A row an event. BadRecord for what is no batch of them."""
    try:
        return _decoded(partial(_column, _rows(message)), fields)
    except BadRecord:
        raise
    except (pa.ArrowException, ValueError):  # what Arrow cannot do with a stranger's columns
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
        except (BadRecord, pa.ArrowException, ValueError):
            continue
        kinds = tuple([column.type for column in columns.values()])
        groups.setdefault(kinds, []).append((at, columns))
    found = (
        _together(group, fields)
        for kinds, group in groups.items()
        # what is checked of these is checked of a message as a whole
        if not any(pa.types.is_nested(kind) or pa.types.is_dictionary(kind) for kind in kinds)
    )
    return [run for run in found if run is not None]


def _together(group: Sequence[tuple[int, dict[Path, Any]]], fields: Fields) -> PlainRun | None:
    """The rows of several messages as one run; None where they are to be read one by one."""
    try:
        decoded = _decoded(
            lambda path, _: pa.concat_arrays([columns[path] for _, columns in group]), fields
        )
    except (BadRecord, pa.ArrowException, ValueError):
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
    times, no_time = _times(column(fields.time, Reason.TIME), len(users), fields.unit)
    values, bad_value = _values(column(fields.value, Reason.VALUE), len(users), fields)
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
            else _WRONG[int(bad_value[row])],
        )
        for row in np.flatnonzero(~good)
    ]
    kept = np.flatnonzero(good)
    return Decoded(Events(users.take(kept), times[kept], values[kept]), kept, bad)


def _users(column: Any) -> tuple[Ids, NDArray[np.bool_]]:
    if pa.types.is_dictionary(column.type):
        column = _spelled(column, Reason.USER)
    if pa.types.is_integer(column.type):
        column = column.cast(pa.string())
    elif not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
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


def _values(column: Any, n: int, fields: Fields) -> tuple[NDArray[Any], NDArray[np.uint8]]:
    """Values, and what is wrong with each."""
    kind = column.type
    why = np.zeros(n, np.uint8)
    if fields.dimension:
        return _vectors(column, why, fields)
    if fields.codes is not None:
        if pa.types.is_dictionary(kind):
            column = _spelled(column, Reason.VALUE)
        if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
            raise BadRecord(Reason.VALUE)
        codes = np.array([fields.codes.get(name, -1) for name in column.to_pylist()], np.int64)
        why[codes < 0] = _CATEGORY
    elif fields.coerce and _textual(kind):
        if pa.types.is_dictionary(kind):
            column = _spelled(column, Reason.VALUE)
        return _coerced(column, fields)
    elif fields.count is not None:
        if not pa.types.is_integer(kind):
            raise BadRecord(Reason.VALUE)
        codes = _filled(column, pa.int64(), -1)
        why[~((codes >= 0) & (codes < fields.count))] = _CATEGORY
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        codes = _filled(column, pa.float64(), np.nan)
        if not np.isfinite(codes).all():
            why[~np.isfinite(codes)] = _NOT_FINITE
    else:
        raise BadRecord(Reason.VALUE)
    if column.null_count:
        why[column.is_null().to_numpy(zero_copy_only=False)] = _VALUE
    return codes, why


def _textual(kind: Any) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _coerced(column: Any, fields: Fields) -> tuple[NDArray[Any], NDArray[np.uint8]]:
    """Texts that hold numbers, and what is wrong with each."""
    values, why = np.zeros(len(column), fields.dtype), np.zeros(len(column), np.uint8)
    for row, text in enumerate(column.to_pylist()):
        try:
            values[row] = fields.one_of(text)
        except BadRecord as bad:
            why[row] = _CODES[bad.reason]
    return values, why


def _vectors(
    column: Any, why: NDArray[np.uint8], fields: Fields
) -> tuple[NDArray[Any], NDArray[np.uint8]]:
    """Lists of so many numbers; what is wrong is noted row by row."""
    kind, d = column.type, fields.dimension
    listed = (
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )
    texts = listed and fields.coerce and _textual(kind.value_type)
    if texts and pa.types.is_dictionary(kind.value_type):
        raise BadRecord(Reason.VALUE)
    if not texts and not (
        listed
        and any(
            fits(kind.value_type)
            for fits in (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
        )
    ):
        raise BadRecord(Reason.VALUE)
    right = pc.list_value_length(column).fill_null(-1).to_numpy(zero_copy_only=False) == d
    if np.count_nonzero(~right) * d * 8 > 16 * MAX_BYTES:
        raise BadRecord(Reason.TOO_LARGE)  # many lists that are too short must not fill the memory
    vectors = np.zeros((len(column), d))
    flat = column.filter(pa.array(right)).flatten()
    if texts:
        found, wrong = _coerced(flat, fields)
        vectors[right], why[right] = found.reshape(-1, d), wrong.reshape(-1, d).max(axis=1)
        why[~right] = _VALUE
        return vectors, why
    vectors[right] = _filled(flat, pa.float64(), np.nan).reshape(-1, d)
    lacking = np.zeros((len(column), d), np.bool_)
    if flat.null_count:
        lacking[right] = flat.is_null().to_numpy(zero_copy_only=False).reshape(-1, d)
    why[~np.isfinite(vectors).all(axis=1)] = _NOT_FINITE
    why[~right | lacking.any(axis=1)] = _VALUE
    return vectors, why


def _filled(column: Any, kind: Any, missing: float) -> NDArray[Any]:
    if column.type != kind:
        # a uint64 beyond int64 becomes negative: out of every range that is asked for
        column = column.cast(kind, safe=False)
    found: NDArray[Any] = (column.fill_null(missing) if column.null_count else column).to_numpy()
    return found


def _spelled(column: Any, reason: Reason) -> Any:
    """A dictionary column with its values written out; texts longer than any id are empty then. One
    long text said a million times must not fill the memory.
    """
    texts = column.dictionary
    if pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type):
        texts = pc.if_else(pc.greater(pc.binary_length(texts), _WIDEST), "", texts).cast(texts.type)
        said = pc.sum(pc.binary_length(texts).take(column.indices)).as_py() or 0
        if said > 16 * MAX_BYTES:
            raise BadRecord(Reason.TOO_LARGE)
    elif not pa.types.is_integer(texts.type):
        raise BadRecord(reason)
    return texts.take(column.indices)


def _times(
    column: Any, n: int, declared: Unit | None
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Times, and which are none; ``declared`` is the unit of what has none of its own."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _read_times(column.to_pylist(), n, declared)
    if declared is not None and pa.types.is_integer(kind):
        return many_milliseconds(_filled(column, pa.int64(), -1), declared)
    if declared is not None and pa.types.is_floating(kind):
        return many_milliseconds(_filled(column, pa.float64(), -1.0), declared)
    if pa.types.is_floating(kind):
        found = _filled(column, pa.float64(), -1.0)
        bad = ~((found >= 0) & (found < LATEST))
        found = np.where(bad, 0, found)
        return np.where(found < SECONDS, found * 1000 + NUDGE, found).astype(np.int64), bad
    if not (pa.types.is_timestamp(kind) or pa.types.is_integer(kind)):
        raise BadRecord(Reason.TIME)
    unit = kind.unit if pa.types.is_timestamp(kind) else None
    times = _filled(column, pa.int64(), -1)
    if unit in _IN_MILLISECOND:
        times = times // _IN_MILLISECOND[unit]
    bad = (times < 0) | (times >= (LATEST // 1000 if unit == "s" else LATEST))
    seconds = {None: SECONDS, "s": LATEST}.get(unit, 0)  # numbers below it are seconds
    if n and times.min() < seconds:
        times = np.where(times < seconds, times * 1000, times)
    return times, bad


def _read_times(
    texts: list[str | None], n: int, unit: Unit | None
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    times, bad = np.zeros(n, np.int64), np.zeros(n, np.bool_)
    for row, text in enumerate(texts):
        try:
            times[row] = milliseconds(text, unit)
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
            column = pc.struct_field(column, step)
    except (KeyError, IndexError, pa.ArrowException, TypeError, ValueError):
        raise BadRecord(what) from None
    return column
