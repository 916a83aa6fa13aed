"""A checksum of rows that a commit updates in a few steps, and a start computes anew.

It is the exclusive or of a SHA-256 of each row: a row is put in and taken out by the same step, and
the order of rows is of no matter. It finds pages of another commit, which a database that was
brought back alone has beside the write-ahead log of a later one. It is no defence against somebody
who writes the file: the device's owner has the key, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

__all__ = ["SIZE", "all_rows", "one_row"]

SIZE = 32  # bytes


def one_row(name: bytes, content: bytes | None) -> int:
    """What one row puts in, or takes out; 0 where it is not there (``None``).

    Parameters
    ----------
    name : of the row, at most 255 bytes
    """
    if content is None:
        return 0
    return int.from_bytes(sha256(bytes([len(name)]) + name + content).digest(), "big")


def all_rows(rows: Iterable[tuple[bytes, bytes | None]]) -> int:
    """Of all rows: name and content."""
    found = 0
    for name, content in rows:
        found ^= one_row(name, content)
    return found
