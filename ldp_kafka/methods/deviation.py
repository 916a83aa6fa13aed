"""How far the mean aim of a crowd can be from its mean value, where deviations are fed back."""

# ruff: noqa: SLF001 - a `Feedback` is simulated, step by step

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.mechanisms.base import Law, Z
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
STEP = 0.25
# normal lengths of an interval whose other end is 0, 0.25, ... further away: see `limits`
LENGTHS = (
    *(1.959964, 1.850183, 1.769713, 1.715211, 1.681478, 1.662491, 1.652747),
    *(1.648152, 1.646146, 1.645330, 1.645019, 1.644908, 1.644871),
)


class Deviations(NamedTuple):
    """Mean aims of simulated crowds less their mean values, in lengths of the domain, by report of
    a block; a function of public parameters alone.
    """

    low: list[list[float]]
    """The least, by report (turns, LEVELS) and mean value."""
    high: list[list[float]]
    """The most."""
    moved: list[list[list[float]]]
    """(turns, LEVELS, LEVELS) the mean aim of users who were at one level in all reports before,
    and are at another one now.
    """
    behind: list[list[list[float]]]
    """(turns, LEVELS, LEVELS) the least that a crowd aims further whose mean was at one level in
    all reports before, and is at another one now.
    """
    ahead: list[list[list[float]]]
    """The most."""
    doubt: list[float]
    """Of these, by report."""
    spread: list[float]
    """By report the most that the aims of users with the same streams vary."""
    error: float
    """Root mean square distance of one released report from its value, at the worst level and
    report.
    """

    @classmethod
    def of(cls, method: Any) -> Deviations:
        """Those of a `Feedback`, simulated with fixed words.

        Notes
        -----
        A crowd's mean deviation depends on more than its mean value. Let users who stay at x aim
        g(x) further on average. Users with values X then aim E g(X) further than their mean E X:
        that lies between the greatest convex function below g and the least concave one above it,
        at E X (Jensen), and users at two levels reach each of the two. So these hold for crowds of
        any spread, and nothing narrower does. Users who are all alike, or at the ends of the
        domain, are not always the extremes: of `app` users at a quarter and at the upper end are.
        Users may have joined at any report of the block, so the least and the most of these two are
        taken over the reports before too, and over the first one, which has no deviation. Between
        two levels g is taken to bend by an eighth of its second difference. The same holds of a
        crowd that has moved as one, all users by the same way or as far as the domain goes, with g
        of those who came that way.
        """
        turns = method.turns
        users = min(USERS, DRAWS // turns)
        levels = (np.arange(LEVELS) * (FIXED // (LEVELS - 1))).astype(np.int64)
        values = np.repeat(levels, users)
        rows = np.arange(len(values))
        state = method.state(np.column_stack([rows, rows]).astype(np.uint64))
        source, lows, highs, moved, doubts, worst = seeded(0), [], [], [], [], 0.0
        behind, ahead, spreads, vary = list[Any](), list[Any](), list[float](), 0.0
        least, most = [0.0] * LEVELS, [0.0] * LEVELS
        off = _Off.of(method)
        for turn in range(turns):
            remembered = method.remembered(state, rows, turn)
            some = remembered.reshape(LEVELS, users)[:, :MOVED]
            now = [method._aim(some + level) for level in levels.tolist()]
            moved.append([list(row) for row in zip(*map(_means, now), strict=True)])
            ways = [_along(moved[-1], way) for way in range(1 - LEVELS, LEVELS)]
            behind.append(_by_way([_convex(way) for way in ways]))
            ahead.append(_by_way([_concave(way) for way in ways]))
            vary = max(vary, *(s - m * m for each in now for m, s in _pairs(each)))
            spreads.append(vary)
            aims = method._aim(values + remembered)
            away = _means((aims - values).reshape(LEVELS, users))
            spread = max(s - m * m for m, s in _pairs(aims.reshape(LEVELS, users)))
            doubt = DOUBT * (spread / users) ** 0.5 if turn else 0.0
            three = zip(away, away[1:], away[2:], strict=False)
            bends = [0.0, *(abs(a - 2 * b + c) / 8 for a, b, c in three), 0.0]
            low = _convex([each - doubt - bend for each, bend in zip(away, bends, strict=True)])
            high = _concave([each + doubt + bend for each, bend in zip(away, bends, strict=True)])
            least, most = [*map(min, least, low)], [*map(max, most, high)]
            lows.append(least)
            highs.append(most)
            doubts.append(doubt * (users / min(users, MOVED)) ** 0.5)
            worst = max(worst, *off.worst(aims.reshape(LEVELS, users)))
            method._report(state, Batch(rows, turn, values, source), remembered)
        return cls(lows, highs, moved, behind, ahead, doubts, spreads, worst)

    def limits(
        self,
        turn: int,
        aim: float,
        noise: tuple[float, float],
        before: tuple[float, float] | None = None,
        *,
        normal: bool = False,
    ) -> tuple[float, float]:
        """Between which mean values a crowd lies, in 95 %, whose mean aim is estimated.

        Parameters
        ----------
        turn : reports of its users before this one, at most
        aim : the estimate
        noise : how far the mean aim is below it, and above it, at most, in 95 %
        before : between which levels their mean value was then; None: as now. A crowd that moved
            about there is taken to aim between those that stood still at one of them.
        normal : whether the estimate's law is the normal one

        Notes
        -----
        A crowd with the mean x aims between x + least(x) and x + most(x). Its aim can be near one
        of the two alone where they lie far apart, and then the noise does harm on one side alone:
        with s its standard deviation, the limits of the aims within c s of the estimate hold x with
        probability Phi(c + d) - Phi(-c) at least, d = (most(x) - least(x)) / s (Imbens and Manski,
        Econometrica 72, 2004). c is the one for which that is .95. The least d is taken of those x
        that the interval with c = 1.96 has: where it has not the true one, the narrower interval
        has not either, so nothing is lost.
        """
        least, most = self._away(turn, before)
        low, high = _values(aim, noise, least, most)
        if not normal:
            return low, high
        gaps = [b - a for a, b in zip(least, most, strict=True)]
        inner = (at for at in range(LEVELS) if low < at / (LEVELS - 1) < high)
        gap = min(_between(gaps, low), _between(gaps, high), *(gaps[at] for at in inner))
        part = _normal_length(Z * gap / max(noise)) / Z
        return _values(aim, (part * noise[0], part * noise[1]), least, most)

    def _away(
        self, turn: int, before: tuple[float, float] | None
    ) -> tuple[list[float], list[float]]:
        """The least and the most (LEVELS,) that a crowd aims further."""
        turn = min(turn, len(self.low) - 1)
        least, most = list(self.low[turn]), list(self.high[turn])
        if before is not None and turn:
            doubt = self.doubt[turn]
            inner = (at / (LEVELS - 1) for at in range(LEVELS))
            between = [level for level in inner if before[0] < level < before[1]]
            for level in (*before, *between):
                low, high = _row(self.behind[turn], level), _row(self.ahead[turn], level)
                least = [min(a, b - doubt) for a, b in zip(least, low, strict=True)]
                most = [max(a, b + doubt) for a, b in zip(most, high, strict=True)]
        return least, most


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
        found = []
        for at, (first, second) in enumerate(_pairs(aims)):
            # of the aim as a share of the span
            mean = (first - self.low) / self.span
            square = (second - 2 * self.low * first + self.low**2) / self.span**2
            said = self.mean[0] + self.mean[1] * mean
            squared = self.square[0] + self.square[1] * mean + self.square[2] * square
            away = self.low - at / (LEVELS - 1)
            total = away * away + 2 * away * self.span * said + self.span**2 * squared
            found.append(max(total, 0.0) ** 0.5)
        return found


def _means(values: NDArray[np.int64]) -> list[float]:
    """Of each crowd (LEVELS, users), in lengths of the domain: sums of integers."""
    return [total / values.shape[1] / FIXED for total in values.sum(1).tolist()]


def _pairs(aims: NDArray[np.int64]) -> list[tuple[float, float]]:
    """First and second moment of each crowd's aims (LEVELS, users), in lengths of the domain."""
    coarse = aims >> 16  # squares are summed in 64 bits
    users = aims.shape[1]
    first, second = coarse.sum(1).tolist(), (coarse * coarse).sum(1).tolist()
    return [(m / users / 2**16, s / users / 2**32) for m, s in zip(first, second, strict=True)]


def _convex(values: list[float]) -> list[float]:
    """The greatest convex function below these values (LEVELS,): at each level the lowest that lies
    on the line of two of them.
    """
    ends = range(LEVELS)
    lines = [
        [
            (values[left] * (right - at) + values[right] * (at - left)) / (right - left)
            for left in ends[:at]
            for right in ends[at + 1 :]
        ]
        for at in ends
    ]
    return [min(value, *line) if line else value for value, line in zip(values, lines, strict=True)]


def _concave(values: list[float]) -> list[float]:
    """The least concave function above them."""
    return [-each for each in _convex([-each for each in values])]


def _along(moved: list[list[float]], way: int) -> list[float]:
    """How much further users aim than they are who have moved ``way`` levels up, or as far as the
    domain goes (LEVELS,), by where they are; ``moved`` are the aims by where they were and are.
    """
    were = (min(max(at - way, 0), LEVELS - 1) for at in range(LEVELS))
    return [moved[was][at] - at / (LEVELS - 1) for at, was in enumerate(were)]


def _by_way(found: list[list[float]]) -> list[list[float]]:
    """What is known by way, from 1 - LEVELS up, and place, by the places before and now."""
    return [[found[at - was + LEVELS - 1][at] for at in range(LEVELS)] for was in range(LEVELS)]


def _place(level: float) -> tuple[int, float]:
    """The level of the table below this one, and how far on to the next."""
    place = min(max(level, 0.0), 1.0) * (LEVELS - 1)
    at = min(int(place), LEVELS - 2)
    return at, place - at


def _between(values: list[float], level: float) -> float:
    """Between those of two levels; beyond the ends as there."""
    at, part = _place(level)
    return values[at] + part * (values[at + 1] - values[at])


def _row(table: list[list[float]], level: float) -> list[float]:
    """Between the rows of two levels."""
    at, part = _place(level)
    return [a + part * (b - a) for a, b in zip(table[at], table[at + 1], strict=True)]


def _normal_length(apart: float) -> float:
    """The c for which Phi(c + apart) - Phi(-c) is .95, to 1 % and never less: convex, so that the
    straight lines between those that are known lie above it.
    """
    place = min(max(apart, 0.0) / STEP, len(LENGTHS) - 1.0)
    at = min(int(place), len(LENGTHS) - 2)
    return LENGTHS[at] + (place - at) * (LENGTHS[at + 1] - LENGTHS[at])


def _values(
    aim: float, noise: tuple[float, float], least: list[float], most: list[float]
) -> tuple[float, float]:
    """Between which values those lie whose aims are within the noise of this one."""
    lowest = _lowest(aim - noise[0], most)
    return lowest, -_lowest(-aim - noise[1], [-away for away in least], mirrored=True)


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
