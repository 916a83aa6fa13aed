"""One shard of the edge's users as bytes: an Arrow IPC stream whose end is compressed.

Compressed are the ledger's columns, which follow from the reports: when a user was last heard, and
what it spent when. A method's own columns may hold values. They come first and are written as they
are: how well they could be compressed would tell how alike users' values are, under any seal. So
are reports that wait: they are drawn already, but whose they are is the edge's own.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ldp_kafka.accounting import Field
from ldp_kafka.errors import StateError
from ldp_kafka.randomness import Digests
from ldp_kafka.runtime.stages.waiting import Kept, kept_of
from ldp_kafka.runtime.wire.arrow import MAX_BYTES, read_batch, write_batch

__all__ = ["BEFORE", "Held", "packed", "read_shards", "unpacked", "write_shard"]

_HEAD = struct.Struct(">II")  # bytes that are not compressed, and bytes that are
_CODEC = "lz4"  # of four compressors the fastest to read: a recovery waits for it
_END = 8  # bytes with which a stream ends
BEFORE = "last_before"  # the column of users' last slots at the snapshot before
_WAITING = "waiting"  # the column of reports that wait, where they may


def write_shard(
    users: Digests,
    fields: Mapping[str, Field],
    columns: Mapping[str, NDArray[Any]],
    ledger: Collection[str],
    kept: Kept | None = None,
) -> bytes:
    """A column a field, rings one list a user.

    Parameters
    ----------
    users : (n, 2)
    columns : of each field (n,), or (length, n)
    ledger : the fields that are compressed
    kept : the reports of these users that wait; None where none do, ever
    """
    own = [name for name in fields if name not in ledger]
    arrays = [pa.Array.from_buffers(pa.binary(16), len(users), [None, pa.py_buffer(users)])]
    for name in (*own, *ledger):
        cells, length = columns[name], fields[name].length
        arrays.append(
            pa.FixedSizeListArray.from_arrays(pa.array(cells.T.ravel()), length)
            if length
            else pa.array(cells)
        )
    names = ["user", *own, *ledger]
    if kept is not None:
        names.insert(1 + len(own), _WAITING)
        arrays.insert(1 + len(own), kept.column())
    written = write_batch("state", names, arrays)
    return packed(written, _END + sum(map(_size, arrays[len(arrays) - len(ledger) :])))


def _size(column: Any) -> int:
    """Bytes of a column's values in a stream, which aligns them."""
    return sum(-(-buffer.size // 8) * 8 for buffer in column.buffers() if buffer is not None)


def packed(stream: bytes, end: int) -> bytes:
    """A stream with so many bytes at its end compressed."""
    start = len(stream) - end
    small: bytes = pa.compress(stream[start:], codec=_CODEC, asbytes=True)
    return _HEAD.pack(start, end) + stream[:start] + small


def unpacked(payload: bytes) -> bytes:
    """The stream that `packed` was given. StateError where it is damaged."""
    try:
        start, end = _HEAD.unpack_from(payload)
        whole = _HEAD.size + start
        if not (whole <= len(payload) and end <= MAX_BYTES):
            raise StateError(_DAMAGED)
        rest: bytes = pa.decompress(
            payload[whole:], decompressed_size=end, codec=_CODEC, asbytes=True
        )
    except (pa.ArrowException, OSError, ValueError, struct.error):
        raise StateError(_DAMAGED) from None
    return payload[_HEAD.size : whole] + rest


_DAMAGED = "a shard of the changelog is damaged"


class Held(NamedTuple):
    """What lies in some shards."""

    users: Digests
    """(n, 2)"""
    columns: dict[str, NDArray[Any]]
    """Each field's array: (n,), or (length, n)."""
    kept: Kept | None
    """The reports that wait; None where none do, ever."""

    def __repr__(self) -> str:
        return f"Held({len(self.users)})"  # never a value


def read_shards(
    payloads: Sequence[bytes], fields: Mapping[str, Field], kind: np.dtype[Any] | None = None
) -> Held:
    """What lies in these shards.

    Parameters
    ----------
    kind : of a report that waits; None where none do, ever

    Raises
    ------
    StateError, BadRecord : not what `write_shard` writes for these fields
    """
    batches = [read_batch(unpacked(payload))[0] for payload in payloads]
    whole = pa.Table.from_batches(batches).combine_chunks()
    waiting = [] if kind is None else [_WAITING]
    if BEFORE in fields and BEFORE not in whole.schema.names and "last" in whole.schema.names:
        # of a version whose bounds were numbered by offsets: no snapshot of it is torn
        whole = whole.append_column(BEFORE, whole.column("last"))
    if sorted(whole.schema.names) != sorted(["user", *fields, *waiting]):
        raise StateError(
            "the changelog's state has other fields than this method's: it was written by another"
            " version"
        )
    digests = np.frombuffer(_one(whole, "user").buffers()[1], np.uint64).reshape(-1, 2)[
        : whole.num_rows
    ]
    columns: dict[str, NDArray[Any]] = {}
    for name, field in fields.items():
        column = _one(whole, name)
        columns[name] = (
            _numbers(column.flatten()).reshape(-1, field.length).T
            if field.length
            else _numbers(column)
        )
    return Held(digests, columns, None if kind is None else kept_of(_one(whole, _WAITING), kind))


def _numbers(column: Any) -> NDArray[Any]:
    """A column as an array; truth values lie in bits and are unpacked."""
    found: NDArray[Any] = column.to_numpy(zero_copy_only=not pa.types.is_boolean(column.type))
    return found


def _one(whole: Any, name: str) -> Any:
    column = whole.column(name)
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)
