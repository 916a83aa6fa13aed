"""Broken ways to have reports wait, each with a named script that finds it, and what the judge then
says.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ldp_kafka.runtime.stages.accepted import Accepted
from ldp_kafka.runtime.stages.perturb import Perturb
from ldp_kafka.runtime.stages.rows import Placed
from ldp_kafka.runtime.stages.shards import BEFORE
from tests.broker.mutant import ending
from tests.fold import scripts
from tests.fold.driver import Recipe
from tests.fold.mutants import EarlyAck, Mutant
from tests.runtime.stages.crashes import of_kind


class WaitingInMeta(Perturb):
    """What waits lies in ``meta``: of a shard that is ahead, what it drew since is nowhere."""

    def meta(self, state: Any) -> Any:
        waiting = state.users.waiting
        whose = state.users.state.digests(waiting.all().users).tobytes().hex()
        records = waiting.records(waiting.all()).tobytes().hex()
        return {**super().meta(state), "reports": [whose, records]}

    def load(self, meta: Any, shards: Any) -> Any:
        state = super().load(meta, shards)
        whose, records = meta["reports"]
        digests = np.frombuffer(bytes.fromhex(whose), np.uint64).reshape(-1, 2)
        users = state.users._index.find(digests, state.users.state.users)
        state.users.waiting.take()
        state.users.waiting.load(users, np.frombuffer(bytes.fromhex(records), self._kept_as))
        return state


class BoundsOfFolds(Perturb):
    """All that waits goes where a fold ends: when that is depends on time."""

    _at_bounds = ending(Perturb._at_bounds)


class CountsWhatIsDrawn(Perturb):
    """Counts the rows that its shards do not skip."""

    def _at_bounds(self, state: Any, places: Any, accepted: Any, made: Any, output: Any) -> None:
        accepted = accepted._replace(slots=made.event_slots, message=made.message)
        super()._at_bounds(state, places, accepted, made, output)


class CountsWhatIsInTime(Perturb):
    """Takes repeats for accepted where no shard is ahead: how many there are moves bounds."""

    def _perturb(self, state: Any, offsets: Any, found: Any, output: Any) -> Any:
        _, made = super()._perturb(state, offsets, found, output)
        return found, made


class NumbersWhatIsSent(Perturb):
    """A bound of which all was sent before a crash has no number."""

    def _send(self, state: Any, bounds: Any, drawn: Any, output: Any) -> None:
        moving = set(bounds.moving.tolist())
        kept = [at for at in range(len(bounds)) if at in moving or at in drawn.bound]
        bound = np.searchsorted(kept, drawn.bound)
        super()._send(state, bounds.take(kept), drawn._replace(bound=bound), output)


class EverythingAhead(Accepted):
    """Takes repeats of what a shard has ahead for accepted."""

    def of_ahead(self, rows: Placed) -> Placed:
        return rows.in_order()


class NothingAhead(Accepted):
    """Does not know what a shard that is ahead has accepted."""

    def of_ahead(self, rows: Placed) -> Placed:
        return rows.take(slice(0, 0))


class SavesWhatIsNow(Accepted):
    """A shard's record has the last slots of its own snapshot, and not those of the one before."""

    def snapshot(self, offset: int) -> None:
        super().snapshot(offset)
        count = len(self._saved)
        self._users.state.columns[BEFORE][:count] = self._saved


class SavesWhatWas(Accepted):
    """The first snapshot of an owner does not note how far it is in a shard that is ahead."""

    def snapshot(self, offset: int) -> None:
        behind = self._behind
        super().snapshot(2**62)
        self._behind = behind


class KeepsWhatIsSent(Perturb):
    """Does not note that a shard changes when what waited in it is sent."""

    def _at_bounds(self, state: Any, *rest: Any) -> None:
        state.users.touch = lambda rows: None
        super()._at_bounds(state, *rest)
        del state.users.touch


class SendsWhatIsAhead(Perturb):
    """Sends what waits whatever message it was drawn for."""

    def _at_bounds(self, state: Any, *rest: Any) -> None:
        waits = state.users.waiting.take()
        state.users.waiting.put(waits._replace(offset=np.zeros_like(waits.offset)))
        super()._at_bounds(state, *rest)


def like(kind: type[Perturb]) -> Recipe:
    """A recipe whose edges are of this kind."""
    return Recipe(stage=lambda stage: of_kind(kind, stage))


MUTANTS: dict[str, Mutant] = {
    "what waits in meta": Mutant(
        like(WaitingInMeta), scripts.crash_before_meta_while_rows_wait, "missing report"
    ),
    "a bound where a fold ends": Mutant(
        like(BoundsOfFolds), scripts.crash_before_snapshot, "different batch"
    ),
    "what is skipped not counted": Mutant(
        like(CountsWhatIsDrawn), scripts.crash_before_meta_while_rows_wait, "different batch"
    ),
    "what is sent not noted": Mutant(
        like(KeepsWhatIsSent), scripts.kept_behind_each_message, "different release"
    ),
    "what a shard has ahead sent early": Mutant(
        like(SendsWhatIsAhead), scripts.crash_before_meta_while_rows_wait, "different release"
    ),
    "acknowledged ahead of the checkpoint": Mutant(
        Recipe(EarlyAck, chunk=1), scripts.commit_before_snapshot, "acknowledged"
    ),
}

NUMBERS: dict[str, type[Perturb | Accepted]] = {
    "a bound without reports not numbered": NumbersWhatIsSent,
    "repeats ahead counted": EverythingAhead,
    "what is ahead not counted": NothingAhead,
    "the last slots of this snapshot": SavesWhatIsNow,
    "the last slots of a shard that is ahead": SavesWhatWas,
}
"""Bounds that slip after a crash: found where the log has repeats."""
