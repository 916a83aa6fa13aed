"""Faust's app with all that is changed of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import faust
from faust.tables.manager import TableManager
from faust.transport.drivers import aiokafka
from faust.transport.producer import Producer as SilentProducer

from ldp_kafka.runtime.kafka.client_options import CONNECT_MS
from ldp_kafka.runtime.worker.driver.assignor import Assignor
from ldp_kafka.runtime.worker.driver.client import Consumer
from ldp_kafka.runtime.worker.driver.private_api import Private
from ldp_kafka.runtime.worker.driver.tables import Tables
from ldp_kafka.runtime.worker.probes import Assignment

__all__ = ["PRIVATE_API", "App"]


class App(faust.App):  # type: ignore[misc]
    """Faust's app with all of it.

    Parameters
    ----------
    name : the consumer group
    partitions : of each topic that the app reads: how many it has
    folded : the topics that agents read
    read_committed : leave out what a foreign producer's transaction took back
    connect_ms : how long the client waits for a connection, and for each answer that makes it one
    consumers : what it reads with
    settings : Faust's own
    """

    def __init__(
        self,
        name: str,
        *,
        partitions: Mapping[str, int],
        folded: Collection[str],
        read_committed: bool,
        connect_ms: int = CONNECT_MS,
        consumers: type[Consumer] = Consumer,
        **settings: Any,
    ) -> None:
        super().__init__(name, PartitionAssignor=Assignor, TableManager=Tables, **settings)
        self.finished = False
        """Whether it has ended all but its connections, before anything had crashed: what was
        acknowledged is committed.
        """
        self.partitions, self.folded = partitions, folded
        self.read_committed, self.connect_ms = read_committed, connect_ms
        self.consumers = consumers
        self.given: Callable[[Collection[Any]], None] = lambda _: None
        """Is told of each assignment, at its beginning."""
        self.ready: Callable[[], None] = lambda: None
        """Is told when its tables are there, and messages flow."""
        self.lost: Callable[[], None] = lambda: None
        """Is told, while it ends, that its partitions are given out anew."""

    def _create_directories(self) -> None:
        """None: nothing of it is on a disk, and who ends at once leaves nothing behind."""

    def _on_rebalance_when_stopped(self) -> None:
        """A rebalance begins while the app ends. Faust closes the client at once, and what is just
        being committed would wait for it without end: it is closed when all of that is done.
        """
        self.lost()

    def _new_producer(self) -> Any:
        """One that produces nothing: all that is written goes through `producers.Producers`.
        Faust's would wait for a broker that is away when it starts, flushes and ends, each in its
        own way.
        """
        return SilentProducer(self.transport, loop=self.loop, beacon=self.beacon)

    def _new_consumer(self) -> Any:
        self.transport.Consumer = self.consumers
        return super()._new_consumer()

    @property
    def recovering(self) -> int | None:
        """See `TableRecovery.progress`. It may be asked from any thread."""
        recovery = self.tables._recovery  # noqa: SLF001 - `recovery` would make one
        return None if recovery is None else recovery.progress

    @property
    def stands(self) -> Assignment:
        """Where its newest assignment stands. It may be asked from any thread."""
        recovery = self.tables._recovery  # noqa: SLF001 - `recovery` would make one
        return Assignment.NONE if recovery is None else recovery.stands

    def on_rebalance_end(self) -> None:
        """A recovery has come to its end: so has its rebalance, unless another has begun since."""
        if self.tables.recovery.ends():
            super().on_rebalance_end()


PRIVATE_API = (
    Private(faust.App, "_create_directories", "App makes none"),
    Private(faust.App, "self._create_directories()", "that is where", "on_first_start"),
    Private(faust.App, "_on_rebalance_when_stopped", "App goes on to its end"),
    Private(faust.App, "return self._on_rebalance_when_stopped()", "instead of all else",
         "_on_partitions_revoked"),
    Private(faust.App, "_new_consumer", "App has its transport make a Consumer"),
    Private(aiokafka.Transport, "Consumer", "the same"),
    Private(TableManager, "_recovery", "App looks whether there is one"),
    Private(faust.App, "on_rebalance_end", "App ignores an outdated one"),
    Private(faust.App, "_new_producer", "App has one that produces nothing"),
)  # fmt: skip
