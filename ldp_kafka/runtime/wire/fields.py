"""Where the fields of an event lie in a users' message, and what they may be.

Every row of a message is either an event or a reason; neighbours do not suffer. No reason holds a
value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.errors import BadRecord, Reason
from ldp_kafka.records import Events
from ldp_kafka.runtime.wire.category_names import CategoryCodes
from ldp_kafka.runtime.wire.number_text import number_of
from ldp_kafka.runtime.wire.times import SECONDS, UNITS, milliseconds
from ldp_kafka.runtime.wire.user_ids import joined_id, one_id
from ldp_kafka.topology.paths import OUTER

__all__ = ["SECONDS", "Decoded", "Fields", "at"]


class Decoded(NamedTuple):
    """What one message holds."""

    events: Events | None = None
    rows: NDArray[np.int64] | None = None
    """Row of each event in the message, where some of its rows are bad."""
    bad: Sequence[tuple[int, Reason]] = ()
    """(row, reason) of what is no event."""
    tick: int | None = None
    """Milliseconds, for a tick."""

    def __repr__(self) -> str:
        events = 0 if self.events is None else len(self.events)
        return f"Decoded({events} events, {len(self.bad)} bad rows)"  # never a value


class Fields:
    """The fields of one topology's events.

    Parameters
    ----------
    user, value, time : paths of the fields, as sequences of names and indices
    parts : paths of the fields that make a user's id together; empty where ``user`` is it
    categories : number of categories, or their names; None for numbers
    dimension : coordinates of a value that is a list of numbers; 0 for single ones
    events : path of the array that a message's events are in; None: a message is one event. With it
        a path that begins with `ldp_kafka.topology.paths.OUTER` begins at the message
    time_unit : of times that are numbers, a name in `ldp_kafka.runtime.wire.times.UNITS`; None:
        seconds or milliseconds, told by their size
    coerce : whether text that holds a number is that number, where a value is not a category's name
    """

    def __init__(
        self,
        user: Sequence[str | int],
        value: Sequence[str | int],
        time: Sequence[str | int],
        categories: int | Sequence[str] | None = None,
        dimension: int = 0,
        *,
        coerce: bool = False,
        time_unit: str | None = None,
        events: Sequence[str | int] | None = None,
        parts: Sequence[Sequence[str | int]] = (),
    ) -> None:
        self.user, self.value, self.time = tuple(user), tuple(value), tuple(time)
        self.parts = tuple(tuple(part) for part in parts)
        self.dimension = dimension
        self.count = categories if isinstance(categories, int) else None
        self.codes = (
            CategoryCodes(categories)
            if categories is not None and not isinstance(categories, int)
            else None
        )
        self.coerce = coerce and self.codes is None
        self.events = None if events is None else tuple(events)
        self.unit = None if time_unit is None else UNITS[time_unit]
        self.dtype = np.dtype(np.float64 if categories is None else np.int64)

    def of(
        self, record: Mapping[str, Any], message: Any = None
    ) -> tuple[str, int, float | int | list[float]]:
        """User, milliseconds and value (or category number) of one JSON object, an element of an
        array in ``message`` or all of it. BadRecord otherwise.
        """

        def found(path: tuple[str | int, ...]) -> Any:
            return at(message, path[1:]) if path[0] == OUTER else at(record, path)

        return (
            joined_id(map(found, self.parts)) if self.parts else one_id(found(self.user)),
            milliseconds(found(self.time), self.unit),
            self._value_of(found(self.value)),
        )

    def _value_of(self, found: Any) -> float | int | list[float]:
        if not self.dimension:
            return self.one_of(found)
        if type(found) is not list or len(found) != self.dimension:
            raise BadRecord(Reason.VALUE)
        return [self.one_of(each) for each in found]

    def one_of(self, found: Any) -> float | int:
        """A single value, or a coordinate of one. BadRecord otherwise."""
        if self.codes is not None:
            return self.codes.of(found)
        if self.coerce and type(found) is str:
            found = number_of(found)
        if type(found) is not int and (type(found) is not float or self.count is not None):
            raise BadRecord(Reason.VALUE)
        if self.count is not None:
            if not 0 <= found < self.count:
                raise BadRecord(Reason.CATEGORY)
            return found
        try:
            number = float(found)
        except OverflowError:
            raise BadRecord(Reason.NOT_FINITE) from None
        if not -inf < number < inf:
            raise BadRecord(Reason.NOT_FINITE)
        return number


def at(record: Any, path: tuple[str | int, ...]) -> Any:
    """What lies there in parsed JSON; None where nothing does."""
    for step in path:
        if isinstance(step, str):
            record = record.get(step) if isinstance(record, dict) else None
        else:
            record = record[step] if isinstance(record, list) and step < len(record) else None
    return record
