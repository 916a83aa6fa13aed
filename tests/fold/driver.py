"""A broker and its workers in one thread: every step of the recovery recipe at the moment that a
script says.

`World` is what brokers hold of one agent: a log a partition, the compacted changelog, the group's
offsets, the topics written to. `Worker` is one process: it begins epochs (`recovery.begin`) and
drives them (`recovery.Epoch`) as the Faust agent does; what it replaces is Faust and the two
producers. Whatever a worker waits for is in `Worker.waits` and comes about when the script calls
`step`, so that a crash, a rebalance or another worker's step fits between any two.

Offsets are committed as Faust does it: the end of the first run of acknowledged offsets, also where
exactly one is missing before it (#606), and refused once the partition is another's. Where messages
come in chunks, the offset after the greatest one that was acknowledged is committed.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from ldp_kafka.errors import BrokerError, GapError, StateError
from ldp_kafka.runtime.log import Message, Record, Stage
from ldp_kafka.runtime.recovery.begin import begin
from ldp_kafka.runtime.recovery.epoch import Epoch, Limits
from ldp_kafka.runtime.recovery.rules import PartitionOffsets
from tests.fold.epochs import facts_of


class Halt(Exception):
    """A worker refuses to go on."""


class Event(NamedTuple):
    """One delivery of a message."""

    number: int
    message: Message


class Wait(NamedTuple):
    """Something that a worker awaits of a broker."""

    what: str
    """``flush``, or ``put`` of a key."""
    come: Callable[[], None]
    done: asyncio.Future[None]


@dataclass(frozen=True)
class Recipe:
    """What a worker is made of; the mutants change one of it."""

    epoch: type[Epoch[Any]] = Epoch
    token: str | None = None
    """Of every epoch; None: a new one each time, as it must be."""
    stage: Callable[[Any], Any] = lambda stage: stage
    chunk: int = 0
    """Messages that are handed over together at most, as `runtime.worker.transport` does it:
    what is acknowledged is then one number a partition. 0: one by one, as Faust does it.
    """


@dataclass
class World:
    """All that outlives a worker.

    Parameters
    ----------
    make : the stage of a partition
    logs : of each partition, offsets from 1 (a header stands at 0, and 1 is committed)
    recipe : of the workers
    header : False for a foreign log: offsets from 0, nothing committed
    watch : is told of what happens; see `tests.fold.judge`
    """

    make: Callable[[int], Stage[Any]]
    logs: Sequence[Sequence[Message]]
    recipe: Recipe = field(default_factory=Recipe)
    header: bool = True
    watch: Any = None

    def __post_init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.changelog: dict[str, bytes] = {}
        self.start = 1 if self.header else 0
        self.committed: dict[int, int | None] = dict.fromkeys(
            range(len(self.logs)), 1 if self.header else None
        )
        self.owner: dict[int, Worker] = {}
        self.topics: dict[tuple[str, int], list[Record]] = defaultdict(list)
        self.workers: list[Worker] = []
        self.waited = 0
        """Awaits that came about."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.crash()
        self.loop.close()

    def begin(self, *numbers: int) -> Worker:
        """A new process that is given these partitions; whoever had them does not notice."""
        worker = Worker(self)
        self.workers.append(worker)
        for number in numbers:
            worker.assign(number)
        return worker

    def end_of(self, number: int) -> int:
        """The offset after the log."""
        return self.start + len(self.logs[number])

    def put(self, key: str, value: bytes | None) -> None:
        """A record arrives in the changelog."""
        if value is None:
            self.changelog.pop(key, None)
        else:
            self.changelog[key] = value
        self.watch.written(self, key, value)

    def survivor(self) -> Worker:
        """Everybody dies; one new worker reads all to the end and keeps it."""
        for worker in self.workers:
            worker.crash()
        worker = self.begin(*range(len(self.logs)))
        for number in range(len(self.logs)):
            worker.deliver(number, len(self.logs[number]) + 1)
            worker.snapshot(number)
            worker.run()
        worker.commit()
        return worker

    def spin(self) -> None:
        """Let coroutines run as far as they can."""
        asyncio._set_running_loop(self.loop)
        try:
            while self.loop._ready:
                self.loop._run_once()
        finally:
            asyncio._set_running_loop(None)


class Worker:
    """One process: its partitions in memory, its view of the changelog, its producers, what it
    acknowledged.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.alive = True
        self.together = 1
        """Messages that wait to be folded together."""
        self.hold = False
        """Whether what is produced stays in the producer until a flush or `arrive`."""
        self.clock = 0.0
        self.epochs: dict[int, Epoch[Any]] = {}
        self.table: dict[str, bytes] = {}
        self.outbox: list[Record] = []
        self.waits: list[Wait] = []
        self.next: dict[int, int] = {}
        self._known: dict[int, int | None] = {}
        self._acked: dict[int, list[int]] = defaultdict(list)
        self._following: dict[int, int] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._marks: list[list[int]] = []

    # what the group does

    def assign(self, number: int) -> None:
        """Own a partition from now on: Faust drops what it knew, recovers the table, and seeks to
        the committed offset.
        """
        self.revoke(number)
        world = self.world
        world.owner[number] = self
        self._known[number] = world.committed[number]
        self.next[number] = (
            world.start if world.committed[number] is None else world.committed[number]
        )
        own = {
            key: value
            for key, value in self.table.items()
            if any(wait.what == key for wait in self.waits)
        }
        self.table = {**world.changelog, **own}

    def revoke(self, number: int) -> None:
        """Memory goes, the table stays; a snapshot under way goes on."""
        if number in self.epochs:
            self.epochs.pop(number).end()
        self._known.pop(number, None)
        self._acked.pop(number, None)
        self._following.pop(number, None)

    def commit(self) -> None:
        """What Faust's commit timer does."""
        for number, offset in self._following.items():
            self._commit(number, offset)
        for number, acked in self._acked.items():
            if not acked:
                continue
            acked.sort()
            known = self._known.get(number)
            if known and acked[0] - known > 1:
                continue
            run = 1
            while run < len(acked) and acked[run] == acked[run - 1] + 1:
                run += 1
            offset = acked[run - 1] + 1
            del acked[:run]
            self._commit(number, offset)

    def _commit(self, number: int, offset: int) -> None:
        known = self._known.get(number)
        if self.world.owner.get(number) is self and (known is None or offset > known):
            self._known[number] = self.world.committed[number] = offset
            self.world.watch.kept(self.world, number)

    # what the log does

    def deliver(self, number: int, count: int = 1) -> None:
        """The next messages."""
        while count > 0:
            at = self.next[number]
            most = min(count, self.world.recipe.chunk or 1, self.world.end_of(number) - at)
            if most <= 0:
                return
            self.next[number] = at + most
            self.give(number, at, most)
            count -= most

    def skip(self, number: int) -> None:
        """Faust loses one message."""
        self.next[number] += 1

    def give(self, number: int, offset: int, count: int = 1) -> None:
        """Any message, or run of them: again, or as a leftover of an earlier assignment."""
        if self.alive and self.world.start <= offset < self.world.end_of(number):
            at = offset - self.world.start
            self.take(number, self.world.logs[number][at : at + count])

    def gap(self) -> None:
        """What the worker does when an offset has not come: it reads it again."""
        self.clock += 60
        for number, epoch in self.epochs.items():
            missing = epoch.check()
            if missing is not None and number in self.next:
                self.next[number] = missing

    def in_vain(self) -> None:
        """The same, again and again, and nothing comes."""
        try:
            for _ in range(Limits().reads + 1):
                self.gap()
        except GapError:
            self.crash()

    # as in ldp_kafka.runtime.worker.agent.Agent

    def take(self, number: int, messages: Sequence[Message]) -> None:
        epoch = self.epochs.get(number) or self.load(number)
        if epoch is not None:
            epoch.limits = Limits(run=self.together)
            epoch.take_run(messages, Event(number, messages[-1]))

    def load(self, number: int) -> Epoch[Any] | None:
        """None where it ends the process: of one who does not own the partition any more, and whose
        table is old.
        """
        world = self.world
        stage = world.recipe.stage(world.make(number))
        position = PartitionOffsets(world.committed[number], 0, world.end_of(number), begun=False)
        try:
            epoch = begin(
                stage,
                facts_of(stage, position, number, header=world.header),
                self.table,
                lambda: world.changelog,
                world.recipe.epoch,
                table=self,
                output=self,
                acknowledge=self.ack,
                clock=lambda: self.clock,
                limits=Limits(),
                token=world.recipe.token,
            )
        except BrokerError:  # its table is behind the changelog: a new worker reads it
            self.crash()
            return None
        except StateError as error:
            self.crash()
            if world.owner[number] is self:
                raise Halt(str(error)) from None
            return None
        world.watch.loaded(epoch)
        self.epochs[number] = epoch
        return epoch

    # the epoch's output and table

    def send(self, number: int, folded: Any, seconds: float) -> None:
        self.outbox += folded.records
        if not self.hold:
            self.arrive(len(self.outbox))
        self.world.watch.folded(number, folded.counts)

    def mark(self) -> list[int]:
        left = [len(self.outbox)]
        self._marks.append(left)
        return left

    async def flush(self, left: list[int]) -> None:
        await self.wait("flush", lambda: self.arrive(left[0]))

    def saved(self, snapshot: Any, seconds: float) -> None:
        return

    async def put(self, key: str, value: bytes | None) -> None:
        if value is None:
            self.table.pop(key, None)
        else:
            self.table[key] = value
        await self.wait(key, lambda: self.world.put(key, value))

    # what producers and timers do

    def ack(self, event: Event) -> None:
        """Faust takes any event's word, also one of an earlier assignment."""
        if self.world.recipe.chunk:
            following = max(event.message.offset + 1, self._following.get(event.number, 0))
            self._following[event.number] = following
            return
        known = self._known.get(event.number)
        offset = event.message.offset
        if (known is None or offset >= known) and offset not in self._acked[event.number]:
            self._acked[event.number].append(offset)

    def arrive(self, count: int) -> None:
        """The first of what was produced arrives."""
        for record in self.outbox[:count]:
            self.world.topics[record.topic, record.partition].append(record)
        del self.outbox[:count]
        for left in self._marks:
            left[0] = max(0, left[0] - count)

    async def wait(self, what: str, come: Callable[[], None]) -> None:
        wait = Wait(what, come, self.world.loop.create_future())
        self.waits.append(wait)
        await wait.done

    def snapshot(self, number: int) -> None:
        """Begin one, if there is anything to acknowledge."""
        epoch = self.epochs.get(number)
        if self.alive and epoch is not None and epoch.unsaved and not epoch.saving:
            self._tasks.append(self.world.loop.create_task(epoch.save()))
            self._spin()

    def step(self, which: int = 0) -> bool:
        """One thing that is awaited comes about: of shards that are written together, any; False if
        nothing is awaited.
        """
        if not self.waits:
            return False
        wait = self.waits.pop(which % len(self.waits))
        wait.come()
        self.world.waited += 1
        wait.done.set_result(None)
        self._spin()
        return True

    def run(self) -> None:
        """All that is awaited comes about."""
        while self.step():
            pass

    def _spin(self) -> None:
        self.world.spin()
        for task in [task for task in self._tasks if task.done()]:
            self._tasks.remove(task)
            task.result()

    def crash(self) -> None:
        """SIGKILL: memory, what was not yet sent, and what was not yet committed are gone."""
        if not self.alive:
            return
        self.alive = False
        for task in self._tasks:
            task.cancel()
        self.epochs.clear()
        self.outbox.clear()
        self._acked.clear()
        self._following.clear()
        self.waits.clear()
        self.world.spin()

    def leave(self) -> None:
        """SIGTERM: a last snapshot of everything, a last commit."""
        for number in list(self.epochs):
            self.run()
            self.snapshot(number)
            self.run()
        self.commit()
        self.crash()
