"""Batches of columns as Arrow IPC streams, read strictly: a stranger may have written them."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ldp_kafka.errors import BadRecord, Reason
from ldp_kafka.randomness import Digests, Ids

__all__ = [
    "ARROW",
    "MARK",
    "MAX_BYTES",
    "VERSION",
    "WIDEST",
    "binary",
    "bits_of",
    "check_size",
    "check_version",
    "digests_of",
    "kind_of",
    "lists",
    "numbers_of",
    "read_batch",
    "rows_of",
    "texts",
    "write_batch",
]

VERSION = 1
MAX_BYTES = 2**21  # of one message: twice what a broker takes by default
MAX_ROWS = 2**20
WIDEST = 2**17  # bytes of packed bits
ARROW = b"\xff\xff\xff\xff"  # how an Arrow IPC stream begins
_END = ARROW + bytes(4)  # ... and ends
MARK = "ldp_kafka"


def check_version(found: Any) -> None:
    """BadRecord unless it is ours; true and 1.0 are not 1."""
    if type(found) is not int or found != VERSION:
        raise BadRecord(Reason.VERSION)


def check_size(value: bytes | None) -> None:
    """BadRecord for an empty or a huge message, before anything is parsed."""
    if not value:
        raise BadRecord(Reason.EMPTY)
    if len(value) > MAX_BYTES:
        raise BadRecord(Reason.TOO_LARGE)


def write_batch(
    kind: str, names: list[str], columns: list[Any], shared: Mapping[str, Any] | None = None
) -> bytes:
    """Columns, none of them a dictionary, as an Arrow IPC stream of one batch."""
    metadata = {
        MARK: str(VERSION),
        "type": kind,
        **({} if shared is None else {"shared": json.dumps(shared)}),
    }
    rows = pa.RecordBatch.from_arrays(columns, names=names, metadata=metadata)
    # what a stream writer writes, which takes longer to make than this
    return b"".join((rows.schema.serialize(), rows.serialize(), _END))


def read_batch(value: bytes, least: int = 0) -> tuple[Any, Mapping[bytes, bytes]]:
    """The rows of an Arrow IPC stream of at least so many batches as one `pyarrow.RecordBatch`,
    validated, and its schema's metadata. BadRecord otherwise.
    """
    try:
        _refuse_compressed(value)
        with pa.ipc.open_stream(value) as reader:
            schema, batches, rows = reader.schema, [], 0
            for batch in reader:
                rows += batch.num_rows
                if rows > MAX_ROWS:
                    raise BadRecord(Reason.TOO_LARGE)
                batch.validate(full=True)  # offsets and UTF-8 of a stranger's bytes
                batches.append(batch)
        # names are decoded here: they may be no UTF-8
        if not (len(batches) >= least and len(schema.names) == len(schema)):
            raise BadRecord(Reason.NOT_ARROW)
        if len(batches) != 1:
            table = pa.Table.from_batches(batches, schema).combine_chunks()
            batches = table.to_batches() or [
                pa.RecordBatch.from_arrays(
                    [pa.array([], field.type) for field in schema], schema=schema
                )
            ]
    except (pa.ArrowException, OSError, ValueError, EOFError, struct.error) as error:
        if isinstance(error, BadRecord):
            raise
        raise BadRecord(Reason.NOT_ARROW) from None
    return batches[0], schema.metadata or {}


def _refuse_compressed(value: bytes) -> None:
    """BadRecord for a compressed body: its true size is the sender's word only, and 2 MiB of it can
    be 60 GiB. Kafka's own compression does as well.
    """
    for message in pa.ipc.MessageReader.open_stream(value):
        if message.type == "schema":
            continue
        flat = message.metadata.to_pybytes()
        header = _follow(flat, _follow(flat, 0, None), 2)  # Message.header
        if message.type == "dictionary":
            header = _follow(flat, header, 1)  # DictionaryBatch.data
        if _follow(flat, header, 3):  # RecordBatch.compression
            raise BadRecord(Reason.NOT_ARROW)


def _follow(flat: bytes, table: int, field: int | None) -> int:
    """Where a table's field points to in a flatbuffer, 0 where it is absent; with None, where the
    root is.
    """
    at = table
    if field is not None:
        entries = table - int(struct.unpack_from("<i", flat, table)[0])
        size, slot = int(struct.unpack_from("<H", flat, entries)[0]), 4 + 2 * field
        step = int(struct.unpack_from("<H", flat, entries + slot)[0]) if slot < size else 0
        if not step:
            return 0
        at = table + step
    return at + int(struct.unpack_from("<I", flat, at)[0])


def kind_of(metadata: Mapping[bytes, bytes]) -> str | None:
    """The type that a batch's metadata name; None for a foreign batch. BadRecord for another
    version.
    """
    if MARK.encode() not in metadata:
        return None
    if metadata[MARK.encode()] != str(VERSION).encode():
        raise BadRecord(Reason.VERSION)
    return metadata.get(b"type", b"").decode("ascii", "replace")


def rows_of(rows: Any, name: str, *kinds: Any) -> NDArray[Any]:
    """A column of one of these types, without nulls. BadRecord otherwise."""
    column = rows.column(name)
    if column.type not in kinds or column.null_count:
        raise BadRecord(Reason.WRONG_FIELDS)
    found: NDArray[Any] = column.to_numpy()
    return found


def numbers_of(rows: Any, name: str, *kinds: Any) -> NDArray[Any]:
    """A column of numbers of one of these types (n,), or of lists of so many of them (n, k),
    without nulls. BadRecord otherwise.
    """
    column = rows.column(name)
    if not pa.types.is_fixed_size_list(column.type):
        return rows_of(rows, name, *kinds)
    flat = column.flatten()
    if (
        column.null_count
        or flat.null_count
        or flat.type not in kinds
        or not 1 <= column.type.list_size <= WIDEST
    ):
        raise BadRecord(Reason.WRONG_FIELDS)
    found: NDArray[Any] = flat.to_numpy().reshape(len(column), column.type.list_size)
    return found


def texts(ids: Ids) -> Any:
    """User ids as a column of texts. `pyarrow.ArrowInvalid` where they are no UTF-8."""
    start, end = int(ids.offsets[0]), int(ids.offsets[-1])
    buffers = (np.asarray(ids.offsets - start, np.int32), np.ascontiguousarray(ids.data[start:end]))
    column = pa.StringArray.from_buffers(len(ids), *map(pa.py_buffer, buffers))
    column.validate(full=True)
    return column


def lists(values: NDArray[Any]) -> Any:
    """Values (n,) as a column of numbers, or (n, k) as one of lists of k."""
    if values.ndim == 1:
        return pa.array(values)
    return pa.FixedSizeListArray.from_arrays(
        pa.array(np.ascontiguousarray(values).reshape(-1)), values.shape[1]
    )


def bits_of(rows: Any, name: str = "bits") -> NDArray[np.uint8]:
    """A column of fixed-size binaries as (n, bytes). BadRecord otherwise."""
    column = rows.column(name)
    if not (
        pa.types.is_fixed_size_binary(column.type)
        and 1 <= column.type.byte_width <= WIDEST
        and not column.null_count
    ):
        raise BadRecord(Reason.WRONG_FIELDS)
    width = column.type.byte_width
    if not len(column):
        return np.empty((0, width), np.uint8)
    return np.frombuffer(
        column.buffers()[1], np.uint8, width * len(column), width * column.offset
    ).reshape(-1, width)


def digests_of(rows: Any, name: str) -> Digests:
    """A column of 16 bytes each as (n, 2). BadRecord for another type."""
    if rows.column(name).type != pa.binary(16):
        raise BadRecord(Reason.WRONG_FIELDS)
    return bits_of(rows, name).view(np.uint64)


def binary(rows: NDArray[Any]) -> Any:
    """Rows (n, k) as a column of fixed-size binaries, without a copy."""
    flat = np.ascontiguousarray(rows)
    return pa.Array.from_buffers(
        pa.binary(flat.shape[1] * flat.itemsize), len(flat), [None, pa.py_buffer(flat)]
    )
