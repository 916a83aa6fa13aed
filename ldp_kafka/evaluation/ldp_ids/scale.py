"""The shape of Taobao, the largest stream of LDP-IDS, user by user: 1,000,000 users with 117
categories and 432 slots. Minutes and memory are those of the machine it runs on.

The clicks are not among our data sets: popularity is Zipf's, and each category's drifts.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.evaluation.claims import Claim, claim
from ldp_kafka.evaluation.experiment import Experiment, Row, Rows
from ldp_kafka.evaluation.ldp_ids.comparison import NAMES, reports_per_user, squared_error
from ldp_kafka.evaluation.ldp_ids.crowds import streams_of
from ldp_kafka.mechanisms import MECHANISMS
from ldp_kafka.methods.protocols import PROTOCOLS
from ldp_kafka.randomness import seeded

__all__ = ["CATEGORIES", "EXPERIMENTS", "SLOTS", "USERS", "claims", "clicks", "rows"]

USERS, CATEGORIES, SLOTS = 1_000_000, 117, 432  # section 7.1.2, users rounded
EPSILON, WINDOW = 1.0, 20
DRIFT = 0.02  # standard deviation of a slot's step of the logarithm of a popularity
CALIBRATED = 1.1


def clicks(
    users: int = USERS, slots: int = SLOTS, categories: int = CATEGORIES, *, seed: int = 0
) -> NDArray[np.int64]:
    """(T, categories): how many users have clicked last on each.

    Examples
    --------
    >>> clicks(1000, 2, 5).sum(axis=1).tolist()
    [1000, 1000]
    """
    generator = np.random.default_rng(seed)
    popular = -np.log(np.arange(1, categories + 1))
    walk = generator.normal(0, DRIFT, (slots, categories)).cumsum(axis=0)
    weights = np.exp(popular + walk)
    return np.asarray(generator.multinomial(users, weights / weights.sum(axis=1, keepdims=True)))


def rows(
    methods: Sequence[str] = NAMES,
    *,
    users: int = USERS,
    slots: int = SLOTS,
    categories: int = CATEGORIES,
    seed: int = 0,
) -> list[Row]:
    """One run of each, over the same streams, without `Trace.spent`: minutes of ``run`` and of the
    processor, the streams being there, and the most memory that the process has had until then.
    """
    counts = clicks(users, slots, categories, seed=seed)
    truth, streams, found = counts / users, streams_of(counts, users, seed=seed), []
    for method in methods:
        protocol = PROTOCOLS[method](
            epsilon=EPSILON, window=WINDOW, categories=categories, oracle=MECHANISMS["adaptive"]
        )
        start, cpu = time.perf_counter(), time.process_time()
        trace = protocol.run(streams, seeded(seed), with_spent=False)
        minutes, cpu = (time.perf_counter() - start) / 60, (time.process_time() - cpu) / 60
        found.append(
            {
                "method": method,
                "oracle": type(protocol.terms.oracle.at(protocol.terms.first)).__name__,
            }
            | {"users": users, "categories": categories, "slots": slots}
            | {"epsilon": EPSILON, "window": WINDOW, "minutes": minutes, "cpu_minutes": cpu}
            | {"megabytes": _peak(), "streams_megabytes": streams.nbytes / 2**20}
            | {
                "cfpu": reports_per_user(trace, users),
                "mse": squared_error(trace.values, truth),
                "stated": float(np.nanmean(trace.standard_error**2)),
            }
        )
    return found


def claims(found: Rows) -> list[Claim]:
    """What can be told of a run by itself."""
    return [
        claim(
            f"what lbu and lpu state is within a factor of {CALIBRATED} of their error",
            (
                1 / CALIBRATED**2 < row["stated"] / row["mse"] < CALIBRATED**2
                for row in found
                if row["method"] in ("lbu", "lpu")
            ),
        )
    ]


def _peak() -> float:
    """Peak resident memory of this process in MiB: Linux counts kilobytes, macOS bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


EXPERIMENTS = (
    Experiment(
        "ldp-ids-scale",
        "LDP-IDS",
        "",
        "minutes and memory of 1,000,000 users, 117 categories, 432 slots, user by user",
        rows,
        {"methods": ("lpu", "lpa"), "users": 20_000, "slots": 40},
        claims,
        data="made-up clicks of the shape of the paper's Taobao, which is not among our data sets",
    ),
)
