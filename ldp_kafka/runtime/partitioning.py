"""Which partition is whose: Kafka's own partitioner (murmur2 of the key), for many keys at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["CURE", "murmur2", "partitions_of"]

CURE = (
    "key each message by its user's id, and let input.partitioning: murmur2 refuse what lies"
    " elsewhere; of someone else's topic, input.relay: rekey brings each user into one partition"
)
"""What to do where users are in several partitions."""

_SEED, _M, _R = 0x9747B28C, np.uint32(0x5BD1E995), np.uint32(24)


def partitions_of(users: Sequence[str], partitions: int) -> NDArray[np.intp]:
    """The partition (n,) of each user: what a Kafka producer does with the user's id (UTF-8) as
    key.

    Examples
    --------
    >>> partitions_of(["m1", "m2", "m3"], 2).tolist()
    [0, 1, 0]

    """
    positive = murmur2([user.encode() for user in users]) & np.uint32(0x7FFFFFFF)
    return (positive % np.uint32(partitions)).astype(np.intp)


def murmur2(keys: Sequence[bytes]) -> NDArray[np.uint32]:
    """Murmur2, 32 bits, with Kafka's seed (`org.apache.kafka.common.utils.Utils.murmur2`), of each
    key.

    Examples
    --------
    >>> murmur2([b"21", b"foobar"]).astype("i4").tolist()
    [-973932308, -790332482]

    """
    out = np.empty(len(keys), np.uint32)
    lengths = np.fromiter(map(len, keys), np.int64, len(keys))
    for length in np.unique(lengths).tolist():  # keys of one length are a table of bytes
        rows = np.flatnonzero(lengths == length)
        table = np.frombuffer(b"".join(keys[row] for row in rows.tolist()), np.uint8).reshape(
            len(rows), length
        )
        out[rows] = _of_one_length(table)
    return out


def _of_one_length(table: NDArray[np.uint8]) -> NDArray[np.uint32]:
    n, length = table.shape
    whole = length // 4 * 4
    h = np.full(n, (_SEED ^ length) & 0xFFFFFFFF, np.uint32)
    for word in np.ascontiguousarray(table[:, :whole]).view("<u4").reshape(n, -1).T:
        k = word.astype(np.uint32) * _M  # wraps around, as it must
        k ^= k >> _R
        k *= _M
        h *= _M
        h ^= k
    if length > whole:
        for place in range(length - 1, whole - 1, -1):
            h ^= table[:, place].astype(np.uint32) << np.uint32(8 * (place - whole))
        h *= _M
    h ^= h >> np.uint32(13)
    h *= _M
    h ^= h >> np.uint32(15)
    return h
