"""The contract finds every fault that it is there to find."""

from __future__ import annotations

from collections import Counter

import pytest

from ldp_kafka.checks import METHOD_CHECKS, CheckFailure, check_mechanism, check_method
from ldp_kafka.checks.mechanism import MECHANISM_CHECKS
from ldp_kafka.checks.method import MethodTrial
from ldp_kafka.checks.trial import SAMPLES
from ldp_kafka.methods import ClippedAccumulatedPerturbation, Direct, PopulationUniform
from tests.cases import cases
from tests.contract.finding import find, find_mechanism
from tests.contract.method_mutants import METHOD_MUTANTS, Capp
from tests.contract.mutants import MECHANISM_MUTANTS, Grr, Wave
from tests.contract.stream_mutants import ORIGINALS, TWINS
from tests.contract.test_methods import UNFIT
from tests.contract.vector_mutants import ORIGINALS as VECTOR_ORIGINALS
from tests.contract.vector_mutants import TWINS as VECTOR_TWINS
from tests.depth import depth

WINDOW = 2


def make(kind):
    """mechanism factory -> method, at the common window."""
    shape = {"categories": 2} if issubclass(kind, PopulationUniform) else {"domain": (0.0, 1.0)}
    return lambda mechanism: kind(epsilon=1.0, window=WINDOW, mechanism=mechanism, **shape)


@cases("kind", MECHANISM_MUTANTS)
def test_broken_mechanism_is_found(kind):
    """By the check that is meant for it."""
    find_mechanism(MECHANISM_MUTANTS[kind], kind)


@pytest.mark.parametrize("kind", METHOD_MUTANTS)
def test_broken_method_is_found(kind):
    """The same for methods."""
    trial = MethodTrial(make(kind), WINDOW, **getattr(kind, "how", {}))
    find(METHOD_MUTANTS[kind], METHOD_CHECKS, trial)


def test_the_whole_contract_says_what_failed():
    """All of its checks look, whatever the first ones say. What these two are found by is exact, so
    that no chance is in it.
    """
    mechanism, method = (
        next(kind for kind, meant in of.items() if meant == check)
        for of, check in (
            (MECHANISM_MUTANTS, "certificate_is_true"),
            (METHOD_MUTANTS, "loss_within_epsilon"),
        )
    )
    with pytest.raises(CheckFailure) as caught:
        check_mechanism(mechanism, samples=2**14)
    assert MECHANISM_MUTANTS[mechanism] in caught.value.checks
    with pytest.raises(CheckFailure) as caught:
        check_method(make(method), WINDOW, **getattr(method, "how", {}))
    assert METHOD_MUTANTS[method] in caught.value.checks


@pytest.mark.parametrize("kind", [Grr, Wave])
def test_the_mechanism_that_they_are_twins_of_passes(kind):
    """It is the fault that is found, not the wrapping."""
    check_mechanism(kind, samples=depth(SAMPLES, None))


@pytest.mark.parametrize("kind", [Direct, Capp, PopulationUniform])
def test_the_method_that_they_are_twins_of_passes(kind):
    """It is the fault that is found, not the wrapping."""
    check_method(make(kind), WINDOW)


@pytest.mark.parametrize("kind", [*ORIGINALS, *VECTOR_ORIGINALS])
def test_the_streaming_method_that_they_are_twins_of_passes(kind):
    """The same for those that are enumerated otherwise; what counts draws in slots is not for those
    that draw twice in one.
    """
    trial = MethodTrial(make(kind), WINDOW, **getattr(kind, "how", {}))
    for name, check in METHOD_CHECKS.items():
        if (kind.name, name) not in UNFIT:
            check(trial)


def test_every_check_kills():
    """No check is there for show, and nothing has fewer than six twins."""
    assert set(MECHANISM_MUTANTS.values()) == set(MECHANISM_CHECKS)
    assert set(METHOD_MUTANTS.values()) == set(METHOD_CHECKS)
    bases = (
        Grr,
        Wave,
        Direct,
        ClippedAccumulatedPerturbation,
        PopulationUniform,
        *TWINS,
        *VECTOR_TWINS,
    )
    twins = Counter(
        base
        for kind in [*MECHANISM_MUTANTS, *METHOD_MUTANTS]
        for base in bases
        if issubclass(kind, base)
    )
    assert all(twins[base] >= 6 for base in bases)
