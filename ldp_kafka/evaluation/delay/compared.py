"""The methods that are compared, and how far their releases of a stream are from its values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import words
from ldp_kafka.evaluation.delay.streams import Stream
from ldp_kafka.evaluation.ldp_ids.comparison import FLOOR, mean_of, relative_error
from ldp_kafka.evaluation.metrics import absolute_error
from ldp_kafka.methods import METHODS
from ldp_kafka.randomness import seeded

__all__ = [
    "MIDPOINT",
    "NAMES",
    "OURS",
    "PAPER",
    "REPEATS",
    "SMOOTHED_TO",
    "Cell",
    "Errors",
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
R = TypeVar("R", bound=tuple[Any, ...])


class Errors(NamedTuple):
    """Errors of releases, over a whole stream."""

    mae: float
    """Mean absolute error, in the stream's unit, mean of all repeats ..."""
    mae_error: float
    """... and its standard error over repeats; infinite for one."""
    mre: float
    """Mean relative error; a true value below `FLOOR` of the domain's length counts as that ..."""
    mre_error: float


def calibrations(name: str) -> tuple[str, ...]:
    """Those that differ: ``naive`` and ``segment_mean`` have one."""
    return ("sound", "published") if name in PAPER else ("sound",)


def is_smoothed(name: str, setting: str, delay: int, smoothed_to: int) -> bool:
    """Whether a method is measured smoothed too: see `SMOOTHED_TO`."""
    return setting == "batch" or name == OURS or delay <= smoothed_to


class Cell(NamedTuple):
    """The stream and the parameters that methods are compared at."""

    stream: str
    epsilon: float
    delay: int
    setting: str

    def __str__(self) -> str:
        at_most = words.at_most(self.epsilon)
        return f"{self.stream}, epsilon {at_most}, delay {self.delay}, {self.setting}"


def by_cell(rows: Iterable[R]) -> dict[Cell, list[R]]:
    """Rows that begin with their cell."""
    found: dict[Cell, list[R]] = {}
    for row in rows:
        found.setdefault(Cell(*row[:4]), []).append(row)
    return found


class _Anywhere:
    """A delay method whose releases are not clipped to the domain."""

    def _inside(self: Any, released: NDArray[np.float64]) -> NDArray[np.float64]:
        lo, hi = self.domain
        return np.asarray(lo + released * (hi - lo))


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
        how.setdefault("buckets", max(round(on.length / on.width), 1))
    if not clipped:
        kind = type(kind.__name__, (_Anywhere, kind), {})
    return kind(domain=on.domain, calibration=calibration, **how)


def errors(method: Any, on: Stream, *, repeats: int = REPEATS, seed: int = 0) -> Errors:
    """Of a method's releases: all repeats are streams of one release, each with noise of its
    own.
    """
    many = np.tile(on.values, (repeats, 1))
    return _of(method.release(many, seeded(seed)).reshape(repeats, -1), on)


def midpoint(on: Stream) -> Errors:
    """Of the middle of the domain, which costs no budget, released in every slot."""
    return _of([np.full(on.values.size, on.middle)], on)._replace(mae_error=0.0, mre_error=0.0)


def _of(releases: Sequence[Any] | Any, on: Stream) -> Errors:
    """Of releases (repeats, pieces * slots)."""
    truth = on.values.ravel()
    floor = FLOOR * on.length
    return Errors(
        *mean_of([absolute_error(each, truth) for each in releases]),
        *mean_of([relative_error(each, truth, floor) for each in releases]),
    )
