"""The page that says whose intervals hold: its numbers are those of the cells."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import isfinite

from ldp_kafka.evaluation.coverage.cells import FLOOR, HOLDS, NARROW, NULL, WIDE, Row

__all__ = ["page"]

ALIKE = 0.1  # of their width, that widths of two cells may differ by and be called equal
AGREED = 0.3  # root mean square of z, below which nearly all releases are the truth itself


def page(rows: Sequence[Row], notes: Sequence[str]) -> str:
    """The tables, as Markdown: a row a method and statistic, and each cell that does not hold."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.method, row.statistic), []).append(row)
    head = ("method", "statistic", "cells", "hold", "null", NARROW, WIDE, "not proven")
    parts = [
        f"Measured by `ldp-kafka evaluate coverage`: {'; '.join(notes)}.",
        _table(
            (*head, "least covered", "lower bound", "widest beside the narrowest"),
            (_summary(*name, found) for name, found in groups.items()),
        ),
        _failed(rows),
        _nulls(rows),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _summary(method: str, statistic: str, rows: Sequence[Row]) -> Iterator[str]:
    yield f"`{method}`"
    yield f"`{statistic}`"
    yield f"{len(rows):,}"
    for verdict in (HOLDS, NULL, NARROW, WIDE):
        yield f"{sum(row.verdict == verdict for row in rows):,}"
    yield f"{sum(not row.proven for row in rows):,}"
    stated = [row for row in rows if row.runs]
    if not stated:
        yield from ("-", "-", "-")
        return
    least = min(stated, key=lambda row: row.covered)
    yield f"{least.covered:.3f} ± {least.covered_error:.3f}, {_cell(least)}"
    yield f"{min(row.lower for row in stated):.3f}"
    most = max(stated, key=lambda row: row.excess)
    yield f"{_times(most)}, {_cell(most)}"


def _failed(rows: Sequence[Row]) -> str:
    """Each cell that does not hold."""
    failed = [row for row in rows if row.verdict in (NARROW, WIDE)]
    if not failed:
        return ""
    return f"## Cells that do not hold\n\nAsked is a covered share of {FLOOR}.\n\n" + _table(
        ("cell", "verdict", "proven", "covered", "bounds", "rms z", "width", "allowed", "why"),
        (
            (
                f"`{row.method}` `{row.statistic}`, {_cell(row)}",
                row.verdict,
                "yes" if row.proven else "no",
                f"{row.covered:.3f} ± {row.covered_error:.3f}",
                f"{row.lower:.3f} to {row.upper:.3f}",
                f"{row.rms_z:.2f} ± {row.rms_z_error:.2f}" if isfinite(row.rms_z) else "infinite",
                _times(row),
                f"{row.limit:g}",
                _why(row, rows),
            )
            for row in failed
        ),
    )


def _why(row: Row, rows: Iterable[Row]) -> str:
    """What keeps an interval so wide, as far as the cells show it."""
    if row.verdict != WIDE:
        return ""
    alike = [
        other
        for other in rows
        if other.verdict == HOLDS
        and (other.method, other.statistic, other.users) == (row.method, row.statistic, row.users)
        and abs(other.width / row.width - 1) <= ALIKE
    ]
    if alike:
        least = min(alike, key=lambda other: other.excess)
        return f"needed in: {_cell(least)} ({_times(least)})"
    return "the reports agree" if row.rms_z < AGREED else ""


def _nulls(rows: Sequence[Row]) -> str:
    """Where no interval is stated, and why."""
    found: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        if row.null > 0:
            found.setdefault((row.method, row.statistic, row.reason or "no reason"), []).append(row)
    if not found:
        return ""
    return "## Slots without an interval\n\n" + _table(
        ("method", "statistic", "reason", "cells with some", "cells with nothing else"),
        (
            (
                f"`{method}`",
                f"`{statistic}`",
                reason,
                f"{len(each):,}",
                f"{sum(row.verdict == NULL for row in each):,}",
            )
            for (method, statistic, reason), each in found.items()
        ),
    )


def _cell(row: Row) -> str:
    users = f"{row.users:,} user{'s' * (row.users > 1)}"
    return ", ".join(part for part in (row.stream, users, row.slots, row.of) if part)


def _times(row: Row) -> str:
    if not isfinite(row.excess):
        return "infinite"
    return f"{row.excess:.2f} ± {row.excess_error:.2f}"


def _table(head: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows))
