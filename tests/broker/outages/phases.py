"""What a topology is doing when the brokers go. Whoever could leave its phase is stopped in it, for
a second or two, so that all phases are there at once, and each is seen to be there.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from ldp_kafka.methods.protocols.request import SECOND
from ldp_kafka.runtime.kafka.changelog import read_key
from ldp_kafka.runtime.recovery.checkpoints import META
from ldp_kafka.runtime.recovery.keys import place_of
from ldp_kafka.runtime.wire.parsing import parse_json
from ldp_kafka.runtime.wire.reports import read_reports
from tests.broker.asking import header

if TYPE_CHECKING:
    from tests.broker.outages.subjects import Subject
    from tests.broker.outages.world import OutageWorld

__all__ = ["PHASES", "Missed", "Phase"]

WAIT = 60.0  # seconds for a phase to come about
LOOK = 0.003  # seconds between two looks whether it does


class Missed(AssertionError):
    """A phase that did not come about, or was over each time before it was seen."""


class Phase:
    """One thing that a topology can be doing."""

    turn = 0
    """Phases of the same turn come about at the same time, one turn after the other."""
    stops = True
    """Whether its workers would leave it: then they are stopped in it."""

    def ready(self, world: OutageWorld, subject: Subject) -> None:
        """Have everything there that is to happen."""

    def begin(self, world: OutageWorld, subject: Subject) -> None:
        """Have it happen."""

    def comes(self, world: OutageWorld, subject: Subject) -> bool:
        """Whether it is about to be there."""
        raise NotImplementedError

    def there(self, world: OutageWorld, subject: Subject) -> str:
        """What shows that it is there, its workers being stopped; empty where it is not."""
        raise NotImplementedError

    def again(self, world: OutageWorld, subject: Subject) -> None:
        """It was over before it was seen: have it happen once more."""

    def over(self, world: OutageWorld, subject: Subject) -> None:
        """The brokers are back."""

    def hold(self, world: OutageWorld, subject: Subject) -> float:
        """Wait for it, and stop the workers in it; when that was.

        Raises
        ------
        Missed : it was not seen
        """
        self.begin(world, subject)
        end = time.time() + WAIT
        while time.time() < end:
            if not self.comes(world, subject):
                time.sleep(LOOK)
                continue
            stopped, at = (subject.edges if self.stops else []), time.time()
            for worker in stopped:
                worker.pause()
            subject.held = self.there(world, subject)
            if subject.held:
                return at
            for worker in stopped:
                worker.resume()
            self.again(world, subject)
        raise Missed(
            f"{subject.topology.name}: {subject.phase} did not come about in {WAIT:g} s;"
            f" {world.ask.left(subject.raw_log)} messages are left, its group is"
            f" {world.group(subject).state}, of its workers"
            f" {sum(worker.runs for _, worker in subject.workers)} of {len(subject.workers)} run"
        )


class Idle(Phase):
    """Nothing comes in, and all is folded and saved. That lasts."""

    stops = False

    def begin(self, world: OutageWorld, subject: Subject) -> None:
        subject.fed = False

    def comes(self, world: OutageWorld, subject: Subject) -> bool:
        time.sleep(0.1)
        return world.ask.left(subject.logs) == 0

    def there(self, world: OutageWorld, subject: Subject) -> str:
        return "" if world.ask.left(subject.logs) else "nothing is left to fold"

    def over(self, world: OutageWorld, subject: Subject) -> None:
        subject.fed = True


class Recovering(Phase):
    """A worker is just started, and reads its tables."""

    turn = 1

    def ready(self, world: OutageWorld, subject: Subject) -> None:
        subject.end(subject.edges[-1])

    def begin(self, world: OutageWorld, subject: Subject) -> None:
        subject.start(subject.edge[0].name)

    def again(self, world: OutageWorld, subject: Subject) -> None:
        self.ready(world, subject)
        self.begin(world, subject)

    def comes(self, world: OutageWorld, subject: Subject) -> bool:
        return any(line["partitions"] for line in subject.edges[-1].lines("assigned"))

    def there(self, world: OutageWorld, subject: Subject) -> str:
        return "" if subject.edges[-1].lines("ready") else "it has partitions, and no tables yet"


class Joining(Phase):
    """One more worker has joined, and the group gives out its partitions anew."""

    turn = 1

    def ready(self, world: OutageWorld, subject: Subject) -> None:
        for worker in subject.edges[1:]:
            subject.end(worker)
        world.wait_for(lambda: world.group(subject).state == "Stable", "its group is stable")

    def begin(self, world: OutageWorld, subject: Subject) -> None:
        subject.start(subject.edge[0].name)

    again = Recovering.again

    def comes(self, world: OutageWorld, subject: Subject) -> bool:
        return world.group(subject).state not in ("Stable", "Empty")

    def there(self, world: OutageWorld, subject: Subject) -> str:
        state = world.group(subject).state
        return f"its group is {state}" if state not in ("Stable", "Empty") else ""


class Leaving(Joining):
    """A worker has just left, in order, and another one is to have what it had."""

    def ready(self, world: OutageWorld, subject: Subject) -> None:
        if len(subject.edges) < 2:
            subject.start(subject.edge[0].name)

        def together() -> bool:
            group = world.group(subject)
            return group.state == "Stable" and len(group.members) == 2

        world.wait_for(together, "two are in its group")

    def begin(self, world: OutageWorld, subject: Subject) -> None:
        subject.tell_to_end(subject.edges[-1])


class Asking(Phase):
    """A request is written, and nobody has answered it yet."""

    turn = 1

    def __init__(self) -> None:
        self.seen: dict[str, int] = {}

    def comes(self, world: OutageWorld, subject: Subject) -> bool:
        topic = subject.topology.requests_topic
        end = world.ask.end(topic, 0)
        last = self.seen.get(topic, end)
        self.seen[topic] = end
        return end > last

    def there(self, world: OutageWorld, subject: Subject) -> str:
        topology = subject.topology
        _, value = world.ask.last(topology.requests_topic, 0)
        if header(value) or not (request := parse_json(value))["epsilon"]:
            return ""  # nobody is asked
        for message in subject.read(topology.reports_topic):
            batch = read_reports(message.value())
            said = [] if batch is None else batch.singles()
            if any(one.slot == request["slot"] and one.phase == SECOND for one in said):
                return ""
        return f"slot {request['slot']} is asked for, and nobody has answered"


class Saving(Phase):
    """A snapshot is half written: shards are there, and their ``meta`` is not."""

    turn = 2

    def __init__(self) -> None:
        self.seen: dict[str, tuple[int, float]] = {}

    def comes(self, world: OutageWorld, subject: Subject) -> bool:
        """Records come after a silence."""
        role, agent = subject.edge
        name = role.changelog(agent.name)
        ends = sum(world.ask.end(name, number) for number in range(agent.partitions))
        last, since = self.seen.get(name, (ends, time.time()))
        moved = ends != last
        self.seen[name] = (ends, time.time() if moved else since)
        return moved and time.time() - since > 0.1

    def there(self, world: OutageWorld, subject: Subject) -> str:
        time.sleep(0.05)  # what is on its way arrives
        role, agent = subject.edge
        for number in range(agent.partitions):
            key, value = world.ask.last(role.changelog(agent.name), number)
            part = place_of(read_key(key)).split("/")[1]
            if part != META and value is not None:
                return f"shard {part} of partition {number} is written, and its meta is not"
        return ""


class Folding(Phase):
    """Messages are folded, and not yet saved."""

    turn = 2

    def comes(self, world: OutageWorld, subject: Subject) -> bool:
        return world.ask.left(subject.raw_log) > 0

    def there(self, world: OutageWorld, subject: Subject) -> str:
        left = world.ask.left(subject.raw_log)
        return f"{left} messages are not acknowledged" if left else ""


PHASES: dict[str, Callable[[], Phase]] = {
    "idle": Idle,
    "folding": Folding,
    "snapshot": Saving,
    "recovery": Recovering,
    "rebalance": Joining,
    "leave": Leaving,
    "round": Asking,
}
"""By name; ``leave`` is a rebalance, too."""
