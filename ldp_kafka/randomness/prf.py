"""The pseudo-random function behind keyed words: a CBC-MAC under AES-256, vectorised over rows.

Messages are whole blocks of (user digest), (slot, phase | columns | counter), (bound integers ...).
The second block tells how many follow it, so no message is a prefix of another, which is what makes
CBC-MAC a pseudo-random function (Bellare, Kilian, Rogaway 2000; Petrank, Rackoff 2000). Keys are
derived from the one master key by HKDF-SHA256 (RFC 5869).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldp_kafka.randomness.ids import Digests, Ids, take16

__all__ = ["BLOCK", "KEY_BYTES", "Chain", "KeyRing", "derive", "is_patterned"]

KEY_BYTES = 32
BLOCK = 16  # bytes of an AES block
# block 2, second half: phase (16 bits) | columns (8) | counter (40)
_COUNTER_BITS, _COLUMN_BITS = (40, 8)
KEPT = 256  # rings that a ring keeps for uses of its own; further ones are derived again
# of the first bytes of a block: none of them, one, ...
_MASKS = np.where(np.tri(BLOCK + 1, BLOCK, -1), 255, 0).astype(np.uint8).view(np.uint64)


class Chain:
    """CBC-MAC under one AES-256 key, vectorised over rows."""

    def __init__(self, key: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        # the block cipher itself: the chaining is ours, over all rows at once
        self._encrypt = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305

    def mac(
        self,
        users: Digests,
        slot: int | NDArray[np.int64],
        phase: int,
        bound: NDArray[np.int64],
        counter: int,
    ) -> Digests:
        columns = bound.shape[1]
        if not (0 <= phase < 2**16 and columns < 2**_COLUMN_BITS and counter < 2**_COUNTER_BITS):
            raise ValueError("phase, columns or counter out of range")
        block = self._aes(users)
        block[:, 0] ^= np.asarray(slot, np.int64).view(np.uint64)
        block[:, 1] ^= np.uint64(
            phase << (_COLUMN_BITS + _COUNTER_BITS) | columns << _COUNTER_BITS | counter
        )
        block = self._aes(block)
        for column in range(0, columns, 2):
            pair = bound[:, column : column + 2].view(np.uint64)
            block[:, : pair.shape[1]] ^= pair
            block = self._aes(block)
        return block

    def digests(self, users: Iterable[str] | Ids) -> Digests:
        """CBC-MAC of (length, bytes padded with zeros): the length comes first, so no id is a
        prefix of another.
        """
        ids = users if isinstance(users, Ids) else Ids.of(users)
        begin, end = int(ids.offsets[0]), int(ids.offsets[-1])
        starts = ids.offsets[:-1].astype(np.intp) - begin
        lengths = ids.offsets[1:] - ids.offsets[:-1]
        size = int(lengths.max(initial=0))
        least = int(lengths.min(initial=size))
        first = np.zeros((size + 1, 2), np.uint64)
        first[:, 0] = np.arange(size + 1)
        block = take16(self._aes(first), lengths)
        data = np.concatenate([ids.data[begin:end], np.zeros(BLOCK, np.uint8)])
        windows = np.ndarray(end - begin + 1, f"V{BLOCK}", data, 0, (1,))  # one from each byte on
        for start in range(0, size, BLOCK):
            rows = slice(None) if start < least else np.flatnonzero(lengths > start)
            text = windows[starts[rows] + start].view(np.uint64).reshape(-1, 2)
            text &= take16(_MASKS, np.minimum(lengths[rows] - start, BLOCK))
            text ^= take16(block, rows)
            block[rows] = self._aes(text)
        return block

    def _aes(self, blocks: Digests) -> Digests:
        out = np.empty(2 * len(blocks) + 2, np.uint64)  # the cipher wants room for one block more
        self._encrypt.update_into(
            np.ascontiguousarray(blocks).reshape(-1).view(np.uint8).data, out.view(np.uint8).data
        )
        return out[:-2].reshape(-1, 2)


class KeyRing:
    """One chain a key, each from its first slot on."""

    def __init__(
        self, keys: Sequence[bytes], firsts: ArrayLike, purpose: bytes, context: bytes
    ) -> None:
        self._keys = [derive(key, purpose, context) for key in keys]
        self._chains = [Chain(key) for key in self._keys]
        self._firsts = np.array(firsts, np.int64)
        self._within: dict[bytes, KeyRing] = {}

    def within(self, context: bytes) -> KeyRing:
        """The ring whose keys are derived from this one's for a use of its own: the same for the
        same bytes, and independent of this one and of every other.
        """
        found = self._within.get(context)
        if found is None:
            if len(self._within) >= KEPT:
                del self._within[next(iter(self._within))]
            found = self._within[context] = KeyRing(self._keys, self._firsts, b"within", context)
        return found

    def mac(
        self,
        users: Digests,
        slot: int | NDArray[np.int64],
        phase: int,
        bound: NDArray[np.int64],
        counter: int,
        *,
        turn: int | NDArray[np.int64] | None = None,
    ) -> Digests:
        """Of each row under the key whose turn its slot is, or ``turn``."""
        if len(self._chains) == 1:
            return self._chains[0].mac(users, slot, phase, bound, counter)
        whose = np.broadcast_to(
            np.searchsorted(self._firsts, slot if turn is None else turn, side="right"), len(users)
        )
        slots = np.broadcast_to(np.asarray(slot, np.int64), len(users))
        out = np.empty((len(users), 2), np.uint64)
        for each in np.unique(whose).tolist():
            rows = np.flatnonzero(whose == each)
            out[rows] = self._chains[each].mac(
                users[rows], slots[rows], phase, bound[rows], counter
            )
        return out


def is_patterned(key: bytes) -> bool:
    """Whether a key is none that anybody drew at random: its bytes, or the differences of one and
    the next, are constant or repeat themselves in it. Of random keys one in 2**119 is.

    Examples
    --------
    >>> is_patterned(bytes(range(32))), is_patterned(b"0123456789abcdef" * 2)
    (True, True)
    """
    steps = bytes((b - a) % 256 for a, b in pairwise(key))
    return any(
        given[period:] == given[:-period]
        for given in (key, steps)
        for period in range(1, len(given) // 2 + 1)
    )


def derive(key: bytes, purpose: bytes, context: bytes) -> bytes:
    """The key of one purpose and context."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(
        SHA256(), KEY_BYTES, salt=None, info=b"ldp_kafka 1 " + purpose + b"\0" + context
    ).derive(bytes(key))
