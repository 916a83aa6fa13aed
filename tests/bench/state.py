"""What the state of many users costs: memory by user, and the time to have it back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

import numpy as np

from ldp_kafka.runtime.kafka.setup import prepare
from ldp_kafka.topology import Topology
from tests.bench import inputs
from tests.bench.broker import Topics
from tests.bench.measure import Figure, cores, line, pin, say
from tests.bench.subject import ROOT, spawn, stop

USERS, SHARDS, ROUNDS = (100_000, 300_000, 1_000_000), 512, 7
HELD = (*USERS, 3_000_000)
QUICK = (10_000, 30_000, 100_000)
WHAT = "start to first report, less the same without a state"


def memory(*, quick: bool = False) -> list[Figure]:
    """A process for each number of users; the least-squares line through them: of what it holds,
    and of how long its table takes to load.
    """
    counts, found = QUICK if quick else HELD, []
    for users in counts:
        made = subprocess.run(
            [sys.executable, "-m", "tests.bench.memory", str(users), str(SHARDS)],
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        )
        found.append(json.loads(made.stdout.splitlines()[-1]))
        say(
            f"state: {users:,} users: {found[-1]['rss'] / 2**20:.0f} MiB, of which the table"
            f" {found[-1]['table'] / 2**20:.0f} MiB, loaded in"
            f" {np.median(found[-1]['loads']):.3f} s"
        )
    slope, off = line(counts, sizes := [each["rss"] for each in found])
    each = ", ".join(
        f"{users:,}: {rss / users:.0f}" for users, rss in zip(counts, sizes, strict=True)
    )
    pace, bent = line(counts, [float(np.median(one["loads"])) for one in found])
    return [
        Figure(
            "state",
            "RSS, arrays and table, slope",
            "bytes/user",
            (slope,),
            note=f"bytes a user at {each}",
        ),
        Figure(
            "state",
            "its furthest point from the line",
            "%",
            (off,),
            note="of the largest; arrays grow by doubling",
        ),
        Figure(
            "state",
            "of which the table's values",
            "bytes/user",
            (found[-1]["table"] / counts[-1],),
            note=f"largest record {found[-1]['largest'] / 1024:.0f} KiB",
        ),
        *(
            Figure(
                "state",
                f"load of {users:,} users",
                "s",
                tuple(one["loads"]),
                note="a new owner over its table, without the broker",
            )
            for users, one in zip(counts, found, strict=True)
        ),
        Figure("state", "slope of the loads", "s/million users", (1e6 * pace,)),
        Figure("state", "their furthest point from the line", "%", (bent,), note="of the largest"),
    ]


def cpu(pid: int) -> float:
    """Seconds of CPU that a process has had, its threads' with them."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Recovery:
    """The same worker twice: over a state, and over none."""

    def __init__(self, boot: str, folder: Path) -> None:
        self.topics, self.folder = Topics(boot), folder
        self.prefix = f"bench-{uuid.uuid4().hex[:8]}"

    def topology(self, label: str) -> tuple[Path, Topology]:
        raw = self.topics.create(f"{self.prefix}-{label}.raw")
        # messages are counted: one for each of the raw log
        more = inputs.runtime(1, shards=SHARDS, snapshot_seconds=3600, snapshot_messages=1000000)
        assert more is not None
        path, topology = inputs.topology(
            self.folder, f"{self.prefix}-{label}", self.topics.boot, raw, more=more
        )
        self.topics.create(topology.reports_topic)
        prepare(topology)
        return path, topology

    def grow(self, path: Path, topology: Topology, users: int) -> None:
        """One slot of all users, and a graceful end, which writes the state once."""
        count = self.topics.fill(topology.raw_topic, inputs.crowd(users))
        self.until(path, topology, 1 + count)

    def until(self, path: Path, topology: Topology, want: int) -> tuple[float, float, float]:
        """Run a worker until the reports topic holds ``want`` records, and end it gracefully: (when
        it was started, when the last of them was written, seconds of CPU until then).
        """
        consumer = self.topics.reader()
        log, begin = self.folder / f"{topology.name}.log", time.time()
        process = spawn(["-m", "ldp_kafka", "run", str(path), "--role", "perturb"], log)
        try:
            while (end := self.topics.end(topology.reports_topic, consumer)) < want:
                time.sleep(0.05)
                if process.poll() is not None or time.time() - begin > 120:
                    raise RuntimeError(
                        f"the worker ended or stood still at {end} of {want}:"
                        f" {log.read_text(errors='replace')[-2000:]}"
                    )
            spent = cpu(process.pid)
        finally:
            stop(process)
            consumer.close()
        return begin, self.topics.read(topology.reports_topic, want - 1)[-1][0], spent

    def restart(self, path: Path, topology: Topology, slot: int) -> tuple[float, float]:
        """Seconds from a worker's start to its first report: on the clock, and of the CPU."""
        value, _ = next(inputs.batches(inputs.ROWS, 1, first=slot))
        consumer = self.topics.reader()
        have = self.topics.end(topology.reports_topic, consumer)
        consumer.close()
        self.topics.fill(topology.raw_topic, [value])
        begin, first, spent = self.until(path, topology, have + 1)
        return first - begin, spent


def recovery(boot: str, *, quick: bool = False) -> list[Figure]:
    """From the start of a worker to its first report, less the same without a state. Rounds take
    turns; each leaves the state behind that its last snapshot wrote.
    """
    pin(cores()[1])
    counts = QUICK if quick else USERS
    with tempfile.TemporaryDirectory(prefix="ldp-kafka-bench-") as name:
        bench = Recovery(boot, Path(name))
        try:
            of = {users: bench.topology(str(users)) for users in (0, *counts)}
            for users in counts:
                say(f"state: writing {users:,} users")
                bench.grow(*of[users], users)
            found: dict[int, list[tuple[float, float]]] = {users: [] for users in of}
            for at in range(1 if quick else ROUNDS):
                for users, made in of.items():
                    found[users].append(bench.restart(*made, 1 + at))
                    say(
                        f"state: first report {found[users][-1][0]:.2f} s after the start over"
                        f" {users:,} users, {found[users][-1][1]:.2f} s of CPU"
                    )
        finally:
            bench.topics.delete(bench.prefix)
    clock, work = (
        {
            users: tuple(a[part] - b[part] for a, b in zip(found[users], found[0], strict=True))
            for users in counts
        }
        for part in (0, 1)
    )
    slope, off = line((0, *counts), [0.0, *(float(np.median(work[users])) for users in counts)])
    return [
        *(
            Figure(
                "state",
                f"recovery of {users:,} users",
                "s",
                clock[users],
                "<= 4" if users == USERS[-1] else "",
                WHAT,
            )
            for users in counts
        ),
        *(
            Figure(
                "state",
                f"of which work, {users:,} users",
                "s of CPU",
                work[users],
                note="what waits, as for a group, changes from start to start by more",
            )
            for users in counts
        ),
        Figure("state", "its slope", "s/million users", (1e6 * slope,)),
        Figure(
            "state",
            "its furthest point from the line",
            "%",
            (off,),
            note="of the largest; the line through none and these",
        ),
        Figure("state", "start to first report", "s", tuple(each[0] for each in found[counts[-1]])),
        Figure("state", "the same without a state", "s", tuple(each[0] for each in found[0])),
    ]
