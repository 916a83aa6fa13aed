"""What makes a method's mechanisms: a factory, ours or somebody else's, whose mechanisms are
compared with what was asked for before anything is drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from inspect import Parameter, signature
from math import lcm
from typing import Any

import numpy as np

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.base import Law, check_number, exp_below, whole

__all__ = ["checked_factory", "parameters_of"]

# of the unit domain, where the law of a mechanism without a certificate is looked at; and at how
# many categories
POINTS = tuple(np.linspace(0, 1, 9).tolist())
MOST = 64
FLOATS = 1 + Fraction(1, 10**9)  # what such a law may be off: it may be computed with floats
SERIES = 50.0  # nats: beyond it the series of e^epsilon takes seconds


def checked_factory(factory: Any, name: str) -> Callable[..., Any]:
    """The factory, whose mechanisms are held to what they were asked for.

    Parameters
    ----------
    factory : ``(epsilon, domain or categories) -> Mechanism``, or of normal noise ``(epsilon,
        delta, domain)`` or ``(epsilon, delta, dimension, diameter)``
    name : the parameter that it was given as

    Raises
    ------
    TypeError : it is no factory

    Notes
    -----
    A call raises TypeError or ConfigurationError unless the mechanism's ``epsilon`` is at most the
    one asked for; its ``domain``, ``categories``, or ``dimension`` and ``diameter`` are those asked
    for; and its certificate has a ratio of at most e^epsilon, compared without rounding, and a
    delta of at most the one asked for. A mechanism without a certificate is held to e^epsilon by
    its ``law``, at nine points of the domain or at the first 64 categories, but for what floats are
    off. A certificate, and a law between those points, is its author's word:
    `ldp_kafka.checks.check_mechanism` compares certificate, law and reports.
    """
    if not callable(factory):
        raise TypeError(f"{name} must be a factory (epsilon, domain or categories) -> Mechanism")

    def make(epsilon: float, *asked: Any) -> Any:
        found = factory(epsilon, *asked)
        delta = asked[0] if len(asked) > 1 else 0.0
        shape = _shape(asked)
        try:
            _compare(found, epsilon, delta, shape)
        except (ConfigurationError, TypeError) as error:
            raise type(error)(f"{name}: {error}") from None
        return found

    return make


def parameters_of(make: Callable[..., Any]) -> dict[str, Parameter] | None:
    """What a function takes by name; of a class what all those constructors take that
    ``**parameters`` reach, the parents' first. None where it takes whatever it is given.

    Examples
    --------
    >>> from ldp_kafka.methods import METHODS
    >>> [*parameters_of(METHODS["sampling"])][-2:]
    ['segment', 'position']
    """
    inits: list[Callable[..., Any]] = [make]
    if isinstance(make, type):
        own = [one for one in make.__mro__ if "__init__" in vars(one) and one is not object]
        inits = [vars(one)["__init__"] for one in own] or [make]
    found: dict[str, Parameter] = {}
    for each in inits:
        taken = signature(each).parameters
        found = {**taken, **found}
        if all(one.kind is not Parameter.VAR_KEYWORD for one in taken.values()):
            break
    else:
        return None
    return {
        name: one
        for name, one in found.items()
        if name != "self" and one.kind is not Parameter.VAR_KEYWORD
    }


def _shape(asked: tuple[Any, ...]) -> dict[str, Any]:
    """What a factory was asked for beside epsilon and delta, by the names that mechanisms have."""
    if len(asked) == 3:
        return {"dimension": asked[1], "diameter": asked[2]}
    return {"domain" if isinstance(asked[-1], tuple) else "categories": asked[-1]}


def _compare(found: Any, epsilon: float, delta: float, shape: dict[str, Any]) -> None:
    stated = check_number(getattr(found, "epsilon", None), "the mechanism's epsilon")
    if not 0 < stated <= epsilon:
        raise ConfigurationError(
            f"a mechanism of at most epsilon {epsilon} was asked for, and it states {stated}"
        )
    for what, asked in shape.items():
        has: Any = getattr(found, what, None)
        if not np.array_equal(has, asked):
            raise ConfigurationError(
                f"a mechanism of the {what} {asked} was asked for, and it has {has}"
            )
    ratio, lost = _loss(found, shape)
    if not 0 <= lost <= Fraction(delta):
        raise ConfigurationError(
            "a mechanism of pure privacy was asked for, and its certificate has delta above 0"
            if delta == 0
            else f"a delta of at most {delta} was asked for, and its certificate has another"
        )
    if not 1 <= ratio <= _exp_below(epsilon):
        raise ConfigurationError(
            f"a mechanism of at most epsilon {epsilon} was asked for, and by its certificate or"
            " law one input can make an output likelier than another does by more than e^epsilon"
        )


def _loss(found: Any, shape: dict[str, Any]) -> tuple[Fraction, Fraction]:
    """The ratio and the delta that a mechanism is certified to have; the ratio by its law where it
    has no certificate.
    """
    certificate = getattr(found, "certificate", None)
    if certificate is not None:
        try:
            stated = certificate()
        except NotImplementedError:  # the same as none
            pass
        else:
            return _exact(stated.ratio, "ratio"), _exact(stated.delta, "delta")
    if getattr(found, "law", None) is None:
        raise ConfigurationError("a mechanism must have a certificate or a law")
    inputs = range(min(shape["categories"], MOST)) if "categories" in shape else POINTS
    return max(_of_laws([Law.of(found.law(x)) for x in inputs]) / FLOATS, Fraction(1)), Fraction(0)


def _exact(number: Any, name: str) -> Fraction:
    """As a fraction; TypeError for a float, which was rounded, and whatever else."""
    if type(number) is not Fraction and type(number) is not int:
        raise TypeError(f"the {name} of a certificate must be a Fraction")
    return Fraction(number)


def _of_laws(laws: list[Law]) -> Fraction:
    """The largest ratio of one output between any two of these laws, exact."""
    first = laws[0]
    common = lcm(*(whole(law.denominator, "a law's denominator") for law in laws))
    rows = [
        [whole(weight, "a law's weight") * (common // law.denominator) for weight in law.weights]
        for law in laws
    ]
    if not (
        all(np.array_equal(law.support, first.support) for law in laws)
        and all(len(row) == len(first.support) and sum(row) == common for row in rows)
        and all(min(row) > 0 for row in rows)
    ):
        raise ConfigurationError(
            "the law of a mechanism must have the same outputs for every input, of positive"
            " weights that add up to its denominator"
        )
    top, bottom = 1, 1
    for weights in zip(*rows, strict=True):
        high, low = max(weights), min(weights)
        if high * bottom > top * low:
            top, bottom = high, low
    return Fraction(top, bottom)


def _exp_below(epsilon: float) -> Fraction:
    """`exp_below`, in no time however large: a power of a number just below is one."""
    return exp_below(epsilon) if epsilon <= SERIES else exp_below(epsilon / 64) ** 64
