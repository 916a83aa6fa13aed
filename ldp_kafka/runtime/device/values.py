"""What a device is given to report, read by the rules by which the edge reads an event."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.errors import BadRecord, Reason
from ldp_kafka.runtime.wire.events import EventReader
from ldp_kafka.runtime.wire.parsing import LATEST
from ldp_kafka.runtime.wire.times import SECONDS
from ldp_kafka.topology import Topology

__all__ = ["ValueReader"]


class ValueReader:
    """Reads users, values and times for a topology."""

    def __init__(self, topology: Topology) -> None:
        categories = topology.privacy.category_names or topology.privacy.categories
        self._events = EventReader(
            ("user",), ("value",), ("time",), categories, topology.method.dimension
        )
        self._dtype = np.float64 if categories is None else np.int64

    def read(
        self, user: str | None, value: Any, time: Any, now: int
    ) -> tuple[str, int, NDArray[Any]]:
        """User, milliseconds (the clock's where no time is given), and an array of the one value.

        Raises
        ------
        BadRecord : one of them is none; its ``reason`` is a code
        """
        if not SECONDS <= now < LATEST:  # a clock that was never set says 1970
            raise BadRecord(Reason.TIME)
        event = {
            "user": user,
            "value": _plain(value),
            "time": now if time is None else _plain(time),
        }
        name, at, found = self._events.fields(event)
        return name, at, np.array([found], self._dtype)


def _plain(found: Any) -> Any:
    """A value as JSON would hold it."""
    if isinstance(found, datetime):
        return found.isoformat()
    return found.tolist() if isinstance(found, np.generic | np.ndarray) else found
