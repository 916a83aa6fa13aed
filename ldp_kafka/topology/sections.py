"""The sections of a topology as frozen data, each checked when it is made."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from inspect import signature
from pathlib import Path as FilePath
from types import MappingProxyType
from typing import Any

from ldp_kafka.accounting import NEVER
from ldp_kafka.errors import ConfigurationError, TopologyError
from ldp_kafka.mechanisms import MECHANISMS
from ldp_kafka.methods import Method
from ldp_kafka.methods.protocols.processing import Processing
from ldp_kafka.methods.runnable import Runnable, names, of_either_kind, runnable
from ldp_kafka.normal_form import nfc
from ldp_kafka.topology.document import Unset
from ldp_kafka.topology.formats import INPUT_FORMATS
from ldp_kafka.topology.logins import Identity, endpoints, identity, is_address
from ldp_kafka.topology.paths import OUTER, Path

__all__ = [
    "ADDED",
    "AT_ONCE",
    "COUNT",
    "EMPTY_IS_ZERO",
    "EVENTS",
    "MOST_SLOTS",
    "OF_CODES",
    "TICKS",
    "TOPIC",
    "Checked",
    "Edge",
    "Input",
    "KafkaSide",
    "Output",
    "Privacy",
    "Runtime",
    "frozen",
    "pure",
]

NORMAL = {"gaussian", "gaussian_vector"}
"""Mechanisms that a method must have for its own: their loss is no epsilon alone, which is all that
the ledger counts.
"""
ADDED = ("sum", "mean")
"""By ``input.per_slot``: what adds values."""
AT_ONCE = "first"
"""By ``input.per_slot``: what is reported when it comes."""
OF_CODES = ("first", "last")
"""By ``input.per_slot``: what has a meaning for categories."""
COUNT = "count"
"""By ``input.per_slot``: what is one number, whatever the values are; so never of lists."""
EMPTY_IS_ZERO = ("sum", COUNT)
"""By ``input.per_slot``: what is 0 in a slot without an event."""
MOST_SLOTS = 1000
"""Of ``input.lateness``, and of ``input.hold``."""
LONGEST = 256  # bytes of an id
TICKS, EVENTS = "ticks", "events"
"""By ``input.closing``."""
TOPIC = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")


def pure() -> list[str]:
    """Names of the mechanisms that any method can draw through, plug-ins' with ours."""
    return sorted(MECHANISMS.keys() - NORMAL)


def _values_of(mechanism: str) -> str:
    """What a mechanism of this name perturbs: the one parameter that says so is ``categories``."""
    return (
        "categories" if "categories" in signature(MECHANISMS[mechanism]).parameters else "numbers"
    )


def frozen(mapping: Mapping[str, Any]) -> Mapping[str, Any]:
    """A copy that cannot be written to."""
    return MappingProxyType(dict(mapping))


class Checked:
    """Data that refuses to exist with a problem in it, and says all of them."""

    def _problems(self) -> Iterator[tuple[str, str]]:
        """(key as in the file, what must hold) of each thing that is wrong."""
        raise NotImplementedError

    def __post_init__(self) -> None:
        found = [TopologyError(message, key=key) for key, message in self._problems()]
        if found:
            raise TopologyError.together(found)


@dataclass(frozen=True)
class KafkaSide(Checked):
    """One side's way to Kafka.

    Parameters
    ----------
    bootstrap_servers : ``host:port`` with commas between, or ``embedded``
    client : options of a confluent-kafka client beside it, all of them text; not shown in the repr,
        since passwords are among them

    """

    bootstrap_servers: str
    client: Mapping[str, str] = field(default_factory=lambda: frozen({}), repr=False, hash=False)

    def _problems(self) -> Iterator[tuple[str, str]]:
        if not self.brokers:
            yield (
                "kafka.bootstrap_servers",
                "must be host:port, several with commas between, or embedded",
            )
        elif "embedded" in self.brokers and len(self.brokers) > 1:
            yield "kafka.bootstrap_servers", "embedded stands alone, without other brokers"
        elif not isinstance(self.bootstrap_servers, Unset):
            addresses = self.bootstrap_servers.split(",")
            for at, address in enumerate(addresses, 1):
                if address.strip() and not is_address(address.strip()):
                    which = f"; address {at} is none" if len(addresses) > 1 else ""
                    yield (
                        "kafka.bootstrap_servers",
                        (
                            "must be host:port, several with commas between, or embedded: no"
                            f" http://, no spaces, a port from 1 to 65535{which}"
                        ),
                    )

    @property
    def brokers(self) -> frozenset[str]:
        """The single addresses."""
        return frozenset(
            part.strip().lower() for part in self.bootstrap_servers.split(",") if part.strip()
        )

    @property
    def embedded(self) -> bool:
        """Whether the broker is the one inside the first process."""
        return self.brokers == {"embedded"}

    @property
    def identity(self) -> Identity:
        """Who it is to a broker, as far as its options tell."""
        return identity(self.client)

    def same_as(self, other: KafkaSide) -> str | None:
        """Why what one of them may read, so may the other, as far as text and this machine tell;
        None where nothing says so.

        One login is one reader, at whatever addresses: its password opens both sides. Two logins
        on one cluster are two readers. Without a login whoever reaches the broker reads it.
        """
        if self.identity != other.identity:
            return None
        if self.identity:
            return f"both log in with one {self.identity[0][0]}"
        if _reached(self) & _reached(other):
            return "both reach one broker, without a login"
        return None


def _joined(name: str, count: int) -> bool:
    """Whether this is an id that is made of so many fields."""
    try:
        found = json.loads(name)
    except (ValueError, RecursionError):
        return False
    return (
        isinstance(found, list)
        and len(found) == count
        and all(isinstance(part, str) and part for part in found)
        and json.dumps(found, ensure_ascii=False, separators=(",", ":")) == name
    )


def _reached(side: KafkaSide) -> frozenset[tuple[str, int]]:
    if isinstance(side.bootstrap_servers, Unset):  # a variable's name is no host
        return frozenset({(side.bootstrap_servers, 0)})
    return endpoints(side.brokers)


@dataclass(frozen=True)
class Input(Checked):
    """The raw topic and how its records are read.

    Parameters
    ----------
    topic, partitions : of the raw log
    create : False where it belongs to someone else
    relay : whether it is someone else's, and copied into a raw log of ours
    rekey : whether each event is copied by itself, to the partition of its user; of a topic of any
        key. Then ``partitions`` are those of our log
    sources : partitions of the topic that is copied so; None: the same
    format : a name in `ldp_kafka.topology.formats.INPUT_FORMATS`
    user, value, time : field paths, as tuples of names and list positions; ``user`` is empty where
        an id is made of several fields
    parts : paths of these; empty where ``user`` is the one field
    slot_ms : length of a slot, at least 1 ms
    lateness : slots that the watermark stays behind the latest event, 0..1000
    hold : closed slots whose values wait for a request, 2..1000; of methods with a coordinator
    partitioning : ``trusted`` or ``murmur2``
    gaps : ``strict`` or ``allow``
    idle_ms : silence after which a partition gets a tick; None: never
    max_ahead_ms : how far an event may be ahead of its record's timestamp
    per_slot : which of several values of one slot counts, a name in
        `ldp_kafka.runtime.stages.per_slot.PER_SLOT`
    coerce : ``numbers`` where text that holds a number is read as one, else ``none``
    events : where the array of events is in a message, () where the message is one; None: a message
        is one event. A path that begins with `OUTER` begins at the message
    time_unit : of times that are numbers: ``s``, ``ms``, ``us`` or ``ns``; None: seconds or
        milliseconds, told by their size
    source : ``topic``, or ``devices`` where there is no raw topic and none of what tells how to
        read it matters
    streams : ids of a curator's streams, which are all that there are; empty: any
    start_ms : a time in the first slot, milliseconds; None where no slot is the first
    closing : what closes slots: ``events`` and ticks, or ``ticks`` alone

    """

    topic: str
    partitions: int
    create: bool
    format: str
    user: Path
    value: Path
    time: Path
    slot_ms: int
    lateness: int
    partitioning: str
    gaps: str
    idle_ms: int | None
    max_ahead_ms: int
    per_slot: str
    source: str = "topic"
    hold: int = 4
    relay: bool = False
    rekey: bool = False
    sources: int | None = None
    coerce: str = "none"
    time_unit: str | None = None
    events: Path | None = None
    parts: tuple[Path, ...] = ()
    streams: tuple[str, ...] = ()
    start_ms: int | None = None
    closing: str = EVENTS

    @property
    def by_ticks(self) -> bool:
        """Whether ticks alone close slots, and an event is late by its own record."""
        return self.closing == TICKS

    @property
    def clock(self) -> bool:
        """Whether workers write ticks by their clock."""
        return self.by_ticks and self.written

    @property
    def zeros(self) -> bool:
        """Whether a slot of a stream without an event is 0, and not without a value."""
        return bool(self.streams) and self.per_slot in EMPTY_IS_ZERO

    @property
    def before_start(self) -> int:
        """The last slot before the first one; NEVER where no slot is the first."""
        return NEVER if self.start_ms is None else self.start_ms // self.slot_ms - 1

    @property
    def written(self) -> bool:
        """Whether the raw log is ours to write to: ticks, and requests."""
        return self.create or self.relay

    @property
    def given_partitions(self) -> int:
        """Of the topic that values come in by."""
        return self.partitions if self.sources is None else self.sources

    @property
    def given_by(self) -> str:
        """The key that says so."""
        return "input.sources" if self.rekey else "input.partitions"

    @property
    def who_and_when(self) -> tuple[object, ...]:
        """By what a message says whose its events are, and of when."""
        return self.id_fields, self.time, self.time_unit, self.events

    @property
    def fields(self) -> dict[str, Path]:
        """Where each field is, by its key in the file: ``user``, or ``user[0]`` and so on, and
        ``value`` and ``time``.
        """
        users = {f"user[{at}]": part for at, part in enumerate(self.parts)} or {"user": self.user}
        return users | {"value": self.value, "time": self.time}

    @property
    def id_fields(self) -> tuple[Path, ...]:
        """The fields that a user's id is made of: most often one."""
        return self.parts or (self.user,)

    @property
    def batches(self) -> bool:
        """Whether a message holds many events."""
        return self.events is not None or INPUT_FORMATS[self.format].batches

    @property
    def ahead(self) -> int:
        """How many slots past the last decided one the raw log may be written, where a coordinator
        asks.

        With the events of slot s the edge closes s - lateness - 1, and settles what lies ``hold``
        slots before that. The request for the last decided slot may be on its way to the raw log
        still: its slot must not be settled when it comes.
        """
        return self.lateness + self.hold

    def _problems(self) -> Iterator[tuple[str, str]]:
        if self.source not in ("topic", "devices"):
            yield "input.source", "must be topic or devices"
        if not TOPIC.fullmatch(self.topic):
            yield (
                "input.topic",
                (
                    "must be 1 to 249 letters, digits, dots, dashes and underscores; got"
                    f" {self.topic!r}"
                ),
            )
        if self.coerce not in ("none", "numbers"):
            yield "input.coerce", "must be none or numbers"
        if self.time_unit not in (None, "s", "ms", "us", "ns"):
            yield "input.time_unit", "must be s, ms, us or ns, or left out"
        for name, least in (
            ("partitions", 1),
            ("slot_ms", 1),
            ("max_ahead_ms", 1),
            ("lateness", 0),
            ("hold", 2),
        ):
            if not _whole(getattr(self, name)) >= least:
                yield (
                    f"input.{name.removesuffix('_ms')}",
                    f"must be a whole number, at least {least}",
                )
        for name in ("lateness", "hold"):
            if not getattr(self, name) <= MOST_SLOTS:
                yield f"input.{name}", f"must be at most {MOST_SLOTS} slots"
        if self.relay and self.create:
            yield (
                "input.create",
                "must be false where relay is true: the topic that is relayed is someone else's",
            )
        yield from self._rekeyed()
        yield from self._unknown()
        if self.closing not in (EVENTS, TICKS):
            yield "input.closing", f"must be {EVENTS} or {TICKS}"
        elif self.by_ticks and self.relay:
            yield (
                "input.closing",
                (
                    f"must be {EVENTS} where relay is true: the clock would close slots whose"
                    " events are not copied yet"
                ),
            )
        elif self.by_ticks and self.idle_ms is not None:
            yield (
                "input.idle",
                (
                    f"must be off where closing is {TICKS} (a curator's default): workers write"
                    f" ticks by their clock there; with closing: {EVENTS} it can be given"
                ),
            )
        if self.idle_ms is not None and not self.written:
            yield (
                "input.idle",
                (
                    "must be off where create is false: nothing is written into someone else's"
                    " topic; relay: true copies it into one of ours"
                ),
            )
        if self.format not in INPUT_FORMATS:
            yield "input.format", f"must be one of {', '.join(INPUT_FORMATS)}"
            return
        fields = self.fields
        if len(set(fields.values())) < len(fields):
            yield "input", "user, value and time must be three different fields"
        if self.events is not None and INPUT_FORMATS[self.format].batches:
            yield (
                "input.events",
                (
                    f"must be left out where format is {self.format}: a message is a batch of"
                    " events already"
                ),
            )
        for name, path in fields.items():
            plain = len(path) == 1 and isinstance(path[0], str)
            if path[:1] == (OUTER,) and not self.events:
                yield (
                    f"input.{name}",
                    "must begin with $: ^ is the message around an array of events, and"
                    + (
                        " input.events is not given"
                        if self.events is None
                        else " with events: $ nothing is around it"
                    ),
                )
                continue
            if INPUT_FORMATS[self.format].columns and not plain:
                yield (
                    f"input.{name}",
                    f"must be one column such as $.user where format is {self.format}",
                )

    def _rekeyed(self) -> Iterator[tuple[str, str]]:
        """What is wrong with how its events are spread over partitions of ours."""
        if not self.rekey:
            if self.sources is not None:
                yield (
                    "input.sources",
                    (
                        "must be given only where relay is rekey: elsewhere both topics have"
                        " input.partitions"
                    ),
                )
            return
        if self.sources is None:
            yield (
                "input.sources",
                "must be given where relay is rekey: how many partitions input.topic has",
            )
        elif not _whole(self.sources) >= 1:
            yield "input.sources", "must be a whole number, at least 1"
        if self.partitioning != "murmur2":
            yield (
                "input.partitioning",
                (
                    "must be murmur2, or left out, where relay is rekey: each event is copied to"
                    " the partition of its user"
                ),
            )
        if self.per_slot == AT_ONCE:
            yield (
                "input.per_slot",
                (
                    f"must not be {AT_ONCE} where relay is rekey: a user's events come from several"
                    " partitions, a later slot before an earlier one, which would not be reported"
                    " then; all others wait until their slot is closed (the default there is last)"
                ),
            )

    def _unknown(self) -> Iterator[tuple[str, str]]:
        """Why its streams, and their first slot, are none."""
        seen = set[str]()
        for at, name in enumerate(self.streams):
            if not 0 < len(name.encode(errors="replace")) <= LONGEST:
                yield f"input.streams[{at}]", f"must have 1 to {LONGEST} bytes, as any id"
            elif self.parts and not _joined(name, len(self.parts)):
                yield (
                    f"input.streams[{at}]",
                    (
                        f"must be a JSON array of {len(self.parts)} texts without spaces, such as"
                        ' \'["a","17"]\': a stream\'s id is made of so many fields'
                    ),
                )
            elif name in seen:
                yield f"input.streams[{at}]", "is there before: take it out"
            seen.add(name)
        if self.zeros and self.start_ms is None:
            yield (
                "input.start",
                (
                    f"must be given where input.streams are and per_slot is {self.per_slot}: since"
                    " when a stream is 0 in each slot that it has no event of, such as 2026-03-01"
                ),
            )
        elif self.start_ms is not None and not self.zeros:
            yield (
                "input.start",
                (
                    "must be given only with input.streams and per_slot"
                    f" {' or '.join(EMPTY_IS_ZERO)}: elsewhere the first slot is that of the first"
                    " event"
                ),
            )
        elif self.start_ms is not None and not self.start_ms >= 0:
            yield "input.start", "must not be before 1970"


@dataclass(frozen=True)
class Privacy(Checked):
    """What every user is promised.

    Parameters
    ----------
    method, mechanism : names in METHODS and MECHANISMS
    epsilon : nats in one window, or at level user in a user's whole stream
    window : slots; None at level user, whose horizon is a parameter of the method
    level : ``w-event``, ``event`` or ``user``
    trust : who sees values, ``edge`` or ``curator``
    domain : (low, high) for numbers, else None
    categories : how many, for categories, else None
    category_names : their names, in the order of their numbers, where they have any
    calibration : ``sound`` or ``published``
    parameters : the method's own, as they were given

    """

    method: str
    mechanism: str
    epsilon: float
    window: int | None
    domain: tuple[float, float] | None
    categories: int | None
    category_names: tuple[str, ...] | None
    calibration: str
    level: str = "w-event"
    trust: str = "edge"
    parameters: Mapping[str, Any] = field(default_factory=lambda: frozen({}), hash=False)

    def _problems(self) -> Iterator[tuple[str, str]]:
        kind = runnable(self.method, self.kind)
        if kind is None or self.mechanism not in MECHANISMS:
            yield (
                "privacy",
                (
                    f"method must be one of {', '.join(names())} and mechanism one of"
                    f" {', '.join(MECHANISMS)}"
                ),
            )
            return
        wrong = list(self._mismatches(kind))
        yield from wrong
        if not wrong:
            try:
                _ = self.build
            except (ConfigurationError, TypeError) as error:
                yield "privacy", f"{self.method} over {self.mechanism}: {error}"

    @property
    def kind(self) -> str:
        """Of its values, as they are given: ``numeric`` or ``categorical``."""
        return "numeric" if self.categories is None else "categorical"

    @property
    def _method(self) -> Runnable:
        found = runnable(self.method, self.kind)
        if found is None:
            raise ConfigurationError(f"there is no method {self.method}")
        return found

    def _mismatches(self, kind: Runnable) -> Iterator[tuple[str, str]]:
        if of_either_kind(self.method) and (self.domain is None) == (self.categories is None):
            yield (
                "privacy",
                f"{self.method} needs either categories or the domain of numbers: give one of them",
            )
            return
        numeric = kind.kind == "numeric"
        if not kind.own_noise:
            yield from self._unfit_mechanism(kind.default_mechanism)
        elif self.mechanism != kind.default_mechanism:
            yield (
                "privacy.mechanism",
                f"must be left out for {self.method}, which adds noise to sums of values",
            )
        if self.trust == "curator" and not kind.windows:
            yield (
                "privacy.trust",
                f"must be edge for {self.method}, which perturbs at the edge",
            )
        levels = ("event", "w-event") if kind.level == "event" else (kind.level,)
        if self.level not in levels:
            yield (
                "privacy.level",
                f"must be {' or '.join(levels)} for {self.method}: its guarantee is of that level",
            )
        elif self.window is None and self.level == "w-event":
            more = "; level: event is for one slot's value" if len(levels) > 1 else ""
            yield "privacy.window", f"must be given{more}"
        elif self.window is not None and self.level != "w-event":
            yield (
                "privacy.window",
                (
                    "must not be given at level user: a horizon (or sigma) says how long the budget"
                    " lasts"
                    if kind.level == "user"
                    else "must not be given at level event: each slot's value has the budget to"
                    " itself"
                ),
            )
        for name in kind.needed:
            if name not in self.parameters:
                yield f"privacy.{name}", f"must be given for {self.method}: {kind.parameters[name]}"
        for name in self.parameters:
            if name not in kind.parameters:
                yield (
                    f"privacy.{name}",
                    (
                        f"is no parameter of {self.method}: leave it out; its own:"
                        f" {', '.join(kind.parameters) or 'none'}"
                    ),
                )
        if self.domain is not None and kind.ball:
            yield (
                "privacy.domain",
                (
                    f"must not be given: the vectors of {self.method} lie in a ball, which has a"
                    " diameter"
                ),
            )
        elif self.domain is None and numeric and not kind.ball:
            yield "privacy.domain", f"must be given: {self.method} is for numbers"
        if self.domain is not None:
            if not numeric:
                yield "privacy.domain", f"must not be given: {self.method} is for categories"
            elif not self.domain[0] < self.domain[1]:
                yield (
                    "privacy.domain",
                    (
                        f"must be [low, high] with low < high; got [{self.domain[0]:g},"
                        f" {self.domain[1]:g}]"
                    ),
                )
        if self.categories is None and not numeric:
            yield "privacy.categories", f"must be given: {self.method} is for categories"
        if self.categories is not None and numeric:
            yield "privacy.categories", f"must not be given: {self.method} is for numbers"
        if (
            self.category_names is not None
            and not len({nfc(name) for name in self.category_names})
            == len(self.category_names)
            == self.categories
        ):
            yield "privacy.categories", "must name each category once (in Unicode's NFC)"

    def _unfit_mechanism(self, default: str) -> Iterator[tuple[str, str]]:
        """Why the method, whose own mechanism is ``default``, cannot draw with the one named."""
        of = _values_of(default)
        fitting = [default]
        if default in pure():
            fitting = [name for name in pure() if _values_of(name) == of]
        if self.mechanism in fitting:
            return
        message = f"must be one of {', '.join(fitting)} for {self.method}"
        if self.mechanism in pure() and _values_of(self.mechanism) != of:
            message += (
                f": {self.mechanism} is a mechanism for {_values_of(self.mechanism)}, and"
                f" {self.method} needs one for {of}"
            )
        yield "privacy.mechanism", message

    @cached_property
    def build(self) -> Method:
        """The method, made."""
        return self.made()

    def made(self, **more: Any) -> Method:
        """The method, with more of what its collector reads reports by."""
        if self._method.own_noise:
            return self.maker(**more)
        return self.maker(MECHANISMS[self.mechanism], **more)

    @property
    def maker(self) -> Callable[..., Method]:
        """Makes the method: of a mechanism factory, or of nothing where it has its own noise."""
        given = {"window": self.window, "domain": self.domain, "categories": self.categories}
        shape: dict[str, Any] = {name: what for name, what in given.items() if what is not None}
        common = {"epsilon": self.epsilon, "calibration": self.calibration, **shape}
        make = partial(self._method.make, **common | dict(self.parameters))
        if self._method.own_noise:
            return make
        return lambda mechanism, **more: make(mechanism=mechanism, **more)

    @property
    def resolved(self) -> dict[str, Any]:
        """The method's own parameters with what was chosen for those not given."""
        return self.build.resolved


@dataclass(frozen=True)
class Output(Checked):
    """What is released: ``mean``, ``frequencies``, ``distribution``, ``per_user``; those per user
    shrunk towards the crowd, or as they were reported. And whether a crowd's statistic is above a
    threshold, where there is one; what a coordinator makes of its publications before; how many
    equal bins of the domain a distribution is over; and over how many releases moving averages are.
    """

    statistics: tuple[str, ...]
    shrinkage: bool = True
    above: float | None = None
    postprocess: Processing = field(default_factory=Processing)
    bins: int | None = None
    moving_average: int = 1

    def _problems(self) -> Iterator[tuple[str, str]]:
        if not self.statistics or len(set(self.statistics)) < len(self.statistics):
            yield "output.statistics", "must name at least one statistic, each once"


@dataclass(frozen=True)
class Edge:
    """What only the edge knows: where its key is, and the file that limits what all topologies on
    the raw topic lose together; None where that was left open, `Unset` where a variable is to name
    it. And, where the broker gives topics no ids, what tells this deployment from every other.
    """

    key_file: FilePath | Unset | None
    budget_file: FilePath | Unset | None = None
    deployment: str | Unset | None = None


@dataclass(frozen=True)
class Runtime(Checked):
    """How workers keep their state: a snapshot every so many messages, bytes of them or seconds, in
    so many shards a partition. And behind how many events the edge sends reports together.
    """

    snapshot_messages: int
    snapshot_bytes: int
    snapshot_seconds: float
    shards: int
    session_timeout_ms: int
    report_rows: int

    def _problems(self) -> Iterator[tuple[str, str]]:
        for name in (
            "snapshot_messages", "snapshot_bytes", "shards", "session_timeout_ms", "report_rows",
        ):  # fmt: skip
            if not _whole(getattr(self, name)) >= 1:
                yield f"runtime.{name.removesuffix('_ms')}", "must be a whole number, at least 1"
        if not 0 < self.snapshot_seconds <= 3600:
            yield "runtime.snapshot_seconds", "must lie between 0 and 3600"


def _whole(value: Any) -> int:
    """``value`` where it is a whole number, else one that no bound allows."""
    return value if isinstance(value, int) and not isinstance(value, bool) else -1
