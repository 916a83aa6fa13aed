"""Faults of topics: brokers refuse what is written, or take what nobody reads."""

from __future__ import annotations

from confluent_kafka import KafkaException, Producer

from tests.broker.asking import configure as set_topic
from tests.broker.chaos.fault import NotHeld, must
from tests.broker.chaos.world import Harness

TOO_LARGE = ("Message size too large",)
TOO_OLD = ("nvalid timestamp", "imestamp")


def configure(world: Harness, topic: str, name: str, value: str | None) -> None:
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


def refused(
    world: Harness,
    kinds: tuple[str, ...],
    setting: str,
    values: tuple[str, ...],
    words: tuple[str, ...],
) -> str:
    """Change a topic of one of these kinds, or the changelog of the raw log's reader, so that it
    refuses what workers write, until one of them minds in one of these words; then so that it
    refuses some of it, for some seconds each; and put it right again. Whoever wrote it ends, and is
    started again until then.
    """
    flow = world.random.choice(world.flows)
    there = [topic.name for kind in kinds if (topic := getattr(flow.topology.flow, kind))]
    role, agent = flow.edge
    topic = world.random.choice(there or [role.changelog(agent.name)])
    marks = world.marks()
    configure(world, topic, setting, values[0])
    # a worker that a fault before this one has ended may have to come back first: on a busy machine
    # that took more than a minute
    minded = world.until(lambda: world.heard(marks, topic, words), 120)
    for other in values[1:]:
        configure(world, topic, setting, other)
        world.pause(world.random.uniform(1, 3))
    configure(world, topic, setting, None)
    must(minded, f"nobody minded that {topic} took nothing")
    return topic.removeprefix(flow.topology.name)


def oversize_event(world: Harness) -> str:
    """A raw message that is larger than any worker reads: a dead letter."""
    flow = world.random.choice(world.flows)
    configure(world, flow.topology.raw_topic, "max.message.bytes", "4000000")
    producer = Producer(
        {"bootstrap.servers": world.boot, "message.max.bytes": 4_000_000, "log_level": 0}
    )
    failed: list = []
    for _ in range(20):  # the broker hears of its new limit in its own time
        failed.clear()
        producer.produce(
            flow.topology.raw_topic,
            b"x" * 2_200_000,
            partition=0,
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
        if producer.flush(20) == 0 and not failed:
            return flow.topology.privacy.method
        world.pause(0.2)
    raise NotHeld(f"the broker did not take it: {failed}")
