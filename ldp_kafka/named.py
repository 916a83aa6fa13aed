"""What the registries make by name: `mechanism`, `method` and `protocol`.

Type checkers and editors read ``named.pyi`` in place of this file: it has the parameters of each
name. ``poe stubs`` writes it from the classes.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any, TypeVar

from ldp_kafka.accounting.words import did_you_mean
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms import MECHANISMS
from ldp_kafka.methods import METHODS, Method
from ldp_kafka.methods.made import parameters_of
from ldp_kafka.methods.protocols import PROTOCOLS, Protocol
from ldp_kafka.methods.protocols.oracle import ORACLES
from ldp_kafka.normal_form import nfc
from ldp_kafka.plugins import find

__all__ = ["mechanism", "method", "protocol"]

Made = TypeVar("Made", Method, Protocol)


def mechanism(name: str, **parameters: Any) -> Any:
    """The one-value mechanism of that name; `ldp_kafka.MECHANISMS` lists them.

    Type checkers know what each name takes, and must be able to read the name in the call. Where
    only the run knows it: ``make: Callable[..., Any] = mechanism``, then ``make(name, ...)``. The
    same holds for `method` and `protocol`.

    ``categories`` is their number, or a list of their names: values are given by name then, and
    reports and estimates have the order of the names. The same holds for `method` and `protocol`.

    Examples
    --------
    >>> mechanism("grr", epsilon=1.0, categories=2).certificate().epsilon_effective <= 1.0
    True
    >>> from ldp_kafka.randomness import seeded
    >>> mechanism("grr", epsilon=40.0, categories=["gas", "sun"]).perturb(["sun"], seeded(1))
    array([1])
    """
    plain, names = _named(parameters)
    made = _made(_known(MECHANISMS, name, "mechanism"), name, plain)
    if names is not None:
        made = copy(made)  # a factory may give one to several
        made.names = names
    return made


def method(
    name: str, *, mechanism: str | Callable[..., Any] | None = None, **parameters: Any
) -> Method:
    """The streaming method of that name; `ldp_kafka.METHODS` lists them.

    ``mechanism`` is a name or any factory ``(epsilon, domain or categories) -> Mechanism``;
    default: the method's own. A mechanism that by its own word (``epsilon``, certificate or law)
    spends more than it is asked for, or has another domain, is refused. The methods that release
    windows (`ldp_kafka.methods.delay`) take none: their noise is that of sums.

    Examples
    --------
    >>> method("capp", epsilon=1.0, window=10, domain=(0.0, 1.0)).guarantee.level
    'w-event'
    >>> method("naive", epsilon=1.0, delay=10, domain=(0.0, 1.0)).guarantee.level
    'event'
    """
    kind, (plain, names) = _known(METHODS, name, "method"), _named(parameters)
    if kind.own_noise:
        if mechanism is not None:
            raise ConfigurationError(f"{name} takes no mechanism: it adds noise to sums")
        own: Method = _made(kind, name, plain)
        return own
    chosen = kind.default_mechanism if mechanism is None else mechanism
    found = _known(MECHANISMS, chosen, "mechanism") if isinstance(chosen, str) else chosen
    made: Method = _made(kind, name, {"mechanism": found, **plain})
    return _with_names(made, names)


def protocol(
    name: str, *, oracle: str | Callable[..., Any] | None = None, **parameters: Any
) -> Protocol:
    """The protocol of that name, which releases a crowd's frequencies (``categories=``), mean
    (``domain=``) or distribution (``domain=``, ``bins=``); `ldp_kafka.PROTOCOLS` lists them.

    ``oracle`` is a mechanism's name or any factory ``(epsilon, domain or categories) ->
    Mechanism``, held to its word as in `method`; default: ``adaptive`` for categories, ``hybrid``
    for numbers, ``square_wave`` for distributions. ``norm_sub``, ``merge`` and ``smooth`` improve
    what is released at the same epsilon: `ldp_kafka.Protocol`.

    Examples
    --------
    >>> import numpy as np
    >>> from ldp_kafka.randomness import seeded
    >>> lpa = protocol("lpa", epsilon=1.0, window=4, categories=3)
    >>> lpa.run(np.zeros((1000, 8), int), seeded(7)).values.shape
    (8, 3)
    """
    kind = _known(PROTOCOLS, name, "protocol")
    default = ORACLES["numeric" if parameters.get("categories") is None else "categorical"]
    if parameters.get("bins") is not None:
        default = "square_wave"
    chosen = default if oracle is None else oracle
    found = _known(MECHANISMS, chosen, "oracle") if isinstance(chosen, str) else chosen
    plain, names = _named(parameters)
    made: Protocol = _made(kind, name, {"oracle": found, **plain})
    return _with_names(made, names)


def _known(registry: dict[str, Any], name: Any, what: str) -> Any:
    find(name)
    if not isinstance(name, str) or name not in registry:
        raise ConfigurationError(
            f"unknown {what} {name!r}; known:"
            f" {', '.join(sorted(registry))}{did_you_mean(name, registry)}"
        )
    return registry[name]


ELSEWHERE = {
    "bounds": "domain",
    "budget": "epsilon",
    "d": "categories",
    "eps": "epsilon",
    "k": "categories",
    "n_categories": "categories",
    "range": "domain",
    "w": "window",
}
"""What other libraries and papers call a parameter."""
SEEDS = {"key", "random_state", "randomness", "rng", "seed"}


def _named(given: dict[str, Any]) -> tuple[dict[str, Any], tuple[str, ...] | None]:
    """The parameters with the number of categories, and their names, where they are given so."""
    names = given.get("categories")
    if not isinstance(names, list | tuple):
        return given, None
    if not all(isinstance(each, str) for each in names):
        raise TypeError("categories must be a whole number, or a list of names")
    if len({nfc(each) for each in names}) != len(names):
        raise ConfigurationError("categories must name each of them once")
    return {**given, "categories": len(names)}, tuple(names)


def _with_names(made: Made, names: tuple[str, ...] | None) -> Made:
    """The same, whose values may be given by name."""
    if names is not None:
        made.values.names = names
    return made


def own_parameters(kind: Callable[..., Any]) -> set[str]:
    """The names that it takes; of a method without those that its parents have for other methods,
    or other values.
    """
    found = set(parameters_of(kind) or ())
    if isinstance(kind, type) and issubclass(kind, Method):
        needed = "domain" if kind.kind == "numeric" else "categories"
        found -= {"categories", "domain"} - (set() if kind.ball else {needed})
        found -= {name for each in METHODS.values() for name in each.parameters} - {
            *kind.parameters
        }
    return found


def _made(kind: Callable[..., Any], name: str, given: dict[str, Any]) -> Any:
    """What is made of these parameters; TypeError for one that it does not take."""
    known, taken = parameters_of(kind), own_parameters(kind)
    for one in given:
        if known is None or one in known:
            continue
        meant = ELSEWHERE.get(one, "")
        why = f" (did you mean {meant}?)" if meant in taken else did_you_mean(one, taken)
        if one in SEEDS:
            why = ", since each call is given its noise, such as lk.randomness.keyed(key)"
        raise TypeError(f"{name} takes no {one}{why}; it takes {', '.join(sorted(taken))}")
    return kind(**given)
