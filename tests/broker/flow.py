"""A topology on a real broker: its input, its workers, and what may happen to them."""

from __future__ import annotations

import json
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count, islice
from pathlib import Path
from types import MappingProxyType
from typing import Self

import numpy as np
from confluent_kafka import Producer, TopicPartition

import ldp_kafka as lk
from ldp_kafka.randomness import Ids
from ldp_kafka.records import Events, Tick
from ldp_kafka.runtime import local
from ldp_kafka.runtime.brokers.run_files import publish
from ldp_kafka.runtime.kafka import admin
from ldp_kafka.runtime.kafka.deployment import read_deployment
from ldp_kafka.runtime.kafka.setup import client_config, prepare
from ldp_kafka.runtime.keys import EdgeNoise, edge_randomness, read_key
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.partitioning import partitions_of
from ldp_kafka.runtime.wire.codec import encode
from ldp_kafka.topology import Topology
from ldp_kafka.topology.roles import Agent, Role
from tests.broker.asking import Log, Reader, client
from tests.broker.forks import Life
from tests.broker.judge.verdict import Verdict, compared
from tests.broker.watching import until
from tests.keys import KEY

SLOT = 60_000
START = 1_700_000_040_000 // SLOT  # the first slot

TEXT = """
topology: {name}
kafka:
  bootstrap_servers: {boot}
input:
  partitions: {partitions}
  format: json
  slot: 60s
  lateness: 1
  closing: events
privacy:
  method: {method}
  {shape}
  epsilon: 4.0
  window: 3
output:
  statistics: [{statistics}]
edge:
  key_file: {key}
runtime:
  snapshot_messages: 60
  snapshot_seconds: 0.5
  shards: 4
  session_timeout: {session}
"""


def users_of(topology: Topology, partition: int, users: int, prefix: str = "u") -> list[str]:
    """A partition's part of so many users; where workers verify it, they belong there."""
    source = topology.input
    dealt = range(partition, users, source.partitions)
    if source.partitioning != "murmur2":
        return [f"{prefix}{at}" for at in dealt]
    names = (f"{prefix}{at}" for at in count())
    home = (name for name in names if partitions_of([name], source.partitions)[0] == partition)
    return list(islice(home, len(dealt)))


class Flow:
    """One topology under test."""

    def __init__(
        self,
        boot: str,
        tmp: Path,
        name: str,
        *,
        method="capp",
        shape="domain: [0.0, 100.0]",
        statistics="mean, per_user",
        partitions=2,
        session="6s",
        text=TEXT,
        embedded=None,
        ready=prepare,
        producer=MappingProxyType({}),
        **more,
    ) -> None:
        key = tmp / f"{name}.key"
        key.write_bytes(KEY)
        key.chmod(0o600)
        self.path = tmp / f"{name}.yaml"
        self.path.write_text(
            text.format(
                name=name,
                boot="embedded" if embedded else boot,
                method=method,
                shape=shape,
                **more,
                statistics=statistics,
                partitions=partitions,
                key=key,
                session=session,
            )
        )
        self.topology = lk.load_topology(self.path)
        self.boot, self.log_path = boot, tmp / f"{name}.log"
        if embedded is not None:
            publish(name, embedded)
        ready(self.topology, embedded)
        config = client_config(self.topology, "edge")
        begins = None if self.topology.flow.raw else self.topology.reports_topic
        self.deployment = read_deployment(self.topology, config, begins)
        self.log = self.log_path.open("ab")
        # it waits for its broker for longer than any outage lasts
        patient = {"message.timeout.ms": 900_000, "linger.ms": 2, **producer}
        self.producer = Producer(client(boot, **patient))
        self.workers: list[tuple[str, Life]] = []
        self.exits: list[tuple[str, int]] = []
        self.readers: dict[str, Reader] = {}
        self.gone: dict[str, list] = {}  # by topic, records of one that a fault deleted
        # keys and values of records that a fault wrote in a worker's place
        self.forged: set[tuple[bytes, bytes]] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def edge(self) -> tuple[Role, Agent]:
        """Who folds the raw log: the edge, or a curator."""
        return self.topology.reader(self.topology.raw_topic)

    @property
    def changelogs(self) -> list[str]:
        return [role.changelog(agent.name) for role, agent in self.topology.flow.readers()]

    @property
    def groups(self) -> list[str]:
        """Those of its workers, forwarders too."""
        roles = self.topology.roles
        return [role.group for role in roles] + [r.forward.group for r in roles if r.forward]

    @property
    def raw_log(self) -> list[Log]:
        """What the edge, or a curator, folds."""
        role, agent = self.edge
        return [(role.group, TopicPartition(agent.topic, p)) for p in range(agent.partitions)]

    @property
    def logs(self) -> list[Log]:
        """All that its agents fold, and that is forwarded."""
        found: list[Log] = []
        for role in self.topology.roles:
            for agent in role.agents:
                places = [TopicPartition(agent.topic, p) for p in range(agent.partitions)]
                found += [(role.group, place) for place in places]
            if role.forward is not None:
                found.append((role.forward.group, TopicPartition(role.forward.reads.name, 0)))
        return found

    # -- input
    # ------------------------------------------------------------

    def put(self, partition: int, value: bytes) -> None:
        self.producer.produce(self.topology.raw_topic, value=value, partition=partition)
        self.producer.poll(0)

    def slot(
        self,
        rnd: random.Random,
        t: int,
        users: int,
        *,
        idle: range = range(0),
        late: float = 0.05,
        tick: bool = True,
    ) -> None:
        """One slot of events: users by partition, shuffled, some late by up to four slots, in small
        Arrow batches and single JSON records, and a tick in each partition.
        """
        partitions = self.topology.input.partitions
        for partition in range(partitions):
            if partition == 1 and t in idle:
                mine = []
            else:
                mine = [
                    (
                        user,
                        max(0, t - rnd.choice([1, 1, 2, 4])) if rnd.random() < late else t,
                        self.value(rnd),
                    )
                    for user in users_of(self.topology, partition, users)
                ]
            rnd.shuffle(mine)
            for at in range(0, len(mine), 10):
                part = mine[at : at + 10]
                times = [(START + s) * SLOT + rnd.randrange(SLOT) for _, s, _ in part]
                if at % 50 == 0:
                    for (user, _, value), ms in zip(part, times, strict=True):
                        self.put(
                            partition,
                            json.dumps({"user": user, "value": value, "time": ms}).encode(),
                        )
                else:
                    self.put(
                        partition,
                        encode(
                            Events(
                                Ids.of([user for user, _, _ in part]),
                                np.array(times),
                                np.array([value for _, _, value in part]),
                            )
                        ),
                    )
            if tick:
                self.put(partition, encode(Tick((START + t) * SLOT)))
        self.producer.flush(10)

    def value(self, rnd: random.Random):
        return (
            rnd.randrange(self.topology.privacy.categories)
            if self.topology.privacy.categories
            else float(rnd.randrange(100))
        )

    def finish(self, t: int) -> None:
        """Ticks that close everything."""
        for partition in range(self.topology.input.partitions):
            self.put(partition, encode(Tick((START + t + 5) * SLOT)))
        self.producer.flush(10)

    # -- workers
    # ------------------------------------------------------------

    def start(self, role: str) -> Life:
        process = Life(["run", str(self.path), "--role", role], self.log_path)
        self.workers.append((role, process))
        return process

    def kill(self, at: int, number: int = signal.SIGKILL) -> str:
        """End one worker; its role."""
        role, process = self.workers.pop(at)
        process.send_signal(number)
        process.wait(30)
        return role

    def revive(self) -> None:
        """Start again what ended by itself: a supervisor's work."""
        for role, process in list(self.workers):
            if process.poll() is not None:
                self.exits.append((role, process.returncode))
                self.workers.remove((role, process))
                self.start(role)

    def stop(self) -> None:
        """End all workers gracefully: each must leave its group and exit 0."""
        for _, process in self.workers:
            process.terminate()
        codes = [process.wait(30) for _, process in self.workers]
        self.workers.clear()
        assert set(codes) == {0}, codes

    def close(self) -> None:
        for _, process in self.workers:
            process.kill()
            process.wait()
        self.workers.clear()
        for reader in self.readers.values():
            reader.consumer.close()
        self.log.close()

    def noise(self) -> EdgeNoise:
        """What the workers draw from, under the key that the file has now."""
        key = read_key(self.topology.edge.key_file)
        return edge_randomness(self.topology, key, self.deployment)

    # -- the judge
    # ------------------------------------------------------------

    def read(self, topic: str, limit: float = 20.0) -> list:
        """Everything ever seen in a topic, by partition and offset; raises where its end is not
        reached.

        Each call reads on from where the last one stopped: the embedded broker drops what is older
        than its last 5 MiB, so `wait` follows as the workers write.
        """
        if topic not in self.readers:
            self.readers[topic] = Reader(self.boot, topic)
        return self.readers[topic].read(limit)

    def raw(self) -> list[list[Message]]:
        """The raw log as it lies at the broker."""
        out: list[list[Message]] = [[] for _ in range(self.topology.input.partitions)]
        for m in self.read(self.topology.raw_topic):
            out[m.partition()].append(Message(m.offset(), m.timestamp()[1], m.value()))
        return out

    def expected(self) -> local.Run:
        return local.run(self.topology, self.noise(), self.raw(), together=50)

    def until_acknowledged(self) -> None:
        """Until whoever folds the raw log has acknowledged all of it."""
        role, agent = self.edge
        place = role.group, agent.topic, range(agent.partitions)
        until(lambda: not sum(admin.lag({"bootstrap.servers": self.boot}, *place).values()))

    def wait(self, expected: local.Run, limit: float = 60.0) -> None:
        """Until every expected release has been written and every group has acknowledged its whole
        log.
        """
        want, until = {record.value for record in expected.releases}, time.time() + limit
        topology = self.topology
        while time.time() < until:
            self.revive()
            config = {"bootstrap.servers": self.boot}
            left = sum(
                sum(admin.lag(config, role.group, agent.topic, range(agent.partitions)).values())
                for role, agent in topology.flow.readers()
                if role.name != "coordinate"
            )
            released = {m.value() for m in self.read(topology.releases_topic)}
            self.read(topology.answers_topic)
            if not left and want <= released:
                return
            time.sleep(0.5)

    def settled(self, limit: float = 90.0) -> Verdict:
        """Wait for all that must come of the raw log as it lies; what the judge says of it."""
        expected = self.expected()
        self.wait(expected, limit)
        return self.judge(expected)

    def judge(self, expected: local.Run) -> Verdict:
        """Every report and every release against those that were expected."""
        verdict = Verdict(exits=self.exits)
        compared(self, expected, verdict)
        verdict.wrong = +verdict.wrong
        return verdict


@contextmanager
def load(flow: Flow, users: int = 60) -> Iterator[list[int]]:
    """Slot after slot, meanwhile; gives how many there were."""
    over, rnd, slots = threading.Event(), random.Random(3), list[int]()

    def put() -> None:
        while not over.wait(0.3):
            flow.slot(rnd, len(slots), users)
            slots.append(1)

    thread = threading.Thread(target=put, daemon=True)
    thread.start()
    yield slots
    over.set()
    thread.join(30)
