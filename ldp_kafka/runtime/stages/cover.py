"""The edge's fold that hides presence: with each slot that a tick closes, every user of the
partition reports, with a value or without.

Ticks alone close slots. So when reports are sent, how many, of whom and of which slot follows from
ticks and from each user's first event, and from no other event: one that comes in time becomes its
user's value of the slot, and the reports of the slot come without it as well.

A user is known from the first slot on that closes with a value of it: ``last`` says so from then
on. After a crash it says so of a shard where that shard is, and no other is stepped: so the same
users report in the same slots, whichever worker folds, and each once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import NEVER
from ldp_kafka.errors import InvariantError
from ldp_kafka.methods.cover import Covering
from ldp_kafka.runtime.keys import EdgeNoise
from ldp_kafka.runtime.log import Output
from ldp_kafka.runtime.runs import Run
from ldp_kafka.runtime.stages.perturb import parameters_of
from ldp_kafka.runtime.stages.places import Places, closed_at
from ldp_kafka.runtime.stages.rows import Placed, Rows
from ldp_kafka.runtime.stages.settle import Settle, SettleState, make_settle
from ldp_kafka.topology import Topology

__all__ = ["Cover", "make_cover"]


@dataclass(frozen=True, repr=False)
class Cover(Settle):
    """The perturb stage of a topology whose method has ``cover``."""

    def __repr__(self) -> str:
        return f"Cover({self.topic}, {self.method.name})"  # never what its key draws

    @property
    def _ticked(self) -> bool:
        return True

    @property
    def _nothing(self) -> int:
        if not isinstance(self.method, Covering):
            raise InvariantError(f"{self.method.name} reports nothing where there is no value")
        return self.method.nothing

    def _late_for(self, run: Run) -> NDArray[np.int64]:
        """An event is late by its own record, too: no other's event, and no tick, decides that."""
        return closed_at(run.timestamps, slot_ms=self.slot_ms, lateness=self.lateness)

    def _closed(
        self, state: SettleState, run: Run, rows: Rows, places: Places, output: Output
    ) -> Iterator[Placed]:
        """Each slot that a run of messages closes, of all users who are known by then."""
        known = state.users.state.columns["last"][: state.users.state.count] != NEVER
        for moving, before, closed in self._closings(state, run, rows, places, output):
            known = np.pad(known, (0, state.users.state.count - len(known)))
            # a shard that is ahead may know users of slots before the first that was closed
            begins = min(state.panes.slots(), default=closed + 1)
            if before != NEVER and known.any():
                begins = before + 1
            for slot in range(begins, closed + 1):
                with_value = self._placed(slot, state.panes, moving, output)
                known[with_value.users] = True
                values = np.full(len(known), self._nothing)
                values[with_value.users] = with_value.values
                who = np.flatnonzero(known)
                yield Placed(who, *np.broadcast_arrays(slot, values[who], moving))


def make_cover(topology: Topology, partition: int, randomness: EdgeNoise | None) -> Cover:
    """The stage of one raw partition of a topology whose method has ``cover``.

    Raises
    ------
    ConfigurationError : there is no keyed randomness to perturb with
    """
    return Cover(**parameters_of(make_settle(topology, partition, randomness)))
