"""The checks that every one-value mechanism must pass.

They rest on ``law(value)``, the exact distribution of a report. Privacy, bias and error are algebra
on it; a statistical test with a fixed false-alarm rate ties ``perturb`` to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from math import frexp, inf, nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.checks.chisquare import FALSE_ALARM, by_place, by_weight, limit, statistic
from ldp_kafka.checks.failure import CheckFailure, refused, require, run_all
from ldp_kafka.checks.laws import counts, rows, variance, worst_ratio
from ldp_kafka.checks.sources import KEY, Constant
from ldp_kafka.checks.trial import MEMBERS, SAMPLES, MechanismTrial, is_a
from ldp_kafka.mechanisms.base import CHUNK, Certificate, Estimate, Law, exp_below, nats
from ldp_kafka.randomness import keyed, seeded, system

__all__ = ["MECHANISM_CHECKS", "MechanismTrial", "check_mechanism"]

LOUD = 987654321  # no error text may hold it
# times that the rarest output of any probe is expected in a batch: one that only half of the inputs
# get wrong is missed once in ten million runs
OFTEN = 32


def check_mechanism(
    factory: Callable[[Any], Any],
    *,
    epsilon: float = 1.0,
    inputs: Sequence[Any] | None = None,
    samples: int | None = None,
) -> None:
    """Run every check of `MECHANISM_CHECKS`. What the members must do is in the docstring of
    `ldp_kafka.Mechanism`; a whole example in that of `ldp_kafka.checks`.

    A mechanism of numbers has ``domain`` (lo, hi), one of categories has ``categories`` (int)
    instead. Either has ``epsilon``, ``scale``, ``index_range``, ``perturb``, ``law``,
    ``certificate``, ``support``, ``estimate``, ``estimate_support`` and ``tables``. Where one is
    missing nothing else is tried, and the failure says what. Two more are optional: ``width``,
    above 0 where reports are packed bits, and ``hides_spread``, True where reports cannot tell how
    far the values behind them lie apart.

    Parameters
    ----------
    factory : epsilon -> Mechanism, anything else fixed. It must refuse what is no positive finite
        number with a ValueError or TypeError
    epsilon : the one it is tested at, nats
    inputs : values to probe with; they should include a pair at which the certificate's ratio is
        nearly reached. Default: a spread that does for monotone laws
    samples : reports a probe for the test of the sampler. Default: 10 million, or what can be drawn
        and counted in a second, but not fewer than 2**19

    Raises
    ------
    CheckFailure : with the names of all the checks that failed in ``checks``

    Notes
    -----
    The sampler's test accuses a true mechanism once in a million runs. In 10 million reports it
    finds what is 3 % off, more or less, with probability above 1 - 1e-9 where that has a
    probability of 0.016 or more (outputs of equal weight count together); in 2**19 reports, of a
    quarter or more. Everything else is algebra on ``law``.
    """
    trial = MechanismTrial(factory, epsilon, samples, inputs)
    # without one, the others could only stumble
    run_all({"has_every_member": has_every_member}, trial)
    run_all(MECHANISM_CHECKS, trial)


def has_every_member(trial: MechanismTrial) -> None:
    """It can be built, and what the contract and the wire call is there: `MEMBERS`, and ``domain``
    or ``categories``.
    """
    try:
        m = trial.mechanism
    except Exception as error:
        raise CheckFailure(
            f"the factory must build a mechanism from epsilon alone: {type(error).__name__}:"
            f" {error}"
        ) from error
    lacks = [
        f"`{name}`: {what}" for name, what in MEMBERS.items() if getattr(m, name, None) is None
    ]
    require(not lacks, f"the mechanism lacks {'; '.join(lacks)}")
    for name, what in MEMBERS.items():
        method = what.startswith(f"{name}(")
        require(
            callable(getattr(m, name)) == method,
            f"`{name}` must be {'a method' if method else 'a number or a pair, not a method'}:"
            f" {what}",
        )
    if trial.numeric:
        ends = tuple(m.domain)
        require(
            len(ends) == 2 and -inf < ends[0] < ends[1] < inf,
            "`domain` must be (lo, hi), finite, lo < hi",
        )
    else:
        require(
            hasattr(m, "categories"),
            "the mechanism lacks `domain`: (lo, hi), for numbers; or `categories`: how many"
            " there are",
        )
        require(
            type(m.categories) is int and m.categories >= 2,
            "`categories` must be an int of at least 2",
        )
    is_a(Certificate, m.certificate(), "certificate")
    for value in trial.inputs:
        is_a(Law, m.law(value), "law")


def law_is_exact(trial: MechanismTrial) -> None:
    """Weights are positive Python ints that sum to the denominator; the same distinct outputs are
    possible for every input.
    """
    support = rows(trial.laws[0].support)
    require(len(set(support)) == len(support), "the outputs of a law must be distinct")
    for law in trial.laws:
        require(
            rows(law.support) == support,
            "the possible outputs must be the same, in the same order, for every input",
        )
        require(len(law.weights) == len(support), "a law must have one weight for each output")
        require(
            all(type(weight) is int for weight in [*law.weights, law.denominator]),
            "weights and denominator must be Python ints",
        )
        require(min(law.weights) > 0, "every output must be possible for every input")
        require(sum(law.weights) == law.denominator, "weights must sum to the denominator")


def certificate_is_true(trial: MechanismTrial) -> None:
    """The certified ratio is at most e^epsilon and at least the worst that the probed laws show;
    some pair comes within 2 % of its logarithm.
    """
    certificate = trial.mechanism.certificate()
    require(type(certificate.ratio) is Fraction, "the certified ratio must be a Fraction")
    require(
        1 < certificate.ratio <= exp_below(trial.epsilon),
        "the certified ratio must lie between 1 and e^epsilon",
    )
    require(
        0 < certificate.epsilon_effective <= trial.epsilon,
        "the effective epsilon must lie in (0, epsilon]",
    )
    require(
        abs(certificate.epsilon_effective - nats(certificate.ratio)) <= 1e-9 * trial.epsilon,
        "the effective epsilon must be the logarithm of the certified ratio",
    )
    worst = max(worst_ratio(a, b) for a in trial.laws for b in trial.laws)
    require(
        worst <= certificate.ratio,
        "two probed laws must not differ by more than the certified ratio",
    )
    require(
        nats(worst) >= 0.98 * nats(certificate.ratio),
        "a pair of probes must come within 2 % of the certified loss: a certificate is computed,"
        " not declared",
    )


def sampler_follows_law(trial: MechanismTrial) -> None:
    """Chi-square of reports against the law, by place and by weight, for every probe; one false
    alarm in a million runs.
    """
    tests = 2 * len(trial.inputs)
    for value, law in zip(trial.inputs, trial.laws, strict=True):
        observed = trial.tally(value, law)
        expected = law.probabilities() * observed.sum()
        for bins in (by_place(expected), by_weight(expected, law.weights)):
            found, freedom = statistic(observed, expected, bins)
            require(
                found <= limit(freedom, FALSE_ALARM / tests),
                "reports must follow the law (chi-square, false-alarm rate 1e-6)",
            )


def reports_are_float_safe(trial: MechanismTrial) -> None:
    """Reports are whole multiples of a power of two, of the support's kind and shape, outputs of
    the law to the last bit and within the range that is stated; packed bits are bytes.
    """
    m = trial.mechanism
    require(frexp(float(m.scale))[0] == 0.5, "scale must be a power of two")
    outputs, width = np.asarray(trial.laws[0].support), getattr(m, "width", 0)
    (low, high), indices = m.index_range, outputs / m.scale
    require(
        low <= indices.min() and indices.max() <= high,
        "index_range must hold every output of the law, in units of scale",
    )
    if width:
        require(
            outputs.dtype == np.uint8 and outputs.shape[1:] == (width,),
            "packed bits must be uint8 (n, width)",
        )
    # an impossible one is for `law_is_exact`
    rarest = max(
        OFTEN / SAMPLES, min(float(law.probabilities().min(initial=1)) for law in trial.laws)
    )
    for n in (0, 1, CHUNK + 1, int(OFTEN / rarest)):
        reports = np.asarray(m.perturb(trial.spread(n), system()))
        require(len(reports) == n, "there must be one report for each value")
        require(
            reports.dtype.kind == outputs.dtype.kind,
            "reports must have the kind of number that the support has",
        )
        require(
            reports.shape[1:] == outputs.shape[1:],
            "reports must have the shape of the support's rows",
        )
        whole = reports / m.scale
        require(
            np.array_equal(whole, np.rint(whole)),
            "reports must be whole multiples of scale: low bits can tell inputs apart",
        )
        counts(reports, trial.laws[0])


def randomness_has_one_door(trial: MechanismTrial) -> None:
    """All that varies comes from the source: seeds repeat, equal words give equal reports, unbound
    keyed noise is refused, and what is asked of the source does not depend on the value.
    """
    m, values = trial.mechanism, trial.spread(2**15)
    first = m.perturb(values, seeded(7))
    require(
        np.array_equal(first, m.perturb(values, seeded(7))),
        "the same seed must give the same reports: some randomness does not come from the source",
    )
    # else two honest batches could be the same by chance
    if len(values) * min(1 - float((law.probabilities() ** 2).sum()) for law in trial.laws) > 100:
        require(
            not np.array_equal(first, m.perturb(values, seeded(8))),
            "different seeds must give different reports",
        )
        require(
            not np.array_equal(m.perturb(values, system()), m.perturb(values, system())),
            "system randomness must not repeat",
        )
    patterns = [(0,), (2**32 - 1,), (2**31,), (0x9E3779B9, 0x12345678, 0xDEADBEEF)]
    for value in trial.inputs:
        asked = []
        for pattern in patterns:
            source = Constant(pattern)
            reports = np.asarray(m.perturb(trial.column([value]).repeat(64), source)).reshape(
                64, -1
            )
            require(
                (reports == reports[0]).all(),
                "equal values with equal words must get equal reports: some randomness does not"
                " come from the source",
            )
            asked.append(source.asked)
        like = Constant((0,))
        m.perturb(trial.column([trial.inputs[0]]).repeat(64), like)
        require(
            all(what == like.asked for what in asked),
            "how many words are asked for must not depend on value or words",
        )
    try:
        m.perturb(values, keyed(KEY))
    except (ValueError, TypeError, RuntimeError):
        return
    raise CheckFailure("keyed noise without a context must be refused")


def pieces_do_not_matter(trial: MechanismTrial) -> None:
    """From one keyed source, a batch, its halves and its single rows get the same reports; the
    values are left as they were.
    """
    n, m = 2 * CHUNK + 3, trial.mechanism
    rows, values = np.arange(n), trial.spread(n)
    users, bound = (
        np.column_stack([rows, rows]).astype(np.uint64),
        rows.reshape(-1, 1).astype(np.int64),
    )
    values.flags.writeable = False
    kept = values.copy()

    def reports(part: slice) -> NDArray[Any]:
        return np.asarray(m.perturb(values[part], keyed(KEY).at(users[part], 3, 0, bound[part])))

    whole = reports(slice(0, n))
    require(np.array_equal(values, kept), "the values given must not be changed")
    for part in [
        slice(0, n // 2),
        slice(n // 2, n),
        *(
            slice(i, i + 1)
            for edge in (0, CHUNK, 2 * CHUNK)
            for i in (edge, max(edge - 1, 0), edge + 1, edge + 2)
        ),
    ]:
        require(
            np.array_equal(reports(part), whole[part]),
            "a value's report must not depend on the batch it comes in",
        )


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


def bad_values_are_refused(trial: MechanismTrial) -> None:
    """NaN and infinities, or what is no category, is refused by perturb and law without being
    shown; numbers outside the domain are clamped.
    """
    m = trial.mechanism
    if not trial.numeric:
        for bad in (-LOUD, -1, int(m.categories), LOUD):
            refused(
                partial(m.perturb, np.array([0, bad]), system()),
                "a number that is no category",
                hidden=[str(LOUD)],
            )
            refused(
                partial(m.law, bad), "the law of a number that is no category", hidden=[str(LOUD)]
            )
        refused(
            lambda: m.perturb(np.array([0.0, 1.0]), system()),
            "categories that are not whole numbers",
        )
        return
    lo, hi = m.domain
    inside = lo + 0.3141592653 * (hi - lo)
    for endless in (nan, inf, -inf):
        refused(
            partial(m.perturb, np.array([inside, endless]), system()),
            "a value that is not finite",
            hidden=[str(inside)[:8]],
        )
        refused(partial(m.law, endless), "the law of a value that is not finite")
    outside, ends = (
        np.array([lo - 3.0 * (hi - lo), hi + 5.0 * (hi - lo)] * 100),
        np.array([lo, hi] * 100),
    )
    require(
        np.array_equal(m.perturb(outside, seeded(3)), m.perturb(ends, seeded(3))),
        "values outside the domain must be clamped to it",
    )


def bad_epsilon_is_refused(trial: MechanismTrial) -> None:
    """Epsilon must be a positive finite number when the mechanism is built."""
    for bad in (0, -1.0, nan, inf, "1", None, True):
        refused(partial(trial.factory, bad), f"epsilon = {bad!r}")


def tables_tell_mechanisms_apart(trial: MechanismTrial) -> None:
    """The integers that it samples with are Python ints, the same whenever it is built, and others
    for another epsilon: they are part of a topology's fingerprint.
    """
    tables = list(trial.mechanism.tables())
    require(tables and all(type(entry) is int for entry in tables), "tables must be Python ints")
    require(
        tables == list(trial.factory(trial.epsilon).tables()),
        "tables must be a function of the parameters",
    )
    require(
        tables != list(trial.factory(trial.epsilon / 2).tables()), "tables must change with epsilon"
    )


MECHANISM_CHECKS: dict[str, Callable[[MechanismTrial], None]] = {
    "has_every_member": has_every_member,
    "law_is_exact": law_is_exact,
    "certificate_is_true": certificate_is_true,
    "sampler_follows_law": sampler_follows_law,
    "reports_are_float_safe": reports_are_float_safe,
    "randomness_has_one_door": randomness_has_one_door,
    "pieces_do_not_matter": pieces_do_not_matter,
    "estimator_is_unbiased": estimator_is_unbiased,
    "error_is_stated": error_is_stated,
    "support_is_additive": support_is_additive,
    "bad_values_are_refused": bad_values_are_refused,
    "bad_epsilon_is_refused": bad_epsilon_is_refused,
    "tables_tell_mechanisms_apart": tables_tell_mechanisms_apart,
}


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
    stated = np.atleast_1d(np.asarray(estimate.standard_error, np.float64)) ** 2 * estimate.reports
    require(
        np.abs(stated - variance).max() <= 2e-3 * variance.max(),
        f"the standard error {of_what} must be the one that follows from the law",
    )
