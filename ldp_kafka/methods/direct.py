"""The baselines: every slot perturbed by itself."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from ldp_kafka.accounting import State
from ldp_kafka.methods.base import FIXED
from ldp_kafka.methods.batch import Batch
from ldp_kafka.methods.cover import Covering
from ldp_kafka.methods.perslot import PerSlot

__all__ = ["Direct", "PiecewiseDirect"]


class Direct(Covering, PerSlot):
    """Perturb each value by itself at epsilon / window.

    Parameters
    ----------
    epsilon, window, domain, calibration, mechanism : see `SlotMethod`
    cover : see `Covering`

    Notes
    -----
    SW-direct of CAPP, section III-B (there with a window's budget divided evenly). Guarantee:
    memory 0, so a change inside one window reaches the reports of its own slots only, at most
    ``window`` of them, each at loss epsilon / window. Both calibrations are the same.

    Examples
    --------
    >>> import numpy as np, ldp_kafka as lk
    >>> m = lk.method("sw_direct", epsilon=30.0, window=3, domain=(0.0, 10.0))
    >>> m.release(np.array([1.0, 5.0, 9.0]), lk.randomness.seeded(7)).round(2).tolist()
    [1.0, 5.0, 8.98]
    """

    name = "sw_direct"

    def answer(self, state: State, batch: Batch, turn: int, phase: int = 0) -> NDArray[Any]:
        del turn  # a value is perturbed by itself
        return self.draw(state, batch, batch.values / FIXED, (batch.values,), phase)


class PiecewiseDirect(Direct):
    """Perturb each value by itself at epsilon / window, by the Piecewise Mechanism.

    Parameters
    ----------
    epsilon, window, domain, calibration, mechanism : see `SlotMethod`
    cover : see `Covering`

    Notes
    -----
    What the CAPP paper's Table I calls ToPL: its authors' code runs the plain Piecewise Mechanism
    at epsilon / window. Kept to reproduce that table; the real ToPL is ``topl``. Guarantee: that of
    `Direct`.

    Examples
    --------
    >>> import numpy as np, ldp_kafka as lk
    >>> m = lk.method("pm_direct", epsilon=30.0, window=3, domain=(0.0, 10.0))
    >>> stream = np.array([1.0, 5.0, 9.0])
    >>> bool(np.abs(m.release(stream, lk.randomness.seeded(7)) - stream).max() < 1)
    True
    """

    name = "pm_direct"
    default_mechanism = "piecewise"
