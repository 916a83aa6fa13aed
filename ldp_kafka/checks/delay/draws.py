"""A source that deals what a delay method draws: answers are tried in every combination, and what
was asked is noted, with how likely each answer was.

Each of a method's own parts (`ldp_kafka.methods.delay.base.OWN`), and of those of its ``limit`` and
of its ``reduced`` twin, is replaced by one that takes its answers from the deal; the chances of
these are the real part's exact law.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.checks.failure import CheckFailure, require
from ldp_kafka.mechanisms.comparison import NoisyComparison
from ldp_kafka.mechanisms.exponential import ExponentialMechanism
from ldp_kafka.mechanisms.grr import GeneralizedRandomizedResponse
from ldp_kafka.mechanisms.sparse_vector import SparseVector
from ldp_kafka.mechanisms.sum_noise import SumNoise
from ldp_kafka.methods.delay.base import OWN
from ldp_kafka.randomness import Digests, Ids

__all__ = ["Asked", "WindowDeal", "dealt"]

Ints = NDArray[np.int64]


class Asked(NamedTuple):
    """One call of one part of a method."""

    part: str
    rows: NDArray[np.intp]
    slots: Ints
    phase: int
    bound: Ints
    inputs: Ints
    answers: Ints

    def __repr__(self) -> str:
        return f"Asked({self.part}, {len(self.rows)} rows)"


class WindowDeal:
    """A source whose row r is dealt the answers ``digits[r, 0], digits[r, 1], ...``.

    Parameters
    ----------
    digits : (rows, draws)
    script : which of several fixed sets of noisy sums is dealt: one for each slot, the same for
        every row
    """

    private = repeats = False

    def __init__(self, digits: NDArray[np.intp], script: int = 0) -> None:
        self.digits, self.script = digits, script
        self.taken = np.zeros(len(digits), np.intp)
        self.likely = np.zeros(len(digits))
        """(rows,) sum of the logarithms of the chances of answers whose chance is known at once."""
        self.asked: list[Asked] = []
        self.levels = 0
        """Thresholds that were drawn."""

    def within(self, context: bytes) -> WindowDeal:
        """Itself: what is dealt is dealt to the row."""
        del context
        return self

    def digests(self, users: Iterable[str] | Ids) -> Digests:
        """The row in the second half."""
        texts = users.texts() if isinstance(users, Ids) else users
        rows = np.array([int(user) for user in texts], np.uint64)
        return np.column_stack([np.zeros(len(rows), np.uint64), rows])

    def at(
        self, users: Digests, slot: int | Ints, phase: int, bound: NDArray[np.int64]
    ) -> BoundWindowDeal:
        """The source for one draw of each of these rows."""
        require(
            bound.dtype == np.int64 and bound.shape[:1] == (len(users),),
            "noise must be bound to rows of int64",
        )
        slots = np.broadcast_to(np.asarray(slot, np.int64), (len(users),))
        return BoundWindowDeal(self, users[:, 1].astype(np.intp), slots.copy(), phase, bound.copy())

    def words(self, n: int, k: int = 1, *, first: int = 0) -> NDArray[np.uint32]:  # noqa: ARG002
        """Refused: a draw needs a context."""
        raise CheckFailure(
            "a delay method must draw through its own parts, bound to stream and slot"
        )


class BoundWindowDeal:
    """What a part is handed: the deal, and the rows that it draws for."""

    private = repeats = False

    def __init__(
        self, deal: WindowDeal, rows: NDArray[np.intp], slots: Ints, phase: int, bound: Ints
    ) -> None:
        self.deal, self.rows, self.slots, self.phase, self.bound = deal, rows, slots, phase, bound

    def within(self, context: bytes) -> BoundWindowDeal:
        del context
        return self

    def digests(self, users: Iterable[str] | Ids) -> Digests:
        return self.deal.digests(users)

    def at(
        self, users: Digests, slot: int | Ints, phase: int, bound: NDArray[np.int64]
    ) -> BoundWindowDeal:
        return self.deal.at(users, slot, phase, bound)

    def words(self, n: int, k: int = 1, *, first: int = 0) -> NDArray[np.uint32]:
        return self.deal.words(n, k, first=first)

    def note(self, part: str, inputs: Ints, answers: Ints) -> None:
        """What was asked, and answered; nothing of nobody."""
        require(
            len(inputs) == len(self.rows),
            "a method must bind one row of context for each number that it gives to a part",
        )
        if len(inputs):
            self.deal.asked.append(
                Asked(part, self.rows, self.slots, self.phase, self.bound, inputs.copy(), answers)
            )

    def digit(self) -> NDArray[np.intp]:
        """The next answer dealt to each row."""
        deal, rows = self.deal, self.rows
        turn = deal.taken[rows]
        require(
            (turn < deal.digits.shape[1]).all(),
            "a method was answered more often than expected: give the largest number as draws=",
        )
        deal.taken[rows] = turn + 1
        return np.asarray(deal.digits[rows, turn])


class _Part:
    """Stands for a real part: all that it does not replace is the real one's."""

    def __init__(self, real: Any, name: str) -> None:
        self.real, self.name = real, name

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def _bound(self, randomness: Any) -> BoundWindowDeal:
        if not isinstance(randomness, BoundWindowDeal):
            raise CheckFailure("a method must hand its parts the source that it was given, bound")
        return randomness


class _Sums(_Part):
    """Noisy sums that are fixed for a slot, whatever the sum is."""

    def perturb(self, sums: Ints, randomness: Any) -> Ints:
        source = self._bound(randomness)
        slots, place = np.unique(source.slots, return_inverse=True)
        low, high = -self.real.reach // 4, self.real.most + self.real.reach // 4
        drawn = np.array(
            [
                np.random.default_rng([source.deal.script, slot + 2**20]).integers(low, high)
                for slot in slots.tolist()
            ],
            np.int64,
        )
        answers = drawn[place] if len(drawn) else np.empty(0, np.int64)
        source.note(self.name, sums, answers)
        return np.asarray(answers // self.real.unit * self.real.unit)


class _Tests(_Part):
    def above(self, differences: Ints, randomness: Any) -> NDArray[np.bool_]:
        source = self._bound(randomness)
        answers = source.digit()
        chance = self.real.chances(differences)
        source.deal.likely[source.rows] += np.log(np.where(answers == 1, chance, 1 - chance))
        source.note(self.name, differences, answers)
        return np.asarray(answers == 1)


class _Vector(_Part):
    """Thresholds are numbers of thresholds: how likely answers are is found when all are known."""

    def thresholds(self, count: int, randomness: Any) -> Ints:
        source = self._bound(randomness)
        levels = source.deal.levels + np.arange(count)
        source.deal.levels += count
        source.note(f"{self.name} threshold", np.zeros(count, np.int64), levels)
        return levels

    def below(self, values: Ints, levels: Ints, randomness: Any) -> NDArray[np.bool_]:
        source = self._bound(randomness)
        answers = source.digit()
        source.note(self.name, np.column_stack([values, levels]), answers)
        return np.asarray(answers == 1)


class _Flips(_Part):
    def perturb(self, values: Ints, randomness: Any) -> Ints:
        source = self._bound(randomness)
        answers = source.digit()
        laws = np.array(
            [self.real.law(code).probabilities() for code in range(self.real.categories)]
        )
        source.deal.likely[source.rows] += np.log(laws[values, answers])
        source.note(self.name, values, answers)
        return np.asarray(answers)


class _Choices(_Part):
    def choose(self, scores: Ints, randomness: Any) -> Ints:
        source = self._bound(randomness)
        answers = source.digit()
        chances = self.real.chances(scores)[np.arange(len(scores)), answers]
        source.deal.likely[source.rows] += np.log(chances)
        source.note(self.name, scores, answers)
        return np.asarray(answers)


_STANDS_FOR: list[tuple[type, type[_Part]]] = [
    (SumNoise, _Sums),
    (NoisyComparison, _Tests),
    (SparseVector, _Vector),
    (GeneralizedRandomizedResponse, _Flips),
    (ExponentialMechanism, _Choices),
]


def dealt(method: Any) -> Any:
    """The method with its parts replaced; it is changed. Parts of a part have its name and theirs,
    such as ``limit.choice``.
    """
    for within in ("", "limit", "reduced"):
        owner = getattr(method, within, None) if within else method
        for name in OWN:
            real = getattr(owner, name, None)
            for kind, double in _STANDS_FOR:
                if isinstance(real, kind):
                    setattr(owner, name, double(real, f"{within}.{name}".lstrip(".")))
    return method
