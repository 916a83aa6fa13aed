"""What a topology can run as its method, by name, and what is known of it before it is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from inspect import Parameter
from typing import Any, NamedTuple

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.methods import METHODS, Method, StreamMethod
from ldp_kafka.methods.made import parameters_of
from ldp_kafka.methods.protocols import PROTOCOLS, Decider, Protocol, Responder
from ldp_kafka.methods.protocols.oracle import ORACLES
from ldp_kafka.methods.protocols.responder import statistics_of
from ldp_kafka.methods.values import VALUES

__all__ = ["Runnable", "names", "of_either_kind", "protocol_of", "runnable"]


class Runnable(NamedTuple):
    """A method that a topology can run, not made yet. See `Description` for what it says."""

    name: str
    kind: str
    level: str
    statistics: tuple[str, ...]
    default_mechanism: str
    own_noise: bool
    ball: bool
    parameters: Mapping[str, str]
    windows: bool
    """Whether it releases windows, so that a curator can run it."""
    make: Callable[..., Method]
    """``(epsilon, mechanism, ...)``; a method with noise of its own takes no mechanism."""

    @property
    def needed(self) -> list[str]:
        """Those of its own parameters that have no default."""
        found = parameters_of(self.make) or {}
        return [
            name
            for name in self.parameters
            if name in found and found[name].default is Parameter.empty
        ]


def names() -> list[str]:
    """All that a topology can run."""
    return sorted({*METHODS, *PROTOCOLS})


def of_either_kind(name: str) -> bool:
    """Whether the method of this name is for numbers as well as for categories."""
    return name in PROTOCOLS


def runnable(name: str, kind: str) -> Runnable | None:
    """The method of this name; None where there is none.

    Parameters
    ----------
    kind : ``numeric`` where a domain is given, else ``categorical``: protocols are for either. A
        method of a protocol's name and kind stands for it: its reports are the same

    Examples
    --------
    >>> runnable("lpa", "numeric").statistics, runnable("lpu", "categorical").name
    (('mean', 'distribution'), 'lpu')
    >>> runnable("capp", "categorical").kind, runnable("lpz", "numeric")
    ('numeric', None)
    """
    method, protocol = METHODS.get(name), PROTOCOLS.get(name)
    if method is not None and (protocol is None or method.kind == kind):
        return Runnable(
            name,
            method.kind,
            method.level,
            method.statistics,
            method.default_mechanism,
            method.own_noise,
            method.ball,
            method.parameters,
            issubclass(method, StreamMethod),
            method,
        )
    if protocol is None or kind not in VALUES:
        return None
    return Runnable(
        name,
        kind,
        Responder.level,
        statistics_of(kind, binned=protocol.distributions),
        ORACLES[kind],
        False,
        False,
        {},
        False,
        partial(_responder, protocol),
    )


def _responder(
    protocol: type[Protocol], *, mechanism: Callable[..., Any], calibration: str, **given: Any
) -> Responder:
    """The users' side of a protocol, whose oracle the mechanism is."""
    if calibration != "sound":
        raise ConfigurationError(
            f"calibration must be sound: {protocol.name} is sound as it was published"
        )
    return protocol(oracle=mechanism, **given).responder()


def protocol_of(method: Method) -> Decider | None:
    """The protocol whose users' side a method is, or stands for; None where there is none.

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> protocol_of(lk.method("lpu", epsilon=1.0, window=4, categories=3)).name
    'lpu'
    """
    if isinstance(method, Responder):
        return method.protocol
    if method.cover or not of_either_kind(method.name):  # no protocol hides presence
        return None
    return PROTOCOLS[method.name](
        epsilon=method.epsilon,
        window=method.window,
        oracle=lambda *_: method.mechanism,
        categories=method.categories,
    )
