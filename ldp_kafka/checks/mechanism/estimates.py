"""The checks of what a mechanism makes of reports: sums, unbiased estimates, true errors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.checks.failure import require
from ldp_kafka.checks.laws import variance
from ldp_kafka.checks.trial import MechanismTrial, is_a
from ldp_kafka.mechanisms.base import Estimate
from ldp_kafka.randomness import seeded

__all__ = ["error_is_stated", "estimator_is_unbiased", "support_is_additive"]


def estimator_is_unbiased(trial: MechanismTrial) -> None:
    """By algebra: the law's expected estimate of one report is the value, for each probe and for
    two mixed; many reports average single ones.
    """
    m = trial.mechanism
    unit = m.domain[1] - m.domain[0] if trial.numeric else 1.0
    single = trial.singles
    pairs = [(i, j) for i in range(len(trial.inputs)) for j in dict.fromkeys((i, 0))]
    for i, j in pairs:
        mixed = (trial.laws[i].probabilities() + trial.laws[j].probabilities()) / 2
        truth = (_truth(trial, i) + _truth(trial, j)) / 2
        mean = mixed @ single
        require(
            np.abs(mean - truth).max() <= 1e-6 * unit,
            "the expected estimate of one report must be the value",
        )
        whole = np.atleast_1d(trial.estimate(_expected_support(trial, i, j)).value)
        require(
            np.abs(whole - mean).max() <= 1e-6 * unit,
            "the estimate from many reports must be the mean of those from single ones",
        )


def error_is_stated(trial: MechanismTrial) -> None:
    """The standard error is the noise's, computed from the law; with ``population=True`` it is that
    of reports of users drawn at random.

    A mechanism whose reports do not say how far the values behind them spread declares
    ``hides_spread``: then the first is a bound, reached where the values are equal.
    """
    m, single = trial.mechanism, trial.singles
    for i in range(len(trial.inputs)):
        for j in dict.fromkeys((i, 0)):
            support, laws = _expected_support(trial, i, j), (trial.laws[i], trial.laws[j])
            noise = (
                variance(laws[0].probabilities(), single)
                + variance(laws[1].probabilities(), single)
            ) / 2
            if i == j or not getattr(m, "hides_spread", False):
                _close(trial.estimate(support), noise, "given the values")
            else:
                _covers(trial.estimate(support), noise)
            total = variance((laws[0].probabilities() + laws[1].probabilities()) / 2, single)
            _close(trial.estimate(support, population=True), total, "of a population")


def support_is_additive(trial: MechanismTrial) -> None:
    """Supports are int64 sums, the number of reports first: the same in any order and any split;
    the estimate needs nothing else.
    """
    m = trial.mechanism
    reports = np.asarray(m.perturb(trial.spread(1000), seeded(1)))
    whole = m.support(reports)
    require(np.asarray(whole).dtype == np.int64, "a support must be int64")
    require(int(whole[0]) == len(reports), "a support must begin with the number of reports")
    require(
        np.array_equal(whole, m.support(reports[:300]) + m.support(reports[300:])),
        "supports must add up",
    )
    require(
        np.array_equal(whole, m.support(reports[::-1])),
        "a support must not depend on the order of reports",
    )
    for how in ({}, {"population": False}, {"population": True}):
        one, other = (
            is_a(Estimate, m.estimate(reports, **how), "estimate"),
            m.estimate_support(whole, **how),
        )
        same = np.array_equal(one.value, other.value) and np.array_equal(
            one.standard_error, other.standard_error
        )
        require(
            same, "estimate must be estimate_support of the support, with population as without it"
        )
        require(one.reports == len(reports), "an estimate must say how many reports it has")
        empty = m.estimate(reports[:0], **how)
        nothing = (
            empty.reports == 0
            and np.isnan(empty.value).all()
            and np.isinf(empty.standard_error).all()
        )
        require(nothing, "without reports an estimate must be NaN with infinite error")
    plain, stated = (
        np.asarray(m.estimate_support(whole, **how).standard_error)
        for how in ({}, {"population": False})
    )
    require(
        np.array_equal(plain, stated),
        "without population an error must be that of the noise, given the values",
    )


def _truth(trial: MechanismTrial, i: int) -> NDArray[np.float64]:
    if trial.numeric:
        return np.array([trial.inputs[i]])
    return np.asarray(np.arange(int(trial.mechanism.categories)) == trial.inputs[i], np.float64)


def _expected_support(trial: MechanismTrial, i: int, j: int) -> NDArray[np.int64]:
    """The support of so many reports whose outputs occur exactly as the laws of probes i and j,
    mixed, say.
    """
    mean = (trial.mean_supports[i] + trial.mean_supports[j]) / 2
    return np.array([round(total * trial.precise) for total in mean], np.int64)


def _covers(estimate: Estimate, variance: NDArray[np.float64]) -> None:
    stated = np.atleast_1d(np.asarray(estimate.standard_error, np.float64)) ** 2 * estimate.reports
    require(
        (stated >= 0.998 * variance).all(),
        "the standard error given the values must not be less than the one that follows from"
        " the law",
    )


def _close(estimate: Estimate, variance: NDArray[np.float64], of_what: str) -> None:
    stated = np.atleast_1d(np.asarray(estimate.square, np.float64)) * estimate.reports
    require(
        np.abs(stated - variance).max() <= 2e-3 * variance.max(),
        f"the standard error {of_what} must be the one that follows from the law",
    )
