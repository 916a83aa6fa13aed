"""Our own records as bytes: one as JSON, a batch as an Arrow IPC stream.

===================  ============================================================================
bytes                meaning
===================  ============================================================================
``{"ldp_kafka":1,``  one record as JSON; ``"type"`` says which: event, report, request, release,
                     tick, partial, header
``ff ff ff ff``      a batch as an Arrow IPC stream; the schema's metadata hold ``ldp_kafka``
                     (version), ``type``, and what the rows share
===================  ============================================================================

A report batch has the columns ``id`` (16 bytes), ``slot`` (int64), what the mechanism emitted, and,
only for releases per user, ``series`` (16 bytes). What it emitted is ``index`` (a whole number of
``scale``, or lists of so many for vectors; int32, or int64 where one does not fit) or ``bits``
(packed, of fixed length; hexadecimal in JSON). The metadata: fingerprint, scale, phase, offset (of
the raw message), chunk, closed. Decoding is strict: `BadRecord` with a reason, never a value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, fields
from math import inf
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ldp_kafka.errors import BadRecord
from ldp_kafka.randomness import Digests
from ldp_kafka.records import Event, Partial, Release, Report, Reports, Request, Tick, hexadecimal
from ldp_kafka.runtime.stages.sample import KEPT
from ldp_kafka.runtime.wire.arrow import (
    ARROW,
    MARK,
    VERSION,
    WIDEST,
    binary,
    bits_of,
    check_size,
    check_version,
    digests_of,
    kind_of,
    lists,
    numbers_of,
    read_batch,
    rows_of,
    write_batch,
)

__all__ = [
    "LATEST",
    "decode_any",
    "decode_json",
    "encode_json",
    "header",
    "header_of",
    "parse_json",
    "read_reports",
    "write_reports",
]

LATEST = 2**47  # milliseconds: the year 6429; no time, and no number of a slot, reaches it
LONGEST = 256  # bytes of a user id

SINGLE = {"event": Event, "request": Request, "release": Release, "tick": Tick, "partial": Partial}
NAMES = {kind: name for name, kind in SINGLE.items()}
_SHARED = {"fingerprint", "scale", "offset", "chunk", "phase", "closed"}
_ROW = _SHARED | {"id", "slot", "series"}
_HEX = re.compile(r"[0-9a-f]{32}")
_BITS = re.compile(r"(?:[0-9a-f]{2}){1,131072}")


def _refuse(_: str) -> Any:
    raise BadRecord("not_finite")


_decoder = json.JSONDecoder(parse_constant=_refuse)


def parse_json(value: bytes) -> Any:
    """JSON, strictly: UTF-8, no NaN or infinities. BadRecord otherwise."""
    try:
        return _decoder.decode(value.decode())
    except BadRecord:
        raise
    except (
        ValueError,
        RecursionError,
    ):  # UnicodeDecodeError and JSONDecodeError are ValueErrors; their texts show the data
        raise BadRecord("not_json") from None


def _dump(record: Mapping[str, Any]) -> bytes:
    return json.dumps(record, separators=(",", ":"), allow_nan=False).encode()


def header(topology: str, fingerprint: str, layout: str) -> bytes:
    """The record at offset 0 of a topic of ours."""
    return _dump(
        {
            MARK: VERSION,
            "type": "header",
            "topology": topology,
            "fingerprint": fingerprint,
            "layout": layout,
        }
    )


def header_of(value: bytes) -> Mapping[str, Any] | None:
    """What a header record says; None where this is none."""
    try:
        record = parse_json(value)
    except BadRecord:
        return None
    is_one = isinstance(record, dict) and MARK in record and record.get("type") == "header"
    return record if is_one else None


def encode_json(record: Event | Report | Request | Release | Tick | Partial | Reports) -> bytes:
    """One record; a `Reports` must have one row."""
    if isinstance(record, Reports):
        scale = {"scale": record.scale} if record.scale != 1 else {}
        link = {} if record.series is None else {"series": hexadecimal(record.series)[0]}
        emitted = (
            {"bits": record.values[0].tobytes().hex()}
            if record.values.dtype == np.uint8
            else {"index": record.values[0].tolist()}
        )
        row = {
            "id": hexadecimal(record.ids)[0],
            "slot": int(record.slots[0]),
            "phase": record.phase,
            **emitted,
            **scale,
            **link,
        }
        return _dump(
            {
                MARK: VERSION,
                "type": "report",
                "fingerprint": record.fingerprint,
                **row,
                "offset": record.offset,
                "chunk": record.chunk,
                "closed": record.closed,
            }
        )
    if isinstance(record, Report):
        return encode_json(reports_of([record]))
    body = {
        name: value
        for name, value in asdict(record).items()
        if not (isinstance(record, Release) and name in ("user", "reliability") and value is None)
    }
    return _dump({MARK: VERSION, "type": NAMES[type(record)], **body})


def decode_json(record: Any) -> Event | Reports | Request | Release | Tick | Partial | None:
    """The record in a parsed JSON object of ours; None for a header record. BadRecord otherwise."""
    if not isinstance(record, dict) or MARK not in record:
        raise BadRecord("not_a_record")
    body = dict(record)
    check_version(body.pop(MARK))
    kind = body.pop("type", None)
    if kind == "header":
        return None
    if kind == "report":
        return _report(body)
    made = SINGLE.get(kind) if isinstance(kind, str) else None
    if made is None:
        raise BadRecord("wrong_fields")
    return _single(made, body)


def _single(kind: Any, body: Mapping[str, Any]) -> Event | Request | Release | Tick | Partial:
    """The record of that kind with these fields and no others, their types checked."""
    needed = {field.name for field in fields(kind)}
    if not needed - {"user", "reliability"} <= set(body) <= needed or (
        kind is Event and "user" not in body
    ):
        raise BadRecord("wrong_fields")
    if kind is Event:
        return _event(body["user"], body["time"], body["value"])
    made: Any = kind(**body)
    if kind is Tick:
        if not _whole(made.time, 0, LATEST):
            raise BadRecord("time")
    elif kind is Partial:
        support, sample = made.support, made.sample
        numbers = [
            made.source,
            made.slot,
            *(support if isinstance(support, list) else ()),
            *(() if made.first is None else (made.first,)),
        ]
        if not (all(map(_whole, numbers)) and (support is None or isinstance(support, list))):
            raise BadRecord("wrong_fields")
        if not (
            isinstance(sample, list)
            and len(sample) <= KEPT
            and all(type(name) is str and _HEX.fullmatch(name) for name in sample)
        ):
            raise BadRecord("wrong_fields")
        return Partial(
            made.source,
            made.slot,
            made.first,
            None if support is None else tuple(support),
            tuple(sample),
        )
    elif kind is Request:
        if not (
            type(made.id) is str
            and all(map(_whole, (made.slot, made.phase, made.epsilon, made.deadline)))
        ):
            raise BadRecord("wrong_fields")
    else:
        texts = (
            made.topology,
            made.start,
            made.end,
            made.statistic,
            made.strategy,
            "" if made.user is None else made.user,
        )
        numbers = [made.value, made.standard_error, made.confidence_interval, made.reliability]
        if not (
            all(type(text) is str for text in texts)
            and all(map(_numeric, numbers))
            and _whole(made.slot)
            and _whole(made.reports, 0)
            and type(made.guarantee) is dict
        ):
            raise BadRecord("wrong_fields")
    checked: Request | Release | Tick = made
    return checked


def _event(user: Any, time: Any, value: Any) -> Event:
    check_user(user)
    if not _whole(time, 0, LATEST):
        raise BadRecord("time")
    for each in value if type(value) is list and value else [value]:
        if type(each) is float and not -inf < each < inf:
            raise BadRecord("not_finite")
        if not (type(each) is float or (type(each) is str and each is value) or _whole(each)):
            raise BadRecord("value")
    return Event(user, time, tuple(value) if type(value) is list else value)


def check_user(found: Any) -> None:
    """BadRecord unless it is text of 1 to 256 bytes."""
    try:
        if not (type(found) is str and 0 < len(found.encode()) <= LONGEST):
            raise BadRecord("user")
    except UnicodeEncodeError:  # a lone surrogate: JSON can say it, UTF-8 cannot
        raise BadRecord("user") from None


def _whole(found: Any, low: int = -(2**62), high: int = 2**62) -> bool:
    return type(found) is int and low <= found < high


def _numeric(found: Any, depth: int = 3) -> bool:
    """Whether it is nothing, a finite number, or a list of such."""
    if type(found) is list:
        return depth > 0 and all(_numeric(each, depth - 1) for each in found)
    return found is None or (type(found) in (int, float) and -inf < found < inf)


def _report(body: dict[str, Any]) -> Reports:
    body = {"scale": 1, "series": None, **body}
    if body.keys() - _ROW not in ({"index"}, {"bits"}) or not body.keys() >= _ROW:
        raise BadRecord("wrong_fields")
    slot, series = body["slot"], body["series"]
    if not _whole(slot, 0, LATEST):
        raise BadRecord("wrong_fields")
    values: NDArray[Any]
    if "index" in body:
        index = body["index"]
        if not (
            _whole(index)
            or (type(index) is list and 1 <= len(index) <= WIDEST and all(map(_whole, index)))
        ):
            raise BadRecord("wrong_fields")
        values = np.array([index])
    else:
        if type(body["bits"]) is not str or not _BITS.fullmatch(body["bits"]):
            raise BadRecord("wrong_fields")
        values = np.frombuffer(bytes.fromhex(body["bits"]), np.uint8).reshape(1, -1)
    shared = _shared({name: body[name] for name in _SHARED})
    return Reports(
        _digest(body["id"]),
        np.array([slot]),
        values,
        series=None if series is None else _digest(series),
        **shared,
    )


def _shared(found: Any) -> dict[str, Any]:
    """What all rows of a report batch have in common, checked."""
    if not isinstance(found, dict) or found.keys() != _SHARED:
        raise BadRecord("wrong_fields")
    fingerprint, scale, closed = found["fingerprint"], found["scale"], found["closed"]
    if not (
        type(fingerprint) is str
        and _HEX.fullmatch(fingerprint)
        and type(scale) in (int, float)
        and 2**-64 <= scale <= 2**64
    ):
        raise BadRecord("wrong_fields")
    if not (
        _whole(found["offset"], -1)
        and _whole(found["chunk"], 0)
        and _whole(found["phase"], 0, 2**16)
        and (closed is None or _whole(closed))
    ):
        raise BadRecord("wrong_fields")
    return dict(found)


def _digest(text: Any) -> Digests:
    if type(text) is not str or not _HEX.fullmatch(text):
        raise BadRecord("wrong_fields")
    return np.frombuffer(bytes.fromhex(text), np.uint64).reshape(1, 2)


def reports_of(records: list[Report]) -> Reports:
    """Single reports of one fingerprint and phase as a batch without a source."""
    first = records[0]
    if any(
        (r.fingerprint, r.phase, r.series is None)
        != (first.fingerprint, first.phase, first.series is None)
        for r in records
    ):
        raise ValueError(
            "the reports of a batch must share fingerprint, phase and whether they have a series"
        )
    found = [r.value for r in records]
    ids = np.concatenate([_digest(r.id) for r in records])
    series = None if first.series is None else np.concatenate([_digest(r.series) for r in records])
    slots = np.array([r.slot for r in records])
    if any(isinstance(value, bytes) for value in found):
        packed = [value for value in found if isinstance(value, bytes)]
        if (
            len(packed) != len(found)
            or len({len(value) for value in packed}) != 1
            or not 1 <= len(packed[0]) <= WIDEST
        ):
            raise ValueError("packed reports must all have the same number of bytes")
        bits = np.frombuffer(b"".join(packed), np.uint8).reshape(len(packed), -1)
        return Reports(
            ids, slots, bits, 1, first.fingerprint, -1, None, phase=first.phase, series=series
        )
    vectors = [value for value in found if isinstance(value, tuple)]
    if vectors and (
        len(vectors) < len(found)
        or len({len(vector) for vector in vectors}) != 1
        or not 1 <= len(vectors[0]) <= WIDEST
    ):
        raise ValueError("reports of vectors must all have the same number of coordinates")
    values = [number for vector in vectors for number in vector] or [
        value for value in found if not isinstance(value, bytes | tuple)
    ]
    if not all(-inf < value < inf for value in values):
        raise ValueError("a report's value must be finite")
    power = next(
        (
            k
            for k in range(53)
            if all(float(value) * 2**k == int(float(value) * 2**k) for value in values)
        ),
        None,
    )
    if power is None:
        raise ValueError("a report's value must be a whole multiple of a power of two")
    index = [int(float(value) * 2**power) for value in values]
    if not all(-(2**62) <= each < 2**62 for each in index):
        raise ValueError("a report's value must be a 62-bit number of steps of its scale")
    scale = 2.0**-power if power else 1
    indices = np.array(index).reshape((len(found), -1)) if vectors else np.array(index)
    return Reports(
        ids, slots, indices, scale, first.fingerprint, -1, None, phase=first.phase, series=series
    )


def write_reports(batch: Reports) -> bytes:
    """A report batch as bytes: JSON for one row, else Arrow."""
    if len(batch) == 1:
        return encode_json(batch)
    names, columns = ["id", "slot"], [binary(batch.ids), pa.array(batch.slots)]
    if batch.values.dtype == np.uint8:
        names.append("bits")
        columns.append(binary(batch.values))
    else:
        narrow = batch.values.astype(np.int32)
        names.append("index")
        columns.append(lists(narrow if (narrow == batch.values).all() else batch.values))
    if batch.series is not None:
        names.append("series")
        columns.append(binary(batch.series))
    shared = {
        "fingerprint": batch.fingerprint,
        "scale": batch.scale,
        "offset": batch.offset,
        "chunk": batch.chunk,
        "phase": batch.phase,
        "closed": batch.closed,
    }
    return write_batch("report", names, columns, shared)


def read_reports(value: bytes) -> Reports | None:
    """A report batch from bytes; None for a header record. BadRecord for anything else."""
    check_size(value)
    if not value.startswith(ARROW):
        record = decode_json(parse_json(value))
        if record is None or isinstance(record, Reports):
            return record
        raise BadRecord("not_a_report")
    rows, metadata = read_batch(value, 1)  # a stream cut off before its batch is no empty one
    if kind_of(metadata) != "report":
        raise BadRecord("not_a_report")
    try:
        names = rows.schema.names
        kind = "bits" if "bits" in names else "index"
        if sorted(names) not in (
            sorted(["id", kind, "slot"]),
            sorted(["id", kind, "series", "slot"]),
        ):
            raise BadRecord("wrong_fields")
        checked = _shared(parse_json(metadata[b"shared"]))
        ids, slots, values = (
            digests_of(rows, "id"),
            rows_of(rows, "slot", pa.int64()),
            bits_of(rows) if kind == "bits" else numbers_of(rows, "index", pa.int32(), pa.int64()),
        )
        series = digests_of(rows, "series") if "series" in names else None
    except (KeyError, ValueError, TypeError):
        raise BadRecord("wrong_fields") from None
    if len(slots) and not (
        slots.min() >= 0
        and slots.max() < LATEST
        and int(values.min()) >= -(2**62)
        and int(values.max()) < 2**62
    ):
        raise BadRecord("wrong_fields")
    return Reports(
        ids, slots, values if kind == "bits" else values.astype(np.int64), series=series, **checked
    )


def decode_any(value: bytes) -> list[Any]:
    """Single records of any message of ours; see `ldp_kafka.decode`."""
    check_size(value)
    if not value.startswith(ARROW):
        record = decode_json(parse_json(value))
        if isinstance(record, Reports):
            return list(record.singles())
        return [] if record is None else [record]
    rows, metadata = read_batch(value, 1)
    kind = kind_of(metadata)
    if kind == "report":
        batch = read_reports(value)
        return [] if batch is None else list(batch.singles())
    if kind not in SINGLE:
        raise BadRecord("not_a_record")
    made: Any = SINGLE[kind]
    columns = {name: rows.column(at) for at, name in enumerate(rows.schema.names)}
    if len(columns) != rows.num_columns or columns.keys() != {field.name for field in fields(made)}:
        raise BadRecord("wrong_fields")
    plain = (
        (
            pa.types.is_string,
            pa.types.is_integer,
            pa.types.is_float64,
            pa.types.is_list,
            pa.types.is_fixed_size_list,
        )
        if made is Event
        else (pa.types.is_string,)
    )
    if not all(any(fits(column.type) for fits in plain) for column in columns.values()):
        raise BadRecord("wrong_fields")
    if made is Event:
        return [
            _event(*cells)
            for cells in zip(
                *(columns[name].to_pylist() for name in ("user", "time", "value")), strict=True
            )
        ]
    return [
        _single(
            made,
            {
                name: None if cell is None else parse_json(cell.encode())
                for name, cell in row.items()
            },
        )
        for row in rows.to_pylist()
    ]
