"""Deviation feedback: each report is corrected for the noise of the reports before it."""

from __future__ import annotations

from functools import cached_property
from math import inf
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import Field, State
from ldp_kafka.mechanisms.base import Estimate, Z, check_epsilon
from ldp_kafka.mechanisms.intervals import FEW
from ldp_kafka.methods.base import FIXED
from ldp_kafka.methods.batch import Batch
from ldp_kafka.methods.contract import check_slots
from ldp_kafka.methods.deviation import SETTLED, TURNS, Deviations
from ldp_kafka.methods.estimates import Slot
from ldp_kafka.methods.perslot import PerSlot

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

    @property
    def ends(self) -> tuple[int, int]:
        """L and u."""
        return self._low, self._high

    def _aim(self, wanted: NDArray[np.int64]) -> NDArray[np.int64]:
        """What is perturbed for x + D (n,)."""
        return np.clip(wanted, self._low, self._high)

    def remembered(self, state: State, rows: NDArray[np.intp], turn: int) -> NDArray[np.int64]:
        """D (n,) in this turn; notes that these rows have reported in it."""
        raise NotImplementedError

    @property
    def turns(self) -> int:
        """Reports of a stream that differ in how far aims are from values, `TURNS` at most."""
        raise NotImplementedError

    def _remembers(self, turn: int) -> int:
        """How many reports before it one of this turn remembers, at most."""
        raise NotImplementedError

    def _depth(self, reports: int) -> int:
        """Which of its `turns` a report is like that remembers so many."""
        return reports

    def answer(self, state: State, batch: Batch, turn: int, phase: int = 0) -> NDArray[Any]:
        deviation = self.remembered(state, batch.rows, turn)
        return self._report(state, batch, deviation, phase)

    def _report(
        self, state: State, batch: Batch, deviation: NDArray[np.int64], phase: int = 0
    ) -> NDArray[Any]:
        """Answers (n,) for values and D; may use ``deviation`` up."""
        aim = self._aim(batch.values + deviation)
        inputs = (aim - self._low) / self._span
        answers = self.draw(state, batch, inputs, (batch.values, deviation), phase)
        reported = self._low + (answers * self._span).astype(np.int64)
        self._remember(state, batch, deviation, reported)
        return answers

    def _remember(
        self,
        state: State,
        batch: Batch,
        deviation: NDArray[np.int64],
        reported: NDArray[np.int64],
    ) -> None:
        """Keep D for the next turn; may use ``deviation`` up."""
        deviation += batch.values
        deviation -= reported
        state.columns["deviation"][batch.rows] = deviation

    def released(self, answers: NDArray[Any]) -> NDArray[Any]:
        lo, hi = self.domain
        return np.asarray(
            lo + (self._low + (answers * self._span).astype(np.int64)) * ((hi - lo) / FIXED)
        )

    @property
    def looks_back(self) -> int:
        return int(min(self.lasting, TURNS - 1)) * self.stride

    def crowd(self, support: NDArray[np.int64]) -> Estimate:
        """The mean of the clipped aims behind the reports. Its interval is for the mean of the
        values, in any slot of a stream that does not move.
        """
        return self._estimate(support, TURNS, None)

    def crowd_of_slot(self, support: NDArray[np.int64], slot: Slot) -> Estimate:
        """The same. Its interval holds what deviations can be in this slot, by where the slots show
        the crowd to have been that a report remembers.
        """
        turns = self._remembers(slot.number // self.stride)
        before = [slot.number - back * self.stride for back in range(1, turns + 1)]
        if slot.earlier is None:
            return self._estimate(support, self._depth(turns), (0.0, 1.0))
        earlier = [slot.earlier[at] for at in before if at in slot.earlier]
        return self._estimate(support, self._depth(turns), self._before(support, earlier))

    def _estimate(
        self, support: NDArray[np.int64], depth: int, before: tuple[float, float] | None
    ) -> Estimate:
        """The estimate of reports that remember so many others of a crowd that was between these
        levels.

        The interval has three parts: the noise of the mechanism; what users' aims differ by, since
        the deviations behind them are noise too; and how far a mean aim can be from a mean value.
        The last depends on where values lie and lay: see `Deviations`.
        """
        found: Estimate = self.mechanism.estimate_support(support)
        lo, hi = self.domain
        unit = (hi - lo) / FIXED
        value = lo + (self._low + found.value * self._span) * unit
        if not found.reports:
            return Estimate(value, inf, 0)
        if found.standard_error is None:
            return found._replace(value=value)
        low, high = self.deviations.limits(
            depth,
            self._share(found.value),
            self._noise(support, found, depth),
            before,
            normal=found.reports >= FEW,
        )
        error = (high - low) / (2 * Z) * (hi - lo)
        cut = [lo + min(max(end, 0.0), 1.0) * (hi - lo) for end in (low, high)]
        return Estimate(value, error, found.reports, (cut[0], cut[1]))

    def _share(self, given: float) -> float:
        """What the mechanism is given, as a share of the domain."""
        return (self._low + given * self._span) / FIXED

    def _noise(
        self, support: NDArray[np.int64], found: Estimate, depth: int
    ) -> tuple[float, float]:
        """How far below the estimate and above it the mean aim of users with the same streams can
        be, in lengths of the domain: the reports' noise, and what these users' aims differ by. That
        is no more than what reports vary by beyond their noise, and than what is simulated.
        """
        n, given = found.reports, found.square
        seen = self.mechanism.estimate_support(support, population=True).square
        simulated = self.deviations.spread[min(depth, self.turns - 1)] * (FIXED / self._span) ** 2
        spread = min(max(seen - given, 0.0) + given * (8 / n) ** 0.5, simulated / n)
        # an interval is cut, an error is not
        half, more, unit = Z * given**0.5, Z * Z * spread, self._span / FIXED
        low, high = found.interval()
        down, up = max(half, found.value - low), max(half, high - found.value)
        return (down * down + more) ** 0.5 * unit, (up * up + more) ** 0.5 * unit

    def _before(
        self, support: NDArray[np.int64], earlier: list[NDArray[np.int64]]
    ) -> tuple[float, float] | None:
        """Between which levels the crowd was in slots before, and in all of them together; None:
        where it is now, as far as noise can tell. A difference below its own standard error is
        taken for noise: otherwise every crowd that stands still would have an interval as wide as
        one that moves.
        """
        now: Estimate = self.mechanism.estimate_support(support)
        together = [np.sum(earlier, axis=0)] if len(earlier) > 1 else []
        ends = []
        for sums in (*earlier, *together):
            was: Estimate = self.mechanism.estimate_support(sums)
            if abs(was.value - now.value) > (now.square + was.square) ** 0.5:
                error = was.square**0.5
                ends += [self._share(was.value - error), self._share(was.value + error)]
        if not ends:
            return None
        return min(max(min(ends), 0.0), 1.0), max(min(max(ends), 1.0), 0.0)

    @cached_property
    def deviations(self) -> Deviations:
        """How far aims are from values."""
        return Deviations.of(self)

    @property
    def single_error(self) -> float:
        """Root mean square error of one released value of a stream that does not move, at the worst
        value and report of a block.
        """
        lo, hi = self.domain
        return (hi - lo) * self.deviations.error

    @property
    def feedback_bias(self) -> float:
        """How far the mean aim of a crowd is from its mean value, at most, where nothing moves; a
        share of the domain's length. For crowd means ``sw_direct`` has no such bias.
        """
        low, high = self.deviations.low[-1], self.deviations.high[-1]
        return max(-min(low), *high)

    def tables(self) -> list[int]:
        return [*super().tables(), self._low, self._high]


class IterativePerturbation(Feedback):
    """Report each value corrected for the noise of the last report: perturb x + D clipped to the
    domain, where D is the deviation of the last report alone.

    Parameters
    ----------
    epsilon, window, domain, calibration, mechanism : see `SlotMethod`

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

    @property
    def turns(self) -> int:
        return 1 + SETTLED

    def _remembers(self, turn: int) -> int:
        return min(turn, 1)

    def _depth(self, reports: int) -> int:
        return SETTLED if reports else 0  # that one remembers others

    def remembered(self, state: State, rows: NDArray[np.intp], turn: int) -> NDArray[np.int64]:
        began = state.columns["began"]
        deviation: NDArray[np.int64] = state.columns["deviation"][rows]
        deviation *= began[rows] == turn - 1
        began[rows] = turn
        return deviation

    def _remember(
        self,
        state: State,
        batch: Batch,
        deviation: NDArray[np.int64],
        reported: NDArray[np.int64],
    ) -> None:
        np.subtract(batch.values, reported, out=deviation)  # the last report's alone
        state.columns["deviation"][batch.rows] = deviation


class AccumulatedPerturbation(Feedback):
    """Report each value corrected for the noise of all reports of its block: perturb x + D clipped
    to the domain, where D is the deviation accumulated since the block began.

    Parameters
    ----------
    epsilon, window, domain, calibration, mechanism : see `SlotMethod`
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

    @property
    def turns(self) -> int:
        return min(self.block, TURNS) if self.calibration == "sound" else TURNS

    def _remembers(self, turn: int) -> int:
        return min(turn % self.block if self.calibration == "sound" else turn, TURNS - 1)

    def remembered(self, state: State, rows: NDArray[np.intp], turn: int) -> NDArray[np.int64]:
        deviation: NDArray[np.int64] = state.columns["deviation"][rows]
        if self.calibration == "sound":
            block, began = turn // self.block, state.columns["began"]
            deviation *= began[rows] == block
            began[rows] = block
        return deviation

    def tables(self) -> list[int]:
        return [*super().tables(), self.block if self.calibration == "sound" else 0]
