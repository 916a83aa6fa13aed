"""Whole batches in place of records: the same records, from the client's own code."""

from __future__ import annotations

import asyncio
import struct
from types import SimpleNamespace

import pytest
from aiokafka import TopicPartition
from aiokafka.consumer import fetcher as client
from aiokafka.consumer.fetcher import READ_COMMITTED, Fetcher, FetchResult, PartitionRecords
from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.record.util import calc_crc32c
from hypothesis import given
from hypothesis import strategies as st

from ldp_kafka.runtime.worker.driver.chunks import chunks, unpacked
from ldp_kafka.runtime.worker.driver.fetches import Lot, LotFetcher, LotRecords, LotThread

PLACE, OTHER = TopicPartition("t", 0), TopicPartition("group-t-changelog", 0)
NONE, GZIP = 0, 1
TRANSACTION, CONTROL = 0x10, 0x20
ATTRIBUTES = struct.calcsize(">qiibI") + 1  # of a batch: the lower byte


def batch(first, gaps=(1,), *, codec=NONE, producer=-1, flags=0, stamp=1_700_000_000_000):
    """A batch of the log whose records lie so far apart, from the first one's offset on."""
    made = DefaultRecordBatchBuilder(2, codec, 0, producer, 0, 0, 2**20)
    at = 0
    for number, gap in enumerate(gaps):
        at += gap if number else 0
        key = struct.pack(">hh", 0, 0) if flags & CONTROL else b"k"  # 0: it was taken back
        value = None if at % 7 == 6 else b"%d" % (first + at)
        made.append(at, stamp + at, key, value, [("h", b"x")])
    data = made.build()
    data[:8] = struct.pack(">q", first)
    data[ATTRIBUTES] |= flags
    return seal(data)


def seal(data):
    """With the checksum of what it holds now."""
    data[17:21] = struct.pack(">I", calc_crc32c(bytes(data[21:])))
    return bytes(data)


def records_of(data, offset, *, aborted=(), committed=False):
    level = READ_COMMITTED if committed else 0
    return PartitionRecords(
        PLACE, MemoryRecords(data), list(aborted), offset, None, None, True, level
    )


def result(records):
    """What a fetcher keeps of it, and the place that the client says it has come to."""
    state = SimpleNamespace(paused=False, position=records.next_fetch_offset)
    state.consumed_to = lambda offset: setattr(state, "position", offset)
    assignment = SimpleNamespace(active=True, state_value=lambda _: state)
    kept = FetchResult(PLACE, assignment=assignment, partition_records=records, backoff=0)
    return kept, state


def in_lots(*results, place=PLACE):
    made = object.__new__(LotFetcher)
    made.folded = {"t"}
    for each in results:
        made._records = {place: each}
        made.regard()
        made.regard()  # another fetch comes before this one is taken


def both(data, offset, **how):
    """(messages, position) of the client's own way, and of ours."""
    found = []
    for ours in (False, True):
        kept, state = result(records_of(data, offset, **how))
        if ours:
            in_lots(kept)
        came = kept.getall(None)
        assert all(isinstance(each, Lot) for each in came) == (ours or not came)
        assert not kept.has_more()
        messages = [each for chunk in chunks(unpacked(came)) for each in chunk]
        found.append((messages, state.position))
    return found


gaps = st.lists(st.integers(1, 3), min_size=1, max_size=9)
batches = st.lists(
    st.tuples(
        gaps,
        st.sampled_from([NONE, GZIP]),
        st.sampled_from([0, 0, TRANSACTION, TRANSACTION | CONTROL]),
        st.sampled_from([-1, 5, 6]),
    ),
    min_size=1,
    max_size=5,
)


@given(batches, st.integers(0, 12), st.booleans(), st.lists(st.sampled_from([5, 6])))
def test_the_same_messages_as_the_client_gives(made, behind, committed, aborted):
    """Whatever batches a fetch holds, wherever in the first one it begins."""
    data, at = b"", 100
    for apart, codec, flags, producer in made:
        data += batch(
            at,
            apart[:1] if flags & CONTROL else apart,
            codec=NONE if flags & CONTROL else codec,
            producer=producer if not flags or producer >= 0 else 5,
            flags=flags,
        )
        at += sum(apart) + 2
    taken = [(producer, 100 + number) for number, producer in enumerate(aborted)]
    theirs, ours = both(data, 100 + behind, committed=committed, aborted=taken)
    assert ours == theirs


def test_what_the_property_looks_at_comes_about():
    """A fetch that begins within a batch, a transaction that was taken back, what is left out."""
    data = batch(100, [1] * 4) + batch(104, [1, 2], producer=5, flags=TRANSACTION)
    data += batch(107, producer=5, flags=TRANSACTION | CONTROL) + batch(108, [1, 1], codec=GZIP)
    theirs, ours = both(data, 102, committed=True, aborted=[(5, 104)])
    assert ours == theirs
    assert [each.offset for each in ours[0]] == [102, 103, 108, 109]
    assert ours[1] == 110
    theirs, ours = both(data, 102)
    assert [each.offset for each in ours[0]] == [102, 103, 104, 106, 108, 109]


def test_a_batch_of_which_compaction_has_left_nothing():
    """The place moves behind it, and nothing comes."""
    empty = bytearray(batch(100, [1] * 3))
    del empty[61:]
    empty[8:12], empty[57:61] = struct.pack(">i", len(empty) - 12), struct.pack(">i", 0)
    data = seal(empty) + batch(103)
    theirs, ours = both(data, 100)
    assert ours == theirs
    assert [each.offset for each in ours[0]] == [103]
    assert both(seal(empty), 100)[1] == ([], 103)


def test_batches_of_an_old_format():
    """Which have no producers, nor a timestamp where they are of the oldest."""
    data = b""
    for magic, first in ((0, 0), (1, 3)):
        made = LegacyRecordBatchBuilder(magic, NONE, 2**16)
        for offset in range(first, first + 3):
            made.append(offset, 1_700_000_000_000, None, b"x")
        data += bytes(made.build())
    theirs, ours = both(data, 1)
    assert ours == theirs
    assert [each.offset for each in ours[0]] == [1, 2, 3, 4, 5]
    assert {each.timestamp for each in ours[0]} == {-1, 1_700_000_000_000}


@pytest.mark.parametrize("ours", [False, True])
@pytest.mark.parametrize("place", ["checksum", "record"])
def test_a_broken_batch_is_refused(ours, place):
    """By the client; the place stays, and all is fetched again."""
    broken = bytearray(batch(104, [1, 1]))
    broken[61] ^= 1  # the length of its first record
    data = batch(100, [1] * 4) + (bytes(broken) if place == "checksum" else seal(broken))
    kept, state = result(records_of(data, 100))
    if ours:
        in_lots(kept)
    with pytest.raises(CorruptRecordException):
        kept.getall(None)
    assert state.position == 100


def test_a_changelog_is_fetched_as_ever():
    kept, _ = result(records_of(batch(100, [1, 1]), 100))
    in_lots(kept, place=OTHER)
    assert type(kept._partition_records) is PartitionRecords
    assert [each.offset for each in kept.getall(None)] == [100, 101]


def test_results_without_records_are_left_alone():
    """An error, and what is nobody's any more since a rebalance."""
    kept, _ = result(records_of(batch(100), 100))
    kept._partition_records = None
    in_lots(client.FetchError(error=ValueError(), backoff=0), kept)
    assert not kept.has_more()


def test_the_fetcher_is_changed_when_it_is_first_asked(monkeypatch):
    """What it has by then is given in lots too, and what it fetches later at once. One that is not
    the client's own is left alone.
    """
    base = LotThread.__mro__[1]
    kept, _ = result(records_of(batch(100, [1, 1]), 100))
    later, _ = result(records_of(batch(102, [1, 1]), 102))
    made = object.__new__(Fetcher)
    made._records = {PLACE: kept}

    async def fetched(self, consumer, *_, **__):
        came = consumer._fetcher._records.pop(PLACE).getall(None)
        return {PLACE: came}

    async def proceed(self, assignment, node, request):
        self._records[PLACE] = later
        return (assignment, node, request)

    monkeypatch.setattr(base, "_fetch_records", fetched)
    monkeypatch.setattr(Fetcher, "_proc_fetch_request", proceed)

    async def script():
        thread = object.__new__(LotThread)
        thread.app = SimpleNamespace(folded={"t"})
        consumer = SimpleNamespace(_fetcher=made)
        first = await thread._fetch_records(consumer, None, timeout=1.0)
        assert await made._proc_fetch_request(1, 2, 3) == (1, 2, 3)
        second = await thread._fetch_records(consumer, None, timeout=1.0)
        other = SimpleNamespace(_records={PLACE: result(records_of(batch(104), 104))[0]})
        third = await thread._fetch_records(SimpleNamespace(_fetcher=other), None)
        return first, second, third

    first, second, third = asyncio.run(script())
    assert [[each.offset for each in lot] for lot in first[PLACE]] == [[100, 101]]
    assert [[each.offset for each in lot] for lot in second[PLACE]] == [[102, 103]]
    assert [each.offset for each in third[PLACE]] == [104]
    assert not isinstance(kept._partition_records, LotRecords)  # it is used up
