"""Local differential privacy for data streams, run as Kafka stream processors.

The core (mechanisms, methods, accounting, randomness) needs numpy and cryptography; topologies, the
wire and the workers need the extra ``kafka``::

    pip install 'ldp-kafka[kafka]'
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from os import PathLike
from typing import TYPE_CHECKING, Any, overload

from ldp_kafka import errors, randomness
from ldp_kafka.accounting import Guarantee
from ldp_kafka.accounting.words import did_you_mean
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms import MECHANISMS
from ldp_kafka.mechanisms.base import Certificate, Estimate, Law, Mechanism
from ldp_kafka.methods import METHODS, DelayMethod, Method
from ldp_kafka.methods.delay import DelayName, choose_delay
from ldp_kafka.methods.protocols import PROTOCOLS, Protocol
from ldp_kafka.records import DeadLetter, Event, Partial, Release, Report, Request, Sums, Tick
from ldp_kafka.version import __version__

if TYPE_CHECKING:
    from ldp_kafka.audits import AuditResult
    from ldp_kafka.runtime.device.async_client import AsyncClient
    from ldp_kafka.runtime.device.client import Client
    from ldp_kafka.runtime.releases.stream import Releases
    from ldp_kafka.topology import Topology

__all__ = [
    "MECHANISMS",
    "METHODS",
    "PROTOCOLS",
    "AsyncClient",
    "Certificate",
    "Client",
    "DeadLetter",
    "DelayMethod",
    "Estimate",
    "Event",
    "Guarantee",
    "Law",
    "Mechanism",
    "Method",
    "Partial",
    "Protocol",
    "Release",
    "Report",
    "Request",
    "Sums",
    "Tick",
    "__version__",
    "audit",
    "choose_delay",
    "decode",
    "encode",
    "errors",
    "load_topology",
    "mechanism",
    "method",
    "protocol",
    "randomness",
    "releases",
]


def mechanism(name: str, **parameters: Any) -> Any:
    """The one-value mechanism of that name; `ldp_kafka.MECHANISMS` lists them.

    Examples
    --------
    >>> mechanism("grr", epsilon=1.0, categories=2).certificate().epsilon_effective <= 1.0
    True
    """
    return _known(MECHANISMS, name, "mechanism")(**parameters)


@overload
def method(name: DelayName, **parameters: Any) -> DelayMethod: ...


@overload
def method(
    name: str, *, mechanism: str | Callable[..., Any] | None = None, **parameters: Any
) -> Method: ...


def method(
    name: str, *, mechanism: str | Callable[..., Any] | None = None, **parameters: Any
) -> Method | DelayMethod:
    """The streaming method of that name; `ldp_kafka.METHODS` lists them.

    ``mechanism`` is a name or any factory ``(epsilon, domain or categories) -> Mechanism``;
    default: the method's own. The methods that release windows (`ldp_kafka.methods.delay`) take
    none: their noise is that of sums.

    Examples
    --------
    >>> method("capp", epsilon=1.0, window=10, domain=(0.0, 1.0)).guarantee.level
    'w-event'
    >>> method("naive", epsilon=1.0, delay=10, domain=(0.0, 1.0)).guarantee.level
    'event'
    """
    kind = _known(METHODS, name, "method")
    if issubclass(kind, DelayMethod):
        if mechanism is not None:
            raise ConfigurationError(f"{name} takes no mechanism: it adds noise to sums")
        delayed: DelayMethod = kind(**parameters)
        return delayed
    chosen = kind.default_mechanism if mechanism is None else mechanism
    made: Method = kind(
        mechanism=_known(MECHANISMS, chosen, "mechanism") if isinstance(chosen, str) else chosen,
        **parameters,
    )
    return made


def protocol(
    name: str, *, oracle: str | Callable[..., Any] | None = None, **parameters: Any
) -> Protocol:
    """The protocol of that name, which releases a crowd's frequencies (``categories=``), mean
    (``domain=``) or distribution (``domain=``, ``bins=``); `ldp_kafka.PROTOCOLS` lists them.

    ``oracle`` is a mechanism's name or any factory ``(epsilon, domain or categories) ->
    Mechanism``; default: ``adaptive`` for categories, ``hybrid`` for numbers, ``square_wave`` for
    distributions. ``norm_sub``, ``merge`` and ``smooth`` improve what is released at the same
    epsilon: `ldp_kafka.Protocol`.

    Examples
    --------
    >>> import numpy as np
    >>> lpa = protocol("lpa", epsilon=1.0, window=4, categories=3)
    >>> lpa.run(np.zeros((1000, 8), int), randomness.seeded(7)).values.shape
    (8, 3)
    """
    kind = _known(PROTOCOLS, name, "protocol")
    default = "hybrid" if parameters.get("bins") is None else "square_wave"
    if parameters.get("categories") is not None:
        default = "adaptive"
    chosen = default if oracle is None else oracle
    made: Protocol = kind(
        oracle=_known(MECHANISMS, chosen, "oracle") if isinstance(chosen, str) else chosen,
        **parameters,
    )
    return made


def audit(mechanism_or_function: Any, first: Any, second: Any, **options: Any) -> AuditResult:
    """A lower bound on the epsilon of a mechanism or of any function of an array of equal inputs,
    from what it reports for two inputs; see `ldp_kafka.audits.audit`.
    """
    from ldp_kafka.audits import audit as attack

    return attack(mechanism_or_function, first, second, **options)


def load_topology(path: str | PathLike[str]) -> Topology:
    """The topology in a YAML file, checked; `errors.TopologyError` names file, line and key. Needs
    the extra ``kafka``.
    """
    from ldp_kafka.topology import load

    return load(path)


def encode(records: Any) -> bytes:
    """One message for one record (JSON) or several of one kind (Arrow IPC). Needs the extra
    ``kafka``.
    """
    from ldp_kafka.runtime.wire.codec import encode as write

    return write(records)


def decode(message: bytes) -> list[Any]:
    """The single records of a message of any topic of ours, batches expanded: `Release`, `Report`,
    `Request`, `Event`, `Tick`, `DeadLetter`, `Partial` or `Sums`; a header record gives an empty
    list. `errors.BadRecord` where it is none of ours. Needs the extra ``kafka``;
    `ldp_kafka.runtime.wire.codec.decode` says which topic holds what.
    """
    from ldp_kafka.runtime.wire.codec import decode as read

    return read(message)


def releases(
    topology: Topology | str | PathLike[str],
    *,
    since: str | datetime | timedelta | None = None,
    follow: bool = False,
    statistic: str | Sequence[str] | None = None,
    login: Mapping[str, str] | str | PathLike[str] | None = None,
) -> Releases:
    """The releases of a topology, from its topic: an iterator of `Release` records, each once,
    which is closed by ``close()``, by ``with`` or at its end. Needs the extra ``kafka``.

    ``.table()`` is a `pyarrow.Table` of flat rows, one a number; pandas, polars and all others that
    take Arrow take it. ``.rows()`` gives the same rows as dicts.

    Parameters
    ----------
    topology : or its file
    since : a time (ISO 8601, or a datetime; UTC where it names no zone): slots that start then or
        later. Or a duration (``"2h"``, or a timedelta): those that start so long before the end of
        the newest release, or later; event time, no clock's. Default: all
    follow : go on, without an end, with the releases to come; else it ends where the topic ends now
    statistic : one or several of the topology's; default: all
    login : client options of a reader in librdkafka's names, or a file with a line ``NAME=VALUE``
        each; default: the topology's own for its collector

    Raises
    ------
    errors.ConfigurationError : no such topic, statistic or time; the login may not read it
    errors.BrokerError : the broker did not answer

    Examples
    --------
    The last day as a table for pandas, and as JSON lines for ever::

        frame = lk.releases("meters.yaml", since="1d").table().to_pandas()

        with lk.releases("meters.yaml", follow=True) as found:
            for release in found:
                print(lk.encode(release).decode(), flush=True)
    """
    from ldp_kafka.runtime.releases.reading import read_releases

    return read_releases(topology, since=since, follow=follow, statistic=statistic, login=login)


def __getattr__(name: str) -> Any:
    """`Client` and `AsyncClient`, for devices without a raw topic, when they are asked for: they
    need the extra ``kafka``.
    """
    if name == "Client":
        from ldp_kafka.runtime.device.client import Client

        return Client
    if name == "AsyncClient":
        from ldp_kafka.runtime.device.async_client import AsyncClient

        return AsyncClient
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _known(registry: dict[str, Any], name: Any, what: str) -> Any:
    if not isinstance(name, str) or name not in registry:
        raise ConfigurationError(
            f"unknown {what} {name!r}; known:"
            f" {', '.join(sorted(registry))}{did_you_mean(name, registry)}"
        )
    return registry[name]
