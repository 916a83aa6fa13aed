"""Events of a crowd's statistic: whether it is above a threshold, and how likely that is wrong."""

from __future__ import annotations

from math import erfc, inf, sqrt
from typing import Any, NamedTuple

import numpy as np

from ldp_kafka.mechanisms.base import Estimate

__all__ = ["ABOVE", "Above", "above"]

ABOVE = "above"
"""The name of what is released of it."""


class Above(NamedTuple):
    """Whether a statistic is above a threshold: of each number of it."""

    value: Any
    """1 or 0, or a list of them; None where there is no estimate."""
    error: Any
    """The probability that the truth is on the other side, or a list of them."""


def above(found: Estimate, threshold: float) -> Above:
    """The event of an estimate and its standard error.

    Notes
    -----
    The estimate is off by a normal error, as a sum of many reports is. Then the truth is on the
    other side with the probability of a normal number beyond |estimate - threshold| / standard
    error, where all truths near the threshold were equally likely before. It is at most a half.

    Examples
    --------
    >>> found = above(Estimate(0.42, 0.06, 100), 0.3)
    >>> found.value, round(found.error, 4)
    (1, 0.0228)
    >>> above(Estimate(np.array([0.1, 0.5]), np.array([0.0, 0.1]), 100), 0.5)
    Above(value=[0, 0], error=[0.0, 0.5])
    """
    if found.value is None:
        return Above(None, None)
    if found.standard_error is None:
        return Above((np.asarray(found.value) > threshold).astype(int).tolist(), None)
    if np.ndim(found.value):
        pairs = zip(found.value.tolist(), found.standard_error.tolist(), strict=True)
        both = [_above(value, error, threshold) for value, error in pairs]
        return Above([one.value for one in both], [one.error for one in both])
    return _above(float(found.value), float(found.standard_error), threshold)


def _above(value: float, error: float, threshold: float) -> Above:
    if not (-inf < value < inf and error >= 0):  # a coordinate that nobody has reported
        return Above(None, None)
    away = abs(value - threshold)
    if not error > 0:
        return Above(int(value > threshold), 0.0 if away > 0 else 0.5)
    return Above(int(value > threshold), erfc(away / error / sqrt(2)) / 2)
