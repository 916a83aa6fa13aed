"""What a method asks of randomness."""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import sha256
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.randomness.ids import Digests, Ids

__all__ = ["Randomness", "check_source", "use_of"]


class Randomness(Protocol):
    """A source of words, one row for each value that is to be perturbed."""

    private: bool
    """False where the words can be predicted: no guarantee then holds of anything that is drawn by
    them, and nothing that is drawn by them can show it.
    """
    repeats: bool
    """True where one context gives the same private words again: releases then need contexts of
    their own.
    """

    def within(self, context: bytes) -> Randomness:
        """The source for one use of it: a method, a mechanism, with all that shapes its reports.
        Two uses of one key draw independent words, whatever users, slots and integers they share;
        where words are fresh, or public, nothing has to be told apart.
        """

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


def check_source(given: Any) -> Randomness:
    """TypeError unless it is a source of words, which says what the three there are good for.

    Examples
    --------
    >>> check_source(7)
    Traceback (most recent call last):
    TypeError: randomness must be lk.randomness.system() (private), keyed(key) (private, and the \
same after a replay) or seeded(n) (not private: for tests and evaluation), and not an int
    """
    if hasattr(given, "within"):
        source: Randomness = given
        return source
    kind = type(given)
    name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
    raise TypeError(
        "randomness must be lk.randomness.system() (private), keyed(key) (private, and the same"
        " after a replay) or seeded(n) (not private: for tests and evaluation), and not"
        f" {'an' if name[0] in 'aeiou' else 'a'} {name}"
    )


def use_of(*parts: Any) -> bytes:
    """32 bytes for `Randomness.within` that name a use of a key: over numbers, texts, None and
    lists of them; equal for equal parts only, and the same on every machine.

    Examples
    --------
    >>> use_of("sw_direct", 1.0, [3, 4]) == use_of("sw_direct", 1.0, [34])
    False
    """
    return sha256(json.dumps(parts, allow_nan=False).encode()).digest()
