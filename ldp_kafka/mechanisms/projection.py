"""Unbiased frequencies made possible ones: none below zero, all of them summing to one."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["norm_sub", "project_simplex"]

# a sum is one if it is so near: frequencies that were projected stay as they are, bit for bit
VALID = 2.0**-40


def norm_sub(frequencies: ArrayLike) -> NDArray[np.float64]:
    """max(f + delta, 0) with the one delta (of each row) for which the frequencies sum to one.

    Parameters
    ----------
    frequencies : (..., categories), at least one category, unbiased estimates:
        ``estimate(...).value``

    Returns
    -------
    The same shape, float64, each row non-negative and with sum one. Rows that are so already come
    back unchanged.

    Raises
    ------
    ValueError : NaN, an infinity (estimates without reports are NaN), or no categories

    Notes
    -----
    Norm-Sub of Wang, Lopuhaä-Zwakenberg, Li, Skoric and Li, NDSS 2020, section IV: the likeliest
    frequencies when the noise is normal and alike in all categories, hence the one of least
    squares: it is `project_simplex` of radius one. It only reads estimates, so it costs no privacy;
    but it is not linear: project once, after all sums. Single frequencies are no longer unbiased
    and their standard errors no longer hold; the error of all of them together never grows.

    Examples
    --------
    >>> norm_sub([0.75, 0.5, -0.125]).tolist()
    [0.625, 0.375, 0.0]
    """
    return project_simplex(frequencies)


def project_simplex(points: ArrayLike, total: float = 1.0) -> NDArray[np.float64]:
    """The nearest points (Euclid) whose coordinates are non-negative and sum to ``total``.

    Parameters
    ----------
    points : (..., k), k at least 1
    total : positive and finite

    Raises
    ------
    ValueError : NaN, infinities, k = 0, or a total that is no positive number

    Notes
    -----
    Duchi, Shalev-Shwartz, Singer and Chandra, ICML 2008, figure 1: the nearest point is max(x -
    theta, 0), and theta = (sum of the r largest x - total) / r for the last r, in falling order,
    whose x lies above it. O(k log k) for each point.

    Examples
    --------
    >>> project_simplex([[3.0, 1.0], [0.5, 0.5]], total=2.0).tolist()
    [[2.0, 0.0], [1.0, 1.0]]
    """
    x: NDArray[np.float64] = np.array(points, dtype=np.float64)
    if x.ndim < 1 or x.shape[-1] < 1:
        raise ValueError("points must have at least one coordinate")
    if not np.isfinite(x).all():
        raise ValueError("points must be finite")
    if not 0 < total < np.inf:
        raise ValueError("total must be positive and finite")
    with np.errstate(over="ignore"):  # an endless sum is not valid, an endless distance is cut
        valid = (x >= 0).all(axis=-1, keepdims=True) & (
            np.abs(x.sum(axis=-1, keepdims=True) - total) <= VALID * total
        )
        # what lies further below the greatest is zero anyhow: no sum overflows or loses digits
        near = np.maximum((x - x.max(axis=-1, keepdims=True)) / total, -1.0)
    falling = -np.sort(-near, axis=-1)
    theta = (np.cumsum(falling, axis=-1) - 1) / np.arange(1, x.shape[-1] + 1)
    last = (falling > theta).sum(axis=-1, keepdims=True) - 1
    nearest = np.maximum(near - np.take_along_axis(theta, last, axis=-1), 0.0)
    # back from shares, and without the rounding of a long running sum
    nearest *= total / nearest.sum(axis=-1, keepdims=True)
    return np.where(valid, x, nearest)
