"""Faults of what a step sends, where what is published looks right, and of what it goes by."""

from __future__ import annotations

import numpy as np

from ldp_kafka.methods import Direct, Naive
from ldp_kafka.methods.base import FIXED, REFUSED, SENT, SILENT, Step
from tests.mutants import breaks


def high(batch):
    return batch.values > FIXED // 2


@breaks("loss_within_epsilon", of=Direct)
class TellsByItsAnswers:
    """Beyond the domain, where what is published is clamped."""

    def report(self, state, batch):
        step = super().report(state, batch)
        far = step.answers + batch.values / FIXED
        return step._replace(answers=np.where(step.answers > 1, far, step.answers))

    def released(self, answers):
        return np.clip(super().released(answers), *self.domain)


@breaks("loss_within_epsilon", of=Direct)
class TellsByItsStatus:
    """In every second slot."""

    def report(self, state, batch):
        if batch.slot % 2 == 0:
            return super().report(state, batch)
        status = np.where(high(batch), SILENT, REFUSED).astype(np.uint8)
        return Step(self.blank(len(batch.rows)), status)


@breaks("loss_within_epsilon", of=Direct)
class TellsWhoComesBack:
    """After a slot without a value."""

    def report(self, state, batch):
        back = state.columns["last"][batch.rows] == batch.slot - 2
        step = super().report(state, batch)
        return step._replace(answers=np.where(back, batch.values / FIXED, step.answers))


@breaks("loss_within_epsilon", of=Direct)
class IsSilentWhereItsHashIsOdd:
    """And the value low."""

    def report(self, state, batch):
        odd = state.digests(batch.rows)[:, 0] % np.uint64(2) == 1
        step = super().report(state, batch)
        silent = np.where(odd & ~high(batch), SILENT, step.status)
        return step._replace(status=silent.astype(np.uint8))


@breaks("release_is_step", of=Direct)
class TellsByItsPhase:
    def report(self, state, batch):
        return super().report(state, batch)._replace(phase=int(high(batch).any()))


@breaks("loss_within_epsilon", of=Direct)
class TellsByAReportOfThePast:
    """A second report of each slot, of one before the first."""

    def report(self, state, batch):
        step = super().report(state, batch)
        slots = np.column_stack(
            [np.full(len(batch.rows), -7), np.full(len(batch.rows), batch.slot)]
        )
        return Step(np.column_stack([batch.values / FIXED, step.answers]), step.status, slots)

    def published(self, step):
        return super().published(step._replace(answers=step.answers[:, -1], slots=None))


@breaks("release_is_step", of=Direct)
class SendsWhatIsNoReport:
    """Off the grid, by as much as the slot says."""

    def report(self, state, batch):
        step = super().report(state, batch)
        return step._replace(answers=step.answers + self.scale / (3 + batch.slot))


@breaks("release_is_step", of=Naive)
class RoundsByTheTruth:
    def step(self, state, batch):
        step = super().step(state, batch)
        return step._replace(answers=step.answers + self.scale * high(batch).T)


@breaks("noise_is_keyed", of=Direct)
class RepeatsItsNoiseEachWeek:
    def draw(self, state, batch, *drawn, **how):
        return super().draw(state, batch._replace(slot=batch.slot % 168), *drawn, **how)


@breaks("release_is_step", of=Direct)
class RemembersOutsideOfTheState:
    """The last value of each row, which a worker forgets when it is started again."""

    def __init__(self, **parameters):
        super().__init__(**parameters)
        self.kept = {}

    def report(self, state, batch):
        before = [self.kept.get(tuple(user), 0) for user in state.digests(batch.rows).tolist()]
        self.kept |= zip(map(tuple, state.digests(batch.rows).tolist()), batch.values, strict=True)
        return super().report(state, batch._replace(values=(batch.values + before) // 2))


@breaks("slots_must_increase", of=Direct)
class TakesASlotThatItPassedOver:
    """As long as it lies after another one that was stepped."""

    def step(self, state, batch):
        last, rows = state.columns["last"], batch.rows
        passed = (last[rows] == batch.slot + 1) & (batch.slot > 5)
        if passed.any():
            return Step(self.blank(len(rows)), np.full(len(rows), SENT, np.uint8))
        return super().step(state, batch)
