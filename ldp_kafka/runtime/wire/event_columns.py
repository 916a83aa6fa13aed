"""Parsed JSON events as columns, a run of messages at a time.

A run is either plain as a whole, or it is cut in two until what is not plain stands by itself. What
is not plain (a bad message, a record of ours, a user's number of 70 bits) is left to who reads
message by message, and knows the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.errors import BadRecord
from ldp_kafka.records import Events, Ids
from ldp_kafka.runtime.wire.arrow import MARK
from ldp_kafka.runtime.wire.decoded_run import PlainRun
from ldp_kafka.runtime.wire.fields import Fields
from ldp_kafka.runtime.wire.number_text import number_of
from ldp_kafka.runtime.wire.parsing import LATEST, LONGEST
from ldp_kafka.runtime.wire.times import SECONDS, Unit, many_milliseconds, milliseconds

__all__ = ["plain_runs"]

FEWEST = 4  # a run of so many that is not plain as a whole is read message by message


def plain_runs(records: Sequence[Any], fields: Fields) -> list[PlainRun]:
    """Runs of plain events among parsed messages, in order, each with the places (n,) of its
    messages.

    Parameters
    ----------
    records : what JSON says, one for each message; None for one that is to be read by itself
    """
    kept = np.arange(len(records))
    if set(map(type, records)) != {dict} or any(map(dict.__contains__, records, repeat(MARK))):
        kept = np.flatnonzero([type(found) is dict and MARK not in found for found in records])
        records = [records[at] for at in kept.tolist()]
    return list(_runs(records, kept, fields))


def _runs(records: Sequence[Any], places: NDArray[np.intp], fields: Fields) -> Iterator[PlainRun]:
    if not records:
        return
    events = _columns(records, fields)
    if events is not None:
        yield PlainRun(events, places, np.ones(len(places), np.intp))
    elif len(records) > FEWEST:
        half = len(records) // 2
        yield from _runs(records[:half], places[:half], fields)
        yield from _runs(records[half:], places[half:], fields)


def _columns(records: Sequence[Any], fields: Fields) -> Events | None:
    """One event an object; None where any of them is anything but a plain event."""
    try:
        users = _users(_at(records, fields.user))
        times = None if users is None else _times(_at(records, fields.time), fields.unit)
        values = None if times is None else _values(_at(records, fields.value), fields)
    except (LookupError, TypeError, OverflowError, BadRecord):
        return None
    if users is None or times is None or values is None:
        return None
    return Events(users, times, values)


def _at(records: Sequence[Any], path: tuple[str | int, ...]) -> Sequence[Any]:
    """What lies there in each record. LookupError or TypeError where it is not in all of them."""
    for depth, step in enumerate(path):
        if depth and set(map(type, records)) != {dict if isinstance(step, str) else list}:
            raise LookupError
        records = [record[step] for record in records]
    return records


def _users(found: Sequence[Any]) -> Ids | None:
    kinds = set(map(type, found))
    if kinds == {int}:
        found = list(map(str, found))
    elif kinds != {str}:
        return None
    joined = "".join(found)
    texts = found if joined.isascii() else [user.encode() for user in found]
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    if lengths.min() < 1 or lengths.max() > LONGEST:
        return None
    offsets = np.zeros(len(texts) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return Ids(np.frombuffer(joined.encode(), np.uint8), offsets)


def _times(found: Sequence[Any], unit: Unit | None) -> NDArray[np.int64] | None:
    if set(map(type, found)) != {int}:
        return np.array([milliseconds(each, unit) for each in found], np.int64)
    times = np.array(found, np.int64)
    if unit is not None:
        times, bad = many_milliseconds(times, unit)
        return None if bad.any() else times
    earliest, latest = int(times.min()), int(times.max())
    if earliest < 0 or latest >= LATEST:
        return None
    return times if earliest >= SECONDS else np.where(times < SECONDS, times * 1000, times)


def _values(found: Sequence[Any], fields: Fields) -> NDArray[Any] | None:
    """As `Fields` reads them: (n,), or (n, dimension)."""
    n = len(found)
    if fields.dimension:
        if set(map(type, found)) != {list} or set(map(len, found)) != {fields.dimension}:
            return None
        found = [each for value in found for each in value]
    kinds = set(map(type, found))
    if fields.coerce and str in kinds:
        found = [number_of(each) if type(each) is str else each for each in found]
        kinds = set(map(type, found))
    if fields.codes is not None:
        if kinds != {str}:
            return None
        values = np.array([fields.codes[name] for name in found], fields.dtype)
    elif fields.count is not None:
        if kinds != {int} or min(found) < 0 or max(found) >= fields.count:
            return None
        values = np.array(found, fields.dtype)
    else:
        if not kinds <= {int, float}:
            return None
        values = np.array(found, fields.dtype)
        if not np.isfinite(values).all():
            return None
    return values.reshape(n, fields.dimension) if fields.dimension else values
