"""The recovery recipe with one rule of it left out, each time another one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import pytest

from ldp_kafka.randomness import Keyed, system
from ldp_kafka.runtime.recovery import packing, partition
from ldp_kafka.runtime.recovery.partition import META, Admission, Partition, persist
from ldp_kafka.runtime.stages.collect import Collect
from ldp_kafka.runtime.stages.slot_sums import At, SlotSums, Summed
from tests.fold import cases, scripts
from tests.fold.driver import Event, Owned, Recipe, Worker


@dataclass(frozen=True)
class Mutant:
    """A broken recipe, the script that kills it, and what the judge then says."""

    recipe: Recipe
    script: Callable[[Any], None]
    complaint: str
    patch: Callable[[pytest.MonkeyPatch], None] = lambda _: None


class Fresh(Keyed):
    """Noise of the operating system in place of keyed noise; ids stay."""

    def at(self, *_: Any) -> Any:
        return system()


class NoGapCheck(Partition[Any]):
    """What comes is taken."""

    def admit(self, offset: int) -> Admission:
        return super().admit(offset) if offset <= self.want else self._jump(offset)

    def _jump(self, offset: int) -> Admission:
        self.want = offset
        return super().admit(offset)


class OneTenure(Partition[Any]):
    """All owners write the same keys."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._old = []


class ChangedShardsOnly(Partition[Any]):
    """A tenure begins with the shards that it changed."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._written = True


class CoverOfMeta(Partition[Any]):
    """A shard that was loaded ahead of meta is written as if it were not."""

    def snapshot(self) -> Any:
        self.covers = {shard: min(cover, self.cover) for shard, cover in self.covers.items()}
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


class AcksAfterAwait(Worker):
    """Acknowledges what is pending when the snapshot is written, not what was when it was taken."""

    async def persist(self, owned: Owned, snapshot: Any, mark: int) -> None:
        await super().persist(owned, replace(snapshot, acknowledge=()), mark)
        late, owned.partition.pending = owned.partition.pending, []
        for event in [*snapshot.acknowledge, *late]:
            self.acknowledge(owned, event)


class ForgetsChanges(Worker):
    """Notes which shards are written when they are, and so forgets what changed meanwhile."""

    async def persist(self, owned: Owned, snapshot: Any, mark: int) -> None:
        await super().persist(owned, snapshot, mark)
        owned.partition.stage.dirty(owned.partition.state)


class EarlyAck(Worker):
    """Acknowledges what is folded."""

    def fold(self, owned: Owned) -> None:
        events = list(owned.waiting)
        super().fold(owned)
        for event in events:
            self.acknowledge(owned, event)


class AcksRepeats(Worker):
    """Acknowledges what is skipped as delivered before."""

    def take(self, number: int, message: Any) -> None:
        owned = self.parts.get(number)
        if owned is not None and message.offset < owned.partition.want:
            self.acknowledge(owned, Event(number, message))
        super().take(number, message)


class AcksAhead(Worker):
    """Acknowledges what is not folded because something before it is missing."""

    def take(self, number: int, message: Any) -> None:
        super().take(number, message)
        owned = self.parts.get(number)
        if owned is not None and owned.ahead:
            self.acknowledge(owned, Event(number, message))


class EndedTenureAcks(Worker):
    """A snapshot that ends after its tenure acknowledges all the same."""

    def acknowledge(self, owned: Owned, event: Event) -> None:
        self.ack(event)


def any_tenure(found: Any) -> str | None:
    """Without a look at the manifest."""
    return max(
        ((shards[META][0], tenure) for tenure, shards in found.items() if META in shards),
        default=(0, None),
    )[1]


def first_tenure(found: Any) -> str | None:
    """The complete one that covers least."""
    complete = [tenure for tenure, shards in found.items() if choose({tenure: shards})]
    return min(complete, key=lambda tenure: found[tenure][META][0], default=None)


choose = partition.choose


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

    def _count(self, state: Any, batch: Any, *rest: Any) -> None:
        self.latest.extend(batch.slots.tolist())
        super()._count(
            state,
            replace(batch, closed=max(self.latest) - cases.LATENESS - 1 if self.latest else None),
            *rest,
        )


class CountsRepeats(Collect):
    """Counts a batch as often as it comes."""

    def _count(self, state: Any, batch: Any, *rest: Any) -> None:
        state.last = (-1, -1)
        super()._count(state, batch, *rest)


class EndedStaysListed(Partition[Any]):
    """The manifest still asks for a shard that has ended."""

    def snapshot(self) -> Any:
        before = dict(self.covers)
        snapshot = super().snapshot()
        key, value = snapshot.meta
        cover, payload = packing.unpack(value)
        meta = json.loads(payload)
        meta["manifest"] = before | meta["manifest"]
        return replace(snapshot, meta=(key, packing.pack(cover, json.dumps(meta).encode())))


class EndedStays(Partition[Any]):
    """What has ended is never dropped, and whatever lies there is loaded."""

    def __post_init__(self) -> None:
        super().__post_init__()
        best = choose(partition.tenures(self.table, self.number))
        if best is not None:
            found = dict(partition.tenures(self.table, self.number)[best])
            meta = json.loads(found.pop(META)[1])
            self.state = self.stage.load(meta["state"], found)
            self.covers = {shard: cover for shard, (cover, _) in found.items()}

    def snapshot(self) -> Any:
        snapshot = super().snapshot()
        return replace(
            snapshot, drop=[key for key in snapshot.drop if not key.endswith(self.tenure)]
        )


async def ended_first(snapshot: Any, *, put: Any, **others: Any) -> None:
    """What has ended goes before the meta that no longer lists it."""
    tenure = snapshot.meta[0].split("/")[2]
    for key in snapshot.drop:
        if key.endswith(tenure):
            await put(key, None)
    await persist(snapshot, put=put, **others)


def summing(**methods: Callable[..., Any]) -> Recipe:
    """A recipe whose stages keep their sums in another way."""
    kind = type("BrokenSums", (SlotSums,), methods)

    def broken(state: Any) -> Any:
        sums = state.source.sums if hasattr(state, "source") else state.sums
        sums.__class__ = kind
        return state

    def make(stage: Any) -> Any:
        class Broken(type(stage)):  # type: ignore[misc]
            def fresh(self) -> Any:
                return broken(super().fresh())

            def load(self, *held: Any) -> Any:
                return broken(super().load(*held))

        return Broken(**{field.name: getattr(stage, field.name) for field in fields(stage)})

    return Recipe(stage=make)


def close_for_good(self: SlotSums, slot: int) -> Any:
    """A closed slot is let go of at once."""
    self.changed.add(slot // self.size)
    return {
        phase: Summed(sums, self.sample.pop(At(slot, phase), []))
        for phase, sums in self.open.pop(slot, {}).items()
    }


def takes_all(self: SlotSums, slot: int, offset: int) -> bool:
    """What a slot shard covers is counted once more."""
    self.changed.add(slot // self.size)
    return True


def ends_early(self: SlotSums, through: int) -> None:
    """A slot shard ends when all that it has is closed, whatever may still come."""
    SlotSums.end(self, through + self.size - 1)


def takes_silently(self: SlotSums, slot: int, offset: int) -> bool:
    """Nobody notes that a slot shard changes."""
    return offset > self.covers.get(slot // self.size, -1)


SLOT_MUTANTS: dict[str, tuple[Recipe, str]] = {
    "an ended slot shard stays in the manifest": (Recipe(EndedStaysListed), "acknowledged"),
    "an ended slot shard is loaded again": (Recipe(EndedStays), "state"),
    "ended slot shards dropped before meta": (Recipe(persist=ended_first), "acknowledged"),
    "a closed slot is let go of at once": (summing(close=close_for_good), "different record"),
    "what a slot shard covers is counted again": (summing(takes=takes_all), "different record"),
    "a slot shard ends before its last slot": (summing(end=ends_early), "different record"),
    "a change is not noted": (summing(takes=takes_silently), "missing record"),
}
"""Of the state in slot shards: what the judge says at one crash or another."""


def collector(kind: type[Collect], **more: Any) -> Recipe:
    """A recipe whose collectors are of this kind, with what they share."""

    def make(stage: Any) -> Any:
        made = kind(**{field.name: getattr(stage, field.name) for field in fields(stage)})
        for name, value in more.items():
            object.__setattr__(made, name, value)
        return made

    return Recipe(stage=make)


def fresh_noise(stage: Any) -> Any:
    return replace(stage, randomness=Fresh(cases.KEY, context=bytes.fromhex(stage.fingerprint)))


def choosing(how: Any) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda patch: patch.setattr(partition, "choose", how)


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
    "no tenure": Mutant(Recipe(partial(OneTenure, tenure="one")), scripts.zombie, "acknowledged"),
    "no tenure, the survivor": Mutant(
        Recipe(partial(OneTenure, tenure="one")), scripts.zombie, "halted"
    ),
    "meta first": Mutant(
        Recipe(persist=meta_first), scripts.crash_between_shards_and_meta, "halted"
    ),
    "acknowledged after an await": Mutant(
        Recipe(worker=AcksAfterAwait), scripts.fold_during_snapshot, "acknowledged"
    ),
    "acknowledged when folded": Mutant(
        Recipe(worker=EarlyAck), scripts.commit_before_snapshot, "acknowledged"
    ),
    "acknowledged before the snapshot is written": Mutant(
        Recipe(persist=acknowledge_first), scripts.crash_between_shards_and_meta, "acknowledged"
    ),
    "manifest not checked": Mutant(
        Recipe(), scripts.zombie_dropped, "second report", choosing(any_tenure)
    ),
    "the tenure that covers least": Mutant(
        Recipe(), scripts.crash_before_dropping, "halted", choosing(first_tenure)
    ),
    "changes forgotten during an await": Mutant(
        Recipe(worker=ForgetsChanges), scripts.fold_during_snapshot, "second report"
    ),
    "no flush": Mutant(Recipe(persist=no_flush), scripts.output_never_arrived, "missing report"),
    "flush after meta": Mutant(
        Recipe(persist=flush_last), scripts.crash_after_meta, "missing report"
    ),
    "repeats acknowledged": Mutant(Recipe(worker=AcksRepeats), scripts.delivered_again, "halted"),
    "what is ahead acknowledged": Mutant(Recipe(worker=AcksAhead), scripts.lost_message, "halted"),
    "covers not used": Mutant(
        Recipe(stage=AllShardsAtMeta), scripts.crash_between_shards_and_meta, "counted"
    ),
    "a shard's cover taken from meta": Mutant(
        Recipe(CoverOfMeta), scripts.crash_between_shards_and_meta, "state"
    ),
    "only changed shards in a new tenure": Mutant(
        Recipe(ChangedShardsOnly), scripts.second_owner, "acknowledged"
    ),
    "older tenures dropped first": Mutant(
        Recipe(persist=drop_first), scripts.crash_in_first_snapshot, "acknowledged"
    ),
    "an ended tenure acknowledges": Mutant(
        Recipe(worker=EndedTenureAcks), scripts.rebalance_during_snapshot, "acknowledged"
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
