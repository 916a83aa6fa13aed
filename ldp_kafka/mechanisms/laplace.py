"""Laplace: the value plus two-sided geometric noise on a grid."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import ceil, frexp, log2

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.additive import CAP, AdditiveNoise, Noise, check_cells
from ldp_kafka.mechanisms.alias import WORD
from ldp_kafka.mechanisms.base import Certificate, check_domain, check_epsilon, exp_below

__all__ = ["Laplace"]

FRACTION = 128  # bits after the point in which weights are computed: they are rounded once
# noise scales that the reports reach beyond the domain, at least: an end is reached with
# probability 2e-6 at most
SPARE = 13
WIDEST = 2**15  # largest noise scale, in cells: the table has 2**20 columns then


class Laplace(AdditiveNoise):
    """Add noise of scale domain / epsilon: a report is the value plus a geometric number of grid
    steps, up or down.

    Parameters
    ----------
    epsilon : float in [1e-4, inf), nats; above 50 counts as 50
    domain : (lo, hi), public; values outside are clamped to it
    cells : grid cells of the domain, a power of two of at least 8 epsilon; default: so many that
        the noise scale is 181 to 362 cells (at most 4096 cells, at least one)

    Notes
    -----
    Dwork et al., TCC 2006, on [-1, 1] with scale 2 / epsilon; discrete as in Ghosh, Roughgarden,
    Sundararajan, STOC 2009: P[z] ~ q^-|z| with q = e^(epsilon / cells). Reports are on the unit
    scale whatever the domain: x in [0, 1] plus noise of variance 2 / epsilon^2, to within 2e-5 of
    it for epsilon of 1e-4 to 16 (2 q / (q - 1)^2 cells squared, of which rounding the input adds at
    most 1/4).

    Reports end S >= 13 noise scales outside the domain. A geometric tail has no memory: given that
    the sum reaches an end it exceeds it by 1 / (q - 1) on average, for every input, so the end is
    reported that far out, rounded to a step: what is left of the bias is below 6e-7 of a cell.

    Guarantee: weights are integers of 2**64, w(0) >= w(1) >= ... inside the range, so for an output
    o between the ends the heaviest input is the nearest and the lightest the farthest: the ratio is
    w(0) / w(max(o, N - o)) <= w(0) / w(N) within the domain and w(k) / w(k + N) at k < S beyond it;
    at an end it is the sum of the tail from S over that from S + N. The largest of these integers'
    ratios is compared with e^epsilon; where rounding has lifted one above it, the table is built
    again for a slightly smaller epsilon. Every output is possible for every input. The loss is
    within 1e-6 of epsilon up to 16; above 20 nats far outputs weigh few words of 2**64 and the
    table costs more: 2 % at 30, and from 40 on the loss stays at 39 nats.

    Examples
    --------
    >>> import numpy as np, ldp_kafka as lk
    >>> m = lk.mechanism("laplace", epsilon=1.0, domain=(-1.0, 1.0))
    >>> m.perturb(np.array([-1.0, 0.0, 1.0]), lk.randomness.seeded(7)).tolist()
    [-0.51953125, -1.59765625, 1.44140625]
    >>> round(m.certificate().epsilon_effective, 6)
    1.0
    """

    def __init__(
        self, epsilon: float, domain: tuple[float, float] = (-1.0, 1.0), *, cells: int | None = None
    ) -> None:
        self.epsilon, self.domain = check_epsilon(epsilon), check_domain(domain)
        spent = min(self.epsilon, CAP)
        cells = check_cells(cells, 2 ** min(max(round(log2(256 * spent)), 0), 12))
        if not cells >= 8 * spent:
            raise ConfigurationError(
                "cells must be at least 8 epsilon: the noise would be too coarse"
            )
        if not cells <= WIDEST * spent:
            raise ConfigurationError(
                "epsilon is too small for its table: at least 1e-4, or cells / 2**15"
            )
        noise, beyond = _noise(spent, cells)
        self._build(cells, noise, beyond)

    def certificate(self) -> Certificate:
        """The exact loss: the largest ratio of integers over all outputs and all pairs
        of inputs.
        """
        ratio = Fraction(*_worst(self._noise.half, self.cells))
        return Certificate.of(ratio, self.epsilon)


@lru_cache(maxsize=32)
def _noise(epsilon: float, cells: int) -> tuple[Noise, int]:
    """The law, and how far out an end is reported: the largest epsilon of a falling sequence whose
    rounded weights keep the given one.
    """
    limit = exp_below(epsilon)
    reach = cells + ceil(SPARE * cells / epsilon)
    q = exp_below(epsilon / cells)  # exact quotient: cells is a power of two
    half = _weights(q, reach)
    # one unit of the smallest weight, in bits of epsilon
    shrink = frexp(epsilon)[1] + half[-2].bit_length()
    while not _keeps(half, cells, limit):
        shrink -= 1
        q = exp_below(epsilon * (1 - 2.0**-shrink) / cells)
        half = _weights(q, reach)
    return Noise.of(half[1:]), round(1 / (q - 1))


def _weights(q: Fraction, reach: int) -> list[int]:
    """q^-k (1 - 1/q) / (1 + 1/q) of 2**64 words for k in 0..reach, the tail in the last; to the
    nearest, at least one.
    """
    one = 1 << FRACTION
    r = (q.denominator << FRACTION) // q.numerator
    weight = (WORD << FRACTION) * (one - r) // (one + r)
    weights = []
    for _ in range(reach):
        weights.append(max((weight + one // 2) >> FRACTION, 1))
        weight = weight * r >> FRACTION
    weights.append(max((weight * one // (one - r) + one // 2) >> FRACTION, 1))
    weights[0] = WORD - 2 * sum(weights[1:])
    return weights


def _keeps(half: list[int], cells: int, limit: Fraction) -> bool:
    top, bottom = _worst(half, cells)
    return top * limit.denominator <= limit.numerator * bottom


def _worst(half: list[int] | tuple[int, ...], cells: int) -> tuple[int, int]:
    """Numerator and denominator of the largest ratio between two inputs."""
    spare = len(half) - 1 - cells
    top, bottom = sum(half[spare:]), half[-1]
    for near, far in zip(half[:spare], half[cells:], strict=False):
        if near * bottom > top * far:
            top, bottom = near, far
    return top, bottom
