"""Which events are accepted: those of a slot that is later than any before it of the same user.

Their number decides where reports are sent, and the numbers of bounds: every fold of the log must
find the same. A crash can leave a shard at an offset s, ahead of the offset m of
``meta``. The shard then has its users' last slots at s, which do not tell the events between m and
s that were accepted from their repeats. So each shard also has the last slots as they were at the
snapshot before, which was at m.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import NEVER, Field
from ldp_kafka.runtime.stages.rows import Placed, rounds
from ldp_kafka.runtime.stages.shards import BEFORE
from ldp_kafka.runtime.stages.users import Users

__all__ = ["LAST_BEFORE", "Accepted"]

LAST_BEFORE = Field("i8", initial=NEVER)


class Accepted:
    """The last slot of each user of a partition where the partition is, whose shard may be ahead of
    it; and where it was at the last snapshot.

    Parameters
    ----------
    users : as they were loaded, or nobody
    shard_offsets : (shards,) the last offset that each shard has folded, where it was loaded
    offset : of the first message that is folded
    """

    def __init__(self, users: Users, shard_offsets: NDArray[np.int64], offset: int) -> None:
        self._users, self._shard_offsets = users, shard_offsets
        state, count = users.state, users.state.count
        self._saved = np.array(state.columns["last"][:count])
        ahead = shard_offsets[users.shard[:count]] >= offset
        self._saved[ahead] = state.columns[BEFORE][:count][ahead]
        # of users whose shard is ahead: no user is new to such a shard
        self._behind = self._saved.copy() if ahead.any() else None

    def of_ahead(self, rows: Placed) -> Placed:
        """The accepted ones of these events, whose users' shards have folded them already."""
        assert self._behind is not None
        rows = rows.in_order()
        new = np.zeros(len(rows.slots), np.bool_)
        for group in rounds(rows.users, rows.slots, self._users.distinct):
            who, slots = rows.users[group], rows.slots[group]
            new[group] = later = slots > self._behind[who]
            self._behind[who[later]] = slots[later]
        return rows.take(new)

    def snapshot(self, offset: int) -> None:
        """A snapshot is taken, at this offset of the partition: what the records of users that
        changed are to say. Those of a shard that is still ahead are written in the first snapshot
        alone, and belong to no other ``meta``.
        """
        state, count = self._users.state, self._users.state.count
        now = np.array(state.columns["last"][:count])
        before = state.columns[BEFORE][:count]
        before[: len(self._saved)] = self._saved
        if self._behind is not None:
            known = len(self._behind)
            ahead = self._shard_offsets[self._users.shard[:known]] > offset
            before[:known][ahead] = now[:known][ahead] = self._behind[ahead]
            if not ahead.any():
                self._behind = None
        self._saved = now
