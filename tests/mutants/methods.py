"""Faults of the streaming methods that draw once a slot."""

from __future__ import annotations

import numpy as np

from ldp_kafka.accounting import Ledger
from ldp_kafka.methods import (
    ClippedAccumulatedPerturbation,
    Direct,
    IterativePerturbation,
    PopulationUniform,
    SampleSplit,
    SegmentedAccumulatedPerturbation,
    ThresholdPerturbation,
)
from ldp_kafka.methods.base import FIXED, REFUSED, SENT, Step
from ldp_kafka.randomness import system
from tests.mutants import breaks
from tests.mutants.deaf import Deaf


class Lpu(PopulationUniform):
    """As it is, under its name in topologies; so are the others."""


class Ipp(IterativePerturbation):
    pass


class Capp(ClippedAccumulatedPerturbation):
    pass


class AppS(SegmentedAccumulatedPerturbation):
    pass


class Topl(ThresholdPerturbation):
    pass


# --- budgets


class Generous(Ledger):
    """A ledger that pays for anything."""

    def charge(self, state, rows, slot, cost):
        return super().charge(state, rows, slot, np.asarray(cost) * 0)


class OfAWindow:
    """What is remembered beyond the window is not counted."""

    @property
    def influence(self):
        return self.window


@breaks("loss_within_epsilon", of=Direct)
class SpendsAWindowASlot:
    def __init__(self, **parameters):
        super().__init__(**parameters)
        self.ledger = Generous(self.window, self.spend)

    def _shares(self):
        return 1


@breaks("own_reports_are_allowed", of=Direct)
class PlansMoreThanItsBudget:
    def _shares(self):
        return max(1, self.window - 1)


@breaks("loss_within_epsilon", of=(Ipp, Capp))
class BudgetsForTheWindowOnly(OfAWindow):
    def __init__(self, **parameters):
        super().__init__(**parameters)
        self.ledger = Ledger(self.window, self.ledger.budget)


@breaks("own_reports_are_allowed", of=Capp)
class CountsTheWindowOnly(OfAWindow):
    pass


@breaks("influence_is_true", of=(Ipp, Capp, SampleSplit))
class StatesTheWindowAsInfluence:
    @property
    def guarantee(self):
        return super().guarantee._replace(influence=self.window)


@breaks("guarantee_is_true", of=Capp)
class PromisesForAnotherWindow:
    @property
    def guarantee(self):
        return super().guarantee._replace(window=self.window + 1)


@breaks("guarantee_is_true", of=Capp)
class PromisesTooMuch:
    @property
    def guarantee(self):
        return super().guarantee._replace(epsilon=self.epsilon / 10)


@breaks("ledger_holds", of=(Direct, Ipp, Capp, AppS, SampleSplit))
class LedgerForgetsASlotEarly:
    def __init__(self, **parameters):
        super().__init__(**parameters)
        self.ledger = Ledger(self.ledger.run - 1, self.ledger.budget)


@breaks("ledger_holds", of=Direct)
class RoundsTheBudgetUp:
    def __init__(self, **parameters):
        super().__init__(**parameters)
        self.ledger = Ledger(self.window, self.ledger.budget * 2 + 1)


@breaks("ledger_holds", of=(Direct, Lpu))
class DrawsBeforeItAsks:
    def step(self, state, batch):
        inputs = batch.values / FIXED if self.kind == "numeric" else batch.values
        self.draw(state, batch, inputs, (batch.values,), phase=1)
        return super().step(state, batch)


# --- noise


@breaks("one_context_one_input", of=(Direct, Lpu))
class NoiseKnowsNoInput:
    def draw(self, state, batch, inputs, bound, *more, **named):
        return super().draw(state, batch, inputs, (), *more, **named)


@breaks("one_context_one_input", of=Topl, alphabet=(0.0, 0.4, 1.0))
@breaks("one_context_one_input", of=(Ipp, Capp))
class NoiseKnowsTheValueOnly:
    """Not the deviation, or the threshold."""

    def draw(self, state, batch, inputs, bound, *more, **named):
        return super().draw(state, batch, inputs, bound[:1], *more, **named)


@breaks("noise_is_keyed", of=(Direct, Lpu))
class NoiseKnowsNoSlot:
    def draw(self, state, batch, *more, **named):
        return super().draw(state, batch._replace(slot=0), *more, **named)


@breaks("noise_is_keyed", of=Direct)
class NoiseKnowsNoUser:
    def draw(self, state, batch, *more, **named):
        rows = np.arange(len(batch.rows))
        users = np.column_stack([state.users[: len(rows), 0], batch.rows]).astype(np.uint64)
        return super().draw(self.state(users), batch._replace(rows=rows), *more, **named)


@breaks("noise_is_keyed", of=Direct)
class DrawsAgainOnReplay:
    def draw(self, state, batch, inputs, *more, **named):
        return self.mechanism.perturb(inputs, system())


@breaks("noise_is_its_own", of=Direct)
class NoiseKnowsNoName:
    use = b"somebody's"


@breaks("noise_is_its_own", of=Direct)
class NoiseKnowsNoBudget(NoiseKnowsNoName):
    def draw(self, state, batch, *more, **named):
        deaf = batch._replace(randomness=Deaf(batch.randomness))
        return super().draw(state, deaf, *more, **named)


# --- values and slots


@breaks("values_are_checked", of=Direct)
class LetsNanIn:
    def bound(self, values):
        return super().bound(np.nan_to_num(values, nan=0.5))


@breaks("values_are_checked", of=Direct)
class DoesNotClamp:
    def bound(self, values):
        if not np.isfinite(values).all():
            raise ValueError("values must be finite")
        return (np.asarray(values) * FIXED).astype(np.int64)


@breaks("values_are_checked", of=Lpu)
class WrapsUnknownCategories:
    def bound(self, values):
        return np.asarray(values).astype(np.int64) % self.categories


@breaks("slots_must_increase", of=Direct)
class ChargesBeforeItChecks:
    """Writes the slot down before it looks whether it may."""

    def step(self, state, batch):
        rows, slot = batch.rows, batch.slot
        ring = state.columns["ring"][slot % self.window]
        ring[rows] += self.spend
        if (slot <= state.columns["last"][rows]).any():
            raise ValueError("a user's slots must increase")
        ring[rows] -= self.spend
        return super().step(state, batch)


@breaks("slots_must_increase", of=Direct)
class PaysForASlotTwice:
    """Pays for a slot as often as it is asked."""

    def step(self, state, batch):
        rows, slot = batch.rows, batch.slot
        state.columns["last"][rows] = np.minimum(state.columns["last"][rows], slot - 1)
        return super().step(state, batch)


@breaks("slots_must_increase", of=Direct)
class LeavesTheOrderToItsLedger:
    """A ledger adds up what it is asked for, in whatever order: it refuses no repeat."""

    def step(self, state, batch):
        return self.report(state, batch)


# --- what is published, and of whom


@breaks("input_reaches_output", of=Capp)
class PerturbsTheMidpoint:
    def bound(self, values):
        return np.full_like(super().bound(values), FIXED // 2)


@breaks("loss_within_epsilon", of=Direct)
class LeavesTheTruthInLowBits:
    def step(self, state, batch):
        values = batch.values
        step = super().step(state, batch)
        return step._replace(answers=step.answers + values * 2.0**-80)


@breaks("loss_within_epsilon", of=Capp)
class PublishesWithItsDeviation:
    def step(self, state, batch):
        rows = batch.rows
        step = super().step(state, batch)
        return step._replace(answers=step.answers + state.columns["deviation"][rows] / FIXED)


@breaks("users_are_apart", of=Direct)
class CentresOnTheCrowd:
    def step(self, state, batch):
        values = (batch.values + int(batch.values.mean())) // 2
        return super().step(state, batch._replace(values=values))


@breaks("users_are_apart", of=(Ipp, Capp))
class LeaksIntoTheNextRow:
    def step(self, state, batch):
        rows = batch.rows
        step = super().step(state, batch)
        state.columns["deviation"][rows] = np.roll(state.columns["deviation"][rows], 1)
        return step


@breaks("release_is_step", of=Direct)
class ReleasesSmoothly:
    def release(self, streams, randomness, **contexts):
        return np.round(super().release(streams, randomness, **contexts), 2)


# --- deviations


@breaks("loss_within_epsilon", of=Capp)
class NeverResets:
    def step(self, state, batch):
        rows, slot = batch.rows, batch.slot
        state.columns["began"][rows] = slot // self.block
        return super().step(state, batch)


@breaks("loss_within_epsilon", of=Capp)
class ResetsWhenTheDeviationIsSmall:
    def step(self, state, batch):
        rows, slot = batch.rows, batch.slot
        small = np.abs(state.columns["deviation"][rows]) < 0.1 * FIXED
        state.columns["began"][rows] = np.where(small, -1, slot // self.block)
        return super().step(state, batch)


@breaks("loss_within_epsilon", of=Ipp, length=6)
class AddsItsDeviationsUp:
    def _remember(self, state, batch, deviation, reported):
        rows, values = batch.rows, batch.values
        state.columns["deviation"][rows] = deviation + values - reported


# --- population division


@breaks("loss_within_epsilon", of=Lpu)
class ReportsInEverySlot:
    def __init__(self, **parameters):
        super().__init__(**parameters)
        self.ledger = Generous(self.window, self.ledger.budget)

    def report(self, state, batch):
        allowed = self.ledger.charge(state, batch.rows, batch.slot, self.spend)
        answers = self.draw(state, batch, batch.values, (batch.values,))
        return Step(answers, np.where(allowed, SENT, REFUSED))


@breaks("own_reports_are_allowed", of=Lpu)
class AsksForMoreThanItsTurn:
    def report(self, state, batch):
        allowed = self.ledger.charge(state, batch.rows, batch.slot, self.spend)
        answers, own = np.zeros(len(batch.rows), np.int64), batch.values[allowed]
        answers[allowed] = self.draw(state, batch.part(allowed), own, (own,))
        return Step(answers, np.where(allowed, SENT, REFUSED))


@breaks("loss_within_epsilon", of=Lpu)
class GroupsByValue:
    def step(self, state, batch):
        values = batch.values
        users, state.users = state.users, state.users.copy()
        state.users[:, 0] += np.resize(values, len(users)).astype(np.uint64)
        try:
            return super().step(state, batch)
        finally:
            state.users = users


@breaks("users_are_apart", of=Lpu)
class BindsTheCrowd:
    def draw(self, state, batch, inputs, bound, *more, **named):
        bound = (*bound, np.full_like(bound[0], inputs.sum()))
        return super().draw(state, batch, inputs, bound, *more, **named)
