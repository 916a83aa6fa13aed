"""Panes: what came in slots that are not closed yet, one pane a slot.

A pane is a tumbling window of one slot: in the worker's Faust table its key has the window range
``(slot, slot + .9)`` over slot numbers, not times (`ldp_kafka.runtime.recovery.keys`). Longer
windows, tumbling and hopping, are made of panes when they close (`windows`).

A pane holds the values of each stream in one slot as `PER_SLOT` takes them together. It is written
in as many records as there are shards of streams, each with those of one shard: what a shard has
folded and what its panes hold can be told apart by the offset of each record alone, whatever a
crash leaves of a snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ldp_kafka.errors import StateError
from ldp_kafka.randomness import Digests
from ldp_kafka.runtime.stages.per_slot import Folded, SlotValues, Taking
from ldp_kafka.runtime.stages.users import UNREADABLE, Users, strangers
from ldp_kafka.runtime.wire.arrow import (
    digests_of,
    lists,
    numbers_of,
    read_batch,
    rows_of,
    write_batch,
)

__all__ = ["PaneOf", "Panes", "SeenPanes", "is_pane", "look_at_panes"]

AGAIN = 4096  # values that come to a pane before they are taken together
_COLUMNS = ("user", "value", "number")
_KINDS = (pa.float64(), pa.int64())
"""Of values, and of sums of steps."""


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
        """Values (n,), or (n, dimension), come."""
        self.rows.append(rows)
        self.values.append(values)
        self.since += len(rows)
        if self.since > AGAIN + 2 * len(self.folded.rows):
            self.together(taking)

    def together(self, taking: Taking) -> Folded:
        """One value a stream."""
        if self.since:
            rows = np.concatenate([self.folded.rows, *self.rows])
            came = taking.enter(np.concatenate(self.values))
            values = np.concatenate([self.folded.values, came])
            number = np.concatenate([self.folded.number, np.ones(self.since, np.int64)])
            order = np.argsort(rows, kind="stable")
            rows = rows[order]
            starts = np.flatnonzero(np.concatenate([[True], rows[1:] != rows[:-1]]))
            self.folded = Folded(
                rows[starts],
                taking.fold(SlotValues(values.take(order, axis=0), starts)),
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
    ) -> int:
        """Values (n,) of open slots, or lists (n, dimension), as they came; ``offsets`` are those
        of their messages. What a pane that was loaded has folded already is left out. Returns how
        many were clamped before they were added.
        """
        if not len(rows):
            return 0
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
                pane = self._open[slot] = _Pane(self._none(values))
            pane.add(rows[mine], values[mine], self._taking)
            self._changed.update(PaneOf(slot, shard) for shard in np.unique(shards[mine]).tolist())
        return self._taking.clamped(values)

    def _none(self, values: NDArray[np.float64]) -> Folded:
        """No streams, of values such as these."""
        nothing = self._taking.enter(values[:0])
        return Folded(np.empty(0, np.intp), nothing, np.empty(0, np.int64))

    def slots(self) -> list[int]:
        """Those with a value, in order."""
        return sorted(self._open)

    def close(self, slot: int) -> Folded:
        """Let go of a slot: what it held."""
        pane = self._open.pop(slot, None)
        if pane is None:
            return self._none(np.empty(0))
        found = pane.together(self._taking)
        for shard in np.unique(self._users.shard[found.rows]).tolist():
            self._changed.add(PaneOf(slot, shard))
        return found

    def of(self, folded: Folded) -> NDArray[np.float64]:
        """The values (n,), or (n, dimension), that a slot comes to."""
        return self._taking.come_to(folded)

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
                    lists(folded.values[mine]),
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
        kind = pa.float64() if self._taking.grid is None else pa.int64()
        for slot, payloads in of_slot.items():
            # all at once: a slot has as many records as there are shards
            parts = (_read_pane(payload, kind) for payload in payloads)
            digests, values, number = map(np.concatenate, zip(*parts, strict=True))
            rows = self._users.rows_of(digests)
            order = np.argsort(rows)
            self._open[slot] = _Pane(Folded(rows[order], values[order], number[order]))


def is_pane(name: str) -> bool:
    """Whether a record of this name is a part of a pane."""
    return PaneOf.named(name) is not None


def _read_pane(payload: bytes, *kinds: Any) -> tuple[Digests, NDArray[Any], NDArray[np.int64]]:
    """The streams' digests, values of one of these types, and how many values each is made of.
    StateError, BadRecord: not a pane.
    """
    batch: Any = read_batch(payload)[0]
    if tuple(batch.schema.names) != _COLUMNS:
        raise StateError("a pane of the changelog has other columns than this version writes")
    digests = digests_of(batch, "user")
    return digests, numbers_of(batch, "value", *kinds), rows_of(batch, "number", pa.int64())


class SeenPanes(NamedTuple):
    """What is in records of panes, and what is wrong with them."""

    slots: int
    unreadable: int
    """Records."""
    strangers: int
    """Streams that lie in a record of another shard."""
    ended: int
    """Records of slots that have been let go."""


def look_at_panes(records: Mapping[str, bytes], shards: int, ended: int) -> SeenPanes:
    """What `Panes.dump` wrote, looked at without being loaded; other records are passed over.

    Parameters
    ----------
    records : by name
    shards : of the streams
    ended : the last slot that has been let go
    """
    slots: set[int] = set()
    unreadable = strange = over = 0
    for name, payload in records.items():
        at = PaneOf.named(name)
        if at is None:
            continue
        try:
            digests = _read_pane(payload, *_KINDS)[0]
        except UNREADABLE:
            unreadable += 1
            continue
        slots.add(at.slot)
        over += at.slot <= ended
        strange += strangers(digests, shards, at.shard)
    return SeenPanes(len(slots), unreadable, strange, over)
