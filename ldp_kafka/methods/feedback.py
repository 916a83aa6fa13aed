"""Deviation feedback: each report is corrected for the noise of the reports before it."""

from __future__ import annotations

from functools import cached_property
from math import inf
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import Field, State
from ldp_kafka.mechanisms.base import Estimate, check_epsilon
from ldp_kafka.methods.base import FIXED, check_slots
from ldp_kafka.methods.perslot import PerSlot
from ldp_kafka.randomness import Randomness, seeded

__all__ = ["AccumulatedPerturbation", "Feedback", "IterativePerturbation", "default_block"]


def default_block(epsilon: float, window: int) -> int:
    """A block that comes near the best: the less budget, the longer the deviation is worth
    remembering.

    Every slot of a block costs budget (influence is window + block - 1) and gains feedback; 5 /
    epsilon slots, at most a window, is close to the minimum of the mean's error on the streams of
    the CAPP paper.

    Examples
    --------
    >>> default_block(0.5, 10), default_block(1.0, 10), default_block(3.0, 10)
    (10, 5, 2)
    """
    return max(1, round(min(window, 5 / epsilon)))


class Feedback(PerSlot):
    """Perturb x + D, clipped to [l, u], where D is the sum of some of the last deviations x - x'.

    All in integers: values, D, l and u in units of 2**-32 of the domain, so that a replay on any
    CPU finds the same aim.
    """

    @property
    def fields(self) -> dict[str, Field]:
        return {**super().fields, "deviation": Field("i8"), "began": Field("i8", initial=-1)}

    def _ends(self) -> tuple[float, float]:
        """L and u, shares of the domain's length."""
        return 0.0, 1.0

    def _given(self, value: float) -> float:
        return min(max((value * FIXED - self._low) / self._span, 0.0), 1.0)

    @cached_property
    def _low(self) -> int:
        return round(self._ends()[0] * FIXED)

    @cached_property
    def _high(self) -> int:
        return round(self._ends()[1] * FIXED)

    @cached_property
    def _span(self) -> int:
        return self._high - self._low

    def _remembered(self, state: State, rows: NDArray[np.intp], turn: int) -> NDArray[np.int64]:
        """D (n,) in this turn; notes that these rows have reported in it."""
        raise NotImplementedError

    def _perturb(
        self,
        state: State,
        rows: NDArray[np.intp],
        slot: int,
        turn: int,
        values: NDArray[np.int64],
        randomness: Randomness,
        phase: int = 0,
    ) -> NDArray[Any]:
        deviation = self._remembered(state, rows, turn)
        aim = np.clip(values + deviation, self._low, self._high)
        answers = self._draw(
            state,
            rows,
            slot,
            (aim - self._low) / self._span,
            (values, deviation),
            randomness,
            phase,
        )
        self._remember(
            state, rows, values, deviation, self._low + (answers * self._span).astype(np.int64)
        )
        return answers

    def _remember(
        self,
        state: State,
        rows: NDArray[np.intp],
        values: NDArray[np.int64],
        deviation: NDArray[np.int64],
        reported: NDArray[np.int64],
    ) -> None:
        """Keep D for the next turn; may use ``deviation`` up."""
        deviation += values
        deviation -= reported
        state.columns["deviation"][rows] = deviation

    def released(self, answers: NDArray[Any]) -> NDArray[Any]:
        lo, hi = self.domain
        return np.asarray(
            lo + (self._low + (answers * self._span).astype(np.int64)) * ((hi - lo) / FIXED)
        )

    def crowd(self, support: NDArray[np.int64]) -> Estimate:
        """The mean of the clipped aims behind the reports; `feedback_bias` is added to its error,
        since aims are not values.
        """
        estimate: Estimate = self.mechanism.estimate_support(support)
        lo, hi = self.domain
        unit = (hi - lo) / FIXED
        error = estimate.standard_error * self._span * unit + self.feedback_bias * (hi - lo)
        return Estimate(
            lo + (self._low + estimate.value * self._span) * unit, error, estimate.reports
        )

    @cached_property
    def single_error(self) -> float:
        """Root mean square error of one released value at the worst value and deviation: the aim
        may be at either end whatever the value.
        """
        lo, hi = self.domain
        (low, v0), _, (high, v2) = self._unit_laws()
        worst: float = max(
            (variance + (mean - x) ** 2) ** 0.5
            for x in (0.0, 1.0)
            for mean, variance in ((low, v0), (high, v2))
        )
        return (hi - lo) * worst

    @cached_property
    def feedback_bias(self) -> float:
        """How far the mean aim of a crowd is from its mean value, at most, over constant streams; a
        share of the domain's length, by simulation with fixed words.

        Streams that move can do worse; for crowd means ``sw_direct`` has no such bias.
        """
        levels, users = np.linspace(0, 1, 5), 400
        turns = 2 * min(int(self.lasting) + 1 if self.lasting != inf else self.window, 64)
        rows = np.arange(len(levels) * users)
        state = self.state(np.column_stack([rows, rows]).astype(np.uint64))
        values = np.repeat((levels * FIXED).astype(np.int64), users)
        worst, source = 0.0, seeded(0)
        for turn in range(turns):
            aim = np.clip(values + self._remembered(state, rows, turn), self._low, self._high)
            worst = max(
                worst,
                float(np.abs(((aim - values) / FIXED).reshape(len(levels), users).mean(1)).max()),
            )
            self._perturb(state, rows, turn, turn, values, source)
        return worst

    def tables(self) -> list[int]:
        return [*super().tables(), self._low, self._high]


class IterativePerturbation(Feedback):
    """Report each value corrected for the noise of the last report: perturb x + D clipped to the
    domain, where D is the deviation of the last report alone.

    Parameters
    ----------
    epsilon, window, domain, calibration, mechanism : see `Method`

    Notes
    -----
    IPP of CAPP, section III-B. Guarantee: a report depends on its own value and on that of the slot
    before (D is x - x' of that slot, and nothing where the user did not report in it), so a change
    inside one window reaches the reports of its slots and of one more: influence window + 1, memory
    1, each report at loss epsilon / (window + 1). ``published`` spends epsilon / window a report,
    and so keeps epsilon (window + 1) / window.

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> m = lk.method("ipp", epsilon=1.0, window=10, domain=(0.0, 1.0))
    >>> m.guarantee.influence
    11
    """

    name = "ipp"

    @property
    def lasting(self) -> float:
        return 1

    def _remembered(self, state: State, rows: NDArray[np.intp], turn: int) -> NDArray[np.int64]:
        began = state.columns["began"]
        deviation: NDArray[np.int64] = state.columns["deviation"][rows]
        deviation *= began[rows] == turn - 1
        began[rows] = turn
        return deviation

    def _remember(
        self,
        state: State,
        rows: NDArray[np.intp],
        values: NDArray[np.int64],
        deviation: NDArray[np.int64],
        reported: NDArray[np.int64],
    ) -> None:
        np.subtract(values, reported, out=deviation)  # the last report's alone
        state.columns["deviation"][rows] = deviation


class AccumulatedPerturbation(Feedback):
    """Report each value corrected for the noise of all reports of its block: perturb x + D clipped
    to the domain, where D is the deviation accumulated since the block began.

    Parameters
    ----------
    epsilon, window, domain, calibration, mechanism : see `Method`
    block : slots after which D starts at zero again, at absolute multiples of ``block``;
        ``published`` never resets

    Notes
    -----
    APP of CAPP, Algorithm 1. Guarantee: a change inside one run of ``window`` slots reaches the
    reports of those slots and, through D, those of the rest of the last block. D is a function of
    the values and the reports since the block began, so with the reports given the others do not
    change: window + block - 1 reports in all, each at loss <= epsilon / influence. Without resets
    (``published``) D never forgets, every later report is reached, and Theorem 3 of the paper fails
    for streams longer than the window: no w-event guarantee.

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> m = lk.method("app", epsilon=1.0, window=10, domain=(0.0, 1.0))
    >>> m.block, m.guarantee.influence
    (5, 14)
    >>> settings = {"epsilon": 1.0, "window": 10, "domain": (0.0, 1.0)}
    >>> lk.method("app", calibration="published", **settings).guarantee.epsilon
    inf
    """

    name = "app"
    parameters: ClassVar[dict[str, str]] = {
        "block": (
            "slots after which the deviation starts at zero again (sound calibration); default: a"
            " closed-form choice"
        )
    }

    def __init__(self, *, block: int | None = None, **parameters: Any) -> None:
        if block is None:
            block = self._default_block(
                check_epsilon(parameters.get("epsilon")),
                check_slots(parameters.get("window"), "window"),
            )
        self.block = check_slots(block, "block")
        super().__init__(**parameters)

    def _default_block(self, epsilon: float, window: int) -> int:
        return default_block(epsilon, window)

    @property
    def lasting(self) -> float:
        return self.block - 1 if self.calibration == "sound" else inf

    def _remembered(self, state: State, rows: NDArray[np.intp], turn: int) -> NDArray[np.int64]:
        deviation: NDArray[np.int64] = state.columns["deviation"][rows]
        if self.calibration == "sound":
            block, began = turn // self.block, state.columns["began"]
            deviation *= began[rows] == block
            began[rows] = block
        return deviation

    def tables(self) -> list[int]:
        return [*super().tables(), self.block if self.calibration == "sound" else 0]
