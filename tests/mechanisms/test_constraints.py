"""Parameters as data: each declares what it must be, and the values that it must refuse are
generated from that. A parameter that declares nothing fails the inventory.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import inf, nan, nextafter
from typing import Any

import numpy as np
import pytest

import ldp_kafka as lk
from tests.cases import cases

NO_NUMBERS = (
    True,
    False,
    np.True_,
    "1",
    b"1",
    None,
    1j,
    [],
    [1.0],
    {},
    (),
    object(),
    np.array([1.0]),
    Decimal(1),
    Fraction(1, 2),
    int,
)
NO_REALS = (*NO_NUMBERS, nan, inf, -inf, np.float64(nan), np.float32(inf), 10**400, -(10**400))
NO_WHOLES = (
    *NO_NUMBERS,
    4.0,
    4.5,
    np.float64(4.0),
    np.array(4.0),
    "4",
    nan,
    inf,
    10**400,
    -(10**400),
)


@dataclass(frozen=True)
class Number:
    """A finite number in the open interval (low, high); None only where ``optional``."""

    low: float
    high: float
    typical: tuple[float, ...]
    tried: tuple[float, ...] = ()
    """Near the ends, where they are taken; default: the typical ones."""
    optional: bool = False

    def bad(self):
        yield from (value for value in NO_REALS if not (self.optional and value is None))
        yield from (
            self.low,
            -0.0 if self.low == 0 else self.low,
            nextafter(self.low, -inf),
            self.low - 1,
            np.float64(self.low - 1),
            -1e300,
        )
        yield from (self.high, nextafter(self.high, inf), self.high + 1)

    def good(self):
        return (
            *self.typical,
            *self.tried,
            np.float64(self.typical[0]),
            np.float32(self.typical[0]),
            *((None,) if self.optional else ()),
        )


@dataclass(frozen=True)
class Whole:
    """A whole number in low..high, a power of two if so said; None only where ``optional``."""

    low: int
    high: int
    typical: tuple[int, ...]
    power: bool = False
    optional: bool = False
    tried: tuple[int, ...] | None = None
    """Ends that are built; default: both."""

    def bad(self):
        yield from (value for value in NO_WHOLES if not (self.optional and value is None))
        yield from (
            self.low - 1,
            self.high + 1,
            0 if self.low > 0 else -2,
            -1,
            -self.high,
            np.int64(self.low - 1),
            2**63,
            2**64 + self.low,
            float(self.low),
        )
        if self.power:
            yield from (
                3,
                self.low // 2 if self.low > 1 else -4,
                2 * self.high,
                self.high - 1,
                self.high // 2 + 1,
            )

    def good(self):
        ends = (self.low, self.high) if self.tried is None else self.tried
        return (
            *self.typical,
            *ends,
            np.int64(self.typical[0]),
            np.uint32(self.typical[0]),
            *((None,) if self.optional else ()),
        )


@dataclass(frozen=True)
class Prime:
    """A prime number in low..high, or None."""

    low: int
    high: int
    typical: tuple[int, ...]

    def bad(self):
        yield from (value for value in NO_WHOLES if value is not None)
        yield from (
            -self.typical[0],
            0,
            1,
            2,
            4,
            9,
            self.low - 1,
            25,
            49,
            7 * 11,
            self.high + 1,
            2**31 - 1,
            2**61 - 1,
            float(self.typical[0]),
        )

    def good(self):
        return (*self.typical, self.low, np.int64(self.typical[0]), None)


@dataclass(frozen=True)
class Interval:
    """A pair (lo, hi) of finite numbers, lo < hi, no farther from 0 than ``farthest``."""

    typical: tuple[tuple[float, float], ...]
    farthest: float = 8e307

    def bad(self):
        yield from (
            0.5,
            3,
            "01",
            b"01",
            None,
            True,
            nan,
            (),
            (0.0,),
            (0.0, 0.5, 1.0),
            [],
            {},
            object(),
            np.array([]),
            np.array(1.0),
            np.array([[0.0, 1.0]]),
        )
        yield from (
            (0.0, 0.0),
            (1.0, 0.0),
            (0.0, -0.0),
            (-inf, inf),
            (-1e308, 1e308),
            (0.0, 5e-324),
            (0.0, 1e-300),
            (1e16, 1e16 + 1),
            ({0.0: 1.0}, 1.0),
        )
        yield from ((0.0, bad) for bad in NO_REALS)
        yield from ((bad, 2.0) for bad in NO_REALS)
        yield from ((-1e308, 0.0), (0.0, 1.001 * self.farthest)) if self.farthest < 8e307 else ()

    def good(self):
        return (
            *self.typical,
            [0, 1],
            (-5, 7),
            np.array([0.0, 2.0]),
            (np.float32(0), np.int64(2)),
            (1e15, 1e15 + 1),
            (-self.farthest, self.farthest),
        )


@dataclass(frozen=True)
class Choice:
    """One of some words; None only where ``optional``."""

    typical: tuple[str, ...]
    optional: bool = False

    def bad(self):
        yield from (() if self.optional else (None,))
        yield from (
            True,
            0,
            1.0,
            nan,
            "",
            self.typical[0].upper(),
            self.typical[0] + " ",
            self.typical[0].encode(),
            [self.typical[0]],
            self.typical,
            {},
        )

    def good(self):
        return (*self.typical, *((None,) if self.optional else ()))


@dataclass(frozen=True)
class Switch:
    """True, false or None."""

    typical: tuple[bool, ...] = (True,)

    def bad(self):
        yield from (0, 1, 1.0, nan, "", "true", b"1", [], [True], {}, object(), np.array([True]))

    def good(self):
        return (True, False, np.True_, None)


@dataclass(frozen=True)
class Flag(Switch):
    """True or false."""

    def bad(self):
        yield from (None, *super().bad())

    def good(self):
        return (True, False, np.True_)


@dataclass(frozen=True)
class Off(Switch):
    """False or None: what it would switch on is not for this one."""

    typical: tuple[bool, ...] = (False,)

    def bad(self):
        yield from (True, np.True_, *super().bad())

    def good(self):
        return (False, np.False_, None)


@dataclass(frozen=True)
class Factory:
    """A name of a mechanism, or what builds one."""

    typical: tuple[str, ...]

    def bad(self):
        yield from (
            "",
            "no_such",
            self.typical[0].upper(),
            b"grr",
            5,
            True,
            1.0,
            nan,
            [],
            ["grr"],
            {},
            object(),
        )

    def good(self):
        return (*self.typical, None, lk.MECHANISMS[self.typical[0]])


@dataclass(frozen=True)
class Maker:
    """What builds a mechanism; no name."""

    typical: tuple[Callable[..., Any], ...]

    def bad(self):
        yield from ("", "no_such", "grr", b"grr", 5, True, 1.0, nan, None, [], {}, object())

    def good(self):
        return self.typical


BALLS = sorted(name for name, kind in lk.METHODS.items() if kind.ball)
DELAYED = sorted(name for name, kind in lk.METHODS.items() if issubclass(kind, lk.DelayMethod))
CELLS = Whole(64, 2**14, (128,), power=True)
# how much less than 2**16 is left with memory, or enough epsilon, is the method's
# bounds that depend on epsilon have tests of their own
# the ledger's integers
# above 0, as a multiplicative change asks
CONSTRAINTS: dict[Any, Any] = {
    "epsilon": Number(0, inf, (0.5, 1.0), (20.0, 1e6)),
    "delta": Number(0, 1, (1e-5,), (1e-9, 0.1)),
    "domain": Interval(((0.0, 1.0), (-40.0, 7280.0))),
    "categories": Whole(2, 2**20, (5,)),
    "cells": CELLS,
    "prime": Prime(5, 2**21 - 9, (11, 127)),
    "dimension": Whole(1, 2**20, (2,), tried=(1, 100)),
    "diameter": Number(0, inf, (1.0,), (1e-9, 1e9)),
    "minimize": Choice(("variance", "bytes")),
    "window": Whole(1, 2**16, (4,), tried=(1, 1000)),
    "block": Whole(1, 2**16, (3,), optional=True, tried=(1, 64)),
    "calibration": Choice(("sound", "published")),
    # where a mechanism has bounds of its own, at the typical values of the others
    ("subset_selection", "categories"): Whole(2, 2**14, (5,)),
    ("laplace", "cells"): Whole(1, 2**16, (64,), power=True, optional=True, tried=(8, 2**12)),
    ("gaussian", "cells"): Whole(1, 2**16, (64,), power=True, optional=True, tried=(4,)),
    ("gaussian_vector", "cells"): Whole(2, 2**16, (64,), power=True, optional=True, tried=(4,)),
    ("gaussian_vector", "epsilon"): Number(0, inf, (0.5, 1.0), (10.0,)),
    ("numeric", "epsilon"): Number(0, 2**31 / 1e6, (0.5, 1.0), (20.0, 2147.0)),
    ("categorical", "epsilon"): Number(0, 2**31 / 1e6, (0.5, 1.0), (20.0, 2147.0)),
    ("numeric", "mechanism"): Factory(("square_wave",)),
    ("categorical", "mechanism"): Factory(("grr",)),
    ("numeric", "domain"): Interval(((0.0, 1.0), (-40.0, 7280.0)), 2.0**480),
    ("sw_direct", "window"): Whole(1, 2**16, (4,)),
    ("etm", "mechanism"): Factory(("grr",)),
    **{
        (name, "mechanism"): Factory(("laplace",)) for name in ("cgm_pure", "fast", "pegasus_local")
    },
    **{
        (name, "mechanism"): Factory(("gaussian",))
        for name in ("cgm", "fast_cgm", "gaussian_differential", "gaussian_direct")
    },
    **{(name, "mechanism"): Factory(("gaussian_vector",)) for name in BALLS},
    **{
        (name, "epsilon"): Number(0, inf, (0.5, 1.0), (12.0,))
        for name in ("cgm", "fast_cgm", "gaussian_differential", "gaussian_direct", *BALLS)
    },
    ("matrix", "epsilon"): Number(0, inf, (0.5, 1.0), (12.0,)),
    ("fast", "epsilon"): Number(0, inf, (0.5, 1.0), (20.0, 1e4)),
    "scout": Maker((lk.MECHANISMS["square_wave"],)),
    # of methods by window
    "first": Whole(1, 2**16, (8,), optional=True, tried=(1, 64)),
    "segment": Whole(1, 2**16, (3,), optional=True, tried=(1, 64)),
    "position": Whole(0, 1, (0,), optional=True),  # of the default segment of two slots
    "delay": Whole(1, 255, (3,), optional=True),
    "threshold": Whole(2, 3, (2,), optional=True),  # of the default delay of three slots
    "theta": Number(
        nextafter(2.0**-16, 0), nextafter(256, inf), (0.5,), (2.0**-16, 256.0), optional=True
    ),
    "tau": Number(nextafter(2.0**-10, 0), nextafter(2, inf), (0.5,), (2.0**-10, 2.0)),
    ("pegasus_local", "block"): Whole(1, 256, (3,), optional=True),
    ("ba_sw", "window"): Whole(1, 1024, (4,), tried=(1, 32)),
    ("sppa", "window"): Whole(1, 254, (4,)),
    ("swp", "window"): Whole(1, 254, (4,)),
    # of vectors
    ("budget_split", "dimension"): Whole(1, 1024, (2,)),
    ("sample_split", "dimension"): Whole(1, 1024, (2,)),
    **{(name, "dimension"): Whole(1, 1024, (2,), tried=(1, 100)) for name in BALLS},
    **{(name, "dimension"): Whole(1, 1024, (2,), optional=True) for name in ("sppa", "swp")},
    ("numeric", "diameter"): Number(2.0**-500, 2.0**500, (1.0,), (1e-9, 1e9)),
    # of the clip range of capp
    "clip": Number(
        nextafter(-0.49, -1), nextafter(1, inf), (0.25, -0.25), (-0.49, 1.0), optional=True
    ),
    "inner": Choice(("sw_direct", "ipp", "app", "capp")),
    # of methods at level user
    "horizon": Whole(1, 2**16, (20,), tried=(1, 1000)),
    "refresh": Whole(1, 20, (5,), optional=True),  # of the typical horizon
    "samples": Whole(1, 20, (5,), optional=True),
    "interval": Whole(1, 2**16, (2,), optional=True),
    "sigma": Number(0, 2.0**60, (64.0, 1000.0), optional=True),
    "drift": Number(nextafter(2.0**-14, 0), nextafter(1, inf), (0.01,), (2.0**-14, 1.0)),
    "differential_bound": Number(nextafter(2.0**-20, 0), 0.5, (0.0625,), (0.001, 0.499)),
    "lag": Whole(1, 2**16, (2,), tried=(1, 64)),
    "change": Choice(("additive", "multiplicative")),
    # of methods that release windows
    **{(name, "delay"): Whole(1, 1024, (3,)) for name in DELAYED},
    "setting": Choice(("batch", "sliding")),
    "noise": Choice(("sum", "point"), optional=True),
    **{
        (name, "noise"): Choice(("point",), optional=True)
        for name in ["adapub", "comp_order", "dpi", "naive", "pegasus", "pegasus_delay", "truncate"]
    },
    # each slot of it must have enough of epsilon
    **{(name, "window"): Whole(1, 2**16, (4,), tried=(1, 20)) for name in DELAYED},
    "synopses": Whole(2, 1024, (4,)),
    "thresholds": Whole(2, 1024, (4,)),
    ("truncate", "interval"): Whole(1, 2**16, (2,)),
    ("segment_mean", "noise"): Choice(("sum",), optional=True),
    "smooth": Switch(),
    "truncation": Switch(),
    "cover": Flag(),
    "filtered": Flag(),
    **{(name, "truncation"): Off() for name in ("adapub", "dpi", "truncate")},
    "contribution": Number(0, nextafter(1, inf), (0.5,), (0.001, 1.0), optional=True),
    **{
        (name, "theta"): Number(
            nextafter(0, -inf), nextafter(2.0**20, inf), (0.5,), (0.0, 2.0**10), optional=True
        )
        for name in ("contin_group", "discontin_group", "pegasus", "pegasus_delay")
    },
    ("segment_mean", "segment"): Whole(1, 3, (2,), optional=True),  # of the typical delay
    "buckets": Whole(1, 2**16, (4,), optional=True, tried=(1, 1000)),
    "bands": Whole(1, 1024, (8,), optional=True),
    "moving_mean": Whole(1, 1024, (6,), optional=True),
    ("cgm", "domain"): Interval(((1.0, 2.0), (-40.0, 7280.0)), 2.0**480),
}
"""Name of a parameter, or (mechanism, parameter) or (kind of method, parameter) -> its constraint.
"""
INSTEAD = {"sigma": "horizon"}
"""What a parameter takes the place of."""
NEEDS = {
    (name, given): {"inner": "app_s"}
    for name in ("budget_split", "sample_split")
    for given in ("block", "segment")
} | {
    ("cgm_pure", "change"): {"domain": (1.0, 9.0)},
    ("fast_cgm", "filtered"): {"interval": 3},
}
"""What else has to be said where a parameter is tried."""


def constraint(owner, parameter):
    """What is declared by the first of these that declares it; None where none does."""
    return next((CONSTRAINTS[key] for key in keys(owner, parameter) if key in CONSTRAINTS), None)


def keys(owner, parameter):
    """Where its constraint may stand: under its own name, the kind of method that it is, or the
    parameter's name alone.
    """
    kind = getattr(lk.METHODS.get(owner), "kind", owner)
    return (owner, parameter), (kind, parameter), parameter


def signature(callable_):
    """Parameters by name, without what only passes them on."""
    passing = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return {
        name: each
        for name, each in inspect.signature(callable_).parameters.items()
        if name != "self" and each.kind not in passing
    }


def required(parameters):
    return [name for name, each in parameters.items() if each.default is inspect.Parameter.empty]


@dataclass(frozen=True)
class Built:
    """Something that is built from parameters by name."""

    name: str
    make: Callable[..., Any]
    parameters: tuple[str, ...]
    needs: tuple[str, ...]

    def base(self, **others):
        """Keyword arguments that it can be built from, with others of which one may be
        ``parameter``.
        """
        needs = (
            name
            for name in self.needs
            if name
            not in (INSTEAD.get(other) for other, value in others.items() if value is not None)
        )
        return {**{name: constraint(self.name, name).typical[0] for name in needs}, **others}


def mechanism(name):
    parameters = signature(lk.MECHANISMS[name])
    return Built(
        name, lambda **kw: lk.mechanism(name, **kw), tuple(parameters), tuple(required(parameters))
    )


def method(name):
    """Its own parameters, and those that it passes on to every method's."""
    kind, found = lk.METHODS[name], {}
    for base in (base for base in kind.__mro__ if "__init__" in vars(base)):
        found = {**signature(base), **found}
        if not any(
            each.kind is inspect.Parameter.VAR_KEYWORD
            for each in inspect.signature(base).parameters.values()
        ):
            break  # what stands behind is not passed on to
    never = ELSEWHERE.get(name, ("categories",) if kind.kind == "numeric" else ("domain",))
    names = {each for each in found if each not in never}
    shape = {"domain", "categories", "horizon"} & names
    return Built(
        name,
        lambda **kw: lk.method(name, **kw),
        tuple(sorted(names)),
        tuple(sorted({*required(found), *shape} - {"mechanism"})),
    )


ELSEWHERE = {
    "adapub": ("categories", "theta"),
    **dict.fromkeys(BALLS, ("categories", "domain", "change")),
}
"""Parameters of what a method is built on that are not its own."""
BUILT = [*(mechanism(name) for name in lk.MECHANISMS), *(method(name) for name in lk.METHODS)]
PAIRS = [
    pytest.param(one, name, id=f"{one.name}-{name}") for one in BUILT for name in one.parameters
]


def undeclared(built):
    """``parameter of name`` for each parameter without a constraint."""
    return [
        f"{parameter} of {one.name}"
        for one in built
        for parameter in one.parameters
        if constraint(one.name, parameter) is None
    ]


def test_every_parameter_declares_its_constraint():
    """A new mechanism, method or parameter is refused here until someone has said what its
    parameters must be.
    """
    assert not undeclared(BUILT), "has no constraint: declare it in CONSTRAINTS"


def test_no_constraint_is_without_a_parameter():
    """What is declared is used."""
    used = {
        key
        for one in BUILT
        for name in one.parameters
        for key in keys(one.name, name)
        if key in CONSTRAINTS
    }
    assert used == CONSTRAINTS.keys()


def test_the_inventory_has_teeth(monkeypatch):
    """A mechanism with a parameter that nobody has declared is found, by both names."""

    def rotten(epsilon, ripeness=3):
        return lk.mechanism("grr", epsilon=epsilon, categories=ripeness)

    monkeypatch.setitem(lk.MECHANISMS, "rotten", rotten)
    assert undeclared([mechanism("rotten")]) == ["ripeness of rotten"]


def faults(one, parameter):
    """What is not refused with a ValueError or TypeError that names the parameter."""
    found = []
    for epsilon in constraint(one.name, "epsilon").typical:
        for bad in constraint(one.name, parameter).bad():
            try:
                one.make(
                    **one.base(epsilon=epsilon, **NEEDS.get((one.name, parameter), {}))
                    | {parameter: bad}
                )
            except (ValueError, TypeError) as error:
                if not re.search(rf"\b{parameter}\b", str(error)):
                    found.append(f"{bad!r:.60}: the error does not name {parameter}: {error}")
            except Exception as error:
                found.append(f"{bad!r:.60}: {type(error).__name__}: {error}")
            else:
                found.append(f"{bad!r:.60}: taken")
    return found


@cases(("one", "parameter"), PAIRS)
def test_what_it_must_not_be_is_refused(one, parameter):
    """With an error that names the parameter; nothing invalid is taken, or falls through to an
    error of another kind.
    """
    found = faults(one, parameter)
    assert not found, "\n".join(found)


def named(check, message):
    """A mechanism that takes what ``check`` lets through and refuses the rest with this message."""

    def careless(epsilon, categories):
        if not check(categories):
            raise ValueError(message)
        return lk.mechanism("grr", epsilon=epsilon, categories=3)

    return careless


def plain(value):
    """A whole number, to the letter."""
    return type(value) in (int, np.int64)


@cases(
    ("check", "message", "says"),
    [
        (
            lambda value: plain(value) and value >= 2,
            "categories must be fewer",
            "taken",
        ),  # no upper end
        (
            lambda value: plain(value) and value <= 2**20,
            "categories must be more",
            "taken",
        ),  # no lower end
        (
            lambda value: type(value) is bool or (plain(value) and 2 <= value <= 2**20),
            "categories must be whole",
            "True: taken",
        ),
        (
            lambda value: not isinstance(value, float) or 2 <= value <= 2**20,
            "categories must be whole",
            "4.5: taken",
        ),
        (
            lambda value: plain(value) and 2 <= value <= 2**20,
            "out of range",
            "does not name categories",
        ),
        (
            lambda value: plain(value) and 1 / (value - 2**20 - 1) < 1 and 2 <= value <= 2**20,
            "categories must be fewer",
            "ZeroDivisionError",
        ),
    ],
)
def test_careless_mechanisms_are_found(check, message, says, monkeypatch):
    """What is generated finds each way of being careless."""
    monkeypatch.setitem(lk.MECHANISMS, "careless", named(check, message))
    assert any(says in fault for fault in faults(mechanism("careless"), "categories"))


def test_a_careful_mechanism_is_not():
    """The same, with every check."""
    assert not faults(mechanism("grr"), "categories")


@pytest.mark.parametrize("parameter", sorted({name for one in BUILT for name in one.parameters}))
def test_what_it_may_be_is_taken(parameter):
    """The typical values and the ends, by everything that has it: a constraint that refused too
    much would make the test above easy.
    """
    refused = []
    for one in (one for one in BUILT if parameter in one.parameters):
        for good in constraint(one.name, parameter).good():
            try:
                one.make(**one.base(**NEEDS.get((one.name, parameter), {}), **{parameter: good}))
            except Exception as error:
                refused.append(f"{one.name}, {good!r:.60}: {type(error).__name__}: {error}")
    assert not refused, "\n".join(refused)


@cases("name", sorted(lk.METHODS))
def test_numbers_of_numpy_build_the_same(name):
    """Defaults that follow from other parameters do not depend on whose number type these are."""
    one = method(name)
    plain_ones = one.base()
    kinds = {int: np.int64, float: np.float32}  # epsilon 0.5 is the same number in both
    theirs = {
        key: kinds[type(value)](value) if type(value) in kinds else value
        for key, value in plain_ones.items()
    }
    assert any(type(value) in (np.int64, np.float32) for value in theirs.values())
    if "delta" in theirs:
        theirs["delta"] = np.float64(plain_ones["delta"])
    first, second = one.make(**plain_ones), one.make(**theirs)
    assert first.tables() == second.tables()
    assert first.guarantee == second.guarantee
    assert (first.memory, first.delay) == (second.memory, second.delay)
    assert getattr(first, "run", None) == getattr(second, "run", None)
