"""Gaussian: the value plus normal noise, rounded to a grid."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from math import ceil, erfc, exp, log2, sqrt

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.additive import CAP, AdditiveNoise, Noise, check_cells
from ldp_kafka.mechanisms.alias import WORD
from ldp_kafka.mechanisms.base import (
    Certificate,
    check_domain,
    check_epsilon,
    check_number,
    exp_below,
)

__all__ = [
    "PARTS",
    "WIDEST",
    "Gaussian",
    "analytic_delta",
    "analytic_sigma",
    "check_delta",
    "normal_noise",
]

FRACTION = 128  # bits after the point in which weights are computed: they are rounded once
# standard deviations that the reports reach beyond the domain: an end is reached with probability
# 6e-16 at most
SPARE = 8
FINEST, WIDEST = (
    8,
    2**15,
    # standard deviation in cells: below, the grid would show; above, the table would have more than
    # 2**20 columns
)
# a standard deviation is a multiple of 1 / PARTS of a cell, so that the table is the same on every
# machine
PARTS = 64
MARGIN = 1e-9  # of delta: more than erfc and exp of a C library are off


class Gaussian(AdditiveNoise):
    """Add normal noise to a number, calibrated to (epsilon, delta).

    Parameters
    ----------
    epsilon : float in (0, inf), nats; above 50 counts as 50
    delta : float in (0, 1), at least about 1e-14: words of 64 bits tell no less
    domain : (lo, hi), public; values outside are clamped to it
    cells : grid cells of the domain, a power of two up to 2**16; default: so many that sigma is 181
        to 362 cells (at most 4096 cells, at least one)

    Notes
    -----
    Analytic calibration (Balle and Wang, ICML 2018, theorem 8): for inputs a distance of 1 apart,
    sigma is the least with

        Phi(1 / 2 sigma - epsilon sigma) - e^epsilon Phi(-1 / 2 sigma - epsilon sigma) <= delta.

    Reports are on the unit scale whatever the domain: x in [0, 1] plus noise, of variance sigma^2 +
    scale^2 / 12; rounding the input adds at most scale^2 / 4.

    Guarantee: for x on the grid, x + round(Z) = round(x + Z) is a function of the continuous
    mechanism's output, and so is holding it within a public range: neither raises delta
    (post-processing). The table's ends stand for whole tails and it reaches from any input to both
    ends of the range, so nothing is truncated: all that differs is the rounding of the weights to
    integers of 2**64, at least 1. Therefore delta is computed again from these integers, and sigma
    raised until it is at most ``delta``:

    Let w(0) >= w(1) >= ... be the integer law with its last weight spread over all that it stands
    for, and t the distance of two inputs. A term w(o) - L w(o - t), L = e^epsilon rounded down, is
    positive only where |o| < |o - t|, o < t / 2, and there it does not fall as t grows: the sum of
    the positive terms is largest at t = N cells. Holding the report within the range can only lower
    it. The certificate is that sum at t = N, all that lies below the range counted as lost (P <
    1e-15). All outputs are possible for all inputs.

    Examples
    --------
    >>> import numpy as np, ldp_kafka as lk
    >>> m = lk.mechanism("gaussian", epsilon=1.0, delta=1e-5, domain=(0.0, 1.0))
    >>> m.perturb(np.array([0.0, 0.5, 1.0]), lk.randomness.seeded(7)).tolist()
    [-5.765625, 1.671875, 6.25]
    >>> round(m.sigma, 2), m.certificate().delta <= 1e-5
    (3.73, True)
    """

    def __init__(
        self,
        epsilon: float,
        delta: float,
        domain: tuple[float, float] = (0.0, 1.0),
        *,
        cells: int | None = None,
    ) -> None:
        self.epsilon, self.delta, self.domain = (
            check_epsilon(epsilon),
            check_delta(delta),
            check_domain(domain),
        )
        self._spent = min(self.epsilon, CAP)
        unit = analytic_sigma(self._spent, self.delta)
        cells = check_cells(cells, 2 ** min(max(round(log2(256 / unit)), 0), 12))
        self._parts, noise = _calibrated(self._spent, self.delta, cells, ceil(unit * cells * PARTS))
        self._build(cells, noise)

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise on the scale of the reports, before rounding."""
        return self._parts / PARTS * self.scale

    def certificate(self) -> Certificate:
        """The largest delta between any two inputs at ``epsilon``, from the integers
        of the table.
        """
        limit = exp_below(self._spent)
        return Certificate.of(limit, self._spent, _exact_delta(self._noise, self.cells, limit))


def check_delta(delta: float) -> float:
    """``delta`` as a float in (0, 1); TypeError or ConfigurationError otherwise."""
    number = check_number(delta, "delta")
    if not 0 < number < 1:  # the positive form keeps NaN out
        raise ConfigurationError("delta must lie between 0 and 1")
    return number


def analytic_delta(epsilon: float, sigma: float) -> float:
    """Delta of normal noise of ``sigma`` for inputs 1 apart, at ``epsilon`` up to 50: an upper
    bound (rounding errors, about 1e-12 of it, are covered).

    Examples
    --------
    >>> round(analytic_delta(1.0, 5.2759 / 2**0.5), 8)
    1e-05
    """
    away, half = epsilon * sigma / sqrt(2), 1 / (2 * sigma * sqrt(2))
    most = erfc(away - half)
    return (most - exp(epsilon) * erfc(away + half)) / 2 + MARGIN * most / 2


def analytic_sigma(epsilon: float, delta: float) -> float:
    """The least sigma whose `analytic_delta` is at most ``delta``, rounded up; sensitivity 1.

    Examples
    --------
    >>> round(analytic_sigma(1.0, 1e-5) * 2**0.5, 4)  # at sensitivity sqrt(2)
    5.2759
    """
    low, high = 0.0, 1.0
    while analytic_delta(epsilon, high) > delta:
        low, high = high, 2 * high
        if high > WIDEST:
            raise ConfigurationError("epsilon or delta is too small for the table")
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if analytic_delta(epsilon, middle) <= delta else (middle, high)
    return high


@lru_cache(maxsize=32)
def normal_noise(parts: int, cells: int) -> Noise:
    """round(Z) for a normal Z of standard deviation ``parts`` / PARTS, reaching SPARE of them
    further than ``cells``.
    """
    if parts < FINEST * PARTS:
        raise ConfigurationError("cells must be more: sigma would be less than eight of them")
    if parts > WIDEST * PARTS:
        raise ConfigurationError(
            "cells must be fewer, or epsilon or delta is too small: the table would be too large"
        )
    return Noise.of(_normal_weights(parts, cells + ceil(SPARE * parts / PARTS)))


@lru_cache(maxsize=32)
def _calibrated(epsilon: float, delta: float, cells: int, parts: int) -> tuple[int, Noise]:
    """The noise whose exact delta is at most ``delta``, from ``parts`` upwards."""
    limit = exp_below(epsilon)
    for _ in range(16):
        noise = normal_noise(parts, cells)
        if _exact_delta(noise, cells, limit) <= Fraction(delta):
            return parts, noise
        parts += max(parts >> 12, 1)
    raise ConfigurationError("delta is too small for words of 64 bits: at least about 1e-14")


def _exact_delta(noise: Noise, cells: int, limit: Fraction) -> Fraction:
    """Sum over outputs o of w(o) - limit w(o - cells) where positive: outputs from the lowest of
    the range to the middle, and all of the tail below it.
    """
    half, spare, (over, under) = noise.half, noise.reach - cells, limit.as_integer_ratio()
    outside = sum(_lost(half[:spare], half[cells:], over, under))  # o = 0, -1, ..., 1 - spare
    # o = 1, 2, ... below cells / 2
    inside = sum(_lost(half[1 : (cells + 1) // 2], half[cells - 1 : cells // 2 : -1], over, under))
    return Fraction(sum(half[spare:]) * under + outside + inside, under * WORD)


def _lost(here: tuple[int, ...], there: tuple[int, ...], over: int, under: int) -> Iterator[int]:
    return (max(a * under - b * over, 0) for a, b in zip(here, there, strict=False))


def _normal_weights(parts: int, reach: int) -> list[int]:
    """Phi((j + 1/2) / s) - Phi((j - 1/2) / s) of 2**64 words for j in 1..reach, s = ``parts`` /
    PARTS, the tail in the last; to the nearest, at least 1.

    With u = 1 / s^2, the density's derivatives at j, each times 1 / n!, are A(0) = e^(-j^2 u / 2),
    A(n + 1) = -(j u A(n) + u A(n - 1)) / (n + 1): the integral over the cell is the sum of A(n) /
    (n + 1) / 2^n over even n. All in integers, so that every machine has the same table; divided by
    the sum over all cells, so that no pi is needed.
    """
    one = 1 << FRACTION
    u = (PARTS**2 << FRACTION) // parts**2
    step, fall = _exp_minus(u // 2), _exp_minus(u)
    density, masses, j = one, [], 0
    while density >> 32:
        masses.append(_cell(density, j * u, u))
        # e^(-(j + 1)^2 u / 2) = e^(-j^2 u / 2) e^(-(2 j + 1) u / 2)
        density = density * step >> FRACTION
        step = step * fall >> FRACTION
        j += 1
    total = 2 * sum(masses) - masses[0]
    masses += [0] * (reach - len(masses))
    ends = [*masses[1:reach], sum(masses[reach:])]
    return [max(((mass * WORD << 1) // total + 1) >> 1, 1) for mass in ends]


def _cell(density: int, slope: int, u: int) -> int:
    before, now, n, total = 0, density, 0, density
    while abs(now) >> 16 or abs(before) >> 16:
        before, now, n = now, -((slope * now + u * before) >> FRACTION) // (n + 1), n + 1
        if n % 2 == 0:
            total += now // (n + 1) >> n
    return total


def _exp_minus(x: int) -> int:
    """e^-x in fixed point, x below 1."""
    term = total = 1 << FRACTION
    n = 0
    while term:
        n += 1
        term = -(term * x >> FRACTION) // n if term > 0 else (-term * x >> FRACTION) // n
        total += term
    return total
