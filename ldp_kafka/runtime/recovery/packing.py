"""A record that is not sealed as bytes: its checkpoint offset, then the payload, compressed if
smaller.
"""

from __future__ import annotations

import pyarrow as pa

from ldp_kafka.errors import StateError
from ldp_kafka.runtime.sealing import SEALED

__all__ = ["HEAD", "pack", "unpack"]

HEAD = 8  # bytes of the checkpoint offset
LEAST = 2**12  # bytes below which nothing is compressed
SHARE = 0.9  # of its size that a payload may have left, or it stays as it is
LARGEST = 2**28  # bytes of a payload
_MARK = b"lz4\0"  # a payload that begins with it, or as a sealed one does, is always compressed
_CODEC = "lz4"  # of four compressors the fastest to read: a recovery waits for it


def pack(offset: int, payload: bytes) -> bytes:
    """A value of the table.

    Examples
    --------
    >>> len(pack(7, bytes(100_000))) < 1000
    True
    >>> pack(7, b"short")[8:]
    b'short'
    """
    head = offset.to_bytes(8, "big", signed=True)
    ours = payload.startswith((_MARK, SEALED))
    if ours or len(payload) >= LEAST:
        small: bytes = pa.compress(payload, codec=_CODEC, asbytes=True)
        if ours or len(small) <= SHARE * len(payload):
            return head + _MARK + len(payload).to_bytes(4, "big") + small
    return head + payload


def unpack(value: bytes) -> tuple[int, bytes]:
    """(checkpoint offset, payload) of a value of the table. StateError where it is damaged."""
    offset, payload = int.from_bytes(value[:8], "big", signed=True), value[8:]
    if not payload.startswith(_MARK):
        return offset, payload
    size = int.from_bytes(payload[4:8], "big")
    if not size <= LARGEST:
        raise StateError("a record of the changelog is damaged: its size cannot be")
    try:
        whole: bytes = pa.decompress(
            payload[8:], decompressed_size=size, codec=_CODEC, asbytes=True
        )
    except (pa.ArrowException, OSError, ValueError):
        raise StateError(
            "a record of the changelog is damaged: it cannot be decompressed"
        ) from None
    return offset, whole
