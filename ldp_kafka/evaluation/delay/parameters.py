"""Public thresholds and numbers of buckets for the paper's groups and buckets, and whether any of
them comes near to segments, which have none.

What does not hold, measured in batches with noise at epsilon 0.5 and 1 (20 to 40 repeats):

- One bucket, or a theta above every deviation, puts a window into one sum: raw segments as long as
  the delay, with all of epsilon or four fifths of it. These are the best that groups and buckets
  come to, and what is left beside segments is the smoother and their length.
- On COVID19 at a delay of 10 and epsilon 1 the smoother costs: smoothed segments have 1.22 times
  the error of raw ones (1.03 times at epsilon 0.5, less than raw ones below that). It learns how
  fast the stream moves from the segments before, and this one stands still, then leaps.
- On Outpatient at a delay of 100 and epsilon 0.5 one segment of 100 slots has 0.94 times the error
  of the two of 50 that `default_segment` takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from math import isnan
from typing import Any, NamedTuple

from ldp_kafka.evaluation.claims import Claim
from ldp_kafka.evaluation.delay.all_methods import DELAYS, EPSILONS, SETTINGS
from ldp_kafka.evaluation.delay.compared import (
    MIDPOINT,
    OURS,
    REPEATS,
    SMOOTHED_TO,
    by_cell,
    errors,
    is_smoothed,
    made,
    midpoint,
)
from ldp_kafka.evaluation.delay.limits import at_most
from ldp_kafka.evaluation.delay.streams import STREAMS, TRENDS, Stream, stream
from ldp_kafka.evaluation.plots import Line, Panel
from ldp_kafka.methods.delay.deviation import AUTHORS_THETA

__all__ = ["BUCKETS", "OF_BEST", "THETAS", "UNEMPLOYMENT", "Row", "claims", "panels", "rows"]

THETAS = (0.25, 4.0, 64.0, 1024.0, 2.0**16)  # the last: one group a window
BUCKETS = (1, 2, 3, 4, 8, 16)
OF_BEST = 1.05
UNEMPLOYMENT = 80.0
"""Thousands of persons: the MAE of groups on sums at a delay of 100 and epsilon 1."""
GROUPS = ("contin_group", "discontin_group")
_OVER = "segment_mean, smoothed, over the best theta or number of buckets that was tried"


class Row(NamedTuple):
    """One method with one value of its parameter, sound."""

    stream: str
    epsilon: float
    delay: int
    setting: str
    method: str
    parameter: str
    """``theta`` in lengths of the domain, ``buckets`` or, of segments, ``segment`` in slots."""
    value: float
    source: str
    """``tried``; ``default``: this package's; ``authors``: theirs."""
    mae: float
    """Mean absolute error, not smoothed, and its standard error over repeats."""
    mae_error: float
    smoothed_mae: float
    """NaN where it was not measured: see `compared.SMOOTHED_TO`."""
    repeats: int


def rows(
    streams: Sequence[str] = STREAMS,
    *,
    epsilons: Iterable[float] = EPSILONS,
    delays: Sequence[int] = DELAYS,
    settings: Sequence[str] = SETTINGS,
    thetas: Sequence[float] = THETAS,
    buckets: Sequence[int] = BUCKETS,
    smoothed_to: int = SMOOTHED_TO,
    repeats: int = REPEATS,
    seed: int = 0,
) -> list[Row]:
    """Groups at every theta and buckets in every number, noise on sums; segments and the midpoint.

    Parameters
    ----------
    smoothed_to : the longest delay whose sliding windows are smoothed, but for segments
    """
    made_rows = []
    for on in [stream(name) for name in streams]:
        tried: list[tuple[str, dict[str, Any], str]] = [
            *((name, {"theta": theta}, "tried") for name in GROUPS for theta in thetas),
            *(("buc_order", {"buckets": number}, "tried") for number in buckets),
            *((name, {"theta": AUTHORS_THETA / on.length}, "authors") for name in GROUPS),
            ("buc_order", {"buckets": round(on.length / on.width)}, "authors"),
            *((name, {}, "default") for name in (*GROUPS, "buc_order", OURS)),
        ]
        for epsilon, delay, setting in product(epsilons, delays, settings):
            place: dict[str, Any] = {"epsilon": epsilon, "delay": delay, "setting": setting}
            made_rows.append(_of_midpoint(on, place, repeats))
            for name, own, source in tried:
                smoothed = is_smoothed(name, setting, delay, smoothed_to)
                made_rows.append(_row(on, name, {**place, **own}, source, smoothed, repeats, seed))
    return made_rows


def _row(
    on: Stream,
    name: str,
    how: dict[str, Any],
    source: str,
    smoothed: bool,
    repeats: int,
    seed: int,
) -> Row:
    raw = made(name, on, smooth=False, **how)
    parameter = {OURS: "segment", "buc_order": "buckets"}.get(name, "theta")
    found = errors(raw, on, repeats=repeats, seed=seed)
    after = (
        errors(made(name, on, smooth=True, **how), on, repeats=repeats, seed=seed).mae
        if smoothed
        else float("nan")
    )
    return Row(
        on.name,
        how["epsilon"],
        how["delay"],
        how["setting"],
        name,
        parameter,
        float(getattr(raw, parameter)),
        source,
        found.mae,
        found.mae_error,
        after,
        repeats,
    )


def _of_midpoint(on: Stream, place: dict[str, Any], repeats: int) -> Row:
    return Row(
        on.name,
        place["epsilon"],
        place["delay"],
        place["setting"],
        MIDPOINT,
        "",
        float("nan"),
        "default",
        midpoint(on).mae,
        0.0,
        float("nan"),
        repeats,
    )


def claims(found: Sequence[Row]) -> list[Claim]:
    """That segments are near the best that any theta and any buckets give, and that groups on sums
    reach their limit at a long delay.
    """
    tried: dict[str, dict[str, float]] = {"": {}, "smoothed": {}, "shaped": {}}
    for of, part in by_cell(found).items():
        if of.stream not in TRENDS:
            continue
        ours = next(row.smoothed_mae for row in part if row.method == OURS)
        theirs = [row for row in part if row.method not in (OURS, MIDPOINT)]
        for kind, figures in (
            ("", [row.mae for row in theirs]),
            ("smoothed", [row.smoothed_mae for row in theirs if not isnan(row.smoothed_mae)]),
            ("shaped", [row.mae for row in theirs if not _is_segments(row)]),
        ):
            if figures:
                tried[kind][str(of)] = ours / min(figures)
    groups = {
        f"{row.setting}, {row.source} theta": row.mae
        for row in found
        if row[:3] == ("unemployment", 1.0, 100)
        and row.method == "discontin_group"
        and row.source != "tried"
    }
    return [
        at_most(f"MAE: {_OVER}, not smoothed", OF_BEST, tried[""]),
        at_most(f"MAE: {_OVER}, smoothed as well", OF_BEST, tried["smoothed"]),
        at_most(
            f"MAE: {_OVER}, not smoothed, one bucket left out, which is a window's raw segment",
            OF_BEST,
            tried["shaped"],
        ),
        at_most(
            "MAE: discontin_group on sums, Unemployment, delay 100, epsilon 1", UNEMPLOYMENT, groups
        ),
    ]


def _is_segments(row: Row) -> bool:
    """Whether it is one bucket: all values of a window in one sum, at the whole of epsilon."""
    return row.method == "buc_order" and row.value == 1


def panels(found: Sequence[Row]) -> list[Panel]:
    """One panel for each stream and delay, in batches at the greatest epsilon: MAE against theta;
    what has none as a level line.
    """
    greatest = max(row.epsilon for row in found)
    part = [row for row in found if row.setting == "batch" and row.epsilon == greatest]
    drawn = []
    for delay in sorted({row.delay for row in part}):
        for name in dict.fromkeys(row.stream for row in part):
            here = [row for row in part if (row.stream, row.delay) == (name, delay)]
            lines = {}
            for method in GROUPS:
                of = sorted(
                    (row for row in here if row.method == method and row.source == "tried"),
                    key=lambda row: row.value,
                )
                lines[method] = Line([row.value for row in of], [row.mae for row in of])
            ends = [min(lines[GROUPS[0]].x), max(lines[GROUPS[0]].x)]
            buckets = min(row.mae for row in here if row.method == "buc_order")
            ours = next(row.smoothed_mae for row in here if row.method == OURS)
            middle = next(row.mae for row in here if row.method == MIDPOINT)
            lines["buc_order, its best number of buckets"] = Line(ends, [buckets] * 2)
            lines["segment_mean, smoothed"] = Line(ends, [ours] * 2)
            lines["midpoint"] = Line(ends, [middle] * 2)
            drawn.append(
                Panel(
                    f"{name}, delay {delay}, epsilon {greatest:g}",
                    lines,
                    "theta (lengths of the domain)",
                    "MAE",
                    "log",
                )
            )
    return drawn
