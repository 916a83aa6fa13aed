"""Vectors, one coordinate at a time: each by a method for numbers, with a share of the budget or a
share of the slots.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import MICRO, Field, State
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.base import Estimate, check_whole
from ldp_kafka.mechanisms.square_wave import SquareWave
from ldp_kafka.methods.base import SlotMethod
from ldp_kafka.methods.batch import Batch
from ldp_kafka.methods.capp import ClippedAccumulatedPerturbation
from ldp_kafka.methods.contract import Method
from ldp_kafka.methods.direct import Direct
from ldp_kafka.methods.estimates import Slot
from ldp_kafka.methods.feedback import AccumulatedPerturbation, IterativePerturbation, default_block
from ldp_kafka.methods.inversion import Inversion

__all__ = ["INNER", "Split"]

MOST = 1024  # coordinates: a report of all of them must fit into a message
KEPT = 2**16  # integers of earlier slots that a collector keeps, at most
INNER: dict[str, type[Direct | IterativePerturbation | AccumulatedPerturbation]] = {
    "app": AccumulatedPerturbation,
    "capp": ClippedAccumulatedPerturbation,
    "ipp": IterativePerturbation,
    "sw_direct": Direct,
}
"""What can perturb a coordinate: methods that make one draw for each report."""


class Split(SlotMethod):
    """What `BudgetSplit` and `SampleSplit` have in common: ``each`` is the method of one
    coordinate, and the ring of its state has a place for every coordinate; one ledger stands before
    all.
    """

    parameters: ClassVar[dict[str, str]] = {
        "dimension": f"coordinates of a vector, 1..{MOST}",
        "inner": f"the method that perturbs one coordinate: {', '.join(INNER)}",
        "block": (
            "reports of a coordinate after which its deviation starts at zero again (app, capp;"
            " sound calibration); default: a closed-form choice"
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
        calibration: str = "sound",
        categories: int | None = None,
    ) -> None:
        self._dimension = check_whole(dimension, "dimension", 1, MOST)
        if not isinstance(inner, str) or inner not in INNER:
            raise ConfigurationError(f"inner must be one of {', '.join(INNER)}")
        if block is not None and not issubclass(INNER[inner], AccumulatedPerturbation):
            raise ConfigurationError(
                f"block must not be given for {inner}: it keeps no deviation over reports"
            )
        self.inner, self.block = inner, block
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
        if issubclass(INNER[self.inner], AccumulatedPerturbation) and self.block is None:
            self.block = default_block(
                self.epsilon / min(self.dimension, self._per_slot * self.window), self._turns
            )
        # to ask how long a value lasts; its budget follows from that
        self.each = self._made(1.0, SquareWave)

    def _made(self, epsilon: float, mechanism: Callable[..., Any]) -> Any:
        own: dict[str, Any] = {} if self.block is None else {"block": self.block}
        return INNER[self.inner](
            epsilon=epsilon,
            window=self._turns,
            domain=self.domain,
            calibration=self.calibration,
            mechanism=mechanism,
            **own,
        )

    def _prepare(self, mechanism: Callable[..., Any], budget: int) -> None:
        self.spend = self._part(budget, self._shares())
        self.each = self._made(self.spend * self.each.run / MICRO, mechanism)
        self.mechanism = self.each.mechanism

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
    def cost(self) -> int:
        return self._per_slot * self.spend

    @property
    def influence(self) -> float:
        """Coordinates' reports that one run of ``window`` changed vectors can reach: its own, and
        ``lasting`` more of every coordinate that was reported in it.
        """
        reached: float = (
            self._per_slot * self.window
            + min(self.dimension, self._per_slot * self.window) * self.each.lasting
        )
        return reached

    def _shares(self) -> int:
        return (
            self._per_slot * self.window if self.calibration == "published" else int(self.influence)
        )

    @property
    def run(self) -> int:
        return self._shares() // self._per_slot

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
        slots = self.each.looks_back * self.stride
        return slots if slots * self.dimension * self._width <= KEPT else 0

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
                number // self.stride: every[at] for number, every in parts.items() if every[at][0]
            }
            told = Slot(slot.number // self.stride, mine if kept else None)
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
