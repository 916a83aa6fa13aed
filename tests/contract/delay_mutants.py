"""Broken twins of methods that release windows: each has one fault that would cost privacy, truth
or repeatability, and the check of the contract that must find it.
"""

from __future__ import annotations

from math import exp, log

import numpy as np

from ldp_kafka.accounting import MICRO, Field
from ldp_kafka.mechanisms.comparison import NoisyComparison
from ldp_kafka.mechanisms.exponential import ExponentialMechanism
from ldp_kafka.mechanisms.grr import GeneralizedRandomizedResponse
from ldp_kafka.mechanisms.sparse_vector import SparseVector
from ldp_kafka.mechanisms.sum_noise import SumNoise
from ldp_kafka.methods import (
    AdaPub,
    BucOrder,
    CompOrder,
    ContinGroup,
    DiscontinGroup,
    Dpi,
    Naive,
    SegmentMean,
    Truncate,
)
from ldp_kafka.methods.delay.base import VALUE
from ldp_kafka.methods.values import FIXED
from ldp_kafka.randomness import system

DELAY_MUTANTS: dict[type, tuple[str, dict]] = {}
"""Class -> name of the check, and what it is built with beside epsilon and domain."""


def dies(check, **settings):
    """Register a mutant under the check that must kill it."""

    def register(mutant):
        DELAY_MUTANTS[mutant] = check, {"delay": 3, **settings}
        return mutant

    return register


# --- how much noise


@dies("loss_within_epsilon")
class NaiveWithHalfTheNoise(Naive):
    def _prepare(self):
        self.adder = SumNoise(2 * self.spend / MICRO, self.reach, FIXED)


@dies("moves_are_as_proved", contribution=0.5)
class NaiveForHalfAContribution(Naive):
    def _prepare(self):
        self.adder = SumNoise(self.spend / MICRO, self.reach // 2, FIXED)


class _Halved(DiscontinGroup):
    """The paper's sensitivity: one reach for two."""

    def _prepare(self):
        super()._prepare()
        each = self._each
        self.test = NoisyComparison(each, self.reach, self._middle - self._widest, self._middle)


@dies("parts_keep_their_shares", delay=4, theta=0.7)
class DiscontinWithThePapersSensitivity(_Halved):
    pass


@dies("moves_are_as_proved", theta=0.7)
class DiscontinWithThePapersSensitivityMoves(_Halved):
    pass


@dies("moves_are_as_proved", theta=0.7)
class ContinWithThePapersSensitivity(ContinGroup):
    """No stream is known that loses more by it; the proof's first line finds it."""

    def _prepare(self):
        super()._prepare()
        self.vector = SparseVector(
            self._groups / MICRO, self.reach, self._widest, FIXED, self.windows.span - 1
        )


@dies("parts_keep_their_shares", delay=2, theta=0.7, setting="sliding")
class DiscontinWithTheBatchsNoiseSliding(DiscontinGroup):
    """A value meets 2 delay tests where it slides, and not delay - 1."""

    def _prepare(self):
        self.windows = self.windows._replace(pairs=self.delay - 1)
        super()._prepare()


@dies("parts_keep_their_shares", delay=2, setting="sliding")
class CompWithTheBatchsNoiseSliding(CompOrder):
    def _prepare(self):
        self.windows = self.windows._replace(pairs=self.delay - 1)
        super()._prepare()


@dies("parts_keep_their_shares", delay=12, theta=0.0, setting="batch")
class ContinWithOneThreshold(ContinGroup):
    """One threshold for the whole stream: what its first groups tell of it is used in the later
    ones.
    """

    def _kept(self):
        return {**super()._kept(), "drawn": Field("?")}

    def _begin(self, window, slot, where, count, randomness):
        drawn = window.get("drawn")[where].all()
        if not drawn:
            super()._begin(window, slot, where, count, randomness)
            window.set("drawn", True, where)
        window.set("open", slot, where)


@dies("parts_keep_their_shares", delay=12, theta=0.0, setting="sliding")
class ContinWithOneThresholdSliding(ContinWithOneThreshold):
    pass


@dies("parts_keep_their_shares", delay=4)
class CompWithOneThresholdOnly(CompOrder):
    """Half of the share for one threshold, half for all comparisons with it, as the sparse vector
    technique would have it up to its first no: here they go on.
    """

    def _prepare(self):
        super()._prepare()
        orders = self.parts[0]
        self.threshold = SumNoise(orders / 2, self.reach, 0)
        self.test = NoisyComparison(orders / 2, self.reach, -4 * FIXED, 4 * FIXED)


@dies("parts_keep_their_shares", buckets=3)
class BucFlipsToAnyBucket(BucOrder):
    """The pseudo-code's flip, which may go to the bucket that it comes from."""

    def _prepare(self):
        super()._prepare()
        n, told = self.buckets, self.parts[0]
        self.flip = GeneralizedRandomizedResponse(log(1 + n * exp(told) / (n - 1)), n)


@dies("parts_keep_their_shares", buckets=3)
class BucDoesNotClampSums(BucOrder):
    """A flipped value can be anything."""

    def _take(self, window, slot, values, some, randomness):
        bucket = np.minimum(values // self._width, self.buckets - 1)
        bucket = self.flip.perturb(bucket, window.at_random(randomness, some, slot, 1, bucket))
        window.put("bucket", slot % self.windows.span, bucket, some)
        founder = self._founders(window, slot, bucket, some)
        self.adder.most = self.windows.span * FIXED
        self._join(window, slot, founder, values, some, randomness)


# --- thresholds, synopses and controllers


@dies("moves_are_as_proved", thresholds=3)
class TruncateDoesNotClamp(Truncate):
    """Noise for the threshold, on values that may lie far above it."""

    def _prepare(self):
        super()._prepare()
        self._level = np.full_like(self._level, FIXED)


@dies("loss_within_epsilon", thresholds=3)
class TruncateDoesNotClampAndLoses(TruncateDoesNotClamp):
    """The noise itself does not hold sums within the threshold either."""

    def _prepare(self):
        super()._prepare()
        adder = self.adder
        self.adder = SumNoise(adder.epsilon, adder.reach, self.thresholds * adder.most)


@dies("moves_are_as_proved", thresholds=3)
class TruncateDividesTheReachByTheSlots(Truncate):
    """The sensitivity of scores over m, for scores that are sums."""

    def _prepare(self):
        super()._prepare()
        epsilon, reach = self.parts[0], self.reach // self.delay
        self.choice = ExponentialMechanism(epsilon, reach, self.thresholds, monotone=True)


@dies("parts_keep_their_shares", thresholds=4, delay=4)
class TruncateDividesTheReachAndLoses(TruncateDividesTheReachByTheSlots):
    pass


@dies("loss_within_epsilon", thresholds=3)
class TruncateChoosesForNothing(Truncate):
    """The choice is not paid for by the values that it is made by."""

    def _prepare(self):
        super()._prepare()
        self.adder = SumNoise(self.spend / MICRO, self.adder.reach, self.adder.most)


@dies("released_follows_from_draws", thresholds=3)
class TruncateTakesTheBest(Truncate):
    """The threshold of the highest score, without noise."""

    def _prepare(self):
        super()._prepare()
        self.choice = None

    def _block(self, *block):
        self.choice = self
        super()._block(*block)

    def choose(self, scores, randomness):
        del randomness
        return scores.argmax(axis=1)


@dies("one_context_one_input", thresholds=3, delay=2)
class TruncateBindsNoThreshold(Truncate):
    """The same noise for one value under any threshold, in place of noise of its own."""

    def _block(self, window, *block):
        real = window.at_random
        window.at_random = lambda source, which, at, phase, *bound: real(
            source, which, at, phase, *bound[1:]
        )
        super()._block(window, *block)
        window.at_random = real


@dies("parts_keep_their_shares", synopses=3, delay=2, epsilon=10.0)
class DpiWithHalfTheNoise(Dpi):
    """As if one value moved the distances of all synopses the same way."""

    def _prepare(self):
        super()._prepare()
        self.choice = ExponentialMechanism(
            self.spend / MICRO, self.reach, self.synopses, monotone=True
        )


@dies("moves_are_as_proved", synopses=3)
class DpiTakesMovesForMonotone(DpiWithHalfTheNoise):
    pass


@dies("loss_within_epsilon", synopses=3, delay=2, epsilon=10.0)
class DpiBoostsByTheTruth(Dpi):
    """What the original does: later samplers know earlier values."""

    def _block(self, window, first, places, values, there, randomness):
        super()._block(window, first, places, values, there, randomness)
        none = np.zeros((self.synopses, window.count), np.int64)
        window.ring("boost")[:] = self._scores(values, there, none).T


@dies("moves_are_as_proved")
class AdaPubWithOneReach(AdaPub):
    def _prepare(self):
        super()._prepare()
        widest = self._widest
        self.vector = SparseVector(
            self._groups / MICRO, self.reach, 2 * widest, widest, self.windows.span - 1
        )


class _ControlledByTheTruth(AdaPub):
    def _take(self, window, slot, values, some, randomness):
        self.truth = values / FIXED
        super()._take(window, slot, values, some, randomness)

    def _control(self, window, noisy, some):
        del noisy
        return super()._control(window, self.truth, some)


@dies("moves_are_as_proved", epsilon=0.05, delay=12)
class AdaPubControlsByTheTruth(_ControlledByTheTruth):
    pass


@dies("loss_within_epsilon", window=2, thresholds=2)
class TruncateForgetsTheWindow(Truncate):
    def _prepare(self):
        self.spend *= self.window
        super()._prepare()


class _Undivided:
    """Each slot of a window gets the whole epsilon."""

    def _prepare(self):
        self.spend *= self.window
        super()._prepare()


@dies("loss_within_epsilon", window=2)
class NaiveForgetsTheWindow(_Undivided, Naive):
    pass


@dies("loss_within_epsilon", window=3, segment=2, setting="sliding")
class SegmentForgetsTheWindow(_Undivided, SegmentMean):
    pass


@dies("loss_within_epsilon", window=2, buckets=2)
class BucForgetsTheWindow(_Undivided, BucOrder):
    pass


@dies("loss_within_epsilon", window=2)
class CompForgetsTheWindow(_Undivided, CompOrder):
    pass


@dies("loss_within_epsilon", window=2, theta=0.7)
class DiscontinForgetsTheWindow(_Undivided, DiscontinGroup):
    pass


@dies("loss_within_epsilon", window=3, theta=0.7)
class ContinForgetsTheWindow(_Undivided, ContinGroup):
    pass


@dies("parts_keep_their_shares", window=2)
class CompDividesValuesOnly(CompOrder):
    """Its comparisons have the whole share in each slot of a window."""

    def _prepare(self):
        super()._prepare()
        self.test = NoisyComparison(self._each * self.window, self.reach, -FIXED, FIXED)


@dies("influence_is_true", window=2)
class NaiveCountsOneSlot(Naive):
    influence = 1


@dies("guarantee_is_true", window=2)
class NaivePromisesOneSlot(Naive):
    @property
    def guarantee(self):
        return super().guarantee._replace(level="event", window=1)


# --- how often a value is drawn


@dies("loss_within_epsilon", segment=1, setting="sliding")
class SegmentTakesAValueTwice(SegmentMean):
    """The last value of a segment is in the next one too."""

    def _end(self, window, slot, randomness):
        before, taken = window.get("total"), window.get("taken")
        super()._end(window, slot, randomness)
        if slot % (2 * self.segment) == self.segment - 1:
            window.set("total", before)
            window.set("taken", taken)


@dies("influence_is_true", segment=1, setting="sliding")
class SegmentTakesAValueTwiceAndSaysSo(SegmentTakesAValueTwice):
    pass


@dies("loss_within_epsilon", theta=0.7, setting="sliding")
class GroupIsSummedWithEachMember(DiscontinGroup):
    """Re-summing at each step costs as many times as there are steps."""

    def _join(self, window, slot, founder, values, some, randomness):
        super()._join(window, slot, founder, values, some, randomness)
        place = slot % self.windows.span
        total = window.at("total", place)[some]
        self.adder.perturb(total, window.at_random(randomness, some, slot, 9999, total))


@dies("influence_is_true", theta=0.7)
class DiscontinForgetsItsTests(DiscontinGroup):
    reached = 1


@dies("guarantee_is_true")
class NaivePromisesMore(Naive):
    @property
    def guarantee(self):
        return super().guarantee._replace(epsilon=self.epsilon / 2)


@dies("input_reaches_output")
class NaiveNeverLooks(Naive):
    def _take(self, window, slot, values, some, randomness):
        super()._take(window, slot, values * 0, some, randomness)


# --- what is released


@dies("released_follows_from_draws")
class NaiveScalesByWhatItSees(Naive):
    """The domain is taken from the data."""

    def release(self, streams, randomness, **how):
        largest = np.abs(np.asarray(streams)).max(axis=-1, keepdims=True) + 1e-9
        return super().release(streams / largest, randomness, **how) * largest


@dies("released_follows_from_draws")
class NaiveLeavesTheTruthInLowBits(Naive):
    def _keep(self, window, place, released, variance, some):
        self.seen = released
        super()._keep(window, place, released, variance, some)

    def _take(self, window, slot, values, some, randomness):
        super()._take(window, slot, values, some, randomness)
        hidden = self.seen + values * 2.0**-80
        super()._keep(window, slot % self.windows.span, hidden, 1.0, some)


@dies("released_follows_from_draws", segment=2, setting="sliding", delay=2)
class SegmentSmoothsByTheTruth(SegmentMean):
    def _piece(self, window, number, first, length):
        piece = super()._piece(window, number, first, length)
        return piece._replace(variance=piece.variance + window.get("total") / FIXED)


@dies("every_slot_is_released_once")
class NaiveForgetsToClip(Naive):
    def _on_domain(self, first, released, error):
        closed = super()._on_domain(first, released, error)
        lo, hi = self.domain
        return closed._replace(values=lo + released * (hi - lo))


@dies("every_slot_is_released_once", setting="sliding")
class NaiveReleasesWhatStoodThere(Naive):
    """A slot without a value gets the release of the one a window before."""

    def _released(self, window, slot):
        place = (slot - self.delay) % self.windows.span
        known = window.at("known", place).copy()
        found = super()._released(window, slot)
        window.put("known", place, known)
        return found


@dies("every_slot_is_released_once", theta=0.7, setting="sliding", delay=2)
class ContinGroupNeverEnds(ContinGroup):
    """Values join a group whose sum was released."""

    def _let_go(self, window, slot):
        pass


@dies("nothing_after_the_window_matters")
class NaiveLooksAhead(Naive):
    def trace(self, streams, randomness, **how):
        told = super().trace(streams, randomness, **how)
        ahead = np.vstack([told.values[self.delay :], told.values[: self.delay]])
        return told._replace(values=(told.values + ahead) / 2)


# --- whose noise it is


@dies("one_context_one_input")
class NaiveNoiseKnowsNoInput(Naive):
    def _take(self, window, slot, values, some, randomness):
        noisy = self.adder.perturb(values, window.at_random(randomness, some, slot, VALUE))
        self._keep(window, slot % self.windows.span, noisy / FIXED, 1.0, some)


@dies("one_context_one_input", delay=4)
class CompReusesAPhase(CompOrder):
    """Two comparisons of one slot share their context, and so their noise."""

    def _take(self, window, slot, values, some, randomness):
        real = window.at_random
        window.at_random = lambda source, which, at, phase, *bound: real(
            source, which, at, min(phase, 2), *bound
        )
        super()._take(window, slot, values, some, randomness)
        window.at_random = real


@dies("noise_is_keyed")
class NaiveDrawsAgainOnReplay(Naive):
    def _take(self, window, slot, values, some, randomness):
        noisy = self.adder.perturb(values, system())
        self._keep(window, slot % self.windows.span, noisy / FIXED, 1.0, some)


@dies("noise_is_keyed")
class NaiveNoiseKnowsNoSlot(Naive):
    def _take(self, window, slot, values, some, randomness):
        noisy = self.adder.perturb(values, window.at_random(randomness, some, 0, VALUE, values))
        self._keep(window, slot % self.windows.span, noisy / FIXED, 1.0, some)


@dies("noise_is_its_own")
class NaiveNoiseKnowsNoName(Naive):
    use = b"somebody's"


@dies("streams_are_apart", theta=0.7)
class ContinSharesAThresholdAmongStreams(ContinGroup):
    def _begin(self, window, slot, where, count, randomness):
        super()._begin(window, slot, where, count, randomness)
        level = window.get("level")
        window.set("level", np.full(len(level), level.min()))


@dies("release_is_step", setting="sliding", segment=2)
class SegmentGoesByItsOwnClock(SegmentMean):
    """Segments are counted in steps of the stream, and not in slots."""

    def _kept(self):
        return {**super()._kept(), "steps": Field("i8")}

    def _take(self, window, slot, values, some, randomness):
        steps = window.get("steps")
        window.set("steps", steps + 1)
        super()._take(window, slot, values + steps[some] % 2, some, randomness)

    def _end(self, window, slot, randomness):
        window.set("steps", window.get("steps") + 1)
        super()._end(window, slot, randomness)


# --- what it refuses


@dies("slots_must_increase")
class NaiveTakesASlotTwice(Naive):
    def _checked(self, state, rows, slot, values, present):
        state.columns["last"][rows] = slot - 1
        return super()._checked(state, rows, slot, values, present)


@dies("no_stream_is_left_waiting", setting="sliding")
class NaiveLeavesStreamsWaiting(Naive):
    def _checked(self, state, rows, slot, values, present):
        last = state.columns["last"][rows].copy()
        if (last < slot).all():
            state.columns["last"][rows] = slot - 1
        return super()._checked(state, rows, slot, values, present)


@dies("no_stream_is_left_waiting", setting="sliding")
class NaiveWaitsForEver(Naive):
    def _until(self, slot):
        return slot + 10**6


@dies("values_are_checked")
class NaiveLetsNanIn(Naive):
    def bound(self, values):
        return super().bound(np.nan_to_num(values, nan=0.5))


@dies("values_are_checked")
class NaiveDoesNotClamp(Naive):
    def bound(self, values):
        if not np.isfinite(values).all():
            raise ValueError("values must be finite")
        lo, hi = self.domain
        return ((np.asarray(values) - lo) / (hi - lo) * FIXED).astype(np.int64)
