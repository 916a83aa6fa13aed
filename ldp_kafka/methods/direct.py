"""The baseline: every slot perturbed by itself."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import State
from ldp_kafka.methods.base import FIXED, REFUSED, SENT, Method, Step
from ldp_kafka.randomness import Randomness

__all__ = ["Direct"]


class Direct(Method):
    """Perturb each value by itself at epsilon / window.

    Parameters
    ----------
    epsilon, window, domain, calibration, mechanism : see `Method`

    Notes
    -----
    SW-direct of CAPP, section III-B (there with a window's budget divided evenly). Guarantee: memory 0, so a change inside one window reaches the reports of its own slots only,
    at most ``window`` of them, each at loss epsilon / window. Both calibrations are the same.

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> m = lk.method("sw_direct", epsilon=30.0, window=3, domain=(0.0, 10.0))
    >>> m.release(np.array([1.0, 5.0, 9.0]), lk.randomness.seeded(7)).round(2).tolist()
    [1.0, 5.0, 8.98]
    """

    name = "sw_direct"

    def step(self, state: State, rows: NDArray[np.intp], slot: int, values: NDArray[np.int64], randomness: Randomness) -> Step:
        allowed = self.ledger.spend(state, rows, slot, self.spend)
        if allowed.all():
            return Step(self._draw(state, rows, slot, values / FIXED, (values,), randomness), np.full(len(rows), SENT, np.uint8))
        answers = np.zeros(len(rows))
        answers[allowed] = self._draw(state, rows[allowed], slot, values[allowed] / FIXED, (values[allowed],), randomness)
        return Step(answers, np.where(allowed, SENT, REFUSED).astype(np.uint8))
