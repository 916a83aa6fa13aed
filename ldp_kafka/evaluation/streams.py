"""Synthetic streams of LDP-IDS (Ren et al., SIGMOD 2022, section 7.1.1), and users cut from one
long series.

They are data, not noise that protects anybody: an ordinary seeded generator makes them, so that an
experiment can be repeated.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldp_kafka.errors import ConfigurationError

__all__ = ["binary", "lns", "log", "sin", "slice_series"]

SLOTS, USERS = 800, 200_000  # of the paper


def lns(
    slots: int = SLOTS, p0: float = 0.05, sqrt_q: float = 0.0025, *, seed: int
) -> NDArray[np.float64]:
    """The linear process LNS: p_t = p_{t-1} + N(0, Q), t = 1..slots.

    Parameters
    ----------
    slots
        length T of the sequence
    p0
        the probability before its first slot, in [0, 1]
    sqrt_q
        standard deviation of one increment
    seed
        of the generator

    Returns
    -------
    (slots,) probabilities. A step that would leave [0, 1] stops at its border (the paper does not
    say what it did; with the defaults the walk gets there).

    Examples
    --------
    >>> lns(3, sqrt_q=0.0, seed=1).tolist()
    [0.05, 0.05, 0.05]

    """
    steps = np.random.default_rng(seed).normal(0.0, sqrt_q, _positive(slots, "slots"))
    out = np.empty(len(steps))
    p = p0
    for t, step in enumerate(steps.tolist()):
        p = min(max(p + step, 0.0), 1.0)
        out[t] = p
    return out


def sin(
    slots: int = SLOTS, a: float = 0.05, b: float = 0.01, h: float = 0.075
) -> NDArray[np.float64]:
    """The sine curve Sin: p_t = A sin bt + h, t = 1..slots, kept in [0, 1].

    Examples
    --------
    >>> sin(2).round(6).tolist()
    [0.0755, 0.076]

    """
    return np.clip(a * np.sin(b * _times(slots)) + h, 0.0, 1.0)


def log(slots: int = SLOTS, a: float = 0.25, b: float = 0.01) -> NDArray[np.float64]:
    """The logistic curve Log: p_t = A / (1 + exp(-b t)), t = 1..slots, kept in [0, 1].

    Examples
    --------
    >>> log(2).round(6).tolist()
    [0.125625, 0.12625]

    """
    return np.clip(a / (1 + np.exp(-b * _times(slots))), 0.0, 1.0)


def binary(
    probabilities: ArrayLike, users: int = USERS, *, seed: int
) -> Iterator[NDArray[np.uint8]]:
    """One array (users,) of 0 and 1 a slot: in each, a share p_t of the users (rounded to whole
    users), chosen anew, has the value 1.

    Examples
    --------
    >>> [int(slot.sum()) for slot in binary([0.0, 0.25, 1.0], users=8, seed=1)]
    [0, 2, 8]

    """
    shares = np.asarray(probabilities, np.float64)
    _positive(users, "users")
    if not ((shares >= 0) & (shares <= 1)).all():
        raise ConfigurationError("probabilities must lie in [0, 1]")
    return _chosen(shares, users, np.random.default_rng(seed))


def _chosen(
    shares: NDArray[np.float64], users: int, generator: np.random.Generator
) -> Iterator[NDArray[np.uint8]]:
    for share in shares.tolist():
        values = np.zeros(users, np.uint8)
        values[generator.choice(users, round(share * users), replace=False, shuffle=False)] = 1
        yield values


def slice_series(values: ArrayLike, users: int, slots: int | None = None) -> NDArray[np.float64]:
    """One long series as the streams of users: user i has its i-th consecutive piece.

    Parameters
    ----------
    values
        (n,)
    users
        how many
    slots
        length of a piece; default: the longest that gives everybody one

    Returns
    -------
    (users, slots); what is left over at the end is left out

    Raises
    ------
    ConfigurationError : the series is too short

    Examples
    --------
    >>> slice_series([1, 2, 3, 4, 5], users=2).tolist()
    [[1.0, 2.0], [3.0, 4.0]]

    """
    series = np.asarray(values, np.float64).ravel()
    length = (
        len(series) // _positive(users, "users") if slots is None else _positive(slots, "slots")
    )
    if not 0 < users * length <= len(series):
        raise ConfigurationError(
            f"a series of {len(series):,} values is too short for {users:,} users of"
            f" {max(length, 1):,} slots"
        )
    return series[: users * length].reshape(users, length)


def _times(slots: int) -> NDArray[np.float64]:
    return np.arange(1, _positive(slots, "slots") + 1, dtype=np.float64)


def _positive(value: int, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not value >= 1:
        raise ConfigurationError(f"{name} must be a positive whole number")
    return value
