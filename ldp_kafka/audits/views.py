"""Views of reports. Each view maps a report to a small whole number; sets of these numbers are the
events among which an audit looks for the most telling one.

A view is fitted to some reports and looks at others: what it learned is then no function of what it
is tested on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.audits.floats import FINEST, GRAINS, PLACES, grain, last_byte, place

__all__ = ["VIEWS", "View", "as_reports", "columns", "views_of"]

Codes = NDArray[np.int64]
BINS = 1024  # quantiles of reports with more distinct values than
DISTINCT = 2048
VIEWS = ("values", "low bits", "whole rows", "scores")


@dataclass(frozen=True)
class View:
    """One way to look: ``code`` numbers reports 0..size - 1."""

    name: str
    code: Callable[[NDArray[Any]], Codes]
    size: int
    ordered: bool = True
    """Whether intervals of numbers mean something."""
    edges: NDArray[Any] | None = field(default=None, repr=False)
    """Number i + 1 begins at edges[i]; None where there is no such thing."""
    exact: bool = False
    """Whether each number is one value."""

    def say(self, below: int, *, others: bool) -> str:
        """The set of numbers below ``below``, or the others, in words and to four digits."""
        if self.edges is None:
            return (
                f"{self.name}: {'all but ' if others else ''}the first {below} of {self.size}"
                " classes"
            )
        edge = self.edges[min(below, len(self.edges)) - 1]
        return f"{self.name} {'of at least' if others else 'below'} {edge:.4g}"


def as_reports(reports: Any) -> NDArray[Any]:
    """Reports as an array (n,) or (n, columns) of numbers; labels of any other kind stay as they
    are. ValueError for other shapes.
    """
    found = np.asarray(reports)
    if found.dtype.kind == "b":
        found = found.astype(np.int64)
    if found.ndim > 2:
        found = found.reshape(len(found), -1)
    if found.ndim == 2 and found.shape[1] == 1 and found.dtype != np.uint8:
        found = found[:, 0]
    if found.ndim not in (1, 2) or found.dtype.kind not in "iufUS":
        raise ValueError(
            "reports must be numbers or labels, one for each value, or rows of numbers"
        )
    if found.ndim == 2 and found.dtype.kind in "US":
        raise ValueError("reports with several columns must be numbers")
    return found


def columns(reports: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """The columns of rows, or the bits of packed ones (uint8), the first bit the highest of the
    first byte.
    """
    if reports.dtype != np.uint8:
        yield from reports.T
        return
    for byte in reports.T:
        for shift in range(7, -1, -1):
            yield (byte >> np.uint8(shift)) & np.uint8(1)


def views_of(
    first: NDArray[Any], second: NDArray[Any], names: tuple[str, ...] = VIEWS
) -> list[View]:
    """All views of a kind of report, fitted to reports of two inputs."""
    both = np.concatenate([first, second])
    if both.ndim == 1:
        found = [_values(both, "values")] if "values" in names else []
        if both.dtype == np.float64 and "low bits" in names:
            found += _low_bits()
        return found
    value_views = [_values(column, "values") for column in columns(both)]
    found = []
    if "scores" in names:
        found.append(_scores(first, second, value_views, "scores of all columns"))
    if "low bits" in names and both.dtype == np.float64:
        found.append(
            _scores(first, second, [_low_bits()[0]] * both.shape[1], "low bits of all columns")
        )
    if "whole rows" in names:
        found += _rows(both, value_views)
        if both.dtype == np.uint8:
            found.append(
                View(
                    "number of bits set",
                    lambda rows: _sums(columns(rows)),
                    8 * both.shape[1] + 1,
                    edges=np.arange(1, 8 * both.shape[1] + 1),
                )
            )
    return found


def _values(reports: NDArray[Any], name: str) -> View:
    """Distinct values where they are few, else quantiles; values that hold a quantile or more have
    a class of their own, as has NaN.
    """
    if reports.dtype.kind == "f":
        reports = reports[~np.isnan(reports)]
    edges = _distinct(reports)
    exact = len(edges) <= DISTINCT
    if not exact:
        ordered = np.sort(reports)
        cuts = ordered[np.arange(1, BINS) * len(ordered) // BINS]
        heavy = np.unique(cuts[1:][cuts[1:] == cuts[:-1]])
        above = np.nextafter(heavy, np.inf) if heavy.dtype.kind == "f" else heavy + 1
        edges = np.unique(np.concatenate([cuts, above]))

    def code(found: NDArray[Any]) -> Codes:
        at = np.searchsorted(edges, found, side="right")
        if found.dtype.kind == "f":
            at[np.isnan(found)] = len(edges) + 1
        return at

    labels = edges.dtype.kind in "US"
    return View(
        name, code, len(edges) + 2, ordered=not labels, edges=None if labels else edges, exact=exact
    )


def _distinct(reports: NDArray[Any]) -> NDArray[Any]:
    few = np.unique(reports[: 2 * DISTINCT])  # most often that settles it
    return few if len(few) > DISTINCT else np.unique(reports)


def _low_bits() -> list[View]:
    """What a report's last bits tell: the power of two that it is a whole multiple of, alone and
    beside its own size, and the last eight bits.
    """
    return [
        View(
            "power of two that divides the report (its exponent)",
            grain,
            GRAINS,
            edges=np.arange(1, GRAINS) + FINEST,
        ),
        View(
            "that power and the report's size",
            lambda reports: place(reports) * GRAINS + grain(reports),
            GRAINS * PLACES,
            ordered=False,
        ),
        View("last eight bits", last_byte, 256, ordered=False),
    ]


def _scores(first: NDArray[Any], second: NDArray[Any], of_columns: list[View], name: str) -> View:
    """Sums over the columns of the log likelihood ratios of their classes: the best event where
    columns are independent.
    """
    tables = []
    for view, ours, theirs in zip(of_columns, columns(first), columns(second), strict=True):
        a, b = (
            np.bincount(view.code(column), minlength=view.size) + 0.5 for column in (ours, theirs)
        )
        tables.append(np.log(a / a.sum()) - np.log(b / b.sum()))

    def score(rows: NDArray[Any]) -> NDArray[np.float64]:
        total = np.zeros(len(rows))
        for view, table, column in zip(of_columns, tables, columns(rows), strict=True):
            total += table[view.code(column)]
        return np.round(total, 9)

    inner = _values(score(np.concatenate([first, second])), name)
    return View(name, lambda rows: inner.code(score(rows)), inner.size, edges=inner.edges)


def _rows(both: NDArray[Any], of_columns: list[View]) -> list[View]:
    """The row as one number, where it fits into one."""
    sizes = [view.size for view in of_columns]
    if (len(sizes) if both.dtype == np.uint8 else sum(np.log2(sizes))) > 61:
        return []

    def mixed(rows: NDArray[Any]) -> Codes:
        total = np.zeros(len(rows), np.int64)
        for view, size, column in zip(of_columns, sizes, columns(rows), strict=True):
            total = (
                total * 2 + column if rows.dtype == np.uint8 else total * size + view.code(column)
            )
        return total

    inner = _values(mixed(both), "whole rows")
    return [
        View(
            "whole rows",
            lambda rows: inner.code(mixed(rows)),
            inner.size,
            ordered=False,
            exact=inner.exact,
        )
    ]


def _sums(parts: Iterator[NDArray[Any]]) -> Codes:
    total: Any = 0
    for part in parts:
        total = total + part.astype(np.int64)
    return np.asarray(total)
