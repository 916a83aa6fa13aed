"""A cluster of our own, and what becomes of its nodes: they stand still, end in order or at once,
come back, and have no room on their disks.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import Self

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from ldp_kafka.runtime.brokers.local_kafka import KafkaServer
from tests.broker.place import Place
from tests.broker.watching import alive

__all__ = ["FROZEN", "Cluster"]

FROZEN = "frozen"
ENDS = {"ended": signal.SIGTERM, "killed": signal.SIGKILL, "stopped": signal.SIGKILL}
"""Ways for nodes to be away, beside being frozen: connections are refused."""
LIMIT = 240.0  # seconds for a broker's own start, on a busy machine
STARTING = threading.Lock()  # two that look for a free port at a time find the same


class Cluster:
    """Nodes on this machine.

    Parameters
    ----------
    mib : room on the disk of each node; 0: all that there is
    pause : lets so many seconds pass, wherever nodes are waited for
    """

    def __init__(
        self,
        directory: Path,
        nodes: int = 1,
        *,
        mib: int = 0,
        pause: Callable[[float], object] = time.sleep,
    ) -> None:
        self.nodes, self.pause = nodes, pause
        self.disk = Place(directory, mib * nodes) if mib else None
        self.server = KafkaServer("4.3.1", directory, nodes=nodes)
        try:
            with STARTING:
                self.boot = self.server.start(LIMIT).bootstrap_servers
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def pids(self) -> dict[int, int]:
        """The processes of the nodes that run; nodes count from 0."""
        return {node: pid for node, pid in self.server.pids().items() if alive(pid)}

    def signal(self, number: int) -> None:
        """To all nodes."""
        for pid in self.pids().values():
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    # -- away and back
    # ------------------------------------------------------------

    def freeze(self) -> float:
        """No node does anything any more: connections hang; when that was."""
        self.signal(signal.SIGSTOP)
        return time.time()

    def end(self, number: int, nodes: Collection[int] | None = None, limit: float = 40.0) -> bool:
        """End these nodes, or all, frozen or not; whether it took force, after so many seconds."""
        pids = [pid for node, pid in self.pids().items() if nodes is None or node in nodes]
        until, forced = time.time() + limit, False
        for pid in pids:
            os.kill(pid, number)
        while left := [pid for pid in pids if alive(pid)]:
            if time.time() > until:
                forced = True
                for pid in left:
                    os.kill(pid, signal.SIGKILL)
            self.pause(0.1)
        return forced

    def start(self, *, again: bool = False) -> None:
        """Start what is down; ``again``: everything, as a log directory that failed once is not
        looked at any more.
        """
        if again:
            self.server.stop(10)
        for attempt in range(3):
            try:
                self.server.start(LIMIT)
            except Exception:
                if attempt == 2:
                    raise
                time.sleep(2)
            else:
                return

    def go(self, how: str, seconds: float) -> None:
        """All nodes go away, for so long in all; the last of three cannot end in order."""
        if how == FROZEN:
            self.freeze()
        else:
            self.end(ENDS[how], limit=min(seconds, 20))

    def back(self, how: str) -> None:
        """All come back from where they were."""
        if how == FROZEN:
            self.signal(signal.SIGCONT)
        else:
            self.start()

    def away(self, how: str, seconds: float) -> None:
        """All nodes are away for so long."""
        until = time.time() + seconds
        self.go(how, seconds)
        self.pause(max(0.0, until - time.time()))
        self.back(how)

    def bounce(self, node: int) -> str:
        """One node ends in order and comes back, until all are in sync; what became of it."""
        forced, until = self.end(signal.SIGTERM, [node], LIMIT), time.time() + LIMIT
        self.start()
        while not self.in_sync:
            assert time.time() < until, f"the replicas of node {node + 1} did not come in sync"
            self.pause(0.2)
        return f"node {node + 1} ended{', by force' if forced else ''}"

    # -- what nodes say
    # ------------------------------------------------------------

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

    def answer(self, groups: Collection[str]) -> float:
        """Wait until each of these groups is told again how far it is; when that was."""
        until = time.time() + LIMIT
        for group in groups:
            while not self._answers(group):
                assert time.time() < until, f"no answer for {group} after {LIMIT:g} s"
                time.sleep(0.05)
        return time.time()

    def _answers(self, group: str) -> bool:
        """As a client that is new is told."""
        config = {"bootstrap.servers": self.boot, "group.id": group, "log_level": 0}
        consumer = Consumer(config)
        try:
            return bool(consumer.committed([TopicPartition("any", 0)], timeout=2))
        except KafkaException:
            return False
        finally:
            consumer.close()

    def close(self) -> None:
        """Nobody needs it any more."""
        if self.disk is not None:
            self.disk.free()
        self.signal(signal.SIGCONT)
        self.server.stop()
        if self.disk is not None:
            self.disk.close()
