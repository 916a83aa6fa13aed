"""Mechanisms of somebody else's are held to what they were asked for, wherever a factory is called:
by epsilon, certificate, domain and law.
"""

from __future__ import annotations

from fractions import Fraction
from math import inf, nan

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.base import exp_below
from ldp_kafka.methods import StreamMethod
from ldp_kafka.topology import loads
from tests.cases import cases
from tests.specimens import METHODS

NUMBERS = {"window": 2, "domain": (0.0, 1.0)}
SPECIMENS = {
    name: own for name, own in METHODS.items() if not issubclass(lk.METHODS[name], StreamMethod)
}
"""Of every method that draws through a mechanism."""
EPSILON = 1.0


class Wrapped:
    """A mechanism that states what it is told to beside what the real one does."""

    def __init__(self, real, **stated):
        self._real = real
        self.__dict__.update(stated)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._real, name)


class Bare:
    """A randomised response without a certificate: the true answer this many times as likely."""

    def __init__(self, epsilon, categories, ratio):
        self.epsilon, self.categories, self._ratio = epsilon, categories, ratio

    def law(self, value):
        weights = [self._ratio if answer == value else 1 for answer in range(self.categories)]
        return lk.Law(np.arange(self.categories), weights, sum(weights))


def spending(name, times):
    """A factory of the method's own mechanism at so many times the epsilon that it states."""

    def make(epsilon, *asked):
        real = lk.MECHANISMS[lk.METHODS[name].default_mechanism]
        return Wrapped(real(times * epsilon, *asked), epsilon=epsilon)

    return make


@cases("name", list(SPECIMENS))
def test_no_method_takes_a_mechanism_whose_certificate_says_more(name):
    """Ten times the epsilon that it was asked for, and a tenth, which is a guarantee too."""
    with pytest.raises(ConfigurationError, match=r"mechanism: .* more than e\^epsilon"):
        lk.method(name, epsilon=EPSILON, mechanism=spending(name, 10), **SPECIMENS[name])
    if "delta" not in SPECIMENS[name]:  # they count by sigma, which is then another
        small = lk.method(name, epsilon=40.0, mechanism=spending(name, 0.1), **SPECIMENS[name])
        assert small.guarantee.epsilon == 40.0


@cases("name", list(lk.PROTOCOLS))
def test_no_protocol_takes_such_an_oracle(name):
    def make(epsilon, categories):
        return Wrapped(lk.mechanism("grr", epsilon=10.0, categories=categories), epsilon=epsilon)

    with pytest.raises(ConfigurationError, match=r"oracle: .* more than e\^epsilon"):
        lk.protocol(name, epsilon=EPSILON, window=2, categories=3, oracle=make)


def test_an_oracle_is_compared_at_every_cost():
    """One that is honest about the first phase alone answers no request of the second."""

    def make(epsilon, categories):
        spent = epsilon if epsilon < 0.3 else 10.0
        return Wrapped(lk.mechanism("grr", epsilon=spent, categories=categories), epsilon=epsilon)

    terms = lk.protocol("lba", epsilon=EPSILON, window=2, categories=3, oracle=make).terms
    assert terms.first == 250_000 and terms.oracle.has(terms.first)
    assert not terms.oracle.has(terms.second)


def test_a_scout_is_compared_too():
    with pytest.raises(ConfigurationError, match=r"scout: .* more than e\^epsilon"):
        lk.method("topl", epsilon=EPSILON, scout=spending("sw_direct", 10), **NUMBERS)


def test_a_topology_takes_none_that_a_registry_was_given(monkeypatch):
    theirs = spending("sw_direct", 10)
    monkeypatch.setitem(lk.MECHANISMS, "laplace", theirs)
    text = (
        "topology: t\ninput: {slot: 1h}\noutput: {statistics: [mean]}\nprivacy: {method: sw_direct,"
        " mechanism: laplace, epsilon: 1.0, window: 2, domain: [0, 1]}\n"
    )
    with pytest.raises(ConfigurationError, match=r"more than e\^epsilon"):
        _ = loads(text, "t.yaml").method


def taken(make, epsilon=1.0):
    """A method's mechanism of just this epsilon over three categories."""
    return lk.method("lpu", epsilon=epsilon, window=1, categories=3, mechanism=make).mechanism


def stating(**stated):
    """A factory of GRR that states this, and else the truth."""

    def make(epsilon, categories):
        return Wrapped(lk.mechanism("grr", epsilon=epsilon, categories=categories), **stated)

    return make


JUST = exp_below(1.0)


@cases(
    ("stated", "said"),
    [
        ({"epsilon": 1 + 2**-40}, "at most epsilon 1.0"),
        ({"epsilon": nan}, "it states nan"),
        ({"epsilon": inf}, "it states inf"),
        ({"epsilon": 0.0}, "it states 0.0"),
        ({"epsilon": -1.0}, "it states -1.0"),
        ({"epsilon": True}, "must be a number"),
        ({"epsilon": "1"}, "must be a number"),
        ({"epsilon": None}, "must be a number"),
        ({"categories": 4}, "of the categories 3 was asked for, and it has 4"),
        ({"categories": None}, "of the categories 3"),
        ({"categories": "3"}, "of the categories 3"),
        ({"certificate": lambda: lk.Certificate(JUST + Fraction(1, 2**64), 1.0)}, "e.epsilon"),
        ({"certificate": lambda: lk.Certificate(Fraction(1, 2), 1.0)}, "e.epsilon"),
        ({"certificate": lambda: lk.Certificate(2.0, 1.0)}, "must be a Fraction"),
        ({"certificate": lambda: lk.Certificate(nan, 1.0)}, "must be a Fraction"),
        ({"certificate": lambda: lk.Certificate(Fraction(2), 1.0, nan)}, "must be a Fraction"),
        ({"certificate": lambda: lk.Certificate(JUST, 1.0, Fraction(1, 10**30))}, "delta above 0"),
        ({"certificate": lambda: lk.Certificate(JUST, 1.0, Fraction(-1))}, "delta"),
        ({"certificate": None, "law": None}, "a certificate or a law"),
    ],
)
def test_what_a_mechanism_states_is_compared_without_rounding(stated, said):
    with pytest.raises((ConfigurationError, TypeError), match=f"mechanism: .*{said}"):
        taken(stating(**stated))


def test_the_bound_itself_is_no_more():
    """Also far out, where the series would take seconds."""
    assert taken(stating(certificate=lambda: lk.Certificate(JUST, 1.0))).epsilon == 1.0
    large = stating(certificate=lambda: lk.Certificate(Fraction(3**1900), 1.0), epsilon=1.0)
    with pytest.raises(ConfigurationError, match=r"e\^epsilon"):
        taken(large, 2087.0)  # 1,900 ln 3 is 2,087.36
    assert taken(large, 2088.0).epsilon == 1.0


def test_a_domain_is_the_one_asked_for():
    def make(epsilon, domain):
        return lk.mechanism("laplace", epsilon=epsilon, domain=(0.0, 2.0))

    with pytest.raises(ConfigurationError, match=r"domain \(0.0, 1.0\) was asked for"):
        lk.method("sw_direct", epsilon=EPSILON, mechanism=make, **NUMBERS)


@cases(("ratio", "sound"), [(2, True), (3, False), (10**9, False)])
def test_without_a_certificate_the_law_is_compared(ratio, sound):
    """2 < e < 3."""

    def make(*asked):
        return Bare(*asked, ratio)

    if sound:
        assert taken(make).epsilon == 1.0
    else:
        with pytest.raises(ConfigurationError, match="law"):
            taken(make)


@cases("weights", [[1, 0, 1], [2, 2, -1], [1, 1], [1, 1, 2], [1.0, 1, 1], [nan, 1, 1]])
def test_a_law_is_one(weights):
    """Each output possible for every input, and whole numbers that add up."""

    class Odd(Bare):
        def law(self, value):
            return super().law(value) if value else lk.Law(np.arange(3), weights, 3)

    with pytest.raises((ConfigurationError, TypeError), match="law"):
        taken(lambda *asked: Odd(*asked, 1))
