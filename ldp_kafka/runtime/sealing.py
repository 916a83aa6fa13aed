"""Records that nobody reads or changes but who has the edge's key: what the edge keeps of its users
lies on a broker, and holds raw values.

A sealed record is the checkpoint offset, what anybody may read (``clear``), the record's place, and
the payload under AES-256-GCM with a random nonce of 96 bits. All that is before the ciphertext is
authenticated with it, so a record that was altered, or that lies where it was not written, is
refused.

Each epoch has a key of its own: HKDF-SHA256 of the edge's newest key at the time of writing, the
topology's fingerprint, its deployment (which raw topic, of which cluster), and the epoch's random
token. Which key of the ring it was is in clear. An epoch that writes 64 records every half second
needs more than a year to write 2**32 of them, for which NIST SP 800-38D allows random nonces.

Payloads are sealed as they are given. What may hold values is not compressed before (see
`ldp_kafka.runtime.stages.shards`): the size of a record tells how many users it holds, and how
alike their ledgers are, and nothing of their values.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from ldp_kafka.errors import StateError
from ldp_kafka.randomness.prf import derive

__all__ = ["SEALED", "Seal", "Sealed"]

SEALED = b"gcm\0"  # what a sealed record has after its offset
_NONCE = 12  # bytes
_TAG = 16  # bytes
_HEAD = 8 + len(SEALED) + 2 + _NONCE  # offset, mark, index of the ring's key, nonce
DAMAGED = "a record of the changelog is damaged: it is no sealed one"


class Sealed(NamedTuple):
    """A sealed record as anybody reads it."""

    offset: int
    clear: bytes
    place: str
    """The key under which it was written."""
    key_index: int
    """Which of the ring's keys."""
    nonce: bytes
    head: bytes
    """All that is before the ciphertext."""
    body: bytes
    """The ciphertext and its tag."""

    def __repr__(self) -> str:
        return f"Sealed(offset={self.offset}, place={self.place!r})"

    @classmethod
    def read(cls, value: bytes) -> Sealed | None:
        """What `Seal.pack` wrote; None where a record is not sealed. StateError where it is cut
        off.
        """
        if value[8 : 8 + len(SEALED)] != SEALED:
            return None
        at = _HEAD
        clear, at = _field(value, at)
        place, at = _field(value, at)
        if len(value) - at < _TAG:
            raise StateError(DAMAGED)
        return cls(
            int.from_bytes(value[:8], "big", signed=True),
            clear,
            place.decode(errors="replace"),
            int.from_bytes(value[8 + len(SEALED) : _HEAD - _NONCE], "big"),
            value[_HEAD - _NONCE : _HEAD],
            value[:at],
            value[at:],
        )


def _field(value: bytes, at: int) -> tuple[bytes, int]:
    """A field with its length before it, and where the next one begins."""
    end = at + 4 + int.from_bytes(value[at : at + 4], "big")
    if not at + 4 <= end <= len(value):
        raise StateError(DAMAGED)
    return value[at + 4 : end], end


class Seal:
    """Seals and opens the records of one topology's edge in one deployment.

    Parameters
    ----------
    keys : of the edge's ring, the newest last
    context : what tells it from every other use of the same keys
    check : what the key binding of its states says (`randomness.Keyed.check`)
    """

    def __init__(self, keys: Sequence[bytes], context: bytes, check: str) -> None:
        self._roots = [derive(key, b"seal", context) for key in keys]
        self._cipher = lru_cache(maxsize=64)(self._of_epoch)
        self.check = check

    def _of_epoch(self, index: int, epoch: str) -> AESGCM:
        return AESGCM(derive(self._roots[index], b"epoch", epoch.encode()))

    def pack(self, place: str, offset: int, payload: bytes, clear: bytes = b"") -> bytes:
        """A record with this key of the table (`checkpoints.key_of`).

        Parameters
        ----------
        offset : its checkpoint offset
        clear : what anybody may read
        """
        nonce, newest = os.urandom(_NONCE), len(self._roots) - 1
        head = b"".join(
            (
                offset.to_bytes(8, "big", signed=True),
                SEALED,
                newest.to_bytes(2, "big"),
                nonce,
                *(len(part).to_bytes(4, "big") + part for part in (clear, place.encode())),
            )
        )
        return head + self._cipher(newest, _epoch(place)).encrypt(nonce, payload, head)

    def open(self, place: str, value: bytes) -> bytes:
        """The payload of a record that lies under this key.

        Raises
        ------
        StateError : it was not sealed, altered since, or written under another key
        """
        found = Sealed.read(value)
        where = _where(place)
        if found is None:
            raise StateError(f"{where} was not sealed by this edge")
        if found.place != place:
            raise StateError(f"{where} was moved: the edge sealed it as {_where(found.place)}")
        try:
            if found.key_index >= len(self._roots):
                raise InvalidTag
            cipher = self._cipher(found.key_index, _epoch(place))
            return cipher.decrypt(found.nonce, found.body, found.head)
        except InvalidTag:
            raise StateError(
                f"{where} was altered after it was sealed, or sealed by another edge"
            ) from None

    def __repr__(self) -> str:
        return f"Seal({len(self._roots)} keys)"  # never a key


def _epoch(place: str) -> str:
    return place.rpartition("/")[2]


def _where(place: str) -> str:
    partition, _, rest = place.partition("/")
    shard, _, epoch = rest.rpartition("/")
    return f"record {shard} of partition {partition}, epoch {epoch[:8]}"
