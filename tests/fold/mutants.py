"""The recovery recipe with one rule of it left out, each time another one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from ldp_kafka.randomness import system
from ldp_kafka.runtime.keys import EdgeNoise
from ldp_kafka.runtime.recovery import packing, start
from ldp_kafka.runtime.recovery.epoch import Epoch, OffsetAction
from ldp_kafka.runtime.recovery.keys import place_of
from ldp_kafka.runtime.recovery.snapshot import persist
from ldp_kafka.runtime.stages.collect import Collect
from ldp_kafka.runtime.stages.slot_sums import At, SlotSums, Summed
from tests.fold import cases, scripts
from tests.fold.driver import Recipe
from tests.runtime.stages.crashes import of_kind


@dataclass(frozen=True)
class Mutant:
    """A broken recipe, the script that kills it, and what the judge then says."""

    recipe: Recipe
    script: Callable[[Any], None]
    complaint: str
    patch: Callable[[pytest.MonkeyPatch], None] = lambda _: None


class Fresh(EdgeNoise):
    """Noise of the operating system in place of keyed noise; ids stay."""

    def at(self, *_: Any) -> Any:
        return system()


class NoGapCheck(Epoch[Any]):
    """What comes is taken."""

    def _action(self, offset: int) -> OffsetAction:
        self.next_offset = max(self.next_offset, offset)
        return super()._action(offset)


class OneEpoch(Epoch[Any]):
    """All owners write the same keys."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._obsolete = []


class ChangedShardsOnly(Epoch[Any]):
    """An epoch begins with the shards that it changed."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._whole = False


class OffsetOfMeta(Epoch[Any]):
    """A shard that was loaded ahead of meta is written as if it were not."""

    def snapshot(self) -> Any:
        self.shard_offsets = {
            shard: min(offset, self.offset) for shard, offset in self.shard_offsets.items()
        }
        return super().snapshot()


async def meta_first(snapshot: Any, *, flush: Any, put: Any, acknowledge: Any) -> None:
    await flush()
    await put(*snapshot.meta)
    await asyncio.gather(*(put(key, value) for key, value in snapshot.shards.items()))
    for event in snapshot.acknowledge:
        acknowledge(event)
    for key in snapshot.drop:
        await put(key, None)


async def no_flush(snapshot: Any, *, flush: Any, **others: Any) -> None:
    async def at_once() -> None:
        return

    await persist(snapshot, flush=at_once, **others)


async def flush_last(snapshot: Any, *, flush: Any, put: Any, acknowledge: Any) -> None:
    """The state is kept, and then its output is waited for."""
    await no_flush(
        replace(snapshot, acknowledge=(), drop=()), flush=flush, put=put, acknowledge=acknowledge
    )
    await flush()
    for event in snapshot.acknowledge:
        acknowledge(event)
    for key in snapshot.drop:
        await put(key, None)


async def drop_first(snapshot: Any, *, put: Any, **others: Any) -> None:
    for key in snapshot.drop:
        await put(key, None)
    await persist(replace(snapshot, drop=()), put=put, **others)


async def acknowledge_first(snapshot: Any, *, acknowledge: Any, **others: Any) -> None:
    for event in snapshot.acknowledge:
        acknowledge(event)
    await persist(replace(snapshot, acknowledge=()), acknowledge=acknowledge, **others)


def writing(how: Any) -> Recipe:
    """A recipe whose epochs write snapshots in another order."""
    return Recipe(type("Writing", (Epoch,), {"persist": staticmethod(how)}))


class AcksAfterAwait(Epoch[Any]):
    """Acknowledges what is pending when the snapshot is written, not what was when it was taken."""

    async def persist(self, snapshot: Any, *, acknowledge: Any, **others: Any) -> None:
        await persist(replace(snapshot, acknowledge=()), acknowledge=acknowledge, **others)
        late, self.pending = self.pending, []
        for event in [*snapshot.acknowledge, *late]:
            acknowledge(event)


class ForgetsChanges(Epoch[Any]):
    """Notes which shards are written when they are, and so forgets what changed meanwhile."""

    async def persist(self, snapshot: Any, **others: Any) -> None:
        await persist(snapshot, **others)
        self.stage.dirty(self.state)


class EarlyAck(Epoch[Any]):
    """Acknowledges what is folded."""

    def fold(self) -> None:
        handles = self.handles[:]
        super().fold()
        for handle in handles:
            self._acknowledge(handle)


class AcksRepeats(Epoch[Any]):
    """Acknowledges what is skipped as delivered before."""

    def take(self, message: Any, handle: Any) -> OffsetAction:
        action = super().take(message, handle)
        if action is OffsetAction.SKIP:
            self._acknowledge(handle)
        return action


class AcksAhead(Epoch[Any]):
    """Acknowledges what is not folded because something before it is missing."""

    def take(self, message: Any, handle: Any) -> OffsetAction:
        action = super().take(message, handle)
        if action is OffsetAction.AHEAD:
            self._acknowledge(handle)
        return action


class EndedEpochAcks(Epoch[Any]):
    """A snapshot that ends after its epoch is written, and acknowledges, all the same."""

    async def _put(self, key: str, value: bytes | None) -> None:
        await self.table.put(key, value)

    def _acknowledge(self, handle: Any) -> None:
        self.acknowledge(handle)


def any_epoch(found: Any) -> Any:
    """Without a look at the shards that meta lists."""
    return max(
        (each for each in found if each.meta),
        key=lambda each: (each.offset, each.epoch),
        default=None,
    )


def first_epoch(found: Any) -> Any:
    """The complete one that has folded least."""
    return min(
        (each for each in found if each.complete), key=lambda each: each.offset, default=None
    )


class AllShardsAtMeta:
    """An edge that takes every loaded shard for no further than meta."""

    def __init__(self, stage: Any) -> None:
        self._stage = stage

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stage, name)

    def load(self, meta: Any, shards: Any) -> Any:
        return self._stage.load(
            meta, {shard: (-1, payload) for shard, (_, payload) in shards.items()}
        )


class OwnWatermark(Collect):
    """Closes slots by the latest report of all sources that this process has seen."""

    latest: list[int]

    def _count(self, state: Any, batch: Any, *rest: Any, **how: Any) -> None:
        self.latest.extend(batch.slots.tolist())
        super()._count(
            state,
            replace(batch, closed=max(self.latest) - cases.LATENESS - 1 if self.latest else None),
            *rest,
            **how,
        )


class CountsRepeats(Collect):
    """Counts a batch as often as it comes."""

    def _count(self, state: Any, batch: Any, *rest: Any, **how: Any) -> None:
        state.last = (-1, -1)
        super()._count(state, batch, *rest, **how)


class EndedStaysListed(Epoch[Any]):
    """Meta still lists a shard that has ended."""

    def snapshot(self) -> Any:
        before = dict(self.shard_offsets)
        snapshot = super().snapshot()
        key, value = snapshot.meta
        offset, payload = packing.unpack(value)
        meta = json.loads(payload)
        meta["manifest"] = before | meta["manifest"]
        return replace(snapshot, meta=(key, packing.pack(offset, json.dumps(meta).encode())))


class EndedStays(Epoch[Any]):
    """What has ended is never dropped, and whatever lies there is loaded."""

    def __init__(self, stage: Any, start: Any, **named: Any) -> None:
        super().__init__(stage, start, **named)
        if start.checkpoint is not None:
            found = start.checkpoint.shards
            self.state = stage.load(start.checkpoint.meta["state"], found)
            self.shard_offsets = {shard: offset for shard, (offset, _) in found.items()}

    def snapshot(self) -> Any:
        snapshot = super().snapshot()
        return replace(
            snapshot, drop=[key for key in snapshot.drop if not place_of(key).endswith(self.token)]
        )


async def ended_first(snapshot: Any, *, put: Any, **others: Any) -> None:
    """What has ended goes before the meta that no longer lists it."""
    epoch = snapshot.meta[0].split("/")[2]
    for key in snapshot.drop:
        if place_of(key).endswith(epoch):
            await put(key, None)
    await persist(snapshot, put=put, **others)


def summing(**methods: Callable[..., Any]) -> Recipe:
    """A recipe whose stages keep their sums in another way."""
    kind = type("BrokenSums", (SlotSums,), methods)

    def broken(state: Any) -> Any:
        state.phases[0].sums.__class__ = kind
        return state

    def make(stage: Any) -> Any:
        class Broken(type(stage)):  # type: ignore[misc]
            def fresh(self) -> Any:
                return broken(super().fresh())

            def load(self, *held: Any) -> Any:
                return broken(super().load(*held))

        return of_kind(Broken, stage)

    return Recipe(stage=make)


def close_for_good(self: SlotSums, slot: int) -> Any:
    """A closed slot is let go of at once."""
    self.changed.add(slot // self.size)
    return {
        phase: Summed(sums, self.sample.pop(At(slot, phase), []))
        for phase, sums in self.open.pop(slot, {}).items()
    }


def takes_all(self: SlotSums, slot: int, offset: int) -> bool:
    """What a slot shard shard_offsets is counted once more."""
    self.changed.add(slot // self.size)
    return True


def ends_early(self: SlotSums, through: int) -> None:
    """A slot shard ends when all that it has is closed, whatever may still come."""
    SlotSums.end(self, through + self.size - 1)


def takes_silently(self: SlotSums, slot: int, offset: int) -> bool:
    """Nobody notes that a slot shard changes."""
    return offset > self.shard_offsets.get(slot // self.size, -1)


SLOT_MUTANTS: dict[str, tuple[Recipe, str]] = {
    "an ended slot shard stays in the manifest": (Recipe(EndedStaysListed), "acknowledged"),
    "an ended slot shard is loaded again": (Recipe(EndedStays), "state"),
    "ended slot shards dropped before meta": (writing(ended_first), "acknowledged"),
    "a closed slot is let go of at once": (summing(close=close_for_good), "different record"),
    "what a slot shard has is counted again": (
        summing(takes=takes_all),
        "different record",
    ),
    "a slot shard ends before its last slot": (summing(end=ends_early), "different record"),
    "a change is not noted": (summing(takes=takes_silently), "missing record"),
}
"""Of the state in slot shards: what the judge says at one crash or another."""


def collector(kind: type[Collect], **more: Any) -> Recipe:
    """A recipe whose collectors are of this kind, with what they share."""

    def make(stage: Any) -> Any:
        made = of_kind(kind, stage)
        for name, value in more.items():
            object.__setattr__(made, name, value)
        return made

    return Recipe(stage=make)


def fresh_noise(stage: Any) -> Any:
    context = bytes.fromhex(stage.fingerprint) + cases.HERE.encode()
    noise = Fresh(cases.KEY, context=context)
    noise.deployment, noise.seal = cases.HERE, stage.seal
    return replace(stage, randomness=noise)


def choosing(how: Any) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda patch: patch.setattr(start, "latest", how)


EDGE_MUTANTS: dict[str, Mutant] = {
    "fresh noise": Mutant(
        Recipe(stage=fresh_noise), scripts.crash_before_snapshot, "second report"
    ),
    "fresh noise, the budget": Mutant(
        Recipe(stage=fresh_noise), scripts.crash_before_snapshot, "over budget"
    ),
    "fresh noise, a zombie": Mutant(Recipe(stage=fresh_noise), scripts.zombie, "second report"),
    "no gap check, leftovers": Mutant(Recipe(NoGapCheck), scripts.leftovers, "missing report"),
    "no gap check, a lost message": Mutant(
        Recipe(NoGapCheck), scripts.lost_message, "missing report"
    ),
    "no gap check, the first message lost": Mutant(
        Recipe(NoGapCheck), scripts.lost_first_message, "missing report"
    ),
    "no epoch": Mutant(Recipe(OneEpoch, token="one"), scripts.zombie, "acknowledged"),
    "no epoch, the survivor": Mutant(Recipe(OneEpoch, token="one"), scripts.zombie, "halted"),
    "meta first": Mutant(writing(meta_first), scripts.crash_between_shards_and_meta, "halted"),
    "acknowledged after an await": Mutant(
        Recipe(AcksAfterAwait), scripts.fold_during_snapshot, "acknowledged"
    ),
    "acknowledged when folded": Mutant(
        Recipe(EarlyAck), scripts.commit_before_snapshot, "acknowledged"
    ),
    "acknowledged before the snapshot is written": Mutant(
        writing(acknowledge_first), scripts.crash_between_shards_and_meta, "acknowledged"
    ),
    "manifest not checked": Mutant(
        Recipe(), scripts.zombie_dropped, "second report", choosing(any_epoch)
    ),
    "the epoch that has folded least": Mutant(
        Recipe(), scripts.crash_before_dropping, "halted", choosing(first_epoch)
    ),
    "changes forgotten during an await": Mutant(
        Recipe(ForgetsChanges), scripts.fold_during_snapshot, "second report"
    ),
    "no flush": Mutant(writing(no_flush), scripts.output_never_arrived, "missing report"),
    "flush after meta": Mutant(writing(flush_last), scripts.crash_after_meta, "missing report"),
    "repeats acknowledged": Mutant(Recipe(AcksRepeats), scripts.delivered_again, "halted"),
    "what is ahead acknowledged": Mutant(Recipe(AcksAhead), scripts.lost_message, "halted"),
    "offsets of shards not used": Mutant(
        Recipe(stage=AllShardsAtMeta), scripts.crash_between_shards_and_meta, "counted"
    ),
    "a shard's offset taken from meta": Mutant(
        Recipe(OffsetOfMeta), scripts.crash_between_shards_and_meta, "state"
    ),
    "only changed shards in a new epoch": Mutant(
        Recipe(ChangedShardsOnly), scripts.second_owner, "acknowledged"
    ),
    "older epochs dropped first": Mutant(
        writing(drop_first), scripts.crash_in_first_snapshot, "acknowledged"
    ),
    "an ended epoch acknowledges": Mutant(
        Recipe(EndedEpochAcks), scripts.rebalance_during_snapshot, "acknowledged"
    ),
}

COLLECT_MUTANTS: dict[str, Mutant] = {
    "watermark at the collector": Mutant(
        collector(OwnWatermark, latest=[]), scripts.one_source_behind, "missing record"
    ),
    "repeats counted": Mutant(
        collector(CountsRepeats), scripts.one_source_behind, "different record"
    ),
}
