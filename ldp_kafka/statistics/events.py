"""Events of a crowd's statistic: whether it is above a threshold, and how likely that is wrong."""

from __future__ import annotations

from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.mechanisms.base import Estimate
from ldp_kafka.mechanisms.elementary import normal_tail
from ldp_kafka.mechanisms.supporters import Z, between

__all__ = ["ABOVE", "Above", "above"]

ABOVE = "above"
"""The name of what is released of it."""
LEAST = 2.0**-50  # probability of an error that is stated: nothing is sure
TINY = 2.0**-1000  # of an error
Floats = NDArray[np.float64]


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
    away. It may be above a half where the estimate is none that the truth can be.

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
        chance = _chance_above(found, threshold, bounds)
        wrong = np.maximum(np.where(values > threshold, 1 - chance, chance), LEAST)
        sides = [side if there else None for side, there in zip(sides, known, strict=True)]
        errors = [float(each) if there else None for each, there in zip(wrong, known, strict=True)]
    return Above(sides, errors) if np.ndim(found.value) else Above(sides[0], errors[0])


def _chance_above(found: Estimate, threshold: float, bounds: tuple[float, float]) -> Floats:
    """(d,) the probability that the truth is above, given the estimate."""
    if found.chance_above is not None:
        return np.atleast_1d(np.asarray(found.chance_above(threshold), np.float64))
    value, error = (
        np.atleast_1d(np.asarray(each, np.float64)) for each in (found.value, found.standard_error)
    )
    if found.limits is not None:
        low, high = (np.atleast_1d(np.asarray(end, np.float64)) for end in found.limits)
        error = np.maximum(error, np.where(value > threshold, value - low, high - value) / Z)
    known = np.isfinite(value) & (error < inf)
    away = np.where(known, value, 0.0)[:, None] - np.array([bounds[0], threshold, bounds[1]])
    with np.errstate(over="ignore"):  # of what is sure, or nearly
        places = away / np.where(known, np.maximum(error, TINY), 1.0)[:, None]
    normal = between(normal_tail(-places), normal_tail(places))
    return np.where(known, normal, _evenly(threshold, bounds))


def _evenly(threshold: float, bounds: tuple[float, float]) -> float:
    """The same where nothing is known."""
    lo, hi = bounds
    return (hi - threshold) / (hi - lo) if -inf < lo < hi < inf else 0.5
