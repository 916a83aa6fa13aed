"""The same worker without what makes it safe, for what that costs: fresh noise and ids, no ledger,
no state in the changelog, acknowledged as soon as it is folded. `ldp-kafka run` otherwise.

What is left is what any stream processor does: decode, look up each user's state, perturb, encode,
send, commit.
"""

from __future__ import annotations

import asyncio
import sys
from unittest.mock import patch

import numpy as np

from ldp_kafka import accounting, randomness
from ldp_kafka.cli import main
from ldp_kafka.runtime.recovery.epoch import Epoch

FRESH = randomness.system()


def spend(self, state, rows, slot, cost):
    """Everything is allowed, and nothing noted but the slot."""
    state.columns["last"][rows] = slot
    return np.ones(len(rows), np.bool_)


def snapshot(self):
    """The offset alone."""
    self.stage.dirty(self.state)
    with patch.object(self.stage.__class__, "dump", lambda *_: {}):
        return whole(self)


async def persist(snapshot, *, flush, put, acknowledge):
    """Acknowledged whatever becomes of the output."""
    await asyncio.gather(put(*snapshot.meta))
    for event in snapshot.acknowledge:
        acknowledge(event)


whole = Epoch.snapshot

if __name__ == "__main__":
    with (
        patch.object(accounting.Ledger, "spend", spend),
        patch.object(randomness.Keyed, "at", lambda *_: FRESH),
        patch.object(
            randomness.Keyed,
            "report_ids",
            lambda _, users, *__: FRESH.words(len(users), 4).view(np.uint64),
        ),
        patch.object(Epoch, "snapshot", snapshot),
        patch.object(Epoch, "persist", staticmethod(persist)),
    ):
        sys.exit(main(sys.argv[1:]))
