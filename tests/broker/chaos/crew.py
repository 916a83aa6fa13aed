"""A worker process of the chaos harness: `python -m tests.broker.chaos.crew TOPOLOGY.yaml ...` runs both roles of every topology in one process, each with its own clients and groups.

What runs is the production worker, one for each role of each topology, in one event loop: a fault of the process is a fault of all of them. The environment:

- ``LDP_KAFKA_TEST_MUTANT``: one thing broken on purpose; see `tests.broker.mutant`.
- ``LDP_KAFKA_TEST_STOP``: a file; a worker that finds it while it writes a snapshot stops itself there; see `tests.broker.mutant`.
- ``LDP_KAFKA_TEST_CLOCK``: a file with seconds; the wall clock of this process is off by so many from the moment it says so.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import time
from pathlib import Path

import ldp_kafka as lk
from tests.broker.mutant import break_it, stop_at

CLOCK = "LDP_KAFKA_TEST_CLOCK"
LOOK = 0.1  # seconds between two looks at the clock's file


def step_clock(place: Path) -> None:
    """Have the wall clock jump when the file says so: `time.time` is what Faust, aiokafka and the workers read. What measures durations does not jump, as on a real machine."""
    true, off = time.time, [0.0]

    def follow() -> None:
        while True:
            text = place.read_text() if place.exists() else ""
            off[0] = float(text or 0)
            time.sleep(LOOK)

    threading.Thread(target=follow, daemon=True).start()
    time.time = lambda: true() + off[0]


def run(paths: list[str]) -> int:
    """All roles of these topologies until SIGTERM; the exit code."""
    from ldp_kafka.metrics import Metrics
    from ldp_kafka.runtime import worker
    from ldp_kafka.runtime.keys import read_key
    from ldp_kafka.runtime.setup import resolve

    workers = []
    for path in paths:
        topology = lk.load_topology(path)
        _, collector = resolve(topology)
        for role in ("perturb", "collect"):
            side = worker.Side(topology.collector_kafka, collector)
            key = read_key(topology.edge.key_file) if role == "perturb" else None
            workers.append(worker.Worker(topology, role, {"collector": side, "edge": side}, Metrics(topology.name, role, topology.privacy.method), key, None))
    worker.uvloop.install()
    apps = [each.app for each in workers]

    class Together(worker.faust.Service):
        """Starts and stops the apps at the same time: a Faust worker does it one after the other."""

        async def on_start(self) -> None:
            await asyncio.gather(*(app.start() for app in apps))

        async def on_stop(self) -> None:
            await asyncio.gather(*(app.stop() for app in apps))

    together = worker.faust.Worker(apps[0], Together(), loglevel="WARNING", quiet=True, redirect_stdouts=False)
    together.spinner = None
    for noisy in ("aiokafka", "mode.timers"):
        logging.getLogger(noisy).setLevel(logging.ERROR)
    try:
        together.execute_from_commandline()
    except SystemExit as stop:
        return worker.RETRY if worker.passing(stop) else int(stop.code or 0)
    return 0


if __name__ == "__main__":
    if os.environ.get(CLOCK):
        step_clock(Path(os.environ[CLOCK]))
    break_it(os.environ.get("LDP_KAFKA_TEST_MUTANT") or "none")
    if os.environ.get("LDP_KAFKA_TEST_STOP"):
        stop_at(Path(os.environ["LDP_KAFKA_TEST_STOP"]))
    sys.exit(run(sys.argv[1:]))
