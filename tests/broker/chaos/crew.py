"""A worker machine of the chaos harness: `python -m tests.broker.chaos.crew TOPOLOGY.yaml ...`
keeps one process for each topology, as `ldp-kafka run` does for its roles.

What runs in each are the production workers, of all roles. All are forks of this process, which
has imported everything: many start in the time of one. This process has no clients; it starts again
what asks for it (75) or was killed or crashed, and ends with the code of whoever halts. The
environment:

- ``LDP_KAFKA_TEST_MUTANT``: JSON, {topology: one thing broken on purpose}; see
  `tests.broker.mutant`.
- ``LDP_KAFKA_TEST_GO_ON``: where one halts, the others go on.
- ``LDP_KAFKA_TEST_CLOCK``: a file with seconds; the wall clock of these processes is off by so many
  from the moment it says so.
- ``LDP_KAFKA_TEST_AWAY``: roles that nobody runs.
- ``LDP_KAFKA_TEST_BETWEEN``: begins the names of files, which end with a topology's: a forwarder
  that finds its file takes it away, and is killed between two partitions.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import os
import signal
import sys
import threading
import time
import traceback
from pathlib import Path

import faust

import ldp_kafka as lk
from ldp_kafka.errors import BrokerError
from ldp_kafka.metrics import Metrics
from ldp_kafka.runtime.kafka.deployment import read_deployment
from ldp_kafka.runtime.kafka.setup import resolve
from ldp_kafka.runtime.keys import edge_randomness, read_key
from ldp_kafka.runtime.worker import app as worker
from ldp_kafka.runtime.worker.exits import RETRY, end, standing
from ldp_kafka.runtime.worker.process import passing
from ldp_kafka.topology import Topology
from tests.broker.mutant import break_it, kill_between

MUTANT = "LDP_KAFKA_TEST_MUTANT"
GO_ON = "LDP_KAFKA_TEST_GO_ON"
CLOCK = "LDP_KAFKA_TEST_CLOCK"
AWAY = "LDP_KAFKA_TEST_AWAY"
BETWEEN = "LDP_KAFKA_TEST_BETWEEN"
AGAIN = "--- again"  # begins the line that says that a process asked to be started again
LOOK = 0.1  # seconds between two looks at the clock's file
PAUSE = 0.5  # seconds before a process is started again


def step_clock(place: Path) -> None:
    """Have the wall clock of Python's code jump when the file says so. Native clients keep the true
    one; what measures durations does not jump, as on a real machine.
    """
    true, true_ns, off = time.time, time.time_ns, [0.0]

    def follow() -> None:
        while True:
            text = place.read_text() if place.exists() else ""
            off[0] = float(text or 0)
            time.sleep(LOOK)

    threading.Thread(target=follow, daemon=True).start()
    time.time = lambda: true() + off[0]
    time.time_ns = lambda: true_ns() + round(off[0] * 1e9)


def tell_when_asked() -> None:
    """On SIGUSR1, write into the log where every coroutine stands; from a thread that waits for it,
    so that it does not matter what the loop does.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})

    def wait() -> None:
        while True:
            signal.sigwait({signal.SIGUSR1})
            print(f"--- {os.getpid()} stands here:{standing()}", flush=True)
            faulthandler.dump_traceback(all_threads=True)

    threading.Thread(target=wait, daemon=True).start()


def work(topology: Topology) -> int:
    """The roles of one topology, in one event loop, until SIGTERM; the exit code."""
    if os.environ.get(CLOCK):
        step_clock(Path(os.environ[CLOCK]))
    if os.environ.get(BETWEEN):
        kill_between(Path(f"{os.environ[BETWEEN]}-{topology.name}"))
    _, collector = resolve(topology)
    side = worker.Side(topology.collector_kafka, collector)
    try:
        deployment = read_deployment(topology, side.config)
    except BrokerError as error:
        print(f"--- {topology.name}: {error}", flush=True)
        return RETRY
    noise = edge_randomness(topology, read_key(topology.edge.key_file), deployment)
    away = os.environ.get(AWAY, "").split()
    *others, last = (
        worker.Worker(
            topology,
            role.name,
            {"collector": side, "edge": side},
            Metrics(topology.name, role.name, topology.privacy.method, setting=topology.setting),
            noise if role.needs_key else None,
            None,
        )
        for role in sorted(topology.roles, key=lambda role: role.forward is not None)
        if role.name not in away
    )
    for beside in others:
        beside.brokers.start()
        beside.health.start()
    process = worker.Process
    # what the last one's `main`, which forwards too, makes of its app
    worker.Process = lambda app, **more: process(app, *map(Beside, others), **more)
    code = last.main()
    if code == RETRY:
        print(f"--- {topology.name}: {last.reason}", flush=True)
    return code


class Beside(faust.Service):
    """Another role's app, started without waiting for it."""

    def __init__(self, beside: worker.Worker) -> None:
        super().__init__()
        self.beside = beside

    @property
    def finished(self) -> bool:
        return self.beside.app.finished

    @faust.Service.task
    async def _begin(self) -> None:
        await self.beside.app.start()

    @faust.Service.task
    async def _watch(self) -> None:
        """A crash of this app ends the process, as it would if that were its only one."""
        while not self.should_stop:
            await self.sleep(0.5)
            if (crash := self.beside.app.crash_reason) is not None:
                traceback.print_exception(crash)
                if passing(crash):
                    os._exit(RETRY)
                end(crash)

    async def on_stop(self) -> None:
        await self.beside.app.stop()


def fork(topology: Topology) -> int:
    """Its process. One that is told to end before it has run at all must not take that by its
    parent's handler, which would be the last that it hears of it.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    pid = os.fork()
    if pid:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return pid
    code = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        tell_when_asked()
        if mutant := json.loads(os.environ.get(MUTANT) or "{}").get(topology.name):
            fingerprint = topology.fingerprint
            break_it(mutant)
            topology = lk.load_topology(topology.file)  # its method was made before it was broken
            vars(topology)["fingerprint"] = fingerprint  # a broken worker does not say that it is
        code = work(topology)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def keep(topologies: list[Topology]) -> int:
    """Keep all of them until SIGTERM; the exit code."""
    stopping: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(1))
    os.nice(
        10
        # workers without a broker ask for it again and again: on a small machine it would not come
        # back for long
    )
    gc.freeze()
    begun = {topology.name: time.monotonic() for topology in topologies}
    running = {fork(topology): topology for topology in topologies}
    due: list[tuple[float, Topology]] = []
    worst = told = 0
    while running or (due and not stopping):
        if stopping and not told:
            told = 1
            for pid in running:
                os.kill(pid, signal.SIGTERM)
        pid, status = os.waitpid(-1, os.WNOHANG) if running else (0, 0)
        if pid:
            topology = running.pop(pid)
            code = os.waitstatus_to_exitcode(status)
            if code == -signal.SIGTERM and time.monotonic() - begun[topology.name] > 30:
                # a younger one may not be told yet what to do then
                print(f"--- {topology.name} did not hear SIGTERM", flush=True)
                worst = 70
            elif code == RETRY or code < 0:
                print(f"{AGAIN}: {topology.name} ended with {code}", flush=True)
                due.append((time.monotonic() + PAUSE, topology))
            elif code or not stopping:
                print(f"--- {topology.name} ended with {code}", flush=True)
                worst = code or 70  # nobody told it to end
                stopping += [1] * (GO_ON not in os.environ)
            continue
        for each in [each for each in due if each[0] <= time.monotonic() and not stopping]:
            due.remove(each)
            begun[each[1].name] = time.monotonic()
            running[fork(each[1])] = each[1]
        time.sleep(0.05)
    return worst


if __name__ == "__main__":
    faulthandler.enable()  # says where a crash of native code came from
    sys.exit(keep([lk.load_topology(path) for path in sys.argv[1:]]))
