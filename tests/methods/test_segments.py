"""How long a segment is where a topology leaves it open, and where CAPP's equations choose it."""

from __future__ import annotations

from math import exp

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.errors import ConfigurationError, TopologyError
from ldp_kafka.mechanisms import MECHANISMS
from ldp_kafka.methods import SENT, Batch
from ldp_kafka.methods.segment_length import choose_segments, chosen_segment, default_segment
from ldp_kafka.topology import loads, plan
from tests.cases import cases

UNIT = (0.0, 1.0)
EPSILONS = (0.1, 0.5, 1.0, 3.0, 10.0, 30.0)
SEGMENTED = ("sampling", "ipp_s", "app_s", "capp_s")
SPLITS = ("budget_split", "sample_split")
TEXT = """
topology: t
kafka: {{bootstrap_servers: "127.0.0.1:1"}}
input: {{slot: 1s}}
privacy: {{method: {method}, epsilon: 8.0, window: 24, domain: [10, 30]{segment}}}
output: {{statistics: [mean]}}
"""


def moments(epsilon):
    """(sigma^2, mu_4, slope): of continuous Square Wave at 1, the paper's integrals; and what its
    mean grows by from 0 to 1.
    """
    e = exp(epsilon)
    b = (epsilon * e - e + 1) / (2 * e * (e - 1 - epsilon))
    p = e / (2 * b * e + 1)
    q = p / e
    parts = [(q, -b, 1 - b), (p, 1 - b, 1 + b)]

    def about(centre, k):
        return sum(
            density * ((high - centre) ** (k + 1) - (low - centre) ** (k + 1)) / (k + 1)
            for density, low, high in parts
        )

    mean = about(0.0, 1)
    return about(mean, 2), about(mean, 4), 2 * b * (p - q)


def least(window, epsilon, objective):
    """The number of samples with the least objective."""
    tried = range(2, window + 1)
    return min(tried, key=lambda count: objective(*moments(epsilon / count), count))


def mended(square, fourth, slope, count):
    return (fourth - square**2 * (count - 3) / (count - 1)) / slope**4


def raw(square, fourth, slope, count):
    del slope
    return fourth - square**2 * (count - 3) / (count - 1)


def printed(square, fourth, slope, count):
    del slope
    return fourth - square * (count - 3) / (count - 1)


@cases("window", [7, 24, 60])
def test_it_is_the_choice_of_the_mended_equations(window):
    """By the paper's integrals over continuous Square Wave."""
    for epsilon in EPSILONS:
        expected = window // least(window, epsilon, mended)
        assert chosen_segment(window, epsilon) == expected == window // 2


def test_why_the_equations_are_mended():
    """As printed they never sample; of reports with their bias they do not at small epsilons."""
    for epsilon in EPSILONS:
        assert least(24, epsilon, printed) == 24
    assert [least(24, epsilon, raw) for epsilon in (0.1, 0.5, 1.0)] == [24, 24, 24]
    assert least(24, 10.0, raw) == 2


@cases("name", SEGMENTED)
def test_auto_is_the_segment_that_it_chooses(name):
    """Noise is that of the same number; the default is what it was."""
    given = {"epsilon": 2.0, "window": 24, "domain": UNIT}
    made, same = (lk.method(name, segment=segment, **given) for segment in ("auto", 12))
    assert (made.resolved, made.use, made.tables()) == (same.resolved, same.use, same.tables())
    assert lk.method(name, **given).segment == default_segment(24) == 8
    values = np.random.default_rng(1).uniform(size=(5, 48))
    released = [one.release(values, lk.randomness.seeded(7)) for one in (made, same)]
    assert np.array_equal(*released, equal_nan=True)
    assert made.segmenting == "of 12 slots, 2 to a window: by CAPP's equations 12 and 13"
    assert "of 8 slots, 3 to a window; by CAPP's" in lk.method(name, **given).segmenting


def test_it_is_of_the_method_s_mechanism():
    """And of one slot in a window of one."""
    for mechanism in ("laplace", "piecewise"):
        made = lk.method(
            "sampling", epsilon=2.0, window=9, domain=UNIT, mechanism=mechanism, segment="auto"
        )
        best = choose_segments(np.ones(9), 2.0, mechanism=MECHANISMS[mechanism])
        assert made.segment == 9 // best
    made = lk.method("sampling", epsilon=2.0, window=1, domain=UNIT, segment="auto")
    assert made.segment == 1


def test_what_is_no_segment_is_refused():
    given = {"epsilon": 2.0, "domain": UNIT}
    with pytest.raises(TypeError, match="segment must be a whole number"):
        lk.method("sampling", window=9, segment="automatic", **given)
    with pytest.raises(ConfigurationError, match=r"more than 1,024: auto would try too many"):
        lk.method("sampling", window=1025, segment="auto", **given)
    assert lk.method("sampling", window=1025, **given).segmenting == "of 342 slots, 3 to a window"


def topology(method, segment=""):
    return loads(TEXT.format(method=method, segment=segment), "t.yaml")


@cases("name", SEGMENTED)
def test_a_topology_may_say_auto(name):
    """It is another way to write the number: state and noise are those of it. A plan prints both
    lengths.
    """
    made, same = (topology(name, f", segment: {segment}") for segment in ("auto", 12))
    assert (made.fingerprint, made.layout) == (same.fingerprint, same.layout)
    lines = plan(topology(name)).lines()
    said = "segments     of 8 slots, 3 to a window; by CAPP's equations 12 and 13 of 12"
    assert [line for line in lines if line.startswith("segments")] == [f"{said} (segment: auto)"]
    for segment in ("none", "2.5", "[2]"):
        with pytest.raises(TopologyError, match=r"privacy.segment: must be a number of slots, or"):
            topology(name, f", segment: {segment}")


def test_others_have_no_segments():
    assert not any(line.startswith("segments") for line in plan(topology("sw_direct")).lines())


@cases("name", [*SEGMENTED, *(f"{split}, dimension: 2, inner: sampling" for split in SPLITS)])
def test_a_plan_counts_all_users_in_the_slots_that_have_reports(name):
    """Their segments end together, so an error is of all of them, as in a release; the traffic is
    that of a usual slot.
    """
    made = topology(name, ", segment: 6")
    users, method = 300, made.method
    values = np.full((users, 24, *[method.dimension] * (method.dimension > 0)), 20.0)
    source, batches = lk.randomness.seeded(1), []
    state = method.state(source.digests([str(user) for user in range(users)]))
    for slot in range(24):
        batch = Batch(np.arange(users), slot, method.bound(values[:, slot]), source)
        batches.append((method.step(state, batch).status == SENT).sum())
    assert set(batches) == {0, users}
    said = plan(made, users)
    assert {one.reports for one in said.predictions} == {users}
    usual = plan(topology(name, ", segment: 1"), users).single
    assert said.single.bytes < usual.bytes / 3
    assert method.frequency * 24 == np.count_nonzero(batches)
