"""Faults of topics: brokers refuse what is written, or take what nobody reads."""

from __future__ import annotations

from typing import NamedTuple

from confluent_kafka import KafkaException

from ldp_kafka.errors import BrokerError
from tests.broker.asking import append
from tests.broker.asking import configure as set_topic
from tests.broker.chaos.fault import must
from tests.broker.chaos.world import ChaosWorld


class Refusal(NamedTuple):
    """A setting by which a topic refuses what workers write."""

    setting: str
    words: tuple[str, ...]
    """One of them is in the line of whoever minds."""
    values: tuple[str, ...]
    """The first refuses all, others some."""


TOO_OLD = Refusal("message.timestamp.before.max.ms", ("nvalid timestamp", "imestamp"), ("0",))
TOO_LARGE = Refusal("max.message.bytes", ("Message size too large",), ("64",))
SOME_TOO_LARGE = TOO_LARGE._replace(values=("64", "400", "1500"))
"""At first all are, then a large one is, and what comes behind it is not."""


def configure(world: ChaosWorld, topic: str, name: str, value: str | None) -> None:
    """Change a topic's setting, or take the change back, asking again where a broker is not there
    just then.
    """
    for attempt in range(10):
        try:
            set_topic(world.admin, topic, name, value)
        except (KafkaException, TimeoutError):
            if attempt == 9:
                raise
            world.pause(1)
        else:
            return


def refused(world: ChaosWorld, by: Refusal, kinds: tuple[str, ...] = ()) -> str:
    """Change a topic of one of these kinds, or the changelog of the raw log's reader, so that it
    refuses what workers write, until one of them minds; then so that it refuses some of it, for
    some seconds each; and put it right again. Whoever wrote it ends, and is started again until
    then.
    """
    flow = world.random.choice(world.flows)
    there = [topic.name for kind in kinds if (topic := getattr(flow.topology.flow, kind))]
    role, agent = flow.edge
    topic = world.random.choice(there or [role.changelog(agent.name)])
    marks = world.marks()
    configure(world, topic, by.setting, by.values[0])
    # a worker that a fault before this one has ended may have to come back first: on a busy machine
    # that took more than a minute
    minded = world.until(lambda: world.heard(marks, topic, by.words), 120)
    for other in by.values[1:]:
        configure(world, topic, by.setting, other)
        world.pause(world.random.uniform(1, 3))
    configure(world, topic, by.setting, None)
    must(minded, f"nobody minded that {topic} took nothing")
    return topic.removeprefix(flow.topology.name)


def oversize_event(world: ChaosWorld) -> str:
    """A raw message that is larger than any worker reads: a dead letter."""
    flow = world.random.choice(world.flows)
    topic, size = flow.topology.raw_topic, 4_000_000
    configure(world, topic, "max.message.bytes", str(size))
    for attempt in range(20):  # the broker hears of its new limit in its own time
        try:
            append(world.boot, topic, (0, None, b"x" * 2_200_000), **{"message.max.bytes": size})
            break
        except BrokerError:
            if attempt == 19:
                raise
        world.pause(0.2)
    return flow.topology.privacy.method
