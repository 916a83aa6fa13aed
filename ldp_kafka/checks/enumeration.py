"""The exact law of what a method publishes of a short stream. The method is run over a tiny
mechanism with a handful of outputs, once for each possible sequence of draws.

Methods are batch first, so all the ways are rows of one release: row (s, o) carries stream s and is
dealt the outputs of outcome o, whatever their probability; the tiny mechanism notes that
probability. Rows of unequal streams are compared outcome by outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import inf, nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import State
from ldp_kafka.checks.deal import Deal, Draw
from ldp_kafka.checks.failure import require
from ldp_kafka.checks.tiny import narrow, wide
from ldp_kafka.methods import SENT, Batch, Step

__all__ = ["Outcomes", "enumerate_outcomes", "worst_loss"]

SAME = 1e-12  # probabilities closer than this are equal: they come from equal inputs
CHUNK = 2**15  # outcomes compared at once


@dataclass(frozen=True)
class Outcomes:
    """The exact law of what is seen of each stream: arrays (streams, outcomes, ...), where ``real``
    tells outcomes from repeats of one (digits that were never dealt).
    """

    streams: NDArray[Any]
    factors: NDArray[np.float64]
    real: NDArray[np.bool_]
    seen: NDArray[np.uint8]
    """What is published, and what the edge sends: who reports, of which slots, and what."""
    draws: list[Draw]

    def neighbours(self, window: int) -> NDArray[np.intp]:
        """Pairs (n, 2) of streams that differ, and only inside one run of ``window`` slots."""
        differ = self.streams[:, None] != self.streams[None]
        none = self.streams != self.streams  # NaN
        differ &= ~(none[:, None] & none[None])
        differ = differ.reshape((*differ.shape[:3], -1)).any(3)  # a vector changes as a whole
        first, last = differ.argmax(2), self.streams.shape[1] - 1 - differ[:, :, ::-1].argmax(2)
        return np.argwhere(np.tril(differ.any(2) & (last - first < window)))

    def loss(self, window: int) -> float:
        """The largest absolute log-likelihood ratio of one sequence of draws between two
        neighbours, which the loss of what is seen does not exceed. Infinite if the same draws are
        seen as different things, or are not possible for both.
        """
        kinds: dict[tuple[bytes, bytes], int] = {}
        seen = np.array(
            [
                kinds.setdefault((kept.tobytes(), told[kept].tobytes()), len(kinds))
                for kept, told in zip(self.real, self.seen, strict=True)
            ]
        )
        likelihood = np.log(np.where(self.real[..., None], self.factors, 1.0)).sum(2)
        worst = 0.0
        for i, j in self._pairs(window):
            if (seen[i] != seen[j]).any():
                return inf
            worst = max(worst, float(np.abs(likelihood[i] - likelihood[j]).max()))
        return worst

    def reached(self, window: int) -> int:
        """The largest number of draws that differ in law between two neighbours, given the draws
        before them.
        """
        factors = np.ascontiguousarray(np.moveaxis(self.factors, 2, 0))
        most = 0
        for i, j in self._pairs(window):
            count = np.zeros((len(i), self.real.shape[1]), np.intp)
            for draw in factors:
                count += np.abs(draw[i] - draw[j]) > SAME
            most = max(most, int(count[self.real[i] & self.real[j]].max(initial=0)))
        return most

    def _pairs(self, window: int) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """The neighbours, so many at once that a row of outcomes for each fits into cache."""
        pairs = self.neighbours(window)
        require(len(pairs) > 0, "there must be neighbours to compare: give more values or slots")
        size = max(1, CHUNK // self.real.shape[1])
        for start in range(0, len(pairs), size):
            yield pairs[start : start + size, 0], pairs[start : start + size, 1]


def enumerate_outcomes(
    make: Callable[[Any], Any],
    length: int,
    *,
    mechanism: Callable[..., Any] = narrow,
    alphabet: Sequence[Any] | None = None,
    draws: int | None = None,
    hashed: int = 0,
    present: NDArray[np.bool_] | None = None,
) -> Outcomes:
    """All outcomes of all streams of ``length`` values from an alphabet.

    Parameters
    ----------
    make : mechanism factory -> method
    mechanism : `narrow` or `wide`
    alphabet : default: the ends of the domain, or all categories, and what stands for no value for
        a method with ``cover``; vectors for a method of vectors
    draws : the most draws of one stream; default: one a slot
    hashed : what a method may group its users by: the first half of the digest
    present : (length,) which slots have values, in all streams; default: all

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
    if alphabet is None and method.cover:
        letters.append(nan if numeric else -1)
    streams = np.array(list(product(letters, repeat=length)), np.float64 if numeric else np.int64)
    turns = draws or length
    outputs = 3 if numeric else method.mechanism.categories
    digits = np.indices((outputs,) * turns, np.intp)
    digits = digits.reshape(turns, -1).T
    deal, step = Deal(np.tile(digits, (len(streams), 1)), hashed), method.step
    rows = np.repeat(streams, len(digits), axis=0)
    seen: list[NDArray[np.uint8]] = []

    def watched(state: State, batch: Batch) -> Step:
        made: Step = step(state, batch)
        if len(batch.rows) == len(rows):  # not a step inside of one
            seen.extend(map(_bytes, _sent(made)))
        return made

    method.step = watched
    there = None if present is None else np.broadcast_to(present, rows.shape[:2])
    if there is not None and method.cover:
        there = there & method.values.present(rows)
    seen.append(_bytes(method.release(rows, deal, present=there)))
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
        streams, factors, real, np.concatenate(seen, axis=1).reshape(*shape, -1), deal.draws
    )


def _sent(step: Step) -> list[NDArray[Any]]:
    """What the edge sends of each row."""
    sent, slots = step.status == SENT, step.slots
    answers = step.answers * sent.reshape(-1, *[1] * (step.answers.ndim - 1))
    return [step.status, answers] + ([] if slots is None else [np.where(sent[:, None], slots, 0)])


def _bytes(rows: Any) -> NDArray[np.uint8]:
    """Of each row, as (n, bytes)."""
    flat = np.ascontiguousarray(rows).reshape(len(rows), -1)
    return flat.view(np.uint8).reshape(len(flat), -1)


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
    return max(outcomes.loss(window) for outcomes in every)
