"""The edge's fold for methods that release windows: a user's values wait in panes until their
window closes, and what the window releases is reported, a report a slot.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ldp_kafka.errors import InvariantError
from ldp_kafka.methods import DelayMethod
from ldp_kafka.runtime.keys import EdgeNoise
from ldp_kafka.runtime.log import Output
from ldp_kafka.runtime.runs import Run
from ldp_kafka.runtime.stages.perturb import PerturbState, parameters_of
from ldp_kafka.runtime.stages.places import Places
from ldp_kafka.runtime.stages.rows import Answered, Placed, Rows
from ldp_kafka.runtime.stages.settle import Settle, SettleState, make_settle
from ldp_kafka.runtime.stages.windows import Released, Windows
from ldp_kafka.topology import Topology

__all__ = ["Delay", "make_delay"]


@dataclass(frozen=True, repr=False)
class Delay(Settle):
    """The perturb stage of a topology whose method releases windows."""

    def __repr__(self) -> str:
        return f"Delay({self.topic}, {self.method.name})"  # never what its key draws

    @cached_property
    def _windowed(self) -> DelayMethod:
        if not isinstance(self.method, DelayMethod):
            raise InvariantError(f"{self.method.name} releases no windows")
        return self.method

    @cached_property
    def _windows(self) -> Windows:
        return Windows(self._windowed, self.randomness)

    def _ended(self, closed: int) -> int:
        return self._windows.ended(closed)

    def _reported(
        self,
        state: PerturbState,
        run: Run,
        rows: Rows,
        places: Places,
        output: Output,
    ) -> tuple[Placed, Answered]:
        """The reports of the windows that a run of messages closes."""
        assert isinstance(state, SettleState)
        found: list[Answered] = []
        for moving, before, closed in self._closings(state, run, rows, places, output):
            offset = run.offsets.item(moving)
            for each in self._windows.close(state, before, closed, offset, output):
                found += self._answers(each, moving)
        none = np.empty(0, np.int64)
        made = Answered(none, none, none, none, self.method.blank(0), none)
        if found:
            made = Answered(*(np.concatenate(column) for column in zip(*found, strict=True)))
        output.count("reports", len(made.slots))
        return Placed(none, none, none, none), made

    def _answers(self, found: Released, message: int) -> list[Answered]:
        """What a window releases as reports of its slots, sent with a message."""
        first, values = found.closed.first, found.closed.values
        made = []
        for at in range(len(values)):
            there = np.flatnonzero(~np.isnan(values[at]))
            count = len(there)
            slots = np.full(count, first + at)
            made.append(
                Answered(
                    found.rows[there],
                    slots,
                    slots,
                    np.zeros(count, np.int64),
                    self._windowed.index(values[at, there]),
                    np.full(count, message),
                )
            )
        return made


def make_delay(topology: Topology, partition: int, randomness: EdgeNoise | None) -> Delay:
    """The stage of one raw partition of a topology whose method releases windows.

    Raises
    ------
    ConfigurationError : there is no keyed randomness to draw with
    """
    plain = make_settle(topology, partition, randomness)
    return Delay(**parameters_of(plain))
