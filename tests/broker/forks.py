"""Workers as forks of one process that has imported everything: what a start costs is most of what
a test of a few seconds costs. `tests/broker/test_supervisor.py` starts the command line itself.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.broker import mutant

__all__ = ["MUTANT", "Life", "live"]

REPO = Path(__file__).parents[2]
PRELOADED = ["ldp_kafka.cli", "ldp_kafka.runtime.worker.app", "ldp_kafka.runtime.roles", __name__]
MUTANT = "LDP_KAFKA_TEST_MUTANT"  # read by tests.broker.mutant only


def live(words: list[str], environment: dict[str, str], log: str) -> None:
    """Be `ldp-kafka` with these words; ends the process with its exit code."""
    os.chdir(REPO)
    os.environ.clear()
    os.environ.update(environment)
    out = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.dup2(out, 1), os.dup2(out, 2)
    sys.argv = ["ldp-kafka", *words]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if os.environ.get(MUTANT):
        mutant.become(words)
    from ldp_kafka.__main__ import main

    sys.exit(main())


class Life:
    """One process, with what is used of `subprocess.Popen`."""

    def __init__(self, words: list[str], log: Path) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(PRELOADED)
        self._process = context.Process(
            target=live, args=(words, dict(os.environ), str(log)), daemon=True
        )
        self._process.start()
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit code, less than 0 for a signal; None while it lives."""
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("ldp-kafka", timeout or 0.0)
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        if self._process.exitcode is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)
