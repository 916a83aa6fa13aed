"""Weights that fall by a constant factor, as whole words: what the noise of sums and comparisons is
made of.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.mechanisms.base import exp_below

__all__ = ["factor", "falling", "keeps", "lift", "steps_of"]

FRACTION = 128  # bits after the point in which weights are computed: they are rounded once
SPARE = 2.0**-48  # of epsilon: more than what the factor and the limit are rounded by

_UP = np.uint64(32)  # of the word that rounds, the upper bits


def steps_of(numbers: NDArray[np.int64], unit: int, words: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Whole numbers (n,) in steps of ``unit``, rounded without bias: up with the chance of what
    lies above the step below, in units of 2**-32; ``words`` (n,) are secure.

    Examples
    --------
    >>> least, most = np.array([[0], [2**64 - 1]], np.uint64)
    >>> steps_of(np.array([7]), 4, least).tolist(), steps_of(np.array([7]), 4, most).tolist()
    ([2], [1])
    """
    index, part = np.divmod(numbers, unit)
    index += (words >> _UP) * np.uint64(unit) < part.view(np.uint64) << _UP
    return index


def factor(epsilon: float, steps: int) -> Fraction:
    """By how much a weight falls in one step, where so many steps lose epsilon: so little less that
    no rounding lifts their product above e^epsilon.

    Examples
    --------
    >>> round(float(factor(1.0, 2) ** 2), 12)
    2.718281828459
    """
    return exp_below(epsilon * (1 - SPARE) / steps)


def falling(first: Fraction | int, q: Fraction, most: int, *, skip: int = 0) -> list[int]:
    """Weights first / q^k for k = skip, skip + 1, ..., rounded down, as long as they are at least 1
    and no more than ``most`` after the first.

    Examples
    --------
    >>> falling(100, Fraction(3), 10), falling(100, Fraction(3), 1, skip=2)
    ([100, 33, 11, 3, 1], [11, 3])
    """
    ratio = (q.denominator << FRACTION) // q.numerator
    weight = int(Fraction(first) * 2**FRACTION)
    power, left = ratio, skip
    while left:
        if left % 2:
            weight = weight * power >> FRACTION
        power = power * power >> FRACTION
        left //= 2
    weights: list[int] = []
    while weight >> FRACTION and len(weights) <= most:
        weights.append(weight >> FRACTION)
        weight = weight * ratio >> FRACTION
    return weights


def lift(limit: Fraction) -> int:
    """What has to be added to weights that were rounded down, so that none is more than ``limit``
    times another that it was at most ``limit`` times before.

    Notes
    -----
    With x <= limit y before rounding, floor(x) + a <= limit y + a <= limit (floor(y) + 1) + a, and
    this is at most limit (floor(y) + a) where a (limit - 1) >= limit.

    Examples
    --------
    >>> lift(Fraction(11, 10)), lift(Fraction(3))
    (11, 2)
    """
    return -(-limit.numerator // (limit.numerator - limit.denominator))


def keeps(weights: list[int], steps: int, more: int, limit: Fraction) -> bool:
    """Whether no falling weight is more than ``limit`` times the one so many steps on, where there
    is one, with so much more on each.

    Examples
    --------
    >>> keeps([7, 3, 1, 0], 1, 0, Fraction(2)), keeps([7, 3, 1, 0], 1, 1, Fraction(2))
    (False, True)
    """
    return all(
        (near + more) * limit.denominator <= (far + more) * limit.numerator
        for near, far in zip(weights, weights[steps:], strict=False)
    )
