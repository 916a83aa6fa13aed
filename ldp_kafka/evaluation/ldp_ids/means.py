"""Means of numbers: users divided over the window (each reports once, with the whole budget) beside
budget division, where every user reports in every slot. Not in the paper, which has categories.

Errors are of the mean of all users in a slot, in lengths of the domain: the root of the mean square
over slots and runs, and what the releases state themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.evaluation import data
from ldp_kafka.evaluation.claims import Claim, below, claim
from ldp_kafka.evaluation.experiment import (
    Experiment,
    Row,
    Rows,
    by,
    drawn,
    mean_of,
    values_of,
    where,
)
from ldp_kafka.mechanisms import MECHANISMS
from ldp_kafka.methods import of_reports
from ldp_kafka.methods.batch import Batch
from ldp_kafka.methods.protocols import PROTOCOLS
from ldp_kafka.methods.step import SENT
from ldp_kafka.randomness import seeded

__all__ = ["COMPARED", "EXPERIMENTS", "Numbers", "claims", "numbers", "rows"]

EPSILONS, WINDOWS = (0.5, 1.0, 2.0, 4.0), (4, 20)
SLOTS = 48
COMPARED = (
    ("sw_direct", "square_wave"),
    ("capp", "square_wave"),
    ("lpu", "square_wave"),
    ("lpu", "piecewise"),
    ("lpu", "hybrid"),
    ("lsp", "hybrid"),
    ("lpa", "hybrid"),
)
SIZES = {"meters": (1000, 10_000, 100_000), "volume": (1000,), "weights": (1000, 10_000)}
"""Streams, and how many users they have."""
WEIGHTS, COLUMNS, HEAVIEST = "pwgtp_montana.csv", 80, 1000.0
VALUES_A_SETTING = 2_000_000  # users x slots that the runs of one setting read, more or less
LEAST, MOST = 3, 30  # runs of one setting
CALIBRATED = 0.1  # that a stated error may be away: it is of a crowd without end, as if each slot's
# reporters were drawn anew, while a fourth of 1,000 known users err less


class Numbers(NamedTuple):
    """What users have."""

    name: str
    values: NDArray[np.float64]
    """(users, T), inside the domain"""
    domain: tuple[float, float]


def numbers(name: str, users: int, slots: int = SLOTS) -> Numbers:
    """One of `SIZES`: made-up meters with a daily pattern; whole days of the traffic volume, two a
    user; or the census's 80 weights of a person.

    Raises
    ------
    FileNotFoundError : the data are not there
    ConfigurationError : it has not so many users, or there is no stream of this name
    """
    if name == "meters":
        hi, generator = 7280.0, np.random.default_rng(0)
        daily = 2400 + 1200 * np.sin(2 * np.pi * np.arange(slots) / 24)
        return Numbers(
            name, np.clip(generator.normal(daily, 1200, (users, slots)), 0, hi), (0.0, hi)
        )
    if name == "volume":
        table, hi = data.volume_days(2), data.SERIES["volume"].domain[1]
    elif name == "weights":
        columns = data.columns(WEIGHTS, *(f"PWGTP{i + 1}" for i in range(COLUMNS)))
        table, hi = np.array(columns, np.float64).T, HEAVIEST
    else:
        raise ConfigurationError(f"unknown stream {name!r}; known: {', '.join(SIZES)}")
    if not len(table) >= users:
        raise ConfigurationError(f"{name} has {len(table):,} users, not {users:,}")
    return Numbers(name, np.clip(table[:users, :slots], 0.0, hi), (0.0, hi))


def rows(
    sizes: Iterable[tuple[str, int]] | None = None,
    *,
    epsilons: Sequence[float] = EPSILONS,
    windows: Sequence[int] = WINDOWS,
    compared: Sequence[tuple[str, str]] = COMPARED,
    slots: int = SLOTS,
    repetitions: int | None = None,
    seed: int = 0,
) -> list[Row]:
    """All methods in all settings; default: all `SIZES`, and more runs of fewer users."""
    chosen = [(n, s) for n, each in SIZES.items() for s in each] if sizes is None else list(sizes)
    crowds = [numbers(name, users, slots) for name, users in chosen]
    found = []
    for crowd in crowds:
        many = repetitions or min(max(LEAST, VALUES_A_SETTING // crowd.values.size), MOST)
        truth, length = crowd.values.mean(axis=0), crowd.domain[1] - crowd.domain[0]
        for epsilon, window, (method, mechanism) in product(epsilons, windows, compared):
            errors, stated = [], []
            for at in range(many):
                value, error = _released(method, mechanism, crowd, epsilon, window, seed + at)
                errors.append(float((((value - truth) / length) ** 2).mean()))
                stated.append(float(np.nanmean((error / length) ** 2)))
            square, spread = mean_of(errors)
            found.append(
                {"stream": crowd.name, "users": len(crowd.values), "epsilon": epsilon}
                | {"window": window, "method": method, "mechanism": mechanism}
                | {"rmse": square**0.5, "rmse_error": spread / (2 * square**0.5)}
                | {"stated": float(np.mean(stated)) ** 0.5, "runs": many}
            )
    return found


def _released(
    method: str, mechanism: str, crowd: Numbers, epsilon: float, window: int, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Means (T,) and their stated standard errors (T,)."""
    source, factory = seeded(seed), MECHANISMS[mechanism]
    if method in PROTOCOLS:
        protocol = PROTOCOLS[method](
            epsilon=epsilon, window=window, domain=crowd.domain, oracle=factory
        )
        trace = protocol.run(crowd.values, source, with_spent=False)
        return trace.values[:, 0], trace.standard_error[:, 0]
    used = of_reports(method)(
        epsilon=epsilon, window=window, domain=crowd.domain, mechanism=factory
    )
    estimates = [
        used.crowd(used.support(answers)) for answers in _reports(used, crowd.values, source)
    ]
    return (
        np.array([each.value for each in estimates]),
        np.array([each.standard_error for each in estimates]),
    )


def _reports(used: Any, values: NDArray[np.float64], source: Any) -> Iterable[NDArray[Any]]:
    """The reports of each slot, as a collector gets them."""
    rows = np.arange(len(values))
    state = used.state(source.digests([str(row) for row in rows]))
    for slot, column in enumerate(np.ascontiguousarray(values.T)):
        step = used.step(state, Batch(rows, slot, used.bound(column), source))
        yield step.answers[step.status == SENT]


def claims(found: Rows) -> list[Claim]:
    """What population division is worth for means."""
    figures = {
        cell: (row["rmse"], row["rmse_error"])
        for cell, row in by(found, *_CELL, "method", "mechanism").items()
    }
    divided = values_of(where(found, method="lpu"), "method", "mechanism")

    def less(a: tuple[str, str], b: tuple[str, str]) -> list[bool]:
        cells = values_of(found, *_CELL)
        return [below(figures[*cell, *a], figures[*cell, *b]) for cell in cells]

    return [
        *(
            claim(
                f"lpu has less error than {other[0]}, with each of its mechanisms",
                (each for lpu in divided for each in less(lpu, other)),
            )
            for other in COMPARED[:2]
        ),
        claim(
            f"lpu errs as it states, within four standard errors and {CALIBRATED:.0%}",
            (
                abs(row["rmse"] - row["stated"])
                < 4 * row["rmse_error"] + CALIBRATED * row["stated"]
                for row in where(found, method="lpu")
            ),
        ),
    ]


_CELL = ("stream", "users", "epsilon", "window")
EXPERIMENTS = (
    Experiment(
        "ldp-ids-means",
        "LDP-IDS",
        "",
        "means of numbers, users divided over the window beside sw_direct and capp",
        rows,
        {
            "sizes": (("meters", 1000),),
            "epsilons": (0.5, 4.0),
            "windows": (4, 20),
            "repetitions": 3,
        },
        claims,
        {
            "": drawn(
                "epsilon",
                "rmse",
                "RMSE of the mean, share of the domain",
                each=("stream", "users", "window"),
                lines=("method", "mechanism"),
                xscale="log",
            )
        },
        "made-up meters (1,000 to 100,000 users), days of Volume (1,000) and weights of the census"
        " of Montana (1,000 and 10,000), 48 slots each",
    ),
)
