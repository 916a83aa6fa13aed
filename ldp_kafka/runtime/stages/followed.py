"""Releases of values that are clipped to a speed: the fold of what the slots before had, beside the
merger's. Whether a crowd moves as fast as it can is seen from there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ldp_kafka.runtime.log import Record
from ldp_kafka.runtime.stages.releases import Publisher

__all__ = ["Followed", "Past"]

KEPT = 32  # slots


@dataclass
class Past:
    """The sums of the last slots that were released, by slot."""

    sums: dict[int, list[int]] = field(default_factory=dict)

    def before(self, slot: int) -> list[list[int] | None]:
        """Those of the slots before, the latest first; None where nobody reported."""
        return [self.sums.get(slot - back) for back in range(1, KEPT + 1)]

    def add(self, slot: int, sums: list[int] | None) -> None:
        """Go on with a slot; None: nobody reported."""
        if sums is not None:
            self.sums[slot] = sums
        self.sums = {each: held for each, held in self.sums.items() if each > slot - KEPT}

    def saved(self) -> list[list[int]]:
        """As JSON: a list a slot, the slot first."""
        return [[slot, *held] for slot, held in self.sums.items()]


@dataclass(frozen=True)
class Followed:
    """Releases of a method that clips."""

    publisher: Publisher

    def fresh(self) -> Past:
        """Before the first slot."""
        return Past()

    def load(self, saved: Sequence[Sequence[int]] | None) -> Past:
        """What goes on from a saved one; None: an older version has kept nothing."""
        return Past({slot: [*held] for slot, *held in saved or ()})

    def release(self, past: Past, slot: int, sums: Mapping[int, Sequence[int]]) -> list[Record]:
        """The records of one slot, later than those before, from the sums of its phases."""
        total = [sum(column) for column in zip(*sums.values(), strict=True)] or None
        made = self.publisher.of_slot(slot, total, past.before(slot))
        past.add(slot, total)
        return made
