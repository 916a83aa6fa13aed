"""Fetches in chunks: cut, handed over by Faust as one message, acknowledged by one number."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace

import pytest
from aiokafka.consumer.fetcher import PartitionRecords
from aiokafka.structs import ConsumerRecord
from faust.transport.drivers import aiokafka
from faust.types import TP

from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.worker.driver import chunks, fetches
from ldp_kafka.runtime.worker.driver.chunks import (
    FEW,
    MOST,
    MOST_BYTES,
    PAUSE,
    ChunkConsumer,
    ChunkMessage,
    LotConsumer,
    consumers,
    messages_of,
    pause_of,
)
from ldp_kafka.runtime.worker.driver.client import Consumer
from ldp_kafka.runtime.worker.driver.private_api import Private
from tests.runtime.worker.driver.test_driver import app

PLACE, CHANGELOG = TP("t", 1), TP("group-t-changelog", 1)


def record(offset, value=b"x", timestamp=1_700_000_000_123, place=PLACE):
    return ConsumerRecord(
        place.topic, place.partition, offset, timestamp, 0, None, value, None, 0, len(value or b""),
        (),
    )  # fmt: skip


def cut(records):
    return list(chunks.chunks(records))


def test_a_fetch_is_cut_by_messages_and_by_bytes():
    """In order, nothing left out, nothing twice."""
    many = [record(offset) for offset in range(2 * MOST + 1)]
    assert [len(chunk) for chunk in cut(many)] == [MOST, MOST, 1]
    assert [each for chunk in cut(many) for each in chunk] == [
        Message(each.offset, each.timestamp, each.value) for each in many
    ]
    large = [record(offset, b"x" * (MOST_BYTES // 2)) for offset in range(5)]
    assert [len(chunk) for chunk in cut(large)] == [2, 2, 1]
    assert [len(chunk) for chunk in cut([record(3, None)])] == [1]
    assert cut([]) == []


def test_a_chunk_is_one_message_that_lets_go_of_what_it_brought():
    """With the offset of its last record; what waits for its acknowledgement holds no bytes."""
    records = [record(7, b"a", 5), record(8, None, None), record(11, b"c", 0), record(12, b"d", -1)]
    [chunk] = cut(records)
    message = ChunkMessage.of(PLACE, chunk, 3)
    assert (message.tp, message.partition, message.offset) == (PLACE, 1, 12)
    assert message.generation_id == 3
    event = SimpleNamespace(message=message, value=None)
    assert list(messages_of(event)) == [
        Message(7, 5, b"a"), Message(8, -1, None), Message(11, -1, b"c"), Message(12, -1, b"d"),
    ]  # fmt: skip
    assert list(messages_of(event)) == []


def test_a_single_message_is_a_run_of_one():
    """As Faust gives it: its time in seconds."""
    message = SimpleNamespace(offset=7, timestamp=1_700_000_000.123, value=b"x")
    event = SimpleNamespace(message=message, value=b"x")
    assert messages_of(event) == [Message(7, 1_700_000_000_123, b"x")]
    assert message.value is event.value is None


async def consumer(tmp_path, **more):
    """A consumer of an app that folds ``t``, without its thread."""
    made = app(datadir=tmp_path, consumers=ChunkConsumer, **more)
    made.consumer._thread.thread_loop.close()
    return made.consumer


def test_faust_hands_over_chunks_of_folded_topics(tmp_path, monkeypatch):
    """A changelog's records come one by one as ever; Faust's own loop does the rest."""

    async def fetched(self, active, timeout):  # noqa: ASYNC109 - as Faust has it
        return {
            PLACE: [record(offset) for offset in range(5, 5 + MOST + 2)],
            CHANGELOG: [record(offset, place=CHANGELOG) for offset in range(2)],
        }

    async def script():
        reader = await consumer(tmp_path)
        monkeypatch.setattr(aiokafka.Consumer, "_getmany", fetched)
        monkeypatch.setattr(ChunkConsumer, "highwater", lambda *_: 0)
        reader._set_active_tps({PLACE, CHANGELOG})
        return [message async for _, message in reader.getmany(timeout=1.0)]

    came = asyncio.run(script())
    folded = [message for message in came if message.topic == "t"]
    assert [message.offset for message in folded] == [5 + MOST - 1, 5 + MOST + 1]
    assert [len(message.chunk) for message in folded] == [MOST, 2]
    others = [message for message in came if message.topic != "t"]
    assert [(message.offset, message.value) for message in others] == [(0, b"x"), (1, b"x")]
    assert not any(isinstance(message, ChunkMessage) for message in others)


@pytest.mark.parametrize("recovered", [False, True])
def test_of_a_changelog_whose_table_is_there_nothing_is_handed_over(
    recovered, tmp_path, monkeypatch
):
    """However many records of it a fetch holds: each would take its turn, before the log does."""

    async def fetched(self, active, timeout):  # noqa: ASYNC109 - as Faust has it
        return {
            PLACE: [record(5)],
            CHANGELOG: [record(offset, place=CHANGELOG) for offset in range(500)],
        }

    async def script():
        made = app(datadir=tmp_path, consumers=ChunkConsumer)
        reader = fetching(monkeypatch, made, fetched)
        monkeypatch.setattr(reader, "_is_changelog_tp", lambda tp: tp == CHANGELOG)
        reader._set_active_tps({PLACE, CHANGELOG})
        made.tables.recovery.recovered = recovered
        return [place async for place, _ in reader.getmany(timeout=1.0)]

    came = asyncio.run(script())
    assert (came.count(PLACE), came.count(CHANGELOG)) == (1, 0 if recovered else 500)


def test_a_changelog_is_never_full(tmp_path, monkeypatch):
    """Faust would read it for ever, once there was room again."""

    async def script():
        reader = fetching(monkeypatch, app(datadir=tmp_path, consumers=ChunkConsumer), None)
        monkeypatch.setattr(reader, "_is_changelog_tp", lambda tp: tp == CHANGELOG)
        reader._set_active_tps({PLACE})  # the tables are there: the changelog is not read
        for place in (PLACE, CHANGELOG):
            reader.on_buffer_full(place)
        full = set(reader._buffered_partitions)
        for place in (PLACE, CHANGELOG):
            reader.on_buffer_drop(place)
        return full, set(reader._get_active_partitions())

    assert asyncio.run(script()) == ({PLACE}, {PLACE})


def fetching(monkeypatch, made, fetched):
    """The app's consumer, without its thread, whose client gives what ``fetched`` says."""
    reader = made.consumer
    reader._thread.thread_loop.close()
    monkeypatch.setattr(aiokafka.Consumer, "_getmany", fetched)
    monkeypatch.setattr(type(reader), "highwater", lambda *_: 0)
    monkeypatch.setattr(type(made), "in_recovery", False, raising=False)
    reader.flow_active = True
    return reader


@pytest.mark.parametrize("kind", [Consumer, ChunkConsumer])
def test_who_has_enough_waits_until_there_is_room(kind, tmp_path, monkeypatch):
    """And no second longer, as Faust's own does."""

    async def fetched(self, active, timeout):  # noqa: ASYNC109 - as Faust has it
        return {PLACE: [record(1)]} if active else {}

    async def script():
        made = app(datadir=tmp_path, consumers=kind)
        reader = fetching(monkeypatch, made, fetched)
        reader._set_active_tps({PLACE})
        reader.on_buffer_full(PLACE)
        loop = asyncio.get_running_loop()
        loop.call_later(0.05, reader.on_buffer_drop, PLACE)
        begin = loop.time()
        came = [message async for _, message in reader.getmany(timeout=5.0)]
        return len(came), loop.time() - begin

    came, seconds = asyncio.run(script())
    waits = kind is Consumer
    assert (came, seconds > 0.9) == (0 if waits else 1, waits)


@pytest.mark.parametrize(
    ("room", "timeout", "beside"), [(0.05, 1.0, False), (0.25, 0.2, False), (0.05, 1.0, True)]
)
def test_who_has_room_again_waits_for_nobody(room, timeout, beside, tmp_path, monkeypatch):
    """Neither for the end of a wait that began before, nor for messages of a quiet partition."""
    quiet = TP("t", 7)

    async def fetched(self, active, timeout):  # noqa: ASYNC109 - as Faust has it
        if PLACE in active:
            return {PLACE: [record(1)]}
        await asyncio.sleep(timeout)
        return {}

    async def script():
        made = app(datadir=tmp_path, consumers=ChunkConsumer)
        reader = fetching(monkeypatch, made, fetched)
        reader._set_active_tps({PLACE, quiet} if beside else {PLACE})
        reader.on_buffer_full(PLACE)
        loop = asyncio.get_running_loop()
        loop.call_later(room, reader.on_buffer_drop, PLACE)
        begin, came = loop.time(), 0
        while not came:
            came = len([message async for _, message in reader.getmany(timeout=timeout)])
        return loop.time() - begin

    assert room <= asyncio.run(script()) < room + 0.5  # Faust's own second would be more


def test_who_is_cancelled_as_there_is_room_again_ends(tmp_path, monkeypatch):
    """So it comes where a worker is told to end: buffers are cleared, its fetcher is stopped."""

    async def fetched(self, active, timeout):  # noqa: ASYNC109 - as Faust has it
        raise AssertionError("nothing is fetched any more")

    async def script():
        reader = fetching(monkeypatch, app(datadir=tmp_path, consumers=ChunkConsumer), fetched)
        reader._set_active_tps({PLACE})
        reader.on_buffer_full(PLACE)
        task = asyncio.create_task(anext(reader.getmany(timeout=5.0)))
        await asyncio.sleep(0.05)
        reader.stop_flow()
        reader.on_buffer_drop(PLACE)
        await asyncio.sleep(0)  # its wait is over, and it has not gone on
        task.cancel()
        _, pending = await asyncio.wait({task}, timeout=2)
        assert not pending
        return task.cancelled()

    assert asyncio.run(script())


@pytest.mark.parametrize(
    ("records", "place", "apart"),
    [(FEW - 1, PLACE, True), (FEW, PLACE, False), (1, CHANGELOG, False)],
)
def test_fetches_that_bring_little_are_apart(records, place, apart, tmp_path, monkeypatch):
    """Where many wait, or a table is recovered, the next one begins at once."""
    begun = []
    monkeypatch.setattr(chunks, "APART", 0.2)  # no fetch takes that, on a busy machine either

    async def fetched(self, active, timeout):  # noqa: ASYNC109 - as Faust has it
        begun.append(asyncio.get_running_loop().time())
        return {place: [record(offset, place=place) for offset in range(records)]}

    async def script():
        made = app(datadir=tmp_path, consumers=ChunkConsumer)
        reader = fetching(monkeypatch, made, fetched)
        reader._set_active_tps({PLACE, CHANGELOG})
        waits = []
        monkeypatch.setattr(chunks.asyncio, "sleep", noted(waits, asyncio.sleep))
        for _ in range(3):
            [_ async for _ in reader.getmany(timeout=1.0)]
        return waits

    waits = asyncio.run(script())
    assert len(begun) == 3
    assert len(waits) == (2 if apart else 0)
    assert all(0 < seconds <= 0.2 for seconds in waits)


def noted(waits, sleep):
    """A sleep that is noted."""

    async def sleeps(seconds):
        waits.append(seconds)
        await sleep(seconds)

    return sleeps


def test_a_chunk_has_waited_already():
    """A message that came alone has not."""
    chunk = SimpleNamespace(message=ChunkMessage.of(PLACE, *cut([record(1)]), 1))
    assert (pause_of(chunk), pause_of(SimpleNamespace(message=object()))) == (0.0, PAUSE)


def test_what_is_acknowledged_is_one_number_a_partition(tmp_path):
    """The greatest; what is gone with its partition is not committed later."""
    committed = []

    def event(offset, place=PLACE):
        return SimpleNamespace(message=ChunkMessage.of(place, *cut([record(offset)]), 1))

    async def script():
        reader = await consumer(tmp_path)

        async def commit(offsets, start_new_transaction=True):
            committed.append(dict(offsets))
            reader._committed_offset.update(offsets)
            return True

        reader._commit_offsets = commit
        await reader._add_gap(PLACE, 1, 40)
        assert not reader._gap[PLACE]
        await reader.force_commit()
        for offset in (9, 30, 4):
            reader.acknowledge(event(offset))
        await reader.force_commit()
        await reader.force_commit()
        reader.acknowledge(event(29))
        await reader.force_commit()
        reader.acknowledge(event(31, TP("t", 0)))
        reader.acknowledge(event(40))
        await reader.force_commit()
        reader.acknowledge(event(50))
        reader._on_partitions_revoked = lambda *_, **__: asyncio.sleep(0)
        await reader.on_partitions_revoked({PLACE})
        await reader.force_commit()
        reader.acknowledge(event(3))  # from before another's checkpoint: what it says is true
        await reader.force_commit()
        # Faust's own way for what is not folded
        reader._acked[CHANGELOG] = [5, 6]
        assert reader._new_offset(CHANGELOG) == 7

    asyncio.run(script())
    assert committed == [{PLACE: 31}, {PLACE: 41, TP("t", 0): 32}, {PLACE: 4}]


def test_another_client_gives_its_records_one_by_one(monkeypatch, caplog):
    """Where a name of the client's is gone; they are cut into chunks as ever."""
    assert consumers() is LotConsumer
    gone = Private(PartitionRecords, "_unpack", "a batch stays as it is")
    monkeypatch.setattr(fetches, "PRIVATE_API", (*fetches.PRIVATE_API, gone))
    with caplog.at_level(logging.WARNING):
        assert consumers() is ChunkConsumer
    (line,) = caplog.messages
    assert "PartitionRecords has no '_unpack': a batch stays as it is" in line


def test_another_faust_hands_over_one_by_one(monkeypatch, caplog):
    """Where a name is gone, and says which."""
    gone = Private(aiokafka.Consumer, "_getmore", "its fetches are cut into chunks")
    monkeypatch.setattr(chunks, "PRIVATE_API", (*chunks.PRIVATE_API, gone))
    with caplog.at_level(logging.WARNING):
        assert consumers() is Consumer
    (line,) = caplog.messages
    assert "Consumer has no '_getmore': its fetches are cut into chunks" in line
    assert ChunkConsumer.buffer < Consumer.buffer


@pytest.mark.parametrize(
    "gone",
    [
        Private(aiokafka.Consumer, "_no_such", ""),
        Private(aiokafka.Consumer, "anything", "", "no_such_method"),
        Private(aiokafka.Consumer, "no such text", "", "on_stop"),
        Private(int, "x", "", "bit_length"),
        Private(int, "_x", ""),
    ],
)
def test_a_name_that_is_gone_is_found(gone):
    assert not gone.there
