"""The seven protocols side by side on one stream: errors, and how often users report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.evaluation.experiment import Row
from ldp_kafka.evaluation.ldp_ids.crowds import Stream
from ldp_kafka.evaluation.ldp_ids.simulation import simulate
from ldp_kafka.evaluation.metrics import relative_error
from ldp_kafka.mechanisms import MECHANISMS
from ldp_kafka.methods.protocols import PROTOCOLS, Protocol, Trace

__all__ = [
    "BUDGET",
    "NAMES",
    "POPULATION",
    "made",
    "oracle_of",
    "reports_per_user",
    "runs",
    "squared_error",
]

BUDGET, POPULATION = ("lbu", "lbd", "lba"), ("lsp", "lpu", "lpd", "lpa")
NAMES = BUDGET + POPULATION  # in the order of Table 2
FEW = 16  # categories up to which the oracle is that of Table 2


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


def squared_error(released: NDArray[np.float64], truth: NDArray[np.float64]) -> float:
    """MSE over slots and categories."""
    return float(((released - truth) ** 2).mean())


def reports_per_user(trace: Trace, users: int) -> float:
    """Reports of a user in a slot (CFPU), users without a value included."""
    return float(trace.reports.sum() / (users * len(trace.reports)))


def runs(protocol: Protocol, streams: Iterable[Stream], *, seed: Sequence[int]) -> list[Row]:
    """``mre`` and ``mse`` of releases as they are, and ``cfpu``, of a run over each stream, each
    with noise of its own.
    """
    found = []
    for at, each in enumerate(streams):
        trace = simulate(
            protocol, each.counts, np.random.default_rng([*seed, at]), users=each.users
        )
        found.append(
            {
                "mre": relative_error(trace.values, each.truth),
                "mse": squared_error(trace.values, each.truth),
                "cfpu": reports_per_user(trace, each.users),
            }
        )
    return found
