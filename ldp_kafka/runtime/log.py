"""What a log holds, and what folds it: messages in, records out, by a stage that is pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

__all__ = ["Folded", "Message", "Record", "Stage"]

S = TypeVar("S")


class Message(NamedTuple):
    """One record of the log that is folded."""

    offset: int
    timestamp: int
    """Milliseconds, of the record; -1 if it has none."""
    value: bytes | None

    def __repr__(self) -> str:
        return f"Message(offset={self.offset})"  # never a value


class Record(NamedTuple):
    """One record to be produced."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes
    headers: tuple[tuple[str, bytes], ...] = ()

    def __repr__(self) -> str:
        return f"Record(topic={self.topic!r}, partition={self.partition})"


class Folded(NamedTuple):
    """What a fold gave: records in order, and what to count."""

    records: list[Record]
    counts: Mapping[str, float]


class Stage(Protocol[S]):
    """A pure fold and how to write its state down. All that it does follows from the state and the
    messages.
    """

    oversize: ClassVar[str]
    """Why a shard is too large for a record, in words."""

    @property
    def fingerprint(self) -> str:
        """Of all that shapes reports."""

    @property
    def layout(self) -> str:
        """Of where the state lies and which records made it."""

    @property
    def key(self) -> str:
        """What tells one secret key from another, where the state depends on it; empty
        elsewhere.
        """

    def fresh(self) -> S:
        """The state before the first message."""

    def fold(self, state: S, messages: Sequence[Message]) -> Folded:
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
        """The state from what `meta` and `dump` gave; each shard with the offset that it covers,
        which can be later than that of meta.
        """

    def watermark(self, state: S) -> int:
        """The greatest event time that was folded, milliseconds; -1 where none is known."""

    def budget(self, state: S) -> tuple[int, int] | None:
        """The most micro-epsilon that any user has spent in its current run, and the budget; None
        where no user has one here.
        """
