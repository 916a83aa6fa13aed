"""A destination of the merger's slots that hands them to a function."""

from __future__ import annotations

from ldp_kafka.runtime.stages.destinations import Releases


class Told:
    """Records are made by ``release`` of (slot, sums by phase, those of slots before it)."""

    counts = ("releases",)
    phases = None

    def __init__(self, release, width=2, looks_back=0):
        self.release, self.width, self.looks_back = release, width, looks_back

    place = Releases.place

    def fresh(self):
        return None

    def made(self, known, phase, now, sources):
        return [
            record
            for slot, sums in now.slots(sources, looks_back=self.looks_back)
            for record in self.release(slot, sums, now.sums.before(slot, self.looks_back))
        ]
