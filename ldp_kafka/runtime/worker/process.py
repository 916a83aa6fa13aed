"""The process of one worker: how Faust is run, and how it ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import faust

from ldp_kafka.errors import BrokerError
from ldp_kafka.runtime.worker.exits import end, leave, standing
from ldp_kafka.runtime.worker.foreign import chain

__all__ = ["Process", "passing"]

LOOK = 0.1  # seconds between two looks at how far the end has come
GOODBYE = 5.0  # seconds for leaving the group once all is saved
LEAVE = 15.0  # seconds for ending in order, and from one snapshot to the next while it ends


class Process(faust.Worker):  # type: ignore[misc]
    """Faust's worker with a bounded shutdown: it exits after `LEAVE` seconds without a snapshot,
    whatever hangs in Faust or at a broker.

    What counts is safe before any end, as before any crash; but a process that neither works nor
    ends keeps its partitions from others.
    """

    saved: Callable[[], float] = staticmethod(lambda: 0.0)
    """When the last snapshot was written."""
    ending: Callable[[], None] = staticmethod(lambda: None)
    """Is told once that it ends."""
    begun: Callable[[], None] = staticmethod(lambda: None)
    """Is told that its loop turns, in it."""
    _leaving: threading.Event | None = None

    async def on_first_start(self) -> None:
        self.begun()
        await super().on_first_start()

    async def stop(self) -> None:
        if self._leaving is None:
            self._leaving = threading.Event()
            self.ending()
            threading.Thread(
                target=self._guard, args=(self._leaving,), daemon=True, name="leave"
            ).start()
        await super().stop()

    @property
    def finished(self) -> bool:
        """Whether all is saved and committed: nothing is left to do but to close connections, and a
        crash in that changes nothing.
        """
        return all(getattr(each, "finished", True) for each in (self.app, *self.services))

    def _guard(self, left: threading.Event) -> None:
        """Wait until it has left, or nothing moves.

        A client that waits for a rebalance does not hear that it is to close. Once all is saved and
        committed the group need not be told: it notices when the session is over.
        """
        begin, finished = time.monotonic(), None
        while not left.wait(LOOK):
            now = time.monotonic()
            if finished is None and self.finished:
                finished = now
            if finished is not None and now - finished >= GOODBYE:
                leave(f"all is saved, but its group was not told within {GOODBYE:g} s")
            if now - max(begin, self.saved()) >= LEAVE:
                text = f"ending in order came to nothing for {LEAVE:g} s: ended at once"
                end(BrokerError(f"{text}; it waited here:{standing()}"))

    def left(self) -> None:
        """It has ended."""
        if self._leaving is not None:
            self._leaving.set()


def passing(crash: BaseException | None) -> bool:
    """Whether a crash of Faust's came of the system, or of waiting: another start may help. Else
    somebody has to look at it.
    """
    return any(isinstance(each, OSError) for each in chain(crash))
