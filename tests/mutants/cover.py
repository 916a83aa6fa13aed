"""Faults of methods with ``cover``, by which presence shows."""

from __future__ import annotations

import numpy as np

from ldp_kafka.accounting import PRESENCE
from ldp_kafka.methods import Direct, Sampling
from ldp_kafka.methods.base import FIXED, SENT
from ldp_kafka.randomness import system
from tests.mutants import breaks
from tests.mutants.methods import Lpu

COVERED = {"cover": True, "length": 4}


def absent(batch):
    """Which of its users have no value."""
    return np.zeros(len(batch.rows), bool) if batch.present is None else ~batch.present


@breaks("loss_within_epsilon", of=Sampling, **COVERED, draws=2)
@breaks("loss_within_epsilon", of=(Direct, Lpu), **COVERED)
class SkipsWhoHasNoValue:
    """The report of a slot without a value is left out."""

    def step(self, state, batch):
        at = np.flatnonzero(~absent(batch))
        return super().step(state, batch.part(at)).among(len(batch.rows), at)


@breaks("loss_within_epsilon", of=Sampling, **COVERED, draws=2)
@breaks("loss_within_epsilon", of=(Direct, Lpu), **COVERED)
class SaysNoneByItself:
    """What stands for no value goes round the mechanism."""

    def step(self, state, batch):
        step = super().step(state, batch)
        answers = step.answers.copy()
        answers[absent(batch) & (step.status == SENT)] = 0
        return step._replace(answers=answers)


@breaks("release_is_step", of=(Direct, Sampling), **COVERED)
class DrawsNoneAfresh:
    """At each replay."""

    def step(self, state, batch):
        step = super().step(state, batch)
        none = absent(batch) & (step.status == SENT)
        answers = step.answers.copy()
        nothing = np.full(np.count_nonzero(none), self.nothing / FIXED)
        answers[none] = self.mechanism.perturb(nothing, system())
        return step._replace(answers=answers)


@breaks("one_context_one_input", of=Sampling, **COVERED, draws=2)
@breaks("one_context_one_input", of=(Direct, Lpu), **COVERED)
class BindsNoneAsTheFirstValue:
    """So that both have the same words."""

    def draw(self, state, batch, inputs, bound, *more, **named):
        bound = (np.where(bound[0] == self.nothing, 0, bound[0]),)
        return super().draw(state, batch, inputs, bound, *more, **named)


@breaks("ledger_holds", of=Direct, **COVERED)
class CoversForFree:
    """A report without a value costs nothing."""

    def step(self, state, batch):
        self.paid = ~absent(batch)
        return super().step(state, batch)

    def report(self, state, batch):
        cost = self.spend * self.paid.astype(np.int32)
        allowed = self.ledger.charge(state, batch.rows, batch.slot, cost)
        return self._reported(state, batch, batch.slot, allowed)


@breaks("loss_within_epsilon", of=Sampling, **COVERED | {"length": 6}, draws=3)
class RemembersTheSegmentsBefore:
    """Its means are of all slots so far, with a value or without."""

    def _gather(self, state, batch, turn):
        state.columns["segment"][batch.rows] = turn
        return super()._gather(state, batch, turn)


@breaks("guarantee_is_true", of=(Direct, Lpu, Sampling))
class PromisesPresence:
    """Without ``cover``."""

    @property
    def guarantee(self):
        return super().guarantee._replace(protects=PRESENCE)
