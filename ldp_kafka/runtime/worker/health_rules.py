"""The rules of a worker's health, as data: what is seen of it, for how long, and what follows.

This is their only home: nothing else answers `/live` and `/ready`, and nothing else ends the
process but an error, which ends it where it is raised (`exits.end`). Words hold counts of
partitions and seconds, never a value. A table of `deploy/README.md` is made from it (`pages`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from typing import NamedTuple

from ldp_kafka.runtime.worker.exits import RETRY, WRONG, standing

__all__ = [
    "RULES",
    "Answer",
    "Assignment",
    "Facts",
    "Follows",
    "Rule",
    "Still",
    "ending",
    "live",
    "ready",
]

STUCK = 120.0  # seconds: a fold that closes a window of 10,000 streams takes some of them
START = 600.0  # seconds for reading what earlier workers have kept
JOIN = 600.0  # seconds for joining a group: workers of an older release keep newer ones out of it
STALL = 60.0  # seconds for which messages may wait without one being delivered
LONGEST = 900.0  # seconds after which a new process, with new clients and addresses, is better
GOODBYE = 5.0  # seconds for leaving the group once all is saved
LEAVE = 15.0  # seconds for ending in order, and from one snapshot to the next while it ends


class Assignment(Enum):
    """Where a worker stands in its consumer group."""

    NONE = "none yet"
    REVOKED = "revoked"
    RECOVERING = "recovering"
    RECOVERED = "recovered"


class Still(NamedTuple):
    """A partition in which messages wait, and none is delivered."""

    topic: str
    partition: int
    messages: int
    """Those that are not acknowledged."""
    seconds: float
    """Since one was delivered."""


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
    asked : of ``silent``, those until the broker was last asked in vain
    reason : why the broker gave no answer then
    saved : since all was saved and committed, while it ends; None: not all is
    unsaved : since the last snapshot, or since it was told to end, whichever is less; None: it does
        not end
    still : the partition that has stood still for longest
    failed : whether the watch's look came upon an error
    idle : since there was anything to read, where it is to end after `Health.until_idle`, and that
        is over; else None
    retired : the topology, once its budget file has retired it
    """

    age: float = 0.0
    turned: float | None = 0.0
    looked: float = 0.0
    joining: float = 0.0
    silent: float | None = None
    assignment: Assignment = Assignment.RECOVERED
    partitions: int = 1
    ending: bool = False
    asked: float | None = None
    reason: str = ""
    saved: float | None = None
    unsaved: float | None = None
    still: Still | None = None
    failed: bool = False
    idle: float | None = None
    retired: str = ""

    @property
    def waits(self) -> str:
        """Where in the code its coroutines wait."""
        return standing()


class Follows(Enum):
    """What follows where a rule holds: a word about the process, about `/live`, about `/ready`."""

    END = "the process ends at once", None, None
    STOP = "the process ends in order", None, None
    LIVE = "`/live` is 200", True, None
    NOT_LIVE = "`/live` and `/ready` are 503", False, None
    STARTS = "`/live` is 200, `/ready` is 503", True, False
    WAIT = "`/ready` is 503", None, False
    READY = "`/ready` is 200", None, True

    def __init__(self, words: str, live: bool | None, ready: bool | None) -> None:
        self.words, self.live, self.ready = words, live, ready
        self.ends = live is None and ready is None


class Rule(NamedTuple):
    """One thing that is seen of a worker, and what follows from it."""

    seen: str
    """In words."""
    since: Callable[[Facts], float | None]
    """Seconds for which it is seen; None: it is not."""
    follows: Follows
    says: str
    """In a probe's answer or the log's last line; ``f``, the facts, and ``after`` are put in."""
    after: float | None = None
    """Seconds after which it follows; None: at once."""
    code: int | None = None
    """Of a process that ends at once; None: the error's."""

    def holds(self, facts: Facts) -> bool:
        """Whether it is seen for long enough."""
        seconds = self.since(facts)
        return seconds is not None and (self.after is None or seconds > self.after)

    def text(self, facts: Facts) -> str:
        """What it says."""
        return self.says.format(f=facts, after=self.after)


def _seen(holds: bool) -> float | None:
    """`Rule.since` of what nobody measures."""
    return 0.0 if holds else None


END, STOP, LIVE, NOT_LIVE, STARTS, WAIT, READY = Follows

RULES: dict[str, Rule] = {
    "away for too long": Rule(
        "a broker leaves questions without an answer",
        lambda f: f.asked,
        END,
        f"the broker has been away for {LONGEST / 60:.0f} minutes: a new process looks for it anew;"
        " {f.reason}",
        LONGEST,
        RETRY,
    ),
    "retired": Rule(
        "the moment has come at which its budget file retires the topology",
        lambda f: _seen(f.retired != ""),
        END,
        "{f.retired} is retired by its budget file",
        code=WRONG,
    ),
    "failed": Rule(
        "looking after its partitions meets an error: a right is missing, or a topic has other"
        " partitions",
        lambda f: _seen(f.failed),
        END,
        "the error",
    ),
    "saved": Rule(
        "it ends, and all is saved and committed",
        lambda f: f.saved,
        END,
        "all is saved, but its group was not told within {after:g} s",
        GOODBYE,
        0,
    ),
    "unsaved": Rule(
        "it ends, and writes no snapshot",
        lambda f: f.unsaved,
        END,
        "ending in order came to nothing for {after:g} s: ended at once; it waited here:{f.waits}",
        LEAVE,
        RETRY,
    ),
    "stands still": Rule(
        "messages of a partition wait, and none is delivered (while brokers answer)",
        lambda f: None if f.still is None else f.still.seconds,
        END,
        "{f.still.topic} partition {f.still.partition}: {f.still.messages} messages wait, but none"
        " was delivered for {after:g} s; a new assignment will bring them",
        STALL,
        RETRY,
    ),
    "idle": Rule(
        "nothing was left to read for as long as `--until-idle` says",
        lambda f: f.idle,
        STOP,
        "nothing was left to read",
    ),
    "ends in order": Rule(  # within a time, or at once: see the rules above
        "it was told to end", lambda f: _seen(f.ending), LIVE, "it ends in order"
    ),
    "ends": Rule("it was told to end", lambda f: _seen(f.ending), WAIT, "it ends"),
    "away": Rule(
        "a broker leaves questions without an answer",
        lambda f: f.silent,
        LIVE,
        "it waits for the broker, which has not answered for {f.silent:.0f} s",
    ),
    "starts for too long": Rule(
        "its loop has not begun to turn",
        lambda f: f.age if f.turned is None else None,
        NOT_LIVE,
        "it has been starting for {f.age:.0f} s",
        START,
    ),
    "starts": Rule(
        "its loop has not begun to turn",
        lambda f: _seen(f.turned is None),
        STARTS,
        "it starts",
    ),
    "hangs": Rule(
        "its loop does not turn",
        lambda f: f.turned,
        NOT_LIVE,
        "its loop has not turned for {f.turned:.0f} s",
        STUCK,
    ),
    "left out": Rule(
        "its consumer group does not assign anything",
        lambda f: f.joining,
        NOT_LIVE,
        "its consumer group has not assigned anything for {f.joining:.0f} s",
        JOIN,
    ),
    "does not look": Rule(  # none of Faust's timers runs before the first state is read
        "it does not look after its partitions, whose state is recovered",
        lambda f: f.looked if f.assignment is Assignment.RECOVERED else None,
        NOT_LIVE,
        "it has not looked after its partitions for {f.looked:.0f} s",
        STUCK,
    ),
    "works": Rule("nothing of the above", lambda _: 0.0, LIVE, "it makes progress"),
    "joins": Rule(
        "its consumer group has not assigned partitions yet",
        lambda f: _seen(f.assignment is Assignment.NONE),
        WAIT,
        "its consumer group has not assigned partitions yet",
    ),
    "revoked": Rule(
        "its consumer group has taken its partitions back",
        lambda f: _seen(f.assignment is Assignment.REVOKED),
        WAIT,
        "its partitions are revoked: its consumer group rebalances",
    ),
    "recovers": Rule(
        "the state of its partitions is read",
        lambda f: _seen(f.assignment is Assignment.RECOVERING),
        WAIT,
        "it recovers the state of its partitions ({f.partitions})",
    ),
    "stands by": Rule(
        "its consumer group has given it no partition",
        lambda f: _seen(not f.partitions),
        READY,
        "it stands by: its consumer group has more workers than partitions",
    ),
    "ready": Rule(
        "nothing of the above",
        lambda _: 0.0,
        READY,
        "its partitions are recovered ({f.partitions})",
    ),
}
"""By name. The first that holds and has a word about a question decides it: whether the process
ends, whether it is live, and, where it is live, whether it is ready.
"""


class Answer(NamedTuple):
    """What a probe says."""

    yes: bool
    why: str


def holding(facts: Facts) -> Iterator[Rule]:
    """The rules that hold, in their order."""
    return (rule for rule in RULES.values() if rule.holds(facts))


def ending(facts: Facts) -> Rule | None:
    """The rule by which the process ends; None: it goes on."""
    return next((rule for rule in holding(facts) if rule.follows.ends), None)


def live(facts: Facts) -> Answer:
    """Whether a worker makes progress, or waits for a broker; else somebody should start it
    again.
    """
    return next(
        Answer(rule.follows.live, rule.text(facts))
        for rule in holding(facts)
        if rule.follows.live is not None
    )


def ready(facts: Facts) -> Answer:
    """Whether a worker is live, assigned and recovered, and neither revoked nor ending."""
    lives = live(facts)
    if not lives.yes:
        return lives
    return next(
        Answer(rule.follows.ready, rule.text(facts))
        for rule in holding(facts)
        if rule.follows.ready is not None
    )
