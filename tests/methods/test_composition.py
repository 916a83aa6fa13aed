"""Composition against exact convolutions, against each other, and against an accountant where there
is one.
"""

from __future__ import annotations

from itertools import product
from math import exp, inf, log, sqrt

import numpy as np
import pytest

from ldp_kafka.accounting import LifetimeLedger, State
from ldp_kafka.accounting.composition import (
    approximate_delta,
    approximate_epsilon,
    basic,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    zcdp_delta,
    zcdp_epsilon,
    zcdp_of_gaussian,
    zcdp_of_pure,
)
from ldp_kafka.errors import ConfigurationError
from tests import needs
from tests.cases import cases


def by_hand(epsilon, delta, reports, total):
    """The hockey-stick of randomised response that fails openly with probability delta, all
    outcomes written out.
    """
    p = exp(epsilon) / (1 + exp(epsilon))
    here = {"fail0": delta, "0": (1 - delta) * p, "1": (1 - delta) * (1 - p), "fail1": 0.0}
    there = {"fail0": 0.0, "0": (1 - delta) * (1 - p), "1": (1 - delta) * p, "fail1": delta}
    found = 0.0
    for outcome in product(here, repeat=reports):
        a, b = (float(np.prod([law[o] for o in outcome])) for law in (here, there))
        found += max(a - exp(total) * b, 0.0)
    return found


@cases("delta", [0.0, 0.01, 0.3])
@cases("total", [0.0, 0.3, 0.7, 1.5, 2.4])
@cases("reports", [1, 2, 4])
def test_approximate_composition_is_exact(reports, total, delta):
    assert approximate_delta(0.6, delta, reports, total) == pytest.approx(
        by_hand(0.6, delta, reports, total), rel=1e-6, abs=1e-12
    )
    assert (
        approximate_delta(0.6, delta, reports, total) >= by_hand(0.6, delta, reports, total) - 1e-15
    )


@cases("epsilon", [0.01, 0.1, 1.0])
@cases("reports", [1, 10, 1000])
def test_approximate_beats_advanced_and_basic(epsilon, reports):
    """Dwork, Rothblum and Vadhan's bound is looser; the basic sum is never exceeded."""
    found = approximate_epsilon(epsilon, 0.0, reports, 1e-6)
    advanced = epsilon * sqrt(2 * reports * log(1e6)) + reports * epsilon * (exp(epsilon) - 1)
    assert found <= min(advanced, basic([(epsilon, 0.0)] * reports)[0] * (1 + 1e-9))
    assert approximate_delta(epsilon, 0.0, reports, found) <= 1e-6
    assert found == 0 or approximate_delta(epsilon, 0.0, reports, found * 0.999) > 1e-6


def test_delta_that_is_lost_already_leaves_no_epsilon():
    assert approximate_epsilon(0.1, 1e-3, 100, 1e-5) == inf


@cases("mu", [0.01, 0.3, 1.0, 4.0, 15.0])
@cases("delta", [1e-9, 1e-5, 0.1])
def test_gaussian_epsilon_is_the_least(mu, delta):
    found = gaussian_epsilon(mu, delta)
    assert gaussian_delta(found, mu) <= delta
    assert found == 0 or gaussian_delta(found * (1 - 1e-6), mu) > delta


def test_gaussian_delta_is_the_integral():
    """Against the hockey-stick on a fine grid."""
    for mu, epsilon in ((0.5, 0.2), (1.0, 1.0), (3.0, 2.0)):
        x = np.linspace(-30, 35, 2_000_001)
        here, there = (np.exp(-((x - m) ** 2) / 2) / sqrt(2 * np.pi) for m in (mu, 0.0))
        exact = float(np.trapezoid(np.maximum(here - exp(epsilon) * there, 0), x))
        assert gaussian_delta(epsilon, mu) == pytest.approx(exact, rel=1e-6)


def test_gaussians_compose_as_one():
    """Exactly: the loss of two is normal again. Against the outer product of two laws."""
    x = np.linspace(-12, 14, 1301)
    width, mus = x[1] - x[0], (0.6, 0.9)
    here, there = (
        [np.exp(-((x - m) ** 2) / 2) / sqrt(2 * np.pi) * width for m in means]
        for means in (mus, (0.0, 0.0))
    )
    exact = np.maximum(np.outer(*here) - exp(1.0) * np.outer(*there), 0).sum()
    assert gaussian_delta(1.0, gaussian_mu(mus)) == pytest.approx(exact, rel=1e-4)


@cases(("rho", "delta"), [(0.001, 1e-5), (0.1, 1e-6), (0.5, 1e-9), (5.0, 1e-5)])
def test_zcdp_lies_between_gaussian_and_the_old_bound(rho, delta):
    """A Gaussian mechanism is rho-zCDP with mu = sqrt(2 rho): the conversion must not be below its
    exact loss, nor above Bun and Steinke's.
    """
    found = zcdp_epsilon(rho, delta)
    assert gaussian_epsilon(sqrt(2 * rho), delta) <= found <= rho + 2 * sqrt(rho * log(1 / delta))
    assert zcdp_delta(rho, found) <= delta


def test_rhos():
    assert zcdp_of_gaussian(2.0, 3.0) == 9 / 8
    assert zcdp_of_pure(2.0) == 2.0


@pytest.mark.parametrize(("epsilon", "k"), [(0.2, 50), (1.0, 5)])
def test_pure_by_zcdp_is_looser_than_the_exact_one(epsilon, k):
    assert zcdp_epsilon(k * zcdp_of_pure(epsilon), 1e-6) >= approximate_epsilon(
        epsilon, 0.0, k, 1e-6
    )


def test_large_numbers_stay_numbers():
    assert 0 < approximate_delta(1e-3, 1e-12, 65_536, 0.8) < 1
    assert 0 < gaussian_epsilon(60.0, 1e-5) < 3000


def test_against_an_accountant():
    """Google's."""
    pld = needs.package("dp_accounting.pld.privacy_loss_distribution")
    for sigma, reports, epsilon in ((5.0, 20, 1.0), (37.3, 100, 1.0)):
        theirs = (
            pld.from_gaussian_mechanism(sigma).self_compose(reports).get_delta_for_epsilon(epsilon)
        )
        assert gaussian_delta(epsilon, sqrt(reports) / sigma) == pytest.approx(theirs, rel=0.05)


# --- the ledger of a life


def test_ledger_never_refills_and_charges_nothing_that_it_refuses():
    ledger = LifetimeLedger(3, 300, lambda n: 100 * n)
    state = State(ledger.fields, np.zeros((2, 2), np.uint64))
    rows = np.array([0, 1])
    assert ledger.largest(state) == 0
    spent = [
        ledger.charge(state, rows, slot, np.array([1, slot % 2])).tolist() for slot in range(8)
    ]
    assert [a for a, _ in spent] == [True] * 3 + [False] * 5
    assert [b for _, b in spent] == [True] * 7 + [False]
    assert state.columns["spent"][:2].tolist() == [3, 3]
    assert ledger.largest(state) == 300


def test_ledger_refuses_what_is_no_charge():
    ledger = LifetimeLedger(3, 300, lambda n: 100 * n)
    state = State(ledger.fields, np.zeros((1, 2), np.uint64))
    ledger.charge(state, np.array([0]), 5, 1)
    for slot, cost in ((6, -1), (6, 0.5), (6, 2**31), (2**61, 1)):
        with pytest.raises(ValueError):
            ledger.charge(state, np.array([0]), slot, cost)
        assert state.columns["spent"][0] == 1
    for reports, budget in ((0, 1), (1, 0)):
        with pytest.raises(ConfigurationError):
            LifetimeLedger(reports, budget, lambda n: n)


def test_ledger_knows_no_order():
    """A report of any slot counts once more, earlier ones and repeats too."""
    ledger = LifetimeLedger(4, 400, lambda n: 100 * n)
    state = State(ledger.fields, np.zeros((1, 2), np.uint64))
    slots = (5, 5, 3, 10**9, 4)
    allowed = [bool(ledger.charge(state, np.array([0]), slot, 1)[0]) for slot in slots]
    assert allowed == [True] * 4 + [False]
