"""One log folded by one Faust agent: the wiring around `recovery`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from ldp_kafka.errors import BrokerError, ConfigurationError
from ldp_kafka.runtime.log import Output, Stage
from ldp_kafka.runtime.recovery.begin import begin
from ldp_kafka.runtime.recovery.epoch import PART, Epoch, Limits
from ldp_kafka.runtime.recovery.policies import Place
from ldp_kafka.runtime.recovery.rules import Facts
from ldp_kafka.runtime.recovery.snapshot import Snapshot
from ldp_kafka.runtime.sealing import Seal
from ldp_kafka.runtime.worker.chunks import messages_of, pause_of
from ldp_kafka.runtime.worker.diary import Diary
from ldp_kafka.runtime.worker.exits import end
from ldp_kafka.topology.roles import Agent as Spec

__all__ = ["WAIT", "Agent", "Changelog", "Host"]

WAIT = 20.0  # seconds for any one thing that is awaited of a broker


class Host(Protocol):
    """What a worker offers its agents."""

    app: Any
    limits: Limits
    diary: Diary

    def assigned(self) -> set[Place]:
        """The partitions that this worker has of the topics that its agents fold."""

    def delivered(self, place: Place) -> None:
        """A message has come."""

    def facts(self, spec: Spec, partition: int, stage: Stage[Any]) -> Facts:
        """Of one partition, as the brokers say."""

    def changelog(self, spec: Spec) -> Mapping[str, bytes]:
        """What the changelog holds at the broker, now."""

    def send(self, partition: int, folded: Output, seconds: float) -> None:
        """Hand over what a fold gave, and count it."""

    def mark(self) -> Any:
        """What has been handed over so far."""

    async def flush(self, mark: Any) -> None:
        """Wait until it has arrived."""

    def saved(self, snapshot: Snapshot, seconds: float) -> None:
        """Count a snapshot."""

    def poll(self) -> None:
        """Serve delivery reports."""

    def revoked(self) -> None:
        """Count a rebalance."""


class Changelog:
    """One partition of a Faust table, as `Epoch` writes it."""

    def __init__(self, table: Any, partition: int) -> None:
        self._table, self._partition = table, partition

    async def put(self, key: str, value: bytes | None) -> None:
        """Write one record, None to delete it.

        Raises
        ------
        BrokerError : the broker took nothing, or refused the record
        ConfigurationError : the right to write is missing
        """
        more = {"value_serializer": "raw"} if value is None else {}
        if value is None:
            self._table.data.pop(key, None)
        else:
            self._table.data[key] = value
        try:
            # Faust raises at once where its client does not know the partition just now
            sent = self._table.send_changelog(self._partition, key, value, **more)
            await asyncio.wait_for(sent, WAIT)
        except TimeoutError:
            raise BrokerError(
                f"the changelog {self._table.changelog_topic_name} took nothing for {WAIT:g} s"
            ) from None
        except Exception as error:  # noqa: BLE001
            # What Faust's client says of a record that the broker refused. By its type: the text
            # may show more than it should. A right has to be given; a limit may be put right.
            refused = ConfigurationError if "Authorization" in type(error).__name__ else BrokerError
            raise refused(
                f"the changelog {self._table.changelog_topic_name} did not take a record of"
                f" {len(value or b''):,} bytes: {type(error).__name__}"
            ) from None


class Agent:
    """One log folded by one Faust agent: an epoch for each partition that it is assigned.

    Parameters
    ----------
    host : the worker
    spec : the agent
    stage : makes the stage of a partition
    """

    def __init__(self, host: Host, spec: Spec, stage: Callable[[int], Stage[Any]]) -> None:
        self.host, self.spec, self.stage = host, spec, stage
        self.epochs: dict[int, Epoch[Any]] = {}
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._over = False
        """Whether its last snapshots are being written: nothing is begun any more."""
        app = host.app
        raw = {"key_type": bytes, "value_type": bytes, "key_serializer": "raw"}
        topic = app.topic(spec.topic, **raw, value_serializer="raw", partitions=spec.partitions)
        self.table = app.Table(
            spec.name, key_type=str, value_type=bytes, partitions=spec.partitions
        )
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
        self.host.delivered(place)
        epoch = self.epochs.get(partition)
        if epoch is None:
            if place not in self.host.assigned():
                # A leftover of a partition that is another's by now: its owner reads it itself
                return
            epoch = self.epochs[partition] = self.begin(partition)
        messages = messages_of(event)
        start = 0
        while start < len(messages):
            if start:
                await asyncio.sleep(0)  # whatever else waits: a fold has just taken its time
                if self._over or self.epochs.get(partition) is not epoch:
                    return  # a leftover by now
            end = start + min(len(messages) - start, int(epoch.run))
            epoch.take_run(messages[start:end], event if end == len(messages) else PART)
            start = end
            if epoch.due:
                await epoch.save()
        if epoch.waiting and partition not in self._timers:
            later = asyncio.get_running_loop().call_later
            self._timers[partition] = later(pause_of(event), self._fold_waiting, partition)

    def _fold_waiting(self, partition: int) -> None:
        """Fold what has waited long enough."""
        self._timers.pop(partition, None)
        try:
            if partition in self.epochs and not self._over:
                self.epochs[partition].fold()
        except BaseException as error:  # noqa: BLE001 - nobody else would stop
            end(error)

    def begin(self, partition: int) -> Epoch[Any]:
        """Begin an epoch of a partition. StateError or BrokerError where it may not."""
        stage, since = self.stage(partition), time.monotonic()
        made = begin(
            stage,
            self.host.facts(self.spec, partition, stage),
            self.table.data,
            lambda: self.host.changelog(self.spec),
            table=Changelog(self.table, partition),
            output=self,
            acknowledge=self.host.app.consumer.acknowledge,
            clock=time.monotonic,
            limits=self.host.limits,
        )
        users, seconds = stage.users(made.state), time.monotonic() - since
        self.host.diary.recovered(self.spec.topic, partition, users, made.offset, seconds)
        return made

    def send(self, partition: int, folded: Output, seconds: float) -> None:
        """See `recovery.epoch.Sink`, here and below."""
        self.host.send(partition, folded, seconds)

    def mark(self) -> Any:
        return self.host.mark()

    async def flush(self, mark: Any) -> None:
        await self.host.flush(mark)

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
        self.host.poll()
        for epoch in list(self.epochs.values()):
            if self._over:
                return
            epoch.check()
            if epoch.overdue:
                await epoch.save()

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
