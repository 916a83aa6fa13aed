"""Wiring: the pure stages as Faust agents. The only file that imports faust.

What Faust is trusted with: consumer groups and assignment, tables with changelogs and their recovery, the life of a worker. What it is not: acknowledgement (`fold`), time, windows, and
what becomes of an exception: whatever is not expected ends the process inside the agent's body, before any offset can move.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import faust
import faust.transport.drivers.aiokafka as driver
import uvloop
from confluent_kafka import Consumer, KafkaException, TopicPartition

from ldp_kafka.errors import BrokerError, ConfigurationError, GapError, LdpKafkaError, StateError
from ldp_kafka.metrics import Metrics
from ldp_kafka.records import Tick
from ldp_kafka.runtime import stages
from ldp_kafka.runtime.fold import Admission, Folded, Message, Partition, Record, Snapshot, persist
from ldp_kafka.runtime.outbox import Outbox
from ldp_kafka.runtime.security import security
from ldp_kafka.runtime.wire import encode_json
from ldp_kafka.topology import KafkaSide, Topology

__all__ = ["HALT", "RETRY", "Side", "work"]

HALT, RETRY = 1, 75  # exit codes; 75 is EX_TEMPFAIL
RUN = 256  # messages that are folded together at most ...
FULL = 2**19  # ... and bytes of them: a fold is some 600 calls, whatever it holds
PAUSE = 0.01  # seconds that the first of them waits for others
GAP = 5.0  # seconds to wait for an offset that is missing
IDLE = 60.0  # seconds without an event after which a partition counts as idle in the metrics
LARGEST = 990_000  # bytes of a record of the changelog: what a broker takes by default, less its key
STALL = 60.0  # seconds for which messages may wait without one being delivered
WAIT = 20.0  # seconds for any one thing that is awaited of a broker


class Side:
    """One Kafka cluster as one role sees it."""

    def __init__(self, kafka: KafkaSide, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.config: dict[str, Any] = {**kafka.client, "bootstrap.servers": bootstrap, "log_level": 3}
        self.security = security(kafka.client)

    def faust(self) -> dict[str, Any]:
        """What Faust's App takes to connect."""
        known = self.security
        settings: dict[str, Any] = {"broker": [f"kafka://{address.strip()}" for address in self.bootstrap.split(",")]}
        if known.protocol.startswith("SASL"):
            settings["broker_credentials"] = faust.SASLCredentials(
                username=known.username, password=known.password, ssl_context=known.context, mechanism=known.mechanism
            )
        elif known.context is not None:
            settings["broker_credentials"] = faust.SSLCredentials(known.context)
        return settings


def end(error: BaseException | str, code: int | None = None) -> NoReturn:
    """End the process now, with the reason and never a value: of an unknown exception its type and where it was raised, not its text."""
    if isinstance(error, LdpKafkaError):
        text, code = str(error), code or (RETRY if error.action == "retry" else HALT)
    elif isinstance(error, BaseException):
        frames = "".join(f"\n  {frame.filename}:{frame.lineno} in {frame.name}" for frame in traceback.extract_tb(error.__traceback__))
        text = f"unexpected {type(error).__name__}{frames}"
    else:
        text = error
    os.write(2, f"ldp-kafka: {text}\n".encode())
    os._exit(code or HALT)


def read_committed() -> None:
    """Have Faust's consumer leave out what a foreign producer's transaction took back; Faust itself does so under exactly_once only."""
    create = driver.AIOKafkaConsumerThread._create_worker_consumer  # noqa: SLF001

    def committed(thread: Any, transport: Any) -> Any:
        consumer = create(thread, transport)
        consumer._isolation_level = "read_committed"  # noqa: SLF001 - read when it starts
        return consumer

    driver.AIOKafkaConsumerThread._create_worker_consumer = committed  # noqa: SLF001


class Agent:
    """One log folded by one Faust agent: its partitions, their snapshots, and the timers that keep them moving."""

    def __init__(self, worker: Worker, spec: stages.AgentSpec, stage: Callable[[int], Any]) -> None:
        self.worker, self.spec, self.stage = worker, spec, stage
        self.parts: dict[int, Owned] = {}
        app = worker.app
        topic = app.topic(spec.topic, key_type=bytes, value_type=bytes, key_serializer="raw", value_serializer="raw", partitions=spec.partitions)
        self.table = app.Table(spec.name, key_type=str, value_type=bytes, partitions=spec.partitions)
        app.agent(topic, name=spec.name)(self.run)
        app.on_partitions_revoked.connect(self.revoked, weak=False)
        app.on_before_shutdown.connect(self.down, weak=False)
        app.timer(0.25)(self.keep)

    async def run(self, stream: Any) -> None:
        """The agent's body: admit, fold, and nothing that could be acknowledged without having been."""
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
        self.worker.delivered = time.monotonic()
        owned = self.parts.get(message.partition)
        if owned is None:
            if (self.spec.topic, message.partition) not in self.worker.assigned():
                return None  # a leftover of a partition that is another's by now: it brings what it needs
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
        return owned if len(owned.partition.pending) >= self.worker.topology.runtime.snapshot_messages else None

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
        owned.timer, owned.size = None, 0
        if not owned.waiting:
            return
        events, owned.waiting = owned.waiting, []
        begin = time.perf_counter()
        folded = owned.partition.fold([Message(e.message.offset, round((e.message.timestamp or -0.001) * 1000), e.message.value) for e in events])
        self.worker.send(folded.records)
        for event in events:
            event.message.value = event.value = None  # it waits for its acknowledgement: its bytes need not
        owned.partition.pending += events
        self.worker.observe(self.spec.name, owned.partition.number, folded, time.perf_counter() - begin)

    def load(self, number: int) -> Owned:
        """Begin a tenure of a partition: where the group stands, and the state that covers it."""
        committed, start, end_ = self.worker.position(self.spec.topic, number)
        want = start if committed is None else committed
        if committed is not None and start > committed:
            raise StateError(
                f"{self.spec.topic} partition {number}: the log begins at offset {start}, after the acknowledged {committed}: records were lost before they were read"
            )
        passed = committed is not None and committed > (1 if self.spec.header else 0)
        partition = Partition(self.stage(number), number, self.table.data, want, passed, self.spec.gaps)
        where = f"{self.spec.topic} partition {number}"
        if partition.cover >= end_:
            raise StateError(
                f"{where}: the state covers offset {partition.cover}, but the log ends before {end_}: the topic was made anew; give the topology a new name"
            )
        known = partition.cover >= 0 or self.spec.header or self.worker.reported(self.spec, number)
        if start > partition.cover + 1 and known:
            raise StateError(f"{where}: the log begins at offset {start}, but no state covers what was before it: give the topology a new name")
        return Owned(partition)

    async def save(self, owned: Owned) -> None:
        """Take a snapshot and persist it; one at a time."""
        async with owned.lock:
            self.fold(owned)
            begin = time.perf_counter()
            snapshot, mark = owned.partition.snapshot(), self.worker.mark()
            await self.persist(owned, snapshot, mark)
            owned.cost = time.perf_counter() - begin
            owned.saved = time.monotonic()
            self.worker.metrics.snapshot(owned.cost, sum(map(len, snapshot.shards.values())) + len(snapshot.meta[1]))

    async def persist(self, owned: Owned, snapshot: Snapshot, mark: list[dict[tuple[str, int], int]]) -> None:
        """`fold.persist` with Faust's table and our producers. A tenure that ended meanwhile acknowledges nothing: its successor may have loaded an older state."""
        number = owned.partition.number

        async def flush() -> None:
            await self.worker.settle(mark)

        async def put(key: str, value: bytes | None) -> None:
            if value is not None and len(value) > LARGEST:
                shard = key.split("/")[1]
                raise ConfigurationError(
                    f"the {self.spec.name} state's record {shard} of partition {number} would have {len(value):,} bytes, more than {LARGEST:,}: runtime.shards is too small for so many users"
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
                raise BrokerError(f"the changelog of {self.spec.name} took nothing for {WAIT:g} s") from None

        await persist(snapshot, flush=flush, put=put, acknowledge=lambda event: event.ack() if self.parts.get(number) is owned else None)

    async def revoked(self, _: Any, revoked: Any, **__: Any) -> None:
        """Faust revokes all partitions at every rebalance: memory goes, the table stays."""
        try:
            for place in revoked:
                if place.topic == self.spec.topic:
                    self.parts.pop(place.partition, None)
            self.worker.metrics.revoked()
        except BaseException as error:  # noqa: BLE001 - Faust would log its text, and then hang
            end(error)

    async def keep(self) -> None:
        """Snapshots that are due, and offsets that do not come."""
        try:
            now = time.monotonic()
            self.worker.poll()
            for owned in list(self.parts.values()):
                if owned.ahead and now - owned.ahead > GAP:
                    raise GapError(
                        f"{self.spec.topic} partition {owned.partition.number}: offset {owned.partition.want} was not delivered for {GAP:g} s; a new assignment will bring it"
                    )
                pending = owned.partition.pending or owned.waiting
                if pending and not owned.lock.locked() and now - owned.saved > max(self.worker.topology.runtime.snapshot_seconds, 10 * owned.cost):
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


class Owned:
    """A partition in this tenure."""

    def __init__(self, partition: Partition[Any]) -> None:
        self.partition = partition
        self.waiting: list[Any] = []
        self.size = 0
        self.timer: asyncio.TimerHandle | None = None
        self.lock = asyncio.Lock()
        self.ahead = 0.0
        self.seen = self.saved = time.monotonic()
        self.cost = 0.0


class Worker:
    """One process of one role."""

    def __init__(self, topology: Topology, role: str, sides: Mapping[str, Side], metrics: Metrics, key: bytes | None, until_idle: float | None) -> None:
        self.topology, self.role, self.metrics, self.until_idle = topology, role, metrics, until_idle
        self.side, self.collector = sides["edge" if role == "perturb" else "collector"], sides["collector"]
        outboxes = {name: Outbox(side.config, lambda text: end(BrokerError(text))) for name, side in sides.items() if role == "perturb" or name == "collector"}
        if sides["edge"] is sides["collector"] and role == "perturb":
            outboxes["edge"] = outboxes["collector"]
        self.boxes = list({id(box): box for box in outboxes.values()}.values())
        self.box = {topic.name: outboxes[topic.side] for topic in topology.topics() if topic.side in outboxes}
        self.box.setdefault(topology.raw_topic, outboxes.get("edge", outboxes["collector"]))
        self._asker = Consumer({**self.side.config, "group.id": topology.group(role), "enable.auto.commit": False})
        session = topology.runtime.session_timeout_ms / 1000
        self.app = faust.App(
            topology.group(role),
            **self.side.faust(),
            web_enabled=False,
            store="memory://",
            datadir=tempfile.mkdtemp(prefix="ldp-kafka-"),
            topic_allow_declare=False,
            topic_disable_leader=True,
            topic_replication_factor=1,
            stream_wait_empty=False,
            stream_buffer_maxsize=512,
            table_cleanup_interval=1e9,
            broker_session_timeout=session,
            broker_heartbeat_interval=min(3.0, session / 10),
            broker_commit_interval=0.5,
            producer_max_request_size=1_000_000,
            env={},  # else a BROKER_URL, APP_VERSION or APP_WEB_ENABLED of the environment would win over all of this
        )
        randomness = stages.edge_randomness(topology, key) if key is not None else None
        making: dict[str, Callable[[int], Any]] = {
            "perturb": lambda number: stages.edge(topology, randomness, number),  # type: ignore[arg-type]
            "collect": lambda number: stages.collect(topology, number),
            "merge": lambda _: stages.merge(topology),
        }
        self.agents = [Agent(self, spec, making[spec.name]) for spec in stages.agents(topology, role)]
        if any(agent.spec.gaps for agent in self.agents):
            read_committed()
        self.delivered = time.monotonic()
        self._stood: dict[tuple[str, int], tuple[int, int]] = {}
        self._quiet, self._asked = time.monotonic(), 0.0
        self._ticked: dict[int, float] = {}
        self.app.timer(1.0)(self.watch)

    def send(self, records: list[Record]) -> None:
        """Hand over records, each to its cluster."""
        if len(self.boxes) == 1:
            self.boxes[0].send(records)
            return
        for record in records:
            self.box[record.topic].send([record])

    def mark(self) -> list[dict[tuple[str, int], int]]:
        """What has been handed over so far."""
        return [box.mark() for box in self.boxes]

    async def settle(self, mark: list[dict[tuple[str, int], int]]) -> None:
        """Wait until it has arrived."""
        for box, part in zip(self.boxes, mark, strict=True):
            await box.settle(part, WAIT)

    def poll(self) -> None:
        """Serve delivery reports."""
        for box in self.boxes:
            box.poll()

    def reported(self, spec: stages.AgentSpec, number: int) -> bool:
        """Whether the edge has answered this partition of somebody else's log before."""
        place = TopicPartition(self.topology.reports_topic, number)
        try:
            return bool(Consumer({**self.collector.config, "group.id": spec.name, "enable.auto.commit": False}).get_watermark_offsets(place, timeout=10)[1] > 1)
        except KafkaException as error:
            raise BrokerError(f"{place.topic} partition {number}: the broker did not say whether it holds reports: {error.args[0].str()}") from None

    def position(self, topic: str, number: int) -> tuple[int | None, int, int]:
        """(the group's committed offset or None, the log's first offset, the next it will give)."""
        place = TopicPartition(topic, number)
        try:
            committed = self._asker.committed([place], timeout=10)[0].offset
            start, next_ = self._asker.get_watermark_offsets(place, timeout=10)
        except KafkaException as error:
            raise BrokerError(f"{topic} partition {number}: the broker did not say where the group stands: {error.args[0].str()}") from None
        return (committed if committed >= 0 else None), start, next_

    def observe(self, agent: str, number: int, folded: Folded, seconds: float) -> None:
        """Count what a fold gave."""
        self.metrics.count(folded.counts, number)
        self.metrics.step(seconds)
        if agent == "merge":
            for record in folded.records:
                if record.topic == self.topology.releases_topic:
                    release = json.loads(record.value)
                    late = time.time() - self.topology.slot_start(release["slot"] + 1) / 1000
                    self.metrics.release(release["reports"], release["standard_error"], late)

    async def watch(self) -> None:
        """What is seen once a second: the budget spent, idle partitions, the lag, and whether there is anything left to do."""
        try:
            assigned = self.assigned()
            self.metrics.partitions(len(assigned))
            now = time.monotonic()
            quiet = [owned for agent in self.agents for owned in agent.parts.values() if now - owned.seen < IDLE]
            self.metrics.idle_partitions(len(assigned) - len(quiet))
            for agent in self.agents:
                if agent.spec.name == "perturb" and agent.parts:
                    ledger = self.topology.method.ledger
                    spent = max(ledger.largest(owned.partition.state.users.state) for owned in agent.parts.values())
                    self.metrics.spent(spent, ledger.budget)
                    self.tick(agent, assigned)
            if assigned and (self.until_idle is not None or now - self._asked > 5):
                self._asked = now
                left = await asyncio.get_running_loop().run_in_executor(None, self.left, assigned)
                await asyncio.get_running_loop().run_in_executor(None, self.counted)
                self.metrics.lag(left)
                held = any(owned.partition.pending or owned.waiting for agent in self.agents for owned in agent.parts.values())
                self.delivered = self.delivered if left and not held else time.monotonic()
                if time.monotonic() - self.delivered > STALL:
                    raise GapError(f"{left} messages wait, but none was delivered for {STALL:g} s; a new assignment will bring them")
                await self.leave_when_idle(left)
            else:
                self._quiet = now if not assigned else self._quiet
        except asyncio.CancelledError:
            raise
        except KafkaException as error:
            end(BrokerError(f"the broker did not say how far the group is: {error.args[0].str()}"))
        except BaseException as error:  # noqa: BLE001
            end(error)

    def assigned(self) -> set[tuple[str, int]]:
        """The partitions that this worker has of the topics that its agents fold."""
        topics = {agent.spec.topic for agent in self.agents}
        return {(place.topic, place.partition) for place in (self.app.consumer.assignment() if self.app.consumer else ()) if place.topic in topics}

    def tick(self, agent: Agent, assigned: set[tuple[str, int]]) -> None:
        """Where the topology asks for it, tell an idle partition how far event time has come on the others: appended to the log, never used in a fold directly."""
        idle = self.topology.input.idle_ms
        if idle is None:
            return
        now = time.monotonic()
        marks = {number: owned.partition.state.watermark for number, owned in agent.parts.items()}
        latest = max(marks.values())
        for topic, number in assigned:
            owned = agent.parts.get(number)
            seen = owned.seen if owned else self._ticked.setdefault(number, now)  # one without any event since it came here
            if now - seen > idle / 1000 and latest > marks.get(number, -1):
                self._ticked[number] = now
                if owned:
                    owned.seen = now
                self.send([Record(topic, number, None, encode_json(Tick(latest)))])

    async def leave_when_idle(self, left: int) -> None:
        """End gracefully, where asked to, once nothing has been left to read for so long; writes nothing for it."""
        if left:
            self._quiet = time.monotonic()
        elif self.until_idle is not None and time.monotonic() - self._quiet >= self.until_idle:
            self.until_idle = None
            await self.worker.stop()

    def counted(self) -> None:
        """StateError where a topic has other partitions than at the start: users would have moved, each with a new budget."""
        for agent in self.agents:
            found = len(self._asker.list_topics(agent.spec.topic, timeout=10).topics[agent.spec.topic].partitions)
            if found != agent.spec.partitions:
                raise StateError(
                    f"topic {agent.spec.topic} must have {agent.spec.partitions} partitions, found {found}: users have moved to partitions that do not know what they spent"
                )

    def left(self, assigned: set[tuple[str, int]]) -> int:
        """Messages of these partitions that are not folded and acknowledged."""
        left = 0
        for topic, number in assigned:
            place = TopicPartition(topic, number)
            low, high = self._asker.get_watermark_offsets(place, timeout=10)
            committed = self._asker.committed([place], timeout=10)[0].offset
            stands, self._stood[topic, number] = self._stood.get((topic, number)), (committed, high)
            if not (any(agent.spec.topic == topic and agent.spec.gaps for agent in self.agents) and stands == (committed, high)):
                left += high - (
                    committed if committed >= 0 else low
                )  # where offsets have gaps, the end of a transaction is never acknowledged: what stands still is done
        return left

    def main(self) -> int:
        """Run until told to stop; the exit code."""
        uvloop.install()
        self.worker = faust.Worker(self.app, loglevel="WARNING", quiet=True, redirect_stdouts=False)
        self.worker.spinner = None  # it would hide the cursor
        for noisy in ("aiokafka", "mode.timers"):  # a rebalance is no warning, nor a snapshot that takes longer than its timer
            logging.getLogger(noisy).setLevel(logging.ERROR)
        try:
            self.worker.execute_from_commandline()
        except SystemExit as stop:
            return int(stop.code or 0)
        finally:
            with contextlib.suppress(OSError):
                import shutil

                shutil.rmtree(self.app.conf.datadir, ignore_errors=True)
        return 0


def work(topology: Topology, role: str, sides: Mapping[str, Side], metrics: Metrics, *, key: bytes | None, until_idle: float | None = None) -> int:
    """Run one role of a topology in this process until SIGTERM or SIGINT; returns its exit code.

    Parameters
    ----------
    role : ``perturb`` or ``collect``
    sides : ``edge`` and ``collector``: one object where they are one cluster
    key : the edge's master key, for ``perturb``
    until_idle : seconds without anything to read after which it ends by itself
    """
    try:
        return Worker(topology, role, sides, metrics, key, until_idle).main()
    finally:
        sys.stdout.flush()
