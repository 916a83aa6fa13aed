"""Methods side by side on the windows of a series.

Streams are consecutive windows of a series, each a user's, scaled to [0, 1] by the public domain.
The paper draws 50 subsequences at random; all of them have the same expectation and no luck. Errors
are of means over windows (MSE) and of directions (cosine distance) of the releases, both after the
same smoothing in every row (the paper smooths its own methods only); each figure is averaged over
repetitions with seeded noise, other noise in every row, and carries its standard error over these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import product
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import words
from ldp_kafka.evaluation.claims import Claim, below, claim
from ldp_kafka.evaluation.data import SERIES, series
from ldp_kafka.evaluation.experiment import Row, Rows, by, drawn, measured, values_of, where
from ldp_kafka.evaluation.metrics import cosine_distance, jensen_shannon, mean_error
from ldp_kafka.evaluation.plots import Panel
from ldp_kafka.evaluation.streams import slice_series
from ldp_kafka.mechanisms import MECHANISMS
from ldp_kafka.methods import Method, of_reports
from ldp_kafka.methods.smoothing import smooth
from ldp_kafka.randomness import seeded

__all__ = [
    "ANY",
    "BOTH",
    "C6H6",
    "CONSTANTS",
    "EPSILONS",
    "MOST",
    "QUICK",
    "SMOOTHED",
    "VOLUME",
    "compared",
    "constants",
    "errors",
    "falls",
    "laid_out",
    "less",
    "method",
    "panels",
    "setting",
    "streams",
]

EPSILONS = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0)
"""Of a window: those of the authors' code for every figure."""
SMOOTHED = 3  # slots that are averaged, section VI-A1
MOST = 0.5  # of the settings, where the paper says "in most"
TOLD = 4.0
"""Standard errors by which two figures are told apart: there are a hundred pairs of them."""
BINS = 20  # of the domain, for the distribution of values
CELL = ("series", "window", "epsilon")
CONSTANTS = {"midpoint": "midpoint", "best constant": "constant"}
"""What a plot shows beside methods, and the columns that have it."""
ANY = {"any constant": "constant_cosine"}
VOLUME, C6H6 = "Volume (48,204 hours)", "C6H6 (8,990 hours)"
BOTH = f"{VOLUME} and {C6H6}, all consecutive windows where the paper draws 50"
QUICK = {"names": ("volume",), "epsilons": (0.5, 1.0, 3.0), "repetitions": 5}


def streams(name: str, window: int) -> NDArray[np.float64]:
    """Consecutive windows (users, window) of one of `ldp_kafka.evaluation.data.SERIES`, in [0, 1].

    Raises
    ------
    FileNotFoundError : the data are not there
    ConfigurationError : there is no such series, or it is too short
    """
    values = series(name)
    lo, hi = SERIES[name].domain
    return (slice_series(values, max(len(values) // window, 1), window) - lo) / (hi - lo)


def method(
    name: str,
    epsilon: float,
    window: int,
    calibration: str = "published",
    *,
    mechanism: str | None = None,
    **parameters: Any,
) -> Method:
    """A method on [0, 1]; ConfigurationError for a name that is not known."""
    kind = of_reports(name)
    return kind(
        epsilon=epsilon,
        window=window,
        domain=(0.0, 1.0),
        calibration=calibration,
        mechanism=MECHANISMS[mechanism or kind.default_mechanism],
        **parameters,
    )


def _apart(released: NDArray[np.float64], truth: NDArray[np.float64]) -> float:
    """Divergence of the distributions of all values, those outside the domain at its ends."""
    return jensen_shannon(
        *(np.histogram(np.clip(each, 0, 1), BINS, (0, 1))[0] for each in (released, truth))
    )


METRICS = {"mse": mean_error, "cosine": cosine_distance, "jsd": _apart}
"""Of releases and truth, slots last."""
NAMES = {
    "mse": "MSE of the mean",
    "cosine": "cosine distance",
    "jsd": "JSD of the values",
    "raw": "W1 of the means",
    "w1": "W1 of the means",
}


def laid_out(used: Any, released: NDArray[np.float64]) -> NDArray[np.float64]:
    """Releases (users, slots) or (users, slots, dimension), slots last, each over the slots that it
    stands for: a segment's over its own (Algorithm 3; slots after the last whole segment have the
    last), a coordinate's until its next, and the first one from the start.

    Examples
    --------
    >>> half = method("sampling", 60.0, 4, segment=2)
    >>> laid_out(half, np.array([[0.5, 0.1, 0.1, 0.9, 0.9]])).tolist()
    [[0.1, 0.1, 0.9, 0.9, 0.9]]
    """
    slots = np.arange(released.shape[1])
    if not used.dimension:
        segment = getattr(used, "segment", 1)
        last = np.minimum(slots // segment, len(slots) // segment - 1)
        return released[:, last * segment + segment - 1]
    first = np.arange(used.dimension)[:, None] % used.stride
    reported = np.maximum(slots - (slots - first) % used.stride, first)
    return np.take_along_axis(np.moveaxis(released, 2, 1), reported[None], axis=2)


def errors(
    used: Method,
    values: NDArray[np.float64],
    repetitions: int,
    *,
    seed: int = 0,
    length: int = 1,
    of: Sequence[str] = ("mse", "cosine"),
) -> dict[str, list[float]]:
    """Each of these `METRICS`, once a repetition, of releases smoothed over ``length`` slots
    (centred, as in the paper; 1: as they are).
    """
    truth = np.moveaxis(values, 1, -1)
    found: dict[str, list[float]] = {name: [] for name in of}
    for at in range(repetitions):
        released = laid_out(used, used.release(values, seeded(seed + at)))
        smoothed = smooth(released, length, centred=True)
        for name, seen in found.items():
            seen.append(METRICS[name](smoothed, truth))
    return found


def constants(values: NDArray[np.float64], of: Sequence[str] = ("mse",)) -> Row:
    """MSE of the domain's midpoint, published without a look at anything; and of the best constant,
    which nobody knows: the variance of the window means. And what else the midpoint comes to.
    """
    truth = np.moveaxis(values, 1, -1)
    flat, mean = np.full_like(truth, 0.5), truth.mean(axis=-1)
    more = {f"constant_{name}": METRICS[name](flat, truth) for name in of if name != "mse"}
    return {"midpoint": mean_error(flat, truth), "constant": float(mean.var()), **more}


def compared(
    values: NDArray[np.float64],
    made: Iterable[tuple[Row, Method]],
    *,
    repetitions: int,
    seed: int,
    length: int = SMOOTHED,
    of: Sequence[str] = ("mse", "cosine"),
) -> list[Row]:
    """A row for each method, with what is said of it, beside the constants."""
    beside = constants(values, of)
    return [
        said
        | measured(
            **errors(used, values, repetitions, seed=seed + at * repetitions, length=length, of=of)
        )
        | beside
        for at, (said, used) in enumerate(made)
    ]


def less(
    rows: Rows,
    figure: str,
    said: str,
    first: Sequence[str],
    second: Sequence[str],
    *,
    each: Sequence[str] = CELL,
    needed: float = 1.0,
) -> Claim:
    """That each of some methods has less of a figure than each of others. Two that are not `TOLD`
    apart in a setting say nothing.

    Parameters
    ----------
    said : the paper's, as near as they make a sentence
    each : columns, whose every combination is a setting
    """
    found = by(rows, *each, "method")
    pairs = list(product(values_of(rows, *each), first, second))
    told = []
    for cell, *names in pairs:
        less, more = (_figure(found[*cell, name], figure) for name in names)
        if below(less, more, TOLD) or below(more, less, TOLD):
            told.append(below(less, more))
    return claim(
        f"{NAMES[figure]}: {said} ({len(told)} of {len(pairs)} pairs are told apart)", told, needed
    )


def falls(rows: Rows, figure: str, said: str, *each: str) -> Claim:
    """That every error falls from the least epsilon to the greatest; ``each``: columns, whose every
    combination has errors of its own.
    """
    parts = [
        sorted(where(rows, **dict(zip(each, cell, strict=True))), key=itemgetter("epsilon"))
        for cell in values_of(rows, *each)
    ]
    return claim(
        f"{NAMES[figure]}: {said}",
        (below(_figure(part[-1], figure), _figure(part[0], figure)) for part in parts),
    )


def _figure(row: Row, name: str) -> tuple[float, float]:
    """With its standard error."""
    return row[name], row[f"{name}_error"]


def setting(row: Row, *names: str) -> str:
    """The values of some columns and its epsilon, in words.

    Examples
    --------
    >>> setting({"series": "volume", "window": 10, "epsilon": 0.5}, "series", "window")
    'volume, window 10, epsilon 0.5'
    """
    said = (
        f"{row[name]}" if isinstance(row[name], str) else f"{name} {row[name]}" for name in names
    )
    return ", ".join([*said, f"epsilon {words.at_most(row['epsilon'])}"])


def panels(
    figure: str,
    *,
    each: Sequence[str] = ("series", "window"),
    lines: Sequence[str] = ("method",),
    beside: Mapping[str, str] = CONSTANTS,
    x: str = "epsilon",
    **how: Any,
) -> Callable[[Rows], list[Panel]]:
    """A figure against epsilon, or another ``x``, and constants ``beside`` it: the column of each,
    by what its line is called.
    """
    draw = drawn(x, figure, NAMES.get(figure, figure), each=tuple(each), lines=tuple(lines), **how)
    return partial(_panels, figure, lines[0], (*each, x), beside, draw)


def _panels(
    figure: str,
    line: str,
    each: Sequence[str],
    beside: Mapping[str, str],
    draw: Callable[[Rows], list[Panel]],
    rows: Rows,
) -> list[Panel]:
    level = [
        row | {line: name, figure: row[column], f"{figure}_error": float("inf")}
        for name, column in beside.items()
        for row in by(rows, *each).values()
    ]
    return draw([*rows, *level])
