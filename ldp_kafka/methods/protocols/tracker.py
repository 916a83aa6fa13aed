"""Where the truth is, as all estimates so far tell: what smoothing releases."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.mechanisms.elementary import natural_exp, natural_log

__all__ = ["Tracker"]

# by how much the truth moves in a slot, one standard deviation, in lengths of the domain: a regime
# each, from a slow drift to one that crosses the domain in a window
MOVES = 2.0 ** -np.arange(1, 15)
SWITCH = 0.05  # chance that the regime is another one when the next estimate comes
LEAST = 2.0**-500  # of a variance
Floats = NDArray[np.float64]


class Tracker:
    """A Kalman filter of a truth (d,) that walks at random, in one of several regimes: what is
    known of it is a mixture of normal laws, one a regime.

    Parameters
    ----------
    value : (d,) what is expected before there is any estimate
    bounds : (lo, hi), where the truth must lie

    Notes
    -----
    In regime j the truth moves by Normal(0, length^2 MOVES[j]^2) a slot and coordinate; of
    frequencies, by 4 f (1 - f) times this variance, where f is halfway from the frequency expected
    to 1 / d: rare categories move less. With every
    estimate the regime stays what it is, or with the chance `SWITCH` is drawn again from the
    regimes seen so far: the interacting multiple model of Blom and Bar-Shalom (IEEE TAC, 1988),
    with one regime for all coordinates. A truth that stands still and then jumps changes its regime
    at the jump, where a single variance of moves would be too large for most slots and too small
    for that one. Of d frequencies that sum to one d - 1 are free: so much their likelihood counts.

    It states no error: its law of moves is learned, and a stream may do in the next slot what it
    has never done.

    Examples
    --------
    >>> tracker = Tracker(np.array([0.5]), (0.0, 1.0))
    >>> for slot in range(100):
    ...     tracker.observe(slot, np.array([0.3]), np.array([0.1]))
    >>> tracker.value.round(2).tolist()
    [0.3]
    """

    def __init__(self, value: Floats, bounds: tuple[float, float]) -> None:
        count, (lo, hi) = len(MOVES), bounds
        self._walk = ((hi - lo) * MOVES) ** 2
        self._prior, self._frequencies = value, len(value) > 1
        self._free = max(len(value) - 1, 1) / len(value)
        self._means = np.tile(value, (count, 1))
        self._variances = np.tile(np.maximum(value - lo, hi - value) ** 2, (count, 1))
        self._chances = np.full(count, 1 / count)
        self._seen = np.full(count, 1 / count)
        self._slot: int | None = None  # of the last estimate

    def observe(self, slot: int, value: Floats, error: Floats) -> None:
        """Take in an unbiased estimate (d,) and its standard errors (d,) of the slot."""
        if self._slot is not None and slot > self._slot:
            self._mix()
            self._variances = self._grown(slot - self._slot)
        self._slot = slot
        away = value - self._means
        total = np.maximum(self._variances + error**2, LEAST)
        density = -0.5 * self._free * (natural_log(total) + away**2 / total).sum(1)
        weights = self._chances * natural_exp(density - density.max())
        self._chances = weights / weights.sum()
        self._seen += self._chances
        gain = self._variances / total
        self._means += gain * away
        self._variances *= 1 - gain

    def _grown(self, slots: int) -> Floats:
        """(regimes, d) variances so many slots later."""
        moves = slots * self._walk
        if not self._frequencies:
            return np.asarray(self._variances + moves[:, None])
        near = (np.clip(self.value, 0.0, 1.0) + self._prior) / 2
        return np.asarray(self._variances + moves[:, None] * (4 * near * (1 - near)))

    def _mix(self) -> None:
        """The regime may be another one."""
        fresh = self._seen / self._seen.sum()
        moves = SWITCH * self._chances[:, None] * fresh  # (from, to)
        moves[np.diag_indices(len(moves))] += (1 - SWITCH) * self._chances
        chances = moves.sum(0)
        shares = moves / chances
        means = _mixed(shares, self._means)
        squares = _mixed(shares, self._variances + self._means**2)
        self._variances = np.maximum(squares - means**2, 0.0)
        self._means, self._chances = means, chances

    @property
    def begun(self) -> bool:
        """Whether there has been an estimate."""
        return self._slot is not None

    @property
    def value(self) -> Floats:
        """(d,) where the truth is expected."""
        return np.asarray(_mixed(self._chances[:, None], self._means)[0])

    def saved(self) -> dict[str, Any]:
        """Its state in plain lists and numbers."""
        return {
            "slot": self._slot,
            "means": self._means.tolist(),
            "variances": self._variances.tolist(),
            "chances": self._chances.tolist(),
            "seen": self._seen.tolist(),
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Take the state of another one."""
        self._slot = saved["slot"]
        self._means, self._variances = np.array(saved["means"]), np.array(saved["variances"])
        self._chances, self._seen = np.array(saved["chances"]), np.array(saved["seen"])


def _mixed(shares: Floats, values: Floats) -> Floats:
    """(to, d) of shares (from, to) and values (from, d), added up by numpy, not by a library of
    the CPU's.
    """
    return np.asarray((shares[:, :, None] * values[:, None, :]).sum(axis=0))
