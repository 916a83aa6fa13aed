"""Worker machines: each runs every topology's roles in one group of processes
(`tests.broker.chaos.crew`), which are started, told to end, killed and stopped.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tests.broker.chaos.crew import AGAIN, AWAY, BETWEEN, CLOCK
from tests.broker.flow import Flow
from tests.broker.place import Place

__all__ = ["Crew", "cpu_features"]

REPO = Path(__file__).parents[2]
YOUNG = 30.0  # seconds: one that was only just started may not know yet what to do when told to end
DISPATCH = (
    "import numpy._core._multiarray_umath as m; print(' '.join(x for x in m.__cpu_dispatch__ if"
    " m.__cpu_features__[x]))"
)


def cpu_features() -> list[str]:
    """What numpy chooses by at run time on this machine; some are left out on a second worker, so
    that it computes as another CPU would.
    """
    return subprocess.run(
        [sys.executable, "-c", DISPATCH], capture_output=True, text=True, check=True
    ).stdout.split()


class Crew:
    """A worker machine: what it runs with, and whether it is down on purpose.

    Parameters
    ----------
    flows : of whose topologies it runs all roles
    unexpected : gets a line for each end that must not be
    environment : of its processes, beside ours
    """

    def __init__(
        self,
        number: int,
        tmp: Path,
        flows: Sequence[Flow],
        unexpected: list[str],
        **environment: str,
    ) -> None:
        self.number, self.flows, self.unexpected = number, flows, unexpected
        self.environment = environment
        self.scratch = Place(tmp / f"scratch-{number}", 8)
        self.clock, self.log = tmp / f"clock-{number}", tmp / f"crew-{number}.log"
        self.between = tmp / "between"
        """Begins the names of files that kill a topology's forwarder, see `chaos.crew`."""
        self.process: subprocess.Popen | None = None
        self.disabled: list[str] = []
        self.held = False
        """Not to be started again by a supervisor."""
        self.starts, self.begun = 0, 0.0

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self, away: str = "", **more: str) -> None:
        """A new process, whatever became of the last one, without the roles that are ``away``."""
        environment = {
            **os.environ,
            **self.environment,
            CLOCK: str(self.clock),
            AWAY: away,
            BETWEEN: str(self.between),
            "TMPDIR": str(self.scratch.path),
            **more,
        }
        if self.disabled:
            environment["NPY_DISABLE_CPU_FEATURES"] = " ".join(self.disabled)
        paths = [str(flow.path) for flow in self.flows]
        words = [sys.executable, "-m", "tests.broker.chaos.crew", *paths]
        with self.log.open("ab") as log:
            log.write(f"--- start {self.starts}\n".encode())
            self.process = subprocess.Popen(
                words, stdout=log, stderr=log, cwd=REPO, env=environment, process_group=0
            )
        self.starts, self.held, self.begun = self.starts + 1, False, time.time()

    def end(self, number: int = signal.SIGKILL, limit: float = 60.0) -> int:
        """End it on purpose; its exit code."""
        self.held = True
        process = self.process
        assert process is not None
        if process.poll() is None:
            crew_or_all = self.signal if number == signal.SIGKILL else process.send_signal
            crew_or_all(number)
        try:
            return process.wait(limit)
        except subprocess.TimeoutExpired:
            self.tell()
            time.sleep(1)
            self.unexpected.append(f"crew {self.number} did not end in {limit:g} s: {self.said()}")
            self.signal(signal.SIGKILL)
            return process.wait()

    def leave(self) -> None:
        """End it in order: each of its processes must say 0, or 75 where something else had
        happened to it.
        """
        young = time.time() - self.begun < YOUNG
        code = self.end(signal.SIGTERM)
        if code and not (young and code == -signal.SIGTERM):
            text = f"crew {self.number} ended with {code} on SIGTERM: {self.said(600)}"
            self.unexpected.append(text)

    def supervise(self) -> None:
        """A machine starts again what asks for it; that it ends by itself is wrong."""
        if not self.held and not self.running and self.process is not None:
            code = self.process.returncode
            self.unexpected.append(f"crew {self.number} ended with {code}: {self.said(1500)}")
            self.start()

    def signal(self, number: int) -> None:
        """To all of its processes."""
        assert self.process is not None
        os.killpg(self.process.pid, number)

    @property
    def pids(self) -> list[int]:
        """Of its workers."""
        assert self.process is not None
        words = ["pgrep", "-P", str(self.process.pid)]
        found = subprocess.run(words, capture_output=True, text=True, check=False).stdout
        return [int(pid) for pid in found.split()]

    def tell(self) -> None:
        """Have its processes write where they stand into the log."""
        for pid in self.pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGUSR1)

    def said(self, characters: int = 4000) -> str:
        """So much of the end of what it wrote."""
        return self.log.read_text(errors="replace")[-characters:] if self.log.exists() else ""

    @property
    def retried(self) -> int:
        """How often one of its processes asked to be started again."""
        return self.log.read_text(errors="replace").count(AGAIN) if self.log.exists() else 0

    @property
    def crashed(self) -> int:
        """How often one of its processes was ended by a signal that nobody had sent: native code
        that crashed, at which a supervisor shrugs as at any other death.
        """
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        ends = re.findall(r" ended with -(\d+)$", text, re.MULTILINE)
        return sum(int(number) not in (signal.SIGKILL, signal.SIGTERM) for number in ends)

    def close(self) -> None:
        """End all that runs."""
        if self.running:
            self.end()
        self.scratch.close()
