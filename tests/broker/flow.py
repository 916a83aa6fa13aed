"""A topology on a real broker: its input, its workers, what may happen to them, and a judge who
recomputes everything from the input.
"""

from __future__ import annotations

import json
import random
import signal
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path

import numpy as np
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

import ldp_kafka as lk
from ldp_kafka.errors import BadRecord
from ldp_kafka.randomness import Ids
from ldp_kafka.records import Events, Tick
from ldp_kafka.runtime import local
from ldp_kafka.runtime.brokers.run_files import publish
from ldp_kafka.runtime.kafka import admin
from ldp_kafka.runtime.kafka.admin import extent
from ldp_kafka.runtime.kafka.client_options import reconnects
from ldp_kafka.runtime.kafka.deployment import read_deployment
from ldp_kafka.runtime.kafka.setup import client_config, prepare
from ldp_kafka.runtime.keys import EdgeNoise, edge_randomness, read_key
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.partitioning import partitions_of
from ldp_kafka.runtime.wire.codec import encode
from ldp_kafka.runtime.wire.parsing import parse_json
from ldp_kafka.runtime.wire.reports import read_reports
from ldp_kafka.topology import Topology
from tests.broker.forks import Life
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


def client(boot: str, **more: object) -> dict[str, object]:
    """Settings of a client that stays while brokers are away."""
    return {"bootstrap.servers": boot, "log_level": 0, **reconnects({}), **more}


LEADERLESS = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError._UNKNOWN_PARTITION,  # so a client says that has not heard yet who leads it
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TRANSPORT,
    KafkaError._DESTROY_BROKER,
    KafkaError._TIMED_OUT,
)
"""What is no answer, and passes."""
PATIENCE = 60.0  # seconds for brokers on a busy machine, beside how long one is asked


def watermarks(
    consumer: Consumer, place: TopicPartition, limit: float = 10.0, patience: float = PATIENCE
) -> tuple[int, int]:
    """Where a log begins and ends. A client that only asks goes on for ever with what it knew of a
    partition's leader while that was away: then it is told to look.
    """
    end = time.monotonic() + patience
    while True:
        try:
            return extent(consumer, place, limit)
        except KafkaException as error:
            if error.args[0].code() not in LEADERLESS or time.monotonic() > end:
                raise
        with suppress(KafkaException):
            consumer.list_topics(place.topic, timeout=limit)
        time.sleep(0.1)  # both may answer at once, and on a machine that has no time to lose


def users_of(topology: Topology, partition: int, users: int, prefix: str = "u") -> list[str]:
    """A partition's part of so many users; where workers verify it, they belong there."""
    source = topology.input
    dealt = range(partition, users, source.partitions)
    if source.partitioning != "murmur2":
        return [f"{prefix}{at}" for at in dealt]
    names = (f"{prefix}{at}" for at in count())
    home = (name for name in names if partitions_of([name], source.partitions)[0] == partition)
    return list(islice(home, len(dealt)))


@dataclass
class Verdict:
    """What the judge found; all zero but the counts is the promise."""

    reports: int = 0
    releases: int = 0
    second: int = 0
    """Reports seen with an id that was seen with other bytes; of a curator, releases with a key."""
    missing: int = 0
    different: int = 0
    """Reports that are not what the input gives."""
    releases_missing: int = 0
    releases_different: int = 0
    releases_moved: int = 0
    """Of a curator, whose releases have the order of the log: partitions where it is another."""
    exits: list = field(default_factory=list)

    @property
    def clean(self) -> bool:
        """None second, missing or different, and no worker that had to halt: 75 says "start me
        again".
        """
        wrong = (
            self.second
            or self.missing
            or self.different
            or self.releases_missing
            or self.releases_different
            or self.releases_moved
        )
        return not wrong and all(code in (0, 75) for _, code in self.exits)


class Reader:
    """A topic, read on and on from its beginning."""

    def __init__(self, boot: str, topic: str, first: int | None = 0) -> None:
        """From offset ``first`` on, or from where the log begins."""
        self.boot, self.topic = boot, topic
        self.found: list = []
        self.seen: dict[int, int] = {}
        self.consumer = self._client()
        self.partitions = sorted(
            self.consumer.list_topics(topic, timeout=10).topics[topic].partitions
        )
        self.seen = {p: self.ends(p)[0] if first is None else first for p in self.partitions}
        self._assign()

    def _client(self) -> Consumer:
        # A log that was cut before it could be read shows as an error, never as an empty topic.
        own = {
            "group.id": "judge",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            # what is asked waits behind a fetch: by default for half a second, each time
            "fetch.wait.max.ms": 100,
        }
        return Consumer(client(self.boot, **own))

    def _assign(self) -> None:
        places = [TopicPartition(self.topic, p, offset) for p, offset in self.seen.items()]
        self.consumer.assign(places)

    def ends(self, partition: int) -> tuple[int, int]:
        """The first offset of the log and the next one that it will give; asked again while its
        leader changes, by a client that knows nothing of a broker that was away.
        """
        place = TopicPartition(self.topic, partition)
        for attempt in range(10):
            try:
                return watermarks(self.consumer, place, patience=0)
            except KafkaException as error:
                if attempt == 9 or error.args[0].code() not in LEADERLESS:
                    raise
            time.sleep(0.5)
            self.consumer.close()
            self.consumer = self._client()
            self._assign()
        raise AssertionError("unreachable")

    def read(self, limit: float) -> list:
        """All records up to the present end, by partition and offset."""
        ends = {p: self.ends(p)[1] for p in self.partitions}
        until = time.time() + limit
        while any(self.seen[p] < ends[p] for p in self.partitions):
            if time.time() > until:
                raise TimeoutError(f"{self.topic}: read up to {self.seen} of {ends} in {limit:g} s")
            for message in self.consumer.consume(5000, 0.3):
                if message.error():
                    # of a broker that is away; what came with it is not to be thrown away
                    if message.error().code() in LEADERLESS:
                        continue
                    raise KafkaException(message.error())
                self.found.append(message)
                self.seen[message.partition()] = message.offset() + 1
        self.found.sort(key=lambda m: (m.partition(), m.offset()))
        return self.found


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
        patient = {"message.timeout.ms": 900_000, "linger.ms": 2, "log_level": 0}
        self.producer = Producer(client(boot, **patient))
        self.workers: list[tuple[str, Life]] = []
        self.exits: list[tuple[str, int]] = []
        self.readers: dict[str, Reader] = {}
        self.gone: dict[str, list] = {}  # by topic, records of one that a fault deleted
        # keys and values of records that a fault wrote in a worker's place
        self.forged: set[tuple[bytes, bytes]] = set()

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
        return local.run(
            self.topology,
            self.noise(),
            self.raw(),
            together=50,
        )

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

    def judge(self, expected: local.Run) -> Verdict:
        """Recompute every report and every release from the input and compare, id by id and byte by
        byte.
        """
        verdict = Verdict(exits=self.exits)
        self._judge_releases(expected, verdict)
        if self.topology.curated:
            return verdict
        truth: dict[str, tuple] = {}
        for partition in expected.reports:
            for record in partition:
                for report in read_reports(record.value).singles():
                    truth[report.id] = (report.slot, report.value, report.series)
        seen: dict[str, set] = defaultdict(set)
        for message in self.read(self.topology.reports_topic):
            batch = read_reports(message.value())
            for report in () if batch is None else batch.singles():
                seen[report.id].add((report.slot, report.value, report.series))
        verdict.reports = len(truth)
        verdict.second = sum(len(found) > 1 for found in seen.values())
        verdict.missing = len(truth.keys() - seen.keys())
        verdict.different = sum(found != {truth.get(name)} for name, found in seen.items())
        return verdict

    def _judge_releases(self, expected: local.Run, verdict: Verdict) -> None:
        wanted = {(record.key, record.value) for record in expected.releases}
        came = [
            (m.partition(), m.key(), m.value())
            for m in self.read(self.topology.releases_topic)
            if not header(m.value())
        ]
        released = {(key, value) for _, key, value in came}
        verdict.releases = len(wanted)
        verdict.releases_missing, verdict.releases_different = (
            len(wanted - released),
            len(released - wanted),
        )
        if self.topology.curated:
            verdict.second = len(released) - len({key for key, _ in released})
            verdict.releases_moved = moved(expected, came)


def moved(expected: local.Run, came: list[tuple[int, bytes, bytes]]) -> int:
    """In how many partitions the first copies of releases, given as (partition, key, value), lie in
    another order than they must. What is replayed is written again behind them.
    """
    wanted: dict[int, dict[bytes, None]] = defaultdict(dict)
    firsts: dict[int, dict[bytes, None]] = defaultdict(dict)
    for record in expected.releases:
        wanted[record.partition][record.key] = None
    for partition, key, _ in came:
        firsts[partition][key] = None
    return sum(list(wanted[number]) != list(firsts[number]) for number in wanted | firsts)


def configure(admin: AdminClient, topic: str, name: str, value: str | None) -> None:
    """Change a topic's setting, or take the change back."""
    entry = ConfigEntry(
        name,
        value,
        incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
    )
    for answer in admin.incremental_alter_configs(
        [ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])]
    ).values():
        answer.result(15)


def header(value: bytes) -> bool:
    try:
        return parse_json(value).get("type") == "header"
    except BadRecord:
        return False
