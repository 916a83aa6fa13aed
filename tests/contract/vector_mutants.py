"""Broken twins of the methods that split vectors; importing this registers them with the rest."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ldp_kafka.accounting import Ledger
from ldp_kafka.methods import BudgetSplit, SampleSplit
from ldp_kafka.methods.base import FIXED, SENT, SILENT, Step
from tests.contract.method_mutants import dies

CORNERS = ((0.0, 0.0), (1.0, 1.0))

# --- a share of the budget for each coordinate


class BudgetSplitIpp(BudgetSplit):
    """Two coordinates, by IPP."""

    how: ClassVar = {"length": 4, "draws": 8, "alphabet": CORNERS}

    def __init__(self, **parameters):
        super().__init__(dimension=2, inner="ipp", **parameters)


@dies("loss_within_epsilon")
class BudgetSplitGivesEachTheWhole(BudgetSplitIpp):
    def _shares(self):
        return super()._shares() // 2

    @property
    def run(self):
        return super().run * 2

    @property
    def cost(self):
        return self.spend


@dies("loss_within_epsilon")
class BudgetSplitForgetsTheDeviation(BudgetSplitIpp):
    @property
    def influence(self):
        return self.dimension * self.window


@dies("own_reports_are_allowed")
class BudgetSplitPlansForOneCoordinate(BudgetSplitIpp):
    def _shares(self):
        return super()._shares() // 2

    @property
    def run(self):
        return super().run * 2


@dies("influence_is_true")
class BudgetSplitCountsSlots(BudgetSplitIpp):
    @property
    def guarantee(self):
        return super().guarantee._replace(influence=self.window + 1)


@dies("one_context_one_input")
class BudgetSplitNoiseKnowsNoCoordinate(BudgetSplitIpp):
    def _coordinate(self, state, rows, slot, turn, at, values, randomness):
        return self.each._perturb(state.lane(at, self._own), rows, slot, turn, values, randomness)


class _OneCoordinate(Ledger):
    """Charges for the first coordinate alone."""

    def charge(self, state, rows, slot, cost):
        return super().charge(state, rows, slot, cost // 2)


@dies("ledger_holds")
class BudgetSplitPaysForOneCoordinate(BudgetSplitIpp):
    def __init__(self, **parameters):
        super().__init__(**parameters)
        self.ledger = _OneCoordinate(self.run, self.ledger.budget)


@dies("ledger_holds")
class BudgetSplitDrawsBeforeItAsks(BudgetSplitIpp):
    def step(self, state, rows, slot, values, randomness):
        self._coordinate(state, rows, slot, slot, 0, values[:, 0], randomness)
        return super().step(state, rows, slot, values, randomness)


@dies("users_are_apart")
class BudgetSplitLeaksIntoTheNextRow(BudgetSplitIpp):
    def _coordinate(self, state, rows, slot, turn, at, values, randomness):
        answers = super()._coordinate(state, rows, slot, turn, at, values, randomness)
        state.columns["deviation"][at][rows] = np.roll(state.columns["deviation"][at][rows], 1)
        return answers


@dies("values_are_checked")
class BudgetSplitClampsTheFirstCoordinate(BudgetSplitIpp):
    def bound(self, values):
        bound = super().bound(values)
        bound[:, 1] = np.asarray(values)[:, 1] * FIXED
        return bound


# --- a share of the slots for each coordinate


class SampleSplitApp(SampleSplit):
    """Two coordinates, by APP in blocks of two reports."""

    how: ClassVar = {"length": 6, "alphabet": CORNERS}
    coordinates: ClassVar = 2

    def __init__(self, **parameters):
        super().__init__(dimension=self.coordinates, inner="app", block=2, **parameters)


@dies("loss_within_epsilon")
class SampleSplitForgetsTheDeviation(SampleSplitApp):
    @property
    def influence(self):
        return self.window


@dies("loss_within_epsilon")
class SampleSplitThinksOfOneDeviation(SampleSplitApp):
    @property
    def influence(self):
        return self.window + self.each.lasting


@dies("loss_within_epsilon")
class SampleSplitHasOneDeviation(SampleSplitApp):
    how: ClassVar = {"length": 6, "alphabet": ((0.0,) * 3, (1.0,) * 3)}
    coordinates: ClassVar = 3

    def _coordinate(self, state, rows, slot, turn, at, values, randomness):
        return self.each._perturb(
            state.lane(0, self._own), rows, slot, turn, values, randomness, at
        )


@dies("loss_within_epsilon")
class SampleSplitBlocksLastTwice(SampleSplitApp):
    def _coordinate(self, state, rows, slot, turn, at, values, randomness):
        return super()._coordinate(state, rows, slot, turn // 2, at, values, randomness)


@dies("loss_within_epsilon")
class SampleSplitIsSilentAtZero(SampleSplitApp):
    def step(self, state, rows, slot, values, randomness):
        step = super().step(state, rows, slot, values, randomness)
        return step._replace(status=np.where(values[:, slot % 2] == 0, SILENT, step.status))


@dies("loss_within_epsilon")
class SampleSplitDrawsEveryCoordinate(SampleSplitApp):
    how: ClassVar = {"length": 4, "draws": 8, "alphabet": CORNERS}

    def step(self, state, rows, slot, values, randomness):
        self._coordinate(
            state, rows, slot, slot // 2, 1 - slot % 2, values[:, 1 - slot % 2], randomness
        )
        return super().step(state, rows, slot, values, randomness)


@dies("loss_within_epsilon")
class SampleSplitFillsInTheTruth(SampleSplitApp):
    def step(self, state, rows, slot, values, randomness):
        self._last = self.domain[0] + values / FIXED * (self.domain[1] - self.domain[0])
        return super().step(state, rows, slot, values, randomness)

    def published(self, step):
        vectors = super().published(step)
        return np.where(np.isnan(vectors), self._last, vectors)


@dies("influence_is_true")
class SampleSplitStatesTheWindowAsInfluence(SampleSplitApp):
    @property
    def guarantee(self):
        return super().guarantee._replace(influence=self.window)


@dies("ledger_holds")
class SampleSplitLedgerForgetsAfterASlot(SampleSplitApp):
    def __init__(self, **parameters):
        super().__init__(**parameters)
        self.ledger = Ledger(1, self.ledger.budget)


@dies("ledger_holds")
class SampleSplitDrawsBeforeItAsks(SampleSplitApp):
    def _step(self, state, rows, slot, values, randomness):
        answers = self._coordinate(
            state, rows, slot, slot // 2, slot % 2, values[:, slot % 2], randomness
        )
        allowed = self.ledger.charge(state, rows, slot, self.cost)
        return Step(
            np.where(allowed, answers, 0),
            np.where(allowed, SENT, 2).astype(np.uint8),
            phase=slot % 2,
        )


@dies("values_are_checked")
class SampleSplitLooksAtTheFirstCoordinate(SampleSplitApp):
    def bound(self, values):
        return super().bound(np.nan_to_num(values, posinf=0.5, neginf=0.5))


TWINS = (BudgetSplit, SampleSplit)
ORIGINALS = (BudgetSplitIpp, SampleSplitApp)
