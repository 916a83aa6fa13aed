"""ToPL: what the contract does not say."""

from __future__ import annotations

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.methods.batch import Batch
from tests.cases import cases

UNIT = (0.0, 1.0)


def test_the_threshold_follows_the_values():
    """At a budget where the first phase says something: users with small values get a small
    threshold, others a large one.
    """
    method = lk.method("topl", epsilon=20.0, window=2, first=20, domain=UNIT)
    source = lk.randomness.seeded(4)
    state = method.state(source.digests([str(i) for i in range(200)]))
    values = method.bound(np.repeat([0.05, 0.9], 100))
    for slot in range(20):
        method.step(state, Batch(np.arange(200), slot, values, source))
    low, high = state.columns["threshold"][:100], state.columns["threshold"][100:200]
    assert np.median(low) <= 8
    assert np.median(high) >= 24


def test_it_perturbs_less_than_its_second_mechanism_alone():
    """Small values: what the threshold is for."""
    streams = np.full((300, 40), 0.1)
    topl = lk.method("topl", epsilon=10.0, window=5, first=10, domain=UNIT).release(
        streams, lk.randomness.seeded(4)
    )[:, 10:]
    plain = lk.method("sw_direct", epsilon=10.0, window=5, domain=UNIT, mechanism="hybrid").release(
        streams, lk.randomness.seeded(4)
    )[:, 10:]
    assert ((topl - 0.1) ** 2).mean() < 0.5 * ((plain - 0.1) ** 2).mean()


def test_thresholds_do_not_depend_on_who_else_has_one_found():
    """Chunks, neighbours, order."""
    method = lk.method("topl", epsilon=5.0, window=5, first=7, domain=UNIT)
    early = np.random.default_rng(1).integers(0, len(method._outputs), (7, 700)).astype(np.int32)
    whole = method._thresholds(early)
    assert len(np.unique(whole)) > 3
    assert np.array_equal(
        whole, np.concatenate([method._thresholds(early[:, i : i + 1]) for i in range(700)])
    )


class Turned:
    """Hybrid whose law is listed from its end."""

    def __init__(self, epsilon, domain):
        self._mechanism = lk.mechanism("hybrid", epsilon=epsilon, domain=domain)

    def law(self, value):
        law = self._mechanism.law(value)
        return law._replace(support=law.support[::-1], weights=law.weights[::-1])

    def __getattr__(self, name):
        return getattr(self._mechanism, name)


@cases("domain", [UNIT, (-3.0, 0.7)])
@cases("epsilon", [0.7, 1.3, 2.9, 5.1, 11.0])
def test_thresholds_do_not_depend_on_the_order_in_which_a_cpu_adds(epsilon, domain):
    """A replay elsewhere must find the same ones, to the last bit of what they follow from; nor has
    the domain a part in that.
    """
    one, other = (
        lk.method("topl", epsilon=epsilon, window=1, domain=where, mechanism=kind)._noise
        for where, kind in ((UNIT, "hybrid"), (domain, Turned))
    )
    assert np.array_equal(one, other)


@pytest.mark.parametrize(("wrong", "error"), [(0, ValueError), (2.5, TypeError), (True, TypeError)])
def test_wrong_first(wrong, error):
    with pytest.raises(error, match="first"):
        lk.method("topl", epsilon=1.0, window=3, domain=UNIT, first=wrong)
