"""A table of one's own values as the streams that methods are compared on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.evaluation.streams import slice_series
from ldp_kafka.runtime.frame import as_table
from ldp_kafka.runtime.replay.columns import Place, in_table, no_column
from ldp_kafka.runtime.replay.source import from_table
from ldp_kafka.topology import loads
from ldp_kafka.topology.durations import parse_duration

__all__ = ["streams_of"]

READER = """
topology: compare
input: {{slot: {slot}, user: $.of.user, value: $.of.value, time: $.of.time}}
privacy: {{method: sw_direct, epsilon: 1.0, window: 1, domain: [0, 1]}}
output: {{statistics: [mean]}}
"""
"""Reads tables as a replay does; nothing else is asked of it."""
START = 1_000_000_000  # epoch seconds; when the first slot was is of no account
MOST = 2 * 10**7  # slots of all users


def streams_of(
    frame: Any,
    user: str = "user",
    value: str = "value",
    time: str = "time",
    *,
    slot: str | None = None,
    users: int | None = None,
    place: Place = in_table,
    tell: Callable[[str], object] = str,
) -> NDArray[np.float64]:
    """Streams (users, T), NaN where a user has no value; of several in one slot the first counts.

    Parameters
    ----------
    frame : as `ldp_kafka.run` takes it
    user : a column of ids; where there is none of the name ``user``, all rows are one user's
    value : a column of numbers
    time : a column of times, as `ldp_kafka.run` takes them; only read with ``slot``
    slot : a duration, such as ``1h``; None: each row of a user is its next slot
    users : cut the one series into the streams of so many users, a consecutive piece each
    place : says in which row of a file something is wrong
    tell : is told what else is to be known

    Raises
    ------
    ConfigurationError : the frame is no table, a column is missing, a row of it cannot be read, no
        row is complete, or there are too many slots; or several users are to be cut
    """
    if slot is not None:
        parse_duration(slot)
    reader = loads(READER.format(slot=slot or "1s"))
    table = as_table(frame)
    there = table.column_names
    wanted = {"value": (value,)}
    wanted |= {"user": (user,)} if user != "user" else {}
    wanted |= {"time": (time,)} if slot is not None else {}
    if not {name for (name,) in wanted.values()} <= {*there}:
        raise ConfigurationError(no_column(reader, table, **wanted))
    who = table.column(user) if user in there else pa.repeat("all", table.num_rows)
    if slot is not None:
        when = table.column(time)
    else:
        when = pa.array(START + _ordinals(who.to_pylist()))
        if time in there:
            tell(f"each row is its user's next slot; give --slot to go by the column {time}")
    parts = pa.table([who, table.column(value), when], [user, value, time])
    source = from_table(reader, parts, user, value, time, start_ms=1000 * START, place=place)
    if source.left_out:
        tell(f"{source.left_out:,} rows lack a user, a value or a time: these are silent")
    length = source.last - source.first + 1
    if len(source.users) * length > MOST:
        raise ConfigurationError(
            f"{len(source.users):,} users in {length:,} slots of {slot or 'a row'} are too many to"
            f" compare methods on: at most {MOST:,} slots of all users; give longer slots"
        )
    streams = np.full((len(source.users), length), np.nan)
    for part in source.slots:
        streams[part.who[::-1], part.slot - source.first] = part.values[::-1]
    if users is None:
        return streams
    if len(streams) > 1:
        raise ConfigurationError(f"one series can be cut into users, and here are {len(streams):,}")
    return slice_series(streams[0], users)


def _ordinals(ids: Sequence[Any]) -> NDArray[np.int64]:
    """Which row of its user each is, from 0."""
    _, user = np.unique([str(each) for each in ids], return_inverse=True)
    order = np.argsort(user, kind="stable")
    first = np.searchsorted(user[order], user[order])
    found = np.empty(len(order), np.int64)
    found[order] = np.arange(len(order)) - first
    return found
