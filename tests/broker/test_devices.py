"""Devices without a raw topic, on a real broker: processes of their own are killed and started
anew, messages come twice, the broker goes away; a judge recomputes every report and release.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Producer

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.randomness import Ids
from ldp_kafka.records import Events, Tick
from ldp_kafka.runtime import local, roles
from ldp_kafka.runtime.device.client import Client
from ldp_kafka.runtime.kafka import admin
from ldp_kafka.runtime.kafka.admin import TopicSpec
from ldp_kafka.runtime.kafka.setup import prepare
from ldp_kafka.runtime.keys import edge_randomness, read_key
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.stages.collect_devices import partition_of
from ldp_kafka.runtime.wire.codec import encode
from ldp_kafka.runtime.wire.parsing import parse_json
from ldp_kafka.runtime.wire.reports import read_reports
from ldp_kafka.topology import load, loads
from tests.broker.asking import Reader
from tests.broker.cluster import Cluster
from tests.broker.watching import until

SLOT = 60_000
DEVICES, USERS, SLOTS = 4, 3, 30
TEXT = """
topology: {name}
kafka: {{bootstrap_servers: "{boot}", client: {{log_level: "0"}}}}
input: {{source: devices, slot: 60s, lateness: 1000, partitions: 2}}
privacy: {{method: capp, epsilon: 4.0, window: 3, domain: [0, 100]}}
output: {{statistics: [mean, per_user], shrinkage: {shrinkage}}}
runtime: {{snapshot_messages: 60, snapshot_seconds: 0.5, session_timeout: 6s}}
"""
DEPLOYMENT = "here"
LIFE = """
import json, os, sys
from ldp_kafka import Client

topology, folder, number, first, last, users, slot_ms = *sys.argv[1:4], *map(int, sys.argv[4:])
log = os.open(f"{folder}/{number}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
mine = f"{folder}/{number}"
client = Client(topology, database=f"{mine}.db", key_file=f"{mine}.key")
for slot in range(first, last):
    for user in range(users):
        name, value = f"d{number}u{user}", (os.getpid() * 7.31 + slot * 3 + user) % 100
        os.write(log, json.dumps([name, slot, value, "tried"]).encode() + b"\\n")
        status = client.report(value, slot * slot_ms, user=name)
        os.write(log, json.dumps([name, slot, value, status]).encode() + b"\\n")
        client.poll(0.001)
left = client.flush(40)
client.close(0)
sys.exit(left != 0)
"""


class Fleet:
    """Devices as processes, each with a folder's database, key and diary of what it tried."""

    def __init__(self, path: Path, folder: Path) -> None:
        self.path, self.folder, self.lives = path, folder, {}

    def provision(self, number: int) -> None:
        files = {
            "database": self.folder / f"{number}.db",
            "key_file": self.folder / f"{number}.key",
        }
        Client.provision(self.path, deployment=DEPLOYMENT, **files)

    def start(self, number: int, first: int, last: int) -> None:
        words = [
            sys.executable,
            "-c",
            LIFE,
            str(self.path),
            str(self.folder),
            str(number),
            str(first),
            str(last),
            str(USERS),
            str(SLOT),
        ]
        self.lives[number] = subprocess.Popen(words, cwd=Path(__file__).parents[2])

    def kill(self, number: int) -> None:
        life = self.lives[number]
        assert life.poll() is None, "it ended before it could be killed"
        life.send_signal(signal.SIGKILL)
        assert life.wait(10) == -signal.SIGKILL

    def diary(self, number: int) -> list:
        path = self.folder / f"{number}.log"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def until(self, number: int, slot: int) -> None:
        """It has come so far."""
        end = time.time() + 40
        while not any(at >= slot and status != "tried" for _, at, _, status in self.diary(number)):
            assert self.lives[number].poll() is None and time.time() < end
            time.sleep(0.02)

    def done(self) -> None:
        assert [life.wait(60) for life in self.lives.values()] == [0] * len(self.lives)

    def close(self) -> None:
        for life in self.lives.values():
            life.kill()
            life.wait()

    def events(self, number: int) -> list[tuple[str, int, float]]:
        """What took each slot: the value of the call that was told so, or, where the next life was
        too late, the one before it.
        """
        held: dict[tuple[str, int], float] = {}
        tried: dict[tuple[str, int], float] = {}
        for name, slot, value, status in self.diary(number):
            at = (name, slot)
            if status == "tried":
                before = tried.get(at)
                tried[at] = value
            elif status in ("sent", "queued"):
                assert at not in held
                held[at] = value
            else:
                assert status == "late"
                # written down at the very call before, in an earlier life
                held.setdefault(at, before)
        return [
            (name, slot, value)
            for (name, slot), value in sorted(held.items(), key=lambda item: item[0][1])
        ]


def expected(path: Path, fleet: Fleet) -> dict[str, bytes]:
    """{report id: message} from values and keys: by the edge's stage, whose reports a device's must
    be.
    """
    text = path.read_text().replace("source: devices, ", "")
    topology, found = loads(text), {}
    for number in range(DEVICES):
        log = [
            Message(
                at, -1, encode(Events(Ids.of([name]), np.array([slot * SLOT]), np.array([value])))
            )
            for at, (name, slot, value) in enumerate(fleet.events(number))
        ]
        key = read_key(fleet.folder / f"{number}.key")
        randomness = edge_randomness(topology, key, DEPLOYMENT)
        for record in local.run(topology, randomness, [log, []]).reports[0]:
            batch = read_reports(record.value)
            for report in batch.singles() if len(batch) else ():
                found[report.id] = (report.slot, report.value, report.series)
    return found


def said(value: bytes) -> tuple:
    [report] = read_reports(value).singles()
    return report.slot, report.value, report.series


def releases_of(topology, messages: list, ends: list[int]) -> set[bytes]:
    """The crowd's releases of these messages: each id once, in two partitions that close at
    ``ends``.
    """
    logs: dict[int, list[bytes]] = defaultdict(list)
    for _, value in sorted(messages, key=lambda item: item[0]):
        logs[partition_of(bytes.fromhex(parse_json(value)["id"]), 2)].append(value)
    partials: list[bytes] = []
    for number in range(2):
        values = [*logs[number], *(encode(Tick(end)) for end in ends)]
        stage = roles.make(topology, "collect", number)
        folded = stage.fold(
            stage.fresh(), [Message(at, -1, value) for at, value in enumerate(values)]
        )
        partials += [
            record.value for record in folded.records if record.topic == topology.partials_topic
        ]
    merge = roles.make(topology, "merge", 0)
    made = merge.fold(
        merge.fresh(), [Message(at, -1, value) for at, value in enumerate(partials)]
    ).records
    return {record.value for record in made if json.loads(record.value)["reports"]}


def ended(process: subprocess.Popen) -> int | None:
    """The exit code of one that was told to end; None where it has not after half a minute."""
    try:
        return process.wait(30)
    except subprocess.TimeoutExpired:
        return None


def test_devices_on_kafka(can_start, tmp_path, prefix):
    """Every report is what values and keys give, one a slot whatever was killed; every release is
    the sum of them, whatever came twice.
    """
    begin = time.time()
    cluster = Cluster(tmp_path / "kafka")
    boot = cluster.boot
    path, folder = tmp_path / "devices.yaml", tmp_path / "homes"
    folder.mkdir()
    log = (tmp_path / "collector.log").open("ab")
    fleet, collector, reader = Fleet(path, folder), None, None
    try:
        path.write_text(TEXT.format(name=prefix, boot=boot, shrinkage="false"))
        topology = load(path)
        collector = subprocess.Popen(
            [sys.executable, "-m", "ldp_kafka", "run", str(path)],
            stdout=log,
            stderr=log,
            cwd=Path(__file__).parents[2],
        )
        for number in range(DEVICES):
            fleet.provision(number)
        for number in range(DEVICES):  # devices need no topics to begin: what they have waits
            fleet.start(number, (first := int(begin * 1000) // SLOT - 4 * 1440), first + SLOTS)
        for number in range(2):
            fleet.until(number, first + 5 * (number + 1))
            fleet.kill(number)
            fleet.start(number, first, first + SLOTS)
        fleet.done()
        until(lambda: admin.partitions_of({"bootstrap.servers": boot}, topology.reports_topic) == 2)
        again = Reader(boot, topology.reports_topic)
        producer, once = Producer({"bootstrap.servers": boot}), again.read(20)
        for message in once[::3]:
            # the network's own repetitions
            producer.produce(message.topic(), message.value(), partition=message.partition())
        # the last message may be a header: of one who began anew, and had nothing left to send
        last = [m for m in once if parse_json(m.value())["type"] == "report"][-1]
        wrong = json.dumps(parse_json(last.value()) | {"fingerprint": "0" * 32}).encode()
        producer.produce(last.topic(), wrong, partition=last.partition())
        ends = [(first + SLOTS + 1001) * SLOT]
        for number in range(2):
            producer.produce(topology.reports_topic, encode(Tick(ends[0])), partition=number)
        assert producer.flush(20) == 0

        # The broker goes, devices report on, and some of them die with what they could not send
        first += 1100
        reader = Reader(boot, topology.releases_topic, 0)
        until(lambda: len([m for m in reader.read(20) if b'"mean"' in m.value()]) >= SLOTS)
        cluster.end(signal.SIGTERM)
        for number in range(DEVICES):
            fleet.start(number, first, first + SLOTS)
        for number in range(2):
            fleet.until(number, first + 10)
            fleet.kill(number)
        fleet.until(3, first + SLOTS - 1)
        cluster.start()
        for number in range(2):
            fleet.start(number, first, first + SLOTS)
        fleet.done()
        ends.append((first + SLOTS + 1001) * SLOT)
        for number in range(2):
            producer.produce(topology.reports_topic, encode(Tick(ends[1])), partition=number)
        assert producer.flush(20) == 0

        reports = expected(path, fleet)
        assert len(reports) == DEVICES * USERS * SLOTS * 2
        again = Reader(boot, topology.reports_topic)
        messages = [
            m
            for m in again.read(20)
            if parse_json(m.value())["type"] == "report" and m.value() != wrong
        ]
        assert {m.timestamp()[0] for m in messages} == {TIMESTAMP_LOG_APPEND_TIME}
        bodies = defaultdict(set)
        for m in messages:
            bodies[parse_json(m.value())["id"]].add(m.value())
        assert {len(values) for values in bodies.values()} == {1}, (
            "two different reports of one slot"
        )
        single = {name: next(iter(values)) for name, values in bodies.items()}
        assert {name: said(value) for name, value in single.items()} == reports
        assert len(messages) > len(reports)
        wanted = releases_of(
            topology, [(reports[name][0], value) for name, value in single.items()], ends
        )

        def means() -> set[bytes]:
            return {
                m.value()
                for m in reader.read(20)
                if b'"mean"' in m.value() and json.loads(m.value())["reports"]
            }

        until(lambda: len(means()) >= len(wanted))
        assert means() == wanted
        assert [json.loads(value)["reports"] for value in wanted] == [DEVICES * USERS] * 2 * SLOTS
        users = [json.loads(m.value()) for m in reader.read(20) if b'"per_user"' in m.value()]
        assert len({(one["user"], one["slot"]) for one in users}) == len(reports)
        assert len({one["user"] for one in users}) == DEVICES * USERS
        # nobody has waited for it yet
        sorting = Reader(boot, topology.collector_dead_letters_topic)
        until(lambda: bool(sorting.read(20)))
        letters = [json.loads(m.value()) for m in sorting.read(20)]
        assert {letter["reason"] for letter in letters} == {"fingerprint"}
        address = re.findall(
            r"collect: metrics at (http\S+)", (tmp_path / "collector.log").read_text()
        )[-1]
        with urllib.request.urlopen(address, timeout=5) as answer:
            shown = answer.read().decode()
        assert re.search(r'ldp_second_reports_total\{[^}]*role="collect"[^}]*\} 0\.0', shown)
        assert "perturb" not in (tmp_path / "collector.log").read_text()
        collector.send_signal(signal.SIGTERM)
        assert ended(collector) == 0, (tmp_path / "collector.log").read_text()[-4000:]
    finally:
        fleet.close()
        if collector is not None and collector.poll() is None:
            collector.kill()
            collector.wait()
        cluster.close()
        log.close()
    print(
        f"{len(messages)} messages, {len(reports)} reports, {len(wanted)} releases of the crowd in"
        f" {time.time() - begin:.0f} s"
    )


def test_the_topic_must_have_the_brokers_clock(kafka, tmp_path, prefix):
    """Else any device could close every slot."""
    topology = loads(TEXT.format(name=prefix, boot=kafka, shrinkage="true"))
    config = {"bootstrap.servers": kafka}
    admin.ensure(config, [TopicSpec(topology.reports_topic, 2)])
    with pytest.raises(
        ConfigurationError,
        match=r"must have message\.timestamp\.type=LogAppendTime, found CreateTime",
    ):
        prepare(topology)
    other = loads(TEXT.format(name=f"{prefix}-2", boot=kafka, shrinkage="true"))
    assert any("device-reports partition 1" in line for line in prepare(other))
    assert prepare(other) == []
    names = {topic.name for topic in other.topics()}
    assert not [
        name
        for name in names
        if name.endswith((".raw", ".reports", "perturb-changelog")) or "-perturb" in name
    ]
