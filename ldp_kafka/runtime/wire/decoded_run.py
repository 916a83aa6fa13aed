"""What a run of messages holds: events as columns, bad rows, ticks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.errors import Reason
from ldp_kafka.records import Events
from ldp_kafka.runtime.wire.fields import Decoded

__all__ = ["DecodedRun", "PlainRun", "join_runs"]


class PlainRun(NamedTuple):
    """Plain events of several messages, none of which holds anything else."""

    events: Events
    places: NDArray[np.intp]
    """Of the messages (m,) in the run, rising."""
    sizes: NDArray[np.intp]
    """Events in each of them."""

    def __repr__(self) -> str:
        return f"PlainRun({len(self.events)} events)"  # never a value


class DecodedRun(NamedTuple):
    """What a run of messages holds; a message is named by its place in the run."""

    events: Events | None
    """In the order of messages, and of rows in a message; None where there are none."""
    message: NDArray[np.intp]
    """Of each event."""
    row: NDArray[np.int64]
    """Of each event in its message."""
    bad: Sequence[tuple[int, int, Reason]]
    """(message, row, reason) of what is no event."""
    ticks: Sequence[tuple[int, int]]
    """(message, milliseconds)."""

    def __repr__(self) -> str:
        # never a value
        return f"DecodedRun({len(self.row)} events, {len(self.bad)} bad rows)"

    def without(self, wrong: NDArray[np.bool_], reason: Reason) -> DecodedRun:
        """The events that are not wrong; the others are bad for this reason."""
        if self.events is None or not wrong.any():
            return self
        kept = np.flatnonzero(~wrong)
        pairs = zip(self.message[wrong].tolist(), self.row[wrong].tolist(), strict=True)
        return DecodedRun(
            self.events.take(kept) if len(kept) else None,
            self.message[kept],
            self.row[kept],
            [*self.bad, *((message, row, reason) for message, row in pairs)],
            self.ticks,
        )


def join_runs(plain: Sequence[PlainRun], others: Iterable[tuple[int, Decoded]]) -> DecodedRun:
    """Plain events, and messages that were read one by one, as one run.

    Parameters
    ----------
    plain : each message in one of them, in order
    others : (message, what it holds), in order
    """
    parts = [run.events for run in plain]
    messages = [np.repeat(run.places, run.sizes) for run in plain]
    rows = [_nth(run.sizes) for run in plain]
    bad, ticks = [], []
    for at, decoded in others:
        bad += [(at, row, reason) for row, reason in decoded.bad]
        if decoded.tick is not None:
            ticks.append((at, decoded.tick))
        if decoded.events is not None and len(decoded.events):
            n = len(decoded.events)
            parts.append(decoded.events)
            messages.append(np.full(n, at, np.intp))
            rows.append(np.arange(n) if decoded.rows is None else decoded.rows)
    if not parts:
        return DecodedRun(None, np.empty(0, np.intp), np.empty(0, np.int64), bad, ticks)
    events = Events.join(parts)
    message, row = (
        (messages[0], rows[0])
        if len(parts) == 1
        else (np.concatenate(messages), np.concatenate(rows))
    )
    if (message[1:] < message[:-1]).any():
        order = np.argsort(message, kind="stable")
        events, message, row = events.take(order), message[order], row[order]
    return DecodedRun(events, message, row, bad, ticks)


def _nth(sizes: NDArray[np.intp]) -> NDArray[np.int64]:
    """Of each event in its message, where messages hold so many."""
    return np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
