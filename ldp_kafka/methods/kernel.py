"""The Fourier interpolant of a short periodic sequence, in integers: the same on every CPU."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

__all__ = ["SLOT", "WEIGHT", "cosines", "kernel"]

SLOT = 2**10  # steps of one slot in which the interpolant is evaluated
WEIGHT = 2**24  # one, as a weight of the interpolant
# bits after the point: of a cosine in the table, of those it is computed with
_FINE, _WIDE = (40, 128)


def cosines(steps: int) -> NDArray[np.int64]:
    """cos(2 pi j / steps) for j = 0..steps - 1, to the nearest 2**-40.

    By turning (1, 0) step by step with 128 bits after the point: no rounding of a mathematical
    library comes into it.

    Examples
    --------
    >>> (cosines(8) / 2**40).round(6).tolist()
    [1.0, 0.707107, 0.0, -0.707107, -1.0, -0.707107, 0.0, 0.707107]
    """
    one = 1 << _WIDE
    angle = 2 * _pi() // steps
    c = s = 0
    term, k = one, 0
    while term:  # Taylor: 1, a, a^2 / 2, ...
        if k % 2 == 0:
            c += term if k % 4 == 0 else -term
        else:
            s += term if k % 4 == 1 else -term
        k += 1
        term = (term * angle >> _WIDE) // k
    x, y, drop, found = one, 0, _WIDE - _FINE, []
    for _ in range(steps // 2 + 1):
        found.append((x + (1 << drop - 1)) >> drop)
        x, y = (x * c - y * s) >> _WIDE, (x * s + y * c) >> _WIDE
    return np.array(found + found[1 : (steps + 1) // 2][::-1], np.int64)


def _pi() -> int:
    """Machin: pi = 16 atan(1/5) - 4 atan(1/239)."""

    def atan(inverse: int) -> int:
        power, total, k = (1 << _WIDE + 16) // inverse, 0, 0
        while power:
            total += (-1) ** k * (power // (2 * k + 1))
            power //= inverse * inverse
            k += 1
        return total

    return (16 * atan(5) - 4 * atan(239)) >> 16


@lru_cache(maxsize=16)
def kernel(n: int, *, symmetric: bool = True) -> NDArray[np.int64]:
    """The weights, in units of 2**-24, of a sample j / 2**10 slots away, j = 0..1024 n - 1: f(t) is
    the sum over m of d_m times the weight at t - m, modulo n.

    Parameters
    ----------
    n : samples, 1..256
    symmetric : frequencies k - n in place of k > n / 2 (the smoothest interpolant, real between
        samples); False: 0..n - 1 as printed in SPPA, Algorithm 1, of which this is the real part

    Examples
    --------
    >>> # it goes through the samples
    >>> [int(kernel(5)[x * SLOT]) for x in range(5)] == [WEIGHT, 0, 0, 0, 0]
    True
    """
    steps = n * SLOT
    cos, j = cosines(steps), np.arange(steps)
    total, turn = np.zeros(steps, np.int64), np.zeros(steps, np.int64)
    for k in range(n // 2 + 1 if symmetric else n):
        total += cos[turn] * (2 if symmetric and 0 < 2 * k < n else 1)  # k and n - k
        turn += j
        turn -= steps * (turn >= steps)
    unit = n << (_FINE - 24)
    weights: NDArray[np.int64] = (2 * total + unit) // (2 * unit)
    weights.setflags(write=False)
    return weights
