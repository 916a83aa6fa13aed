"""The parent of a topology's roles: it keeps one child process each, and holds no state."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from ldp_kafka.metrics import listening
from ldp_kafka.runtime.worker import logs
from ldp_kafka.runtime.worker.events import Event
from ldp_kafka.runtime.worker.exits import RETRY
from ldp_kafka.runtime.worker.logs import Format, Log
from ldp_kafka.topology import Topology
from ldp_kafka.topology.roles import Role

__all__ = ["METRICS_SOCKET", "SUPERVISED", "keep"]

SUPERVISED = "LDP_KAFKA_SUPERVISED"
"""Tells a child that it is one."""
METRICS_SOCKET = "LDP_KAFKA_METRICS_SOCKET"
"""Tells a child the number of its socket for metrics, which is its parent's."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0  # seconds between restarts
LIVED = 60.0  # seconds after which a child's end is the first one again
PATIENCE = 60.0  # seconds for children to end: one of whom nothing comes ends itself before that


class Child:
    """One role's process and when it may be started again.

    Parameters
    ----------
    start : starts one
    log : of the role
    """

    def __init__(self, start: Callable[[], subprocess.Popen[bytes]], log: Log) -> None:
        self._start, self.log = start, log
        self.process = start()
        self.pause, self.again, self.restarts = FIRST_PAUSE, 0.0, 0
        self.begun = time.monotonic()

    @property
    def code(self) -> int | None:
        """Its exit code; None while it runs. One that a signal has ended is to be started again."""
        code = self.process.poll()
        return RETRY if code is not None and code < 0 else code

    def restart_later(self) -> None:
        """Start it again after a pause, which is longer each time."""
        lived = time.monotonic() - self.begun > LIVED
        self.pause = FIRST_PAUSE if lived else min(2 * self.pause, LONGEST_PAUSE)
        self.again = time.monotonic() + self.pause
        self.restarts += 1
        code = self.process.poll()
        self.log.say(Event.RESTART, code=code, seconds=self.pause, count=self.restarts)

    def restart(self) -> None:
        """Start it again."""
        self.again, self.begun = 0.0, time.monotonic()
        if self.process.stdin:
            self.process.stdin.close()
        self.process = self._start()

    def ended(self, told: bool) -> int:
        """The exit code of one that is to end. One that was told so before it had begun dies of it,
        and has ended as it was told.
        """
        died = told and self.process.returncode == -signal.SIGTERM
        return 0 if died else self.code or 0

    def wait(self) -> None:
        """Until it has ended."""
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdin:
            self.process.stdin.close()


def keep(
    topology: Topology,
    roles: Sequence[Role],
    port: int,
    host: str,
    until_idle_ms: int | None,
    log_format: Format,
) -> int:
    """A child for each of these roles, until they have ended or this process is told to; returns
    the exit code: 0, or that of the first role that has another.

    The parent has the sockets of their metrics: the address of a role's metrics is the same after
    each restart, and nobody else can take it meanwhile.

    Parameters
    ----------
    port, host : of the first role's metrics, the others have the next ports; 0: any free ones
    until_idle_ms : children end after so long without anything to read
    log_format : of the children

    Raises
    ------
    ConfigurationError : a port cannot be bound
    """
    told: list[int] = []  # no lock: a handler may run while its own thread holds one
    with ExitStack() as sockets:
        bound = [
            sockets.enter_context(listening(port + at if port else 0, host))
            for at in range(len(roles))
        ]
        for role, where in zip(roles, bound, strict=True):
            print(  # noqa: T201 - what the command says
                f"{topology.name} {role.name}: metrics at"
                f" http://{host}:{where.getsockname()[1]}/metrics",
                flush=True,
            )
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda number, _: told.append(number))
        children = [
            Child(
                starter(topology, role.name, where, until_idle_ms, log_format),
                Log(topology.name, role.name),
            )
            for role, where in zip(roles, bound, strict=True)
        ]
        try:
            code = watch(children, told)
        finally:
            running = end(children)
    if told:
        code = next((each for each in map(Child.ended, children, running) if each), 0)
    halted = "a role has halted: its last line says why" if code else "nothing was left to read"
    logs.ended("told to end" if told else halted, code)
    return code


def end(children: Sequence[Child]) -> list[bool]:
    """End them; which of them had not ended by themselves."""
    running = [child.process.poll() is None for child in children]
    for child, runs in zip(children, running, strict=True):
        if runs:
            child.process.terminate()
    for child in children:
        child.wait()
    return running


def starter(
    topology: Topology,
    role: str,
    bound: socket.socket,
    until_idle_ms: int | None,
    log_format: Format,
) -> Callable[[], subprocess.Popen[bytes]]:
    """What starts the child of a role, whose metrics are served at ``bound``."""
    words = [
        *(sys.executable, "-m", "ldp_kafka", "run", topology.file),
        *("--role", role, "--log-format", log_format),
        *(["-v"] if logs.verbose() else []),
        *([] if until_idle_ms is None else ["--until-idle", f"{until_idle_ms}ms"]),
    ]
    own = bound.fileno()
    environment: dict[str, Any] = {**os.environ, SUPERVISED: "1", METRICS_SOCKET: str(own)}
    return lambda: subprocess.Popen(  # noqa: S603 - ourselves
        words, stdin=subprocess.PIPE, env=environment, pass_fds=[own]
    )


def watch(children: Sequence[Child], told: Sequence[int]) -> int:
    """Until a signal is ``told``, all have ended by themselves, or one says halt.

    Roles stand in pipeline order. One that had nothing to read for long enough while an earlier one
    was still at work is started again once that has ended: it reads what came after its own end.
    """
    done: set[int] = set()
    early: set[int] = set()
    while not told:
        time.sleep(0.1)
        for at, child in enumerate(children):
            code = child.code
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
            elif code == RETRY:
                child.restart_later()
            else:
                return code
    return 0
