"""The slots of one phase at the merger: which partials count, and which slots are complete.

A slot is complete when every source has closed it; sums are integers, so the order of partials does
not matter. Slots before the first one in which any source had a report never are; empty ones after
it are, up to `EMPTY_RUN` in a row: a clock that was years behind must not make millions of them. Of
the second phase, which few slots have, only slots with reports are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from ldp_kafka.records import Partial
from ldp_kafka.runtime.stages.slot_sums import At, SlotSums

__all__ = ["EMPTY_RUN", "HELD", "Complete", "Phases"]

EMPTY_RUN = 1000  # empty slots in a row that are complete
HELD = 8192  # sampled ids of one slot, about: those of further sources are only compared with them
SAMPLED = 64  # latest slots whose sampled ids are kept

Phases = Mapping[int, Sequence[int]]
"""The sums of each phase of a slot that had reports; of the second phase, of each cost."""


@dataclass
class Complete:
    """What the merger knows of one phase."""

    sums: SlotSums
    closed: dict[int, int] = field(default_factory=dict)
    """Last closed slot of each source that was heard."""
    within: dict[int, At] = field(default_factory=dict)
    """Of a source that has not closed the slot that it told of last: how far it has come."""
    first: int | None = None
    """The first slot in which any source had a report."""
    released: int | None = None
    """Last slot that was complete or passed over."""
    full: int | None = None
    """Last complete slot that had reports."""

    @property
    def begun(self) -> bool:
        """Whether the first slot with a report is complete, or passed over."""
        first, last = self.first, self.released
        return first is not None and last is not None and last >= first

    def take(self, partial: Partial, at: At, offset: int) -> int | None:
        """Add one source's partial to the sums ``at``: how many of its sampled ids another source
        has. None for one that was taken before: a source's partials come in the order of their
        slots, and of the phases in a slot.
        """
        source = partial.source
        if at.slot <= self.closed.get(source, at.slot - 1):
            return None
        if source in self.within and at <= self.within[source]:
            return None
        if partial.last:
            self.closed[source] = at.slot
            self.within.pop(source, None)
        else:
            self.within[source] = at
        if partial.first is not None:
            self.first = partial.first if self.first is None else min(self.first, partial.first)
        if partial.support is None or not self.sums.takes(at.slot, offset):
            return 0
        self.sums.add(at, partial.support)
        return self._see(at, partial.sample)

    def _see(self, at: At, sample: Sequence[str]) -> int:
        """How many of one source's sampled ids another one has. Slots can wait long for a partition
        without events: their sums are kept, their ids need not be.
        """
        horizon = max([at.slot, *self.closed.values()]) - SAMPLED
        self.sums.forget(horizon)
        if at.slot <= horizon:
            return 0
        ids = self.sums.sample.setdefault(at, [])
        second = len(set(ids) & set(sample))
        self.sums.note(at, second)
        if len(ids) < HELD:
            ids += sample
        return second

    def slots(
        self, sources: int, *, every: bool = True, looks_back: int = 0
    ) -> Iterator[tuple[int, dict[int, list[int]]]]:
        """Slots that are complete now, in order, with the sums of their phases.

        Parameters
        ----------
        sources : that must have closed them
        every : whether slots without reports are among them
        looks_back : slots before the last one whose sums are kept
        """
        if len(self.closed) < sources:
            return
        through = min(self.closed.values())
        for slot in self._every(through) if every else self.sums.waiting(through):
            sums = {phase: held.sums for phase, held in self.sums.close(slot).items()}
            self.released = slot
            self.full = slot if sums and every else self.full
            yield slot, sums
        self.released = through if self.released is None else max(through, self.released)
        self.sums.end(self.released - looks_back)

    def _every(self, through: int) -> Iterator[int]:
        """Slots from the first one on, but for the rest of a long run without reports."""
        while self.first is not None:
            slot = self.first if self.released is None else max(self.first, self.released + 1)
            if slot > through:
                return
            empty = slot not in self.sums.open
            if empty and self.full is not None and slot - self.full > EMPTY_RUN:
                waiting = self.sums.waiting(through)[:1]
                self.released = min([through, *(waits - 1 for waits in waiting)])
                continue
            yield slot

    def meta(self) -> dict[str, Any]:
        """All but the sums, as JSON."""
        return {
            "closed": {str(source): slot for source, slot in self.closed.items()},
            "within": {str(source): list(at) for source, at in self.within.items()},
            "first": self.first,
            "released": self.released,
            "full": self.full,
            "slots": self.sums.size,
            **self.sums.meta(),
        }

    @classmethod
    def load(
        cls, size: int, meta: Mapping[str, Any], shards: Mapping[str, tuple[int, bytes]]
    ) -> Self:
        """What `meta` and the sums wrote. StateError where slot shards had another size."""
        made = cls(
            SlotSums.load(size, meta["released"], meta.get("slots"), shards),
            {int(name): slot for name, slot in meta["closed"].items()},
            {int(name): At(*at) for name, at in meta["within"].items()},
            meta["first"],
            meta["released"],
            meta["full"],
        )
        made.sums.hear(meta)
        return made
