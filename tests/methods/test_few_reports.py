"""Error bars of a handful of reports: what one report varies by is nothing, and says nothing."""

from __future__ import annotations

import numpy as np
import pytest

import ldp_kafka as lk

SLOTS, FEW = 1000, 30
# of intervals that hold the truth with probability 0.95: four sigma below
LEAST = 0.922
CASES = {
    "categories": {"categories": 3},
    "bits": {"categories": 3, "oracle": "oue"},
}


def streams(users):
    """(users, SLOTS) categories of users that are drawn anew, and their shares (d,)."""
    shares = [0.9, 0.08, 0.02]
    return np.random.default_rng(users).choice(3, (users, SLOTS), p=shares), np.array(shares)


@pytest.mark.parametrize("users", [4, 8, 20])
@pytest.mark.parametrize("shape", CASES.values(), ids=CASES)
def test_intervals_of_few_reports_hold_the_truth(shape, users):
    """One to five reports a slot, or so."""
    values, truth = streams(users)
    protocol = lk.protocol("lpu", epsilon=2.0, window=4, **shape)
    trace = protocol.run(values, lk.randomness.seeded(3))
    found = trace.values.reshape(SLOTS, -1)
    errors = np.asarray(trace.standard_error).reshape(SLOTS, -1)
    there = np.isfinite(found) & np.isfinite(errors)
    assert there.mean() > 0.3
    assert errors[there].min() > 0.1 / users**0.5
    low, high = np.moveaxis(trace.confidence_interval, -1, 0)
    assert ((low <= truth) & (truth <= high))[there].mean() > LEAST


def test_a_method_that_samples_has_it_too():
    """Without a coordinator: Clopper and Pearson's limits of one of one, and of none of one."""
    method = lk.method("lpu", epsilon=2.0, window=4, categories=3)
    one = method.crowd(method.mechanism.support(np.array([1])))
    assert np.all(one.standard_error > 0.25)
    assert [end.tolist() for end in one.interval()] == [[0.0] * 3, [1.0] * 3]


@pytest.mark.parametrize("name", ["duchi", "hybrid", "piecewise", "square_wave", "laplace"])
def test_the_noise_of_one_report_is_never_nothing(name):
    """Given the values: not below three quarters of the least that any value has."""
    mechanism = lk.MECHANISMS[name](epsilon=2.0, domain=(0.0, 1.0))
    reports = mechanism.perturb(np.linspace(0, 1, 500), lk.randomness.seeded(1))
    laws = [mechanism.law(x) for x in (0.0, 0.25, 0.5, 0.75, 1.0)]
    slope = laws[-1].mean() - laws[0].mean()
    least = min(law.variance() for law in laws) ** 0.5 / slope
    errors = [mechanism.estimate(reports[at : at + 1]).standard_error for at in range(500)]
    assert min(errors) > 0.75 * least
