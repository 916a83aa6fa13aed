"""Single reports in JSON as columns, a run of messages at a time.

As events (`ldp_kafka.runtime.wire.event_columns`): what is not plain is left to who reads message
by message, and knows the reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.errors import BadRecord
from ldp_kafka.randomness import Digests
from ldp_kafka.records import Reports
from ldp_kafka.runtime.wire.arrow import MARK, VERSION, WIDEST
from ldp_kafka.runtime.wire.parsing import LATEST
from ldp_kafka.runtime.wire.plain_json import parse_plain
from ldp_kafka.runtime.wire.single_reports import ROW, SHARED, UNSAID, shared

__all__ = ["ReportRun", "read_plain_reports"]

FEWEST = 4  # a run of so many that is not plain as a whole is read message by message
DIGITS = 32  # of a digest
FURTHEST = 2**62  # beyond all whole numbers
WHOLE = 2**63  # a float from here on may have been an integer
_HEX = re.compile(r"[0-9a-f]*")
_TYPES: dict[str, list[set[type]]] = {
    MARK: [{int}],
    "type": [{str}],
    "fingerprint": [{str}],
    "id": [{str}],
    "slot": [{int}],
    "phase": [{int}],
    "index": [{int}, {list}],
    "bits": [{str}],
    # not both together: 1 and 1.0 are equal, and each is written as it is
    "scale": [{int}, {float}],
    "series": [{str}, {type(None)}],
    "bound": [{int}],
    "chunk": [{int}],
    "closed": [{int}, {type(None)}, {int, type(None)}],
    "cost": [{int}],
    "settled": [{int}, {type(None)}, {int, type(None)}],
}

Columns = Mapping[str, Sequence[Any]]
"""What each field has in each message."""


@dataclass(frozen=True, slots=True)
class ReportRun:
    """The reports of consecutive messages, one each, of which ``closed``, scale, phase, cost and
    all else that a batch shares are the same; only (bound, chunk) grows from each to the next, or
    (of devices, which have none) is the same as well.

    Parameters
    ----------
    place : of the first message
    reports : all as one batch; its bound and chunk are those of the last
    sources : (n, 2) offset and chunk of each
    """

    place: int
    reports: Reports
    sources: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.reports)

    def __repr__(self) -> str:
        return f"ReportRun({len(self)} reports)"  # never a value

    def source(self, at: int) -> tuple[int, int]:
        """(bound, chunk) of one report."""
        bound, chunk = self.sources[at].tolist()
        return bound, chunk

    def part(self, start: int, stop: int) -> ReportRun:
        """A run of some of its messages."""
        rows, found = slice(start, stop), self.reports
        bound, chunk = self.source(stop - 1)
        return ReportRun(
            self.place + start,
            found.take(rows).stamp(bound, chunk, found.phase, found.closed, found.settled),
            self.sources[rows],
        )


def read_plain_reports(messages: Sequence[bytes], *, ordered: bool = True) -> Iterator[ReportRun]:
    """The plain single reports among these messages, in order, as
    `ldp_kafka.runtime.wire.reports.read_reports` reads them one by one.

    Parameters
    ----------
    ordered : whether (bound, chunk) is to grow within a run, or to stay the same
    """
    kept = [at for at, message in enumerate(messages) if message.startswith(b"{")]
    names: list[tuple[str, ...]] = [()] * len(messages)
    records: list[Any] = [None] * len(messages)
    for at, found in zip(kept, parse_plain([messages[at] for at in kept]), strict=True):
        if type(found) is dict:
            records[at], names[at] = found, tuple(found)
    at = 0
    for form, same in groupby(names):
        start, at = at, at + len(list(same))
        if _form(form):
            yield from _runs(records[start:at], start, form, ordered=ordered)


def _form(names: tuple[str, ...]) -> bool:
    """Whether it is these fields, in any order, that a report has."""
    said = {"scale", "series", *UNSAID, *names} - {MARK, "type"}
    emitted = {"index", "bits"} & said
    return {MARK, "type"} <= set(names) and len(emitted) == 1 and said - emitted == ROW


def _runs(
    records: Sequence[Any], place: int, names: tuple[str, ...], *, ordered: bool
) -> Iterator[ReportRun]:
    """Of messages that have these fields."""
    columns = dict(zip(names, zip(*map(itemgetter(*names), records), strict=True), strict=True))
    try:
        rows = _rows(columns)
    except (ValueError, OverflowError):
        rows = None
    if rows is not None:
        yield from _alike(columns, rows, place, ordered=ordered)
    elif len(records) > FEWEST:
        half = len(records) // 2
        yield from _runs(records[:half], place, names, ordered=ordered)
        yield from _runs(records[half:], place + half, names, ordered=ordered)


class _Rows(NamedTuple):
    """What each report has for itself."""

    ids: Digests
    slots: NDArray[np.int64]
    values: NDArray[Any]
    series: Digests | None
    sources: NDArray[np.int64]

    def __repr__(self) -> str:
        return f"_Rows({len(self.slots)} reports)"  # never a value


def _rows(columns: Columns) -> _Rows | None:
    """None, ValueError or OverflowError where any is no plain report."""
    if not (
        all(set(map(type, column)) in _TYPES[name] for name, column in columns.items())
        and set(columns[MARK]) == {VERSION}
        and set(columns["type"]) == {"report"}
    ):
        return None
    slots, bounds, chunks = (
        np.array(columns[name], np.int64) for name in ("slot", "bound", "chunk")
    )
    values = _bits(columns["bits"]) if "bits" in columns else _indices(columns["index"])
    ids, series = _digests(columns["id"]), columns.get("series", (None,))
    if not (
        values is not None
        and 0 <= slots.min() <= slots.max() < LATEST
        and -1 <= bounds.min() <= bounds.max() < FURTHEST
        and 0 <= chunks.min() <= chunks.max() < FURTHEST
    ):
        return None
    links = None if series[0] is None else _digests(series)
    return _Rows(ids, slots, values, links, np.stack([bounds, chunks], axis=1))


def _digests(found: Sequence[str]) -> Digests:
    """(n, 2). ValueError unless each is 32 hexadecimal digits."""
    return _packed(found, DIGITS).view(np.uint64)


def _bits(found: Sequence[str]) -> NDArray[np.uint8] | None:
    digits = len(found[0])
    return _packed(found, digits) if 0 < digits <= 2 * WIDEST and digits % 2 == 0 else None


def _packed(found: Sequence[str], digits: int) -> NDArray[np.uint8]:
    """(n, digits / 2). ValueError unless each is so many hexadecimal digits, in small letters."""
    joined = "".join(found)
    if set(map(len, found)) != {digits} or not _HEX.fullmatch(joined):
        raise ValueError
    return np.frombuffer(bytes.fromhex(joined), np.uint8).reshape(len(found), -1)


def _indices(found: Sequence[Any]) -> NDArray[np.int64] | None:
    """(n,), or (n, width) of lists."""
    if type(found[0]) is list:
        widths = set(map(len, found))
        if len(widths) > 1 or not 1 <= max(widths) <= WIDEST:
            return None
        each = [number for vector in found for number in vector]
        if set(map(type, each)) != {int}:
            return None
        indices = np.array(each, np.int64).reshape(len(found), -1)
    else:
        indices = np.array(found, np.int64)
    return indices if -FURTHEST <= indices.min() <= indices.max() < FURTHEST else None


def _alike(columns: Columns, rows: _Rows, place: int, *, ordered: bool) -> Iterator[ReportRun]:
    """Runs of reports that share all that a batch shares, and follow each other."""
    names = [name for name in columns if name in SHARED and name not in ("bound", "chunk")]
    same = [columns[name] for name in names]
    starts = _starts(same, _later(*rows.sources.T) if ordered else _again(*rows.sources.T))
    n = len(rows.slots)
    for start, stop in zip(starts, [*starts[1:], n], strict=True):
        bound, chunk = rows.sources[stop - 1].tolist()
        said = {"scale": 1, **{name: columns[name][start] for name in names}}
        if not said["scale"] < WHOLE:
            continue
        try:
            common = shared({**said, "bound": bound, "chunk": chunk})
        except BadRecord:
            continue
        part = slice(start, stop)
        series = None if rows.series is None else rows.series[part]
        reports = Reports(
            rows.ids[part], rows.slots[part], rows.values[part], series=series, **common
        )
        yield ReportRun(place + start, reports, rows.sources[part])


def _later(bounds: NDArray[np.int64], chunks: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which of all but the first come after the one before."""
    same = bounds[1:] == bounds[:-1]
    after: NDArray[np.bool_] = (bounds[1:] > bounds[:-1]) | (same & (chunks[1:] > chunks[:-1]))
    return after


def _again(bounds: NDArray[np.int64], chunks: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which of all but the first have the source of the one before."""
    same: NDArray[np.bool_] = (bounds[1:] == bounds[:-1]) & (chunks[1:] == chunks[:-1])
    return same


def _starts(same: Sequence[Sequence[Any]], follows: NDArray[np.bool_]) -> list[int]:
    """Where a report differs from the one before it, or does not follow it."""
    n = len(follows) + 1
    found = {0, *(np.flatnonzero(~follows) + 1).tolist()}
    for column in same:
        if column.count(column[0]) < n:
            found.update(at for at in range(1, n) if column[at] != column[at - 1])
    return sorted(found)
