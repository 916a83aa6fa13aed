"""The state of an assignment: read whole where it is new, else what came since; never that of an
older assignment.
"""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from faust.types import TP

from ldp_kafka.runtime.worker.health_rules import Assignment
from ldp_kafka.runtime.worker.transport import tables as room
from ldp_kafka.runtime.worker.transport.tables import Tables

FIRST, SECOND = TP("raw", 0), TP("raw", 1)


class Changelogs:
    """What a broker has of each table: by partition, records in their order."""

    def __init__(self, app):
        self.app, self.logs, self.asked = app, {}, []
        self.open = asyncio.Event()
        self.open.set()
        self.late: dict[str, asyncio.Event] = {}

    def write(self, number, *records, table="perturb"):
        self.logs.setdefault((table, number), []).extend(records)

    async def read(self, table, begins, wanted):
        self.asked.append((table, dict(begins)))
        found, ends = {}, {}
        for number, begin in begins.items():
            log = self.logs.get((table, number), [])
            found |= dict(log[begin:])
            ends[number] = len(log)
        if (late := self.late.pop(table, None)) is not None:
            await late.wait()
        await self.open.wait()
        return (found, ends) if wanted() else None


class World:
    """Tables of an app that notes what it is told."""

    def __init__(self, kind=Tables, names=("perturb",)):
        self.noted = []
        self.app = SimpleNamespace(
            rebalancing_count=0,
            sources=dict.fromkeys(names, "raw"),
            consumer=SimpleNamespace(begin=lambda: self.noted.append("begin")),
            given=lambda places: self.noted.append(("given", frozenset(places))),
            ready=lambda: self.noted.append("ready"),
            on_rebalance_end=lambda: self.noted.append("end"),
        )
        self.tables = kind(self.app)
        self.changelogs = Changelogs(self.app)
        self.tables.read = self.changelogs.read
        for name in names:
            table = SimpleNamespace(name=name, data={}, changelog_topic_name=f"group-{name}")
            assert self.tables.add(table) is table
        self.data = self.tables.data[names[0]].data

    async def assigned(self, *places):
        self.app.rebalancing_count += 1
        self.tables.on_rebalance_start()
        await self.tables.on_rebalance(set(places), set(), set(places), generation_id=7)
        self.tables.recover()
        await settled()


async def settled():
    for _ in range(20):
        await asyncio.sleep(0)


def played(script, world=World, **more):
    """A script over a world of started tables."""

    async def play():
        made = world(**more)
        await made.tables.start()
        try:
            await script(made)
        finally:
            await made.tables.stop()
        return made

    return asyncio.run(play())


def test_a_new_partition_is_read_whole_and_a_kept_one_from_where_it_was_read_to():
    """Another worker's is let go of; one that comes back is read whole, since others wrote it."""

    async def script(world):
        logs = world.changelogs
        logs.write(0, ("0/a", b"1"), ("0/b", b"2"), ("0/b", None))
        logs.write(1, ("1/a", b"3"))
        await world.assigned(FIRST)
        assert world.data == {"0/a": b"1"}
        logs.write(0, ("0/a", None), ("0/c", b"4"))
        await world.assigned(FIRST, SECOND)
        assert world.data == {"0/c": b"4", "1/a": b"3"}
        await world.assigned(SECOND)
        assert world.data == {"1/a": b"3"}
        logs.write(0, ("0/d", b"5"))
        await world.assigned(FIRST)
        assert world.data == {"0/c": b"4", "0/d": b"5"}
        await world.assigned()
        assert world.data == {}
        assert [begins for _, begins in logs.asked] == [{0: 0}, {0: 3, 1: 0}, {1: 1}, {0: 0}]

    made = played(script)
    assert made.noted.count("begin") == made.noted.count("ready") == made.noted.count("end") == 5


def test_ten_is_not_one():
    """Keys begin with their partition's number, and a slash."""

    async def script(world):
        world.changelogs.write(1, ("1/a", b"1"))
        world.changelogs.write(10, ("10/a", b"2"), ("strange", b"3"))
        await world.assigned(SECOND, TP("raw", 10))
        await world.assigned(TP("raw", 10))
        assert world.data == {"10/a": b"2", "strange": b"3"}

    played(script)


def test_messages_flow_when_every_table_is_there():
    async def script(world):
        world.changelogs.write(0, ("0/a", b"1"), table="second")
        world.changelogs.open.clear()
        assert world.tables.stands is Assignment.NONE
        waiting = asyncio.create_task(world.tables.wait_until_recovery_completed())
        await world.assigned(FIRST)
        assert world.tables.stands is Assignment.RECOVERING
        assert world.noted == [("given", {FIRST})] and not waiting.done()
        world.changelogs.open.set()
        await settled()
        assert world.tables.stands is Assignment.RECOVERED
        assert world.noted[1:] == ["begin", "end", "ready"]
        assert world.tables.actives_ready and world.tables.standbys_ready
        assert await waiting is False, "it has not stopped"
        assert world.tables.data["second"].data == {"0/a": b"1"}
        world.app.rebalancing_count += 1
        world.tables.on_rebalance_start()
        assert world.tables.stands is Assignment.REVOKED
        assert not world.tables.actives_ready

    made = played(script, names=("perturb", "second"))
    assert made.tables.changelog_topics == {"group-perturb", "group-second"}


class TakesAll(Tables):
    """The prototype: whatever a broker says is taken over, however old the question is."""

    async def _update(self, name, table, numbers, ours):
        read = self.read
        self.read = lambda name, begins, _: read(name, begins, lambda: True)
        try:
            return await super()._update(name, table, numbers, ours)
        finally:
            self.read = read


@pytest.mark.parametrize("kind", [Tables, TakesAll])
def test_what_comes_for_an_older_assignment_is_nobodys_and_a_broken_twin_is_found(kind):
    """It was read before the newer one's: its records are older."""

    async def script(world):
        logs = world.changelogs
        logs.write(0, ("0/a", b"old"))
        late = logs.late["perturb"] = asyncio.Event()
        await world.assigned(FIRST)
        logs.write(0, ("0/a", b"new"))
        await world.assigned(FIRST)
        assert world.data == {"0/a": b"new"}
        late.set()
        await settled()
        assert world.data == ({"0/a": b"new"} if kind is Tables else {"0/a": b"old"})
        assert world.noted.count("begin") == (1 if kind is Tables else 2)

    played(script, kind=kind)


def test_a_table_of_another_topic_has_other_partitions():
    async def script(world):
        world.app.sources["second"] = "other"
        await world.assigned(FIRST, TP("other", 3))
        assert world.changelogs.asked == [("perturb", {0: 0}), ("second", {3: 0})]

    played(script, names=("perturb", "second"))


def test_what_cannot_be_read_ends_the_process(monkeypatch):
    """Whatever it is: Faust would only log it, and the worker wait for ever."""
    ended = []
    monkeypatch.setattr(room, "end", ended.append)

    async def script(world):
        async def read(*_):
            raise ZeroDivisionError

        world.tables.read = read
        await world.assigned(FIRST)
        assert [type(error) for error in ended] == [ZeroDivisionError]

    played(script)


def test_who_stops_while_it_reads_lets_nothing_flow():
    async def script(world):
        world.changelogs.open.clear()
        await world.assigned(FIRST)
        await world.tables.stop()
        world.changelogs.open.set()
        await settled()
        assert world.noted == [("given", {FIRST})]

    played(script)
