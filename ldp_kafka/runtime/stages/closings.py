"""The messages of a raw log that close slots, and the values that wait until then."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.randomness import Ids
from ldp_kafka.runtime.log import Output
from ldp_kafka.runtime.stages.panes import Panes
from ldp_kafka.runtime.stages.places import Places
from ldp_kafka.runtime.stages.rows import Rows

__all__ = ["closings"]


def closings(
    panes: Panes,
    rows: Rows,
    places: Places,
    find: Callable[[Ids], NDArray[np.intp]],
    output: Output,
    own: NDArray[np.int64] | None = None,
) -> Iterator[tuple[int, int, int]]:
    """Have the values of a run of messages wait, up to each message that closes slots: its place in
    the run, and the last slot that was closed before and that is with it. After the last one the
    rest waits. What is late is left out and counted.

    Parameters
    ----------
    find : the rows (n,) of the streams with these ids
    own : the last slot (messages,) that each message is too late for by itself; None: none is
    """
    late_for = places.closed_before if own is None else np.maximum(places.closed_before, own)
    first = 0
    for moving in [*places.moving.tolist(), len(places)]:
        end = min(moving + 1, len(places))
        part = slice(*np.searchsorted(rows.message, (first, end)).tolist())
        if part.start < part.stop:
            at = _in_time(rows, part, late_for, output)
            offsets = places.offsets[rows.message[at]]
            found = find(rows.users.take(at))
            output.count("clamped", panes.add(found, rows.slots[at], rows.values[at], offsets))
        if moving < len(places):
            before, after = (
                places.passed[which[moving]].closed for which in (places.before, places.after)
            )
            yield moving, before, after
        first = end


def _in_time(
    rows: Rows, part: slice, late_for: NDArray[np.int64], output: Output
) -> NDArray[np.intp]:
    """Where the rows lie that are not late, of messages between which nothing closes."""
    at = np.arange(part.start, part.stop)
    in_time = rows.slots[part] > late_for[rows.message[part]]
    if not in_time.all():
        output.count("late", int(np.count_nonzero(~in_time)))
        at = at[in_time]
    return at
