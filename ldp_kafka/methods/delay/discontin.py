"""Groups of any slots of a window."""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import MICRO, Field
from ldp_kafka.mechanisms.comparison import NoisyComparison
from ldp_kafka.mechanisms.sum_noise import SumNoise
from ldp_kafka.methods.delay.base import COMPARE, ONCE
from ldp_kafka.methods.delay.deviation import Deviating
from ldp_kafka.methods.delay.rows import ALL, Rows, Some, among
from ldp_kafka.methods.values import FIXED

__all__ = ["DiscontinGroup"]

ROOM = 12  # noise scales from the middle that a published threshold is held within


class DiscontinGroup(Deviating):
    """Release the noisy mean of each group of similar values of a window, wherever in it they are.

    Parameters
    ----------
    epsilon, delay, domain, setting, noise, smooth, contribution, window, calibration : see
        `DelayMethod`
    theta : deviation sum |x - mean| up to which a value joins a group, in lengths of the domain,
        0..2**20; default: epsilon of values ^-1 + noise scale of a test * log(slots in a window),
        with ``published`` 3 units of the domain

    Notes
    -----
    The paper's Algorithm 2: a value is tested against each open group, the oldest first; it joins
    the first whose deviation with it is below the threshold, as far as a noisy test can tell, else
    it founds one. One part of epsilon in five, e_g, goes to the groups.

    Guarantee (``sound``). The threshold is free of noise; each test has its own, at e_g / pairs for
    a deviation that one value moves by less than 2 reaches (`Deviating`). Let one value x move, and
    let all earlier answers be given. (1) Tests that do not involve x, neither as the value tested
    nor as a member of the group tested against, compare what they did before. (2) Those that do:
    x's own, at most one for each open group, and those of later values against the group that x is
    in. In a batch of ``delay`` slots, x at place i meets at most i groups, each of which has a
    founder before it, and then at most one test of each of the ``delay - 1 - i`` values after it:
    ``delay - 1`` in all. Sliding, a group closes ``delay`` slots after its founder: x meets the
    groups of the ``delay`` slots before it, and then the values of at most ``delay`` slots after
    it: 2 ``delay``. That is ``windows.pairs`` tests: together e_g. (3) Given all answers, x is in
    exactly one sum, at the rest of epsilon. All that is released follows from answers and noisy
    sums: epsilon over the endless stream (adaptive composition).

    ``published`` shares noisy thresholds, one for each group: threshold Lap(2 (2 delay - 1) reach /
    e_g), tests Lap(4 (2 delay - 1) reach / e_g). Given the thresholds a test loses at most e_g / (2
    (2 delay - 1)) for the true sensitivity of 2 reaches, so what is stated is pairs times that: the
    paper's own noise is safe, and four times as much as is needed.

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> m = lk.method("discontin_group", epsilon=2000.0, delay=6, theta=0.3, domain=(0.0, 10.0))
    >>> stream = np.array([1.0, 9.0, 1.0, 9.0, 1.0, 9.0])
    >>> m.release(stream, lk.randomness.seeded(9)).round(1).tolist()
    [1.1, 9.0, 1.1, 9.0, 1.1, 9.0]
    """

    name = "discontin_group"
    test: NoisyComparison | None = None
    threshold: SumNoise | None = None

    def prepare(self) -> None:
        pairs, sound = self.windows.pairs, self.calibration == "sound"
        groups, values = self._split(shaped=pairs > 0 or not sound)
        parts = pairs if sound else 2 * self.delay - 1
        each = self._each = self._part_of(groups, parts)
        moved = 2 * self.reach if sound else self.reach
        # the noise of a test, in lengths of the domain
        scale = (1 if sound else 4) * moved / FIXED / each if each else 0.0
        self._middle = self._threshold(values / MICRO, scale)
        self.adder = SumNoise(values / MICRO, self.reach, self.averaged * FIXED)
        if not pairs:
            return
        room = 0 if sound else ceil(ROOM * 2 * moved / each)
        low, high = self._middle - self._widest - room, self._middle + room
        self.test = NoisyComparison(each if sound else each / 4, moved, low, high)
        if not sound:
            # the same scale, with a reach that its table can be made for
            times = max(1, ceil(2e-3 / each))
            self.threshold = SumNoise(times * each / 2, times * moved, 0)

    @property
    def reached(self) -> float:
        return 1 + self.windows.pairs

    @property
    def loss(self) -> float:
        return self._values / MICRO + self.windows.pairs * self._each / 2

    def kept(self) -> dict[str, Field]:
        """The founders of open groups, oldest first, as a queue: where it begins, and how many
        there are; published: the noisy threshold of each founder's group.
        """
        own = {
            **super().kept(),
            "queue": Field("i8", self.windows.span),
            "head": Field("i8"),
            "groups": Field("i8"),
        }
        return own if self.threshold is None else {**own, "level": Field("i8", self.windows.span)}

    def take(self, window: Rows, values: NDArray[np.int64], some: Some) -> None:
        span, slot = self.windows.span, window.slot
        window.put("value", window.place, values, some)
        head, groups = window.get("head")[some], window.get("groups")[some]
        founder, queue = np.full(len(values), slot), window.ring("queue")
        left, turn = np.arange(len(values)), 0
        while self.windows.pairs:
            left = left[groups[left] > turn]
            if not len(left):
                break
            whole = len(left) == window.count
            where: Some = ALL if whole else among(window.count, some, left)
            columns = among(window.count, where)
            other = queue[(head[left] + turn) % span, columns]
            deviation = self._deviation(window, where, other, values[left])
            joins = self._joins(window, turn, where, other, deviation)
            founder[left[joins]] = other[joins]
            left = left[~joins]
            turn += 1
        alone = np.flatnonzero(founder == slot)
        if len(alone):
            where = among(window.count, some, alone)
            queue[(head[alone] + groups[alone]) % span, where] = slot
            window.set("groups", groups[alone] + 1, where)
            if self.threshold is not None:
                nothing = np.zeros(len(alone), np.int64)
                levels = self.threshold.perturb(nothing, window.at_random(where, ONCE))
                window.put("level", window.place, levels, where)
        self._join(window, founder, values, some)

    def _joins(
        self,
        window: Rows,
        turn: int,
        where: Some,
        founder: NDArray[np.int64],
        deviation: NDArray[np.int64],
    ) -> NDArray[np.bool_]:
        """Which values join these groups, the ``turn``-th that they are tested against."""
        test: Any = self.test
        threshold: int | NDArray[np.int64] = self._middle
        if self.threshold is not None:
            columns = among(window.count, where)
            threshold = threshold + window.ring("level")[founder % self.windows.span, columns]
        difference = threshold - deviation
        source = window.at_random(where, COMPARE + turn, difference)
        answers: NDArray[np.bool_] = test.above(difference, source)
        return answers

    def end(self, window: Rows) -> None:
        if self.setting == "sliding":
            closing = window.at("count", (window.slot - self.delay) % self.windows.span) > 0
            if closing.any():  # the oldest is the first of the queue
                window.set("head", (window.get("head") + closing) % self.windows.span)
                window.set("groups", window.get("groups") - closing)
        elif window.slot % self.delay == self.delay - 1:
            window.set("head", 0)
            window.set("groups", 0)
        super().end(window)
