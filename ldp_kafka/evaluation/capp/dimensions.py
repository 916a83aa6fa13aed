"""Figure 10: several dimensions at once, with the budget split between them or the slots.

As in the paper each dimension is a sine with a frequency of its own; it prints neither these nor a
window, and has d = 12 in its text and d = 10 in the figure. Here dimension k has k + 1 periods in
1,000 slots, from 0 to 1, in 100 windows of w = q = 30 slots, of which 12 dimensions still get two
reports each. JSD is that of `mechanisms`.

What does not reproduce, and why: by JSD, a split of the slots is better for d = 5, and for CAPP of
every d. All are smoothed alike, and averages over three slots of CAPP-BS, whose noise is the least,
lie nearer to the middle than the sines do; without smoothing it has little more than half the JSD
of SW-BS. By MSE, no BS method beats the midpoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.evaluation.capp.compared import (
    EPSILONS,
    compared,
    less,
    method,
    panels,
)
from ldp_kafka.evaluation.claims import Claim
from ldp_kafka.evaluation.experiment import Experiment, Row, Rows, values_of, where

__all__ = ["DIMENSIONS", "EXPERIMENTS", "claims", "rows", "sines"]

DIMENSIONS = (5, 10, 12)
INNER = {"sw_direct": "SW", "app": "APP", "capp": "CAPP"}
SPLITS = {"budget_split": "BS", "sample_split": "SS"}
FIGURES = ("mse", "jsd")
SLOTS = 3000


def sines(dimension: int, window: int) -> NDArray[np.float64]:
    """Windows (users, window, dimension) of sines in [0, 1].

    Examples
    --------
    >>> sines(2, 250)[0, -1].round(2).tolist()
    [1.0, 0.51]
    """
    slots = np.arange(SLOTS - SLOTS % window)[:, None]
    values = (1 + np.sin(2 * np.pi * slots * np.arange(1, dimension + 1) / 1000)) / 2
    return values.reshape(-1, window, dimension)


def rows(
    dimensions: Sequence[int] = DIMENSIONS,
    epsilons: Sequence[float] = EPSILONS,
    *,
    window: int = 30,
    calibrations: Sequence[str] = ("published", "sound"),
    repetitions: int = 20,
    seed: int = 0,
) -> list[Row]:
    """Each method in both splits, and in both calibrations."""
    found = []
    for dimension in dimensions:
        values = sines(dimension, window)
        made = [
            (
                {"series": "sines", "users": len(values), "dimension": dimension, "window": window}
                | {"epsilon": epsilon, "method": f"{INNER[inner]}-{SPLITS[split]}"}
                | {"calibration": calibration},
                method(split, epsilon, window, calibration, inner=inner, dimension=dimension),
            )
            for calibration, epsilon, split, inner in product(calibrations, epsilons, SPLITS, INNER)
        ]
        found += compared(values, made, repetitions=repetitions, seed=seed, of=FIGURES)
    return found


def claims(found: Rows) -> list[Claim]:
    """Section VI-D3, of each calibration."""
    said = []
    for how, figure in product(values_of(found, "calibration"), FIGURES):
        of = partial(less, where(found, calibration=how), figure, each=("dimension", "epsilon"))
        for each in SPLITS.values():
            better = [f"APP-{each}", f"CAPP-{each}"]
            said.append(of(f"{how}, APP and CAPP enhance SW-{each}", better, [f"SW-{each}"]))
        split, sampled = ([f"{name}-{each}" for name in INNER.values()] for each in SPLITS.values())
        said.append(of(f"{how}, BS outperforms SS", split, sampled))
    return said


_EACH = ("dimension", "calibration")
EXPERIMENTS = (
    Experiment(
        "capp-dimensions",
        "CAPP",
        "figure 10",
        "sines of several dimensions, by a split of the budget or of the slots; w = q = 30",
        rows,
        {"dimensions": (5,), "epsilons": (0.5, 3.0), "repetitions": 5},
        claims,
        {
            "mse": panels("mse", each=_EACH),
            "jsd": panels("jsd", each=_EACH, beside={}),
        },
        data="sines, made up as the paper says",
    ),
)
