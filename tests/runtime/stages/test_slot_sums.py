"""State of slots in slot shards: a snapshot writes what changed, no record is too large, and what
has ended is gone.
"""

from __future__ import annotations

import asyncio
import json

import pytest

from ldp_kafka.errors import StateError
from ldp_kafka.records import Partial
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.recovery.epoch import LARGEST
from ldp_kafka.runtime.recovery.packing import unpack
from ldp_kafka.runtime.stages import slot_sums
from ldp_kafka.runtime.stages.merge import Merge
from ldp_kafka.runtime.stages.sample import KEPT
from ldp_kafka.runtime.wire.records import encode_json
from tests.cases import cases
from tests.fold.epochs import Shelf, folded, opened
from tests.runtime.stages.told import Told

WAITING = 20_000  # slots
WIDTH = 8
IDS = tuple(f"{number:032x}" for number in range(KEPT))


class Kept:
    """A merger in one epoch, and the table that it writes."""

    def __init__(self, sources=2, width=WIDTH):
        self.made = []
        stage = Merge(
            sources,
            Told(lambda *slot: self.made.append(slot[:2]) or [], width),
            "partials",
            "dead",
            "f" * 32,
            "0" * 32,
        )
        self.stage, self.shelf, self.offset = stage, Shelf(), 0
        self.table = self.shelf.table
        self.epoch = opened(stage, shelf=self.shelf)

    def send(self, *partials):
        messages = [
            Message(self.offset + at, -1, encode_json(Partial(*partial)))
            for at, partial in enumerate(partials, 1)
        ]
        self.offset += len(partials)
        folded(self.epoch, messages)

    def save(self):
        """Write a snapshot; the sizes of what it wrote, and how many keys it dropped."""
        snapshots = []
        self.shelf.saved = lambda snapshot, _: snapshots.append(snapshot)
        asyncio.run(self.epoch.save())
        (snapshot,) = snapshots
        return [len(snapshot.meta[1]), *map(len, snapshot.shards.values())], len(snapshot.drop)

    def reload(self):
        """The next owner."""
        want = self.offset + 1
        self.epoch = opened(self.stage, want=want, committed=True, shelf=self.shelf)


def sums(slot):
    return tuple(10**6 * slot + at for at in range(WIDTH))


def test_many_slots_can_wait():
    """For a partition without events; each snapshot writes the latest, and when it
    comes all goes.
    """
    kept = Kept()
    kept.send(*((0, slot, 0, sums(slot), IDS) for slot in range(WAITING)))
    sizes, dropped = kept.save()
    assert max(sizes) < LARGEST // 2
    assert sum(sizes) > LARGEST, "in one record it would not fit"
    assert dropped == 0
    kept.send((0, WAITING, 0, sums(WAITING), IDS))
    again, _ = kept.save()
    assert len(again[1:]) == 2, "the latest slot shard, and the one whose oldest ids went"
    assert sum(again[1:]) < sum(sizes[1:]) / 20
    kept.reload()
    assert kept.epoch.state.phases[0].sums.open.keys() == set(range(WAITING + 1))
    kept.send((1, WAITING, 0, None))
    assert kept.made == [(slot, {0: list(sums(slot))}) for slot in range(WAITING + 1)]
    before = len(kept.table)
    sizes, dropped = kept.save()
    assert dropped >= before - 1
    assert len(kept.table) <= 2, "meta, and the slot shard of the last slot"
    assert kept.epoch.state.phases[0].sums.open == {}
    kept.reload()
    assert kept.epoch.state.phases[0].released == WAITING


def test_a_record_that_lost_its_slot_shard_is_not_loaded():
    """A worker that died before it dropped a slot shard that had ended leaves a record that no
    manifest lists.
    """
    kept = Kept()
    size = kept.stage.size
    kept.send(*((0, slot, 0, sums(slot)) for slot in range(2 * size)))
    kept.save()
    old = dict(kept.table)
    kept.send((1, size, 0, None))
    kept.save()
    gone = old.keys() - kept.table.keys()
    assert len(gone) == 1
    kept.table |= {key: old[key] for key in gone}
    kept.reload()
    assert kept.epoch.state.phases[0].sums.open.keys() == set(range(size + 1, 2 * size))
    assert kept.epoch.state.phases[0].sums.kept.keys() == {size}
    kept.save()
    assert not gone & kept.table.keys(), "the next epoch drops it with the others"
    metas = [json.loads(unpack(value)[1]) for key, value in kept.table.items() if "/meta/" in key]
    assert [list(meta["manifest"]) for meta in metas] == [["1"]]


@cases(("width", "ids"), [(1, KEPT), (8192, KEPT), (2, 64 * KEPT), (8192, 256 * KEPT)])
def test_a_slot_shard_fits_into_a_record(width, ids):
    """Whatever the sums are."""
    slots = slot_sums.slots_in_a_shard(width, ids)
    state = slot_sums.SlotSums(slots)
    for slot in range(slots):
        state.add(slot_sums.At(slot, 0), [-(10**9)] * width)
        state.sample[slot_sums.At(slot, 0)] = ["f" * 32] * ids
    (payload,) = state.dump({"0"}).values()
    assert len(payload) <= max(slot_sums.BYTES * 1.1, LARGEST / 2)


def test_other_slot_shards_are_refused(monkeypatch):
    """What another version wrote is not read as if it were ours."""
    kept = Kept()
    kept.send((0, 1, 0, sums(1)))
    kept.save()
    monkeypatch.setattr(slot_sums, "MOST", 7)
    fresh = Kept()
    with pytest.raises(StateError, match="other shards"):
        opened(fresh.stage, 0, kept.table, 2, committed=True)
