"""The curator's fold: values of aggregate streams in, releases of windows that closed out.

Values wait in panes, tumbling windows of one slot, until their own window closes, which tumbles
(``setting: batch``) or hops by a slot (``setting: sliding``); then every stream that has one in it,
or that has to be stepped on, is stepped once, in the order of slots. What is closed is decided by
position in the log alone, as at the edge: by ticks, and where ``input.closing`` says so by events.
A stream's state, its id and what its panes hold lie in records of one shard of streams each, so
that a crash between two of them leaves no window open that was released, and none released twice to
other values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import compress
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import NEVER, Field
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.methods.delay import StreamMethod
from ldp_kafka.randomness import Ids
from ldp_kafka.runtime.keys import EdgeNoise
from ldp_kafka.runtime.log import Look, Message, Output
from ldp_kafka.runtime.partitioning import partitions_of
from ldp_kafka.runtime.runs import Run
from ldp_kafka.runtime.stages.closings import closings
from ldp_kafka.runtime.stages.keyed import KeyedStage
from ldp_kafka.runtime.stages.names import Names
from ldp_kafka.runtime.stages.panes import Panes, is_pane, look_at_panes
from ldp_kafka.runtime.stages.per_slot import Taking, taking_of
from ldp_kafka.runtime.stages.places import Passed, advance, closed_at
from ldp_kafka.runtime.stages.raw import RawPartition, raw_partition
from ldp_kafka.runtime.stages.shards import read_shards
from ldp_kafka.runtime.stages.sources import Sources, read_new
from ldp_kafka.runtime.stages.stream_releases import StreamReleases, stream_releases
from ldp_kafka.runtime.stages.users import UNREADABLE, Users, strangers
from ldp_kafka.runtime.stages.windows import Released, Windows, Zeros
from ldp_kafka.runtime.wire.dead_letters import DeadLetters
from ldp_kafka.topology import Topology

__all__ = ["Curate", "CurateState", "make_curate"]

COUNTS = ("events", "late", "duplicates", "clamped", "windows", "releases")
COMPRESSED = ("last", "latest")
"""Columns that follow from which slots have values, and not from the values."""


@dataclass(repr=False)
class CurateState:
    """What the curator knows of one partition."""

    users: Users
    """The streams."""
    names: Names
    panes: Panes
    shard_offsets: NDArray[np.int64]
    """Last offset that each shard of streams has folded, where it is ahead of the partition."""
    watermark: int = -1
    closed: int = NEVER
    zeros: Zeros | None = None
    """Streams that have a value in each slot, once they were looked for."""
    sources: Sources | None = None
    """Where a relay re-keys."""

    def __repr__(self) -> str:
        return f"CurateState({self.users!r}, closed={self.closed})"  # never a time


@dataclass(frozen=True)
class Curate(KeyedStage):
    """The curate stage of one topology.

    Parameters
    ----------
    method, randomness : what releases windows; keyed, the only source of noise
    raw : how messages are read
    taking : how several values of a stream in one slot become one
    lateness : slots
    shards : of a partition's streams
    always : ids of the partition's streams that have a value in each slot, 0 without an event
    before_start : the last slot before the first one; NEVER where there is no first one
    by_record : whether an event is late by its own record, too
    sources : partitions of the topic that a relay re-keys; 0: it does not
    """

    oversize: ClassVar[str] = "runtime.shards is too small for so many streams"
    windowed: ClassVar[bool] = True

    method: StreamMethod
    randomness: EdgeNoise
    raw: RawPartition
    taking: Taking
    releases: StreamReleases
    topic: str
    dead_letters_topic: str
    fingerprint: str
    layout: str
    lateness: int
    shards: int
    always: tuple[str, ...] = ()
    before_start: int = NEVER
    by_record: bool = False
    sources: int = 0

    def __repr__(self) -> str:
        return f"Curate({self.topic}, {self.method.name})"  # never what its key draws

    @cached_property
    def fields(self) -> dict[str, Field]:
        """The arrays of a stream's state."""
        return self.method.fields

    @cached_property
    def _windows(self) -> Windows:
        return Windows(self.method, self.randomness)

    def fresh(self) -> CurateState:
        users = Users(self.fields, COMPRESSED, self.randomness, self.shards)
        return CurateState(
            users,
            Names(users, self.shards),
            Panes(users, self.taking),
            np.full(self.shards, -1, np.int64),
            closed=self.before_start,
            sources=Sources(self.sources) if self.sources else None,
        )

    def fold(self, state: CurateState, messages: Sequence[Message]) -> Output:
        """Releases of consecutive messages; the same records whether they are folded one by one or
        together.
        """
        output = self._output()
        run, rows, latest = read_new(self.raw, state.sources, Run.of(messages), output)
        own = None
        if self.by_record:
            own = closed_at(run.timestamps, slot_ms=self.raw.slot_ms, lateness=self.lateness)
        places = advance(
            state,
            run.offsets,
            latest,
            slot_ms=self.raw.slot_ms,
            lateness=self.lateness,
            passed=lambda: Passed(state.closed),
        )
        output.count("events", len(rows.slots))
        find = partial(self._rows, state)
        for moving, before, closed in closings(state.panes, rows, places, find, output, own):
            offset = run.offsets.item(moving)
            zeros = self._zeros(state)
            for each in self._windows.close(state, before, closed, offset, output, zeros):
                self._release(state, each, output)
        output.gauge("watermark", state.watermark)
        output.gauge("open_slots", len(state.panes))
        return output

    def _rows(self, state: CurateState, ids: Ids) -> NDArray[np.intp]:
        """Of the streams with these ids, which are noted."""
        found = state.users.rows(ids)
        state.names.note(found, ids)
        return found

    def _zeros(self, state: CurateState) -> Zeros:
        """The streams that have a value in each slot."""
        if state.zeros is None:
            rows = self._rows(state, Ids.of(self.always))
            state.zeros = Zeros(rows, self.before_start + 1)
        return state.zeros

    def _release(self, state: CurateState, found: Released, output: Output) -> None:
        """What a window releases, by slot and stream."""
        closed = found.closed
        streams = state.names.of(found.rows)
        for at in range(len(closed.values)):
            there = np.flatnonzero(~np.isnan(closed.values[at]))
            if len(there):
                records = self.releases.of_slot(
                    closed.between(closed.first + at, at, at + 1).of(there),
                    [streams[each] for each in there.tolist()],
                )
                output.count("releases", len(records))
                output.send(*records)

    def latest(self, messages: Sequence[Message]) -> int:
        """See `Perturb.latest`."""
        return self.raw.latest(messages, self._output())

    def _output(self) -> Output:
        letters = DeadLetters(self.dead_letters_topic, self.topic, self.raw.partition)
        return Output(letters, COUNTS)

    def dirty(self, state: CurateState) -> set[str]:
        return state.users.dirty() | state.names.dirty() | state.panes.dirty()

    def shards_of(self, state: CurateState) -> set[str]:
        return state.users.records() | state.names.records() | state.panes.names()

    def dump(self, state: CurateState, shards: Iterable[str]) -> dict[str, bytes]:
        names = set(shards)
        streams = {name for name in names if name.isdecimal()}
        return {
            **state.users.dump(streams),
            **state.names.dump(names),
            **state.panes.dump(names),
        }

    def meta(self, state: CurateState) -> dict[str, Any]:
        sources = {} if state.sources is None else {"sources": state.sources.saved()}
        return {"watermark": state.watermark, "closed": state.closed, **sources}

    def load(self, meta: Mapping[str, Any], shards: Mapping[str, tuple[int, bytes]]) -> CurateState:
        state = self.fresh()
        state.watermark, state.closed = meta["watermark"], meta["closed"]
        if state.sources is not None:
            state.sources.restore(meta["sources"])
        streams = {name: held for name, held in shards.items() if name.isdecimal()}
        names = {name: held[1] for name, held in shards.items() if Names.is_record(name)}
        state.users.load({shard: payload for shard, (_, payload) in streams.items()})
        for shard, (cover, _) in streams.items():
            state.shard_offsets[int(shard)] = cover
        state.names.load(names)
        rest = shards.keys() - streams.keys() - names.keys()
        state.panes.load({name: shards[name] for name in rest}, self._windows.ended(state.closed))
        return state

    def watermark(self, state: CurateState) -> int:
        return state.watermark

    def users(self, state: CurateState) -> int:
        return state.users.state.count

    def budget(self, _: CurateState) -> None:
        """None: each value is charged once, when its window closes."""

    def look(self, meta: Mapping[str, Any], shards: Mapping[str, bytes]) -> Look:
        """The streams of the partition and its open slots. Whose digest an id has depends on the
        key, which need not be at hand here; that it is there once does not.
        """
        closed, everybody = int(meta["closed"]), 0
        panes = look_at_panes(shards, self.shards, self._windows.ended(closed))
        unreadable, strange = panes.unreadable, panes.strangers
        ids: list[str] = []
        for name, payload in shards.items():
            try:
                if Names.is_record(name):
                    ids += Names.read(payload).texts()
                elif not is_pane(name):
                    digests = read_shards([payload], self.fields).users
                    strange += strangers(digests, self.shards, int(name))
                    everybody += len(digests)
            except UNREADABLE:
                unreadable += 1
        found = Look(users=everybody, slots=panes.slots)
        found.watermark = int(meta["watermark"]) if meta["watermark"] >= 0 else None
        found.closed = closed if closed != NEVER else None
        found.complain("readable", unreadable, "records of the state cannot be read")
        found.complain("shards", strange, "streams lie in a shard that is not theirs")
        found.complain("shards", len(ids) - len(set(ids)), "ids are there more than once")
        found.complain("shards", panes.ended, "panes are of windows that are closed")
        return found


def make_curate(topology: Topology, partition: int, randomness: EdgeNoise | None) -> Curate:
    """The stage of one raw partition of a topology with a curator.

    Raises
    ------
    ConfigurationError : there is no keyed randomness to draw with
    """
    if randomness is None:
        raise ConfigurationError("the curator needs a key: without one it has no noise to draw")
    source = topology.input
    home = partitions_of(source.streams, source.partitions) == partition
    return Curate(
        method=topology.windowed,
        randomness=randomness,
        raw=raw_partition(topology, partition),
        taking=taking_of(topology),
        releases=stream_releases(topology, partition),
        topic=topology.raw_topic,
        dead_letters_topic=topology.dead_letters_topic,
        fingerprint=topology.fingerprint,
        layout=topology.layout,
        lateness=source.lateness,
        shards=topology.runtime.shards,
        always=tuple(compress(source.streams, home)) if source.zeros else (),
        before_start=source.before_start,
        by_record=source.by_ticks,
        sources=source.sources or 0,
    )
