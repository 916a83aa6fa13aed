"""The papers' tables and figures by name, each as rows that can be printed or written as JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import isfinite
from typing import Any, NamedTuple

from ldp_kafka.accounting.words import at_most

__all__ = ["TABLES", "Table", "rows_of", "text"]


class Table(NamedTuple):
    """One table: what it shows, and how it is made."""

    title: str
    make: Callable[[], Sequence[Any]]
    """Rows, NamedTuples of one kind."""


def _order() -> Sequence[Any]:
    from ldp_kafka.evaluation import capp

    return [
        row
        for name in ("volume", "c6h6")
        for window in (10, 30)
        for row in capp.order(name, window)
    ]


def _equal() -> Sequence[Any]:
    from ldp_kafka.evaluation import capp

    return [row for window in (10, 30) for row in capp.equal_epsilon("volume", window)]


def _blocks() -> Sequence[Any]:
    from ldp_kafka.evaluation import capp

    return [
        row
        for name in ("volume", "c6h6")
        for window in (10, 30)
        for epsilon in capp.EPSILONS
        for row in capp.blocks(name, window, epsilon, range(1, window + 1, 1 + window // 15))
    ]


def _shrinking() -> Sequence[Any]:
    from ldp_kafka.evaluation import capp

    return [
        row
        for name in ("volume", "c6h6")
        for window in (10, 30)
        for row in capp.shrinking(name, window)
    ]


def _table_one() -> Sequence[Any]:
    from ldp_kafka.evaluation import capp

    return capp.table_one()


def _cgm() -> Sequence[Any]:
    from ldp_kafka.evaluation import cgm

    return cgm.table()


def _sppa(of: str) -> Sequence[Any]:
    from ldp_kafka.evaluation import sppa

    made: Sequence[Any] = getattr(sppa, of)(sppa.trips(seed=1))
    return made


TABLES: dict[str, Table] = {
    "capp-order": Table("CAPP, figures 4 and 5: methods as published, smoothed alike", _order),
    "capp-table-1": Table("CAPP, Table I: C6H6 at epsilon 1", _table_one),
    "capp-equal": Table("sw_direct and sound capp at one true epsilon", _equal),
    "capp-blocks": Table(
        "sound capp by the length of its blocks, and what the planner chooses", _blocks
    ),
    "shrinkage": Table("window means before and after shrinkage, beside the constants", _shrinking),
    "cgm": Table("CGM, eq. 15: variance of a report, as a share of the baseline's", _cgm),
    "sppa-epsilon": Table(
        "SPPA: error against epsilon, synthetic trips", partial(_sppa, "by_epsilon")
    ),
    "sppa-monitoring": Table(
        "SPPA, Table 3: AUC of a velocity task, synthetic trips", partial(_sppa, "monitoring")
    ),
}


def rows_of(name: str) -> list[dict[str, Any]]:
    """The rows of a table, infinities as null."""
    return [
        {
            key: None if isinstance(value, float) and not isfinite(value) else value
            for key, value in row._asdict().items()
        }
        for row in TABLES[name].make()
    ]


def text(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The rows as aligned lines.

    Examples
    --------
    >>> text([{"method": "capp", "mse": 0.0528}, {"method": "app", "mse": None}])
    ['method     mse', 'capp    0.0528', 'app          -']
    """
    if not rows:
        return []
    cells = [list(rows[0]), *([_cell(*cell) for cell in row.items()] for row in rows)]
    widths = [max(len(line[at]) for line in cells) for at in range(len(cells[0]))]
    words = [isinstance(value, str) for value in rows[0].values()]
    return [
        "  ".join(
            cell.ljust(width) if word else cell.rjust(width)
            for cell, width, word in zip(line, widths, words, strict=True)
        ).rstrip()
        for line in cells
    ]


def _cell(column: str, value: Any) -> str:
    if value is None:
        return "-"
    if column == "epsilon":
        return at_most(value)
    return f"{value:.4g}" if isinstance(value, float) else str(value)
