"""Parts of slots: the reports of devices that have counted, each with its id, in records of the
changelog that are not too large.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ldp_kafka.runtime.log import Look

__all__ = ["PARTS", "Counted", "Part", "PartOf", "look_at_parts"]

PARTS = 16  # of a slot: each a record of the changelog, for up to about 30,000 reports
_ROW = np.dtype([("id", "V16"), ("said", "V8"), ("offset", "<i8")])


class Counted(NamedTuple):
    """When a report counted, and what it said."""

    offset: int
    said: bytes

    def __repr__(self) -> str:
        return f"Counted(offset={self.offset})"  # never what it said


class PartOf(NamedTuple):
    """Which part of which phase of a slot."""

    slot: int
    phase: int
    """Or what its reports cost, where they are summed by that: see `CountingSecond`."""
    number: int

    @classmethod
    def of(cls, slot: int, phase: int, name: bytes) -> PartOf:
        """The part of the report with this id."""
        return cls(slot, phase, name[0] % PARTS)

    @classmethod
    def named(cls, shard: str) -> PartOf:
        """The part that a shard holds. ValueError where that is none's name."""
        slot, phase, number = map(int, shard.split("."))
        return cls(slot, phase, number)

    @property
    def shard(self) -> str:
        """The name of its record."""
        return f"{self.slot}.{self.phase}.{self.number}"


@dataclass(repr=False)
class Part:
    """Some of the reports of an open slot."""

    sums: list[int]
    ids: dict[bytes, Counted] = field(default_factory=dict)

    def written(self) -> bytes:
        """Sums as a line of JSON, then the ids."""
        rows = np.array([(name, said, offset) for name, (offset, said) in self.ids.items()], _ROW)
        return json.dumps(self.sums, separators=(",", ":")).encode() + b"\n" + rows.tobytes()

    @classmethod
    def read(cls, payload: bytes) -> Part:
        """What `written` gave. ValueError where it is not that."""
        sums, rows = payload.split(b"\n", 1)
        found = np.frombuffer(rows, _ROW)
        columns = (found[name].tolist() for name in ("id", "said", "offset"))
        ids = {n: Counted(o, s) for n, s, o in zip(*columns, strict=True)}
        return cls(json.loads(sums), ids)

    def __repr__(self) -> str:
        return f"Part({len(self.ids)} reports)"  # never an id


def look_at_parts(
    found: Look,
    shards: Mapping[str, bytes],
    at_home: Callable[[bytes], bool],
    closed_of: Callable[[PartOf], int | None],
) -> Look:
    """What lies in these parts: that they are of slots after the last one that is closed for them,
    ``closed_of``, that every report lies in its own and is ``at_home`` in the partition, and that
    as many are summed.
    """
    slots: set[int] = set()
    unreadable = strangers = closed = unsummed = 0
    for name, payload in shards.items():
        try:
            at, part = PartOf.named(name), Part.read(payload)
            [number, *_] = part.sums
        except (ValueError, TypeError):
            unreadable += 1
            continue
        slots.add(at.slot)
        last = closed_of(at)
        closed += last is not None and at.slot <= last
        strangers += sum(
            PartOf.of(at.slot, at.phase, each) != at or not at_home(each) for each in part.ids
        )
        unsummed += number != len(part.ids)
    found.slots = len(slots)
    found.complain("readable", unreadable, "parts of slots cannot be read")
    found.complain("shards", closed, "parts are of slots that are closed")
    found.complain("shards", strangers, "reports lie in a part that is not theirs")
    found.complain("shards", unsummed, "parts have other reports than their sums say")
    return found
