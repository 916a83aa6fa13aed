"""Whatever stops a device, and when: never two reports of a slot, never more than the budget,
nothing lost that was on the disk.

A cut ends a life between two steps: SQL statements, hand-overs, deliveries. The disk is copied as
it is then, as the next life finds it after the process was killed. What a disk loses that was told
to sync and did not cannot be played here: that ``synchronous=FULL`` is in force is asserted in its
place.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from ldp_kafka.runtime.device.client import Client
from ldp_kafka.runtime.device.queue import ReportQueue
from ldp_kafka.runtime.wire.parsing import parse_json
from tests.depth import depth
from tests.runtime.device.lives import (
    FIRST,
    TOPOLOGIES,
    client_of,
    let_out,
    lives,
    loads,
    provisioned,
)


@client_of
class LeavesEarly(ReportQueue):
    """The report leaves before the transaction ends."""

    def commit(self, digest, state, reports):
        let_out(self, reports)
        return super().commit(digest, state, reports)


@client_of
class ForgetsEarly(ReportQueue):
    """The queue's row goes when the producer has the report, not when the broker has."""

    def hand_over(self):
        before = list(self.waiting)
        super().hand_over()
        self._store.forget(set(before) - set(self.waiting))


@client_of
class LedgerApart(ReportQueue):
    """The report is in one transaction, the ledger in the next."""

    def commit(self, digest, state, reports):
        before = self._store.state(digest)
        if before is None or not reports:
            return super().commit(digest, state, reports)
        super().commit(digest, before, reports)
        return super().commit(digest, state, [])


@client_of
class ReportApart(ReportQueue):
    """The ledger is in one transaction, the report in the next."""

    def commit(self, digest, state, reports):
        super().commit(digest, state, [])
        return super().commit(digest, state, reports)


def everywhere(kind, name, folder, monkeypatch, *, arrives, until=None):
    """One cut before each step of a life, or ``until`` this is found: what was found, and how many
    steps there are.
    """
    whole = folder / "whole"
    whole.mkdir()
    calm = lives(kind, name, whole, monkeypatch, [], arrives=arrives)
    found = defaultdict(list)
    for fault in calm.faults():
        found[fault].append(None)
    for at in range(1, calm.steps[0] + 1):
        here = folder / f"at{at}"
        here.mkdir()
        for fault in lives(kind, name, here, monkeypatch, [at], arrives=arrives).faults():
            found[fault].append(at)
        if until in found:
            break
    return dict(found), calm.steps[0]


@pytest.mark.parametrize("arrives", [False, True], ids=["what flies is lost", "what flies arrives"])
@pytest.mark.parametrize("name", depth(["capp"], ["sw_direct", "capp"]))
def test_a_cut_before_every_step(name, arrives, disk, monkeypatch):
    """All steps of a life, the making of the database among them."""
    found, cuts = everywhere(Client, name, disk, monkeypatch, arrives=arrives)
    assert not found
    assert cuts > 100


@pytest.mark.parametrize("name", sorted(TOPOLOGIES))
def test_many_cuts(name, disk, monkeypatch):
    """Lives that end soon, one after the other; every one tries with another value."""
    for seed in range(6):
        cuts = np.random.default_rng(seed).integers(1, 90, 8).tolist()
        here = disk / str(seed)
        here.mkdir()
        outcome = lives(Client, name, here, monkeypatch, cuts, arrives=bool(seed % 2), seed=seed)
        assert not outcome.faults()


@pytest.mark.parametrize(
    ("kind", "arrives", "fault"),
    [
        (LeavesEarly, False, "two different reports of one slot left the device"),
        (LeavesEarly, True, "more than the budget left the device"),
        (ForgetsEarly, False, "a report that was on the disk never arrived"),
        (LedgerApart, True, "two different reports of one slot left the device"),
        (LedgerApart, False, "more than the budget left the device"),
        (ReportApart, False, "a report that was on the disk never arrived"),
    ],
)
def test_a_broken_client_is_found(kind, arrives, fault, disk, monkeypatch):
    """By the same cuts."""
    found, _ = everywhere(kind, "sw_direct", disk, monkeypatch, arrives=arrives, until=fault)
    assert fault in found


LIFE = """
import os, sys
from tests.runtime.device.lives import FIRST, SLOT, TOPOLOGIES, loads
from ldp_kafka.runtime.device.client import Client

folder, last = sys.argv[1], int(sys.argv[2])
append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
left, told = (os.open(os.path.join(folder, name), append, 0o600) for name in ("left", "told"))

class Broker:
    flying, calls = [], 0

    def produce(self, topic, *, value, partition, on_delivery):
        os.write(left, value + b"\\n")
        self.flying.append(on_delivery)

    def poll(self, timeout):
        self.calls += 1
        if self.calls % 3 == 0 or last < 0:
            while self.flying:
                self.flying.pop(0)(None, None)

files = {"database": os.path.join(folder, "m.db"), "key_file": os.path.join(folder, "m.key")}
client = Client(loads(TOPOLOGIES["capp"]), user="m", producer=Broker(),
                clock=lambda: (FIRST + 10**6) * SLOT, **files)
slot = sum(1 for _ in open(os.path.join(folder, "told")))
while last < 0 or slot < last:
    status = client.report(os.getpid() * 7.31 % 100, (FIRST + slot) * SLOT)
    os.write(told, f"{status}\\n".encode())
    slot += 1
    if last < 0 and slot >= -last:
        break
client.close(5)
"""


def test_a_process_that_is_killed(tmp_path):
    """SIGKILL, several times, wherever it happens to be; each life has values of its own. The last
    ends well. (`test_client_kills.py` kills at every call.)
    """
    rng = np.random.default_rng()
    left = tmp_path / "left"
    provisioned(loads(TOPOLOGIES["capp"]), tmp_path)

    def start(last):
        root = Path(__file__).parents[3]
        return subprocess.Popen(
            [sys.executable, "-c", LIFE, str(tmp_path), str(last)],
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(root)},
        )

    kills = depth(2, 5)
    for _ in range(kills):
        size = left.stat().st_size if left.exists() else 0
        life, until = start(10**6), time.monotonic() + 60
        while not left.exists() or left.stat().st_size <= size:
            assert life.poll() is None and time.monotonic() < until
            time.sleep(0.005)
        time.sleep(rng.uniform(0, 0.2))
        life.send_signal(signal.SIGKILL)
        assert life.wait() == -signal.SIGKILL
    told = (tmp_path / "told").read_text().split()
    assert start(-(len(told) + 3)).wait(60) == 0
    told = (tmp_path / "told").read_text().split()
    bodies = defaultdict(set)
    for line in left.read_bytes().splitlines():
        bodies[parse_json(line)["slot"] - FIRST].add(line)
    assert {len(said) for said in bodies.values()} == {1}
    # all that was on the disk has left, and nothing else: late is what was there before the kill
    assert sorted(bodies) == list(range(len(told)))
    assert {json.loads(line)["bound"] for said in bodies.values() for line in said} == {-1}
    assert set(told) <= {"sent", "late"} and told.count("late") <= kills
