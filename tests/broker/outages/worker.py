"""One worker process as an operator runs it, and what its log, its probe and the system say of
it.
"""

from __future__ import annotations

import json
import re
import signal
import time
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.broker.forks import Life
from tests.runtime.worker.test_probes import probe

__all__ = ["Worker"]


class Worker:
    """A process of one role.

    Parameters
    ----------
    path : of the topology
    log : of this process alone
    """

    def __init__(self, path: Path, role: str, log: Path) -> None:
        self.role, self.log = role, log
        self.process = Life(["run", str(path), "--role", role, "--log-format", "json"], log)
        self.begun = time.time()
        self.told = float("inf")
        """When it was told to end."""
        self.paused, self.resumed = False, 0.0
        self.rss: list[tuple[float, int]] = []
        """(time, bytes) of memory."""
        self.dead: list[str] = []
        """What /live said where it said no."""
        self._port = 0

    def __str__(self) -> str:
        return self.log.stem

    @property
    def runs(self) -> bool:
        return self.process.poll() is None

    @property
    def ended(self) -> str:
        """How it ended without being told to; empty where it did not."""
        if self.told < time.time() or self.runs:
            return ""
        said = "; ".join(line["reason"].partition("\n")[0] for line in self.ends)
        return f"{self} ended with {self.process.poll()}: {said}"

    @property
    def ends(self) -> list[dict[str, Any]]:
        """The lines in which it said why it ends."""
        return self.lines("end")

    def pause(self) -> None:
        """Stop it, as a busy machine may for a while."""
        self.paused = True
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Have it go on, where it was stopped."""
        self.process.send_signal(signal.SIGCONT)
        if self.paused:
            self.paused, self.resumed = False, time.time()

    def lines(self, event: str) -> list[dict[str, Any]]:
        """Of this name in its log, with ``at`` in seconds since the epoch."""
        found = []
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        for line in text.splitlines():
            if f'"event": "{event}"' in line and line.endswith("}"):
                made = json.loads(line)
                found.append({**made, "at": datetime.fromisoformat(made["time"]).timestamp()})
        return found

    def look(self) -> None:
        """Note how much memory it has, and whether it says that it lives."""
        if not self.runs or self.told < time.time():
            return
        try:
            status = Path(f"/proc/{self.process.pid}/status").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return
        if found := re.search(r"VmRSS:\s+(\d+) kB", status):
            self.rss.append((time.time(), 1024 * int(found[1])))
        if not self._port and self.log.exists():
            text = self.log.read_text(errors="replace")
            found = re.search(r"metrics at http://127\.0\.0\.1:(\d+)/", text)
            self._port = int(found[1]) if found else 0
        if self._port and not self.paused:
            self._probe()

    def _probe(self) -> None:
        begin = time.time()
        try:
            code, why = probe(self._port, "/live")
        except TimeoutError:
            code, why = 503, "it gave no answer"
        if code == 503 and self.resumed < begin and not (self.paused or self.told < time.time()):
            self.dead.append(f"{self}: {why}")

    def most(self, since: float, until: float) -> int:
        """The most memory that it had in that time; 0 where nobody looked."""
        return max((size for at, size in self.rss if since <= at <= until), default=0)
