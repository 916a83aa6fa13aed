"""SWP and SPPA: the interpolant, the exact loss of a sampling period, and twins that
must be found.
"""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.accounting import Ledger
from ldp_kafka.checks import CheckFailure
from ldp_kafka.checks.tiny import narrow, wide
from ldp_kafka.mechanisms.base import Law
from ldp_kafka.methods import SamplingPeriod, SingleWindow
from ldp_kafka.methods.base import FIXED
from ldp_kafka.methods.batch import Batch
from ldp_kafka.methods.kernel import SLOT, WEIGHT, cosines, kernel
from ldp_kafka.randomness import keyed, seeded
from tests.cases import cases
from tests.depth import depth
from tests.keys import KEY
from tests.methods.timed import CHECKS, exact_law, loss, tiny, trial_of, within

WINDOWS = (1, 2, 3)
KINDS = (SingleWindow, SamplingPeriod)


# --- the interpolant


@pytest.mark.parametrize("symmetric", [True, False])
@cases("n", [1, 2, 3, 5, 8, 10, 17, 64, 256])
def test_kernel_is_the_fourier_interpolant(n, symmetric):
    """Against numpy's transform, at places between the samples: the integer weights give the same
    to within their rounding.
    """
    d = np.random.default_rng(n).random(n)
    k = np.arange(n)
    frequency = np.where(2 * k > n, k - n, k) if symmetric else k
    x = np.random.default_rng(0).integers(0, n * SLOT, 50)
    want = (np.fft.fft(d) * np.exp(2j * np.pi * frequency * x[:, None] / SLOT / n)).sum(1).real / n
    got = (kernel(n, symmetric=symmetric)[(x[:, None] - k * SLOT) % (n * SLOT)] * d).sum(1) / WEIGHT
    np.testing.assert_allclose(got, want, atol=n * 2.0**-25 + 1e-12)


@cases("n", range(3, 12))
def test_the_printed_sum_is_complex_between_samples_and_the_symmetric_one_is_real(n):
    """Why the default is not the sum as printed (SPPA, Algorithm 1, line 5): its imaginary part is
    of the size of the data. (At even n one frequency has no partner.)
    """
    d, k = np.random.default_rng(n).random(n), np.arange(n)
    t = np.arange(n)[:, None] + 0.5

    def imaginary(frequency):
        return np.abs(
            ((np.fft.fft(d) * np.exp(2j * np.pi * frequency * t / n)).sum(1) / n).imag
        ).max()

    assert imaginary(k) > 0.1
    assert imaginary(np.where(2 * k > n, k - n, k)) < (
        1e-12 if n % 2 else 0.1 * imaginary(k) + np.abs(np.fft.fft(d)[n // 2]) / n
    )


@cases("steps", [1, 2, 3, 7, 1024, 3 * 1024, 10 * 1024])
def test_cosines_are_right_to_the_last_place(steps):
    """In integers alone, yet the cosine."""
    got = cosines(steps)
    assert len(got) == steps
    assert np.abs(got / 2**40 - np.cos(2 * np.pi * np.arange(steps) / steps)).max() <= 2.0**-40


@pytest.mark.parametrize("n", depth((1, 16, 256), range(1, 257, 15)))
def test_the_weights_of_one_point_cannot_overflow(n):
    """Sum of their sizes, for any point: below 8, so that 2**32 * 2**24 * 8 = 2**59 bounds a
    report's sum.
    """
    for symmetric in (True, False):
        assert np.abs(kernel(n, symmetric=symmetric)).reshape(n, SLOT).sum(0).max() < 8 * WEIGHT


class _Still:
    """A mechanism that says a given period, whatever the true one."""

    scale, width, index_range = 2.0**-12, 0, (0, 4096)
    epsilon, domain = 1e-6, (0.0, 1.0)

    def __init__(self, share):
        self.share = share

    def perturb(self, values, randomness):
        return np.full(len(values), self.share)

    def law(self, value):
        return Law(np.array([self.share]), [1], 1)

    def tables(self):
        return ()


@pytest.mark.parametrize(
    ("kind", "lost"), [(SingleWindow, {0, 9, 10, 19}), (SamplingPeriod, {0, 17, 18, 19})]
)
def test_at_the_true_period_the_values_are_published(kind, lost):
    """T' = T gives back every value that is published, which shows what is not protected; swp loses
    two slots of a segment, sppa the first of the stream and an unfinished segment.
    """
    stream = np.random.default_rng(3).random(20)
    got = kind(epsilon=1.0, window=8, domain=(0.0, 1.0), mechanism=lambda *_: _Still(0.5)).release(
        stream, seeded(1)
    )
    assert set(np.flatnonzero(np.isnan(got)).tolist()) == lost
    assert np.nanmax(np.abs(got - stream)) <= 2.0**-20


def test_at_another_period_the_interpolant_is_resampled():
    """T' = 1.25 slots, against numpy's transform."""
    n, stream = 7, np.random.default_rng(3).random(7)
    got = SingleWindow(
        epsilon=1.0, window=5, domain=(0.0, 1.0), mechanism=lambda *_: _Still(0.75)
    ).release(stream, seeded(1))
    k = np.fft.fftfreq(n, 1 / n)
    t = 1.25 * np.arange(n)
    want = (np.fft.fft(stream) * np.exp(2j * np.pi * k * t[:, None] / n)).sum(1).real / n
    np.testing.assert_allclose(got[1:-1], np.clip(want, 0, 1)[1:-1], atol=2.0**-19)


@pytest.mark.parametrize("kind", KINDS)
def test_the_coordinates_of_a_vector_are_resampled_as_numbers_are(kind):
    """At one period: each coordinate is published as it would be by itself."""

    def made(dimension):
        how = {"epsilon": 1.0, "window": 5, "domain": (0.0, 1.0), "dimension": dimension}
        return kind(mechanism=lambda *_: _Still(0.75), **how)

    streams = np.random.default_rng(3).random((4, 30, 3))
    whole = made(3).release(streams, seeded(1))
    assert whole.shape == streams.shape
    for at in range(3):
        alone = made(None).release(streams[:, :, at], seeded(1))
        np.testing.assert_array_equal(whole[:, :, at], alone)
    assert np.isfinite(whole).any()
    assert made(3).reliability == made(None).reliability


def test_a_gap_leaves_its_segments_unpublished():
    """A user that misses a slot publishes nothing of the segments that hold it, and everything of
    the others.
    """
    method, source, found = (
        lk.method("sppa", epsilon=1.0, window=2, domain=(0.0, 1.0)),
        keyed(KEY),
        {},
    )
    state = method.state(source.digests(["a"]))
    for slot in [*range(9), *range(10, 20)]:  # segments 0-3, 2-5, ..., 16-19; 9 is in 6-9 and 8-11
        step = method.step(state, Batch(np.array([0]), slot, np.array([FIXED // 3]), source))
        if step.slots is not None and step.status[0]:
            found |= dict.fromkeys(step.slots[0].tolist())
    assert sorted(found) == [1, 2, 3, 4, 5, 6, *range(11, 19)]


def test_how_often_the_period_was_limited_is_counted():
    """In the state, at the edge; a period of 1 + 1/2 slot is not limited, one of 3 is."""
    for share, times in ((1.0, 0), (2.5, 4)):
        method = SamplingPeriod(
            epsilon=1.0,
            window=3,
            domain=(0.0, 1.0),
            mechanism=lambda *_, share=share: _Still(share),
        )
        state = method.state(np.zeros((1, 2), np.uint64))
        for slot in range(14):
            method.step(state, Batch(np.array([0]), slot, np.array([slot]), seeded(1)))
        assert state.columns["limited"][0] == times


# --- the guarantee


def stretched(kind, run, period):
    """A twin whose device has another true period in the segments that meet a run of slots."""

    class Stretched(kind):
        def _period(self, begin):
            return (
                period
                if begin <= run[-1] and begin + self.length > run[0]
                else super()._period(begin)
            )

    return Stretched


def worst(kind, window, segments=5, mechanism=narrow, draws=None, **parameters):
    """Largest exact loss between two true periods, the ends of the public range, in any run of
    ``window`` slots; and the most segments that such a run meets.
    """
    method = tiny(kind, window, mechanism, **parameters)
    length = method.advance * (segments - 1) + method.length
    stream = 0.5 + 0.3 * np.sin(np.arange(length) ** 1.3) + 0.01 * np.arange(length) / length
    if method.dimension:
        stream = np.stack([stream] * method.dimension, axis=1)
    most, met = 0.0, 0
    for first in range(length - window + 1):
        run = range(first, first + window)
        ends = [stretched(kind, run, SLOT + sign * method._tau // 2) for sign in (-1, 1)]
        most = max(
            most,
            loss(
                *(
                    exact_law(tiny(end, window, mechanism, **parameters), stream, draws or segments)
                    for end in ends
                )
            ),
        )
        met = max(
            met,
            sum(
                b <= run[-1] and b + method.length > run[0]
                for b in range(0, length - method.length + 1, method.advance)
            ),
        )
    return most, met


@pytest.mark.parametrize("mechanism", [narrow, wide])
@pytest.mark.parametrize("kind", KINDS)
@cases("dimension", [None, 2])
@cases("window", WINDOWS)
def test_sound_loss_is_epsilon_to_the_last_micro(kind, window, mechanism, dimension):
    """The periods of one run of slots, anywhere in their range: what is published is at most
    e^epsilon times likelier, and that is reached; for vectors as for numbers.
    """
    most, met = worst(kind, window, mechanism=mechanism, dimension=dimension)
    assert met == tiny(kind, window).guarantee.influence
    assert 1 - 4e-6 <= most <= 1 + 1e-9


@pytest.mark.parametrize("window", WINDOWS)
def test_epsilon_a_segment_loses_three(window):
    """Algorithm 2 of the paper as it spends, even with a sound segment: a window of slots straddles
    three, and loses 3 epsilon, not epsilon (its section 4.6).
    """

    class SpendsAWholeBudgetASegment(SamplingPeriod):
        def _shares(self):
            return 1

        @property
        def run(self):
            return self.window

    assert worst(SpendsAWholeBudgetASegment, window)[0] == pytest.approx(3, abs=1e-5)
    published = SamplingPeriod(
        epsilon=1.0,
        window=window,
        domain=(0.0, 1.0),
        calibration="published",
        mechanism=lk.MECHANISMS["laplace"],
    )
    # and so for the real mechanism: three draws of this exact loss
    segment = published.mechanism.certificate().epsilon_effective
    assert published.influence * segment == pytest.approx(3, abs=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_published_has_no_guarantee_and_says_so(kind):
    """What it divides by the true period has another support for each period: some outcomes tell
    periods apart for certain.
    """
    assert worst(kind, 2, calibration="published")[0] == inf
    guarantee = tiny(kind, 2, calibration="published").guarantee
    assert guarantee.epsilon == inf
    assert "NONE" in guarantee.describe()


def test_the_ratio_of_the_paper_has_no_bound():
    """The density of T' / T at z, for T and T + tau: |z - 1| epsilon - ln(1 + tau / T), so any
    epsilon is exceeded for large z.
    """
    epsilon, true, tau = 1.0, 1.0, 1.0

    def density(z, period):
        return epsilon * period / (2 * tau) * np.exp(-epsilon * period * abs(z - 1) / tau)

    ratios = [float(np.log(density(z, true) / density(z, true + tau))) for z in (2.0, 5.0, 50.0)]
    assert ratios == pytest.approx(
        [abs(z - 1) * epsilon - np.log(1 + tau / true) for z in (2.0, 5.0, 50.0)]
    )
    assert ratios[1] > epsilon and ratios[2] > 10 * epsilon


@cases("kind", KINDS)
@cases("window", range(1, 30))
def test_influence_counts_the_segments_that_a_window_meets(kind, window):
    """By listing them; and their last slots lie in one run of the ledger's."""
    method = kind(epsilon=1.0, window=window, domain=(0.0, 1.0), mechanism=narrow)
    begins = np.arange(0, 40 * method.advance, method.advance)
    met = [
        begins[(begins < first + window) & (begins + method.length > first)]
        for first in range(8 * window, 16 * window)
    ]
    assert max(map(len, met)) == method.influence
    assert all(m[-1] - m[0] < method.run for m in met)
    ends = begins + method.length - 1
    assert (
        max(
            ((ends >= first) & (ends < first + method.run)).sum()
            for first in range(8 * window, 16 * window)
        )
        <= method.influence
    )


def test_what_is_protected_is_said():
    """Time, and not values."""
    said = lk.method("sppa", epsilon=1.0, window=8, domain=(0.0, 1.0)).guarantee
    assert said.protects == "time"
    assert "between 0.5 and 1.5 slots, and not the order of values" in said.describe()
    assert "when a value was taken, not what it is" in said.describe()


def test_the_values_can_be_read_off():
    """Given the values T' is found from one report; so the reports of a value-neighbour are told
    apart: this is no value privacy.
    """
    method = tiny("sppa", 2)
    one = exact_law(method, np.array([0.1, 0.9, 0.2, 0.6]), 1)
    other = exact_law(tiny("sppa", 2), np.array([0.1, 0.8, 0.2, 0.6]), 1)
    assert loss(one, other) == inf


@cases("bad", [0.0, -1.0, 2.1, float("nan"), float("inf")])
def test_tau_is_guarded(bad):
    """A range of periods within (0, 2] slots."""
    with pytest.raises(lk.ConfigurationError, match="tau"):
        lk.method("sppa", epsilon=1.0, window=2, domain=(0.0, 1.0), tau=bad)


def test_other_parameters_are_guarded():
    """A bool is no number; the window has a limit."""
    with pytest.raises(TypeError, match="tau"):
        lk.method("sppa", epsilon=1.0, window=2, domain=(0.0, 1.0), tau=True)
    with pytest.raises(lk.ConfigurationError, match="window"):
        lk.method("sppa", epsilon=1.0, window=255, domain=(0.0, 1.0))
    for bad in (0, 1025):
        with pytest.raises(lk.ConfigurationError, match="dimension"):
            lk.method("sppa", epsilon=1.0, window=2, domain=(0.0, 1.0), dimension=bad)
    with pytest.raises(TypeError, match="dimension"):
        lk.method("sppa", epsilon=1.0, window=2, domain=(0.0, 1.0), dimension=True)


@pytest.mark.parametrize("check", CHECKS)
@cases("calibration", ["sound", "published"])
@cases("window", WINDOWS)
@cases("kind", KINDS)
def test_contract(check, kind, window, calibration):
    """One check on one specimen."""
    CHECKS[check](trial_of(kind, window, calibration=calibration))


@pytest.mark.parametrize("check", sorted(CHECKS.keys() - {"one_context_one_input"}))
@cases("kind", KINDS)
def test_contract_of_vectors(check, kind):
    """But for what deals out all outcomes of numbers: the exact loss above is of vectors too."""
    CHECKS[check](trial_of(kind, 2, dimension=2))


# --- broken twins


class CountsTwoSegments(SamplingPeriod):
    influence = 2
    run = property(lambda self: self.window)


class DividesByTheTruePeriod(SamplingPeriod):
    def _perturbed(self, state, batch, begin):
        return super()._perturbed(state, batch, begin) * SLOT // self._period(begin)


class AddsTheTruePeriodAfterwards(SamplingPeriod):
    def _perturbed(self, state, batch, begin):
        return super()._perturbed(state, batch, begin) + (self._period(begin) - SLOT) // 64


class PublishesThePeriodAsItIs(SamplingPeriod):
    def draw(self, state, batch, inputs, bound, phase=0):
        super().draw(state, batch, inputs, bound, phase)
        return inputs


class DrawsForEachCoordinate(SamplingPeriod):
    at = 0

    def draw(self, state, batch, inputs, bound, phase=0):
        return super().draw(state, batch, inputs, bound, self.at)

    def _resampled(self, state, batch, begin):
        out = super()._resampled(state, batch, begin)
        for at in range(1, self.dimension):
            self.at = at
            out[..., at] = super()._resampled(state, batch, begin)[..., at]
        self.at = 0
        return out


class OneDrawForAllSegments(SamplingPeriod):
    def draw(self, state, batch, inputs, bound, phase=0):
        return super().draw(state, batch._replace(slot=0), inputs, bound, phase)


class BillsNothing(SamplingPeriod):
    def step(self, state, batch):
        kept, self.spend = self.spend, 0
        try:
            return super().step(state, batch)
        finally:
            self.spend = kept


class LedgerOfAWindow(SamplingPeriod):
    def __init__(self, **parameters):
        super().__init__(**parameters)
        self.ledger = Ledger(self.window, self.ledger.budget)


class MixesUsers(SamplingPeriod):
    def _resampled(self, state, batch, begin):
        out = super()._resampled(state, batch, begin)
        return (out + out.mean(0)) / 2 if len(out) else out


class TellsSlotsToCome(SamplingPeriod):
    def step(self, state, batch):
        step = super().step(state, batch)
        return (
            step if step.slots is None else step._replace(slots=step.slots + 2 * (step.slots >= 0))
        )


LOSE = [
    CountsTwoSegments,
    DividesByTheTruePeriod,
    AddsTheTruePeriodAfterwards,
    PublishesThePeriodAsItIs,
]
FAIL = {
    OneDrawForAllSegments: "noise_is_keyed",
    BillsNothing: "ledger_holds",
    LedgerOfAWindow: "ledger_holds",
    MixesUsers: "users_are_apart",
    TellsSlotsToCome: "release_is_step",
}


@cases("kind", LOSE)
def test_twin_that_loses_more_is_found(kind):
    """The exact loss of a period says it."""
    with pytest.raises(CheckFailure, match="exact loss"):
        within(worst(kind, 2)[0], 1.0)


def test_a_draw_for_each_coordinate_is_found():
    """It loses epsilon a coordinate."""
    with pytest.raises(CheckFailure, match="exact loss"):
        within(worst(DrawsForEachCoordinate, 2, segments=3, draws=6, dimension=2)[0], 1.0)


@cases("kind", FAIL)
def test_twin_is_found(kind):
    """By the check that is there for it."""
    with pytest.raises(CheckFailure):
        CHECKS[FAIL[kind]](trial_of(kind, 2))


@pytest.mark.parametrize("name", ["swp", "sppa", "etm"])
def test_reliability_is_measured_in_integers(name):
    """More budget, more of a value's own slot in its release; the same number every time."""
    made = [
        lk.method(name, epsilon=epsilon, window=4, domain=(-2.0, 6.0))
        for epsilon in (1.0, 60.0, 60.0)
    ]
    little, much, again = (method.reliability for method in made)
    assert 0 <= little < 0.6 < much == again <= 1
    with pytest.raises(lk.ConfigurationError, match="times"):
        made[0].crowd(np.zeros(3, np.int64))
