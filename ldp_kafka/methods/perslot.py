"""Methods that report in every slot, one value from one draw."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import State
from ldp_kafka.methods.base import REFUSED, SENT, SlotMethod, Step
from ldp_kafka.methods.batch import Batch
from ldp_kafka.methods.inversion import Inversion, law_ranges
from ldp_kafka.methods.response_curve import ResponseCurve

__all__ = ["PerSlot"]


class PerSlot(SlotMethod):
    """A method that asks the ledger for one report's budget in each slot, and makes one draw where
    it is given.
    """

    shrinks = True
    untold: ClassVar[dict[str, str]] = {
        "user_means": (
            "each is of one slot, and a user's mean takes several: `crowd.means` of arrays"
        )
    }

    @property
    def lasting(self) -> float:
        """Reports after its own in which a value still shows; ``inf`` if there is no bound."""
        return 0

    @property
    def memory(self) -> float:
        return self.lasting

    @cached_property
    def inversion(self) -> Inversion | None:
        """Where values are corrected for the noise before them, by simulation: a range of releases
        holds 95 % of those of streams that stay as they are, and 95 % of those of streams that jump
        in each slot (`ResponseCurve`).
        """
        if not self.lasting:
            return law_ranges(self.mechanism, self.in_lengths, self._given)
        return self.curve.inversion

    def _given(self, value: float) -> float:
        """What the mechanism perturbs of a stream's first value, in lengths of the domain."""
        return value

    @cached_property
    def curve(self) -> ResponseCurve:
        """How one report reads; simulated once."""
        return ResponseCurve.of(self.single)

    def due(self, slot: int) -> bool:
        """Whether users report in this slot."""
        del slot
        return True

    def gathered(self, state: State, batch: Batch, turn: int) -> Batch:
        """With what a report of this turn would be of, in place of the values of the slot."""
        del state, turn
        return batch

    def report(self, state: State, batch: Batch) -> Step:
        turn, due = batch.slot // self.stride, self.due(batch.slot)
        allowed = self.ledger.charge(state, batch.rows, batch.slot, self.spend if due else 0)
        batch = self.gathered(state, batch, turn)
        if due:
            return self._reported(state, batch, turn, allowed)
        return Step.silent(self.blank(len(batch.rows)).astype(np.float64))

    def _reported(self, state: State, batch: Batch, turn: int, allowed: NDArray[np.bool_]) -> Step:
        """What those report whose ledger has allowed it."""
        if allowed.all():
            answers = self.answer(state, batch, turn)
        else:
            answers = np.zeros(len(batch.rows))
            answers[allowed] = self.answer(state, batch.part(allowed), turn)
        return Step(answers, np.where(allowed, SENT, REFUSED).astype(np.uint8))

    def answer(self, state: State, batch: Batch, turn: int, phase: int = 0) -> NDArray[Any]:
        """Answers (n,) of users who report; ``turn`` counts what reports are counted in: slots, or
        segments.
        """
        raise NotImplementedError
