"""Whether a worker's brokers are there, and the clock of all that waits for them.

A worker that ended whenever its brokers are away would only be started again to find them away.
So it waits: nothing is folded meanwhile, and no deadline comes nearer.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from itertools import cycle
from typing import NamedTuple, TypeVar

from ldp_kafka.errors import BrokerError, LdpKafkaError
from ldp_kafka.runtime.kafka.admin.asking import refused

__all__ = ["BrokerHealth", "Question", "UnansweredError"]

LOOK = 1.0  # seconds between two questions
STEP = 2 * LOOK  # seconds that one answer moves the clock on at most
AGAIN = 0.05  # seconds until `answered` asks again
ANEW = 10  # questions without an answer, one after the other, after which new clients ask

_Answer = TypeVar("_Answer")


class UnansweredError(Exception):
    """The broker did not answer a question; its cause is the BrokerError that says why."""


class Question(NamedTuple):
    """What is asked of a broker."""

    about: str
    """In words, for the error; questions about the same are one."""
    ask: Callable[[], object]


class BrokerHealth:
    """What the brokers of one worker have answered of late. Any thread may use it.

    They are away from the first question that they leave without an answer until they have
    answered all that they left so. Such a question is asked again, once a second.

    Parameters
    ----------
    routine : questions that are asked in turn, one a second
    clock : seconds, never going back
    gone : is told of the beginning of each outage, and why it is one
    back : is told of its end
    renew : has questions asked by new clients
    shown : is told after each look for how many seconds they have been away
    """

    def __init__(
        self,
        routine: Sequence[Question] = (),
        *,
        clock: Callable[[], float] = time.monotonic,
        gone: Callable[[str], None] = lambda _: None,
        back: Callable[[], None] = lambda: None,
        renew: Callable[[], None] = lambda: None,
        shown: Callable[[float], None] = lambda _: None,
    ) -> None:
        self._routine, self._clock = cycle(routine), clock
        self._asks = bool(routine)
        self._gone, self._back, self._renew = gone, back, renew
        self._shown, self._misses = shown, 0
        self._unanswered: dict[str, Question] = {}
        self._lock = threading.Lock()
        self._there, self._heard = 0.0, clock()
        self.since: float | None = None
        """When the outage began; None: there is none."""
        self.over = float("-inf")
        """When the last outage was over."""
        self.in_vain = 0.0, ""
        """When the brokers were last asked again without an answer, and why there was none."""

    @property
    def here(self) -> bool:
        """Whether every question has been answered."""
        return self.since is None

    def clock(self) -> float:
        """Seconds in which the brokers have been there: up to their last answer, so it stands still
        from the first moment of an outage on, whenever that is noticed.
        """
        return self._there

    def ask(self, about: str, ask: Callable[[], _Answer]) -> _Answer:
        """Ask a broker; blocking.

        Raises
        ------
        UnansweredError : it did not answer; it is asked again until it does, or until `forget`
        LdpKafkaError : of any other kind: asking again does not help
        """
        try:
            with refused(f"{about}: the broker did not say"):
                answer = ask()
        except BrokerError as error:
            self._missed(Question(about, ask), error)
            raise UnansweredError from error
        self.forget(about)
        return answer

    def forget(self, about: str) -> None:
        """Nobody wants to know any more, or it was answered."""
        with self._lock:
            self._unanswered.pop(about, None)
            over = self.since is not None and not self._unanswered
            if over:
                self.over = self._heard = self._clock()  # before it is: see `health.Health.facts`
                self.since = None
        if over:
            self._back()

    async def answered(
        self, about: str, question: Callable[[], _Answer], wanted: Callable[[], bool]
    ) -> _Answer | None:
        """What a broker says, however long it is away; None where nobody wants to know any more."""
        while wanted():
            try:
                answer = await asyncio.to_thread(self.ask, about, question)
            except UnansweredError:
                await asyncio.sleep(AGAIN)
            else:
                return answer if wanted() else None
        self.forget(about)
        return None

    def look(self) -> None:
        """Ask once: what was left without an answer, or what is next."""
        with self._lock:
            left = next(iter(self._unanswered.values()), None)
        if left is not None or self._asks:
            self._look(next(self._routine) if left is None else left)
        else:
            self._answered()
        since = self.since
        self._shown(0.0 if since is None else self._clock() - since)

    def _look(self, question: Question) -> None:
        try:
            self.ask(*question)
        except UnansweredError as error:
            self._misses += 1
            if self._misses % ANEW == 0:
                self._renew()
            self.in_vain = self._clock(), str(error.__cause__)
        except LdpKafkaError:  # whoever needs the answer asks for it, and ends
            self.forget(question.about)
            self._answered()
        else:
            self._answered()

    def start(self) -> None:
        """Look from now on, until the process ends."""
        threading.Thread(target=self._run, daemon=True, name="brokers").start()

    def _run(self) -> None:
        while True:
            self.look()
            time.sleep(LOOK)

    def _answered(self) -> None:
        """The time since the last answer counts, if nothing is left open."""
        self._misses = 0
        with self._lock:
            now = self._clock()
            if self.since is None:
                self._there += min(now - self._heard, STEP)
            self._heard = now

    def _missed(self, question: Question, reason: BrokerError) -> None:
        with self._lock:
            begins = self.since is None
            self._unanswered[question.about] = question
            if begins:
                self.since = self._clock()
        if begins:
            self._gone(str(reason))
