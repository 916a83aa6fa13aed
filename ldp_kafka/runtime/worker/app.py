"""One worker: the stages as Faust agents, their producers, metrics and process.

What Faust is trusted with: consumer groups and assignment, tables with changelogs and their
recovery, the life of a worker. What it is not: acknowledgement (`recovery.epoch`), time, windows,
and what becomes of an exception: whatever is not expected ends the process inside the agent's body,
before any offset can move.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import uvloop

from ldp_kafka.errors import BrokerError, LdpKafkaError
from ldp_kafka.metrics import Metrics
from ldp_kafka.runtime import roles
from ldp_kafka.runtime.kafka.broker_health import BrokerHealth, UnansweredError
from ldp_kafka.runtime.kafka.copying import Copying
from ldp_kafka.runtime.kafka.deployment import RawTopic
from ldp_kafka.runtime.kafka.forwarder import Forwarder
from ldp_kafka.runtime.kafka.group_offsets import GroupOffsets
from ldp_kafka.runtime.kafka.holes import check_ends, check_offset
from ldp_kafka.runtime.kafka.relayer import Relayer
from ldp_kafka.runtime.keys import EdgeNoise
from ldp_kafka.runtime.log import Output
from ldp_kafka.runtime.recovery.epoch import Limits
from ldp_kafka.runtime.recovery.policies import Place
from ldp_kafka.runtime.recovery.snapshot import Snapshot
from ldp_kafka.runtime.recovery.start import check_newest
from ldp_kafka.runtime.worker import logs
from ldp_kafka.runtime.worker.agent import Agent
from ldp_kafka.runtime.worker.certificates import Certificates
from ldp_kafka.runtime.worker.diary import Diary
from ldp_kafka.runtime.worker.exits import RETRY, end, gone
from ldp_kafka.runtime.worker.foreign import said
from ldp_kafka.runtime.worker.health import Health
from ldp_kafka.runtime.worker.health_rules import GOODBYE, Assignment
from ldp_kafka.runtime.worker.process import Process, look_seldom, passing
from ldp_kafka.runtime.worker.producers import Producers
from ldp_kafka.runtime.worker.side import Side
from ldp_kafka.runtime.worker.signals import ignored
from ldp_kafka.runtime.worker.transport.app import App
from ldp_kafka.runtime.worker.transport.messages import MOST
from ldp_kafka.runtime.worker.watch import Backlog, Watch, idle_after
from ldp_kafka.topology import Topology
from ldp_kafka.topology.roles import COLLECTOR, EDGE
from ldp_kafka.topology.roles import Agent as Spec

__all__ = ["Side", "work"]

PASSED = 64  # slots that a tick passes over where all users report in each: of one message
FOLD = 0.05  # seconds that a fold may take: nothing else goes on in the worker meanwhile


class Worker:
    """One process of one role: Faust's app, its agents, and what they write to."""

    def __init__(
        self,
        topology: Topology,
        role: str,
        sides: Mapping[str, Side],
        metrics: Metrics,
        noise: EdgeNoise | None,
        until_idle: float | None,
        health: Health | None = None,
    ) -> None:
        self.topology, self.role, self.metrics = topology, topology.role(role), metrics
        self.health = Health() if health is None else health
        side = sides[self.role.side]
        runtime = topology.runtime
        self.limits = Limits(
            snapshot_messages=runtime.snapshot_messages,
            snapshot_bytes=runtime.snapshot_bytes,
            snapshot_seconds=runtime.snapshot_seconds,
            run=MOST,
            fold_seconds=FOLD,
        )
        configs = {name: each.config for name, each in sides.items()}
        specs = self.role.agents
        self.app = self._faust(side, specs)
        own, collector = side.asking, sides[COLLECTOR].asking
        self.own, self.offsets = own, GroupOffsets(topology, role, specs, own, collector)
        began = "" if noise is None else noise.deployment
        self.raw = RawTopic(topology, own, began)
        self.diary = Diary(topology.name, role)
        self.brokers = self.health.brokers = BrokerHealth(
            self.offsets.routine(),
            gone=self.gone,
            back=self.diary.back,
            renew=self.renew,
            shown=metrics.outage,
        )
        self.certificates = Certificates(configs.values())
        self.app.failing = self.failing
        self.producers = Producers(configs, self.role.topics(), self.offsets, self.brokers)
        self.app.given = self.given
        self.app.tables.read = self.read
        self.app.ready = lambda: self.diary.ready(sum(len(a.table.data) for a in self.agents))
        self.reason = "told to end"
        """Why it ends, where it ends in order."""
        self.agents = [
            Agent(
                self,
                spec,
                partial(roles.make, topology, spec, randomness=noise),
                self.role.changelog(spec.name),
                windowed=spec.raw and topology.holds_slots,
            )
            for spec in specs
        ]
        self.app.lost = self.lost
        self.watch = Watch(
            self.agents,
            self.assigned,
            self.offsets,
            metrics,
            self.producers.send,
            idle_ms=topology.input.idle_ms,
            clock_ms=topology.input.slot_ms if topology.input.clock else None,
            # with `cover` all users report in each slot that a tick closes
            clock_most=PASSED if topology.method.cover else None,
            recovering=lambda: self.app.tables.stands is Assignment.RECOVERING,
            idle_after=idle_after(topology.input.slot_ms, topology.hop),
            health=self.health,
            diary=self.diary,
            raw=self.raw,
        )
        written = {topic.name for spec in specs for topic in spec.writes}
        self.releases = topology.releases_topic in written and not topology.curated
        """Whether releases of a crowd are among what it writes."""
        self.copying = tuple(self._copying(sides))
        self.health.assignment = lambda: self.app.tables.stands
        self.health.partitions = lambda: len(self.assigned())
        self.health.until_idle, self.health.stop = until_idle, self.stop
        self.health.reading(None)
        self.backlog = Backlog(self.offsets, self.holds, metrics, self.brokers)
        self.app.timer(1.0)(self.watch.look)

    def _copying(self, sides: Mapping[str, Side]) -> Iterator[Copying]:
        """What the role copies beside its agents."""
        topology, metrics = self.topology, self.metrics
        if (relay := self.role.relay) is not None:
            edge, collector = sides[EDGE].config, sides[COLLECTOR].config
            yield Relayer(
                topology,
                relay,
                edge,
                collector,
                raw=self.raw,
                counted=metrics.add,
                shown=metrics.relay,
                failed=end,
            )
        if (forward := self.role.forward) is not None:
            edge, collector = sides[EDGE].config, sides[COLLECTOR].config
            yield Forwarder(topology, forward, collector, edge, counted=metrics.add, failed=end)

    def _faust(self, side: Side, specs: Sequence[Spec]) -> App:
        return App(
            self.role.group,
            config=side.member(
                self.role.group,
                session_ms=self.topology.runtime.session_timeout_ms,
                read_committed=any(spec.gaps for spec in specs),
            ),
            sources={spec.name: spec.topic for spec in specs},
            web_enabled=False,
            store="memory://",
            topic_allow_declare=False,
            topic_disable_leader=True,
            topic_replication_factor=1,
            stream_wait_empty=False,
            table_cleanup_interval=1e9,
            broker_commit_interval=0.5,
            # else a BROKER_URL, APP_VERSION or APP_WEB_ENABLED of the environment would win over
            # all of this
            env={},
        )

    def failing(self) -> None:
        """A connection fails: end the process where new clients would have other certificates."""
        try:
            self.certificates.check()
        except BrokerError as error:
            end(error)

    def renew(self) -> None:
        """Ask by new clients: those that ask have not been answered for long."""
        self.failing()
        self.offsets.renew()

    def gone(self, reason: str) -> None:
        """An outage begins."""
        self.failing()
        self.diary.away(reason)

    def given(self, assigned: Collection[Any]) -> None:
        """Partitions were assigned, of its logs and of its tables."""
        folded = self.app.folded
        self.health.assigned()
        self.diary.assigned((at.topic, at.partition) for at in assigned if at.topic in folded)

    async def read(self, table: str, begins: Mapping[int, int], wanted: Callable[[], bool]) -> Any:
        """See `transport.tables.Tables.read`."""
        [spec] = [spec for spec in self.role.agents if spec.name == table]
        since = partial(self.offsets.since, spec, begins)
        return await self.brokers.answered(f"the state of {table}", since, wanted)

    def lost(self) -> None:
        """While it ends, its partitions are given out anew."""
        for agent in self.agents:
            agent.lost()

    # what agents ask of their host, see `agent.Host`

    def assigned(self) -> set[Place]:
        """The partitions that this worker has of the topics that its agents fold."""
        places = self.app.consumer.assignment() if self.app.consumer else ()
        topics = self.app.folded
        return {(each.topic, each.partition) for each in places if each.topic in topics}

    def holds(self) -> set[Place]:
        """The same, from any thread; none while they are being given out."""
        stands = self.app.tables.stands
        return self.assigned() if stands in (Assignment.RECOVERING, Assignment.RECOVERED) else set()

    def check_offset(self, spec: Spec, partition: int, offset: int) -> None:
        if spec.raw and self.role.relay is None:  # of our own log a record may only be late
            check_offset(self.own, spec.topic, partition, offset)

    def send(self, partition: int, folded: Output, seconds: float) -> None:
        begin = time.monotonic()
        self.producers.send(folded.sent)
        self.metrics.count(folded, partition)
        self.diary.folded(partition, folded)
        self.metrics.step(seconds + time.monotonic() - begin)
        if folded.oldest is not None:
            self.metrics.window(lag(self.topology, folded.oldest), partition)
        if not self.releases:
            return
        for record in folded.records:
            # a release of a crowd is keyed (statistic, slot), one of a user has a third part
            if record.topic == self.topology.releases_topic and (record.key or b"").count(b"/") < 2:
                release = json.loads(record.value)
                if "event" in release:  # it has no standard error
                    continue
                late = lag(self.topology, release["slot"])
                self.metrics.release(release["reports"], release["standard_error"], late)

    @property
    def open(self) -> bool:
        return self.brokers.here and self.producers.room

    def saved(self, snapshot: Snapshot, seconds: float) -> None:
        self.health.saved()
        self.metrics.snapshot(seconds, snapshot.bytes)

    def revoked(self) -> None:
        self.health.revoked()
        self.diary.revoked()
        self.metrics.revoked()

    # the process

    def check(self) -> None:
        """That what earlier workers have kept is this topology's, this deployment's and this key's,
        and that the raw topic is one that can be folded: said now, and not when the first message
        comes.

        Raises
        ------
        StateError : it is another's
        ConfigurationError : the raw topic has offsets without records, and must have none
        BrokerError : a broker did not answer
        """
        for agent in self.agents:
            spec = agent.spec
            newest = self.offsets.newest(spec, range(spec.partitions), None)
            check_newest(spec.topic, agent.stage(0), newest)
        if self.role.needs_key and self.topology.input.gaps != "allow":
            check_ends(self.own, self.topology.input.topic)

    async def stop(self, reason: str) -> None:
        """End in order, for this reason; writes nothing for it."""
        self.reason = reason
        await self.process.stop()

    def told_to_end(self) -> None:
        """The probes say so, and what copies ends."""
        self.health.ending()
        self.stop_copying()

    def stop_copying(self) -> None:
        """Tell what copies that it is to end."""
        for each in self.copying:
            each.stop()

    def main(self) -> int:
        """Run until told to stop; the exit code."""
        self.brokers.start()
        self.health.start()
        while True:
            try:
                self.brokers.ask("what earlier workers have kept", self.check)
            except UnansweredError:  # it has answered when this process began
                time.sleep(1)
            except LdpKafkaError as error:
                end(error)
            else:
                break
        code = self._run()
        self.diary.look(everything=True)
        logs.ended(self.reason, code)
        gone(code)
        return code

    def _run(self) -> int:
        uvloop.install()
        # the log is ours, `logs`
        self.process = Process(self.app, quiet=True, redirect_stdouts=False, override_logging=False)
        self.process.spinner = None  # it would hide the cursor
        logs.hush()
        self.process.begun, self.process.ending = self.health.beat, self.told_to_end
        self.health.finished = lambda: self.process.finished
        self.backlog.start()
        for each in self.copying:
            each.start()
        look_seldom()
        try:
            self.process.execute_from_commandline()
        except SystemExit as stop:
            # A crash of Faust's own: what must halt in our bodies ends the process there. The last
            # of these is what its start came to.
            crash = self.process.crash_reason or self.app.crash_reason or stop.__context__
            if self.process.finished:
                return 0
            if stop.code and not passing(crash):
                end(crash or f"Faust ended with {stop.code}")
            if stop.code:
                self.reason = f"Faust gave up: {crash and said(crash)}"
            return RETRY if stop.code else 0
        finally:
            ignored()
            self.backlog.stop()
            self.stop_copying()
            until = time.monotonic() + GOODBYE
            for each in self.copying:
                each.join(max(0.0, until - time.monotonic()))
            self.health.left()
        return 0


def lag(topology: Topology, slot: int) -> float:
    """Seconds from a slot's end until now."""
    return time.time() - topology.slot_start(slot + 1) / 1000


def work(
    topology: Topology,
    role: str,
    sides: Mapping[str, Side],
    metrics: Metrics,
    *,
    noise: EdgeNoise | None,
    until_idle: float | None = None,
    health: Health | None = None,
) -> int:
    """Run one role of a topology in this process until SIGTERM or SIGINT; returns its exit code.

    Parameters
    ----------
    role : one of the topology's
    sides : ``collector`` and, where the role reaches it, ``edge``: one object where they are one
        cluster
    noise : of the edge's key (`keys.edge_randomness`), for a role that needs it
    until_idle : seconds without anything to read after which it ends by itself
    health : is told how it stands
    """
    try:
        return Worker(topology, role, sides, metrics, noise, until_idle, health).main()
    finally:
        sys.stdout.flush()
