"""Panes: what came in slots that are not closed yet, one pane a slot.

A pane holds the values of each stream in one slot as `PER_SLOT` takes them together. It is written
in as many records as there are shards of streams, each with those of one shard: what a shard has
folded and what its panes hold can be told apart by the offset of each record alone, whatever a
crash leaves of a snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ldp_kafka.errors import StateError
from ldp_kafka.randomness import Digests, Ids
from ldp_kafka.runtime.log import Output
from ldp_kafka.runtime.stages.places import Places
from ldp_kafka.runtime.stages.rows import Rows
from ldp_kafka.runtime.stages.users import Users
from ldp_kafka.runtime.wire.arrow import read_batch, write_batch

__all__ = ["MOST", "PER_SLOT", "Folded", "PaneOf", "Panes", "is_pane", "read_pane", "take_in_time"]

MOST = 2.0**960
"""What a value is held at: sums of 2**60 of them are finite."""
AGAIN = 4096  # values that come to a pane before they are taken together
_COLUMNS = ("user", "value", "number")


class Folded(NamedTuple):
    """What streams have in one slot."""

    rows: NDArray[np.intp]
    """(n,) distinct, rising."""
    values: NDArray[np.float64]
    number: NDArray[np.int64]
    """Of values behind each."""

    def __repr__(self) -> str:
        return f"Folded({len(self.rows)})"  # never a value


class _Sorted(NamedTuple):
    """Values of some streams, those of one beside each other and as they came."""

    values: NDArray[np.float64]
    starts: NDArray[np.intp]
    """Where each stream's begin."""

    @property
    def ends(self) -> NDArray[np.intp]:
        """Where its last one lies."""
        return np.append(self.starts[1:], len(self.values)) - 1

    def __repr__(self) -> str:
        return f"_Sorted({len(self.starts)})"  # never a value


def _sums(of: _Sorted) -> NDArray[np.float64]:
    """One after the other, so that a sum that goes on from a part of it is the same."""
    found = np.zeros(len(of.starts))
    lengths = np.diff(np.append(of.starts, len(of.values)))
    np.add.at(found, np.repeat(np.arange(len(of.starts)), lengths), of.values)
    return found


class Taking(NamedTuple):
    """How several values of a stream in one slot become one."""

    fold: Callable[[_Sorted], NDArray[np.float64]]
    """In parts, or all at once: it comes to the same."""
    of: Callable[[Folded], NDArray[np.float64]]
    """What the slot's value is in the end."""
    drops: bool = False
    """Whether all but one are left out."""


def _values(folded: Folded) -> NDArray[np.float64]:
    return folded.values


PER_SLOT: dict[str, Taking] = {
    "first": Taking(lambda of: of.values[of.starts], _values, drops=True),
    "last": Taking(lambda of: of.values[of.ends], _values, drops=True),
    "mean": Taking(_sums, lambda folded: folded.values / folded.number),
    "sum": Taking(_sums, _values),
    "min": Taking(lambda of: np.minimum.reduceat(of.values, of.starts), _values),
    "max": Taking(lambda of: np.maximum.reduceat(of.values, of.starts), _values),
    "count": Taking(
        lambda of: of.values[of.starts], lambda folded: folded.number.astype(np.float64)
    ),
}
"""By ``input.per_slot``."""


class PaneOf(NamedTuple):
    """The part of a slot's pane that is one record of the changelog."""

    slot: int
    shard: int
    """Of the streams."""

    @property
    def name(self) -> str:
        """Of its record."""
        return f"{self.slot}.{self.shard}"

    @classmethod
    def named(cls, name: str) -> PaneOf | None:
        """The one of this name; None where it is no pane's."""
        slot, dot, shard = name.partition(".")
        try:
            return cls(int(slot), int(shard)) if dot else None
        except ValueError:
            return None


@dataclass(repr=False)
class _Pane:
    """The values of one slot: those that were taken together, and those that came since."""

    folded: Folded
    rows: list[NDArray[np.intp]] = field(default_factory=list)
    values: list[NDArray[np.float64]] = field(default_factory=list)
    since: int = 0

    def add(self, rows: NDArray[np.intp], values: NDArray[np.float64], taking: Taking) -> None:
        """Values (n,) come."""
        self.rows.append(rows)
        self.values.append(values)
        self.since += len(rows)
        if self.since > AGAIN + 2 * len(self.folded.rows):
            self.together(taking)

    def together(self, taking: Taking) -> Folded:
        """One value a stream."""
        if self.since:
            rows = np.concatenate([self.folded.rows, *self.rows])
            values = np.concatenate([self.folded.values, *self.values])
            number = np.concatenate([self.folded.number, np.ones(self.since, np.int64)])
            order = np.argsort(rows, kind="stable")
            rows = rows[order]
            starts = np.flatnonzero(np.concatenate([[True], rows[1:] != rows[:-1]]))
            self.folded = Folded(
                rows[starts],
                taking.fold(_Sorted(values[order], starts)),
                np.add.reduceat(number[order], starts),
            )
            self.rows, self.values, self.since = [], [], 0
        return self.folded

    def __repr__(self) -> str:
        return f"_Pane({len(self.folded.rows)} and {self.since} since)"  # never a value


class Panes:
    """The panes of one partition.

    Parameters
    ----------
    users : whose rows they hold
    taking : how several values of one slot become one
    """

    def __init__(self, users: Users, taking: Taking) -> None:
        self._users, self._taking = users, taking
        self._open: dict[int, _Pane] = {}
        self._changed: set[PaneOf] = set()
        self._covers: dict[PaneOf, int] = {}
        self._ahead = -1

    def __len__(self) -> int:
        return len(self._open)

    def __repr__(self) -> str:
        return f"Panes({len(self)})"  # never a value

    def add(
        self,
        rows: NDArray[np.intp],
        slots: NDArray[np.int64],
        values: NDArray[Any],
        offsets: NDArray[np.int64],
    ) -> None:
        """Values (n,) of open slots, as they came; ``offsets`` are those of their messages. What a
        pane that was loaded has folded already is left out.
        """
        if not len(rows):
            return
        values = np.asarray(values, np.float64)
        shards = self._users.shard[rows]
        if offsets.min() <= self._ahead:
            new = np.array(
                [
                    offset > self._covers.get(PaneOf(slot, shard), -1)
                    for offset, slot, shard in zip(
                        offsets.tolist(), slots.tolist(), shards.tolist(), strict=True
                    )
                ],
                np.bool_,
            )
            rows, slots, values, shards = rows[new], slots[new], values[new], shards[new]
        for slot in np.unique(slots).tolist():
            mine = slots == slot
            pane = self._open.get(slot)
            if pane is None:
                pane = self._open[slot] = _Pane(_nothing())
            pane.add(rows[mine], np.clip(values[mine], -MOST, MOST), self._taking)
            self._changed.update(PaneOf(slot, shard) for shard in np.unique(shards[mine]).tolist())

    def slots(self) -> list[int]:
        """Those with a value, in order."""
        return sorted(self._open)

    def close(self, slot: int) -> Folded:
        """Let go of a slot: what it held."""
        pane = self._open.pop(slot, None)
        if pane is None:
            return _nothing()
        found = pane.together(self._taking)
        for shard in np.unique(self._users.shard[found.rows]).tolist():
            self._changed.add(PaneOf(slot, shard))
        return found

    def of(self, folded: Folded) -> NDArray[np.float64]:
        """The values (n,) that a slot comes to."""
        return self._taking.of(folded)

    def dropped(self, folded: Folded) -> int:
        """How many values of a slot do not count."""
        return int((folded.number - 1).sum()) if self._taking.drops else 0

    def dirty(self) -> set[str]:
        """Names of the records that changed, or ended, since the last call."""
        found = {each.name for each in self._changed}
        self._changed.clear()
        return found

    def names(self) -> set[str]:
        """Of all records that hold anything."""
        return {
            PaneOf(slot, shard).name
            for slot, pane in self._open.items()
            for shard in np.unique(self._users.shard[pane.together(self._taking).rows]).tolist()
        }

    def dump(self, names: Iterable[str]) -> dict[str, bytes]:
        """Those of these records that hold anything."""
        wanted: dict[int, list[PaneOf]] = {}
        for name in names:
            at = PaneOf.named(name)
            if at is not None and at.slot in self._open:
                wanted.setdefault(at.slot, []).append(at)
        return dict(
            written
            for slot, parts in sorted(wanted.items())
            for written in self._written(slot, parts)
        )

    def _written(self, slot: int, parts: list[PaneOf]) -> Iterator[tuple[str, bytes]]:
        folded = self._open[slot].together(self._taking)
        shards = self._users.shard[folded.rows]
        order = np.argsort(shards, kind="stable")
        wanted = [each.shard for each in parts]
        starts, stops = (np.searchsorted(shards[order], wanted, side) for side in ("left", "right"))
        for each, start, stop in zip(parts, starts.tolist(), stops.tolist(), strict=True):
            mine = order[start:stop]
            if len(mine):
                users = np.ascontiguousarray(self._users.state.users[folded.rows[mine]])
                columns = [
                    pa.Array.from_buffers(pa.binary(16), len(mine), [None, pa.py_buffer(users)]),
                    pa.array(folded.values[mine]),
                    pa.array(folded.number[mine]),
                ]
                yield each.name, write_batch("state", list(_COLUMNS), columns)

    def load(self, records: Mapping[str, tuple[int, bytes]], ended: int) -> None:
        """Take in what `dump` wrote, each record with the last offset that it has folded. Those of
        slots up to and including ``ended`` have been let go.

        Raises
        ------
        StateError, BadRecord : not what `dump` writes
        """
        of_slot: dict[int, list[bytes]] = {}
        for name, (cover, payload) in sorted(records.items()):
            at = PaneOf.named(name)
            if at is None:
                raise StateError("the changelog has a record of panes that is none of ours")
            if at.slot <= ended:
                continue
            of_slot.setdefault(at.slot, []).append(payload)
            self._covers[at] = cover
            self._ahead = max(self._ahead, cover)
        for slot, payloads in of_slot.items():
            # all at once: a slot has as many records as there are shards
            digests, values, number = map(
                np.concatenate, zip(*map(read_pane, payloads), strict=True)
            )
            rows = self._users.rows_of(digests)
            order = np.argsort(rows)
            self._open[slot] = _Pane(Folded(rows[order], values[order], number[order]))


def is_pane(name: str) -> bool:
    """Whether a record of this name is a part of a pane."""
    return PaneOf.named(name) is not None


def _nothing() -> Folded:
    return Folded(np.empty(0, np.intp), np.empty(0), np.empty(0, np.int64))


def take_in_time(
    rows: Rows, part: slice, places: Places, output: Output
) -> tuple[Ids, NDArray[np.intp]]:
    """The ids of the rows of messages between which nothing closes, without those that are late,
    which are counted; and where they lie.
    """
    at = np.arange(part.start, part.stop)
    in_time = rows.slots[part] > places.closed_before[rows.message[part]]
    if not in_time.all():
        output.count("late", int(np.count_nonzero(~in_time)))
        at = at[in_time]
    return rows.users.take(at), at


def read_pane(payload: bytes) -> tuple[Digests, NDArray[np.float64], NDArray[np.int64]]:
    """The streams' digests, values, and how many values each is made of. StateError, BadRecord: not
    a pane.
    """
    batch: Any = read_batch(payload)[0]
    if tuple(batch.schema.names) != _COLUMNS:
        raise StateError("a pane of the changelog has other columns than this version writes")
    users, values, number = batch.columns
    digests = np.frombuffer(users.buffers()[1], np.uint64).reshape(-1, 2)[: batch.num_rows]
    return digests, values.to_numpy(), number.to_numpy()
