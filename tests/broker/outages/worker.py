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
        words = ["run", str(path), "--role", role, "--log-format", "json"]
        self.begun = time.time()
        self.process = Life(words, log)
        self.told = False
        """Whether it was told to end."""
        self.port = 0
        self.paused, self.resumed = False, 0.0
        self.rss: list[tuple[float, int]] = []
        """(time, bytes) of memory."""
        self.dead: list[tuple[float, str]] = []
        """When /live said no, and why."""

    @property
    def runs(self) -> bool:
        return self.process.poll() is None

    @property
    def code(self) -> int | None:
        return self.process.poll()

    def pause(self) -> None:
        self.paused = True
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)
        if self.paused:
            self.paused, self.resumed = False, time.time()

    def tell_to_end(self) -> None:
        """In order."""
        self.told = True
        self.process.terminate()

    def end(self, limit: float = 60.0) -> int:
        """End it in order; its exit code."""
        self.tell_to_end()
        return self.process.wait(limit)

    def lines(self, event: str, since: float = 0.0) -> list[dict[str, Any]]:
        """Of this name in its log, with ``at`` in seconds."""
        found = []
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        for line in text.splitlines():
            if line.startswith("{") and line.endswith("}"):
                made = json.loads(line)
                made["at"] = datetime.fromisoformat(made["time"]).timestamp()
                if made["event"] == event and made["at"] >= since - 0.001:
                    found.append(made)
        return found

    def look(self) -> None:
        """Note how much memory it has, and whether it says that it lives."""
        if not self.runs:
            return
        try:
            status = Path(f"/proc/{self.process.pid}/status").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return
        if found := re.search(r"VmRSS:\s+(\d+) kB", status):
            self.rss.append((time.time(), 1024 * int(found[1])))
        if not self.port and self.log.exists():
            text = self.log.read_text(errors="replace")
            if found := re.search(r"metrics at http://127\.0\.0\.1:(\d+)/", text):
                self.port = int(found[1])
        if self.port and not self.told and not self.paused:
            begin = time.time()
            try:
                code, why = probe(self.port, "/live")
            except TimeoutError:
                code, why = 503, "no answer"
            if code == 503 and self.resumed < begin and not self.paused:
                self.dead.append((begin, why))

    def most(self, since: float, until: float) -> int:
        """The most memory that it had in that time; 0 where nobody looked."""
        return max((size for at, size in self.rss if since <= at <= until), default=0)
