"""The streams of LDP-IDS, section 7.1, as counts: how many users have each category in each slot.

LNS, Sin and Log are the paper's. LNS is a random walk, and the paper shows one; here are three,
each a stream of its own, so that the settings of a claim tell whether it is one of walks or of one
walk. Of the paper's three data sets only the sample of T-Drive is among ours, and as taxis in 64
regions, an 8 x 8 grid: the paper has five unnamed ones, so we take the grid as it is, and its
quarters. Foursquare and Taobao are not there to see.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.evaluation import data
from ldp_kafka.evaluation.streams import SLOTS, USERS, lns, log, sin

__all__ = [
    "FAST",
    "MADE_AND_TAXI",
    "REGIONS",
    "STREAMS",
    "SYNTHETIC",
    "TAXI",
    "TAXIS",
    "WALKS",
    "Stream",
    "binary_counts",
    "stream",
    "streams_of",
]

REGIONS = "tdrive_region_counts.csv"
TAXIS, TAXI_SLOTS = 10_357, 886  # users and slots of "Taxi" in the paper, section 7.1.2
SIDE = 8  # of the grid of regions
WALKS = ("lns 1", "lns 2", "lns 3")
"""LNS, and the seed of its walk."""
SYNTHETIC = (*WALKS, "sin", "log")
TAXI = ("taxi_quarters", "taxi_regions")
STREAMS = (*SYNTHETIC, *TAXI)
MADE_AND_TAXI = (
    "LNS (three walks), Sin and Log as the paper makes them, 200,000 users and 800 slots; in place"
    " of its Taxi a sample of T-Drive, 10,357 users and 886 slots, as 64 regions and as their 4"
    " quarters; the paper's Foursquare and Taobao are not among our data sets"
)
"""What `STREAMS` are."""
FAST, SPEED = "sin_fast", 0.04
"""Sin at four times its speed, b: a period of 157 slots."""


class Stream(NamedTuple):
    """What users have."""

    name: str
    users: int
    counts: NDArray[np.int64]
    """(T, categories)"""

    @property
    def truth(self) -> NDArray[np.float64]:
        """(T, categories), frequencies among those who have a value."""
        return np.asarray(self.counts / self.counts.sum(axis=1, keepdims=True))


def binary_counts(probabilities: NDArray[np.float64], users: int) -> NDArray[np.int64]:
    """(T, 2): of whom a share p_t, in whole users, has the value 1, as in
    `ldp_kafka.evaluation.streams.binary`.

    Examples
    --------
    >>> binary_counts(np.array([0.0, 0.25]), 8).tolist()
    [[8, 0], [6, 2]]
    """
    ones = np.array([round(p * users) for p in probabilities.tolist()], np.int64)
    return np.stack([users - ones, ones], axis=1)


def stream(
    name: str,
    *,
    users: int = USERS,
    slots: int = SLOTS,
    sqrt_q: float = 0.0025,
    b: float = 0.01,
) -> Stream:
    """One of `STREAMS`, or `FAST`; those of taxis have users and slots of their own.

    Parameters
    ----------
    users, slots : of LNS, Sin and Log
    sqrt_q, b : how fast LNS and Sin move

    Raises
    ------
    FileNotFoundError : the data are not there
    ConfigurationError : there is no stream of this name

    Examples
    --------
    >>> stream("log", users=100, slots=2).counts.tolist()
    [[87, 13], [87, 13]]
    """
    if name in TAXI:
        return Stream(name, TAXIS, _taxis(quarters=name == "taxi_quarters"))
    if name in WALKS:
        shares = lns(slots, sqrt_q=sqrt_q, seed=int(name.split()[1]))
    elif name in ("sin", FAST):
        shares = sin(slots, b=SPEED if name == FAST else b)
    elif name == "log":
        shares = log(slots)
    else:
        raise ConfigurationError(f"unknown stream {name!r}; known: {', '.join((*STREAMS, FAST))}")
    return Stream(name, users, binary_counts(shares, users))


def streams_of(counts: NDArray[np.integer], users: int, *, seed: int) -> NDArray[np.int8]:
    """(users, T), -1 for none: the categories of a slot dealt out to users anew, as the paper does.

    Examples
    --------
    >>> np.sort(streams_of(np.array([[1, 2]]), 4, seed=1), axis=0).ravel().tolist()
    [-1, 0, 1, 1]
    """
    generator, (slots, d) = np.random.default_rng(seed), counts.shape
    out = np.empty((users, slots), np.int8, order="F")  # slot by slot, as it is read
    for slot, there in enumerate(counts):
        column = np.repeat(
            np.append(np.arange(d, dtype=np.int8), np.int8(-1)),
            np.append(there, users - there.sum()),
        )
        out[:, slot] = generator.permutation(column)
    return out


def _taxis(*, quarters: bool) -> NDArray[np.int64]:
    names = [f"c{region}" for region in range(SIDE * SIDE)]
    table = np.array(data.columns(REGIONS, *names), np.int64).T[:TAXI_SLOTS]
    if not quarters:
        return table
    half = SIDE // 2
    return np.asarray(table.reshape(-1, 2, half, 2, half).sum(axis=(2, 4)).reshape(-1, 4))
