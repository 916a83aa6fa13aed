"""Our own records as bytes: one as JSON, a batch as an Arrow IPC stream.

==================  =====================================================================================================================
bytes               meaning
==================  =====================================================================================================================
``{"ldp_kafka":1,`` one record as JSON; ``"type"`` says which: event, report, request, release, tick, partial, header
``ff ff ff ff``     a batch as an Arrow IPC stream; the schema's metadata hold ``ldp_kafka`` (version), ``type``, and what the rows share
==================  =====================================================================================================================

A report batch has the columns ``id`` (16 bytes), ``slot`` (int64), ``index`` (int32: the mechanism's output in units of ``scale``) and, only for releases per user, ``series``
(16 bytes); its metadata: fingerprint, scale, phase, offset (of the raw message), chunk, closed. Decoding is strict: `BadRecord` with a reason, never a value.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ldp_kafka.errors import BadRecord
from ldp_kafka.randomness import Digests
from ldp_kafka.records import Event, Partial, Release, Report, Reports, Request, Tick, hexadecimal

__all__ = ["MAX_BYTES", "VERSION", "Header", "decode_any", "decode_json", "encode_json", "header", "parse_json", "read_batch", "read_reports", "write_reports"]

VERSION = 1
MAX_BYTES = 2**21  # of one message: twice what a broker takes by default
MAX_ROWS = 2**20
ARROW = b"\xff\xff\xff\xff"  # how an Arrow IPC stream begins
MARK = "ldp_kafka"

SINGLE = {"event": Event, "request": Request, "release": Release, "tick": Tick, "partial": Partial}
NAMES = {kind: name for name, kind in SINGLE.items()}
Header = Mapping[str, Any]


def _refuse(_: str) -> Any:
    raise BadRecord("not_finite")


_decoder = json.JSONDecoder(parse_constant=_refuse)


def parse_json(value: bytes) -> Any:
    """JSON, strictly: UTF-8, no NaN or infinities. BadRecord otherwise."""
    try:
        return _decoder.decode(value.decode())
    except BadRecord:
        raise
    except (ValueError, RecursionError):  # UnicodeDecodeError and JSONDecodeError are ValueErrors; their texts show the data
        raise BadRecord("not_json") from None


def _dump(record: Mapping[str, Any]) -> bytes:
    return json.dumps(record, separators=(",", ":"), allow_nan=False).encode()


def header(topology: str, fingerprint: str, layout: str) -> bytes:
    """The record at offset 0 of a topic of ours."""
    return _dump({MARK: VERSION, "type": "header", "topology": topology, "fingerprint": fingerprint, "layout": layout})


def encode_json(record: Event | Report | Request | Release | Tick | Partial | Reports) -> bytes:
    """One record; a `Reports` must have one row."""
    if isinstance(record, Reports):
        scale = {"scale": record.scale} if record.scale != 1 else {}
        link = {} if record.series is None else {"series": hexadecimal(record.series)[0]}
        row = {"id": hexadecimal(record.ids)[0], "slot": int(record.slots[0]), "phase": record.phase, "index": int(record.values[0]), **scale, **link}
        return _dump({MARK: VERSION, "type": "report", "fingerprint": record.fingerprint, **row, "offset": record.offset, "chunk": record.chunk, "closed": record.closed})
    if isinstance(record, Report):
        return encode_json(reports_of([record]))
    body = {name: value for name, value in asdict(record).items() if not (isinstance(record, Release) and name in ("user", "reliability") and value is None)}
    return _dump({MARK: VERSION, "type": NAMES[type(record)], **body})


def decode_json(record: Any) -> Event | Reports | Request | Release | Tick | Partial | None:
    """The record in a parsed JSON object of ours; None for a header record. BadRecord otherwise."""
    if not isinstance(record, dict) or MARK not in record:
        raise BadRecord("not_a_record")
    body = dict(record)
    if body.pop(MARK) != VERSION:
        raise BadRecord("version")
    kind = body.pop("type", None)
    if kind == "header":
        return None
    try:
        if kind == "report":
            return _report(body)
        made = SINGLE[kind](**body)
    except (KeyError, TypeError, ValueError, OverflowError):  # their texts may show the data
        raise BadRecord("wrong_fields") from None
    if isinstance(made, Tick) and not (type(made.time) is int and 0 <= made.time < 2**53):
        raise BadRecord("time")
    if isinstance(made, Partial):
        numbers = (made.source, made.slot, *(made.support or ()), *(() if made.first is None else (made.first,)))
        if not all(type(number) is int for number in numbers):
            raise BadRecord("wrong_fields")
        return Partial(made.source, made.slot, made.first, None if made.support is None else tuple(made.support))
    return made


def _report(body: dict[str, Any]) -> Reports:
    index, slot, scale = body["index"], body["slot"], body.get("scale", 1)
    if not (type(index) is int and type(slot) is int and abs(index) < 2**31 and 0 <= slot < 2**53):
        raise BadRecord("wrong_fields")
    ids = _digest(body["id"])
    series = _digest(body["series"]) if body.get("series") is not None else None
    shared = _shared(body, scale)
    return Reports(ids, np.array([slot]), np.array([index]), series=series, **shared)


def _shared(source: Mapping[str, Any], scale: Any) -> dict[str, Any]:
    """What all rows of a report batch have in common, checked."""
    fingerprint, closed = source["fingerprint"], source["closed"]
    offset, chunk, phase = source["offset"], source["chunk"], source["phase"]
    if not (isinstance(fingerprint, str) and len(fingerprint) == 32 and isinstance(scale, int | float) and scale > 0):
        raise BadRecord("wrong_fields")
    if not all(type(number) is int for number in (offset, chunk, phase)) or not (closed is None or type(closed) is int):
        raise BadRecord("wrong_fields")
    return {"fingerprint": fingerprint, "scale": scale, "offset": offset, "chunk": chunk, "phase": phase, "closed": closed}


def _digest(text: Any) -> Digests:
    raw = bytes.fromhex(text)
    if len(raw) != 16:
        raise BadRecord("wrong_fields")
    return np.frombuffer(raw, np.uint64).reshape(1, 2)


def reports_of(records: list[Report]) -> Reports:
    """Single reports of one fingerprint and phase as a batch without a source."""
    first = records[0]
    if any((r.fingerprint, r.phase, r.series is None) != (first.fingerprint, first.phase, first.series is None) for r in records):
        raise ValueError("the reports of a batch must share fingerprint, phase and whether they have a series")
    values = [r.value for r in records]
    bits = next((k for k in range(53) if all(float(value) * 2**k == int(float(value) * 2**k) for value in values)), None)
    if bits is None:
        raise ValueError("a report's value must be a whole multiple of a power of two")
    ids = np.frombuffer(b"".join(bytes.fromhex(r.id) for r in records), np.uint64).reshape(-1, 2)
    series = None if first.series is None else np.frombuffer(b"".join(bytes.fromhex(str(r.series)) for r in records), np.uint64).reshape(-1, 2)
    index = np.array([int(float(value) * 2**bits) for value in values])
    scale = 2.0**-bits if bits else 1
    return Reports(ids, np.array([r.slot for r in records]), index, scale, first.fingerprint, -1, None, phase=first.phase, series=series)


def write_reports(batch: Reports) -> bytes:
    """A report batch as bytes: JSON for one row, else Arrow."""
    if len(batch) == 1:
        return encode_json(batch)
    names, columns = ["id", "slot", "index"], [_binary(batch.ids), pa.array(batch.slots), pa.array(batch.values.astype(np.int32))]
    if batch.series is not None:
        names.append("series")
        columns.append(_binary(batch.series))
    shared = {"fingerprint": batch.fingerprint, "scale": batch.scale, "offset": batch.offset, "chunk": batch.chunk, "phase": batch.phase, "closed": batch.closed}
    return write_batch("report", names, columns, shared)


def write_batch(kind: str, names: list[str], columns: list[Any], shared: Mapping[str, Any] | None = None) -> bytes:
    """Columns as an Arrow IPC stream of one batch."""
    metadata = {MARK: str(VERSION), "type": kind, **({} if shared is None else {"shared": json.dumps(shared)})}
    rows = pa.RecordBatch.from_arrays(columns, names=names, metadata=metadata)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def read_batch(value: bytes) -> tuple[Any, Mapping[bytes, bytes]]:
    """The rows of an Arrow IPC stream as one `pyarrow.RecordBatch`, validated, and its schema's metadata. BadRecord otherwise."""
    try:
        with pa.ipc.open_stream(value) as reader:
            schema, batches, rows = reader.schema, [], 0
            for batch in reader:
                batch.validate(full=True)  # offsets and UTF-8 of a stranger's bytes
                rows += batch.num_rows
                if rows > MAX_ROWS:
                    raise BadRecord("too_large")
                batches.append(batch)
    except (pa.ArrowException, OSError, ValueError, EOFError) as error:
        if isinstance(error, BadRecord):
            raise
        raise BadRecord("not_arrow") from None
    if not batches:
        batches = [pa.RecordBatch.from_pylist([], schema)]
    whole = batches[0] if len(batches) == 1 else pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
    return whole, schema.metadata or {}


def kind_of(metadata: Mapping[bytes, bytes]) -> str | None:
    """The type that a batch's metadata name; None for a foreign batch. BadRecord for another version."""
    if MARK.encode() not in metadata:
        return None
    if metadata[MARK.encode()] != str(VERSION).encode():
        raise BadRecord("version")
    return metadata.get(b"type", b"").decode("ascii", "replace")


def read_reports(value: bytes) -> Reports | None:
    """A report batch from bytes; None for a header record. BadRecord for anything else."""
    check_size(value)
    if not value.startswith(ARROW):
        record = decode_json(parse_json(value))
        if record is None or isinstance(record, Reports):
            return record
        raise BadRecord("not_a_report")
    rows, metadata = read_batch(value)
    if kind_of(metadata) != "report":
        raise BadRecord("not_a_report")
    try:
        shared = json.loads(metadata[b"shared"])
        checked = _shared(shared, shared["scale"])
        ids, slots, index = _rows(rows, "id", pa.binary(16)), _rows(rows, "slot", pa.int64()), _rows(rows, "index", pa.int32())
        series = _rows(rows, "series", pa.binary(16)) if "series" in rows.schema.names else None
    except (KeyError, ValueError, TypeError):
        raise BadRecord("wrong_fields") from None
    return Reports(ids, slots, index.astype(np.int64), series=series, **checked)


def _rows(rows: Any, name: str, kind: Any) -> NDArray[Any]:
    column = rows.column(name)
    if column.type != kind or column.null_count:
        raise BadRecord("wrong_fields")
    if kind == pa.binary(16):
        whole = np.frombuffer(column.buffers()[1], np.uint64).reshape(-1, 2)
        return whole[column.offset : column.offset + len(column)]
    found: NDArray[Any] = column.to_numpy()
    return found


def _binary(digests: Digests) -> Any:
    return pa.Array.from_buffers(pa.binary(16), len(digests), [None, pa.py_buffer(np.ascontiguousarray(digests))])


def check_size(value: bytes | None) -> None:
    """BadRecord for an empty or a huge message, before anything is parsed."""
    if not value:
        raise BadRecord("empty")
    if len(value) > MAX_BYTES:
        raise BadRecord("too_large")


def decode_any(value: bytes) -> list[Any]:
    """Single records of any message of ours; see `ldp_kafka.decode`."""
    check_size(value)
    if not value.startswith(ARROW):
        record = decode_json(parse_json(value))
        if isinstance(record, Reports):
            return list(record.singles())
        return [] if record is None else [record]
    rows, metadata = read_batch(value)
    kind = kind_of(metadata)
    if kind == "report":
        batch = read_reports(value)
        return [] if batch is None else list(batch.singles())
    if kind not in SINGLE:
        raise BadRecord("not_a_record")
    return [decode_json({MARK: VERSION, "type": kind, **{name: json.loads(cell) for name, cell in row.items()}}) if kind != "event" else Event(**row) for row in rows.to_pylist()]
