"""Sample-Split: one coordinate of a vector in every slot, in turn."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import State
from ldp_kafka.methods.base import REFUSED, SENT, Step
from ldp_kafka.methods.batch import Batch
from ldp_kafka.methods.split import Split

__all__ = ["SampleSplit"]


class SampleSplit(Split):
    """Perturb one coordinate a slot, in turn: number ``slot % dimension`` of the vector of that
    slot, or the mean of as many of its values as a segment has.

    Parameters
    ----------
    epsilon, window, calibration, mechanism : see `SlotMethod`
    dimension : d, coordinates of a vector, 1..1024
    domain : (lo, hi) of every coordinate; values outside are clamped to it
    inner : the method of one coordinate: sw_direct, ipp, app, capp, or one that reports segments:
        sampling, ipp_s, app_s, capp_s
    block : of those with app or capp, in reports of a coordinate, at absolute multiples; default:
        their own choice for a coordinate's share
    segment : values of a coordinate (d slots apart) in a segment; see `Sampling`

    Notes
    -----
    Sample-Split of CAPP, section IV ("Extension to high-dimensional time series data"). Guarantee:
    which coordinate is reported follows from the slot's number alone, and no report depends on the
    others of its vector. Coordinate k's reports are a stream of its own with turns ``slot // d``:
    given the earlier ones, each depends on its own value and those of the ``lasting`` turns before
    it. One window of w slots holds w reports, of min(d, w) coordinates (slots next to each other
    are of different ones), and each coordinate's last changed turn shows in ``lasting`` more:
    influence w + min(d, w) lasting, memory d lasting slots. It is reached where the last changed
    turns begin their blocks. Each report loses epsilon / influence. ``published`` spends epsilon /
    w a report. The ledger's run is of ``influence`` slots, of one report each.

    With segments of L turns, those of number n of all coordinates lie in the D = d L slots of equal
    ``slot // D``, and their reports in the last d of these; values in a coordinate's other slots
    are in none. Let w >= d. In the last d slots of a window each coordinate is once, and in its
    first d, so that it touches d + sum over its first d slots t of ((t + w - d) // D - t // D)
    segments. With w - d = a D + b, 0 <= b < D, a term is a, or a + 1 where t % D >= D - b, which at
    most min(d, b) of d slots in a row are: d + a d + min(d, b) segments, reached. A window of w < d
    slots touches w. The ``lasting`` reports of each coordinate come to these: influence
    min(d, w) (1 + lasting) + a d + min(d, b), with a = b = 0 below d. ``published`` counts the
    reports that one window can hold. The ledger's run is the most slots that hold no more reports
    than are counted. What was reported
    last of a user's coordinate stands until its next report, at first the domain's midpoint. Of a
    crowd, each slot has the mean of one coordinate over all who reported in it, and no others.

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> m = lk.method("sample_split", epsilon=60.0, window=3, dimension=2, domain=(0.0, 10.0))
    >>> m.guarantee.influence
    3
    >>> stream = np.array([[1.0, 9.0], [2.0, 8.0], [3.0, 7.0]])
    >>> m.release(stream, lk.randomness.seeded(7)).round(1).tolist()
    [[1.0, 5.0], [1.0, 8.0], [3.0, 8.0]]
    """

    pauses = True

    name = "sample_split"
    holds = True

    @property
    def _turns(self) -> int:
        return -(-self.window // self.dimension)

    @property
    def _per_slot(self) -> int:
        return 1

    @property
    def _apart(self) -> int:
        return self.dimension

    @property
    def influence(self) -> float:
        touched = min(self.dimension, self.window)
        lasting: float = self.each.lasting
        return self._reports(self.window - touched) + touched * (1 + lasting)

    def _shares(self) -> int:
        if self.calibration == "published":
            return self._reports(self.window)
        return int(self.influence)

    def _reports(self, slots: int) -> int:
        """Of this number of slots in a row, at most."""
        whole, rest = divmod(slots, self.stride)
        return whole * self.dimension + min(self.dimension, rest)

    @property
    def run(self) -> int:
        whole, rest = divmod(self._shares(), self.dimension)
        return whole * self.stride + rest

    @property
    def segmenting(self) -> str:
        return super().segmenting.replace(
            " slots", f" values of a coordinate, {self.dimension} slots apart", 1
        )

    def in_phase(self, slots: NDArray[np.int64], phase: int) -> NDArray[np.bool_]:
        """Each slot has one: the number of the coordinate whose turn it is."""
        return np.asarray(slots % self.dimension == phase)

    def report(self, state: State, batch: Batch) -> Step:
        slot, at = divmod(batch.slot, self.dimension)
        due = self.each.due(slot)
        allowed = self.ledger.charge(state, batch.rows, batch.slot, self.cost if due else 0)
        answers = np.zeros(len(batch.rows))
        batch = self._gathered(state, batch, slot, (at,))
        if not due:
            return Step.silent(answers, at)
        turn = slot // self.each.stride
        answers[allowed] = self._coordinate(state, batch.part(allowed), turn, at)
        return Step(answers, np.where(allowed, SENT, REFUSED).astype(np.uint8), phase=at)

    def published(self, step: Step) -> NDArray[Any]:
        vectors = np.full((len(step.status), self.dimension), np.nan)
        vectors[:, step.phase] = np.where(step.status == SENT, self.released(step.answers), np.nan)
        return vectors

    def support(self, reports: NDArray[Any], phase: int = 0) -> NDArray[np.int64]:
        """The number of reports, and then the support of each coordinate: zeros but for the one
        that they are of.
        """
        support = np.zeros((self.dimension, self._width), np.int64)
        support[phase] = self.each.support(reports)
        return np.concatenate([[len(reports)], support.reshape(-1)])
