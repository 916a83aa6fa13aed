"""CAPP: give back at the next slot what the noise took at the last ones."""

from __future__ import annotations

from functools import cached_property
from math import exp, fsum, inf
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import Field, State
from ldp_kafka.mechanisms.base import Estimate
from ldp_kafka.methods.base import FIXED, REFUSED, SENT, Method, Step, check_slots
from ldp_kafka.randomness import Randomness, seeded

__all__ = ["ClippedAccumulatedPerturbation", "default_block"]


def default_block(epsilon: float, window: int) -> int:
    """A block that comes near the best: the less budget, the longer the deviation is worth remembering.

    Every slot of a block costs budget (influence is window + block - 1) and gains feedback; 5 / epsilon slots, at most a window, is close to the minimum of the mean's error on the
    streams of the CAPP paper.

    Examples
    --------
    >>> default_block(0.5, 10), default_block(1.0, 10), default_block(3.0, 10)
    (10, 5, 2)
    """
    return max(1, round(min(window, 5 / epsilon)))


class ClippedAccumulatedPerturbation(Method):
    """Perturb x + D clipped to [l, u], where D is the deviation accumulated since the block began.

    Parameters
    ----------
    epsilon, window, domain, calibration, mechanism : see `Method`
    block : slots after which D starts at zero again, at absolute multiples of ``block``; ``published`` never resets

    Notes
    -----
    CAPP, Algorithm 3, with l = T, u = 1 - T, T = e_s - e_d (the paper's eq. 11 has the wrong sign; e_s and e_d are eq. 9 and 10 computed from the mechanism's own law). Guarantee: a
    change inside one run of ``window`` slots reaches the reports of those slots and, through D, those of the rest of the last block. D is a function of the values and the reports
    since the block began, so with the reports given the others do not change: window + block - 1 reports in all, each at loss <= epsilon / influence. Without resets
    (``published``) D never forgets, every later report is reached, and Theorem 3 of the paper fails for streams longer than the window: no w-event guarantee.

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> m = lk.method("capp", epsilon=1.0, window=10, domain=(0.0, 1.0))
    >>> m.block, m.guarantee.influence
    (5, 14)
    """

    name = "capp"
    parameters: ClassVar[dict[str, str]] = {"block": "slots after which the deviation starts at zero again (sound calibration); default: a closed-form choice"}

    def __init__(self, *, block: int | None = None, **parameters: Any) -> None:
        epsilon, window = parameters.get("epsilon"), parameters.get("window")
        if block is None and isinstance(epsilon, int | float) and epsilon > 0 and isinstance(window, int) and window >= 1:
            block = default_block(epsilon, window)
        self.block = check_slots(1 if block is None else block, "block")  # without one, epsilon or window is wrong and refused below
        super().__init__(**parameters)
        margin = self._margin()
        self._low, self._high = round(margin * FIXED), round((1 - margin) * FIXED)
        self._span = self._high - self._low

    @property
    def memory(self) -> float:
        return self.block - 1 if self.calibration == "sound" else inf

    @property
    def fields(self) -> dict[str, Field]:
        return {**super().fields, "deviation": Field("i8"), "began": Field("i8")}

    def step(self, state: State, rows: NDArray[np.intp], slot: int, values: NDArray[np.int64], randomness: Randomness) -> Step:
        allowed = self.ledger.spend(state, rows, slot, self.spend)
        everyone = bool(allowed.all())
        if not everyone:
            rows, values = rows[allowed], values[allowed]
        deviation = state.columns["deviation"].take(rows)
        if self.calibration == "sound":
            block, began = slot // self.block, state.columns["began"]
            deviation *= began.take(rows) == block
            began[rows] = block
        aim = np.clip(values + deviation, self._low, self._high)
        answers = self._draw(state, rows, slot, (aim - self._low) / self._span, (values, deviation), randomness)
        deviation += values
        deviation -= self._low + (answers * self._span).astype(np.int64)
        state.columns["deviation"][rows] = deviation
        if everyone:
            return Step(answers, np.full(len(rows), SENT, np.uint8))
        out = np.zeros(len(allowed))
        out[allowed] = answers
        return Step(out, np.where(allowed, SENT, REFUSED).astype(np.uint8))

    def released(self, answers: NDArray[Any]) -> NDArray[Any]:
        lo, hi = self.domain
        return np.asarray(lo + (self._low + (answers * self._span).astype(np.int64)) * ((hi - lo) / FIXED))

    def crowd(self, support: NDArray[np.int64]) -> Estimate:
        """The mean of the clipped aims behind the reports; `feedback_bias` is added to its error, since aims are not values."""
        estimate: Estimate = self.mechanism.estimate_support(support)
        lo, hi = self.domain
        unit = (hi - lo) / FIXED
        error = estimate.standard_error * self._span * unit + self.feedback_bias * (hi - lo)
        return Estimate(lo + (self._low + estimate.value * self._span) * unit, error, estimate.reports)

    @cached_property
    def single_error(self) -> float:
        """Root mean square error of one released value at the worst value and deviation: the aim may be at either end whatever the value."""
        lo, hi = self.domain
        (low, v0), _, (high, v2) = self._unit_laws()
        worst: float = max((variance + (mean - x) ** 2) ** 0.5 for x in (0.0, 1.0) for mean, variance in ((low, v0), (high, v2)))
        return (hi - lo) * worst

    @cached_property
    def feedback_bias(self) -> float:
        """How far the mean aim of a crowd is from its mean value, at most, over constant streams; a share of the domain's length, by simulation with fixed words.

        Streams that move can do worse; for crowd means ``sw_direct`` has no such bias.
        """
        levels, users, slots = np.linspace(0, 1, 5), 400, 2 * min(self.block if self.calibration == "sound" else self.window, 64)
        rows = np.arange(len(levels) * users)
        state = self.state(np.column_stack([rows, rows]).astype(np.uint64))
        values = np.repeat((levels * FIXED).astype(np.int64), users)
        worst, source = 0.0, seeded(0)
        for slot in range(slots):
            deviation = (
                np.where(state.columns["began"][rows] == slot // self.block, state.columns["deviation"][rows], 0)
                if self.calibration == "sound"
                else state.columns["deviation"][rows]
            )
            aim = np.clip(values + deviation, self._low, self._high)
            worst = max(worst, float(np.abs(((aim - values) / FIXED).reshape(len(levels), users).mean(1)).max()))
            self.step(state, rows, slot, values, source)
        return worst

    def tables(self) -> list[int]:
        return [*super().tables(), self.block if self.calibration == "sound" else 0, self._low, self._high]

    def _margin(self) -> float:
        """T: the mean shortfall of the mechanism at 1 less its spread there (CAPP, eq. 9-11, its sign as in the authors' code), to 2**-20 so that no CPU rounds it otherwise."""
        law = self.mechanism.law(1.0)
        points = [(weight / law.denominator, point) for weight, point in zip(law.weights, np.asarray(law.support, float).tolist(), strict=True)]
        mean = fsum(weight * point for weight, point in points)
        spread = fsum(weight * (point - mean) ** 2 for weight, point in points) ** 0.5
        margin = round((exp(1 - mean) - 1 - spread) * 2**20) / 2**20
        return float(min(margin, 0.45))  # leave something to aim at whatever the mechanism
