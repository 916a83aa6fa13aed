"""Runs over counts have the law of runs over users, and a run that is wrong in one way has not."""

from __future__ import annotations

import os
from functools import cache
from math import hypot
from typing import NamedTuple

import numpy as np
import pytest
from scipy import stats

import ldp_kafka as lk
from ldp_kafka.evaluation.ldp_ids import laws, simulation
from ldp_kafka.evaluation.ldp_ids.crowds import streams_of
from ldp_kafka.evaluation.ldp_ids.simulation import Crowd, simulate
from tests.depth import depth

ALARM = 1e-6  # of a right simulation, in all comparisons of this file together
USERS, SLOTS, HERE = 800, 32, 0.9
RUNS, SIMULATIONS = depth(120, 500), depth(240, 4000)
POWER = 0.999
OF_TWINS = 120  # simulations


class Setting(NamedTuple):
    """One protocol, where something is to be told."""

    name: str
    epsilon: float = 1.0
    window: int = 4
    oracle: str = "grr"


class Spread(NamedTuple):
    """A figure over many runs."""

    mean: float
    error: float


SETTINGS = [
    *(Setting(name) for name in ("lbu", "lsp", "lpu")),
    *(Setting(name, 2.0) for name in ("lbd", "lba", "lpd", "lpa")),
    Setting("lpu", 8.0, 2),  # hardly any noise: what is left is who is drawn
    Setting("lpa", 2.0, 4, "oue"),
]
FIGURES = ("cfpu", "log mse", "slope", "published")
Z = float(stats.norm.isf(ALARM / len(SETTINGS) / len(FIGURES) / 2))


@cache
def counts():
    """Three categories whose shares jump, and a tenth without a value."""
    there = round(USERS * HERE)
    shares = np.repeat([[0.7, 0.2, 0.1], [0.2, 0.5, 0.3], [0.6, 0.3, 0.1], [0.1, 0.1, 0.8]], 8, 0)
    return np.rint(shares * there).astype(np.int64)


def protocol(setting):
    return lk.protocol(
        setting.name,
        epsilon=setting.epsilon,
        window=setting.window,
        categories=3,
        oracle=setting.oracle,
    )


def figures(trace):
    truth = counts() / counts().sum(axis=1, keepdims=True)
    return (
        trace.reports.sum() / (USERS * SLOTS),
        np.log(((trace.values - truth) ** 2).mean()),
        ((trace.values - 1 / 3) * (truth - 1 / 3)).sum() / ((truth - 1 / 3) ** 2).sum(),
        (trace.strategy == "publish").mean(),
    )


def spreads(rows):
    table = np.array(rows)
    errors = table.std(axis=0, ddof=1) / len(table) ** 0.5
    return [
        Spread(*pair) for pair in zip(table.mean(axis=0).tolist(), errors.tolist(), strict=True)
    ]


@cache
def over_users(setting):
    """Other users, values, noise and selections in each run, and in each process."""
    base = int.from_bytes(os.urandom(6), "big")
    made = protocol(setting)
    return spreads(
        [
            figures(
                made.run(
                    streams_of(counts(), USERS, seed=base + at),
                    lk.randomness.seeded(base + at),
                    with_spent=False,
                )
            )
            for at in range(RUNS)
        ]
    )


def over_counts(setting, runs=SIMULATIONS):
    made, generator = protocol(setting), np.random.default_rng()
    return spreads([figures(simulate(made, counts(), generator, USERS)) for _ in range(runs)])


def away(one, other):
    """By how many standard errors two means differ; what never varies must be equal."""
    error = hypot(one.error, other.error)
    difference = abs(one.mean - other.mean)
    return difference / error if error > 1e-15 else (0.0 if difference < 1e-12 else np.inf)


def told(setting, simulated):
    """Whether any figure tells the two apart."""
    pairs = zip(over_users(setting), simulated, strict=True)
    return any(away(*pair) > Z for pair in pairs)


@pytest.mark.papers
@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_both_have_one_law(setting):
    """Reports of a user, errors, slopes and shares of publications, by z-tests. A difference of
    7 % in reports, of .9 in the logarithm of the error, of .17 in the slope of what is released
    over the truth, or of .1 in the share of publications would be told in 999 of 1,000 cases, by
    the spreads that the runs themselves have.
    """
    simulated = over_counts(setting)
    assert not told(setting, simulated)
    margin = Z + float(stats.norm.ppf(POWER))
    pairs = list(zip(over_users(setting), simulated, strict=True))
    for (one, other), most in zip(pairs, (0.07 * pairs[0][0].mean, 0.9, 0.17, 0.1), strict=True):
        assert margin * hypot(one.error, other.error) < most


class Forgetful(Crowd):
    """Selects those again whom it has selected."""

    def eligible(self, slot):
        del slot
        return self._half


class Halves(Crowd):
    """Lets half B report in the first phase, too."""

    def turn(self, slot):
        return 2 * super().turn(slot)


def with_replacement(counts, number, generator):
    return generator.multinomial(number, counts / counts.sum())


def noisier(mechanism):
    """The law of a smaller budget."""
    return laws.law_of(type(mechanism)(mechanism.epsilon * 0.8, mechanism.categories))


@pytest.mark.papers
@pytest.mark.parametrize(
    ("setting", "part", "twin"),
    [
        (Setting("lpa", 2.0), "Crowd", Forgetful),
        (Setting("lpd", 2.0), "Crowd", Forgetful),
        (Setting("lpa", 2.0), "Crowd", Halves),
        (Setting("lpu", 8.0, 2), "_dealt", with_replacement),
        (Setting("lbu"), "law_of", noisier),
        (Setting("lpa", 2.0, 4, "oue"), "law_of", noisier),
    ],
    ids=lambda each: getattr(each, "__name__", str(each)),
)
def test_a_broken_twin_is_told(setting, part, twin, monkeypatch):
    monkeypatch.setattr(simulation, "_LAWS", {})
    monkeypatch.setattr(simulation, part, twin)
    assert told(setting, over_counts(setting, OF_TWINS))


def test_bits_have_the_law_that_lists_them():
    """Of few categories, where both can be computed: the same mean sums for each category."""
    for name in ("oue", "sue"):
        bits = laws.law_of(lk.mechanism(name, epsilon=1.3, categories=4))
        listed = lk.mechanism(name, epsilon=1.3, categories=4).law(2)
        ones = listed.probabilities() @ np.unpackbits(listed.support, axis=1, count=4)
        assert ones.tolist() == pytest.approx([bits.other, bits.other, bits.own, bits.other])


def test_sums_of_a_category_have_its_law():
    """Counts of many reports against the law's own chances, by chi-square at 10**-6."""
    mechanism = lk.mechanism("grr", epsilon=1.0, categories=3)
    found = laws.law_of(mechanism).sums(np.array([0, 90_000, 0]), np.random.default_rng())
    assert found[0] == found[1:].sum() == 90_000
    expected = mechanism.law(1).probabilities() * 90_000
    assert stats.chisquare(found[1:], expected).pvalue > ALARM


def test_more_values_than_users_are_refused():
    with pytest.raises(ValueError, match="users"):
        simulate(protocol(Setting("lpu")), counts(), np.random.default_rng(1), 100)
