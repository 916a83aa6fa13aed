"""One noisy mean for each segment of slots, smoothed."""

from __future__ import annotations

from math import ceil
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import MICRO, NEVER, Field
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.base import check_epsilon
from ldp_kafka.mechanisms.sum_noise import SumNoise
from ldp_kafka.methods.contract import check_slots
from ldp_kafka.methods.delay.base import VALUE, DelayMethod
from ldp_kafka.methods.delay.rows import Rows, Some
from ldp_kafka.methods.delay.smoother import Piece
from ldp_kafka.methods.values import FIXED

__all__ = ["SegmentMean", "default_segment"]

LENGTH = 50.0  # slots in a segment, at epsilon 1 and a value that may move by its whole domain


def default_segment(epsilon: float, delay: int) -> int:
    """50 / sqrt(epsilon) slots, in segments of about equal length, no longer than the delay.

    A segment's noise falls with its length, and what is lost is how the stream moves inside it. At
    a delay of 100 and epsilon up to 2, the best length of each of eight streams (three of the
    paper's, five made up) errs less by a tenth at most on average.

    Examples
    --------
    >>> [default_segment(epsilon, 100) for epsilon in (0.1, 0.5, 1.0, 10.0)]
    [100, 50, 50, 15]
    >>> default_segment(1.0, 10)
    10
    """
    pieces = ceil(delay * float(epsilon**0.5) / LENGTH)
    return ceil(delay / max(pieces, 1))


class SegmentMean(DelayMethod):
    """Release the mean of each public segment of slots with noise on its sum, smoothed over
    segments.

    Parameters
    ----------
    epsilon, delay, domain, setting, noise, smooth, contribution, window, calibration : see
        `DelayMethod`
    segment : slots in a segment, 1..delay; default: `default_segment` of epsilon over
        ``window``, where ``contribution`` is given times the domain's length over it; 1 where a
        season is smoothed by, which has no other

    Notes
    -----
    Ours: the paper spends a part of epsilon on finding slots that belong together, and then as much
    noise on each of its groups; here neighbouring slots belong together, which needs no budget. In
    a batch segments begin with it, its last one may be shorter; sliding, they are the slots of
    equal ``slot // segment``. A segment of n values gets the mean of its sum with noise of scale
    reach / epsilon, so the mean's noise is an n-th of that; all its slots are released, with a
    value of their own or not. A segment without values is null. `Smoother` then says where the
    stream was inside each segment, by segments before it and those after it inside the window. How
    far a value can be from that is not stated where a segment has more than one slot: all that is
    released has the same law for any two streams with the same sums.

    Guarantee: which slot belongs to which segment is public, and each slot to exactly one. The sum
    of a segment's values, counted in the public number of them, is perturbed once, when the last
    slot of the segment has come. A changed value changes one sum, by its own change, at most
    ``reach``: the loss of that draw is epsilon (`SumNoise`), and all other draws are the same.
    Everything released follows from the noisy sums by public arithmetic, over the whole endless
    stream. Both calibrations are the same.

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> m = lk.method("segment_mean", epsilon=30.0, delay=3, segment=3, domain=(0.0, 10.0))
    >>> stream = np.array([4.0, 5.0, 6.0, 7.0, 8.0, 9.0])
    >>> m.release(stream, lk.randomness.seeded(7)).round(1).tolist()
    [5.0, 5.0, 5.0, 7.2, 8.2, 8.7]
    >>> lk.method("segment_mean", epsilon=1.0, delay=100, domain=(0.0, 10.0)).segment
    50
    """

    name = "segment_mean"
    noises: ClassVar[tuple[str, ...]] = ("sum",)
    smooths: ClassVar[bool] = True
    fills: ClassVar[bool] = True
    parameters: ClassVar[dict[str, str]] = {
        **DelayMethod.parameters,
        "segment": "slots that are released as one mean; default: a closed-form choice",
    }

    def __init__(self, *, segment: int | None = None, **parameters: Any) -> None:
        self._given = None if segment is None else check_slots(segment, "segment")
        super().__init__(**parameters)

    def prepare(self) -> None:
        wide = check_epsilon(self.epsilon / self.window * FIXED / self.reach)
        default = default_segment(wide, self.delay) if self.season is None else 1
        self.segment = default if self._given is None else self._given
        if self.season is not None and self.segment != 1:
            raise ConfigurationError(
                "a season is smoothed by where each slot is released by itself: segment must be 1"
            )
        if not self.segment <= self.delay:
            raise ConfigurationError("segment must not be longer than the delay")
        self.adder = SumNoise(self.spend / MICRO, self.reach, self.segment * FIXED)
        self._pieces = (
            -(-self.delay // self.segment)
            if self.setting == "batch"
            else self.delay // self.segment + 3
        )

    @property
    def longest(self) -> int:
        return self.segment

    @property
    def reason(self) -> str | None:
        return None if self.segment == 1 else super().reason

    def kept(self) -> dict[str, Field]:
        """The open segment's sum and count; of the segments of a window their number, mean and
        its variance; sliding, the shape of the one that is being released.
        """
        own = {
            "total": Field("i8"),
            "taken": Field("i8"),
            "segment": Field("i8", self._pieces, NEVER),
            "mean": Field("f8", self._pieces),
        }
        if not self.smooth:
            return own
        return {**own, "variance": Field("f8", self._pieces), "shape": Field("f8", 4)}

    def _segment_of(self, slot: int) -> tuple[int, int, int]:
        """Its number, its first slot and its length."""
        if self.setting == "sliding":
            number = slot // self.segment
            return number, number * self.segment, self.segment
        batch, place = divmod(slot, self.delay)
        number = place // self.segment
        first = number * self.segment
        return (
            batch * self._pieces + number,
            batch * self.delay + first,
            min(self.segment, self.delay - first),
        )

    def drawn_from(self, slot: int) -> int:
        return self._segment_of(slot)[1]

    def _until(self, slot: int) -> int:
        _, first, length = self._segment_of(slot)
        return first + length - 1

    def take(self, window: Rows, values: NDArray[np.int64], some: Some) -> None:
        taken = window.get("taken")[some]
        rest, some = self._unsampled(window, taken > 0, some)
        window.set("total", window.get("total")[some] + values[rest], some)
        window.set("taken", taken[rest] + 1, some)

    def end(self, window: Rows) -> None:
        number, first, length = self._segment_of(window.slot)
        if window.slot != first + length - 1:
            return
        total, taken = window.get("total"), window.get("taken")
        some = np.flatnonzero(taken)
        if not len(some):
            return
        total, taken = total[some], taken[some]
        noisy = self.adder.perturb(total, window.at_random(some, VALUE, total, taken))
        place = number % self._pieces
        window.put("segment", place, number, some)
        window.put("mean", place, noisy / (taken * FIXED), some)
        if self.smooth:
            window.put("variance", place, self.adder.variance / FIXED**2 / taken**2, some)
        window.set("total", 0)
        window.set("taken", 0)

    def _released(self, window: Rows) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return self._of_batch(window) if self.setting == "batch" else self._due(window)

    def _piece(self, window: Rows, number: int, first: int, length: int) -> Piece:
        place = number % self._pieces
        return Piece(
            first,
            length,
            window.at("mean", place),
            window.at("variance", place) if self.smooth else np.zeros(window.count),
            window.at("segment", place) == number,
        )

    def _of_batch(self, window: Rows) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """All slots of the batch that ends with the slot."""
        start = window.slot - self.delay + 1
        pieces = [
            self._piece(window, *self._segment_of(first))
            for first in range(start, window.slot + 1, self.segment)
        ]
        out, looks = np.empty((2, self.delay, window.count))
        shapes = None
        if self.smooth:
            even = [self._seasonless(window, piece) for piece in pieces]
            shapes = self.smoother.smooth(window, even, len(pieces))
        for at, piece in enumerate(pieces):
            for place in range(piece.slots):
                row = piece.first - start + place
                looks[row] = np.where(piece.known, piece.released, np.nan)
                if shapes is None:
                    out[row] = looks[row]
                else:
                    found = shapes[at].at((place + 0.5) / piece.slots)
                    out[row] = np.where(piece.known, self._seasonal(window, piece, found), np.nan)
        for piece in pieces:
            self._learn(window, piece)
        return out, looks

    def _due(self, window: Rows) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The slot that is due with the slot, of a sliding window."""
        slot, due = window.slot, window.slot - self.delay
        number, first, length = self._segment_of(due)
        own = self._piece(window, number, first, length)
        out = looks = np.where(own.known, own.released, np.nan)
        if self.smooth:
            newest = (slot + 1) // self.segment - 1  # the last segment that has ended
            shape = window.ring("shape")
            if due == first or (slot + 1) % self.segment == 0:
                pieces = [
                    self._seasonless(
                        window,
                        self._piece(window, number + at, first + at * length, length),
                    )
                    for at in range(newest - number + 1)
                ]
                found = self.smoother.smooth(window, pieces, commit=0)[0]
                shape[:3] = found  # the fourth is kept, so that states of earlier versions load
            share = (due - first + 0.5) / length
            bend = 6 * share * (1 - share)
            out = shape[0] + share * (shape[2] - shape[0])
            out += bend * (shape[1] - (shape[0] + shape[2]) / 2)
            out = np.where(own.known, self._seasonal(window, own, out), np.nan)
        if due == first + length - 1:  # nothing of it is left to release
            if self.smooth:
                self.smoother.forward(window, [self._seasonless(window, own)])
                self._learn(window, own)
            window.put("segment", number % self._pieces, NEVER)
        return out[None], looks[None]
