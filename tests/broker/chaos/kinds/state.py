"""Faults of a state and of offsets: a changelog is old, lost, altered or under another key; a group
begins again.
"""

from __future__ import annotations

import time

from confluent_kafka import Consumer, Producer, TopicPartition

from ldp_kafka.runtime.kafka import admin
from ldp_kafka.runtime.kafka.admin import TopicSpec
from ldp_kafka.runtime.keys import read_key
from ldp_kafka.runtime.tools.rotate_key import rotate
from ldp_kafka.runtime.tools.state import rewind
from ldp_kafka.topology.roles import Agent, Role
from tests.broker.chaos.kinds.fault import edge, must
from tests.broker.chaos.world import Crew, World
from tests.broker.flow import Flow, Reader

HALT = 1  # what a worker ends with that must not go on


def stop_all(world: World) -> None:
    world.steady(20)
    for crew in world.crews:
        world.leave(crew)


def start_all(world: World) -> None:
    for crew in world.crews:
        world.start(crew)


def changelog(flow: Flow, role: Role, agent: Agent) -> TopicSpec:
    name = role.changelog(agent.name)
    topic = next(topic for topic in flow.topology.topics() if topic.name == name)
    return TopicSpec(topic.name, topic.partitions, topic.config)


def read_all(world: World, topic: str) -> list:
    reader = Reader(world.boot, topic, None)
    try:
        return reader.read(30)
    finally:
        reader.consumer.close()


def remake(world: World, spec: TopicSpec, records: list) -> None:
    """Delete a topic and make it anew with these records; the judge gets to see what was in it."""
    flow = next(flow for flow in world.flows if spec.name.startswith(f"{flow.topology.name}-"))
    flow.gone.setdefault(spec.name, []).extend(read_all(world, spec.name))
    for answer in world.admin.delete_topics([spec.name]).values():
        answer.result(30)
    must(
        world.until(lambda: spec.name not in world.admin.list_topics(timeout=10).topics, 30),
        f"{spec.name} did not go",
    )
    for attempt in range(20):
        try:
            admin.ensure({"bootstrap.servers": world.boot}, [spec])
            break
        except Exception:
            if attempt == 19:
                raise
            time.sleep(0.5)
    producer = Producer({"bootstrap.servers": world.boot, "log_level": 0})
    failed: list = []
    for message in records:
        producer.produce(
            spec.name,
            message.value(),
            message.key(),
            message.partition(),
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
    must(producer.flush(30) == 0 and not failed, f"{spec.name} was not written: {failed[:1]}")


def reset(world: World, group: str, offsets: dict[tuple[str, int], int]) -> None:
    """Set a group's offsets; nobody may be in it."""
    consumer = Consumer(
        {"bootstrap.servers": world.boot, "group.id": group, "enable.auto.commit": False}
    )
    try:
        places = [
            TopicPartition(topic, number, offset) for (topic, number), offset in offsets.items()
        ]
        done = world.until(
            lambda: consumer.commit(offsets=places, asynchronous=False) is not None, 40
        )
        must(done, f"the offsets of {group} were not taken")
    finally:
        consumer.close()


def halted(world: World, crew: Crew, words: str) -> None:
    """Start a worker that must refuse."""
    begin = crew.log.stat().st_size
    world.start(crew)
    crew.held = True
    end = time.time() + 120
    while crew.running and time.time() < end:
        time.sleep(0.1)
    said = crew.log.read_bytes()[begin:].decode(errors="replace")
    ended = None if crew.running else crew.process.returncode
    if crew.running:
        world.end(crew)
    must(
        ended == HALT and words in said,
        f"it must halt with {HALT} and say {words!r}: {ended}, {said[-800:]}",
    )


def old_state(world: World) -> str:
    """The changelog of the edge is one of some time ago: the worker must halt. The way out is
    `state rewind`.
    """
    flow = world.random.choice(world.flows)
    topology, spec = flow.topology, changelog(flow, *edge(flow))
    must(world.acknowledged(flow, world.raw_ends(flow)), "the log was not folded")
    old = read_all(world, spec.name)
    marks = world.raw_ends(flow)
    world.pause(3.5)
    must(
        world.acknowledged(flow, {at: offset + 1 for at, offset in marks.items()}),
        "the log was not folded further",
    )
    stop_all(world)
    remake(world, spec, old)
    halted(world, world.crews[0], "was acknowledged: it is an old one")
    plan = rewind(topology, edge(flow)[0].name, do=True, key=read_key(topology.edge.key_file))
    must(bool(plan.moves) and not plan.refusals, f"`state rewind` must find a way back: {plan}")
    start_all(world)
    return topology.privacy.method


def lost_state(world: World) -> str:
    """The changelog of the edge is gone, the group's offsets are not: the worker must halt. The way
    out is to begin at the log's start, which gives the same reports.
    """
    flow = world.random.choice(world.flows)
    topology, spec = flow.topology, changelog(flow, *edge(flow))
    must(world.acknowledged(flow, world.raw_ends(flow)), "the log was not folded")
    stop_all(world)
    remake(world, spec, [])
    halted(world, world.crews[0], "the changelog holds no complete state")
    reset(
        world,
        edge(flow)[0].group,
        {(topology.raw_topic, number): 0 for number in range(topology.input.partitions)},
    )
    start_all(world)
    return topology.privacy.method


def altered_state(world: World) -> str:
    """Somebody changes a bit of a sealed record of the edge, or lays one where another was: the
    worker must halt. The way out is the changelog as it was.
    """
    flow = world.random.choice(world.flows)
    spec = changelog(flow, *edge(flow))
    must(world.acknowledged(flow, world.raw_ends(flow)), "the log was not folded")
    stop_all(world)
    held = {m.key(): m for m in read_all(world, spec.name)}
    sealed = [m for m in held.values() if m.value() and b"/meta/" not in m.key()]
    one, other = world.random.sample(sealed, 2)
    value = bytearray(one.value())
    value[-world.random.randrange(1, 40)] ^= 1 << world.random.randrange(8)
    name, written, says = world.random.choice(
        [("altered", bytes(value), "was altered"), ("moved", other.value(), "was moved")]
    )
    flow.forged.add((one.key(), written))
    world.write(spec.name, one.partition(), one.key(), written)
    halted(world, world.crews[0], says)
    world.write(spec.name, one.partition(), one.key(), one.value())
    start_all(world)
    return f"{flow.topology.privacy.method}: {name}"


def wrong_key(world: World) -> str:
    """A machine comes back with another key, over a state and, at times, with nothing to read: its
    workers must halt. The way out is the old file.
    """
    flow = world.random.choice(world.flows)
    file = flow.path.with_suffix(".key")
    must(world.acknowledged(flow, world.raw_ends(flow)), "the log was not folded")
    stop_all(world)
    before = file.read_bytes()
    file.write_bytes(world.random.randbytes(32))
    halted(world, world.crews[0], "written under another key")
    file.write_bytes(before)
    start_all(world)
    return flow.topology.privacy.method


def rotated(world: World) -> str:
    """All workers are stopped, the key of a topology is rotated, all are started again."""
    flow = world.random.choice(world.flows)
    must(world.acknowledged(flow, world.raw_ends(flow)), "the log was not folded")
    stop_all(world)
    done = rotate([flow.topology], do=True)
    start_all(world)
    return f"{flow.topology.privacy.method}, {len(read_key(done.file).later)}"


def offsets_reset(world: World, state: bool) -> str:
    """A group is told to begin again at 0, with its state or without."""
    flow = world.random.choice(world.flows)
    role = world.random.choice(flow.topology.roles)
    stop_all(world)
    if not state:
        for agent in role.agents:
            remake(world, changelog(flow, role, agent), [])
    reset(
        world,
        role.group,
        {(place.topic, place.partition): 0 for of, place in world.logs(flow) if of == role.group},
    )
    start_all(world)
    return f"{flow.topology.privacy.method} {role.name}"


def offsets_reset_with_state(world: World) -> str:
    """The state covers what comes again: nothing is said twice."""
    return offsets_reset(world, True)


def offsets_reset_without_state(world: World) -> str:
    """Everything is folded again, byte for byte."""
    return offsets_reset(world, False)
