"""Faults of a state and of offsets: a changelog is old, lost, altered or under another key; a group
begins again.
"""

from __future__ import annotations

import time

from confluent_kafka import Consumer, TopicPartition

from ldp_kafka.runtime.kafka import admin
from ldp_kafka.runtime.kafka.admin import TopicSpec
from ldp_kafka.runtime.keys import read_key
from ldp_kafka.runtime.tools.rotate_key import rotate
from ldp_kafka.runtime.tools.state import rewind
from ldp_kafka.topology.roles import Agent, Role
from tests.broker.asking import append, everything
from tests.broker.chaos.fault import must
from tests.broker.chaos.world import ChaosWorld
from tests.broker.flow import Flow

HALT = 1  # what a worker ends with that must not go on


def stop_all(world: ChaosWorld) -> None:
    world.steady(20)
    for crew in world.crews:
        crew.leave()


def start_all(world: ChaosWorld) -> None:
    for crew in world.crews:
        crew.start()


def folded(world: ChaosWorld) -> Flow:
    """A topology whose raw log is folded and acknowledged as far as it goes now."""
    flow = world.random.choice(world.flows)
    must(world.acknowledged(flow, world.ask.ends(flow.raw_log)), "the log was not folded")
    return flow


def at_rest(world: ChaosWorld) -> Flow:
    """The same, and then all workers are stopped."""
    flow = folded(world)
    stop_all(world)
    return flow


def remake(world: ChaosWorld, flow: Flow, role: Role, agent: Agent, records: list) -> None:
    """Delete a changelog and make it anew with these records; the judge gets to see what was in
    it.
    """
    name = role.changelog(agent.name)
    topic = next(topic for topic in flow.topology.topics() if topic.name == name)
    flow.gone.setdefault(name, []).extend(everything(world.boot, name))
    for answer in world.admin.delete_topics([name]).values():
        answer.result(30)
    gone = lambda: name not in world.admin.list_topics(timeout=10).topics  # noqa: E731
    must(world.until(gone, 30), f"{name} did not go")
    for attempt in range(20):
        try:
            spec = TopicSpec(name, topic.partitions, topic.config)
            admin.ensure({"bootstrap.servers": world.boot}, [spec])
            break
        except Exception:
            if attempt == 19:
                raise
            time.sleep(0.5)
    append(world.boot, name, *((m.partition(), m.key(), m.value()) for m in records))


def reset(world: ChaosWorld, flow: Flow, group: str) -> None:
    """Have a group begin again at 0; nobody may be in it."""
    consumer = Consumer(
        {"bootstrap.servers": world.boot, "group.id": group, "enable.auto.commit": False}
    )
    places = [TopicPartition(at.topic, at.partition, 0) for of, at in flow.logs if of == group]
    try:
        done = world.until(
            lambda: consumer.commit(offsets=places, asynchronous=False) is not None, 40
        )
        must(done, f"the offsets of {group} were not taken")
    finally:
        consumer.close()


def halted(world: ChaosWorld, words: str) -> None:
    """Start a worker that must refuse."""
    crew = world.crews[0]
    begin = crew.log.stat().st_size
    crew.start()
    crew.held = True
    end = time.time() + 120
    while crew.running and time.time() < end:
        time.sleep(0.1)
    said = crew.log.read_bytes()[begin:].decode(errors="replace")
    ended = None if crew.running else crew.process.returncode
    if crew.running:
        crew.end()
    must(
        ended == HALT and words in said,
        f"it must halt with {HALT} and say {words!r}: {ended}, {said[-800:]}",
    )


def old_state(world: ChaosWorld) -> str:
    """The changelog of the edge is one of some time ago: the worker must halt. The way out is
    `state rewind`.
    """
    flow = folded(world)
    topology, (role, agent) = flow.topology, flow.edge
    old = everything(world.boot, role.changelog(agent.name))
    further = {at: offset + 1 for at, offset in world.ask.ends(flow.raw_log).items()}
    world.pause(3.5)
    must(world.acknowledged(flow, further), "the log was not folded further")
    stop_all(world)
    remake(world, flow, role, agent, old)
    halted(world, "was acknowledged: it is an old one")
    plan = rewind(topology, role.name, do=True, key=read_key(topology.edge.key_file))
    must(plan.moves and not plan.refusals, f"`state rewind` must find a way back: {plan}")
    start_all(world)
    return topology.privacy.method


def lost_state(world: ChaosWorld) -> str:
    """The changelog of the edge is gone, the group's offsets are not: the worker must halt. The way
    out is to begin at the log's start, which gives the same reports.
    """
    flow = at_rest(world)
    role, agent = flow.edge
    remake(world, flow, role, agent, [])
    halted(world, "the changelog holds no complete state")
    reset(world, flow, role.group)
    start_all(world)
    return flow.topology.privacy.method


def altered_state(world: ChaosWorld) -> str:
    """Somebody changes a bit of a sealed record of the edge, or lays one where another was: the
    worker must halt. The way out is the changelog as it was.
    """
    flow = at_rest(world)
    role, agent = flow.edge
    topic = role.changelog(agent.name)
    held = {m.key(): m for m in everything(world.boot, topic)}
    sealed = [m for m in held.values() if m.value() and b"/meta/" not in m.key()]
    one, other = world.random.sample(sealed, 2)
    value = bytearray(one.value())
    value[-world.random.randrange(1, 40)] ^= 1 << world.random.randrange(8)
    name, written, says = world.random.choice(
        [("altered", bytes(value), "was altered"), ("moved", other.value(), "was moved")]
    )
    flow.forged.add((one.key(), written))
    append(world.boot, topic, (one.partition(), one.key(), written))
    halted(world, says)
    append(world.boot, topic, (one.partition(), one.key(), one.value()))
    start_all(world)
    return f"{flow.topology.privacy.method}: {name}"


def wrong_key(world: ChaosWorld) -> str:
    """A machine comes back with another key, over a state and, at times, with nothing to read: its
    workers must halt. The way out is the old file.
    """
    flow = at_rest(world)
    file = flow.path.with_suffix(".key")
    before = file.read_bytes()
    file.write_bytes(world.random.randbytes(32))
    halted(world, "written under another key")
    file.write_bytes(before)
    start_all(world)
    return flow.topology.privacy.method


def rotated(world: ChaosWorld) -> str:
    """All workers are stopped, the key of a topology is rotated, all are started again."""
    flow = at_rest(world)
    done = rotate([flow.topology], do=True)
    start_all(world)
    return f"{flow.topology.privacy.method}, {len(read_key(done.file).later)}"


def begun_again(world: ChaosWorld, state: bool) -> str:
    """A group is told to begin again at 0: with its state, which covers what comes again, nothing
    is said twice; without it everything is folded again, byte for byte.
    """
    flow = world.random.choice(world.flows)
    role = world.random.choice(flow.topology.roles)
    stop_all(world)
    if not state:
        for agent in role.agents:
            remake(world, flow, role, agent, [])
    reset(world, flow, role.group)
    start_all(world)
    return f"{flow.topology.privacy.method} {role.name}"
