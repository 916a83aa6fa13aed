"""A device, its disk and its broker, all of which can stop between any two steps; and what must
hold whatever stopped.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path

import numpy as np

from ldp_kafka.errors import StateError
from ldp_kafka.runtime.device import store
from ldp_kafka.runtime.device.client import Client, Status
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.stages.collect_devices import make_collect_devices
from ldp_kafka.runtime.wire.parsing import parse_json
from ldp_kafka.runtime.wire.reports import read_reports
from ldp_kafka.topology import loader

ROOT = str(Path(__file__).parents[3])
loads = cache(loader.loads)
# a sync costs nothing there, and a process that is killed leaves the same behind
MEMORY = Path("/dev/shm")
SLOT = 60_000
FIRST = 1_700_000_040_000 // SLOT
TEXT = """
topology: d
input: {source: devices, slot: 60s, lateness: 1000, partitions: 2}
privacy: {method: %s, %s, epsilon: 3.0, window: 3}
output: {statistics: [%s]}
"""
TOPOLOGIES = {
    "sw_direct": TEXT % ("sw_direct", "domain: [0, 100]", "mean"),
    "capp": TEXT % ("capp", "domain: [0, 100]", "per_user"),
    "lpu": TEXT % ("lpu", "mechanism: grr, categories: 5", "frequencies"),
    "oue": TEXT % ("lpu", "mechanism: oue, categories: 40", "frequencies"),
}


@cache
def collector(name, topology, partition):
    """Made once: how releases per user are read is worked out from the method's law."""
    return make_collect_devices(topology, partition)


class Cut(BaseException):
    """The power is gone: no handler of anything must matter from here on."""


class Plan:
    """Counts the steps of a life, and ends it before the ``at``-th."""

    def __init__(self, at=None):
        self.at, self.steps, self.over, self.cut = at, 0, False, lambda: None

    def step(self):
        if self.over:
            raise Cut  # whatever is tried after the end does not happen
        self.steps += 1
        if self.steps == self.at:
            self.over = True
            self.cut()
            raise Cut


class Broker:
    """A producer and the broker behind it: what was handed over has left; it arrives, and is
    acknowledged, in `poll`.
    """

    def __init__(self, plan=None):
        self.plan = plan or Plan()
        self.left = []  # (partition, bytes): all that ever left the device
        self.log = defaultdict(list)  # of each partition
        self.flying = []
        self.full = self.down = False

    def produce(self, topic, *, value, partition, on_delivery):
        assert topic == "d.device-reports"
        if self.full:
            raise BufferError
        self.plan.step()
        self.left.append((partition, value))
        self.flying.append((partition, value, on_delivery))
        self.plan.step()

    def poll(self, timeout):
        self.plan.step()
        if self.down:
            return
        while self.flying:
            partition, value, told = self.flying[0]
            self.log[partition].append(value)
            self.plan.step()  # it arrived, and nobody knows
            self.flying.pop(0)
            told(None, None)
            self.plan.step()

    def reborn(self, plan, *, arrives):
        """The next life's producer: what was on its way has arrived, or is lost."""
        for partition, value, _ in self.flying if arrives else ():
            self.log[partition].append(value)
        self.flying, self.plan = [], plan


def in_a_process(life, folder):
    """Run a program that must end well; it is given the folder."""
    done = subprocess.run(
        [sys.executable, "-c", life, str(folder)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": ROOT},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def connection(plan):
    """SQLite's connection, each statement a step before and a step after. It does not sync: no cut
    that is played here could tell, and a slow disk would take minutes.
    """

    class Faulty(sqlite3.Connection):
        def execute(self, statement, parameters=()):
            plan.step()
            found = super().execute(
                "PRAGMA synchronous=OFF" if statement == "PRAGMA synchronous=FULL" else statement,
                parameters,
            )
            plan.step()
            return found

    return Faulty


def lived(kind, topology, folder, monkeypatch, cuts, live, *, broker, arrives, slots):
    """A device in ``slots`` after the first, over as many lives as there are cuts and one more.
    Each is a ``live(client)``, which goes on where the last was cut. How many steps each had, and
    whether the database refused what it found: then it does not go on.
    """
    steps, place = [], folder / "0"
    place.mkdir()
    provisioned(topology, place)
    for life, at in enumerate([*cuts, None]):
        plan, after = Plan(at), folder / str(life + 1)
        # the disk as it is at that moment
        plan.cut = lambda place=place, after=after: shutil.copytree(place, after)
        broker.reborn(plan, arrives=arrives)
        faulty = connection(plan)
        monkeypatch.setattr(
            store,
            "_connect",
            lambda path, faulty=faulty: sqlite3.connect(
                path, isolation_level=None, check_same_thread=False, factory=faulty
            ),
        )
        client = None
        try:
            client = kind(
                topology,
                user="m",
                database=place / "m.db",
                key_file=place / "m.key",
                producer=broker,
                clock=lambda: (FIRST + slots) * SLOT,
            )
            live(client)
        except StateError:
            return steps, True
        except Cut:
            assert at is not None
            if client is not None:
                sqlite3.Connection.close(client._store._db)
        steps.append(plan.steps)
        place = after if plan.over else place
    return steps, False


def lives(kind, name, folder, monkeypatch, cuts, *, arrives, slots=6, seed=0):
    """A device that reports a value a slot, over lives as above; each life after the first tries
    its slot again with another value.
    """
    topology, broker, rng = loads(TOPOLOGIES[name]), Broker(), np.random.default_rng(seed)
    statuses, slot = {}, 0

    def live(client):
        nonlocal slot
        while slot < slots:
            broker.down = slot % 3 == 1  # what goes out then is acknowledged later
            value = int(rng.integers(5)) if name in ("lpu", "oue") else float(rng.uniform(-10, 110))
            statuses[slot] = client.report(value, (FIRST + slot) * SLOT)
            slot += 1
        broker.down = False
        client.close(1)

    steps, halted = lived(
        *(kind, topology, folder, monkeypatch, cuts, live),
        broker=broker,
        arrives=arrives,
        slots=99,
    )
    # halted: a fault, unless something else comes first
    return Outcome(topology, broker, statuses, steps, halted=halted)


class Outcome:
    """What came of a device's lives."""

    def __init__(self, topology, broker, statuses, steps, *, halted=False):
        self.topology, self.broker, self.statuses, self.steps, self.halted = (
            topology,
            broker,
            statuses,
            steps,
            halted,
        )

    def faults(self):
        """Everything that must not be, in words; empty where all is well."""
        method, found = self.topology.method, []
        bodies = defaultdict(set)
        for _, value in self.broker.left:
            bodies[parse_json(value)["id"]].add(value)
        if self.halted:
            found.append("the database refused what came")
        if any(len(said) > 1 for said in bodies.values()):
            found.append("two different reports of one slot left the device")
        spent = defaultdict(int)
        for said in bodies.values():
            for value in said:
                spent[parse_json(value)["slot"]] += method.spend
        if any(
            sum(spent[slot + back] for back in range(method.run)) > method.ledger.budget
            for slot in list(spent)
        ):
            found.append("more than the budget left the device")
        arrived = {
            parse_json(value)["slot"] - FIRST
            for values in self.broker.log.values()
            for value in values
        }
        expected = {
            slot for slot, status in self.statuses.items() if status in (Status.SENT, Status.QUEUED)
        }
        # tried again after a cut: it was committed then
        late = {slot for slot, status in self.statuses.items() if status is Status.LATE}
        silent = {slot for slot, status in self.statuses.items() if status is Status.SILENT}
        if not expected <= arrived or (not silent and not late <= arrived):
            found.append("a report that was on the disk never arrived")
        if not arrived <= expected | late:
            found.append("a report arrived that nobody made")
        counted = 0
        for partition, values in self.broker.log.items():
            stage = collector(self.topology.privacy.method, self.topology, partition)
            counts = stage.fold(
                stage.fresh(), [Message(at, -1, value) for at, value in enumerate(values)]
            ).counts
            counted += counts["reports"]
            if counts["second_reports"] or any(name.startswith("dead") for name in counts):
                found.append("the collector raises the alarm")
        if counted != len(arrived):
            found.append("a report counted twice, or not at all")
        assert all(read_reports(value).bound == -1 for _, value in self.broker.left)
        return found


def provisioned(topology, folder):
    """A folder that has the files of a new device."""
    Client.provision(
        topology, database=folder / "m.db", key_file=folder / "m.key", deployment="here"
    )
    return folder


def opened(folder, text=TOPOLOGIES["sw_direct"], **options):
    """A client in a folder, which is a new device's where nothing is in it, with a broker of its
    own unless one is given.
    """
    folder = Path(folder)
    if not list(folder.iterdir()):
        provisioned(loads(text), folder)
    given = {
        "user": "m",
        "database": folder / "m.db",
        "key_file": folder / "m.key",
        "producer": Broker(),
        "clock": lambda: (FIRST + 99) * SLOT,
    }
    return Client(loads(text), **given | options)


def client_of(queue):
    """A client whose queue is of this kind, under its name."""

    class Broken(Client):
        def __init__(self, *given, **named):
            super().__init__(*given, **named)
            self._queue.__class__ = queue

    Broken.__name__ = queue.__name__
    return Broken


def let_out(queue, reports):
    """Hand reports to the producer, whatever is on the disk: what broken queues do."""
    for _, message in reports:
        queue._producer.produce(
            queue._topology.reports_topic,
            value=message,
            partition=0,
            on_delivery=lambda *_: None,
        )
