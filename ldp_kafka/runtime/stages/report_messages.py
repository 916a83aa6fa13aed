"""Reports as messages of the reports topic: of each raw message, or of all between two bounds.

Every message says what the collector counts once by, (bound, chunk), and how far the partition is.
What a bound closes is said by its last message alone: all of its reports have come by then.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import NEVER
from ldp_kafka.records import Reports
from ldp_kafka.runtime.log import Output, PlainRecords
from ldp_kafka.runtime.stages.bounds import cut
from ldp_kafka.runtime.stages.places import Passed, Places
from ldp_kafka.runtime.wire.reports import write_reports
from ldp_kafka.runtime.wire.single_reports import Stamps, write_singles

__all__ = ["Drawn", "ReportMessages"]

CHUNK_ROWS = 2**14  # reports in one message at most ...
# ... and of about so many bytes: well below what a broker takes by default
CHUNK_BYTES = 700_000
ROW_BYTES = 48  # of a report, beside its packed bits


class Drawn(NamedTuple):
    """Reports (n,) that are to be sent."""

    batch: Reports
    phases: NDArray[np.int64]
    bound: NDArray[np.intp]
    """Which of the bounds each goes to."""

    def __repr__(self) -> str:
        return f"Drawn({len(self.phases)})"  # never a value


@dataclass(frozen=True)
class ReportMessages:
    """The messages of one partition of the reports topic.

    Parameters
    ----------
    delay : slots that a report may come after what it tells of is closed
    by_slot : whether a message holds reports of one slot alone
    """

    topic: str
    partition: int
    delay: int
    by_slot: bool

    def send(self, output: Output, places: Places, number: int, drawn: Drawn) -> None:
        """Send the reports of these bounds, in messages of one phase; one without reports where a
        bound only tells how far the partition is, which the last message of a bound alone does.

        Parameters
        ----------
        places : of the bounds
        number : of the first of them
        """
        batch, phases = drawn.batch, drawn.phases
        keys = (batch.slots, phases) if self.by_slot else (phases,)
        width = batch.values.itemsize * prod(batch.values.shape[1:])
        most = min(CHUNK_ROWS, max(1, CHUNK_BYTES // (ROW_BYTES + width)))
        parts = cut(batch.ids[:, 0].byteswap(), drawn.bound, keys, most)
        heads = parts.order[parts.ends[:-1]]
        to = drawn.bound[heads]
        stamps = Stamps(
            number + to,
            parts.chunk,
            phases[heads],
            np.where(parts.last, places.after[to], places.before[to]),
            said := [self._said(each) for each in places.passed],
        )
        texts = _written(batch.gather(parts.order), parts.ends, stamps)
        for place in reversed(places.moving.tolist()):
            start, end = np.searchsorted(to, (place, place + 1)).tolist()
            if start == end:
                passed = said[places.after[place]]
                empty = batch.take(slice(0, 0)).stamp(number + place, 0, 0, *passed)
                texts.insert(start, write_reports(empty))
        if texts:
            output.send(PlainRecords(self.topic, self.partition, texts))

    def _said(self, passed: Passed) -> tuple[int | None, int | None]:
        """What a message says is closed, and settled: a report may still come for a slot that is so
        far back.
        """
        return _slot(passed.closed, self.delay), _slot(passed.settled)


def _written(batch: Reports, ends: NDArray[np.intp], stamps: Stamps) -> list[bytes]:
    """Messages of consecutive rows; those of one row are written together."""
    if len(ends) == len(batch) + 1:
        return write_singles(batch, stamps)
    single = np.diff(ends) == 1
    alone = np.flatnonzero(single)
    written = iter(write_singles(batch.take(ends[alone]), stamps.take(alone)))
    texts = []
    for is_alone, (start, stop), stamp in zip(
        single.tolist(), pairwise(ends.tolist()), stamps.each(), strict=True
    ):
        if is_alone:
            texts.append(next(written))
        else:
            bound, chunk, phase, passed = stamp
            part = batch.take(slice(start, stop)).stamp(bound, chunk, phase, *passed)
            texts.append(write_reports(part))
    return texts


def _slot(last: int | None, back: int = 0) -> int | None:
    """A slot so far back; None where there is none yet."""
    return None if last is None or last == NEVER else last - back
