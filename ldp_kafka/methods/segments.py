"""One report a segment of slots, with the budget of all its slots."""

from __future__ import annotations

from copy import copy
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import Field, Ledger, State
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.square_wave import SquareWave
from ldp_kafka.methods.batch import Batch
from ldp_kafka.methods.capp import CLIP, ClippedAccumulatedPerturbation
from ldp_kafka.methods.contract import Method
from ldp_kafka.methods.cover import COVER
from ldp_kafka.methods.direct import Direct
from ldp_kafka.methods.feedback import AccumulatedPerturbation, IterativePerturbation, default_block
from ldp_kafka.methods.perslot import PerSlot
from ldp_kafka.methods.segment_length import AUTO, LONGEST, chosen_segment, segment_of

__all__ = [
    "Sampling",
    "SegmentedAccumulatedPerturbation",
    "SegmentedClippedAccumulatedPerturbation",
    "SegmentedIterativePerturbation",
]

_SEGMENT = (
    "slots in a segment, which gives one report; auto: as CAPP's equations 12 and 13 choose;"
    " default: about a third of the window"
)
_POSITION = (
    "report the value of this slot of a segment (0: its first) in place of the segment's mean"
)
_SEGMENTS = {"segment": _SEGMENT, "position": _POSITION}


class Segmented(PerSlot):
    """Makes of a method that reports every slot one that reports every segment: mix in before it.

    Segments are the slots of equal ``slot // segment``. What a segment reports is the mean of its
    values, in its last slot; where the user has no event in that slot the segment is unfinished,
    and reports nothing. With ``position`` it is the one value of that slot, at once.
    """

    pauses = True

    holds = True

    statistics = ("mean", "per_user", "user_means")

    def __init__(
        self, *, segment: int | str | None = None, position: int | None = None, **parameters: Any
    ) -> None:
        self._auto, self._factory = segment == AUTO, parameters.get("mechanism", SquareWave)
        self.segment = segment_of(
            segment, parameters.get("window"), parameters.get("epsilon"), self._factory
        )
        if position is not None:
            if isinstance(position, bool | np.bool) or not isinstance(position, int | np.integer):
                raise TypeError("position must be a whole number of slots")
            if not 0 <= position < self.segment:
                raise ConfigurationError("position must be a slot of the segment, 0..segment - 1")
        self.position = None if position is None else int(position)
        super().__init__(**parameters)

    @property
    def stride(self) -> int:
        return self.segment

    @property
    def reporting(self) -> float:
        """All users' segments end in the same slots."""
        return 1.0

    @property
    def frequency(self) -> float:
        return 1 / self.segment

    @property
    def influence(self) -> float:
        """Reports that one run of ``window`` changed values can reach: those of the segments it
        touches, and those that remember them.
        """
        return self._touched() + self.lasting

    @property
    def segmenting(self) -> str:
        """Beside what CAPP's equations 12 and 13 choose, where they can be asked."""
        mine = f"of {self.segment} slots, {-(-self.window // self.segment)} to a window"
        if self._auto:
            return f"{mine}: by CAPP's equations 12 and 13"
        if self.window > LONGEST:
            return mine
        chosen = chosen_segment(self.window, self.epsilon, mechanism=self._factory)
        return f"{mine}; by CAPP's equations 12 and 13 of {chosen} (segment: {AUTO})"

    @property
    def single(self) -> Method:
        twin = copy(self)
        twin.segment, twin.position, twin.ledger = 1, 0, Ledger(1, self.ledger.budget)
        return twin

    def _touched(self) -> int:
        if self.position is not None:
            return -(-self.window // self.segment)
        return -(-(self.window - 1) // self.segment) + 1

    @property
    def memory(self) -> float:
        """Slots after a value's own in which reports still depend on it."""
        own = self.segment - 1 if self.position is None else 0
        return own + self.lasting * self.segment

    @property
    def run(self) -> int:
        """Reports are ``segment`` slots apart: in this many slots there are at most ``influence``
        of them, and any run of reports that a window reaches lies in as many.
        """
        return (self._shares() - 1) * self.segment + 1

    def _shares(self) -> int:
        return (
            -(-self.window // self.segment)
            if self.calibration == "published"
            else int(self.influence)
        )

    @property
    def fields(self) -> dict[str, Field]:
        if self.position is not None:
            return super().fields
        return {
            **super().fields,
            "segment": Field("i8", initial=-1),
            "total": Field("i8"),
            "taken": Field("i4"),
        }

    def due(self, slot: int) -> bool:
        place = self.segment - 1 if self.position is None else self.position
        return slot % self.segment == place

    def gathered(self, state: State, batch: Batch, turn: int) -> Batch:
        if self.position is not None:
            return batch
        return batch._replace(values=self._gather(state, batch, turn))

    def _gather(self, state: State, batch: Batch, turn: int) -> NDArray[np.int64]:
        """Add values to their users' segments; the means so far (n,)."""
        rows, values = batch.rows, batch.values
        began, total, taken = (state.columns[name] for name in ("segment", "total", "taken"))
        fresh = began[rows] != turn
        began[rows] = turn
        sums = np.where(fresh, 0, total[rows]) + values
        counts = np.where(fresh, 0, taken[rows]) + 1
        total[rows], taken[rows] = sums, counts
        return np.asarray(sums // counts)

    def tables(self) -> list[int]:
        return [*super().tables(), self.segment, -1 if self.position is None else self.position]


class Sampling(Segmented, Direct):
    """Perturb one value a segment, its mean, by itself.

    Parameters
    ----------
    epsilon, window, domain, calibration, mechanism : see `SlotMethod`
    segment : slots in a segment, 1..65536; default: about a third of the window
    position : report the value of this slot of a segment in place of the mean
    cover : see `Covering`; a segment's mean is then that of all of its slots

    Notes
    -----
    The baseline "Sampling" of CAPP, section VI. Guarantee: one run of ``window`` slots touches s =
    ceil((window - 1) / segment) + 1 segments (ceil(window / segment) fixed positions), and each of
    those reports loses epsilon / s; no other depends on the changed values. ``published`` counts
    n_w = ceil(window / segment) of them, as if windows began where segments do, and so keeps
    epsilon s / n_w.

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> m = lk.method("sampling", epsilon=30.0, window=4, segment=2, domain=(0.0, 10.0))
    >>> m.guarantee.influence
    3
    >>> m.release(np.array([1.0, 3.0, 9.0, 9.0, 0.0]), lk.randomness.seeded(7)).round(1).tolist()
    [5.0, 2.0, 2.0, 9.0, 9.0]
    """

    name = "sampling"
    parameters: ClassVar[dict[str, str]] = _SEGMENTS | COVER


class SegmentedIterativePerturbation(Segmented, IterativePerturbation):
    """IPP over the means of segments.

    Parameters
    ----------
    epsilon, window, domain, calibration, mechanism : see `SlotMethod`
    segment, position : see `Sampling`

    Notes
    -----
    PP-S of CAPP (Algorithm 3) over IPP. Guarantee: a window touches s segments (see `Sampling`),
    and the report of one more depends on their deviation: influence s + 1.

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> lk.method("ipp_s", epsilon=1.0, window=10, segment=3, domain=(0.0, 1.0)).guarantee.influence
    5
    """

    name = "ipp_s"
    parameters: ClassVar[dict[str, str]] = _SEGMENTS


class SegmentedAccumulatedPerturbation(Segmented, AccumulatedPerturbation):
    """APP over the means of segments.

    Parameters
    ----------
    epsilon, window, domain, calibration, mechanism : see `SlotMethod`
    segment, position : see `Sampling`
    block : reports after which the deviation starts at zero again, at absolute multiples of
        ``block`` segments; ``published`` never resets

    Notes
    -----
    PP-S of CAPP (Algorithm 3) over APP. Guarantee: a window touches s segments (see `Sampling`),
    and through the deviation the reports of the rest of the last block: influence s + block - 1.
    The advantage in the paper's figures 6 to 8 comes from a fault in its code, which spends epsilon
    / n_s on every slot.

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> m = lk.method("app_s", epsilon=1.0, window=10, segment=3, block=2, domain=(0.0, 1.0))
    >>> m.guarantee.influence
    5
    """

    name = "app_s"
    parameters: ClassVar[dict[str, str]] = {
        **_SEGMENTS,
        "block": "reports after which the deviation starts at zero again (sound calibration)",
    }

    def _default_block(self, epsilon: float, window: int) -> int:
        return default_block(epsilon, self._segments(window))

    def _segments(self, window: int) -> int:
        return max(1, -(-window // self.segment))


class SegmentedClippedAccumulatedPerturbation(
    SegmentedAccumulatedPerturbation, ClippedAccumulatedPerturbation
):
    """CAPP over the means of segments.

    Parameters
    ----------
    epsilon, window, domain, calibration, mechanism : see `SlotMethod`
    segment, position, block : see `SegmentedAccumulatedPerturbation`
    clip : see `ClippedAccumulatedPerturbation`

    Notes
    -----
    PP-S of CAPP (Algorithm 3) over CAPP. Guarantee: that of `SegmentedAccumulatedPerturbation`; the
    clip range is public.

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> m = lk.method("capp_s", epsilon=1.0, window=10, segment=3, block=1, domain=(0.0, 1.0))
    >>> m.guarantee.influence
    4
    """

    name = "capp_s"
    parameters: ClassVar[dict[str, str]] = SegmentedAccumulatedPerturbation.parameters | CLIP
