"""The Hybrid Mechanism: Piecewise or Duchi's, whichever a coin says."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.mechanisms.base import Certificate, check_epsilon, exp_below
from ldp_kafka.mechanisms.duchi import Duchi
from ldp_kafka.mechanisms.piecewise import Piecewise
from ldp_kafka.mechanisms.window import CAP, CELLS, ROUND, WORD, check_grid, choose

__all__ = ["Hybrid", "duchi_or_hybrid"]

# nats, up to which Duchi's alone is best (Wang et al., section III-C, equation 9)
ONLY_DUCHI = 0.61


class Hybrid(Piecewise):
    """With probability 1 - e^(-epsilon / 2) a report of `Piecewise`, else one of Duchi's two, which
    are points of the same grid.

    Parameters
    ----------
    epsilon : float in [2e-4, inf), nats; up to 0.61 `duchi_or_hybrid` takes `Duchi` itself, which
        is better there
    domain : (lo, hi), public; values outside are clamped to it
    cells : see `Piecewise`

    Notes
    -----
    Wang et al., ICDE 2019, section III-C; variances of both are mixed: a (x^2 / (t - 1) + (t + 3) /
    (3 (t - 1)^2)) + (1 - a) (C^2 - x^2), t = e^(epsilon / 2), a = 1 - 1 / t, C = (e^epsilon + 1) /
    (e^epsilon - 1); estimates have it to within 1 % for epsilon up to 8 with the default cells.

    The upper half of the first word is the coin, its lower half rounds the value to the grid; the
    second word draws, in either way. The coin has 2**16 sides. Duchi's points are C to the nearest
    step of reports, and the upper has ``low`` + i ``rise`` words at grid point i: the same number
    of words more a step, so that its mean too is affine to the last unit.

    Guarantee: where Piecewise alone reports, near / far as there. At Duchi's two points both add
    up: (a near + b near') / (a far + b far') at most, which lies between near / far and near' /
    far', both at most e^epsilon; it is reached at the ends of the domain. The coin's law does not
    depend on the value. Every output is possible for every input.

    Examples
    --------
    >>> import numpy as np, ldp_kafka as lk
    >>> m = lk.mechanism("hybrid", epsilon=2.0, domain=(-1.0, 1.0))
    >>> m.perturb(np.array([-1.0, 0.0, 1.0]), lk.randomness.seeded(7)).tolist()
    [1.029296875, 0.623046875, 1.15625]
    >>> round(m.certificate().epsilon_effective, 6)
    2.0
    """

    _total = WORD * ROUND

    def __init__(
        self, epsilon: float, domain: tuple[float, float] = (-1.0, 1.0), *, cells: int = CELLS
    ) -> None:
        super().__init__(epsilon, domain, cells=cells)
        t = exp_below(min(self.epsilon, CAP) / 2)
        most = exp_below(min(self.epsilon, CAP))
        self._heads = min(round(ROUND * (1 - 1 / t)), ROUND - 1)
        far = 1 / (most + 1)
        far_words = -(-WORD * far.numerator // far.denominator)  # up
        self._rise = (WORD - 2 * far_words) // self._others  # words a grid point
        self._rise -= self._rise * self._others % 2  # what is left is shared by both
        self._low = (WORD - self._rise * self._others) // 2
        out = min(round(2**self._bits * (most + 1) / (most - 1) / 2), (self._points - 1) // 2)
        middle = (self._points - 1) // 2
        self._lower, self._upper = middle - out, middle + out

    def _index(self, point: NDArray[np.uint32], words: NDArray[np.uint32]) -> NDArray[np.uint32]:
        index = super()._index(point, words)
        point *= np.uint32(self._rise)
        point += np.uint32(self._low)
        duchi = (words[:, 1] < point) * np.uint32(self._upper - self._lower)
        duchi += np.uint32((self._lower - self._shift) % WORD)
        choose(index, duchi, words[:, 0] >= np.uint32(self._heads * ROUND))
        return index

    def _weights(self, point: int) -> list[int]:
        weights = [weight * self._heads for weight in super()._weights(point)]
        upper, tails = self._low + self._rise * point, ROUND - self._heads
        weights[self._lower] += tails * (WORD - upper)
        weights[self._upper] += tails * upper
        return weights

    def certificate(self) -> Certificate:
        """The exact loss: the larger of the ratios at Duchi's lower point and at any other but the
        highest.
        """
        heads, tails = self._heads, ROUND - self._heads
        both = Fraction(
            heads * self._near + tails * (WORD - self._low), heads * self._far + tails * self._low
        )
        ratio = max(Fraction(self._near, self._far), both)
        return Certificate.of(ratio, self.epsilon)

    def push(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        heads, mass = self._heads / ROUND, float(points.sum())
        upper = float(points @ self._chances)
        out = super().push(points) * heads
        out[self._lower] += (1 - heads) * (mass - upper)
        out[self._upper] += (1 - heads) * upper
        return out

    def pull(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        heads = self._heads / ROUND
        lower, upper = float(scores[self._lower]), float(scores[self._upper])
        return super().pull(scores) * heads + (1 - heads) * (
            lower + (upper - lower) * self._chances
        )

    @property
    def _chances(self) -> NDArray[np.float64]:
        """Of Duchi's upper point, at each grid point."""
        return np.asarray((self._low + self._rise * np.arange(self._others + 1.0)) / WORD)

    def _polynomials(self) -> tuple[tuple[Fraction, Fraction], tuple[Fraction, Fraction, Fraction]]:
        (low, lift), (level, tilt, curve) = super()._polynomials()
        a, q, rise = (
            Fraction(self._heads, ROUND),
            Fraction(self._low, WORD),
            Fraction(self._rise, WORD),
        )
        lower, upper = self._lower - self._shift, self._upper - self._shift
        gap, gap2 = upper - lower, upper**2 - lower**2
        return (
            (a * low + (1 - a) * (lower + gap * q), a * lift + (1 - a) * gap * rise),
            (
                a * level + (1 - a) * (lower**2 + gap2 * q),
                a * tilt + (1 - a) * gap2 * rise,
                a * curve,
            ),
        )

    def tables(self) -> tuple[int, ...]:
        """(those of `Piecewise`, coin, Duchi's points, words of the upper at the lower end, words
        more a step).
        """
        return *super().tables(), self._heads, self._lower, self._upper, self._low, self._rise


def duchi_or_hybrid(
    epsilon: float, domain: tuple[float, float] = (-1.0, 1.0), *, cells: int = CELLS
) -> Hybrid | Duchi:
    """The mechanism of the paper: `Duchi` up to 0.61 nats, `Hybrid` above.

    Examples
    --------
    >>> type(duchi_or_hybrid(0.5)).__name__, type(duchi_or_hybrid(1.0)).__name__
    ('Duchi', 'Hybrid')
    """
    check_grid(cells)  # also where it is not used: what is taken must not depend on epsilon
    return (
        Hybrid(epsilon, domain, cells=cells)
        if check_epsilon(epsilon) > ONLY_DUCHI
        else Duchi(epsilon, domain)
    )
