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

from collections.abc import Callable, Iterable, Sequence
from itertools import product
from math import ceil, isnan, nan
from operator import itemgetter

from ldp_kafka.evaluation.claims import Claim, at_most
from ldp_kafka.evaluation.delay.all_methods import DELAYS, EPSILONS, SETTINGS
from ldp_kafka.evaluation.delay.compared import (
    MIDPOINT,
    OURS,
    REPEATS,
    SMOOTHED_TO,
    by_cell,
    calibrations,
    errors,
    is_smoothed,
    made,
    midpoint,
)
from ldp_kafka.evaluation.delay.streams import DATA, STREAMS, TRENDS, Stream, stream
from ldp_kafka.evaluation.experiment import Experiment, Row, Rows, values_of, where
from ldp_kafka.evaluation.plots import Line, Panel
from ldp_kafka.methods.delay.deviation import AUTHORS_THETA

__all__ = [
    "BUCKETS",
    "EXPERIMENTS",
    "OF_BEST",
    "THETAS",
    "UNEMPLOYMENT",
    "Tried",
    "authors",
    "claims",
    "panels",
    "rows",
    "sweep",
]

THETAS = (0.25, 4.0, 64.0, 1024.0, 2.0**16)  # the last: one group a window
BUCKETS = (1, 2, 3, 4, 8, 16)
OF_BEST = 1.05
UNEMPLOYMENT = 80.0
"""Thousands of persons: the MAE of groups on sums at a delay of 100 and epsilon 1."""
GROUPS = ("contin_group", "discontin_group")
PARAMETERS = {OURS: "segment", "buc_order": "buckets", "naive": "", "comp_order": ""}  # else theta
_OVER = "segment_mean, smoothed, over the best theta or number of buckets that was tried"


Tried = tuple[str, Row, Row]
"""A method, what it takes, and what its row says beside what `sweep` says."""


def sweep(
    tried: Callable[[Stream], Iterable[Tried]],
    streams: Sequence[str],
    *,
    epsilons: Sequence[float],
    delays: Sequence[int],
    settings: Sequence[str] = ("batch",),
    published: bool = False,
    smooth: bool = False,
    smoothed_to: int = SMOOTHED_TO,
    repeats: int = REPEATS,
    seed: int = 0,
) -> list[Row]:
    """Methods with parameters, noise on sums where nothing else is said, and the midpoint.

    Parameters
    ----------
    published : whether they are measured as published, too
    smooth : whether they are measured smoothed, too, up to a sliding delay of ``smoothed_to``
    """
    table: list[Row] = []
    for on, epsilon, delay, setting in product(map(stream, streams), epsilons, delays, settings):
        place: Row = {"epsilon": epsilon, "delay": delay, "setting": setting}
        nothing = {"parameter": "", "value": nan, "source": "default", "calibration": "sound"}
        middle = {"method": MIDPOINT, **nothing, **_figures(midpoint(on))}
        table.append({"stream": on.name, **place, **middle})
        for name, own, said in tried(on):
            parameter = PARAMETERS.get(name, "theta")
            for calibration in calibrations(name) if published else ("sound",):
                how = {**place, **own, "calibration": calibration}
                raw, *after = (
                    made(name, on, smooth=smoothed, **how)
                    for smoothed in (False, True)
                    if not smoothed or (smooth and is_smoothed(name, setting, delay, smoothed_to))
                )
                found = [errors(each, on, repeats=repeats, seed=seed) for each in (raw, *after)]
                value = {"parameter": parameter, "value": float(getattr(raw, parameter, nan))}
                table.append(
                    {"stream": on.name, **{key: how[key] for key in place}, "method": name}
                    | {**value, **said, "calibration": calibration, **_figures(*found)}
                )
    return [{**row, "repeats": repeats} for row in table]


def authors(name: str, on: Stream) -> Row:
    """The authors' theta or number of buckets."""
    if name == "buc_order":
        return {"buckets": ceil(on.length / on.width)}
    return {"theta": AUTHORS_THETA / on.length}


def _figures(raw: Row, smoothed: Row | None = None) -> Row:
    after = nan if smoothed is None else smoothed["mae"]
    return {"mae": raw["mae"], "mae_error": raw["mae_error"], "smoothed_mae": after}


def rows(
    streams: Sequence[str] = STREAMS,
    *,
    epsilons: Sequence[float] = EPSILONS,
    delays: Sequence[int] = DELAYS,
    settings: Sequence[str] = SETTINGS,
    thetas: Sequence[float] = THETAS,
    buckets: Sequence[int] = BUCKETS,
    smoothed_to: int = SMOOTHED_TO,
    repeats: int = REPEATS,
    seed: int = 0,
) -> list[Row]:
    """Groups at every theta and buckets in every number, noise on sums, all sound; segments and the
    midpoint. The ``source`` of a value: ``tried``; ``default``, this package's; ``authors``.

    Parameters
    ----------
    smoothed_to : the longest delay whose sliding windows are smoothed, but for segments
    """

    def tried(on: Stream) -> list[Tried]:
        return [
            *((name, {"theta": theta}, {"source": "tried"}) for name in GROUPS for theta in thetas),
            *(("buc_order", {"buckets": number}, {"source": "tried"}) for number in buckets),
            *((name, authors(name, on), {"source": "authors"}) for name in (*GROUPS, "buc_order")),
            *((name, {}, {"source": "default"}) for name in (*GROUPS, "buc_order", OURS)),
        ]

    how: Row = {"epsilons": epsilons, "delays": delays, "settings": settings, "repeats": repeats}
    return sweep(tried, streams, smooth=True, smoothed_to=smoothed_to, seed=seed, **how)


def claims(found: Rows) -> list[Claim]:
    """That segments are near the best that any theta and any buckets give, and that groups on sums
    reach their limit at a long delay.
    """
    tried: dict[str, dict[str, float]] = {"": {}, "smoothed": {}, "shaped": {}}
    for cell, part in by_cell(found).items():
        if part[0]["stream"] not in TRENDS:
            continue
        ours = where(part, method=OURS)[0]["smoothed_mae"]
        theirs = [row for row in part if row["method"] not in (OURS, MIDPOINT)]
        smoothed = [row["smoothed_mae"] for row in theirs if not isnan(row["smoothed_mae"])]
        for kind, figures in (
            ("", [row["mae"] for row in theirs]),
            ("smoothed", smoothed),
            ("shaped", [row["mae"] for row in theirs if not _is_segments(row)]),
        ):
            if figures:
                tried[kind][cell] = ours / min(figures)
    groups = where(found, stream="unemployment", epsilon=1.0, delay=100, method="discontin_group")
    return [
        at_most(f"MAE: {_OVER}, not smoothed", OF_BEST, tried[""]),
        at_most(f"MAE: {_OVER}, smoothed as well", OF_BEST, tried["smoothed"]),
        at_most(
            f"MAE: {_OVER}, not smoothed, one bucket left out, which is a window's raw segment",
            OF_BEST,
            tried["shaped"],
        ),
        at_most(
            "MAE: discontin_group on sums, Unemployment, delay 100, epsilon 1",
            UNEMPLOYMENT,
            {
                f"{row['setting']}, {row['source']} theta": row["mae"]
                for row in groups
                if row["source"] != "tried"
            },
        ),
    ]


def _is_segments(row: Row) -> bool:
    """Whether it is one bucket: all values of a window in one sum, at the whole of epsilon."""
    return bool(row["method"] == "buc_order" and row["value"] == 1)


def panels(found: Rows) -> list[Panel]:
    """One panel for each stream and delay, in batches at the greatest epsilon: MAE against theta;
    what has none as a level line.
    """
    greatest = max(row["epsilon"] for row in found)
    part = where(found, setting="batch", epsilon=greatest)
    drawn = []
    for delay, name in sorted(values_of(part, "delay", "stream"), key=itemgetter(0)):
        here, lines = where(part, stream=name, delay=delay), {}
        for method in GROUPS:
            of = sorted(where(here, method=method, source="tried"), key=itemgetter("value"))
            lines[method] = Line([row["value"] for row in of], [row["mae"] for row in of])
        ends = [min(lines[GROUPS[0]].x), max(lines[GROUPS[0]].x)]
        level = {
            "buc_order, its best number of buckets": min(
                row["mae"] for row in where(here, method="buc_order")
            ),
            "segment_mean, smoothed": where(here, method=OURS)[0]["smoothed_mae"],
            "midpoint": where(here, method=MIDPOINT)[0]["mae"],
        }
        lines |= {label: Line(ends, [mae] * 2) for label, mae in level.items()}
        title = f"{name}, delay {delay}, epsilon {greatest:g}"
        drawn.append(Panel(title, lines, "theta (lengths of the domain)", "MAE", "log"))
    return drawn


EXPERIMENTS = (
    Experiment(
        "delay-parameters",
        "delay windows",
        "",
        "every public theta and number of buckets beside smoothed segments",
        rows,
        {"streams": ("covid19_death",), "epsilons": (1.0,), "delays": (10,), "repeats": 5},
        claims,
        {"": panels},
        DATA,
    ),
)
