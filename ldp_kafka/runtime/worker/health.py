"""Whether a worker is alive: the facts that its threads note, and the thread that looks at them.

What follows from the facts is said by `health_rules`.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Collection, Coroutine, Mapping
from typing import Any

from ldp_kafka.runtime.kafka.broker_health import BrokerHealth
from ldp_kafka.runtime.recovery.policies import Place
from ldp_kafka.runtime.worker.exits import end, leave
from ldp_kafka.runtime.worker.health_rules import (
    Answer,
    Assignment,
    Facts,
    Follows,
    Still,
    ending,
    live,
    ready,
)

__all__ = ["Health"]

LOOK = 0.1  # seconds between two looks for a rule that ends the process
BEAT = 1.0  # seconds between two turns of the loop that are noted


class Health:
    """The facts of one worker, noted by its threads, and the thread that looks at them.

    Parameters
    ----------
    clock : seconds
    """

    stop: Callable[[str], Coroutine[Any, Any, None]]
    """Ends the worker in order, for a reason; called in its loop."""
    _loop: asyncio.AbstractEventLoop

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begun = self._looked = self._read = self._snapshot = clock()
        self._turned: float | None = None
        self._joining: float | None = self._begun
        self._ending: float | None = None
        self._finished: float | None = None
        self._delivered: dict[Place, float] = {}
        self._still: Still | None = None
        self._failed: BaseException | None = None
        self._idle: float | None = None
        self._left = threading.Event()
        self.brokers = BrokerHealth(clock=clock)
        self.assignment: Callable[[], Assignment] = lambda: Assignment.NONE
        """Where the worker stands; may be asked from any thread."""
        self.partitions: Callable[[], int] = lambda: 0
        """How many partitions it has; asked where some may be assigned."""
        self.finished: Callable[[], bool] = lambda: False
        """Whether all is saved and committed; asked while it ends."""
        self.until_idle: float | None = None
        """Seconds without anything to read after which it ends; None: it goes on."""
        self.retires = "", float("inf")
        """A topology that its budget file retires, and when, by the clock on the wall."""

    @property
    def pages(self) -> Mapping[str, Callable[[], Answer]]:
        """By path."""
        return {"/live": lambda: live(self.facts()), "/ready": lambda: ready(self.facts())}

    def start(self) -> None:
        """Look from now on, until it has `left`."""
        threading.Thread(target=self._run, daemon=True, name="health").start()

    def _run(self) -> None:
        try:
            while not self._left.wait(LOOK):
                self.look()
        except BaseException as error:  # noqa: BLE001 - nobody waits for what a thread raises
            end(error)

    def look(self) -> None:
        """Do what the table says of the process."""
        if self._ending is not None and self._finished is None and self.finished():
            self._finished = self._clock()
        facts = self.facts()
        if (rule := ending(facts)) is None:
            return
        text = rule.text(facts)
        if rule.follows is Follows.STOP:
            self.until_idle = self._idle = None
            asyncio.run_coroutine_threadsafe(self.stop(text), self._loop)
        elif rule.code is None:
            end(self._failed or text)
        elif rule.code:
            end(text, rule.code)
        else:
            leave(text)

    def beat(self) -> None:
        """Note that the loop turns, now and from now on; in the loop."""
        now, self._loop = self._clock(), asyncio.get_running_loop()
        if self._turned is None:
            self._looked = now
        self._turned = now
        self._loop.call_later(BEAT, self.beat)

    def looked(self) -> None:
        """The watch has looked to its end."""
        self._looked = self._clock()

    def failed(self, error: BaseException) -> None:
        """The watch's look has come to an error."""
        self._failed = error

    def reading(self, lag: int | None) -> None:
        """So many messages are not acknowledged; None: nobody knows."""
        now = self._clock()
        if lag is None or lag:
            self._read, self._idle = now, None
        elif self.until_idle is not None and now - self._read >= self.until_idle:
            self._idle = now - self._read

    def delivered(self, place: Place) -> None:
        """A message has come."""
        self._delivered[place] = self.brokers.clock()

    def waiting(self, lag: Mapping[Place, int], busy: Collection[Place]) -> None:
        """Messages of these partitions are not acknowledged.

        Parameters
        ----------
        busy : partitions of which messages are in our hands: they are not acknowledged yet
        """
        now = self.brokers.clock()
        waits = {place for place, count in lag.items() if count and place not in busy}
        self._delivered = {
            place: self._delivered.get(place, now) if place in waits else now for place in lag
        }
        still = (Still(*at, lag[at], now - since) for at, since in self._delivered.items())
        self._still = max(still, key=lambda each: each.seconds, default=None)

    def assigned(self) -> None:
        """The group has given it partitions, or none."""
        self._joining = None

    def revoked(self) -> None:
        """The group has taken all of them back."""
        self._joining = self._clock()

    def saved(self) -> None:
        """A snapshot was written."""
        self._snapshot = self._clock()

    def ending(self) -> None:
        """The worker was told to end. Nobody looks after its partitions any more."""
        if self._ending is None:
            self._ending, self._still = self._clock(), None

    def left(self) -> None:
        """It has ended: nothing is looked at any more."""
        self._left.set()

    def facts(self) -> Facts:
        """What is known now."""
        now, brokers = self._clock(), self.brokers
        turned, joining, ends = self._turned, self._joining, self._ending
        away, over, (asked, reason) = brokers.since, brokers.over, brokers.in_vain
        topology, moment = self.retires
        assignment = self.assignment()
        given = assignment in (Assignment.RECOVERING, Assignment.RECOVERED)
        return Facts(
            age=now - self._begun,
            turned=None if turned is None else now - max(turned, over),
            looked=now - max(self._looked, over),
            joining=0.0 if joining is None else now - max(joining, over),
            silent=None if away is None else now - away,
            assignment=assignment,
            partitions=self.partitions() if given else 0,
            ending=ends is not None,
            asked=None if away is None else asked - away,
            reason=reason,
            saved=None if self._finished is None else now - self._finished,
            unsaved=None if ends is None else now - max(ends, self._snapshot),
            still=self._still,
            failed=self._failed is not None,
            idle=self._idle,
            retired=topology if time.time() >= moment else "",
        )
