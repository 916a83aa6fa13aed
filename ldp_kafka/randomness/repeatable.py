"""Words that a replay repeats: keyed ones, and seeded ones that are not private."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from hashlib import sha256
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.randomness.fresh import System
from ldp_kafka.randomness.ids import Digests, Ids
from ldp_kafka.randomness.prf import KEY_BYTES, Chain, KeyRing, derive

__all__ = ["Bound", "Keyed", "Seeded"]


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
        self.private = self.repeats = private
        self._noise, self._ids, self._series = (
            KeyRing(keys, firsts, purpose, context)
            for purpose in (b"noise", b"report id", b"series")
        )
        self._users = Chain(derive(key, b"user", context))
        checks = [derive(each, b"check", context)[:8] for each in keys]
        turns = b"".join(
            slot.to_bytes(8, "big", signed=True) + check
            for slot, check in zip(firsts, checks[1:], strict=True)
        )
        self._check = (sha256(checks[0] + turns).digest()[:8] if turns else checks[0]).hex()

    def within(self, context: bytes) -> Keyed:
        if not self.private:
            return self  # what a seed gave it gives
        found = copy(self)
        found._noise = self._noise.within(context)  # noqa: SLF001
        return found

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
        chain: KeyRing,
        users: Digests,
        slot: int | NDArray[np.int64],
        phase: int,
        bound: NDArray[np.int64],
        *,
        private: bool,
    ) -> None:
        self.private = self.repeats = private
        self._chain, self._users, self._slot, self._phase, self._bound = (
            chain,
            users,
            slot,
            phase,
            bound,
        )

    def within(self, context: bytes) -> Bound:
        if not self.private:
            return self
        chain = self._chain.within(context)
        return Bound(chain, self._users, self._slot, self._phase, self._bound, private=True)

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
