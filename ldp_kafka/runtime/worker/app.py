"""Wiring: the pure stages as Faust agents. The only file that imports faust.

What Faust is trusted with: consumer groups and assignment, tables with changelogs and their
recovery, the life of a worker. What it is not: acknowledgement (`fold`), time, windows, and what
becomes of an exception: whatever is not expected ends the process inside the agent's body, before
any offset can move.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any

import faust
import faust.transport.drivers.aiokafka as driver
import uvloop
from confluent_kafka import KafkaException
from faust.assignor.partition_assignor import PartitionAssignor

from ldp_kafka.errors import BrokerError, GapError
from ldp_kafka.metrics import Metrics
from ldp_kafka.records import Tick
from ldp_kafka.runtime import roles
from ldp_kafka.runtime.kafka.group_offsets import Standing
from ldp_kafka.runtime.kafka.producer import Outbox
from ldp_kafka.runtime.kafka.security import security
from ldp_kafka.runtime.keys import Keyring
from ldp_kafka.runtime.log import Output, Record
from ldp_kafka.runtime.wire.records import encode_json
from ldp_kafka.runtime.worker.agent import WAIT, Agent
from ldp_kafka.runtime.worker.exits import RETRY, end
from ldp_kafka.topology import KafkaSide, Topology

__all__ = ["Side", "work"]

IDLE = 60.0  # seconds without an event after which a partition counts as idle in the metrics
HEAR = 5.0  # seconds at least between two looks at what other workers have kept
CLIENT = "aiokafka"  # Faust's client
STALL = 60.0  # seconds for which messages may wait without one being delivered
LEAVE = 15.0  # seconds for ending in order, and from one snapshot to the next while it ends


class Side:
    """One Kafka cluster as one role sees it."""

    def __init__(self, kafka: KafkaSide, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.config: dict[str, Any] = {
            **kafka.client,
            "bootstrap.servers": bootstrap,
            "log_level": 3,
        }
        self.security = security(kafka.client)

    def faust(self) -> dict[str, Any]:
        """What Faust's App takes to connect."""
        known = self.security
        settings: dict[str, Any] = {
            "broker": [f"kafka://{address.strip()}" for address in self.bootstrap.split(",")]
        }
        if known.protocol.startswith("SASL"):
            settings["broker_credentials"] = faust.SASLCredentials(
                username=known.username,
                password=known.password,
                ssl_context=known.context,
                mechanism=known.mechanism,
            )
        elif known.context is not None:
            settings["broker_credentials"] = faust.SSLCredentials(known.context)
        return settings


def read_committed() -> None:
    """Have Faust's consumer leave out what a foreign producer's transaction took back; Faust itself
    does so under exactly_once only.
    """
    create = driver.AIOKafkaConsumerThread._create_worker_consumer  # noqa: SLF001

    def committed(thread: Any, transport: Any) -> Any:
        consumer = create(thread, transport)
        consumer._isolation_level = "read_committed"  # noqa: SLF001 - read when it starts
        return consumer

    driver.AIOKafkaConsumerThread._create_worker_consumer = committed  # noqa: SLF001


async def seek_to_committed(thread: Any) -> Any:
    """What Faust asks for once its tables are there: each partition back to where its group stands.

    Its client leaves one alone that stands at 0 or nowhere yet: what had been fetched of it by then
    was thrown away, and is not fetched again.
    """
    consumer = thread._ensure_consumer()  # noqa: SLF001

    async def seek() -> Any:
        found = await consumer.seek_to_committed()
        if fresh := [
            place
            for place, offset in found.items()
            if not offset and place.topic in thread.app.folded
        ]:
            await consumer.seek_to_beginning(*fresh)
        return found

    return await thread.call_thread(seek)


driver.AIOKafkaConsumerThread.seek_to_committed = seek_to_committed


class Assignor(PartitionAssignor):  # type: ignore[misc]
    """Gives out all partitions or none.

    A broker that is just back may not know every topic yet. Faust's assignor leaves out what the
    group's leader is not told of: nobody would fold it, and nobody would say so, until the next
    rebalance.
    """

    def _perform_assignment(self, cluster: Any, members: Any) -> Any:
        for topic in sorted(
            {topic for member in members.values() for topic in member.subscription}
        ):
            known, expected = (
                len(cluster.partitions_for_topic(topic) or ()),
                self.app.partitions.get(topic, 1),
            )
            if known < expected:
                end(
                    BrokerError(
                        f"the broker knows {known} of the {expected} partitions of {topic} just"
                        " now: nobody would read the others, so a new worker asks again"
                    )
                )
        return super()._perform_assignment(cluster, members)


class Process(faust.Worker):  # type: ignore[misc]
    """Ends when it is told to: where nothing comes of it for `LEAVE` seconds, whatever hangs in
    Faust or at a broker, at once.

    What counts is safe before any end, as before any crash; but a process that neither works nor
    ends keeps its partitions from others.
    """

    saved: Callable[[], float] = staticmethod(lambda: 0.0)
    """When the last snapshot was written."""
    _leaving: threading.Event | None = None

    async def stop(self) -> None:
        if self._leaving is None:
            self._leaving = threading.Event()
            threading.Thread(
                target=self._guard, args=(self._leaving,), daemon=True, name="leave"
            ).start()
        await super().stop()

    def _guard(self, left: threading.Event) -> None:
        """Wait until it has left, or nothing moves."""
        begin = time.monotonic()
        while not left.wait(max(0.0, max(begin, self.saved()) + LEAVE - time.monotonic())):
            if time.monotonic() - max(begin, self.saved()) >= LEAVE:
                end(BrokerError(f"ending in order came to nothing for {LEAVE:g} s: ended at once"))

    def left(self) -> None:
        """It has ended."""
        if self._leaving is not None:
            self._leaving.set()


class Worker:
    """One process of one role."""

    def __init__(
        self,
        topology: Topology,
        role: str,
        sides: Mapping[str, Side],
        metrics: Metrics,
        key: bytes | Keyring | None,
        until_idle: float | None,
    ) -> None:
        self.topology, self.role, self.metrics, self.until_idle = (
            topology,
            role,
            metrics,
            until_idle,
        )
        self.side, self.collector = (
            sides["edge" if role == "perturb" else "collector"],
            sides["collector"],
        )
        outboxes = {
            name: Outbox(side.config, lambda text: end(BrokerError(text)))
            for name, side in sides.items()
            if role == "perturb" or name == "collector"
        }
        if role == "perturb" and sides["edge"] is sides["collector"]:
            outboxes["edge"] = outboxes["collector"]
        self.boxes = list({id(box): box for box in outboxes.values()}.values())
        self.box = {
            topic.name: outboxes[topic.side]
            for topic in topology.topics()
            if topic.side in outboxes
        }
        self.box.setdefault(topology.raw_topic, outboxes.get("edge", outboxes["collector"]))
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
            PartitionAssignor=Assignor,
            # else a BROKER_URL, APP_VERSION or APP_WEB_ENABLED of the environment would win over
            # all of this
            env={},
        )
        self.app.partitions = {topic.name: topic.partitions for topic in topology.topics()} | {
            topology.raw_topic: topology.input.partitions
        }
        randomness = roles.edge_randomness(topology, key) if key is not None else None
        making: dict[str, Callable[[int], Any]] = {
            "perturb": lambda number: roles.edge(topology, randomness, number),  # type: ignore[arg-type]
            "collect": lambda number: roles.collect(topology, number),
            "merge": lambda _: roles.merge(topology),
        }
        specs = roles.agents(topology, role)
        self.app.folded = {spec.topic for spec in specs}
        self.standing = Standing(topology, role, specs, self.side.config, self.collector.config)
        self.agents = [Agent(self, spec, making[spec.name]) for spec in specs]
        if any(agent.spec.gaps for agent in self.agents):
            read_committed()
        self.delivered: dict[tuple[str, int], float] = {}
        self.saved = 0.0
        self._quiet, self._asked = time.monotonic(), 0.0
        self._ticked: dict[int, float] = {}
        self._heard = float("-inf")
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

    def observe(self, agent: str, number: int, folded: Output, seconds: float) -> None:
        """Count what a fold gave."""
        self.metrics.count(folded, number)
        self.metrics.step(seconds)
        if agent == "merge":
            for record in folded.records:
                if record.topic == self.topology.releases_topic:
                    release = json.loads(record.value)
                    late = time.time() - self.topology.slot_start(release["slot"] + 1) / 1000
                    self.metrics.release(release["reports"], release["standard_error"], late)

    async def watch(self) -> None:
        """What is seen once a second: the budget spent, idle partitions, the lag, and whether there
        is anything left to do.
        """
        try:
            assigned = self.assigned()
            self.metrics.partitions(len(assigned))
            now = time.monotonic()
            quiet = [
                owned
                for agent in self.agents
                for owned in agent.parts.values()
                if now - owned.seen < IDLE
            ]
            self.metrics.idle_partitions(len(assigned) - len(quiet))
            for agent in self.agents:
                if agent.spec.name == "perturb" and agent.parts:
                    ledger = self.topology.method.ledger
                    spent = max(
                        ledger.largest(owned.partition.state.users.state)
                        for owned in agent.parts.values()
                    )
                    self.metrics.spent(spent, ledger.budget)
                if agent.spec.name == "perturb" or (
                    self.topology.devices and agent.spec.name == "collect"
                ):
                    await self.tick(
                        agent, {place for place in assigned if place[0] == agent.spec.topic}
                    )
            if assigned and (self.until_idle is not None or now - self._asked > 5):
                self._asked = now
                left = await asyncio.get_running_loop().run_in_executor(
                    None, self.standing.left, assigned
                )
                await asyncio.get_running_loop().run_in_executor(None, self.standing.counted)
                self.metrics.lag(sum(left.values()))
                self.look(left, time.monotonic())
                await self.leave_when_idle(sum(left.values()))
            else:
                self._quiet = now if not assigned else self._quiet
        except asyncio.CancelledError:
            raise
        except KafkaException as error:
            end(BrokerError(f"the broker did not say how far the group is: {error.args[0].str()}"))
        except BaseException as error:  # noqa: BLE001
            end(error)

    def dropped(self) -> bool:
        """Whether the client's own task for the group has ended, as after a long silence of all
        brokers. Nobody else asks: Faust fetches past the place where the client would say so.
        """
        # `consumer` would make one
        client = getattr(getattr(self.app._consumer, "_thread", None), "_consumer", None)  # noqa: SLF001
        task = getattr(getattr(client, "_coordinator", None), "_coordination_task", None)
        return task is not None and task.done() and not self.app.should_stop

    def guard(self) -> None:
        """Look for that from now on, from a thread: none of Faust's timers runs before its first
        tables are there, which is when it may happen.
        """

        def keep() -> None:
            while not self.dropped():
                time.sleep(1)
            end(
                BrokerError(
                    "the client has given up its group after an error: a new worker joins it again"
                )
            )

        threading.Thread(target=keep, daemon=True, name="guard").start()

    def look(self, left: Mapping[tuple[str, int], int], now: float) -> None:
        """Whether a partition stands still: messages wait in it, none of them is in our hands, and
        none has come for long.
        """
        parts = {
            (agent.spec.topic, number): owned.partition
            for agent in self.agents
            for number, owned in agent.parts.items()
            if owned.waiting or owned.partition.pending
        }
        waiting = {place for place, count in left.items() if count and place not in parts}
        self.delivered = {
            place: self.delivered.get(place, now) if place in waiting else now for place in left
        }
        for (topic, number), since in self.delivered.items():
            if now - since > STALL:
                raise GapError(
                    f"{topic} partition {number}: {left[topic, number]} messages wait, but none was"
                    f" delivered for {STALL:g} s; a new assignment will bring them"
                )

    def assigned(self) -> set[tuple[str, int]]:
        """The partitions that this worker has of the topics that its agents fold."""
        topics = {agent.spec.topic for agent in self.agents}
        return {
            (place.topic, place.partition)
            for place in (self.app.consumer.assignment() if self.app.consumer else ())
            if place.topic in topics
        }

    async def tick(self, agent: Agent, assigned: set[tuple[str, int]]) -> None:
        """Where the topology asks for it, tell an idle partition how far event time has come on the
        others: appended to the log, never used in a fold directly.

        On others of this worker where that is news, else on those of all workers, as their
        snapshots say: a worker may own idle partitions only.
        """
        idle = self.topology.input.idle_ms
        if idle is None:
            return
        now = time.monotonic()
        marks = {number: owned.partition.state.watermark for number, owned in agent.parts.items()}
        latest = max(marks.values(), default=-1)
        seen = {
            number: (
                agent.parts[number].seen
                if number in agent.parts
                else self._ticked.setdefault(number, now)
            )
            for _, number in assigned
        }
        due = [number for number in seen if now - seen[number] > idle / 1000]
        if any(latest <= marks.get(number, -1) for number in due) and now - self._heard > max(
            idle / 1000, HEAR
        ):
            self._heard = now
            others = set(range(self.topology.input.partitions)) - seen.keys()
            latest = max(
                latest,
                (
                    await asyncio.get_running_loop().run_in_executor(
                        None, self.standing.latest, others
                    )
                    if others
                    else -1
                ),
            )
        for number in due:
            if latest > marks.get(number, -1):
                self._ticked[number] = now
                if number in agent.parts:
                    agent.parts[number].seen = now
                self.send([Record(agent.spec.topic, number, None, encode_json(Tick(latest)))])

    async def leave_when_idle(self, left: int) -> None:
        """End gracefully, where asked to, once nothing has been left to read for so long; writes
        nothing for it.
        """
        if left:
            self._quiet = time.monotonic()
        elif self.until_idle is not None and time.monotonic() - self._quiet >= self.until_idle:
            self.until_idle = None
            await self.worker.stop()

    def main(self) -> int:
        """Run until told to stop; the exit code."""
        uvloop.install()
        self.worker = Process(self.app, loglevel="WARNING", quiet=True, redirect_stdouts=False)
        self.worker.spinner = None  # it would hide the cursor
        for noisy in (
            "aiokafka",
            "mode.timers",
        ):  # a rebalance is no warning, nor a snapshot that takes longer than its timer
            logging.getLogger(noisy).setLevel(logging.ERROR)
        self.worker.saved = lambda: self.saved
        self.guard()
        try:
            self.worker.execute_from_commandline()
        except (
            SystemExit
        ) as stop:  # a crash of Faust's own: what must halt in our bodies ends the process there
            crash = (
                self.worker.crash_reason or self.app.crash_reason or stop.__context__
            )  # the last is what its start came to
            if stop.code and not passing(crash):
                end(crash or f"Faust ended with {stop.code}")
            return RETRY if stop.code else 0
        finally:
            self.worker.left()
            with contextlib.suppress(OSError):
                import shutil

                shutil.rmtree(self.app.conf.datadir, ignore_errors=True)
        return 0


def passing(crash: BaseException | None) -> bool:
    """Whether a crash of Faust's came out of its client, or of waiting, such as for a broker that
    is gone just then: another start may help. Else somebody has to look at it.
    """
    while crash is not None:
        if isinstance(crash, (OSError, TimeoutError)) or any(
            frame.f_globals.get("__name__", "").startswith(CLIENT)
            for frame, _ in traceback.walk_tb(crash.__traceback__)
        ):
            return True
        crash = crash.__cause__ or crash.__context__
    return False


def work(
    topology: Topology,
    role: str,
    sides: Mapping[str, Side],
    metrics: Metrics,
    *,
    key: bytes | Keyring | None,
    until_idle: float | None = None,
) -> int:
    """Run one role of a topology in this process until SIGTERM or SIGINT; returns its exit code.

    Parameters
    ----------
    role : ``perturb`` or ``collect``
    sides : ``collector`` and, for ``perturb``, ``edge``: one object where they are one cluster
    key : the edge's master key, for ``perturb``
    until_idle : seconds without anything to read after which it ends by itself
    """
    try:
        return Worker(topology, role, sides, metrics, key, until_idle).main()
    finally:
        sys.stdout.flush()
