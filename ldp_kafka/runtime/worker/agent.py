"""One log folded by one Faust agent: the wiring around `recovery`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, NoReturn, Protocol

from ldp_kafka.runtime.kafka.broker_health import BrokerHealth
from ldp_kafka.runtime.kafka.changelog import key_bytes
from ldp_kafka.runtime.kafka.deployment import RawTopic
from ldp_kafka.runtime.kafka.group_offsets import GroupOffsets, read_facts
from ldp_kafka.runtime.log import Output, Stage, TableRecord
from ldp_kafka.runtime.recovery.begin import begin
from ldp_kafka.runtime.recovery.epoch import PART, Epoch, Limits
from ldp_kafka.runtime.recovery.keys import Key
from ldp_kafka.runtime.recovery.policies import Place
from ldp_kafka.runtime.recovery.rules import Facts
from ldp_kafka.runtime.recovery.snapshot import Snapshot
from ldp_kafka.runtime.sealing import Seal
from ldp_kafka.runtime.worker.diary import Diary
from ldp_kafka.runtime.worker.exits import end
from ldp_kafka.runtime.worker.health import Health
from ldp_kafka.runtime.worker.producers import Producers
from ldp_kafka.topology.roles import Agent as Spec

__all__ = ["Agent", "Changelog", "Host"]

# seconds until it is seen again whether brokers are there, and there is room: ten times as long,
# and a producer that takes single records stood idle for a third of the time
AGAIN = 0.005


class _NeededError(Exception):
    """The worker's table does not do: what the broker has of the changelog is asked for."""


def _needed() -> NoReturn:
    raise _NeededError


class Host(Protocol):
    """What a worker offers its agents."""

    app: Any
    limits: Limits
    diary: Diary
    health: Health
    brokers: BrokerHealth
    offsets: GroupOffsets
    producers: Producers
    raw: RawTopic

    @property
    def open(self) -> bool:
        """Whether brokers are there, and take what is folded."""

    def assigned(self) -> set[Place]:
        """The partitions that this worker has of the topics that its agents fold."""

    def send(self, partition: int, folded: Output, seconds: float) -> None:
        """Hand over what a fold gave, and count it."""

    def check_offset(self, spec: Spec, partition: int, offset: int) -> None:
        """See that the log has a record there, where it must have all."""

    def saved(self, snapshot: Snapshot, seconds: float) -> None:
        """Count a snapshot."""

    def revoked(self) -> None:
        """Count a rebalance."""


class Changelog:
    """One partition of a Faust table, as `Epoch` writes it.

    Not by Faust's producer: an idempotent one tries a record again in its place, and no copy of an
    older record can arrive behind a newer one of its key.

    The worker's own table has a record once the broker has it, and not where a rebalance has begun
    by then: Faust reads the log on from where it was, up to an end that this record may lie behind.
    A table that had it, and not what came before it, would be no state that the log ever was.
    """

    def __init__(self, table: Any, topic: str, partition: int, host: Host) -> None:
        self._table, self._topic, self._partition, self._host = table, topic, partition, host
        self._rebalance = host.app.rebalancing_count

    async def put(self, key: Key, value: bytes | None) -> None:
        """Write one record, None to delete it. BrokerError where brokers that are there do not
        take it.
        """
        await self._host.producers.put(
            TableRecord(self._topic, self._partition, key_bytes(key), value)
        )
        if self._rebalance != self._host.app.rebalancing_count:
            return
        if value is None:
            self._table.data.pop(key, None)
        else:
            self._table.data[key] = value


class Agent:
    """One log folded by one Faust agent: an epoch for each partition that it is assigned.

    Parameters
    ----------
    host : the worker
    spec : the agent
    stage : makes the stage of a partition
    changelog : the topic of its table
    windowed : whether values wait in panes of it, one a slot
    """

    def __init__(
        self,
        host: Host,
        spec: Spec,
        stage: Callable[[int], Stage[Any]],
        changelog: str,
        *,
        windowed: bool = False,
    ) -> None:
        self.host, self.spec, self.stage, self.changelog = host, spec, stage, changelog
        self.epochs: dict[int, Epoch[Any]] = {}
        self._timers: dict[int, asyncio.Handle] = {}
        self._saves: dict[int, asyncio.Task[None]] = {}
        """The snapshots that runs of messages asked for last."""
        self._over = False
        """Whether its last snapshots are being written: nothing is begun any more."""
        app = host.app
        raw = {"key_type": bytes, "value_type": bytes, "key_serializer": "raw"}
        topic = app.topic(spec.topic, **raw, value_serializer="raw", partitions=spec.partitions)
        self.table = app.Table(
            spec.name, key_type=str, value_type=bytes, partitions=spec.partitions
        )
        if windowed:
            # Over slot numbers, not times. `recovery.keys` names windows as Faust does, and what
            # ends is deleted by a snapshot: nothing expires, and the changelog, which
            # `kafka.setup` makes, is compacted only
            self.table.tumbling(1)
        app.agent(topic, name=spec.name)(self.run)
        app.on_partitions_revoked.connect(self.revoked, weak=False)
        if spec.gaps:
            app.on_partitions_assigned.connect(self.assigned, weak=False)
        app.on_before_shutdown.connect(self.down, weak=False)
        app.timer(0.25)(self.keep)

    @property
    def seal(self) -> Seal | None:
        """What seals its state."""
        return self.stage(0).seal

    async def run(self, stream: Any) -> None:
        """The agent's body: nothing that could be acknowledged without having been folded."""
        async for event in stream.noack().events():
            await self._or_end(self.take(event))

    async def _or_end(self, work: Awaitable[None]) -> None:
        """Do it; whatever it raises ends the process: Faust would acknowledge the record of an
        agent that raised, and only log what a timer raises.
        """
        try:
            await work
        except (asyncio.CancelledError, GeneratorExit):
            raise
        except BaseException as error:  # noqa: BLE001
            end(error)

    async def take(self, event: Any) -> None:
        """Take in what an event brings: a run of messages, or one; a snapshot follows where it must
        not wait.
        """
        partition = event.message.partition
        place = self.spec.topic, partition
        if self._over:
            return  # whoever has the partition next reads it
        self.host.health.delivered(place)
        epoch = self.epochs.get(partition)
        if epoch is None and (epoch := await self._begun(partition)) is None:
            return
        messages = event.message.take()
        start = 0
        while start < len(messages):
            if start:
                await asyncio.sleep(0)  # whatever else waits: a fold has just taken its time
            await self._open()
            if self._over or self.epochs.get(partition) is not epoch:
                return  # a leftover by now
            self.host.health.delivered(
                place
            )  # each piece: on a busy machine a chunk takes a minute
            end = start + min(len(messages) - start, int(epoch.run))
            epoch.take_run(messages[start:end], event if end == len(messages) else PART)
            start = end
            if epoch.due:
                await self._save(epoch)
        if epoch.waiting and partition not in self._timers:
            soon = asyncio.get_running_loop().call_soon
            self._timers[partition] = soon(self._fold_waiting, partition)

    async def _save(self, epoch: Epoch[Any]) -> None:
        """Begin to write a snapshot, which brokers may take long for, once the one before it is
        written. The partition is folded on meanwhile.
        """
        if (before := self._saves.get(epoch.partition)) is not None:
            await before
        if not epoch.ended:
            self._saves[epoch.partition] = asyncio.create_task(self._or_end(epoch.save()))
            await asyncio.sleep(0)  # what is folded next is not in this one

    async def _open(self) -> None:
        """Until brokers are there, and take what is folded."""
        while not self.host.open:  # noqa: ASYNC110 - a thread says so
            await asyncio.sleep(AGAIN)

    def _fold_waiting(self, partition: int) -> None:
        """Fold what has waited long enough, once brokers are there."""
        self._timers.pop(partition, None)
        try:
            if partition in self.epochs and not self._over and self.host.open:
                self.epochs[partition].fold()
            elif partition in self.epochs and not self._over:
                later = asyncio.get_running_loop().call_later
                self._timers[partition] = later(AGAIN, self._fold_waiting, partition)
        except BaseException as error:  # noqa: BLE001 - nobody else would stop
            end(error)

    async def _begun(self, partition: int) -> Epoch[Any] | None:
        """A new epoch of a partition, once a broker has said where it stands; None where the
        partition is another's by now, or given out anew: what brought it here is a leftover.

        Raises
        ------
        StateError, BrokerError : it may not begin
        """
        stage, since = self.stage(partition), time.monotonic()
        facts = partial(self._facts, partition, stage)
        rebalance = self.host.app.rebalancing_count

        def ours() -> bool:
            """Whether no rebalance has begun since, and the partition is this worker's."""
            place = self.spec.topic, partition
            return rebalance == self.host.app.rebalancing_count and place in self.host.assigned()

        found = await self.host.brokers.answered(
            f"where {self.spec.topic} {partition} stands", facts, ours
        )
        if found is None:
            return None
        try:
            made = self.begin(stage, found, _needed)
        except _NeededError:
            whole = partial(self.host.offsets.table, self.spec)
            what = f"the changelog of {self.spec.name}"
            held = await self.host.brokers.answered(what, whole, ours)
            if held is None:
                return None
            made = self.begin(stage, found, lambda: held)
        users, seconds = stage.users(made.state), time.monotonic() - since
        self.host.diary.recovered(self.spec.topic, partition, users, made.offset, seconds)
        self.epochs[partition] = made
        return made

    def _facts(self, partition: int, stage: Stage[Any]) -> Facts:
        if self.spec.raw:
            self.host.raw.check()
        return read_facts(self.host.offsets, self.spec, partition, stage)

    def begin(
        self, stage: Stage[Any], facts: Facts, changelog: Callable[[], Mapping[Key, bytes]]
    ) -> Epoch[Any]:
        """An epoch of a partition of which these facts are known; see `recovery.begin`."""
        partition = facts.partition
        return begin(
            stage,
            facts,
            self.table.data,
            changelog,
            table=Changelog(self.table, self.changelog, partition, self.host),
            output=self,
            acknowledge=self.host.app.consumer.acknowledge,
            clock=time.monotonic,
            patience=self.host.brokers.clock,
            limits=self.host.limits,
        )

    def send(self, partition: int, folded: Output, seconds: float) -> None:
        """See `recovery.epoch.Sink`, here and below."""
        self.host.send(partition, folded, seconds)

    def mark(self) -> Any:
        return self.host.producers.mark()

    async def flush(self, mark: Any) -> None:
        await self.host.producers.flush(mark)
        if self.spec.raw:  # nothing is acknowledged of a topic that took the other's place
            about = "the id of the raw topic"
            await self.host.brokers.answered(about, self.host.raw.check, lambda: True)

    def saved(self, snapshot: Snapshot, seconds: float) -> None:
        self.host.saved(snapshot, seconds)
        self.host.diary.saved(self.spec.topic, snapshot, seconds)

    async def revoked(self, _: Any, revoked: Any, **__: Any) -> None:
        """Faust revokes all partitions at every rebalance: epochs end, the table stays."""
        try:
            self._end({place.partition for place in revoked if place.topic == self.spec.topic})
            self.host.revoked()
        except BaseException as error:  # noqa: BLE001 - Faust would log its text, and then hang
            end(error)

    def lost(self) -> None:
        """As `revoked`, while it ends: what is not acknowledged by now is another's."""
        self._end(set(self.epochs))

    async def assigned(self, *_: Any, **__: Any) -> None:
        """Where offsets may be missing, an epoch begins with its assignment: one that a leftover
        began after the last one's end would fold what comes next onto an old state.
        """
        self._end(set(self.epochs))

    def _end(self, partitions: set[int]) -> None:
        for partition in partitions & self.epochs.keys():
            self.epochs.pop(partition).end()

    async def keep(self) -> None:
        """Snapshots that a timer takes, and offsets that do not come."""
        await self._or_end(self._keep())

    async def _keep(self) -> None:
        self.host.producers.poll()
        for epoch in list(self.epochs.values()):
            if self._over:
                return
            if epoch.ended:  # while another one was waited for
                continue
            if (missing := epoch.check()) is not None:
                await self._read_again(epoch, missing)
            if epoch.overdue and self.host.open:
                await epoch.save()

    async def _read_again(self, epoch: Epoch[Any], offset: int) -> None:
        """Read on from an offset that did not come, if the broker has it at all."""
        where = self.spec.topic, epoch.partition, offset
        about = "{} partition {}: offset {}".format(*where)
        look = partial(self.host.check_offset, self.spec, *where[1:])
        await self.host.brokers.answered(about, look, lambda: not epoch.ended)
        if not epoch.ended:
            self.host.diary.read_again(*where)
            await self.host.app.consumer.read_again(*where)

    async def down(self, _: Any, **__: Any) -> None:
        """The end in order: wait for snapshots that are being written, then save all the rest.

        Epochs end with it. What an agent still holds would be folded behind it, and its snapshot
        given to a producer that has ended.
        """
        self._over = True
        try:
            for partition, epoch in list(self.epochs.items()):
                if not epoch.ended:
                    await epoch.finish()
                self._end({partition})
        except BaseException as error:  # noqa: BLE001
            end(error)
