"""Faults of brokers: they stand still, end and come back, all at once or one by one, and have no
room on their disks.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

from tests.broker.chaos.fault import must
from tests.broker.chaos.world import ChaosWorld
from tests.broker.cluster import FROZEN

HOWS = (FROZEN, "ended", "killed")


def short(world: ChaosWorld) -> float:
    """Seconds of an outage, up to a minute: most are short."""
    return 60.0 ** world.random.random()


def away(
    world: ChaosWorld, seconds: float | Callable[[ChaosWorld], float], hows: tuple[str, ...] = HOWS
) -> str:
    """All are away for so long."""
    how = world.random.choice(hows)
    lasts = seconds(world) if callable(seconds) else seconds
    world.cluster.away(how, lasts)
    return f"{how} for {lasts:.1f} s"


def one_away(world: ChaosWorld, number: int) -> str:
    """One ends by this signal, and comes back."""
    node = world.random.randrange(world.nodes)
    forced = world.cluster.end(number, [node])
    world.pause(1)
    world.cluster.start()
    return f"node {node + 1} of {world.nodes}{', by force' if forced else ''}"


def leader_away(world: ChaosWorld) -> str:
    """Who leads a raw log's partition is gone: another replica takes over."""
    topic = world.random.choice(world.flows).topology.raw_topic

    def leader() -> int:
        """The id of its node; -1 for none, or where brokers do not know the topic yet."""
        found = world.admin.list_topics(topic, timeout=10).topics[topic].partitions
        return found[0].leader if 0 in found else -1

    must(world.until(lambda: leader() > 0, 30), "there was no leader to begin with")
    was = leader()
    world.cluster.end(signal.SIGKILL, [was - 1])
    changed = world.until(lambda: leader() not in (was, -1), 30)
    world.cluster.start()
    must(changed, "no other replica took over")
    return f"from node {was}"


def rolling(world: ChaosWorld) -> str:
    """Each ends in order and comes back, and is in sync before the next one ends."""
    return ", ".join(world.cluster.bounce(node) for node in range(world.nodes))


def disk_full(world: ChaosWorld) -> str:
    """No byte more where they have their logs: they end, or take nothing, until there is room and
    they are started again.
    """
    cluster, disk = world.cluster, world.cluster.disk
    ran = cluster.pids()
    disk.fill(ran.values())
    end = time.time() + 8
    while time.time() < end and len(cluster.pids()) == len(ran):
        world.pause(0.3)
    ended = len(ran) - len(cluster.pids())
    disk.free()
    cluster.start(again=True)
    must(ended, f"{disk.how}, and the brokers minded nothing")
    return f"{disk.how}; {ended} of {len(ran)} brokers ended by themselves"
