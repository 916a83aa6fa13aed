"""A table or figure of a paper as data: its rows, what the paper says of them, how it is drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.evaluation.claims import Claim
from ldp_kafka.evaluation.plots import Line, Panel

__all__ = [
    "Experiment",
    "Row",
    "Rows",
    "by",
    "curves",
    "drawn",
    "mean_of",
    "measured",
    "points",
    "unsaid",
    "values_of",
    "where",
]

Row = dict[str, Any]
"""One setting: what it is, and the figures that were found in it, by name. ``x_error`` is the
standard error of the mean ``x`` over runs. ``printed`` is what the paper prints of the column that
comes after it, of the same setting; NaN where it prints nothing."""
Rows = Sequence[Row]


def unsaid(rows: Rows) -> list[Claim]:
    """Of what no paper says anything."""
    del rows
    return []


class Experiment(NamedTuple):
    """One table or figure."""

    name: str
    paper: str
    """Whose it is, or whose methods it is of."""
    shows: str
    """Its tables and figures, as they are numbered there; empty for one that is ours."""
    about: str
    rows: Callable[..., Iterable[Row]]
    """Rows of one kind, at full depth."""
    quick: Mapping[str, Any]
    """What ``rows`` is given in place of its defaults, so that it takes seconds."""
    claims: Callable[[Rows], Sequence[Claim]] = unsaid
    figures: Mapping[str, Callable[[Rows], list[Panel]]] = {}
    """By the end of a file's name; empty for the only one."""
    data: str = ""
    """What it is made of, how much of it, and in place of which data of the paper."""

    @property
    def title(self) -> str:
        """In a line.

        Examples
        --------
        >>> Experiment("x", "CGM", "eq. 15", "variance of a report", list, {}).title
        'CGM, eq. 15: variance of a report'
        """
        return f"{self.paper}{', ' if self.shows else ''}{self.shows}: {self.about}"


def mean_of(figures: Sequence[float] | NDArray[np.float64]) -> tuple[float, float]:
    """A mean and its standard error, infinite for one figure.

    Examples
    --------
    >>> mean_of([1.0, 3.0]), mean_of([1.0])
    ((2.0, 1.0), (1.0, inf))
    """
    table = np.asarray(figures, np.float64)
    if not len(table) > 1:
        return float(table.mean()), float("inf")
    return float(table.mean()), float(table.std(ddof=1) / len(table) ** 0.5)


def measured(**figures: Sequence[float] | NDArray[np.float64]) -> Row:
    """The mean of each figure over runs, and its standard error.

    Examples
    --------
    >>> measured(mse=[1.0, 3.0])
    {'mse': 2.0, 'mse_error': 1.0}
    """
    made: Row = {}
    for name, found in figures.items():
        made[name], made[f"{name}_error"] = mean_of(found)
    return made


def by(rows: Rows, *names: str) -> dict[Any, Row]:
    """Rows by some of their columns; by the value itself where it is one column.

    Examples
    --------
    >>> by([{"method": "capp", "mse": 0.5}], "method")["capp"]["mse"]
    0.5
    """
    if len(names) == 1:
        return {row[names[0]]: row for row in rows}
    return {tuple(row[name] for name in names): row for row in rows}


def values_of(rows: Rows, *names: str) -> list[Any]:
    """What some columns have, each once, in the order of the rows."""
    if len(names) == 1:
        return list(dict.fromkeys(row[names[0]] for row in rows))
    return list(dict.fromkeys(tuple(row[name] for name in names) for row in rows))


def where(rows: Rows, **values: Any) -> list[Row]:
    """The rows that have these values."""
    return [row for row in rows if all(row[name] == value for name, value in values.items())]


class Axes(NamedTuple):
    """How rows become panels."""

    x: str
    y: str
    each: tuple[str, ...]
    lines: tuple[str, ...]
    xlabel: str
    ylabel: str
    scales: tuple[str, str]
    only: dict[str, Any]


def drawn(
    x: str,
    y: str,
    ylabel: str,
    *,
    xlabel: str | None = None,
    each: tuple[str, ...],
    lines: tuple[str, ...] = ("method",),
    xscale: str = "linear",
    yscale: str = "log",
    **only: Any,
) -> Callable[[Rows], list[Panel]]:
    """How rows become panels.

    Parameters
    ----------
    x, y : columns; ``y`` with bars where rows have its standard error
    each : columns, whose every combination is a panel
    lines : columns, whose every combination is a line of it
    only : what rows must have to be drawn
    """
    label = x if xlabel is None else xlabel
    return partial(_panels, Axes(x, y, each, lines, label, ylabel, (xscale, yscale), only))


def _panels(axes: Axes, rows: Rows) -> list[Panel]:
    made: dict[str, dict[str, list[Row]]] = {}
    for row in where(rows, **axes.only):
        panel = made.setdefault(_named(row, axes.each), {})
        panel.setdefault(_named(row, axes.lines), []).append(row)
    return [
        Panel(
            title,
            {name: _line(axes, part) for name, part in of.items()},
            axes.xlabel,
            axes.ylabel,
            *axes.scales,
        )
        for title, of in made.items()
    ]


def _line(axes: Axes, rows: Rows) -> Line:
    errors = [row.get(f"{axes.y}_error", float("inf")) for row in rows]
    return Line(
        [row[axes.x] for row in rows],
        [row[axes.y] for row in rows],
        errors if np.isfinite(errors).all() else None,
    )


def points(rows: Rows, column: str) -> Line:
    """Points of a panel whose x are names, one a row; a row without the figure has none."""
    there = [at for at, row in enumerate(rows) if not np.isnan(row[column])]
    errors = [rows[at].get(f"{column}_error", float("inf")) for at in there]
    return Line(
        there,
        [rows[at][column] for at in there],
        errors if np.isfinite(errors).all() else None,
        joined=False,
    )


def curves(
    title: str, found: Mapping[str, tuple[NDArray[np.float64], NDArray[np.float64]]]
) -> Panel:
    """A panel of ROC curves.

    Parameters
    ----------
    found : false positive rates, which do not fall, and true ones, by name; a curve is drawn at a
        hundred false rates
    """
    rates = np.linspace(0, 1, 101)
    lines = {
        name: Line(rates.tolist(), np.interp(rates, *each).tolist()) for name, each in found.items()
    }
    label = ("false positive rate", "true positive rate")
    return Panel(title, lines, *label, yscale="linear", diagonal=True)


def _named(row: Row, names: Iterable[str]) -> str:
    """The values of some columns, with the names of those that are numbers."""
    words = (
        f"{row[name]}" if isinstance(row[name], str) else f"{name} {row[name]:,g}" for name in names
    )
    return ", ".join(words)
