"""Sums of slots as state: additive integers and sampled report ids of each (slot, phase), written
down in slot shards, which are runs of consecutive slots.

Some ten thousand slots can wait for a partition without events. A snapshot writes the slot shards
that changed; one ends, and its record goes, when all of its slots are closed and none can come
back. Until then it keeps its closed slots too: its record can be ahead of ``meta``, and a fold from
``meta`` on must find in it what it closes once more.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from ldp_kafka.errors import StateError
from ldp_kafka.runtime.log import Look
from ldp_kafka.runtime.stages.sample import keep, keep_each

__all__ = ["At", "SecondReports", "SlotSums", "Summed", "look_at_sums", "slots_in_a_shard"]

BYTES = 2**17  # of a slot shard, about and at most
MOST = 256  # slots in one
NUMBER_BYTES, ID_BYTES = 12, 36  # of one integer, of one report id, as JSON


class At(NamedTuple):
    """What is summed by itself."""

    slot: int
    phase: int


class Summed(NamedTuple):
    """What is known of one phase of a slot."""

    sums: list[int]
    ids: list[str]
    second: int = 0
    """Second reports that were found among them."""


class SecondReports(NamedTuple):
    """Second reports of users in a slot, which were found by their ids."""

    number: int = 0
    slot: int | None = None
    """The latest with any."""

    def and_of(self, number: int, slot: int) -> SecondReports:
        """With so many more of a slot."""
        if not number:
            return self
        return SecondReports(
            self.number + number, slot if self.slot is None else max(slot, self.slot)
        )


@dataclass
class SlotSums:
    """Sums and sampled report ids of slots and phases.

    Parameters
    ----------
    size : slots in a slot shard
    """

    size: int
    open: dict[int, dict[int, list[int]]] = field(default_factory=dict)
    """Additive sums of each slot that is not closed, by phase."""
    sample: dict[At, list[str]] = field(default_factory=dict)
    """Sampled report ids of open slots."""
    second: dict[At, int] = field(default_factory=dict)
    """Second reports of open slots, where there are any."""
    second_reports: SecondReports = field(default_factory=SecondReports)
    """Those of slots that have been closed. A slot's own lie in its slot shard until then: so none
    is lost, nor counted twice, where a slot shard is ahead.
    """
    kept: dict[int, dict[int, Summed]] = field(default_factory=dict)
    """Both of the closed slots of a slot shard that goes on."""
    changed: set[int] = field(default_factory=set)
    """Slot shards that changed or ended since the last snapshot."""
    shard_offsets: dict[int, int] = field(default_factory=dict)
    """The checkpoint offset of each loaded slot shard, which can be ahead of that of the rest."""

    def takes(self, slot: int, offset: int) -> bool:
        """Whether the message at ``offset`` is still to be counted in ``slot``; notes that its slot
        shard changes.
        """
        shard = slot // self.size
        if offset <= self.shard_offsets.get(shard, -1):
            return False
        self.changed.add(shard)
        return True

    def add(self, at: At, sums: Sequence[int]) -> None:
        """Add to the sums of one phase of an open slot."""
        phases = self.open.setdefault(at.slot, {})
        held = phases.get(at.phase)
        phases[at.phase] = (
            list(sums) if held is None else [a + b for a, b in zip(held, sums, strict=True)]
        )

    @property
    def ahead(self) -> int:
        """The last offset that any loaded slot shard has seen; -1: none is ahead of the rest."""
        return max(self.shard_offsets.values(), default=-1)

    def see(self, at: At, ids: Sequence[str], *, singles: bool = False) -> int:
        """Sample report ids of an open slot, together or (``singles``) one after the other; how
        many of them were in its sample before.
        """
        take = keep_each if singles else keep
        self.sample[at], second = take(self.sample.get(at, []), ids)
        self.note(at, second)
        return second

    def note(self, at: At, second: int) -> None:
        """So many second reports were found in an open slot."""
        if second:
            self.second[at] = self.second.get(at, 0) + second

    def waiting(self, through: int) -> list[int]:
        """Open slots up to and including ``through``, in order."""
        return sorted(slot for slot in self.open if slot <= through)

    def close(self, slot: int) -> dict[int, Summed]:
        """Close a slot: what is known of each of its phases, in their order."""
        found = {
            phase: Summed(
                sums, self.sample.pop(At(slot, phase), []), self.second.pop(At(slot, phase), 0)
            )
            for phase, sums in sorted(self.open.pop(slot, {}).items())
        }
        second = sum(each.second for each in found.values())
        self.second_reports = self.second_reports.and_of(second, slot)
        if found:
            self.kept[slot] = found
        return found

    def before(self, slot: int, number: int) -> dict[int, dict[int, list[int]]]:
        """The sums of those of so many slots before this one that had reports, by phase: of closed
        ones that `end` has left.
        """
        return {
            at: {phase: held.sums for phase, held in self.kept[at].items()}
            for at in range(slot - number, slot)
            if at in self.kept
        }

    def forget(self, through: int) -> None:
        """Let go of the sampled ids of slots up to and including ``through``."""
        for at in [at for at in self.sample if at.slot <= through]:
            del self.sample[at]
            self.changed.add(at.slot // self.size)

    def end(self, through: int) -> None:
        """Let go of the slot shards of which no slot after ``through``, the last closed one, is
        left.
        """
        for slot in [
            slot for slot in self.kept if (slot // self.size + 1) * self.size - 1 <= through
        ]:
            del self.kept[slot]
            self.changed.add(slot // self.size)

    def dirty(self) -> set[str]:
        """Names of the slot shards that changed, or ended, since the last call."""
        found = {str(shard) for shard in self.changed}
        self.changed.clear()
        return found

    def shards(self) -> set[str]:
        """Names of all slot shards that hold anything."""
        return {str(slot // self.size) for slot in (*self.open, *self.kept)}

    def dump(self, shards: Iterable[str]) -> dict[str, bytes]:
        """Those of these slot shards that hold anything, as JSON."""
        wanted = set(shards)
        held: dict[str, dict[str, Any]] = {}
        for slot in (*self.kept, *self.open):
            if (shard := str(slot // self.size)) in wanted:
                for phase, (sums, ids, second) in self._of(slot).items():
                    more = [second] if second else []
                    held.setdefault(shard, {})[f"{slot}.{phase}"] = [sums, ids, *more]
        return {
            shard: json.dumps(slots, separators=(",", ":")).encode()
            for shard, slots in held.items()
        }

    def _of(self, slot: int) -> dict[int, Summed]:
        """What is known of each phase of a slot, open or kept."""
        return self.kept.get(slot) or {
            phase: Summed(
                sums, self.sample.get(At(slot, phase), []), self.second.get(At(slot, phase), 0)
            )
            for phase, sums in self.open[slot].items()
        }

    @classmethod
    def load(
        cls, size: int, closed: int | None, written: Any, shards: Mapping[str, tuple[int, bytes]]
    ) -> Self:
        """What `dump` wrote, where the last closed slot is ``closed``. StateError where slot shards
        had another size, which ``written`` says, or another form.
        """
        if written != size:
            raise StateError(
                "the changelog's state has its slots in other shards: it was written by another"
                " version; go on with that one, or give the topology a new name"
            )
        made = cls(size)
        for shard, (cover, payload) in shards.items():
            made.shard_offsets[int(shard)] = cover
            for name, held in json.loads(payload).items():
                at, (sums, ids, second) = _at(name), Summed(*held)
                if closed is not None and at.slot <= closed:
                    made.kept.setdefault(at.slot, {})[at.phase] = Summed(sums, ids, second)
                else:
                    made.add(at, sums)
                    made.note(at, second)
                    if ids:
                        made.sample[at] = ids
        return made

    def meta(self) -> dict[str, Any]:
        """What is in no slot shard, as JSON; nothing where no report was a second one."""
        found = self.second_reports
        return {"second_reports": list(found)} if found.number else {}

    def hear(self, meta: Mapping[str, Any]) -> None:
        """Take in what `meta` wrote."""
        self.second_reports = SecondReports(*meta.get("second_reports", ()))


def slots_in_a_shard(width: int, ids: int) -> int:
    """So many that a slot shard of sums of this width and so many sampled ids a slot is not too
    large for a record.

    Examples
    --------
    >>> slots_in_a_shard(width=1, ids=32), slots_in_a_shard(width=8192, ids=32)
    (112, 1)
    """
    return max(1, min(MOST, BYTES // (NUMBER_BYTES * width + ID_BYTES * ids)))


def look_at_sums(size: int, written: Any, shards: Mapping[str, bytes]) -> Look:
    """What lies in these slot shards: that they are of this size, and every slot lies in its
    own.
    """
    found = Look(slots=0)
    if written != size:
        found.problems.append(("shards", f"slot shards of {written} slots must be of {size}"))
        return found
    slots: set[int] = set()
    unreadable = strangers = 0
    for name, payload in shards.items():
        try:
            mine = {_at(each).slot for each in json.loads(payload)}
            strangers += sum(slot // size != int(name) for slot in mine)
            slots |= mine
        except (ValueError, TypeError, AttributeError):
            unreadable += 1
    found.slots = len(slots)
    found.complain("readable", unreadable, "slot shards cannot be read")
    found.complain("shards", strangers, "slots lie in a slot shard that is not theirs")
    return found


def _at(name: str) -> At:
    slot, phase = name.split(".")
    return At(int(slot), int(phase))
