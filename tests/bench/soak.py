"""Hours of single events at a steady rate, through all workers on a real broker: whether memory
grows, whether output stands still, and what is left in the end.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ldp_kafka.runtime.kafka import admin
from tests.bench.broker import Topics
from tests.bench.live import Live, live
from tests.bench.measure import Figure, cores, pin, say

SHAPE, RATE, USERS, SLOT = "crowd", 5_000, 20_000, 1000  # events a second; milliseconds
EVERY, FEWEST = 10.0, 30  # seconds between two samples of memory; samples there are at least
WARM = 0.2  # of the time, after which memory should not grow
LOOK = 0.5  # seconds between two looks at the output
STALL = 5.0  # seconds without output
TOLD = 300.0  # seconds from one line of progress to the next
PATIENCE = 120.0  # seconds in which what is left in the end must be done
KEPT = str(512 * 2**20)  # bytes of a log: nobody reads it again


@dataclass
class Watch:
    """What was seen while it ran, in seconds since it began."""

    rss: dict[str, list[tuple[float, int]]] = field(default_factory=dict)
    """(seconds, bytes) of each role's worker."""
    moved: dict[str, list[float]] = field(default_factory=dict)
    """When each topic was seen to have more, 0 first."""
    ends: dict[str, int] = field(default_factory=dict)

    def sample(self, now: float, sizes: dict[str, int]) -> None:
        for role, size in sizes.items():
            self.rss.setdefault(role, []).append((now, size))

    def look(self, now: float, ends: dict[str, int]) -> None:
        for topic, end in ends.items():
            seen = self.moved.setdefault(topic, [0.0])
            if end > self.ends.get(topic, 0):
                seen.append(now)
                self.ends[topic] = end

    def pauses(self, topic: str, now: float) -> np.ndarray:
        """Seconds from one output to the next, the last one until now."""
        return np.diff([*self.moved[topic], now])


def slope(samples: Sequence[tuple[float, int]], warm: float) -> float:
    """MiB an hour, of the least-squares line through what was sampled after the warm-up."""
    later = np.array([each for each in samples if each[0] >= warm])
    return float(np.polyfit(later[:, 0], later[:, 1], 1)[0]) * 3600 / 2**20


def resident(pid: int) -> int:
    """Bytes of memory that a process has. ProcessLookupError where it has ended."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    if found is None:
        raise ProcessLookupError(pid)
    return int(found[1]) * 1024


def measure(boot: str, minutes: float) -> list[Figure]:
    pin(cores()[1])
    topics, name = Topics(boot), f"bench-{uuid.uuid4().hex[:8]}-soak"
    with (
        tempfile.TemporaryDirectory(prefix="ldp-kafka-bench-") as folder,
        live(topics, Path(folder), name, SHAPE, SLOT, retention_bytes=KEPT) as run,
    ):
        generator = run.generate(RATE, minutes * 60, USERS, keep=False)
        try:
            watch, begin = watched(run, generator, minutes * 60)
            seconds, left = time.monotonic() - begin, lag(run)
            told = run.told(generator, PATIENCE)
            after = drained(run)
        finally:
            generator.kill()
    return figures(watch, seconds, told, left, after)


def watched(run: Live, generator: subprocess.Popen, seconds: float) -> tuple[Watch, float]:
    """Look until the generator has ended; what was seen, and when it began."""
    watch, begin = Watch(), time.monotonic()
    every, sampled, said = min(EVERY, seconds / FEWEST), 0.0, 0.0
    topics = run.topology.reports_topic, run.topology.releases_topic
    watch.ends = {topic: run.end(topic) for topic in topics}
    while generator.poll() is None:
        time.sleep(LOOK)
        run.check()
        now = time.monotonic() - begin
        watch.look(now, {topic: run.end(topic) for topic in topics})
        if now >= sampled:
            watch.sample(now, run.each(resident))
            sampled = now + every
        if now >= said:
            sizes = (f"{role} {held[-1][1] / 2**20:.0f} MiB" for role, held in watch.rss.items())
            say(f"soak: {now / 60:.0f} of {seconds / 60:.0f} minutes: {', '.join(sizes)}")
            said = now + TOLD
    return watch, begin


def lag(run: Live) -> dict[str, int]:
    """Messages that each role has not acknowledged."""
    logs = {"perturb": run.raw, "collect": run.topology.reports_topic}
    return {
        role: sum(
            admin.lag(
                {"bootstrap.servers": run.topics.boot}, run.topology.group(role), log, [0]
            ).values()
        )
        for role, log in logs.items()
    }


def drained(run: Live) -> float:
    """Seconds until all is acknowledged; infinite where it is not in time."""
    begin = time.monotonic()
    while any(lag(run).values()):
        if time.monotonic() - begin > PATIENCE:
            return float("inf")
        time.sleep(LOOK)
    return time.monotonic() - begin


def figures(
    watch: Watch,
    seconds: float,
    told: dict[str, float],
    left: dict[str, int],
    after: float,
) -> list[Figure]:
    """Of the whole run, each with one round."""
    made = []
    for role, samples in watch.rss.items():
        first = next(size for at, size in samples if at >= WARM * seconds)
        made += [
            Figure(
                "soak",
                f"RSS of {role}, slope",
                "MiB/hour",
                (slope(samples, WARM * seconds),),
                "flat",
                f"after the first {100 * WARM:.0f} % of {seconds / 60:.0f} minutes,"
                f" {len(samples)} samples",
            ),
            Figure(
                "soak",
                f"RSS of {role} in the end",
                "MiB",
                (samples[-1][1] / 2**20,),
                note=f"{first / 2**20:.0f} MiB after the warm-up,"
                f" {max(size for _, size in samples) / 2**20:.0f} at most",
            ),
        ]
    for topic in watch.moved:
        pauses = watch.pauses(topic, seconds)
        made.append(
            Figure(
                "soak",
                f"stalls of {topic.rpartition('.')[2]}",
                f"of > {STALL:g} s",
                (float((pauses > STALL).sum()),),
                "0",
                f"longest pause {pauses.max():.1f} s, a slot is {SLOT / 1000:g} s",
            )
        )
    made += [
        Figure("soak", f"lag of {role} at the end", "messages", (float(count),))
        for role, count in left.items()
    ]
    note = f"{told['events']:,} events, generator {told['p99']:.1f} ms late at p99"
    return [*made, Figure("soak", "all acknowledged after", "s", (after,), note=note)]
