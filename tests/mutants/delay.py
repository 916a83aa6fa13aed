"""Faults of the methods that release windows."""

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
from ldp_kafka.methods.delay.rows import ALL, among
from ldp_kafka.methods.values import FIXED
from ldp_kafka.randomness import system
from tests.mutants import breaks

LOSS, SHARES, MOVES = "loss_within_epsilon", "parts_keep_their_shares", "moves_are_as_proved"
SLIDING = {"setting": "sliding"}

# --- how much noise


@breaks(LOSS, of=Naive)
class WithHalfTheNoise:
    def prepare(self):
        self.adder = SumNoise(2 * self.spend / MICRO, self.reach, FIXED)


OFTEN = {"interval": 2, "thresholds": 3}


@breaks(LOSS, of=Naive, truncation=OFTEN)
class TruncatesForNothing:
    def _truncate(self, interval, thresholds):
        super()._truncate(interval, thresholds)
        self.reduced.spend = self.spend
        self.reduced.prepare()


@breaks("released_follows_from_draws", of=Naive, truncation=OFTEN)
class TruncatesToTheGreatest:
    def _truncated(self, truncation, window, slot, values, present):
        truncation.levels = lambda _: np.maximum(values.max(axis=0), 2**24)
        return super()._truncated(truncation, window, slot, values, present)


@breaks(LOSS, of=Naive, truncation=OFTEN, delay=1)
class ChoosesByTheBatchBeforeToo:
    """Its values are in two choices."""

    def kept(self):
        return {**super().kept(), "earlier": Field("i8", self.delay)}

    def _truncated(self, truncation, window, slot, values, present):
        earlier, choose = np.array(window.ring("earlier")), truncation.choose
        both = np.concatenate([earlier, values])
        truncation.chooses = lambda _: True
        truncation.choose = lambda *_: choose(window, slot, both, np.ones(both.shape, bool))
        try:
            return super()._truncated(truncation, window, slot, values, present)
        finally:
            truncation.choose = choose
            window.ring("earlier")[:] = values


HALVES = {"interval": 1, "thresholds": 2, "sample": 50}


def noted(window, sampled, some):
    """These are sampled, and the rest is left."""
    window.put("sampled", window.place, sampled, some)
    rest = np.flatnonzero(~sampled)
    return rest, among(window.count, some, rest)


@breaks(LOSS, of=SegmentMean, segment=2, truncation=HALVES)
@breaks(LOSS, of=ContinGroup, truncation=HALVES)
class SumsTheSampledToo:
    """A sampled value pays for the choice, and for the noise as if it were in none."""

    def _unsampled(self, window, joins, some):
        super()._unsampled(window, joins, some)
        return ALL, some


@breaks(LOSS, of=ContinGroup, noise="point", truncation=HALVES)
class SamplesTheGreatest:
    """Values say whether they are sampled: which sums they are in tells them apart."""

    def _join(self, window, founder, values, some):
        self.great = values > FIXED // 2
        super()._join(window, founder, values, some)

    def _unsampled(self, window, joins, some):
        return noted(window, self.great & joins, some)


@breaks("noise_is_keyed", of=SegmentMean, segment=2, truncation=HALVES)
class SamplesAnewOnReplay:
    def _unsampled(self, window, joins, some):
        return noted(window, joins & (system().words(len(joins))[:, 0] % 2 > 0), some)


@breaks(LOSS, of=SegmentMean, segment=2, truncation=HALVES | {"thresholds": 3})
class ChoosesByMoreThanNoiseHas:
    def _truncate(self, interval, thresholds, sample):
        self._values = 4 * self.spend
        super()._truncate(interval, thresholds, sample)


@breaks(MOVES, of=Naive, contribution=0.5)
class ForHalfAContribution:
    def prepare(self):
        self.adder = SumNoise(self.spend / MICRO, self.reach // 2, FIXED)


@breaks(SHARES, of=DiscontinGroup, delay=4, theta=0.7)
@breaks(MOVES, of=DiscontinGroup, theta=0.7)
class TestsForThePapersSensitivity:
    """One reach for two."""

    def prepare(self):
        super().prepare()
        each = self._each
        self.test = NoisyComparison(each, self.reach, self._middle - self._widest, self._middle)


@breaks(MOVES, of=ContinGroup, theta=0.7)
class ForThePapersSensitivity:
    """No stream is known that loses more by it; the proof's first line finds it."""

    def prepare(self):
        super().prepare()
        self.vector = SparseVector(
            self._groups / MICRO, self.reach, self._widest, FIXED, self.windows.span - 1
        )


@breaks(SHARES, of=DiscontinGroup, delay=2, theta=0.7, **SLIDING)
@breaks(SHARES, of=CompOrder, delay=2, **SLIDING)
class WithTheBatchsNoiseSliding:
    """A value meets 2 delay tests where it slides, and not delay - 1."""

    def prepare(self):
        self.windows = self.windows._replace(pairs=self.delay - 1)
        super().prepare()


@breaks(SHARES, of=ContinGroup, delay=12, theta=0.0)
class WithOneThreshold:
    """One threshold for the whole stream: what its first groups tell of it is used in the later
    ones.
    """

    def kept(self):
        return {**super().kept(), "drawn": Field("?")}

    def _begin(self, window, where, count):
        drawn = window.get("drawn")[where].all()
        if not drawn:
            super()._begin(window, where, count)
            window.set("drawn", True, where)
        window.set("open", window.slot, where)


@breaks(SHARES, of=ContinGroup, delay=12, theta=0.0, **SLIDING)
class WithOneThresholdSliding(WithOneThreshold):
    pass


@breaks(SHARES, of=CompOrder, delay=4)
class WithOneThresholdOnly:
    """Half of the share for one threshold, half for all comparisons with it, as the sparse vector
    technique would have it up to its first no: here they go on.
    """

    def prepare(self):
        super().prepare()
        orders = self.parts[0]
        self.threshold = SumNoise(orders / 2, self.reach, 0)
        self.test = NoisyComparison(orders / 2, self.reach, -4 * FIXED, 4 * FIXED)


@breaks(SHARES, of=BucOrder, buckets=3)
class FlipsToAnyBucket:
    """The pseudo-code's flip, which may go to the bucket that it comes from."""

    def prepare(self):
        super().prepare()
        n, told = self.buckets, self.parts[0]
        self.flip = GeneralizedRandomizedResponse(log(1 + n * exp(told) / (n - 1)), n)


@breaks(SHARES, of=BucOrder, buckets=3)
class DoesNotClampSums:
    """A flipped value can be anything."""

    def take(self, window, values, some):
        bucket = np.minimum(values // self._width, self.buckets - 1)
        bucket = self.flip.perturb(bucket, window.at_random(some, 1, bucket))
        window.put("bucket", window.place, bucket, some)
        founder = self._founders(window, bucket, some)
        self.adder.most = self.windows.span * FIXED
        self._join(window, founder, values, some)


@breaks(LOSS, of=Naive, window=2)
@breaks(LOSS, of=SegmentMean, window=3, segment=2, **SLIDING)
@breaks(LOSS, of=BucOrder, window=2, buckets=2)
@breaks(LOSS, of=CompOrder, window=2)
@breaks(LOSS, of=DiscontinGroup, window=2, theta=0.7)
@breaks(LOSS, of=ContinGroup, window=3, theta=0.7)
@breaks(LOSS, of=Truncate, window=2, thresholds=2)
class ForgetsTheWindow:
    """Each slot of a window gets the whole epsilon."""

    def prepare(self):
        self.spend *= self.window
        super().prepare()


@breaks(SHARES, of=CompOrder, window=2)
class DividesValuesOnly:
    """Its comparisons have the whole share in each slot of a window."""

    def prepare(self):
        super().prepare()
        self.test = NoisyComparison(self._each * self.window, self.reach, -FIXED, FIXED)


# --- thresholds, synopses and controllers


@breaks(MOVES, of=Truncate, thresholds=3)
class DoesNotClamp:
    """Noise for the threshold, on values that may lie far above it."""

    def prepare(self):
        super().prepare()
        self._level = np.full_like(self._level, FIXED)


@breaks(LOSS, of=Truncate, thresholds=3)
class DoesNotClampAndLoses(DoesNotClamp):
    """The noise itself does not hold sums within the threshold either."""

    def prepare(self):
        super().prepare()
        adder = self.adder
        self.adder = SumNoise(adder.epsilon, adder.reach, self.thresholds * adder.most)


@breaks(SHARES, of=Truncate, thresholds=4, delay=4)
@breaks(MOVES, of=Truncate, thresholds=3)
class DividesTheReachByTheSlots:
    """The sensitivity of scores over m, for scores that are sums."""

    def prepare(self):
        super().prepare()
        epsilon, reach = self.parts[0], self.reach // self.delay
        self.choice = ExponentialMechanism(epsilon, reach, self.thresholds, monotone=True)


@breaks(LOSS, of=Truncate, thresholds=3)
class ChoosesForNothing:
    """The choice is not paid for by the values that it is made by."""

    def prepare(self):
        super().prepare()
        self.adder = SumNoise(self.spend / MICRO, self.adder.reach, self.adder.most)


@breaks("released_follows_from_draws", of=Truncate, thresholds=3)
class TakesTheBest:
    """The threshold of the highest score, without noise."""

    def prepare(self):
        super().prepare()
        self.choice = None

    def _block(self, *block):
        self.choice = self
        super()._block(*block)

    def choose(self, scores, randomness):
        return scores.argmax(axis=1)


@breaks("one_context_one_input", of=Truncate, thresholds=3, delay=2)
class BindsNoThreshold:
    """The same noise for one value under any threshold, in place of noise of its own."""

    def _block(self, window, *block):
        real = window.at_random
        window.at_random = lambda which, phase, *bound, **at: real(which, phase, *bound[1:], **at)
        super()._block(window, *block)
        window.at_random = real


@breaks(SHARES, of=Dpi, synopses=3, delay=2, epsilon=10.0)
@breaks(MOVES, of=Dpi, synopses=3)
class TakesMovesForMonotone:
    """Half of the noise, as if one value moved the distances of all synopses the same way."""

    def prepare(self):
        super().prepare()
        self.choice = ExponentialMechanism(
            self.spend / MICRO, self.reach, self.synopses, monotone=True
        )


@breaks(LOSS, of=Dpi, synopses=3, delay=2, epsilon=10.0)
class BoostsByTheTruth:
    """What the original does: later samplers know earlier values."""

    def _block(self, window, values, there):
        super()._block(window, values, there)
        none = np.zeros((self.synopses, window.count), np.int64)
        window.ring("boost")[:] = self._scores(values, there, none).T


@breaks(MOVES, of=AdaPub)
class WithOneReach:
    def prepare(self):
        super().prepare()
        widest = self._widest
        self.vector = SparseVector(
            self._groups / MICRO, self.reach, 2 * widest, widest, self.windows.span - 1
        )


@breaks(MOVES, of=AdaPub, epsilon=0.05, delay=12)
class ControlsByTheTruth:
    def take(self, window, values, some):
        self.truth = values / FIXED
        super().take(window, values, some)

    def _control(self, window, noisy, some):
        return super()._control(window, self.truth, some)


# --- what is stated


@breaks("influence_is_true", of=Naive, window=2)
class CountsOneSlot:
    influence = 1


@breaks("influence_is_true", of=DiscontinGroup, theta=0.7)
class ForgetsItsTests:
    reached = 1


@breaks("guarantee_is_true", of=Naive, window=2)
class PromisesOneSlot:
    @property
    def guarantee(self):
        return super().guarantee._replace(level="event", window=1)


@breaks("guarantee_is_true", of=Naive)
class PromisesMore:
    @property
    def guarantee(self):
        return super().guarantee._replace(epsilon=self.epsilon / 2)


# --- how often a value is drawn


@breaks(LOSS, of=SegmentMean, segment=1, **SLIDING)
@breaks("influence_is_true", of=SegmentMean, segment=1, **SLIDING)
class TakesAValueTwice:
    """The last value of a segment is in the next one too."""

    def end(self, window):
        before, taken = window.get("total"), window.get("taken")
        super().end(window)
        if window.slot % (2 * self.segment) == self.segment - 1:
            window.set("total", before)
            window.set("taken", taken)


@breaks(LOSS, of=DiscontinGroup, theta=0.7, **SLIDING)
class SumsWithEachMember:
    """Re-summing at each step costs as many times as there are steps."""

    def _join(self, window, founder, values, some):
        super()._join(window, founder, values, some)
        total = window.at("total", window.place)[some]
        self.adder.perturb(total, window.at_random(some, 9999, total))


@breaks("input_reaches_output", of=Naive)
class NeverLooks:
    def take(self, window, values, some):
        super().take(window, values * 0, some)


# --- what is released


@breaks("released_follows_from_draws", of=Naive)
class ScalesByWhatItSees:
    """The domain is taken from the data."""

    def release(self, streams, randomness, **how):
        largest = np.abs(np.asarray(streams)).max(axis=-1, keepdims=True) + 1e-9
        return super().release(streams / largest, randomness, **how) * largest


@breaks("released_follows_from_draws", of=Naive)
class LeavesTheTruthInLowBits:
    def keep(self, window, place, released, variance, some):
        self.seen = released
        super().keep(window, place, released, variance, some)

    def take(self, window, values, some):
        super().take(window, values, some)
        hidden = self.seen + values * 2.0**-80
        super().keep(window, window.place, hidden, 1.0, some)


@breaks("released_follows_from_draws", of=SegmentMean, segment=2, delay=2, **SLIDING)
class SmoothsByTheTruth:
    def _piece(self, window, number, first, length):
        piece = super()._piece(window, number, first, length)
        return piece._replace(variance=piece.variance + window.get("total") / FIXED)


@breaks("every_slot_is_released_once", of=Naive)
class ForgetsToClip:
    def _on_domain(self, first, released, error):
        closed = super()._on_domain(first, released, error)
        lo, hi = self.domain
        return closed._replace(values=lo + released * (hi - lo))


@breaks("every_slot_is_released_once", of=Naive, **SLIDING)
class ReleasesWhatStoodThere:
    """A slot without a value gets the release of the one a window before."""

    def _released(self, window):
        place = (window.slot - self.delay) % self.windows.span
        known = window.at("known", place).copy()
        found = super()._released(window)
        window.put("known", place, known)
        return found


@breaks("every_slot_is_released_once", of=ContinGroup, theta=0.7, delay=2, **SLIDING)
class NeverEnds:
    """Values join a group whose sum was released."""

    def _let_go(self, window):
        pass


@breaks("nothing_after_the_window_matters", of=Naive)
class LooksAhead:
    def trace(self, streams, randomness, **how):
        told = super().trace(streams, randomness, **how)
        ahead = np.vstack([told.values[self.delay :], told.values[: self.delay]])
        return told._replace(values=(told.values + ahead) / 2)


# --- whose noise it is


class _Noise:
    """Drawn in another way than bound to the value and its slot."""

    def take(self, window, values, some):
        source = self._source(window, values, some)
        noisy = self.adder.perturb(values, source) / FIXED
        self.keep(window, window.place, noisy, 1.0, some)


@breaks("one_context_one_input", of=Naive)
class NoiseKnowsNoInput(_Noise):
    def _source(self, window, values, some):
        return window.at_random(some, VALUE)


@breaks("noise_is_keyed", of=Naive)
class DrawsAgainOnReplay(_Noise):
    def _source(self, window, values, some):
        return system()


@breaks("noise_is_keyed", of=Naive)
class NoiseKnowsNoSlot(_Noise):
    def _source(self, window, values, some):
        return window.at_random(some, VALUE, values, slot=0)


@breaks("noise_is_its_own", of=Naive)
class NoiseKnowsNoName:
    use = b"somebody's"


@breaks("one_context_one_input", of=CompOrder, delay=4)
class ReusesAPhase:
    """Two comparisons of one slot share their context, and so their noise."""

    def take(self, window, values, some):
        real = window.at_random
        window.at_random = lambda which, phase, *bound: real(which, min(phase, 2), *bound)
        super().take(window, values, some)
        window.at_random = real


@breaks("users_are_apart", of=ContinGroup, theta=0.7)
class SharesAThresholdAmongStreams:
    def _begin(self, window, where, count):
        super()._begin(window, where, count)
        level = window.get("level")
        window.set("level", np.full(len(level), level.min()))


@breaks("release_is_step", of=SegmentMean, segment=2, **SLIDING)
class GoesByItsOwnClock:
    """Segments are counted in steps of the stream, and not in slots."""

    def kept(self):
        return {**super().kept(), "steps": Field("i8")}

    def take(self, window, values, some):
        steps = window.get("steps")
        window.set("steps", steps + 1)
        super().take(window, values + steps[some] % 2, some)

    def end(self, window):
        window.set("steps", window.get("steps") + 1)
        super().end(window)


# --- what it refuses


@breaks("slots_must_increase", of=Naive)
class TakesASlotTwice:
    def _checked(self, state, batch):
        state.columns["last"][batch.rows] = batch.slot - 1
        return super()._checked(state, batch)


@breaks("no_stream_is_left_waiting", of=Naive, **SLIDING)
class LeavesStreamsWaiting:
    def _checked(self, state, batch):
        if (state.columns["last"][batch.rows] < batch.slot).all():
            state.columns["last"][batch.rows] = batch.slot - 1
        return super()._checked(state, batch)


@breaks("no_stream_is_left_waiting", of=Naive, **SLIDING)
class WaitsForEver:
    def _until(self, slot):
        return slot + 10**6


@breaks("values_are_checked", of=Naive)
class LetsNanIn:
    def bound(self, values):
        return super().bound(np.nan_to_num(values, nan=0.5))


@breaks("values_are_checked", of=Naive)
class FoldsInsteadOfClamping:
    def bound(self, values):
        lo, hi = self.domain
        outside = (values < lo) | (values > hi)
        return super().bound(np.where(outside, lo + hi - values, values))
