"""What a method asks of randomness."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.randomness.ids import Digests, Ids

__all__ = ["Randomness"]


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
