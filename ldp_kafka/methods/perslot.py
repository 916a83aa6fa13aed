"""Methods that report in every slot, one value from one draw."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import State
from ldp_kafka.methods.base import REFUSED, SENT, Method, Step
from ldp_kafka.methods.inversion import Inversion, law_ranges
from ldp_kafka.methods.response_curve import ResponseCurve
from ldp_kafka.randomness import Randomness

__all__ = ["PerSlot"]


class PerSlot(Method):
    """A method that asks the ledger for one report's budget in each slot, and makes one draw where
    it is given.
    """

    shrinks = True

    @property
    def stride(self) -> int:
        """Slots from one report of a user to the next."""
        return 1

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

    def _step(
        self,
        state: State,
        rows: NDArray[np.intp],
        slot: int,
        values: NDArray[np.int64],
        randomness: Randomness,
    ) -> Step:
        allowed = self.ledger.charge(state, rows, slot, self.spend)
        if allowed.all():
            return Step(
                self._perturb(state, rows, slot, slot, values, randomness),
                np.full(len(rows), SENT, np.uint8),
            )
        answers = np.zeros(len(rows))
        answers[allowed] = self._perturb(
            state, rows[allowed], slot, slot, values[allowed], randomness
        )
        return Step(answers, np.where(allowed, SENT, REFUSED).astype(np.uint8))

    def _perturb(
        self,
        state: State,
        rows: NDArray[np.intp],
        slot: int,
        turn: int,
        values: NDArray[np.int64],
        randomness: Randomness,
    ) -> NDArray[Any]:
        """Answers (n,) of rows that report at ``slot``; ``turn`` counts what reports are counted
        in: slots, or segments.
        """
        raise NotImplementedError
