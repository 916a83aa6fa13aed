"""The test that ties a sampler to its law: millions of reports of every mechanism, and twins that
are 3 % off one way or the other.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import ldp_kafka as lk
from ldp_kafka.checks import CheckFailure
from ldp_kafka.checks import trial as trials
from ldp_kafka.checks.chisquare import FALSE_ALARM, limit
from ldp_kafka.checks.laws import Tally, counts, numbers
from ldp_kafka.checks.mechanism.reports import sampler_follows_law
from ldp_kafka.checks.trial import MANY, SAMPLES, MechanismTrial
from ldp_kafka.mechanisms.base import Law
from tests.cases import cases
from tests.depth import depth
from tests.specimens import MECHANISMS

SHIFT = 0.03

SPECIMENS = {name: own for name, own in MECHANISMS.items() if name != "adaptive"} | {
    "gaussian_vector": {"delta": 1e-5, "dimension": 1},
    "grr": {"categories": 16},
    "hadamard": {"categories": 100},
}
"""The adaptive one is one of the others."""


class Column:
    """A mechanism of vectors of one number, as one of numbers."""

    def __init__(self, mechanism):
        self.mechanism = mechanism

    def __getattr__(self, name):
        return getattr(self.mechanism, name)

    def perturb(self, values, randomness):
        return self.mechanism.perturb(values[:, None], randomness)[:, 0]


def build(name):
    """epsilon -> mechanism."""

    def factory(epsilon):
        made = lk.mechanism(name, epsilon=epsilon, **SPECIMENS[name])
        return Column(made) if name == "gaussian_vector" else made

    return factory


class Shifted(Column):
    """Reports its likeliest outputs (of more than half the greatest weight, or as many as have it)
    more or less often than the law says, and among them, or the others, as it says.
    """

    def __init__(self, mechanism, shift):
        super().__init__(mechanism)
        self.shift, self.rng = shift, np.random.default_rng()

    def likely(self, value):
        """(outputs,) which they are; never all of them."""
        weights = np.array(self.law(value).weights, np.float64)
        return (
            2 * weights > weights.max()
            if (2 * weights <= weights.max()).any()
            else weights == weights.max()
        )

    def perturb(self, values, randomness):
        reports = self.mechanism.perturb(values, randomness)
        law, likely = self.law(values[0]), self.likely(values[0])
        names = np.sort(numbers(np.asarray(law.support)[likely]))
        given = numbers(reports)
        place = np.searchsorted(names, given).clip(max=len(names) - 1)
        inside = names[place] == given
        p = float(law.probabilities()[likely].sum())
        leave, chance = (
            (~inside, self.shift * p / (1 - p)) if self.shift > 0 else (inside, -self.shift)
        )
        moved = np.flatnonzero(leave & (self.rng.random(len(reports)) < chance))
        out = reports.copy()
        out[moved] = self.rng.choice(reports[~leave], len(moved))
        return out


@pytest.mark.parametrize("name", SPECIMENS)
def test_millions_of_reports_follow_the_law(name):
    """Of each probe; a true sampler is accused once in a million runs."""
    sampler_follows_law(MechanismTrial(build(name), 1.0, depth(2_000_000, MANY)))


@pytest.mark.parametrize("name", SPECIMENS)
@cases("shift", [SHIFT, -SHIFT])
def test_three_percent_off_is_found(name, shift):
    """Too much and too little, in reports enough to put the twin 20 standard deviations off:
    chi-square is then 400 above its mean, and the test's limit at most 90 (at 63 degrees).
    """
    twin = Shifted(build(name)(1.0), shift)
    first = MechanismTrial(lambda epsilon: twin, 1.0).inputs[0]
    p = float(twin.law(first).probabilities()[twin.likely(first)].sum())
    needed = round(20**2 * (1 - p) / p / SHIFT**2)
    assert needed <= MANY
    with pytest.raises(CheckFailure, match="follow the law"):
        sampler_follows_law(MechanismTrial(lambda epsilon: twin, 1.0, max(needed, 2**16)))


def test_a_shift_of_nothing_is_not_found():
    """It is the 3 % that is found, not the moving about."""
    sampler_follows_law(
        MechanismTrial(lambda epsilon: Shifted(build("grr")(epsilon), 0.0), 1.0, SAMPLES)
    )


@pytest.mark.parametrize(("reports", "p"), [(SAMPLES, 0.25), (MANY, 0.016)])
def test_the_power_is_what_the_docstring_says(reports, p):
    """From that probability on 3 % either way is found with a probability above 1 - 1e-9, at two
    bins and seven probes.
    """
    # exact: of the count of the bin, whose deviation decides alone
    for off in (p * (1 + SHIFT), p * (1 - SHIFT)):
        wide = (limit(1, FALSE_ALARM / 14) * reports * p * (1 - p)) ** 0.5
        missed = stats.binom.cdf(reports * p + wide, reports, off) - stats.binom.cdf(
            reports * p - wide, reports, off
        )
        assert missed < 1e-9


class Clock:
    """Runs ahead by so much a look."""

    def __init__(self, step):
        self.now, self.step = 0.0, step

    def __call__(self):
        self.now += self.step
        return self.now


@pytest.mark.parametrize(
    ("step", "drawn"), [(0.0, MANY), (10.0, trials.BATCH), (0.4, 3 * trials.BATCH)]
)
def test_as_many_as_a_second_allows(step, drawn, monkeypatch):
    """Ten million where there is time, and whatever a slow sampler manages, but never fewer than
    have power.
    """
    monkeypatch.setattr(trials, "perf_counter", Clock(step))
    trial = MechanismTrial(build("grr"), 1.0)
    assert trial.tally(0, trial.laws[0]).sum() == drawn >= SAMPLES


@cases(
    ("kind", "width"),
    [
        ("u1", 0),
        ("u1", 1),
        ("u1", 3),
        ("u1", 9),
        ("i8", 0),
        ("i8", 2),
        ("f8", 0),
        ("f4", 3),
        ("i2", 0),
    ],
)
def test_outputs_are_counted_right(kind, width):
    """Numbers and rows of any width, in batches; the law's order is no matter."""
    rng = np.random.default_rng(1)
    outputs = np.unique(rng.integers(0, 9, (40, max(width, 1))), axis=0)
    outputs = rng.permutation(outputs).astype(kind)
    outputs = outputs if width else outputs[:, 0]
    law, drawn = Law(outputs, [1] * len(outputs), len(outputs)), rng.integers(0, len(outputs), 5000)
    expected = np.bincount(drawn, minlength=len(outputs))
    assert np.array_equal(counts(outputs[drawn], law), expected)
    tally = Tally(law)
    for part in (drawn[:0], drawn[:7], drawn[7:]):
        tally.add(outputs[part])
    assert np.array_equal(tally.seen, expected)
    with pytest.raises(CheckFailure, match="output of the law"):
        tally.add(outputs[:3] + outputs.dtype.type(100))


@cases("wrong", [[0.5], [-0.0], [np.nan], [np.nextafter(1.0, 2.0)], [np.inf]])
def test_outputs_are_told_apart_to_the_last_bit(wrong):
    """A negative zero is no zero: its sign could tell inputs apart."""
    law = Law(np.array([0.0, 1.0, 2.0]), [1, 1, 1], 3)
    with pytest.raises(CheckFailure, match="output of the law"):
        counts(np.array([0.0, *wrong, 1.0]), law)
    with pytest.raises(CheckFailure, match="kind of number"):
        counts(np.array([0.0, 1.0]), law._replace(support=np.arange(3)))
    with pytest.raises(CheckFailure, match="shape"):
        counts(np.array([[0.0, 1.0]]), law)
