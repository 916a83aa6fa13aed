"""The mean of 3,000 meters at epsilon 2 and a window of 4 slots: half the width of its 95 %
interval, beside the figures that an independent computation gave.

Values are normal, 2,400 +- 1,200. That computation's figures are those of the noise given the
values, on the domain [0, 7280] of the shipped meters: on [0, 8000] all of them are a tenth wider.
`lpu` states more: who reports in a slot are a sample of all users.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ldp_kafka.evaluation.claims import Claim, claim
from ldp_kafka.evaluation.experiment import Experiment, Row, Rows, by, values_of, where
from ldp_kafka.mechanisms import MECHANISMS
from ldp_kafka.mechanisms.base import Z
from ldp_kafka.methods.protocols import PROTOCOLS
from ldp_kafka.randomness import seeded

__all__ = ["EXPERIMENTS", "GIVEN", "claims", "rows"]

GIVEN = {
    ("sw_direct", "square_wave"): 560.0,
    ("lpu", "piecewise"): 229.0,
    ("lpu", "square_wave"): 247.0,
    ("lpu", "hybrid"): 266.0,
    ("lpu", "duchi"): 330.0,
    ("lpu", "laplace"): 368.0,
}
USERS, EPSILON, WINDOW = 3000, 2.0, 4
MEAN, SPREAD = 2400.0, 1200.0
DOMAINS = (7280.0, 8000.0)
TOLERANCE = 0.03


def rows(domains: Iterable[float] = DOMAINS, *, slots: int = 400, seed: int = 0) -> list[Row]:
    """All of `GIVEN`, as half-widths of 95 % intervals; each slot has fresh values. ``noise`` is
    what a mechanism states of its reports, given the values; ``stated`` what is released, where
    users are divided with the sampling error; ``measured`` the error of what is released.
    """
    found = []
    for hi in domains:
        generator = np.random.default_rng(seed)
        values = np.clip(generator.normal(MEAN, SPREAD, (USERS, slots)), 0, hi)
        truth = values.mean(axis=0)
        for (method, mechanism), given in GIVEN.items():
            divided = method == "lpu"
            reports = USERS // WINDOW if divided else USERS
            cost = EPSILON if divided else EPSILON / WINDOW
            one = MECHANISMS[mechanism](epsilon=cost, domain=(0.0, hi))
            estimates = [
                one.estimate(one.perturb(column[:reports], seeded(seed + at)))
                for at, column in enumerate(values.T)
            ]
            noise = Z * float(np.mean([each.standard_error for each in estimates]))
            if divided:
                trace = PROTOCOLS[method](
                    epsilon=EPSILON,
                    window=WINDOW,
                    domain=(0.0, hi),
                    oracle=MECHANISMS[mechanism],
                ).run(values, seeded(seed), with_spent=False)
                away, error = trace.values[:, 0] - truth, trace.standard_error[:, 0]
            else:
                away = np.array([each.value for each in estimates]) - truth
                error = np.array([each.standard_error for each in estimates])
            measured = Z * float((away**2).mean()) ** 0.5
            found.append(
                {"method": method, "mechanism": mechanism, "domain": hi, "reports": reports}
                | {"given": given, "noise": noise, "away": noise / given - 1}
                | {"stated": Z * float(error.mean()), "measured": measured}
                | {"measured_error": measured / (2 * slots) ** 0.5}
            )
    return found


def claims(found: Rows) -> list[Claim]:
    """On each domain by itself, and whether what is released is calibrated."""
    direct = by(where(found, method="sw_direct"), "domain")
    divided = where(found, method="lpu")
    return [
        *(
            claim(
                f"on [0, {domain:g}] the noise is within {TOLERANCE:.0%} of the figures given",
                (abs(row["away"]) < TOLERANCE for row in where(found, domain=domain)),
            )
            for domain in values_of(found, "domain")
        ),
        claim(
            "piecewise and square_wave state less than half of what sw_direct states",
            (
                row["stated"] < direct[row["domain"]]["stated"] / 2
                for row in divided
                if row["mechanism"] in ("piecewise", "square_wave")
            ),
        ),
        claim(
            "what is released errs as it states, within four standard errors and 3 %",
            (
                abs(row["measured"] - row["stated"])
                < 4 * row["measured_error"] + 0.03 * row["stated"]
                for row in found
            ),
        ),
    ]


EXPERIMENTS = (
    Experiment(
        "ldp-ids-meters",
        "LDP-IDS",
        "",
        "half-widths of 95 % intervals of the mean of 3,000 meters, epsilon 2, window 4",
        rows,
        {"slots": 100},
        claims,
        data="3,000 made-up meters with fresh values in each of 400 slots; at quick depth of 100",
    ),
)
