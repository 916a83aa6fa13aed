"""Where in a raw log reports are sent, and how far the partition is there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import NEVER

__all__ = ["Passed", "Places", "Progress", "advance", "closed_at"]


class Progress(Protocol):
    """How far the events of a partition have come."""

    watermark: int
    """Greatest event time accepted, milliseconds."""
    closed: int
    """Last closed slot."""


class Passed(NamedTuple):
    """How far a partition has come, as whoever reads its reports is told."""

    closed: int
    """Last slot that no event can come for."""
    settled: int | None = None
    """Last slot that no request can come for; None where there are none."""


@dataclass(frozen=True, repr=False, slots=True)
class Places:
    """Messages (n,) of the raw log behind which reports may be sent, as columns."""

    offsets: NDArray[np.int64]
    before: NDArray[np.intp]
    """Which of `passed` the partition had come to before each message, ..."""
    after: NDArray[np.intp]
    """... and with it."""
    passed: Sequence[Passed]
    """How far the partition was, each different from the one before it."""

    @classmethod
    def of(cls, offset: int, before: Passed, after: Passed) -> Places:
        """One message, which brings the partition further."""
        return cls(np.array([offset]), np.array([0]), np.array([1]), [before, after])

    def __len__(self) -> int:
        return len(self.offsets)

    def __repr__(self) -> str:
        return f"Places({len(self)})"

    def take(self, rows: Sequence[int] | NDArray[np.intp]) -> Places:
        """Those at ``rows``, in that order."""
        return Places(self.offsets[rows], self.before[rows], self.after[rows], self.passed)

    @property
    def moving(self) -> NDArray[np.intp]:
        """Which of them bring the partition further."""
        return np.flatnonzero(self.before != self.after)

    @property
    def closed_before(self) -> NDArray[np.int64]:
        """The last slot (n,) that was closed before each of them."""
        return np.array([each.closed for each in self.passed], np.int64)[self.before]


def closed_at(timestamps: NDArray[np.int64], *, slot_ms: int, lateness: int) -> NDArray[np.int64]:
    """The last slot (n,) that a tick of the same time as each record would close: its events of
    that slot and of earlier ones are late by the record itself. NEVER where it has no timestamp.
    """
    return np.where(timestamps < 0, NEVER, timestamps // slot_ms - lateness - 1)


def advance(
    state: Progress,
    offsets: NDArray[np.int64],
    latest: NDArray[np.int64],
    *,
    slot_ms: int,
    lateness: int,
    passed: Callable[[], Passed],
) -> Places:
    """Bring a partition further by messages (n,) at these offsets: how far it is before and with
    each, as ``passed`` tells it. A late event cannot move the watermark, so the greatest time of
    all valid ones, ``latest`` (-1: none), is that of the accepted ones.
    """
    steps, none = [passed()], np.zeros(len(offsets), np.intp)
    last, back = int(latest.max(initial=-1)), lateness + 1
    state.watermark = max(state.watermark, last)
    if last < 0 or last // slot_ms - back <= state.closed:
        return Places(offsets, none, none, steps)
    closing = np.where(latest < 0, NEVER, latest // slot_ms - back)
    closed = np.maximum.accumulate(np.concatenate([(state.closed,), closing]))
    moves = closed[1:] != closed[:-1]
    for slot in closed[1:][moves].tolist():
        state.closed = slot
        steps.append(passed())
    after = moves.cumsum()
    return Places(offsets, after - moves, after, steps)
