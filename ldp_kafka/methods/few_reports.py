"""How far a population's shares may be, where so few of it reported that they cannot tell."""

from __future__ import annotations

import numpy as np

from ldp_kafka.mechanisms.base import Estimate

__all__ = ["FEW", "widened"]

FEW = 30
"""Reports below which their own variance is not trusted: that of one is 0."""


def widened(found: Estimate, given: Estimate, half: float) -> Estimate:
    """An estimate of a population, with an error that fewer than `FEW` reports cannot make too
    small: the greater one of what they vary by and of the noise, and beside it the largest spread
    that values can have. From `FEW` reports on it is the estimate as it was found.

    Parameters
    ----------
    found : of a population, as the mechanism gives it: by what the reports vary
    given : of the same reports, given the values: the noise
    half : half the length of the domain, of frequencies 1/2: values in it have no larger standard
        deviation

    Examples
    --------
    >>> one = Estimate(-81.5, 0.0, 1)
    >>> round(widened(one, Estimate(-81.5, 80.0, 1), 100.0).standard_error)
    128
    """
    if not 0 < found.reports < FEW:
        return found
    least = np.maximum(found.standard_error, given.standard_error)
    error = np.hypot(least, half / found.reports**0.5)
    return Estimate(found.value, error if np.ndim(error) else float(error), found.reports)
