"""What SIGTERM and SIGINT mean to a process that has nothing to end in order."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ldp_kafka.runtime.worker.exits import leave

__all__ = ["ignored", "leaving"]

TOLD = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def leaving() -> Iterator[None]:
    """Meanwhile either ends the process at once, with 0: it has not begun what is to be saved.

    Whoever begins sets handlers of its own. Without these a process that starts would die of the
    signal, which is no end in order; and the first process of a container would not hear it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are not this thread's business
        return
    before = {number: signal.signal(number, _leave) for number in TOLD}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def ignored() -> None:
    """From now on they say nothing new: it has ended but for what it waits for."""
    for number in TOLD:
        signal.signal(number, signal.SIG_IGN)


def _leave(*_: Any) -> None:
    leave("told to end before it had begun")
