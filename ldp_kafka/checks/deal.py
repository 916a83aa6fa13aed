"""A source that deals a method's draws, so that every sequence of them can be tried; it notes how
probable each was.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.checks.failure import CheckFailure, require
from ldp_kafka.randomness import Digests, Ids

__all__ = ["BoundDeal", "Deal", "Draw"]


class Draw(NamedTuple):
    """One call of the mechanism: the users, the context of the noise, and the inputs."""

    rows: NDArray[np.intp]
    slot: int
    phase: int
    bound: NDArray[np.int64]
    inputs: NDArray[Any]


class Deal:
    """A source that deals row r the outputs ``digits[r, 0], digits[r, 1], ...`` and keeps the
    probabilities that the mechanism gave them.

    ``hashed`` is the first half of every row's digest, by which a method may group its users: all
    rows are one user, as far as that goes.
    """

    private = repeats = False

    def __init__(self, digits: NDArray[np.intp], hashed: int = 0) -> None:
        self.digits, self.hashed = digits, hashed
        self.taken = np.zeros(len(digits), np.intp)
        self.factors = np.ones(digits.shape)
        self.draws: list[Draw] = []

    def within(self, context: bytes) -> Deal:
        """Itself: what is dealt is dealt to the row."""
        del context
        return self

    def digests(self, users: Iterable[str] | Ids) -> Digests:
        """One first half for all, the row in the second."""
        rows = np.array(
            [int(user) for user in (users.texts() if isinstance(users, Ids) else users)], np.uint64
        )
        return np.column_stack([np.full(len(rows), self.hashed, np.uint64), rows])

    def at(
        self, users: Digests, slot: int | NDArray[np.int64], phase: int, bound: NDArray[np.int64]
    ) -> BoundDeal:
        """The source for one draw of each of these rows."""
        require(
            bound.dtype == np.int64 and bound.shape[:1] == (len(users),),
            "noise must be bound to rows of int64",
        )
        return BoundDeal(
            self, users[:, 1].astype(np.intp), int(np.asarray(slot)), phase, bound.copy()
        )

    def words(self, n: int, k: int = 1, *, first: int = 0) -> NDArray[np.uint32]:  # noqa: ARG002
        """Refused: a draw needs a context."""
        raise CheckFailure(
            "a method must draw through mechanism.perturb, from a source bound to users and slot"
        )


class BoundDeal:
    """What a tiny mechanism is handed: the deal, and the rows that it draws for."""

    private = repeats = False

    def __init__(
        self, deal: Deal, rows: NDArray[np.intp], slot: int, phase: int, bound: NDArray[np.int64]
    ) -> None:
        self.deal, self.rows, self.slot, self.phase, self.bound = deal, rows, slot, phase, bound

    def within(self, context: bytes) -> BoundDeal:
        del context
        return self

    def digests(self, users: Iterable[str] | Ids) -> Digests:
        return self.deal.digests(users)

    def at(
        self, users: Digests, slot: int | NDArray[np.int64], phase: int, bound: NDArray[np.int64]
    ) -> BoundDeal:
        return self.deal.at(users, slot, phase, bound)

    def words(self, n: int, k: int = 1, *, first: int = 0) -> NDArray[np.uint32]:
        return self.deal.words(n, k, first=first)

    def choose(self, inputs: NDArray[Any], probabilities: NDArray[np.float64]) -> NDArray[np.intp]:
        """The next output dealt to each row, its probability noted."""
        deal, rows = self.deal, self.rows
        require(
            len(inputs) == len(rows),
            "a method must bind one row of context for each value that it perturbs",
        )
        turn = deal.taken[rows]
        require(
            (turn < deal.digits.shape[1]).all(),
            "a method drew more often than expected: give the largest number as draws=",
        )
        digit = deal.digits[rows, turn]
        deal.factors[rows, turn] = probabilities[np.arange(len(rows)), digit]
        deal.taken[rows] = turn + 1
        deal.draws.append(Draw(rows, self.slot, self.phase, self.bound, np.array(inputs)))
        return digit
