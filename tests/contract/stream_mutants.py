"""Broken twins of the other methods of the CAPP paper; importing this registers them
with the rest.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ldp_kafka.accounting import NEVER, Ledger
from ldp_kafka.methods import (
    AccumulatedPerturbation,
    BudgetAbsorption,
    IterativePerturbation,
    Sampling,
    SegmentedAccumulatedPerturbation,
    ThresholdPerturbation,
)
from ldp_kafka.methods.base import FIXED, SENT, Step
from tests.contract.method_mutants import dies

# --- one deviation


class Ipp(IterativePerturbation):
    """As it is."""


@dies("loss_within_epsilon")
class IppBudgetsForTheWindowOnly(Ipp):
    @property
    def influence(self):
        return self.window

    def __init__(self, **parameters):
        super().__init__(**parameters)
        self.ledger = Ledger(self.window, self.ledger.budget)


@dies("influence_is_true")
class IppStatesTheWindowAsInfluence(Ipp):
    @property
    def guarantee(self):
        return super().guarantee._replace(influence=self.window)


@dies("ledger_holds")
class IppLedgerOverTheWindowOnly(Ipp):
    def __init__(self, **parameters):
        super().__init__(**parameters)
        self.ledger = Ledger(self.window, self.ledger.budget)


@dies("loss_within_epsilon")
class IppAddsItsDeviationsUp(Ipp):
    how: ClassVar = {"length": 6}

    def _remember(self, state, rows, values, deviation, reported):
        state.columns["deviation"][rows] = deviation + values - reported


@dies("one_context_one_input")
class IppNoiseKnowsNoDeviation(Ipp):
    def _draw(self, state, rows, slot, inputs, bound, randomness, phase=0, mechanism=None):
        return super()._draw(state, rows, slot, inputs, bound[:1], randomness, phase, mechanism)


@dies("users_are_apart")
class IppLeaksIntoTheNextRow(Ipp):
    def _remember(self, state, rows, values, deviation, reported):
        state.columns["deviation"][rows] = np.roll(values - reported, 1)


# --- accumulated deviation, by segments


class AppS(SegmentedAccumulatedPerturbation):
    """Segments of two slots, blocks of two segments."""

    how: ClassVar = {"length": 8, "draws": 4}

    def __init__(self, **parameters):
        super().__init__(segment=2, block=2, **parameters)


@dies("loss_within_epsilon")
class AppSNeverResets(AppS):
    def remembered(self, state, rows, turn):
        state.columns["began"][rows] = turn // self.block
        return super().remembered(state, rows, turn)


@dies("loss_within_epsilon")
class AppSCountsItsBlocksInWholeWindows(AppS):
    def remembered(self, state, rows, turn):
        return super().remembered(state, rows, turn // 2)


@dies("influence_is_true")
class AppSForgetsTheDeviationInItsInfluence(AppS):
    @property
    def guarantee(self):
        return super().guarantee._replace(influence=self._touched())


@dies("own_reports_are_allowed")
class AppSPlansForOneSegmentAWindow(AppS):
    def _shares(self):
        return 1

    @property
    def run(self):
        return self.window + 6


@dies("users_are_apart")
class AppSGathersForEverybody(AppS):
    def _gather(self, state, rows, turn, values):
        means = super()._gather(state, rows, turn, values)
        return np.full_like(means, int(means.mean()))


@dies("ledger_holds")
class AppSLedgerOverASegment(AppS):
    def __init__(self, **parameters):
        super().__init__(**parameters)
        self.ledger = Ledger(2, self.ledger.budget)


class Sampled(Sampling):
    """Segments of two slots."""

    how: ClassVar = {"length": 8, "draws": 4}

    def __init__(self, **parameters):
        super().__init__(segment=2, **parameters)


@dies("loss_within_epsilon")
class SampledAsIfWindowsBeganWhereSegmentsDo(Sampled):
    def _touched(self):
        return -(-self.window // self.segment)


@dies("ledger_holds")
class SampledPublishesEverySlot(Sampled):
    """The fault in the CAPP paper's code."""

    how: ClassVar = {"length": 5}

    def _step(self, state, rows, slot, values, randomness):
        self.ledger.charge(state, rows, slot, 0)
        return Step(
            self._perturb(state, rows, slot, slot, values, randomness),
            np.full(len(rows), SENT, np.uint8),
        )


@dies("loss_within_epsilon")
class SampledCarriesItsSumOn(Sampled):
    def _gather(self, state, rows, turn, values):
        return super()._gather(state, rows, turn // 2, values)


@dies("one_context_one_input")
class SampledNoiseKnowsTheLastValueOnly(Sampled):
    def step(self, state, rows, slot, values, randomness):
        self._last = values
        return super().step(state, rows, slot, values, randomness)

    def _draw(self, state, rows, slot, inputs, bound, randomness, phase=0, mechanism=None):
        return super()._draw(state, rows, slot, inputs, (self._last,), randomness, phase, mechanism)


@dies("slots_must_increase")
class SampledGathersBeforeItLooks(Sampled):
    def step(self, state, rows, slot, values, randomness):
        self._gather(state, rows, slot // 2, values)
        return super().step(state, rows, slot, values, randomness)


@dies("release_is_step")
class SampledReleasesTheMiddle(Sampled):
    def release(self, streams, randomness, **contexts):
        released = super().release(streams, randomness, **contexts)
        return np.where(np.arange(released.shape[-1]) < 3, 0.5, released)


# --- absorption


class Absorbing(BudgetAbsorption):
    """As it is."""

    how: ClassVar = {"length": 4, "draws": 8}


class _Blind(Ledger):
    """A ledger that pays for anything: the method's own rule is looked at."""

    def charge(self, state, rows, slot, cost):
        return super().charge(state, rows, slot, np.asarray(cost) * 0)


class Unwatched(Absorbing):
    """Its ledger refuses nothing, so that only its own rule keeps the budget."""

    def __init__(self, **parameters):
        super().__init__(**parameters)
        self.ledger = _Blind(self.window, self.ledger.budget)


@dies("loss_within_epsilon")
class AbsorbingNullifiesNothing(Unwatched):
    def step(self, state, rows, slot, values, randomness):
        state.columns["units"][rows] = np.minimum(state.columns["units"][rows], 1)
        return super().step(state, rows, slot, values, randomness)


@dies("loss_within_epsilon")
class AbsorbingTakesTheWholeWindowAtOnce(Unwatched):
    def step(self, state, rows, slot, values, randomness):
        reported = state.columns["reported"]
        reported[rows] = np.where(reported[rows] == NEVER, NEVER, reported[rows] - 1)
        return super().step(state, rows, slot, values, randomness)


@dies("loss_within_epsilon")
class AbsorbingTestsForNothing(Unwatched):
    """Reports spend the whole budget, as if the tests had cost none of it."""

    def _prepare(self, mechanism, budget):
        super()._prepare(mechanism, budget)
        self._by_units = [
            mechanism(2 * units * self.spend / 1e6, (0.0, 1.0))
            for units in range(1, self.window + 1)
        ]


@dies("loss_within_epsilon")
class AbsorbingTestsWithoutNoise(Unwatched):
    def _draw(self, state, rows, slot, inputs, bound, randomness, phase=0, mechanism=None):
        return (
            super()._draw(state, rows, slot, inputs, bound, randomness, phase, mechanism)
            if phase
            else np.asarray(inputs)
        )


@dies("one_context_one_input")
class AbsorbingDrawsTwiceFromOnePhase(Absorbing):
    def _draw(self, state, rows, slot, inputs, bound, randomness, phase=0, mechanism=None):
        return super()._draw(state, rows, slot, inputs, bound, randomness, 0, mechanism)


@dies("own_reports_are_allowed")
class AbsorbingPlansMoreThanItsBudget(Absorbing):
    def _prepare(self, mechanism, budget):
        super()._prepare(mechanism, 2 * budget)


# --- threshold


class Topl(ThresholdPerturbation):
    """Two reports, then the threshold."""

    how: ClassVar = {"length": 4, "alphabet": (0.0, 0.4, 1.0)}

    def __init__(self, *, mechanism, **parameters):
        super().__init__(first=2, scout=mechanism, mechanism=mechanism, **parameters)


@dies("loss_within_epsilon")
class ToplFindsItsThresholdInValues(Topl):
    def step(self, state, rows, slot, values, randomness):
        step = super().step(state, rows, slot, values, randomness)
        near = state.columns["count"][rows] == self.first
        state.columns["threshold"][rows[near]] = np.where(values[near] > FIXED // 2, 32, 16)
        return step


@dies("loss_within_epsilon")
class ToplSpendsTheBudgetInEachPhase(Topl):
    def _prepare(self, mechanism, budget):
        super()._prepare(mechanism, 2 * budget)
        self.spend //= 2


@dies("one_context_one_input")
class ToplNoiseKnowsNoThreshold(Topl):
    def _draw(self, state, rows, slot, inputs, bound, randomness, phase=0, mechanism=None):
        return super()._draw(state, rows, slot, inputs, bound[:1], randomness, phase, mechanism)


@dies("users_are_apart")
class ToplFindsOneThresholdForAll(Topl):
    def _thresholds(self, early):
        return np.full(early.shape[1], super()._thresholds(early).max())

    def _note(self, state, rows, answers):
        super()._note(state, rows, answers)
        thresholds = state.columns["threshold"][: state.count]
        thresholds[:] = thresholds.mean()


@dies("ledger_holds")
class ToplForgetsWhatItScouted(Topl):
    def step(self, state, rows, slot, values, randomness):
        if (state.columns["count"][rows] < self.first).any():
            self.ledger.budget, kept = 2**31 - 1, self.ledger.budget
            try:
                return super().step(state, rows, slot, values, randomness)
            finally:
                self.ledger.budget = kept
        return super().step(state, rows, slot, values, randomness)


@dies("loss_within_epsilon")
class ToplClampsAfterTheNoise(Topl):
    def step(self, state, rows, slot, values, randomness):
        step = super().step(state, rows, slot, values, randomness)
        return Step(np.minimum(step.answers, np.maximum(values / FIXED, 0.25)), step.status)


TWINS = (
    AccumulatedPerturbation,
    BudgetAbsorption,
    IterativePerturbation,
    Sampling,
    ThresholdPerturbation,
)
ORIGINALS = (Ipp, AppS, Sampled, Absorbing, Topl)
