"""The exact law of what a method publishes of a short stream. The method is run over a tiny
mechanism with a handful of outputs, once for each possible sequence of draws.

Methods are batch first, so all the ways are rows of one release: row (s, o) carries stream s and is
dealt the outputs of outcome o, whatever their probability; the tiny mechanism notes that
probability. Rows of unequal streams are compared outcome by outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.checks.failure import CheckFailure, require
from ldp_kafka.mechanisms.base import Certificate, Estimate, Law, exp_below
from ldp_kafka.randomness import Digests, Ids, Randomness

__all__ = [
    "Deal",
    "Draw",
    "Outcomes",
    "TinyCategorical",
    "TinyNumeric",
    "enumerate_outcomes",
    "narrow",
    "wide",
    "worst_loss",
]

WHOLE = 2**62  # denominator of the tiny laws
SAME = 1e-12  # probabilities closer than this are equal: they come from equal inputs


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

    private = False

    def __init__(self, digits: NDArray[np.intp], hashed: int = 0) -> None:
        self.digits, self.hashed = digits, hashed
        self.taken = np.zeros(len(digits), np.intp)
        self.factors = np.ones(digits.shape)
        self.draws: list[Draw] = []

    def digests(self, users: Iterable[str] | Ids) -> Digests:
        """One first half for all, the row in the second."""
        rows = np.array(
            [int(user) for user in (users.texts() if isinstance(users, Ids) else users)], np.uint64
        )
        return np.column_stack([np.full(len(rows), self.hashed, np.uint64), rows])

    def at(
        self, users: Digests, slot: int | NDArray[np.int64], phase: int, bound: NDArray[np.int64]
    ) -> _BoundDeal:
        """The source for one draw of each of these rows."""
        require(
            bound.dtype == np.int64 and bound.shape[:1] == (len(users),),
            "noise must be bound to rows of int64",
        )
        return _BoundDeal(
            self, users[:, 1].astype(np.intp), int(np.asarray(slot)), phase, bound.copy()
        )

    def words(self, n: int, k: int = 1, *, first: int = 0) -> NDArray[np.uint32]:  # noqa: ARG002
        """Refused: a draw needs a context."""
        raise CheckFailure(
            "a method must draw through mechanism.perturb, from a source bound to users and slot"
        )


class _BoundDeal:
    """What a tiny mechanism is handed: the deal, and the rows that it draws for."""

    private = False

    def __init__(
        self, deal: Deal, rows: NDArray[np.intp], slot: int, phase: int, bound: NDArray[np.int64]
    ) -> None:
        self.deal, self.rows, self.slot, self.phase, self.bound = deal, rows, slot, phase, bound

    def digests(self, users: Iterable[str] | Ids) -> Digests:
        return self.deal.digests(users)

    def at(
        self, users: Digests, slot: int | NDArray[np.int64], phase: int, bound: NDArray[np.int64]
    ) -> _BoundDeal:
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


class _Tiny:
    """Randomised response on ``len(outputs)`` outputs: the right one weighs ``high``, each other
    one ``low``, and high / low <= e^epsilon.
    """

    epsilon: float

    def _weigh(self, epsilon: float, outputs: int) -> None:
        self.epsilon = float(epsilon)
        share = 1 / (exp_below(self.epsilon) + outputs - 1)
        self.low = -(-WHOLE * share.numerator // share.denominator)  # up
        self.high = WHOLE - (outputs - 1) * self.low

    def certificate(self) -> Certificate:
        """The exact loss."""
        return Certificate(Fraction(self.high, self.low), self.epsilon)

    def tables(self) -> tuple[int, ...]:
        """The two weights."""
        return self.low, self.high

    def _choose(
        self, values: NDArray[Any], probabilities: NDArray[np.float64], randomness: Randomness
    ) -> NDArray[np.intp]:
        if not isinstance(randomness, _BoundDeal):
            raise CheckFailure(
                "a method must hand its mechanism the source that it was given, bound to users and"
                " slot"
            )
        return randomness.choose(values, probabilities)


class TinyNumeric(_Tiny):
    """Three outputs around the domain's middle, ``reach`` lengths of it apart; inputs are rounded
    to three points without bias.
    """

    def __init__(
        self, epsilon: float, domain: tuple[float, float] = (0.0, 1.0), *, reach: float = 0.5
    ) -> None:
        self._weigh(epsilon, 3)
        self.domain = (float(domain[0]), float(domain[1]))
        self.outputs = self.domain[0] + (self.domain[1] - self.domain[0]) * (
            0.5 + reach * np.array([-1.0, 0.0, 1.0])
        )

    def perturb(self, values: NDArray[Any], randomness: Randomness) -> NDArray[np.float64]:
        """The outputs dealt to these rows."""
        lo, hi = self.domain
        values = np.asarray(values, np.float64)
        place = 2 * (np.clip(values, lo, hi) - lo) / (hi - lo)
        # weights of the rounding, (n, 3)
        close = np.maximum(1 - np.abs(place[:, None] - np.arange(3)), 0)
        low, high = self.low / WHOLE, self.high / WHOLE
        return self.outputs[self._choose(values, low + (high - low) * close, randomness)]

    def law(self, value: float) -> Law:
        """The exact law."""
        lo, hi = (Fraction(end) for end in self.domain)
        place = 2 * (min(max(Fraction(value), lo), hi) - lo) / (hi - lo)
        close = [max(1 - abs(place - i), Fraction(0)) for i in range(3)]
        weights = [
            self.low * place.denominator + int((self.high - self.low) * part * place.denominator)
            for part in close
        ]
        return Law(self.outputs, weights, WHOLE * place.denominator)

    def estimate(self, reports: NDArray[np.float64]) -> Estimate:
        """Unbiased, as any mechanism's."""
        ends = [self.law(end).mean() for end in self.domain]
        one = self.domain[0] + (np.asarray(reports) - ends[0]) / (ends[1] - ends[0]) * (
            self.domain[1] - self.domain[0]
        )
        return Estimate(float(one.mean()), float(one.std() / len(one) ** 0.5), len(one))


class TinyCategorical(_Tiny):
    """Generalised randomised response."""

    def __init__(self, epsilon: float, categories: int = 2) -> None:
        self._weigh(epsilon, categories)
        self.categories = categories

    def perturb(self, values: NDArray[Any], randomness: Randomness) -> NDArray[np.int64]:
        """The outputs dealt to these rows."""
        low, high = self.low / WHOLE, self.high / WHOLE
        right = np.asarray(values)[:, None] == np.arange(self.categories)
        return self._choose(values, low + (high - low) * right, randomness).astype(np.int64)

    def law(self, value: int) -> Law:
        """The exact law."""
        return Law(
            np.arange(self.categories),
            [self.high if i == value else self.low for i in range(self.categories)],
            WHOLE,
        )

    def estimate(self, reports: NDArray[np.int64]) -> Estimate:
        """Unbiased, as any mechanism's."""
        seen = np.bincount(reports, minlength=self.categories) / max(len(reports), 1)
        return Estimate(
            (seen - self.low / WHOLE) / ((self.high - self.low) / WHOLE),
            np.full(self.categories, inf),
            len(reports),
        )


def narrow(epsilon: float, of: Any) -> TinyNumeric | TinyCategorical:
    """The tiny mechanism of a domain, its outputs inside it, or of a number of categories: a
    factory for any method.
    """
    return (
        TinyCategorical(epsilon, int(of))
        if isinstance(of, int | np.integer)
        else TinyNumeric(epsilon, of)
    )


def wide(epsilon: float, of: Any) -> TinyNumeric | TinyCategorical:
    """The same with outputs beyond the domain, as Square Wave's are: it moves what a method
    remembers further.
    """
    return (
        TinyCategorical(epsilon, int(of))
        if isinstance(of, int | np.integer)
        else TinyNumeric(epsilon, of, reach=1.0)
    )


@dataclass(frozen=True)
class Outcomes:
    """The exact law of what is published of each stream: arrays (streams, outcomes, ...), where
    ``real`` tells outcomes from repeats of one (digits that were never dealt).
    """

    streams: NDArray[Any]
    factors: NDArray[np.float64]
    real: NDArray[np.bool_]
    published: NDArray[Any]
    draws: list[Draw]

    def neighbours(self, window: int) -> list[tuple[int, int]]:
        """Pairs of streams that differ, and only inside one run of ``window`` slots."""
        differ = self.streams[:, None] != self.streams[None]
        differ = differ.reshape((*differ.shape[:3], -1)).any(3)  # a vector changes as a whole
        first, last = differ.argmax(2), self.streams.shape[1] - 1 - differ[:, :, ::-1].argmax(2)
        near = differ.any(2) & (last - first < window)
        return [(int(i), int(j)) for i, j in np.argwhere(np.tril(near))]

    def loss(self, i: int, j: int) -> float:
        """Largest absolute log likelihood ratio of one outcome; infinite where something is
        possible for one stream only.
        """
        kept = self.real[i]
        if (
            not np.array_equal(kept, self.real[j])
            or self.published[i, kept].tobytes() != self.published[j, kept].tobytes()
        ):
            return inf
        return float(
            np.abs(
                np.log(self.factors[i, kept]).sum(1) - np.log(self.factors[j, kept]).sum(1)
            ).max()
        )

    def reached(self, i: int, j: int) -> int:
        """The largest number of draws that differ in law between the two streams, given the draws
        before them.
        """
        kept = self.real[i] & self.real[j]
        return int(
            (np.abs(self.factors[i, kept] - self.factors[j, kept]) > SAME).sum(1).max(initial=0)
        )


def enumerate_outcomes(
    make: Callable[[Any], Any],
    length: int,
    *,
    mechanism: Callable[..., Any] = narrow,
    alphabet: Sequence[Any] | None = None,
    draws: int | None = None,
    hashed: int = 0,
) -> Outcomes:
    """All outcomes of all streams of ``length`` values from an alphabet.

    Parameters
    ----------
    make : mechanism factory -> method
    mechanism : `narrow` or `wide`
    alphabet : default: the ends of the domain, or all categories; vectors for a method of vectors
    draws : the most draws of one stream; default: one a slot
    hashed : what a method may group its users by: the first half of the digest

    Raises
    ------
    CheckFailure : the probabilities of a stream's outcomes do not sum to one: a draw went round
        ``mechanism.perturb``
    """
    method = make(mechanism)
    numeric = method.kind == "numeric"
    letters = (
        list(alphabet)
        if alphabet is not None
        else list(method.domain)
        if numeric
        else list(range(method.categories))
    )
    streams = np.array(list(product(letters, repeat=length)), np.float64 if numeric else np.int64)
    digits = np.array(
        list(product(range(3 if numeric else method.categories), repeat=draws or length)), np.intp
    )
    deal = Deal(np.tile(digits, (len(streams), 1)), hashed)
    published = np.asarray(method.release(np.repeat(streams, len(digits), axis=0), deal))
    shape = (len(streams), len(digits))
    unused = np.arange(digits.shape[1]) >= deal.taken[:, None]
    real = ~(unused & (deal.digits != 0)).any(1).reshape(shape)
    factors = deal.factors.reshape(*shape, -1)
    total = np.where(real, factors.prod(2), 0).sum(1)
    require(
        np.abs(total - 1).max() < 1e-9,
        "the probabilities of a stream's outcomes must sum to one: a draw went round"
        " mechanism.perturb",
    )
    return Outcomes(
        streams, factors, real, published.reshape((*shape, *published.shape[1:])), deal.draws
    )


def worst_loss(
    make: Callable[[Any], Any], window: int, length: int = 5, **parameters: Any
) -> float:
    """Largest loss over all neighbouring streams of ``length`` slots, in nats; parameters as of
    `enumerate_outcomes`.

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> settings = {"epsilon": 1.0, "window": 2, "domain": (0.0, 1.0)}
    >>> make = lambda mechanism: lk.method("sw_direct", mechanism=mechanism, **settings)
    >>> round(worst_loss(make, 2), 9)
    1.0
    """
    every = [
        enumerate_outcomes(make, length, mechanism=mechanism, **parameters)
        for mechanism in (narrow, wide)
    ]
    return max(outcomes.loss(i, j) for outcomes in every for i, j in outcomes.neighbours(window))
