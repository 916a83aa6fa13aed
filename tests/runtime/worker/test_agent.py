"""Where an epoch of a partition begins, and where it must not; the rest of the agent is in
tests/broker.
"""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import pytest
from faust.types import TP

from ldp_kafka.errors import BrokerError, ConfigurationError, StateError
from ldp_kafka.runtime import roles
from ldp_kafka.runtime.kafka import broker_health
from ldp_kafka.runtime.kafka.broker_health import BrokerHealth, UnansweredError
from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.recovery.epoch import Limits
from ldp_kafka.runtime.recovery.packing import unpack
from ldp_kafka.runtime.recovery.rules import PartitionOffsets
from ldp_kafka.runtime.runs import Run
from ldp_kafka.runtime.stages.perturb import make_perturb
from ldp_kafka.runtime.worker import agent as room
from ldp_kafka.runtime.worker import logs
from ldp_kafka.runtime.worker.agent import Agent
from ldp_kafka.runtime.worker.diary import Diary
from ldp_kafka.runtime.worker.health import Health
from ldp_kafka.runtime.worker.health_rules import ending
from ldp_kafka.runtime.worker.transport.messages import Batch
from ldp_kafka.topology import loads

TEXT = """
topology: t
input: {{slot: 1m, partitions: 2, create: {create}}}
privacy: {{method: sw_direct, epsilon: 2.0, window: 3, domain: [0, 10]}}
output: {{statistics: [mean]}}
"""
EVENT = b'{"user": "a", "value": 1, "time": 1760000040}'


async def arrived(_mark) -> None:
    """All that was handed over."""


def agent(position, *, role="perturb", create="true", reported=False, table=None, changelog=None):
    """The first agent of a role, whose group stands where it is told, over a table; ``changelog``
    is what the broker has, where that is more.
    """
    topology = loads(TEXT.format(create=create))
    offsets = SimpleNamespace(
        position=lambda *_: PartitionOffsets(*position),
        reported=lambda *_: reported,
        first=lambda *_: None,
        partitions=lambda topic: 2,
        table=lambda _: changelog or table or {},
    )
    host = SimpleNamespace(
        app=MagicMock(rebalancing_count=1),
        limits=Limits(),
        assigned=lambda: {(topology.role(role).agents[0].topic, n) for n in range(2)},
        open=True,
        brokers=BrokerHealth(),
        health=Health(),
        offsets=offsets,
        producers=SimpleNamespace(mark=list, flush=arrived, poll=lambda: None),
        raw=SimpleNamespace(check=lambda: None),
        send=lambda *_: None,
        saved=lambda *_: None,
        diary=Diary("t", role),
    )
    make = (
        (lambda n: make_perturb(topology, n, edge_randomness(topology, bytes(32), "here")))
        if role == "perturb"
        else (lambda n: roles.make(topology, "collect", n))
    )
    made = Agent(host, topology.role(role).agents[0], make, f"t-{role}-changelog")
    made.table.data = table or {}
    made.table.name = role
    return made


def first_epoch(made):
    """Its first partition's new epoch."""
    return asyncio.run(made._begun(0))


def state(offset, role="perturb"):
    """A changelog whose state has this offset."""
    epoch = first_epoch(agent((None, offset, offset + 1, False), role=role))
    folded_one(epoch, offset)
    return dict(epoch.snapshot().records)


def folded_one(epoch, offset, handle=None):
    epoch.take(Message(offset, 1_760_000_040_000, EVENT), handle)
    epoch.fold()


BEFORE_US = [(None, 5, 9, False), (5, 5, 9, True), (5, 7, 9, True), (5, 5, 5, True)]


@pytest.mark.parametrize("create", ["true", "false"])
@pytest.mark.parametrize("position", BEFORE_US)
def test_what_expired_before_the_first_start_is_nobodys_loss(create, position):
    """A raw topic that was there before us begins where it begins, whoever may create it."""
    epoch = first_epoch(agent(position, create=create))
    assert (epoch.next_offset, epoch.offset) == (position[1], -1)


@pytest.mark.parametrize("create", ["true", "false"])
@pytest.mark.parametrize("position", [(None, 5, 9, False), (5, 7, 9, True)])
def test_what_expired_after_a_report_is_a_loss(create, position):
    """Somebody has folded what is gone, and its state is gone with it."""
    with pytest.raises(
        StateError, match=r"no state has what was before it.*`ldp-kafka state inspect`"
    ):
        first_epoch(agent(position, create=create, reported=True))


def test_a_crash_before_the_first_snapshot_is_no_loss():
    """Reports went out, nothing was kept, and the log still has all of it."""
    assert first_epoch(agent((5, 5, 9, True), reported=True)).next_offset == 5


@pytest.mark.parametrize("begun", [False, True])
def test_what_no_state_covers_is_a_loss(begun):
    """There is a state, but not of all that is gone."""
    table = state(4)
    assert first_epoch(agent((5, 5, 9, False), table=table)).offset == 4
    with pytest.raises(StateError, match="no state has"):
        first_epoch(agent((None, 6, 9, False), table=table))
    with pytest.raises(StateError, match="no state has"):
        (
            first_epoch(agent((6, 6, 9, begun), table=table))
            if begun
            else first_epoch(agent((None, 7, 9, False), table=table))
        )


def test_what_was_acknowledged_must_be_covered_and_there():
    """As ever: a committed offset is a promise."""
    with pytest.raises(StateError, match=r"no complete state.*`ldp-kafka state rewind`"):
        first_epoch(agent((5, 5, 9, False)))
    with pytest.raises(StateError, match="lost before they were read"):
        first_epoch(agent((1, 5, 9, False)))
    with pytest.raises(StateError, match="lost before they were read"):
        first_epoch(agent((5, 6, 9, False), table=state(4)))


def test_a_log_of_ours_has_no_expired_beginning():
    """Reports that are gone were somebody's."""
    with pytest.raises(StateError, match="no state has"):
        first_epoch(agent((None, 5, 9, False), role="collect"))


@pytest.mark.parametrize("table", [{}, "older"], ids=["empty", "old"])
def test_a_worker_that_slept_reads_its_changelog_again(table):
    """Its table is behind; the changelog is not: nothing is lost, and no topology has to halt.
    Where the changelog is behind too, it has.
    """
    older, newer = state(3), state(6)
    table = older if table else {}
    with pytest.raises(BrokerError, match="behind its changelog"):
        first_epoch(agent((6, 0, 9, False), table=table, changelog=newer))
    with pytest.raises(StateError):
        first_epoch(agent((6, 0, 9, False), table=table, changelog=older))
    assert first_epoch(agent((6, 0, 9, False), table=newer)).offset == 6


def test_a_changelog_is_written_by_the_producer_that_knows_late_copies():
    """And nothing is acknowledged that it has not taken."""
    made, done = agent((None, 0, 9, False)), []

    async def flushed(_mark) -> None:
        done.append("flushed")

    async def put(record) -> None:
        done.append(record)
        if len(done) == 3:
            raise BrokerError("it confirmed nothing")

    made.host.producers.flush, made.host.producers.put = flushed, put
    epoch = first_epoch(made)
    folded_one(epoch, 0, SimpleNamespace(ack=lambda: done.append("acknowledged")))
    with pytest.raises(BrokerError, match="it confirmed nothing"):
        asyncio.run(epoch.save())
    first, shard, meta = done
    assert first == "flushed"
    assert (shard.topic, shard.partition) == ("t-perturb-changelog", 0)
    assert {json.loads(shard.key): shard.value} == made.table.data  # the broker has that alone
    assert "/meta/" in json.loads(meta.key)
    asyncio.run(epoch.table.put(json.loads(shard.key), None))
    assert (done[-1].key, done[-1].value) == (shard.key, None)
    assert not made.table.data


@pytest.mark.parametrize("begun", [False, True])
def test_a_table_is_what_its_log_was(begun):
    """What arrives when a rebalance has begun is left to Faust, which reads the log again: the
    state's parts that the worker wrote then would stand among older ones.
    """
    made = agent((None, 0, 9, False))

    async def put(record) -> None:
        made.host.app.rebalancing_count += begun

    made.host.producers.put = put
    epoch = first_epoch(made)
    made.table.data["0/1/old"] = b"old"
    asyncio.run(epoch.table.put("0/1/old", None))
    asyncio.run(epoch.table.put("0/1/new", b"new"))
    assert made.table.data == ({"0/1/old": b"old"} if begun else {"0/1/new": b"new"})


@pytest.mark.parametrize("moves", [False, True])
def test_an_epoch_begins_when_the_broker_says_where_it_stands(monkeypatch, moves):
    """However long that takes; where the partition is given out anew meanwhile, none begins: what
    came of it is delivered again.
    """
    monkeypatch.setattr(broker_health, "AGAIN", 0.0)
    made, asked = agent((None, 0, 9, False)), []

    def ask(about, question):
        asked.append(about)
        if len(asked) < 5:
            made.host.app.rebalancing_count += moves
            raise UnansweredError
        return question()

    made.host.brokers.ask = ask
    made.host.brokers.forget = lambda about: asked.append(("forgotten", about))
    epoch = first_epoch(made)
    if moves:
        assert epoch is None and not made.epochs
        assert asked == ["where t.raw 0 stands", ("forgotten", "where t.raw 0 stands")]
    else:
        assert made.epochs == {0: epoch}
        assert asked == ["where t.raw 0 stands"] * 5


def test_nothing_is_folded_while_brokers_are_away(monkeypatch):
    """Neither what comes nor what waits; and no snapshot is begun."""
    monkeypatch.setattr(room, "AGAIN", 0.01)
    made, folds = agent((None, 0, 99, False)), []

    async def script():
        host = made.host
        host.send = lambda *_: folds.append(epoch.offset)
        epoch = await made._begun(0)
        host.open = False
        epoch.take(Message(0, 1_760_000_040_000, EVENT), None)
        taking = asyncio.create_task(made.take(batch_event(1, 9)))
        made._fold_waiting(0)
        monkeypatch.setattr(type(epoch), "overdue", True)
        await made._keep()
        await asyncio.sleep(0.05)
        assert (folds, taking.done()) == ([], False)
        host.open = True
        await taking
        await asyncio.sleep(0.05)
        # what waits is folded by itself where its timer comes before the one of what was coming
        assert folds in ([9], [0, 9])

    asyncio.run(script())


@pytest.mark.parametrize(("cost", "seconds"), [(0.4, 4.0), (8.0, 30.0)])
def test_a_snapshot_that_took_long_does_not_put_off_the_next_for_long(cost, seconds):
    """A broker that stood still made it long: what is folded since waits to be acknowledged."""
    epoch = first_epoch(agent((None, 0, 9, False)))
    epoch.limits = Limits(snapshot_seconds=1.0, snapshot_messages=1)
    epoch.pending, epoch._folded, epoch._cost = [object()], 1, cost
    for age, over in ((seconds - 0.1, False), (seconds + 0.1, True)):
        epoch.clock = lambda age=age: epoch._saved + age
        assert (epoch.overdue, epoch.due) == (over, over)


def test_an_end_in_order_waits_for_the_snapshot_that_is_being_written():
    """And then saves what came meanwhile: all of it is acknowledged."""
    made, done = agent((None, 0, 9, False)), []

    async def script():
        hold = asyncio.Event()

        async def flushed(_mark) -> None:
            await hold.wait()

        async def put(_) -> None:
            await asyncio.sleep(0)

        made.host.producers.flush = flushed
        made.host.app.consumer.acknowledge = lambda event: event.ack()
        made.host.producers.put = put
        epoch = made.epochs[0] = await made._begun(0)
        folded_one(epoch, 0, SimpleNamespace(ack=lambda: done.append(0)))
        saving = asyncio.create_task(epoch.save())
        await asyncio.sleep(0)
        assert epoch.saving
        folded_one(epoch, 1, SimpleNamespace(ack=lambda: done.append(1)))
        leaving = asyncio.create_task(made.down(None))
        await asyncio.sleep(0.01)
        assert not leaving.done() and not done
        hold.set()
        await leaving
        assert saving.done()

    asyncio.run(script())
    assert done == [0, 1]


def test_an_epoch_that_has_ended_writes_nothing_more():
    """Its snapshot is under way, and the next owner of the partition may have dropped its records:
    what came behind that would be left for ever.
    """
    made, put = agent((None, 0, 9, False)), []

    async def script():
        hold = asyncio.Event()
        made.host.producers.flush = lambda _: hold.wait()
        made.host.producers.put = put.append
        epoch = made.epochs[0] = await made._begun(0)
        folded_one(epoch, 0, object())
        saving = asyncio.create_task(epoch.save())
        await asyncio.sleep(0)
        made._end({0})
        hold.set()
        await saving

    asyncio.run(script())
    assert put == []


def batch_event(first, count):
    """An event of Faust's with a batch of consecutive messages."""
    run = Run(np.arange(first, first + count), np.full(count, 1_760_000_040_000), [EVENT] * count)
    message = Batch(TP("t", 0), run, 1, lambda: None)
    return SimpleNamespace(message=message, value=None)


def test_a_chunk_is_acknowledged_when_all_of_it_is_kept():
    """It is folded in pieces, between which others go on: a snapshot among them has a part of it,
    and acknowledges nothing of it. The pieces behind it do not wait until it is written.
    """
    made, acknowledged, kept, folds = agent((None, 0, 99, False)), [], [], []
    there = asyncio.Event()

    async def put(record) -> None:
        await there.wait()
        if "/meta/" in json.loads(record.key):
            kept.append(unpack(record.value)[0])

    async def script():
        host = made.host
        host.producers.flush = lambda _: asyncio.sleep(0)
        host.send = lambda *_: folds.append(made.epochs[0].offset)
        host.limits = Limits(run=3, snapshot_messages=6)
        host.app.consumer.acknowledge = lambda event: acknowledged.append(
            (event.message.offset, kept[-1])
        )
        made.host.producers.put = put
        epoch = made.epochs[0] = await made._begun(0)
        now = epoch.clock()
        epoch.clock = lambda: now  # a snapshot takes no time: one is due when so much is folded
        await made.take(batch_event(0, 10))
        assert (epoch.next_offset, folds, kept) == (10, [2, 5, 8], [])
        second = asyncio.create_task(made.take(batch_event(10, 3)))
        await asyncio.sleep(0.01)
        assert (folds, second.done(), kept) == ([2, 5, 8, 9, 12], False, [])  # another one is due
        there.set()
        await second
        await made._saves[0]
        assert (kept, acknowledged) == ([5, 12], [(9, 12), (12, 12)])
        await made.take(batch_event(8, 7))  # delivered again, and two new ones
        await epoch.save()
        assert (kept, acknowledged[2:]) == ([5, 12, 14], [(14, 14)])
        await made.take(batch_event(17, 2))  # two are missing
        await epoch.save()
        assert (epoch.next_offset, len(acknowledged)) == (15, 3)

    asyncio.run(script())


@pytest.mark.parametrize("there", [True, False])
def test_an_offset_that_does_not_come_is_asked_for(monkeypatch, there):
    """Where the broker has it, it is read again; else reading on brings nothing, and all ends."""
    made, asked, ended, again = agent((None, 0, 99, False)), [], [], []

    def check(spec, partition, offset):
        asked.append((spec.topic, partition, offset))
        if not there:
            raise ConfigurationError("set input.gaps: allow")

    async def read_again(*where):
        again.append(where)

    async def script():
        made.host.check_offset = check
        made.host.app.consumer.read_again = read_again
        made.epochs[0] = await made._begun(0)
        await made.take(batch_event(3, 2))
        made.epochs[0]._patience = lambda: 2.0
        await made.keep()

    monkeypatch.setattr(room, "end", ended.append)
    asyncio.run(script())
    place = (made.spec.topic, 0, 0)
    assert (asked, again) == ([place], [place] * there)
    assert [type(each) for each in ended] == [ConfigurationError] * (not there)


def test_nothing_is_acknowledged_of_a_topic_that_was_made_anew():
    """What was read may be another topic's than the one that the state is of."""
    made, acknowledged = agent((None, 0, 99, False)), []

    def anew():
        raise StateError("the raw topic was made anew")

    async def script():
        epoch = await made._begun(0)
        folded_one(epoch, 0, SimpleNamespace(ack=lambda: acknowledged.append(0)))
        made.host.raw.check = anew
        with pytest.raises(StateError, match="made anew"):
            await epoch.save()
        with pytest.raises(StateError, match="made anew"):
            await made._begun(1)

    asyncio.run(script())
    made.host.app.consumer.acknowledge.assert_not_called()
    assert acknowledged == []


def test_a_chunk_whose_folds_take_minutes_does_not_stand_still():
    """After a long outage on a busy machine: its messages are in the agent's hands, and nothing is
    unsaved where a piece was just folded.
    """
    made, health, seconds = agent((None, 0, 99, False)), Health(), [0.0]
    health.brokers.clock = lambda: seconds[0]

    async def script():
        host = made.host
        host.health = health
        host.limits = Limits(run=3)
        host.send = lambda *_: seconds.append(seconds.pop() + 25)  # a fold takes so long
        made.epochs[0] = await made._begun(0)
        taking = asyncio.create_task(made.take(batch_event(0, 30)))
        while not taking.done():
            await asyncio.sleep(0)
            health.waiting({(made.spec.topic, 0): 30}, ())
            assert ending(health.facts()) is None

    asyncio.run(script())
    assert seconds[0] == 250.0


def test_the_rest_of_a_chunk_is_nobodys_once_its_epoch_has_ended():
    """A rebalance between two pieces: the partition is another's, or begins from its checkpoint."""
    made, folds = agent((None, 0, 99, False)), []

    async def script():
        made.host.send = lambda *_: folds.append(epoch.offset)
        made.host.limits = Limits(run=3)
        epoch = made.epochs[0] = await made._begun(0)
        taking = asyncio.create_task(made.take(batch_event(0, 10)))
        await asyncio.sleep(0)
        made._end({0})
        await taking
        assert (folds, made.epochs) == ([2], {})

    asyncio.run(script())


def test_what_is_given_out_anew_while_it_ends_is_neither_written_nor_acknowledged():
    """As in any rebalance: the next owner may have begun from the checkpoint before it."""
    made, puts = agent((None, 0, 99, False)), []

    async def put(record) -> None:
        puts.append(json.loads(record.key))

    async def script():
        host = made.host
        host.producers.flush, host.producers.put = (lambda _: asyncio.sleep(0)), put
        for partition in (0, 1):
            epoch = await made._begun(partition)
            folded_one(epoch, 0, SimpleNamespace())
        leaving = asyncio.create_task(made.down(None))
        await asyncio.sleep(0)
        made.lost()
        await leaving

    asyncio.run(script())
    assert {key.partition("/")[0] for key in puts} <= {"0"}
    assert not made.host.app.consumer.acknowledge.called


@pytest.mark.parametrize("slow", [0, 1, 3], ids=lambda turns: f"{turns} turns a put")
def test_what_an_agent_holds_is_not_folded_behind_its_end(slow):
    """A chunk, a message that waits for others, and a timer's snapshot, while its last snapshot is
    written and after it: nobody would write what comes of that.
    """
    made, folds, puts = agent((None, 0, 99, False)), [], []

    async def put(record) -> None:
        puts.append(json.loads(record.key))
        for _ in range(slow):
            await asyncio.sleep(0)

    async def script():
        host = made.host
        host.producers.flush = lambda _: asyncio.sleep(0)
        host.send = lambda *_: folds.append(epoch.offset)
        begun = asyncio.Event()
        host.saved = lambda *_: begun.set()
        host.limits = Limits(run=3, snapshot_messages=3, snapshot_seconds=0.0)
        host.producers.put = put
        epoch = await made._begun(0)
        taking = asyncio.create_task(made.take(batch_event(0, 30)))
        await begun.wait()
        keeping = asyncio.create_task(made.keep())
        await made.down(None)
        done = len(folds), len(puts)
        await asyncio.gather(taking, keeping)
        await made.take(batch_event(30, 3))
        await made.keep()
        made._fold_waiting(0)
        assert (len(folds), len(puts)) == done
        assert done[0] < 10
        assert not made.epochs

    asyncio.run(script())


def test_a_fold_takes_as_long_as_it_may():
    """Fewer messages where one takes longer, more where it takes less."""
    made, now, sizes = agent((None, 0, 99, False)), [0.0], []
    epoch = first_epoch(made)
    epoch.limits, epoch.clock = Limits(run=4096, fold_seconds=0.05), lambda: now[0]
    epoch._run, cost = 256, 1e-5
    fold = epoch.stage.fold

    def slow(state, messages):
        sizes.append(len(messages))
        now[0] += cost * len(messages)
        return fold(state, messages[:1])

    object.__setattr__(epoch.stage, "fold", slow)
    at = 0
    for cost in (1e-5, 1e-3, 1e-1, 1e-6):
        for _ in range(14):
            n = int(epoch.run)
            epoch.take_run([Message(at + i, -1, EVENT) for i in range(n)], None)
            at += n
        assert cost * sizes[-1] <= 0.05 or sizes[-1] == 1
        assert sizes[-1] == 4096 or cost * sizes[-1] > 0.05 / 4
    assert max(sizes) == 4096


@pytest.mark.parametrize(("role", "users"), [("perturb", 1), ("collect", None)])
def test_a_state_that_is_recovered_is_a_line(capsys, role, users):
    """With how many users it knows, where it knows any."""
    table = state(4, "perturb") if role == "perturb" else {}
    made = agent((5, 0, 9, False) if table else (None, 0, 0, False), role=role, table=table)
    with logs.writing("json", "t", role):
        first_epoch(made)
    (line,) = [json.loads(each) for each in capsys.readouterr().err.splitlines()]
    assert (line["event"], line["partition"], line["users"]) == ("recovered", 0, users)
    assert (line["topic"], line["offset"]) == (made.spec.topic, 4 if table else -1)


def test_a_snapshot_that_was_written_is_a_line(capsys):
    made = agent((5, 0, 9, False), table=state(4))
    with logs.writing("json", "t", "perturb", verbose=True):
        epoch = first_epoch(made)
        folded_one(epoch, 5)
        made.saved(epoch.snapshot(), 0.5)
    *_, line = [json.loads(each) for each in capsys.readouterr().err.splitlines()]
    assert (line["event"], line["topic"], line["partition"]) == ("snapshot", "t.raw", 0)
    assert line["seconds"] == 0.5
