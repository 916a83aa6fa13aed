"""The black-box bound: how often it is wrong, what it finds, and that broken auditors are found
out.
"""

from __future__ import annotations

import inspect
from math import exp, inf, log
from types import SimpleNamespace

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.audits import audit, audit_pairs, audit_reports, bound
from ldp_kafka.audits.result import AuditResult, Hits
from ldp_kafka.mechanisms import binomial
from tests.audits.sequential import exceeds
from tests.depth import depth

ALPHA = 0.3  # of the calibration: so that errors happen often enough to be counted
SURE = 1e-6  # where a test fails if the bound is above the truth


def response(value, n, epsilon, rng):
    """Binary randomized response."""
    return np.where(rng.random(n) < exp(epsilon) / (exp(epsilon) + 1), value, 1 - value)


def alarms_without_a_loss(rng):
    """Both inputs have one law with many values: whatever is found is wrong."""
    return audit_reports(*rng.random((2, 200)), alpha=ALPHA).epsilon_lower > 0


def _too_high(rng, epsilon, n):
    """Of a mechanism whose best event loses all of epsilon."""
    found = audit_reports(response(0, n, epsilon, rng), response(1, n, epsilon, rng), alpha=ALPHA)
    return found.epsilon_lower > epsilon


def missed_bounds(rng):
    """Common events."""
    return _too_high(rng, 1.0, 1000)


def missed_rare_bounds(rng):
    """Rare events: less than one wrong guess in the half that is counted."""
    return _too_high(rng, 6.0, 300)


CALIBRATION = (alarms_without_a_loss, missed_bounds, missed_rare_bounds)


def miscalibrated(errs):
    """Whether it errs more often than alpha: of a right auditor once in a million times; of one
    that errs in 48 % of all audits always but once in a million times.
    """
    rng = np.random.default_rng()
    return exceeds(lambda: errs(rng), ALPHA, 0.48)


@pytest.mark.usefixtures("without_power")
@pytest.mark.parametrize("errs", CALIBRATION, ids=lambda errs: errs.__name__)
def test_the_auditor_keeps_its_alpha(errs):
    """It is wrong in at most three of ten audits where alpha is 0.3."""
    assert not miscalibrated(errs)


def bounds(patch, lower):
    """Others in place of Clopper and Pearson's."""
    patch.setattr(bound, "binomial", SimpleNamespace(**{**vars(binomial), "lower": lower}))


def same_reports(patch):
    """Chooses and counts the same reports."""
    patch.setattr(bound, "halves_of", lambda *both: [(both, both)])


def without_bonferroni(patch):
    """Each of the two halves may be wrong with probability alpha."""
    bounds(patch, lambda k, n, a: binomial.lower(k, n, 2 * a))


def point_estimates(patch):
    """Shares for bounds."""
    bounds(patch, lambda k, n, a: np.asarray(k) / n)


def normal_intervals(patch):
    """The approximation that fails where events are rare."""

    def wald(k, n, a):
        share = np.asarray(k) / n
        return np.clip(share - 1.0364334 * np.sqrt(share * (1 - share) / n), 1e-9, 1)

    bounds(patch, wald)


def bounds_swapped(patch):
    """The upper bound for the share of right guesses."""
    bounds(patch, lambda k, n, a: binomial.upper(k, n, a) if k else 0.0)


MUTANTS = {
    same_reports: alarms_without_a_loss,
    without_bonferroni: missed_bounds,
    point_estimates: missed_bounds,
    normal_intervals: missed_rare_bounds,
    bounds_swapped: missed_bounds,
}


@pytest.mark.usefixtures("without_power")
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_broken_auditors_are_found_out(mutant, monkeypatch):
    """By the calibration that the real one passes."""
    mutant(monkeypatch)
    assert miscalibrated(MUTANTS[mutant])


@pytest.mark.parametrize("epsilon", depth([0.1, 1.0, 8.0], [0.1, 0.5, 1.0, 2.0, 4.0, 8.0]))
@pytest.mark.parametrize(
    ("name", "parameters", "x0", "x1"),
    [("grr", {"categories": 2}, 0, 1), ("square_wave", {"domain": (0.0, 1.0)}, 0.0, 1.0)],
)
def test_power(name, parameters, x0, x1, epsilon):
    """A loss of 1.3 times the claim is found from a million reports of each input, at a false-alarm
    rate of 1e-6; from two million at epsilon .1, where a million miss it in one of some
    hundred runs.
    """
    reports = 10**6 if epsilon > 0.1 else 2 * 10**6
    strong = lk.mechanism(name, epsilon=1.3 * epsilon, **parameters)
    found = audit(strong, x0, x1, claimed=epsilon, reports=reports, alpha=SURE)
    assert found.violated
    assert found.alpha == SURE
    assert found.epsilon_lower <= 1.3 * epsilon


@pytest.mark.usefixtures("without_power")
@pytest.mark.parametrize(
    "name", [name for name in sorted(lk.MECHANISMS) if not name.startswith("gaussian")]
)  # a delta hides a third of epsilon from one event
def test_power_on_ours(name):
    """Whatever the encoding: a mechanism that spends 1.3 where 1 is claimed. The bound is 1.21 and
    more on average with a standard deviation of at most .014: below 1.1 once in 10^14 audits.
    """
    parameters = (
        {"domain": (0.0, 1.0)}
        if "domain" in inspect.signature(lk.MECHANISMS[name]).parameters
        else {"categories": 10}
    )
    found = audit_pairs(
        lk.mechanism(name, epsilon=1.3, **parameters), claimed=1.0, reports=150_000, alpha=SURE
    )
    assert found.violated
    assert 1.1 < found.epsilon_lower <= 1.3


def test_bounds_come_close():
    """Within 3 % of the truth at a million reports: an auditor that is never wrong because it says
    nothing would not.
    """
    for epsilon in (1.0, 2.0):
        found = audit(lk.mechanism("grr", epsilon=epsilon, categories=2), 0, 1, alpha=SURE)
        assert 0.97 * epsilon <= found.epsilon_lower <= epsilon


def test_a_rare_output_of_one_input_only():
    """One report in a thousand gives the input away: ranked unions find single outputs."""
    rng = np.random.default_rng()
    first, second = rng.integers(0, 1000, (2, 400_000))
    second[second == 617] = 3
    found = audit_reports(first, second, claimed=0.5)
    assert found.violated
    assert found.event == "values equal to 617"
    assert (found.direction, found.other.hits) == ("first", 0)


def test_direction_is_the_likelier_input():
    """Whichever it is."""
    rng = np.random.default_rng()
    first, second = rng.random(100_000) < 0.5, rng.random(100_000) < 0.1
    there, back = audit_reports(first, second), audit_reports(second, first)
    assert {there.direction, back.direction} <= {"first", "second"}
    assert there.epsilon_lower == pytest.approx(log(5), abs=0.2)
    assert back.likelier.hits / back.likelier.trials == pytest.approx(0.5, abs=0.02)
    assert back.direction == "second"


def test_delta_takes_what_it_pays_for():
    """An event of probability 0.1 that one input never has: infinite loss at delta 0,
    none at 0.1.
    """
    rng = np.random.default_rng()
    first, second = rng.random(200_000) < 0.1, np.zeros(200_000, bool)
    assert audit_reports(first, second, claimed=3.0).violated
    assert audit_reports(first, second, claimed=3.0, delta=0.05).violated
    assert not audit_reports(first, second, claimed=0.2, delta=0.11, alpha=SURE).violated


def test_rows_compose():
    """Ten independent answers at 0.5 each lose 5: no column shows more than 0.5, their scores show
    over 3.
    """
    rng, n = np.random.default_rng(), 400_000
    first, second = (
        np.column_stack([response(value, n, 0.5, rng) for _ in range(10)]) for value in (0, 1)
    )
    assert 3 < audit_reports(first, second, alpha=SURE).epsilon_lower <= 5
    assert audit_reports(first[:, 0], second[:, 0], alpha=SURE).epsilon_lower <= 0.5


def test_rows_as_a_whole():
    """Each column is a fair coin for both inputs; only together do they tell: equal or opposite."""
    rng, n = np.random.default_rng(), 100_000
    coin, noise = rng.integers(0, 2, (2, n)), rng.random((2, n)) < 0.05
    first, second = (
        np.column_stack([coin[0], coin[0] ^ noise[0]]),
        np.column_stack([coin[1], coin[1] ^ noise[1] ^ 1]),
    )
    assert audit_reports(first, second).epsilon_lower > 2
    assert audit_reports(*(np.packbits(each, axis=1) for each in (first, second))).epsilon_lower > 2


def test_streams_of_a_method():
    """What is audited may be any function: two streams that differ in all slots of one window."""
    method = lk.method("sw_direct", epsilon=1.0, window=3, domain=(0.0, 1.0))
    found = audit(
        lambda streams: method.release(streams, lk.randomness.system()),
        np.zeros(3),
        np.ones(3),
        claimed=1.0,
        reports=200_000,
        alpha=SURE,
    )
    assert 0.5 < found.epsilon_lower <= 1.0
    assert not found.violated
    assert audit(
        lambda streams: method.release(streams, lk.randomness.system()),
        np.zeros(30),
        np.ones(30),
        claimed=1.0,
        reports=20_000,
    ).violated


def test_labels_and_missing_reports():
    """Texts, and NaN where nothing was reported."""
    rng = np.random.default_rng()
    first, second = (
        np.array(["yes", "no", "maybe"])[rng.choice(3, 50_000, p=p)]
        for p in ([0.6, 0.3, 0.1], [0.1, 0.3, 0.6])
    )
    assert log(4) < audit_reports(first, second, alpha=SURE).epsilon_lower <= log(6)
    first, second = (
        np.where(rng.random(50_000) < p, np.nan, rng.random(50_000)) for p in (0.5, 0.1)
    )
    assert log(4) < audit_reports(first, second, alpha=SURE).epsilon_lower <= log(5)


@pytest.mark.parametrize(
    ("first", "second", "settings"),
    [
        (np.zeros(20), np.zeros((20, 2)), {}),
        (np.zeros(20), np.array(["a"] * 20), {}),
        (np.zeros(3), np.zeros(20), {}),
        (np.zeros(20), np.zeros(20), {"alpha": 0.0}),
        (np.zeros(20), np.zeros(20), {"delta": 1.0}),
        (np.zeros(20), np.zeros(20), {"claimed": -1.0}),
        (np.zeros(20), np.zeros(20), {"claimed": float("nan")}),
        (np.zeros(20, object), np.zeros(20, object), {}),
        (np.zeros(20, int), np.zeros(20, int), {"views": ("low bits",)}),
    ],
)
def test_nonsense_is_refused(first, second, settings):
    """Before anything is counted."""
    with pytest.raises(ValueError, match=r"must|at least|nothing to look at"):
        audit_reports(first, second, **settings)


def test_the_result_speaks():
    """The verdict, as text and for programs; never more than was found."""
    found = audit(
        lk.mechanism("grr", epsilon=1.3, categories=4), 0, 1, claimed=1.0, reports=100_000
    )
    assert found.verdict.endswith("with confidence 99 % (claimed 1): VIOLATED")
    assert found.lines()[-1].startswith("  power:  finds with probability 95 % a loss of 1.0")
    assert float(found.verdict.split()[4]) <= found.epsilon_lower
    body = found.to_dict()
    assert body["violated"] is True
    assert body["direction"] == "both"
    assert body["likelier"]["trials"] == 100_000
    assert sum(each["likelier"] + each["other"] for each in body["bins"]) == 100_000
    assert body["power"][0]["loss"] == found.power[0].loss
    assert (
        sum(each["likelier"] for each in body["bins"] if each["chosen"]) == body["likelier"]["hits"]
    )
    assert (
        "VIOLATED"
        not in audit(
            lk.mechanism("grr", epsilon=1.0, categories=4), 0, 1, claimed=inf, reports=1000
        ).verdict
    )


def test_what_was_claimed_is_not_made_stronger_in_print():
    """The claim is rounded up, and the delta beside the bound that was found down."""
    found = AuditResult(
        2.0, 0.0, 1.2345601, 9.9999999e-6, "", "", Hits(9, 10, 0.5), Hits(1, 10, 0.1)
    )
    assert found.verdict == (
        "epsilon is at least 2 at delta 9.99999e-06, for certain (claimed 1.23457): VIOLATED"
    )


def test_code_for_single_values_is_noticed():
    """x + rng.laplace() adds one draw to a whole array: its reports are not independent."""
    rng = np.random.default_rng()
    with pytest.raises(ValueError, match="draws once for all values"):
        audit(lambda x: x + rng.laplace(), 0.0, 1.0, reports=1000)
    with pytest.raises(ValueError, match="one report for each value"):
        audit(lambda x: x[:-1], 0.0, 1.0, reports=1000)
    with pytest.raises(TypeError, match="a mechanism, or a function"):
        audit(3, 0.0, 1.0, reports=1000)
    assert audit(lambda x: x, 0.0, 1.0, claimed=1.0, reports=1000).violated  # no noise at all


def test_the_front_door():
    """lk.audit is the same."""
    assert lk.audit(
        lk.mechanism("grr", epsilon=1.3, categories=4), 0, 1, claimed=1.0, reports=100_000
    ).violated
