"""Textbook samplers as numpy code usually writes them, operation by operation: what the preimage
attack looks reports up in.

Rounding depends on the order of operations, so a formula fits code that computes in this order
only; the attack notices where it does not fit.
"""

from __future__ import annotations

from collections.abc import Callable
from math import exp, floor, log

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.audits.floats import reachable_by_addition
from ldp_kafka.audits.preimage import UNIFORMS, Part, Reach, reach_of

__all__ = ["FORMULAS", "additive", "laplace", "piecewise", "square_wave"]

Floats = NDArray[np.float64]
# the C library's, as numpy's generators use it: np.log has its own
_log: Callable[[Floats], Floats] = np.vectorize(log, otypes=[float])


def additive(epsilon: float, domain: tuple[float, float]) -> Reach:  # noqa: ARG001
    """``x + noise``, however the float noise was drawn."""
    return reachable_by_addition


def laplace(epsilon: float, domain: tuple[float, float]) -> Reach:
    """``x + rng.laplace(0, (hi - lo) / epsilon)``."""
    scale = (domain[1] - domain[0]) / epsilon

    def parts(x: float) -> list[Part]:
        half = UNIFORMS // 2
        return [
            Part(lambda u: x + (0.0 + scale * _log(u + u)), 1, half - 1),
            Part(lambda u: x + (0.0 - scale * _log(2.0 - u - u)), half),
        ]

    return reach_of(parts)


def square_wave(epsilon: float, domain: tuple[float, float]) -> Reach:
    """The one uniform of Li et al.'s code (SIGMOD 2020): below q x it lands left of the window,
    then inside it, then right of it.
    """
    lo, hi = domain
    e = float(np.exp(epsilon))
    w = ((epsilon * e) - e + 1) / (2 * e * (e - 1 - epsilon)) * 2
    p, q = e / (w * e + 1), 1 / (w * e + 1)

    def parts(value: float) -> list[Part]:
        x = (value - lo) / (hi - lo)
        # exact: a power of two
        left, inside = (
            floor(q * x * UNIFORMS),
            min(floor((q * x + p * w) * UNIFORMS), UNIFORMS - 1),
        )
        return [
            Part(lambda u: u / q - w / 2, 0, left),
            Part(lambda u: (u - q * x) / p + x - w / 2, left + 1, inside),
            Part(lambda u: (u - q * x - p * w) / q + x + w / 2, inside + 1),
        ]

    return reach_of(parts)


def piecewise(epsilon: float, domain: tuple[float, float]) -> Reach:
    """Wang et al., ICDE 2019, Algorithm 2, on [-1, 1], where other domains are mapped to:
    ``rng.uniform(l, r)`` near the value, else ``rng.uniform(-C, l)`` or ``rng.uniform(r, C)``.
    """
    lo, hi = domain
    h = exp(epsilon / 2)
    c = (h + 1) / (h - 1)

    def parts(value: float) -> list[Part]:
        t = value if domain == (-1, 1) else 2 * (value - lo) / (hi - lo) - 1
        left = (c + 1) / 2 * t - (c - 1) / 2
        right = left + c - 1
        return [
            Part(lambda u, a=a, b=b: a + (b - a) * u)  # type: ignore[misc]
            for a, b in ((left, right), (-c, left), (right, c))
        ]

    return reach_of(parts)


FORMULAS: dict[str, Callable[[float, tuple[float, float]], Reach]] = {
    "additive": additive,
    "laplace": laplace,
    "piecewise": piecewise,
    "square_wave": square_wave,
}
"""Name -> (epsilon, domain) -> which reports can come from a value."""
