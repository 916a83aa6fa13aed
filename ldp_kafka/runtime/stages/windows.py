"""Windows of a partition that close: which, in which order, and of which streams.

A batch of the paper is a tumbling window, a window that slides is a hopping one with a step of one
slot. Each value is kept once, in the pane of its slot (`panes`); a step takes the panes of its
``hop`` slots when they have closed, and what a hopping window needs of slots before them is in its
stream's state. So a window range is never written more than once, as Faust's wrapper of hopping
windows would do.

A window closes with the message that closes its last slot. Then every stream that has a value in
it, or has to be stepped on since values of its wait, is stepped once. Streams of a shard that was
written after that message have been stepped before a crash, and are not again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import NEVER
from ldp_kafka.methods.batch import Batch
from ldp_kafka.methods.delay import Closed, StreamMethod
from ldp_kafka.randomness import Randomness
from ldp_kafka.runtime.log import Output
from ldp_kafka.runtime.stages.panes import Panes
from ldp_kafka.runtime.stages.per_slot import Folded
from ldp_kafka.runtime.stages.users import Users

__all__ = ["Held", "Released", "Windows", "Zeros"]


class Held(Protocol):
    """What a fold of windows keeps of one partition."""

    users: Users
    """The streams."""
    shard_offsets: NDArray[np.int64]
    """Last offset that each shard of streams has folded, where it is ahead of the partition."""

    @property
    def panes(self) -> Panes:
        """The values of open slots."""


class Released(NamedTuple):
    """What one window releases."""

    rows: NDArray[np.intp]
    """(n,) of the streams, in the order of their digests."""
    closed: Closed
    """Its columns are in their order."""

    def __repr__(self) -> str:
        return f"Released({len(self.rows)} streams, {self.closed!r})"


class Zeros(NamedTuple):
    """Streams that have a value in each slot: 0 where nothing else came."""

    rows: NDArray[np.intp]
    """(n,) distinct."""
    first: int
    """Slot."""

    def __repr__(self) -> str:
        return f"Zeros({len(self.rows)} streams)"


NO_ZEROS = Zeros(np.empty(0, np.intp), 0)


@dataclass(frozen=True)
class Windows:
    """The windows of one method's streams.

    Parameters
    ----------
    method, randomness : what releases them; keyed, the only source of noise
    """

    method: StreamMethod
    randomness: Randomness

    def __repr__(self) -> str:
        return f"Windows({self.method.name})"  # never what its key draws

    def close(
        self,
        state: Held,
        before: int,
        closed: int,
        offset: int,
        output: Output,
        zeros: Zeros = NO_ZEROS,
    ) -> Iterator[Released]:
        """Step the windows that end behind slot ``before``, up to and including ``closed``, which
        the message at ``offset`` closes: what each releases, in their order.

        Parameters
        ----------
        zeros : streams that have a value in each slot; with any, ``before`` is a slot
        """
        hop = self.method.windows.hop
        for window in self._numbers(state, before, closed, offset, zeros):
            parts = [state.panes.close(window * hop + at) for at in range(hop)]
            found = self._step(state, window * hop, parts, offset, output, zeros)
            if found is not None:
                there = np.flatnonzero(~np.isnan(found.closed.values).all(axis=1))
                if len(there):
                    output.released(found.closed.first + int(there[0]))
                yield found

    def ended(self, closed: int) -> int:
        """The last slot of a window that has closed, where ``closed`` is the last closed slot."""
        hop = self.method.windows.hop
        return NEVER if closed == NEVER else (closed + 1) // hop * hop - 1

    def _numbers(
        self, state: Held, before: int, closed: int, offset: int, zeros: Zeros
    ) -> Iterator[int]:
        """Which windows are to be stepped: those with values, and after them as many as streams
        wait for; all where streams have a value in each slot.
        """
        hop = self.method.windows.hop
        last = (self.ended(closed) + 1) // hop - 1
        following = NEVER if before == NEVER else (before + 1) // hop
        while True:
            slots = state.panes.slots()
            first = slots[0] // hop if slots else last + 1
            if following <= last and (len(zeros.rows) or len(self._waiting(state, offset))):
                first = min(first, following)
            if first > last:
                return
            yield first
            following = first + 1

    def _waiting(self, state: Held, offset: int) -> NDArray[np.intp]:
        """Streams that have to be stepped in the slot after their last one."""
        rows = _behind(state, np.arange(state.users.state.count), offset)
        return rows[self.method.waiting(state.users.state, rows)]

    def _step(
        self,
        state: Held,
        first: int,
        parts: Sequence[Folded],
        offset: int,
        output: Output,
        zeros: Zeros,
    ) -> Released | None:
        """One window; None where it has no stream that was not stepped before."""
        for part in parts:
            output.count("duplicates", state.panes.dropped(part))
        given = np.unique(np.concatenate([zeros.rows, *(part.rows for part in parts)]))
        rows = np.union1d(_behind(state, given, offset), self._waiting(state, offset))
        if not len(rows):
            return None
        values = np.zeros((len(parts), len(rows)), np.int64)
        present = np.zeros((len(parts), len(rows)), np.bool_)
        empty = np.searchsorted(rows, zeros.rows[np.isin(zeros.rows, rows)])
        nothing = self.method.bound(np.zeros(len(empty)))
        for at in range(max(zeros.first - first, 0), len(parts)):
            values[at, empty], present[at, empty] = nothing, True
        for at, part in enumerate(parts):
            mine = np.isin(part.rows, rows, assume_unique=True)
            to, raw = np.searchsorted(rows, part.rows[mine]), state.panes.of(part)[mine]
            output.count("clamped", int(np.count_nonzero(self.method.outside(raw))))
            values[at, to], present[at, to] = self.method.bound(raw), True
        batch = Batch(rows, first, values, self.randomness, present)
        closed = self.method.close(state.users.state, batch)
        state.users.touch(rows)
        output.count("windows", len(rows))
        digests = state.users.state.digests(rows)
        order = np.lexsort((digests[:, 1], digests[:, 0]))
        return Released(rows[order], closed.of(order))


def _behind(state: Held, rows: NDArray[np.intp], offset: int) -> NDArray[np.intp]:
    """Those rows whose shards have not folded the message at ``offset``."""
    if offset > state.shard_offsets.max():
        return rows
    return rows[state.shard_offsets[state.users.shard[rows]] < offset]
