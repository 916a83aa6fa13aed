"""Vectors, one coordinate at a time: each by a method for numbers, with a share of the budget or a
share of the slots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import MICRO, Field, State
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.base import Estimate, check_whole
from ldp_kafka.mechanisms.square_wave import SquareWave
from ldp_kafka.methods.base import SlotMethod, part_of
from ldp_kafka.methods.batch import Batch
from ldp_kafka.methods.capp import ClippedAccumulatedPerturbation
from ldp_kafka.methods.contract import Method
from ldp_kafka.methods.direct import Direct
from ldp_kafka.methods.estimates import Slot
from ldp_kafka.methods.feedback import AccumulatedPerturbation, IterativePerturbation, default_block
from ldp_kafka.methods.inversion import Inversion
from ldp_kafka.methods.perslot import PerSlot
from ldp_kafka.methods.segment_length import segment_of
from ldp_kafka.methods.segments import (
    Sampling,
    Segmented,
    SegmentedAccumulatedPerturbation,
    SegmentedClippedAccumulatedPerturbation,
    SegmentedIterativePerturbation,
)

__all__ = ["INNER", "Split"]

MOST = 1024  # coordinates: a report of all of them must fit into a message
KEPT = 2**16  # integers of earlier slots that a collector keeps, at most
INNER: dict[str, type[PerSlot]] = {
    "app": AccumulatedPerturbation,
    "app_s": SegmentedAccumulatedPerturbation,
    "capp": ClippedAccumulatedPerturbation,
    "capp_s": SegmentedClippedAccumulatedPerturbation,
    "ipp": IterativePerturbation,
    "ipp_s": SegmentedIterativePerturbation,
    "sampling": Sampling,
    "sw_direct": Direct,
}
"""What can perturb a coordinate: methods whose reports are one draw each, at one price, and of
which public numbers of slots alone tell when they are due.
"""
_LACKS = {
    "block": "it keeps no deviation over reports",
    "segment": "it reports each value by itself",
}


class Split(SlotMethod):
    """What `BudgetSplit` and `SampleSplit` have in common: ``each`` is the method of one
    coordinate, and the ring of its state has a place for every coordinate; one ledger stands before
    all.
    """

    parameters: ClassVar[dict[str, str]] = {
        "dimension": f"coordinates of a vector, 1..{MOST}",
        "inner": f"the method that perturbs one coordinate: {', '.join(INNER)}",
        "block": (
            "reports of a coordinate after which its deviation starts at zero again (app, capp,"
            " app_s, capp_s; sound calibration); default: a closed-form choice"
        ),
        "segment": (
            "values of a coordinate whose mean is one report (sampling, ipp_s, app_s, capp_s);"
            " auto: as CAPP's equations 12 and 13 choose; default: about a third of a window"
        ),
    }

    def __init__(
        self,
        *,
        epsilon: float,
        window: int,
        dimension: int,
        mechanism: Callable[..., Any],
        domain: tuple[float, float] | None = None,
        inner: str = "sw_direct",
        block: int | None = None,
        segment: int | str | None = None,
        calibration: str = "sound",
        categories: int | None = None,
    ) -> None:
        self._dimension = check_whole(dimension, "dimension", 1, MOST)
        if not isinstance(inner, str) or inner not in INNER:
            raise ConfigurationError(
                f"inner must be one of {', '.join(INNER)}: all coordinates report at one price, by"
                " one draw each, in slots that do not depend on their values"
            )
        for name, given in (("block", block), ("segment", segment)):
            if given is not None and name not in INNER[inner].parameters:
                raise ConfigurationError(f"{name} must not be given for {inner}: {_LACKS[name]}")
        self.inner, self.block, self.segment = inner, block, segment
        self._factory = mechanism
        super().__init__(
            epsilon=epsilon,
            window=window,
            mechanism=mechanism,
            domain=domain,
            categories=categories,
            calibration=calibration,
        )

    def _shape(
        self, domain: tuple[float, float] | None, categories: int | None, calibration: str
    ) -> None:
        super()._shape(domain, categories, calibration)
        kind, turns = INNER[self.inner], self._turns
        share = self.epsilon / min(self.dimension, self._per_slot * self.window)
        if issubclass(kind, Segmented):
            self.segment = segment_of(self.segment, turns, share, self._factory)
            turns = -(-turns // self.segment)
        if issubclass(kind, AccumulatedPerturbation) and self.block is None:
            self.block = default_block(share, turns)
        # to ask how long a value lasts; its budget follows from that
        self.each = self._made(1.0, SquareWave)
        self.pauses, self.holds = self.pauses or self.each.pauses, self.holds or self.each.holds

    def _made(self, epsilon: float, mechanism: Callable[..., Any]) -> Any:
        given = {"block": self.block, "segment": self.segment}
        own: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        return INNER[self.inner](
            epsilon=epsilon,
            window=self._turns,
            domain=self.domain,
            calibration=self.calibration,
            mechanism=mechanism,
            **own,
        )

    def _prepare(self, mechanism: Callable[..., Any], budget: int) -> None:
        self.spend = part_of(budget, self._shares())
        self.each = self._made(self.spend * self.each.shares / MICRO, mechanism)
        self.mechanism = self.each.mechanism

    @property
    def resolved(self) -> dict[str, Any]:
        """Without ``segment`` where there is none: noise is bound to what it was before there was
        such a parameter.
        """
        found = super().resolved
        if self.segment is None:
            del found["segment"]
        return found

    @property
    def dimension(self) -> int:
        return self._dimension

    @property
    def _turns(self) -> int:
        """The most reports that one coordinate has in a window."""
        raise NotImplementedError

    @property
    def _per_slot(self) -> int:
        """Coordinates reported in one slot."""
        raise NotImplementedError

    @property
    def _apart(self) -> int:
        """Slots from one value of a coordinate that counts to the next."""
        raise NotImplementedError

    @property
    def cost(self) -> int:
        return self._per_slot * self.spend

    @property
    def stride(self) -> int:
        return int(self._apart * self.each.stride)

    @property
    def memory(self) -> float:
        slots: float = self._apart * self.each.memory
        return slots

    @property
    def reporting(self) -> float:
        return float(self.each.reporting)

    @property
    def frequency(self) -> float:
        return float(self.each.frequency)

    @property
    def segmenting(self) -> str:
        said: str = self.each.segmenting
        return said

    @property
    def fields(self) -> dict[str, Field]:
        return {
            **super().fields,
            **{name: field._replace(length=self.dimension) for name, field in self._own.items()},
        }

    @cached_property
    def _own(self) -> dict[str, Field]:
        """The fields of one coordinate: those that not every method has."""
        common = super().fields
        return {name: field for name, field in self.each.fields.items() if name not in common}

    def _gathered(self, state: State, batch: Batch, slot: int, coordinates: Iterable[int]) -> Batch:
        """With what reports of these coordinates would be of: the means so far of their segments,
        where they have any; ``slot`` counts their values.
        """
        if self.each.stride == 1:
            return batch
        vectors = batch.values.copy()
        for at in coordinates:
            own = batch._replace(values=batch.values[:, at])
            lane = state.lane(at, self._own)
            vectors[:, at] = self.each.gathered(lane, own, slot // self.each.stride).values
        return batch._replace(values=vectors)

    def _coordinate(self, state: State, batch: Batch, turn: int, at: int) -> NDArray[Any]:
        """Answers (n,) for coordinate ``at``, whose noise is of the phase of that number."""
        lane, own = state.lane(at, self._own), batch._replace(values=batch.values[:, at])
        answers: NDArray[Any] = self.each.answer(lane, own, turn, at)
        return answers

    def released(self, answers: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(self.each.released(answers))

    @cached_property
    def single_error(self) -> float:
        """Root mean square error of one released coordinate, on the domain's scale, at the worst
        input.
        """
        return float(self.each.single_error)

    @property
    def single_reason(self) -> str | None:
        return str(self.each.single_reason) if self.each.single_reason else None

    @property
    def inversion(self) -> Inversion | None:
        found: Inversion | None = self.each.inversion
        return found

    @cached_property
    def reliability(self) -> float:
        return float(self.each.reliability)

    @property
    def coordinate(self) -> Method:
        each: Method = self.each
        return each

    @property
    def feedback_bias(self) -> float:
        """Of a coordinate."""
        return float(self.each.feedback_bias)

    @cached_property
    def _width(self) -> int:
        """Integers in the support of one coordinate."""
        return len(self.each.support(self.each.blank(0)))

    @property
    def looks_back(self) -> int:
        """As many as a coordinate's, where their sums are no more than `KEPT` integers; else 0, and
        an interval holds wherever the crowd was.
        """
        slots = self.each.looks_back * self._apart
        kept = slots // self.each.stride * self.dimension * self._width
        return slots if kept <= KEPT else 0

    def crowd(self, support: NDArray[np.int64]) -> Estimate:
        """The means of the coordinates of those who reported them, with their errors; NaN and
        infinity where nobody did.
        """
        return self._together(support, lambda part, _: self.each.crowd(part))

    def crowd_of_slot(self, support: NDArray[np.int64], slot: Slot) -> Estimate:
        parts = {number: self._split(sums) for number, sums in (slot.earlier or {}).items()}
        kept = self.looks_back or not self.each.looks_back

        def of(part: NDArray[np.int64], at: int) -> Estimate:
            mine = {
                number // self._apart: every[at] for number, every in parts.items() if every[at][0]
            }
            told = Slot(slot.number // self._apart, mine if kept else None)
            found: Estimate = self.each.crowd_of_slot(part, told)
            return found

        return self._together(support, of)

    def _together(
        self, support: NDArray[np.int64], of: Callable[[NDArray[np.int64], int], Estimate]
    ) -> Estimate:
        """The estimates of all coordinates as one: of those that were reported what ``of`` makes of
        their support and number.
        """
        columns = np.full((4, self.dimension), np.nan)
        columns[1] = np.inf
        reason, bounded = None, False
        for at, part in enumerate(self._split(support)):
            if part[0]:
                found = of(part, at)
                columns[:, at] = found.value, np.nan, np.nan, np.nan
                if found.standard_error is not None:
                    columns[1:, at] = found.standard_error, *found.interval()
                reason = reason or found.reason
                bounded = bounded or found.limits is not None
        means, errors, low, high = columns
        limits = (low, high) if bounded else None
        return Estimate(means, errors, int(support[0]), limits, reason)

    def _split(self, support: NDArray[np.int64]) -> NDArray[np.int64]:
        """The support of each coordinate (dimension, width)."""
        return np.asarray(support)[1:].reshape(self.dimension, self._width)

    def tables(self) -> list[int]:
        return [self.dimension, self.window, *self._bounds(), *self.each.tables()]
