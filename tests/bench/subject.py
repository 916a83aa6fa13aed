"""One process under measurement: started on its core, watched until its output is whole, ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.bench.broker import Topics
from tests.bench.measure import cores

ROOT = Path(__file__).parents[2]
WARM = 0.1  # of the events, before which nothing counts
LOOK, STILL = 0.02, 25  # seconds between two looks; looks without news, after which it is read


@dataclass(frozen=True)
class Outcome:
    """From the first record after the warm-up to the last, by the broker's clock; CPU as seen from
    outside in the same stretch.
    """

    events: float
    """A second."""
    cpu: float
    """Nanoseconds of CPU an event, the whole process."""
    whole: int
    """Events that everything written stands for."""


def spawn(words: list[str], log: Path, on: Iterable[int] | None = None) -> subprocess.Popen:
    """A Python process of ours, on its core (default: that of what is measured) from its first
    instruction on so that all its threads are: it inherits that from us.
    """
    mine = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    try:
        if mine is not None:
            os.sched_setaffinity(0, {cores()[0]} if on is None else set(on))
        with log.open("ab") as out:
            return subprocess.Popen([sys.executable, *words], cwd=ROOT, stdout=out, stderr=out)
    finally:
        if mine is not None:
            os.sched_setaffinity(0, mine)


def stop(process: subprocess.Popen) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def observe(
    topics: Topics,
    words: list[str],
    log: Path,
    output: str,
    events: int,
    weigh: Callable[[bytes], int],
    *,
    limit: float = 300.0,
) -> Outcome:
    """Run it until the records of ``output`` stand for so many events; ``weigh`` says of a record's
    value for how many. What it wrote is read while nothing comes, lest reading takes the broker's
    core from it.
    """
    process, consumer = spawn(words, log), topics.reader()
    seen, found, until = [(0, 0.0)], Found(), time.monotonic() + limit
    try:
        while found.events < events:
            time.sleep(LOOK)
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(
                    f"{words[:3]} ended or stood still at {found.events:,} of {events:,} events:"
                    f" {log.read_text(errors='replace')[-2000:]}"
                )
            seen.append((topics.end(output, consumer), cpu(process.pid)))
            new = seen[-1][0] - len(found.sizes)
            # one that goes on and on is read once there must be enough
            if new and (still(seen) or new >= events - found.events):
                found.add(topics.records(output, len(found.sizes)), weigh)
    finally:
        stop(process)
        consumer.close()
    return outcome(seen, found, events)


class Found:
    """The records so far: when the broker had each, and for how many events it stands."""

    def __init__(self) -> None:
        self.seconds, self.sizes, self.events = array("d"), array("q"), 0

    def add(self, records: Iterable[tuple[float, bytes]], weigh: Callable[[bytes], int]) -> None:
        for seconds, value in records:
            self.seconds.append(seconds)
            self.sizes.append(size := weigh(value))
            self.events += size


def still(seen: list[tuple[int, float]]) -> bool:
    """Whether nothing has come for a while."""
    return len(seen) > STILL and seen[-STILL][0] == seen[-1][0]


def outcome(seen: list[tuple[int, float]], found: Found, events: int) -> Outcome:
    """Of what was seen: (records, CPU seconds) from time to time, and the records."""
    sums = np.cumsum(found.sizes)
    first, last = (int(np.searchsorted(sums, share * events)) for share in (WARM, 1.0))
    (begun, before), (done, after) = (
        next((min(end, len(sums)), cpu) for end, cpu in seen if end > at) for at in (first, last)
    )
    between = int(sums[done - 1] - sums[begun - 1])
    return Outcome(
        int(sums[last] - sums[first]) / max(found.seconds[last] - found.seconds[first], 1e-3),
        1e9 * (after - before) / between if between else float("nan"),
        found.events,
    )


def cpu(pid: int) -> float:
    """Seconds of CPU that a process has had; not a number where the system does not say."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return float("nan")
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
