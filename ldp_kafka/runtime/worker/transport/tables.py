"""The state of an assignment, read from the changelogs: all of a partition that is new to this
worker, of the others what came since.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from faust.types import TP
from faust.types.tables import TableManagerT
from mode import Service

from ldp_kafka.runtime.recovery.keys import Key, place_of
from ldp_kafka.runtime.worker.exits import end
from ldp_kafka.runtime.worker.health_rules import Assignment

__all__ = ["Tables"]

Wanted = Callable[[], bool]
Found = tuple[Mapping[Key, bytes | None], Mapping[int, int]]


class Tables(Service, TableManagerT):  # type: ignore[misc]
    """Faust's tables. Faust writes nothing of them, and reads nothing."""

    read: Callable[[str, Mapping[int, int], Wanted], Awaitable[Found | None]]
    """What was written into these partitions of a table's changelog from these offsets on: the last
    value of each key, None where it was deleted, and where each partition ends. None where it is
    not wanted any more.
    """

    def __init__(self, app: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.app, self.data = app, dict[str, Any]()
        self.actives_ready = self.standbys_ready = False
        self._completed = asyncio.Event()
        self._ends: dict[tuple[str, int], int] = {}
        """How far each partition of a changelog was read."""
        self._assigned: set[TP] = set()
        self._rebalance, self._recovered = 0, True

    def __hash__(self) -> int:
        return object.__hash__(self)

    def add(self, table: Any) -> Any:
        self.data[table.name] = table
        return table

    @property
    def changelog_topics(self) -> set[str]:
        return {table.changelog_topic_name for table in self.data.values()}

    @property
    def stands(self) -> Assignment:
        """Where the newest assignment stands. Any thread may ask."""
        if not self._rebalance:
            return Assignment.NONE
        if self._rebalance != self.app.rebalancing_count:
            return Assignment.REVOKED
        return Assignment.RECOVERED if self._recovered else Assignment.RECOVERING

    def on_rebalance_start(self) -> None:
        self.actives_ready = self.standbys_ready = False

    async def on_rebalance(self, assigned: Any, *_: Any, **__: Any) -> None:
        """An assignment has come; `recover` follows."""
        self._assigned = set(assigned)
        self._rebalance, self._recovered = self.app.rebalancing_count, False
        self.app.given(assigned)

    def recover(self) -> None:
        """Read the state of the newest assignment, then let its messages flow."""
        self.add_future(self._recover(self._rebalance, self._assigned))

    async def _recover(self, rebalance: int, assigned: set[TP]) -> None:
        def ours() -> bool:
            """Whether no rebalance has begun since."""
            return rebalance == self.app.rebalancing_count and not self.should_stop

        try:
            for name, table in self.data.items():
                source = self.app.sources[name]
                numbers = {number for topic, number in assigned if topic == source}
                if not ours() or not await self._update(name, table, numbers, ours):
                    return
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - Faust would only log it
            end(error)
        self._recovered = self.actives_ready = self.standbys_ready = True
        self.app.consumer.begin()
        self._completed.set()
        self.app.on_rebalance_end()
        self.app.ready()

    async def _update(self, name: str, table: Any, numbers: set[int], ours: Wanted) -> bool:
        """Bring a table up to date; False where a rebalance has begun meanwhile."""
        self._forget(name, table, numbers)
        begins = {number: self._ends.get((name, number), 0) for number in numbers}
        found = await self.read(name, begins, ours) if begins else ({}, {})
        if found is None:  # the next recovery may have read further by now
            return False
        records, ends = found
        for key, value in records.items():
            if value is None:
                table.data.pop(key, None)
            else:
                table.data[key] = value
        self._ends |= {(name, number): at for number, at in ends.items()}
        return True

    def _forget(self, name: str, table: Any, numbers: set[int]) -> None:
        """Let go of partitions that are another worker's."""
        gone = {number for of, number in self._ends if of == name} - numbers
        for number in gone:
            del self._ends[name, number]
        names = {str(number) for number in gone}
        for key in [key for key in table.data if place_of(key).partition("/")[0] in names]:
            del table.data[key]

    async def wait_until_recovery_completed(self) -> bool:
        return bool(await self.wait_for_stopped(self._completed))

    async def wait_until_tables_registered(self) -> None: ...
    def on_partitions_revoked(self, revoked: Any) -> None: ...
    def on_commit(self, offsets: Any) -> None: ...
    def persist_offset_on_commit(self, store: Any, tp: TP, offset: int) -> None: ...
