"""One log folded by one Faust agent: its partitions, their snapshots, and the timers that keep them
moving.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ldp_kafka.errors import BrokerError, ConfigurationError, GapError, StateError
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.recovery.partition import Admission, Partition, Snapshot, persist
from ldp_kafka.runtime.worker.exits import end
from ldp_kafka.topology.roles import Agent as Spec

if TYPE_CHECKING:
    from ldp_kafka.runtime.worker.app import Worker

__all__ = ["WAIT", "Agent", "Owned"]

RUN = 256  # messages that are folded together at most ...
FULL = 2**19  # ... and bytes of them: a fold is some 600 calls, whatever it holds
PAUSE = 0.01  # seconds that the first of them waits for others
GAP = 5.0  # seconds to wait for an offset that is missing
LARGEST = (
    990_000  # bytes of a record of the changelog: what a broker takes by default, less its key
)
WAIT = 20.0  # seconds for any one thing that is awaited of a broker


class Owned:
    """A partition in this tenure."""

    def __init__(self, partition: Partition[Any]) -> None:
        self.partition = partition
        self.waiting: list[Any] = []
        self.size = 0
        self.folded = 0
        """Bytes of messages since the last snapshot."""
        self.timer: asyncio.TimerHandle | None = None
        self.lock = asyncio.Lock()
        self.ahead = 0.0
        self.seen = self.saved = time.monotonic()
        self.cost = 0.0


class Agent:
    """One log folded by one Faust agent: its partitions, their snapshots, and the timers that keep
    them moving.
    """

    def __init__(self, worker: Worker, spec: Spec, stage: Callable[[int], Any]) -> None:
        self.worker, self.spec, self.stage = worker, spec, stage
        self.parts: dict[int, Owned] = {}
        app = worker.app
        topic = app.topic(
            spec.topic,
            key_type=bytes,
            value_type=bytes,
            key_serializer="raw",
            value_serializer="raw",
            partitions=spec.partitions,
        )
        self.table = app.Table(
            spec.name, key_type=str, value_type=bytes, partitions=spec.partitions
        )
        app.agent(topic, name=spec.name)(self.run)
        app.on_partitions_revoked.connect(self.revoked, weak=False)
        if spec.gaps:
            app.on_partitions_assigned.connect(self.assigned, weak=False)
        app.on_before_shutdown.connect(self.down, weak=False)
        app.timer(0.25)(self.keep)

    async def run(self, stream: Any) -> None:
        """The agent's body: admit, fold, and nothing that could be acknowledged without having
        been.
        """
        async for event in stream.noack().events():
            try:
                late = self.take(event)
                if late is not None:
                    await self.save(late)
            except (asyncio.CancelledError, GeneratorExit):
                raise
            except BaseException as error:  # noqa: BLE001 - Faust would acknowledge the record
                end(error)

    def take(self, event: Any) -> Owned | None:
        """Admit one event; the partition if its snapshot must not wait."""
        message = event.message
        self.worker.delivered[self.spec.topic, message.partition] = time.monotonic()
        owned = self.parts.get(message.partition)
        if owned is None:
            if (self.spec.topic, message.partition) not in self.worker.assigned():
                # a leftover of a partition that is another's by now: it brings what it needs
                return None
            owned = self.parts[message.partition] = self.load(message.partition)
        admission = owned.partition.admit(message.offset)
        if admission is Admission.AHEAD:
            owned.ahead = owned.ahead or time.monotonic()
            return None
        owned.ahead = 0.0
        if admission is Admission.COVERED:
            owned.partition.pending.append(event)
        elif admission is Admission.FOLD:
            owned.seen = time.monotonic()
            owned.waiting.append(event)
            owned.size += len(message.value or b"")
            if len(owned.waiting) >= RUN or owned.size >= FULL:
                self.fold(owned)
            elif owned.timer is None:
                owned.timer = asyncio.get_running_loop().call_later(PAUSE, self.fold_late, owned)
        return owned if self.due(owned) else None

    def due(self, owned: Owned) -> bool:
        """Whether so much has been folded that a crash should not repeat it."""
        runtime = self.worker.topology.runtime
        if len(owned.partition.pending) >= runtime.snapshot_messages:
            return True
        return (
            owned.folded >= runtime.snapshot_bytes
            and time.monotonic() - owned.saved > 10 * owned.cost
        )

    def fold_late(self, owned: Owned) -> None:
        """Fold what has waited long enough, unless the partition is gone."""
        try:
            if self.parts.get(owned.partition.number) is owned:
                self.fold(owned)
        except BaseException as error:  # noqa: BLE001 - outside the agent's body nobody would stop
            end(error)

    def fold(self, owned: Owned) -> None:
        """Fold what waits and hand over what comes of it: no await in here."""
        if owned.timer is not None:
            owned.timer.cancel()
        owned.folded += owned.size
        owned.timer, owned.size = None, 0
        if not owned.waiting:
            return
        events, owned.waiting = owned.waiting, []
        begin = time.perf_counter()
        folded = owned.partition.fold(
            [
                Message(
                    e.message.offset, round((e.message.timestamp or -0.001) * 1000), e.message.value
                )
                for e in events
            ]
        )
        self.worker.send(folded.records)
        for event in events:
            event.message.value = event.value = (
                None  # it waits for its acknowledgement: its bytes need not
            )
        owned.partition.pending += events
        self.worker.observe(
            self.spec.name, owned.partition.number, folded, time.perf_counter() - begin
        )

    def load(self, number: int) -> Owned:
        """Begin a tenure of a partition: where the group stands, and the state that covers it.

        What was in a raw log before the topology's first start was never ours to fold: it may have
        expired. From then on nothing may expire unread.
        """
        committed, start, end_, begun = self.worker.standing.position(self.spec.topic, number)
        want = start if committed is None else max(start, committed) if begun else committed
        if committed is not None and start > committed and not begun:
            raise StateError(
                f"{self.spec.topic} partition {number}: the log begins at offset {start}, after the"
                f" acknowledged {committed}: records were lost before they were read; give the"
                " topology a new name (`ldp-kafka state inspect` shows what its state covers)"
            )
        passed = committed is not None and not begun and committed > (1 if self.spec.header else 0)
        first = (
            self.worker.standing.first(self.spec.topic, number, want) if self.spec.gaps else None
        )
        where = f"{self.spec.topic} partition {number}"
        try:
            partition = Partition(
                self.stage(number), number, self.table.data, want, passed, self.spec.gaps, first
            )
        except StateError:
            if self.behind(number, want, passed, first):
                raise BrokerError(
                    f"{where}: this worker's table is behind its changelog, as after a long pause:"
                    " a new worker reads all of it"
                ) from None
            raise
        if partition.cover >= end_:
            raise StateError(
                f"{where}: the state covers offset {partition.cover}, but the log ends before"
                f" {end_}: the topic was made anew; give the topology a new name (`ldp-kafka state"
                " inspect` shows what its state covers)"
            )
        if start > partition.cover + 1 and (
            partition.cover >= 0 or (committed != start and self.promised(number))
        ):
            raise StateError(
                f"{where}: the log begins at offset {start}, but no state covers what was before"
                " it: bring the changelog back, or give the topology a new name (`ldp-kafka state"
                " inspect` shows what its state covers)"
            )
        return Owned(partition)

    def behind(self, number: int, want: int, passed: bool, first: int | None) -> bool:
        """Whether it is the table alone that does not fit: the changelog, as it lies at the broker,
        does. A worker that slept may wake into a tenure before its table has caught up.
        """
        try:
            Partition(
                self.stage(number),
                number,
                self.worker.standing.table(self.spec),
                want,
                passed,
                self.spec.gaps,
                first,
            )
        except StateError:
            return False
        return True

    def promised(self, number: int) -> bool:
        """Whether this partition has been folded before, as far as one can tell without state: a
        log of our own always, a raw log if the edge has answered it.
        """
        return self.spec.topic != self.worker.topology.raw_topic or self.worker.standing.reported(
            self.spec, number
        )

    async def save(self, owned: Owned) -> None:
        """Take a snapshot and persist it; one at a time."""
        async with owned.lock:
            self.fold(owned)
            begin = time.perf_counter()
            snapshot, mark = owned.partition.snapshot(), self.worker.mark()
            owned.folded = 0
            await self.persist(owned, snapshot, mark)
            owned.cost = time.perf_counter() - begin
            owned.saved = self.worker.saved = time.monotonic()
            self.worker.metrics.snapshot(
                owned.cost, sum(map(len, snapshot.shards.values())) + len(snapshot.meta[1])
            )

    async def persist(
        self, owned: Owned, snapshot: Snapshot, mark: list[dict[tuple[str, int], int]]
    ) -> None:
        """`fold.persist` with Faust's table and our producers. A tenure that ended meanwhile
        acknowledges nothing: its successor may have loaded an older state.
        """
        number = owned.partition.number

        async def flush() -> None:
            await self.worker.settle(mark)

        async def put(key: str, value: bytes | None) -> None:
            if value is not None and len(value) > LARGEST:
                shard = key.split("/")[1]
                why = (
                    "runtime.shards is too small for so many users"
                    if self.spec.raw
                    else "too many slots wait for a partition without events"
                )
                raise ConfigurationError(
                    f"the {self.spec.name} state's record {shard} of partition {number} would have"
                    f" {len(value):,} bytes, more than {LARGEST:,}: {why}"
                )
            if value is None:
                self.table.data.pop(key, None)
                sent = self.table.send_changelog(number, key, None, value_serializer="raw")
            else:
                self.table.data[key] = value
                sent = self.table.send_changelog(number, key, value)
            try:
                await asyncio.wait_for(sent, WAIT)
            except TimeoutError:
                raise BrokerError(
                    f"the changelog of {self.spec.name} took nothing for {WAIT:g} s"
                ) from None
            # what the client of Faust says of a record that the broker refused; by its type: the
            # text may show more than it should
            except Exception as error:  # noqa: BLE001
                # A right that is missing has to be given; a limit may be put right meanwhile.
                refused = (
                    ConfigurationError if "Authorization" in type(error).__name__ else BrokerError
                )
                raise refused(
                    f"the changelog of {self.spec.name} did not take a record of"
                    f" {len(value or b''):,} bytes: {type(error).__name__}"
                ) from None

        await persist(
            snapshot,
            flush=flush,
            put=put,
            acknowledge=lambda event: event.ack() if self.parts.get(number) is owned else None,
        )

    async def revoked(self, _: Any, revoked: Any, **__: Any) -> None:
        """Faust revokes all partitions at every rebalance: memory goes, the table stays."""
        try:
            for place in revoked:
                if place.topic == self.spec.topic:
                    self.parts.pop(place.partition, None)
            self.worker.metrics.revoked()
        except BaseException as error:  # noqa: BLE001 - Faust would log its text, and then hang
            end(error)

    async def assigned(self, *_: Any, **__: Any) -> None:
        """Where offsets may be missing, a tenure begins with its assignment: one that a leftover
        began after the last one's end would fold what comes next onto an old state.
        """
        self.parts.clear()

    async def keep(self) -> None:
        """Snapshots that are due, and offsets that do not come."""
        try:
            now = time.monotonic()
            self.worker.poll()
            for owned in list(self.parts.values()):
                if owned.ahead and now - owned.ahead > GAP:
                    raise GapError(
                        f"{self.spec.topic} partition {owned.partition.number}: offset"
                        f" {owned.partition.want} was not delivered for {GAP:g} s; a new assignment"
                        " will bring it"
                    )
                pending = owned.partition.pending or owned.waiting
                if (
                    pending
                    and not owned.lock.locked()
                    and now - owned.saved
                    > max(self.worker.topology.runtime.snapshot_seconds, 10 * owned.cost)
                ):
                    await self.save(owned)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - a timer's exception would only be logged
            end(error)

    async def down(self, _: Any, **__: Any) -> None:
        """Graceful end: a last snapshot of everything."""
        try:
            for owned in list(self.parts.values()):
                if owned.partition.pending or owned.waiting:
                    await self.save(owned)
        except BaseException as error:  # noqa: BLE001
            end(error)
