"""One process under measurement: started on its core, watched until its output is whole, ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tests.bench.broker import Topics
from tests.bench.measure import cores

ROOT = Path(__file__).parents[2]
WARM = 0.1  # of the records, before which nothing counts


@dataclass(frozen=True)
class Outcome:
    """From the first record after the warm-up to the last, by the broker's clock; CPU as seen from
    outside in the same stretch.
    """

    events: float
    """A second."""
    cpu: float
    """Nanoseconds of CPU an event, the whole process."""
    values: list[bytes]
    """What was written."""


def spawn(words: list[str], log: Path, core: int | None = None) -> subprocess.Popen:
    """A Python process of ours, on its core from its first instruction on so that all its threads
    are: it inherits that from us.
    """
    mine = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    try:
        if mine is not None:
            os.sched_setaffinity(0, {cores()[0] if core is None else core})
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
    sizes: list[int],
    *,
    header: int = 0,
    keep: bool = True,
    limit: float = 180.0,
) -> Outcome:
    """Run it until ``output`` holds a record for each of ``sizes`` (the events that each stands
    for) after ``header`` others; ``keep`` what it wrote.
    """
    process, consumer, seen, until = (
        spawn(words, log),
        topics.reader(),
        [],
        time.monotonic() + limit,
    )
    want = header + len(sizes)
    try:
        while not seen or seen[-1][0] < want:
            time.sleep(0.02)
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(
                    f"{words[:3]} ended or stood still at {seen[-1:]} of {want}:"
                    f" {log.read_text(errors='replace')[-2000:]}"
                )
            seen.append((topics.end(output, consumer), cpu(process.pid)))
    finally:
        stop(process)
        consumer.close()
    records = topics.read(output, header, keep=keep)[: len(sizes)]
    warm = int(len(sizes) * WARM)
    seconds = records[-1][0] - records[warm][0]
    begun = next(at for at, (done, _) in enumerate(seen) if done >= header + warm)
    spent, between = (
        seen[-1][1] - seen[begun][1],
        sum(sizes[seen[begun][0] - header : seen[-1][0] - header]),
    )
    return Outcome(
        sum(sizes[warm + 1 :]) / max(seconds, 1e-3),
        1e9 * spent / between if between else float("nan"),
        [value for _, value in records],
    )


def cpu(pid: int) -> float:
    """Seconds of CPU that a process has had; not a number where the system does not say."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return float("nan")
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
