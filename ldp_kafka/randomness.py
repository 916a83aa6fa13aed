"""The one door to randomness.

Every draw of the library is a function of secure 32-bit words. Where they come from decides what
the noise is good for::

    system()     OS entropy, AES-256-CTR: private, not repeatable
    keyed(key)   a PRF of each row's context under AES-256: private against anyone without the
                 key, and the same report after every replay
    seeded(n)    keyed by a public number: repeatable, NOT private; for tests and evaluation

Keyed words are a CBC-MAC over whole blocks of (user digest), (slot, phase | columns | counter),
(bound integers ...). The second block tells how many follow it, so no message is a prefix of
another, which is what makes CBC-MAC a pseudo-random function (Bellare, Kilian, Rogaway 2000;
Petrank, Rackoff 2000). Keys for noise, report ids, series and user digests are derived from the one
master key by HKDF-SHA256 (RFC 5869) and never meet.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "KEY_BYTES",
    "Keyed",
    "Randomness",
    "Seeded",
    "System",
    "keyed",
    "seeded",
    "system",
    "take16",
]

KEY_BYTES = 32
_BLOCK = 16  # bytes of an AES block
# block 2, second half: phase (16 bits) | columns (8) | counter (40)
_COUNTER_BITS, _COLUMN_BITS = (40, 8)

Digests = NDArray[np.uint64]  # (n, 2): 128 bits of each user


def take16(pairs: NDArray[np.uint64], rows: NDArray[np.integer]) -> NDArray[np.uint64]:
    """``pairs[rows]``: as elements of 16 bytes, which numpy gathers three times as fast as rows of
    two.
    """
    return pairs.view(np.complex128).ravel().take(rows).view(np.uint64).reshape(-1, 2)


@dataclass(frozen=True, repr=False, slots=True)
class Ids:
    """User ids as one run of UTF-8 bytes: user i is ``data[offsets[i]:offsets[i + 1]]``. What Arrow
    holds, without its import; its repr shows no id.
    """

    data: NDArray[np.uint8]
    offsets: NDArray[np.integer]

    @classmethod
    def of(cls, users: Iterable[str]) -> Ids:
        """From texts."""
        encoded = [str(user).encode() for user in users]
        return cls(np.frombuffer(b"".join(encoded), np.uint8), np.cumsum([0, *map(len, encoded)]))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def take(self, rows: NDArray[np.intp]) -> Ids:
        """Those at ``rows``, in that order."""
        lengths = np.diff(self.offsets)[rows]
        ends = np.cumsum(lengths)
        within = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - lengths, lengths)
        return Ids(
            self.data[np.repeat(self.offsets[:-1][rows], lengths) + within],
            np.concatenate([[0], ends]),
        )

    def texts(self) -> list[str]:
        """As texts."""
        raw = self.data.tobytes()
        return [
            raw[a:b].decode()
            for a, b in zip(self.offsets[:-1].tolist(), self.offsets[1:].tolist(), strict=True)
        ]

    @staticmethod
    def join(parts: Sequence[Ids]) -> Ids:
        """All of them, one after the other."""
        if len(parts) == 1:
            return parts[0]
        starts = np.cumsum([0, *(int(part.offsets[-1] - part.offsets[0]) for part in parts)])
        offsets = [
            part.offsets[:-1] - part.offsets[0] + start
            for part, start in zip(parts, starts, strict=False)
        ]
        return Ids(
            np.concatenate([part.data[part.offsets[0] : part.offsets[-1]] for part in parts]),
            np.concatenate([*offsets, starts[-1:]]),
        )

    def __repr__(self) -> str:
        return f"Ids({len(self)} users)"


class Randomness(Protocol):
    """A source of words, one row for each value that is to be perturbed."""

    private: bool
    """False where the words can be predicted: every output then says so."""

    def digests(self, users: Iterable[str] | Ids) -> Digests:
        """128-bit digests (n, 2) that stand for the user ids in contexts and in state."""

    def at(
        self, users: Digests, slot: int | NDArray[np.int64], phase: int, bound: NDArray[np.int64]
    ) -> Randomness:
        """The source for one draw of each row.

        ``users`` (n, 2), ``slot`` one or (n,), ``phase`` in 0..65535, ``bound`` (n, columns): the
        integers that the noise is tied to.
        """

    def words(self, n: int, k: int = 1, *, first: int = 0) -> NDArray[np.uint32]:
        """Uniform words, shape (n, k): those of rows ``first`` to ``first + n``, so that large
        batches can be drawn in pieces that fit the cache.
        """


class System:
    """Words from AES-256-CTR under a key of the operating system; a context changes nothing.

    A forked child draws a key of its own: two processes never share a stream. Not to be shared
    between threads.
    """

    private = True

    def __init__(self, key: bytes | None = None) -> None:
        self._key = key
        self._process = -1
        self._zeros = b""

    def digests(self, users: Iterable[str] | Ids) -> Digests:
        self._ready()
        return _Chain(self._user_key).digests(users)

    def at(
        self, users: Digests, slot: int | NDArray[np.int64], phase: int, bound: NDArray[np.int64]
    ) -> System:
        del users, slot, phase, bound  # fresh words have no context
        return self

    def words(self, n: int, k: int = 1, *, first: int = 0) -> NDArray[np.uint32]:  # noqa: ARG002
        self._ready()
        size = 4 * n * k
        if len(self._zeros) < size:
            self._zeros = bytes(size)
        out = np.empty(n * k + _BLOCK // 4, np.uint32)  # the cipher wants room for one block more
        self._stream.update_into(memoryview(self._zeros)[:size], out.view(np.uint8).data)
        return out[: n * k].reshape(n, k)

    def _ready(self) -> None:
        if self._process == os.getpid():
            return
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        key = self._key or os.urandom(KEY_BYTES)
        self._user_key = sha256(b"users" + key).digest()
        self._stream = Cipher(algorithms.AES(key), modes.CTR(bytes(_BLOCK))).encryptor()
        self._process = os.getpid()

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class Keyed:
    """Words that are a function of (key, context, user, slot, phase, bound integers): the same
    after every replay.

    Parameters
    ----------
    key : at least 32 random bytes, secret
    context : public bytes that separate uses of one key: a topology's fingerprint
    private : False where the key is public
    later : (slot, key) of each rotation, slots increasing: from that slot on noise, report ids and
        series are of that key

    Raises
    ------
    ValueError, TypeError : a key is too short, not bytes, or there twice; slots do not increase

    Notes
    -----
    Which key a report is made with is a function of its slot alone, so a (user, slot, phase) has
    one draw under any number of keys, whoever folds it and whenever. Digests of users stay with the
    first key: what they have spent is found under every later one, and the ledger goes on.
    """

    def __init__(
        self,
        key: bytes,
        *,
        context: bytes = b"",
        private: bool = True,
        later: Sequence[tuple[int, bytes]] = (),
    ) -> None:
        keys = [key, *(new for _, new in later)]
        firsts = [slot for slot, _ in later]
        if not all(isinstance(each, bytes | bytearray) for each in keys):
            raise TypeError("a key is bytes")
        if not all(len(each) >= KEY_BYTES for each in keys):
            raise ValueError(f"a key has at least {KEY_BYTES} random bytes")
        if not (
            len({bytes(each) for each in keys}) == len(keys)
            and all(a < b for a, b in pairwise(firsts))
        ):
            raise ValueError("each rotation needs another key, and a later slot")
        self.private = private
        self._noise, self._ids, self._series = (
            _Turns(keys, firsts, purpose, context)
            for purpose in (b"noise", b"report id", b"series")
        )
        self._users = _Chain(_derive(key, b"user", context))
        checks = [_derive(each, b"check", context)[:8] for each in keys]
        turns = b"".join(
            slot.to_bytes(8, "big", signed=True) + check
            for slot, check in zip(firsts, checks[1:], strict=True)
        )
        self._check = (sha256(checks[0] + turns).digest()[:8] if turns else checks[0]).hex()

    def digests(self, users: Iterable[str] | Ids) -> Digests:
        return self._users.digests(users)

    def at(
        self, users: Digests, slot: int | NDArray[np.int64], phase: int, bound: NDArray[np.int64]
    ) -> Bound:
        return Bound(self._noise, users, slot, phase, bound, private=self.private)

    def words(self, n: int, k: int = 1, *, first: int = 0) -> NDArray[np.uint32]:  # noqa: ARG002
        raise TypeError("keyed noise needs a context: call .at(users, slot, phase, bound) first")

    @property
    def check(self) -> str:
        """16 hexadecimal digits that tell whether two processes have the same keys, rotations and
        context; they tell nothing else of them.
        """
        return self._check

    def report_ids(self, users: Digests, slot: int | NDArray[np.int64], phase: int) -> Digests:
        """Ids (n, 2) of the reports of these users: unlinkable across slots without the key."""
        return self._ids.mac(users, slot, phase, np.empty((len(users), 0), np.int64), 0)

    def series(self, users: Digests, slot: int | NDArray[np.int64] = 0) -> Digests:
        """Pseudonyms (n, 2) that link the reports of a user, for releases per user only; ``slot``
        chooses the key and nothing else.
        """
        return self._series.mac(users, 0, 0, np.empty((len(users), 0), np.int64), 0, turn=slot)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"  # never a key


class Bound:
    """A keyed source tied to one draw of each row."""

    def __init__(
        self,
        chain: _Turns,
        users: Digests,
        slot: int | NDArray[np.int64],
        phase: int,
        bound: NDArray[np.int64],
        *,
        private: bool,
    ) -> None:
        self.private = private
        self._chain, self._users, self._slot, self._phase, self._bound = (
            chain,
            users,
            slot,
            phase,
            bound,
        )

    def digests(self, users: Iterable[str] | Ids) -> Digests:  # noqa: ARG002
        raise TypeError("this source is bound to its rows; digests come from the unbound one")

    def at(
        self, users: Digests, slot: int | NDArray[np.int64], phase: int, bound: NDArray[np.int64]
    ) -> Bound:
        return Bound(self._chain, users, slot, phase, bound, private=self.private)

    def words(self, n: int, k: int = 1, *, first: int = 0) -> NDArray[np.uint32]:
        if not first + n <= len(self._users):
            raise ValueError("one row of words for each bound row")
        part = slice(first, first + n)
        slot = self._slot if isinstance(self._slot, int | np.integer) else self._slot[part]
        out = [
            self._chain.mac(self._users[part], slot, self._phase, self._bound[part], counter).view(
                np.uint32
            )
            for counter in range(-(-k // 4))
        ]
        return out[0][:, :k] if len(out) == 1 else np.hstack(out)[:, :k]


class Seeded(Keyed):
    """Keyed by a public number; without a context it draws one repeatable stream."""

    def __init__(self, seed: int) -> None:
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise TypeError("a seed is a whole number")
        key = sha256(f"not private: {seed}".encode()).digest()
        super().__init__(key, private=False)
        self._stream = System(key)

    def words(self, n: int, k: int = 1, *, first: int = 0) -> NDArray[np.uint32]:  # noqa: ARG002
        return self._stream.words(n, k)


class _Chain:
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
        lengths = np.diff(ids.offsets)
        size = int(lengths.max(initial=0))
        width = -(-size // _BLOCK) * _BLOCK
        padded = np.zeros((len(ids), width), np.uint8)
        if size and lengths.min() == size:
            padded[:, :size] = ids.data[ids.offsets[0] : ids.offsets[-1]].reshape(-1, size)
        elif size:
            padded[np.arange(width) < lengths[:, None]] = ids.data[ids.offsets[0] : ids.offsets[-1]]
        words = padded.view(np.uint64)
        block = np.zeros((len(ids), 2), np.uint64)
        block[:, 0] = lengths
        if not size or lengths.min() == size:
            block[:] = self._aes(block[:1])  # one length: one first block
        else:
            block = self._aes(block)
        for start in range(0, width, _BLOCK):
            pair = words[:, start // 8 : start // 8 + 2]
            rows = slice(None) if start < lengths.min() else np.flatnonzero(lengths > start)
            block[rows] = self._aes(block[rows] ^ pair[rows])
        return block

    def _aes(self, blocks: Digests) -> Digests:
        out = np.empty(2 * len(blocks) + 2, np.uint64)  # the cipher wants room for one block more
        self._encrypt.update_into(
            np.ascontiguousarray(blocks).reshape(-1).view(np.uint8).data, out.view(np.uint8).data
        )
        return out[:-2].reshape(-1, 2)


class _Turns:
    """One chain a key, each from its first slot on."""

    def __init__(
        self, keys: Sequence[bytes], firsts: Sequence[int], purpose: bytes, context: bytes
    ) -> None:
        self._chains = [_Chain(_derive(key, purpose, context)) for key in keys]
        self._firsts = np.array(firsts, np.int64)

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


def _derive(key: bytes, purpose: bytes, context: bytes) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(
        SHA256(), KEY_BYTES, salt=None, info=b"ldp_kafka 1 " + purpose + b"\0" + context
    ).derive(bytes(key))


def system() -> System:
    """Private words that no one can repeat.

    Examples
    --------
    >>> system().words(2, 3).shape
    (2, 3)
    """
    return System()


def keyed(key: bytes, *, context: bytes = b"", later: Sequence[tuple[int, bytes]] = ()) -> Keyed:
    """Private words that a replay repeats; see `Keyed`."""
    return Keyed(key, context=context, later=later)


def seeded(seed: int) -> Seeded:
    """Repeatable words that are not private; for tests and evaluation.

    Examples
    --------
    >>> seeded(7).words(1, 2).tolist() == seeded(7).words(1, 2).tolist()
    True
    >>> seeded(7).private
    False
    """
    return Seeded(seed)
