"""From a source to the messages of a raw topic: no Kafka here, so that tests and `runtime.local`
fold the very bytes that a replay sends.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.records import Tick
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.partitioning import partitions_of
from ldp_kafka.runtime.replay.source import SlotEvents, Source
from ldp_kafka.runtime.wire.arrow import lists, write_batch
from ldp_kafka.runtime.wire.records import encode_json
from ldp_kafka.runtime.wire.times import UNITS, in_unit
from ldp_kafka.runtime.wire.user_ids import named_ids, split_id
from ldp_kafka.topology import Topology
from ldp_kafka.topology.formats import INPUT_FORMATS
from ldp_kafka.topology.paths import OUTER, Path

__all__ = ["BATCH", "Raw", "as_log", "last_tick", "messages", "singles"]

BATCH = 2048  # events in a message, where the topology's format has batches


class Raw(NamedTuple):
    """One message of the raw topic."""

    partition: int
    timestamp: int
    """Event time of the last event in it, milliseconds: what paces a replay. The record's own
    timestamp is the broker's business.
    """
    value: bytes
    events: int
    """0: a tick."""
    key: bytes | None = None
    """The user, where it is one event."""

    def __repr__(self) -> str:
        return (  # never a value
            f"Raw(partition={self.partition}, {self.events} events, {len(self.value)} bytes)"
        )


def last_tick(topology: Topology, last_slot: int) -> int:
    """The time (ms) of the tick that closes ``last_slot``, for the collector too, which a method's
    delay keeps behind; and nothing after it.
    """
    return topology.slot_start(last_slot + topology.method.delay + topology.input.lateness + 1)


def messages(
    topology: Topology, source: Source, batch: int | None = None, *, ticks: bool | None = None
) -> Iterator[Raw]:
    """The raw log of a source: slot by slot, each user in its partition.

    A partition without events in a slot gets a tick at the slot's end, so that event time goes on
    there, and so does every other one where ticks alone close slots; each gets one after the last
    slot, so that its windows close.

    Parameters
    ----------
    topology
        whose raw topic it is
    source
        the events
    batch
        events in one message: 1 is one JSON object a message, more an Arrow batch; default: as the
        topology's format says (arrow: 2,048)
    ticks
        default: yes, unless the raw topic is someone else's

    Raises
    ------
    ConfigurationError : ``batch`` is not positive, or more than one and a field of the topology
        lies deeper than a column; or the topic is someone else's, which a relay re-keys

    """
    if topology.input.rekey:
        raise ConfigurationError(
            f"{topology.input.topic} is someone else's, of a key of its own (input.relay: rekey):"
            " only its owner's producers write to it"
        )
    if batch is None:
        batch = BATCH if INPUT_FORMATS[topology.input.format].batches else 1
    if not batch >= 1:
        raise ConfigurationError("the events in one message (--batch) must be 1 or more")
    names = (*topology.input.id_fields, topology.input.value, topology.input.time)
    if batch > 1 and not all(len(path) == 1 and isinstance(path[0], str) for path in names):
        raise ConfigurationError(
            "batches have plain columns: input.user, value and time must be such as $.user, or"
            " --batch 1"
        )
    with_ticks = topology.input.create if ticks is None else ticks
    return _messages(topology, source, batch, with_ticks)


def _messages(topology: Topology, source: Source, batch: int, ticks: bool) -> Iterator[Raw]:
    partitions, by_ticks = topology.input.partitions, topology.input.by_ticks
    home = partitions_of(named_ids(source.users, len(topology.input.parts)), partitions)
    write = (
        _Batches(topology, source.users).write
        if batch > 1
        else _Singles(topology, source.users).write
    )
    for events in source.slots:
        at = home[events.who]
        order = np.argsort(at, kind="stable")
        edges = np.searchsorted(at[order], np.arange(partitions + 1)).tolist()
        for partition in range(partitions):
            first, end = edges[partition], edges[partition + 1]
            for start in range(first, end, batch):
                yield from write(partition, events, order[start : min(start + batch, end)])
            if ticks and (by_ticks or first == end):
                yield _tick(partition, topology.slot_start(events.slot + 1) - (not by_ticks))
    if ticks:
        for partition in range(partitions):
            yield _tick(partition, last_tick(topology, source.last))


def singles(topology: Topology, source: Source) -> Iterator[tuple[int, bytes]]:
    """Each event of a table as a message of its own, as `messages` writes them one by one, in the
    order of time, with the row that it comes from.
    """
    write = _Singles(topology, source.users).write
    for events in source.slots:
        assert events.rows is not None  # of a table
        every = np.arange(len(events.who))
        for row, raw in zip(events.rows.tolist(), write(0, events, every), strict=True):
            yield row, raw.value


def as_log(topology: Topology, stream: Iterable[Raw], first: int = 1) -> list[list[Message]]:
    """Messages as the log of each partition: what `runtime.local.run` folds. Offset 0 is the header
    record, where the topic is ours.
    """
    logs: list[list[Message]] = [[] for _ in range(topology.input.partitions)]
    for raw in stream:
        log = logs[raw.partition]
        log.append(Message(first + len(log), -1, raw.value))
    return logs


def _tick(partition: int, time: int) -> Raw:
    return Raw(partition, time, encode_json(Tick(time)), 0)


class _Batches:
    """Arrow IPC streams whose columns are the topology's fields."""

    def __init__(self, topology: Topology, users: list[str]) -> None:
        source = topology.input
        self._names = [str(path[0]) for path in (*source.id_fields, source.time, source.value)]
        parts = zip(*_in_parts(users, len(source.parts)), strict=True)
        self._users = [pa.array(part, pa.string()) for part in parts]
        self._categories = topology.privacy.category_names
        # where numbers are of another unit, a column has its own
        self._times = pa.int64() if source.time_unit is None else pa.timestamp("ms")

    def write(self, partition: int, events: SlotEvents, rows: NDArray[np.intp]) -> Iterator[Raw]:
        times, values = events.times[rows], _named(events.values[rows], self._categories)
        columns = [
            *(part.take(pa.array(events.who[rows])) for part in self._users),
            pa.array(times).cast(self._times),
            lists(values),
        ]
        yield Raw(
            partition, int(times.max()), write_batch("event", self._names, columns), len(rows)
        )


class _Singles:
    """One JSON object an event, as its producer would write it."""

    def __init__(self, topology: Topology, users: list[str]) -> None:
        source = topology.input
        self._paths = (*source.id_fields, source.time, source.value)
        self._ids = named_ids(users, len(source.parts))
        self._users = _in_parts(users, len(source.parts))
        self._categories = topology.privacy.category_names
        self._events = source.events
        self._unit = None if source.time_unit is None else UNITS[source.time_unit]

    def write(self, partition: int, events: SlotEvents, rows: NDArray[np.intp]) -> Iterator[Raw]:
        times, values = (
            events.times[rows].tolist(),
            _named(events.values[rows], self._categories).tolist(),
        )
        for who, time, value in zip(events.who[rows].tolist(), times, values, strict=True):
            message = self._message(*self._users[who], in_unit(time, self._unit), value)
            yield Raw(
                partition,
                time,
                json.dumps(message, separators=(",", ":")).encode(),
                1,
                self._ids[who].encode(),
            )

    def _message(self, *leaves: Any) -> Any:
        """One event; where a message is an array of them, one of one."""
        event: Any = {}
        around: Any = {}
        for path, leaf in zip(self._paths, leaves, strict=True):
            if path[0] == OUTER:
                around = _placed(around, path[1:], leaf)
            else:
                event = _placed(event, path, leaf)
        return event if self._events is None else _placed(around, self._events, [event])


def _in_parts(users: list[str], parts: int) -> list[list[str]]:
    """What the fields of each user's id say; 0 parts: there is one field."""
    return [split_id(user, parts) if parts else [user] for user in users]


def _named(values: NDArray[Any], categories: tuple[str, ...] | None) -> NDArray[Any]:
    """Category numbers by name, where the topology has names."""
    return (
        values
        if categories is None or values.dtype == object
        else np.array(categories, object)[values]
    )


def _placed(record: Any, path: Path, leaf: Any) -> Any:
    """``record`` with ``leaf`` at ``path``: objects for names, lists (filled up with null) for
    positions.
    """
    if not path:
        return leaf
    step, rest = path[0], path[1:]
    if isinstance(step, int):
        items = list(record) if isinstance(record, list) else []
        items += [None] * (step + 1 - len(items))
        items[step] = _placed(items[step], rest, leaf)
        return items
    fields = dict(record) if isinstance(record, dict) else {}
    fields[step] = _placed(fields.get(step), rest, leaf)
    return fields
