"""The contracts find every fault that they are there to find."""

from __future__ import annotations

from collections import defaultdict

import pytest

import ldp_kafka as lk
from ldp_kafka.accounting import Ledger
from ldp_kafka.checks import CheckFailure, check_mechanism, check_method
from ldp_kafka.checks.mechanism import MECHANISM_CHECKS
from ldp_kafka.methods import DelayMethod, Matrix
from ldp_kafka.methods.base import Method
from ldp_kafka.methods.chain import Chain
from ldp_kafka.methods.user_level import UserLevel
from tests import specimens
from tests.cases import cases
from tests.methods import matrices
from tests.methods.lifelong import LIFE_CHECKS, SHARED
from tests.mutants import Twin
from tests.mutants.finding import CONTRACTS, found, twins
from tests.mutants.lives import over
from tests.mutants.mechanisms import CODES, WINDOWS, Grr


@pytest.mark.parametrize("twin", twins(object), ids=str)
def test_broken_mechanism_is_found(twin):
    found(twin)


@pytest.mark.parametrize("twin", twins(Method), ids=str)
def test_broken_method_is_found(twin):
    found(twin)


@pytest.mark.parametrize("twin", twins(DelayMethod), ids=str)
def test_broken_delay_method_is_found(twin):
    found(twin)


@pytest.mark.parametrize("twin", twins(Matrix), ids=str)
def test_broken_matrix_is_found(twin):
    found(twin)


@pytest.mark.parametrize("twin", twins(UserLevel), ids=str)
def test_broken_method_for_a_life_is_found(twin):
    found(twin)


@pytest.mark.parametrize("twin", twins(lk.Client), ids=str)
def test_broken_client_is_found(twin):
    found(twin)


@pytest.mark.parametrize("twin", twins(Ledger), ids=str)
def test_broken_ledger_is_found(twin):
    found(twin)


def test_every_check_kills():
    """No check is there for show; but for those of a life or matrix that `METHOD_CHECKS` has
    too.
    """
    elsewhere = {UserLevel: set(SHARED), Matrix: set(matrices.SHARED)}
    for kind, (checks, _) in CONTRACTS.items():
        beside = elsewhere.get(kind, set())
        assert {twin.check for twin in twins(kind)} - beside == checks.keys() - beside, kind


def test_every_mechanism_and_method_has_twins():
    """Six at least, and of some mechanisms one for each check."""
    kills = defaultdict(list)
    for twin in (*twins(object), *twins(Method)):
        kills[twin.of].append(twin.check)
    assert min(map(len, kills.values())) >= 6
    for kind in (*CODES, *WINDOWS):
        assert set(kills[kind]) == MECHANISM_CHECKS.keys(), kind


def test_what_has_no_fault_or_only_breaks_down_is_not_found():
    class BreaksDown(Grr):
        def law(self, value):
            raise RuntimeError

    with pytest.raises(AssertionError, match="does not find"):
        found(Twin(Grr, Grr, "law_is_exact", {}))
    with pytest.raises(RuntimeError):
        found(Twin(BreaksDown, Grr, "law_is_exact", {}))


@cases("check", LIFE_CHECKS)
def test_a_chain_without_a_fault_passes(check):
    """What the chains are put into does not break them."""
    (trial,) = CONTRACTS[UserLevel].trials(over(Chain), domain=(0.0, 2.0))
    LIFE_CHECKS[check](trial)


def test_the_whole_contract_says_what_failed():
    """All of its checks look, whatever the first ones say. What these two are found by is exact, so
    that no chance is in it.
    """
    mechanism, method = (
        next(twin for twin in twins(kind) if twin.check == check)
        for kind, check in ((object, "certificate_is_true"), (Method, "loss_within_epsilon"))
    )
    with pytest.raises(CheckFailure) as caught:
        check_mechanism(mechanism.kind, samples=2**14)
    assert mechanism.check in caught.value.checks
    with pytest.raises(CheckFailure) as caught:
        check_method(
            lambda factory: specimens.method(method.kind, factory, window=2, **specimens.UNIT), 2
        )
    assert method.check in caught.value.checks
