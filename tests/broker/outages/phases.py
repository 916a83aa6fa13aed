"""What a topology is doing when the brokers go. Its workers are stopped at that moment, for a
second or two, so that all phases are there at once, and each is seen to be there.
"""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaException, TopicPartition

from ldp_kafka.methods.protocols.request import SECOND
from ldp_kafka.runtime.recovery.checkpoints import META
from ldp_kafka.runtime.wire.parsing import parse_json
from ldp_kafka.runtime.wire.reports import read_reports
from tests.broker.flow import header

if TYPE_CHECKING:
    from tests.broker.outages.subjects import Subject
    from tests.broker.outages.worker import Worker
    from tests.broker.outages.world import World

__all__ = ["PHASES", "Phase"]

WAIT = 40.0  # seconds for a phase to come about


class Phase(ABC):
    """One thing that a topology can be doing."""

    slow = False
    """Whether it takes seconds to come about: then it comes first."""

    def ready(self, world: World, subject: Subject) -> None:
        """Have everything there that is to happen."""

    def begin(self, world: World, subject: Subject) -> None:
        """Have it happen."""

    @abstractmethod
    def comes(self, world: World, subject: Subject) -> bool:
        """Whether it is about to be there."""

    @abstractmethod
    def there(self, world: World, subject: Subject) -> str:
        """What shows that it is there, the workers being stopped; empty where it is not."""

    def stopped(self, subject: Subject) -> list[Worker]:
        """Who is to stop meanwhile."""
        return subject.edges

    def over(self, world: World, subject: Subject) -> None:
        """The brokers are back."""

    def hold(self, world: World, subject: Subject) -> None:
        """Wait for it, and stop the workers in it."""
        end = time.time() + WAIT
        while time.time() < end:
            if not self.comes(world, subject):
                time.sleep(0.002)
                continue
            world.pause(self.stopped(subject))
            subject.held = self.there(world, subject)
            if subject.held:
                return
            world.resume(self.stopped(subject))
            self.begin_again(world, subject)
        raise AssertionError(f"{subject.flow.topology.name} never came into its phase")

    def begin_again(self, world: World, subject: Subject) -> None:
        """It was over before it was seen."""
        time.sleep(0.2)


class Idle(Phase):
    """Nothing comes in, and all is folded and saved."""

    slow = True

    def begin(self, world: World, subject: Subject) -> None:
        subject.fed = False

    def comes(self, world: World, subject: Subject) -> bool:
        time.sleep(0.1)
        return world.left(subject) == 0

    def there(self, world: World, subject: Subject) -> str:
        return "nothing is left to fold" if world.left(subject) == 0 else ""

    def over(self, world: World, subject: Subject) -> None:
        subject.fed = True


class Folding(Phase):
    """Messages are folded and not yet saved."""

    def comes(self, world: World, subject: Subject) -> bool:
        return world.left(subject) > 0

    def there(self, world: World, subject: Subject) -> str:
        left = world.left(subject)
        return f"{left} messages are not acknowledged" if left else ""


class Saving(Phase):
    """A snapshot is half written: shards are there, and their ``meta`` is not."""

    def __init__(self) -> None:
        self.seen: dict[str, tuple[int, float]] = {}

    def comes(self, world: World, subject: Subject) -> bool:
        """Records come after a silence."""
        role, agent = subject.edge
        name = role.changelog(agent.name)
        ends = sum(world.end(name, number) for number in range(agent.partitions))
        last, since = self.seen.get(name, (ends, time.time()))
        moved = ends != last
        self.seen[name] = (ends, time.time() if moved else since)
        return moved and time.time() - since > 0.1

    def there(self, world: World, subject: Subject) -> str:
        time.sleep(0.05)  # what is on its way arrives
        role, agent = subject.edge
        for number in range(agent.partitions):
            key, value = world.last(role.changelog(agent.name), number)
            part = json.loads(key).split("/")[1]
            if part != META and value is not None:
                return f"shard {part} of partition {number} is written, and its meta is not"
        return ""


class Recovering(Phase):
    """A worker is just started, and reads its tables."""

    slow = True

    def begin(self, world: World, subject: Subject) -> None:
        world.end_worker(subject, subject.edges[-1])
        subject.start(subject.edge[0].name)

    begin_again = begin

    def comes(self, world: World, subject: Subject) -> bool:
        time.sleep(0.003)
        return any(line["partitions"] for line in subject.edges[-1].lines("assigned"))

    def there(self, world: World, subject: Subject) -> str:
        return "" if subject.edges[-1].lines("ready") else "assigned, and not recovered"


class Joining(Phase):
    """One more worker has joined, and the group gives out its partitions anew."""

    slow = True

    def ready(self, world: World, subject: Subject) -> None:
        for worker in subject.edges[1:]:
            world.end_worker(subject, worker)
        world.until(lambda: world.state(subject) == "Stable")

    def begin(self, world: World, subject: Subject) -> None:
        subject.start(subject.edge[0].name)

    def begin_again(self, world: World, subject: Subject) -> None:
        self.ready(world, subject)
        self.begin(world, subject)

    def comes(self, world: World, subject: Subject) -> bool:
        return world.state(subject) not in ("Stable", "Empty")

    def there(self, world: World, subject: Subject) -> str:
        state = world.state(subject)
        return f"the group is {state}" if state not in ("Stable", "Empty") else ""


class Leaving(Joining):
    """A worker has just left, in order."""

    def ready(self, world: World, subject: Subject) -> None:
        if len(subject.edges) < 2:
            subject.start(subject.edge[0].name)
        world.until(lambda: world.state(subject) == "Stable" and world.members(subject) == 2)

    def begin(self, world: World, subject: Subject) -> None:
        subject.leave(subject.edges[-1])


class Asking(Phase):
    """A request is written, and nobody has answered it yet."""

    def __init__(self) -> None:
        self.seen: dict[str, int] = {}

    def comes(self, world: World, subject: Subject) -> bool:
        topic = subject.flow.topology.requests_topic
        end, last = world.end(topic, 0), self.seen.get(topic)
        self.seen[topic] = end
        return last is not None and end > last

    def there(self, world: World, subject: Subject) -> str:
        topology = subject.flow.topology
        _, value = world.last(topology.requests_topic, 0)
        if header(value):
            return ""
        request = parse_json(value)
        asked = request["slot"]
        if not request["epsilon"]:  # of nobody
            return ""
        for message in subject.flow.read(topology.reports_topic):
            batch = read_reports(message.value())
            said = [] if batch is None else batch.singles()
            if any(one.slot == asked and one.phase == SECOND for one in said):
                return ""
        return f"slot {asked} is asked for, and nobody has answered"


PHASES: dict[str, Callable[[], Phase]] = {
    "idle": Idle,
    "folding": Folding,
    "snapshot": Saving,
    "recovery": Recovering,
    "rebalance": Joining,
    "leave": Leaving,
    "round": Asking,
}
"""By name."""


def last(consumer: Consumer, topic: str, partition: int) -> tuple[bytes, bytes | None]:
    """Key and value of a partition's last record."""
    place = TopicPartition(topic, partition)
    end = consumer.get_watermark_offsets(place, timeout=5)[1]
    consumer.assign([TopicPartition(topic, partition, end - 1)])
    until = time.time() + 5
    while time.time() < until:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            consumer.unassign()
            return message.key() or b"", message.value()
    raise KafkaException(f"{topic}: its last record did not come")
