"""The exact law of what a delay method releases of short streams.

Rows (stream, outcome) of one release: row (s, o) carries stream s and is dealt the answers of
outcome o, whatever their chance. Given its answers a stream's noisy sums are independent, so the
largest ratio over all outputs is that of the answers times the largest ratio of each sum.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import inf, log
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import State
from ldp_kafka.checks.delay.draws import Asked, WindowDeal, dealt
from ldp_kafka.checks.failure import require
from ldp_kafka.methods import Batch
from ldp_kafka.methods.delay.closed import Closed

__all__ = ["WindowOutcomes", "all_streams", "digits_of", "enumerate_windows"]

CHUNK = 2**18  # pairs of rows compared at once


@dataclass(frozen=True)
class WindowOutcomes:
    """The exact law of what is released of each stream, arrays (streams, outcomes, ...), where
    ``real`` tells outcomes from repeats of one (answers that were never asked for).
    """

    method: Any
    streams: NDArray[np.float64]
    real: NDArray[np.bool_]
    likely: NDArray[np.float64]
    """Logarithm of the chance of the answers."""
    sums: NDArray[np.int64]
    """(streams, outcomes, labels) what was perturbed as a sum under each label (part, slot,
    phase); -1 where nothing was.
    """
    parts: list[str]
    """Of each label."""
    inputs: NDArray[np.int64]
    """(streams, outcomes, draws, numbers) what was compared, told or chosen by, in the order of
    answers: of a choice the scores of all candidates, else one number.
    """
    given_to: NDArray[np.intp]
    """(streams, outcomes, draws) which of the ``answering`` parts each was given to; -1: none."""
    answering: list[str]
    released: NDArray[np.float64]
    """(streams, outcomes, numbers) all that is released: values, errors and intervals."""
    asked: list[Asked]

    @cached_property
    def neighbours(self) -> NDArray[np.intp]:
        """Pairs (n, 2) of streams that differ in one window, and in no slot by more than one
        contribution.
        """
        return self._apart(self.method.window)

    @cached_property
    def closest(self) -> NDArray[np.intp]:
        """Those of the neighbours that differ in one slot."""
        return self._apart(1)

    def _apart(self, slots: int) -> NDArray[np.intp]:
        """Pairs (n, 2) of streams that differ in so many consecutive slots at most."""
        away = np.abs(self.streams[:, None] - self.streams[None])
        most = self.method.contribution or inf
        differs = away > 0
        first, last = differs.argmax(2), differs.shape[2] - 1 - differs[..., ::-1].argmax(2)
        one = differs.any(2) & (last - first < slots) & (away.max(2) <= most)
        return np.argwhere(np.tril(one))

    def answers_loss(self) -> float:
        """Largest absolute log ratio of the answers of one outcome over all neighbours; infinite
        where what is asked, or how often, is not the same.
        """
        return self._worst[0]

    def sums_loss(self) -> float:
        """Largest log ratio of all noisy sums of one outcome."""
        return self._worst[1]

    def loss(self) -> float:
        """Largest log ratio of everything that is drawn; infinite too where what is released of
        one outcome is not the same for all neighbours.
        """
        if not self.follows:
            return inf
        return self._worst[2]

    @cached_property
    def follows(self) -> bool:
        """Whether neighbours with the same answers and noisy sums release the same."""
        for i, j in self._pairs():
            both = self.real[i] & self.real[j]
            one, other = self.released[i], self.released[j]
            same = (one == other) | (np.isnan(one) & np.isnan(other))
            if not same.all(axis=2)[both].all():
                return False
        return True

    def reached(self) -> int:
        """The largest number of draws that have another input for two neighbours, of one
        outcome.
        """
        most = 0
        for i, j in self._pairs():
            both = self.real[i] & self.real[j]
            changed = (self.inputs[i] != self.inputs[j]).any(3).sum(2)
            changed += (self.sums[i] != self.sums[j]).sum(2)
            most = max(most, int(changed[both].max(initial=0)))
        return most

    def moves(self) -> tuple[dict[str, int], list[int]]:
        """How far what a part is given moves between streams that differ in one slot, of one
        outcome, at most: of each that answers, and the sum of each label.
        """
        given, summed = dict.fromkeys(self.answering, 0), np.zeros(len(self.parts), np.int64)
        for i, j in self._pairs(self.closest):
            both = (self.real[i] & self.real[j])[..., None]
            away = np.abs(self.inputs[i] - self.inputs[j]).max(axis=3) * both
            for at, name in enumerate(self.answering):
                given[name] = max(given[name], int(away[self.given_to[i] == at].max(initial=0)))
            away = np.abs(self.sums[i] - self.sums[j]) * both
            if away.size:
                summed = np.maximum(summed, away.reshape(-1, len(summed)).max(axis=0))
        return given, summed.tolist()

    def one_way(self, part: str) -> bool:
        """Whether the scores of a choice all move the same way, between streams that differ in one
        slot.
        """
        at = self.answering.index(part) if part in self.answering else None
        for i, j in self._pairs(self.closest):
            both = (self.real[i] & self.real[j])[..., None] & (self.given_to[i] == at)
            moved = self.inputs[i] - self.inputs[j]
            mixed = np.asarray((moved > 0).any(3) & (moved < 0).any(3))
            if mixed[both].any():
                return False
        return True

    @cached_property
    def _worst(self) -> tuple[float, float, float]:
        """Of answers, of sums, and of both together."""
        worst = np.zeros(3)
        for answers, sums in self._losses():
            found = [float(each.max(initial=0.0)) for each in (answers, sums, answers + sums)]
            worst = np.maximum(worst, found)
        return float(worst[0]), float(worst[1]), float(worst[2])

    def _losses(self) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """Of answers and of sums, (pairs, outcomes) at a time; 0 for what is no outcome."""
        for i, j in self._pairs():
            both = self.real[i] & self.real[j]
            answers = np.where(both, np.abs(self.likely[i] - self.likely[j]), 0.0)
            answers[self.real[i] != self.real[j]] = inf
            sums = self._sums_loss(self.sums[i], self.sums[j])
            yield answers, np.where(both, sums, 0.0)

    def _sums_loss(self, one: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.float64]:
        total = np.zeros(one.shape[:2])
        for label, part in enumerate(self.parts):
            a, b = one[..., label], other[..., label]
            away = np.abs(a - b)
            distances, place = np.unique(away, return_inverse=True)
            ratio = attrgetter(part)(self.method).ratio
            losses = np.array([log(ratio(distance)) for distance in distances.tolist()])
            total += np.where((a < 0) != (b < 0), inf, losses[place.reshape(away.shape)])
        return np.asarray(total)

    def _pairs(
        self, pairs: NDArray[np.intp] | None = None
    ) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """These pairs, or all neighbours, so many at once that their rows fit into cache."""
        pairs = self.neighbours if pairs is None else pairs
        require(len(pairs) > 0, "there must be neighbours to compare: give more values or slots")
        size = max(1, CHUNK // self.real.shape[1])
        for start in range(0, len(pairs), size):
            yield pairs[start : start + size, 0], pairs[start : start + size, 1]


def all_streams(method: Any, alphabet: Sequence[float], length: int) -> NDArray[np.float64]:
    """Every stream of so many values, shares of the domain."""
    lo, hi = method.domain
    shares = np.array(list(product(alphabet, repeat=length)), np.float64)
    return np.asarray(lo + (hi - lo) * shares)


def digits_of(method: Any, length: int, draws: int | None = None) -> NDArray[np.intp]:
    """Every combination of answers that streams of so many slots can get, one a row."""
    flip, choice = getattr(method, "flip", None), getattr(method, "choice", None)
    limit = getattr(method, "limit", None)
    if flip is not None:
        base, most = int(flip.categories), length
    elif choice is not None:  # one for each block of slots
        base, most = int(choice.candidates), -(-length // method.delay)
    elif getattr(method, "vector", None) is not None:
        base, most = 2, length - (method.calibration == "sound")  # published tests a first value
    else:
        span, hop = method.windows.span, method.windows.hop
        apart = [(i, j) for j in range(length) for i in range(j) if j - i < span]
        most = sum(1 for i, j in apart if hop == 1 or i // hop == j // hop)
        base, most = 2, most if getattr(method, "test", None) is not None else 0
    if limit is not None:  # its candidates must be as many as a part's own answers
        base = int(limit.choice.candidates)
        most += sum(map(limit.chooses, range(-(-length // method.delay))))
    turns = most if draws is None else draws
    return np.indices((base,) * turns, np.intp).reshape(turns, base**turns).T


def enumerate_windows(
    method: Any,
    streams: NDArray[np.float64],
    digits: NDArray[np.intp],
    *,
    present: NDArray[np.bool_] | None = None,
    script: int = 0,
    whole: bool = True,
) -> WindowOutcomes:
    """Every outcome (rows of ``digits``) of every stream (n, T).

    Parameters
    ----------
    method : a fresh one; its parts are replaced
    present : (T,) which slots have values, in all streams
    whole : whether ``digits`` are all outcomes, whose chances must sum to one for each stream

    Raises
    ------
    CheckFailure : they do not: a draw went round the method's parts
    """
    dealt(method)
    deal = WindowDeal(np.tile(digits, (len(streams), 1)), script)
    rows = np.repeat(streams, len(digits), axis=0)
    there = None if present is None else np.broadcast_to(present, rows.shape)
    close = method.close
    told: list[NDArray[np.float64]] = []

    def watched(state: State, batch: Batch) -> Closed:
        made: Closed = close(state, batch)
        told.extend(part.T for part in made.numbers)
        return made

    method.close = watched
    released = np.hstack([np.asarray(method.release(rows, deal, present=there)), *told])
    shape = (len(streams), len(digits))
    unused = np.arange(digits.shape[1]) >= deal.taken[:, None]
    real = ~(unused & (deal.digits != 0)).any(1).reshape(shape)
    likely = (deal.likely + _shared(method, deal)).reshape(shape)
    if whole:
        total = np.where(real, np.exp(likely), 0.0).sum(1)
        require(
            np.abs(total - 1).max() < 1e-9,
            "the chances of a stream's outcomes must sum to one: a draw went round the parts",
        )
    sums, parts = _sums_of(deal)
    inputs, given_to, answering = _inputs_of(deal)
    return WindowOutcomes(
        method,
        streams,
        real,
        likely,
        sums.reshape((*shape, -1)),
        parts,
        inputs.reshape((*shape, *inputs.shape[1:])),
        given_to.reshape((*shape, -1)),
        answering,
        released.reshape((*shape, -1)),
        deal.asked,
    )


def _sums_of(deal: WindowDeal) -> tuple[NDArray[np.int64], list[str]]:
    labels: dict[tuple[str, int, int], int] = {}
    found: list[tuple[NDArray[np.intp], int, NDArray[np.int64]]] = []
    for asked in deal.asked:
        if _kind(asked.part) not in ("adder", "alone", "threshold"):
            continue
        for slot in np.unique(asked.slots).tolist():
            label = labels.setdefault((asked.part, slot, asked.phase), len(labels))
            at = asked.slots == slot
            found.append((asked.rows[at], label, asked.inputs[at]))
    sums = np.full((len(deal.digits), len(labels)), -1, np.int64)
    for rows, label, inputs in found:
        require(
            (sums[rows, label] < 0).all() and len(np.unique(rows)) == len(rows),
            "a stream's draws in one slot must differ in phase",
        )
        sums[rows, label] = inputs
    return sums, [part for part, _, _ in labels]


def _kind(part: str) -> str:
    """Which of `OWN` it is, of whatever it is a part of."""
    return part.rpartition(".")[2]


def _inputs_of(deal: WindowDeal) -> tuple[NDArray[np.int64], NDArray[np.intp], list[str]]:
    """What was compared, told or chosen by, in the order of each row's answers; to which part it
    was given, and the names of these.
    """
    choices = (each for each in deal.asked if _kind(each.part) == "choice")
    width = max([1, *(each.inputs.shape[1] for each in choices)])
    inputs = np.zeros((*deal.digits.shape, width), np.int64)
    given_to, names = np.full(deal.digits.shape, -1), dict[str, int]()
    turn = np.zeros(len(inputs), np.intp)
    for asked in deal.asked:
        if _kind(asked.part) in ("test", "flip", "vector", "choice") and asked.inputs.size:
            given = asked.inputs.reshape(len(asked.rows), -1)
            if _kind(asked.part) == "vector":  # beside the number of its threshold
                given = given[:, :1]
            inputs[asked.rows, turn[asked.rows], : given.shape[1]] = given
            given_to[asked.rows, turn[asked.rows]] = names.setdefault(asked.part, len(names))
            turn[asked.rows] += 1
    return inputs, given_to, list(names)


def _shared(method: Any, deal: WindowDeal) -> NDArray[np.float64]:
    """Logarithms of the chances (rows,) of all answers that share thresholds: of each threshold the
    sum, over all that it can be, of the product of its answers' chances.
    """
    likely = np.zeros(len(deal.digits))
    of_level: dict[int, list[tuple[int, int]]] = {}
    owner: dict[int, int] = {}
    drawn_by: dict[int, str] = {}
    for asked in deal.asked:
        if _kind(asked.part) != "vector":
            continue
        for row, (value, level), answer in zip(
            asked.rows.tolist(), asked.inputs.tolist(), asked.answers.tolist(), strict=True
        ):
            of_level.setdefault(level, []).append((value, answer))
            owner[level], drawn_by[level] = row, asked.part
    known: dict[tuple[str, tuple[tuple[int, int], ...]], float] = {}
    chances: dict[tuple[str, int], NDArray[np.float64]] = {}
    for level, answers in of_level.items():
        part = drawn_by[level]
        key = part, tuple(answers)
        if key not in known:
            vector: Any = attrgetter(part)(method)
            law = vector.law[1].copy()
            for value, answer in answers:
                if (part, value) not in chances:
                    chances[part, value] = vector.chances(value)
                law *= chances[part, value] if answer else 1 - chances[part, value]
            known[key] = log(float(law.sum()))
        likely[owner[level]] += known[key]
    return likely
