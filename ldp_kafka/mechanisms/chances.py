"""How likely a truth is above a threshold, given an estimate of it."""

from __future__ import annotations

from math import inf

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.mechanisms.base import Estimate, Z
from ldp_kafka.mechanisms.elementary import normal_tail
from ldp_kafka.mechanisms.supporters import between

__all__ = ["chance_above"]

TINY = 2.0**-1000  # of an error


def chance_above(
    found: Estimate, threshold: float, bounds: tuple[float, float]
) -> NDArray[np.float64]:
    """(d,) the probability that the truth is above, where all truths within the bounds were equally
    likely before: by the estimate's own law (`Estimate.chance_above`), or else by a normal one.
    """
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
