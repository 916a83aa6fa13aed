"""A topology with its workers, and events of now that reach it at a steady rate."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ldp_kafka.runtime.kafka.setup import prepare
from ldp_kafka.topology import Topology, load
from tests.bench import inputs
from tests.bench.broker import Topics
from tests.bench.measure import cores
from tests.bench.subject import spawn, stop

DELAY = 100  # slots, of what has windows
PROBES = 2  # events before the first that counts
START = 60.0  # seconds in which the first release must come
SETTLE = 1.0  # seconds from there on until the load begins


class Shape(NamedTuple):
    """A topology, as far as shapes differ."""

    privacy: str
    statistic: str

    @classmethod
    def of_curator(cls, setting: str) -> Shape:
        """Whose windows lie so."""
        trusts = "trust: curator, level: event, method: segment_mean, delay: {delay}"
        return cls(f"{trusts}, setting: {setting}", "per_stream")


CAPP = "method: capp, window: 10"
SHAPES = {
    "per_user": Shape(CAPP, "per_user"),
    "crowd": Shape(CAPP, "mean"),
    "batch": Shape.of_curator("batch"),
    "sliding": Shape.of_curator("sliding"),
}
"""What is measured."""

TEXT = """
topology: {name}
kafka: {{bootstrap_servers: {boot}}}
input: {{topic: {raw}, create: false, partitions: 1, format: json, slot: {slot}ms, lateness: 0}}
privacy: {{{privacy}, epsilon: 1.0, domain: [0.0, 100.0]}}
output: {{statistics: [{statistic}]}}
edge: {{key_file: {key}}}
"""


class Live:
    """Topics, and one process a role. The broker has its core; workers and generator have both."""

    def __init__(
        self,
        topics: Topics,
        folder: Path,
        name: str,
        shape: str,
        slot: int,
        *,
        delay: int = DELAY,
        **more: str,
    ) -> None:
        """``slot``: milliseconds; ``delay``: of windows, in slots; ``more``: configuration of the
        logs, see `Topics.create`.
        """
        self.topics, self.folder, self.raw = topics, folder, f"{name}.raw"
        self.path, self.topology = described(
            folder, name, topics.boot, self.raw, shape, slot, delay
        )
        self.roles = [role.name for role in self.topology.roles]  # collect merges, too
        reports = [] if self.topology.curated else [self.topology.reports_topic]
        for topic in (self.raw, *reports, self.topology.releases_topic):
            topics.create(topic, **more)
        prepare(self.topology)
        self.processes: dict[str, subprocess.Popen] = {}
        self.consumer = topics.reader()

    def start(self) -> None:
        """Workers, and two events in slots of the past: the second one closes the first one's, and
        its window.
        """
        for role in self.roles:
            words = ["-m", "ldp_kafka", "run", str(self.path), "--role", role]
            self.processes[role] = spawn(words, self.log(role), cores())
        slot, now = self.topology.input.slot_ms, int(time.time() * 1000)
        windows = 2 * self.topology.windowed.windows.span if self.topology.setting else 0
        probes = (inputs.single("probe", now - at * slot, 50.0) for at in (20 + windows, 10))
        self.topics.fill_keyed(self.raw, probes)
        until = time.monotonic() + START
        while not self.end(self.topology.releases_topic):
            time.sleep(0.1)
            self.check()
            if time.monotonic() > until:
                raise RuntimeError(f"no release in {START:g} s: {self.last_words()}")
        time.sleep(SETTLE)

    def generate(
        self, rate: float, seconds: float, users: int, *, keep: bool = True
    ) -> subprocess.Popen:
        """The generator's process; see `sent` and `told`."""
        file = str(self.folder / f"{self.topology.name}.sent") if keep else "-"
        words = [self.topics.boot, self.raw, f"{rate}", f"{seconds}", f"{users}", file]
        self.told_at = self.folder / f"{self.topology.name}.generator.log"
        self.told_at.unlink(missing_ok=True)
        return spawn(["-m", "tests.bench.generator", *words], self.told_at, cores())

    def told(self, generator: subprocess.Popen, limit: float) -> dict[str, float]:
        """How many events it sent, and how late, in milliseconds."""
        if generator.wait(limit):
            raise RuntimeError(f"the generator failed: {self.told_at.read_text()[-2000:]}")
        return json.loads(self.told_at.read_text().splitlines()[-1])

    def sent(self) -> np.ndarray:
        """Seconds at which each event was sent; its offset is `PROBES` more."""
        return np.fromfile(self.folder / f"{self.topology.name}.sent")

    def quiet(self, topic: str, still: float, limit: float) -> None:
        """Wait until nothing has come for so many seconds."""
        until, seen = time.monotonic() + limit, [(time.monotonic(), self.end(topic))]
        while time.monotonic() < until and time.monotonic() - seen[-1][0] < still:
            time.sleep(0.1)
            self.check()
            if (end := self.end(topic)) != seen[-1][1]:
                seen.append((time.monotonic(), end))

    def end(self, topic: str) -> int:
        return self.topics.end(topic, self.consumer)

    def check(self) -> None:
        """Whether all workers run."""
        for role, process in self.processes.items():
            if process.poll() is not None:
                raise RuntimeError(f"{role} ended: {self.last_words()}")

    def each(self, look: Callable[[int], int]) -> dict[str, int]:
        """What a look at each worker's process, by its number, gives."""
        try:
            return {role: look(process.pid) for role, process in self.processes.items()}
        except ProcessLookupError:
            for process in self.processes.values():  # one has ended, or is about to
                with suppress(subprocess.TimeoutExpired):
                    process.wait(1)
            self.check()
            raise

    def last_words(self) -> str:
        return "\n".join(self.log(role).read_text(errors="replace")[-5000:] for role in self.roles)

    def log(self, role: str) -> Path:
        return self.folder / f"{self.topology.name}-{role}.log"

    def close(self) -> None:
        for process in self.processes.values():
            stop(process)
        self.consumer.close()
        self.topics.delete(self.topology.name)


@contextmanager
def live(*words, **more) -> Iterator[Live]:
    """With its workers, until they are no longer needed; see `Live`."""
    made = Live(*words, **more)
    try:
        made.start()
        yield made
    finally:
        made.close()


def described(
    folder: Path, name: str, boot: str, raw: str, shape: str, slot: int, delay: int = DELAY
) -> tuple[Path, Topology]:
    """The topology of one shape, with defaults wherever there are any."""
    of = SHAPES[shape]
    key, path = folder / "edge.key", folder / f"{name}.yaml"
    key.write_bytes(inputs.KEY)
    key.chmod(0o600)
    path.write_text(
        TEXT.format(
            name=name,
            boot=boot,
            raw=raw,
            slot=slot,
            privacy=of.privacy.format(delay=delay),
            statistic=of.statistic,
            key=key,
        )
    )
    return path, load(path)
