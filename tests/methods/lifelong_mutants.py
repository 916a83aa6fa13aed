"""Broken twins of the methods for a user's life: each has one fault, and the check that must find
it.
"""

from __future__ import annotations

import numpy as np

from ldp_kafka.accounting import LifetimeLedger
from ldp_kafka.methods import (
    CorrelatedGaussian,
    Fast,
    FastCorrelated,
    GaussianDifferential,
    GaussianDirect,
)
from ldp_kafka.methods.base import FIXED
from ldp_kafka.methods.cgm import reuse_ratios
from ldp_kafka.methods.chain import RATIO, Aimed, Chain
from ldp_kafka.methods.user_level import GaussianBudget
from ldp_kafka.randomness import system
from tests.methods.lifelong import Life

LIFE_MUTANTS: dict[type, str] = {}
"""Class -> name of the check."""
MAKERS: dict[type, Life] = {}


def dies(check, mechanism="gaussian", **parameters):
    """Register a mutant under the check that must kill it, with what it is made with."""

    def register(mutant):
        given = {"domain": (0.0, 1.0), "horizon": 12, **parameters}
        if mechanism == "gaussian":
            given = {"epsilon": 1.0, "delta": 1e-5, **given}
        LIFE_MUTANTS[mutant] = check
        MAKERS[mutant] = Life(lambda factory: mutant(mechanism=factory, **given), mechanism)
        return mutant

    return register


class Unbroken(CorrelatedGaussian):
    """CGM over another chain."""

    kind_of_chain = Chain

    def _chain(self):
        units = int(self.differential_bound * FIXED)
        return self.kind_of_chain(reuse_ratios(units / FIXED), units, self.calibration, self.lag)


# --- clipping


class _RawClip(Chain):
    def aim(self, state, rows, slot, values):
        columns = state.columns
        lane = slot % self.lag
        raw = columns["raw"][lane].take(rows)
        columns["raw"][lane][rows] = values
        turn, before = (
            columns["count"][lane].take(rows).astype(np.int64),
            columns["kept"][lane].take(rows),
        )
        kept = self._clipped(values, turn, raw)
        k = np.minimum(turn, len(self.ratios) - 1)
        return (RATIO * kept - self.ratios[k] * before + self._shifts[k]) / self._spans[k], Aimed(
            turn, kept, before
        )

    def __init__(self, *args):
        super().__init__(*args)
        self.fields = {**self.fields, "raw": self.fields["kept"]}


@dies("draws_move_within_the_budget")
class CgmClipsAroundTheRawValue(Unbroken):
    """Eq. 23 as it is printed, with the noise of Algorithm 3."""

    kind_of_chain = _RawClip


class _NoClip(Chain):
    def _clipped(self, values, turn, around):
        return values


@dies("draws_move_within_the_budget")
class CgmDoesNotClip(Unbroken):
    kind_of_chain = _NoClip


@dies("draws_move_within_the_budget")
class DifferentialDoesNotClip(GaussianDifferential):
    def _chain(self):
        return _NoClip([0, RATIO], int(self.differential_bound * FIXED), "sound", 1)


@dies("draws_move_within_the_budget", domain=(0.0, 2.0))
class CgmBoundIsInUnitsOfValues(Unbroken):
    """C taken for lengths of the domain where the clipping takes it for values."""

    class kind_of_chain(Chain):
        def _clipped(self, values, turn, around):
            return np.where(
                turn == 0,
                values,
                np.clip(values, around - 2 * self.bound, around + 2 * self.bound),
            )


# --- noise


class _Shorter(Chain):
    def __init__(self, ratios, bound, clip, lag):
        super().__init__(ratios, bound, clip, lag)
        r = self.ratios
        self._spans = ((RATIO - r) * FIXED + bound * r).astype(np.float64)


@dies("draws_move_within_the_budget")
class CgmForgetsThatBothStreamsMove(Unbroken):
    """V = (1 - r) + C r: one stream moves by C, the other stands."""

    kind_of_chain = _Shorter


class _OtherRatio(Chain):
    def aim(self, state, rows, slot, values):
        inputs, (turn, kept, before) = super().aim(state, rows, slot, values)
        k = np.minimum(turn, len(self.ratios) - 1)
        return inputs + self.ratios[k] * before * 0.1 / self._spans[k], Aimed(turn, kept, before)


@dies("draws_move_within_the_budget")
class CgmSubtractsLessThanItReuses(Unbroken):
    """A tenth less of the last value is taken off than r says: the noise stays as r says."""

    kind_of_chain = _OtherRatio


class _Lagging(Chain):
    def aim(self, state, rows, slot, values):
        _, (turn, kept, _) = super().aim(state, rows, slot, values)
        other = state.columns["kept"][(slot - 1) % self.lag].take(rows)
        k = np.minimum(turn, len(self.ratios) - 1)
        return (RATIO * kept - self.ratios[k] * other + self._shifts[k]) / self._spans[k], Aimed(
            turn, kept, other
        )


@dies("draws_move_within_the_budget", lag=3, horizon=21)
class CgmForgetsTheLag(Unbroken):
    """Takes the noise of yesterday's chain where the clipping looks a week back."""

    kind_of_chain = _Lagging


class _Gap(Chain):
    def report(self, state, rows, slot, values, drawn, answers):
        whole = super().report(state, rows, slot, values, drawn, answers)
        absent = np.setdiff1d(np.arange(state.count), rows)
        state.columns["kept"][0][absent] = 0
        state.columns["since"][0][rows] = slot
        return whole

    def aim(self, state, rows, slot, values):
        _, (turn, kept, before) = super().aim(state, rows, slot, values)
        late = (turn > 0) & (slot - state.columns["since"][0].take(rows) > 1)
        k = np.minimum(turn, len(self.ratios) - 1)
        kept = np.where(late, values, kept)
        return (RATIO * kept - self.ratios[k] * before + self._shifts[k]) / self._spans[k], Aimed(
            turn, kept, before
        )

    def __init__(self, *args):
        super().__init__(*args)
        self.fields = {**self.fields, "since": self.fields["kept"]}


@dies("draws_move_within_the_budget")
class CgmTrustsAnyValueAfterAGap(Unbroken):
    kind_of_chain = _Gap


# --- budget


class _Cheap(GaussianBudget):
    def __init__(self, *args, horizon, refresh, **rest):
        super().__init__(*args, horizon=horizon, refresh=1, **rest)
        self.refresh, self.__dict__["total"] = horizon, self.epsilon


class _OtherBudget:
    def __init__(self, **parameters):
        super().__init__(**parameters)
        self.budget = _Cheap(
            self.epsilon,
            self.delta,
            horizon=self.horizon,
            refresh=None,
            sigma=None,
            widest=1.0,
            mechanism=parameters["mechanism"],
        )
        self.mechanism = self.budget.mechanism


@dies("guarantee_is_what_was_asked")
class DirectPaysForOneReportOnly(_OtherBudget, GaussianDirect):
    """Sigma at sensitivity 1, not the root of the horizon."""


@dies("draws_move_within_the_budget")
class CgmPaysForOneReportOnly(_OtherBudget, CorrelatedGaussian):
    """The same, seen from its draws."""


class _Refilling(LifetimeLedger):
    def charge(self, state, rows, slot, cost):
        if slot % 20 == 0:
            state.columns["spent"][rows] = 0
        return super().charge(state, rows, slot, cost)


@dies("silent_ever_after")
class CgmBudgetComesBack(CorrelatedGaussian):
    def __init__(self, **parameters):
        super().__init__(**parameters)
        self.ledger = _Refilling(self.horizon, self.ledger.budget, lambda n: self.ledger.budget)


@dies("silent_ever_after")
class DirectStopsAReportEarly(GaussianDirect):
    def __init__(self, **parameters):
        super().__init__(**parameters)
        self.ledger = LifetimeLedger(
            self.horizon - 1, self.ledger.budget, lambda n: self.ledger.budget
        )


@dies("guarantee_is_what_was_asked", mechanism="laplace", epsilon=4.0, samples=6)
class FastSpendsAllOnEverySample(Fast):
    def __init__(self, **parameters):
        super().__init__(**parameters)
        self.mechanism = parameters["mechanism"](self.epsilon, (0.0, 1.0))


@dies("guarantee_is_what_was_asked", horizon=20, refresh=4)
class CgmHidesWhatRefreshCosts(CorrelatedGaussian):
    @property
    def guarantee(self):
        return super().guarantee._replace(epsilon=self.epsilon)


# --- what leaks by the side


@dies("outputs_tell_all", mechanism="laplace", epsilon=4.0, samples=6)
class FastLooksAtTheValue(Fast):
    """The feedback error is taken from the true value."""

    def _sample(self, state, rows, slot, values, randomness):
        self._true = values
        return super()._sample(state, rows, slot, values, randomness)

    def _wait(self, state, rows, moved, gap):
        return super()._wait(
            state, rows, np.abs(self._true - state.columns["estimate"].take(rows)), gap
        )


@dies("outputs_tell_all", samples=6)
class FastCgmStartsFromTheValue(FastCorrelated):
    """The first estimate is the value itself, since nothing better is known."""

    def _sample(self, state, rows, slot, values, randomness):
        fresh = state.columns["count"][0].take(rows) == 0
        state.columns["estimate"][rows[fresh]] = values[fresh]
        return super()._sample(state, rows, slot, values, randomness)


@dies("outputs_tell_all")
class CgmAddsTheClippedOff(CorrelatedGaussian):
    """What clipping took is given back after the draw."""

    def step(self, state, rows, slot, values, randomness):
        step = super().step(state, rows, slot, values, randomness)
        sent = step.status == 1
        step.answers[sent] += (values - state.columns["kept"][0].take(rows))[sent] / FIXED
        return step


@dies("noise_is_bound_to_its_input")
class CgmNoiseKnowsTheValueOnly(CorrelatedGaussian):
    def _draw(self, state, rows, slot, inputs, bound, randomness, phase=0):
        return super()._draw(state, rows, slot, inputs, (bound[1],), randomness, phase)


@dies("noise_is_keyed")
class DirectNoiseKnowsNoSlot(GaussianDirect):
    def _draw(self, state, rows, slot, inputs, bound, randomness, phase=0):
        return super()._draw(state, rows, 0, inputs, bound[1:2], randomness, phase)


@dies("noise_is_keyed")
class CgmDrawsAgainOnReplay(CorrelatedGaussian):
    def _draw(self, state, rows, slot, inputs, bound, randomness, phase=0):
        return self.mechanism.perturb(inputs, system())
