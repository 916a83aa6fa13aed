"""What a relay that re-keys writes: one event of someone else's topic a record, or why a row is
none, or a tick; each with its place there.

The place lies in the value, as all that a fold is given does. We write the whole value: no record
of a stranger's is copied as it is, so none can say that it is a copy.

======================================================  ===========================================
``{"ldp_kafka":1,"type":"copy","source":[3,17,0],``     ... of partition 3, offset 17, row 0:
======================================================  ===========================================
``"user":"m1","time":1600000000000,"value":2.5}``       an event, as it was read: the id in its
                                                        normal form, milliseconds, the number (or
                                                        list of numbers, or category's number)
``"bad":"time"}``                                       a row that is no event, and why
``"tick":1600000000000}``                               event time has come this far in partition 3,
                                                        before offset 17; the row is -1
======================================================  ===========================================
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from ldp_kafka.errors import Reason
from ldp_kafka.records import Events, Ids
from ldp_kafka.runtime.wire.decoded_run import DecodedRun
from ldp_kafka.runtime.wire.parsing import dump_json

__all__ = ["CopyReader", "Place", "copies", "place_of", "tick_of"]

_HEAD = '{"ldp_kafka":1,"type":"copy","source":['
_PLACE = re.compile(re.escape(_HEAD.encode()) + rb"([0-9]{1,5}),([0-9]{1,19}),(-1|[0-9]{1,10})\]")
_BEFORE = -1  # the row of a tick


class Place(NamedTuple):
    """Where what a copy says lies in someone else's topic. Of one partition they are in order."""

    source: int
    """The partition."""
    offset: int
    row: int
    """Of the record; of a tick, which lies before the record, -1."""

    @property
    def is_tick(self) -> bool:
        """Whether it is that of a tick."""
        return self.row == _BEFORE


def place_of(value: bytes | None) -> Place | None:
    """The place that a value says; None where it is no copy.

    Examples
    --------
    >>> place_of(tick_of(3, 17, 1_600_000_000_000))
    Place(source=3, offset=17, row=-1)
    >>> place_of(b'{"user":"m1","time":0,"value":1}'), place_of(None)
    (None, None)
    """
    found = None if value is None else _PLACE.match(value)
    return None if found is None else Place(*map(int, found.groups()))


def tick_of(source: int, offset: int, time: int) -> bytes:
    """A tick of a partition: before this offset, event time has come so far (milliseconds).

    Examples
    --------
    >>> tick_of(3, 17, 1_600_000_000_000)
    b'{"ldp_kafka":1,"type":"copy","source":[3,17,-1],"tick":1600000000000}'
    """
    return _written(source, offset, _BEFORE, {"tick": time})


def copies(source: int, offset: int, run: DecodedRun) -> Iterator[tuple[str | None, bytes]]:
    """What a record holds, in the order of its rows: each with its user's id, None of a row that is
    no event.

    Parameters
    ----------
    source, offset : of the record
    run : it alone
    """
    rows: list[tuple[int, str | None, dict[str, Any]]] = [
        (row, None, {"bad": reason.value}) for _, row, reason in run.bad
    ]
    if run.events is not None:
        events = run.events
        each = zip(
            run.row.tolist(),
            events.users.texts(),
            events.times.tolist(),
            events.values.tolist(),
            strict=True,
        )
        rows += [
            (row, user, {"user": user, "time": time, "value": value})
            for row, user, time, value in each
        ]
    for row, user, body in sorted(rows, key=lambda one: one[0]):
        yield user, _written(source, offset, row, body)


def _written(source: int, offset: int, row: int, body: dict[str, Any]) -> bytes:
    return f"{_HEAD}{source},{offset},{row}],".encode() + dump_json(body)[1:]


class CopyReader:
    """Reads copies as `ldp_kafka.runtime.wire.events.EventReader` reads what they are copies of. A
    row is that of the record that was copied; what is no copy is bad.

    Parameters
    ----------
    dtype : of values
    """

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self._dtype = dtype

    def read_run(self, messages: Sequence[bytes | None]) -> DecodedRun:
        """What many messages hold."""
        events: list[tuple[int, int, str, int, Any]] = []
        bad: list[tuple[int, int, Reason]] = []
        ticks: list[tuple[int, int]] = []
        for at, message in enumerate(messages):
            place = place_of(message)
            if message is None or place is None:
                bad.append((at, 0, Reason.NOT_A_RECORD))
                continue
            body = orjson.loads(message)
            if place.is_tick:
                ticks.append((at, body["tick"]))
            elif "bad" in body:
                bad.append((at, place.row, Reason(body["bad"])))
            else:
                events.append((at, place.row, body["user"], body["time"], body["value"]))
        if not events:
            return DecodedRun(None, np.empty(0, np.intp), _none(), bad, ticks)
        message_of, row, users, times, values = zip(*events, strict=True)
        found = Events(Ids.of(users), np.array(times, np.int64), np.array(values, self._dtype))
        return DecodedRun(found, np.array(message_of, np.intp), np.array(row, np.int64), bad, ticks)


def _none() -> NDArray[np.int64]:
    return np.empty(0, np.int64)
