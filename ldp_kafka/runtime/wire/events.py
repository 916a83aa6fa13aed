"""The users' own messages, strictly: one JSON object or an Arrow IPC stream, the fields where the
topology says.

Every row is either an event or a reason; neighbours do not suffer. No reason holds a value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ldp_kafka.accounting.words import instant
from ldp_kafka.errors import BadRecord
from ldp_kafka.records import Events, Ids, Tick
from ldp_kafka.runtime.wire.arrow import (
    ARROW,
    MARK,
    MAX_BYTES,
    check_size,
    check_version,
    kind_of,
    read_batch,
)
from ldp_kafka.runtime.wire.records import LATEST, LONGEST, check_user, decode_json, parse_json

__all__ = ["REASONS", "Decoded", "EventReader"]

REASONS = {
    "empty": "the message has no value",
    "too_large": (
        "the message is larger than 2 MiB, or has more than 2**20 rows, or says the same long text"
        " too often, or has too many lists of another length"
    ),
    "not_json": "the message is neither UTF-8 JSON nor an Arrow IPC stream",
    "not_arrow": "the message is not a valid Arrow IPC stream, or its body is compressed",
    "not_a_record": "the JSON is not an object",
    "not_a_report": "the message is no report",
    "wrong_fields": "a field is missing or of the wrong type",
    "version": "the message is of another version",
    "user": "the user is missing, empty, longer than 256 bytes, or neither text nor a whole number",
    "value": "the value is missing or of the wrong type, or a list of another length",
    "not_finite": "the value is NaN or infinite",
    "category": "the value is none of the topology's categories",
    "time": "the time is missing, unreadable, before 1970 or after 6428",
    "ahead": "the time is further ahead of the message's own timestamp than max_ahead",
    "fingerprint": "the report belongs to another topology",
    "range": "the report lies outside the mechanism's outputs",
    "partition": "the user belongs to another partition (input.partitioning: murmur2)",
    "restarted": (
        "the report comes from a raw log that was begun anew: it has an offset that was counted,"
        " and closes what was not"
    ),
    "closed": "the report is for a slot that its edge had closed",
}

SECONDS = (
    10**11
)  # numbers below it are seconds (until the year 5138), others milliseconds (since 1973)
NUDGE = (
    2.0**-11
    # milliseconds: 1700000000.3 s is a little less than that in floating point, and must not lose
    # its last millisecond
)


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
    dimension : coordinates of a value that is a list of numbers; 0 for single ones
    """

    def __init__(
        self,
        user: Sequence[str | int],
        value: Sequence[str | int],
        time: Sequence[str | int],
        categories: int | Sequence[str] | None = None,
        dimension: int = 0,
    ) -> None:
        self._user, self._value, self._time = tuple(user), tuple(value), tuple(time)
        self._dimension = dimension
        self._count = categories if isinstance(categories, int) else None
        self._codes = (
            {name: code for code, name in enumerate(categories)}
            if categories is not None and not isinstance(categories, int)
            else None
        )
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
        except (pa.ArrowException, ValueError):  # what Arrow cannot do with a stranger's columns
            return Decoded(bad=[(0, "not_arrow")])

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
        if MARK in record:
            check_version(record[MARK])
        user, time, value = self.fields(record)
        return Decoded(Events(Ids.of([user]), np.array([time]), np.array([value], self._dtype)))

    def fields(self, record: Mapping[str, Any]) -> tuple[str, int, float | int | list[float]]:
        """User, milliseconds and value (or category number) of one JSON object. BadRecord
        otherwise.
        """
        return (
            self._user_of(_at(record, self._user)),
            _milliseconds(_at(record, self._time)),
            self._value_of(_at(record, self._value)),
        )

    def _user_of(self, found: Any) -> str:
        if type(found) is int:
            found = str(found) if abs(found) < 2**64 else ""
        check_user(found)
        return str(found)

    def _value_of(self, found: Any) -> float | int | list[float]:
        if not self._dimension:
            return self._one_of(found)
        if type(found) is not list or len(found) != self._dimension:
            raise BadRecord("value")
        return [self._one_of(each) for each in found]

    def _one_of(self, found: Any) -> float | int:
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
        if not (no_user.any() or no_time.any() or bad_value.view(np.uint8).any()):
            return Decoded(Events(users, times, values))
        good = ~(no_user | no_time | (bad_value != b""))
        bad = [
            (
                int(row),
                "user" if no_user[row] else "time" if no_time[row] else bad_value[row].decode(),
            )
            for row in np.flatnonzero(~good)
        ]
        kept = np.flatnonzero(good)
        return Decoded(Events(users.take(kept), times[kept], values[kept]), kept, bad)

    @staticmethod
    def _users(column: Any) -> tuple[Ids, NDArray[np.bool_]]:
        if pa.types.is_dictionary(column.type):
            column = _spelled(column, "user")
        if pa.types.is_integer(column.type):
            column = column.cast(pa.string())
        elif not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
            raise BadRecord("user")
        if column.null_count:
            column = column.fill_null("")
        if not len(column):
            return Ids.of([]), np.zeros(0, np.bool_)
        _, offsets, data = column.buffers()
        wide = np.dtype(np.int64 if pa.types.is_large_string(column.type) else np.int32)
        ends = np.frombuffer(offsets, wide, len(column) + 1, wide.itemsize * column.offset)
        ids = Ids(
            np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8), ends
        )
        length = np.diff(ends)
        return ids, ~((length > 0) & (length <= LONGEST))

    def _values(self, column: Any, n: int) -> tuple[NDArray[Any], NDArray[np.bytes_]]:
        kind = column.type
        why = np.zeros(n, "S10")
        if self._dimension:
            return self._vectors(column, why)
        if self._codes is not None:
            if pa.types.is_dictionary(kind):
                column = _spelled(column, "value")
            if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
                raise BadRecord("value")
            codes = np.array([self._codes.get(name, -1) for name in column.to_pylist()], np.int64)
            why[codes < 0] = b"category"
        elif self._count is not None:
            if not pa.types.is_integer(kind):
                raise BadRecord("value")
            codes = _filled(column, pa.int64(), -1)
            why[~((codes >= 0) & (codes < self._count))] = b"category"
        elif pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
            codes = _filled(column, pa.float64(), np.nan)
            if not np.isfinite(codes).all():
                why[~np.isfinite(codes)] = b"not_finite"
        else:
            raise BadRecord("value")
        if column.null_count:
            why[column.is_null().to_numpy(zero_copy_only=False)] = b"value"
        return codes, why

    def _vectors(
        self, column: Any, why: NDArray[np.bytes_]
    ) -> tuple[NDArray[np.float64], NDArray[np.bytes_]]:
        """Lists of so many numbers; the reason why not is noted row by row."""
        kind, d = column.type, self._dimension
        listed = (
            pa.types.is_list(kind)
            or pa.types.is_large_list(kind)
            or pa.types.is_fixed_size_list(kind)
        )
        if not (
            listed
            and any(
                fits(kind.value_type)
                for fits in (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
            )
        ):
            raise BadRecord("value")
        right = pc.list_value_length(column).fill_null(-1).to_numpy(zero_copy_only=False) == d
        if np.count_nonzero(~right) * d * 8 > 16 * MAX_BYTES:
            raise BadRecord("too_large")  # many lists that are too short must not fill the memory
        vectors = np.zeros((len(column), d))
        flat = column.filter(pa.array(right)).flatten()
        vectors[right] = _filled(flat, pa.float64(), np.nan).reshape(-1, d)
        lacking = np.zeros((len(column), d), np.bool_)
        if flat.null_count:
            lacking[right] = flat.is_null().to_numpy(zero_copy_only=False).reshape(-1, d)
        why[~np.isfinite(vectors).all(axis=1)] = b"not_finite"
        why[~right | lacking.any(axis=1)] = b"value"
        return vectors, why


def _filled(column: Any, kind: Any, missing: float) -> NDArray[Any]:
    if column.type != kind:
        column = column.cast(
            kind, safe=False
        )  # a uint64 beyond int64 becomes negative: out of every range that is asked for
    found: NDArray[Any] = (column.fill_null(missing) if column.null_count else column).to_numpy()
    return found


def _spelled(column: Any, reason: str) -> Any:
    """A dictionary column with its values written out; texts longer than a user id are empty then.
    One long text said a million times must not fill the memory.
    """
    texts = column.dictionary
    if pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type):
        texts = pc.if_else(pc.greater(pc.binary_length(texts), LONGEST), "", texts).cast(texts.type)
        said = pc.sum(pc.binary_length(texts).take(column.indices)).as_py() or 0
        if said > 16 * MAX_BYTES:
            raise BadRecord("too_large")
    elif not pa.types.is_integer(texts.type):
        raise BadRecord(reason)
    return texts.take(column.indices)


def _at(record: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        if isinstance(step, str):
            record = record.get(step) if isinstance(record, dict) else None
        else:
            record = record[step] if isinstance(record, list) and step < len(record) else None
    return record


def _milliseconds(found: Any) -> int:
    """Epoch seconds or milliseconds, or ISO 8601 (UTC where it names no zone), as whole
    milliseconds.
    """
    if type(found) is int or type(found) is float:
        if not 0 <= found < LATEST:
            raise BadRecord("time")
        return (
            int(found)
            if found >= SECONDS
            else found * 1000
            if type(found) is int
            else int(found * 1000 + NUDGE)
        )
    if type(found) is not str:
        raise BadRecord("time")
    try:
        milliseconds = instant(found)
    except ValueError:
        raise BadRecord("time") from None
    if not 0 <= milliseconds < LATEST:
        raise BadRecord("time")
    return milliseconds


def _times(column: Any, n: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _read_times(column.to_pylist(), n)
    if pa.types.is_floating(kind):
        found = _filled(column, pa.float64(), -1.0)
        bad = ~((found >= 0) & (found < LATEST))
        found = np.where(bad, 0, found)
        return np.where(found < SECONDS, found * 1000 + NUDGE, found).astype(np.int64), bad
    if not (pa.types.is_timestamp(kind) or pa.types.is_integer(kind)):
        raise BadRecord("time")
    unit = kind.unit if pa.types.is_timestamp(kind) else None
    times = _filled(column, pa.int64(), -1)
    if unit in _IN_MILLISECOND:
        times = times // _IN_MILLISECOND[unit]
    bad = (times < 0) | (times >= (LATEST // 1000 if unit == "s" else LATEST))
    seconds = {None: SECONDS, "s": LATEST}.get(unit, 0)  # numbers below it are seconds
    if n and times.min() < seconds:
        times = np.where(times < seconds, times * 1000, times)
    return times, bad


_IN_MILLISECOND = {"us": 1000, "ns": 1_000_000}


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
    except (KeyError, IndexError, pa.ArrowException, TypeError, ValueError):
        raise BadRecord(what) from None
    return column
