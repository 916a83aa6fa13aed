"""Lives of a device as processes of their own, each ended by SIGKILL at one of its system calls;
forked from here, so that none has to start anew.

``python -m tests.runtime.device.nursery FOLDER JOBS``, with `killer.c` preloaded: prints {fault:
where} and how many calls a life has, for each of the jobs: a list, as JSON, of a client, a cut, and
a fault at which it ends. A cut is

- ``killed``: the process dies before the call; what it wrote is there, synced or not
- ``halved``: half of what the call was to write is there as well
- ``power``: the machine goes down; of each file that is there which was synced last, and nothing
  else
- ``killed, then power``: it dies, and while the next life begins the machine goes down

A start that does nothing else leaves no older database that is accepted: tried after every life
that ended, with the one that there was before it.

A sound client is killed at every other call, and written halves of at the others; in the long run
both at all of them. The power ends at every call.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import shutil
import signal
import sqlite3
import sys
import tempfile
from collections import defaultdict
from contextlib import closing
from pathlib import Path
from unittest.mock import patch

import numpy as np

from ldp_kafka.errors import LdpKafkaError
from ldp_kafka.randomness import Ids
from ldp_kafka.runtime.device.client import Client
from ldp_kafka.runtime.device.counter import Counter
from ldp_kafka.runtime.device.queue import ReportQueue
from ldp_kafka.runtime.device.store import DeviceStore
from ldp_kafka.runtime.wire.parsing import parse_json
from tests.depth import depth
from tests.runtime.device.lives import FIRST, SLOT, TOPOLOGIES, client_of, loads, provisioned
from tests.runtime.device.test_client_crashes import ForgetsEarly, LeavesEarly

SLOTS = 4  # one more than a window
TOPOLOGY = loads(TOPOLOGIES["capp"])  # read once: every life begins as a fork


@client_of
class DrawsAgain(ReportQueue):
    """What goes out is drawn when it goes out: fresh noise in place of what the ledger was charged
    for.
    """

    def hand_over(self):
        held = self._store.payload

        def fresh(seq):
            name, message = held(seq)
            low, high = self._topology.method.index_range
            return (
                name,
                json.dumps(
                    parse_json(message)
                    | {
                        "index": (
                            int.from_bytes(os.urandom(4), "big") % int(high - low + 1) + int(low)
                        )
                    }
                ).encode(),
            )

        self._store.payload = fresh
        try:
            super().hand_over()
        finally:
            self._store.payload = held


class SyncsLater(Client):
    """The disk need not have the ledger when the report leaves."""

    def __init__(self, *given, **named):
        super().__init__(*given, **named)
        self._store._db.execute("PRAGMA synchronous=NORMAL")


class CountsEarly(Client):
    """A commit is counted before it is made."""

    def __init__(self, *given, **named):
        super().__init__(*given, **named)
        store = self._store
        commit = store.commit

        def early(*what):
            store._counter.count(store._commits + 1)
            return commit(*what)

        store.commit = early


class NeverCatchesUp(Client):
    """A commit that was not counted stays so, until there is another one."""

    def __init__(self, *given, **named):
        with patch.object(DeviceStore, "catch_up", lambda _: None):
            super().__init__(*given, **named)


class CatchesUpUnsynced(Client):
    """What was not counted is counted, synced or not."""

    def __init__(self, *given, **named):
        with patch.object(
            DeviceStore, "catch_up", lambda store: store._counter.count(store._commits)
        ):
            super().__init__(*given, **named)


KINDS = {
    kind.__name__: kind
    for kind in (
        *(Client, LeavesEarly, ForgetsEarly, DrawsAgain, SyncsLater, CountsEarly),
        *(NeverCatchesUp, CatchesUpUnsynced),
    )
}


class Broker:
    """What left the device and what arrived are files; it arrives with every other `poll`."""

    def __init__(self, world):
        self.left, self.log = (
            os.open(world / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            for name in ("left", "arrived")
        )
        self.flying, self.calls = [], 0

    def produce(self, topic, *, value, partition, on_delivery):
        os.write(self.left, b"\n" + value)
        self.flying.append((value, on_delivery))

    def poll(self, timeout):
        self.calls += 1
        while self.flying and self.calls % 2 == 0:
            value, told = self.flying.pop(0)
            os.write(self.log, b"\n" + value)
            told(None, None)


def lines(path):
    """What was written whole."""
    found = []
    for line in path.read_bytes().split(b"\n") if path.exists() else ():
        try:
            found.append((parse_json(line), line))
        except Exception:  # half a message is none
            continue
    return found


def sent(topology, world):
    """{slot: micro-epsilon that has left}, each different report counted."""
    spent, bodies = defaultdict(int), {line: found["slot"] for found, line in lines(world / "left")}
    for slot in bodies.values():
        spent[slot] += topology.method.spend
    return spent


def started(kind, device):
    """A client of a device."""
    disk = device / "disk"
    return kind(
        TOPOLOGY,
        user="m",
        database=disk / "m.db",
        key_file=disk / "m.key",
        producer=Broker(device / "world"),
        clock=lambda: (FIRST + 99) * SLOT,
    )


def live(kind, device, life):
    """One life: a value for each slot, another one than the life before had; 3 where the ledger
    holds less than what has left.
    """
    topology, rng = TOPOLOGY, np.random.default_rng(life)
    client = started(kind, device)
    spent = sent(topology, device / "world")
    if spent:
        state = client._load(client._randomness.digests(Ids.of(["m"])))
        last, run = int(state.columns["ring_end"][0]), topology.method.run
        held = (
            {last - back: int(state.columns["ring"][(last - back) % run, 0]) for back in range(run)}
            if last >= 0
            else {}
        )
        if max(spent) > last or any(spent[slot] > held[slot] for slot in spent if slot in held):
            return 3
    for slot in range(SLOTS):
        client.report(float(rng.uniform(0, 100)), (FIRST + slot) * SLOT)
    client.close(5)
    return 0


def commits(disk):
    """How many a database has; from a copy, so that nothing of it is touched."""
    with tempfile.TemporaryDirectory(dir=disk.parent) as folder:
        for name in ("m.db", "m.db-wal"):
            if (disk / name).exists():
                shutil.copy(disk / name, folder)
        with closing(sqlite3.connect(Path(folder, "m.db"))) as database:
            return abs(database.execute("SELECT number FROM commits").fetchone()[0])


def copied(folder, to):
    """A copy in place of the last one."""
    shutil.rmtree(to, ignore_errors=True)
    return shutil.copytree(folder, to)


def accepted(kind, device, older):
    """Whether an older disk's database alone is taken, after a start of a copy of this device."""
    again = copied(device, device.parent / "again" / "device")
    assert begin(kind, again) == 0
    for name in ("m.db", "m.db-wal"):
        (again / "disk" / name).unlink(missing_ok=True)
        if (older / name).exists():
            shutil.copy(older / name, again / "disk" / name)
    return begin(kind, again) == 0


def goes_on(kind, device, at):
    """Whether a device that was killed before its count goes on, wherever the power goes while it
    starts.
    """
    fork(kind, device, 0, at, False)
    disk = device / "disk"
    with closing(Counter(disk / "m.key.count")) as counter:
        counted = counter.least
    if counted == commits(disk):
        return True
    for call in range(1, 100):
        again = copied(device, device.parent / "again" / "device")
        if begin(kind, again, call) == 0:
            return call > 1
        power_cut(again / "disk", back=bool(call % 2))
        if begin(kind, again) != 0:
            return False
    raise AssertionError("a start without an end")


def begin(kind, device, at=0):
    """How a start ended that does nothing else: an exit code, or minus the signal."""
    child = os.fork()
    if not child:
        code = 4
        try:
            killer.arm(at, False)
            started(kind, device)._store.close()
            code = 0
        except LdpKafkaError:
            pass
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def fork(kind, device, life, at, halved):
    """How the life ended: an exit code, or minus the signal; and its calls."""
    child = os.fork()
    if not child:
        code = 4
        try:
            killer.arm(at, halved)
            code = live(kind, device, life)
            (device / "calls").write_text(str(killer.calls()))
        except LdpKafkaError as error:
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def power_cut(disk, *, back):
    """Of each file what was synced; a removal that was not synced has not reached the disk where
    ``back``.
    """
    for path in list(disk.iterdir()):
        whole = path.with_suffix("")
        if path.suffix == ".removed":
            if back and not whole.exists():
                shutil.copy(path, whole)
                path.replace(f"{whole}.synced")
            else:
                path.unlink()
        elif (
            path.suffix != ".synced" and path.name != "m.key"
        ):  # which was linked to its name when it was whole and synced
            kept = path.with_name(path.name + ".synced")
            path.write_bytes(kept.read_bytes() if kept.exists() else b"")


def anew(device):
    """A device that nobody has used."""
    shutil.rmtree(device, ignore_errors=True)
    for name in ("disk", "world"):
        (device / name).mkdir(parents=True)
    provisioned(TOPOLOGY, device / "disk")
    return device


def faults(kind, folder, at, cut):
    """What is wrong after a life that ended at its ``at``-th call, one that ended somewhere else,
    and one that was left in peace.
    """
    device, found = anew(folder / "device"), []
    if cut == "killed, then power":
        return [] if goes_on(kind, device, at) else ["it does not go on"]
    for life, end in enumerate((at, at * 7 % 97 + 1, 0)):
        older = copied(device / "disk", folder / "older")
        code = fork(kind, device, life, end, cut == "halved")
        if code == 3:
            return ["the ledger holds less than what has left"]
        if code not in (0, -signal.SIGKILL):
            return ["it does not go on"]
        if code and cut == "power":
            power_cut(device / "disk", back=bool(at % 2))
        if code and commits(device / "disk") > commits(older) and accepted(kind, device, older):
            return ["an older database is accepted"]
    topology, bodies = TOPOLOGY, defaultdict(set)
    for report, line in lines(device / "world" / "left"):
        bodies[report["id"]].add(line)
    if any(len(said) > 1 for said in bodies.values()):
        found.append("two different reports of one slot left the device")
    spent = sent(topology, device / "world")
    if any(
        sum(spent.get(slot + back, 0) for back in range(topology.method.run))
        > topology.method.ledger.budget
        for slot in list(spent)
    ):
        found.append("more than the budget left the device")
    if {report["slot"] - FIRST for report, _ in lines(device / "world" / "arrived")} != set(
        range(SLOTS)
    ):
        found.append("a report that was on the disk never arrived")
    return found


def everywhere(folder, name, cut, until):
    """The calls of a life, or until this is found."""
    kind, found = KINDS[name], defaultdict(list)
    device = anew(folder / "device")
    assert fork(kind, device, 0, 0, False) == 0
    calls = int((device / "calls").read_text())
    step = 1 if until != "nothing" or cut == "power" else depth(2, 1)
    for at in range(step if cut == "halved" else 1, calls + 1, step):
        for fault in faults(kind, folder, at, cut):
            found[fault].append(at)
        if until in found:
            break
    return found, calls


if __name__ == "__main__":
    killer = ctypes.CDLL(os.environ["LD_PRELOAD"])
    place = Path(sys.argv[1])
    # here, so that no fork has to import and compute it all again
    live(Client, anew(place / "warm"), 0)
    gc.disable()  # it would copy the pages that forks share
    print(json.dumps([everywhere(place, *job) for job in json.loads(sys.argv[2])]))
