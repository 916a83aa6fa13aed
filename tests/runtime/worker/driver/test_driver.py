"""What is changed of Faust, without a broker; tests/broker/test_start_together.py has one."""

from __future__ import annotations

import ast
import asyncio
import inspect
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import faust
import pytest
from aiokafka import TopicPartition
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import (
    CommitFailedError,
    CorruptRecordException,
    GroupAuthorizationFailedError,
    IllegalStateError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    UnknownError,
)
from faust.assignor.partition_assignor import PartitionAssignor
from faust.tables.recovery import RebalanceAgain, Recovery, ServiceStopped
from faust.transport.drivers import aiokafka
from faust.types import TP

from ldp_kafka.runtime.worker.driver import app as apps
from ldp_kafka.runtime.worker.driver import (
    assignor,
    chunks,
    connections,
    fetches,
    membership,
    tables,
)
from ldp_kafka.runtime.worker.driver import client as clients
from ldp_kafka.runtime.worker.driver.fetches import Lot
from ldp_kafka.runtime.worker.probes import Assignment

ROOM = Path(apps.__file__).parent
LEANING = (apps, assignor, chunks, clients, connections, fetches, membership, tables)


@pytest.mark.parametrize(
    "lean",
    [lean for room in LEANING for lean in room.PRIVATE_API],
    ids=lambda lean: f"{lean.owner.__name__}.{lean.within}:{lean.name}",
)
def test_what_we_lean_on_is_there(lean):
    """Another version of Faust or aiokafka may have other names; what breaks then is why."""
    assert lean.there, str(lean)


@pytest.mark.parametrize(
    ("room", "reads", "replaces"),
    [
        (apps, {"_recovery"}, {"on_rebalance_end", "_new_producer"}),
        (assignor, set(), {"_perform_assignment"}),
        (
            clients,
            {"_ensure_consumer", "_isolation_level", "_consumer"},
            {"seek_to_committed", "_commit", "on_stop"},
        ),
        (tables, {"_generation_id"}, {"recovery", "_wait", "_seek_offsets", "on_rebalance"}),
        (
            chunks,
            {"_acked", "_buffered_partitions"},
            {"_getmany", "_to_message", "_new_offset", "on_partitions_revoked", "on_buffer_drop"},
        ),
        (
            fetches,
            {"_fetcher", "_records", "_partition_records"},
            {"_proc_fetch_request", "_consumer_record"},
        ),
        (membership, {"_consumer", "_error_consumed_fut", "_loop"}, set()),
        (connections, {"_get_conn"}, {"send", "_get_conn", "_metadata_update"}),
    ],
)
def test_the_table_has_every_name_that_is_leaned_on(room, reads, replaces):
    """Private names that are read, and methods of theirs that are replaced."""
    listed = " ".join(lean.name for lean in room.PRIVATE_API)
    tree = ast.parse(Path(room.__file__).read_text())
    classes = [one for one in vars(room).values() if inspect.isclass(one)]
    read = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr.startswith("_")
        if not node.attr.endswith("__")  # Python's own
    } - {"_due", "_next", "_patiently", "_room"}  # our own
    theirs = {
        name
        for ours in classes
        if ours.__module__ == room.__name__
        for name, value in vars(ours).items()
        if (inspect.isfunction(value) or isinstance(value, property))
        and not name.startswith("__")
        and any(
            hasattr(base, name)
            for base in ours.__mro__[1:]
            if not base.__module__.startswith("ldp_kafka")
        )
    }
    assert reads <= read
    assert replaces <= theirs
    assert not {name for name in read | theirs if name not in listed}


def test_every_room_is_looked_at():
    """Whoever leans on a private name is among those above: nobody else of the worker does."""
    here = {Path(each.__file__) for each in LEANING}
    assert {*ROOM.glob("*.py")} - here == {ROOM / "__init__.py", ROOM / "private_api.py"}
    for file in {*ROOM.parent.rglob("*.py")} - here:
        assert "SLF001" not in file.read_text(), file.name


def app(**more) -> apps.App:
    return apps.App(
        "group",
        partitions={"t": 2},
        folded={"t"},
        read_committed=False,
        broker="kafka://127.0.0.1:1",
        store="memory://",
        env={},
        **more,
    )


def test_an_app_has_our_consumer_and_our_recovery(tmp_path):
    """And another app of Faust's has not."""

    async def built(made: faust.App) -> tuple[type, ...]:
        thread = made.consumer._thread
        thread.thread_loop.close()
        return type(thread), type(made.tables.recovery), made.conf.PartitionAssignor

    async def both() -> list[tuple[type, ...]]:
        other = faust.App(
            "other", broker="kafka://127.0.0.1:1", store="memory://", datadir=tmp_path
        )
        return [await built(app(datadir=tmp_path)), await built(other)]

    assert asyncio.run(both()) == [
        (clients.ConsumerThread, tables.TableRecovery, assignor.Assignor),
        (aiokafka.AIOKafkaConsumerThread, Recovery, PartitionAssignor),
    ]


@pytest.mark.parametrize("read_committed", [True, False])
def test_what_a_transaction_took_back_is_left_out_where_it_is_asked_for(
    monkeypatch, read_committed
):
    client = object.__new__(AIOKafkaClient)
    client._request_timeout_ms = 90_000
    made = SimpleNamespace(
        _isolation_level="read_uncommitted", _fetch_max_wait_ms=1500, _client=client
    )
    monkeypatch.setattr(aiokafka.AIOKafkaConsumerThread, "_create_worker_consumer", lambda *_: made)
    thread = object.__new__(clients.ConsumerThread)
    thread.app = SimpleNamespace(read_committed=read_committed, connect_ms=4000)
    assert thread._create_worker_consumer(None) is made
    assert made._isolation_level == ("read_committed" if read_committed else "read_uncommitted")
    assert type(client) is connections.Connections
    assert (client._request_timeout_ms, client.answer_ms) == (4000, 90_000)
    assert made._fetch_max_wait_ms == 500, "what is asked beside a fetch waits as long as it does"


@pytest.mark.parametrize(
    ("newest", "begins", "moved"), [(3, 0, True), (3, 1, False), (2, 0, False)]
)
def test_a_partition_whose_group_stands_at_its_beginning_is_read_from_there(newest, begins, moved):
    """From the first offset of its log; others are where aiokafka puts them, and a changelog is
    read by the tables. Once another rebalance has begun nothing moves.
    """
    asked = []
    stands = {
        TopicPartition("t", 0): 0,
        TopicPartition("t", 1): None,
        TopicPartition("t", 2): 7,
        TopicPartition("changelog", 0): None,
    }
    state = SimpleNamespace(
        folded={"t"},
        rebalancing_count=3,
        tables=SimpleNamespace(recovery=SimpleNamespace(rebalance=newest)),
    )

    async def committed():
        return stands

    async def first(places):
        state.rebalancing_count += begins  # while the broker is asked
        return {place: 40 + place.partition for place in places}

    consumer = SimpleNamespace(
        seek_to_committed=committed,
        beginning_offsets=first,
        seek=lambda place, offset: asked.append((place, offset)),
    )

    async def call(function):
        return await function()

    thread = object.__new__(clients.ConsumerThread)
    thread.app, thread.call_thread, thread._consumer = state, call, consumer
    assert asyncio.run(thread.seek_to_committed()) == stands
    assert asked == ([(TopicPartition("t", 0), 40), (TopicPartition("t", 1), 41)] if moved else [])


def test_a_partition_without_a_position_ends_nobody():
    """Faust's look at it asserts that it has one, as one that is just assigned has not."""

    class State:
        highwater, timestamp = 5, 10**9

        @property
        def position(self) -> int:
            raise AssertionError("no position")

    def thread(kind: type):
        made = object.__new__(kind)
        assignment = SimpleNamespace(active=True, state_value=lambda _: State())
        subscription = SimpleNamespace(assignment=assignment)
        made._consumer = SimpleNamespace(
            _fetcher=SimpleNamespace(_subscriptions=SimpleNamespace(subscription=subscription))
        )
        made.app = SimpleNamespace(
            monitor=object(), topics=SimpleNamespace(acks_enabled_for=lambda _: True)
        )
        made.consumer = SimpleNamespace(app=made.app)
        made.time_started = 0.0
        made.tp_fetch_request_timeout_secs = made.tp_stream_timeout_secs = 1e9
        return made

    with pytest.raises(AssertionError, match="no position"):
        thread(aiokafka.AIOKafkaConsumerThread).verify_event_path(10.0, TP("t", 0))
    assert thread(clients.ConsumerThread).verify_event_path(10.0, TP("t", 0)) is None


def restoring(*, rebalance: int, begun: int) -> tables.TableRecovery:
    """The recovery of the newest assignment, which came with ``rebalance``, when as many rebalances
    as ``begun`` have begun.
    """
    made = tables.TableRecovery(
        SimpleNamespace(conf=SimpleNamespace(stream_recovery_delay=0)), None
    )
    made.app.rebalancing_count, made.rebalance = begun, rebalance
    made._generation_id = made.completing = 9
    return made


def test_a_recovery_ends_as_soon_as_another_rebalance_begins():
    """Faust's waits for the next assignment, and goes on until then."""

    async def waited(*, during: int) -> str:
        made = restoring(rebalance=2, begun=2)

        async def step() -> None:
            made.app.rebalancing_count += during

        try:
            await made._wait(step())
        except RebalanceAgain:
            return "ended"
        return "goes on"

    assert asyncio.run(waited(during=0)) == "goes on"
    assert asyncio.run(waited(during=1)) == "ended"


@pytest.mark.parametrize("ours", [True, False])
def test_a_newer_assignment_may_come_before_a_changelog_is_sought(tmp_path, ours):
    """It puts None for each of its changelogs where the older one's first offsets were: Faust seeks
    that, its client takes no None, and the worker ended.
    """
    sought, place = [], TP("changelog", 0)

    class Table:
        persisted_offset = staticmethod(lambda _: None)

    async def seek_wait(places):
        sought.append(places)

    async def seeks() -> None:
        made = app(datadir=tmp_path)
        kind = tables.TableRecovery if ours else Recovery
        recovery = kind(made, made.tables, beacon=made.beacon)
        recovery.active_offsets[place] = 3
        recovery.revoke(place)
        recovery.add_active(Table, place)
        await recovery._seek_offsets(
            SimpleNamespace(seek_wait=seek_wait), {place}, recovery.active_offsets, "active"
        )

    if ours:
        with pytest.raises(RebalanceAgain):
            asyncio.run(seeks())
    else:
        asyncio.run(seeks())
    assert sought == ([] if ours else [{place: None}])


@pytest.mark.parametrize(
    ("rebalance", "begun", "recovered", "stands"),
    [
        (0, 0, True, Assignment.NONE),
        (0, 1, True, Assignment.NONE),
        (1, 1, False, Assignment.RECOVERING),
        (1, 1, True, Assignment.RECOVERED),
        (1, 2, True, Assignment.REVOKED),
        (1, 2, False, Assignment.REVOKED),
    ],
)
def test_where_an_assignment_stands(rebalance, begun, recovered, stands):
    """Faust calls its first state, in which nothing was assigned, recovered too."""
    made = restoring(rebalance=rebalance, begun=begun)
    made.recovered = recovered
    assert made.stands is stands


def test_an_assignment_tells_the_recovery_its_rebalance(monkeypatch):
    """One that Faust refuses, since a newer one has come, does not."""

    async def assigned(self, *_):
        self._generation_id = self.app.consumer_generation_id

    monkeypatch.setattr(Recovery, "on_rebalance", assigned)

    async def known(generation: int) -> int:
        made, told = restoring(rebalance=1, begun=2), []
        made.app.consumer_generation_id, made.app.given = 7, told.append
        await made.on_rebalance({"places"}, set(), set(), generation)
        assert told == ([{"places"}] if made.rebalance == 2 else [])
        return made.rebalance

    assert asyncio.run(known(6)) == 1
    assert asyncio.run(known(7)) == 2


@pytest.mark.parametrize("begun", [1, 2])
@pytest.mark.parametrize("end", ["on_recovery_completed", "_resume_streams"])
def test_messages_flow_of_the_newest_assignment_alone(monkeypatch, end, begun):
    """Nobody is told that a worker is ready whose next assignment is on its way."""
    monkeypatch.setattr(Recovery, end, lambda *_, **__: asyncio.sleep(0))

    async def told() -> list[str]:
        made, said = restoring(rebalance=1, begun=begun), []
        made.app.flow_control = SimpleNamespace(suspend=lambda: None)
        made.app.ready = lambda: said.append("ready")
        await getattr(made, end)(3)
        return said

    assert asyncio.run(told()) == (["ready"] if begun == 1 else [])


@pytest.mark.parametrize(
    ("rebalance", "begun", "generation", "ends"),
    [(2, 2, 9, True), (1, 2, 9, False), (2, 2, 8, False)],
    ids=["newest", "another has begun", "an older one"],
)
def test_only_the_newest_recovery_ends_a_rebalance(
    monkeypatch, tmp_path, rebalance, begun, generation, ends
):
    """An older one that is late would end one that is under way."""

    async def late() -> bool:
        made = app(datadir=tmp_path)
        made.tables._recovery = restoring(rebalance=rebalance, begun=begun)
        made.tables.recovery.app = made
        monkeypatch.setattr(Recovery, "on_recovery_completed", lambda *_: asyncio.sleep(0))
        await made.tables.recovery.on_recovery_completed(generation)
        made.rebalancing, made.rebalancing_count = True, begun
        made.on_rebalance_end()
        return not made.rebalancing

    assert asyncio.run(late()) is ends


class Arriving:
    """A consumer whose partitions bring a message each as soon as they may be fetched, while others
    are still sought.
    """

    def __init__(self, made: apps.App, generation: int) -> None:
        self.app, self.queue = made, made.FlowControlQueue(10, clear_on_resume=True)
        self.coming: list[asyncio.Task[None]] = []
        made.consumer_generation_id = generation

    def assignment(self) -> set[TP]:
        return {TP("t.raw", 0), TP("t.raw", 1)}

    def resume_partitions(self, places: set[TP]) -> None:
        self.coming = [asyncio.ensure_future(self.come(place)) for place in sorted(places)]

    async def come(self, place: TP) -> None:
        """What Faust's conductor does with a message."""
        await self.app.flow_control.acquire()
        self.queue.put_nowait(place)

    async def perform_seek(self) -> None:
        for _ in range(50):
            await asyncio.sleep(0)

    def resume_flow(self) -> None:
        return


@pytest.mark.parametrize("way", ["on_recovery_completed", "_resume_streams"])
@pytest.mark.parametrize("ours", [True, False], ids=["ours", "Faust's"])
def test_what_comes_while_a_recovery_ends_is_not_lost(monkeypatch, tmp_path, way, ours):
    """Faust empties the queues of what was fetched in its last seconds: that message never comes
    again, and the partition stands still.
    """

    async def ending() -> int:
        made = app(datadir=tmp_path)
        consumer = Arriving(made, 7)
        monkeypatch.setattr(type(made), "consumer", property(lambda _: consumer))
        made._fetcher = SimpleNamespace(maybe_start=lambda: asyncio.sleep(0))
        made.flow_control.resume()  # as it is while changelogs are read
        kind = tables.TableRecovery if ours else Recovery
        recovery = kind(made, made.tables, beacon=made.beacon)
        recovery._generation_id, recovery.rebalance = 7, made.rebalancing_count
        await getattr(recovery, way)(generation_id=7)
        await asyncio.gather(*consumer.coming)
        return consumer.queue.qsize()

    assert asyncio.run(ending()) == (2 if ours else 0)


def test_what_nobody_may_have_now_is_fetched_again(tmp_path, monkeypatch):
    """A fetch of the last assignment that brings a changelog's records before they may flow: the
    partition goes back to the first of them. One that is another's by now is let go.
    """
    sought = []

    async def fetched(*_, **__):
        return {
            "changelog": [SimpleNamespace(offset=4), SimpleNamespace(offset=5)],
            "folded": [Lot([SimpleNamespace(offset=7), SimpleNamespace(offset=9)])],
            "another's": [SimpleNamespace(offset=1)],
        }

    def seek(place, offset):
        if place == "another's":
            raise IllegalStateError
        sought.append((place, offset))

    async def take(flows: bool):
        thread = object.__new__(clients.ConsumerThread)
        thread.consumer = SimpleNamespace(flow_active=flows)
        return await thread._fetch_records(SimpleNamespace(seek=seek), None, timeout=1.0)

    monkeypatch.setattr(aiokafka.AIOKafkaConsumerThread, "_fetch_records", fetched)
    assert len(asyncio.run(take(True))) == 3
    assert sought == []
    assert asyncio.run(take(False)) == {}
    assert sought == [("changelog", 4), ("folded", 7)]


def test_how_far_a_recovery_has_come(tmp_path):
    """While one goes on, and no rebalance does."""
    made = app(datadir=tmp_path)
    assert made.recovering is None  # there is none yet
    recovery = made.tables.recovery
    assert made.recovering is None
    recovery.recovered, recovery.rebalance = False, made.rebalancing_count
    recovery.active_offsets.update({"a": 3, "b": 4})
    recovery.active_offsets["c"] = None
    assert made.recovering == 7
    made.rebalancing_count += 1
    assert made.recovering is None


@pytest.mark.parametrize("crashed", [False, True])
def test_all_is_saved_where_nothing_had_crashed_by_then(monkeypatch, crashed):
    """Its last commit may be what crashed."""

    async def stop(_) -> None:
        pass

    monkeypatch.setattr(aiokafka.Consumer, "on_stop", stop)
    consumer = object.__new__(clients.Consumer)
    consumer.app = SimpleNamespace(crashed=crashed, finished=None)
    asyncio.run(consumer.on_stop())
    assert consumer.app.finished is not crashed


@pytest.mark.parametrize("given_out", ["revoked", "assigned"])
def test_a_rebalance_while_it_ends_closes_no_client(given_out):
    """What is just being committed would wait for it without end."""

    async def ending() -> None:
        made, said = app(), []
        made._consumer, made.lost = MagicMock(), lambda: said.append("lost")
        made._stopped.set()
        await getattr(made, f"_on_partitions_{given_out}")({TP("t", 0)})
        assert said == ["lost"]
        assert not made._consumer.close.called

    asyncio.run(ending())


def test_an_app_makes_no_directories(tmp_path, monkeypatch):
    """Who ends at once would leave them behind."""
    monkeypatch.chdir(tmp_path)

    async def started() -> None:
        await app().on_first_start()

    asyncio.run(started())
    assert not list(tmp_path.iterdir())


def thread(**has):
    """The thread of a client that is not started."""
    made = object.__new__(clients.ConsumerThread)
    for name, value in has.items():
        setattr(made, name, value)
    return made


class Committing:
    """A client that is asked to commit."""

    def __init__(self, error=None):
        self.error, self.asked = error, []

    async def commit(self, offsets):
        self.asked.append({(tp.topic, tp.partition): at.offset for tp, at in offsets.items()})
        if self.error is not None:
            raise self.error


@pytest.mark.parametrize(
    ("error", "done", "crashes"),
    [
        (None, True, False),
        (CommitFailedError("rebalanced"), False, False),
        (IllegalStateError("No partitions assigned"), False, False),
        (UnknownError(), False, False),
        (GroupAuthorizationFailedError("g"), False, True),
    ],
    ids=lambda each: type(each).__name__,
)
def test_what_cannot_be_committed_now_is_committed_next_time(monkeypatch, error, done, crashes):
    """A rebalance, or a coordinator that is just back, ends no worker; a missing right does."""
    client, crashed = Committing(error), []

    async def crash(_, found):
        crashed.append(found)

    monkeypatch.setattr(clients.ConsumerThread, "assignment", lambda _: {TP("t", 0)})
    monkeypatch.setattr(clients.ConsumerThread, "_ensure_consumer", lambda _: client)
    monkeypatch.setattr(clients.ConsumerThread, "crash", crash)
    made = thread()
    assert asyncio.run(made._commit({TP("t", 0): 7, TP("t", 1): 9})) is done
    assert client.asked == [{("t", 0): 7}]
    assert bool(crashed) == crashes
    assert asyncio.run(made._commit({TP("t", 1): 9})) is False  # another's by now
    assert len(client.asked) == 1


def test_a_client_that_begins_waits_for_its_broker(monkeypatch):
    """Until there is one, or it is told to end."""
    tries = []

    class Client:
        async def start(self):
            tries.append(1)
            if len(tries) < 4:
                raise KafkaConnectionError("nobody")

    monkeypatch.setattr(clients, "AGAIN", 0.0)
    monkeypatch.setattr(clients.ConsumerThread, "_create_consumer", lambda _, loop: Client())
    monkeypatch.setattr(clients.ConsumerThread, "should_stop", False)
    made = thread(thread_loop=None, app=SimpleNamespace(should_stop=False))
    asyncio.run(made.on_start())
    assert len(tries) == 4
    tries.clear()
    made.app.should_stop = True
    with pytest.raises(KafkaConnectionError):
        asyncio.run(made.on_start())
    assert len(tries) == 1


def test_the_ends_of_logs_are_asked_for_again(monkeypatch):
    """A broker that is away for longer than the client waits."""
    tries = []

    async def asked(_, *partitions):
        tries.append(partitions)
        if len(tries) < 3:
            raise KafkaTimeoutError
        return {"p": 7}

    monkeypatch.setattr(clients, "AGAIN", 0.0)
    monkeypatch.setattr(clients.ConsumerThread, "should_stop", False)
    for name in ("highwaters", "earliest_offsets"):
        tries.clear()
        monkeypatch.setattr(aiokafka.AIOKafkaConsumerThread, name, asked)
        assert asyncio.run(getattr(thread(), name)("p")) == {"p": 7}
        assert tries == [("p",)] * 3
    monkeypatch.setattr(clients.ConsumerThread, "should_stop", True)
    tries.clear()
    with pytest.raises(KafkaTimeoutError):
        asyncio.run(thread().highwaters("p"))


def test_a_first_offset_that_nobody_knows_is_no_place_to_go_to(monkeypatch):
    """Faust would go to the one before it, which the client refuses: the worker would end."""

    async def asked(*_):
        return {"a": -1, "b": 0, "c": 7, "d": None}

    monkeypatch.setattr(aiokafka.AIOKafkaConsumerThread, "earliest_offsets", asked)
    found = asyncio.run(thread().earliest_offsets("a", "b", "c", "d"))
    assert found == {"a": 0, "b": 0, "c": 7, "d": None}


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (KafkaError("of the group"), True),
        (KafkaConnectionError("away"), True),
        (CorruptRecordException(), False),
    ],
    ids=lambda each: type(each).__name__,
)
def test_what_wakes_a_fetch_is_no_end_of_it(monkeypatch, error, passes):
    """What the group waits to be heard of is raised in whoever waits for records, too."""

    async def fetched(*_, **__):
        raise error

    monkeypatch.setattr(clients, "AGAIN", 0.0)
    monkeypatch.setattr(aiokafka.AIOKafkaConsumerThread, "_fetch_records", fetched)
    fetching = thread()._fetch_records(None, None, timeout=1.0)
    if passes:
        assert asyncio.run(fetching) == {}
    else:
        with pytest.raises(type(error)):
            asyncio.run(fetching)


@pytest.mark.parametrize("ours", [True, False])
def test_a_recovery_waits_for_what_takes_longer_than_fausts_time(tmp_path, ours):
    """Where that is over, Faust takes it for its own end."""

    async def waits():
        made = app(datadir=tmp_path)
        kind = tables.TableRecovery if ours else Recovery
        recovery = kind(made, made.tables, beacon=made.beacon)
        recovery.rebalance = made.rebalancing_count
        await recovery._wait(asyncio.sleep(0.1), timeout=0.01)

    if ours:
        asyncio.run(waits())
    else:
        with pytest.raises(ServiceStopped):
            asyncio.run(waits())


def test_an_app_has_a_producer_that_asks_nobody(tmp_path):
    """It starts, flushes and ends without a broker."""

    async def lives():
        made = app(datadir=tmp_path).producer
        await made.start()
        await made.flush()
        await made.stop()

    asyncio.run(asyncio.wait_for(lives(), 20))
