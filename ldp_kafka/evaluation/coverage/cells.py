"""What the releases of one cell say: how often an interval holds the truth, and how wide it is
beside the narrowest that would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import inf, isfinite, nan, sqrt
from typing import Any, NamedTuple, get_type_hints

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.evaluation.claims import CLEAR, Claim
from ldp_kafka.evaluation.coverage.bound import lower, upper

__all__ = [
    "FLOOR",
    "HOLDS",
    "LEVEL",
    "NARROW",
    "NULL",
    "WIDE",
    "Name",
    "Row",
    "Seen",
    "claims",
    "row_of",
]

LEVEL = 0.95
"""What an interval states that it holds."""
FLOOR = 0.92
"""Covered share that is asked of every cell: of its lower bound, all cells together."""
CELLS = 10_000  # that there are, at most
ALPHA = 0.05 / 2 / CELLS
"""Chance that one bound is wrong: that any of all, from below or above, is, 0.05 (Bonferroni)."""
FEW = 30  # reports in a release below which three times the narrowest is allowed
ENOUGH = 40  # numbers of one slot whose narrowest interval is told from that of other slots
PARTS = 10  # of the runs: what they differ by is the Monte-Carlo error of a width
ROUNDING = 1e-9  # lengths of the domain that 15 digits of a release may be off

HOLDS, NARROW, WIDE, NULL = "holds", "too narrow", "too wide", "null"


class Name(NamedTuple):
    """Which numbers a cell is made of."""

    method: str
    statistic: str
    stream: str
    users: int
    slots: str
    """``published``, ``held`` or ``after the jump``."""
    of: str
    """Which of the numbers of a slot: a category, a bin, a kind of user; or empty: all."""


class Seen(NamedTuple):
    """Numbers that were released, (n,) each, in lengths of the domain."""

    run: NDArray[np.int64]
    slot: NDArray[np.int64]
    """In its run."""
    off: NDArray[np.float64]
    """The value without the truth."""
    error: NDArray[np.float64]
    """What it states as standard error; NaN where it states none."""
    low: NDArray[np.float64]
    """The interval's ends without the truth; NaN where there is none."""
    high: NDArray[np.float64]
    reports: NDArray[np.int64]
    reason: NDArray[np.str_]
    """Why there is none."""

    def __repr__(self) -> str:
        return f"Seen({len(self.run)} numbers)"

    def at(self, rows: NDArray[Any]) -> Seen:
        """Those of some rows."""
        return Seen(*(column[rows] for column in self))


class Row(NamedTuple):
    """One cell."""

    method: str
    statistic: str
    stream: str
    users: int
    slots: str
    of: str
    runs: int
    """With a number that states an interval."""
    numbers: int
    null: float
    """Share of all numbers that state none."""
    reason: str
    covered: float
    """Mean over the runs of the share of a run's intervals that hold the truth."""
    covered_error: float
    """Its Monte-Carlo error, by runs; and so are the next two of theirs."""
    lower: float
    """Confidence bounds of it, which hold in all cells together."""
    upper: float
    rms_z: float
    """Root mean square of (value - truth) / standard error: 1 where that is right."""
    rms_z_error: float
    width: float
    """Of the median interval, in lengths of the domain."""
    excess: float
    """The same beside the narrowest that holds: of equal width in all runs, slot by slot."""
    excess_error: float
    limit: float
    """Excess that is allowed."""
    verdict: str
    """What the estimates say: ``too narrow`` and ``too wide`` where that is clear by their own
    errors, ``null`` where no number states an interval, else ``holds``.
    """
    proven: bool
    """Whether the bounds say it, too."""

    @property
    def decided(self) -> bool:
        """Whether more runs would change nothing of what is said of the covered share."""
        return not self.runs or self.lower >= FLOOR or self.upper < FLOOR

    def floats(self, made: Callable[[Any], float]) -> Row:
        """The same with other numbers in place of those that are not whole."""
        kinds = get_type_hints(Row)
        values: list[Any] = [
            made(each) if kinds[name] is float else each for name, each in self._asdict().items()
        ]
        return Row(*values)


def row_of(name: Name, seen: Seen, *, lenient: bool, averaged: int = 1) -> Row:
    """What the numbers of one cell say, at least one.

    Parameters
    ----------
    lenient : twice the narrowest is allowed: held slots, skewed values, shares at 0 and 1
    averaged : releases that a value is the mean of. Their interval is that of the slot's own
        reports, which vary as much more than the mean as the root of this number says, at most
    """
    stated = ~np.isnan(seen.low)
    null = 1 - float(stated.mean())
    reason = " ".join(sorted({*seen.reason[~stated].tolist()} - {""}))
    few = bool(np.median(seen.reports) < FEW)
    limit = (3.0 if few else 2.0 if lenient else 1.3) * sqrt(averaged)
    nothing = (nan,) * 9
    if not stated.any():
        return Row(*name, 0, 0, null, reason, *nothing, limit, NULL, bool(reason))
    some = seen.at(stated)
    holds = (some.low <= ROUNDING) & (some.high >= -ROUNDING)
    shares, square = _by_run(some.run, holds), _by_run(some.run, _squares(some))
    rms, widths = sqrt(square.mean()), some.high - some.low
    row = Row(
        *name,
        runs=len(shares),
        numbers=len(some.run),
        null=null,
        reason=reason,
        covered=float(shares.mean()),
        covered_error=_standard_error(shares),
        lower=lower(shares, ALPHA),
        upper=upper(shares, ALPHA),
        rms_z=rms,
        rms_z_error=_standard_error(square) / (2 * rms) if 0 < rms < inf else nan,
        width=float(np.median(widths)),
        excess=_excess(some, widths),
        excess_error=_robust_error(np.array([*_parts(some, widths)])),
        limit=limit,
        verdict=HOLDS,
        proven=False,
    )
    verdict, proven = _verdict(row)
    return row._replace(verdict=verdict, proven=proven)


def _verdict(row: Row) -> tuple[str, bool]:
    """Of a cell that states intervals, and whether the bounds say it too."""
    if row.covered < FLOOR and not row.covered + CLEAR * row.covered_error >= LEVEL:
        return NARROW, row.upper < FLOOR
    if row.excess > row.limit and not row.excess - CLEAR * row.excess_error <= row.limit:
        return WIDE, row.excess - 2 * CLEAR * row.excess_error > row.limit
    return HOLDS, row.lower >= FLOOR


def claims(rows: Sequence[Row], *, estimates: bool = False) -> list[Claim]:
    """One of each method and statistic: that in every cell its intervals hold, are not too wide, or
    that it says why there are none.

    Parameters
    ----------
    estimates : take their word, where there are too few runs for bounds
    """
    found: dict[tuple[str, str], list[bool]] = {}
    for row in rows:
        fine = row.verdict in (HOLDS, NULL) and (estimates or row.proven)
        found.setdefault((row.method, row.statistic), []).append(fine)
    return [
        Claim(f"{method}, {statistic}: intervals hold, and are no wider than they must be", n, k, 1)
        for (method, statistic), each in found.items()
        for n, k in [(len(each), sum(each))]
    ]


def _squares(seen: Seen) -> NDArray[np.float64]:
    """Of the errors, in standard errors."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(seen.off == 0, 0.0, (seen.off / seen.error) ** 2)


def _by_run(run: NDArray[np.int64], values: NDArray[Any]) -> NDArray[np.float64]:
    """Means of each run that has any."""
    _, place, times = np.unique(run, return_inverse=True, return_counts=True)
    return np.bincount(place, values) / times


def _standard_error(values: NDArray[np.float64]) -> float:
    return float(values.std(ddof=1) / sqrt(len(values))) if len(values) > 1 else nan


def _robust_error(values: NDArray[np.float64]) -> float:
    """By the median distance from the median, which for normal numbers is .6745 of their standard
    deviation: of ratios, some of which have next to nothing below the line.
    """
    if len(values) < 2:
        return nan
    return float(np.median(np.abs(values - np.median(values))) / 0.6745 / sqrt(len(values)))


def _excess(seen: Seen, widths: NDArray[np.float64]) -> float:
    """Median over slots of the median width over the narrowest that holds in the slot, whose half
    is the least that `LEVEL` of the errors do not exceed. Slots of few numbers are taken together:
    where errors differ between them, that is wider than each needs.
    """
    away = np.abs(seen.off)
    slots, place = np.unique(seen.slot, return_inverse=True)
    if len(seen.run) < ENOUGH * len(slots):
        place, slots = np.zeros_like(place), slots[:1]
    ratios = []
    for at in range(len(slots)):
        inside = place == at
        half = np.quantile(away[inside], LEVEL, method="inverted_cdf")
        width = np.median(widths[inside])
        ratios.append(width / (2 * half) if half > 0 else (inf if width > 0 else 1.0))
    return float(np.median(ratios))


def _parts(seen: Seen, widths: NDArray[np.float64]) -> Iterator[float]:
    """The same of parts of the runs."""
    for part in range(PARTS):
        inside = seen.run % PARTS == part
        if inside.any():
            found = _excess(seen.at(inside), widths[inside])
            if isfinite(found):
                yield found
