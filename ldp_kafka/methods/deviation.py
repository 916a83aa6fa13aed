"""How far the mean aim of a crowd can be from its mean value, where deviations are fed back."""

# ruff: noqa: SLF001 - a `Feedback` is simulated, step by step

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.mechanisms.base import Law
from ldp_kafka.methods.batch import Batch
from ldp_kafka.methods.values import FIXED
from ldp_kafka.randomness import seeded

__all__ = ["SETTLED", "TURNS", "Deviations"]

LEVELS = 9  # of the simulated crowds: 0, 1/8, ..., 1 of the domain
TURNS = 32  # reports in a row that are simulated, at most: later ones are taken to be as the last
SETTLED = 4  # reports after which a deviation of the last report alone has its lasting law
DRAWS = 2**18  # users of one level, over all reports, at most
USERS = 2**15  # of one level, at most
MOVED = 2**12  # of which it is looked at what they aim at where they have moved
DOUBT = 2.0  # standard errors of the simulation that are added


class Deviations(NamedTuple):
    """Mean aims of simulated crowds less their mean values, in lengths of the domain, by report of
    a block; a function of public parameters alone.
    """

    low: list[list[float]]
    """The least, by report (turns, LEVELS) and mean value."""
    high: list[list[float]]
    """The most."""
    moved: list[list[list[float]]]
    """(turns, LEVELS, LEVELS) the mean aim of a crowd that was at one level in all reports before,
    and is at another one now.
    """
    doubt: list[float]
    """Of these, by report."""
    error: float
    """Root mean square distance of one released report from its value, at the worst level and
    report.
    """

    @classmethod
    def of(cls, method: Any) -> Deviations:
        """Those of a `Feedback`, simulated with fixed words.

        Notes
        -----
        A crowd's mean deviation depends on more than its mean value. The two extremes are taken,
        and all between them: users who are all alike, and users who are at the ends of the domain.
        Users may have joined at any report of the block, so those of the reports before are taken
        too, and of the first one, which has no deviation.
        """
        turns = method.turns
        users = min(USERS, DRAWS // turns)
        levels = (np.arange(LEVELS) * (FIXED // (LEVELS - 1))).astype(np.int64)
        values = np.repeat(levels, users)
        rows = np.arange(len(values))
        state = method.state(np.column_stack([rows, rows]).astype(np.uint64))
        source, lows, highs, moved, doubts, worst = seeded(0), [], [], [], [], 0.0
        least, most = [0.0] * LEVELS, [0.0] * LEVELS
        off = _Off.of(method)
        for turn in range(turns):
            remembered = method.remembered(state, rows, turn)
            some = remembered.reshape(LEVELS, users)[:, :MOVED]
            table = [_means(method._aim(some + level)) for level in levels.tolist()]
            moved.append([[table[now][was] for now in range(LEVELS)] for was in range(LEVELS)])
            aims = method._aim(values + remembered)
            away = _means((aims - values).reshape(LEVELS, users))
            first, second = _moments(aims.reshape(LEVELS, users))
            spread = max(s - m * m for m, s in zip(first, second, strict=True))
            doubt = DOUBT * (spread / users) ** 0.5 if turn else 0.0
            for at in range(LEVELS):
                share = at / (LEVELS - 1)
                apart = (1 - share) * away[0] + share * away[-1]
                least[at] = min(least[at], away[at] - doubt, apart - doubt)
                most[at] = max(most[at], away[at] + doubt, apart + doubt)
            lows.append(list(least))
            highs.append(list(most))
            doubts.append(doubt * (users / min(users, MOVED)) ** 0.5)
            worst = max(worst, *off.worst(aims.reshape(LEVELS, users)))
            method._report(state, Batch(rows, turn, values, source), remembered)
        return cls(lows, highs, moved, doubts, worst)

    def limits(
        self, turn: int, low: float, high: float, before: tuple[float, float] | None
    ) -> tuple[float, float]:
        """Between which mean values a crowd can lie whose mean aim lies in [low, high].

        Parameters
        ----------
        turn : reports of its users before this one, at most
        before : between which levels their mean value was then; None: as now. A crowd that moved
            about there is taken to aim between those that stood still at one of them.
        """
        turn = min(turn, len(self.low) - 1)
        least, most = list(self.low[turn]), list(self.high[turn])
        if before is not None and turn:
            doubt = self.doubt[turn]
            inner = (at / (LEVELS - 1) for at in range(LEVELS))
            between = [level for level in inner if before[0] < level < before[1]]
            for row in (_row(self.moved[turn], level) for level in (*before, *between)):
                for at, aim in enumerate(row):
                    away = aim - at / (LEVELS - 1)
                    least[at], most[at] = min(least[at], away - doubt), max(most[at], away + doubt)
        return _lowest(low, most), -_lowest(-high, [-away for away in least], mirrored=True)


class _Off(NamedTuple):
    """The mean squared distance of a report from its value as a polynomial of its aim."""

    low: float
    span: float
    mean: tuple[float, float]
    """E[report | aim], which is a share of the span."""
    square: tuple[float, float, float]
    """E[report^2 | aim]."""

    @classmethod
    def of(cls, method: Any) -> _Off:
        laws = [Law.of(method.mechanism.law(x)) for x in (0.0, 0.5, 1.0)]
        first = [law.mean() for law in laws]
        zero, half, one = (law.mean_square() for law in laws)
        curve = 2 * (zero - 2 * half + one)
        ends = method.ends
        return cls(
            ends[0] / FIXED,
            (ends[1] - ends[0]) / FIXED,
            (first[0], first[2] - first[0]),
            (zero, one - zero - curve, curve),
        )

    def worst(self, aims: NDArray[np.int64]) -> list[float]:
        """Its root for each crowd, aims (LEVELS, users)."""
        first, second = _moments(aims)
        found = []
        for at in range(LEVELS):
            # of the aim as a share of the span
            mean = (first[at] - self.low) / self.span
            square = (second[at] - 2 * self.low * first[at] + self.low**2) / self.span**2
            said = self.mean[0] + self.mean[1] * mean
            squared = self.square[0] + self.square[1] * mean + self.square[2] * square
            away = self.low - at / (LEVELS - 1)
            total = away * away + 2 * away * self.span * said + self.span**2 * squared
            found.append(max(total, 0.0) ** 0.5)
        return found


def _means(values: NDArray[np.int64]) -> list[float]:
    """Of each crowd (LEVELS, users), in lengths of the domain: sums of integers."""
    return [total / values.shape[1] / FIXED for total in values.sum(1).tolist()]


def _moments(aims: NDArray[np.int64]) -> tuple[list[float], list[float]]:
    """First and second moments (LEVELS,) of aims (LEVELS, users), in lengths of the domain."""
    coarse = aims >> 16  # squares are summed in 64 bits
    users = aims.shape[1]
    first, second = coarse.sum(1).tolist(), (coarse * coarse).sum(1).tolist()
    return [s / users / 2**16 for s in first], [s / users / 2**32 for s in second]


def _row(table: list[list[float]], level: float) -> list[float]:
    """Between the rows of two levels."""
    place = min(max(level, 0.0), 1.0) * (LEVELS - 1)
    at = min(int(place), LEVELS - 2)
    part = place - at
    return [a + part * (b - a) for a, b in zip(table[at], table[at + 1], strict=True)]


def _lowest(aim: float, away: list[float], *, mirrored: bool = False) -> float:
    """The lowest value whose aim can be as high; ``away``, by level, is the most that it is above
    the value. Beyond the ends it is as there.
    """
    step = 1 / (LEVELS - 1)
    values = [at * step for at in range(LEVELS)]
    if mirrored:
        values, away = [-value for value in reversed(values)], away[::-1]
    before = values[0] + away[0]
    if aim <= before:
        return aim - away[0]
    for left, right in zip(range(LEVELS - 1), range(1, LEVELS), strict=True):
        reached = values[right] + away[right]
        if reached >= aim:
            start = values[left] + away[left]
            return values[left] + step * ((aim - start) / (reached - start))
    return aim - away[-1]
