"""Running a topology: one process a role, started and kept by a parent that holds no state."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from ldp_kafka.errors import BrokerError, ConfigurationError, LdpKafkaError
from ldp_kafka.runtime.worker import logs
from ldp_kafka.runtime.worker.events import Event
from ldp_kafka.runtime.worker.exits import HALT, RETRY, WRONG, end, fail
from ldp_kafka.runtime.worker.logs import Format, Log
from ldp_kafka.runtime.worker.probes import Probes
from ldp_kafka.topology import Topology, admit
from ldp_kafka.topology.roles import COLLECTOR, EDGE, Role
from ldp_kafka.version import __version__

__all__ = ["refuse", "run"]

SUPERVISED = "LDP_KAFKA_SUPERVISED"
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0  # seconds between restarts


def run(
    topology: Topology,
    *,
    role: str | None = None,
    metrics_port: int | None = None,
    metrics_host: str = "127.0.0.1",
    until_idle_ms: int | None = None,
    log_format: Format = "text",
    verbose: bool = False,
) -> int:
    """Run a role of a topology, or all of them in one child process each; returns the exit code.

    Parameters
    ----------
    role : one of the topology's; None: all that it has
    metrics_port : for Prometheus; 0 or None: a free one, printed; with several roles each next one
        has the next port
    until_idle_ms : end after so long without anything to read
    log_format : ``json`` or ``text``, a line each on standard error; as JSON also what is wrong
        before the work begins, which else is raised
    verbose : what the log has beside what an operator needs

    Raises
    ------
    ConfigurationError : no such role, no key where one is needed, topics that do not fit, more than
        the edge's budget has left
    BrokerError : no broker answers
    """
    port = metrics_port or 0
    with logs.writing(log_format, topology.name, role or "", verbose=verbose):
        try:
            if role is None:
                return _supervise(topology, port, metrics_host, until_idle_ms, log_format)
            return _work(topology, topology.role(role), port, metrics_host, until_idle_ms)
        except Exception as error:
            if log_format == "text" and isinstance(error, LdpKafkaError):
                raise  # whoever calls says it
            return fail(error, WRONG if isinstance(error, ConfigurationError) else HALT)


def refuse(error: ConfigurationError, role: str | None) -> int:
    """Say in a log of JSON why there is nothing to run; the exit code."""
    with logs.writing("json", "", role or ""):
        return fail(error, WRONG)


def _begin(topology: Topology, role: str) -> None:
    """Say what begins."""
    Log(topology.name, role).say(
        Event.START,
        version=__version__,
        fingerprint=topology.fingerprint,
        guarantee=topology.guarantee.describe(linked=topology.linked),
    )


def _work(topology: Topology, role: Role, port: int, host: str, until_idle_ms: int | None) -> int:
    from ldp_kafka.metrics import Metrics, serve
    from ldp_kafka.runtime.kafka.admin import partitions_of
    from ldp_kafka.runtime.kafka.deployment import read_deployment
    from ldp_kafka.runtime.kafka.setup import client_config, resolve
    from ldp_kafka.runtime.keys import edge_randomness, read_key

    _begin(topology, role.name)
    until = admit(topology) if role.needs_key else None  # a collector does not have the edge's file
    key = read_key(topology.edge.key_file) if role.needs_key else None
    shared = topology.collector_kafka is topology.edge_kafka
    noise = None
    try:
        edge, collector = resolve(topology)
        if not os.environ.get(SUPERVISED):
            _ready(topology, role)
        else:
            # a worker that finds no broker would fail instead of coming again
            config = client_config(topology, COLLECTOR, collector)
            flow = topology.flow
            partitions_of(config, (flow.partials or flow.releases).name, timeout=5)
            _allowed(topology, role)  # a right may have been taken away
        if key is not None:
            deployment = read_deployment(topology, client_config(topology, EDGE, edge))
            noise = edge_randomness(topology, key, deployment)
    except BrokerError as error:
        if os.environ.get(SUPERVISED):
            return fail(error)
        raise
    if os.environ.get(SUPERVISED):
        _die_with_parent()
    metrics = Metrics(topology.name, role.name, topology.privacy.method, setting=topology.setting)
    metrics.guarantee(topology.guarantee)
    metrics.slots(topology.input.slot_ms, topology.hop)
    probes = Probes()
    port, close = serve(metrics, port, host, probes.pages)
    print(  # noqa: T201 - what the command says
        f"{topology.name} {role.name}: metrics at http://{host}:{port}/metrics", flush=True
    )
    if until is not None:
        _end_at(until, topology.name)
    from ldp_kafka.runtime.worker.app import Side, work

    sides = {COLLECTOR: Side(topology.collector_kafka, collector)}
    if EDGE in role.sides:  # a collector knows neither the edge's address nor its credentials
        sides[EDGE] = sides[COLLECTOR] if shared else Side(topology.edge_kafka, edge)
    try:
        return work(
            topology,
            role.name,
            sides,
            metrics,
            noise=noise,
            until_idle=None if until_idle_ms is None else until_idle_ms / 1000,
            probes=probes,
        )
    finally:
        close()


def _ready(topology: Topology, role: Role | None = None, host: Any = None) -> None:
    """See that a role, or all, have what they need before they start: rights, and topics."""
    from ldp_kafka.runtime.kafka.setup import prepare

    roles = topology.roles if role is None else (role,)
    # asked first, before anything fails for want of a right
    warnings = [warning for each in roles for warning in _allowed(topology, each)]
    if prepare(topology, host, role=role):  # of a topic that was not there nothing was known
        warnings = [warning for each in roles for warning in _allowed(topology, each)]
    log = Log(topology.name, "" if role is None else role.name)
    for warning in warnings:
        log.say(Event.RIGHTS, message=warning)


def _allowed(topology: Topology, role: Role) -> list[str]:
    from ldp_kafka.runtime.kafka.rights import check_rights
    from ldp_kafka.runtime.kafka.setup import client_config

    configs = {side: client_config(topology, side) for side in role.sides}
    return check_rights(topology, role, configs)


def _die_with_parent() -> None:
    """A child whose parent is gone ends at once, without acknowledging: as after any crash, what it
    had not saved is folded again.
    """

    def wait() -> None:
        while os.read(0, 1024):  # not sys.stdin: its lock would be held when the interpreter ends
            pass
        os._exit(HALT)

    threading.Thread(target=wait, daemon=True, name="parent").start()


def _end_at(moment_ms: int, name: str) -> None:
    """End the process at the moment at which its edge retires the topology, as after a crash."""

    def wait() -> None:
        while time.time() * 1000 < moment_ms:
            time.sleep(0.5)  # short, since clocks are set and machines sleep
        end(f"{name} is retired by its budget file", WRONG)

    threading.Thread(target=wait, daemon=True, name="retired").start()


class _Child:
    """One role's process and when it may be started again."""

    def __init__(self, start: Callable[[], subprocess.Popen[bytes]], log: Log) -> None:
        self._start, self.log = start, log
        self.process = start()
        self.pause, self.again = FIRST_PAUSE, 0.0
        self.begun = time.monotonic()

    def restart_later(self) -> None:
        self.pause = (
            FIRST_PAUSE
            if time.monotonic() - self.begun > 60
            else min(2 * self.pause, LONGEST_PAUSE)
        )
        self.again = time.monotonic() + self.pause
        self.log.say(Event.RESTART, code=self.process.poll(), seconds=self.pause)

    def restart(self) -> None:
        self.again, self.begun = 0.0, time.monotonic()
        if self.process.stdin:
            self.process.stdin.close()
        self.process = self._start()


def _supervise(
    topology: Topology, port: int, host: str, until_idle_ms: int | None, log_format: Format
) -> int:
    from ldp_kafka.runtime.keys import read_key

    if any(role.needs_key for role in topology.roles):
        admit(topology)  # before anything is started
        read_key(topology.edge.key_file)
    with ExitStack() as stack:
        _ready(topology, host=_host(topology, stack))
        return _keep(topology, port, host, until_idle_ms, log_format)


def _host(topology: Topology, stack: ExitStack) -> Any:
    """The embedded broker, where the topology wants one and no other process hosts it: it lives as
    long as this process.
    """
    from ldp_kafka.runtime.brokers.embedded import EmbeddedBroker
    from ldp_kafka.runtime.brokers.run_files import address_of, publish

    if not (topology.edge_kafka.embedded or topology.collector_kafka.embedded):
        return None
    try:
        address_of(topology.name)
    except BrokerError:
        broker = stack.enter_context(EmbeddedBroker())
        publish(topology.name, broker)
        print(  # noqa: T201
            f"embedded broker: {broker.bootstrap_servers}, in this process; it keeps nothing when"
            " it ends",
            flush=True,
        )
        return broker
    return None


def _keep(
    topology: Topology, port: int, host: str, until_idle_ms: int | None, log_format: Format
) -> int:
    """Children, until they have ended or this process is told to."""
    stop = threading.Event()
    before = {
        number: signal.signal(number, lambda *_: stop.set())
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    children = [
        _Child(
            _starter(
                topology, role.name, port + at if port else 0, host, until_idle_ms, log_format
            ),
            Log(topology.name, role.name),
        )
        for at, role in enumerate(topology.roles)
    ]
    try:
        code = _watch(children, stop)
    finally:
        for child in children:
            if child.process.poll() is None:
                child.process.terminate()
        for child in children:
            try:
                child.process.wait(60)  # one of whom nothing comes ends by itself before that
            except subprocess.TimeoutExpired:
                child.process.kill()
                child.process.wait()
            if child.process.stdin:
                child.process.stdin.close()
        for number, handler in before.items():
            signal.signal(number, handler)
    halted = "a role has halted: its last line says why" if code else "nothing was left to read"
    logs.ended("told to end" if stop.is_set() else halted, code)
    return code


def _starter(
    topology: Topology,
    role: str,
    port: int,
    host: str,
    until_idle_ms: int | None,
    log_format: Format,
) -> Callable[[], subprocess.Popen[bytes]]:
    words = [
        sys.executable,
        "-m",
        "ldp_kafka",
        "run",
        topology.file,
        "--role",
        role,
        "--metrics-port",
        str(port),
        "--metrics-host",
        host,
        "--log-format",
        log_format,
        *(["-v"] if logs.verbose() else []),
    ]
    if until_idle_ms is not None:
        words += ["--until-idle", f"{until_idle_ms}ms"]
    environment: dict[str, Any] = {**os.environ, SUPERVISED: "1"}
    # ourselves
    return lambda: subprocess.Popen(words, stdin=subprocess.PIPE, env=environment)  # noqa: S603


def _watch(children: list[_Child], stop: threading.Event) -> int:
    """Until told to stop, all have ended by themselves, or one says halt.

    Roles stand in pipeline order. One that had nothing to read for long enough while an earlier one
    was still at work is started again once that has ended: it reads what came after its own end.
    """
    done: set[int] = set()
    early: set[int] = set()
    while not stop.wait(0.1):
        for at, child in enumerate(children):
            code = child.process.poll()
            if at in done or code is None:
                continue
            if code == 0:
                if not done.issuperset(range(at)):
                    early.add(at)
                elif at in early:
                    early.remove(at)
                    child.restart()
                else:
                    done.add(at)
                if len(done) == len(children):
                    return 0
            elif child.again:
                if time.monotonic() >= child.again:
                    child.restart()
            elif code == RETRY or code < 0:
                child.restart_later()
            else:
                return code
    return 0
