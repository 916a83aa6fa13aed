"""Faults of brokers: they refuse what is written, their disks are full; and how one ends and comes
back.
"""

from __future__ import annotations

import os
import signal
import time

from confluent_kafka import KafkaException, Producer

from tests.broker.chaos.kinds.fault import NotHeld, edge, must, written
from tests.broker.chaos.place import alive
from tests.broker.chaos.world import World
from tests.broker.flow import Flow
from tests.broker.flow import configure as set_topic

# -- what is written
# ------------------------------------------------------------


def configure(world: World, topic: str, name: str, value: str | None) -> None:
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
    world: World,
    topic: str,
    setting: str,
    value: str,
    words: tuple[str, ...],
    then: tuple[str, ...] = (),
) -> None:
    """Change a topic so that it refuses what workers write, until one of them minds; ``then`` so
    that it refuses some of it, for some seconds each; and put it right again.
    """
    marks = world.marks()
    configure(world, topic, setting, value)
    # a worker that a fault before this one has ended may have to come back first: on a busy machine
    # that took more than a minute
    minded = world.until(lambda: world.heard(marks, topic, words), 120)
    for other in then:
        configure(world, topic, setting, other)
        world.pause(world.random.uniform(1, 3))
    configure(world, topic, setting, None)
    must(minded, f"nobody minded that {topic} took nothing")


def oversize_event(world: World) -> str:
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


def produce_error(world: World) -> str:
    """The broker refuses a record for another reason than its size: it takes none that is older
    than its clock. Whoever wrote it ends, and is started again until the topic is put right.
    """
    flow = world.random.choice(world.flows)
    topic = world.random.choice(written(flow, "reports", "releases", "requests"))
    refused(world, topic, "message.timestamp.before.max.ms", "0", ("nvalid timestamp", "imestamp"))
    return topic.partition(".")[2]


def oversize_record(world: World) -> str:
    """A record that the broker takes for too large; at first they all are, then a large one is, and
    what comes behind it is not.
    """
    flow = world.random.choice(world.flows)
    topic = world.random.choice(written(flow, "reports", "releases", "partials", "sums"))
    refused(
        world, topic, "max.message.bytes", "64", ("Message size too large",), then=("400", "1500")
    )
    return topic.partition(".")[2]


def oversize_state(world: World) -> str:
    """The same in a changelog."""
    flow = world.random.choice(world.flows)
    role, agent = edge(flow)
    topic = role.changelog(agent.name)
    refused(world, topic, "max.message.bytes", "64", ("Message size too large",))
    return flow.topology.privacy.method


# -- brokers
# ------------------------------------------------------------


def start_brokers(world: World, *, again: bool = False) -> None:
    """Start what is down; ``again``: everything, as a log directory that failed once is not looked
    at any more.
    """
    if again:
        world.server.stop(10)
    for attempt in range(3):
        try:
            world.server.start()
        except Exception:
            if attempt == 2:
                raise
            time.sleep(2)
        else:
            return


def broker_disk_full(world: World) -> str:
    """No byte more where the brokers have their logs: they end, or take nothing, until there is
    room and they are started again.
    """
    ran = world.pids()
    world.disk.fill(ran)
    end = time.time() + 8
    while time.time() < end and all(map(alive, ran)):
        world.pause(0.3)
    ended = sum(not alive(pid) for pid in ran)
    world.disk.free()
    start_brokers(world, again=True)
    must(ended > 0, f"{world.disk.how}, and the brokers minded nothing")
    return f"{world.disk.how}; {ended} of {len(ran)} brokers ended by themselves"


def end_node(world: World, node: int, number: int) -> str:
    """End one node and wait until it is gone; whether it took force."""
    pid, forced = world.server.pids()[node], ""
    os.kill(pid, number)
    end = time.time() + 40
    while alive(pid):
        if time.time() > end:
            os.kill(pid, signal.SIGKILL)
            forced = ", by force"
        world.pause(0.1)
    return forced


def bounced(world: World, number: int) -> str:
    """One node ends and comes back."""
    node = world.random.randrange(world.nodes)
    forced = end_node(world, node, number)
    world.pause(1)
    start_brokers(world)
    return f"node {node + 1} of {world.nodes}{forced}"


def leader(world: World, flow: Flow) -> int:
    """The id of the node that leads partition 0 of a raw topic, as the brokers say; -1 for none, or
    where they do not know the topic yet.
    """
    found = (
        world.admin.list_topics(flow.topology.raw_topic, timeout=10)
        .topics[flow.topology.raw_topic]
        .partitions
    )
    return found[0].leader if 0 in found else -1
