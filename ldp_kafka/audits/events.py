"""Which reports to guess an input by: the choice among the events of all views."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from math import exp, inf
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.audits.rows import smooth
from ldp_kafka.audits.views import Codes, View

__all__ = ["Event", "Pair", "choose"]

CUTS = 128  # of one order of a view's classes that are tried
# Of alpha, for the event of the largest bound and for the one that refutes the claim. The former is
# most often so common that its bound hardly depends on alpha.
SHARES = (0.1, 0.9)

Pair = tuple[NDArray[Any], NDArray[Any]]
Floats = NDArray[np.float64]
Score = Callable[[Codes, Codes], Floats]  # of each class, from the counts of both inputs
# of each two cuts, from the right and the wrong guesses and how many right ones are for nothing
Worth = Callable[[Codes, Codes, Floats], Floats]


@dataclass(frozen=True)
class Event:
    """Reports to guess by: the first input from a report of the first ``first`` classes of an
    order, the second input from one of those from ``second`` on, and nothing between.
    """

    view: View
    order: NDArray[np.intp]
    first: int
    second: int

    @property
    def direction(self) -> str:
        """The inputs that are guessed: first, second or both."""
        if not self.first:
            return "second"
        return "both" if self.second < self.view.size else "first"

    def say(self) -> str:
        """In words."""
        sides = [
            self.view.say(np.sort(classes))
            for classes in (self.order[: self.first], self.order[self.second :])
            if len(classes)
        ]
        return "; for the other input: ".join(sides) or "none"


class _Best(NamedTuple):
    worth: float
    event: Event


def choose(
    views: tuple[View, ...],
    reports: Pair,
    claimed: float | None,
    delta: float,
    alpha: float,
    *,
    never: bool,
) -> list[tuple[Event, float]]:
    """The event that promises the largest bound and the one that promises most to refute the claim,
    each with its share of alpha.

    By cross-validation: each half of these reports orders classes, the other half counts them.
    """
    refutable = claimed is not None and claimed < inf
    shares = SHARES if refutable else (1.0,)
    wanted: list[Worth] = [partial(_bounds, deviations=NormalDist().inv_cdf(1 - alpha * shares[0]))]
    if claimed is not None and refutable:
        wanted.append(partial(_excess, most=1 / (1 + exp(-claimed))))
    best: list[_Best | None] = [None] * len(wanted)
    for view in views:
        codes = [view.code(each) for each in reports]
        # (half, input, class)
        counts = np.array(
            [[np.bincount(x[half::2], minlength=view.size) for x in codes] for half in (0, 1)]
        )
        for score in _scores(view):
            order, cuts, below = _cross_validated(score, counts)
            # guesses of the first input below one cut, of the second from another on
            right = below[0][:, None] + (below[1, -1] - below[1])
            wrong = below[1][:, None] + (below[0, -1] - below[0])
            # delta is paid for each report of an input that is guessed
            sides = (cuts > 0)[:, None].astype(np.float64) + (cuts < view.size)
            free = delta * len(reports[0]) * sides
            possible = np.triu(np.ones(right.shape, bool))
            if never:
                possible &= wrong == 0
                possible[1:, :-1] = False  # one input alone
            for i, value in enumerate(wanted):
                worth = np.where(possible, value(right, wrong, free), -inf)
                low, high = np.unravel_index(int(worth.argmax()), worth.shape)
                held = best[i]
                if held is None or worth[low, high] > held.worth:
                    event = Event(view, order, int(cuts[low]), int(cuts[high]))
                    best[i] = _Best(float(worth[low, high]), event)
    return [
        (each.event, alpha * share)
        for each, share in zip(best, shares, strict=True)
        if each is not None
    ]


def _scores(view: View) -> Iterator[Score]:
    """Orders of classes, the first input's first: log likelihood ratios, and, where numbers have an
    order, the same in steps, and the numbers, both ways.
    """
    yield lambda a, b: np.log((a + 0.5) / (a.sum() + 1)) - np.log((b + 0.5) / (b.sum() + 1))
    if view.ordered:
        numbers = np.arange(view.size, dtype=np.float64)
        yield smooth
        yield lambda *_: numbers
        yield lambda *_: -numbers


class _Sorted(NamedTuple):
    order: NDArray[np.intp]
    score: Floats
    mass: Codes
    """Reports before each place of the order, and after all."""


def _sorted(score: Score, counts: Codes) -> _Sorted:
    of_class = score(*counts)
    order = np.argsort(-of_class, kind="stable")
    mass = np.concatenate([[0], counts.sum(0)[order].cumsum()])
    return _Sorted(order, of_class[order], mass)


def _cross_validated(
    score: Score, counts: Codes
) -> tuple[NDArray[np.intp], NDArray[np.intp], Codes]:
    """The order of classes by all counts (half, input, class); where to cut it; and (input, cut)
    the reports below each cut, as each half counts them in the order of the other at equal mass.
    """
    whole = _sorted(score, counts.sum(0))
    cuts = _cuts(whole.score, whole.mass)
    shares = whole.mass[cuts] / max(whole.mass[-1], 1)
    below = np.zeros((2, len(cuts)), np.int64)
    for learnt, counted in (counts, counts[::-1]):
        order, _, mass = _sorted(score, learnt)
        wanted = shares * mass[-1]
        at = np.searchsorted(mass, wanted)
        before = np.maximum(at - 1, 0)
        at = np.where(wanted - mass[before] < mass[at] - wanted, before, at)
        at[0], at[-1] = 0, len(order)
        below += np.pad(counted[:, order].cumsum(1), ((0, 0), (1, 0)))[:, at]
    return whole.order, cuts, below


def _cuts(score: Floats, mass: Codes) -> NDArray[np.intp]:
    """Where to cut an order: where the score changes; if that is often, at steps of equal mass, and
    at the first and last few, where rare events are.
    """
    steps = 1 + np.flatnonzero((np.diff(score) != 0) & (np.diff(mass[:-1]) > 0))
    if (n := len(steps)) > CUTS:
        even = np.searchsorted(mass[steps], np.linspace(0, mass[-1], CUTS // 2))
        near = np.geomspace(1, n, CUTS // 4).astype(int)
        chosen = np.concatenate([even, near - 1, n - near])
        steps = steps[np.unique(np.clip(chosen, 0, n - 1))]
    return np.concatenate([[0], steps, [len(score)]])


def _bounds(right: Codes, wrong: Codes, free: Floats, *, deviations: float) -> Floats:
    """Nearly the bounds that so many guesses give, ``free`` of the right ones for nothing (Wilson,
    JASA 1927).
    """
    earned = np.maximum(right - free, 0)
    total = np.maximum(earned + wrong, 1)
    share, square = earned / total, deviations**2
    wide = deviations * np.sqrt(share * (1 - share) / total + square / (4 * total**2))
    low = (share + square / (2 * total) - wide) / (1 + square / total)
    low = np.clip(low, 1e-9, 1 - 1e-15)
    bounds: Floats = np.log(low) - np.log1p(-low)
    return bounds


def _excess(right: Codes, wrong: Codes, free: Floats, *, most: float) -> Floats:
    """By how many standard deviations more guesses are right than a share of ``most`` explains."""
    earned = np.maximum(right - free, 0)
    total = earned + wrong
    excess: Floats = (earned - most * total) / np.sqrt(np.maximum(most * (1 - most) * total, 1))
    return excess
