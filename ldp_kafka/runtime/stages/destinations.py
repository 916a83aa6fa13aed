"""What becomes of slots that are complete at the merger: releases, or, where a coordinator decides,
merged sums of each phase for its log.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, Protocol

import numpy as np

from ldp_kafka.methods import Method
from ldp_kafka.methods.protocols import Coordinator, Decider
from ldp_kafka.methods.protocols.processing import Processing
from ldp_kafka.methods.protocols.request import FIRST, SECOND
from ldp_kafka.methods.runnable import protocol_of
from ldp_kafka.records import Partial, Sums
from ldp_kafka.runtime.log import Record
from ldp_kafka.runtime.stages.complete import Complete, Phases
from ldp_kafka.runtime.stages.releases import Publisher, publisher
from ldp_kafka.runtime.stages.slot_sums import At
from ldp_kafka.runtime.wire.records import encode_json
from ldp_kafka.topology import Topology

__all__ = ["Destination", "Releases", "SumsOfPhases", "destination"]


class Destination(Protocol):
    """What the merger makes of slots."""

    counts: ClassVar[tuple[str, ...]]
    """Of what it makes, by its number of records."""

    @property
    def phases(self) -> int | None:
        """That slots are complete in by themselves; None: a slot's phases are together."""

    @property
    def width(self) -> int:
        """Integers in a support."""

    @property
    def looks_back(self) -> int:
        """Slots before its own whose sums a slot is made with."""

    def place(self, partial: Partial) -> tuple[int, At] | None:
        """In which phase a partial counts, and as what; None where it is none of the method's."""

    def fresh(self) -> Coordinator | None:
        """What is known of slots so far, before the first; None: nothing is."""

    def made(
        self, known: Coordinator | None, phase: int, now: Complete, sources: int
    ) -> list[Record]:
        """The records of slots that are complete now."""


@dataclass(frozen=True)
class Releases:
    """A slot is released, all of its phases together. Where a protocol decides nothing, and so has
    no coordinator's role, what is processed is made by the fold of its coordinator.

    Parameters
    ----------
    protocol : that the topology's method stands for; None where releases are as they are
    processing : what is made of its publications
    """

    counts: ClassVar[tuple[str, ...]] = ("releases",)
    phases: ClassVar[None] = None

    publisher: Publisher
    protocol: Decider | None = None
    processing: Processing = field(default_factory=Processing)

    @cached_property
    def _twice(self) -> Publisher:
        """Once users were seen to report twice in a slot."""
        return replace(self.publisher, twice=True)

    @property
    def width(self) -> int:
        return self.publisher.statistics.width

    @property
    def looks_back(self) -> int:
        return self.publisher.statistics.looks_back

    def place(self, partial: Partial) -> tuple[int, At] | None:
        fits = partial.support is None or len(partial.support) == self.width
        return (FIRST, At(partial.slot, partial.phase)) if fits else None

    def fresh(self) -> Coordinator | None:
        return None if self.protocol is None else self.protocol.coordinator(self.processing)

    def made(
        self, known: Coordinator | None, phase: int, now: Complete, sources: int
    ) -> list[Record]:
        del phase  # there is one
        made = []
        for slot, sums in now.slots(sources, looks_back=self.looks_back):
            publisher = self._twice if now.sums.second_reports.number else self.publisher
            if known is None:
                earlier = now.sums.before(slot, self.looks_back)
                before = {at: added(phases) for at, phases in earlier.items()}
                made += publisher.of_slot(slot, added(sums) or None, before)
            else:
                made += self._processed(publisher, known, slot, sums)
        return made

    def _processed(
        self, publisher: Publisher, coordinator: Coordinator, slot: int, sums: Phases
    ) -> list[Record]:
        """Where nobody has reported what stands is released, without an error."""
        first = sums.get(FIRST)
        coordinator.decide(slot, None if first is None else np.array(first, np.int64))
        released = coordinator.release(None)
        told = {"postprocess": self.processing.on}
        return publisher.of_round(slot, released.estimate, released.strategy, told)


def added(phases: Phases) -> list[int]:
    """The sums of all phases together: they are of one width."""
    return [sum(column) for column in zip(*phases.values(), strict=True)]


@dataclass(frozen=True)
class SumsOfPhases:
    """Merged sums of each phase, in the order of its slots. Of the first phase every slot comes, as
    slots are released elsewhere, but of a long run without reports the last one alone. Of the
    second come the slots with reports, and then how far it is closed.

    Parameters
    ----------
    method : whose reports were summed
    topic : of the coordinator's log
    """

    counts: ClassVar[tuple[str, ...]] = ()
    looks_back: ClassVar[int] = 0

    method: Method
    topic: str

    @property
    def phases(self) -> int:
        return self.method.phases

    @cached_property
    def width(self) -> int:
        return len(self.method.support(self.method.blank(0)))

    def place(self, partial: Partial) -> tuple[int, At] | None:
        second, empty = partial.phase == SECOND, partial.support is None
        form = self.method.form(partial.phase, 0 if empty else partial.cost)
        if not (empty and partial.phase < self.phases) and (
            form is None or len(form.support(form.blank(0))) != len(partial.support or ())
        ):
            return None
        summed = partial.cost if second else partial.phase
        return (SECOND if second else FIRST), At(partial.slot, summed)

    def fresh(self) -> None:
        """The coordinator knows."""

    def made(
        self, known: Coordinator | None, phase: int, now: Complete, sources: int
    ) -> list[Record]:
        del known
        before, last, made = now.released, None, []
        for slot, sums in now.slots(sources, every=phase == FIRST):
            last = slot if phase == FIRST else None
            made += self._records(now, slot, phase, sums)
        through, begun = now.released, phase == SECOND or now.begun
        if through is not None and through not in (before, last) and begun:
            made += self._records(now, through, phase, {})
        return made

    def _records(self, now: Complete, slot: int, phase: int, sums: Phases) -> list[Record]:
        """Of each cost that reports of the slot's second phase had: of honest edges there is
        one.
        """
        twice = now.sums.second_reports.number > 0
        return [
            self._record(Sums(slot, phase, cost, tuple(support), twice))
            for cost, support in sums.items()
        ] or [self._record(Sums(slot, phase, 0, None, twice))]

    def _record(self, sums: Sums) -> Record:
        return Record(self.topic, 0, f"{sums.slot}/{sums.phase}".encode(), encode_json(sums))


def destination(topology: Topology) -> Destination:
    """What the topology's merger makes of slots."""
    if topology.flow.sums is not None:
        return SumsOfPhases(topology.method, topology.sums_topic)
    wanted, protocol = topology.output.postprocess, protocol_of(topology.method)
    return Releases(publisher(topology), protocol if wanted.on else None, wanted)
