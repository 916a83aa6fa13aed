"""Parsed JSON events as columns, a run of messages at a time.

A run is either plain as a whole, or it is cut in two until what is not plain stands by itself. What
is not plain (a bad message, a record of ours, a user's number of 70 bits) is left to who reads
message by message, and knows the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, repeat
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from ldp_kafka.records import Events, Ids
from ldp_kafka.runtime.wire.arrow import MARK
from ldp_kafka.runtime.wire.decoded_run import PlainRun
from ldp_kafka.runtime.wire.fields import Fields, at
from ldp_kafka.runtime.wire.number_text import number_of
from ldp_kafka.runtime.wire.parsing import LONGEST
from ldp_kafka.runtime.wire.times import Unit, many_milliseconds, milliseconds
from ldp_kafka.runtime.wire.user_ids import nfc
from ldp_kafka.topology.paths import OUTER

__all__ = ["MOST", "plain_runs"]

FEWEST = 4  # a run of so many that is not plain as a whole is read message by message
MOST = 2**17
"""Elements of an array. A time and a value take 20 bytes and more, so that 2 MiB hold fewer; but
what is no event may have 2 bytes, and is a dead letter each.
"""


def plain_runs(records: Sequence[Any], fields: Fields) -> list[PlainRun]:
    """Runs of plain events among parsed messages, in order, each with the places (n,) of its
    messages.

    Parameters
    ----------
    records : what JSON says, one for each message; None for one that is to be read by itself
    """
    if fields.events is not None:
        return list(_array_runs(*_arrays(records, fields.events), fields))
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


def _arrays(
    records: Sequence[Any], path: tuple[str | int, ...]
) -> tuple[list[tuple[Any, list[Any]]], NDArray[np.intp]]:
    """Messages that hold objects in an array, each with these, and their places."""
    kept, messages = [], []
    for place, record in enumerate(records):
        if type(record) is dict and MARK in record:
            continue
        found = at(record, path)
        if type(found) is list and len(found) <= MOST and set(map(type, found)) == {dict}:
            kept.append(place)
            messages.append((record, found))
    return messages, np.array(kept, np.intp)


def _array_runs(
    messages: Sequence[tuple[Any, list[Any]]], places: NDArray[np.intp], fields: Fields
) -> Iterator[PlainRun]:
    if not messages:
        return
    elements = list(chain.from_iterable(found for _, found in messages))
    around = [message for message, found in messages for _ in found]
    events = _columns(elements, fields, around)
    if events is not None:
        sizes = np.fromiter((len(found) for _, found in messages), np.intp, len(messages))
        yield PlainRun(events, places, sizes)
    elif len(messages) > FEWEST:
        half = len(messages) // 2
        yield from _array_runs(messages[:half], places[:half], fields)
        yield from _array_runs(messages[half:], places[half:], fields)


def _columns(records: Sequence[Any], fields: Fields, around: Sequence[Any] = ()) -> Events | None:
    """One event an object; None where any of them is anything but a plain event.

    Parameters
    ----------
    around : the message of each, where they are elements of arrays
    """

    def found(path: tuple[str | int, ...]) -> Sequence[Any]:
        return _at(around, path[1:]) if path[0] == OUTER else _at(records, path)

    try:
        users = (
            _joined([_texts(found(part)) for part in fields.parts])
            if fields.parts
            else _ids(*_texts(found(fields.user)))
        )
        times = None if users is None else _times(found(fields.time), fields.unit)
        values = None if times is None else _values(found(fields.value), fields)
    except (LookupError, TypeError, ValueError, OverflowError):
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


def _texts(found: Sequence[Any]) -> tuple[Sequence[str], str]:
    """Ids, or a part of each, in NFC, and all of them in one text. LookupError where one may be
    none.
    """
    kinds = set(map(type, found))
    if kinds == {int}:
        found = list(map(str, found))
    elif kinds != {str}:
        raise LookupError
    joined = "".join(found)
    if joined.isascii():
        return found, joined
    found = list(map(nfc, found))
    return found, "".join(found)


def _joined(parts: Sequence[tuple[Sequence[str], str]]) -> Ids | None:
    """Ids made of parts, of which none is empty."""
    texts = [found for found, _ in parts]
    if not all(map(all, texts)):
        return None
    ids = [orjson.dumps(row).decode() for row in zip(*texts, strict=True)]
    return _ids(ids, "".join(ids))


def _ids(found: Sequence[str], joined: str) -> Ids | None:
    texts = found if joined.isascii() else [user.encode() for user in found]
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    if lengths.min() < 1 or lengths.max() > LONGEST:
        return None
    offsets = np.zeros(len(texts) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return Ids(np.frombuffer(joined.encode(), np.uint8), offsets)


def _times(found: Sequence[Any], unit: Unit | None) -> NDArray[np.int64] | None:
    kinds = set(map(type, found))
    if kinds != {int}:
        # such a float may have been a whole number of more than 64 bits, of which each digit counts
        if unit and float in kinds and max(t for t in found if type(t) is float) >= 2**63:
            return None
        return np.array([milliseconds(each, unit) for each in found], np.int64)
    times, bad = many_milliseconds(np.array(found, np.int64), unit)
    return None if bad.any() else times


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
        if float in kinds:  # it may have been a whole number of more than 64 bits
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
