"""One term of ownership of one partition: take messages, fold them, save what comes of it.

The state of a partition is a deterministic fold over one log, kept in a table (a compacted
changelog). Nothing has to be written atomically, and nobody has to be kept from writing:

1. An epoch starts from a complete checkpoint (`start.decide`), and writes under its own keys only.
   A worker that was cut off and goes on writes under the keys of its own epoch.
2. Offsets have no gaps. One that lies ahead of the next is not kept, and has to be delivered again.
   A second delivery is skipped: acknowledging the first one is enough. One that the state has
   already is acknowledged with the next snapshot.
3. A snapshot is taken between messages: acknowledgements and changed shards are swapped out and
   serialised before anything is awaited, and written in the order of `snapshot.persist`.

So what is acknowledged is in a complete checkpoint, what is in a checkpoint has been output, and
what is folded again gives the same bytes. The clock, the table and the output are given: a Faust
agent, a tool and the tests of every crash point drive the same code.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from math import inf
from typing import Any, Generic, Protocol, TypeVar

from ldp_kafka.errors import ConfigurationError, GapError
from ldp_kafka.runtime.log import Message, Output, Stage
from ldp_kafka.runtime.recovery.checkpoints import VERSION, WINDOWED
from ldp_kafka.runtime.recovery.keys import META, Key, key_of, place_of
from ldp_kafka.runtime.recovery.packing import pack
from ldp_kafka.runtime.recovery.rules import bindings_of
from ldp_kafka.runtime.recovery.snapshot import Snapshot, persist
from ldp_kafka.runtime.recovery.start import Start
from ldp_kafka.runtime.runs import Run

__all__ = ["PART", "Epoch", "Limits", "OffsetAction", "Sink", "Table"]

# bytes of a record of the changelog: what a broker takes by default, less its key
LARGEST = 990_000
MANY = LARGEST // 50  # records of which the list is most of what is too large
FIRST = 256  # messages of a fold, before it is known how long one takes
APART = 30.0  # seconds from one snapshot to the next at most, where folding goes on
PART = object()
"""The handle of a message whose acknowledgement comes with that of a later one."""
ROUND = 256  # bytes that the sealed part of a ``meta`` is a multiple of

S = TypeVar("S")


class OffsetAction(Enum):
    """What to do with an offset."""

    FOLD = "fold"
    ACKNOWLEDGE = "acknowledge"
    """The state has it: acknowledge with the next snapshot."""
    SKIP = "skip"
    """Delivered before in this epoch: neither fold nor acknowledge."""
    AHEAD = "ahead"
    """An offset before it is missing: it is not kept, and must be delivered again."""


@dataclass(frozen=True)
class Limits:
    """When an epoch folds what waits, and when it writes a snapshot: unless told, when asked
    only. A worker's are its topology's.
    """

    snapshot_messages: float = inf
    """Folded messages after which a snapshot is taken, and does not wait for a timer, ..."""
    snapshot_bytes: float = inf
    """... or folded bytes: if snapshots take less than a tenth of the time."""
    snapshot_seconds: float = inf
    """Age of the last snapshot at which one is due that may wait for a timer."""
    run: int = 256
    """Messages that are folded together at most: a fold is some 600 calls, whatever it holds."""
    fold_seconds: float = inf
    """About how long one fold may take: fewer messages are folded together where it takes longer,
    since nothing else goes on meanwhile."""
    run_bytes: int = 2**20
    """Bytes of messages that are folded together, about and at most."""
    reads: int = 30
    """How often an offset that is missing is read again. It may be on its way: a message that was
    fetched before a rebalance comes first at times, and a client that has just lost its broker
    takes its time."""
    reads_apart: float = 1.0
    """Seconds from one such read to the next, and before the first."""


class Table(Protocol):
    """The changelog of one partition."""

    async def put(self, key: Key, value: bytes | None) -> None:
        """Write one record, None to delete it; returns when the broker has it."""


class Sink(Protocol):
    """Where what is folded goes."""

    def send(self, partition: int, folded: Output, seconds: float) -> None:
        """Take what one fold gave, and how long it took. No await: it need not have arrived."""

    def mark(self) -> Any:
        """What has been taken so far, for `flush`."""

    async def flush(self, mark: Any) -> None:
        """Returns when all that was taken before ``mark`` has arrived."""

    def saved(self, snapshot: Snapshot, seconds: float) -> None:
        """A snapshot was written, in so many seconds."""


class _EndedError(Exception):
    """A snapshot is left as a crash would leave it."""


class Epoch(Generic[S]):
    """One term of ownership of one partition.

    Parameters
    ----------
    stage : the pure fold
    start : where to begin, from `start.decide`
    table, output : where its state and its records go
    acknowledge : is given the handle of each message that need not come again
    clock : seconds, never going back
    patience : the same, without those in which nothing can be delivered; None: `clock`
    where : the log's name, for errors
    token : of the epoch, never used before

    Raises
    ------
    StateError : the checkpoint's shards are not what the stage writes
    """

    persist = staticmethod(persist)

    def __init__(
        self,
        stage: Stage[S],
        start: Start,
        *,
        table: Table,
        output: Sink,
        acknowledge: Callable[[Any], None],
        clock: Callable[[], float],
        patience: Callable[[], float] | None = None,
        limits: Limits | None = None,
        where: str = "",
        token: str | None = None,
    ) -> None:
        self.stage, self.partition, self.where = stage, start.partition, where
        self.table, self.output, self.acknowledge = table, output, acknowledge
        self.clock, self.limits = clock, limits or Limits()
        self._patience = clock if patience is None else patience
        self.token = os.urandom(8).hex() if token is None else token
        self.next_offset = start.next_offset
        self._gaps, self._wait_for_first = start.gaps, start.wait_for_first
        self._obsolete, self._skipped = list(start.obsolete), start.skipped
        self.offset = -1
        """The last offset that the state has folded."""
        self.shard_offsets: dict[str, int] = {}
        """Of each shard that is written: the last offset that it has folded."""
        if start.checkpoint is None:
            self.state = stage.fresh()
        else:
            shards = start.checkpoint.state
            self.state = stage.load(start.checkpoint.meta["state"], shards)
            self.offset = start.checkpoint.offset
            self.shard_offsets = {shard: offset for shard, (offset, _) in shards.items()}
        self._whole = True  # whether the next snapshot writes all shards: its first one
        self._runs: list[Sequence[Message]] = []
        self.waiting = 0
        """Messages that are taken, and not folded yet."""
        self.handles: list[Any] = []
        """Of these messages, but `PART`."""
        self.pending: list[Any] = []
        """Handles of what is folded, and not acknowledged yet."""
        self.ended = False
        self._run = inf if self.limits.fold_seconds == inf else FIRST
        self.seen = clock()
        """When a new message last came."""
        self._ahead: int | None = None
        """Where one is missing: the first offset that came instead."""
        self._reads, self._read = 0, 0.0
        """How often that was read again, and when; or when it was first missed."""
        self._waiting_bytes = self._folded_bytes = 0
        self._folded = 0  # messages since the last snapshot
        self._saved, self._cost = clock(), 0.0
        self._saving = asyncio.Lock()

    def take(self, message: Message, handle: Any) -> OffsetAction:
        """Take in one message, and fold what waits where that is enough for a run."""
        action = self._action(message.offset)
        if action is OffsetAction.AHEAD:
            if self._ahead is None:
                self._ahead, self._reads, self._read = message.offset, 0, self._patience()
            return action
        self._ahead = None
        if action is OffsetAction.ACKNOWLEDGE:
            self._folded += 1
            if handle is not PART:
                self.pending.append(handle)
        elif action is OffsetAction.FOLD:
            self._wait([message], handle)
        return action

    def take_run(self, messages: Sequence[Message], handle: Any) -> None:
        """Take in messages as `take` does each, in rising order of their offsets; ``handle``
        acknowledges all of them.
        """
        run = Run.of(messages)
        first, last = run.offsets.item(0), run.offsets.item(-1)
        follows = first == self.next_offset or (
            self._gaps and not self._wait_for_first and first > self.next_offset
        )
        whole = self._gaps or last - first == len(run) - 1
        if self.offset < first and follows and whole:
            self._ahead, self._wait_for_first = None, False
            self.next_offset = last + 1
            self._wait(run, handle)
            return
        for message in run[:-1]:
            self.take(message, PART)
        self.take(run[-1], handle)

    def _wait(self, run: Sequence[Message], handle: Any) -> None:
        """Have new messages wait, and fold what waits where that is enough."""
        self.seen = self.clock()
        self._runs.append(run)
        self.waiting += len(run)
        if handle is not PART:
            self.handles.append(handle)
        self._waiting_bytes += Run.of(run).size
        if self.waiting >= self.run or self._waiting_bytes >= self.limits.run_bytes:
            self.fold()

    @property
    def run(self) -> float:
        """Messages that are folded together at most, just now."""
        return min(self._run, self.limits.run)

    def _action(self, offset: int) -> OffsetAction:
        """What to do with a message; moves on to the next one where it is taken."""
        if offset < self.next_offset:
            return OffsetAction.SKIP
        if offset > self.next_offset and (self._wait_for_first or not self._gaps):
            return OffsetAction.AHEAD
        # From here on it is one run of the log: what is missing does not exist
        self._wait_for_first = False
        self.next_offset = offset + 1
        return OffsetAction.ACKNOWLEDGE if offset <= self.offset else OffsetAction.FOLD

    def fold(self) -> None:
        """Fold what waits and hand over what comes of it. No await."""
        if not self.waiting:
            return
        run, self._runs, self.waiting = Run.join(self._runs), [], 0
        handles, self.handles = self.handles, []
        self._folded_bytes += self._waiting_bytes
        self._waiting_bytes = 0
        begin = self.clock()
        folded = self.stage.fold(self.state, run)
        self.offset = run.offsets.item(-1)
        self.output.send(self.partition, folded, self.clock() - begin)
        self._pace(len(run), self.clock() - begin)
        self.pending += handles
        self._folded += len(run)

    def _pace(self, messages: int, seconds: float) -> None:
        """Have more messages, or fewer, in the next fold, so that it takes as long as it may."""
        if seconds > self.limits.fold_seconds:
            self._run = max(1, messages // 2)
        elif messages >= self._run and seconds < self.limits.fold_seconds / 2:
            self._run = 2 * messages

    @property
    def unsaved(self) -> bool:
        """Whether there is anything to acknowledge or to fold."""
        return bool(self.pending or self.waiting)

    @property
    def due(self) -> bool:
        """Whether so much has been folded that a crash should not repeat it."""
        much = (
            self._folded >= self.limits.snapshot_messages
            or self._folded_bytes >= self.limits.snapshot_bytes
        )
        return much and self._age >= self._apart

    @property
    def overdue(self) -> bool:
        """Whether the last snapshot is so old that a timer should take one."""
        age = max(self.limits.snapshot_seconds, self._apart)
        return self.unsaved and not self.saving and self._age > age

    @property
    def _apart(self) -> float:
        """Seconds from one snapshot to the next, so that a tenth of the time goes into them. One
        that waited for a broker took long, too: what is folded is acknowledged soon, whatever it
        took.
        """
        return min(10 * self._cost, APART)

    @property
    def saving(self) -> bool:
        """Whether a snapshot is being written."""
        return self._saving.locked()

    @property
    def _age(self) -> float:
        return self.clock() - self._saved

    def check(self) -> int | None:
        """The offset to read on from, where one has been missing for a second; once a second.

        Raises
        ------
        GapError : it was read again, and again in vain
        """
        now = self._patience()
        if self._ahead is None or now - self._read < self.limits.reads_apart:
            return None
        if self._reads == self.limits.reads:
            raise GapError(
                f"{self.where} partition {self.partition}: offset {self.next_offset} did not come,"
                f" though it was read {self._reads} times, but {self._ahead}, after the state of"
                f" {self.offset}; a new assignment will bring it"
            )
        self._reads, self._read = self._reads + 1, now
        return self.next_offset

    async def save(self) -> None:
        """Fold what waits, take a snapshot and write it; one at a time.

        Raises
        ------
        ConfigurationError : a record would be larger than a broker takes
        BrokerError : the table or the output took nothing
        """
        async with self._saving:
            await self._save()

    async def finish(self) -> None:
        """Wait for a snapshot that is being written, and write a last one of what came since."""
        async with self._saving:
            if self.unsaved:
                await self._save()

    async def _save(self) -> None:
        self.fold()
        begin = self.clock()
        snapshot, mark = self.snapshot(), self.output.mark()
        self._folded_bytes = self._folded = 0
        self._check_sizes(snapshot)
        try:
            await self.persist(
                snapshot,
                flush=lambda: self.output.flush(mark),
                put=self._put,
                acknowledge=self._acknowledge,
            )
        except _EndedError:
            return
        self._saved = self.clock()
        self._cost = self._saved - begin
        self.output.saved(snapshot, self._cost)

    async def _put(self, key: Key, value: bytes | None) -> None:
        """Unless the epoch has ended: the next one may have begun from an older checkpoint, and
        have let go of what this record is about.
        """
        if self.ended:
            raise _EndedError
        await self.table.put(key, value)

    def _acknowledge(self, handle: Any) -> None:
        """Unless the epoch has ended: the next one may have begun from an older checkpoint."""
        if not self.ended:
            self.acknowledge(handle)

    def _check_sizes(self, snapshot: Snapshot) -> None:
        for key, value in snapshot.records.items():
            if len(value) > LARGEST:
                shard = place_of(key).split("/")[1]
                listed = len(self.shard_offsets)
                why = self.stage.oversize
                if shard == META and listed > MANY:
                    why = f"it lists {listed:,} records; runtime.shards is too large"
                raise ConfigurationError(
                    f"{self.where} partition {self.partition}: the state's record {shard} would"
                    f" have {len(value):,} bytes, more than {LARGEST:,}: {why}"
                )

    def snapshot(self) -> Snapshot:
        """Swap out what is to be acknowledged and what has changed, and serialise it. It must be
        written before the next one is taken.
        """
        changed = self.stage.dirty(self.state)
        wanted = self.stage.shards_of(self.state) if self._whole else changed
        dumped = self.stage.dump(self.state, wanted)
        ended = (self.shard_offsets.keys() if self._whole else changed) - dumped.keys()
        offsets = {shard: at for shard, at in self.shard_offsets.items() if shard not in ended}
        # A shard that was loaded ahead of meta is still ahead
        offsets |= {shard: max(self.offset, offsets.get(shard, -1)) for shard in dumped}
        self.shard_offsets, self._whole = offsets, False
        pending, self.pending = self.pending, []
        obsolete, self._obsolete = self._obsolete, []
        seal = self.stage.seal
        keys = {shard: self._key(shard) for shard in dumped}
        return Snapshot(
            {
                key: pack(offsets[shard], dumped[shard])
                if seal is None
                else seal.pack(place_of(key), offsets[shard], dumped[shard])
                for shard, key in keys.items()
            },
            (self._key(META), self._meta()),
            pending,
            [*obsolete, *(self._key(shard) for shard in sorted(ended))],
        )

    def _meta(self) -> bytes:
        """The record of all that is in no shard. What it binds and lists anybody may read."""
        clear = {
            "version": WINDOWED if self.stage.windowed else VERSION,
            **bindings_of(self.stage),
            "manifest": self.shard_offsets,
            **({"skipped": self._skipped} if self._skipped else {}),
        }
        state, seal = self.stage.meta(self.state), self.stage.seal
        if seal is None:
            return pack(self.offset, json.dumps({**clear, "state": state}).encode())
        secret = json.dumps(state).encode()
        secret += b" " * (-len(secret) % ROUND)  # its length tells nothing
        return seal.pack(place_of(self._key(META)), self.offset, secret, json.dumps(clear).encode())

    def _key(self, shard: str) -> Key:
        return key_of(self.partition, shard, self.token, windowed=self.stage.windowed)

    def end(self) -> None:
        """The partition is another's from now on: nothing is acknowledged any more."""
        self.ended = True
