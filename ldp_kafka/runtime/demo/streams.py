"""Made-up users with a daily pattern: data to look at, made by an ordinary seeded generator.
Nothing here protects anybody.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.topology import Topology

__all__ = ["DEFAULTS", "SHAPES", "Default", "Given", "crowd", "made_up"]

SHAPES = {"smart-meters-mean": "numeric", "app-usage": "categorical"}
"""The shipped topologies that a demo makes sense of, and the kind of their values."""


@dataclass(frozen=True)
class Default:
    """How a demo is run and named, unless it is told otherwise."""

    users: int
    slots: int
    title: str
    unit: str


@dataclass(frozen=True, repr=False)
class Given:
    """Streams (users, slots) in place of made-up ones, and what to call them."""

    values: NDArray[Any]
    title: str
    unit: str


DEFAULTS = {
    "smart-meters-mean": Default(
        3000, 48, "Consumption of one meter, mean of all", "watt-hours in one hour"
    ),
    "app-usage": Default(6000, 48, "Which app is open", "share of all devices"),
}


def made_up(topology: Topology, users: int, slots: int, seed: int = 1) -> NDArray[Any]:
    """Streams (users, slots): numbers inside the domain, or category numbers."""
    generator = np.random.default_rng(seed)
    hours = np.arange(slots) * topology.input.slot_ms / 3_600_000
    if topology.privacy.domain is not None:
        return _numbers(topology.privacy.domain, hours, users, generator)
    return _categories(int(topology.privacy.categories or 2), hours, users, generator)


def crowd(topology: Topology, values: NDArray[Any]) -> NDArray[np.float64]:
    """The true statistic of each slot: means (slots,), or frequencies (slots, categories)."""
    if topology.privacy.domain is not None:
        means: NDArray[np.float64] = np.clip(values, *topology.privacy.domain).mean(axis=0)
        return means
    count = int(topology.privacy.categories or 2)
    return np.stack([np.bincount(column, minlength=count) for column in values.T]) / len(values)


def _numbers(
    domain: tuple[float, float],
    hours: NDArray[np.float64],
    users: int,
    generator: np.random.Generator,
) -> NDArray[np.float64]:
    """A peak in the morning, a higher one in the evening; every user has a size of its own, gets up
    a little earlier or later, and is never quite the same.
    """
    lo, hi = domain
    shift, size = generator.normal(0, 0.7, (users, 1)), generator.gamma(8, 1 / 8, (users, 1))
    time = (hours + shift) % 24
    shape = (
        0.12
        + 0.38 * _peak(time, 7.5, 1.5)
        + 0.55 * _peak(time, 19.0, 2.5)
        + 0.15 * _peak(time, 13.0, 2.0)
    )
    noisy = shape * size * generator.gamma(16, 1 / 16, (users, len(hours)))
    return np.asarray(np.clip(lo + (hi - lo) * noisy, lo, hi), np.float64)


def _categories(
    count: int, hours: NDArray[np.float64], users: int, generator: np.random.Generator
) -> NDArray[np.int64]:
    """The first category is the usual one; the others have an hour of the day each."""
    weights = np.full((len(hours), count), 0.03)
    weights[:, 0] = 0.6
    for category in range(1, count):
        weights[:, category] += 0.9 * _peak(
            hours % 24, 24 * (category - 0.5) / (count - 1) / 2, 1.5
        )
    steps = np.cumsum(weights / weights.sum(axis=1, keepdims=True), axis=1)
    drawn = generator.random((users, len(hours), 1))
    return np.asarray(np.minimum((drawn > steps).sum(axis=2), count - 1), np.int64)


def _peak(time: Any, at: float, width: float) -> Any:
    """A bump on the clock's circle."""
    away = (time - at + 12) % 24 - 12
    return np.exp(-0.5 * (away / width) ** 2)
