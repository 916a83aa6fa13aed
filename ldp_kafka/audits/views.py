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

__all__ = [
    "VIEWS",
    "Codes",
    "Rows",
    "View",
    "as_reports",
    "cell_views",
    "columns",
    "look_up",
    "low_bit_views",
    "ordered_view",
    "value_views",
]

Codes = NDArray[np.int64]
Rows = NDArray[Any]
BINS = 1024  # quantiles of reports with more distinct values than
DISTINCT = 2048
SAID = 3  # values that an event names
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

    def say(self, classes: NDArray[np.intp]) -> str:
        """A set of numbers, sorted, in words and to four digits."""
        others = f"{self.name}: {len(classes)} of {self.size} classes"
        if self.edges is None:
            return others
        last = len(self.edges)
        values = classes[(classes > 0) & (classes <= last)] - 1
        if self.exact and 0 < len(values) <= SAID:
            return f"{self.name} equal to {' or '.join(map(_digits, self.edges[values].tolist()))}"
        low, high = int(classes[0]), int(classes[-1])
        if not self.ordered or high - low >= len(classes) or low > last:
            return others
        if not low:
            return f"{self.name} below {_digits(self.edges[high])}" if high < last else others
        at_least = _digits(self.edges[low - 1])
        if high >= last:
            return f"{self.name} of at least {at_least}"
        return f"{self.name} from {at_least} to {_digits(self.edges[high])}"


def _digits(edge: Any) -> str:
    return edge if isinstance(edge, str) else f"{edge:.4g}"


def as_reports(reports: Any) -> NDArray[Any]:
    """Reports as an array (n,) or (n, columns) of numbers; labels of any other kind stay as they
    are. ValueError for other shapes.
    """
    found = np.asarray(reports)
    if found.dtype.kind == "b":
        found = found.astype(np.int8)
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


def value_views(reports: NDArray[Any]) -> list[View]:
    """Each value by itself, and, where they are many and have an order, quantiles."""
    ordered = [] if reports.dtype.kind in "US" else [ordered_view(reports, "values")]
    if ordered and ordered[0].exact:
        return ordered
    return ordered + cell_views("values", lambda found: found, reports)


def cell_views(
    name: str, key: Callable[[NDArray[Any]], NDArray[Any]], reports: NDArray[Any]
) -> list[View]:
    """A class for each key that was seen; none where hardly any was seen twice."""
    keys = np.sort(key(reports))  # np.unique hashes, which is slower where most are distinct
    known = keys[np.append(True, keys[1:] != keys[:-1])]
    if 2 * len(known) > len(keys):
        return []
    return [
        View(
            name,
            lambda found: look_up(known, key(found)),
            len(known) + 1,
            ordered=False,
            edges=known if reports.ndim == 1 else None,
            exact=True,
        )
    ]


def look_up(known: NDArray[Any], found: NDArray[Any]) -> Codes:
    """The place of each value among the sorted ``known`` ones, from 1; 0: not among them."""
    at = np.minimum(np.searchsorted(known, found), len(known) - 1)
    return np.where(known[at] == found, at + 1, 0)


def ordered_view(reports: NDArray[Any], name: str) -> View:
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

    return View(name, code, len(edges) + 2, edges=edges, exact=exact)


def _distinct(reports: NDArray[Any]) -> NDArray[Any]:
    few = np.unique(reports[: 2 * DISTINCT])  # most often that settles it
    return few if len(few) > DISTINCT else np.unique(reports)


def low_bit_views() -> list[View]:
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
