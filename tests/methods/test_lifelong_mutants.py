"""No broken twin of a method for a user's life survives."""

from __future__ import annotations

import pytest

from ldp_kafka.checks import CheckFailure
from tests.cases import cases
from tests.methods.lifelong import LIFE_CHECKS
from tests.methods.lifelong_mutants import LIFE_MUTANTS, MAKERS, Life, Unbroken


@cases("mutant", LIFE_MUTANTS)
def test_mutant_dies(mutant):
    with pytest.raises(CheckFailure):
        LIFE_CHECKS[LIFE_MUTANTS[mutant]](MAKERS[mutant])


def test_every_check_of_a_life_kills():
    own = {
        name
        for name in LIFE_CHECKS
        if name
        not in ("release_is_step", "users_are_apart", "slots_must_increase", "values_are_checked")
    }
    assert set(LIFE_MUTANTS.values()) == own


@cases("check", LIFE_CHECKS)
def test_without_a_fault_the_twin_lives(check):
    """What the mutants are made from passes: it is the fault that kills them."""
    LIFE_CHECKS[check](
        Life(
            lambda factory: Unbroken(
                mechanism=factory, epsilon=1.0, delta=1e-5, horizon=12, domain=(0.0, 2.0)
            )
        )
    )
