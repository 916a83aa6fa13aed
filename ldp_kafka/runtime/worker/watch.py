"""What a worker looks at by the clock: figures for the metrics, and the policies of `recovery`."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ldp_kafka.errors import LdpKafkaError
from ldp_kafka.metrics import Metrics
from ldp_kafka.records import Tick
from ldp_kafka.runtime.kafka.broker_health import BrokerHealth, UnansweredError
from ldp_kafka.runtime.kafka.deployment import RawTopic
from ldp_kafka.runtime.kafka.group_offsets import GroupOffsets
from ldp_kafka.runtime.log import Record
from ldp_kafka.runtime.recovery.policies import ClockTicks, Place, Ticks
from ldp_kafka.runtime.recovery.start import check_partitions
from ldp_kafka.runtime.wire.records import encode_json
from ldp_kafka.runtime.worker.agent import Agent
from ldp_kafka.runtime.worker.diary import Diary
from ldp_kafka.runtime.worker.health import Health

__all__ = ["Backlog", "Watch", "idle_after"]

IDLE = 300.0  # seconds at least without an event after which a partition counts as idle
ASK = 5.0  # seconds between two looks at the lag


def idle_after(slot_ms: int, hop: int) -> float:
    """Seconds without an event after which a partition counts as idle: more than two slots beyond
    the one, or the window, in which one is due.
    """
    return max(IDLE, (hop + 2) * slot_ms / 1000)


class Watch:
    """The once-a-second look of one worker.

    Parameters
    ----------
    agents : of the worker
    assigned : gives the partitions that the worker has
    offsets : asks the brokers
    send : appends ticks
    idle_ms : after which a partition gets a tick, where its agent's log gets any; None: never
    recovering : whether the state of an assignment is being read: nothing is delivered then,
        however long it takes
    idle_after : seconds without an event after which a partition counts as idle, see `idle_after`
    health : is told what is seen, and says whether the brokers are there
    diary : is told of partitions without events
    raw : the topic that raw values come from; None: nobody asks whether it is still the same
    """

    def __init__(
        self,
        agents: Sequence[Agent],
        assigned: Callable[[], set[Place]],
        offsets: GroupOffsets,
        metrics: Metrics,
        send: Callable[[Sequence[Record]], None],
        *,
        idle_ms: int | None,
        clock_ms: int | None = None,
        clock_most: int | None = None,
        recovering: Callable[[], bool] = lambda: False,
        idle_after: float = IDLE,
        health: Health | None = None,
        diary: Diary | None = None,
        raw: RawTopic | None = None,
    ) -> None:
        self.agents, self.assigned, self.offsets = agents, assigned, offsets
        self.metrics, self.send = metrics, send
        self.recovering, self.idle_after = recovering, idle_after
        self.health = Health() if health is None else health
        self.brokers = self.health.brokers
        self.diary = Diary("", "") if diary is None else diary
        self.raw = raw
        self.ticks = {
            agent.spec.name: Ticks(idle_ms / 1000)
            for agent in agents
            if agent.spec.ticks and idle_ms is not None
        }
        self.clocks = {
            agent.spec.name: ClockTicks(clock_ms, clock_most)
            for agent in agents
            if agent.spec.ticks and clock_ms is not None
        }
        self._last: dict[Place, float] = {}
        self._asked = 0.0

    async def look(self) -> None:
        """Look once, and tell what is seen, and what is wrong. A broker that does not answer is
        asked again with a later look, see `broker_health`.
        """
        try:
            await self._look()
        except asyncio.CancelledError:
            raise
        except UnansweredError:
            self.health.reading(None)
        except BaseException as error:  # noqa: BLE001 - a timer's exception would only be logged
            self.health.failed(error)
            return
        self.health.looked()

    async def _look(self) -> None:
        assigned, now = self.assigned(), time.monotonic()
        waited = self._idle(assigned, now)
        self._figures(assigned, waited)
        if not self._shut:
            self._say_idle(waited)
        self.diary.look()
        if not self.brokers.here:
            self.health.reading(None)
            return
        for agent in self.agents:
            if agent.spec.name in self.ticks:
                await self.tick(agent, assigned)
            if agent.spec.name in self.clocks:
                self.tick_by_clock(agent, assigned)
        lag: int | None = None
        if assigned:
            ends = self.health.until_idle is not None
            if not ends and now - self._asked <= ASK:
                return
            self._asked = now
            # asked before the logs: what is forwarded meanwhile is then found there
            waiting = (
                await self._ask("what waits to be copied", self.offsets.waiting) if ends else 0
            )
            lag = waiting + await self._lag(assigned)
        self.health.reading(lag)

    def _figures(self, assigned: set[Place], waited: Mapping[Place, float]) -> None:
        self.metrics.partitions(len(assigned))
        epochs = [epoch for agent in self.agents for epoch in agent.epochs.values()]
        idle = sum(each > self.idle_after for each in waited.values())
        self.metrics.idle(idle, max(waited.values(), default=0.0))
        found = [budget for e in epochs if (budget := e.stage.budget(e.state)) is not None]
        if found:
            self.metrics.spent(max(spent for spent, _ in found), found[0][1])

    def _idle(self, assigned: set[Place], now: float) -> dict[Place, float]:
        """For how many seconds each partition has had no event, of those that get no ticks: ticks
        move the others on. While nothing can come, for none.
        """
        seen = {
            (agent.spec.topic, number): epoch.seen
            for agent in self.agents
            for number, epoch in agent.epochs.items()
        }
        ticked = {
            agent.spec.topic
            for agent in self.agents
            if agent.spec.name in self.ticks or agent.spec.name in self.clocks
        }
        since = dict.fromkeys(assigned, now) if self._shut else self._last
        self._last = {
            place: max(since.get(place, seen.get(place, now)), seen.get(place, 0.0))
            for place in assigned
            if place[0] not in ticked
        }
        return {place: now - last for place, last in self._last.items()}

    @property
    def _shut(self) -> bool:
        """Whether nothing can come: tables are recovered, or the broker is away."""
        return self.recovering() or not self.brokers.here

    def _say_idle(self, waited: Mapping[Place, float]) -> None:
        """Which partitions get no events, of the logs in which each holds releases back."""
        for agent in self.agents:
            if agent.spec.raw or agent.spec.ticks:
                mine = {n: each for (topic, n), each in waited.items() if topic == agent.spec.topic}
                idle = [n for n, each in mine.items() if each > self.idle_after]
                self.diary.idle(agent.spec.topic, idle, self.idle_after)

    async def _lag(self, assigned: set[Place]) -> int:
        """Messages that are not acknowledged. StateError where a topic has other partitions than
        before, or was made anew.
        """
        lag = await self._ask("how far the group is", partial(self.offsets.lag, assigned))
        for agent in self.agents:
            topic = agent.spec.topic
            found = await self._ask(
                f"how many partitions {topic} has", partial(self.offsets.partitions, topic)
            )
            check_partitions(agent.spec.topic, agent.spec.partitions, found)
            if agent.spec.raw and self.raw is not None:
                await self._ask("the id of the raw topic", self.raw.check)
        busy = {
            (agent.spec.topic, number)
            for agent in self.agents
            for number, epoch in agent.epochs.items()
            if epoch.unsaved
        }
        self.health.waiting(lag, lag.keys() if self.recovering() else busy)
        return int(sum(lag.values()))

    async def tick(self, agent: Agent, assigned: set[Place]) -> None:
        """Tell an idle partition how far event time has come on the others: appended to the log,
        never used in a fold directly.

        On others of this worker where that is news, else on those of all workers, as their
        snapshots say: a worker may own idle partitions only.
        """
        ticks, now = self.ticks[agent.spec.name], time.monotonic()
        mine = [number for topic, number in sorted(assigned) if topic == agent.spec.topic]
        seen = {number: epoch.seen for number, epoch in agent.epochs.items()}
        marks = {n: epoch.stage.watermark(epoch.state) for n, epoch in agent.epochs.items()}
        idle = ticks.idle(mine, seen, now)
        latest = max(marks.values(), default=-1)
        if ticks.asks(idle, marks, now):
            others = set(range(agent.spec.partitions)) - set(mine)
            if others:
                ask = partial(self.offsets.latest, agent.spec, others, agent.seal)
                latest = max(latest, await self._ask("how far the others are", ask))
        for number in ticks.due(idle, marks, latest, now):
            self.send([Record(agent.spec.topic, number, None, encode_json(Tick(latest)))])

    def tick_by_clock(self, agent: Agent, assigned: set[Place]) -> None:
        """Tell the partitions which slot has begun: appended to the log, never used in a fold
        directly. One of which nothing has come since it was assigned has no epoch yet: were it not
        told, its slots would close with its next event, and show when that came.
        """
        mine = [number for topic, number in assigned if topic == agent.spec.topic]
        epochs = {number: agent.epochs.get(number) for number in mine}
        marks = {
            number: None if epoch is None else epoch.stage.watermark(epoch.state)
            for number, epoch in epochs.items()
        }
        due = self.clocks[agent.spec.name].due(marks, int(time.time() * 1000))
        for number, time_ms in due.items():
            self.send([Record(agent.spec.topic, number, None, encode_json(Tick(time_ms)))])

    async def _ask(self, about: str, question: Callable[[], Any]) -> Any:
        """Ask a broker in a thread. UnansweredError where it does not answer."""
        return await asyncio.to_thread(self.brokers.ask, about, question)


class Backlog:
    """Shows the lag of a worker's partitions. A thread asks: the loop stands still while a fold
    runs.

    Parameters
    ----------
    offsets : asks the brokers
    assigned : gives the partitions that the worker has, none where they are being given out
    brokers : whether the brokers are there
    """

    def __init__(
        self,
        offsets: GroupOffsets,
        assigned: Callable[[], set[Place]],
        metrics: Metrics,
        brokers: BrokerHealth,
    ) -> None:
        self.offsets, self.assigned = offsets, assigned
        self.metrics, self.brokers = metrics, brokers
        self._over = threading.Event()

    def start(self) -> None:
        """Ask from now on, until `stop`."""
        threading.Thread(target=self._run, daemon=True, name="backlog").start()

    def stop(self) -> None:
        """Ask no more."""
        self._over.set()

    def _run(self) -> None:
        while not self._over.is_set():
            self.look()
            self._over.wait(ASK)

    def look(self) -> None:
        """Ask once. What the broker forbids is left to the watch, which asks for it too."""
        places = self.assigned()
        if not places or not self.brokers.here:
            return
        try:
            lag = self.brokers.ask("how far the group is", partial(self.offsets.lag, places))
        except (UnansweredError, LdpKafkaError):
            return
        if places == self.assigned():  # else it is of partitions that others have now
            self.metrics.lag(sum(lag.values()))
