"""Events of a crowd's statistic: whether it is above a threshold, and how likely that is wrong."""

from __future__ import annotations

from math import inf
from typing import Any, NamedTuple

import numpy as np

from ldp_kafka.mechanisms.base import Estimate
from ldp_kafka.mechanisms.chances import chance_above

__all__ = ["ABOVE", "Above", "above"]

ABOVE = "above"
"""The name of what is released of it."""
LEAST = 2.0**-50  # probability of an error that is stated: nothing is sure


class Above(NamedTuple):
    """Whether a statistic is above a threshold: of each number of it."""

    value: Any
    """1 or 0, or a list of them; None where there is no estimate."""
    error: Any
    """The probability that the truth is on the other side, or a list of them."""


def above(found: Estimate, threshold: float, bounds: tuple[float, float] = (-inf, inf)) -> Above:
    """The event of an estimate and its error.

    Parameters
    ----------
    threshold : between the bounds
    bounds : the least and the greatest that the truth can be

    Notes
    -----
    The probability that the truth is on the other side, where all truths within the bounds were
    equally likely before: by the estimate's own law (`Estimate.chance_above`), or else by a normal
    one of its standard error, or of its limit on the side of the threshold where that lies farther
    away. It may be above a half where the estimate is none that the truth can be, or where a
    slot's reports speak against what is held.

    Examples
    --------
    >>> found = above(Estimate(0.42, 0.06, 100), 0.3)
    >>> found.value, round(found.error, 4)
    (1, 0.0228)
    >>> found = above(Estimate(np.array([-0.3, 0.5]), np.array([0.2, 0.1]), 100), 0.5, (0.0, 1.0))
    >>> found.value, np.round(found.error, 4).tolist()
    ([0, 0], [0.0005, 0.5])
    """
    if found.value is None:
        return Above(None, None)
    values = np.atleast_1d(np.asarray(found.value, np.float64))
    sides: list[Any] = (values > threshold).astype(int).tolist()
    errors: list[Any] = [None] * len(sides)
    if found.standard_error is not None:
        known = np.isfinite(values) & (np.atleast_1d(found.standard_error) >= 0)
        chance = chance_above(found, threshold, bounds)
        wrong = np.maximum(np.where(values > threshold, 1 - chance, chance), LEAST)
        sides = [side if there else None for side, there in zip(sides, known, strict=True)]
        errors = [float(each) if there else None for each, there in zip(wrong, known, strict=True)]
    return Above(sides, errors) if np.ndim(found.value) else Above(sides[0], errors[0])
