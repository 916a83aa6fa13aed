"""Elementary functions by + * / alone, so that every CPU finds the same bits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["natural_exp", "natural_log", "normal_tail"]


def natural_exp(powers: NDArray[np.float64]) -> NDArray[np.float64]:
    """e^x by + * / alone, so that every CPU finds the same bits; powers are held within -32 and 32.

    Examples
    --------
    >>> x = np.array([-1.0, 0.0, 3.0])
    >>> bool(np.abs(natural_exp(x) / np.exp(x) - 1).max() < 1e-13)
    True
    """
    x = np.clip(powers, -32.0, 32.0) / 64
    series = np.ones_like(x)
    for k in range(16, 0, -1):
        series = 1 + series * x / k
    for _ in range(6):
        series = series * series
    return series


def natural_log(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The natural logarithm of positive numbers by + - * / alone, so that every CPU finds the same
    bits: log(m 2^e) = e log 2 + 2 artanh((m - 1) / (m + 1)).

    Examples
    --------
    >>> x = np.array([0.1, 1.0, 12345.6])
    >>> bool(np.abs(natural_log(x) - np.log(x)).max() < 1e-14)
    True
    """
    mantissa, exponent = np.frexp(values)
    small = mantissa < 0.7071067811865476
    mantissa = np.where(small, 2 * mantissa, mantissa)
    exponent = exponent - small
    t = (mantissa - 1) / (mantissa + 1)
    square = t * t
    series = np.zeros_like(t)
    for k in range(25, 0, -2):
        series = series * square + 1 / k
    found: NDArray[np.float64] = exponent * 0.6931471805599453 + 2 * t * series
    return found


def normal_tail(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The probability that a standard normal number is above these, by + - * / alone; at least that
    of 8 above 8.

    Near 0 by the series of Marsaglia (Journal of Statistical Software 11, 2004), beyond 2.5 by
    Laplace's continued fraction.

    Examples
    --------
    >>> normal_tail(np.array([-1.959963984540054, 0.0, 1.959963984540054])).round(12).tolist()
    [0.975, 0.5, 0.025]
    """
    x = np.minimum(np.abs(values), 8.0)
    density = 0.3989422804014327 * natural_exp(-x * x / 2)
    near = np.minimum(x, 2.5)
    series = np.ones_like(near)
    for k in range(61, 1, -2):
        series = 1 + series * near * near / k
    far = np.maximum(x, 2.5)
    below = far
    for k in range(60, 0, -1):
        below = far + k / below
    tail = np.where(x < 2.5, 0.5 - density * near * series, density / below)
    return np.where(values < 0, 1 - tail, tail)
