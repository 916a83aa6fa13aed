"""Reports that are drawn and wait to be sent: each in its user's own record of the state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ldp_kafka.errors import StateError
from ldp_kafka.runtime.stages.rows import Answered

__all__ = ["Kept", "Waiting", "WaitingRows", "kept_of"]


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


class WaitingRows(NamedTuple):
    """Reports (n,) that wait, as columns."""

    users: NDArray[np.intp]
    """Rows of the state."""
    offset: NDArray[np.int64]
    """Of the messages that they were drawn for."""
    event_slot: NDArray[np.int64]
    slot: NDArray[np.int64]
    phase: NDArray[np.int64]
    value: NDArray[Any]

    def __repr__(self) -> str:
        return f"WaitingRows({len(self.users)})"  # never a value

    def take(self, rows: NDArray[np.intp]) -> WaitingRows:
        """Those at ``rows``, in that order."""
        return WaitingRows(*(column.take(rows, axis=0) for column in self))

    @staticmethod
    def join(parts: Sequence[WaitingRows]) -> WaitingRows:
        """All of them, at least one part, in the order of messages."""
        whole = parts[0]
        if len(parts) > 1:
            whole = WaitingRows(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
        if (whole.offset[1:] >= whole.offset[:-1]).all():
            return whole
        return whole.take(np.argsort(whole.offset, kind="stable"))  # a shard lists user by user


_KEPT = WaitingRows._fields[1:]  # of a row in a record: whose it is says where the record lies


class Waiting:
    """The reports of one partition that wait: column by column, and as records in a shard alone.

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
        none = np.empty(0, np.int64)
        self._none = WaitingRows(np.empty(0, np.intp), none, none, none, none, blank)
        self._parts: list[WaitingRows] = []

    def add(self, made: Answered, offsets: NDArray[np.int64]) -> None:
        """Have reports wait that were drawn for messages at these offsets (n,)."""
        self.put(
            WaitingRows(made.users, offsets, made.event_slots, made.slots, made.phases, made.values)
        )

    def put(self, rows: WaitingRows) -> None:
        """Have rows wait that were taken out."""
        if len(rows.users):
            self._parts.append(rows)

    def load(self, users: NDArray[np.intp], kept: NDArray[Any]) -> None:
        """Have rows wait that were kept: (n,) records of `kind`."""
        self.put(WaitingRows(users, *(np.ascontiguousarray(kept[name]) for name in _KEPT)))

    def all(self) -> WaitingRows:
        """What waits, in the order of messages; it goes on waiting."""
        found = WaitingRows.join(self._parts or [self._none])
        self._parts = [found]
        return found

    def take(self) -> WaitingRows:
        """The same, and nothing waits any more."""
        found = self.all()
        self._parts = []
        return found

    def by(self, order: NDArray[np.intp]) -> Kept:
        """What waits of each user, in this order of all rows of the state."""
        waits = self.all()
        place = np.empty(len(order), np.intp)
        place[order] = np.arange(len(order))
        at = place[waits.users]
        ends = np.concatenate([[0], np.cumsum(np.bincount(at, minlength=len(order)))])
        return Kept(ends, self.records(waits.take(np.argsort(at, kind="stable"))))

    def records(self, rows: WaitingRows) -> NDArray[Any]:
        """As records (n,) of `kind`."""
        found = np.empty(len(rows.users), self.kind)
        for name in _KEPT:
            found[name] = getattr(rows, name)
        return found

    def __len__(self) -> int:
        return sum(len(part.users) for part in self._parts)

    def __repr__(self) -> str:
        return f"Waiting({len(self)})"  # never a value
