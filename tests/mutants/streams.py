"""Faults of the streaming methods that sample, absorb, split, group or find a threshold."""

from __future__ import annotations

import numpy as np

from ldp_kafka.accounting import NEVER, Ledger
from ldp_kafka.methods import BudgetAbsorption, BudgetSplit, PegasusLocal, SampleSplit, Sampling
from ldp_kafka.methods.base import FIXED, SENT, SILENT, Step
from tests.mutants import breaks
from tests.mutants.methods import AppS, Generous, Topl
from tests.specimens import PAIR, TRIPLE

# --- segments


class Sampled(Sampling):
    """As it is."""


@breaks("loss_within_epsilon", of=AppS)
class NeverResets:
    def remembered(self, state, rows, turn):
        state.columns["began"][rows] = turn // self.block
        return super().remembered(state, rows, turn)


@breaks("loss_within_epsilon", of=AppS)
class CountsItsBlocksInWholeWindows:
    def remembered(self, state, rows, turn):
        return super().remembered(state, rows, turn // 2)


@breaks("influence_is_true", of=AppS)
class ForgetsTheDeviationInItsInfluence:
    @property
    def guarantee(self):
        return super().guarantee._replace(influence=self._touched())


@breaks("own_reports_are_allowed", of=AppS)
class PlansForOneSegmentAWindow:
    def _shares(self):
        return 1

    @property
    def run(self):
        return self.window + 6


@breaks("users_are_apart", of=AppS)
class GathersForEverybody:
    def _gather(self, state, batch, turn):
        means = super()._gather(state, batch, turn)
        return np.full_like(means, int(means.mean()))


@breaks("loss_within_epsilon", of=Sampled)
class AsIfWindowsBeganWhereSegmentsDo:
    def _touched(self):
        return -(-self.window // self.segment)


@breaks("ledger_holds", of=Sampled)
class PublishesEverySlot:
    """The fault in the CAPP paper's code."""

    def report(self, state, batch):
        self.ledger.charge(state, batch.rows, batch.slot, 0)
        answers = self.answer(state, batch, batch.slot)
        return Step(answers, np.full(len(batch.rows), SENT, np.uint8))


@breaks("loss_within_epsilon", of=Sampled)
class CarriesItsSumOn:
    def _gather(self, state, batch, turn):
        return super()._gather(state, batch, turn // 2)


@breaks("one_context_one_input", of=Sampled)
class NoiseKnowsTheLastValueOnly:
    def step(self, state, batch):
        values = batch.values
        self._last = values
        return super().step(state, batch)

    def draw(self, state, batch, inputs, bound, *more, **named):
        return super().draw(state, batch, inputs, (self._last,), *more, **named)


@breaks("slots_must_increase", of=Sampled)
class GathersBeforeItLooks:
    def step(self, state, batch):
        self._gather(state, batch, batch.slot // 2)
        return super().step(state, batch)


@breaks("release_is_step", of=Sampled)
class ReleasesTheMiddle:
    def release(self, streams, randomness, **contexts):
        released = super().release(streams, randomness, **contexts)
        return np.where(np.arange(released.shape[-1]) < 3, 0.5, released)


# --- absorption


class Absorbing(BudgetAbsorption):
    """As it is."""


class _Unwatched:
    """Its ledger refuses nothing, so that only its own rule keeps the budget."""

    def __init__(self, **parameters):
        super().__init__(**parameters)
        self.ledger = Generous(self.window, self.ledger.budget)


@breaks("loss_within_epsilon", of=Absorbing)
class NullifiesNothing(_Unwatched):
    def step(self, state, batch):
        rows = batch.rows
        state.columns["units"][rows] = np.minimum(state.columns["units"][rows], 1)
        return super().step(state, batch)


@breaks("loss_within_epsilon", of=Absorbing)
class TakesTheWholeWindowAtOnce(_Unwatched):
    def step(self, state, batch):
        rows = batch.rows
        reported = state.columns["reported"]
        reported[rows] = np.where(reported[rows] == NEVER, NEVER, reported[rows] - 1)
        return super().step(state, batch)


@breaks("loss_within_epsilon", of=Absorbing)
class TestsForNothing(_Unwatched):
    """Reports spend the whole budget, as if the tests had cost none of it."""

    def _prepare(self, mechanism, budget):
        super()._prepare(mechanism, budget)
        units = range(1, self.window + 1)
        self._by_units = [mechanism(2 * n * self.spend / 1e6, (0.0, 1.0)) for n in units]


@breaks("loss_within_epsilon", of=Absorbing)
class TestsWithoutNoise(_Unwatched):
    def draw(self, state, batch, inputs, bound, phase=0, *, mechanism=None):
        if not phase:
            return np.asarray(inputs)
        return super().draw(state, batch, inputs, bound, phase, mechanism=mechanism)


@breaks("one_context_one_input", of=(Absorbing, PegasusLocal))
class DrawsTwiceFromOnePhase:
    def draw(self, state, batch, inputs, bound, phase=0, *, mechanism=None):
        return super().draw(state, batch, inputs, bound, 0, mechanism=mechanism)


@breaks("own_reports_are_allowed", of=Absorbing)
class PlansMoreThanItsBudget:
    def _prepare(self, mechanism, budget):
        super()._prepare(mechanism, 2 * budget)


# --- threshold


@breaks("loss_within_epsilon", of=Topl)
class FindsItsThresholdInValues:
    def step(self, state, batch):
        rows, values = batch.rows, batch.values
        step = super().step(state, batch)
        near = state.columns["count"][rows] == self.first
        state.columns["threshold"][rows[near]] = np.where(values[near] > FIXED // 2, 32, 16)
        return step


@breaks("loss_within_epsilon", of=Topl)
class SpendsTheBudgetInEachPhase:
    def _prepare(self, mechanism, budget):
        super()._prepare(mechanism, 2 * budget)
        self.spend //= 2


@breaks("users_are_apart", of=Topl)
class FindsOneThresholdForAll:
    def _thresholds(self, early):
        return np.full(early.shape[1], super()._thresholds(early).max())

    def _note(self, state, rows, answers):
        super()._note(state, rows, answers)
        thresholds = state.columns["threshold"][: state.count]
        thresholds[:] = thresholds.mean()


@breaks("ledger_holds", of=Topl)
class ForgetsWhatItScouted:
    def step(self, state, batch):
        rows = batch.rows
        kept = self.ledger.budget
        if (state.columns["count"][rows] < self.first).any():
            self.ledger.budget = 2**31 - 1
        try:
            return super().step(state, batch)
        finally:
            self.ledger.budget = kept


@breaks("loss_within_epsilon", of=Topl, alphabet=(0.0, 0.4, 1.0))
class ClampsAfterTheNoise:
    def step(self, state, batch):
        values = batch.values
        step = super().step(state, batch)
        return Step(np.minimum(step.answers, np.maximum(values / FIXED, 0.25)), step.status)


# --- groups


@breaks("loss_within_epsilon", of=PegasusLocal, window=1, draws=8)
class GroupsOutliveTheirBlock:
    _tests = 1

    def __init__(self, *, block, **parameters):
        super().__init__(block=2 * block, **parameters)


@breaks("loss_within_epsilon", of=PegasusLocal)
class GroupsForFree:
    def _stays(self, state, batch, count):
        super()._stays(state, batch, count)
        return np.abs(state.columns["values"][0][batch.rows] - batch.values) < FIXED // 2


@breaks("loss_within_epsilon", of=PegasusLocal)
class AveragesTheTruth:
    def answer(self, state, batch, turn, phase=0):
        rows, values = batch.rows, batch.values
        answers = super().answer(state, batch, turn, phase)
        total, count = state.columns["total"], state.columns["count"]
        total[rows] += (values - total[rows] // count[rows]) // 2
        return answers


@breaks("loss_within_epsilon", of=PegasusLocal, window=1)
class CountsTheTestsOfTheWindowOnly:
    _tests = property(lambda self: self.window)


@breaks("loss_within_epsilon", of=PegasusLocal)
class GivesTheTestAsMuchAgain:
    def _prepare(self, mechanism, budget):
        super()._prepare(mechanism, budget)
        self.test = mechanism(4 * self.spend / 1e6, (0.0, 1.0))


@breaks("one_context_one_input", of=PegasusLocal)
class NoiseOfTheTestKnowsNoInput:
    def draw(self, state, batch, inputs, bound, phase=0, *, mechanism=None):
        bound = () if phase else bound
        return super().draw(state, batch, inputs, bound, phase, mechanism=mechanism)


@breaks("influence_is_true", of=PegasusLocal)
class CountsItsReportsOnly:
    influence = property(lambda self: self.window)


@breaks("users_are_apart", of=PegasusLocal)
class GroupsTheCrowd:
    def _stays(self, state, batch, count):
        stays = super()._stays(state, batch, count)
        return np.full_like(stays, stays.mean() >= 0.5) if len(stays) else stays


# --- a share of the budget for each coordinate


@breaks("own_reports_are_allowed", of=BudgetSplit)
class PlansForOneCoordinate:
    def _shares(self):
        return super()._shares() // 2

    @property
    def run(self):
        return super().run * 2


@breaks("loss_within_epsilon", of=BudgetSplit)
class GivesEachTheWhole(PlansForOneCoordinate):
    @property
    def cost(self):
        return self.spend


@breaks("loss_within_epsilon", of=BudgetSplit)
class ForgetsTheDeviation:
    @property
    def influence(self):
        return self.dimension * self.window


@breaks("influence_is_true", of=BudgetSplit)
class CountsSlots:
    @property
    def guarantee(self):
        return super().guarantee._replace(influence=self.window + 1)


@breaks("one_context_one_input", of=BudgetSplit)
class NoiseKnowsNoCoordinate:
    def _coordinate(self, state, batch, turn, at):
        own = batch._replace(values=batch.values[:, at])
        return self.each.answer(state.lane(at, self._own), own, turn)


class _OneCoordinate(Ledger):
    """Charges for the first coordinate alone."""

    def charge(self, state, rows, slot, cost):
        return super().charge(state, rows, slot, cost // 2)


@breaks("ledger_holds", of=BudgetSplit)
class PaysForOneCoordinate:
    def __init__(self, **parameters):
        super().__init__(**parameters)
        self.ledger = _OneCoordinate(self.run, self.ledger.budget)


@breaks("ledger_holds", of=BudgetSplit)
class DrawsBeforeItAsks:
    def step(self, state, batch):
        self._coordinate(state, batch, batch.slot, 0)
        return super().step(state, batch)


@breaks("users_are_apart", of=BudgetSplit)
class LeaksIntoTheNextRow:
    def _coordinate(self, state, batch, turn, at):
        rows = batch.rows
        answers = super()._coordinate(state, batch, turn, at)
        state.columns["deviation"][at][rows] = np.roll(state.columns["deviation"][at][rows], 1)
        return answers


@breaks("values_are_checked", of=BudgetSplit)
class ClampsTheFirstCoordinate:
    def bound(self, values):
        bound = super().bound(values)
        bound[:, 1] = np.asarray(values)[:, 1] * FIXED
        return bound


_OF_SEGMENTS = {"inner": "sampling", "segment": 2, "length": 6, "draws": 6}
_OF_TURNS = {"inner": "capp_s", "segment": 2, "block": 1, "length": 8, "draws": 4}


@breaks("loss_within_epsilon", of=BudgetSplit, **_OF_SEGMENTS)
class ThinksOneSegmentAWindow:
    @property
    def influence(self):
        return self.dimension * -(-self.window // self.segment)


@breaks("influence_is_true", of=BudgetSplit, **_OF_SEGMENTS)
class CarriesItsSumsOn:
    def _gathered(self, state, batch, slot, coordinates):
        return super()._gathered(state, batch, slot // 4, coordinates)


# --- a share of the slots for each coordinate


@breaks("loss_within_epsilon", of=SampleSplit, window=3, **_OF_TURNS)
class ThinksSegmentsBeginWithWindows:
    @property
    def influence(self):
        return self._reports(self.window)


@breaks("influence_is_true", of=SampleSplit, **_OF_TURNS)
class GathersValuesOfOtherTurns:
    """All values of a coordinate, of which a window meets more segments."""

    def report(self, state, batch):
        turn, at = divmod(batch.slot, self.dimension)
        others = [other for other in range(self.dimension) if other != at]
        self._gathered(state, batch, turn, others)
        return super().report(state, batch)


@breaks("ledger_holds", of=SampleSplit, **_OF_TURNS)
class PaysForSlotsThatAreNotDue:
    def report(self, state, batch):
        self.ledger.charge(state, batch.rows, batch.slot, self.cost)
        return super().report(state, batch)


@breaks("loss_within_epsilon", of=SampleSplit)
class ForgetsEveryDeviation:
    @property
    def influence(self):
        return self.window


@breaks("loss_within_epsilon", of=SampleSplit)
class ThinksOfOneDeviation:
    @property
    def influence(self):
        return self.window + self.each.lasting


@breaks("loss_within_epsilon", of=SampleSplit, dimension=3, alphabet=TRIPLE)
class HasOneDeviation:
    def _coordinate(self, state, batch, turn, at):
        lane, own = state.lane(0, self._own), batch._replace(values=batch.values[:, at])
        return self.each.answer(lane, own, turn, at)


@breaks("loss_within_epsilon", of=SampleSplit)
class BlocksLastTwice:
    def _coordinate(self, state, batch, turn, at):
        return super()._coordinate(state, batch, turn // 2, at)


@breaks("loss_within_epsilon", of=SampleSplit)
class IsSilentAtZero:
    def step(self, state, batch):
        slot, values = batch.slot, batch.values
        step = super().step(state, batch)
        return step._replace(status=np.where(values[:, slot % 2] == 0, SILENT, step.status))


@breaks("loss_within_epsilon", of=SampleSplit, length=4, draws=8, alphabet=PAIR)
class DrawsEveryCoordinate:
    def step(self, state, batch):
        self._coordinate(state, batch, batch.slot // 2, 1 - batch.slot % 2)
        return super().step(state, batch)


@breaks("loss_within_epsilon", of=SampleSplit)
class FillsInTheTruth:
    def step(self, state, batch):
        values = batch.values
        self._last = self.domain[0] + values / FIXED * (self.domain[1] - self.domain[0])
        return super().step(state, batch)

    def published(self, step):
        vectors = super().published(step)
        return np.where(np.isnan(vectors), self._last, vectors)


@breaks("ledger_holds", of=SampleSplit)
class DrawsForTheRefused:
    def report(self, state, batch):
        turn, at = divmod(batch.slot, 2)
        answers = self._coordinate(state, batch, turn, at)
        allowed = self.ledger.charge(state, batch.rows, batch.slot, self.cost)
        status = np.where(allowed, SENT, 2).astype(np.uint8)
        return Step(np.where(allowed, answers, 0), status, phase=at)


@breaks("values_are_checked", of=SampleSplit)
class LooksAtTheFirstCoordinate:
    def bound(self, values):
        return super().bound(np.nan_to_num(values, posinf=0.5, neginf=0.5))
