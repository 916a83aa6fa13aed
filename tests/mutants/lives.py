"""Faults of the methods that protect a user's whole stream."""

from __future__ import annotations

import numpy as np

from ldp_kafka.accounting import LifetimeLedger
from ldp_kafka.methods import (
    CorrelatedGaussian,
    CorrelatedLaplace,
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
from tests.mutants import breaks

MOVES = "draws_move_within_the_budget"


PURE = {"mechanism": "laplace", "epsilon": 4.0}


def over(chain, method=CorrelatedGaussian):
    """CGM over another chain."""

    def _chain(self):
        units = int(self.differential_bound * FIXED)
        return chain(reuse_ratios(units / FIXED), units, self.calibration, self.lag)

    name = "Cgm" if method is CorrelatedGaussian else "CgmPure"
    return type(f"{name}{chain.__name__}", (method,), {"_chain": _chain})


def chained(**settings):
    """Register CGM over a broken chain, with either noise: its draws move too far."""

    def register(chain):
        breaks(MOVES, of=CorrelatedGaussian, **settings)(over(chain))
        pure = over(chain, CorrelatedLaplace)
        breaks(MOVES, of=CorrelatedLaplace, **PURE, **settings)(pure)
        return chain

    return register


def aimed(chain, turn, kept, before):
    """What a chain aims at after ``before``."""
    k = np.minimum(turn, len(chain.ratios) - 1)
    aim = RATIO * kept - chain.ratios[k] * before + chain._shifts[k]
    return aim / chain._spans[k], Aimed(turn, kept, before)


# --- clipping


@chained()
class ClipsAroundTheRawValue(Chain):
    """Eq. 23 as it is printed, with the noise of Algorithm 3."""

    def aim(self, state, batch):
        rows, slot, values = batch.rows, batch.slot, batch.values
        columns = state.columns
        lane = slot % self.lag
        raw = columns["raw"][lane].take(rows)
        columns["raw"][lane][rows] = values
        turn = columns["count"][lane].take(rows).astype(np.int64)
        kept = self._clipped(values, turn, raw)
        return aimed(self, turn, kept, columns["kept"][lane].take(rows))

    def __init__(self, *args):
        super().__init__(*args)
        self.fields = {**self.fields, "raw": self.fields["kept"]}


@chained()
class DoesNotClip(Chain):
    def _clipped(self, values, turn, around):
        return values


@breaks(MOVES, of=GaussianDifferential)
class DifferentialDoesNotClip(GaussianDifferential):
    def _chain(self):
        return DoesNotClip([0, RATIO], int(self.differential_bound * FIXED), "sound", 1)


@chained(domain=(0.0, 2.0))
class BoundIsInUnitsOfValues(Chain):
    """C taken for lengths of the domain where the clipping takes it for values."""

    def _clipped(self, values, turn, around):
        near = np.clip(values, around - 2 * self.bound, around + 2 * self.bound)
        return np.where(turn == 0, values, near)


# --- noise


@chained()
class ForgetsThatBothStreamsMove(Chain):
    """V = (1 - r) + C r: one stream moves by C, the other stands."""

    def __init__(self, *args):
        super().__init__(*args)
        r = self.ratios
        self._spans = ((RATIO - r) * FIXED + self.bound * r).astype(np.float64)


@chained()
class SubtractsLessThanItReuses(Chain):
    """A tenth less of the last value is taken off than r says: the noise stays as r says."""

    def aim(self, state, batch):
        inputs, (turn, kept, before) = super().aim(state, batch)
        k = np.minimum(turn, len(self.ratios) - 1)
        return inputs + self.ratios[k] * before * 0.1 / self._spans[k], Aimed(turn, kept, before)


@chained(lag=3, horizon=21)
class ForgetsTheLag(Chain):
    """Takes the noise of yesterday's chain where the clipping looks a week back."""

    def aim(self, state, batch):
        rows, slot = batch.rows, batch.slot
        _, (turn, kept, _) = super().aim(state, batch)
        other = state.columns["kept"][(slot - 1) % self.lag].take(rows)
        return aimed(self, turn, kept, other)


@chained()
class TrustsAnyValueAfterAGap(Chain):
    def report(self, state, batch, drawn, answers):
        rows, slot = batch.rows, batch.slot
        whole = super().report(state, batch, drawn, answers)
        absent = np.setdiff1d(np.arange(state.count), rows)
        state.columns["kept"][0][absent] = 0
        state.columns["since"][0][rows] = slot
        return whole

    def aim(self, state, batch):
        rows, slot, values = batch.rows, batch.slot, batch.values
        _, (turn, kept, before) = super().aim(state, batch)
        late = (turn > 0) & (slot - state.columns["since"][0].take(rows) > 1)
        k = np.minimum(turn, len(self.ratios) - 1)
        kept = np.where(late, values, kept)
        return (RATIO * kept - self.ratios[k] * before + self._shifts[k]) / self._spans[k], Aimed(
            turn, kept, before
        )

    def __init__(self, *args):
        super().__init__(*args)
        self.fields = {**self.fields, "since": self.fields["kept"]}


# --- budget


class _Cheap(GaussianBudget):
    def __init__(self, *args, horizon, refresh, **rest):
        super().__init__(*args, horizon=horizon, refresh=1, **rest)
        self.refresh, self.__dict__["total"] = horizon, self.epsilon


class _OtherBudget:
    def __init__(self, **parameters):
        super().__init__(**parameters)
        given = {"horizon": self.horizon, "mechanism": parameters["mechanism"]}
        self.budget = _Cheap(
            self.epsilon, self.delta, refresh=None, sigma=None, widest=1.0, **given
        )
        self.mechanism = self.budget.mechanism


@breaks("guarantee_is_what_was_asked", of=GaussianDirect)
class DirectPaysForOneReportOnly(_OtherBudget, GaussianDirect):
    """Sigma at sensitivity 1, not the root of the horizon."""


@breaks(MOVES, of=CorrelatedGaussian)
class CgmPaysForOneReportOnly(_OtherBudget, CorrelatedGaussian):
    """The same, seen from its draws."""


@breaks("guarantee_is_what_was_asked", of=CorrelatedLaplace, **PURE)
class CgmPureDoesNotShareTheBudget(CorrelatedLaplace):
    """All of epsilon for every report."""

    def __init__(self, **parameters):
        super().__init__(**parameters)
        self.mechanism = parameters["mechanism"](self.epsilon, (0.0, 1.0))


@breaks("guarantee_is_what_was_asked", of=CorrelatedLaplace, **PURE)
class CgmPureComposesAsNormalNoiseDoes(CorrelatedLaplace):
    """Epsilon over the root of the horizon: there is no delta that it could go into."""

    def __init__(self, **parameters):
        super().__init__(**parameters)
        self.mechanism = parameters["mechanism"](self.epsilon / self.horizon**0.5, (0.0, 1.0))


@breaks("guarantee_is_what_was_asked", of=CorrelatedLaplace, **PURE)
class CgmPureScaleIsTooSmall(CorrelatedLaplace):
    """A hundredth less than V l / epsilon."""

    def __init__(self, **parameters):
        super().__init__(**parameters)
        self.mechanism = parameters["mechanism"](self.budget.part / 0.99e6, (0.0, 1.0))


class _Refilling(LifetimeLedger):
    def charge(self, state, rows, slot, cost):
        if slot % 20 == 0:
            state.columns["spent"][rows] = 0
        return super().charge(state, rows, slot, cost)


class _ComesBack:
    def __init__(self, **parameters):
        super().__init__(**parameters)
        self.ledger = _Refilling(self.horizon, self.ledger.budget, lambda n: self.ledger.budget)


@breaks("silent_ever_after", of=CorrelatedGaussian)
class CgmBudgetComesBack(_ComesBack, CorrelatedGaussian):
    pass


@breaks("silent_ever_after", of=CorrelatedLaplace, **PURE)
class CgmPureBudgetComesBack(_ComesBack, CorrelatedLaplace):
    pass


@breaks("silent_ever_after", of=GaussianDirect)
class DirectStopsAReportEarly(GaussianDirect):
    def __init__(self, **parameters):
        super().__init__(**parameters)
        self.ledger = LifetimeLedger(
            self.horizon - 1, self.ledger.budget, lambda n: self.ledger.budget
        )


@breaks("guarantee_is_what_was_asked", of=Fast, mechanism="laplace", epsilon=4.0, samples=6)
class FastSpendsAllOnEverySample(Fast):
    def __init__(self, **parameters):
        super().__init__(**parameters)
        self.mechanism = parameters["mechanism"](self.epsilon, (0.0, 1.0))


@breaks("guarantee_is_what_was_asked", of=CorrelatedGaussian, horizon=20, refresh=4)
class CgmHidesWhatRefreshCosts(CorrelatedGaussian):
    @property
    def guarantee(self):
        return super().guarantee._replace(epsilon=self.epsilon)


@breaks("guarantee_is_what_was_asked", of=CorrelatedLaplace, horizon=20, refresh=4, **PURE)
class CgmPureHidesWhatRefreshCosts(CorrelatedLaplace):
    @property
    def guarantee(self):
        return super().guarantee._replace(epsilon=self.epsilon)


# --- what leaks by the side


@breaks("outputs_tell_all", of=Fast, mechanism="laplace", epsilon=4.0, samples=6)
class FastLooksAtTheValue(Fast):
    """The feedback error is taken from the true value."""

    def _sample(self, state, batch):
        self._true = batch.values
        return super()._sample(state, batch)

    def _wait(self, state, rows, moved, gap):
        return super()._wait(
            state, rows, np.abs(self._true - state.columns["estimate"].take(rows)), gap
        )


@breaks("outputs_tell_all", of=FastCorrelated, samples=6)
class FastCgmStartsFromTheValue(FastCorrelated):
    """The first estimate is the value itself, since nothing better is known."""

    def _sample(self, state, batch):
        fresh = state.columns["count"][0].take(batch.rows) == 0
        state.columns["estimate"][batch.rows[fresh]] = batch.values[fresh]
        return super()._sample(state, batch)


@breaks("outputs_tell_all", of=CorrelatedGaussian)
class CgmAddsTheClippedOff(CorrelatedGaussian):
    """What clipping took is given back after the draw."""

    def step(self, state, batch):
        rows, values = batch.rows, batch.values
        step = super().step(state, batch)
        sent = step.status == 1
        step.answers[sent] += (values - state.columns["kept"][0].take(rows))[sent] / FIXED
        return step


@breaks("outputs_tell_all", of=CorrelatedLaplace, **PURE)
class CgmPureCarriesOnTheValue(CorrelatedLaplace):
    """Noise is carried on of the last report, and the clipped value again beside it."""

    def report(self, state, batch):
        step = super().report(state, batch)
        sent = step.status == 1
        state.columns["reported"][0][batch.rows[sent]] += batch.values[sent] >> 3
        return step


@breaks("noise_is_bound_to_its_input", of=CorrelatedGaussian)
class CgmNoiseKnowsTheValueOnly(CorrelatedGaussian):
    def draw(self, state, batch, inputs, bound, phase=0):
        return super().draw(state, batch, inputs, (bound[1],), phase)


@breaks("noise_is_keyed", of=GaussianDirect)
class GaussianNoiseKnowsNoSlot(GaussianDirect):
    def draw(self, state, batch, inputs, bound, phase=0):
        return super().draw(state, batch._replace(slot=0), inputs, bound[1:2], phase)


@breaks("noise_is_keyed", of=CorrelatedGaussian)
class CgmDrawsAgainOnReplay(CorrelatedGaussian):
    def draw(self, state, batch, inputs, bound, phase=0):
        return self.mechanism.perturb(inputs, system())


@breaks("noise_is_bound_to_its_input", of=CorrelatedLaplace, **PURE)
class CgmPureNoiseKnowsTheValueOnly(CorrelatedLaplace):
    def draw(self, state, batch, inputs, bound, phase=0):
        return super().draw(state, batch, inputs, (bound[1],), phase)


@breaks("noise_is_keyed", of=CorrelatedLaplace, horizon=12, refresh=4, **PURE)
class CgmPureRepeatsItsNoiseAfterARefresh(CorrelatedLaplace):
    def draw(self, state, batch, inputs, bound, phase=0):
        turn, *rest = bound
        batch = batch._replace(slot=batch.slot % self.refresh)
        return super().draw(state, batch, inputs, (turn % self.refresh, *rest), phase)
