"""MAE and MRE of all methods against epsilon: the paper's figures 2 and 3 in public domains, sound
and as published, in batches and sliding, smoothed and not. All releases are clipped to the domain.

``contin_group`` with noise on points is ``pegasus_delay``; ``naive`` and ``segment_mean`` are the
same in both calibrations. FoodMart's values are ids of items, so that no claim but that about the
midpoint is made of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from ldp_kafka.evaluation.claims import Claim
from ldp_kafka.evaluation.delay.compared import (
    MIDPOINT,
    NAMES,
    OURS,
    PAPER,
    REPEATS,
    SMOOTHED_TO,
    Errors,
    by_cell,
    calibrations,
    errors,
    is_smoothed,
    made,
    midpoint,
)
from ldp_kafka.evaluation.delay.limits import at_most
from ldp_kafka.evaluation.delay.streams import STREAMS, TRENDS, Stream, stream
from ldp_kafka.evaluation.plots import Line, Panel

__all__ = [
    "DELAYS",
    "EPSILONS",
    "LIMITS",
    "OF_MIDPOINT",
    "SETTINGS",
    "Row",
    "claims",
    "panels",
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


class Row(NamedTuple):
    """One method in one setting, not smoothed and smoothed."""

    stream: str
    epsilon: float
    delay: int
    setting: str
    method: str
    calibration: str
    mae: float
    """Mean absolute error of what is not smoothed, and its standard error over repeats."""
    mae_error: float
    smoothed_mae: float
    """NaN where it was not measured: see `SMOOTHED_TO`."""
    smoothed_mae_error: float
    mre: float
    """Mean relative error; true values count as a hundredth of the domain's length at least."""
    mre_error: float
    smoothed_mre: float
    smoothed_mre_error: float
    repeats: int


def rows(
    streams: Sequence[str] = STREAMS,
    *,
    epsilons: Iterable[float] = EPSILONS,
    delays: Sequence[int] = DELAYS,
    settings: Sequence[str] = SETTINGS,
    methods: Sequence[str] = NAMES,
    smoothed_to: int = SMOOTHED_TO,
    repeats: int = REPEATS,
    seed: int = 0,
) -> list[Row]:
    """Every method in every setting, and the midpoint, which is the same in all.

    Parameters
    ----------
    smoothed_to : see `SMOOTHED_TO`
    """
    return [
        row
        for each in [stream(name) for name in streams]
        for epsilon, delay, setting in product(epsilons, delays, settings)
        for row in _cell(each, epsilon, delay, setting, methods, smoothed_to, repeats, seed)
    ]


def _cell(
    on: Stream,
    epsilon: float,
    delay: int,
    setting: str,
    methods: Sequence[str],
    smoothed_to: int,
    repeats: int,
    seed: int,
) -> list[Row]:
    unknown = Errors(*[float("nan")] * 4)
    found = [(MIDPOINT, "sound", midpoint(on), unknown)]
    for name in methods:
        looked = is_smoothed(name, setting, delay, smoothed_to)
        for calibration in calibrations(name):
            raw, smoothed = (
                errors(
                    made(
                        name,
                        on,
                        calibration=calibration,
                        epsilon=epsilon,
                        delay=delay,
                        setting=setting,
                        smooth=smooth,
                    ),
                    on,
                    repeats=repeats,
                    seed=seed,
                )
                if looked or not smooth
                else unknown
                for smooth in (False, True)
            )
            found.append((name, calibration, raw, smoothed))
    return [
        Row(
            on.name,
            epsilon,
            delay,
            setting,
            name,
            calibration,
            *raw[:2],
            *smoothed[:2],
            *raw[2:],
            *smoothed[2:],
            repeats,
        )
        for name, calibration, raw, smoothed in found
    ]


def claims(found: Sequence[Row]) -> list[Claim]:
    """That smoothed segments are far below what the paper has, with the authors' theta and
    buckets, and never far above the midpoint.
    """
    by_paper: dict[int, dict[str, float]] = {delay: {} for delay in LIMITS}
    by_midpoint = {}
    for of, part in by_cell(found).items():
        ours = next(row.smoothed_mae for row in part if row.method == OURS)
        best = min(
            (row.mae for row in part if row.method in PAPER and row.calibration == "published"),
            default=None,
        )
        if best is not None and of.delay in LIMITS and of.stream in TRENDS and of.epsilon >= FROM:
            by_paper[of.delay][str(of)] = ours / best
        by_midpoint[str(of)] = ours / next(row.mae for row in part if row.method == MIDPOINT)
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


_DRAWN: Mapping[str, Sequence[tuple[str, str, bool]]] = {
    "published": [
        (MIDPOINT, "sound", False),
        ("naive", "sound", False),
        *((name, "published", False) for name in PAPER),
        (OURS, "sound", True),
    ],
    "sound": [
        (MIDPOINT, "sound", False),
        ("naive", "sound", False),
        *((name, "sound", False) for name in PAPER),
        (OURS, "sound", True),
    ],
    "smoothed": [
        (MIDPOINT, "sound", False),
        ("naive", "sound", True),
        *((name, "sound", True) for name in PAPER),
        (OURS, "sound", True),
    ],
}


def panels(found: Sequence[Row], figure: str = "published") -> list[Panel]:
    """One panel for each stream and delay, in batches: the paper's methods as ``published``,
    ``sound``, or sound and ``smoothed``, MAE against epsilon.
    """
    part = [row for row in found if row.setting == "batch"]
    drawn = []
    for delay in sorted({row.delay for row in part}):
        for name in dict.fromkeys(row.stream for row in part):
            lines = {}
            for method, calibration, smooth in _DRAWN[figure]:
                here = [
                    row
                    for row in part
                    if (row.stream, row.delay, row.method, row.calibration)
                    == (name, delay, method, calibration)
                ]
                if not here:
                    continue
                many = here[0].repeats > 1
                lines[f"{method}, smoothed" if smooth else method] = Line(
                    [row.epsilon for row in here],
                    [row.smoothed_mae if smooth else row.mae for row in here],
                    [row.smoothed_mae_error if smooth else row.mae_error for row in here]
                    if many
                    else None,
                )
            drawn.append(Panel(f"{name}, delay {delay}", lines, "epsilon", "MAE", "log"))
    return drawn
