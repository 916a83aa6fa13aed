"""What the paper does not have: the length of a block, and shrinkage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from ldp_kafka.evaluation.capp.compared import (
    BOTH,
    CONSTANTS,
    QUICK,
    constants,
    errors,
    method,
    panels,
    setting,
    streams,
)
from ldp_kafka.evaluation.claims import Claim, at_most
from ldp_kafka.evaluation.experiment import Experiment, Row, Rows, measured, values_of, where
from ldp_kafka.evaluation.metrics import mean_error
from ldp_kafka.methods.feedback import default_block
from ldp_kafka.methods.shrinkage import Shrinkage
from ldp_kafka.randomness import seeded

__all__ = ["EXPERIMENTS", "NEAR", "blocks", "shrinking"]

NEAR = 1.05
"""How many times the best error, or a constant's, one may be that is as good."""


def blocks(
    name: str,
    window: int,
    epsilon: float,
    choices: Iterable[int] | None = None,
    *,
    repetitions: int = 10,
    seed: int = 0,
) -> list[Row]:
    """Sound CAPP for each length of its blocks; default: 1 to ``window``."""
    values = streams(name, window)
    chosen = default_block(epsilon, window)
    rows: list[Row] = []
    for block in range(1, window + 1) if choices is None else choices:
        used = method("capp", epsilon, window, "sound", block=block)
        found = errors(used, values, repetitions, seed=seed + len(rows) * repetitions)
        rows.append(
            {"series": name, "window": window, "epsilon": epsilon, "block": block}
            | measured(mse=found["mse"])
            | {"default": block == chosen}
            | constants(values)
        )
    return rows


def shrinking(
    name: str,
    window: int,
    epsilons: Iterable[float] = (0.5, 1.0, 3.0, 10.0, 30.0),
    *,
    names: Sequence[tuple[str, str]] = (
        ("capp", "published"),
        ("capp", "sound"),
        ("sw_direct", "sound"),
    ),
    repetitions: int = 10,
    seed: int = 0,
    mechanism: str | None = None,
) -> list[Row]:
    """Window means before and after empirical-Bayes shrinkage, beside published CAPP and the
    constants.
    """
    values = streams(name, window)
    truth = values.mean(axis=1)
    rows: list[Row] = []
    for epsilon in epsilons:
        published = errors(method("capp", epsilon, window), values, repetitions, seed=seed)["mse"]
        for each, calibration in names:
            used = method(each, epsilon, window, calibration, mechanism=mechanism)
            curve = Shrinkage(used, window).curve
            found, first = [], seed + (len(rows) + 1) * repetitions
            for at in range(repetitions):
                released = used.release(values, seeded(first + at))
                crowd = Shrinkage(used, window, curve=curve)
                index = crowd.index(released)
                crowd.update(index)
                shrunk = crowd.apply(index)
                found.append(
                    (
                        mean_error(released, values),
                        float(((shrunk.values - truth) ** 2).mean()),
                        shrunk.reliability,
                        shrunk.standard_error**2,
                    )
                )
            raw, mse, reliability, stated = np.array(found).T
            rows.append(
                {"series": name, "window": window, "epsilon": epsilon}
                | {"method": each, "calibration": calibration, "raw": float(raw.mean())}
                | measured(mse=mse)
                | {"reliability": float(reliability.mean()), "stated": float(stated.mean())}
                | {"published": float(np.mean(published))}
                | constants(values)
            )
    return rows


def _of_settings(
    of: Callable[..., list[Row]],
    names: Sequence[str] = ("volume", "c6h6"),
    windows: Sequence[int] = (10, 30),
    **more: Any,
) -> list[Row]:
    """The rows of each series and window."""
    return [row for name, window in product(names, windows) for row in of(name, window, **more)]


def _blocks_of(
    name: str, window: int, epsilons: Sequence[float] = (0.5, 1.0, 2.0, 3.0), **more: Any
) -> list[Row]:
    """Of some lengths, the planner's choice among them."""
    some = range(1, window + 1, 1 + window // 15)
    return [
        row
        for epsilon in epsilons
        for row in blocks(
            name, window, epsilon, sorted({*some, default_block(epsilon, window)}), **more
        )
    ]


def _near_the_best(rows: Rows) -> list[Claim]:
    over = {}
    for name, window, epsilon in values_of(rows, "series", "window", "epsilon"):
        part = where(rows, series=name, window=window, epsilon=epsilon)
        (chosen,) = where(part, default=True)
        best = min(row["mse"] for row in part)
        over[setting(chosen, "series", "window")] = chosen["mse"] / best
    return [at_most("the MSE of the planner's block over that of the best one", NEAR, over)]


def _no_worse(rows: Rows) -> list[Claim]:
    def over(column: str) -> dict[str, float]:
        each = ("series", "window", "method", "calibration")
        return {setting(row, *each): row["mse"] / row[column] for row in rows}

    return [
        at_most("the MSE of shrunk means over that of the midpoint", NEAR, over("midpoint")),
        at_most("the MSE of shrunk means over that of the means as reported", NEAR, over("raw")),
    ]


EXPERIMENTS = (
    Experiment(
        "capp-blocks",
        "CAPP",
        "",
        "sound capp by the length of its blocks, and the planner's choice",
        partial(_of_settings, _blocks_of),
        QUICK | {"windows": (10,)},
        _near_the_best,
        {"": panels("mse", lines=("epsilon",), x="block", xlabel="block (slots)")},
        data=BOTH,
    ),
    Experiment(
        "shrinkage",
        "CAPP",
        "",
        "window means before and after shrinkage, beside the constants",
        partial(_of_settings, shrinking),
        QUICK | {"windows": (10,)},
        _no_worse,
        {
            "": panels(
                "mse",
                each=("series", "window", "calibration"),
                beside=CONSTANTS | {"capp as published, not shrunk": "published"},
                xscale="log",
            )
        },
        data=BOTH,
    ),
)
