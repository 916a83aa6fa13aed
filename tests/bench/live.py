"""A topology with its workers, and events of now that reach it at a steady rate."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from ldp_kafka.runtime.kafka.setup import prepare
from ldp_kafka.topology import Topology, load
from tests.bench import inputs
from tests.bench.broker import Topics
from tests.bench.measure import cores
from tests.bench.subject import spawn, stop

ROLES = "perturb", "collect"  # the latter merges, too
SHAPES = {"per_user": "per_user", "crowd": "mean"}
"""What is measured, and the statistic that makes it so."""
PROBES = 2  # events before the first that counts
START = 60.0  # seconds in which the first release must come
SETTLE = 1.0  # seconds from there on until the load begins

TEXT = """
topology: {name}
kafka: {{bootstrap_servers: {boot}}}
input: {{topic: {raw}, create: false, partitions: 1, format: json, slot: {slot}ms, lateness: 0}}
privacy: {{method: capp, epsilon: 1.0, window: 10, domain: [0.0, 100.0]}}
output: {{statistics: [{statistic}]}}
edge: {{key_file: {key}}}
"""


class Live:
    """Topics, and one process a role. The broker has its core; workers and generator have both."""

    def __init__(
        self, topics: Topics, folder: Path, name: str, shape: str, slot: int, **more: str
    ) -> None:
        """``slot``: milliseconds; ``more``: configuration of the logs, see `Topics.create`."""
        self.topics, self.folder, self.raw = topics, folder, f"{name}.raw"
        self.path, self.topology = described(folder, name, topics.boot, self.raw, shape, slot)
        for topic in (self.raw, self.topology.reports_topic, self.topology.releases_topic):
            topics.create(topic, **more)
        prepare(self.topology)
        self.processes: dict[str, subprocess.Popen] = {}
        self.consumer = topics.reader()

    def start(self) -> None:
        """Workers, and two events in slots of the past: the second one closes the first one's."""
        for role in ROLES:
            words = ["-m", "ldp_kafka", "run", str(self.path), "--role", role]
            self.processes[role] = spawn(words, self.log(role), cores())
        slot, now = self.topology.input.slot_ms, int(time.time() * 1000)
        probes = (inputs.single("probe", now - at * slot, 50.0) for at in (20, 10))
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
        return "\n".join(self.log(role).read_text(errors="replace")[-5000:] for role in ROLES)

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
    folder: Path, name: str, boot: str, raw: str, shape: str, slot: int
) -> tuple[Path, Topology]:
    """The topology of one shape, with defaults wherever there are any."""
    key, path = folder / "edge.key", folder / f"{name}.yaml"
    key.write_bytes(inputs.KEY)
    key.chmod(0o600)
    path.write_text(
        TEXT.format(name=name, boot=boot, raw=raw, slot=slot, statistic=SHAPES[shape], key=key)
    )
    return path, load(path)
