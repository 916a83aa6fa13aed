"""Textbook float64 mechanisms give their inputs away, ours do not."""

from __future__ import annotations

import inspect
from functools import partial
from math import inf

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.audits import (
    FORMULAS,
    Part,
    audit,
    audit_pairs,
    low_bits,
    pairs_of,
    preimage_attack,
    reach_of,
)
from ldp_kafka.audits.floats import grain, reachable_by_addition
from tests.audits import textbook
from tests.depth import depth

LEAKY = {  # name -> (sampler, domain, formulas that fit it)
    "laplace": (textbook.laplace, (0.0, 1.0), ("laplace", "additive")),
    "square_wave": (textbook.square_wave, (0.0, 1.0), ("square_wave",)),
    "piecewise": (textbook.piecewise, (-1.0, 1.0), ("piecewise",)),
}
FITS = [(name, formula) for name, (_, _, formulas) in LEAKY.items() for formula in formulas]

# what a mechanism is built with beside epsilon, for the names that parameters have
GIVEN = {"categories": 8, "delta": 1e-5, "dimension": 3}
DOMAINS = {"square_wave": (0.0, 1.0)}


def built(name, epsilon):
    """Any registered mechanism."""
    needed = {
        key
        for key, value in inspect.signature(lk.MECHANISMS[name]).parameters.items()
        if value.default is inspect.Parameter.empty
    } - {"epsilon"}
    given = {key: GIVEN[key] for key in needed & GIVEN.keys()}
    if "domain" in inspect.signature(lk.MECHANISMS[name]).parameters:
        given["domain"] = DOMAINS.get(name, (-1.0, 1.0))
    return lk.mechanism(name, epsilon=epsilon, **given)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
@pytest.mark.parametrize(("name", "formula"), FITS)
def test_one_report_of_a_textbook_mechanism_shows_the_input(name, formula, epsilon):
    """A tenth and more of all reports are impossible for the other input: epsilon is infinite, for
    certain.
    """
    sampler, domain, _ = LEAKY[name]
    rng = np.random.default_rng()
    found = audit(
        partial(sampler, rng=rng, epsilon=epsilon),
        *domain,
        claimed=epsilon,
        reports=2000,
        formula=FORMULAS[formula](epsilon, domain),
    )
    assert (found.epsilon_lower, found.alpha) == (inf, 0.0)
    assert found.violated
    assert found.likelier.hits > 0.1 * found.likelier.trials
    assert "for certain" in found.verdict


def test_the_formulas_are_the_samplers():
    """Every report of a textbook mechanism can be traced to its own input, from inputs all over the
    domain; another formula cannot.
    """
    rng = np.random.default_rng()
    for name, formula in FITS:
        sampler, (lo, hi), _ = LEAKY[name]
        for x in (lo, hi, 0.3, 0.7, *rng.uniform(lo, hi, 10)):
            assert FORMULAS[formula](1.0, (lo, hi))(sampler(np.full(2000, x), rng), x).all()
    reports = [textbook.square_wave(np.full(500, x), rng) for x in (0.0, 1.0)]
    with pytest.raises(ValueError, match="not this sampler's"):
        preimage_attack(*reports, 0.0, 1.0, FORMULAS["piecewise"](1.0, (0.0, 1.0)))


def test_reachable_is_exact():
    """By brute force over all the uniforms of a coarse generator."""
    every = np.arange(2**12) * 2.0**-12

    def report(u):
        return 0.3 + 0.7 * np.floor(u * 4096) / 4096

    reach = reach_of(lambda x: [Part(report)])
    possible = report(every)
    assert reach(possible, 0.0).all()
    between = np.nextafter(possible, 2)
    assert not reach(between[~np.isin(between, possible)], 0.0).any()
    rng = np.random.default_rng()
    falling = reach_of(lambda x: [Part(lambda u: x - u * 1e-3)])
    assert falling(0.5 - rng.random(1000) * 1e-3, 0.5).all()
    assert not falling(np.array([0.6, 0.4]), 0.5).any()
    assert falling(np.array([]), 0.5).shape == (0,)


def test_reachable_by_addition():
    """Sums are reachable, whatever the noise; floats that have finer bits than any sum are not."""
    rng = np.random.default_rng()
    for x in (0.0, 0.3, 1.0, -7.25, 1e6):
        for noise in (
            rng.laplace(0, 1, 5000),
            rng.normal(0, 1e-3, 5000),
            rng.laplace(0, 1e9, 5000),
        ):
            assert reachable_by_addition(x + noise, x).all()
    assert not reachable_by_addition(rng.random(1000) * 1e-6, 1.0).any()


def test_grain():
    """The largest power of two that divides a float, beside Python's own exact ratio."""
    values = np.concatenate(
        [np.random.default_rng().normal(0, 100, 500), [1.0, 0.75, 2.0**40, 2.0**-150, -6.0]]
    )
    for value, found in zip(values.tolist(), (grain(values) - 160).tolist(), strict=True):
        over, under = value.as_integer_ratio()
        assert found == (over & -over).bit_length() - under.bit_length()
    assert (grain([0.0, np.nan, np.inf]) == 255).all()


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_low_bits_of_numpy_laplace(epsilon):
    """Without a formula, from the last bits alone, with confidence."""
    found = low_bits(
        partial(textbook.laplace, rng=np.random.default_rng(), epsilon=epsilon),
        0.0,
        1.0,
        claimed=epsilon,
    )
    assert found.violated
    assert found.epsilon_lower > 5


def test_low_bits_that_a_mechanism_keeps():
    """Right laws, but the report carries the input's bits: the same attack."""
    wave, system = (
        lk.mechanism("square_wave", epsilon=1.0, domain=(0.0, 1.0)),
        lk.randomness.system(),
    )
    found = audit(
        lambda x: wave.perturb(x, system) * (1 + x * 2.0**-51),
        0.0,
        1.0,
        claimed=1.0,
        reports=100_000,
    )
    assert found.violated


@pytest.mark.usefixtures("without_power")
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("name", sorted(lk.MECHANISMS))
def test_nothing_is_found_in_ours(name, epsilon):
    """No pair of inputs, no view, no last bit: one false alarm in a million audits of a mechanism
    that keeps its word.
    """
    mechanism = built(name, epsilon)
    found = audit_pairs(mechanism, reports=depth(30_000, 200_000), alpha=1e-6)
    assert not found.violated
    assert found.claimed == epsilon


@pytest.mark.usefixtures("without_power")
@pytest.mark.parametrize(
    "name",
    [
        name
        for name in sorted(lk.MECHANISMS)
        if hasattr(built(name, 1.0), "domain") and not hasattr(built(name, 1.0), "dimension")
    ],
)
def test_no_last_bit_of_ours_tells(name):
    """The low-bits attack alone, and the additive preimage attack where reports are sums at all."""
    mechanism = built(name, 1.0)
    for x0, x1 in pairs_of(mechanism):
        assert not low_bits(mechanism, x0, x1, reports=200_000, alpha=1e-7).violated
