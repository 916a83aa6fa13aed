"""What outages came to: who ended, what is lost or second, how late releases are, how much memory
was taken, and what the logs and probes say of it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tests.broker.judge.verdict import Verdict
from tests.broker.outages.subjects import Subject
from tests.broker.outages.world import Outage, OutageWorld, released
from tests.broker.workers import Worker

__all__ = ["SAID", "Found", "find"]

SAID = 15.0  # seconds of an outage that a worker must have noticed: it asks now and then
SLACK = 1.0  # seconds between what a worker's clock says and what is written


@dataclass
class Found:
    """Of one topology."""

    name: str
    phase: str
    exits: list[str] = field(default_factory=list)
    """Processes that ended without being told to, and why."""
    wrong: Counter[str] = field(default_factory=Counter)
    """What the judge complains of."""
    folded: int = 0
    """Reports, or windows of a curator."""
    usual: float = 0.0
    """Seconds that releases took without an outage, at most."""
    late: list[float] = field(default_factory=list)
    """Of each outage: seconds that releases came later than that, at most."""
    grown: int = 0
    """Bytes of memory that a role took more than before, at most."""
    unsaid: list[str] = field(default_factory=list)
    """What the logs should say of outages, and do not, or not as it was."""
    dead: list[str] = field(default_factory=list)
    """Of /live: a supervisor would have ended these."""

    def __str__(self) -> str:
        late = ", ".join(f"{seconds:.1f}" for seconds in self.late)
        return (
            f"{self.name}: {self.folded} folded, wrong {dict(self.wrong)}; usually {self.usual:.1f}"
            f" s, and {late} s late; {self.grown / 2**20:.0f} MiB more; exits {self.exits};"
            f" unsaid {self.unsaid}; not live {self.dead[:3]}"
        )


def find(world: OutageWorld) -> dict[str, Found]:
    """All of it, by topology, once everything has settled."""
    return {
        subject.topology.name: _of(world, subject, verdict)
        for subject, verdict in zip(world.subjects, world.verdicts(), strict=True)
    }


def _of(world: OutageWorld, subject: Subject, verdict: Verdict) -> Found:
    workers = [*(worker for _, worker in subject.workers), *subject.ended]
    folded = verdict.reports or verdict.windows
    found = Found(subject.topology.name, subject.phase, wrong=verdict.wrong, folded=folded)
    found.exits = [worker.ended for worker in workers if worker.ended]
    found.usual, found.late = _late(world, subject)
    found.grown = _grown(workers, world.outages[0].began if world.outages else world.warm)
    for outage in world.outages:
        for worker in workers:
            found.unsaid += _unsaid(worker, outage)
    found.dead = [said for worker in workers for said in worker.dead]
    return found


def _late(world: OutageWorld, subject: Subject) -> tuple[float, list[float]]:
    """How long after a slot's last event its last release comes without an outage, at most, as far
    as nobody was held for long; and how much longer than that it took from each outage on.
    """
    came, given = released(subject), world.feed.given[subject.topology.name]
    never = float("inf")
    begins = [outage.since for outage in world.outages] or [never]
    took = {slot: came.get(slot, never) - at for slot, at in given.items() if at >= world.warm}
    before = [
        seconds
        for slot, seconds in took.items()
        if came.get(slot, never) < begins[0]
        and not any(given[slot] <= end and came[slot] >= begin for begin, end in world.apart)
    ]
    usual = max(before, default=0.0)
    late = []
    for begin, end in zip(begins, [*begins[1:], never], strict=True):
        due = [slot for slot in took if begin <= given[slot] + usual < end]
        late.append(max((took[slot] - usual for slot in due), default=0.0))
    return usual, late if world.outages else []


def _grown(workers: list[Worker], since: float) -> int:
    """Of roles, how much more memory one of its workers took from then on than any had before."""
    before: Counter[str] = Counter()
    after: Counter[str] = Counter()
    for worker in workers:
        before[worker.role] = max(before[worker.role], worker.most(0.0, since))
        after[worker.role] = max(after[worker.role], worker.most(since, float("inf")))
    return max(after[role] - before[role] for role in after)


def _unsaid(worker: Worker, outage: Outage) -> list[str]:
    """What a worker should have said of an outage that it was there for."""
    if worker.begun > outage.began or worker.ended or worker.told < outage.over:
        return []
    said = [line["at"] for line in worker.lines("outage")]
    over = [(line["at"], line["seconds"]) for line in worker.lines("outage_over")]
    began = [at for at in said if outage.began - SLACK <= at <= outage.over + SLACK]
    ended = [each for each in over if each[0] >= outage.began]
    wrong = []
    if outage.whole and outage.lasted > SAID and not began:
        wrong.append("never said that an outage began")
    if len(said) != len(over):
        wrong.append(f"said {len(said)} times that an outage began, and {len(over)} that it ended")
    if any(at - seconds < outage.began - SLACK for at, seconds in ended):
        wrong.append("said that an outage began before it did")
    return [f"{worker}: {text}" for text in wrong]
