"""Whole fetches of a partition handed over as one event of Faust's.

Faust takes some 90 microseconds for a message: conductor, queue, stream, sensors, acknowledgement.
What it does for a message it does here for a chunk of them, records of one partition in the log's
order. Its group, assignor, tables, recovery, flow control and commits go on as they are.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import accumulate, chain
from operator import attrgetter
from typing import Any

import numpy as np
from faust.transport.consumer import Consumer as BaseConsumer
from faust.transport.drivers import aiokafka
from faust.types import TP
from faust.types.tuples import ConsumerMessage
from numpy.typing import NDArray

from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.runs import Run
from ldp_kafka.runtime.worker.driver import fetches
from ldp_kafka.runtime.worker.driver.client import Consumer
from ldp_kafka.runtime.worker.driver.fetches import Lot, LotThread
from ldp_kafka.runtime.worker.driver.private_api import Private

__all__ = [
    "PRIVATE_API",
    "ChunkConsumer",
    "ChunkMessage",
    "consumers",
    "messages_of",
    "pause_of",
]

logger = logging.getLogger(__name__)

MOST = 4096  # messages of a chunk ...
# ... and bytes, about and at most: those of a fetch, whose rest would be folded by itself
MOST_BYTES = 2**20
PAUSE = 0.01  # seconds that the first single message of a run waits for others
FEW = 512  # messages of a fetch; after one that brings less ...
APART = 0.01  # ... so many seconds pass from its begin to the next one's
FULL = 0.05  # seconds of a fetch while some partition is left out, since it has enough that waits


_OFFSET, _STAMP, _VALUE = map(attrgetter, ("offset", "timestamp", "value"))


class ChunkMessage(ConsumerMessage):  # type: ignore[misc]
    """A chunk as Faust's message: its offset is that of the last record, and who acknowledges it
    acknowledges all.
    """

    chunk: Sequence[Message] = ()

    @classmethod
    def of(cls, place: TP, chunk: Run, generation: int) -> ChunkMessage:
        """The message of a chunk of this partition, at least one message, fetched in this
        generation of the group.
        """
        made = cls(
            place.topic,
            place.partition,
            chunk.offsets.item(-1),
            max(0, chunk.timestamps.item(-1)) / 1000,
            0,  # of the kind of its timestamp, which nobody asks for
            (),
            None,
            None,
            None,
            0,
            0,
            place,
            generation_id=generation,
        )
        made.chunk = chunk
        return made


def chunks(records: Sequence[Any]) -> Iterator[Run]:
    """A fetch of one partition, records as the client gives them, in chunks."""
    values = list(map(_VALUE, records))
    sizes = list(accumulate([len(value or b"") for value in values]))
    # a time of 0 is none
    stamps = np.array([stamp or -1 for stamp in map(_STAMP, records)], np.int64)
    run = Run(_offsets(records), stamps, values)
    start = before = 0
    while start < len(run):
        last = bisect_left(sizes, before + MOST_BYTES, start)
        end = min(last + 1, start + MOST, len(run))
        yield run[start:end]
        start, before = end, sizes[end - 1]


def _offsets(records: Sequence[Any]) -> NDArray[np.int64]:
    """Of records in rising order; they are seldom asked one by one."""
    first, last = (records[0].offset, records[-1].offset) if records else (0, -1)
    if last - first == len(records) - 1:
        return np.arange(first, last + 1)
    return np.array(list(map(_OFFSET, records)), np.int64)


def unpacked(found: Sequence[Any]) -> Sequence[Any]:
    """What the client has fetched of a partition, record by record, where it comes in lots."""
    return list(chain.from_iterable(found)) if found and isinstance(found[0], Lot) else found


def pause_of(event: Any) -> float:
    """Seconds that what an event brings waits for others before it is folded: a message that came
    alone does, a chunk has waited to be fetched.
    """
    return 0.0 if isinstance(event.message, ChunkMessage) else PAUSE


def messages_of(event: Any) -> Sequence[Message]:
    """What an event of Faust's brings. The event lets go of it: it waits for its acknowledgement,
    and its bytes need not.
    """
    message = event.message
    if isinstance(message, ChunkMessage):
        chunk, message.chunk = message.chunk, ()
        return chunk
    stamp = round((message.timestamp or -0.001) * 1000)
    single = Message(message.offset, stamp, message.value)
    message.value = event.value = None
    return [single]


class ChunkConsumer(Consumer):
    """Hands over the records of folded topics in chunks, each of which Faust takes for one message.

    What is acknowledged of a partition is one number, the next offset: whoever folds it has taken
    all before it, so there are no gaps for Faust to keep.
    """

    buffer = 8

    def __init__(self, *what: Any, **how: Any) -> None:
        super().__init__(*what, **how)
        self._next: dict[TP, int] = {}
        self._room = asyncio.Event()
        self._due = 0.0
        """When the next fetch may begin, by the loop's clock."""

    async def _wait_next_records(self, timeout: float) -> Any:  # noqa: ASYNC109
        """Fetches that bring little follow each other no faster than `APART`: a fetch, its
        hand-over and its fold cost as much of one message as of hundreds.

        Where every partition has enough that waits, Faust sleeps for a second. A chunk may be a few
        messages, and they are soon folded: it sleeps no longer than until there is room.
        """
        loop = asyncio.get_running_loop()
        if (early := self._due - loop.time()) > 0:
            await asyncio.sleep(early)
        self._room.clear()
        if self.flow_active and self._buffered_partitions and not self._get_active_partitions():
            # not asyncio.wait_for: Python 3.11's forgets that it is cancelled where there is room
            # at the same moment. Whoever ends would wait for this for ever.
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._room.wait()
            if not self._get_active_partitions():
                return {}, set()
        return await super()._wait_next_records(timeout)

    def on_buffer_drop(self, tp: TP) -> None:
        """A partition has room again."""
        super().on_buffer_drop(tp)
        self._room.set()

    async def _getmany(self, active_partitions: Any, timeout: float) -> Any:  # noqa: ASYNC109
        if self._buffered_partitions:  # one that has room again waits for no other's messages
            timeout = min(timeout, FULL)
        begin = asyncio.get_running_loop().time()
        found = await super()._getmany(active_partitions, timeout)
        folded = self.app.folded
        if not found:  # it may have nothing to say, in more than one way
            return found
        runs = {
            place: unpacked(records) if place.topic in folded else records
            for place, records in found.items()
        }
        if sum(map(len, runs.values())) < FEW and all(place.topic in folded for place in runs):
            self._due = begin + APART
        return {
            place: list(chunks(records)) if place.topic in folded else records
            for place, records in runs.items()
        }

    def _to_message(self, tp: TP, record: Any) -> Any:
        if isinstance(record, Run):
            return ChunkMessage.of(tp, record, self.app.consumer_generation_id)
        return super()._to_message(tp, record)

    async def _add_gap(self, tp: TP, offset_from: int, offset_to: int) -> None:
        if tp.topic not in self.app.folded:
            await super()._add_gap(tp, offset_from, offset_to)

    def acknowledge(self, event: Any) -> None:
        """What this event has brought need not come again, nor anything before it."""
        place, following = event.message.tp, event.message.offset + 1
        self._next[place] = max(following, self._next.get(place, 0))
        self._acked.setdefault(place, [])  # Faust commits what has a list there

    def _new_offset(self, tp: TP) -> int | None:
        if tp.topic in self.app.folded:
            return self._next.get(tp)
        found: int | None = super()._new_offset(tp)
        return found

    async def on_partitions_revoked(self, revoked: Any) -> None:
        """What was acknowledged of them is committed, or nobody's business any more."""
        for place in revoked:
            self._next.pop(place, None)
        await super().on_partitions_revoked(revoked)


PRIVATE_API = (
    Private(aiokafka.Consumer, "_getmany", "its fetches are cut into chunks"),
    Private(BaseConsumer, "await self._getmany(", "it is called", "_wait_next_records"),
    Private(aiokafka.Consumer, "_to_message", "a chunk becomes one message"),
    Private(BaseConsumer, "to_message(tp, record)", "it is called, once a chunk", "getmany"),
    Private(BaseConsumer, "self.scheduler.iterate(records)", "what is iterated over", "getmany"),
    Private(BaseConsumer, "self._wait_next_records(timeout)", "it waits for room", "getmany"),
    Private(BaseConsumer, "_get_active_partitions", "which have room"),
    Private(BaseConsumer, "_buffered_partitions", "which have not"),
    Private(BaseConsumer, "on_buffer_drop", "one has room again"),
    Private(BaseConsumer, "_add_gap", "a chunk's offset is not the one after the last"),
    Private(BaseConsumer, "self._add_gap(tp,", "it is called", "_drain_messages"),
    Private(BaseConsumer, "_new_offset", "what is committed is ours to say"),
    Private(BaseConsumer, "self._new_offset(tp)", "it is asked", "_filter_committable_offsets"),
    Private(BaseConsumer, "for tp in self._acked", "what has a list there is committed",
         "_filter_tps_with_pending_acks"),
    Private(BaseConsumer, "_acked", "the list is made"),
    Private(BaseConsumer, "on_partitions_revoked", "what was acknowledged is forgotten"),
    Private(ConsumerMessage, "tp", "the partition of a chunk"),
    Private(aiokafka.Consumer, "_new_consumer_thread", "LotConsumer makes a LotThread"),
)  # fmt: skip


class LotConsumer(ChunkConsumer):
    """The same, with a client that gives whole batches of the log."""

    def _new_consumer_thread(self) -> LotThread:
        return LotThread(self, loop=self.loop, beacon=self.beacon)


def consumers() -> type[Consumer]:
    """What a worker reads with: in chunks, unless this Faust has other names than those that it
    leans on.
    """
    if gone := _lacking(PRIVATE_API):
        logger.warning("messages are taken one by one: %s", gone)
        return Consumer
    if gone := _lacking(fetches.PRIVATE_API):
        logger.warning("batches are taken apart record by record: %s", gone)
        return ChunkConsumer
    return LotConsumer


def _lacking(names: Sequence[Private]) -> str:
    return "; ".join(str(name) for name in names if not name.there)
