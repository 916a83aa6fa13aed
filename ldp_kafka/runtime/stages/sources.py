"""The partitions of someone else's topic that one partition of ours has events of, where a relay
re-keys: what of each was folded last, and how far its event time has come.

A relay begins where all copies had arrived, and a process that was taken for dead may go on: runs
of copies come twice, from either in their order and without gaps. So what was folded of a partition
is all up to one place, and a copy at or before that place is a repeat. A repeat is dropped before
anything is made of it: it is no late event and no dead letter, moves nothing, and counts nowhere.

A slot is closed by the slowest partition: event time has come as far as it has in each of them.
Copies do not say how far that is, since events go to others, too; ticks of that partition do, which
lie behind the copies of all that they speak of.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.runtime.log import Output
from ldp_kafka.runtime.runs import Run
from ldp_kafka.runtime.stages.raw import RawPartition
from ldp_kafka.runtime.stages.rows import Rows
from ldp_kafka.runtime.wire.copies import Place, place_of

__all__ = ["Sources", "read_new"]


class Sources:
    """How far each of so many partitions is.

    Examples
    --------
    >>> from ldp_kafka.runtime.log import Message
    >>> from ldp_kafka.runtime.wire.copies import tick_of
    >>> sources = Sources(2)
    >>> ticks = [tick_of(0, 5, 9_000), tick_of(1, 3, 7_000), tick_of(0, 4, 9_999)]
    >>> run, of = sources.new(Run.of([Message(at, -1, tick) for at, tick in enumerate(ticks)]))
    >>> len(run), of.tolist()
    (2, [0, 1])
    >>> sources.come(of, np.array([9_000, 7_000])).tolist()
    [-1, 7000]
    """

    def __init__(self, count: int) -> None:
        self._last: list[tuple[int, int]] = [(-1, -1)] * count
        """Offset and row of what was folded last."""
        self._times = [-1] * count
        """Milliseconds; -1: nothing is known."""

    def new(self, run: Run) -> tuple[Run, NDArray[np.intp]]:
        """The messages of a run that are no repeats, and which partition each is a copy of: -1 of
        one that is no copy.
        """
        kept, of = [], []
        for at, value in enumerate(run.values):
            place = place_of(value)
            if place is None:
                of.append(-1)
            elif self._is_new(place):
                self._last[place.source] = place[1:]
                of.append(place.source)
            else:
                continue
            kept.append(at)
        sources = np.array(of, np.intp)
        if len(kept) == len(run):
            return run, sources
        values = [run.values[at] for at in kept]
        return Run(run.offsets[kept], run.timestamps[kept], values), sources

    def _is_new(self, place: Place) -> bool:
        """Whether nothing behind it was folded, nor a copy at it: of ticks there may be several, of
        a partition that is idle or held back.
        """
        last = self._last[place.source]
        return place[1:] > last or (place.is_tick and place[1:] == last)

    def come(self, of: NDArray[np.intp], times: NDArray[np.int64]) -> NDArray[np.int64]:
        """How far event time has come in all partitions with each message (n,), milliseconds; -1:
        it is not known of one of them.

        Parameters
        ----------
        of : the partition of each message, as `new` gives it
        times : how far it has come in this one, as the message says; -1: it does not
        """
        found = np.empty(len(times), np.int64)
        start, least = 0, min(self._times)
        for at in np.flatnonzero((times >= 0) & (of >= 0)).tolist():
            found[start:at], start = least, at
            source = of.item(at)
            self._times[source] = max(self._times[source], times.item(at))
            least = min(self._times)
        found[start:] = least
        return found

    def saved(self) -> list[list[int]]:
        """All of it, as JSON."""
        pairs = zip(self._last, self._times, strict=True)
        return [[*last, time] for last, time in pairs]

    def restore(self, saved: Iterable[Sequence[Any]]) -> None:
        """Take in what `saved` gave."""
        for at, (offset, row, time) in enumerate(saved):
            self._last[at], self._times[at] = (offset, row), time

    def __repr__(self) -> str:
        return f"Sources({len(self._last)})"  # never a time


def read_new(
    raw: RawPartition, sources: Sources | None, run: Run, output: Output
) -> tuple[Run, Rows, NDArray[np.int64]]:
    """The messages of a run that are no repeats, and of them what `RawPartition.read` gives.

    Parameters
    ----------
    sources : where a relay re-keys, brought up to date; None elsewhere, where all are new
    """
    if sources is None:
        return run, *raw.read(run, output)
    run, of = sources.new(run)
    rows, latest = raw.read(run, output)
    return run, rows, sources.come(of, latest)
