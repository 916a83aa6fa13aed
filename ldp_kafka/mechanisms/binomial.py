"""The binomial law: its tails, and exact confidence bounds for a probability (Clopper and Pearson,
Biometrika 1934), with the same bits on every CPU.
"""

from __future__ import annotations

from math import factorial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldp_kafka.mechanisms.elementary import natural_exp, natural_log

__all__ = ["lower", "tails", "upper"]

_STEPS = 60  # of Newton's method: less than ten are needed
# of the continued fraction: it needs about the square root of the number of trials
_TERMS = 100_000
_TINY = 1e-300
_EXACT = 16  # below it Stirling's series is not exact enough
Floats = NDArray[np.float64]


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
    found = np.where(all_hit, _exp(natural_log(np.asarray(alpha)) / n), 0.0)
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
    return np.where(k == 0, _one_less_exp(natural_log(np.asarray(alpha)) / n), bound)


def tails(hits: ArrayLike, trials: ArrayLike, p: ArrayLike) -> tuple[Floats, Floats]:
    """The probabilities of fewer hits, and of at least so many; 0 < p < 1. The smaller one is as
    exact as a float, the other is what it leaves.

    Examples
    --------
    >>> [round(float(each), 6) for each in tails(7, 10, 0.347547)]
    [0.975, 0.025]
    """
    k, n, p = np.broadcast_arrays(*(np.asarray(each, np.float64) for each in (hits, trials, p)))
    fewer, least = np.where(k <= 0, 0.0, 1.0), np.where(k <= 0, 1.0, 0.0)
    some = (k > 0) & (k <= n)
    if some.any():
        fewer[some], least[some] = _tails(k[some], n[some], p[some])
    return fewer, least


def _solve(k: Floats, n: Floats, alpha: float) -> Floats:
    """Where P[at least k of n | p] is alpha, for 0 < k < n: Newton's method on ln P as a function
    of ln p, which is concave (the density of ln p, p drawn from a beta law, is log-concave).

    The steps start where C(n, k) p^k <= (e n p / k)^k, a bound of P, is alpha, which is too small,
    and a tangent of a concave function lies above it: they come from below, and what is returned
    is never too large.
    """
    log_alpha = natural_log(np.asarray(alpha))
    p = k / n * _exp(np.maximum(log_alpha / k, -1000.0) - 1)
    going = np.ones(len(p), np.bool_)
    for _ in range(_STEPS):
        fraction = _fraction(*_of_one(k, n - k + 1, p))
        tail = _log_mass(k, n, p) + natural_log((1 - p) * fraction)
        step = (log_alpha - tail) * (1 - p) * fraction / k
        less = _one_less_exp(-np.maximum(step, 0))
        p += np.where(going, p * (less / (1 - less)), 0.0)
        going &= step > 1e-12
        if not going.any():
            break
    return p


def _tails(k: Floats, n: Floats, p: Floats) -> tuple[Floats, Floats]:
    """P[fewer than k of n | p] and P[at least k], for 0 < k <= n: the regularised incomplete beta
    function I_p(k, n - k + 1) by its continued fraction (DLMF 8.17.22), in Lentz's way.

    The fraction converges fast for p < (k + 1) / (n + 3); beyond it the other tail is taken, which
    is not small there.
    """
    a, b = k, n - k + 1
    other = p > (a + 1) / (a + b + 2)
    x = np.where(other, 1 - p, p)
    a, b = np.where(other, b, a), np.where(other, a, b)
    front = _exp(_log_mass(k - other, n, p)) * (1 - x)
    tail = front * _fraction(*_of_one(a, b, x))
    return np.where(other, tail, 1 - tail), np.where(other, 1 - tail, tail)


def _of_one(*parts: Floats) -> tuple[Any, ...]:
    """Plain floats of arrays of one number: ten times quicker."""
    return tuple(part.item() for part in parts) if parts[0].size == 1 else parts


def _fraction(a: Any, b: Any, x: Any) -> Any:
    """Of arrays (m,), or of floats: the same operations in the same order, for each number as many
    as it needs. Beyond them rounding errors grow.
    """
    c: Any = 1.0
    value = d = 1 / _away(1 - (a + b) * x / (a + 1))
    found, left = np.empty(np.shape(x)), np.arange(np.size(x))
    for m in range(1, _TERMS):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / _away(1 + numerator * d)
            c = _away(1 + numerator / c)
            value = value * (c * d)
        close = abs(c * d - 1) < 1e-13
        if isinstance(close, bool):
            if close:
                return value
        elif close.any():
            found[left[close]] = value[close]
            if close.all():
                return found
            a, b, x, c, d, value, left = (each[~close] for each in (a, b, x, c, d, value, left))
    raise ArithmeticError("the continued fraction did not converge: too many trials")


def _away(x: Any) -> Any:
    """Away from zero, which Lentz's method divides by."""
    if isinstance(x, float):
        return x if abs(x) >= _TINY else _TINY
    return np.where(np.abs(x) < _TINY, _TINY, x)


def _log_mass(k: Floats, n: Floats, p: Floats) -> Floats:
    """The logarithm of P[k of n | p] for 0 <= k <= n: Loader's form (Fast and accurate computation
    of binomial probabilities, 2000), whose terms are as large as their sum, not as n ln n.
    """
    hit, miss = np.maximum(k, 1), np.maximum(n - k, 1)
    away = k * natural_log(n * p / hit) + (n - k) * natural_log(n * (1 - p) / miss)
    round_ = _stirling(n) - _stirling(hit) - _stirling(miss)
    inner = away + round_ + 0.5 * natural_log(n / (6.283185307179586 * hit * miss))
    return np.where((k > 0) & (k < n), inner, away)


def _stirling(n: Floats) -> Floats:
    """What Stirling's formula of ln n! lacks, for whole n of at least 1."""
    small, square = n < _EXACT, n * n
    terms = (1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12)
    series = np.zeros_like(n)
    for term in terms:
        series = series / square + term
    listed = _LISTED[np.where(small, n, 0).astype(np.intp)]
    return np.where(small, listed, series / n)


def _listed() -> Floats:
    n = np.arange(1.0, _EXACT)
    exact = natural_log(np.array([float(factorial(int(each))) for each in n]))
    formula = (n + 0.5) * natural_log(n) - n + 0.9189385332046727  # ln(2 pi) / 2
    return np.concatenate([[0.0], exact - formula])


_LISTED = _listed()


def _exp(x: Floats) -> Floats:
    """e^x, for x within -1024 and 1024."""
    power = natural_exp(x / 32)
    for _ in range(5):
        power = power * power
    return power


def _one_less_exp(x: Floats) -> Floats:
    """1 - e^x of x below 0, exact where it is near 0 too."""
    near = np.maximum(x, -0.5)
    series = np.zeros_like(near)
    for k in range(16, 0, -1):
        series = (1 + series) * near / k
    return np.where(x < -0.5, 1 - _exp(x), -series)
