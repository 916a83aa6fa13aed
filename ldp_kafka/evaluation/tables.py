"""The papers' tables and figures by name, each as rows that can be printed or written as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

from ldp_kafka.accounting.words import at_most
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.evaluation import plots
from ldp_kafka.evaluation.claims import Claim
from ldp_kafka.evaluation.delay.tables import DELAY
from ldp_kafka.evaluation.ldp_ids.tables import LDP_IDS
from ldp_kafka.evaluation.table import Table

__all__ = ["TABLES", "Result", "Table", "as_plain", "evaluated", "rows_of", "text"]


class Result(NamedTuple):
    """What a table has come to."""

    rows: list[dict[str, Any]]
    """Infinities and NaN as None."""
    claims: Sequence[Claim]
    plots: list[Path]


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
        "SPPA, figure 5: error against epsilon, synthetic trips", partial(_sppa, "by_epsilon")
    ),
    "sppa-monitoring": Table(
        "SPPA, figure 8: AUC of a velocity task, synthetic trips", partial(_sppa, "monitoring")
    ),
    **LDP_IDS,
    **DELAY,
}


def evaluated(name: str, *, quick: bool = False, directory: Path | None = None) -> Result:
    """A table, what its paper says of it, and its plots in a directory.

    Raises
    ------
    ConfigurationError : it has no quick form, or plots are asked for without matplotlib
    FileNotFoundError : the data are not there
    """
    table = TABLES[name]
    if quick and table.quick is None:
        has = ", ".join(each for each, other in TABLES.items() if other.quick is not None)
        raise ConfigurationError(f"{name} has no quick form; those that have: {has}")
    if directory is not None and table.plot is not None:
        plots.needed()
    made = table.quick() if quick and table.quick is not None else table.make()
    return Result(
        as_plain(made),
        () if table.claims is None else table.claims(made),
        [] if directory is None or table.plot is None else table.plot(made, directory / name),
    )


def rows_of(name: str) -> list[dict[str, Any]]:
    """The rows of a table, infinities as null."""
    return as_plain(TABLES[name].make())


def as_plain(made: Sequence[Any]) -> list[dict[str, Any]]:
    """Rows, NamedTuples of one kind, as dictionaries: infinities and NaN as None."""
    return [
        {
            key: None if isinstance(value, float) and not isfinite(value) else value
            for key, value in row._asdict().items()
        }
        for row in made
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
