"""The baseline: noise on every value."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import MICRO
from ldp_kafka.mechanisms.sum_noise import SumNoise
from ldp_kafka.methods.delay.base import VALUE, DelayMethod
from ldp_kafka.methods.delay.rows import Rows, Some
from ldp_kafka.methods.values import FIXED

__all__ = ["Naive"]


class Naive(DelayMethod):
    """Add Laplace noise of scale domain / epsilon to each value, and clip.

    Parameters
    ----------
    epsilon, delay, domain, setting, noise, smooth, contribution, window, calibration : see
        `DelayMethod`

    Notes
    -----
    The paper's baseline, clipped to the domain, which the paper does not do: that alone makes its
    error at epsilon 0.1 twenty times smaller. It needs no delay; it is released with its window so
    that it can be smoothed by it.

    Guarantee: each value is perturbed once, by itself, at epsilon; a changed value reaches no other
    draw. Both calibrations are the same.

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> m = lk.method("naive", epsilon=30.0, delay=2, domain=(0.0, 10.0))
    >>> m.release(np.array([1.0, 5.0, 9.0]), lk.randomness.seeded(7)).round(1).tolist()
    [1.1, 4.8, 8.0]
    """

    name = "naive"
    noises: ClassVar[tuple[str, ...]] = ("point",)

    def prepare(self) -> None:
        self.adder = SumNoise(self.spend / MICRO, self.reach, FIXED)

    def take(self, window: Rows, values: NDArray[np.int64], some: Some) -> None:
        noisy = self.adder.perturb(values, window.at_random(some, VALUE, values))
        self.keep(window, window.place, noisy / FIXED, self.adder.variance / FIXED**2, some)

    @property
    def reason(self) -> None:
        return None
