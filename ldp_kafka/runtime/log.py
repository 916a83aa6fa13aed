"""What a log holds, and what folds it: messages in, records out, by a stage that is pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias, TypeVar

from ldp_kafka.errors import Reason
from ldp_kafka.runtime.sealing import Seal

__all__ = [
    "Look",
    "Message",
    "Output",
    "PlainRecords",
    "Record",
    "Row",
    "Stage",
    "TableRecord",
    "TableRow",
]

S = TypeVar("S")


class Message(NamedTuple):
    """One record of the log that is folded."""

    offset: int
    timestamp: int
    """Milliseconds, of the record; -1 if it has none."""
    value: bytes | None

    def __repr__(self) -> str:
        return f"Message(offset={self.offset})"  # never a value


Row: TypeAlias = tuple[bytes | None, bytes, tuple[tuple[str, bytes | None], ...], int]
"""Of a record: key, value, headers, timestamp."""
TableRow: TypeAlias = tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int]
"""The same of a compacted log, where no value deletes the key."""


class Record(NamedTuple):
    """One record to be produced."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int = 0
    """Milliseconds; 0: when it is handed to the producer."""

    @property
    def number(self) -> int:
        """Of records."""
        return 1

    def rows(self) -> Iterable[Row]:
        """What it is beside its place."""
        return (self[2:],)

    def __repr__(self) -> str:
        return f"Record(topic={self.topic!r}, partition={self.partition})"


class PlainRecords(NamedTuple):
    """Records of one partition, in order, of which none has a key, headers or a time of its own:
    a tuple for each would take as long as to write it.
    """

    topic: str
    partition: int
    values: list[bytes]

    @property
    def number(self) -> int:
        """Of records."""
        return len(self.values)

    def rows(self) -> Iterable[Row]:
        """What each of them is beside its place."""
        return zip(repeat(None), self.values, repeat(()), repeat(0))

    def __repr__(self) -> str:
        return f"PlainRecords(topic={self.topic!r}, partition={self.partition})"


class TableRecord(NamedTuple):
    """One record of a changelog: the value of a key of its table from now on, None to delete it."""

    topic: str
    partition: int
    key: bytes
    value: bytes | None

    @property
    def number(self) -> int:
        """Of records."""
        return 1

    def rows(self) -> Iterable[TableRow]:
        """What it is beside its place."""
        return ((self.key, self.value, (), 0),)

    def __repr__(self) -> str:
        return f"TableRecord(topic={self.topic!r}, partition={self.partition})"


class Output:
    """What a fold gives: records in order, what to count, and what stands where.

    Parameters
    ----------
    letter : makes the dead letter of a row: (offset, row, reason)
    counts : names that are counted from zero
    """

    def __init__(
        self, letter: Callable[[int, int, Reason], Record], counts: Iterable[str] = ()
    ) -> None:
        self._letter = letter
        self.sent: list[Record | PlainRecords] = []
        """Records, in order."""
        self.counts: dict[str, float] = dict.fromkeys(counts, 0)
        """By name; those of dead letters as ``dead_letters:`` and the reason."""
        self.gauges: dict[str, float] = {}
        self.oldest: int | None = None
        """The earliest slot that a window released here; None where none did."""

    @property
    def records(self) -> list[Record]:
        """One by one, in order."""
        return [
            Record(each.topic, each.partition, *row) for each in self.sent for row in each.rows()
        ]

    def send(self, *records: Record | PlainRecords) -> None:
        """Produce these, after those before them."""
        self.sent += records

    def dead_letter(self, offset: int, row: int, reason: Reason) -> None:
        """One row of a message is no good."""
        self.sent.append(self._letter(offset, row, reason))
        self.count(f"dead_letters:{reason}")

    def count(self, name: str, n: float = 1) -> None:
        """So many more of what is counted under this name."""
        self.counts[name] = self.counts.get(name, 0) + n

    def gauge(self, name: str, value: float) -> None:
        """Where something stands now."""
        self.gauges[name] = value

    def released(self, slot: int) -> None:
        """A window released this slot, its earliest."""
        self.oldest = slot if self.oldest is None else min(self.oldest, slot)

    def __repr__(self) -> str:
        return f"Output({len(self.records)} records)"  # never a count: some are of raw data


@dataclass
class Look:
    """What a stage sees in its own state as it lies in a changelog: sums, never anything of one
    user. None where the stage has no such thing.
    """

    watermark: int | None = None
    """Greatest event time, milliseconds."""
    closed: int | None = None
    """Last closed slot; of the merger the last one released."""
    users: int | None = None
    slots: int | None = None
    """Slots that are held."""
    spent: int | None = None
    """The most micro-epsilon that any user has spent in its run."""
    budget: int | None = None
    problems: list[tuple[str, str]] = field(default_factory=list)
    """(rule, what is wrong), the rule one of ``readable``, ``shards``, ``ledger``, ``budget``."""

    def complain(self, rule: str, number: int, text: str) -> None:
        """Note a problem of so many cases, if there are any."""
        if number:
            self.problems.append((rule, f"{number} {text}"))


class Stage(Protocol[S]):
    """A pure fold and how to write its state down. All that it does follows from the state and the
    messages.
    """

    oversize: ClassVar[str]
    """Why a shard is too large for a record, in words."""

    @property
    def fingerprint(self) -> str:
        """Of the topology: what feeds the noise."""

    @property
    def layout(self) -> str:
        """Of the topology: what else the state depends on."""

    @property
    def deployment(self) -> str:
        """What tells the log from every other of its name, where noise is bound to it; empty
        elsewhere.
        """

    @property
    def key(self) -> str:
        """What tells one secret key from another, where the state depends on it; empty
        elsewhere.
        """

    @property
    def seal(self) -> Seal | None:
        """What seals its records; None where the state holds nothing of a user's own."""

    @property
    def windowed(self) -> bool:
        """Whether it holds panes of open slots: shards named ``slot.shard``, whose records lie in
        windows of the table (`ldp_kafka.runtime.recovery.keys`).
        """

    def fresh(self) -> S:
        """The state before the first message."""

    def fold(self, state: S, messages: Sequence[Message]) -> Output:
        """Fold messages of consecutive offsets into the state, in place."""

    def dirty(self, state: S) -> set[str]:
        """Names of the shards that changed, or ended, since the last call."""

    def shards_of(self, state: S) -> set[str]:
        """Names of all shards that hold anything."""

    def dump(self, state: S, shards: Iterable[str]) -> dict[str, bytes]:
        """Those of these shards that hold anything, as bytes. One that has ended does not come
        back, or only after a snapshot without it.
        """

    def meta(self, state: S) -> dict[str, Any]:
        """All that is in no shard, as JSON."""

    def load(self, meta: Mapping[str, Any], shards: Mapping[str, tuple[int, bytes]]) -> S:
        """The state from what `meta` and `dump` gave; each shard with its checkpoint offset,
        which can be later than that of meta.
        """

    def watermark(self, state: S) -> int:
        """The greatest event time that was folded, milliseconds; -1 where none is known."""

    def budget(self, state: S) -> tuple[int, int] | None:
        """The most micro-epsilon that any user has spent in its current run, and the budget; None
        where no user has one here.
        """

    def users(self, state: S) -> int | None:
        """How many users, or streams, the state knows; None where it holds nothing of them."""

    def look(self, meta: Mapping[str, Any], shards: Mapping[str, bytes]) -> Look:
        """What `meta` and `dump` wrote, looked at shard by shard without being loaded; a shard
        that cannot be read is a problem, a ``meta`` that cannot is an error.
        """
