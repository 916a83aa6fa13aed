"""Normal noise of sums of which several change together: as far as they move in the L2 norm."""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property
from math import ceil, inf

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.additive import WORDS, Noise
from ldp_kafka.mechanisms.base import column_of_sums, exp_below, in_chunks, own
from ldp_kafka.mechanisms.gaussian import PARTS
from ldp_kafka.mechanisms.gaussian_vector import Coupled
from ldp_kafka.randomness import Randomness

__all__ = ["GaussianSums"]

TAIL = Fraction(1, 2**49)  # more than a normal has beyond `SPARE` standard deviations


class GaussianSums(Coupled):
    """Add normal noise to whole numbers, calibrated to (epsilon, delta) in the L2 distance by which
    they can move together.

    Parameters
    ----------
    epsilon : float in (0, inf), nats: what such a move loses; above 50 counts as 50
    delta : float in (0, 1), at least about dimension e^epsilon / 2**46: words of 64 bits tell no
        less
    reach : float of at least 1, the L2 norm of the largest move
    dimension : how many of the numbers a move changes, at most

    Raises
    ------
    ConfigurationError : epsilon or delta is too small, or reach too large

    Notes
    -----
    Numbers are rounded without bias to steps of ``unit``, a power of two, by words of their own,
    and integer normal noise is added (`Gaussian`). However many numbers there are: what a move
    leaves as it is has the same law.

    Guarantee: that of `GaussianVector`, whose proof holds for the numbers that a move changes: with
    the same words for rounding, they are no further apart than its two grid vectors are at
    ``cells`` steps, ceil(reach / unit). Here no report is held within a range, since sums have
    none: the integer law of a number lacks the tail beyond 8 standard deviations and one move,
    2**-49 of it at most. That is in the certificate's delta.

    Examples
    --------
    >>> from ldp_kafka.randomness import seeded
    >>> noise = GaussianSums(1.0, 1e-5, reach=2**40, dimension=3)
    >>> noisy = noise.perturb(np.full(3, 5 * 2**40), seeded(7))
    >>> (noisy * (noise.unit / 2**40)).round(2).tolist()
    [3.23, 5.59, 3.94]
    >>> round(noise.variance**0.5 / 2**40, 2), noise.certificate().delta <= 1e-5
    (3.78, True)
    """

    def __init__(self, epsilon: float, delta: float, reach: float, dimension: int) -> None:
        self._given(epsilon, delta, dimension)
        if not 1 <= reach < inf:
            raise ConfigurationError("reach must be at least 1, and finite")
        wanted = self._default_cells()
        self.reach = ceil(reach)
        self._shift = max(-(-self.reach // wanted) - 1, 0).bit_length()
        if not self._shift < 62:
            raise ConfigurationError("reach is too large: sums would be less than one step")
        self.unit = 1 << self._shift
        self.cells = -(-self.reach // self.unit)
        self._parts, self._noise = self._calibrated(self.cells)

    def _rounding(self, noise: Noise) -> Fraction:
        lost = (2 + exp_below(self._spent)) * self.dimension * TAIL
        return super()._rounding(noise) + lost

    def perturb(self, sums: NDArray[np.integer], randomness: Randomness) -> NDArray[np.int64]:
        """Noisy sums (n,) in steps of ``unit``, for sums (n,) within 0..2**62. TypeError unless
        whole numbers, ValueError unless (n,).
        """
        return in_chunks(self.perturb_part, column_of_sums(sums), own(self, randomness))

    def perturb_part(
        self, sums: NDArray[np.int64], randomness: Randomness, first: int
    ) -> NDArray[np.int64]:
        words = np.ascontiguousarray(randomness.words(len(sums), WORDS, first=first))
        word, other = words.view(np.uint64).T
        # up with the chance of what lies above the step
        index: NDArray[np.int64] = sums + (other & np.uint64(self.unit - 1)).astype(np.int64)
        index >>= self._shift
        index += self._noise.table.draw(np.ascontiguousarray(word))
        return index

    @cached_property
    def variance(self) -> float:
        """Of a noisy sum, in the sums' own squared units: of the noise, and of the rounding at
        most.
        """
        return float(((self._parts / PARTS) ** 2 + 1 / 12 + 1 / 4) * self.unit**2)

    def tables(self) -> tuple[int, ...]:
        """(dimension, unit, cells, four integers of the noise table's SHA-256)."""
        return self.dimension, self.unit, self.cells, *self._noise.table.digest()
