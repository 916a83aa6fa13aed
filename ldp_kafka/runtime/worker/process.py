"""The process of one worker: how Faust is run, and how seldom garbage is looked for."""

from __future__ import annotations

import gc
from collections.abc import Callable

import faust

from ldp_kafka.runtime.worker.foreign import chain

__all__ = ["YOUNG", "Process", "look_seldom", "passing"]

# Containers that are new since the last look. A fold makes some tens of thousands and frees them
# again; by Python's 700 it was looked through dozens of times, for a quarter of a worker's time.
YOUNG = 100_000


class Process(faust.Worker):  # type: ignore[misc]
    """Faust's worker. `health_rules.RULES` bound how long it takes to end, whatever hangs in Faust
    or at a broker.

    What counts is safe before any end, as before any crash; but a process that neither works nor
    ends keeps its partitions from others.
    """

    ending: Callable[[], None] = staticmethod(lambda: None)
    """Is told that it ends."""
    begun: Callable[[], None] = staticmethod(lambda: None)
    """Is told that its loop turns, in it."""

    async def on_first_start(self) -> None:
        self.begun()
        await super().on_first_start()

    async def stop(self) -> None:
        self.ending()
        await super().stop()

    @property
    def finished(self) -> bool:
        """Whether all is saved and committed: nothing is left to do but to close connections, and a
        crash in that changes nothing.

        A client that waits for a rebalance does not hear that it is to close. The group need not be
        told then: it notices when the session is over.
        """
        return all(getattr(each, "finished", True) for each in (self.app, *self.services))


def passing(crash: BaseException | None) -> bool:
    """Whether a crash of Faust's came of the system, or of waiting: another start may help. Else
    somebody has to look at it.
    """
    return any(isinstance(each, OSError) for each in chain(crash))


def look_seldom() -> None:
    """Look for garbage once in `YOUNG` objects from now on, and never again among those that are
    there already: modules, classes, what a worker is made of.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, *gc.get_threshold()[1:])
