"""Words of the operating system's entropy."""

from __future__ import annotations

import os
from collections.abc import Iterable
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.randomness.ids import Digests, Ids
from ldp_kafka.randomness.prf import BLOCK, KEY_BYTES, Chain

__all__ = ["System"]


class System:
    """Words from AES-256-CTR under a key of the operating system; a context changes nothing.

    A forked child draws a key of its own: two processes never share a stream. Not to be shared
    between threads.
    """

    private, repeats = True, False

    def __init__(self, key: bytes | None = None) -> None:
        self._key = key
        self._process = -1
        self._zeros = b""

    def within(self, context: bytes) -> System:
        del context  # fresh words are of no use twice
        return self

    def digests(self, users: Iterable[str] | Ids) -> Digests:
        self._ready()
        return Chain(self._user_key).digests(users)

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
        out = np.empty(n * k + BLOCK // 4, np.uint32)  # the cipher wants room for one block more
        self._stream.update_into(memoryview(self._zeros)[:size], out.view(np.uint8).data)
        return out[: n * k].reshape(n, k)

    def _ready(self) -> None:
        if self._process == os.getpid():
            return
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        key = self._key or os.urandom(KEY_BYTES)
        self._user_key = sha256(b"users" + key).digest()
        self._stream = Cipher(algorithms.AES(key), modes.CTR(bytes(BLOCK))).encryptor()
        self._process = os.getpid()

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"
