"""What is known of a topology at its brokers: offsets, counts, slots and reasons.

There is no user's value, id or time among them. How far a partition has come is given as a slot: it
is the latest of all its users, and the edge tells the collector as much with every batch of reports
(what is closed there). Counts of messages and of dead letters are exact functions of raw data: they
are known to a login that may read at the edge, and to nobody else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from ldp_kafka.errors import Reason
from ldp_kafka.runtime.stages.slot_sums import SecondReports
from ldp_kafka.runtime.status.closing import Closing

__all__ = [
    "Facts",
    "Group",
    "InputPartition",
    "Lag",
    "Letters",
    "OpenTransaction",
    "Releases",
    "Side",
    "TopicState",
]


@dataclass(frozen=True)
class Side:
    """One side's brokers."""

    name: str
    """``edge`` or ``collector``."""
    brokers: int | None = None
    """How many there are; None where none answers, or none was asked."""
    cluster: str | None = None
    """The cluster's id."""
    embedded: bool = False
    not_asked: str | None = None
    """Why nobody was asked: there is no login or address here."""
    away: str | None = None
    """Why none answers."""

    @property
    def answers(self) -> bool:
        """Whether anything is known of it."""
        return self.brokers is not None


@dataclass(frozen=True)
class TopicState:
    """A topic, as it must be and as it is."""

    name: str
    side: str
    partitions: int
    """That it must have."""
    found: int | None
    """That it has; None where there is no such topic, or this login may not know of it."""
    ours: bool = True
    """Whether we make it."""

    @property
    def fits(self) -> bool:
        """Whether it is there as it must be."""
        return self.found == self.partitions


@dataclass(frozen=True)
class Lag:
    """Messages of one log that its group has not acknowledged."""

    topic: str
    partitions: Mapping[int, int]

    @property
    def total(self) -> int:
        """Of all partitions."""
        return sum(self.partitions.values())

    @property
    def worst(self) -> int:
        """The partition that has most of them."""
        return max(self.partitions, key=lambda at: (self.partitions[at], -at), default=0)


@dataclass(frozen=True)
class Group:
    """A consumer group."""

    name: str
    role: str
    side: str
    copies: bool = False
    """Whether it copies messages beside a role's agents, which have a group of their own."""
    state: str | None = None
    """In Kafka's words; None where the broker cannot say, or this login may not know."""
    members: int | None = None
    lags: tuple[Lag, ...] = ()
    why: str | None = None
    """Why something of it is not known."""

    @property
    def lag(self) -> int:
        """Of all its logs."""
        return sum(each.total for each in self.lags)

    @property
    def most(self) -> Lag:
        """The log with the most messages that wait."""
        return max(self.lags, key=lambda each: each.total)


@dataclass(frozen=True)
class InputPartition:
    """A partition of the log that values come in by: the raw topic, or that of devices' reports."""

    number: int
    messages: int | None = None
    """That it holds, a header record not counted; None where it was not asked."""
    sampled: int = 0
    """Of them, that were read: the last ones."""
    events: int = 0
    """Valid events, or reports of devices, among these."""
    bad: Mapping[str, int] = field(default_factory=dict)
    """Rows that are none, by `Reason`."""
    late: int = 0
    """Of the events, those that come when these messages alone have closed their slot."""
    clocks: int = 0
    """Of these, those that an event alone makes late that was far ahead of its record's timestamp.
    """
    oldest: int | None = None
    """The earliest slot of an event among these, and the partition's first ones."""
    event: int | None = None
    """The latest."""
    newest: int | None = None
    """The latest slot of an event or a tick."""
    closed: int | None = None
    """The last slot that whoever folds the partition has closed for the collector."""

    def through(self, closing: Closing) -> int | None:
        """The last slot that this partition lets be released; None where nothing is known."""
        known = [] if self.newest is None else [closing.through(self.newest)]
        return max(known + ([] if self.closed is None else [self.closed]), default=None)


class OpenTransaction(NamedTuple):
    """A transaction that has not ended: who reads what is committed is given nothing behind its
    first record.
    """

    partition: int
    offset: int
    """Of its first record."""
    behind: int
    """Offsets from there to the end."""
    since: int
    """When its first record was written, by its own timestamp (milliseconds); -1: not known."""


@dataclass(frozen=True)
class Letters:
    """A topic of dead letters."""

    topic: str
    side: str
    total: int | None = None
    """That it holds."""
    sampled: int = 0
    """Of them, that were read: the last ones."""
    reasons: Mapping[str, int] = field(default_factory=dict)
    """Of these, by `Reason`."""
    why: str | None = None
    """Why something of it is not known."""


@dataclass(frozen=True)
class Releases:
    """The topic of releases, and how far they have come."""

    topic: str
    total: int | None = None
    """Records that it holds."""
    sampled: int = 0
    """Of them, that were read: the last ones."""
    slot: int | None = None
    """The latest slot among these."""
    statistic: str | None = None
    """Of the release of this slot that was written last."""
    written: int | None = None
    """When that was, milliseconds."""
    passed: int | None = None
    """The last slot that the collector has merged, or passed over since nobody reported: as of its
    last snapshot.
    """
    first: int | None = None
    """The first slot that has a report, as of the same."""
    why: str | None = None
    """Why something of it is not known."""

    @property
    def through(self) -> int | None:
        """The last slot that is done."""
        return max((each for each in (self.slot, self.passed) if each is not None), default=None)


@dataclass(frozen=True)
class Facts:
    """All that was found, at one moment."""

    topology: str
    closing: Closing
    sides: tuple[Side, ...]
    topics: tuple[TopicState, ...] = ()
    groups: tuple[Group, ...] = ()
    """In pipeline order."""
    given: str = ""
    """The topic that values come in by."""
    given_by: str = "input.partitions"
    """The key that says how many partitions it has."""
    log: str = ""
    """The log that is folded: the same, unless it is relayed."""
    devices: bool = False
    """Whether devices write their reports there, and nobody raw values."""
    given_messages: int | None = None
    """That the first of them holds."""
    input: tuple[InputPartition, ...] = ()
    input_why: str | None = None
    """Why the input was not read."""
    idle_ms: int | None = None
    clock: bool = False
    """Whether workers write ticks by their clock."""
    """After which a partition without events gets a tick; None: never."""
    written: bool = True
    """Whether ticks can be written into the log."""
    present: int | None = None
    """The slot of the time at which it was asked, where events have such times."""
    max_ahead_ms: int = 0
    """How far an event may be ahead of its record's timestamp."""
    hole: tuple[int, int] | None = None
    """A partition of ``given`` and an offset of it that holds no record, where all must."""
    compacted: bool = False
    """Whether ``given`` is compacted, where it must not be."""
    open: tuple[OpenTransaction, ...] = ()
    """Of ``given``, where what is committed alone is read."""
    split: int = 0
    """Users of the events read who are in several partitions."""
    second: SecondReports = field(default_factory=SecondReports)
    """What the collector has counted, as of its last snapshots."""
    letters: tuple[Letters, ...] = ()
    releases: Releases = field(default_factory=lambda: Releases(""))

    def side(self, name: str) -> Side:
        """One of them."""
        return next(each for each in self.sides if each.name == name)

    @property
    def through(self) -> int | None:
        """The last slot that the input lets be released."""
        found = [each.through(self.closing) for each in self.input]
        known = [each for each in found if each is not None]
        if self.closing.waits != "all":
            return max(known, default=None)
        return min(known) if known and len(known) == len(found) else None

    @property
    def event(self) -> int | None:
        """The latest slot of an event that was read."""
        return max((each.event for each in self.input if each.event is not None), default=None)

    @property
    def bad(self) -> dict[str, int]:
        """Rows of the input's sample that are no events, by reason, the most frequent first."""
        found: dict[str, int] = {}
        for each in self.input:
            for reason, number in each.bad.items():
                found[reason] = found.get(reason, 0) + number
        return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))

    def as_json(self) -> dict[str, Any]:
        """The same for machines; slots are numbers, of ``slot_ms`` milliseconds since 1970."""
        return {
            "brokers": [asdict(each) for each in self.sides],
            "topics": [{**asdict(each), "fits": each.fits} for each in self.topics],
            "groups": [_group(each) for each in self.groups],
            "input": {
                "topic": self.given,
                "log": self.log,
                "slot_ms": self.closing.slot_ms,
                "through": self.through,
                "why": self.input_why,
                "split": self.split,
                "hole": self.hole,
                "compacted": self.compacted,
                "open_transactions": [each._asdict() for each in self.open],
                "partitions": [
                    {**asdict(each), "through": each.through(self.closing)} for each in self.input
                ],
            },
            "dead_letters": [
                {
                    **asdict(each),
                    "reasons": [
                        {"reason": code, "number": number, "cure": Reason(code).cure}
                        for code, number in each.reasons.items()
                    ],
                }
                for each in self.letters
            ],
            "second_reports": self.second._asdict(),
            "releases": {**asdict(self.releases), "through": self.releases.through},
        }


def _group(group: Group) -> dict[str, Any]:
    lags = [
        {
            "topic": each.topic,
            "total": each.total,
            "worst": each.worst,
            "partitions": {str(number): lag for number, lag in each.partitions.items()},
        }
        for each in group.lags
    ]
    return {**asdict(group), "lag": group.lag, "lags": lags}
