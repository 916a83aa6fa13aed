"""MAE and MRE of all methods against epsilon: the paper's figures 2 and 3 in public domains, sound
and as published, in batches and sliding, smoothed and not. All releases are clipped to the domain.

``contin_group`` with noise on points is ``pegasus_delay``; ``naive`` and ``segment_mean`` are the
same in both calibrations. FoodMart's values are ids of items, so that no claim but that about the
midpoint is made of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product

from ldp_kafka.evaluation.claims import Claim, at_most
from ldp_kafka.evaluation.delay.compared import (
    MIDPOINT,
    NAMES,
    OURS,
    PAPER,
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
from ldp_kafka.evaluation.experiment import Experiment, Row, Rows, drawn, where
from ldp_kafka.evaluation.plots import Panel

__all__ = [
    "DELAYS",
    "EPSILONS",
    "EXPERIMENTS",
    "LIMITS",
    "OF_MIDPOINT",
    "SETTINGS",
    "claims",
    "rows",
]

EPSILONS = (0.1, 0.2, 0.5, 1.0)
DELAYS = (10, 100)
SETTINGS = ("batch", "sliding")
LIMITS = {10: 0.7, 100: 0.85}
"""How far below the paper's best `segment_mean` is to be, by delay ..."""
FROM = 0.5
"""... from this epsilon on."""
OF_MIDPOINT = 1.2
_UNKNOWN = dict.fromkeys(("mae", "mae_error", "mre", "mre_error"), float("nan"))


def rows(
    streams: Sequence[str] = STREAMS,
    *,
    epsilons: Sequence[float] = EPSILONS,
    delays: Sequence[int] = DELAYS,
    settings: Sequence[str] = SETTINGS,
    methods: Sequence[str] = NAMES,
    smoothed_to: int = SMOOTHED_TO,
    repeats: int = REPEATS,
    seed: int = 0,
) -> list[Row]:
    """Every method in every setting, not smoothed and smoothed, and the midpoint, which is the same
    in all.

    Parameters
    ----------
    smoothed_to : see `SMOOTHED_TO`
    """

    def found(on: Stream, name: str, calibration: str, place: Row, *, smooth: bool) -> Row:
        if smooth and not is_smoothed(name, place["setting"], place["delay"], smoothed_to):
            return _UNKNOWN
        method = made(name, on, calibration=calibration, smooth=smooth, **place)
        return errors(method, on, repeats=repeats, seed=seed)

    table: list[Row] = []

    def add(on: Stream, name: str, calibration: str, place: Row, raw: Row, smoothed: Row) -> None:
        table.append(
            {"stream": on.name, **place, "method": name, "calibration": calibration}
            | {
                f"{prefix}{figure}": part[figure]
                for kind in ("mae", "mre")
                for prefix, part in (("", raw), ("smoothed_", smoothed))
                for figure in (kind, f"{kind}_error")
            }
            | {"repeats": repeats}
        )

    for on, epsilon, delay, setting in product(map(stream, streams), epsilons, delays, settings):
        place = {"epsilon": epsilon, "delay": delay, "setting": setting}
        add(on, MIDPOINT, "sound", place, midpoint(on), _UNKNOWN)
        for name in methods:
            for calibration in calibrations(name):
                raw, smoothed = (
                    found(on, name, calibration, place, smooth=smooth) for smooth in (False, True)
                )
                add(on, name, calibration, place, raw, smoothed)
    return table


def claims(found: Rows) -> list[Claim]:
    """That smoothed segments are far below what the paper has, with the authors' theta and
    buckets, and never far above the midpoint.
    """
    by_paper: dict[int, dict[str, float]] = {delay: {} for delay in LIMITS}
    by_midpoint = {}
    for cell, part in by_cell(found).items():
        (ours,), (middle,) = where(part, method=OURS), where(part, method=MIDPOINT)
        theirs = [row["mae"] for row in where(part, calibration="published")]
        told = ours["delay"] in LIMITS and ours["stream"] in TRENDS and ours["epsilon"] >= FROM
        if theirs and told:
            by_paper[ours["delay"]][cell] = ours["smoothed_mae"] / min(theirs)
        by_midpoint[cell] = ours["smoothed_mae"] / middle["mae"]
    return [
        *(
            at_most(
                f"MAE: segment_mean, smoothed, over the paper's best with the authors' theta and"
                f" buckets, at delay {delay} from epsilon {FROM} on",
                limit,
                by_paper[delay],
            )
            for delay, limit in LIMITS.items()
        ),
        at_most("MAE: segment_mean, smoothed, over the midpoint", OF_MIDPOINT, by_midpoint),
    ]


def panels(calibration: str, smoothed: str, found: Rows) -> list[Panel]:
    """One panel for each stream and delay, in batches: MAE of the paper's methods, and of ours,
    smoothed, against epsilon.

    Parameters
    ----------
    smoothed : methods that are drawn smoothed: ``ours``, or ``all``
    """
    lines = []
    for row in sorted(where(found, setting="batch"), key=lambda row: row["delay"]):
        if row["calibration"] == (calibration if row["method"] in PAPER else "sound"):
            smooth = row["method"] == OURS or (smoothed == "all" and row["method"] != MIDPOINT)
            prefix = "smoothed_" if smooth else ""
            figures = {name: row[f"{prefix}{name}"] for name in ("mae", "mae_error")}
            lines.append({**row, **figures, "drawn": row["method"] + ", smoothed" * smooth})
    lines.sort(key=lambda row: (row["delay"], (MIDPOINT, *NAMES).index(row["method"])))
    return _PANELS(lines)


_PANELS = drawn("epsilon", "mae", "MAE", each=("stream", "delay"), lines=("drawn",), xscale="log")
EXPERIMENTS = (
    Experiment(
        "delay-methods",
        "delay windows",
        "figures 2 and 3",
        "errors of all methods, public domains, all clipped",
        rows,
        {"streams": ("covid19_death",), "epsilons": (0.5, 1.0), "delays": (10,), "repeats": 5},
        claims,
        {
            "published": partial(panels, "published", "ours"),
            "sound": partial(panels, "sound", "ours"),
            "smoothed": partial(panels, "sound", "all"),
        },
        DATA,
    ),
)
