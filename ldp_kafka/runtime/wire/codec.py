"""`ldp_kafka.encode` and `ldp_kafka.decode`: records to bytes and back, for people and tools
outside the workers.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

import pyarrow as pa

from ldp_kafka.errors import BadRecord, Reason
from ldp_kafka.records import Event, Events, Record, Report, Reports
from ldp_kafka.runtime.wire.arrow import (
    ARROW,
    check_size,
    kind_of,
    lists,
    read_batch,
    texts,
    write_batch,
)
from ldp_kafka.runtime.wire.parsing import parse_json
from ldp_kafka.runtime.wire.records import (
    NAMES,
    SINGLE,
    decode_json,
    encode_json,
    event_of,
    single_of,
)
from ldp_kafka.runtime.wire.reports import read_reports, write_reports
from ldp_kafka.runtime.wire.single_reports import reports_of

__all__ = ["decode", "encode"]

# what Arrow says of what is no column
UNFIT = (pa.ArrowException, TypeError, ValueError, AttributeError, OverflowError)


def encode(records: Record | Events | Reports | Sequence[Record]) -> bytes:
    """One message for one record (JSON), or for several of one kind (Arrow IPC).

    Parameters
    ----------
    records : one record, a batch (`Events`, `Reports`), or a sequence of records of one kind

    Raises
    ------
    TypeError, ValueError : nothing to write, or records of several kinds

    Examples
    --------
    >>> from ldp_kafka import Event
    >>> encode(Event("m1", 1_700_000_000_000, 2.5))
    b'{"ldp_kafka":1,"type":"event","user":"m1","time":1700000000000,"value":2.5}'
    >>> len(decode(encode([Event("m1", 0, 1.0), Event("m2", 0, 2.0)])))
    2
    """
    if isinstance(records, Reports):
        return write_reports(records)
    if isinstance(records, Events):
        try:
            columns = [texts(records.users), pa.array(records.times), lists(records.values)]
        except UNFIT:  # its text shows the value
            raise ValueError(
                "the times and values of a batch of events must be arrays of numbers"
            ) from None
        return write_batch("event", ["user", "time", "value"], columns)
    if not isinstance(records, Sequence):
        return encode_json(records)
    kinds = {type(record) for record in records}
    if len(kinds) != 1:
        raise ValueError("a message holds at least one record, all of one kind")
    kind = kinds.pop()
    if len(records) == 1:
        return encode_json(records[0])
    if kind is Report:
        return write_reports(reports_of(list(records)))  # type: ignore[arg-type]
    rows = [asdict(record) for record in records]
    if kind is Event:
        try:
            columns = [pa.array([row[name] for row in rows]) for name in rows[0]]
        except UNFIT:  # its text shows the value
            raise ValueError(
                "the values of a batch of events must be of one kind: numbers, or texts"
            ) from None
        return write_batch("event", list(rows[0]), columns)
    return write_batch(
        NAMES[kind],
        list(rows[0]),
        [pa.array([json.dumps(row[name]) for row in rows]) for name in rows[0]],
    )


def decode(message: bytes) -> list[Record]:
    """The single records of a message, batches expanded; a header record gives an empty list.

    ==============================  ============================================================
    topic                           what its messages give
    ==============================  ============================================================
    ``.releases``                   `Release`
    ``.reports``                    `Report`, also of ``.device-reports``
    ``.requests``                   `Request`
    ``.partials``, ``.sums``        `Partial`, `Sums`: what the collector's agents tell each other
    ``.dead-letters``               `DeadLetter`, also of ``.collector.dead-letters``; its headers
                                    say the same, under Kafka Connect's names
    the raw topic                   `Event` where `encode` wrote it, `Tick`, `Request`; what your
                                    producers write has your own fields, which `decode` does not
                                    know
    ==============================  ============================================================

    Changelogs hold the workers' state, the edge's sealed under its key, and no records: ``ldp-kafka
    state inspect`` says what is in them.

    Parameters
    ----------
    message : the value of a Kafka message

    Raises
    ------
    BadRecord : not one of our messages, or of an unknown version; its ``reason`` is a code

    Examples
    --------
    >>> [letter] = decode(
    ...     b'{"ldp_kafka":1,"type":"dead_letter","topic":"meters.raw",'
    ...     b'"partition":0,"offset":7,"row":0,"reason":"user"}'
    ... )
    >>> letter.offset, letter.reason.meaning[:31]
    (7, 'the user is missing, empty, lon')
    """
    try:
        return _decoded(message)
    except BadRecord:
        raise
    except Exception:  # noqa: BLE001 - whose text may show a value
        raise BadRecord(Reason.WRONG_FIELDS) from None


def _decoded(message: bytes) -> list[Record]:
    check_size(message)
    if not message.startswith(ARROW):
        record = decode_json(parse_json(message))
        if isinstance(record, Reports):
            return list(record.singles())
        return [] if record is None else [record]
    rows, metadata = read_batch(message, 1)
    kind = kind_of(metadata)
    if kind == "report":
        batch = read_reports(message)
        return [] if batch is None else list(batch.singles())
    if kind not in SINGLE:
        raise BadRecord(Reason.NOT_A_RECORD)
    made: Any = SINGLE[kind]
    columns = {name: rows.column(at) for at, name in enumerate(rows.schema.names)}
    if len(columns) != rows.num_columns or columns.keys() != {field.name for field in fields(made)}:
        raise BadRecord(Reason.WRONG_FIELDS)
    fits = _plain if made is Event else pa.types.is_string
    if not all(fits(column.type) for column in columns.values()):
        raise BadRecord(Reason.WRONG_FIELDS)
    if made is Event:
        return [
            event_of(*cells)
            for cells in zip(
                *(columns[name].to_pylist() for name in ("user", "time", "value")), strict=True
            )
        ]
    return [
        single_of(
            made,
            {
                name: None if cell is None else parse_json(cell.encode())
                for name, cell in row.items()
            },
        )
        for row in rows.to_pylist()
    ]


def _plain(kind: Any) -> bool:
    """Text, numbers, or lists of these, as `encode` writes events."""
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        kind = kind.value_type
    return any(
        fits(kind) for fits in (pa.types.is_string, pa.types.is_integer, pa.types.is_floating)
    )
