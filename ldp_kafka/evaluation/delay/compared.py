"""The methods that are compared, and how far their releases of a stream are from its values."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import words
from ldp_kafka.evaluation.delay.streams import Stream
from ldp_kafka.evaluation.experiment import Row, Rows, measured
from ldp_kafka.evaluation.metrics import FLOOR, absolute_error, relative_error
from ldp_kafka.methods import METHODS
from ldp_kafka.randomness import seeded

__all__ = [
    "CELL",
    "MIDPOINT",
    "NAMES",
    "OURS",
    "PAPER",
    "REPEATS",
    "SMOOTHED_TO",
    "by_cell",
    "calibrations",
    "errors",
    "is_smoothed",
    "made",
    "midpoint",
]

REPEATS = 40
SMOOTHED_TO = 10
"""The longest delay whose sliding windows are smoothed slot by slot, for methods without segments.
The time of it grows with the delay squared: at 100 it would take longer than all the rest. Batches
of 100 slots are smoothed, and segments everywhere.
"""
MIDPOINT, OURS = "midpoint", "segment_mean"
# of those that can draw both ways; contin_group with noise on points is pegasus_delay
_POINTS = {"discontin_group point": "discontin_group", "buc_order point": "buc_order"}
PAPER = (
    *("pegasus", "pegasus_delay", "contin_group", "discontin_group", "discontin_group point"),
    *("comp_order", "buc_order", "buc_order point"),
)
"""What the paper compares, noise on sums where nothing else is said, but for its baseline."""
NAMES = ("naive", *PAPER, OURS)


def calibrations(name: str) -> tuple[str, ...]:
    """Those that differ: ``naive`` and ``segment_mean`` have one."""
    return ("sound", "published") if name in PAPER else ("sound",)


def is_smoothed(name: str, setting: str, delay: int, smoothed_to: int) -> bool:
    """Whether a method is measured smoothed too: see `SMOOTHED_TO`."""
    return setting == "batch" or name == OURS or delay <= smoothed_to


CELL = ("stream", "epsilon", "delay", "setting")
"""What methods are compared at."""


def by_cell(rows: Rows) -> dict[str, list[Row]]:
    """Rows by their cell, in words."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        epsilon, delay = words.at_most(row["epsilon"]), row["delay"]
        name = f"{row['stream']}, epsilon {epsilon}, delay {delay}, {row['setting']}"
        found.setdefault(name, []).append(row)
    return found


def _anywhere(domain: tuple[float, float], released: NDArray[np.float64]) -> NDArray[np.float64]:
    """Releases in the domain's unit, not clipped to it."""
    return np.asarray(domain[0] + released * (domain[1] - domain[0]))


def made(
    name: str, on: Stream, *, calibration: str = "sound", clipped: bool = True, **how: Any
) -> Any:
    """A method in a stream's domain, ``published`` with the authors' theta and buckets.

    Parameters
    ----------
    name : of `NAMES`
    clipped : whether releases are clipped to the domain; else they are as their noise leaves them
    how : epsilon, delay and what else it takes
    """
    kind: Any = METHODS[_POINTS.get(name, name)]
    if name in _POINTS:
        how["noise"] = "point"
    if name.startswith("buc_order") and calibration == "published":
        how.setdefault("buckets", ceil(on.length / on.width))
    method = kind(domain=on.domain, calibration=calibration, **how)
    if not clipped:
        method._inside = partial(_anywhere, method.domain)  # noqa: SLF001 - no topology has it
    return method


def errors(method: Any, on: Stream, *, repeats: int = REPEATS, seed: int = 0) -> Row:
    """``mae`` and ``mre`` of a method's releases: all repeats are streams of one release, each with
    noise of its own. A true value counts as `FLOOR` of the domain's length at least in ``mre``.
    """
    many = np.tile(on.values, (repeats, 1))
    return _of(method.release(many, seeded(seed)).reshape(repeats, -1), on)


def midpoint(on: Stream) -> Row:
    """Of the middle of the domain, which costs no budget, released in every slot."""
    exact = _of([np.full(on.values.size, on.middle)], on)
    return {**exact, "mae_error": 0.0, "mre_error": 0.0}


def _of(releases: Sequence[Any] | Any, on: Stream) -> Row:
    """Of releases (repeats, pieces * slots)."""
    truth, floor = on.values.ravel(), FLOOR * on.length
    return measured(
        mae=[absolute_error(each, truth) for each in releases],
        mre=[relative_error(each, truth, floor) for each in releases],
    )
