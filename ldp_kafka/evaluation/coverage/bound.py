"""Confidence bounds for the mean of independent numbers in [0, 1], of any law: shares of the slots
of a run that an interval covers. Slots of one run depend on each other, so runs are counted.
"""

from __future__ import annotations

from math import log

import numpy as np
from numpy.typing import NDArray

__all__ = ["lower", "upper"]

_STAKES = np.array([0.1, 0.25, 0.5, 0.75, 1.0])
_STEPS = 40  # of a bisection: 1e-12


def lower(shares: NDArray[np.float64], alpha: float) -> float:
    """A number that the true mean is below with probability at most ``alpha``.

    Parameters
    ----------
    shares : (n,) independent, each in [0, 1]
    alpha : in (0, 1)

    Raises
    ------
    ValueError : alpha or a share is none of these

    Notes
    -----
    Waudby-Smith and Ramdas, Estimating means of bounded random variables by betting (JRSS B 86,
    2024), with bets that are fixed beforehand. A gambler stakes a fraction f of what she has on
    each share y being above m: it becomes (1 + f (y / m - 1)) times as much, which is never
    negative, and on average no more where the mean is m or less. So what she has in the end is
    above 1 / alpha with probability at most alpha (Markov), and so is its mean over several f. The
    bound is the largest m that she has so much against. It holds at all numbers of runs together
    (Ville): one may stop where it is high enough. Clopper and Pearson's is for numbers that
    are 0 or 1; this one gains where shares of many slots differ less than these.

    Examples
    --------
    >>> round(lower(np.full(500, 0.95), 1e-5), 3)
    0.925
    >>> round(lower(np.repeat([0.0, 1.0], [25, 475]), 0.05), 3)
    0.916
    """
    shares = np.asarray(shares, np.float64)
    if not 0 < alpha < 1:
        raise ValueError("alpha must lie between 0 and 1")
    if not ((shares >= 0) & (shares <= 1)).all():
        raise ValueError("shares must lie between 0 and 1")
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if _won(shares, middle) >= log(1 / alpha):
            low = middle
        else:
            high = middle
    return low


def upper(shares: NDArray[np.float64], alpha: float) -> float:
    """The same from above."""
    return 1 - lower(1 - np.asarray(shares, np.float64), alpha)


def _won(shares: NDArray[np.float64], mean: float) -> float:
    """The logarithm of what one staked on a mean above this one has become."""
    with np.errstate(divide="ignore"):  # all that was staked on a share of 0 is lost
        each = np.log1p(_STAKES[:, None] * (shares / mean - 1)).sum(axis=1)
    return float(np.logaddexp.reduce(each) - log(len(_STAKES)))
