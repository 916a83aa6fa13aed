"""Groups of consecutive slots."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import MICRO, NEVER, Field
from ldp_kafka.mechanisms.sparse_vector import SparseVector
from ldp_kafka.mechanisms.sum_noise import SumNoise
from ldp_kafka.methods.delay.base import COMPARE, ONCE
from ldp_kafka.methods.delay.deviation import Deviating
from ldp_kafka.methods.delay.rows import ALL, Rows, Some, among
from ldp_kafka.methods.values import FIXED

__all__ = ["ContinGroup"]


class ContinGroup(Deviating):
    """Release the noisy mean of each group of consecutive slots over which the stream, as far as a
    noisy test can tell, does not move.

    Parameters
    ----------
    epsilon, delay, domain, setting, noise, smooth, contribution, window, calibration : see
        `DelayMethod`
    theta : deviation sum |x - mean| at which a group ends, in lengths of the domain, 0..2**20;
        default: epsilon of values ^-1 + noise scale of a test * log(slots in a window), with
        ``published`` 3 units of the domain

    Notes
    -----
    The paper's continuous grouping (Algorithm 6, after PeGaSus): a value joins the open group if
    the group's deviation with it is below a noisy threshold, else the group closes and the value is
    a closed group of its own. A group ends with its window at the latest: it has ``delay`` slots in
    a batch, ``delay + 1`` sliding. One part of epsilon in five, e_g, goes to the groups.

    Guarantee (``sound``). Let one value x of the stream move by at most ``reach``. (1) Values
    before x, and groups that closed before it, are tested and summed as before. (2) If x is tested
    against an open group and rejected, it is alone in its own: of all tests only that one group's
    depend on x, through the last one. If x joins or founds a group, the tests that depend on it are
    its own and those of the group's later values. Either way they share one threshold, drawn for
    that group alone and used up with its first no; each compares a deviation that x moves by less
    than 2 reaches (`Deviating`); so together they lose at most e_g (`SparseVector` with reach
    2 reaches: threshold Lap(4 reach / e_g), tests Lap(8 reach / e_g)). (3) The groups after it
    begin with values and thresholds of their own, once the answers are given. (4) Given all
    answers, x is in exactly one sum, perturbed once at the rest of epsilon; with ``noise: point``
    it is perturbed once itself. So everything that is released of the endless stream, a function of
    answers, noisy sums and public parameters, loses at most epsilon (adaptive composition).

    ``published`` has the paper's sensitivity of one reach: threshold Lap(2 reach / e_g), tests
    Lap(4 reach / e_g). By the proof above that loses up to 2 e_g; nobody has found a stream that
    loses more than e_g. It also tests the first value of a group, whose deviation is 0, as
    Algorithms 1 and 6 are printed: with a no the value is alone, and the next value is tested
    against an empty group and a new threshold. That test says nothing about the value and makes
    groups shorter, so ``sound`` has none.

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> m = lk.method("contin_group", epsilon=2000.0, delay=6, theta=0.3, domain=(0.0, 10.0))
    >>> stream = np.array([1.0, 1.0, 1.0, 9.0, 9.0, 9.0])
    >>> m.release(stream, lk.randomness.seeded(9)).round(1).tolist()
    [1.1, 1.1, 1.1, 8.5, 8.9, 8.9]
    """

    name = "contin_group"
    vector: SparseVector | None

    def prepare(self) -> None:
        span, sound = self.windows.span, self.calibration == "sound"
        queries = span - sound if span > 1 else 0
        groups, values = self._split(shaped=queries > 0 or not sound)
        self._groups = groups
        moved = 2 * self.reach if sound else self.reach
        # the noise of a test, in lengths of the domain
        scale = 4 * moved / FIXED * MICRO / groups if groups else 0.0
        middle = self._threshold(values / MICRO, scale)
        self.adder = SumNoise(values / MICRO, self.reach, self.averaged * FIXED)
        self.vector = (
            SparseVector(groups / MICRO, moved, self._widest, middle, queries) if queries else None
        )

    @property
    def reached(self) -> float:
        return self.windows.span

    @property
    def loss(self) -> float:
        return (self._values + 2 * self._groups * (self.vector is not None)) / MICRO

    def kept(self) -> dict[str, Field]:
        """The founder of the open group, and its noisy threshold."""
        return {
            **super().kept(),
            "open": Field("i8", initial=NEVER),
            "level": Field("i8"),
        }

    def take(self, window: Rows, values: NDArray[np.int64], some: Some) -> None:
        window.put("value", window.place, values, some)
        founder = self._founders(window, values, some)
        self._join(window, founder, values, some)

    def _founders(self, window: Rows, values: NDArray[np.int64], some: Some) -> NDArray[np.int64]:
        """Whose group each of the values joins; their own slot where it is alone, or the first of
        a new group.
        """
        founder = np.full(len(values), window.slot)
        if self.windows.span == 1:
            return founder
        began = window.get("open")[some]
        asked, fresh = np.flatnonzero(began != NEVER), np.flatnonzero(began == NEVER)
        whole = len(asked) == len(values)
        if len(asked):
            where = some if whole else among(window.count, some, asked)
            began, given = began[asked], values[asked]
            deviation = self._deviation(window, where, began, given)
            stays = self._stays(window, where, deviation)
            founder[asked] = np.where(stays, began, window.slot)
            window.set("open", np.where(stays, began, NEVER), where)
        if len(fresh):
            where = some if len(fresh) == len(values) else among(window.count, some, fresh)
            self._begin(window, where, len(fresh))
        return founder

    def _stays(self, window: Rows, where: Some, deviation: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which values stay in the open group."""
        vector: Any = self.vector
        level = window.get("level")[where]
        source = window.at_random(where, COMPARE, deviation, level)
        answers: NDArray[np.bool_] = vector.below(deviation, level, source)
        return answers

    def _begin(self, window: Rows, where: Some, count: int) -> None:
        """New groups open, each with a threshold of its own."""
        vector: Any = self.vector
        levels = vector.thresholds(count, window.at_random(where, ONCE))
        window.set("level", levels, where)
        founder: Any = window.slot
        if self.calibration == "published":  # a no closes the group with its first value
            stays = self._stays(window, where, np.zeros(count, np.int64))
            founder = np.where(stays, founder, NEVER)
        window.set("open", founder, where)

    def end(self, window: Rows) -> None:
        super().end(window)
        self._let_go(window)

    def _let_go(self, window: Rows) -> None:
        """The open group ends with its window."""
        if self.setting == "sliding":
            due = window.get("open") == window.slot - self.delay
            if due.any():
                window.set("open", NEVER, np.flatnonzero(due))
        elif window.slot % self.delay == self.delay - 1:
            window.set("open", NEVER, ALL)
