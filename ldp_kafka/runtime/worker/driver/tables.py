"""The recovery of tables from their changelogs: Faust's, but for its end and its patience."""

from __future__ import annotations

from typing import Any

import faust
from faust.tables.manager import TableManager
from faust.tables.recovery import RebalanceAgain, Recovery
from faust.transport.drivers import aiokafka

from ldp_kafka.runtime.worker.driver.private_api import Private
from ldp_kafka.runtime.worker.probes import Assignment

__all__ = ["PRIVATE_API", "TableRecovery", "Tables"]


class TableRecovery(Recovery):  # type: ignore[misc]
    """Faust's recovery of tables, which ends as soon as another rebalance begins, and loses no
    message at its own end.

    Faust's goes on until the next assignment is there. It would then let messages flow that are
    nobody's, and say that a rebalance had ended that had just begun.

    At its end Faust's lets partitions be fetched, seeks each to where its group stands, and then
    empties all queues: what had come meanwhile of a partition that stood right already is gone, and
    never comes again. Here it waits before the queues until they have been emptied.
    """

    rebalance = 0
    """The number of the rebalance that brought the newest assignment."""
    completing = 0
    """The group's generation whose tables are there."""
    recovered = True
    """Whether the tables of the newest assignment are there, and messages flow."""

    async def on_rebalance(
        self, assigned: Any, revoked: Any, newly_assigned: Any, generation_id: int = 0
    ) -> None:
        """An assignment has come: its recovery begins, unless it is outdated already."""
        await super().on_rebalance(assigned, revoked, newly_assigned, generation_id)
        if self._generation_id == generation_id:
            self.recovered = False
            self.rebalance = self.app.rebalancing_count
            self.app.given(assigned)

    async def on_recovery_completed(self, generation_id: int = 0) -> None:
        """The tables are there: partitions go to where their group stands, and messages flow."""
        self.completing = generation_id
        self.app.flow_control.suspend()
        await super().on_recovery_completed(generation_id)
        self.flows()

    async def _resume_streams(self, generation_id: int = 0) -> None:
        """The same where there were no tables to recover."""
        self.app.flow_control.suspend()
        await super()._resume_streams(generation_id)
        self.flows()

    def flows(self) -> None:
        """Messages flow: of the newest assignment, if no rebalance has begun since."""
        self.recovered = True
        if self.rebalance == self.app.rebalancing_count:
            self.app.ready()

    async def _wait(self, coro: Any, timeout: Any = None) -> None:  # noqa: ARG002, ASYNC109
        """However long the broker is away. Where Faust's time is over, which is 90 s, it takes that
        for its own end: nothing would be recovered any more, and nobody would say so.
        """
        await super()._wait(coro)
        if self.rebalance != self.app.rebalancing_count:
            raise RebalanceAgain

    async def _seek_offsets(self, consumer: Any, tps: Any, offsets: Any, title: str) -> None:
        """Go to where a changelog is read from. A newer assignment may have come since that was
        asked for: it has put its partitions there, with None for each. Faust's would seek None,
        and the worker would end.
        """
        if any(offsets[place] is None for place in tps):
            raise RebalanceAgain
        await super()._seek_offsets(consumer, tps, offsets, title)

    @property
    def stands(self) -> Assignment:
        """Where the newest assignment stands. It may be asked from any thread."""
        if not self.rebalance:
            return Assignment.NONE
        if self.rebalance != self.app.rebalancing_count:
            return Assignment.REVOKED
        return Assignment.RECOVERED if self.recovered else Assignment.RECOVERING

    @property
    def progress(self) -> int | None:
        """Where the recovery of an assignment goes on: how far it has come, in records. None where
        there is none, or the group is about to give out other partitions.
        """
        if self.recovered or self.rebalance != self.app.rebalancing_count:
            return None
        return sum(offset or 0 for offset in list(self.active_offsets.values()))

    def ends(self) -> bool:
        """Whether the recovery that is completing is of the newest assignment, and no rebalance has
        begun since.
        """
        outdated = self.completing != self._generation_id
        return not outdated and self.rebalance == int(self.app.rebalancing_count)


class Tables(TableManager):  # type: ignore[misc]
    """Faust's tables, with our recovery."""

    _recovery: TableRecovery | None = None

    @property
    def recovery(self) -> TableRecovery:
        """The one recovery of the app."""
        if self._recovery is None:
            self._recovery = TableRecovery(self.app, self, beacon=self.beacon, loop=self.loop)
        return self._recovery


PRIVATE_API = (
    Private(TableManager, "recovery", "Tables makes a TableRecovery"),
    Private(TableManager, "_recovery", "Tables keeps it there, and Faust stops it there"),
    Private(Recovery, "on_rebalance", "TableRecovery learns which rebalance it belongs to"),
    Private(Recovery, "_generation_id", "whether it took the assignment"),
    Private(Recovery, "on_recovery_completed", "TableRecovery learns whose tables are there"),
    Private(Recovery, "app.on_rebalance_end()", "App asks it then", "on_recovery_completed"),
    Private(Recovery, "app.flow_control.resume()", "it empties queues", "on_recovery_completed"),
    Private(Recovery, "_resume_streams", "TableRecovery holds messages back until then"),
    Private(Recovery, "app.flow_control.resume()", "it empties queues", "_resume_streams"),
    Private(Recovery, "_wait", "TableRecovery ends in it"),
    Private(Recovery, "await self._wait(\n                consumer.perform_seek()", "also here",
         "on_recovery_completed"),
    Private(Recovery, "except RebalanceAgain", "that is how a recovery ends", "_restart_recovery"),
    Private(Recovery, "_seek_offsets", "TableRecovery looks before it"),
    Private(Recovery, "offset = offsets[tp]", "it is None where a newer assignment has come",
         "_seek_offsets"),
    Private(Recovery, "offsets.setdefault(tp, None)", "the same", "_add"),
    Private(faust.App, "rebalancing_count", "the number of a rebalance"),
    Private(faust.App, "self.rebalancing_count += 1", "it grows at once", "on_rebalance_start"),
    Private(aiokafka.ConsumerRebalanceListener, "app.on_rebalance_start()", "in its thread",
         "on_partitions_revoked"),
    Private(Recovery, "active_offsets", "how far a recovery has come"),
)  # fmt: skip
