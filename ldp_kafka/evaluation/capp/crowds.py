"""Figure 8: how the users' means are spread, by Wasserstein distance to the true spread.

Taxi (1,500 users) and Power (25,562) are not free: the windows of Volume and C6H6 stand in for
users (columns ``users``, ``in_place_of``). Of each method, in lengths of the domain:

- ``raw``: the paper's rule (section IV-C): the means of the releases, as they are.
- ``shrunk``: each drawn to the crowd's mean as far as noise hides it (`shrinkage`): the least error
  of single users.
- ``spread``: moved and stretched to be spread as the crowd is, as far as reports tell
  (`crowd.means`).
- ``noise``: the raw means of users whose values are all the midpoint. It needs no data.
- ``midpoint`` and ``constant``: everybody at 0.5; at the true median.

What does not reproduce, and why: on Volume raw means of what reports every slot are as good as
``noise``, .04 to .06 at every epsilon. What is compared is the noise's own spread, which happens to
be that of Volume, and so the order of methods is that of their noise: BA-SW has the most, and what
reports once a segment more than the others (see `sampling`). Beside that .05, shrunk means are .17
at epsilon 1, where reports say next to nothing of how far users lie apart. On C6H6 raw means stay
at .28 and more, and shrunk ones come down to .06 at epsilon 3. ``spread`` is the paper's rule where
reports tell nothing, and nearer where they do.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from itertools import product
from math import isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.evaluation.capp.compared import BOTH, EPSILONS, less, panels, setting, streams
from ldp_kafka.evaluation.capp.sampling import CALIBRATIONS, CODED, OURS, PLAIN, made
from ldp_kafka.evaluation.claims import Claim, at_most
from ldp_kafka.evaluation.experiment import Experiment, Row, Rows, measured, values_of, where
from ldp_kafka.evaluation.metrics import wasserstein
from ldp_kafka.evaluation.plots import Panel
from ldp_kafka.methods.shrinkage import ResponseCurve, Shrinkage
from ldp_kafka.randomness import seeded

__all__ = ["EXPERIMENTS", "SETTINGS", "claims", "distances", "rows"]

STANDS_FOR = "Taxi, Power"
SETTINGS = ((10, 10), (30, 30), (20, 10), (20, 30), (30, 10), (30, 40))
"""w and q of the figure's panels; where they differ, with methods that report once a segment."""
ALONE = ("ipp", "app", "capp")
RELEASES = ("raw", "shrunk", "spread")


@cache
def _curve(*given: Any) -> ResponseCurve:
    """Of a method that is made so, and the mean of its reports in a query."""
    used = made(*given)[0]
    segment = getattr(used, "segment", 1)
    return Shrinkage(used.single if segment > 1 else used, given[3] // segment).curve


def distances(
    used: Any, values: NDArray[np.float64], curve: ResponseCurve | None, seed: int
) -> dict[str, float]:
    """W1 of the means of one release of streams (users, q), in each way, and of noise alone; NaN
    where a method is not shrunk.
    """
    segment = getattr(used, "segment", 1)
    truth, reports = values.mean(axis=1), slice(segment - 1, None, segment)
    released = used.release(values, seeded(seed))[:, reports]
    blind = used.release(np.full_like(values, 0.5), seeded(seed + 1))[:, reports]
    found = {"raw": wasserstein(released.mean(axis=1), truth)}
    if curve is None:
        found |= dict.fromkeys(RELEASES[1:], float("nan"))
    else:
        crowd = Shrinkage(used.single if segment > 1 else used, released.shape[1], curve=curve)
        index = crowd.index(released)
        crowd.update(index)
        found["shrunk"] = wasserstein(crowd.apply(index).values, truth)
        found["spread"] = wasserstein(crowd.spread(index), truth)
    return found | {"noise": wasserstein(blind.mean(axis=1), truth)}


def rows(
    names: Sequence[str] = ("volume", "c6h6"),
    settings: Sequence[tuple[int, int]] = SETTINGS,
    epsilons: Sequence[float] = EPSILONS,
    *,
    calibrations: Sequence[str] = CALIBRATIONS,
    repetitions: int = 5,
    seed: int = 0,
) -> list[Row]:
    """The methods of each panel, in each calibration; what the authors' code spends concerns those
    that report once a segment alone.
    """
    table: list[Row] = []
    for name, (window, query), how, epsilon in product(names, settings, calibrations, epsilons):
        values = streams(name, query)
        truth = values.mean(axis=1)
        if window == query:
            methods: tuple[str, ...] = () if how == CODED else ("ba_sw", "ipp", *PLAIN)
        else:
            methods = (*PLAIN, "sampling", *OURS)
        for method in methods:
            used, spent = made(method, epsilon, window, query, how)
            curve = _curve(method, epsilon, window, query, how) if used.shrinks else None
            first = seed + len(table) * 2 * repetitions
            runs = [distances(used, values, curve, first + 2 * at) for at in range(repetitions)]
            table.append(
                {"series": name, "users": len(values), "in_place_of": STANDS_FOR}
                | {"window": window, "query": query, "epsilon": epsilon}
                | {"method": method, "calibration": how, "spent": spent}
                | measured(**{kind: [run[kind] for run in runs] for kind in (*RELEASES, "noise")})
                | {"midpoint": wasserstein([0.5], truth)}
                | {"constant": wasserstein([float(np.median(truth))], truth)}
            )
    return table


def claims(found: Rows) -> list[Claim]:
    """Section VI-D1, of each calibration; and whether what we make of the means is worse than the
    paper's rule.
    """
    said, each = [], ("series", "window", "query", "epsilon")
    for how in values_of(found, "calibration"):
        part = where(found, calibration=how)
        plain = [row for row in part if row["window"] == row["query"]]
        sampled = [row for row in part if row["window"] != row["query"]]
        if plain:
            raw = partial(less, plain, "raw", each=each)
            said += [
                raw(f"{how}, BA-SW is the worst", ["sw_direct", *ALONE], ["ba_sw"]),
                raw(f"{how}, SW-direct is the worst but for that", ALONE, ["sw_direct"]),
                raw(f"{how}, CAPP outperforms APP and IPP", ["capp"], ["ipp", "app"]),
            ]
        if sampled:
            raw = partial(less, sampled, "raw", each=each)
            said += [
                raw(f"{how}, CAPP-S is the best", ["capp_s"], ["app_s", *PLAIN, "sampling"]),
                raw(f"{how}, followed by APP-S", ["app_s"], [*PLAIN, "sampling"]),
            ]
    for kind in RELEASES[1:]:
        over = {
            setting(row, "series", "window", "query", "method"): row[kind] / row["raw"]
            for row in where(found, calibration="sound")
            if not isnan(row[kind])
        }
        said.append(at_most(f"W1 of {kind} means over that of the paper's rule, sound,", 1.0, over))
    return said


_EACH = ("series", "window", "query", "calibration")


def _kinds(found: Rows) -> list[Panel]:
    """All that is made of the means of published CAPP."""
    part = where(found, method="capp", calibration="published")
    table = [
        row | {"method": kind, "w1": row[kind], "w1_error": row[f"{kind}_error"]}
        for kind in (*RELEASES, "noise")
        for row in part
    ]
    return panels("w1", each=_EACH)(table)


EXPERIMENTS = (
    Experiment(
        "capp-crowd",
        "CAPP",
        "figure 8",
        "spread of users' means",
        rows,
        {"names": ("volume",), "settings": ((10, 10), (20, 10)), "epsilons": (0.5, 3.0)}
        | {"repetitions": 5},
        claims,
        {how.split()[-1]: panels("raw", each=_EACH, calibration=how) for how in CALIBRATIONS}
        | {"capp": _kinds},
        data=f"{BOTH}; its Taxi and Power, of many users, are not free",
    ),
)
