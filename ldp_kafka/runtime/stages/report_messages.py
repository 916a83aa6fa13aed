"""Reports as messages of the reports topic: of each raw message, or of all between two bounds.

Every message says what the collector counts once by, (offset, chunk), and how far the partition is.
What a bound closes is said by its last message alone: all of its reports have come by then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import NEVER
from ldp_kafka.records import Reports
from ldp_kafka.runtime.log import Output, Record
from ldp_kafka.runtime.stages.bounds import cut
from ldp_kafka.runtime.wire.reports import write_reports
from ldp_kafka.runtime.wire.single_reports import write_singles

__all__ = ["Drawn", "Passed", "Place", "ReportMessages"]

CHUNK_ROWS = 2**14  # reports in one message at most ...
# ... and of about so many bytes: well below what a broker takes by default
CHUNK_BYTES = 700_000
ROW_BYTES = 48  # of a report, beside its packed bits


class Passed(NamedTuple):
    """How far a partition has come, as whoever reads its reports is told."""

    closed: int
    """Last slot that no event can come for."""
    settled: int | None = None
    """Last slot that no request can come for; None where there are none."""


class Drawn(NamedTuple):
    """Reports (n,) that are to be sent."""

    batch: Reports
    phases: NDArray[np.int64]
    bound: NDArray[np.intp]
    """Which of the bounds each goes to."""

    def __repr__(self) -> str:
        return f"Drawn({len(self.phases)})"  # never a value


class Stamp(NamedTuple):
    """What a message says beside its rows."""

    offset: int
    chunk: int
    phase: int
    passed: tuple[int | None, int | None]


class Place(NamedTuple):
    """A bound: a message of the raw log behind which reports are sent."""

    offset: int
    before: Passed
    """How far the partition was before that message, ..."""
    after: Passed
    """... and is with it."""


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

    def send(self, output: Output, places: Sequence[Place], drawn: Drawn) -> None:
        """Send the reports of these bounds, in messages of one phase; one without reports where a
        bound only tells how far the partition is, which the last message of a bound alone does.
        """
        batch, phases = drawn.batch, drawn.phases
        keys = (batch.slots, phases) if self.by_slot else (phases,)
        width = batch.values.itemsize * prod(batch.values.shape[1:])
        most = min(CHUNK_ROWS, max(1, CHUNK_BYTES // (ROW_BYTES + width)))
        parts = cut(batch.ids[:, 0].byteswap(), drawn.bound, keys, most)
        heads = parts.order[parts.ends[:-1]]
        to = drawn.bound[heads]
        stamps = [
            Stamp(places[at].offset, chunk, phase, self._said(places[at], whole=last))
            for at, chunk, phase, last in zip(
                to.tolist(),
                parts.chunk.tolist(),
                phases[heads].tolist(),
                parts.last.tolist(),
                strict=True,
            )
        ]
        texts = iter(_written(batch.gather(parts.order), parts.ends, stamps))
        counts = np.bincount(to, minlength=len(places)).tolist()
        for place, count in zip(places, counts, strict=True):
            for text in islice(texts, count):
                output.send(Record(self.topic, self.partition, None, text))
            if not count and place.before != place.after:
                stamp = Stamp(place.offset, 0, 0, self._said(place, whole=True))
                text = _batch(batch.take(slice(0, 0)), stamp)
                output.send(Record(self.topic, self.partition, None, text))

    def _said(self, place: Place, *, whole: bool) -> tuple[int | None, int | None]:
        """What a message says is closed, and settled: a report may still come for a slot that is so
        far back.
        """
        passed = place.after if whole else place.before
        return _slot(passed.closed, self.delay), _slot(passed.settled)


def _written(batch: Reports, ends: NDArray[np.intp], stamps: Sequence[Stamp]) -> list[bytes]:
    """Messages of consecutive rows; those of one row are written together."""
    (single,) = np.nonzero(np.diff(ends) == 1)
    alone = [stamps[at] for at in single.tolist()]
    texts = write_singles(
        batch.take(ends[single]),
        [stamp.offset for stamp in alone],
        [stamp.chunk for stamp in alone],
        [stamp.phase for stamp in alone],
        [stamp.passed for stamp in alone],
    )
    if len(texts) == len(stamps):
        return texts
    written, cuts = dict(zip(single.tolist(), texts, strict=True)), ends.tolist()
    return [
        written[at] if at in written else _batch(batch.take(slice(*cuts[at : at + 2])), stamp)
        for at, stamp in enumerate(stamps)
    ]


def _batch(rows: Reports, stamp: Stamp) -> bytes:
    return write_reports(rows.stamp(stamp.offset, stamp.chunk, stamp.phase, *stamp.passed))


def _slot(last: int | None, back: int = 0) -> int | None:
    """A slot so far back; None where there is none yet."""
    return None if last is None or last == NEVER else last - back
