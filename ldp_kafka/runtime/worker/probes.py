"""What a worker answers to whoever asks whether it works: `/live` and `/ready`.

`Probes` gathers the facts, in the worker's threads. What follows from them is said by two tables of
rules, `LIVE` and `READY`, of which the first that holds decides. An answer is a yes or no and why,
in one line: counts of partitions and seconds, never a value.

A partition that stands still ends the worker by itself (`watch.Watch`). Nobody inside sees that the
loop hangs, that the watch does not look any more, or that the group never gives the worker
anything: that is what `/live` is for.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from enum import Enum
from typing import NamedTuple

__all__ = ["LIVE", "READY", "Answer", "Assignment", "Facts", "Probes", "Rule", "decide"]

BEAT = 1.0  # seconds between two turns of the loop that are noted
STUCK = 120.0  # seconds: a fold that closes a window of 10,000 streams takes some of them
START = 600.0  # seconds for reading what earlier workers have kept
JOIN = 600.0  # seconds for joining a group: workers of an older release keep newer ones out of it


class Assignment(Enum):
    """Where a worker stands in its consumer group."""

    NONE = "none yet"
    REVOKED = "revoked"
    RECOVERING = "recovering"
    RECOVERED = "recovered"


class Facts(NamedTuple):
    """What is known of a worker at a moment; seconds.

    Parameters
    ----------
    age : since the process began
    turned : since its loop has turned, or the broker answered again, whichever is less; None: it
        has not begun
    looked : the same of the watch's last look, or of the loop's beginning
    joining : since the group has taken all partitions back, or the process began, or the broker
        answered again, whichever is less; 0 where the group has given it any, or none
    silent : for which the broker has left questions unanswered; None: it answers
    assignment : of the consumer group
    partitions : that it has
    ending : whether it was told to end
    """

    age: float = 0.0
    turned: float | None = 0.0
    looked: float = 0.0
    joining: float = 0.0
    silent: float | None = None
    assignment: Assignment = Assignment.RECOVERED
    partitions: int = 1
    ending: bool = False


class Answer(NamedTuple):
    """What a probe says."""

    yes: bool
    why: str


class Rule(NamedTuple):
    """Where it holds, and no rule before it, this is the answer."""

    holds: Callable[[Facts], bool]
    yes: bool
    why: Callable[[Facts], str]


LIVE = (
    Rule(lambda f: f.ending, True, lambda _: "it ends in order"),  # within a time, or at once
    Rule(
        lambda f: f.silent is not None,
        True,
        lambda f: f"it waits for the broker, which has not answered for {f.silent:.0f} s",
    ),
    Rule(
        lambda f: f.turned is None and f.age > START,
        False,
        lambda f: f"it has been starting for {f.age:.0f} s",
    ),
    Rule(lambda f: f.turned is None, True, lambda _: "it starts"),
    Rule(
        lambda f: (f.turned or 0.0) > STUCK,
        False,
        lambda f: f"its loop has not turned for {f.turned:.0f} s",
    ),
    Rule(
        lambda f: f.joining > JOIN,
        False,
        lambda f: f"its consumer group has not assigned anything for {f.joining:.0f} s",
    ),
    # none of Faust's timers runs before the first state is read
    Rule(
        lambda f: f.looked > STUCK and f.assignment is Assignment.RECOVERED,
        False,
        lambda f: f"it has not looked after its partitions for {f.looked:.0f} s",
    ),
    Rule(lambda _: True, True, lambda _: "it makes progress"),
)
"""Whether a worker makes progress, or waits for a broker; else somebody should start it again."""

READY = (
    Rule(lambda f: f.ending, False, lambda _: "it ends"),
    Rule(lambda f: not decide(LIVE, f).yes, False, lambda f: decide(LIVE, f).why),
    Rule(lambda f: f.turned is None, False, lambda _: "it starts"),
    Rule(
        lambda f: f.assignment is Assignment.NONE,
        False,
        lambda _: "its consumer group has not assigned partitions yet",
    ),
    Rule(
        lambda f: f.assignment is Assignment.REVOKED,
        False,
        lambda _: "its partitions are revoked: its consumer group rebalances",
    ),
    Rule(
        lambda f: f.assignment is Assignment.RECOVERING,
        False,
        lambda f: f"it recovers the state of its partitions ({f.partitions})",
    ),
    Rule(
        lambda f: not f.partitions,
        True,
        lambda _: "it stands by: its consumer group has more workers than partitions",
    ),
    Rule(lambda _: True, True, lambda f: f"its partitions are recovered ({f.partitions})"),
)
"""Whether a worker is assigned and recovered, and neither revoked nor ending."""


def decide(rules: tuple[Rule, ...], facts: Facts) -> Answer:
    """What the first rule says that holds."""
    rule = next(rule for rule in rules if rule.holds(facts))
    return Answer(rule.yes, rule.why(facts))


class Probes:
    """The facts of one worker, noted by its threads and asked by the one that answers.

    Parameters
    ----------
    clock : seconds
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begun = self._answered = clock()
        self._turned: float | None = None
        self._looked = self._begun
        self._silent: float | None = None
        self._joining: float | None = self._begun
        self._ending = False
        self.assignment: Callable[[], Assignment] = lambda: Assignment.NONE
        """Where the worker stands; may be asked from any thread."""
        self.partitions: Callable[[], int] = lambda: 0
        """How many partitions it has; asked where some may be assigned."""

    @property
    def pages(self) -> Mapping[str, Callable[[], Answer]]:
        """By path."""
        return {
            "/live": lambda: decide(LIVE, self.facts()),
            "/ready": lambda: decide(READY, self.facts()),
        }

    def beat(self) -> None:
        """Note that the loop turns, now and from now on; in the loop."""
        now = self._clock()
        if self._turned is None:
            self._looked = now
        self._turned = now
        asyncio.get_running_loop().call_later(BEAT, self.beat)

    def looked(self) -> None:
        """The watch has looked to its end."""
        self._looked = self._clock()

    def assigned(self) -> None:
        """The group has given it partitions, or none."""
        self._joining = None

    def revoked(self) -> None:
        """The group has taken all of them back."""
        self._joining = self._clock()

    def silent(self) -> None:
        """The broker did not answer."""
        self._silent = self._clock() if self._silent is None else self._silent

    def answered(self) -> None:
        """The broker has answered."""
        if self._silent is not None:
            self._silent, self._answered = None, self._clock()

    def ending(self) -> None:
        """The worker was told to end."""
        self._ending = True

    def facts(self) -> Facts:
        """What is known now."""
        now = self._clock()
        turned, silent, joining = self._turned, self._silent, self._joining
        assignment = self.assignment()
        given = assignment in (Assignment.RECOVERING, Assignment.RECOVERED)
        return Facts(
            age=now - self._begun,
            turned=None if turned is None else now - max(turned, self._answered),
            looked=now - max(self._looked, self._answered),
            joining=0.0 if joining is None else now - max(joining, self._answered),
            silent=None if silent is None else now - silent,
            assignment=assignment,
            partitions=self.partitions() if given else 0,
            ending=self._ending,
        )
