"""One worker process as an operator runs it, and what its own log, its probe and the system say of
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
from tests.broker.watching import memory
from tests.runtime.worker.test_health import probe

__all__ = ["Worker"]


class Worker(Life):
    """A process of one role.

    Parameters
    ----------
    path : of the topology
    log : of this process alone
    words : more of its command line
    """

    def __init__(self, path: Path, role: str, log: Path, *words: str) -> None:
        self.role, self.log, self.begun = role, log, time.time()
        log.touch()
        super().__init__(["run", str(path), "--role", role, "--log-format", "json", *words], log)
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
        return self.poll() is None

    @property
    def ended(self) -> str:
        """How it ended without being told to; empty where it did not."""
        if self.told < time.time() or self.runs:
            return ""
        return f"{self} ended with {self.poll()}: {self.reasons}"

    @property
    def reasons(self) -> str:
        """Why it ended, as it said."""
        return "; ".join(line["reason"].partition("\n")[0] for line in self.lines("end"))

    def terminate(self) -> None:
        self.told = time.time()
        super().terminate()

    def code(self, limit: float) -> int:
        """Its exit code, within a time."""
        try:
            return self.wait(limit)
        except BaseException:
            self.kill()
            raise AssertionError(f"not within {limit:g} s: {self.end_of_log}") from None

    def leave(self, limit: float = 60.0) -> None:
        """Tell it to end, and see that it does, in order."""
        self.terminate()
        assert self.code(limit) == 0, self.end_of_log

    def pause(self) -> None:
        """Stop it, as a busy machine may for a while."""
        self.paused = True
        self.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Have it go on, where it was stopped."""
        self.send_signal(signal.SIGCONT)
        if self.paused:
            self.paused, self.resumed = False, time.time()

    @property
    def end_of_log(self) -> str:
        return self.log.read_text(errors="replace")[-2500:]

    def says(self, event: str, times: int = 1, limit: float = 60.0) -> None:
        """Until its log has so many lines of this name."""
        end = time.monotonic() + limit
        while len(self.lines(event)) < times:
            assert self.runs, self.end_of_log
            assert time.monotonic() < end, self.end_of_log
            time.sleep(0.01)

    def lines(self, event: str) -> list[dict[str, Any]]:
        """Of this name in its log, with ``at`` in seconds since the epoch."""
        found = []
        for line in self.log.read_text(errors="replace").splitlines():
            if f'"event": "{event}"' in line and line.endswith("}"):
                made = json.loads(line)
                found.append({**made, "at": datetime.fromisoformat(made["time"]).timestamp()})
        return found

    def look(self) -> None:
        """Note how much memory it has, and whether it says that it lives."""
        if not self.runs or self.told < time.time():
            return
        if size := memory(self.pid):
            self.rss.append((time.time(), size))
        if not self._port:
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
