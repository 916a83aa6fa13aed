"""Broken twins of methods: each has one fault that would cost privacy, truth or repeatability, and
the check of the contract that must find it.
"""

from __future__ import annotations

import numpy as np

from ldp_kafka.accounting import Ledger
from ldp_kafka.methods import ClippedAccumulatedPerturbation, Direct, PopulationUniform
from ldp_kafka.methods.base import FIXED, REFUSED, SENT, Step
from ldp_kafka.randomness import system
from tests.contract.deaf import Deaf

METHOD_MUTANTS: dict[type, str] = {}
"""Class -> name of the check."""


def dies(check):
    """Register a mutant under the check that must kill it."""

    def register(mutant):
        METHOD_MUTANTS[mutant] = check
        return mutant

    return register


# --- direct


class _Generous(Ledger):
    """A ledger that pays for anything."""

    def charge(self, state, rows, slot, cost):
        return super().charge(state, rows, slot, np.asarray(cost) * 0)


@dies("loss_within_epsilon")
class DirectSpendsAWindowASlot(Direct):
    def __init__(self, **parameters):
        super().__init__(**parameters)
        self.ledger = _Generous(self.window, self.spend)

    def _shares(self):
        return 1


@dies("own_reports_are_allowed")
class DirectPlansMoreThanItsBudget(Direct):
    def _shares(self):
        return max(1, self.window - 1)


@dies("one_context_one_input")
class DirectNoiseKnowsNoInput(Direct):
    def _step(self, state, rows, slot, values, randomness):
        allowed = self.ledger.charge(state, rows, slot, self.spend)
        answers = np.zeros(len(rows))
        answers[allowed] = self._draw(
            state, rows[allowed], slot, values[allowed] / FIXED, (), randomness
        )
        return Step(answers, np.where(allowed, SENT, REFUSED))


@dies("noise_is_its_own")
class DirectNoiseKnowsNoName(Direct):
    use = b"somebody's"


@dies("noise_is_its_own")
class DirectNoiseKnowsNoBudget(Direct):
    use = b"somebody's"

    def _draw(self, state, rows, slot, inputs, bound, randomness, phase=0):
        return super()._draw(state, rows, slot, inputs, bound, Deaf(randomness), phase)


@dies("noise_is_keyed")
class DirectNoiseKnowsNoSlot(Direct):
    def _draw(self, state, rows, slot, inputs, bound, randomness, phase=0):
        return super()._draw(state, rows, 0, inputs, bound, randomness, phase)


@dies("noise_is_keyed")
class DirectNoiseKnowsNoUser(Direct):
    def _draw(self, state, rows, slot, inputs, bound, randomness, phase=0):
        numbered = self.state(
            np.column_stack([state.users[: len(rows), 0], rows]).astype(np.uint64)
        )
        return super()._draw(numbered, np.arange(len(rows)), slot, inputs, bound, randomness, phase)


@dies("noise_is_keyed")
class DirectDrawsAgainOnReplay(Direct):
    def _draw(self, state, rows, slot, inputs, bound, randomness, phase=0):
        return self.mechanism.perturb(inputs, system())


@dies("values_are_checked")
class DirectLetsNanIn(Direct):
    def bound(self, values):
        return super().bound(np.nan_to_num(values, nan=0.5))


@dies("values_are_checked")
class DirectDoesNotClamp(Direct):
    def bound(self, values):
        if not np.isfinite(values).all():
            raise ValueError("values must be finite")
        return (np.asarray(values) * FIXED).astype(np.int64)


@dies("loss_within_epsilon")
class DirectLeavesTheTruthInLowBits(Direct):
    def step(self, state, rows, slot, values, randomness):
        answers, status, _ = super().step(state, rows, slot, values, randomness)
        return Step(answers + values * 2.0**-80, status)


@dies("ledger_holds")
class DirectLedgerForgetsAfterASlot(Direct):
    def __init__(self, **parameters):
        super().__init__(**parameters)
        self.ledger = Ledger(1, self.ledger.budget)


@dies("ledger_holds")
class DirectRoundsTheBudgetUp(Direct):
    def __init__(self, **parameters):
        super().__init__(**parameters)
        self.ledger = Ledger(self.window, self.ledger.budget * 2 + 1)


@dies("ledger_holds")
class DirectDrawsBeforeItAsks(Direct):
    def _step(self, state, rows, slot, values, randomness):
        answers = self._draw(state, rows, slot, values / FIXED, (values,), randomness)
        allowed = self.ledger.charge(state, rows, slot, self.spend)
        return Step(np.where(allowed, answers, 0), np.where(allowed, SENT, REFUSED))


@dies("slots_must_increase")
class DirectChargesBeforeItChecks(Direct):
    """Writes the slot down before it looks whether it may."""

    def step(self, state, rows, slot, values, randomness):
        ring = state.columns["ring"][slot % self.window]
        ring[rows] += self.spend
        if (slot <= state.columns["last"][rows]).any():
            raise ValueError("a user's slots must increase")
        ring[rows] -= self.spend
        return super().step(state, rows, slot, values, randomness)


@dies("slots_must_increase")
class DirectPaysForASlotTwice(Direct):
    """Pays for a slot as often as it is asked."""

    def step(self, state, rows, slot, values, randomness):
        state.columns["last"][rows] = np.minimum(state.columns["last"][rows], slot - 1)
        return super().step(state, rows, slot, values, randomness)


@dies("slots_must_increase")
class DirectLeavesTheOrderToItsLedger(Direct):
    """A ledger adds up what it is asked for, in whatever order: it refuses no repeat."""

    def step(self, state, rows, slot, values, randomness):
        return self._step(state, rows, slot, values, randomness)


@dies("users_are_apart")
class DirectCentresOnTheCrowd(Direct):
    def step(self, state, rows, slot, values, randomness):
        return super().step(state, rows, slot, (values + int(values.mean())) // 2, randomness)


@dies("release_is_step")
class DirectReleasesSmoothly(Direct):
    def release(self, streams, randomness, **contexts):
        released = super().release(streams, randomness, **contexts)
        return np.round(released, 2)


# --- capp


class Capp(ClippedAccumulatedPerturbation):
    """With blocks of two slots unless told."""

    def __init__(self, *, block=2, **parameters):
        super().__init__(block=block, **parameters)


@dies("loss_within_epsilon")
class CappNeverResets(Capp):
    def step(self, state, rows, slot, values, randomness):
        state.columns["began"][rows] = slot // self.block
        return super().step(state, rows, slot, values, randomness)


@dies("loss_within_epsilon")
class CappBudgetsForTheWindowOnly(Capp):
    @property
    def influence(self):
        return self.window

    def __init__(self, **parameters):
        super().__init__(**parameters)
        self.ledger = Ledger(self.window, self.ledger.budget)


@dies("own_reports_are_allowed")
class CappCountsTheWindowOnly(Capp):
    @property
    def influence(self):
        return self.window


@dies("influence_is_true")
class CappStatesTheWindowAsInfluence(Capp):
    @property
    def guarantee(self):
        return super().guarantee._replace(influence=self.window)


@dies("ledger_holds")
class CappLedgerOverTheWindowOnly(Capp):
    def __init__(self, **parameters):
        super().__init__(**parameters)
        self.ledger = Ledger(self.window, self.ledger.budget)


@dies("users_are_apart")
class CappLeaksIntoTheNextRow(Capp):
    def step(self, state, rows, slot, values, randomness):
        step = super().step(state, rows, slot, values, randomness)
        state.columns["deviation"][rows] = np.roll(state.columns["deviation"][rows], 1)
        return step


@dies("one_context_one_input")
class CappNoiseKnowsNoDeviation(Capp):
    def _draw(self, state, rows, slot, inputs, bound, randomness, phase=0):
        return super()._draw(state, rows, slot, inputs, bound[:1], randomness, phase)


@dies("loss_within_epsilon")
class CappResetsWhenTheDeviationIsSmall(Capp):
    def step(self, state, rows, slot, values, randomness):
        deviation = state.columns["deviation"][rows]
        state.columns["began"][rows] = np.where(
            np.abs(deviation) < 0.1 * FIXED, -1, slot // self.block
        )
        return super().step(state, rows, slot, values, randomness)


@dies("loss_within_epsilon")
class CappPublishesWithItsDeviation(Capp):
    def step(self, state, rows, slot, values, randomness):
        answers, status, _ = super().step(state, rows, slot, values, randomness)
        return Step(answers + state.columns["deviation"][rows] / FIXED, status)


@dies("input_reaches_output")
class CappPerturbsTheMidpoint(Capp):
    def bound(self, values):
        return np.full_like(super().bound(values), FIXED // 2)


@dies("guarantee_is_true")
class CappPromisesForAnotherWindow(Capp):
    @property
    def guarantee(self):
        return super().guarantee._replace(window=self.window + 1)


@dies("guarantee_is_true")
class CappPromisesTooMuch(Capp):
    @property
    def guarantee(self):
        return super().guarantee._replace(epsilon=self.epsilon / 10)


# --- population division


@dies("loss_within_epsilon")
class LpuReportsInEverySlot(PopulationUniform):
    def __init__(self, **parameters):
        super().__init__(**parameters)
        self.ledger = _Generous(self.window, self.ledger.budget)

    def _step(self, state, rows, slot, values, randomness):
        allowed = self.ledger.charge(state, rows, slot, self.spend)
        return Step(
            self._draw(state, rows, slot, values, (values,), randomness),
            np.where(allowed, SENT, REFUSED),
        )


@dies("own_reports_are_allowed")
class LpuAsksForMoreThanItsTurn(PopulationUniform):
    def _step(self, state, rows, slot, values, randomness):
        allowed = self.ledger.charge(state, rows, slot, self.spend)
        answers = np.zeros(len(rows), np.int64)
        answers[allowed] = self._draw(
            state, rows[allowed], slot, values[allowed], (values[allowed],), randomness
        )
        return Step(answers, np.where(allowed, SENT, REFUSED))


@dies("loss_within_epsilon")
class LpuGroupsByValue(PopulationUniform):
    def step(self, state, rows, slot, values, randomness):
        users = state.users
        state.users = np.column_stack(
            [users[:, 0] + np.resize(values, len(users)).astype(np.uint64), users[:, 1]]
        )
        try:
            return super().step(state, rows, slot, values, randomness)
        finally:
            state.users = users


@dies("ledger_holds")
class LpuDrawsForTheSilent(PopulationUniform):
    def step(self, state, rows, slot, values, randomness):
        self._draw(state, rows, slot, values, (values,), randomness, phase=1)
        return super().step(state, rows, slot, values, randomness)


@dies("one_context_one_input")
class LpuNoiseKnowsNoInput(PopulationUniform):
    def _draw(self, state, rows, slot, inputs, bound, randomness, phase=0):
        return super()._draw(
            state, rows, slot, inputs, (np.zeros_like(bound[0]),), randomness, phase
        )


@dies("values_are_checked")
class LpuWrapsUnknownCategories(PopulationUniform):
    def bound(self, values):
        return np.asarray(values).astype(np.int64) % self.categories


@dies("users_are_apart")
class LpuBindsTheCrowd(PopulationUniform):
    def _draw(self, state, rows, slot, inputs, bound, randomness, phase=0):
        return super()._draw(
            state,
            rows,
            slot,
            inputs,
            (*bound, np.full_like(bound[0], inputs.sum())),
            randomness,
            phase,
        )


@dies("noise_is_keyed")
class LpuNoiseKnowsNoSlot(PopulationUniform):
    def _draw(self, state, rows, slot, inputs, bound, randomness, phase=0):
        return super()._draw(state, rows, 0, inputs, bound, randomness, phase)
