"""Report batches: one row as JSON, several as an Arrow IPC stream."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ldp_kafka.errors import BadRecord, Reason
from ldp_kafka.records import Reports
from ldp_kafka.runtime.wire.arrow import (
    ARROW,
    binary,
    bits_of,
    check_size,
    digests_of,
    kind_of,
    lists,
    numbers_of,
    read_batch,
    rows_of,
    write_batch,
)
from ldp_kafka.runtime.wire.parsing import LATEST, parse_json
from ldp_kafka.runtime.wire.records import decode_json, encode_json
from ldp_kafka.runtime.wire.single_reports import current, of_phases, shared

__all__ = ["numbered_by_offset", "read_reports", "write_reports"]


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
    common = {
        "fingerprint": batch.fingerprint,
        "scale": batch.scale,
        "bound": batch.bound,
        "chunk": batch.chunk,
        "phase": batch.phase,
        "closed": batch.closed,
        **of_phases(batch.cost, batch.settled),
    }
    return write_batch("report", names, columns, common)


def numbered_by_offset(value: bytes) -> bool:
    """Whether an older version wrote this report batch, whose number is the offset of a message."""
    if b'"offset"' not in value:
        return False
    if not value.startswith(ARROW):
        return "offset" in parse_json(value)
    return "offset" in parse_json(read_batch(value, 1)[1][b"shared"])


def read_reports(value: bytes) -> Reports | None:
    """A report batch from bytes; None for a header record. BadRecord for anything else."""
    check_size(value)
    if not value.startswith(ARROW):
        record = decode_json(parse_json(value))
        if record is None or isinstance(record, Reports):
            return record
        raise BadRecord(Reason.NOT_A_REPORT)
    rows, metadata = read_batch(value, 1)  # a stream cut off before its batch is no empty one
    if kind_of(metadata) != "report":
        raise BadRecord(Reason.NOT_A_REPORT)
    try:
        names = rows.schema.names
        kind = "bits" if "bits" in names else "index"
        if sorted(names) not in (
            sorted(["id", kind, "slot"]),
            sorted(["id", kind, "series", "slot"]),
        ):
            raise BadRecord(Reason.WRONG_FIELDS)
        checked = shared(current(parse_json(metadata[b"shared"])))
        ids, slots, values = (
            digests_of(rows, "id"),
            rows_of(rows, "slot", pa.int64()),
            bits_of(rows) if kind == "bits" else numbers_of(rows, "index", pa.int32(), pa.int64()),
        )
        series = digests_of(rows, "series") if "series" in names else None
    except (KeyError, ValueError, TypeError):
        raise BadRecord(Reason.WRONG_FIELDS) from None
    if len(slots) and not (
        slots.min() >= 0
        and slots.max() < LATEST
        and int(values.min()) >= -(2**62)
        and int(values.max()) < 2**62
    ):
        raise BadRecord(Reason.WRONG_FIELDS)
    return Reports(
        ids, slots, values if kind == "bits" else values.astype(np.int64), series=series, **checked
    )
