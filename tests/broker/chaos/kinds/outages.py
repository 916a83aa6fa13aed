"""Brokers that are away for a while and come back, all at once or one by one. None of it may cost a
process: whoever asks to be started again because of it is wrong.
"""

from __future__ import annotations

import os
import signal
import time
from functools import wraps

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.broker.chaos.crew import AGAIN
from tests.broker.chaos.kinds.brokers import bounced, end_node, leader, start_brokers
from tests.broker.chaos.kinds.fault import Fault, must
from tests.broker.chaos.place import alive
from tests.broker.chaos.world import SESSION, World

AT_MOST, LONGEST = 60.0, 290.0  # seconds that an outage lasts; what costs no exit is up to 300
STILL = 3.0  # seconds without a start, after which what came before is over
AFTER = 120.0  # seconds for what came in meanwhile to be folded, on a busy machine


def costs_no_exit(fault: Fault) -> Fault:
    """After it nobody may have asked to be started again, and everybody goes on."""

    @wraps(fault)
    def checked(world: World) -> str:
        settled(world)
        marks, before = world.marks(), world.retried
        said = fault(world)
        ends = {}
        for flow in world.flows:
            there = world.until(lambda flow=flow: ends.update(world.raw_ends(flow)) or True, 60)
            must(there, "the brokers gave no answer when they were back")
        for flow in world.flows:
            mine = {at: end for at, end in ends.items() if at[0] == flow.topology.raw_topic}
            must(world.acknowledged(flow, mine, AFTER), f"{flow.topology.name} did not go on")
        again = world.retried - before
        lines = "\n".join(world.lines(marks, (AGAIN, "ldp-kafka: "), before=40))
        must(not again, f"{again} processes asked to be started again: {said}:\n{lines}")
        return said

    return checked


def settled(world: World, limit: float = 90.0) -> None:
    """Wait until what came before has cost all that it costs."""
    end, seen, since = time.time() + limit, world.retried, time.time()
    while time.time() < end:
        world.pause(0.3)
        now = world.retried
        seen, since = (now, since) if now == seen else (now, time.time())
        if time.time() - since > STILL and world.answered(world.stable):
            return


def freeze(world: World, seconds: float) -> None:
    """Brokers stand still: connections hang."""
    pids = world.pids()
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    world.pause(seconds)
    for pid in pids:
        os.kill(pid, signal.SIGCONT)


def stop(world: World, seconds: float, number: int) -> None:
    """Brokers are gone, in order or at once: connections are refused."""
    begin = time.time()
    for pid in (pids := world.pids()):
        os.kill(pid, number)
    while any(map(alive, pids)):
        if time.time() > begin + min(seconds, 20):  # the last of three cannot leave in order
            for pid in filter(alive, pids):
                os.kill(pid, signal.SIGKILL)
        world.pause(0.1)
    world.pause(begin + seconds - time.time())
    start_brokers(world)


def away(world: World, seconds: float) -> str:
    """All brokers are away for so long, frozen or gone."""
    how = world.random.choice(("frozen", "ended", "killed"))
    if how == "frozen":
        freeze(world, seconds)
    else:
        stop(world, seconds, signal.SIGTERM if how == "ended" else signal.SIGKILL)
    return f"{how} for {seconds:.1f} s"


@costs_no_exit
def outage(world: World) -> str:
    """All brokers are away for up to a minute; most outages are short."""
    return away(world, AT_MOST ** world.random.random())


@costs_no_exit
def long_outage(world: World) -> str:
    """All brokers are away for almost five minutes."""
    return away(world, LONGEST)


@costs_no_exit
def frozen_broker(world: World) -> str:
    """Brokers stand still for longer than a session: requests time out, members are thrown out."""
    freeze(world, SESSION + 2)
    return f"{SESSION + 2:g} s"


@costs_no_exit
def time_out(world: World) -> str:
    """The same for longer than a worker waits for any one thing that it asks a broker for."""
    freeze(world, 26)
    return "26 s"


@costs_no_exit
def broker_restart(world: World) -> str:
    """A broker goes in order and comes back."""
    return bounced(world, signal.SIGTERM)


@costs_no_exit
def broker_kill(world: World) -> str:
    """A broker is gone at once and comes back."""
    return bounced(world, signal.SIGKILL)


@costs_no_exit
def leader_change(world: World) -> str:
    """Who leads a raw log's partition is gone: another replica takes over."""
    flow = world.random.choice(world.flows)
    must(world.until(lambda: leader(world, flow) > 0, 30), "there was no leader to begin with")
    was = leader(world, flow)
    end_node(world, was - 1, signal.SIGKILL)
    changed = world.until(lambda: leader(world, flow) not in (was, -1), 30)
    start_brokers(world)
    must(changed, "no other replica took over")
    return f"from node {was}"


@costs_no_exit
def rolling_restart(world: World) -> str:
    """Every node ends in order and comes back, and is in sync before the next one ends."""
    for node in range(world.nodes):
        end_node(world, node, signal.SIGTERM)
        start_brokers(world)
        must(world.until(lambda: in_sync(world), 60), f"node {node + 1} did not come in sync")
    return f"{world.nodes} nodes"


def in_sync(world: World) -> bool:
    """Whether every replica of every partition is, as each of the nodes says."""
    for address in world.boot.split(","):
        try:
            topics = AdminClient({"bootstrap.servers": address, "log_level": 0}).list_topics(
                timeout=5
            )
        except KafkaException:
            return False
        parts = [each for topic in topics.topics.values() for each in topic.partitions.values()]
        if not parts or any(len(part.isrs) < world.nodes for part in parts):
            return False
    return True
