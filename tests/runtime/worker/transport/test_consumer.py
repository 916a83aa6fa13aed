"""What the thread and the consumer do, over a scripted client: each check has a broken twin that it
must find.
"""

from __future__ import annotations

import asyncio
import time
from unittest.mock import ANY

import pytest
from confluent_kafka import KafkaError, TopicPartition
from faust.types import TP

from ldp_kafka.errors import BrokerError, ConfigurationError
from ldp_kafka.runtime.kafka import cut_off
from ldp_kafka.runtime.worker.transport import polling
from ldp_kafka.runtime.worker.transport.consumer import Consumer
from ldp_kafka.runtime.worker.transport.polling import BUFFER, FIRST, Poller
from tests.runtime.worker.transport.world import P0, P1, TOPIC, Client, World, message, refused

BOTH = frozenset({P0, P1})


def batches(count):
    """Steps that give so many messages, each alone: a poll takes two, if the first gives any."""
    return [step for offset in range(count) for step in ([message(offset)], [])]


# checks: each is given a world that runs


async def an_order_waits_for_the_poll_to_end(world):
    """One thread alone calls the client, whoever wants something of it."""
    await world.play(world.client.gives(P0))
    await world.consumer.read_again(TOPIC, 0, 7)
    await world.until(lambda: ("seek", TOPIC, 0, 7) in world.client.calls)
    assert len(world.client.threads) == 1


async def an_order_of_an_older_assignment_is_dropped(world):
    """What is read again is decided anew with each assignment."""
    await world.play(world.client.gives(P0))
    gives = world.client.moves(P0)

    def moves():
        asyncio.run_coroutine_threadsafe(world.consumer.read_again(TOPIC, 0, 7), loop).result()
        return gives()

    loop = asyncio.get_running_loop()
    await world.play(moves)
    assert "seek" not in world.client.names()


async def a_full_partition_holds_nobody_up(world):
    """It is paused after a while, others are read, and it goes on when there is room."""
    world.holds = True
    await world.play(world.client.gives(P0, P1))
    await world.play(*batches(BUFFER))
    await world.until(lambda: ("pause", {P0}) in world.client.calls)
    await world.play([message(0, partition=P1)])
    await world.until(lambda: any(batch.tp == P1 for batch in world.held))
    assert "resume" not in world.client.names()
    for _ in range(BUFFER // 2):
        world.take(world.held.popleft())
    await world.until(lambda: ("resume", {P0}) in world.client.calls)


async def a_partition_waits_for_its_agent(world):
    """Nothing is paused as long as an agent is just slow: going on takes the client a second."""
    world.holds = True
    await world.play(world.client.gives(P0))
    await world.play(*batches(BUFFER - 1))
    polls = len(world.client.polls)
    await world.play([])
    assert len(world.client.polls) > polls
    assert "pause" not in world.client.names()


async def an_assignment_begins_with_nothing_paused(world):
    """librdkafka keeps a partition paused when it is assigned anew (see `test_contract`)."""
    world.holds = True
    await world.play(world.client.gives(P0, P1))
    await world.play(*batches(BUFFER))
    await world.until(lambda: ("pause", {P0}) in world.client.calls)
    await world.play(world.client.moves(P0, P1))
    assert world.client.names()[-2:] == ["assign", "resume"]
    assert world.client.calls[-1] == ("resume", {P0})
    world.holds, before = False, len(world.delivered)
    await world.play([message(20)])
    assert world.delivered[before:] == [(0, 20)]


async def a_rebalance_between_two_polls_of_one_step_drops_the_first(world):
    """What the first poll gave is of the assignment that ended in the second. It comes again from
    the committed offset on. With gaps in the offsets nobody would notice that 7 comes behind 10.
    """
    await world.play(world.client.gives(P0))
    again = [message(7), message(9), message(10)]
    await world.play([message(10)], world.client.moves(P0, then=again))
    await world.until(lambda: len(world.delivered) >= 3)
    assert world.offsets() == [7, 9, 10]


async def a_batch_of_an_older_assignment_is_dropped(world):
    """It waits for the state of its assignment, and another one comes."""
    await world.play(world.client.gives(P0), [message(3)])
    assert world.delivered == []
    await world.play(world.client.moves(P0), [message(1), message(2), message(3)])
    world.consumer.begin()
    await world.until(lambda: len(world.delivered) >= 3)
    assert world.offsets() == [1, 2, 3]


async def nothing_flows_before_the_state_is_read(world):
    """Also where nothing was revoked before, since the worker had nothing."""
    await world.play(world.client.gives())
    world.consumer.begin()
    await world.play(world.client.gives(P0), [message(3)])
    assert world.delivered == []
    assert world.noted[-5:] == [
        "suspend",
        "rebalance",
        ("assigned", {P0}, 2),
        "returned",
        "recover",
    ]
    assert world.app.rebalancing_count == 2
    world.consumer.begin()
    await world.until(lambda: world.delivered == [(0, 3)])
    assert world.noted[-1] == "resume"


async def what_is_acknowledged_is_committed_in_a_revocation(world):
    """Once agents have ended their epochs, before the group goes on."""
    await world.play(world.client.gives(P0, P1))
    world.consumer.acknowledge(world.event(4))

    async def on_revoked():
        world.consumer.acknowledge(world.event(5))
        world.consumer.acknowledge(world.event(2))  # an older one takes nothing back

    world.on_revoked = on_revoked
    await world.play(world.client.takes(P0, P1))
    assert world.client.calls[-2:] == [("commit", {P0: 6}), ("revoked",)]
    assert world.noted[-3:] == ["suspend", "rebalance", ("revoked", BOTH)]
    assert world.consumer.assignment() == set()
    world.consumer.acknowledge(world.event(9))
    await world.play(world.client.gives(P1))
    assert world.client.names()[-1] == "assign", (
        "nothing of the older assignment is committed later"
    )


async def nothing_is_committed_of_lost_partitions(world):
    """Another worker has them, and may have committed since."""
    await world.play(world.client.gives(P0))
    world.consumer.acknowledge(world.event(4))
    await world.play(world.client.takes(P0, lost=True))
    assert "commit" not in world.client.names()
    assert world.noted[-1] == ("revoked", frozenset({P0}))
    assert world.consumer.assignment() == set()


async def all_is_committed_before_it_leaves(world):
    """It is finished when that is done, while it still has its partitions."""
    await world.play(world.client.gives(P0))
    world.consumer.acknowledge(world.event(4))
    seen = []
    close = world.client.close

    def closes():
        seen.append(world.app.finished)
        world.client.takes(P0)()  # librdkafka revokes all in it
        close()

    world.client.close = closes
    await asyncio.wait_for(world.consumer.stop(), 20)
    assert world.client.names()[-3:] == ["commit and wait", "revoked", "close"]
    assert world.client.calls[-3][1] == {P0: 5}
    assert seen == [True]
    assert world.noted[-1] == "resume", "whoever leaves is told of no rebalance"


async def a_commit_that_fails_is_tried_again(world):
    """Whether the client refuses it at once, or the broker says so later, of all or of one."""
    await world.play(world.client.gives(P0, P1))
    world.client.raises["commit"] = refused()
    world.consumer.acknowledge(world.event(4))
    await world.until(lambda: world.client.calls.count(("commit", {P0: 5})) == 2)
    for error, of in ((KafkaError(KafkaError.REBALANCE_IN_PROGRESS), None), (None, refused)):
        before = world.client.calls.count(("commit", {P0: 5}))
        failed = Failed(0, of)
        world.consumer._poller.orders.append(
            lambda client, error=error, failed=failed: client.settings["on_commit"](error, [failed])
        )
        await world.until(lambda n=before: world.client.calls.count(("commit", {P0: 5})) > n)
    count = len(world.client.calls)
    await world.play([])
    assert len(world.client.calls) == count, "what is committed is not committed again"


class Failed:
    """A partition of a commit's answer."""

    topic = TOPIC

    def __init__(self, partition, of=None):
        self.partition, self.error = partition, of and of().args[0]


async def a_lone_message_is_not_held_back(world):
    """Where few come, each is handed over at once; where many come, more are waited for."""
    await world.play(world.client.gives(P0))
    first = len(world.client.waits)
    await world.play([message(0)], [], [message(1)], [message(2), message(3), message(4)])
    await world.play([message(5)], [], [message(6)], [])
    await world.until(lambda: len(world.client.waits) >= first + 4)
    assert world.client.waits[first : first + 4] == [0, 0, polling.GATHER, 0]


async def a_poll_is_bounded_by_bytes(world):
    """By the mean size of what came last: large messages wait at the broker."""
    await world.play(world.client.gives(P0))
    assert world.client.polls[-1] == 1
    await world.play([message(0, value=bytes(polling.AT_ONCE // 4 - 1))], [])
    await world.play([message(1)], [])
    asked = [count for count in world.client.polls if count > 1]
    assert asked[:2] == [FIRST - 1, 3]


async def a_client_that_is_cut_off_is_replaced(world):
    """A new client is answered, and it is not: its partitions are lost."""
    await world.play(world.client.gives(P0))
    world.consumer.acknowledge(world.event(4))
    world.client.answers = False
    await world.until(lambda: world.client.next is not None)
    new = world.client.next
    assert world.noted[-1] == ("revoked", frozenset({P0}))
    assert world.consumer.assignment() == set()
    new.script += [new.gives(P0), [message(3)]]
    await world.until(lambda: world.offsets() == [3])
    await world.until(lambda: "close" in world.client.names())
    assert "commit" not in world.client.names() + new.names()
    assert new.next is None


async def a_client_is_not_replaced_in_an_outage(world):
    """It finds its brokers again, as a member of its group still."""
    await world.play(world.client.gives(P0))
    world.asker.answers = world.client.answers = False
    await asyncio.sleep(0.1)
    world.asker.answers = world.client.answers = True
    await world.play([message(3)])
    assert world.client.next is None
    assert world.offsets() == [3]


async def a_client_that_was_replaced_is_not_heard(world):
    """It is told in its end that the group takes all back, which is another one's by then."""
    closed = asyncio.Event()
    loop, close = asyncio.get_running_loop(), world.client.close

    def closes():
        new = world.client.next
        new.script.append(new.gives(P0))
        while not world.consumer.assignment():
            time.sleep(0.002)
        world.client.takes(P0)()
        world.client.takes(P0, lost=True)()
        close()
        loop.call_soon_threadsafe(closed.set)

    world.client.close = closes
    await world.play(world.client.gives(P0))
    world.client.answers = False
    await asyncio.wait_for(closed.wait(), 10)
    assert world.consumer.assignment() == {P0}
    assert [each[0] for each in world.noted if isinstance(each, tuple)] == [
        "assigned",
        "revoked",
        "assigned",
    ]


# twins, each with one fault, by the check that must find it


class SeeksAtOnce(Consumer):
    async def read_again(self, topic, partition, offset):
        self.transport.client.seek(TopicPartition(topic, partition, offset))


class SeeksLate(Consumer):
    async def read_again(self, topic, partition, offset):
        seek = TopicPartition(topic, partition, offset)
        self._poller.orders.append(lambda client: client.seek(seek))


class NeverPauses(Poller):
    def _make_room(self, client):
        pass


class PausesAtOnce(Poller):
    def _make_room(self, client):
        full = {each for each, count in self._waiting.items() if count} - self._paused
        if full:
            self._paused |= full
            client.pause([TopicPartition(*each) for each in full])


class StaysPaused(Poller):
    """The prototype."""

    def _on_assign(self, client, partitions):
        self._paused = frozenset()
        super()._on_assign(client, partitions)


class KeepsTheFirst(Poller):
    """The prototype."""

    def _poll(self, client):
        found = client.consume(1, polling.POLL)
        if found:
            found += client.consume(self._most - 1, polling.GATHER)
            self._hand_over(found, self._consumer.generation)


class DeliversAll(Consumer):
    def arrived(self, found):
        for each in found:
            each.generation_id = ANY
        super().arrived(found)


class FlowsOn(Consumer):
    """The prototype: a rebalance begins with a revocation, or not at all."""

    async def assigned(self, partitions):
        flows = self._flow.is_set()
        await super().assigned(partitions)
        if flows:
            self._flow.set()


class CommitsLater(Poller):
    def _on_revoke(self, client, _):
        self._on_lost(client, _)


class CommitsLost(Poller):
    def _on_lost(self, client, _):
        self._on_revoke(client, _)


class LeavesFirst(Consumer):
    async def on_stop(self):
        await asyncio.to_thread(self._poller.leave)
        await asyncio.to_thread(self._poller.flush)
        self.app.finished = not self.app.crashed


class CommitsOnce(Poller):
    def _on_commit(self, error, offsets):
        pass


class HoldsBack(Poller):
    _many = property(lambda _: True, lambda *_: None)


class AsksForMany(Poller):
    _most = property(lambda _: FIRST, lambda *_: None)


class NeverReplaces(Poller):
    def _join_anew(self, client):
        return client


class AsksNobodyElse(Poller):
    def _join(self):
        self._consumer.transport.asker = Client
        return super()._join()


class HearsAll(Poller):
    def _on_revoke(self, client, _):
        self._client = client
        super()._on_revoke(client, _)


CHECKS = {
    an_order_waits_for_the_poll_to_end: SeeksAtOnce,
    an_order_of_an_older_assignment_is_dropped: SeeksLate,
    a_full_partition_holds_nobody_up: NeverPauses,
    a_partition_waits_for_its_agent: PausesAtOnce,
    an_assignment_begins_with_nothing_paused: StaysPaused,
    a_rebalance_between_two_polls_of_one_step_drops_the_first: KeepsTheFirst,
    a_batch_of_an_older_assignment_is_dropped: DeliversAll,
    nothing_flows_before_the_state_is_read: FlowsOn,
    what_is_acknowledged_is_committed_in_a_revocation: CommitsLater,
    nothing_is_committed_of_lost_partitions: CommitsLost,
    all_is_committed_before_it_leaves: LeavesFirst,
    a_commit_that_fails_is_tried_again: CommitsOnce,
    a_lone_message_is_not_held_back: HoldsBack,
    a_poll_is_bounded_by_bytes: AsksForMany,
    a_client_that_is_cut_off_is_replaced: NeverReplaces,
    a_client_is_not_replaced_in_an_outage: AsksNobodyElse,
    a_client_that_was_replaced_is_not_heard: HearsAll,
}
WAITS = {a_batch_of_an_older_assignment_is_dropped, nothing_flows_before_the_state_is_read}
"""Where the state of an assignment is not there at once."""
OFTEN = {a_commit_that_fails_is_tried_again}
"""Where commits are made all the time."""


def tried(monkeypatch, check, twin=None):
    """Run a check, on ours or on a twin."""
    monkeypatch.setattr(polling, "FULL", 0.05)
    monkeypatch.setattr(cut_off, "QUIET", 0.01)
    kind = {} if twin is None else {"poller" if issubclass(twin, Poller) else "consumer": twin}
    world = World(**kind, begins=check not in WAITS)
    world.until = quick(world.until, 10.0 if twin is None else 1.0)

    async def script():
        async with world.running(monkeypatch, commits=1e-9 if check in OFTEN else 3600.0):
            await check(world)

    asyncio.run(script())
    assert not world.ended


def quick(until, seconds):
    return lambda holds: until(holds, seconds)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_transport(check, monkeypatch):
    tried(monkeypatch, check)


@pytest.mark.parametrize(("check", "twin"), CHECKS.items(), ids=lambda each: each.__name__)
def test_a_broken_transport_is_found(check, twin, monkeypatch):
    with pytest.raises(AssertionError):
        tried(monkeypatch, check, twin)


# what ends the process


def ended(monkeypatch, *steps, **raises):
    """What the process has ended with: a client takes these steps behind an assignment, and calls
    of these names raise.
    """
    world = World()

    async def script():
        async with world.running(monkeypatch):
            await world.play(world.client.gives(P0))
            world.client.raises |= raises
            world.client.script.extend(steps)
            await world.until(lambda: world.ended)
            await world.until(lambda: not world.consumer._poller._thread.is_alive())

    asyncio.run(script())
    return world.ended[:1]


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "this login may not READ topic t; `ldp-kafka"),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, "this login may not READ group group; `ldp-kafka"),
    ],
)
def test_a_right_that_is_missing_ends_the_process(monkeypatch, code, says):
    """Whether a message says so, or the client by itself: another start would come to the same."""
    error = KafkaError(code)
    name = P0 if code == KafkaError.TOPIC_AUTHORIZATION_FAILED else TP("", 0)
    for steps in ([[message(-1, partition=name, error=error)]], []):
        found = ended(monkeypatch, *steps, **({} if steps else {"consume": refused(code)}))
        assert isinstance(found[0], ConfigurationError)
        assert str(found[0]).startswith(says)


def test_a_client_that_goes_no_further_is_started_again(monkeypatch):
    """One that cannot read a batch goes on behind it: with gaps nobody would notice."""
    fatal = KafkaError(KafkaError._FATAL, "fenced", fatal=True)
    for found in (
        ended(monkeypatch, [message(-1, error=fatal)]),
        ended(monkeypatch, [message(7, error=KafkaError(KafkaError._BAD_MSG))]),
        ended(monkeypatch, [message(7, error=KafkaError(KafkaError._BAD_COMPRESSION))]),
        ended(monkeypatch, consume=refused(KafkaError._TRANSPORT)),
    ):
        assert isinstance(found[0], BrokerError)
        assert str(found[0]).startswith("the client of group group has failed: ")


def test_a_mistake_of_ours_ends_the_process(monkeypatch):
    """As anywhere else: nobody waits for what a thread raises."""
    mistake = KeyError("x")
    assert ended(monkeypatch, consume=mistake) == [mistake]

    def raises():
        raise mistake

    assert ended(monkeypatch, raises) == [mistake]


def test_what_the_client_survives_is_logged(monkeypatch, caplog):
    """And the messages beside it are read; an order that is refused ends nothing either."""
    gone = message(-1, error=KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
    world = World()

    async def script():
        async with world.running(monkeypatch):
            await world.play(world.client.gives(P0), [message(1)], [gone, message(2)])
            await world.until(lambda: world.delivered == [(0, 1), (0, 2)])
            world.client.raises["seek"] = refused()
            await world.consumer.read_again(TOPIC, 0, 7)
            await world.play([])

    asyncio.run(script())
    assert not world.ended
    said = [line for line in caplog.messages if line.startswith("the client goes on: ")]
    assert [line.split(":")[1] for line in said] == [" UNKNOWN_TOPIC_OR_PART", " _STATE"]


def test_a_rebalance_while_the_app_ends_closes_no_client(monkeypatch):
    """Faust would, and what is just being committed would wait for it without end."""
    world = World()

    async def script():
        async with world.running(monkeypatch):
            world.consumer.close()
            assert world.noted == ["lost"]
            assert "close" not in world.client.names()

    asyncio.run(script())


def test_a_consumer_that_never_joined_ends(monkeypatch):
    world = World()

    async def script():
        made = Consumer.__new__(Consumer)
        transport = type("Transport", (), {"app": world.app, "client": world.client})
        Consumer.__init__(made, transport, None, None, None)
        await made.start()
        await made.stop()
        assert made.commit_interval == 3600.0

    asyncio.run(script())
    assert world.app.finished and not world.client.calls


@pytest.mark.parametrize("crashed", [False, True])
def test_all_is_saved_where_nothing_had_crashed_by_then(monkeypatch, crashed):
    """Its last commit may be what crashed."""
    world = World()

    async def script():
        async with world.running(monkeypatch):
            world.app.crashed = crashed

    asyncio.run(script())
    assert world.app.finished is not crashed
