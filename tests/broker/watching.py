"""Waiting for what must come about, and what the system says of a process."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

__all__ = ["alive", "memory", "stopped", "until"]

Found = TypeVar("Found")


def until(found: Callable[[], Found], seconds: float = 120.0) -> Found:
    """Wait until there is something; what it is."""
    end = time.monotonic() + seconds
    while not (made := found()):
        assert time.monotonic() < end, f"it did not come about in {seconds:g} s"
        time.sleep(0.1)
    return made


def _state(pid: int) -> str:
    """One letter (Linux); empty where there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0]
    except (ProcessLookupError, FileNotFoundError):
        return ""


def alive(pid: int) -> bool:
    """Whether a process runs (one that is only waited for does not)."""
    return _state(pid) not in ("", "Z")


def stopped(pid: int) -> bool:
    """Whether a signal has stopped it."""
    return _state(pid) == "T"


def memory(pid: int) -> int:
    """Bytes that it has of the machine's memory; 0 where it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return 0
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    return 1024 * int(found[1]) if found else 0
