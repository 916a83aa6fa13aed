"""The fold rule: what makes recovery true, without Kafka in it.

The state of a partition is a deterministic fold over one log. It is kept in a table (a compacted
changelog) under keys ``partition/shard/tenure``; a tenure is one ownership of a partition, and its
token is never used again. Then nothing has to be atomic and nobody has to be fenced:

1. `Partition` starts from the *complete* tenure that covers most (every shard of its manifest is
   there, covering at least what the manifest says). A zombie writes only under its own keys, and
   equal cover means equal state. Of its shards those of the manifest count: any other has ended, or
   began after the ``meta``.
2. Offsets are gapless. One that is further than wanted is neither folded nor acknowledged; one that
   comes again is skipped without acknowledgement, since its first copy carries it; one that the
   state covers is acknowledged with the next snapshot.
3. A snapshot is taken between messages: pending acknowledgements and dirty shards are swapped out
   and serialised before anything is awaited. `persist` then flushes the output, writes the shards,
   then ``meta`` (cover and manifest), then acknowledges, then drops what ended: older tenures,
   their ``meta`` first, and shards.

So what is acknowledged is in a complete tenure, what is in a tenure has been output, and what is
folded again gives the same bytes.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Generic, TypeVar

from ldp_kafka.errors import StateError
from ldp_kafka.runtime.log import Message, Output, Stage
from ldp_kafka.runtime.recovery.packing import pack, unpack

__all__ = [
    "META",
    "Admission",
    "Partition",
    "Snapshot",
    "persist",
]

META = "meta"
BINDINGS = {
    "fingerprint": (
        "a privacy parameter or the slot of the topology changed; give the topology a new name, or"
        " its old parameters"
    ),
    "layout": (
        "the raw topic, its fields, partitions or partitioning, the lateness, max_ahead, the shards"
        " or per_user changed; give the topology a new name, or its old parameters"
    ),
    "key": (
        "the edge's key changed, or its rotations did; bring back the key file that it was written"
        " under (`ldp-kafka key rotate` is the way to a new one): else every user's budget would"
        " look unspent"
    ),
}
"""What a state is bound to, and what to say where it is another's."""

S = TypeVar("S")


class Admission(Enum):
    """What to do with an offset."""

    FOLD = "fold"
    COVERED = "covered"
    """The state has it: acknowledge with the next snapshot."""
    REPEAT = "repeat"
    """Delivered before in this tenure: neither fold nor acknowledge."""
    AHEAD = "ahead"
    """Something is missing before it: neither fold nor acknowledge."""


@dataclass(frozen=True)
class Snapshot:
    """What has to be written, in this order; see `persist`."""

    shards: Mapping[str, bytes]
    meta: tuple[str, bytes]
    acknowledge: Sequence[Any]
    drop: Sequence[str]
    """Keys of older tenures, their ``meta`` first, and of shards that have ended."""


@dataclass
class Partition(Generic[S]):
    """One ownership of one partition of a log.

    Parameters
    ----------
    stage : the pure fold
    number : of the partition
    table : what the changelog holds, of all partitions
    want : the next offset: the group's committed one, or the start of the log
    committed : whether the group has committed more than the header record
    gaps : whether offsets may be missing (a foreign log that is compacted or transactional)
    first : where they may, the first offset from ``want`` on that the log has: what is delivered
        before it is a leftover of an earlier assignment. None: it has none yet
    tenure : token of this ownership, never used before

    Raises
    ------
    StateError : the state belongs to another topology, or is behind what was acknowledged
    """

    stage: Stage[S]
    number: int
    table: Mapping[str, bytes]
    want: int
    committed: bool = False
    gaps: bool = False
    first: int | None = None
    tenure: str = field(default_factory=lambda: os.urandom(8).hex())

    def __post_init__(self) -> None:
        self.cover = -1
        self.covers: dict[str, int] = {}
        self.pending: list[Any] = []
        self._written = False
        self._leftovers = self.gaps and self.first is not None
        acknowledged = self.want - 1
        if self.gaps and self.first is not None:
            self.want = max(self.want, self.first)
        found = tenures(self.table, self.number)
        self._old = [
            f"{self.number}/{shard}/{tenure}"
            for tenure, shards in found.items()
            for shard in sorted(shards, key=lambda shard: shard != META)
        ]
        best = choose(found)
        if best is None:
            if self.committed:
                raise StateError(
                    f"partition {self.number}: offsets were acknowledged, but the changelog holds"
                    " no complete state for them: `ldp-kafka state inspect` shows what it holds;"
                    " bring it back, and where it is an old one, `ldp-kafka state rewind` sets the"
                    " group back to it"
                )
            self.state = self.stage.fresh()
            return
        self.cover, payload = found[best][META]
        if self.committed and self.cover < acknowledged:
            raise StateError(
                f"partition {self.number}: the changelog's state covers offset {self.cover}, but"
                f" offset {acknowledged} was acknowledged: it is an old one; bring the newer one"
                " back, or let `ldp-kafka state rewind` set the group back to what it covers"
            )
        meta = json.loads(payload)
        # A shard that the manifest does not list ended before this meta, or began after it and is
        # folded again
        shards = {shard: held for shard, held in found[best].items() if shard in meta["manifest"]}
        for name, changed in BINDINGS.items():
            if meta[name] != getattr(self.stage, name):
                raise StateError(
                    f"partition {self.number}: the state was written under another {name}:"
                    f" {changed} (`ldp-kafka state verify` looks at all of it)"
                )
        self.state = self.stage.load(meta["state"], shards)
        self.covers = {shard: cover for shard, (cover, _) in shards.items()}

    def admit(self, offset: int) -> Admission:
        """What to do with the message at ``offset``; moves on to the next one where it is taken."""
        if offset < self.want:
            return Admission.REPEAT
        if offset > self.want and (self._leftovers or not self.gaps):
            return Admission.AHEAD
        self._leftovers = (
            False  # from here on it is one run of the log: what is missing does not exist
        )
        self.want = offset + 1
        return Admission.COVERED if offset <= self.cover else Admission.FOLD

    def fold(self, messages: Sequence[Message]) -> Output:
        """Fold admitted messages, in order."""
        folded = self.stage.fold(self.state, messages)
        self.cover = messages[-1].offset
        return folded

    def snapshot(self) -> Snapshot:
        """Swap out what is pending and dirty, and serialise it. To be called between messages and
        persisted before the next one is taken.
        """
        dirty = self.stage.dirty(self.state)
        shards = dirty if self._written else self.stage.shards_of(self.state)
        dumped = self.stage.dump(self.state, shards)
        ended = (shards if self._written else self.covers.keys()) - dumped.keys()
        covers = {shard: cover for shard, cover in self.covers.items() if shard not in ended}
        covers.update(
            {shard: max(self.cover, covers.get(shard, -1)) for shard in dumped}
        )  # one that was loaded ahead of meta is still ahead
        self.covers, self._written = covers, True
        pending, self.pending = self.pending, []
        old, self._old = self._old, []
        old += [f"{self.number}/{shard}/{self.tenure}" for shard in sorted(ended)]
        written = {
            f"{self.number}/{shard}/{self.tenure}": pack(covers[shard], payload)
            for shard, payload in dumped.items()
        }
        meta = {
            **{name: getattr(self.stage, name) for name in BINDINGS},
            "manifest": self.covers,
            "state": self.stage.meta(self.state),
        }
        return Snapshot(
            written,
            (f"{self.number}/{META}/{self.tenure}", pack(self.cover, json.dumps(meta).encode())),
            pending,
            old,
        )


async def persist(
    snapshot: Snapshot,
    *,
    flush: Callable[[], Awaitable[None]],
    put: Callable[[str, bytes | None], Awaitable[None]],
    acknowledge: Callable[[Any], None],
) -> None:
    """Write a snapshot in the one order that survives a crash between any two steps.

    - Output before state: what a state says was sent, was sent.
    - Shards before ``meta``: a crash between leaves the old ``meta`` with shards that are ahead of
      it, each by its own cover. They are complete, and what is folded again is not counted twice. A
      shard that only the new manifest would have listed is not loaded: at the old ``meta`` it held
      nothing.
    - ``meta`` before acknowledgements: what is acknowledged is in a complete tenure.
    - What ended, and older tenures, after that: a shard goes when the manifest in force no longer
      asks for it. A crash between leaves records that no manifest lists; they are not loaded, and
      the next tenure drops them with the others.
    """
    await flush()
    await asyncio.gather(*(put(key, value) for key, value in snapshot.shards.items()))
    await put(*snapshot.meta)
    for event in snapshot.acknowledge:
        acknowledge(event)
    for key in snapshot.drop:
        await put(key, None)


def tenures(table: Mapping[str, bytes], partition: int) -> dict[str, dict[str, tuple[int, bytes]]]:
    """Of one partition: {tenure: {shard: (cover, payload)}}."""
    found: dict[str, dict[str, tuple[int, bytes]]] = {}
    prefix = f"{partition}/"
    for key, value in list(table.items()):
        if key.startswith(prefix) and value is not None:
            _, shard, tenure = key.split("/")
            found.setdefault(tenure, {})[shard] = unpack(value)
    return found


def choose(found: Mapping[str, Mapping[str, tuple[int, bytes]]]) -> str | None:
    """The complete tenure that covers most; None if there is none."""
    complete = []
    for tenure, shards in found.items():
        if META not in shards:
            continue
        cover, payload = shards[META]
        manifest = json.loads(payload)["manifest"]
        if all(shard in shards and shards[shard][0] >= at for shard, at in manifest.items()):
            complete.append((cover, tenure))
    return max(complete)[1] if complete else None
