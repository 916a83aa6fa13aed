"""Duchi's mechanism: one bit, whose chance is affine in the value."""

from __future__ import annotations

from fractions import Fraction
from math import frexp, inf, nan

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.base import (
    Certificate,
    Estimate,
    Law,
    Z,
    check_domain,
    check_epsilon,
    check_values,
    exp_below,
    in_chunks,
    own,
)
from ldp_kafka.mechanisms.supporters import OfPopulation
from ldp_kafka.mechanisms.window import CAP, WORD, Moments
from ldp_kafka.randomness import Randomness

__all__ = ["Duchi"]

PRECISION = 16  # bits of C that the two reports keep


class Duchi:
    """Report one of two points, -C or C on [-1, 1]: the upper one with a probability that grows
    with the value, so that the report's mean is the value.

    Parameters
    ----------
    epsilon : float in [1e-6, inf), nats
    domain : (lo, hi), public; values outside are clamped to it

    Notes
    -----
    Duchi, Jordan, Wainwright, JASA 2018, for one dimension as in Wang et al., ICDE 2019, Algorithm
    1: C = (e^epsilon + 1) / (e^epsilon - 1), P[C | x] = 1/2 + x / (2C): from q at the lower end of
    the domain to p = e^epsilon q at the upper. Variance C^2 - x^2.

    One secure word decides: the upper report iff it is below ``far`` + x (near - far) words, x the
    value's share of the domain, taken to the nearest whole word; that costs at most half a word of
    2**32, or 2**-32 of a report's range in its mean. Reports are on the unit scale of the domain,
    1/2 - C/2 and 1/2 + C/2 with C to 16 bits: their mean is the value to within 2**-15 of the
    domain (``moments`` are exact, and `estimate` inverts them).

    Guarantee: either report has between ``far`` and ``near`` = 2**32 - far words for every input;
    far is rounded up, so near / far <= e^epsilon. The loss is within 1e-4 of epsilon, as a share,
    from 1e-4 to 16 nats, and never above 22.

    Two reports do not tell values that are spread out from values that are all alike: limits are
    Clopper and Pearson's of alike ones, the widest that fit, and those of a population too.

    Examples
    --------
    >>> import numpy as np, ldp_kafka as lk
    >>> m = lk.mechanism("duchi", epsilon=1.0, domain=(-1.0, 1.0))
    >>> m.perturb(np.array([-1.0, 0.0, 1.0]), lk.randomness.seeded(7)).round(3).tolist()
    [1.582, -0.582, 1.582]
    >>> round(m.certificate().epsilon_effective, 6)
    1.0
    """

    width = 0  # a report is a number
    hides_spread = True
    """Its reports do not tell how far values lie apart: the stated error is the largest that fits.
    """

    def __init__(self, epsilon: float, domain: tuple[float, float] = (-1.0, 1.0)) -> None:
        self.epsilon, self.domain = check_epsilon(epsilon), check_domain(domain)
        most = exp_below(min(self.epsilon, CAP))
        q = 1 / (most + 1)
        self._far = -(-WORD * q.numerator // q.denominator)  # up
        self._near = WORD - self._far
        if not self._near - self._far > 2**11:
            raise ConfigurationError("epsilon is too small for words of 2**-32: at least 1e-6")
        half = (most + 1) / (most - 1) / 2  # C / 2: a length of the domain is 2
        bits = max(PRECISION - frexp(half)[1], 1)  # a half is a whole number of steps
        self.scale = 2.0**-bits
        self._reach = round(half * 2**bits)
        self._middle = 2**bits // 2

    def perturb(self, values: NDArray[np.floating], randomness: Randomness) -> NDArray[np.float64]:
        """Reports (n,) on the unit scale, whole multiples of ``scale``, for values (n,) of the
        domain. TypeError unless numbers, ValueError for NaN and infinities (the value is not
        shown).
        """
        return in_chunks(self.perturb_part, check_values(values), own(self, randomness))

    def perturb_part(
        self, values: NDArray[np.float64], randomness: Randomness, first: int
    ) -> NDArray[np.float64]:
        low, high = self.index_range
        index = (
            randomness.words(len(values), 1, first=first)[:, 0] < self._cut(values)
        ) * np.int32(high - low)
        index += np.int32(low)
        return np.multiply(index, self.scale)

    def _cut(self, values: NDArray[np.float64]) -> NDArray[np.uint32]:
        """Words that give the upper report: from far to near."""
        if not np.isfinite(values).all():
            raise ValueError("values must be finite")
        lo, hi = self.domain
        scaled = np.clip(values, lo, hi)
        scaled -= lo
        scaled *= (self._near - self._far) / (hi - lo)
        scaled += self._far + 0.5  # to the nearest: at the ends exactly far and near
        return scaled.astype(np.uint32)

    def law(self, value: float) -> Law:
        """The exact law."""
        cut = int(self._cut(check_values([value]))[0])
        return Law(np.array(self._outputs), [WORD - cut, cut], WORD)

    def certificate(self) -> Certificate:
        """The exact loss, reached between the ends of the domain."""
        ratio = Fraction(self._near, self._far)
        return Certificate.of(ratio, self.epsilon)

    def support(self, reports: NDArray[np.floating]) -> NDArray[np.int64]:
        """(n, number of upper reports)."""
        return np.array([len(reports), np.count_nonzero(np.asarray(reports) > 0.5)], np.int64)

    def estimate(self, reports: NDArray[np.floating], *, population: bool = False) -> Estimate:
        """Mean of the values behind the reports, on the domain."""
        return self.estimate_support(self.support(reports), population=population)

    def estimate_support(
        self,
        support: NDArray[np.int64],
        *,
        population: bool = False,  # noqa: ARG002 - two reports cannot tell: see the notes
    ) -> Estimate:
        """Mean by inverting the affine chance of the upper report."""
        n, upper = (int(s) for s in support)
        if n == 0:
            return Estimate(nan, inf, 0)
        q, slope = self._far / WORD, (self._near - self._far) / WORD
        found = OfPopulation(n, q + slope, q).limits(np.array([upper], np.float64))
        low, high = (float(end[0]) for end in found)
        chance = min(max(upper / n, q), q + slope)
        return Estimate(
            (upper / n - q) / slope,
            (high - low) / (2 * Z),
            n,
            (min(max(low, 0.0), 1.0), min(max(high, 0.0), 1.0)),
            variance=chance * (1 - chance) / n / slope**2,
        ).on(self.domain)

    @property
    def moments(self) -> Moments:
        """E[report | x] = low + slope x for a value a share x up the domain; the second moment is
        affine too.
        """
        low, high = (Fraction(output) for output in self._outputs)
        q, rise = Fraction(self._far, WORD), Fraction(self._near - self._far, WORD)
        first, second = (
            (low + (high - low) * q, (high - low) * rise),
            (low**2 + (high**2 - low**2) * q, (high**2 - low**2) * rise),
        )
        return Moments(float(first[1]), float(first[0]), 0.0, float(second[1]), float(second[0]))

    @property
    def index_range(self) -> tuple[int, int]:
        """Least and greatest report in units of ``scale``."""
        return self._middle - self._reach, self._middle + self._reach

    def tables(self) -> tuple[int, ...]:
        """(the two reports in steps, steps of the domain, near, far)."""
        return *self.index_range, 2 * self._middle, self._near, self._far

    @property
    def _outputs(self) -> tuple[float, float]:
        low, high = self.index_range
        return low * self.scale, high * self.scale
