"""Exact confidence bounds for a probability (Clopper and Pearson, Biometrika 1934), in numpy and
the standard library.
"""

from __future__ import annotations

from math import lgamma
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["lower", "upper"]

_STEPS = 60  # of Newton's method: less than ten are needed
# of the continued fraction: it needs about the square root of the number of trials
_TERMS = 100_000
_TINY = 1e-300


def lower(hits: ArrayLike, trials: ArrayLike, alpha: float) -> NDArray[np.float64]:
    """Lower bounds: the largest p at which at least so many hits in so many trials have probability
    at most ``alpha``; 0 without hits.

    Whatever the true p, the bound exceeds it with probability at most ``alpha``.

    Examples
    --------
    >>> round(float(lower(7, 10, 0.025)), 6)  # R: binom.test(7, 10)
    0.347547
    """
    k, n = np.broadcast_arrays(np.asarray(hits, np.float64), np.asarray(trials, np.float64))
    if not 0 < alpha < 1:
        raise ValueError("alpha must lie between 0 and 1")
    if not ((n >= 1) & (k >= 0) & (k <= n)).all():
        raise ValueError("hits must lie between 0 and the number of trials, which is at least 1")
    some, all_hit = (k > 0) & (k < n), (k == n)
    found = np.where(all_hit, alpha ** (1 / n), 0.0)
    if some.any():
        found[some] = _solve(k[some], n[some], alpha)
    return found


def upper(hits: ArrayLike, trials: ArrayLike, alpha: float) -> NDArray[np.float64]:
    """Upper bounds: the same of the misses.

    Examples
    --------
    >>> round(float(upper(7, 10, 0.025)), 6)
    0.93326
    >>> round(float(upper(0, 1000, 0.05)), 6)  # none of 1000: about 3 / 1000
    0.002991
    """
    k, n = np.broadcast_arrays(np.asarray(hits, np.float64), np.asarray(trials, np.float64))
    bound = 1 - lower(n - k, n, alpha)
    # without the cancellation where it is smallest
    return np.where(k == 0, -np.expm1(np.log(alpha) / n), bound)


def _solve(k: NDArray[np.float64], n: NDArray[np.float64], alpha: float) -> NDArray[np.float64]:
    """Where P[at least k of n | p] is alpha, for 0 < k < n: Newton's method on the logarithm of P,
    which is concave in p (a beta density with exponents of at least 0 is log-concave).

    The steps start at Chernoff's bound, which is too small, and a tangent of a concave function
    lies above it: they come from below, and what is returned is never too large.
    """
    p, log_scale, log_alpha = (
        _chernoff(k, n, alpha),
        _log_gamma(n + 1) - _log_gamma(k) - _log_gamma(n - k + 1),
        np.log(alpha),
    )
    for _ in range(_STEPS):
        tail = _tail(k, n, p, log_scale)
        slope = np.exp(log_scale + (k - 1) * np.log(p) + (n - k) * np.log1p(-p)) / tail
        step = (log_alpha - np.log(tail)) / slope
        p += np.maximum(step, 0)
        if (step <= 1e-12 * p).all():
            break
    return p


def _chernoff(k: NDArray[np.float64], n: NDArray[np.float64], alpha: float) -> NDArray[np.float64]:
    """The p below k / n at which Chernoff's bound of the tail, exp(-n KL(k / n, p)), is alpha:
    bisection of its logarithm, which is at least ln(k / n) - 1 - ln(1 / alpha) / k.
    """
    share, limit = k / n, -np.log(alpha) / n
    hit, miss = np.log(share), np.log1p(-share)
    a, b = hit - 1 - limit / share, hit
    for _ in range(24):
        middle = (a + b) / 2
        far = share * (hit - middle) + (1 - share) * (miss - np.log1p(-np.exp(middle))) >= limit
        a, b = np.where(far, middle, a), np.where(far, b, middle)
    bound: NDArray[np.float64] = np.exp(a)
    return bound


def _tail(
    k: NDArray[np.float64],
    n: NDArray[np.float64],
    p: NDArray[np.float64],
    log_scale: NDArray[np.float64],
) -> NDArray[np.float64]:
    """P[at least k of n | p] for 0 < k < n: the regularised incomplete beta function I_p(k, n - k +
    1) by its continued fraction (DLMF 8.17.22), in Lentz's way.

    The fraction converges fast for p < (k + 1) / (n + 3); beyond it the other tail is taken, which
    is not small there.
    """
    a, b = k, n - k + 1
    other = p > (a + 1) / (a + b + 2)
    x = np.where(other, 1 - p, p)
    a, b = np.where(other, b, a), np.where(other, a, b)
    front = np.exp(log_scale + a * np.log(x) + b * np.log1p(-x)) / a
    # of one, ten times quicker in plain floats
    each = (a.item(), b.item(), x.item()) if x.size == 1 else (a, b, x)
    tail: NDArray[np.float64] = front * _fraction(*each)
    return np.where(other, 1 - tail, tail)


def _fraction(a: Any, b: Any, x: Any) -> Any:
    """Of arrays, or of floats: the same operations in the same order, and so the same bits."""
    c, d = 1.0, 1 / _away(1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, _TERMS):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / _away(1 + numerator * d)
            c = _away(1 + numerator / c)
            value = value * (c * d)
        close = abs(c * d - 1) < 1e-13
        if close if isinstance(close, bool) else close.all():
            return value
    raise ArithmeticError("the continued fraction did not converge: too many trials")


def _away(x: Any) -> Any:
    """Away from zero, which Lentz's method divides by."""
    if isinstance(x, float):
        return x if abs(x) >= _TINY else _TINY
    return np.where(np.abs(x) < _TINY, _TINY, x)


def _log_gamma(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.array([lgamma(each) for each in x.tolist()])
