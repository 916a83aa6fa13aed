"""What CGM gains over its two baselines: measured variances beside the laws of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.evaluation.experiment import Experiment, Row, drawn
from ldp_kafka.mechanisms import MECHANISMS
from ldp_kafka.methods import METHODS
from ldp_kafka.methods.cgm import reuse_ratios
from ldp_kafka.methods.chain import RATIO
from ldp_kafka.randomness import seeded

__all__ = [
    "EXPERIMENTS",
    "METHODS_COMPARED",
    "law",
    "made",
    "table",
    "variances",
    "worst_streams",
]

METHODS_COMPARED = ("gaussian_direct", "gaussian_differential", "cgm")


def law(method: str, bound: float, report: int) -> float:
    """Variance of report number ``report`` (from 1) over sigma_1 squared: 1; 1 + 4 C^2 (i - 1)
    (before eq. 8); (4C - 4C^2) / (1 - (1 - 2C)^(2i)) (eq. 15).

    Examples
    --------
    >>> round(law("cgm", 0.05, 1), 9), round(law("cgm", 0.05, 100), 4)
    (1.0, 0.19)
    """
    if method == "gaussian_direct":
        return 1.0
    if method == "gaussian_differential":
        return 1 + 4 * bound**2 * (report - 1)
    return (4 * bound - 4 * bound**2) / (1 - (1 - 2 * bound) ** (2 * report))


def worst_streams(bound: float, reports: int) -> tuple[float, NDArray[np.float64]]:
    """The two streams whose draws CGM moves farthest, exactly: how far (squared, in sensitivities
    of one report; at most ``reports``), and the streams (2, reports) in shares of the domain.

    The difference D of two clipped streams may be anything with |D_i| <= 1 and |D_i - D_(i-1)| <=
    2C (streams 1/2 +- D/2 have it), and draw i moves by (D_i - r_i D_(i-1)) / V_i. The sum of
    squares is convex, so largest at a vertex; there every D_i is an end, or whole steps of 2C away
    from one: a path over these points, by dynamic programming.

    The proof of CGM counts 1 for every report. Over long streams it is about half of that, since no
    two streams can be far apart and moving apart all the time: CGM's noise is larger than its
    privacy needs, in variance by up to two.

    Examples
    --------
    >>> [round(worst_streams(0.05, l)[0] / l, 3) for l in (1, 2, 10, 100)]
    [1.0, 0.914, 0.642, 0.514]
    """
    ratios = np.array(reuse_ratios(bound)) / RATIO
    steps = np.arange(int(1 / bound + 1e-9) + 1) * 2 * bound
    points = np.unique(np.round(np.concatenate([1 - steps, steps - 1]), 12))
    near = np.abs(points[:, None] - points) <= 2 * bound + 1e-9
    total, came = points**2, []
    for i in range(1, reports):
        r = ratios[min(i, len(ratios) - 1)]
        # from the second index to the first
        moved = (points[:, None] - r * points) / (1 - r + 2 * bound * r)
        each = np.where(near, total + moved**2, -1.0)
        came.append(each.argmax(1))
        total = each.max(1)
    path = [int(total.argmax())]
    for before in reversed(came):
        path.append(int(before[path[-1]]))
    apart = points[path[::-1]]
    return float(total.max()), np.stack([0.5 + apart / 2, 0.5 - apart / 2])


def variances(
    method: str,
    bound: float,
    horizon: int,
    users: int,
    *,
    epsilon: float = 1.0,
    delta: float = 1e-5,
    seed: int = 0,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Variances (horizon,) of the reports of constant streams over sigma_1 squared, and their
    standard errors: about the known mean, since the noise has none.
    """
    of = made(method, bound, horizon, epsilon=epsilon, delta=delta)
    noise = of.release(np.full((users, horizon), 0.5), seeded(seed)) - 0.5
    squares = (noise / of.sigma) ** 2
    return squares.mean(0), squares.std(0) / sqrt(users)


def table(
    bound: float = 0.05,
    horizon: int = 100,
    users: int = 40_000,
    reports: Sequence[int] = (1, 2, 3, 5, 10, 20, 50, 100),
    *,
    seed: int = 0,
) -> list[Row]:
    """The variance law of all three, at some reports. A measured variance of normal noise has a
    relative standard error of sqrt(2 / users): 0.7 % at 40,000.
    """
    rows = []
    for method in METHODS_COMPARED:
        found, errors = variances(method, bound, horizon, users, seed=seed)
        rows += [
            (
                {"method": method, "report": i}
                | {"variance": float(found[i - 1]), "variance_error": float(errors[i - 1])}
                | {"law": law(method, bound, i)}
            )
            for i in reports
            if i <= horizon
        ]
    return rows


def made(
    method: str, bound: float, horizon: int, *, epsilon: float, delta: float = 1e-5, **more: Any
) -> Any:
    """One of `METHODS_COMPARED` on [0, 1], with the bound where it takes one.

    Parameters
    ----------
    more : ``refresh``
    """
    own = more if method == "gaussian_direct" else {**more, "differential_bound": bound}
    kind: Any = METHODS[method]
    return kind(
        mechanism=MECHANISMS["gaussian"],
        epsilon=epsilon,
        delta=delta,
        horizon=horizon,
        domain=(0.0, 1.0),
        **own,
    )


EXPERIMENTS = (
    Experiment(
        "cgm",
        "CGM",
        "eq. 15",
        "variance of a report, as a share of the baseline's",
        table,
        {"users": 2_000},
        figures={"": drawn("report", "variance", "variance over sigma_1 squared", each=())},
        data="constant streams of 40,000 users, 100 reports each; at quick depth of 2,000",
    ),
)
