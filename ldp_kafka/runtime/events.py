"""The users' own messages, strictly: one JSON object or an Arrow IPC stream, the fields where the topology says.

Every row is either an event or a reason; neighbours do not suffer. No reason holds a value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from math import inf
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ldp_kafka.errors import BadRecord
from ldp_kafka.records import Events, Ids, Tick
from ldp_kafka.runtime.wire import ARROW, MARK, check_size, decode_json, kind_of, parse_json, read_batch

__all__ = ["REASONS", "Decoded", "EventReader"]

REASONS = {
    "empty": "the message has no value",
    "too_large": "the message is larger than 2 MiB or has more than 2**20 rows",
    "not_json": "the message is neither UTF-8 JSON nor an Arrow IPC stream",
    "not_arrow": "the message is not a valid Arrow IPC stream",
    "not_a_record": "the JSON is not an object",
    "not_a_report": "the message is no report",
    "wrong_fields": "a field is missing or of the wrong type",
    "version": "the message is of another version",
    "user": "the user is missing, empty, longer than 256 bytes, or neither text nor a whole number",
    "value": "the value is missing or of the wrong type",
    "not_finite": "the value is NaN or infinite",
    "category": "the value is none of the topology's categories",
    "time": "the time is missing, unreadable, or before 1970",
    "ahead": "the time is further ahead of the message's own timestamp than max_ahead",
    "fingerprint": "the report belongs to another topology",
    "range": "the report lies outside the mechanism's outputs",
    "closed": "the report is for a slot that its edge had closed",
}

SECONDS = 10**11  # numbers below it are seconds (until the year 5138), others milliseconds (since 1973)
LATEST = 2**53  # milliseconds
LONGEST = 256  # bytes of a user id


class Decoded(NamedTuple):
    """What one message holds."""

    events: Events | None = None
    rows: NDArray[np.int64] | None = None
    """Row of each event in the message, where some of its rows are bad."""
    bad: Sequence[tuple[int, str]] = ()
    """(row, reason) of what is no event."""
    tick: int | None = None
    """Milliseconds, for a tick."""


class EventReader:
    """Reads the messages of one raw topic.

    Parameters
    ----------
    user, value, time : paths of the fields, as sequences of names and indices
    categories : number of categories, or their names; None for numbers
    """

    def __init__(self, user: Sequence[str | int], value: Sequence[str | int], time: Sequence[str | int], categories: int | Sequence[str] | None = None) -> None:
        self._user, self._value, self._time = tuple(user), tuple(value), tuple(time)
        self._count = categories if isinstance(categories, int) else None
        self._codes = {name: code for code, name in enumerate(categories)} if categories is not None and not isinstance(categories, int) else None
        self._dtype = np.dtype(np.float64 if categories is None else np.int64)

    def read(self, message: bytes | None) -> Decoded:
        """Events and bad rows of one message; never raises for what a producer sent."""
        try:
            check_size(message)
            assert message is not None
            if message.startswith(ARROW):
                return self._batch(message)
            return self._single(parse_json(message))
        except BadRecord as bad:
            return Decoded(bad=[(0, bad.reason)])

    def _single(self, record: Any) -> Decoded:
        if isinstance(record, dict) and MARK in record and record.get("type") != "event":
            control = decode_json(record)
            if control is None:
                return Decoded()  # a header
            if isinstance(control, Tick):
                return Decoded(tick=control.time)
            raise BadRecord("not_a_record")
        if not isinstance(record, dict):
            raise BadRecord("not_a_record")
        user, time, value = self.fields(record)
        return Decoded(Events(Ids.of([user]), np.array([time]), np.array([value], self._dtype)))

    def fields(self, record: Mapping[str, Any]) -> tuple[str, int, float | int]:
        """User, milliseconds and value (or category number) of one JSON object. BadRecord otherwise."""
        return self._user_of(_at(record, self._user)), _milliseconds(_at(record, self._time)), self._value_of(_at(record, self._value))

    def _user_of(self, found: Any) -> str:
        if type(found) is int:
            found = str(found) if abs(found) < 2**64 else ""
        if type(found) is not str or not found:
            raise BadRecord("user")
        try:
            length = len(found.encode())
        except UnicodeEncodeError:  # a lone surrogate: JSON can say it, UTF-8 cannot
            raise BadRecord("user") from None
        if not length <= LONGEST:
            raise BadRecord("user")
        return found

    def _value_of(self, found: Any) -> float | int:
        if self._codes is not None:
            if type(found) is not str:
                raise BadRecord("value")
            code = self._codes.get(found)
            if code is None:
                raise BadRecord("category")
            return code
        if type(found) is not int and (type(found) is not float or self._count is not None):
            raise BadRecord("value")
        if self._count is not None:
            if not 0 <= found < self._count:
                raise BadRecord("category")
            return found
        try:
            number = float(found)
        except OverflowError:
            raise BadRecord("not_finite") from None
        if not -inf < number < inf:
            raise BadRecord("not_finite")
        return number

    def _batch(self, message: bytes) -> Decoded:
        rows, metadata = read_batch(message)
        if kind_of(metadata) not in (None, "event"):
            raise BadRecord("not_a_record")
        n = rows.num_rows
        users, no_user = self._users(_column(rows, self._user, "user"))
        times, no_time = _times(_column(rows, self._time, "time"), n)
        values, bad_value = self._values(_column(rows, self._value, "value"), n)
        good = ~(no_user | no_time | (bad_value != b""))
        if good.all():
            return Decoded(Events(users, times, values))
        bad = [(int(row), "user" if no_user[row] else "time" if no_time[row] else bad_value[row].decode()) for row in np.flatnonzero(~good)]
        kept = np.flatnonzero(good)
        return Decoded(Events(users.take(kept), times[kept], values[kept]), kept, bad)

    @staticmethod
    def _users(column: Any) -> tuple[Ids, NDArray[np.bool_]]:
        kind = column.type
        if pa.types.is_dictionary(kind):
            column = column.cast(kind.value_type)
            kind = column.type
        if pa.types.is_integer(kind):
            column = column.cast(pa.string())
        elif not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            raise BadRecord("user")
        if column.null_count:
            column = column.fill_null("")
        _, offsets, data = column.buffers()
        wide = np.int64 if pa.types.is_large_string(column.type) else np.int32
        ends = np.frombuffer(offsets, wide)[column.offset : column.offset + len(column) + 1] if offsets is not None else np.zeros(1, wide)
        ids = Ids(np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8), ends)
        length = np.diff(ends)
        return ids, ~((length > 0) & (length <= LONGEST))

    def _values(self, column: Any, n: int) -> tuple[NDArray[Any], NDArray[np.bytes_]]:
        kind = column.type
        why = np.zeros(n, "S10")
        if self._codes is not None:
            if pa.types.is_dictionary(kind):
                column = column.cast(kind.value_type)
            if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
                raise BadRecord("value")
            codes = np.array([self._codes.get(name, -1) for name in column.to_pylist()], np.int64)
            why[codes < 0] = b"category"
        elif self._count is not None:
            if not pa.types.is_integer(kind):
                raise BadRecord("value")
            codes = _filled(column, pa.int64(), -1)
            why[~((codes >= 0) & (codes < self._count))] = b"category"
        elif pa.types.is_integer(kind) or pa.types.is_floating(kind):
            codes = _filled(column, pa.float64(), np.nan)
            if not np.isfinite(codes).all():
                why[~np.isfinite(codes)] = b"not_finite"
        else:
            raise BadRecord("value")
        if column.null_count:
            why[column.is_null().to_numpy(zero_copy_only=False)] = b"value"
        return codes, why


def _filled(column: Any, kind: Any, missing: float) -> NDArray[Any]:
    if column.type != kind:
        try:
            column = column.cast(kind, safe=kind != pa.float64())
        except pa.ArrowInvalid:
            raise BadRecord("value") from None
    found: NDArray[Any] = (column.fill_null(missing) if column.null_count else column).to_numpy()
    return found


def _at(record: Any, path: tuple[str | int, ...]) -> Any:
    try:
        for step in path:
            record = record[step]
    except (KeyError, IndexError, TypeError):
        return None
    return record


def _milliseconds(found: Any) -> int:
    """Epoch seconds or milliseconds, or ISO 8601 (UTC where it names no zone), as whole milliseconds."""
    if type(found) is int or type(found) is float:
        if not 0 <= found < LATEST:
            raise BadRecord("time")
        return int(found * 1000) if found < SECONDS else int(found)
    if type(found) is not str:
        raise BadRecord("time")
    try:
        moment = datetime.fromisoformat(found)
    except ValueError:
        raise BadRecord("time") from None
    since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - EPOCH
    if not since.days >= 0:
        raise BadRecord("time")
    return since.days * 86_400_000 + since.seconds * 1000 + since.microseconds // 1000


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _times(column: Any, n: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    kind = column.type
    if pa.types.is_timestamp(kind):
        column, factor = column.cast(pa.timestamp("ms", kind.tz), safe=False).cast(pa.int64()), None
    elif pa.types.is_integer(kind):
        column, factor = column.cast(pa.int64(), safe=False), 1000
    elif pa.types.is_floating(kind):
        seconds = _filled(column, pa.float64(), -1.0)
        bad = ~((seconds >= 0) & (seconds < LATEST))
        seconds = np.where(bad, 0, seconds)
        return np.where(seconds < SECONDS, seconds * 1000, seconds).astype(np.int64), bad
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _read_times(column.to_pylist(), n)
    else:
        raise BadRecord("time")
    times = (column.fill_null(-1) if column.null_count else column).to_numpy()
    if factor and n and times.min() < SECONDS:
        times = np.where(times < SECONDS, times * factor, times)
    bad = (times < 0) | (times >= LATEST) if n and not (times.min() >= 0 and times.max() < LATEST) else np.zeros(n, np.bool_)
    return times, bad


def _read_times(texts: list[str | None], n: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    times, bad = np.zeros(n, np.int64), np.zeros(n, np.bool_)
    for row, text in enumerate(texts):
        try:
            times[row] = _milliseconds(text)
        except BadRecord:
            bad[row] = True
    return times, bad


def _column(rows: Any, path: tuple[str | int, ...], what: str) -> Any:
    """The column at a path: its first step names it, further ones fields of structs."""
    try:
        column = rows.column(path[0])
        for step in path[1:]:
            column = pc.struct_field(column, step)
    except (KeyError, IndexError, pa.ArrowException, TypeError):
        raise BadRecord(what) from None
    return column
