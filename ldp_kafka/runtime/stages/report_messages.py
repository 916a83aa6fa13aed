"""Reports as messages of the reports topic: of each raw message, or of all between two bounds.

Every message says what the collector counts once by, (offset, chunk), and how far the partition is.
What a bound closes is said by its last message alone: all of its reports have come by then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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


class Stamps(NamedTuple):
    """What messages (m,) say beside their rows."""

    offsets: list[int]
    chunks: list[int]
    phases: list[int]
    passed: list[tuple[int | None, int | None]]

    def of(self, which: NDArray[np.intp]) -> Stamps:
        """Of some of them."""
        at = which.tolist()
        return Stamps(*([column[each] for each in at] for column in self))


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
        behind = [places[at] for at in to.tolist()]
        passed = {place.before for place in places} | {place.after for place in places}
        said = {each: self._said(each) for each in passed}
        stamps = Stamps(
            [place.offset for place in behind],
            parts.chunk.tolist(),
            phases[heads].tolist(),
            [
                said[place.after if last else place.before]
                for place, last in zip(behind, parts.last.tolist(), strict=True)
            ],
        )
        texts = _written(batch.gather(parts.order), parts.ends, stamps)
        start, ends = 0, np.searchsorted(to, np.arange(len(places)), "right").tolist()
        for place, end in zip(places, ends, strict=True):
            for text in texts[start:end]:
                output.send(Record(self.topic, self.partition, None, text))
            if start == end and place.before != place.after:
                empty = batch.take(slice(0, 0)).stamp(place.offset, 0, 0, *said[place.after])
                output.send(Record(self.topic, self.partition, None, write_reports(empty)))
            start = end

    def _said(self, passed: Passed) -> tuple[int | None, int | None]:
        """What a message says is closed, and settled: a report may still come for a slot that is so
        far back.
        """
        return _slot(passed.closed, self.delay), _slot(passed.settled)


def _written(batch: Reports, ends: NDArray[np.intp], stamps: Stamps) -> list[bytes]:
    """Messages of consecutive rows; those of one row are written together."""
    single = np.diff(ends) == 1
    if single.all():
        return write_singles(batch, *stamps)
    alone: list[bytes] = []
    if single.any():
        alone = write_singles(batch.take(ends[:-1][single]), *stamps.of(np.flatnonzero(single)))
    written, cuts, texts = iter(alone), ends.tolist(), []
    for at, (is_alone, stamp) in enumerate(
        zip(single.tolist(), zip(*stamps, strict=True), strict=True)
    ):
        if is_alone:
            texts.append(next(written))
        else:
            offset, chunk, phase, passed = stamp
            part = batch.take(slice(*cuts[at : at + 2]))
            texts.append(write_reports(part.stamp(offset, chunk, phase, *passed)))
    return texts


def _slot(last: int | None, back: int = 0) -> int | None:
    """A slot so far back; None where there is none yet."""
    return None if last is None or last == NEVER else last - back
