"""Where a stream most likely was, by all that was released of it: post-processing of releases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import NEVER, Field
from ldp_kafka.methods.delay.rows import Rows

__all__ = ["Piece", "Shape", "Smoother"]

Floats = NDArray[np.float64]

# by how much the stream moves in a slot, one standard deviation, in lengths of the domain: a model
# each, from one that crosses the domain in 256 slots to one that hardly moves
MOVES: Floats = 2.0 ** -np.arange(4.0, 11.0)
# of the stream before anything is released, around the domain's midpoint: half that of a value that
# may be anywhere, since public domains are wide
UNKNOWN = 1 / 24
LEAST = 1e-9  # chance of a model: what seems impossible now may become true
FARTHEST = 2**20  # slots between two looks, at most


class Piece(NamedTuple):
    """What was released of some slots one after the other: one number, the mean of their values
    plus noise.
    """

    first: int
    """The first of the slots."""
    slots: int
    released: Floats
    """(n,) in lengths of the domain, not clipped to it."""
    variance: Floats
    """(n,) of its noise."""
    known: NDArray[np.bool_]
    """(n,) whether there is one."""

    def __repr__(self) -> str:
        return f"Piece(first={self.first}, slots={self.slots})"


class Shape(NamedTuple):
    """Where the stream is expected in the slots of a piece, in lengths of the domain."""

    start: Floats
    """(n,) at the beginning of its first slot."""
    mean: Floats
    """(n,) over all its slots."""
    end: Floats
    """(n,) at the end of its last slot."""

    def at(self, share: float) -> Floats:
        """Where so far on in the piece, 0..1: the parabola that goes through the ends and has the
        mean, which is what a random walk with these expects.
        """
        bend = 6 * share * (1 - share)
        straight = self.start + share * (self.end - self.start)
        return straight + bend * (self.mean - (self.start + self.end) / 2)

    def __repr__(self) -> str:
        return f"Shape({len(self.mean)} streams)"


class Smoother:
    """A Kalman filter over what was released before a window, and a smoother inside the window.

    Notes
    -----
    Seven models of a random walk (Brownian motion) from the domain's midpoint, each with a speed of
    its own (`MOVES`). What is released of a piece of n slots is the walk's mean over them plus
    noise of known variance R. With x the walk at its start (mean a, variance P) and q the variance
    of a slot's move, the mean over the piece has variance P + q n / 3, the walk at its end P + q n,
    their covariance is P + q n / 2: one observation moves start, mean and end by their covariance
    with it over S = P + q n / 3 + R.

    How likely each model is follows from the releases: a release z standard deviations from what a
    model expected multiplies its chance by e^(-sqrt(2) |z|) / sqrt(S), the law of Laplace noise.
    Inside a window, later pieces move earlier ones (Rauch, Tung and Striebel). Nothing after the
    window is looked at, and all of it follows from what was released and from public numbers, so it
    costs no privacy.

    By + - * / and square roots alone, models added one after the other: the same bits on every CPU,
    whoever else is smoothed in the same step.

    Parameters
    ----------
    moves : (models,) standard deviations of a slot's move, in lengths of the domain
    """

    def __init__(self, moves: Floats = MOVES) -> None:
        count = len(moves)
        self._walk: Floats = np.square(moves)[:, None]
        self.fields = {
            "s_mean": Field("f8", count),
            "s_variance": Field("f8", count),
            "s_chance": Field("f8", count),
            "s_until": Field("i8", initial=NEVER),
        }

    def smooth(self, window: Rows, pieces: Sequence[Piece], commit: int) -> list[Shape]:
        """The shapes of these pieces, in the order of slots, of the streams of a step; the first
        ``commit`` of them are not looked at again: the filter goes on behind them.
        """
        looks = self._looks(window, pieces, commit)
        chance = looks[-1].chance if looks else None
        later: _Later | None = None
        shapes = []
        for look in reversed(looks):
            start, mean, end, later = look.backward(later)
            shapes.append(_mixed(chance, start, mean, end))
        return shapes[::-1]

    def forward(self, window: Rows, pieces: Sequence[Piece]) -> None:
        """Take in pieces whose shape nobody asks for."""
        self._looks(window, pieces, len(pieces))

    def _looks(self, window: Rows, pieces: Sequence[Piece], commit: int) -> list[_Look]:
        until = window.get("s_until")
        fresh = until == NEVER
        mean = np.where(fresh, 0.5, window.ring("s_mean"))
        variance = np.where(fresh, UNKNOWN, window.ring("s_variance"))
        chance = np.where(fresh, 1 / len(self._walk), window.ring("s_chance"))
        looks: list[_Look] = []
        for at, piece in enumerate(pieces):
            look = _Look(self._walk, piece, mean, variance, chance, until)
            mean, variance, chance, until = look.end, look.end_variance, look.chance, look.until
            looks.append(look)
            if at == commit - 1:
                window.ring("s_mean")[:] = mean
                window.ring("s_variance")[:] = variance
                window.ring("s_chance")[:] = chance
                window.set("s_until", until)
        return looks


class _Later(NamedTuple):
    """What the pieces after one tell: the walk where the next one starts, (models, n) each."""

    start: Floats
    variance: Floats
    gap: Floats
    """The variance of its move since the piece's end."""
    known: NDArray[np.bool_]
    """(n,) of which streams there is one."""

    def __repr__(self) -> str:
        return f"_Later({len(self.known)} streams)"


class _Look:
    """One piece, seen by the filter: what it expects at the piece's start, mean and end."""

    def __init__(
        self,
        walk: Floats,
        piece: Piece,
        mean: Floats,
        variance: Floats,
        chance: Floats,
        until: NDArray[np.int64],
    ) -> None:
        known, move = piece.known, walk * piece.slots
        gap = np.where(until == NEVER, 0, np.minimum(piece.first - until, FARTHEST))
        self._known, self._all = known, bool(known.all())
        self._gap = walk * gap
        before = variance + self._gap
        half, third = before + move / 2, before + move / 3
        total = third + np.where(known, piece.variance, 1.0)
        new = np.where(known, piece.released - mean, 0.0)
        share = new / total
        self._start, self._mean = mean + before * share, mean + third * share
        end = mean + half * share
        self._start_variance = before - before * before / total
        end_variance = before + move - half * half / total
        # how far start and mean move with the end
        self._start_pull = (before - before * half / total) / end_variance
        self._mean_pull = (half - third * half / total) / end_variance
        root = np.sqrt(total)
        likely = chance * _fall(np.abs(new) / root) / root
        likely = np.maximum(likely / _sum(likely), LEAST)
        self.end = self._where(end, mean)
        self.end_variance = self._where(end_variance, variance)
        self.chance = self._where(likely / _sum(likely), chance)
        self.until = np.where(known, piece.first + piece.slots, until)

    def _where(self, known: Floats, otherwise: Floats) -> Floats:
        return known if self._all else np.where(self._known, known, otherwise)

    def backward(self, later: _Later | None) -> tuple[Floats, Floats, Floats, _Later]:
        """Start, mean and end of the walk in the piece, given later ones; and what it tells the
        piece before it.
        """
        start, mean, end = self._start, self._mean, self.end
        start_variance = self._start_variance
        if later is not None:
            moved = self.end_variance + later.gap
            pull = self.end_variance / moved
            away = pull * (later.start - self.end)
            grown = pull * pull * (later.variance - moved)
            if not later.known.all():
                away, grown = np.where(later.known, away, 0.0), np.where(later.known, grown, 0.0)
            end = end + away
            start = start + self._start_pull * away
            mean = mean + self._mean_pull * away
            start_variance = start_variance + self._start_pull**2 * grown
        told = _Later(start, start_variance, self._gap, self._known)
        if later is not None and not self._all:  # where this one is unknown, the later one counts
            told = _Later(
                np.where(self._known, told.start, later.start),
                np.where(self._known, told.variance, later.variance),
                np.where(self._known, told.gap, later.gap),
                self._known | later.known,
            )
        return start, mean, end, told


def _mixed(chance: Floats | None, start: Floats, mean: Floats, end: Floats) -> Shape:
    """The shape that all models together expect, each as far as it is likely."""
    if chance is None:
        raise ValueError("there is nothing to mix")
    return Shape(_sum(chance * start), _sum(chance * mean), _sum(chance * end))


def _sum(of_models: Floats) -> Floats:
    """(n,) of (models, n), added in order: numpy's own sum adds in another one where n is 1."""
    total: Floats = of_models[0].copy()
    for one in of_models[1:]:
        total += one
    return total


def _fall(deviations: Floats) -> Floats:
    """About e^(-sqrt(2) z) by + - * alone; z beyond 22 counts as 22."""
    part = np.minimum(deviations * 1.4142135623730951, 32.0) / 64
    found = 1 - part + part * part / 2
    for _ in range(6):
        found = found * found
    return found
