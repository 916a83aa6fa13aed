"""Reports that are drawn and wait to be sent: each in its user's own record of the state."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ldp_kafka.errors import StateError
from ldp_kafka.runtime.stages.rows import Answered

__all__ = ["Kept", "Waiting", "kept_of"]


class Kept(NamedTuple):
    """What waits of some users, user by user."""

    ends: NDArray[np.int64]
    """(n + 1,): what waits of user i are the rows from ``ends[i]`` to ``ends[i + 1]``."""
    rows: NDArray[Any]

    def __repr__(self) -> str:
        return f"Kept({len(self.ends) - 1})"  # never a value

    def column(self) -> Any:
        """A list a user, each of the reports as its bytes."""
        start, stop = int(self.ends[0]), int(self.ends[-1])
        rows = np.ascontiguousarray(self.rows[start:stop])
        width = pa.binary(rows.dtype.itemsize)
        values = pa.Array.from_buffers(width, len(rows), [None, pa.py_buffer(rows)])
        return pa.ListArray.from_arrays(pa.array((self.ends - start).astype(np.int32)), values)


def kept_of(column: Any, kind: np.dtype[Any]) -> Kept:
    """What `Kept.column` gave. StateError where it is of another kind."""
    if column.type != pa.list_(pa.binary(kind.itemsize)) or column.null_count:
        raise StateError("what waits in a shard of the changelog is not this method's")
    ends = column.offsets.to_numpy().astype(np.int64)
    values = column.values
    held = np.frombuffer(values.buffers()[1] or b"", np.uint8)
    whole = (len(values) + values.offset) * kind.itemsize
    return Kept(ends, held[values.offset * kind.itemsize : whole].view(kind))


class Waiting:
    """The reports of one partition that wait.

    Parameters
    ----------
    blank : (0,), (0, width) or (0, dimension): what the method emits, without rows
    """

    def __init__(self, blank: NDArray[Any]) -> None:
        self.kind = np.dtype(
            [
                ("offset", np.int64),
                ("event_slot", np.int64),
                ("slot", np.int64),
                ("phase", np.int64),
                ("value", blank.dtype, blank.shape[1:]),
            ]
        )
        self._users: list[NDArray[np.intp]] = []
        self._rows: list[NDArray[Any]] = []

    def add(self, made: Answered, offsets: NDArray[np.int64]) -> None:
        """Have reports wait that were drawn for messages at these offsets (n,)."""
        if not len(made.users):
            return
        rows = np.empty(len(made.users), self.kind)
        rows["offset"], rows["event_slot"], rows["slot"] = offsets, made.event_slots, made.slots
        rows["phase"], rows["value"] = made.phases, made.values
        self.put(made.users, rows)

    def put(self, users: NDArray[np.intp], rows: NDArray[Any]) -> None:
        """Have rows wait that were taken out, or kept."""
        self._users.append(users)
        self._rows.append(rows)

    def all(self) -> tuple[NDArray[np.intp], NDArray[Any]]:
        """The rows of the state (n,), and what waits of each (n,); they go on waiting."""
        users = np.concatenate([np.empty(0, np.intp), *self._users])
        rows = np.concatenate([np.empty(0, self.kind), *self._rows])
        self._users, self._rows = [users], [rows]
        return users, rows

    def take(self) -> tuple[NDArray[np.intp], NDArray[Any]]:
        """The same, and nothing waits any more."""
        found = self.all()
        self._users, self._rows = [], []
        return found

    def by(self, order: NDArray[np.intp]) -> Kept:
        """What waits of each user, in this order of all rows of the state."""
        users, rows = self.all()
        place = np.empty(len(order), np.intp)
        place[order] = np.arange(len(order))
        at = place[users]
        ends = np.concatenate([[0], np.cumsum(np.bincount(at, minlength=len(order)))])
        return Kept(ends, rows[np.argsort(at, kind="stable")])

    def __len__(self) -> int:
        return sum(map(len, self._users))

    def __repr__(self) -> str:
        return f"Waiting({len(self)})"  # never a value
