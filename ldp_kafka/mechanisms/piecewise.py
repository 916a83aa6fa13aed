"""The Piecewise Mechanism: a window as wide as makes the report's mean the value."""

from __future__ import annotations

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.base import exp_below
from ldp_kafka.mechanisms.window import CAP, CELLS, Window, check_grid

__all__ = ["Piecewise"]

MOST = 2**15  # steps of the grid: they and the rounding's 16 bits share a word


class Piecewise(Window):
    """Report a point between -C and C: those of a window around the value weigh e^epsilon times the
    others, and the report's mean is the value.

    Parameters
    ----------
    epsilon : float in [2e-4, inf), nats
    domain : (lo, hi), public; values outside are clamped to it
    cells : least number of steps of the input grid, a power of two in 64..2**14; it gets fewer than
        twice as many, or where epsilon is small as many as half-steps of reports need

    Notes
    -----
    Wang et al., ICDE 2019, Algorithm 2, on [-1, 1]: C = (t + 1) / (t - 1), t = e^(epsilon / 2); the
    window is C - 1 wide and holds t / (t + 1) of the probability. Variance of one report: x^2 / (t
    - 1) + (t + 3) / (3 (t - 1)^2), which estimates have to within 1 % for epsilon from 0.01 to 8
    with the default cells. Above, where the window is a few points wide, they vary less than that,
    until words of 32 bits end it.

    Here N input steps and a window of L = N / t points, rounded, give `Window`'s law; its mean
    moves (1 - 1 / t) output steps an input step. Reports are on the unit scale of the domain in
    steps of 2^-k, and N = 2^k t / (t - 1), rounded so that the middle of the domain falls on a
    report: the mean report is the value to within a thousandth of the domain for epsilon from 0.01
    on (``moments`` are exact, and `estimate` inverts them).

    Guarantee: `Window`'s. The loss is within 1e-3 of epsilon, as a share, from 0.01 to 16 nats with
    the default cells; it falls to 0.93 of it at 2e-4, and no loss exceeds 22 nats.

    Examples
    --------
    >>> import numpy as np, ldp_kafka as lk
    >>> m = lk.mechanism("piecewise", epsilon=4.0, domain=(-1.0, 1.0))
    >>> m.perturb(np.array([-1.0, 0.0, 1.0]), lk.randomness.seeded(7)).tolist()
    [0.24609375, 0.5146484375, 1.123046875]
    >>> round(m.moments.slope, 3), round(m.certificate().epsilon_effective, 4)
    (1.0, 4.0)
    """

    def __init__(
        self, epsilon: float, domain: tuple[float, float] = (-1.0, 1.0), *, cells: int = CELLS
    ) -> None:
        super().__init__(epsilon, domain)
        self.cells = check_grid(cells)
        t = exp_below(min(self.epsilon, CAP) / 2)
        bits = 1  # a step of reports is at most a half: the middle of the domain is one
        if not 2 * t <= MOST * (t - 1):
            raise ConfigurationError(
                "epsilon is too small for the grid of 2**15 steps: at least 2e-4"
            )
        while not t * 2**bits >= self.cells * (t - 1):
            bits += 1
        ideal = 2**bits * t / (t - 1)
        steps = round(ideal)
        reach = max(round(steps / t), 1)
        if (steps + reach) % 2 == 0:  # the middle output must be the middle of the domain
            steps += 1 if ideal > steps else -1
        self._bits = bits
        self._build(steps, reach, (steps + reach - 1 - 2**bits) // 2, bits)

    def tables(self) -> tuple[int, ...]:
        """(steps of the grid, points of the window, bits of a report's step, near, far)."""
        return self._others, self._reach, self._bits, self._near, self._far
