"""`ldp_kafka.checks` in the hands of a third party: a mechanism written from the docstrings alone
passes, broken ones get readable failures.
"""

from __future__ import annotations

from fractions import Fraction
from math import inf, isfinite, log, nan

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.audits import audit
from ldp_kafka.checks import MECHANISM_CHECKS, CheckFailure, check_mechanism
from ldp_kafka.checks.trial import MEMBERS, PRECISE, MechanismTrial
from ldp_kafka.randomness import use_of
from tests.cases import cases


def own_words(mechanism, values, randomness):
    """A word for each value, of a use of the key that is this mechanism's at this budget."""
    use = use_of(type(mechanism).__name__, mechanism.epsilon)
    return randomness.within(use).words(len(values), 1)[:, 0]


class YesOrNo:
    """Warner's randomized response (1965): the truth with probability p / 2**32, p / (2**32 - p)
    just below e^epsilon.
    """

    scale = 1
    width = 0
    categories = 2
    index_range = (0, 1)

    def __init__(self, epsilon):
        if isinstance(epsilon, bool) or not isinstance(epsilon, int | float):
            raise TypeError("epsilon must be a number")
        if not (isfinite(epsilon) and 0 < epsilon <= 20):
            raise ValueError("epsilon must lie in (0, 20]")
        self.epsilon = float(epsilon)
        self.lie = int(2**32 / (1 + np.exp(epsilon))) + 1
        self.truth = 2**32 - self.lie

    def perturb(self, values, randomness):
        values = self._checked(values)
        words = own_words(self, values, randomness)
        return np.where(words < np.uint32(self.truth), values, 1 - values)

    def law(self, value):
        (value,) = self._checked(np.array([value])).tolist()
        return lk.Law(
            np.array([0, 1]),
            [self.truth if answer == value else self.lie for answer in (0, 1)],
            2**32,
        )

    def certificate(self):
        ratio = Fraction(self.truth, self.lie)
        return lk.Certificate(ratio, log(ratio))

    def support(self, reports):
        return np.array([len(reports), np.sum(reports)], np.int64)

    def estimate(self, reports, *, population=False):
        return self.estimate_support(self.support(reports), population=population)

    def estimate_support(self, support, *, population=False):
        n, ones = support.tolist()
        if not n:
            return lk.Estimate(np.full(2, nan), np.full(2, inf), 0)
        p = self.truth / 2**32
        seen = ones / n
        yes = (seen - (1 - p)) / (2 * p - 1)
        noise = (seen * (1 - seen) if population else p * (1 - p)) / n
        return lk.Estimate(np.array([1 - yes, yes]), np.full(2, np.sqrt(noise) / (2 * p - 1)), n)

    def tables(self):
        return (self.truth, self.lie)

    def _checked(self, values):
        values = np.asarray(values)
        if values.dtype.kind not in "iu":
            raise TypeError("answers must be integers")
        if len(values) and not (values.min() >= 0 and values.max() <= 1):
            raise ValueError("answers must be 0 or 1")
        return values.astype(np.int64)


class Mostly(YesOrNo):
    """Tells the truth more often than its law says."""

    def perturb(self, values, randomness):
        values = self._checked(values)
        return np.where(
            own_words(self, values, randomness) < np.uint32(1.03 * self.truth),
            values,
            1 - values,
        )


class Boastful(YesOrNo):
    """Spends more than it was given, and declares what it was given."""

    def __init__(self, epsilon):
        super().__init__(epsilon)
        self.lie = int(0.9 * self.lie)
        self.truth = 2**32 - self.lie

    def certificate(self):
        ratio = Fraction(np.exp(self.epsilon)) * Fraction(999_999, 1_000_000)
        return lk.Certificate(ratio, log(ratio))


class Unfinished(YesOrNo):
    """Has no tables."""

    tables = None


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_a_third_partys_mechanism_passes(epsilon):
    """All checks, at several epsilons."""
    check_mechanism(YesOrNo, epsilon=epsilon)


@pytest.mark.parametrize(
    ("broken", "check", "says"),
    [
        (Mostly, "sampler_follows_law", "reports must follow the law"),
        (
            Boastful,
            "certificate_is_true",
            "two probed laws must not differ by more than the certified ratio",
        ),
        (Unfinished, "has_every_member", "lacks `tables`: tables() -> the Python ints"),
    ],
)
def test_a_broken_one_is_told_what_is_wrong(broken, check, says):
    """One line for each check that failed: its name and what must hold; the names are in ``checks``
    too.
    """
    with pytest.raises(CheckFailure) as caught:
        check_mechanism(broken)
    assert caught.value.checks == (check,)
    assert str(caught.value).startswith(f"{check}: ")
    assert says in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_what_is_no_mechanism_is_told_what_it_lacks():
    """Never a bare traceback of the first attribute that is missing: all of them, by name, and
    nothing else is tried.
    """
    with pytest.raises(CheckFailure) as caught:
        check_mechanism(lambda epsilon: object())
    assert caught.value.checks == ("has_every_member",)
    assert all(f"`{name}`: " in str(caught.value) for name in MEMBERS)


@cases("name", [*MEMBERS, "categories"])
def test_a_missing_member_is_named(name):
    """Each by itself, with what it should be."""
    broken = type("Broken", (YesOrNo,), {name: None})
    if name == "epsilon":
        broken = type(
            "Broken",
            (YesOrNo,),
            {"epsilon": property(lambda self: None, lambda self, epsilon: None)},
        )
    elif name == "categories":
        broken = type(
            "Broken",
            (),
            {
                key: value
                for key, value in vars(YesOrNo).items()
                if key not in ("categories", "__dict__", "__weakref__")
            },
        )
    with pytest.raises(CheckFailure) as caught:
        check_mechanism(broken)
    assert str(caught.value).startswith(
        f"has_every_member: the mechanism lacks `{'domain' if name == 'categories' else name}`: "
    )
    assert len(str(caught.value).splitlines()) == 1


@cases(
    ("members", "says"),
    [
        ({"categories": 2.0}, "`categories` must be an int"),
        ({"categories": 1}, "`categories` must be an int of at least 2"),
        ({"domain": (1.0, 0.0)}, "`domain` must be"),
        ({"domain": (0.0, nan)}, "`domain` must be"),
        ({"tables": (1, 2)}, "`tables` must be a method"),
        (
            {"index_range": lambda self: (0, 1)},
            "`index_range` must be a number or a pair, not a method",
        ),
        (
            {"law": lambda self, value: ([0, 1], [1, 1], 2)},
            "`law` must return an ldp_kafka.Law(support, weights, denominator)",
        ),
        (
            {"certificate": lambda self: 2.0},
            "`certificate` must return an ldp_kafka.Certificate(ratio, epsilon_effective, delta)",
        ),
        (
            {"estimate_support": lambda self, support, population=False: (0.5, 0.1)},
            "`estimate_support` must return an ldp_kafka.Estimate(value, ",
        ),
        (
            {"__init__": lambda self, epsilon, size: None},
            "the factory must build a mechanism from epsilon alone: TypeError",
        ),
    ],
)
def test_a_wrong_member_is_named(members, says):
    """With what it must be."""
    with pytest.raises(CheckFailure) as caught:
        check_mechanism(type("Broken", (YesOrNo,), members), samples=2**14)
    assert says in str(caught.value)


class Heavy(YesOrNo):
    """Adds far more to its sums than a million reports could."""

    def support(self, reports):
        return super().support(reports) * np.array([1, 2**45])

    def estimate_support(self, support, *, population=False):
        return super().estimate_support(support // np.array([1, 2**45]), population=population)


def test_sums_that_would_overflow_are_told():
    """Not a silent overflow: the cap is stated."""
    with pytest.raises(CheckFailure, match=r"less than 2\*\*42"):
        check_mechanism(Heavy, samples=2**14)


def test_where_nothing_fits_the_exact_law_is_still_put_in():
    """Sums of many cells are large: fewer reports then stand for the law, and the algebra holds."""
    for name, epsilon, kw in (("laplace", 16.0, {}), ("square_wave", 1.0, {"cells": 2**14})):
        trial = MechanismTrial(
            lambda e, name=name, kw=kw: lk.mechanism(name, epsilon=e, **kw), epsilon
        )
        assert trial.precise < PRECISE
        for check in ("estimator_is_unbiased", "error_is_stated"):
            MECHANISM_CHECKS[check](trial)


def test_it_runs_in_a_method():
    """What passes can be used: a method takes a factory of it as its mechanism, and an audit takes
    it as it is.
    """
    method = lk.method(
        "lpu",
        epsilon=1.0,
        window=2,
        categories=2,
        mechanism=lambda epsilon, categories: YesOrNo(epsilon),
    )
    released = method.release(np.ones((50, 6), np.int64), lk.randomness.system())
    assert set(np.unique(released)) <= {-1, 0, 1}
    assert not audit(YesOrNo(1.0), 0, 1, reports=100_000, alpha=1e-6).violated
    assert audit(Boastful(1.0), 0, 1).violated
