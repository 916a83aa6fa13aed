"""Figures 1 and 7 of the SPPA paper, on made-up trips: what sorting undoes, and maps of velocity.

Figure 1: on a road whose distance from the start only grows, ETM's releases are the values
themselves in another order. Sorting puts them right, but for the lag that ``published`` adds: it
publishes a value half a window late on average. What is left of its error then is nothing, while
SPPA's values are between the true ones, and sorted they stay wrong.

Figure 7: the order of the maps' distances is the paper's. That ETM has the fastest steps is not:
PeGaSus's noise jumps from one end of the road to the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldp_kafka.evaluation.claims import Claim, at_most, claim
from ldp_kafka.evaluation.experiment import Experiment, Row, Rows, by, values_of
from ldp_kafka.evaluation.plots import Line, Panel
from ldp_kafka.evaluation.sppa import (
    COMPARED,
    DATA,
    STREAMS,
    WINDOW,
    made,
    moves,
    ordered,
    released,
    stream,
    velocity,
)

__all__ = ["EXPERIMENTS", "cleaned", "cleaning", "heat", "journeys", "maps"]

LEFT = 0.02  # of ETM's error, by cleaning, at most


def journeys(users: int = 200, slots: int = 200) -> NDArray[np.float64]:
    """How far travellers are from their start (users, slots), as a share of a road of ``slots`` at
    full speed: `trips` without a turn.
    """
    return moves(users, slots, 5, np.random.default_rng(1)).cumsum(1) / slots


def cleaned(found: NDArray[np.float64], truth: NDArray[np.float64]) -> tuple[float, int]:
    """Mean squared error of sorted releases (users, slots), and the lag of 0..window slots at which
    it is least.
    """
    order, slots = np.sort(found, axis=1), found.shape[1]
    return min(
        (float(((order[:, lag:] - truth[:, : slots - lag]) ** 2).mean()), lag)
        for lag in range(WINDOW + 1)
    )


def cleaning(users: int = 200, *, seed: int = 1) -> list[Row]:
    """Figure 1: errors of releases, and after cleaning."""
    rows, values = [], journeys(users)
    for calibration, method in product(("published", "sound"), COMPARED):
        found, truth = released(made(method, calibration=calibration), values, seed)
        mse = float(((found - truth) ** 2).mean())
        after, lag = cleaned(found, truth)
        rows.append(
            {"stream": "journeys", "users": users, "method": method, "calibration": calibration}
            | {"mse": mse, "cleaned": after, "lag": lag, "left": after / mse}
        )
    return rows


def of_cleaning(rows: Rows) -> list[Claim]:
    """Section 2.4."""
    left = {cell: row["left"] for cell, row in by(rows, "calibration", "method").items()}
    how = values_of(rows, "calibration")
    return [
        at_most(
            "of etm's error, left by cleaning", LEFT, {each: left[each, "etm"] for each in how}
        ),
        claim(
            "cleaning leaves ten times as much of sppa's",
            (left[each, "sppa"] > 10 * left[each, "etm"] for each in how),
        ),
    ]


def heat(positions: ArrayLike) -> NDArray[np.float64]:
    """Velocity between each pair of slots (users, slots, slots).

    Examples
    --------
    >>> heat([[0.0, 0.5, 0.25]])[0].tolist()
    [[0.0, 0.5, 0.125], [0.5, 0.0, 0.25], [0.125, 0.25, 0.0]]
    """
    at = np.asarray(positions, np.float64)
    slots = np.arange(at.shape[1])
    apart = np.maximum(np.abs(slots[:, None] - slots), 1)
    return np.asarray(np.abs(at[:, :, None] - at[:, None]) / apart)


def maps(
    names: Sequence[str] = STREAMS, *, calibration: str = "published", seed: int = 1
) -> list[Row]:
    """Figure 7: how far the maps of releases are from the true ones, as a share of these, and the
    fastest step of a user.
    """
    rows = []
    for name, method in product(names, COMPARED):
        found, truth = released(made(method, calibration=calibration), stream(name), seed)
        seen, true = heat(found), heat(truth)
        rows.append(
            {"stream": name, "calibration": calibration, "method": method}
            | {"distance": float(np.abs(seen - true).mean() / true.mean())}
            | {"fastest": float(velocity(found).max(1).mean())}
            | {"true_fastest": float(velocity(truth).max(1).mean())}
        )
    return rows


def of_maps(rows: Rows) -> list[Claim]:
    """Section 5.3.2."""
    fastest = {cell: row["fastest"] for cell, row in by(rows, "stream", "method").items()}
    return [
        claim(
            "sppa's map is nearer to the true one than etm's, and that than pegasus_local's",
            ordered("distance", rows, "calibration"),
        ),
        claim(
            "etm has faster steps than sppa and pegasus_local",
            (
                fastest[name, "etm"] > fastest[name, other]
                for name in values_of(rows, "stream")
                for other in ("sppa", "pegasus_local")
            ),
        ),
    ]


def _sequences(rows: Rows) -> list[Panel]:
    """What one traveller releases in 60 slots, as published."""
    panels = []
    for method in values_of(rows, "method"):
        found, truth = released(made(method), journeys(), 1)
        _, lag = cleaned(found, truth)
        order, slots = np.sort(found[0])[lag:], range(60)
        lines = {"true": truth[0], "released": found[0], "cleaned": order}
        drawn = {name: Line(slots, of[:60].tolist()) for name, of in lines.items()}
        panels.append(Panel(method, drawn, "slot", "distance from the start", yscale="linear"))
    return panels


def _maps(rows: Rows) -> list[Panel]:
    """The maps of the first user of the first stream in 60 slots, as published."""
    values = stream(rows[0]["stream"])
    found = {method: released(made(method), values, 1) for method in COMPARED}
    shown = {"true": found["sppa"][1]} | {method: each[0] for method, each in found.items()}
    return [
        Panel(name, {}, "slot", "slot", yscale="linear", image=heat(each[:1, :60])[0])
        for name, each in shown.items()
    ]


EXPERIMENTS = (
    Experiment(
        "sppa-cleaning",
        "SPPA",
        "figure 1",
        "error after sorting",
        cleaning,
        {"users": 50},
        of_cleaning,
        {"": _sequences},
        "200 made-up journeys of 200 slots that never turn, in place of Taxi, which is not free",
    ),
    Experiment(
        "sppa-maps",
        "SPPA",
        "figure 7",
        "maps of velocity between slots",
        maps,
        {"names": STREAMS[:1]},
        of_maps,
        {"": _maps},
        DATA,
    ),
)
