"""Topologies that go through an outage, each with its workers, its input and what it is doing when
the brokers go.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from confluent_kafka.admin import AdminClient

from tests.broker.asking import configure
from tests.broker.flow import Flow
from tests.broker.outages.worker import Worker

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


ORDERED = {"max.in.flight": 1, "message.timeout.ms": 0, "reconnect.backoff.max.ms": 200}
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


def flow_of(boot: str, tmp: Path, prefix: str, kind: str, phase: str) -> Flow:
    """A topology of this kind, with its topics."""
    of = KINDS[kind]
    made = Flow(
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
    for topic in (made.topology.releases_topic, *made.changelogs):
        configure(admin, topic, "message.timestamp.type", "LogAppendTime")
    return made


@dataclass
class Subject:
    """A topology, and what it is doing when the brokers go."""

    kind: str
    phase: str
    flow: Flow
    tmp: Path
    workers: list[Worker] = field(default_factory=list)
    ended: list[Worker] = field(default_factory=list)
    """Those that were told to, or that were started again."""
    fed: bool = True
    held: str = ""
    """What shows that it was in its phase."""

    @property
    def users(self) -> int:
        return KINDS[self.kind].users

    @property
    def singles(self) -> bool:
        return KINDS[self.kind].singles

    @property
    def edges(self) -> list[Worker]:
        """The workers that do, oldest first."""
        return [each for each in self.workers if each.role == self.flow.edge[0].name]

    @property
    def name(self) -> str:
        """For whoever reads what was found."""
        return f"{self.kind} ({self.phase})"

    def start(self, role: str) -> Worker:
        """One more worker."""
        number = len(self.workers) + len(self.ended)
        log = self.tmp / f"{self.flow.topology.name}-{role}-{number}.log"
        worker = Worker(self.flow.path, role, log)
        self.workers.append(worker)
        return worker

    def begin(self) -> None:
        """A worker of each role."""
        for role in self.flow.topology.roles:
            self.start(role.name)

    def tell_to_end(self, worker: Worker) -> None:
        """In order; without waiting for it."""
        worker.told = time.time()
        worker.process.terminate()
        self.workers.remove(worker)
        self.ended.append(worker)

    def end(self, worker: Worker) -> None:
        """The same, its brokers being there."""
        self.tell_to_end(worker)
        code = worker.process.wait(60)
        assert code == 0, f"{worker} ended with {code} when it was told to: {worker.ends}"

    def revive(self) -> None:
        """Start again who has ended by itself, as a supervisor does."""
        for worker in [each for each in self.workers if not each.runs]:
            self.workers.remove(worker)
            self.ended.append(worker)
            self.start(worker.role)

    def close(self) -> None:
        for worker in (*self.workers, *self.ended):
            if worker.runs:
                worker.process.kill()
                worker.process.wait()
