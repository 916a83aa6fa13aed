"""PeGaSus with the windows of this package, releasing at once or with the delay."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import Field
from ldp_kafka.methods.delay.base import VALUE
from ldp_kafka.methods.delay.contin import ContinGroup
from ldp_kafka.methods.delay.rows import Rows, Some
from ldp_kafka.methods.values import FIXED

__all__ = ["Pegasus", "PegasusDelay"]


class PegasusDelay(ContinGroup):
    """Perturb each value, and release for all slots of a group of consecutive ones the mean of
    their noisy values.

    Parameters
    ----------
    epsilon, delay, domain, setting, smooth, contribution, window, calibration : see
        `DelayMethod`
    noise : ``point``: it has no other
    theta : see `ContinGroup`

    Notes
    -----
    What the paper calls PeGaSuS_Delay: PeGaSus (Chen et al., CCS 2017) whose smoother waits for the
    whole group. As each group ends with its window it is `ContinGroup` with ``noise: point``. The
    guarantee, and what ``published`` means, are that one's.

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> m = lk.method("pegasus_delay", epsilon=200.0, delay=6, theta=0.3, domain=(0.0, 10.0))
    >>> stream = np.array([1.0, 1.0, 1.0, 9.0, 9.0, 9.0])
    >>> m.release(stream, lk.randomness.seeded(9)).round(1).tolist()
    [1.0, 1.0, 1.0, 9.1, 9.0, 9.0]
    """

    name = "pegasus_delay"
    noises: ClassVar[tuple[str, ...]] = ("point",)


class Pegasus(PegasusDelay):
    """Perturb each value, and release for each slot the mean of the noisy values of its group so
    far.

    Parameters
    ----------
    epsilon, delay, domain, setting, smooth, contribution, window, calibration : see
        `DelayMethod`
    noise : ``point``: it has no other
    theta : see `ContinGroup`

    Notes
    -----
    PeGaSus (Chen et al., CCS 2017; the paper's Algorithm 1) with the averaging smoother, which
    needs no delay; a group ends with its window, so that the state of a stream is bounded. It is
    released with its window so that it can be compared, and smoothed, like the others. The
    guarantee, and what ``published`` means, are those of `ContinGroup`.

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> m = lk.method("pegasus", epsilon=200.0, delay=6, theta=0.3, domain=(0.0, 10.0))
    >>> stream = np.array([1.0, 1.0, 1.0, 9.0, 9.0, 9.0])
    >>> m.release(stream, lk.randomness.seeded(9)).round(1).tolist()
    [1.0, 1.0, 1.0, 9.1, 8.9, 9.0]
    """

    name = "pegasus"

    def kept(self) -> dict[str, Field]:
        """The sum of the open group's noisy values, and their number."""
        return {**super().kept(), "sum": Field("i8"), "size": Field("i8")}

    def _join(
        self, window: Rows, founder: NDArray[np.int64], values: NDArray[np.int64], some: Some
    ) -> None:
        window.put("founder", window.place, founder, some)
        stays = founder != window.slot
        total = np.where(stays, window.get("sum")[some], 0)
        size = np.where(stays, window.get("size")[some], 0)
        rest, where = self._unsampled(window, stays, some)
        noisy = self.adder.perturb(values[rest], window.at_random(where, VALUE, values[rest]))
        total[rest] += noisy
        size[rest] += 1
        window.set("sum", total, some)
        window.set("size", size, some)
        variance = self.adder.variance / FIXED**2 / size
        released = total / (size * FIXED)
        if self.median:
            window.put("noisy", window.place, noisy, where)
            released = self._median(window, founder, some)
        self.keep(window, window.place, released, variance, some)

    def end(self, window: Rows) -> None:
        self._let_go(window)  # every value was perturbed when it came
