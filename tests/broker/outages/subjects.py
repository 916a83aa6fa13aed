"""Topologies that go through an outage, each with its workers, its input and what it is doing when
the brokers go.
"""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import NamedTuple

from confluent_kafka.admin import AdminClient

from tests.broker.asking import configure
from tests.broker.flow import Flow
from tests.broker.workers import Worker

__all__ = ["KINDS", "SESSION", "Kind", "Subject"]

SESSION = 15.0  # seconds
TEXT = """
topology: {name}
kafka: {{bootstrap_servers: "{boot}"}}
input: {{partitions: {partitions}, format: {format}, slot: 1h, lateness: 1,
  closing: events}}
privacy: {{method: {method}, {shape}}}
output: {{statistics: [{statistics}]}}
edge: {{key_file: {key}}}
runtime: {{shards: {shards}, snapshot_seconds: 1, session_timeout: {session}}}
"""
EVENT = "domain: [10, 30], epsilon: 8.0, window: 4"


ORDERED = {"max.in.flight": 1, "message.timeout.ms": 0}
"""Of a producer that waits for its broker as long as it takes, and that keeps the order of what it
tries again. Not one of librdkafka's idempotent ones, which takes a core meanwhile
(`OrderedProducer`).
"""


class Kind(NamedTuple):
    """What a topology is."""

    method: str
    shape: str
    statistics: str
    users: int
    singles: bool = False
    """Whether its events come one by one."""
    shards: int = 16


KINDS = {
    "singles": Kind("capp", EVENT, "mean, per_user", 24, singles=True),
    "batches": Kind("capp", EVENT, "mean, per_user", 24),
    "crowd-singles": Kind(
        "lpu", "categories: 3, epsilon: 4.0, window: 4", "frequencies", 60, singles=True
    ),
    "crowd": Kind("sw_direct", EVENT, "mean", 60),
    "asked-singles": Kind("lbd", EVENT, "mean", 80, singles=True),
    "asked": Kind("lba", "categories: 3, epsilon: 4.0, window: 4", "frequencies", 80),
    "curator": Kind(
        "pegasus_delay",
        "trust: curator, level: event, delay: 4, setting: sliding, domain: [10, 30], epsilon: 4.0",
        "per_stream",
        24,
    ),
}
"""By name. Each is a method of another sort, or its events come in another form."""


class Subject(Flow):
    """A topology of a kind, and what it is doing when the brokers go; each worker has its log."""

    workers: list[tuple[str, Worker]]

    def __init__(self, boot: str, tmp: Path, prefix: str, kind: str, phase: str) -> None:
        self.kind, self.phase, self.tmp, of = kind, phase, tmp, KINDS[kind]
        self.users, self.singles = of.users, of.singles
        self.ended: list[Worker] = []
        """Those that were told to, or that were started again."""
        self.numbers, self.fed = count(), True
        self.held = ""
        """What shows that it was in its phase."""
        super().__init__(
            boot,
            tmp,
            f"{prefix}-{kind}-{phase}",
            method=of.method,
            shape=of.shape,
            statistics=of.statistics,
            text=TEXT,
            session=f"{SESSION:.0f}s",
            format="json" if of.singles else "arrow",
            shards=of.shards,
            producer=ORDERED,
        )
        # when brokers took a record is what tells how late it is
        admin = AdminClient({"bootstrap.servers": boot, "log_level": 0})
        for topic in (self.topology.releases_topic, *self.changelogs):
            configure(admin, topic, "message.timestamp.type", "LogAppendTime")

    @property
    def name(self) -> str:
        """For whoever reads what was found."""
        return f"{self.kind} ({self.phase})"

    @property
    def edges(self) -> list[Worker]:
        """The workers that fold the raw log, oldest first."""
        return [worker for role, worker in self.workers if role == self.edge[0].name]

    def start(self, role: str) -> Worker:
        """One more worker."""
        log = self.tmp / f"{self.topology.name}-{role}-{next(self.numbers)}.log"
        worker = Worker(self.path, role, log)
        self.workers.append((role, worker))
        return worker

    def begin(self) -> None:
        """A worker of each role."""
        for role in self.topology.roles:
            self.start(role.name)

    def tell_to_end(self, worker: Worker) -> None:
        """In order; without waiting for it."""
        worker.terminate()
        self.workers.remove((worker.role, worker))
        self.ended.append(worker)

    def end(self, worker: Worker) -> None:
        """The same, its brokers being there."""
        self.tell_to_end(worker)
        code = worker.wait(60)
        assert code == 0, f"{worker} ended with {code} when it was told to: {worker.reasons}"

    def revive(self) -> None:
        self.ended += [worker for _, worker in self.workers if not worker.runs]
        super().revive()

    def close(self) -> None:
        self.workers += [(worker.role, worker) for worker in self.ended]
        super().close()
