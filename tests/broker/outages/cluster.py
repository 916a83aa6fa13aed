"""Brokers that go away and come back: frozen, so that connections hang, or stopped, so that they
are refused; or one by one, as in a rolling restart.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from ldp_kafka.runtime.brokers.local_kafka import KafkaServer

__all__ = ["HOWS", "Cluster", "Outage"]

HOWS = ("frozen", "stopped")
LIMIT = 120.0  # seconds for a broker's own start, on a busy machine


@dataclass
class Outage:
    """When brokers were away; seconds since the epoch."""

    how: str
    seconds: float
    """For which they were kept away."""
    began: float
    over: float = 0.0
    """When they answered a client again, of every group."""
    whole: bool = True
    """Whether it was all of them."""
    held: float = 0.0
    """When the first worker was stopped in its phase; 0: none was."""

    @property
    def lasted(self) -> float:
        """Until they answered again."""
        return self.over - self.began

    @property
    def since(self) -> float:
        """From when on it kept anything from being released."""
        return min(self.began, self.held or self.began)

    @property
    def cost(self) -> float:
        """Seconds that it kept things from being released, at most, until brokers answered."""
        return self.over - self.since

    def __str__(self) -> str:
        kept = f" for {self.seconds:g} s" if self.whole else ""
        return f"{self.how}{kept}, {self.lasted:.1f} s until all is there again"


class Cluster:
    """A cluster of our own.

    Parameters
    ----------
    nodes : 1 or 3
    """

    def __init__(self, directory: Path, nodes: int) -> None:
        self.server = KafkaServer("4.3.1", directory, nodes=nodes)
        self.boot = self.server.start().bootstrap_servers
        self.nodes = nodes

    def freeze(self) -> float:
        """No node does anything any more; when that was."""
        for pid in self.server.pids().values():
            os.kill(pid, signal.SIGSTOP)
        return time.time()

    def thaw(self) -> None:
        """They go on."""
        for pid in self.server.pids().values():
            os.kill(pid, signal.SIGCONT)

    def kill(self) -> None:
        """No node is there any more, frozen or not."""
        for pid in self.server.pids().values():
            os.kill(pid, signal.SIGKILL)
        while self.server.pids():
            time.sleep(0.02)

    def back(self, how: str, groups: Collection[str]) -> float:
        """Have them all come back; when they answered for each of these groups."""
        if how == "frozen":
            self.thaw()
        else:
            self.server.start(LIMIT)
        end = time.time() + LIMIT
        for group in groups:
            while not self.answers(group):
                assert time.time() < end, f"no answer for {group} after {LIMIT:g} s"
                time.sleep(0.05)
        return time.time()

    def bounce(self, node: int) -> Outage:
        """One node ends in order and is started again; until all are in sync."""
        began = time.time()
        made = Outage(f"node {node + 1} ended", 0.0, began, whole=False)
        os.kill(self.server.pids()[node], signal.SIGTERM)
        while node in self.server.pids():
            assert time.time() < began + LIMIT, f"node {node + 1} did not end in {LIMIT:g} s"
            time.sleep(0.05)
        self.server.start(LIMIT)
        while not self.in_sync:
            assert time.time() < began + 2 * LIMIT, "its replicas did not come in sync"
            time.sleep(0.2)
        made.over = time.time()
        return made

    @property
    def in_sync(self) -> bool:
        """Whether every replica of every partition is, as each of the nodes says."""
        for address in self.boot.split(","):
            admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
            try:
                topics = admin.list_topics(timeout=5).topics.values()
            except KafkaException:
                return False
            parts = [part for topic in topics for part in topic.partitions.values()]
            if not parts or any(len(part.isrs) < self.nodes for part in parts):
                return False
        return True

    def answers(self, group: str) -> bool:
        """Whether a client that is new is told how far a group is."""
        config = {"bootstrap.servers": self.boot, "group.id": group, "log_level": 0}
        consumer = Consumer(config)
        try:
            return bool(consumer.committed([TopicPartition("any", 0)], timeout=2))
        except KafkaException:
            return False
        finally:
            consumer.close()

    def close(self) -> None:
        """It is not needed any more."""
        self.thaw()
        self.server.stop()
