"""The edge's fold where a slot's values are taken together: they wait in panes until their slot is
closed, and are reported then.

What becomes of them is what becomes of values that come with the message that closes their slot:
one a user, in the order of slots. That message is decided by the log alone, and so is what lies in
the panes before any shard skips it; so reports, and the bounds that they wait for, are the same
whoever folds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.errors import InvariantError
from ldp_kafka.runtime.keys import EdgeNoise
from ldp_kafka.runtime.log import Look, Output
from ldp_kafka.runtime.runs import Run
from ldp_kafka.runtime.stages.closings import closings
from ldp_kafka.runtime.stages.panes import Panes, is_pane, look_at_panes
from ldp_kafka.runtime.stages.per_slot import PER_SLOT, Folded, Taking, taking_of
from ldp_kafka.runtime.stages.perturb import Perturb, PerturbState, make_perturb, parameters_of
from ldp_kafka.runtime.stages.places import Places
from ldp_kafka.runtime.stages.raw import RawPartition
from ldp_kafka.runtime.stages.rows import Placed, Rows
from ldp_kafka.topology import Topology

__all__ = ["Settle", "SettleState", "make_settle"]


@dataclass(repr=False)
class SettleState(PerturbState):
    """What the edge knows of one partition."""

    held: Panes | None = None

    @property
    def panes(self) -> Panes:
        """The values of slots that are not closed."""
        if self.held is None:
            raise InvariantError("a state whose values wait must have panes")
        return self.held


@dataclass(frozen=True, repr=False)
class Settle(Perturb):
    """The perturb stage of a topology that takes a slot's values together.

    Parameters
    ----------
    taking : how
    """

    taking: Taking = PER_SLOT["last"]

    def __repr__(self) -> str:
        return f"Settle({self.topic}, {self.method.name})"  # never what its key draws

    @cached_property
    def _raw(self) -> RawPartition:
        return replace(super()._raw, held=True)

    def fresh(self) -> SettleState:
        users, shard_offsets = self._nobody()
        return SettleState(users, shard_offsets, held=Panes(users, self.taking))

    def _due(
        self,
        state: PerturbState,
        run: Run,
        rows: Rows,
        places: Places,
        output: Output,
    ) -> Placed:
        """The slots that a run of messages closes: each user's value in them."""
        assert isinstance(state, SettleState)
        found = list(self._closed(state, run, rows, places, output))
        if not found:
            none = np.empty(0, np.int64)
            return Placed(none, none, none, none)
        return Placed(*(np.concatenate(column) for column in zip(*found, strict=True)))

    def _closed(
        self, state: SettleState, run: Run, rows: Rows, places: Places, output: Output
    ) -> Iterator[Placed]:
        """Each slot with a value that a run of messages closes."""
        for moving, _, closed in self._closings(state, run, rows, places, output):
            for slot in state.panes.slots():
                if slot <= closed:
                    yield self._placed(slot, state.panes, moving, output)

    def _late_for(self, run: Run) -> NDArray[np.int64] | None:
        """The last slot (messages,) that each message is too late for by itself; None: none is."""
        del run
        return None

    def _closings(
        self, state: SettleState, run: Run, rows: Rows, places: Places, output: Output
    ) -> Iterator[tuple[int, int, int]]:
        """See `closings`; and how many slots are open then."""
        find, own = state.users.rows, self._late_for(run)
        yield from closings(state.panes, rows, places, find, output, own)
        output.gauge("open_slots", len(state.panes))

    def _ended(self, closed: int) -> int:
        """The last slot whose pane has been let go, where ``closed`` is the last closed slot."""
        return closed

    def _placed(self, slot: int, panes: Panes, message: int, output: Output) -> Placed:
        """The values of a slot that a message closes."""
        folded = panes.close(slot)
        output.count("duplicates", panes.dropped(folded))
        values = self._bound(panes, folded, output)
        count = len(folded.rows)
        return Placed(folded.rows, np.full(count, slot), values, np.full(count, message))

    def _bound(self, panes: Panes, folded: Folded, output: Output) -> NDArray[np.int64]:
        """As the integers that the method works on."""
        values = panes.of(folded)
        if self.method.kind != "numeric":
            return self.method.bound(values.astype(np.int64))
        output.count("clamped", int(np.count_nonzero(self.method.outside(values))))
        return self.method.bound(values)

    def dirty(self, state: PerturbState) -> set[str]:
        assert isinstance(state, SettleState)
        return super().dirty(state) | state.panes.dirty()

    def shards_of(self, state: PerturbState) -> set[str]:
        assert isinstance(state, SettleState)
        return super().shards_of(state) | state.panes.names()

    def dump(self, state: PerturbState, shards: Iterable[str]) -> dict[str, bytes]:
        assert isinstance(state, SettleState)
        names = set(shards)
        users = {name for name in names if not is_pane(name)}
        return {**super().dump(state, users), **state.panes.dump(names - users)}

    def load(self, meta: Mapping[str, Any], shards: Mapping[str, tuple[int, bytes]]) -> SettleState:
        panes = {name: held for name, held in shards.items() if is_pane(name)}
        state = super().load(meta, {name: shards[name] for name in shards.keys() - panes.keys()})
        assert isinstance(state, SettleState)
        state.panes.load(panes, self._ended(state.closed))
        return state

    def look(self, meta: Mapping[str, Any], shards: Mapping[str, bytes]) -> Look:
        """As of any edge, and that panes are of open slots, and each user's value in its own."""
        users = {name: payload for name, payload in shards.items() if not is_pane(name)}
        found = super().look(meta, users)
        panes = look_at_panes(shards, self.shards, self._ended(int(meta["closed"])))
        found.slots = panes.slots
        found.complain("readable", panes.unreadable, "panes cannot be read")
        found.complain("shards", panes.strangers, "users lie in a pane that is not theirs")
        found.complain("shards", panes.ended, "panes are of slots that are closed")
        return found


def make_settle(topology: Topology, partition: int, randomness: EdgeNoise | None) -> Settle:
    """The stage of one raw partition whose slots are taken together.

    Raises
    ------
    ConfigurationError : there is no keyed randomness to perturb with
    """
    plain = make_perturb(topology, partition, randomness)
    return Settle(**parameters_of(plain), taking=taking_of(topology))
