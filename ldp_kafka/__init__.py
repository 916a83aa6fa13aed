"""Local differential privacy for data streams, run as Kafka stream processors.

The core (mechanisms, methods, accounting, randomness) needs numpy and cryptography; topologies, the
wire and the workers need the extra ``kafka``::

    pip install '.[kafka]'

in a checkout, or the same of the wheel; the package is on no index.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from os import PathLike
from typing import TYPE_CHECKING, Any

from ldp_kafka import errors, randomness
from ldp_kafka.accounting import Guarantee
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms import MECHANISMS
from ldp_kafka.mechanisms.base import Certificate, Estimate, Law, Mechanism
from ldp_kafka.mechanisms.frequencies import AffineSupport, FrequencyOracle
from ldp_kafka.methods import METHODS, Batch, DelayMethod, Method, PerSlot, SlotMethod, Step
from ldp_kafka.methods.delay import choose_delay
from ldp_kafka.methods.protocols import PROTOCOLS, Protocol
from ldp_kafka.named import mechanism, method, protocol
from ldp_kafka.records import (
    DeadLetter,
    Event,
    Partial,
    Record,
    Release,
    Report,
    Request,
    Sums,
    Tick,
)
from ldp_kafka.version import __version__

if TYPE_CHECKING:
    from ldp_kafka.audits import AuditResult
    from ldp_kafka.records import Events, Reports
    from ldp_kafka.runtime.device.async_client import AsyncClient
    from ldp_kafka.runtime.device.client import Client
    from ldp_kafka.runtime.releases.stream import Releases
    from ldp_kafka.topology import Topology

__all__ = [
    "MECHANISMS",
    "METHODS",
    "PROTOCOLS",
    "AffineSupport",
    "AsyncClient",
    "Batch",
    "Certificate",
    "Client",
    "ConfigurationError",
    "DeadLetter",
    "DelayMethod",
    "Estimate",
    "Event",
    "FrequencyOracle",
    "Guarantee",
    "Law",
    "Mechanism",
    "Method",
    "Partial",
    "PerSlot",
    "Protocol",
    "Record",
    "Release",
    "Report",
    "Request",
    "SlotMethod",
    "Step",
    "Sums",
    "Tick",
    "__version__",
    "audit",
    "choose_delay",
    "compare",
    "decode",
    "encode",
    "errors",
    "load_topology",
    "mechanism",
    "method",
    "protocol",
    "randomness",
    "releases",
    "run",
]


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


def encode(records: Record | Events | Reports | Sequence[Record]) -> bytes:
    """One message for one record (JSON) or several of one kind (Arrow IPC). Needs the extra
    ``kafka``.
    """
    from ldp_kafka.runtime.wire.codec import encode as write

    return write(records)


def decode(message: bytes) -> list[Record]:
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
    take Arrow take it. ``.rows()`` gives the same rows as dicts. ``.moves(above)`` counts moves of
    each user above a threshold.

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


def run(
    topology: Topology | str | PathLike[str],
    frame: Any,
    *,
    user: str | None = None,
    value: str | None = None,
    time: str | None = None,
    key: bytes | None = None,
    deployment: str = "",
) -> Any:
    """A topology over a table in memory, without Kafka: its releases as a `pyarrow.Table` of flat
    rows, one a number, as `releases(...).table()` has them. With the key and the deployment of the
    topology's edge they are those that a replay of the table releases, byte for byte. Each call
    begins every user's life: what several calls release of one user adds up, and no budget file is
    looked at. Needs the extra ``kafka``.

    Parameters
    ----------
    topology : or its file
    frame : one event a row: a data frame of pandas or polars, a `pyarrow.Table`, or a dict of
        columns; sorted by nothing. Rows without a user, a value or a time are left out
    user, value, time : names of the columns; default: those that the topology's own paths name.
        Times are epoch seconds or milliseconds, timestamps, dates or ISO 8601 text
    key : 32 random bytes, private: with it, noise is repeated, so that it serves one table; of
        other values of the same users and slots anybody could tell which are equal; default: fresh
        ones
    deployment : what tells one deployment of the topology from another under one key

    Raises
    ------
    errors.ConfigurationError : the frame is no table, lacks a column, or a row of it cannot be
        read; values are vectors; the topology reads devices, or a topic that a relay re-keys

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> from ldp_kafka.topology import loads
    >>> topology = loads('''
    ... topology: meters
    ... input: {slot: 1h, user: $.meter, value: $.kwh, time: $.ts}
    ... privacy: {method: sw_direct, epsilon: 8.0, window: 2, domain: [0, 10]}
    ... output: {statistics: [mean]}
    ... ''')
    >>> hour = [1_700_002_800] * 200 + [1_700_006_400] * 200
    >>> events = {"meter": [f"m{n % 200}" for n in range(400)], "kwh": [3.0] * 400, "ts": hour}
    >>> found = lk.run(topology, events)
    >>> found.num_rows, max(abs(mean - 3) for mean in found["value"].to_pylist()) < 1
    (2, True)
    """
    from ldp_kafka.runtime.frame import over_frame

    return over_frame(
        topology, frame, user=user, value=value, time=time, key=key, deployment=deployment
    )


def compare(
    frame: Any,
    methods: Sequence[str],
    epsilons: Sequence[float],
    *,
    window: int,
    domain: tuple[float, float],
    user: str = "user",
    value: str = "value",
    time: str = "time",
    slot: str | None = None,
    users: int | None = None,
    **how: Any,
) -> list[dict[str, Any]]:
    """How far off methods would be on one's own values, beside a constant that needs no report:
    `ldp_kafka.evaluation.compare.rows` of a table, whose `verdicts` say which method to take. It
    looks at the values, and so does a choice that follows it: give it values that may be seen.
    Needs the extra ``kafka``.

    Parameters
    ----------
    frame : one value a row: a data frame of pandas or polars, a `pyarrow.Table`, or a dict of
        columns. A row without a value, or a slot without a row, is a slot in which a user is silent
    methods : names of methods and protocols
    epsilons : of each window, or of whatever a method's guarantee is of
    window : slots of the privacy window
    domain : (lo, hi), the public range of a value: never taken from the values, since it would
        tell the least and the greatest of them
    user, value, time : names of the columns. Where there is no column ``user``, all rows are one
        user's
    slot : a duration, such as ``1h``: times say which slot a row is of, and the first row of a
        user's slot counts. Default: each row of a user is its next slot, and no times are needed
    users : cut the one series into the streams of so many users, a consecutive piece each
    how : ``parameters``, ``repeats`` and ``seed`` as `ldp_kafka.evaluation.compare.rows` has them

    Raises
    ------
    errors.ConfigurationError : the frame is no table, lacks a column, or a row of it cannot be
        read; or see `ldp_kafka.evaluation.compare.rows`

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> from ldp_kafka.evaluation.compare import verdicts
    >>> values = {"value": [0.9, 0.8, 0.9, 1.0] * 25}
    >>> rows = lk.compare(values, ["naive"], [0.1, 10], window=1, domain=(0, 1))
    >>> [(found.epsilon, found.take) for found in verdicts(rows)]
    [(0.1, None), (10, 'naive')]
    """
    from ldp_kafka.evaluation.compare import rows
    from ldp_kafka.runtime.compare import streams_of

    streams = streams_of(frame, user, value, time, slot=slot, users=users)
    return rows(streams, methods, epsilons, window=window, domain=domain, **how)


if not TYPE_CHECKING:  # to a type checker it would say that there is every name

    def __getattr__(name: str) -> Any:
        """`Client` and `AsyncClient`, for devices without a raw topic, when they are asked for:
        they need the extra ``kafka``.
        """
        if name == "Client":
            from ldp_kafka.runtime.device.client import Client

            return Client
        if name == "AsyncClient":
            from ldp_kafka.runtime.device.async_client import AsyncClient

            return AsyncClient
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names, also those that come when they are asked for."""
    return sorted(__all__)
