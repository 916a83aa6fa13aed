"""Noisy values held to a noisy order."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import MICRO, Field
from ldp_kafka.mechanisms.comparison import NoisyComparison
from ldp_kafka.mechanisms.sum_noise import SumNoise
from ldp_kafka.methods.delay.base import COMPARE, ONCE, VALUE, DelayMethod
from ldp_kafka.methods.delay.rows import ALL, Rows, Some, among
from ldp_kafka.methods.values import FIXED

__all__ = ["CompOrder"]


class CompOrder(DelayMethod):
    """Perturb each value, and release the middle of its bounds where it lies outside: those earlier
    releases of the window whose values a noisy comparison says are next to it.

    Parameters
    ----------
    epsilon, delay, domain, setting, smooth, contribution, window, calibration : see
        `DelayMethod`
    noise : ``point``: it has no other

    Notes
    -----
    The paper's Algorithms 3 and 4. A value is compared with those of the ``delay`` slots before it,
    in a batch with those before it in the batch. Bounds are the largest release among values said
    to be smaller, and the smallest among those said to be larger; where there is none, the end of
    the domain stands for it in the middle. Algorithm 4 looks at earlier values only, so the delay
    is not used; a release waits for its window so that it can be compared, and smoothed, like the
    others. One part of epsilon in four, e_g, goes to the comparisons.

    Guarantee (``sound``). No threshold is drawn: each comparison has noise of its own, Lap(pairs
    reach / e_g). A value x is compared with at most ``delay`` earlier ones, and at most ``delay``
    later ones are compared with it; in a batch, with the other ``delay - 1`` values of it: that is
    ``windows.pairs`` comparisons. Each compares a difference that x moves by at most ``reach``, at
    e_g / pairs: together e_g, and no other comparison depends on x. Then x itself is perturbed
    once, at the rest of epsilon. What is released follows from answers and noisy values: epsilon
    over the endless stream (composition; which comparisons are made is public).

    ``published`` has one threshold rho of Lap(4 reach / e_g) for the whole stream, and comparisons
    of Lap(8 delay reach / e_g). The paper proves it by the sparse vector technique, whose one
    threshold does not last for an endless stream; but given rho a comparison loses at most e_g / (8
    delay), which together is a quarter of e_g: what is stated.

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> m = lk.method("comp_order", epsilon=100.0, delay=3, domain=(0.0, 10.0))
    >>> m.release(np.array([1.0, 5.0, 9.0]), lk.randomness.seeded(7)).round(1).tolist()
    [0.9, 5.0, 8.5]
    """

    name = "comp_order"
    noises: ClassVar[tuple[str, ...]] = ("point",)
    share: ClassVar[int] = 4
    test: NoisyComparison | None = None
    threshold: SumNoise | None = None

    def prepare(self) -> None:
        pairs, sound = self.windows.pairs, self.calibration == "sound"
        orders, values = self._split(shaped=pairs > 0 or not sound)
        self._each = self._part_of(orders, pairs if sound else 8 * self.delay)
        self.adder = SumNoise(values / MICRO, self.reach, FIXED)
        if pairs:
            self.test = NoisyComparison(self._each, self.reach, -FIXED, FIXED)
        if not sound:
            self.threshold = SumNoise(orders / MICRO / 4, self.reach, 0)

    @property
    def reached(self) -> float:
        return 1 + self.windows.pairs

    @property
    def loss(self) -> float:
        return self._values / MICRO + self.windows.pairs * self._each

    def kept(self) -> dict[str, Field]:
        own = {**super().kept(), "value": Field("i8", self.windows.span)}
        if self.threshold is None:
            return own
        return {**own, "rho": Field("i8"), "has_rho": Field("?")}

    def take(self, window: Rows, values: NDArray[np.int64], some: Some) -> None:
        window.put("value", window.place, values, some)
        low, high = np.full(len(values), -np.inf), np.full(len(values), np.inf)
        rho = self._rho(window, some)
        for back in range(1, self._earlier(window.slot) + 1):
            place = (window.slot - back) % self.windows.span
            asked = np.flatnonzero(window.at("known", place)[some])
            if not len(asked):
                continue
            where: Some = ALL if len(asked) == window.count else among(window.count, some, asked)
            difference = values[asked] - window.at("value", place)[where] - rho[asked]
            test: Any = self.test
            source = window.at_random(where, COMPARE + back - 1, difference)
            above = test.above(difference, source)
            earlier = np.clip(window.at("release", place)[where], 0.0, 1.0)
            low[asked] = np.maximum(low[asked], np.where(above, earlier, -np.inf))
            high[asked] = np.minimum(high[asked], np.where(above, np.inf, earlier))
        noisy = self.adder.perturb(values, window.at_random(some, VALUE, values)) / FIXED
        middle = (np.maximum(low, 0.0) + np.minimum(high, 1.0)) / 2
        released = np.where((noisy < low) | (noisy > high), middle, noisy)
        self.keep(window, window.place, released, self.adder.variance / FIXED**2, some)

    def _earlier(self, slot: int) -> int:
        """How many slots before this one it is compared with."""
        return self.delay if self.setting == "sliding" else slot % self.delay

    def _rho(self, window: Rows, some: Some) -> NDArray[np.int64]:
        """The threshold of each stream: 0, or published the one that is drawn with its first
        value.
        """
        if self.threshold is None:
            return np.zeros(window.size(some), np.int64)
        fresh = np.flatnonzero(~window.get("has_rho")[some])
        if len(fresh):
            where = among(window.count, some, fresh)
            nothing = np.zeros(len(fresh), np.int64)
            drawn = self.threshold.perturb(nothing, window.at_random(where, ONCE))
            window.set("rho", drawn, where)
            window.set("has_rho", True, where)
        return window.get("rho")[some]
