"""The seven protocols side by side on one stream: errors, and how often users report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.evaluation.ldp_ids.crowds import Stream
from ldp_kafka.evaluation.ldp_ids.simulation import simulate
from ldp_kafka.mechanisms import MECHANISMS
from ldp_kafka.methods.protocols import PROTOCOLS, Protocol, Trace

__all__ = [
    "BUDGET",
    "FLOOR",
    "NAMES",
    "POPULATION",
    "Run",
    "made",
    "mean_of",
    "oracle_of",
    "relative_error",
    "reports_per_user",
    "runs",
    "squared_error",
]

BUDGET, POPULATION = ("lbu", "lbd", "lba"), ("lsp", "lpu", "lpd", "lpa")
NAMES = BUDGET + POPULATION  # in the order of Table 2
FLOOR = 0.01
"""A true frequency below it counts as this one in relative errors; the paper names no floor, and
LNS touches 0.
"""
FEW = 16  # categories up to which the oracle is that of Table 2


class Run(NamedTuple):
    """One run of one protocol."""

    relative: float
    """Mean relative error over slots and categories, of releases as they are."""
    squared: float
    """Mean squared error."""
    reports: float
    """Of a user in a slot: CFPU."""


def oracle_of(categories: int) -> str:
    """Of the paper's two oracles `grr`, as in its Table 2, and for many categories `oue`."""
    return "grr" if categories <= FEW else "oue"


def made(name: str, epsilon: float, window: int, categories: int) -> Protocol:
    """A protocol for categories."""
    return PROTOCOLS[name](
        epsilon=epsilon,
        window=window,
        categories=categories,
        oracle=MECHANISMS[oracle_of(categories)],
    )


def relative_error(
    released: NDArray[np.float64], truth: NDArray[np.float64], floor: float = FLOOR
) -> float:
    """MRE: the mean of ``|released - truth| / max(truth, floor)``.

    Examples
    --------
    >>> relative_error(np.array([0.5, 0.02]), np.array([0.25, 0.0]), floor=0.01)
    1.5
    """
    return float((np.abs(released - truth) / np.maximum(truth, floor)).mean())


def squared_error(released: NDArray[np.float64], truth: NDArray[np.float64]) -> float:
    """MSE over slots and categories."""
    return float(((released - truth) ** 2).mean())


def reports_per_user(trace: Trace, users: int) -> float:
    """Reports of a user in a slot (CFPU), users without a value included."""
    return float(trace.reports.sum() / (users * len(trace.reports)))


def runs(protocol: Protocol, streams: Iterable[Stream], *, seed: Sequence[int]) -> list[Run]:
    """A run over each stream, all with noise of their own."""
    found = []
    for at, each in enumerate(streams):
        trace = simulate(
            protocol, each.counts, np.random.default_rng([*seed, at]), users=each.users
        )
        found.append(
            Run(
                relative_error(trace.values, each.truth),
                squared_error(trace.values, each.truth),
                reports_per_user(trace, each.users),
            )
        )
    return found


def mean_of(figures: Sequence[float]) -> tuple[float, float]:
    """A mean and its standard error, infinite for one figure.

    Examples
    --------
    >>> mean_of([1.0, 3.0]), mean_of([1.0])
    ((2.0, 1.0), (1.0, inf))
    """
    table = np.array(figures)
    if not len(table) > 1:
        return float(table.mean()), float("inf")
    return float(table.mean()), float(table.std(ddof=1) / len(table) ** 0.5)
