"""Figures 5 to 10: error against the delay, the width of buckets, and theta, in public domains and
clipped; as published and sound, with the values that the authors' artefact tries.

What does not hold, at full depth:

- Figure 5: on Outpatient no order has less error than groups at a delay of 10: one of 300 buckets
  is told right with hardly more than 1 / 300. On Unemployment ``buc_order`` falls with the delay.
- Figure 6: on Unemployment wider is better throughout. The midpoint is better than any width.
- Figures 7 to 10: thetas of 1 to 17 are nothing beside the noise of a test, whose scale is 50
  lengths of the domain and more. With the same noise ``contin_group`` and ``pegasus_delay`` release
  the very same at each theta, and what differs for ``discontin_group`` is chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from math import ceil
from typing import Any

from ldp_kafka.evaluation.claims import Claim, at_most, below, claim
from ldp_kafka.evaluation.delay.compared import MIDPOINT
from ldp_kafka.evaluation.delay.parameters import Tried, authors, sweep
from ldp_kafka.evaluation.delay.streams import DATA, Stream
from ldp_kafka.evaluation.experiment import Experiment, Row, Rows, by, drawn, values_of, where

__all__ = ["EXPERIMENTS", "of_delay", "of_theta", "of_width"]

STREAMS = ("unemployment", "outpatient")
ORDERS = ("comp_order", "buc_order")
GROUPS = ("contin_group", "discontin_group", "pegasus_delay", "discontin_group point")
"""Figures 7 to 10, in this order: ``pegasus_delay`` is ``contin_group`` with noise on points."""
NARROWEST = {"unemployment": 10, "outpatient": 10_000}  # buckets, in units of the domain
CHANCE = 5.0  # standard errors that five equal figures range over, at most
THEIRS: Row = {"source": "authors"}
HOW: Row = {"streams": STREAMS, "published": True, "repeats": 20}  # as in the paper


def _compared(on: Stream) -> list[Tried]:
    """Figure 5, and naive noise; ``comp_order`` slides, as in Table II."""
    return [
        *((name, authors(name, on), THEIRS) for name in ("discontin_group", "buc_order")),
        ("naive", {}, THEIRS),
        ("comp_order", {"setting": "sliding"}, THEIRS),
    ]


def _widths(times: Sequence[int], on: Stream) -> list[Tried]:
    """Figure 6: buckets so many times as wide as the narrowest."""
    widths = [float(each * NARROWEST[on.name]) for each in times]
    said: Row = {"parameter": "width", **THEIRS}
    return [("buc_order", {"buckets": ceil(on.length / m)}, {**said, "value": m}) for m in widths]


def _thetas(thetas: Sequence[float], on: Stream) -> list[Tried]:
    """Figures 7 to 10: theta in units of the domain."""
    said: Row = {"parameter": "theta, units", **THEIRS}
    return [
        (name, {"theta": theta / on.length}, {**said, "value": float(theta)})
        for name in GROUPS
        for theta in thetas
    ]


def by_width(times: Sequence[int] = range(1, 11), **how: Any) -> list[Row]:
    """Figure 6; ``times``: widths, in those of the narrowest."""
    how = HOW | {"epsilons": (0.4, 0.6, 1.0), "delays": (100,)} | how
    return sweep(partial(_widths, times), **how)


def by_theta(thetas: Sequence[float] = (1, 5, 9, 13, 17), **how: Any) -> list[Row]:
    """Figures 7 to 10."""
    how = HOW | {"epsilons": (0.4,), "delays": (100,)} | how
    return sweep(partial(_thetas, thetas), **how)


def _lines(rows: Rows, *names: str) -> dict[Any, list[tuple[float, float]]]:
    """Errors along the axis, each with its standard error, by these columns."""
    theirs, lines = where(rows, **THEIRS), {}
    for cell in values_of(theirs, *names):
        part = where(theirs, **dict(zip(names, cell, strict=True)))
        lines[cell] = [(row["mae"], row["mae_error"]) for row in part]
    return lines


def _one_way(line: Sequence[tuple[float, float]]) -> bool:
    steps = [after[0] - before[0] for before, after in pairwise(line)]
    return min(steps) >= 0 or max(steps) <= 0


def of_delay(rows: Rows) -> list[Claim]:
    """Section VII-B, of figure 5."""
    lines = _lines(rows, "stream", "calibration", "method")
    groups = {cell[:2]: line for cell, line in lines.items() if cell[2] == "discontin_group"}
    orders = {cell: line for cell, line in lines.items() if cell[2] in ORDERS}
    return [
        claim(
            "discontin_group improves as the delay grows",
            (b[0] < a[0] for line in groups.values() for a, b in pairwise(line)),
        ),
        claim(
            "comp_order and buc_order have no clear pattern along the delay",
            (
                not _one_way(line) or not (below(line[0], line[-1]) or below(line[-1], line[0]))
                for line in orders.values()
            ),
        ),
        claim(
            "at the shortest delay comp_order and buc_order have less error than discontin_group",
            (line[0][0] < groups[cell[:2]][0][0] for cell, line in orders.items()),
        ),
    ]


def of_width(rows: Rows) -> list[Claim]:
    """Section VII-B, of figure 6, and that the midpoint is better."""
    lines = _lines(rows, "stream", "calibration", "epsilon")
    middle = by(where(rows, method=MIDPOINT), "stream")
    return [
        claim(
            "Unemployment, epsilon 0.4 and 0.6: too narrow buckets have more error",
            (
                below(min(line), line[0])
                for (stream, _, epsilon), line in lines.items()
                if stream == "unemployment" and epsilon < 1
            ),
        ),
        claim(
            "wider buckets do not always have less error",
            (not _one_way(line) for line in lines.values()),
        ),
        at_most(
            "the midpoint over buc_order of the best width",
            1.0,
            {
                f"{cell[0]}, {cell[1]}, epsilon {cell[2]}": middle[cell[0]]["mae"] / min(line)[0]
                for cell, line in lines.items()
            },
        ),
    ]


def of_theta(rows: Rows) -> list[Claim]:
    """Section VII-B, of figures 7 to 10, and that it is chance."""
    lines = _lines(rows, "stream", "calibration", "method").values()
    return [
        claim("error goes up and down with theta", (not _one_way(line) for line in lines)),
        claim(
            f"errors at all thetas lie within {CHANCE:g} standard errors",
            (
                max(line)[0] - min(line)[0] <= CHANCE * max(error for _, error in line)
                for line in lines
            ),
        ),
    ]


_AXES = partial(drawn, y="mae", ylabel="MAE", yscale="linear")
EXPERIMENTS = (
    Experiment(
        "delay-length",
        "delay windows",
        "figure 5",
        "groups and orders against the delay, epsilon .5, public domains, clipped",
        partial(sweep, _compared, epsilons=(0.5,), delays=(10, 30, 50, 70, 90), **HOW),
        {"streams": STREAMS[:1], "delays": (10, 50), "repeats": 5},
        of_delay,
        {"": _AXES("delay", each=("stream",), lines=("method", "calibration"))},
        DATA,
    ),
    Experiment(
        "delay-buckets",
        "delay windows",
        "figure 6",
        "buc_order against the width of its buckets, delay 100, public domains",
        by_width,
        {"streams": STREAMS[:1], "times": (1, 4, 7, 10), "repeats": 5},
        of_width,
        {
            "": _AXES(
                "value",
                xlabel="width",
                each=("stream", "calibration"),
                lines=("epsilon",),
                **THEIRS,
            )
        },
        DATA,
    ),
    Experiment(
        "delay-theta",
        "delay windows",
        "figures 7 to 10",
        "groups against theta, epsilon .4, delay 100, public domains, clipped",
        by_theta,
        {"streams": STREAMS[:1], "thetas": (1, 9, 17), "repeats": 5},
        of_theta,
        {
            "": _AXES(
                "value",
                xlabel="theta (units)",
                each=("stream", "method"),
                lines=("calibration",),
                **THEIRS,
            )
        },
        DATA,
    ),
)
