"""What the last bits of float64 reports reveal about the input (Mironov, CCS 2012).

A sum x + z of two floats is a whole multiple of the smaller of their last places. Which multiples
occur depends on x: a report with finer bits than input x' could ever leave tells x from x'.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["FINEST", "GRAINS", "PLACES", "grain", "last_byte", "place", "reachable_by_addition"]

GRAINS = 256  # classes of `grain`
PLACES = 128  # classes of `place`
FINEST = -160  # exponents below and above the classes count as the first and the last
_SMALLEST = -96
_NEIGHBOURS = 2  # floats on either side of y - x that are tried as noise


def grain(reports: ArrayLike) -> NDArray[np.int64]:
    """The largest power of two that each report is a whole multiple of: its exponent + 160, within
    0..255; 0, NaN and infinities count as 255.

    Examples
    --------
    >>> (grain([1.0, 0.75, 0.1, 6.0]) - 160).tolist()
    [0, -2, -55, 1]
    """
    found = np.asarray(reports, np.float64)
    good = np.isfinite(found) & (found != 0)
    mantissa, exponent = np.frexp(np.where(good, found, 1.0))
    whole = (mantissa * 2.0**53).astype(np.int64)
    _, zeros = np.frexp((whole & -whole).astype(np.float64))
    return np.where(
        good, np.clip(exponent - 53 + zeros - 1 - FINEST, 0, GRAINS - 1), GRAINS - 1
    ).astype(np.int64)


def place(reports: ArrayLike) -> NDArray[np.int64]:
    """The exponent of each report + 96, within 0..127."""
    _, exponent = np.frexp(np.nan_to_num(np.asarray(reports, np.float64)))
    return np.clip(exponent.astype(np.int64) - _SMALLEST, 0, PLACES - 1)


def last_byte(reports: ArrayLike) -> NDArray[np.int64]:
    """The last eight bits of each report."""
    return (np.asarray(reports, np.float64).view(np.int64) & 255).astype(np.int64)


def reachable_by_addition(reports: ArrayLike, value: float) -> NDArray[np.bool_]:
    """Whether some float64 z gives value + z = report, rounded to the nearest: what no additive
    noise reaches, however it is drawn, cannot come from ``value``.

    Such a z lies within half a last place of the report from report - value. Where floats are
    closer together there, the rounded difference or a neighbour of it will do; where they are
    farther apart, no other float than these can. So three floats decide; the function tries a few
    more.

    Examples
    --------
    >>> # 0.1 has finer bits than any 1 + z so close to 0
    >>> reachable_by_addition([0.1, 1.5], 1.0).tolist()
    [False, True]
    """
    found = np.asarray(reports, np.float64)
    low = high = found - value
    hit = value + low == found
    for _ in range(_NEIGHBOURS):
        low, high = np.nextafter(low, -np.inf), np.nextafter(high, np.inf)
        hit |= (value + low == found) | (value + high == found)
    return np.asarray(hit)
